/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ramp.c -- nam-bench ramp: transactions over records, by each algorithm and RPC transport.
 *
 * The records of a transaction that writes, and their values, follow from a number, with which each
 * value begins.  So a reader can tell whether it has half of a transaction: a value whose
 * transaction wrote another of the records, too, which is older.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "txn/records.h"
#include "bench/bench.h"
#include "requests.h"
#include "values.h"

#define CACHE_BYTES_PER_KEY 1024u	/* half is for places of 64 bytes; hardly a set overflows */
#define CACHE_BYTES_MIN (1u << 20)
#define LOADS 16u			/* records of a transaction that loads */

struct room {
	uint64_t seed;			/* of a transaction that writes; 0: it reads */
	uint32_t count;
	uint32_t gets_made;		/* so many have all that stays the same */
	uint64_t numbers[NAM_RECORDS_MAX];
	uint64_t keys[NAM_RECORDS_MAX];
	struct nam_record_get gets[NAM_RECORDS_MAX];
	struct nam_record_put puts[NAM_RECORDS_MAX];
	uint64_t words[];		/* values */
};

/* ---- transactions -------------------------------------------------------------------------- */

static struct room *
room_new(const struct requests *bench, uint32_t records)
{
	return calloc(1, sizeof(struct room) + records * record_room(&bench->options));
}

static size_t
room_bytes(const struct requests_options *options)
{
	return sizeof(struct room) + options->transaction_size * record_room(options);
}

static uint8_t *
value_at(const struct requests *bench, struct room *room, uint32_t i)
{
	return (uint8_t *)room->words + i * record_room(&bench->options);
}

static void
puts_fill(const struct requests *bench, struct room *room)
{
	for (uint32_t i = 0; i < room->count; i++) {
		uint8_t *value = value_at(bench, room, i);

		record_fill(value, bench->options.value_bytes, room->seed, room->numbers[i]);
		room->keys[i] = record_key(room->numbers[i]);
		room->puts[i] = (struct nam_record_put){ &room->keys[i], KEY_BYTES,
			bench->options.value_bytes, value };
	}
}

static void
gets_fill(const struct requests *bench, struct room *room)
{
	for (uint32_t i = 0; i < room->count; i++)
		room->keys[i] = record_key(room->numbers[i]);
	for (; room->gets_made < room->count; room->gets_made++) {
		uint32_t i = room->gets_made;

		room->gets[i] = (struct nam_record_get){
			.key = &room->keys[i],
			.key_bytes = KEY_BYTES,
			.size = bench->options.value_bytes,
			.value = value_at(bench, room, i),
		};
	}
}

/* ---- before and after ---------------------------------------------------------------------- */

/* Loaded records are of transactions with small numbers, each of some records in a row. */
static uint64_t
load_seed(uint64_t number)
{
	return number / LOADS + 1;
}

static int
load_some(struct requests_part *part, struct room *room, uint64_t first)
{
	const struct requests *bench = part->bench;

	room->seed = load_seed(first);
	room->count = 0;
	for (uint64_t i = first; i < first + LOADS && i < bench->options.keys; i++)
		room->numbers[room->count++] = i;
	puts_fill(bench, room);
	return nam_records_put_all(part->member->worker, part->records, room->puts, room->count,
		NULL); /* SUSPENDS */
}

/* Read all records, so that the caches know them, as the paper's address tables do. */
static void
warm_main(struct thread_pool_member *member, void *arg)
{
	struct requests *bench = arg;
	struct requests_part *part = &bench->parts[member->number];
	struct room *room = room_new(bench, NAM_RECORDS_MAX);
	int rc = room ? 0 : -ENOMEM;

	for (uint64_t i = 0; i < bench->options.keys && !rc && !bench_signal; i += room->count) {
		room->count = 0;
		while (room->count < NAM_RECORDS_MAX && i + room->count < bench->options.keys) {
			room->numbers[room->count] = i + room->count;
			room->count++;
		}
		gets_fill(bench, room);
		rc = nam_records_get_all(member->worker, part->records, room->gets,
			room->count); /* SUSPENDS */
	}
	free(room);
	if (rc)
		requests_failed(part, rc, "reading all records once");
}

static void
load_main(struct thread_pool_member *member, void *arg)
{
	struct requests *bench = arg;
	struct requests_part *part = &bench->parts[member->number];
	const struct requests_options *o = &bench->options;
	struct room *room = room_new(bench, LOADS);
	/* Room for the places of all records, so that all addresses are warm, and little more. */
	uint64_t bytes = o->keys * CACHE_BYTES_PER_KEY;
	int rc = room ? nam_records_open(member->worker, bench->name,
		bytes < CACHE_BYTES_MIN ? CACHE_BYTES_MIN : bytes,
		&part->records) : -ENOMEM; /* SUSPENDS */

	if (!rc)
		rc = nam_records_star(member->worker, part->records, o->star);
	for (uint64_t i = (uint64_t)member->number * LOADS; i < o->keys && !rc && !bench_signal;
		i += (uint64_t)thread_pool_size(session.pool) * LOADS)
		rc = load_some(part, room, i); /* SUSPENDS */
	free(room);
	if (rc)
		requests_failed(part, rc, "loading the records");
}

