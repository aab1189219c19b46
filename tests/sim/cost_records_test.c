/* SPDX-License-Identifier: Apache-2.0 */
/* cost_records_test.c -- what records.h says that transactions cost, in every profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "txn/records.h"
#include "txn/records/txn_internal.h"
#include "cost.h"

#define STORE "records"
#define AT_A_TIME 20u			/* records that one batch of a PUT takes */
#define KEY_BYTES 8u
#define VALUE_BYTES 8u
#define AHEAD_US (1ull << 50)

/* One of two clients, and its handles. */
struct party {
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_records *warm, *cold;
	struct nam_op_counters before[NAM_OP_KINDS_COUNT];
};

static struct cost_stage *stage;
static struct party me, other;

/* ---- measuring ------------------------------------------------------------------------------- */

static void
begin(void)
{
	memcpy(me.before, me.worker->counters, sizeof(me.before));
}

/* One operation of that kind since begin(). */
static void
expect_doorbells(const char *what, uint32_t count, enum nam_op_kind kind, uint64_t round_trips,
	uint64_t doorbells, uint64_t requests)
{
	const struct nam_op_counters *is = &me.worker->counters[kind], *was = &me.before[kind];

	if (is->ops - was->ops != 1 || is->round_trips - was->round_trips != round_trips ||
		is->doorbells - was->doorbells != doorbells ||
		is->work_requests - was->work_requests != requests)
		cost_fail(stage, "%s of %u: %llu operations, %llu round trips, %llu doorbells and "
			"%llu requests, not 1, %llu, %llu and %llu", what, count,
			(unsigned long long)(is->ops - was->ops),
			(unsigned long long)(is->round_trips - was->round_trips),
			(unsigned long long)(is->doorbells - was->doorbells),
			(unsigned long long)(is->work_requests - was->work_requests),
			(unsigned long long)round_trips, (unsigned long long)doorbells,
			(unsigned long long)requests);
}

/* A doorbell for each round trip. */
static void
expect(const char *what, uint32_t count, enum nam_op_kind kind, uint64_t round_trips,
	uint64_t requests)
{
	expect_doorbells(what, count, kind, round_trips, round_trips, requests);
}

static void
expect_bytes(const char *what, uint32_t count, enum nam_op_kind kind, uint64_t in, uint64_t out)
{
	const struct nam_op_counters *is = &me.worker->counters[kind], *was = &me.before[kind];

	if (is->bytes_in - was->bytes_in != in || is->bytes_out - was->bytes_out != out)
		cost_fail(stage, "%s of %u: %llu bytes in and %llu out, not %llu and %llu", what,
			count, (unsigned long long)(is->bytes_in - was->bytes_in),
			(unsigned long long)(is->bytes_out - was->bytes_out),
			(unsigned long long)in, (unsigned long long)out);
}

/* Of an index beside it: so many operations. */
static void
expect_ops(const char *what, enum nam_op_kind kind, uint64_t ops)
{
	uint64_t is = me.worker->counters[kind].ops - me.before[kind].ops;

	if (is != ops)
		cost_fail(stage, "%s: %llu operations of kind %s, not %llu", what,
			(unsigned long long)is, nam_op_kind_name(kind), (unsigned long long)ops);
}

static void
key_of(uint32_t number, char key[KEY_BYTES + 1])
{
	(void)snprintf(key, KEY_BYTES + 1, "key%05u", number % 100000);
}

static void
put(struct party *who, struct nam_records *records, uint32_t first, uint32_t count)
{
	struct nam_record_put puts[NAM_RECORDS_MAX];
	char keys[NAM_RECORDS_MAX][KEY_BYTES + 1];
	uint64_t value = count;

	for (uint32_t i = 0; i < count; i++) {
		key_of(first + i, keys[i]);
		puts[i] = (struct nam_record_put){ keys[i], KEY_BYTES, VALUE_BYTES, &value };
	}
	cost_expect(stage, "put_all", nam_records_put_all(who->worker, records, puts, count, NULL),
		0);
}

