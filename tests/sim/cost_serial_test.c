/* SPDX-License-Identifier: Apache-2.0 */
/* cost_serial_test.c -- what serializable.h says that transactions cost, in every profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "txn/serial/serial.h"
#include "cost.h"

#define STORE "serial"
#define SERVED "served"
#define KEY_BYTES 8u
#define VALUE_BYTES 24u			/* of up to 32 */
#define VALUE_BYTES_MAX 32u
#define AT_A_TIME 40u			/* requests of a doorbell */
#define ALL NAM_TXN_RECORDS_MAX
#define NEW 8u

static struct cost_stage *stage;
static struct nam_txn_store *warm, *cold, *served;

static void
key_of(uint32_t number, char key[KEY_BYTES + 1])
{
	(void)snprintf(key, KEY_BYTES + 1, "key%05u", number % 100000);
}

static uint32_t updates;		/* of the first records that are read */

static struct nam_txn *
begin(struct nam_txn_store *store)
{
	struct nam_txn *txn = NULL;

	cost_expect(stage, "begin", nam_txn_begin(stage->worker, store, &txn), 0);
	return txn;
}

static void
read_some(struct nam_txn *txn, uint32_t first, uint32_t count, int expected)
{
	static struct nam_txn_get gets[ALL];
	static char keys[ALL][KEY_BYTES + 1];
	static uint64_t values[ALL][VALUE_BYTES_MAX / 8];

	for (uint32_t i = 0; i < count; i++) {
		key_of(first + i, keys[i]);
		gets[i] = (struct nam_txn_get){ .key = keys[i], .key_bytes = KEY_BYTES,
			.value = values[i], .size = sizeof(values[i]), .update = i < updates };
	}
	cost_expect(stage, "read_all", nam_txn_read_all(txn, gets, count), 0);
	for (uint32_t i = 0; i < count; i++)
		cost_expect(stage, "a record", gets[i].rc, expected);
}

static void
write_some(struct nam_txn *txn, uint32_t first, uint32_t count)
{
	const char value[VALUE_BYTES] = "value";
	char key[KEY_BYTES + 1];

	for (uint32_t i = 0; i < count; i++) {
		key_of(first + i, key);
		cost_expect(stage, "write", nam_txn_write(txn, key, KEY_BYTES, value,
			sizeof(value)), 0);
	}
}

static void
commit(struct nam_txn *txn)
{
	cost_expect(stage, "commit", nam_txn_commit(txn, NULL), 0);
}

/* One operation since cost_begin(), with all requests to one memory server. */
static void
spent(const char *what, uint32_t count, enum nam_op_kind kind, uint64_t round_trips,
	uint64_t doorbells, uint64_t requests, uint64_t in, uint64_t out)
{
	const struct nam_op_counters is = cost_spent(stage);
	uint64_t ops = stage->worker->counters[kind].ops - stage->before[kind].ops;

	if (ops != (round_trips || kind == NAM_OP_TXN_COMMIT) || is.round_trips != round_trips ||
		is.doorbells != doorbells || is.work_requests != requests || is.bytes_in != in ||
		is.bytes_out != out)
		cost_fail(stage, "%s of %u: %llu operations, %llu round trips, %llu doorbells, "
			"%llu requests, %llu bytes in and %llu out, not 1, %llu, %llu, %llu, %llu "
			"and %llu", what, count, (unsigned long long)ops,
			(unsigned long long)is.round_trips, (unsigned long long)is.doorbells,
			(unsigned long long)is.work_requests, (unsigned long long)is.bytes_in,
			(unsigned long long)is.bytes_out, (unsigned long long)round_trips,
			(unsigned long long)doorbells, (unsigned long long)requests,
			(unsigned long long)in, (unsigned long long)out);
}

static uint64_t
bells(uint64_t requests)
{
	return (requests + AT_A_TIME - 1) / AT_A_TIME;
}

#define RECORD_READ (40u + KEY_BYTES + VALUE_BYTES_MAX)

/* ---- reading --------------------------------------------------------------------------------- */

