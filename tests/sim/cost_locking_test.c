/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_locking_test.c -- costs of transactions under two-phase locking: two messages to each memory
 * server that has one of the records, in every profile.  Also the cost of a refusal.  Transactions
 * of one process do not refuse one another.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "txn/records.h"
#include "txn/records/txn_internal.h"
#include "cost.h"

#define STORE "locking"
#define SERVERS 3u
#define KEY_BYTES 8u
#define VALUE_BYTES 8u
/* So many versions that name each other fit into one message, as one that reads and its reply. */
#define COUNT_MAX 8u
#define AHEAD_US (1ull << 50)
#define FIBERS 8u
#define ROUNDS 8u

static struct cost_stage *stage;
static struct nam_records *records;
static struct nam_op_counters before[NAM_OP_KINDS_COUNT];

static void
key_of(uint32_t number, char key[KEY_BYTES + 1])
{
	(void)snprintf(key, KEY_BYTES + 1, "key%05u", number % 100000);
}

/* On how many memory servers these records are. */
static uint32_t
servers_of(uint32_t count)
{
	bool seen[SERVERS] = { false };
	uint32_t servers = 0;

	for (uint32_t i = 0; i < count; i++) {
		char key[KEY_BYTES + 1];
		uint32_t which;

		key_of(i, key);
		which = (uint32_t)((nam__record_id(key, KEY_BYTES).word[0] >> 32) * SERVERS >> 32);
		servers += !seen[which];
		seen[which] = true;
	}
	return servers;
}

static void
begin(void)
{
	memcpy(before, stage->worker->counters, sizeof(before));
}

static void
expect(const char *what, uint32_t count, enum nam_op_kind kind, uint64_t rounds)
{
	const struct nam_op_counters *is = &stage->worker->counters[kind], *was = &before[kind];
	uint64_t messages = rounds * servers_of(count);

	if (is->ops - was->ops != 1 || is->round_trips - was->round_trips != rounds ||
		is->work_requests - was->work_requests != messages ||
		is->doorbells - was->doorbells != messages)
		cost_fail(stage, "%s of %u: %llu round trips, %llu doorbells and %llu requests, "
			"not %llu, %llu and %llu", what, count,
			(unsigned long long)(is->round_trips - was->round_trips),
			(unsigned long long)(is->doorbells - was->doorbells),
			(unsigned long long)(is->work_requests - was->work_requests),
			(unsigned long long)rounds, (unsigned long long)messages,
			(unsigned long long)messages);
}

static void
put(struct nam_worker *worker, struct nam_records *of, uint32_t count)
{
	struct nam_record_put puts[COUNT_MAX];
	char keys[COUNT_MAX][KEY_BYTES + 1];
	uint64_t value = count;

	for (uint32_t i = 0; i < count; i++) {
		key_of(i, keys[i]);
		puts[i] = (struct nam_record_put){ keys[i], KEY_BYTES, VALUE_BYTES, &value };
	}
	cost_expect(stage, "put_all", nam_records_put_all(worker, of, puts, count, NULL), 0);
}

static void
get(uint32_t count)
{
	struct nam_record_get gets[COUNT_MAX];
	char keys[COUNT_MAX][KEY_BYTES + 1];
	uint64_t values[COUNT_MAX];

	for (uint32_t i = 0; i < count; i++) {
		key_of(i, keys[i]);
		gets[i] = (struct nam_record_get){ .key = keys[i], .key_bytes = KEY_BYTES,
			.value = &values[i], .size = VALUE_BYTES };
	}
	cost_expect(stage, "get_all", nam_records_get_all(stage->worker, records, gets, count), 0);
	for (uint32_t i = 0; i < count; i++)
		cost_expect(stage, "a record", gets[i].rc, 0);
}

/* The writer's clock is ahead: refused once, for a later timestamp. */
static void
early_cost(struct nam_client *second)
{
	struct nam_worker *worker = sim_worker(second);
	struct nam_records *theirs = NULL;

	cost_expect(stage, "open", nam_records_open(worker, STORE, 0, &theirs), 0);
	atomic_store(&nam__txn_client(second)->last_us, AHEAD_US);
	put(worker, theirs, 1);
	begin();
	put(stage->worker, records, 1);
	expect("a put_all over what is of tomorrow", 1, NAM_OP_PUT_ALL, 3);
	begin();
	put(stage->worker, records, 1);
	expect("a put_all after that", 1, NAM_OP_PUT_ALL, 2);
	nam_records_close(theirs);
	nam_worker_close(worker);
}

static void
fiber_main(void *arg)
{
	const uint32_t *number = arg;

	for (uint32_t i = 0; i < ROUNDS; i++)
		if ((i + *number) % 2)
			put(stage->worker, records, 1 + (i + *number) % COUNT_MAX);
		else
			get(1 + (i + *number) % COUNT_MAX);
}

/* The records of many transactions at once; each costs what it costs alone. */
static void
together_cost(void)
{
	static uint32_t numbers[FIBERS];
	const struct nam_op_counters *now = stage->worker->counters;
	uint64_t ops = 0, trips = 0;

	begin();
	for (uint32_t i = 0; i < FIBERS; i++) {
		numbers[i] = i;
		if (nam_worker_spawn(stage->worker, fiber_main, &numbers[i]))
			sim_die("no fiber");
	}
	nam_worker_run(stage->worker);
	for (unsigned kind = NAM_OP_GET_ALL; kind <= NAM_OP_PUT_ALL; kind++) {
		ops += now[kind].ops - before[kind].ops;
		trips += now[kind].round_trips - before[kind].round_trips;
	}
	if (ops != FIBERS * ROUNDS || trips != 2 * ops)
		cost_fail(stage, "%llu transactions at once took %llu round trips",
			(unsigned long long)ops, (unsigned long long)trips);
}

static void
act(struct cost_stage *the_stage)
{
	const struct nam_records_options options = { NAM_RAMP_LOCKING, NAM_RECORDS_SERVED };
	struct nam_client *second;

	stage = the_stage;
	second = sim_client(&stage->cluster, "other");
	if (!second)
		sim_die("the second client cannot come");
	cost_expect(stage, "create", nam_records_create(stage->worker, STORE, &options), 0);
	cost_expect(stage, "open", nam_records_open(stage->worker, STORE, COST_CACHE_BYTES,
		&records), 0);
	for (uint32_t count = 1; count <= COUNT_MAX && !stage->why[0]; count *= 2) {
		put(stage->worker, records, count);
		begin();
		put(stage->worker, records, count);
		expect("a put_all", count, NAM_OP_PUT_ALL, 2);
		begin();
		get(count);
		expect("a get_all", count, NAM_OP_GET_ALL, 2);
	}
	if (servers_of(COUNT_MAX) != SERVERS)
		cost_fail(stage, "%u records lie on %u memory servers", COUNT_MAX,
			servers_of(COUNT_MAX));
	together_cost();
	early_cost(second);
	nam_records_close(records);
	nam_client_close(second);
}

static void
nam_records__under_locks__COST_EXACT(void **state)
{
	struct cost_stage the_stage;

	(void)state;
	cost_stage_init(&the_stage, act);
	the_stage.servers = SERVERS;
	cost_play(&the_stage);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_records__under_locks__COST_EXACT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