static int
begin(struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	struct nam_worker *worker = session_worker();
	struct nam_records_options options = {
		.algorithm = o->algorithm,
		.commit = o->ramp_transport == RAMP_ONESIDED ? NAM_RECORDS_ONESIDED
							     : NAM_RECORDS_SERVED,
	};
	int rc;

	requests_keys_init(bench);
	rc = nam_records_create(worker, bench->name, &options); /* SUSPENDS */
	if (rc) {
		bench->name[0] = '\0';
		return bench_failed("making the record store", rc, nam_worker_diag(worker));
	}
	thread_pool_run(session.pool, load_main, bench, 0, 0);
	if (!findings.fatal)
		thread_pool_run(session.pool, warm_main, bench, 0, 0);
	return nam_exit_code(findings.fatal);
}

static void
end(struct requests *bench)
{
	struct nam_worker *worker = session_worker();
	int rc;

	for (unsigned i = 0; i < thread_pool_size(session.pool); i++)
		nam_records_close(bench->parts[i].records);
	rc = bench->name[0] ? nam_records_drop(worker, bench->name) : 0; /* SUSPENDS */
	if (rc)
		bench_complain("%s: %s; namctl records drop %s", bench->name,
			nam_worker_diag(worker), bench->name);
}

/* ---- one transaction ----------------------------------------------------------------------- */

static void
prepare(struct requests_part *part, void *arg)
{
	const struct requests *bench = part->bench;
	struct room *room = arg;
	uint64_t seed = nam_rng_next(&part->rng) | 1ull << 63;

	room->count = requests_draw_some(bench, seed, room->numbers);
	room->seed = requests_reads(part) ? 0 : seed;
	if (room->seed)
		puts_fill(bench, room);
	else
		gets_fill(bench, room);
}

NAM_FIBER_FN static int
put(struct requests_part *part, struct room *room)
{
	return nam_records_put_all(part->member->worker, part->records, room->puts, room->count,
		NULL); /* SUSPENDS */
}

/* First the requests that write, one by one; then the requests that read, at once. */
NAM_FIBER_FN static int
ask_many(struct requests_part *part, uint8_t *rooms, uint32_t count)
{
	size_t bytes = room_bytes(&part->bench->options);
	struct nam_records_reading readings[BENCH_BATCH_MAX];
	uint32_t readings_count = 0;
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++) {
		struct room *room = (struct room *)(void *)(rooms + i * bytes);

		if (room->seed)
			rc = put(part, room); /* SUSPENDS */
		else
			readings[readings_count++] = (struct nam_records_reading){ room->gets,
				room->count, 0 };
	}
	return rc ? rc : nam_records_get_many(part->member->worker, part->records, readings,
		readings_count); /* SUSPENDS */
}

NAM_FIBER_FN static int
ask(struct requests_part *part, void *arg, uint32_t count)
{
	struct room *room = arg;

	if (part->bench->options.batch > 1)
		return ask_many(part, arg, count); /* SUSPENDS */
	if (room->seed)
		return put(part, room); /* SUSPENDS */
	return nam_records_get_all(part->member->worker, part->records, room->gets,
		room->count); /* SUSPENDS */
}

/* Transactions that wrote while others read have such numbers.  The loaders' are others. */
static inline bool
is_drawn(uint64_t seed)
{
	return seed >> 63;
}

/* Whether transaction `seed`, which wrote while others read, wrote that record. */
static bool
wrote(const struct requests *bench, uint64_t seed, uint64_t number)
{
	uint64_t numbers[NAM_RECORDS_MAX];
	uint32_t count = requests_draw_some(bench, seed, numbers);

	for (uint32_t i = 0; i < count; i++)
		if (numbers[i] == number)
			return true;
	return false;
}

/* A read of a record: its writer, and whether the value is that writer's. */
static bool
value_is_right(const struct requests *bench, const struct room *room, uint32_t i,
	uint64_t *ret_seed)
{
	const struct nam_record_get *get = &room->gets[i];
	uint64_t number = room->numbers[i], seed;
	value_pair wrong = { 0 };

	if (get->rc || get->value_bytes != bench->options.value_bytes)
		return false;
	memcpy(&seed, get->value, sizeof(seed));
	*ret_seed = seed;
	record_compare(get->value, get->value_bytes, seed, number, &wrong);
	return !(wrong[0] | wrong[1]) &&
		(is_drawn(seed) ? wrote(bench, seed, number) : load_seed(number) == seed);
}

/*
 * A quick check of all records: true only if they are as they were loaded.  *ret_again: one
 * transaction may have written two of them.
 */
