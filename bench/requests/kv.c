/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv.c -- nam-bench kv: a key-value store under GETs and PUTs, whatever carries them.
 *
 * A key's value, and how long it is, follow from its number, so every answer can be checked.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "requests.h"

#define KEY_BYTES 16u
/* Lengths as of the texts of which Su et al. tell: 1 to 899 bytes, 43 on average. */
#define MIXED_MEAN 43.0
#define MIXED_MAX 899u

struct room {
	uint64_t number;		/* of the key */
	bool get;
	uint32_t bytes;			/* of the value */
	uint64_t key[KEY_BYTES / 8];
	uint64_t value[NAM_KV_VALUE_BYTES_MAX / 8 + 1];
};

/* ---- pairs --------------------------------------------------------------------------------- */

static void
key_fill(uint64_t number, uint64_t key[KEY_BYTES / 8])
{
	struct nam_rng rng = nam_rng_seed(number);

	key[0] = nam_rng_next(&rng);
	key[1] = nam_rng_next(&rng);
}

static uint32_t
value_bytes(const struct requests_options *o, uint64_t number)
{
	struct nam_rng rng = nam_rng_seed(number ^ 0x5eed);
	double u = ((double)(nam_rng_next(&rng) >> 11) + 1) * 0x1p-53;
	double bytes = 1 - (MIXED_MEAN - 1) * log(u);

	if (!o->mixed)
		return o->value_bytes;
	return bytes < MIXED_MAX ? (uint32_t)bytes : MIXED_MAX;
}

static uint32_t
value_fill(const struct requests_options *o, uint64_t number, uint64_t *value)
{
	struct nam_rng rng = nam_rng_seed(~number);
	uint32_t bytes = value_bytes(o, number);

	for (uint32_t i = 0; i < (bytes + 7) / 8; i++)
		value[i] = nam_rng_next(&rng);
	return bytes;
}

/* Twice what the pairs take, for keys do not fall into partitions evenly. */
static uint64_t
memory_bytes(const struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	uint64_t servers = nam_client_servers(session.client);
	uint64_t partitions = o->partitions ? o->partitions : 16;
	uint64_t pair = 128 + 64 * (uint64_t)((o->mixed ? 64 : o->value_bytes) / 52);

	return 2 * pair * o->keys + 2 * servers * partitions * NAM_KV_PARTITION_BYTES_MIN;
}

/* ---- before and after ---------------------------------------------------------------------- */

static void
fill_main(struct thread_pool_member *member, void *arg)
{
	struct requests *bench = arg;
	const struct requests_options *o = &bench->options;
	struct requests_part *part = &bench->parts[member->number];
	struct room room = { 0 };
	int rc = nam_kv_open(member->worker, bench->name, &part->kv); /* SUSPENDS */

	for (uint64_t i = member->number; i < o->keys && !rc && !bench_signal;
		i += thread_pool_size(session.pool)) {
		key_fill(i, room.key);
		room.bytes = value_fill(o, i, room.value);
		rc = nam_kv_put(member->worker, part->kv, room.key, KEY_BYTES, room.value,
			room.bytes); /* SUSPENDS */
	}
	if (rc)
		requests_failed(part, rc, "filling the store");
}

static int
begin(struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	struct nam_worker *worker = session_worker();
	struct nam_kv_options options;
	int rc;

	nam_kv_options_init(&options);
	options.mode = NAM_KV_STORE;
	options.engine = o->engine;
	options.partitions = o->partitions;
	options.memory_bytes = memory_bytes(bench);
	requests_keys_init(bench);
	rc = nam_kv_create(worker, bench->name, &options); /* SUSPENDS */
	if (rc) {
		bench->name[0] = '\0';
		return bench_failed("making the store", rc, nam_worker_diag(worker));
	}
	thread_pool_run(session.pool, fill_main, bench, 0, 0);
	return nam_exit_code(session.findings.fatal);
}

static void
end(struct requests *bench)
{
	struct nam_worker *worker = session_worker();
	int rc = bench->name[0] ? nam_kv_drop(worker, bench->name) : 0; /* SUSPENDS */

	if (rc == -NAM_E_NOINDEX)
		bench_complain("%s: another client has dropped it", bench->name);
	else if (rc)
		bench_complain("%s: %s; namctl kv drop %s", bench->name, nam_worker_diag(worker),
			bench->name);
	for (unsigned i = 0; i < thread_pool_size(session.pool); i++)
		nam_kv_close(bench->parts[i].kv);
}

/* ---- one request --------------------------------------------------------------------------- */

static void
prepare(struct requests_part *part, void *arg)
{
	struct room *room = arg;

	room->number = requests_draw(part->bench, &part->rng);
	room->get = requests_reads(part);
	key_fill(room->number, room->key);
	if (!room->get)
		room->bytes = value_fill(&part->bench->options, room->number, room->value);
}

NAM_FIBER_FN static int
ask(struct requests_part *part, void *arg, uint32_t count)
{
	struct nam_worker *worker = part->member->worker;
	struct room *room = arg;

	(void)count;
	if (room->get)
		return nam_kv_get(worker, part->kv, room->key, KEY_BYTES, room->value,
			sizeof(room->value), &room->bytes); /* SUSPENDS */
	return nam_kv_put(worker, part->kv, room->key, KEY_BYTES, room->value,
		room->bytes); /* SUSPENDS */
}

static void
check(struct requests_part *part, void *arg)
{
	uint64_t expected[NAM_KV_VALUE_BYTES_MAX / 8 + 1];
	const struct room *room = arg;
	uint32_t bytes = value_fill(&part->bench->options, room->number, expected);

	if (room->get && (room->bytes != bytes || memcmp(room->value, expected, bytes) != 0))
		findings_wrong(&session.findings, "the value of key %" PRIu64 ", %u bytes, is "
			"not the one that was put", room->number, room->bytes);
}

/* ---- results ------------------------------------------------------------------------------- */

static const char *
engine_name(const struct requests_options *o)
{
	return o->engine == NAM_KV_CHAINED ? "chained" : "cuckoo";
}

static void
print(const struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	char bytes[16];

	(void)snprintf(bytes, sizeof(bytes), "%u", o->value_bytes);
	printf("  store       %s: %" PRIu64 " keys of %u bytes, %s; values of %s bytes; %g %% "
		"GET\n",
		engine_name(o), o->keys, KEY_BYTES, requests_distribution(o),
		o->mixed ? "1 to 899" : bytes, o->get_percent);
}

static void
json(const struct requests *bench, cJSON *object)
{
	const struct requests_options *o = &bench->options;

	cJSON_AddStringToObject(object, "engine", engine_name(o));
	report_number(object, "get_percent", o->get_percent);
	requests_keys_json(o, object);
}

int
kv_main(int argc, char **argv)
{
	static const struct requests_kind kind = {
		.room_bytes = sizeof(struct room),
		.begin = begin,
		.end = end,
		.prepare = prepare,
		.ask = ask,
		.check = check,
		.print = print,
		.json = json,
	};

	return requests_main(&kind, argc, argv);
}
