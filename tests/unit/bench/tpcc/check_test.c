/* SPDX-License-Identifier: Apache-2.0 */
/* check_test.c -- TPC-C's transactions keep the database consistent, and its check can fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/load/check.h"
#include "bench/tpcc/tpcc.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define WAREHOUSES 2u
#define CUSTOMERS 20u			/* and orders of a district, 6 of which are new */
#define FIBERS 4u
#define TRANSACTIONS 150u		/* of each fiber */
#define UNITS (WAREHOUSES * TPCC_DISTRICTS)

TEST_CLUSTER(2, 64 * MIB, 32 * MIB, 5000)

static struct tpcc tpcc;
static struct nam_txn_store *store;
static struct tpcc_room rooms[FIBERS];
static int failed;

static void
rooms_init(void)
{
	memset(rooms, 0, sizeof(rooms));
	for (unsigned i = 0; i < FIBERS; i++) {
		rooms[i].rows.worker = me.worker;
		rooms[i].rows.store = store;
		rooms[i].tpcc = &tpcc;
	}
}

static int
make(void **state)
{
	struct nam_txn_store_options options;

	(void)state;
	memset(&tpcc, 0, sizeof(tpcc));
	tpcc.scale = (struct tpcc_scale){ WAREHOUSES, 30, CUSTOMERS, true };
	tpcc.remote_percent = 20;
	tpcc.items = calloc(tpcc.scale.items, sizeof(*tpcc.items));
	tpcc.oldest = calloc(UNITS, sizeof(*tpcc.oldest));
	tpcc.paid_there = calloc(UNITS, sizeof(*tpcc.paid_there));
	tpcc.paid_by = calloc((size_t)UNITS * CUSTOMERS, sizeof(*tpcc.paid_by));
	nam_txn_store_options_init(&options);
	options.key_bytes_max = ROWS_KEY_BYTES;
	tpcc_store_options(&tpcc, &options);
	assert_int_equal(nam_txn_store_create(me.worker, "tpcc", &options), 0);
	assert_int_equal(nam_txn_store_open(me.worker, "tpcc", MIB, &store), 0);
	rooms_init();
	for (uint32_t i = 0; i < UNITS; i++)
		assert_int_equal(tpcc_load(&rooms[0], i), 0);
	for (uint32_t i = 0; i < UNITS; i++)
		assert_int_equal(tpcc_warm(&rooms[0], i, true), 0);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	nam_txn_store_close(store);
	assert_int_equal(nam_txn_store_drop(me.worker, "tpcc"), 0);
	free(tpcc.items);
	free(tpcc.oldest);
	free(tpcc.paid_there);
	free(tpcc.paid_by);
	return 0;
}

/* The conditions that are violated, a bit of each. */
static unsigned
violated(uint32_t payments)
{
	memset(tpcc.paid_there, 0, UNITS * sizeof(*tpcc.paid_there));
	memset(tpcc.paid_by, 0, (size_t)UNITS * CUSTOMERS * sizeof(*tpcc.paid_by));
	tpcc.ordered = tpcc.undelivered = 0;
	tpcc.violated = 0;
	rooms_init();
	for (uint32_t i = 0; i < UNITS; i++)
		assert_int_equal(tpcc_check_loaded(&rooms[0], i), 0);
	assert_int_equal(tpcc_check_paid(&rooms[0], 0, 0, payments, true), 0);
	for (uint32_t i = 0; i < UNITS; i++)
		assert_int_equal(tpcc_check_district(&rooms[0], i), 0);
	tpcc_check_all(&tpcc);
	return tpcc.violated;
}

/* ---- violations ------------------------------------------------------------------------------ */