static inline bool
values_are_loaded(const struct requests *bench, const struct room *room, uint64_t *ret_seeds,
	bool *ret_again)
{
	const uint32_t bytes = bench->options.value_bytes;
	uint64_t unlike = 0, again = 0, met = 0;	/* one bit of 64 for each */
	value_pair wrong = { 0 };

	for (uint32_t i = 0; i < room->count; i++) {
		const struct nam_record_get *get = &room->gets[i];
		uint64_t number = room->numbers[i], seed;

		/* There is room for a value even if none was read. */
		memcpy(&seed, get->value, sizeof(seed));
		ret_seeds[i] = seed;
		again |= met >> seed % 64;
		met |= 1ull << seed % 64;
		unlike |= (uint32_t)get->rc | (get->value_bytes ^ bytes);
		unlike |= seed ^ load_seed(number);
		record_compare(get->value, bytes, seed, number, &wrong);
	}
	*ret_again = again & 1;
	return !(unlike | wrong[0] | wrong[1]);
}

static void
complain(const struct room *room, uint32_t i)
{
	const struct nam_record_get *get = &room->gets[i];

	if (get->rc && get->rc != -NAM_E_LIMIT)
		findings_missing(1, "record %" PRIu64 " is not there: %s", room->numbers[i],
			nam_err_text(get->rc));
	else
		findings_wrong("record %" PRIu64 " has a value of %u bytes that no transaction "
			"wrote", room->numbers[i], get->value_bytes);
}

/* False: some are not, of which it complains. */
static __attribute__((noinline)) bool
values_are_right(struct requests *bench, const struct room *room, uint64_t *ret_seeds)
{
	bool right = true;

	for (uint32_t i = 0; i < room->count; i++) {
		if (value_is_right(bench, room, i, &ret_seeds[i]))
			continue;
		complain(room, i);
		right = false;
	}
	return right;
}

/* Whether a record is older than transaction seeds[i], which wrote that one, too. */
static bool
is_ahead_of_any(const struct requests *bench, const struct room *room, const uint64_t *seeds,
	uint32_t i)
{
	for (uint32_t k = 0; k < room->count; k++)
		if (room->gets[k].timestamp < room->gets[i].timestamp &&
			(is_drawn(seeds[i]) ? wrote(bench, seeds[i], room->numbers[k]) :
			load_seed(room->numbers[k]) == seeds[i]))
			return true;
	return false;
}

static __attribute__((noinline)) bool
is_half(const struct requests *bench, const struct room *room, const uint64_t *seeds)
{
	for (uint32_t i = 0; i < room->count; i++)
		if (is_ahead_of_any(bench, room, seeds, i))
			return true;
	return false;
}

/*
 * A quick is_half() where all records are as they were loaded.  Seeds then name the writer of each
 * record: of two records that one transaction wrote, neither is older.
 */
static __attribute__((noinline)) bool
is_half_loaded(const struct room *room, const uint64_t *seeds)
{
	bool half = false;

	for (uint32_t i = 1; i < room->count; i++)
		for (uint32_t k = 0; k < i; k++)
			half |= (seeds[i] == seeds[k]) &
				(room->gets[i].timestamp != room->gets[k].timestamp);
	return half;
}

static void
check(struct requests_part *part, void *arg)
{
	struct requests *bench = part->bench;
	struct room *room = arg;
	uint64_t seeds[NAM_RECORDS_MAX];
	bool again, half;

	if (room->seed)
		return;
	if (__builtin_expect(values_are_loaded(bench, room, seeds, &again), 1))
		half = again && is_half_loaded(room, seeds);
	else
		half = values_are_right(bench, room, seeds) && is_half(bench, room, seeds);
	if (!half)
		return;
	part->fractured++;
	if (nam_ramp_is_atomic(bench->options.algorithm))
		findings_wrong("half of a transaction was read, with record %" PRIu64,
			room->numbers[0]);
}

/* ---- results ------------------------------------------------------------------------------- */

static void
print(const struct requests *bench)
{
	const struct requests_options *o = &bench->options;

	printf("  records     %" PRIu64 " of %u bytes, %s; %u to a transaction, %g %% of these "
		"read\n", o->keys, o->value_bytes, requests_distribution(o),
		o->transaction_size, o->get_percent);
	printf("  algorithm   %s; halves of transactions read %" PRIu64 "\n",
		nam_ramp_name(o->algorithm),
		requests_sum(bench, offsetof(struct requests_part, fractured)));
}

static void
json(const struct requests *bench, cJSON *object)
{
	const struct requests_options *o = &bench->options;

	cJSON_AddStringToObject(object, "algorithm", nam_ramp_name(o->algorithm));
	report_number(object, "transaction_size", o->transaction_size);
	report_number(object, "read_ratio", o->get_percent);
	requests_keys_json(o, object);
	report_number(object, "fractured",
		(double)requests_sum(bench, offsetof(struct requests_part, fractured)));
}

const struct requests_kind requests_ramp = {
	.name = "ramp",
	.room_bytes_of = room_bytes,
	.begin = begin,
	.end = end,
	.prepare = prepare,
	.ask = ask,
	.check = check,
	.print = print,
	.json = json,
};
