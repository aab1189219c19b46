/* SPDX-License-Identifier: Apache-2.0 */
/* scan_test.c -- scans of secondary indexes in serializable transactions of two clients. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/index_fixture.h"
#include "txn/serial/indexed.h"
#include "txn/sweep.h"
#include "serial_fixture.h"

#define MIB (1ull << 20)
#define SERVERS 2u
#define MANY 600u			/* more than a leaf has, and than a transaction writes */
#define ROWS NAM_TXN_RECORDS_MAX

/* A value: a city of 8 bytes, then a number as text.  Index 2: of keys that begin with b. */
static const struct nam_txn_store_options indexed = { .key_bytes_max = 16, .value_bytes_max = 64,
	.records = 1024, .indexes = { { 0, 8, 0 }, { 8, 8, 0 }, { 0, 8, 'b' } } };
static struct local_cluster *cluster;
static struct member me, other;
static struct nam_txn_store *mine, *others;
static struct nam_txn_row rows[ROWS];

static int
start(void **state)
{
	(void)state;
	cluster = local_cluster_start(SERVERS, 16 * MIB, 8 * MIB);
	me = member_join(cluster, "me", 5000);
	other = member_join(cluster, "other", 200);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	member_leave(&other);
	member_leave(&me);
	local_cluster_stop(cluster);
	return 0;
}

static int
make(void **state)
{
	(void)state;
	assert_int_equal(nam_txn_store_create(me.worker, "s", &indexed), 0);
	assert_int_equal(nam_txn_store_open(me.worker, "s", MIB, &mine), 0);
	assert_int_equal(nam_txn_store_open(other.worker, "s", 0, &others), 0);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	nam_txn_store_close(mine);
	nam_txn_store_close(others);
	assert_int_equal(nam_txn_store_drop(me.worker, "s"), 0);
	return 0;
}

static struct nam_range
of(const char *low, const char *high)
{
	return (struct nam_range){ .low = low, .high = high, .high_inclusive = true };
}

static uint32_t
scan(struct nam_txn *txn, uint32_t index, struct nam_range range, uint32_t capacity)
{
	uint32_t count = 0;

	assert_int_equal(nam_txn_scan(txn, index, &range, rows, capacity, &count), 0);
	return count;
}

/* Rows are these keys, with blanks between. */
static void
expect_rows(struct nam_txn *txn, uint32_t index, struct nam_range range, uint32_t capacity,
	const char *expected)
{
	uint32_t count = scan(txn, index, range, capacity);
	char text[200] = "";
	size_t at = 0;

	for (uint32_t i = 0; i < count && at < sizeof(text) - 20; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.*s", i ? " " : "",
			(int)rows[i].key_bytes, (const char *)rows[i].key);
	assert_string_equal(text, expected);
}

static void
expect_rows_alone(const struct member *who, struct nam_txn_store *store, struct nam_range range,
	const char *expected)
{
	struct nam_txn *txn = begin(who, store);

	expect_rows(txn, 0, range, ROWS, expected);
	commit(txn);
}

static void
cities(void)
{
	put(&me, mine, "ann", "berlin..00000001");
	put(&me, mine, "bob", "bremen..00000003");
	put(&me, mine, "cyd", "cologne.00000002");
	put(&me, mine, "dan", "short");
}