/* Add 1 to a byte of a row; or, at SIZE_MAX, delete it.  Expect that, and put it back. */
static void
plant(uint64_t key, uint32_t bytes, size_t at, unsigned expected)
{
	uint8_t row[ROWS_BYTES_MAX], other[ROWS_BYTES_MAX];
	struct nam_txn *txn;
	uint32_t length = 0;
	uint64_t wrong;

	assert_int_equal(nam_txn_begin(me.worker, store, &txn), 0);
	assert_int_equal(nam_txn_read(txn, &key, sizeof(key), row, sizeof(row), &length), 0);
	assert_int_equal(length, bytes);
	memcpy(other, row, sizeof(row));
	if (at == SIZE_MAX)
		assert_int_equal(nam_txn_delete(txn, &key, sizeof(key)), 0);
	else
		other[at]++;
	if (at != SIZE_MAX)
		assert_int_equal(rows_write(txn, key, other, bytes), 0);
	assert_int_equal(nam_txn_commit(txn, NULL), 0);
	wrong = findings_total();
	assert_int_equal(violated(0), expected);
	assert_true(findings_total() > wrong);
	assert_int_equal(findings_exit_code(), NAM_EXIT_NO);
	assert_int_equal(nam_txn_begin(me.worker, store, &txn), 0);
	assert_int_equal(rows_write(txn, key, row, bytes), 0);
	assert_int_equal(nam_txn_commit(txn, NULL), 0);
}

#define PLANT(key, type, field, expected)                                                           \
	plant(key, sizeof(struct type), offsetof(struct type, field), expected)
#define PLANT_GONE(key, type, expected) plant(key, sizeof(struct type), SIZE_MAX, expected)
#define C(condition) (1u << (condition))

static void
check__violations__NAMED(void **state)
{
	(void)state;
	assert_int_equal(violated(0), 0);
	PLANT(tpcc_key(TPCC_WAREHOUSE, 2, 0, 0), tpcc_warehouse, ytd, C(1) | C(8));
	PLANT(tpcc_key(TPCC_DISTRICT, 1, 3, 0), tpcc_district, ytd, C(1) | C(9));
	PLANT(tpcc_key(TPCC_DISTRICT, 1, 3, 0), tpcc_district, next_order, C(2));
	PLANT_GONE(tpcc_key(TPCC_NEW_ORDER, 1, 1, CUSTOMERS), tpcc_new_order, C(2) | C(5) | C(11));
	PLANT_GONE(tpcc_key(TPCC_NEW_ORDER, 1, 1, CUSTOMERS - 2), tpcc_new_order,
		C(3) | C(5) | C(11));
	PLANT_GONE(tpcc_line_key(1, 10, 5, 2), tpcc_order_line, C(4) | C(6));
	PLANT(tpcc_key(TPCC_ORDER, 2, 4, 6), tpcc_order, lines, C(4) | C(6));
	PLANT(tpcc_key(TPCC_ORDER, 2, 4, CUSTOMERS), tpcc_order, carrier, C(5) | C(7));
	PLANT(tpcc_line_key(2, 4, CUSTOMERS, 1), tpcc_order_line, delivery_date,
		C(7) | C(10) | C(12));
	PLANT(tpcc_key(TPCC_HISTORY, 1, 7, 7), tpcc_history, amount, C(8) | C(9) | C(10));
	PLANT(tpcc_key(TPCC_CUSTOMER, 1, 7, 7), tpcc_customer, balance, C(10) | C(12));
	PLANT(tpcc_key(TPCC_CUSTOMER, 1, 7, 7), tpcc_customer, ytd_payment, C(12));
	tpcc.deliveries++;
	assert_int_equal(violated(0), C(11));
	tpcc.deliveries--;
	assert_int_equal(violated(0), 0);
}

/* ---- transactions ---------------------------------------------------------------------------- */

static uint32_t payments, kinds[TPCC_KINDS], rolled_back, conflicts;

