/* SPDX-License-Identifier: Apache-2.0 */
/* serial_test.c -- serializable transactions of two clients, and each error of serializable.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "compute/remote/lock_slot.h"
#include "tests/lib/index_fixture.h"
#include "txn/records.h"
#include "txn/serial/serial.h"
#include "txn/serializable.h"
#include "txn/sweep.h"
#include "serial_fixture.h"

#define MIB (1ull << 20)
#define SERVERS 2u
#define CACHE_BYTES (1 * MIB)
#define KEYS_MANY 1500u			/* more than the slots of the smallest store */

static const struct nam_txn_store_options small = { .key_bytes_max = 16,
	.value_bytes_max = 64, .records = 1 };
static struct local_cluster *cluster;
static struct member me, other;
static struct nam_txn_store *mine, *others;

static int
start(void **state)
{
	(void)state;
	cluster = local_cluster_start(SERVERS, 16 * MIB, 8 * MIB);
	me = member_join(cluster, "me", 5000);
	other = member_join(cluster, "other", 200);
	assert_int_equal(nam_txn_store_create(me.worker, "s", &small), 0);
	assert_int_equal(nam_txn_store_open(me.worker, "s", CACHE_BYTES, &mine), 0);
	assert_int_equal(nam_txn_store_open(other.worker, "s", 0, &others), 0);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	nam_txn_store_close(mine);
	nam_txn_store_close(others);
	assert_int_equal(nam_txn_store_drop(me.worker, "s"), 0);
	member_leave(&other);
	member_leave(&me);
	local_cluster_stop(cluster);
	return 0;
}

static int
read_text(struct nam_txn *txn, const char *key, char ret_text[65])
{
	uint32_t bytes = 0;
	int rc = nam_txn_read(txn, key, (uint32_t)strlen(key), ret_text, 64, &bytes);

	ret_text[rc ? 0 : bytes] = '\0';
	return rc;
}

static void
expect_text(const struct member *who, struct nam_txn_store *store, const char *key,
	const char *expected)
{
	struct nam_txn *txn = begin(who, store);
	char text[65];

	assert_int_equal(read_text(txn, key, text), expected ? 0 : -NAM_E_NOTFOUND);
	if (expected)
		assert_string_equal(text, expected);
	assert_int_equal(nam_txn_commit(txn, NULL), 0);
}

/* ---- phases ---------------------------------------------------------------------------------- */