static uint64_t
entries_of(struct nam_txn_store *store)
{
	struct nam_index_stat stat;

	assert_int_equal(nam_index_stat(me.worker, store->indexes[0], &stat), 0);
	return stat.entries;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void
scan__ranges__ROWS_IN_ORDER(void **state)
{
	struct nam_range range = of("b.......", "bz......");
	struct nam_txn *txn;

	(void)state;
	cities();
	expect_rows_alone(&me, mine, range, "ann bob");
	expect_rows_alone(&other, others, of(NULL, NULL), "ann bob cyd");
	expect_rows_alone(&other, others, of("bremen..", "bremen.."), "bob");
	expect_rows_alone(&other, others, of("x.......", NULL), "");
	range.reverse = true;
	expect_rows_alone(&other, others, range, "bob ann");
	range = of(NULL, "bremen..");
	range.high_inclusive = false;
	expect_rows_alone(&other, others, range, "ann");
	txn = begin(&other, others);
	expect_rows(txn, 1, of(NULL, NULL), ROWS, "ann cyd bob");
	expect_rows(txn, 1, of(NULL, NULL), 2, "ann cyd");
	range = of(NULL, NULL);
	range.limit = 1;
	expect_rows(txn, 1, range, ROWS, "ann");
	assert_int_equal(rows[0].value_bytes, 16);
	assert_memory_equal(rows[0].value, "berlin..00000001", 16);
	commit(txn);
}

static void
scan__changed_and_deleted__ENTRIES_FOLLOW(void **state)
{
	struct nam_txn *txn;

	(void)state;
	cities();
	put(&other, others, "ann", "dresden.00000001");
	put(&other, others, "dan", "bremen..00000004");
	expect_rows_alone(&me, mine, of("b.......", "bz......"), "bob dan");
	expect_rows_alone(&me, mine, of("c.......", NULL), "cyd ann");
	txn = begin(&me, mine);
	assert_int_equal(nam_txn_delete(txn, "bob", 3), 0);
	commit(txn);
	put(&me, mine, "dan", "short");
	expect_rows_alone(&other, others, of(NULL, NULL), "cyd ann");
}

static void
scan__own_writes__SEEN(void **state)
{
	struct nam_txn *txn;

	(void)state;
	cities();
	txn = begin(&me, mine);
	write_text(txn, "ann", "zurich..00000001");
	write_text(txn, "eve", "bonn....00000009");
	assert_int_equal(nam_txn_delete(txn, "cyd", 3), 0);
	expect_rows(txn, 0, of(NULL, NULL), ROWS, "eve bob ann");
	expect_rows(txn, 0, of(NULL, NULL), 2, "eve bob");
	write_text(txn, "bob", "aachen..00000003");
	expect_rows(txn, 0, of(NULL, NULL), ROWS, "bob eve ann");
	expect_rows(txn, 1, of(NULL, NULL), 2, "ann bob");
	commit(txn);
	expect_rows_alone(&other, others, of(NULL, NULL), "bob eve ann");
}

/* The scan comes to a record that the transaction has locked itself. */
static void
scan__own_early_lock__SEEN(void **state)
{
	struct nam_txn_get get = { .key = "bob", .key_bytes = 3, .update = true };
	struct nam_txn *txn;

	(void)state;
	cities();
	assert_int_equal(nam_txn_store_phases_set(me.worker, mine, NAM_TXN_FASST), 0);
	txn = begin(&me, mine);
	assert_int_equal(nam_txn_read_all(txn, &get, 1), 0);
	expect_rows(txn, 0, of("b.......", "c......."), ROWS, "ann bob");
	write_text(txn, "bob", "bonn....00000003");
	expect_rows(txn, 0, of("b.......", "c......."), ROWS, "ann bob");
	commit(txn);
	expect_rows_alone(&me, mine, of("bo......", "bp......"), "bob");
	/* Nor is it in the way of the transaction that has locked it and writes nothing. */
	txn = begin(&me, mine);
	assert_int_equal(nam_txn_read_all(txn, &get, 1), 0);
	expect_rows(txn, 0, of("b.......", "c......."), ROWS, "ann bob");
	commit(txn);
}

static void
scan__index_of_some_keys__THEIR_ROWS(void **state)
{
	struct nam_txn *txn;

	(void)state;
	cities();
	put(&other, others, "ben", "aachen..00000005");
	txn = begin(&other, others);
	expect_rows(txn, 2, of(NULL, NULL), ROWS, "ben bob");
	write_text(txn, "ann", "bonn....00000009");
	write_text(txn, "bea", "bonn....00000009");
	expect_rows(txn, 2, of(NULL, NULL), ROWS, "ben bea bob");
	commit(txn);
	txn = begin(&me, mine);
	expect_rows(txn, 2, of(NULL, NULL), ROWS, "ben bea bob");
	commit(txn);
	assert_int_equal(nam_txn_store_properties(mine)->indexes[2].key_first, 'b');
}

static void
abort__entries__NOT_THERE(void **state)
{
	struct nam_txn *txn;

	(void)state;
	cities();
	txn = begin(&me, mine);
	write_text(txn, "eve", "bonn....00000009");
	nam_txn_abort(txn);
	expect_rows_alone(&other, others, of("bonn....", "bonn...."), "");
}

static void
scan__many_leaves__ALL(void **state)
{
	uint32_t number = 0, seen = 0;
	char low[9] = "c0000000";

	(void)state;
	while (number < MANY) {
		struct nam_txn *txn = begin(&me, mine);

		for (uint32_t end = number + 100; number < end; number++) {
			char key[16], text[32];

			(void)snprintf(key, sizeof(key), "k%u", number % 1000);
			(void)snprintf(text, sizeof(text), "c%07u", number % 1000);
			write_text(txn, key, text);
		}
		commit(txn);
	}
	while (seen < MANY) {
		struct nam_txn *txn = begin(&other, others);
		uint32_t count = scan(txn, 0, of(low, NULL), 100);

		assert_int_equal(count, MANY - seen < 100 ? MANY - seen : 100);
		for (uint32_t i = 0; i < count; i++) {
			(void)snprintf(low, sizeof(low), "c%07u", (seen + i) % 1000);
			assert_memory_equal(rows[i].value, low, 8);
		}
		seen += count;
		(void)snprintf(low, sizeof(low), "c%07u", seen % 1000);
		commit(txn);
	}
}

/* ---- phantoms -------------------------------------------------------------------------------- */

static void
commit__phantom__CONFLICT(void **state)
{
	struct nam_txn *txn;

	(void)state;
	cities();
	txn = begin(&me, mine);
	expect_rows(txn, 0, of("bonn....", "bonn...."), ROWS, "");
	put(&other, others, "eve", "bonn....00000009");
	write_text(txn, "fay", "x");
	assert_int_equal(nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	/* One that only reads, too. */
	txn = begin(&me, mine);
	expect_rows(txn, 0, of("bonn....", "bonn...."), ROWS, "eve");
	put(&other, others, "gus", "bonn....00000009");
	assert_int_equal(nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
}

static void
commit__a_row_went__CONFLICT(void **state)
{
	struct nam_txn *txn;

	(void)state;
	cities();
	txn = begin(&me, mine);
	expect_rows(txn, 0, of("bremen..", "bremen.."), ROWS, "bob");
	put(&other, others, "bob", "cologne.00000009");
	assert_int_equal(nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
}

/* Its insertion changes the leaf that it has scanned. */
static void
commit__own_insertion_in_scanned_leaf__COMMITS(void **state)
{
	struct nam_txn *txn;

	(void)state;
	cities();
	txn = begin(&me, mine);
	expect_rows(txn, 0, of("bonn....", "bonn...."), ROWS, "");
	write_text(txn, "eve", "bonn....00000009");
	write_text(txn, "bob", "bonn...z00000009");
	commit(txn);
	expect_rows_alone(&other, others, of(NULL, NULL), "ann eve bob cyd");
	txn = begin(&me, mine);
	expect_rows(txn, 0, of("bonn....", "bonn...z"), ROWS, "eve bob");
	put(&other, others, "gus", "bonn...a00000009");
	write_text(txn, "hal", "bonn...b00000009");
	assert_int_equal(nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	/* The entry of the aborted one is gone. */
	expect_rows_alone(&other, others, of("bonn....", "bonn...z"), "eve gus bob");
	assert_int_equal(entries_of(mine), 5);
}

/* ---- entries of the dead --------------------------------------------------------------------- */

static void
scan__stray_entry__REMOVED(void **state)
{
	struct nam_txn *txn;
	uint64_t at;

	(void)state;
	cities();
	txn = begin(&me, mine);
	expect_rows(txn, 0, of("bremen..", "bremen.."), ROWS, "bob");
	at = txn->items[0].at.raw;
	commit(txn);
	assert_int_equal(nam_index_insert(me.worker, mine->indexes[0], "bochum..", at), 0);
	assert_int_equal(entries_of(mine), 4);
	expect_rows_alone(&me, mine, of(NULL, NULL), "ann bob cyd");
	assert_int_equal(entries_of(mine), 3);
}

/* The transaction gives the record the key of the stray entry, as its dead writer wanted. */
static void
scan__stray_entry_that_a_write_needs__KEPT(void **state)
{
	struct nam_txn *txn;
	uint64_t at;

	(void)state;
	cities();
	txn = begin(&me, mine);
	expect_rows(txn, 0, of("bremen..", "bremen.."), ROWS, "bob");
	at = txn->items[0].at.raw;
	commit(txn);
	assert_int_equal(nam_index_insert(me.worker, mine->indexes[0], "bochum..", at), 0);
	txn = begin(&me, mine);
	expect_rows(txn, 0, of("bochum..", "bochum.."), ROWS, "");
	write_text(txn, "bob", "bochum..00000002");
	commit(txn);
	assert_int_equal(entries_of(mine), 3);
	expect_rows_alone(&other, others, of("bochum..", "bochum.."), "bob");
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void
create__index_out_of_range__EINVAL(void **state)
{
	const struct nam_txn_index bad[] = { { 0, 7, 0 }, { 0, 65, 0 }, { 57, 8, 0 },
		{ UINT32_MAX, 8, 0 } };
	struct nam_txn_store_options options = indexed;
	struct nam_index_options plain;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		options.indexes[1] = bad[i];
		assert_int_equal(nam_txn_store_create(me.worker, "bad", &options), -EINVAL);
	}
	assert_int_equal(nam_txn_store_create(me.worker, "a-name-of-fifty-seven-bytes-which-is-"
		"one-too-many-with-an", &indexed), -EINVAL);
	nam_index_options_init(&plain);
	assert_int_equal(nam_index_create(me.worker, "t.index1", &plain), 0);
	assert_int_equal(nam_txn_store_create(me.worker, "t", &indexed), -NAM_E_INDEX_EXISTS);
	assert_int_equal(nam_index_drop(me.worker, "t.index1"), 0);
	assert_int_equal(nam_txn_store_create(me.worker, "t", &indexed), 0);
	assert_int_equal(nam_txn_store_drop(me.worker, "t"), 0);
}

static void
scan__out_of_range__EINVAL(void **state)
{
	const struct nam_range all = of(NULL, NULL), inverse = of("b.......", "a.......");
	struct nam_txn *txn = begin(&me, mine);
	uint32_t count = 7;

	(void)state;
	assert_int_equal(nam_txn_scan(txn, 3, &all, rows, ROWS, &count), -EINVAL);
	assert_int_equal(nam_txn_scan(txn, 0, &all, rows, 0, &count), -EINVAL);
	assert_int_equal(nam_txn_scan(txn, 0, &inverse, rows, ROWS, &count), -EINVAL);
	assert_int_equal(count, 7);
	expect_rows(txn, 0, all, ROWS, "");
	commit(txn);
}

static void
scan__limits__LIMIT(void **state)
{
	const struct nam_range all = of(NULL, NULL);
	struct nam_txn *txn;
	uint32_t count = 7;

	scan__many_leaves__ALL(state);
	txn = begin(&me, mine);
	assert_int_equal(scan(txn, 0, all, ROWS), ROWS);
	assert_int_equal(nam_txn_scan(txn, 0, &(struct nam_range){ .low = "c0000300" }, rows, 1,
		&count), -NAM_E_LIMIT);
	assert_int_equal(count, 7);
	assert_int_equal(nam_txn_commit(txn, NULL), -NAM_E_LIMIT);
}

static void
scan__dropped__DROPPED(void **state)
{
	const struct nam_range all = of(NULL, NULL);
	struct nam_txn_store *old;
	struct nam_txn *txn;
	uint32_t count;

	(void)state;
	assert_int_equal(nam_txn_store_create(me.worker, "d", &indexed), 0);
	assert_int_equal(nam_txn_store_open(other.worker, "d", 0, &old), 0);
	put(&other, old, "eve", "bonn....00000009");
	assert_int_equal(nam_txn_store_drop(me.worker, "d"), 0);
	txn = begin(&other, old);
	assert_int_equal(nam_txn_scan(txn, 0, &all, rows, ROWS, &count), -NAM_E_DROPPED);
	nam_txn_abort(txn);
	nam_txn_store_close(old);
}

static void
sweep__indexed_store__KEPT(void **state)
{
	struct nam_sweep_stat stat;

	(void)state;
	cities();
	assert_int_equal(nam_sweep(me.worker, false, &stat), 0);
	expect_rows_alone(&other, others, of(NULL, NULL), "ann bob cyd");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(scan__ranges__ROWS_IN_ORDER, make, drop),
		cmocka_unit_test_setup_teardown(scan__changed_and_deleted__ENTRIES_FOLLOW, make,
			drop),
		cmocka_unit_test_setup_teardown(scan__own_writes__SEEN, make, drop),
		cmocka_unit_test_setup_teardown(scan__own_early_lock__SEEN, make, drop),
		cmocka_unit_test_setup_teardown(scan__index_of_some_keys__THEIR_ROWS, make, drop),
		cmocka_unit_test_setup_teardown(abort__entries__NOT_THERE, make, drop),
		cmocka_unit_test_setup_teardown(scan__many_leaves__ALL, make, drop),
		cmocka_unit_test_setup_teardown(commit__phantom__CONFLICT, make, drop),
		cmocka_unit_test_setup_teardown(commit__a_row_went__CONFLICT, make, drop),
		cmocka_unit_test_setup_teardown(commit__own_insertion_in_scanned_leaf__COMMITS,
			make, drop),
		cmocka_unit_test_setup_teardown(scan__stray_entry__REMOVED, make, drop),
		cmocka_unit_test_setup_teardown(scan__stray_entry_that_a_write_needs__KEPT, make,
			drop),
		cmocka_unit_test(create__index_out_of_range__EINVAL),
		cmocka_unit_test_setup_teardown(scan__out_of_range__EINVAL, make, drop),
		cmocka_unit_test_setup_teardown(scan__limits__LIMIT, make, drop),
		cmocka_unit_test(scan__dropped__DROPPED),
		cmocka_unit_test_setup_teardown(sweep__indexed_store__KEPT, make, drop),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