static void
fiber_main(void *arg)
{
	struct tpcc_room *room = arg;
	struct nam_rng rng = nam_rng_seed((uint64_t)(room - rooms));

	for (unsigned i = 0; i < TRANSACTIONS && !failed; i++) {
		room->w = 1 + i % WAREHOUSES;
		room->rows.kind = i % TPCC_KINDS;
		tpcc_draw(room, &rng);
		room->history_key = tpcc_history_key(0, payments);
		payments += room->rows.kind == TPCC_PAYMENTS;
		failed = tpcc_run(room); /* SUSPENDS */
		if (room->rows.missing)
			failed = -NAM_E_NOTFOUND;
		kinds[room->rows.kind]++;
		rolled_back += room->rows.rolled_back;
		conflicts += room->rows.conflicts;
	}
}

static void
run__all_kinds_at_once__CONSISTENT(void **state)
{
	uint64_t delivered = tpcc.deliveries;

	(void)state;
	failed = 0;
	for (unsigned i = 0; i < FIBERS; i++)
		assert_int_equal(nam_worker_spawn(me.worker, fiber_main, &rooms[i]), 0);
	nam_worker_run(me.worker);
	assert_int_equal(failed, 0);
	for (unsigned i = 0; i < TPCC_KINDS; i++)
		assert_int_equal(kinds[i], FIBERS * TRANSACTIONS / TPCC_KINDS);
	assert_true(conflicts > 0);
	assert_true(tpcc.deliveries > delivered);
	assert_int_equal(violated(payments), 0);
	assert_int_equal(tpcc.ordered, UNITS * CUSTOMERS + kinds[TPCC_NEW_ORDERS] - rolled_back);
}

/* The last item is none. */
static void
new_order__unused_item__ROLLED_BACK(void **state)
{
	struct tpcc_room *room = &rooms[0];
	struct nam_rng rng = nam_rng_seed(1);

	(void)state;
	room->w = 1;
	room->rows.kind = TPCC_NEW_ORDERS;
	tpcc_draw(room, &rng);
	room->lines[room->lines_count - 1].item = tpcc.scale.items + 1;
	assert_int_equal(tpcc_run(room), 0);
	assert_true(room->rows.rolled_back);
	assert_int_equal(violated(0), 0);
	assert_int_equal(tpcc.ordered, UNITS * CUSTOMERS);
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void
last_name__numbers__SYLLABLES(void **state)
{
	char last[TPCC_LAST_BYTES];

	(void)state;
	tpcc_last_name(371, last);
	assert_string_equal(last, "PRICALLYOUGHT");
	tpcc_last_name(0, last);
	assert_string_equal(last, "BARBARBAR");
}

static void
draw__distributed__ANOTHER_WAREHOUSE_IN_EACH(void **state)
{
	struct nam_rng rng = nam_rng_seed(1);
	struct tpcc_room *room = &rooms[0];
	unsigned unused = 0;

	(void)state;
	rooms_init();
	tpcc = (struct tpcc){ .scale = { 5, 100, 30, false }, .distributed = true };
	room->w = 5;
	for (unsigned i = 0; i < 10000; i++) {
		unsigned remotes = 0;

		tpcc_draw(room, &rng);
		assert_in_range(room->lines_count, TPCC_LINES_MIN, TPCC_LINES_MAX);
		assert_in_range(room->c, 1, 30);
		for (uint32_t k = 0; k < room->lines_count; k++) {
			assert_in_range(room->lines[k].supply_w, 1, 5);
			assert_in_range(room->lines[k].item, 1, 101);
			remotes += room->lines[k].supply_w != room->w;
			unused += room->lines[k].item == 101;
		}
		assert_int_equal(remotes, 1);
	}
	assert_in_range(unused, 50, 150);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(check__violations__NAMED, make, drop),
		cmocka_unit_test_setup_teardown(run__all_kinds_at_once__CONSISTENT, make, drop),
		cmocka_unit_test_setup_teardown(new_order__unused_item__ROLLED_BACK, make, drop),
		cmocka_unit_test(last_name__numbers__SYLLABLES),
		cmocka_unit_test(draw__distributed__ANOTHER_WAREHOUSE_IN_EACH),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