static void
get(struct party *who, struct nam_records *records, uint32_t first, uint32_t count)
{
	struct nam_record_get gets[NAM_RECORDS_MAX];
	char keys[NAM_RECORDS_MAX][KEY_BYTES + 1];
	uint64_t values[NAM_RECORDS_MAX];

	for (uint32_t i = 0; i < count; i++) {
		key_of(first + i, keys[i]);
		gets[i] = (struct nam_record_get){ .key = keys[i], .key_bytes = KEY_BYTES,
			.value = &values[i], .size = VALUE_BYTES };
	}
	cost_expect(stage, "get_all", nam_records_get_all(who->worker, records, gets, count), 0);
	for (uint32_t i = 0; i < count; i++)
		cost_expect(stage, "a record", gets[i].rc, 0);
}

static uint64_t
version_bytes(uint32_t count)
{
	return nam__version_bytes(nam__version_length((count - 1) *
		(uint32_t)sizeof(struct nam_version_sibling), KEY_BYTES, VALUE_BYTES));
}

/* ---- reading --------------------------------------------------------------------------------- */

static void
read_costs(uint32_t first, uint32_t count)
{
	put(&me, me.warm, first, count);
	get(&me, me.warm, first, count);
	begin();
	get(&me, me.warm, first, count);
	expect("a warm get_all", count, NAM_OP_GET_ALL, 1, count);
	expect_bytes("a warm get_all", count, NAM_OP_GET_ALL, count * version_bytes(count), 0);
	expect_ops("a warm get_all", NAM_OP_LOOKUP, 0);

	put(&other, other.warm, first, count);
	begin();
	get(&me, me.warm, first, count);
	expect("a stale get_all", count, NAM_OP_GET_ALL, 3, 3ull * count);
	begin();
	get(&me, me.warm, first, count);
	expect("a get_all after a stale one", count, NAM_OP_GET_ALL, 1, count);

	begin();
	get(&me, me.cold, first, count);
	expect("a cold get_all", count, NAM_OP_GET_ALL, 2, 2ull * count);
	expect_ops("a cold get_all", NAM_OP_LOOKUP, count);
}

/* ---- half of a transaction ------------------------------------------------------------------- */

static struct nam__address
place_of(const struct party *who, uint32_t number)
{
	struct nam__address address = { .at = NAM_GADDR_NULL };
	char key[KEY_BYTES + 1];
	struct nam__record_id id;

	key_of(number, key);
	id = nam__record_id(key, KEY_BYTES);
	if (!nam__addresses_find(who->warm->addresses, &id, &address))
		cost_fail(stage, "record %u is not known", number);
	return address;
}

/* As a writer leaves it that dies before that head is moved. */
static void
uncommit(uint32_t number)
{
	const struct nam__address was = place_of(&me, number), is = place_of(&other, number);
	uint64_t old = 0;

	cost_expect(stage, "a CAS", nam_cas_await(other.worker, was.head, is.at.raw, was.at.raw,
		&old), 0);
	/* The mark of its claim. */
	cost_expect(stage, "a CAS", nam_cas_await(other.worker, nam_gaddr_untagged(was.at),
		~is.timestamp, was.timestamp, &old), 0);
}