static void
phases__each_by_rpc__as_one_sided(void **state)
{
	const uint32_t early = NAM_TXN_EXECUTE_RPC | NAM_TXN_LOCK_RPC;

	(void)state;
	assert_int_equal(nam_txn_store_phases_set(me.worker, mine, NAM_TXN_PHASES + 1), -EINVAL);
	for (uint32_t phases = 0; phases <= NAM_TXN_PHASES; phases++) {
		char text[8];

		if (phases & NAM_TXN_LOCK_EARLY && (phases & early) != early) {
			assert_int_equal(nam_txn_store_phases_set(me.worker, mine, phases),
				-EINVAL);
			continue;
		}
		(void)snprintf(text, sizeof(text), "%u", phases);
		assert_int_equal(nam_txn_store_phases_set(me.worker, mine, phases), 0);
		put(&me, mine, "phases", text);
		assert_int_equal(nam_txn_flush(me.worker, mine), 0);
		expect_text(&me, mine, "phases", text);
		expect_text(&other, others, "phases", text);
	}
	assert_int_equal(nam_txn_store_phases_set(me.worker, mine, 0), 0);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void
create__options_out_of_range__EINVAL(void **state)
{
	static const struct nam_txn_store_options bad[] = {
		{ .key_bytes_max = 0, .value_bytes_max = 1, .records = 1 },
		{ .key_bytes_max = 129, .value_bytes_max = 1, .records = 1 },
		{ .key_bytes_max = 8, .value_bytes_max = 4097, .records = 1 },
		{ .key_bytes_max = 8, .value_bytes_max = 8, .records = 0 },
		{ .key_bytes_max = 8, .value_bytes_max = 8, .records = 1ull << 40 },
		{ .key_bytes_max = 8, .value_bytes_max = 8, .records = 1,
			.phases = NAM_TXN_PHASES + 1 },
		{ .key_bytes_max = 8, .value_bytes_max = NAM_TXN_RPC_BYTES_MAX - 7, .records = 1,
			.phases = NAM_TXN_LOG_RPC },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(nam_txn_store_create(me.worker, "bad", &bad[i]), -EINVAL);
	assert_int_equal(nam_txn_store_create(me.worker, "", NULL), -EINVAL);
}

static void
create__name_taken__INDEX_EXISTS(void **state)
{
	(void)state;
	assert_int_equal(nam_txn_store_create(me.worker, "s", &small), -NAM_E_INDEX_EXISTS);
}

static int
count_name(void *arg, const char *name)
{
	*(unsigned *)arg += strcmp(name, "s") == 0;
	return 0;
}

static void
list__one_store__NAMED(void **state)
{
	unsigned count = 0;

	(void)state;
	assert_int_equal(nam_txn_store_list(me.worker, count_name, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(nam_txn_store_properties(mine)->key_bytes_max, small.key_bytes_max);
}

static void
open__absent_or_other_kind__NOINDEX_or_KIND(void **state)
{
	struct nam_txn_store *store;
	struct nam_records *records;

	(void)state;
	assert_int_equal(nam_txn_store_open(me.worker, "none", 0, &store), -NAM_E_NOINDEX);
	assert_int_equal(nam_records_create(me.worker, "ramp", NULL), 0);
	assert_int_equal(nam_txn_store_open(me.worker, "ramp", 0, &store), -NAM_E_KIND);
	assert_int_equal(nam_records_open(me.worker, "s", 0, &records), -NAM_E_KIND);
	assert_int_equal(nam_txn_store_drop(me.worker, "ramp"), -NAM_E_KIND);
	assert_int_equal(nam_records_drop(me.worker, "ramp"), 0);
}

static void
drop__open_handle__DROPPED(void **state)
{
	struct nam_txn_store *warm, *cold;
	uint64_t sequence = 7;
	struct nam_txn *txn;
	char text[65];

	(void)state;
	assert_int_equal(nam_txn_store_create(me.worker, "gone", &small), 0);
	assert_int_equal(nam_txn_store_open(me.worker, "gone", CACHE_BYTES, &warm), 0);
	assert_int_equal(nam_txn_store_open(me.worker, "gone", 0, &cold), 0);
	put(&me, warm, "a", "1");
	expect_text(&me, warm, "a", "1");
	assert_int_equal(nam_txn_store_drop(other.worker, "gone"), 0);
	txn = begin(&me, warm);
	assert_int_equal(read_text(txn, "a", text), -NAM_E_DROPPED);
	assert_int_equal(read_text(txn, "a", text), -NAM_E_DROPPED);
	assert_int_equal(nam_txn_commit(txn, &sequence), -NAM_E_DROPPED);
	assert_int_equal(sequence, 0);
	txn = begin(&me, cold);
	write_text(txn, "b", "2");
	assert_int_equal(nam_txn_commit(txn, NULL), -NAM_E_DROPPED);
	nam_txn_store_close(warm);
	nam_txn_store_close(cold);
}

/* ---- records --------------------------------------------------------------------------------- */

static void
write__own_read__SEEN(void **state)
{
	struct nam_txn *txn = begin(&me, mine);
	uint64_t first = 0, second = 0;
	char text[65];

	(void)state;
	write_text(txn, "own", "1");
	assert_int_equal(read_text(txn, "own", text), 0);
	assert_string_equal(text, "1");
	write_text(txn, "own", "22");
	assert_int_equal(nam_txn_commit(txn, &first), 0);
	expect_text(&other, others, "own", "22");
	txn = begin(&other, others);
	write_text(txn, "own", "");
	assert_int_equal(nam_txn_commit(txn, &second), 0);
	assert_true(second > first);
	expect_text(&me, mine, "own", "");
}

static void
insert__present__EXISTS(void **state)
{
	struct nam_txn *txn = begin(&me, mine);

	(void)state;
	assert_int_equal(nam_txn_insert(txn, "i", 1, "1", 1), 0);
	assert_int_equal(nam_txn_insert(txn, "i", 1, "2", 1), -NAM_E_EXISTS);
	assert_int_equal(nam_txn_commit(txn, NULL), 0);
	txn = begin(&other, others);
	assert_int_equal(nam_txn_insert(txn, "i", 1, "3", 1), -NAM_E_EXISTS);
	assert_int_equal(nam_txn_commit(txn, NULL), 0);
	expect_text(&me, mine, "i", "1");
}

static void
delete__absent__NOTFOUND(void **state)
{
	struct nam_txn *txn;

	(void)state;
	put(&me, mine, "d", "1");
	txn = begin(&other, others);
	assert_int_equal(nam_txn_delete(txn, "d", 1), 0);
	assert_int_equal(nam_txn_delete(txn, "d", 1), -NAM_E_NOTFOUND);
	assert_int_equal(nam_txn_commit(txn, NULL), 0);
	expect_text(&me, mine, "d", NULL);
	txn = begin(&me, mine);
	assert_int_equal(nam_txn_delete(txn, "d", 1), -NAM_E_NOTFOUND);
	assert_int_equal(nam_txn_insert(txn, "d", 1, "2", 1), 0);
	assert_int_equal(nam_txn_commit(txn, NULL), 0);
	expect_text(&other, others, "d", "2");
}

static void
abort__writes__NO_EFFECT(void **state)
{
	struct nam_txn *txn = begin(&me, mine);

	(void)state;
	write_text(txn, "aborted", "1");
	nam_txn_abort(txn);
	nam_txn_abort(NULL);
	expect_text(&me, mine, "aborted", NULL);
}

static void
read__limits__LIMIT(void **state)
{
	struct nam_txn *txn = begin(&me, mine);
	char value[65] = "", key[17];
	uint32_t bytes = 0;

	(void)state;
	assert_int_equal(nam_txn_write(txn, "k", 1, value, 65), -NAM_E_LIMIT);
	assert_int_equal(nam_txn_write(txn, "12345678901234567", 17, value, 1), -NAM_E_LIMIT);
	assert_int_equal(nam_txn_write(txn, "", 0, value, 1), -NAM_E_LIMIT);
	write_text(txn, "long", "12345");
	assert_int_equal(nam_txn_read(txn, "long", 4, value, 4, &bytes), -NAM_E_LIMIT);
	assert_int_equal(bytes, 5);
	for (unsigned i = 1; i < NAM_TXN_RECORDS_MAX; i++) {
		(void)snprintf(key, sizeof(key), "limit%u", i);
		write_text(txn, key, "x");
	}
	assert_int_equal(nam_txn_write(txn, "more", 4, "x", 1), -NAM_E_LIMIT);
	assert_int_equal(nam_txn_read(txn, "more", 4, value, 4, &bytes), -NAM_E_LIMIT);
	assert_int_equal(nam_txn_commit(txn, NULL), 0);
	expect_text(&other, others, "limit255", "x");
}

/*
 * The store was made for one record, so its table has grown three times: the search for a key
 * takes up to three READs more.
 */
static void
write__1500_times_as_many_records_as_expected__FOUND_BY_FEW_READS(void **state)
{
	const uint64_t before = nam_worker_counters(other.worker, NAM_OP_TXN_READ)->round_trips;
	char key[17];

	(void)state;
	for (unsigned i = 0; i < KEYS_MANY; i++) {
		(void)snprintf(key, sizeof(key), "many%u", i);
		put(&me, mine, key, key);
	}
	for (unsigned i = 0; i < KEYS_MANY; i++) {
		(void)snprintf(key, sizeof(key), "many%u", i);
		expect_text(&other, others, key, key);
	}
	/* Without a cache: a record, and its bucket behind 0 (14 keys), 1 (112), 2 or 3 others. */
	assert_in_range(nam_worker_counters(other.worker, NAM_OP_TXN_READ)->round_trips - before,
		4 * KEYS_MANY, 9 * KEYS_MANY / 2);
}

/* ---- two transactions ------------------------------------------------------------------------ */

static void
commit__read_was_replaced__CONFLICT(void **state)
{
	struct nam_txn *txn;
	char text[65];

	(void)state;
	put(&me, mine, "x", "1");
	put(&me, mine, "y", "1");
	/* It writes what it has read. */
	txn = begin(&me, mine);
	assert_int_equal(read_text(txn, "x", text), 0);
	put(&other, others, "x", "2");
	write_text(txn, "x", "3");
	assert_int_equal(nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	/* It writes something else. */
	txn = begin(&me, mine);
	assert_int_equal(read_text(txn, "x", text), 0);
	put(&other, others, "x", "4");
	write_text(txn, "y", "3");
	assert_int_equal(nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	/* It writes nothing. */
	txn = begin(&me, mine);
	assert_int_equal(read_text(txn, "x", text), 0);
	assert_int_equal(read_text(txn, "y", text), 0);
	put(&other, others, "x", "5");
	assert_int_equal(nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	expect_text(&me, mine, "x", "5");
	expect_text(&me, mine, "y", "1");
}

static void
commit__absent_key_was_inserted__CONFLICT(void **state)
{
	struct nam_txn *txn = begin(&me, mine);
	char text[65];

	(void)state;
	assert_int_equal(read_text(txn, "new", text), -NAM_E_NOTFOUND);
	put(&other, others, "new", "1");
	write_text(txn, "x", "6");
	assert_int_equal(nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	txn = begin(&me, mine);
	assert_int_equal(nam_txn_insert(txn, "newer", 5, "1", 1), 0);
	put(&other, others, "newer", "2");
	assert_int_equal(nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	expect_text(&me, mine, "newer", "2");
}

struct increment {
	uint32_t calls, conflicts;
};

static int
increment(struct nam_txn *txn, void *arg)
{
	struct increment *self = arg;
	uint64_t number = 0;
	uint32_t bytes;
	int rc = nam_txn_read(txn, "n", 1, &number, sizeof(number), &bytes);

	if (rc && rc != -NAM_E_NOTFOUND)
		return rc;
	if (self->calls++ < self->conflicts)
		put(&other, others, "n", "12345678");
	number++;
	return nam_txn_write(txn, "n", 1, &number, sizeof(number));
}

/* Another word of this client that has the same place among the suspects. */
static uint64_t
rival_of(uint64_t word)
{
	uint64_t rival;

	do
		rival = nam__lock_word_new(me.worker);
	while (nam_mix64(rival) % NAM__SERIAL_SUSPECTS != nam_mix64(word) % NAM__SERIAL_SUSPECTS);
	return rival;
}

static void
meet(struct nam_gaddr at, uint64_t word)
{
	nam__op_begin(other.worker, NAM_OP_OTHER);
	assert_int_equal(nam__serial_met(other.worker, others, at, word), -NAM_E_CONFLICT);
	nam__op_end(other.worker);
}

/* `me` has the lock, and does not go on.  Another lock is met as often. */
static void
read__lock_of_a_living_client__EPOCH_RAISED(void **state)
{
	uint64_t before, after, seen, end_ns = nam_now_ns() + 10000000000ull;
	uint64_t word, rival, sequence;
	struct nam_gaddr at;
	struct nam_txn *txn;
	char text[65];

	(void)state;
	put(&me, mine, "held", "1");
	txn = begin(&me, mine);
	assert_int_equal(read_text(txn, "held", text), 0);
	at = txn->items[0].at;
	sequence = txn->items[0].sequence;
	nam_txn_abort(txn);
	word = nam__lock_word_new(me.worker);
	rival = rival_of(word);
	assert_int_equal(nam_cas_await(me.worker, at, sequence, word, &seen), 0);
	assert_int_equal(seen, sequence);
	assert_int_equal(nam__epoch_add(me.worker, 0, &before), 0);
	do {
		txn = begin(&other, others);
		assert_int_equal(read_text(txn, "held", text), -NAM_E_CONFLICT);
		nam_txn_abort(txn);
		meet(at, rival);
		nam_sleep_ns(1000000);
		assert_int_equal(nam__epoch_add(me.worker, 0, &after), 0);
	} while (after == before && nam_now_ns() < end_ns);
	assert_true(after > before);
	assert_int_equal(nam_cas_await(me.worker, at, word, sequence, &seen), 0);
	assert_int_equal(seen, word);
	expect_text(&other, others, "held", "1");
}

static void
run__conflicts__BOUNDED(void **state)
{
	struct increment twice = { 0, 2 }, always = { 0, UINT32_MAX };
	uint64_t sequence = 0;
	uint32_t tries = 0;

	(void)state;
	assert_int_equal(nam_txn_run(me.worker, mine, increment, &twice, &sequence, &tries), 0);
	assert_int_equal(tries, 3);
	assert_true(sequence > 0);
	assert_int_equal(nam_txn_run(me.worker, mine, increment, &always, NULL, &tries),
		-NAM_E_CONFLICT);
	assert_int_equal(tries, NAM_TXN_TRIES_MAX);
}

static void
sweep__living_store__KEPT(void **state)
{
	struct nam_sweep_stat stat;

	(void)state;
	put(&me, mine, "kept", "1");
	assert_int_equal(nam_sweep(me.worker, false, &stat), 0);
	expect_text(&other, others, "kept", "1");
}

/* Last: memory is full from here on. */
static void
commit__no_memory__REMOTE_FULL(void **state)
{
	const struct nam_txn_store_options large = { .key_bytes_max = 16,
		.value_bytes_max = 4096, .records = 1 };
	struct nam_txn_store *store;
	struct nam_txn *txn;
	char key[17];
	int rc = 0;

	(void)state;
	assert_int_equal(nam_txn_store_create(me.worker, "large", &large), 0);
	assert_int_equal(nam_txn_store_open(me.worker, "large", 0, &store), 0);
	for (unsigned i = 0; i < 100000 && !rc; i++) {
		(void)snprintf(key, sizeof(key), "full%u", i);
		txn = begin(&me, store);
		write_text(txn, key, "x");
		rc = nam_txn_commit(txn, NULL);
	}
	assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	expect_text(&me, store, "full0", "x");
	nam_txn_store_close(store);
	assert_int_equal(nam_txn_store_drop(me.worker, "large"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(phases__each_by_rpc__as_one_sided),
		cmocka_unit_test(create__options_out_of_range__EINVAL),
		cmocka_unit_test(create__name_taken__INDEX_EXISTS),
		cmocka_unit_test(list__one_store__NAMED),
		cmocka_unit_test(open__absent_or_other_kind__NOINDEX_or_KIND),
		cmocka_unit_test(drop__open_handle__DROPPED),
		cmocka_unit_test(write__own_read__SEEN),
		cmocka_unit_test(insert__present__EXISTS),
		cmocka_unit_test(delete__absent__NOTFOUND),
		cmocka_unit_test(abort__writes__NO_EFFECT),
		cmocka_unit_test(read__limits__LIMIT),
		cmocka_unit_test(write__1500_times_as_many_records_as_expected__FOUND_BY_FEW_READS),
		cmocka_unit_test(commit__read_was_replaced__CONFLICT),
		cmocka_unit_test(commit__absent_key_was_inserted__CONFLICT),
		cmocka_unit_test(read__lock_of_a_living_client__EPOCH_RAISED),
		cmocka_unit_test(run__conflicts__BOUNDED),
		cmocka_unit_test(sweep__living_store__KEPT),
		cmocka_unit_test(commit__no_memory__REMOTE_FULL),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
