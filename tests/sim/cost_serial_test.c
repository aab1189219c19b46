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
			.value = values[i], .size = sizeof(values[i]) };
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

	txn = begin(served);
	read_some(txn, 0, count, 0);
	write_some(txn, 0, count);
	cost_begin(stage);
	commit(txn);
	rpc_spent("a commit of what was read", count, 3);

	txn = begin(served);
	read_some(txn, 0, count + 1, 0);
	write_some(txn, 0, count);
	cost_begin(stage);
	commit(txn);
	rpc_spent("a commit that has read another record", count, 4);
}

/* ---- the stage ------------------------------------------------------------------------------- */

static void
act(struct cost_stage *the_stage)
{
	const struct nam_txn_store_options options = { KEY_BYTES, VALUE_BYTES_MAX, 4096, 0 };
	const struct nam_txn_store_options by_rpc = { KEY_BYTES, VALUE_BYTES_MAX, 4096,
		NAM_TXN_FASST };
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
	}
	insert_costs();
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