static void
read_costs(uint32_t count)
{
	struct nam_txn *txn = begin(warm);

	cost_begin(stage);
	read_some(txn, 0, count, 0);
	spent("a warm read", count, NAM_OP_TXN_READ, 1, bells(count), count,
		(uint64_t)count * RECORD_READ, 0);
	cost_begin(stage);
	read_some(txn, 0, count, 0);
	spent("a second read", count, NAM_OP_TXN_READ, 0, 0, 0, 0, 0);
	cost_begin(stage);
	commit(txn);
	if (count == 1)
		spent("a commit after a read", 1, NAM_OP_TXN_COMMIT, 0, 0, 0, 0, 0);
	else
		spent("a commit after reads", count, NAM_OP_TXN_COMMIT, 1, bells(count), count,
			8ull * count, 0);

	txn = begin(cold);
	cost_begin(stage);
	read_some(txn, 0, count, 0);
	spent("a cold read", count, NAM_OP_TXN_READ, 2, 2 * bells(count), 2ull * count,
		(uint64_t)count * (128 + RECORD_READ), 0);
	nam_txn_abort(txn);

	txn = begin(warm);
	cost_begin(stage);
	read_some(txn, 50000, 1, -NAM_E_NOTFOUND);
	spent("a read of no record", 1, NAM_OP_TXN_READ, 1, 1, 1, 128, 0);
	nam_txn_abort(txn);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A commit of that many writes. */
static void
expect_commit(const char *what, uint32_t count, uint64_t more_round_trips, uint64_t more_bells,
	uint64_t more_requests, uint64_t more_in, uint64_t more_out)
{
	bool ordered = nam_sim_profile_caps(stage->profile) & NAM_CAP_ORDER_WRITE_ATOMIC;
	uint64_t record = 40 + KEY_BYTES + VALUE_BYTES, log = 64 + count * (8 + record);

	/* Locks; the log; records and releases. */
	spent(what, count, NAM_OP_TXN_COMMIT, 3 + !ordered + more_round_trips,
		bells(count) + 1 + (ordered ? bells(2ull * count) : 2 * bells(count)) + more_bells,
		1 + 3ull * count + more_requests, 2ull * count * COST_ATOMIC_IN + more_in,
		2ull * count * COST_ATOMIC_OUT + log + count * (record - 8) + more_out);
}

static void
write_costs(uint32_t count)
{
	struct nam_txn *txn = begin(warm);

	read_some(txn, 0, count, 0);
	write_some(txn, 0, count);
	cost_begin(stage);
	commit(txn);
	expect_commit("a commit of what was read", count, 0, 0, 0, 0, 0);

	txn = begin(warm);
	read_some(txn, 0, count, 0);
	read_some(txn, ALL, 1, 0);
	write_some(txn, 0, count < ALL ? count : ALL - 1);
	cost_begin(stage);
	commit(txn);
	expect_commit("a commit that has read another record", count, 1, 1, 1, 8, 0);

	txn = begin(warm);
	write_some(txn, 0, count);
	cost_begin(stage);
	commit(txn);
	expect_commit("a blind commit", count, 1, bells(count), count,
		(uint64_t)count * RECORD_READ, 0);
}

/* The caller waits for locks and the log.  The rest counts as an operation of its own. */
static void
passive_costs(uint32_t count)
{
	const bool ordered = nam_sim_profile_caps(stage->profile) & NAM_CAP_ORDER_WRITE_ATOMIC;
	const struct nam_op_counters *counters = stage->worker->counters;
	struct nam_txn *txn = begin(warm);
	uint64_t trips;

	cost_expect(stage, "phases", nam_txn_store_phases_set(stage->worker, warm,
		NAM_TXN_DRTM_H), 0);
	read_some(txn, 0, count, 0);
	write_some(txn, 0, count);
	cost_begin(stage);
	commit(txn);
	trips = counters[NAM_OP_TXN_COMMIT].round_trips -
		stage->before[NAM_OP_TXN_COMMIT].round_trips;
	cost_expect(stage, "round trips of a passive commit", (int)trips, 2);
	cost_expect(stage, "flush", nam_txn_flush(stage->worker, warm), 0);
	trips = counters[NAM_OP_TXN_FINISH].round_trips -
		stage->before[NAM_OP_TXN_FINISH].round_trips;
	cost_expect(stage, "round trips after it", (int)trips, 1 + !ordered);
	expect_commit("a passive commit and its end", count, 0, 0, 0, 0, 0);
	cost_expect(stage, "phases", nam_txn_store_phases_set(stage->worker, warm, 0), 0);
}

/* Keys whose buckets differ. */
static void
insert_costs(void)
{
	struct nam_txn *txn = begin(warm);

	read_some(txn, 60000, NEW, -NAM_E_NOTFOUND);
	write_some(txn, 60000, NEW);
	cost_begin(stage);
	commit(txn);
	expect_commit("a commit of new keys", NEW, 2, 2, 2ull * NEW, NEW * COST_ATOMIC_IN,
		NEW * (40 + KEY_BYTES + COST_ATOMIC_OUT));
}

/* ---- by RPC ---------------------------------------------------------------------------------- */

/* A phase takes a round trip, whatever the fabric orders; two messages of a phase go together. */
static void
rpc_spent(const char *what, uint32_t count, uint64_t round_trips)
{
	const struct nam_op_counters is = cost_spent(stage);

	if (is.round_trips != round_trips)
		cost_fail(stage, "%s of %u by RPC: %llu round trips, not %llu", what, count,
			(unsigned long long)is.round_trips, (unsigned long long)round_trips);
}

static void
rpc_costs(uint32_t count)
{
	struct nam_txn *txn = begin(served);

	cost_begin(stage);
	read_some(txn, 0, count, 0);
	rpc_spent("a warm read", count, 1);
	cost_begin(stage);
	commit(txn);
	rpc_spent("a commit after reads", count, count > 1);

	for (uint32_t early = 0; early < 2; early++) {
		const uint32_t phases = early ? NAM_TXN_FASST : NAM_TXN_RPC;

		cost_expect(stage, "phases", nam_txn_store_phases_set(stage->worker, served,
			phases), 0);
		txn = begin(served);
		updates = count;
		cost_begin(stage);
		read_some(txn, 0, count, 0);
		rpc_spent("a warm read of what is to be written", count, 1);
		write_some(txn, 0, count);
		cost_begin(stage);
		commit(txn);
		rpc_spent("a commit of what was read", count, 3 - early);

		txn = begin(served);
		read_some(txn, 0, count + 1, 0);
		write_some(txn, 0, count);
		cost_begin(stage);
		commit(txn);
		rpc_spent("a commit that has read another record", count, 4 - early);

		/* They are READ, and locked, by the commit. */
		txn = begin(served);
		write_some(txn, 0, count);
		cost_begin(stage);
		commit(txn);
		rpc_spent("a blind commit", count, 4 - early);
		updates = 0;
	}
}

/* ---- scans ----------------------------------------------------------------------------------- */

#define ROWS 8u
#define IN_LEAVES 200u
#define STAMP_BYTES 24u
#define INDEX_NODE 1024u

static struct nam_txn_store *indexed;

/* Of the index: the first bytes of values, as numbers. */
static void
row_write(struct nam_txn *txn, uint32_t number, uint64_t town)
{
	uint64_t value[VALUE_BYTES / 8] = { 0 };
	char key[KEY_BYTES + 1];

	nam_key_from_u64(town, value);
	key_of(number, key);
	cost_expect(stage, "write", nam_txn_write(txn, key, KEY_BYTES, value, sizeof(value)), 0);
}

static void
scan_all(struct nam_txn *txn, uint64_t high, uint32_t expected)
{
	static struct nam_txn_row rows[ROWS];
	uint8_t low_key[8], high_key[8];
	const struct nam_range range = { .low = low_key, .high = high_key };
	uint32_t count = 0;

	nam_key_from_u64(0, low_key);
	nam_key_from_u64(high, high_key);
	cost_expect(stage, "scan", nam_txn_scan(txn, 0, &range, rows, ROWS, &count), 0);
	cost_expect(stage, "rows", (int)count, (int)expected);
}

/* A leaf with a warm cache, and its records; then both are validated at once. */
static void
scan_costs(void)
{
	struct nam_txn *txn = begin(indexed);

	cost_begin(stage);
	scan_all(txn, ROWS, ROWS);
	spent("a scan", ROWS, NAM_OP_TXN_READ, 2, 2, 1 + ROWS, INDEX_NODE + ROWS * RECORD_READ, 0);
	cost_begin(stage);
	commit(txn);
	spent("a commit after a scan", ROWS, NAM_OP_TXN_COMMIT, 1, 1, 1 + ROWS,
		STAMP_BYTES + ROWS * 8, 0);

	txn = begin(indexed);
	cost_begin(stage);
	scan_all(txn, 1, 1);
	spent("a scan of one record", 1, NAM_OP_TXN_READ, 2, 2, 2, INDEX_NODE + RECORD_READ, 0);
	cost_begin(stage);
	commit(txn);
	spent("a commit after it", 1, NAM_OP_TXN_COMMIT, 1, 1, 2, STAMP_BYTES + 8, 0);

	/* The index key stays, so the index does. */
	txn = begin(indexed);
	read_some(txn, 0, 1, 0);
	row_write(txn, 0, 0);
	cost_begin(stage);
	commit(txn);
	expect_commit("a commit beside an index", 1, 0, 0, 0, 0, 0);
}

/* Another index key: the two changes of the index count as their own operations. */
static void
entry_costs(void)
{
	const struct nam_op_counters *counters = stage->worker->counters;
	bool ordered = nam_sim_profile_caps(stage->profile) & NAM_CAP_ORDER_WRITE_ATOMIC;
	struct nam_txn *txn = begin(indexed);
	struct nam_op_counters is;

	read_some(txn, 0, 1, 0);
	row_write(txn, 0, IN_LEAVES);
	cost_begin(stage);
	commit(txn);
	is = counters[NAM_OP_TXN_COMMIT];
	is.round_trips -= stage->before[NAM_OP_TXN_COMMIT].round_trips;
	/* Lock; log; write and release apart. */
	cost_expect(stage, "round trips of a commit", (int)is.round_trips, 4);
	cost_expect(stage, "insertions", (int)(counters[NAM_OP_INSERT].ops -
		stage->before[NAM_OP_INSERT].ops), 1);
	cost_expect(stage, "removals", (int)(counters[NAM_OP_DELETE].ops -
		stage->before[NAM_OP_DELETE].ops), 1);
	if (ordered && stage->profile == NAM_SIM_STRICT)
		cost_expect(stage, "round trips of both", (int)(counters[NAM_OP_INSERT].round_trips
			- stage->before[NAM_OP_INSERT].round_trips +
			counters[NAM_OP_DELETE].round_trips -
			stage->before[NAM_OP_DELETE].round_trips), 4);
}

static void
index_costs(void)
{
	const struct nam_txn_store_options options = { .key_bytes_max = KEY_BYTES,
		.value_bytes_max = VALUE_BYTES_MAX, .records = 64, .indexes = { { 0, 8, 0 } } };
	struct nam_txn *txn;

	cost_expect(stage, "create", nam_txn_store_create(stage->worker, "indexed", &options), 0);
	cost_expect(stage, "open", nam_txn_store_open(stage->worker, "indexed", COST_CACHE_BYTES,
		&indexed), 0);
	txn = begin(indexed);
	/* The tree is higher than a leaf, so the cache knows its leaves. */
	for (uint32_t i = 0; i < IN_LEAVES; i++)
		row_write(txn, i, i);
	commit(txn);
	txn = begin(indexed);
	scan_all(txn, ROWS, ROWS);
	commit(txn);
	scan_costs();
	entry_costs();
	nam_txn_store_close(indexed);
}

/* ---- the stage ------------------------------------------------------------------------------- */

static void
act(struct cost_stage *the_stage)
{
	const struct nam_txn_store_options options = { .key_bytes_max = KEY_BYTES,
		.value_bytes_max = VALUE_BYTES_MAX, .records = 4096 };
	const struct nam_txn_store_options by_rpc = { .key_bytes_max = KEY_BYTES,
		.value_bytes_max = VALUE_BYTES_MAX, .records = 4096, .phases = NAM_TXN_FASST };
	struct nam_txn *txn;

	stage = the_stage;
	cost_expect(stage, "create", nam_txn_store_create(stage->worker, STORE, &options), 0);
	cost_expect(stage, "open", nam_txn_store_open(stage->worker, STORE, COST_CACHE_BYTES,
		&warm), 0);
	cost_expect(stage, "open", nam_txn_store_open(stage->worker, STORE, 0, &cold), 0);
	for (uint32_t first = 0; first <= ALL; first += 128) {
		txn = begin(warm);
		write_some(txn, first, 128);
		commit(txn);
		txn = begin(warm);
		read_some(txn, first, 128, 0);
		commit(txn);
	}
	/* A log that is long enough for all. */
	txn = begin(warm);
	write_some(txn, 0, ALL);
	commit(txn);
	for (uint32_t count = 1; count <= 128 && !stage->why[0]; count *= 2) {
		read_costs(count);
		write_costs(count);
		passive_costs(count);
	}
	insert_costs();
	index_costs();
	cost_expect(stage, "create", nam_txn_store_create(stage->worker, SERVED, &by_rpc), 0);
	cost_expect(stage, "open", nam_txn_store_open(stage->worker, SERVED, COST_CACHE_BYTES,
		&served), 0);
	txn = begin(served);
	write_some(txn, 0, 128);
	commit(txn);
	txn = begin(served);
	read_some(txn, 0, 128, 0);
	commit(txn);
	for (uint32_t count = 1; count <= 64 && !stage->why[0]; count *= 2)
		rpc_costs(count);
	nam_txn_store_close(served);
	nam_txn_store_close(warm);
	nam_txn_store_close(cold);
}

static void
nam_txn__of_any_number__COST_EXACT(void **state)
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
		cmocka_unit_test(nam_txn__of_any_number__COST_EXACT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