static void
second_round_cost(uint32_t first)
{
	put(&me, me.warm, first, 2);
	put(&other, other.warm, first, 2);
	uncommit(first + 1);
	get(&me, me.warm, first, 1);
	begin();
	get(&me, me.warm, first, 2);
	/* READs of both; of the other half; of its head; two CAS. */
	expect("a get_all of half a transaction", 2, NAM_OP_GET_ALL, 4, 6);
	begin();
	get(&me, me.warm, first, 2);
	expect("a get_all of what has been committed so", 2, NAM_OP_GET_ALL, 1, 2);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void
write_costs(uint32_t first, uint32_t count)
{
	/* Two requests each: so many doorbells, one behind the other. */
	const uint64_t bells = (count + AT_A_TIME - 1) / AT_A_TIME;

	/* One CAS each: all go with one. */
	begin();
	put(&me, me.warm, first, count);
	expect_doorbells("a put_all of what is new", count, NAM_OP_PUT_ALL, 2, bells + 1,
		3ull * count);
	expect_ops("a put_all of what is new", NAM_OP_LOOKUP, count);
	expect_ops("a put_all of what is new", NAM_OP_INSERT, count);
	begin();
	put(&me, me.warm, first, count);
	expect_doorbells("a put_all", count, NAM_OP_PUT_ALL, 2, 2 * bells, 4ull * count);
	expect_bytes("a put_all", count, NAM_OP_PUT_ALL, count * (16 + 2 * COST_ATOMIC_IN),
		count * (version_bytes(count) + 2 * COST_ATOMIC_OUT));
	expect_ops("a put_all", NAM_OP_LOOKUP, 0);

	put(&other, other.warm, first, count);
	begin();
	put(&me, me.warm, first, count);
	expect_doorbells("a put_all over what is not known", count, NAM_OP_PUT_ALL, 3,
		2 * bells + 1, 5ull * count);
	begin();
	put(&me, me.cold, first, count);
	expect_doorbells("a cold put_all", count, NAM_OP_PUT_ALL, 3, 2 * bells + 1, 5ull * count);
	expect_ops("a cold put_all", NAM_OP_LOOKUP, count);
}

/* The writer's clock is ahead of all others; from then on this client's is, too. */
static void
restamp_cost(uint32_t first, uint32_t count)
{
	put(&me, me.warm, first, count);
	atomic_store(&nam__txn_client(other.client)->last_us, AHEAD_US);
	put(&other, other.warm, first, count);
	begin();
	put(&me, me.warm, first, count);
	expect("a put_all over what is of tomorrow", count, NAM_OP_PUT_ALL, 4, 6ull * count);
	begin();
	put(&me, me.warm, first, count);
	expect("a put_all after that", count, NAM_OP_PUT_ALL, 2, 4ull * count);
}

/* ---- the stage ------------------------------------------------------------------------------- */

static void
come(struct party *who, struct nam_client *client, struct nam_worker *worker)
{
	*who = (struct party){ .client = client, .worker = worker };
	cost_expect(stage, "open", nam_records_open(worker, STORE, COST_CACHE_BYTES, &who->warm),
		0);
	cost_expect(stage, "open", nam_records_open(worker, STORE, 0, &who->cold), 0);
}

static void
go(struct party *who)
{
	nam_records_close(who->warm);
	nam_records_close(who->cold);
}

static void
act(struct cost_stage *the_stage)
{
	struct nam_client *second;
	uint32_t first = 0;

	stage = the_stage;
	second = sim_client(&stage->cluster, "other");
	if (!second)
		sim_die("the second client cannot come");
	cost_expect(stage, "create", nam_records_create(stage->worker, STORE, NULL), 0);
	come(&me, stage->client, stage->worker);
	come(&other, second, sim_worker(second));
	for (uint32_t count = 1; count <= NAM_RECORDS_MAX && !stage->why[0]; count *= 2) {
		read_costs(first, count);
		first += count;
		write_costs(first, count);
		first += count;
	}
	second_round_cost(first);
	restamp_cost(first + 2, 3);
	go(&me);
	go(&other);
	nam_worker_close(other.worker);
	nam_client_close(second);
}

static void
nam_records__of_any_number__COST_EXACT(void **state)
{
	struct cost_stage the_stage;

	(void)state;
	cost_stage_init(&the_stage, act);
	cost_play(&the_stage);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_records__of_any_number__COST_EXACT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
