/* SPDX-License-Identifier: Apache-2.0 */
/* trouble_test.c -- what tables do where it is least convenient. */
#include <errno.h>
#include <stdatomic.h>
#include "common/env.h"
#include "compute/remote/epoch.h"
#include "table_fixture.h"
#include "txn/sweep.h"

static const struct nam_table_schema schema = {
	.columns = { "name", "place" }, .columns_count = 2,
	.indexes = { { 1, 4 } }, .indexes_count = 1,
};

static void
put(struct nam_table *table, const char *key, const char *place)
{
	struct nam_bytes columns[2] = { bytes_of(key), bytes_of(place) };

	if (nam_table_put(me.worker, table, bytes_of(key), columns))
		fail_msg("put: %s", nam_worker_diag(me.worker));
}

/* Rows whose values begin alike: the first ones are not those whose versions lie lowest. */
static void
scan__limit_among_values_that_begin_alike__THE_FIRST(void **state)
{
	struct nam_table_range range = { .column = 1, .limit = 3 };
	struct nam_table *table;

	(void)state;
	assert_int_equal(nam_table_create(me.worker, "alike", &schema), 0);
	table = table_open(&me, "alike");
	for (unsigned i = 0; i < 20; i++) {
		char key[16], place[24];

		(void)snprintf(key, sizeof(key), "%02u", 19 - i);
		(void)snprintf(place, sizeof(place), "place%02u", 19 - i);
		put(table, key, place);
	}
	assert_string_equal(keys_found(&me, table, &range), "00 01 02 ");
	nam_table_close(me.worker, table);
	assert_int_equal(nam_table_drop(me.worker, "alike"), 0);
}

static void
scan__limit_among_equal_values__THE_FIRST_KEYS(void **state)
{
	struct nam_table_range range = { .column = 1, .limit = 3 };
	struct nam_table *table;

	(void)state;
	assert_int_equal(nam_table_create(me.worker, "equal", &schema), 0);
	table = table_open(&me, "equal");
	for (unsigned i = 0; i < 20; i++) {
		char key[16];

		(void)snprintf(key, sizeof(key), "%02u", 19 - i);
		put(table, key, "x");
	}
	assert_string_equal(keys_found(&me, table, &range), "00 01 02 ");
	nam_table_close(me.worker, table);
	assert_int_equal(nam_table_drop(me.worker, "equal"), 0);
}

/* Each row of the range was written with 31 that are none. */
static void
scan__many_siblings_outside_of_the_range__ROWS(void **state)
{
	struct nam_table_range range = { .column = 1, .low = { "in", 2 }, .high = { "in", 2 } };
	struct nam_table_write writes[32];
	struct nam_bytes columns[32][2];
	char keys[32][16];
	struct nam_table *table;
	unsigned count = (unsigned)test_scaled_least(400, 100);
	int rc;

	(void)state;
	assert_int_equal(nam_table_create(me.worker, "many", &schema), 0);
	table = table_open(&me, "many");
	for (unsigned i = 0; i < count; i++) {
		for (unsigned k = 0; k < 32; k++) {
			(void)snprintf(keys[k], sizeof(keys[k]), "%u.%u", i, k);
			columns[k][0] = bytes_of(keys[k]);
			columns[k][1] = bytes_of(k ? "out" : "in");
			writes[k] = (struct nam_table_write){ table, bytes_of(keys[k]),
				columns[k] };
		}
		if (nam_table_write(me.worker, writes, 32, NULL))
			fail_msg("write: %s", nam_worker_diag(me.worker));
	}
	rc = nam_table_scan(me.worker, table, &range, rows);
	if (rc)
		fail_msg("scan: %s", nam_err_name(rc));
	assert_int_equal(nam_table_rows_count(rows), count);
	nam_table_close(me.worker, table);
	assert_int_equal(nam_table_drop(me.worker, "many"), 0);
}

/* Replaced versions of another store's tables are not waited for. */
static void
close__another_store_has_something_left__AT_ONCE(void **state)
{
	struct nam_table *a, *b;
	uint64_t least_ns = UINT64_MAX;

	(void)state;
	assert_int_equal(nam_table_create(me.worker, "a", &schema), 0);
	assert_int_equal(nam_table_create(me.worker, "b", &schema), 0);
	a = table_open(&me, "a");
	b = table_open(&me, "b");
	put(b, "k", "x");
	put(b, "k", "y");
	put(a, "k", "x");
	/* Each wait for it takes two seconds; on a slow machine not always. */
	for (unsigned i = 0; i < 4 && least_ns >= 1500000000; i++) {
		uint64_t since_ns = nam_now_ns(), took_ns;

		put(a, "k", "y");
		assert_int_equal(nam_table_vacuum(me.worker, a), 0);
		took_ns = nam_now_ns() - since_ns;
		least_ns = took_ns < least_ns ? took_ns : least_ns;
	}
	assert_in_range(least_ns, 0, 1500000000);
	nam_table_close(me.worker, a);
	nam_table_close(me.worker, b);
	assert_int_equal(nam_table_drop(me.worker, "a"), 0);
	assert_int_equal(nam_table_drop(me.worker, "b"), 0);
}

/* A leaked handle of a table that was dropped and made anew. */
static void
open__made_anew_while_an_old_handle_is_open__THE_NEW_ONE(void **state)
{
	struct nam_table_get get = { .key = { "k", 1 } };
	struct nam_table *old, *table;
	struct member other = member_join(cluster, "other", 5000);

	(void)state;
	assert_int_equal(nam_table_create(me.worker, "anew", &schema), 0);
	old = table_open(&me, "anew");
	put(old, "k", "old");
	assert_int_equal(nam_table_drop(other.worker, "anew"), 0);
	assert_int_equal(nam_table_create(other.worker, "anew", &schema), 0);
	table = table_open(&me, "anew");
	put(table, "k", "new");
	get.table = table_open(&other, "anew");
	assert_int_equal(nam_table_read(other.worker, &get, 1, rows), 0);
	assert_non_null(get.columns);
	assert_memory_equal(get.columns[1].data, "new", 3);
	nam_table_close(other.worker, get.table);
	nam_table_close(me.worker, table);
	nam_table_close(me.worker, old);
	assert_int_equal(nam_table_drop(me.worker, "anew"), 0);
	member_leave(&other);
}

/* The store of a table is its own. */
static void
create__in_a_store_that_is_another_tables_own__REFUSED(void **state)
{
	struct nam_table_schema guest = schema;

	(void)state;
	assert_int_equal(nam_table_create(me.worker, "host", &schema), 0);
	guest.store = "host.rows";
	assert_int_equal(nam_table_create(me.worker, "guest", &guest), -EINVAL);
	member_says(&me, "a table's own record store");
	assert_int_equal(nam_table_drop(me.worker, "host"), 0);
}

/* ---- limits, no room ------------------------------------------------------------------------- */

/* 32 rows of 16 indexes, keys of 247 bytes, columns without a byte and longer than the index. */
static void
write__as_much_as_there_may_be__ROWS(void **state)
{
	struct nam_table_schema wide = { .columns_count = 32, .indexes_count = 16 };
	static char names[32][28], keys[32][NAM_TABLE_KEY_BYTES_MAX], value[100];
	struct nam_table_write writes[32];
	struct nam_bytes columns[32];
	struct nam_table_get gets[32];
	struct nam_table_stat stat;
	struct nam_table_range range = { .gets = gets, .gets_count = 32 };
	struct nam_table *table;
	uint64_t violations;

	(void)state;
	memset(value, 0xff, sizeof(value));
	for (unsigned i = 0; i < 32; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "column-with-a-long-name--%02u", i % 32);
		wide.columns[i] = names[i];
		memset(keys[i], 0xff, sizeof(keys[i]));
		keys[i][246] = (char)i;
		columns[i] = (struct nam_bytes){ value, i % 2 ? 0 : sizeof(value) };
	}
	for (unsigned i = 0; i < 16; i++)
		wide.indexes[i] = (struct nam_table_index){ i, 56 };
	assert_int_equal(nam_table_create(me.worker, "wide", &wide), 0);
	table = table_open(&me, "wide");
	for (unsigned i = 0; i < 32; i++) {
		writes[i] = (struct nam_table_write){ table, { keys[i], 247 }, columns };
		gets[i] = (struct nam_table_get){ .table = table, .key = { keys[i], 247 } };
	}
	for (unsigned n = 0; n < 40; n++)
		if (nam_table_write(me.worker, writes, 32, NULL))
			fail_msg("write: %s", nam_worker_diag(me.worker));
	for (unsigned i = 0; i < 16; i++) {
		range.column = i;
		range.low = range.high = columns[i];
		assert_int_equal(nam_table_scan(me.worker, table, &range, rows), 0);
		assert_int_equal(nam_table_rows_count(rows), 32);
		for (unsigned k = 0; k < 32; k++) {
			assert_memory_equal(nam_table_rows_at(rows, k)->key.data, keys[k], 247);
			assert_non_null(gets[k].columns);
		}
	}
	assert_int_equal(nam_table_vacuum(me.worker, table), 0);
	assert_int_equal(nam_table_verify(me.worker, table, NULL, NULL, &stat, &violations), 0);
	assert_int_equal(violations, 0);
	assert_int_equal(stat.stale, 0);
	assert_int_equal(stat.entries, 32 * 16);
	nam_table_close(me.worker, table);
	assert_int_equal(nam_table_drop(me.worker, "wide"), 0);
}

/* Until there is no room; then nothing is left of what failed, and deletes make room for writes. */
static void
write__no_room__NOTHING_IS_LEFT_AND_DELETES_MAKE_ROOM(void **state)
{
	static uint8_t large[900000];
	struct nam_bytes columns[2] = { { large, sizeof(large) }, { "in", 2 } };
	struct nam_table_write writes[8];
	struct nam_table_stat stat;
	char keys[8][16];
	struct nam_table *table;
	uint64_t violations, before = nam_client_blocks_lost(me.client);
	unsigned written = 0, n;
	int rc = 0;

	(void)state;
	assert_int_equal(nam_table_create(me.worker, "full", &schema), 0);
	table = table_open(&me, "full");
	for (n = 0; n < 100 && !rc; n++) {
		for (unsigned k = 0; k < 8; k++) {
			(void)snprintf(keys[k], sizeof(keys[k]), "%u.%u", n, k);
			writes[k] = (struct nam_table_write){ table, bytes_of(keys[k]), columns };
		}
		rc = nam_table_write(me.worker, writes, 8, NULL);
		written += rc ? 0 : 8;
	}
	print_message("%u rows, then %s: %s\n", written, nam_err_name(rc),
		nam_worker_diag(me.worker));
	assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	assert_int_equal(nam_table_verify(me.worker, table, NULL, NULL, &stat, &violations), 0);
	assert_int_equal(stat.rows, written);
	assert_int_equal(stat.entries, written);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < written; i++) {
			(void)snprintf(keys[0], sizeof(keys[0]), "%u.%u", i / 8, i % 8);
			rc = nam_table_delete(me.worker, table, bytes_of(keys[0]));
			if (rc)
				fail_msg("delete %u: %s", i, nam_worker_diag(me.worker));
			rc = nam_table_put(me.worker, table, bytes_of(keys[0]), columns);
			if (rc)
				fail_msg("put %u of round %u: %s %s", i, round, nam_err_name(rc),
					nam_worker_diag(me.worker));
		}
	}
	assert_int_equal(nam_table_vacuum(me.worker, table), 0);
	assert_int_equal(nam_table_verify(me.worker, table, NULL, NULL, &stat, &violations), 0);
	assert_int_equal(stat.rows, written);
	assert_int_equal(stat.stale, 0);
	assert_int_equal(violations, 0);
	assert_int_equal(nam_client_blocks_lost(me.client) - before, 0);
	nam_table_close(me.worker, table);
	assert_int_equal(nam_table_drop(me.worker, "full"), 0);
}

/* Another client is in an operation all the while, so that nothing can be done before the end. */
static void
vacuum__another_client_looks__AS_LONG_AS_timeout_ms(void **state)
{
	struct member other = member_join(cluster, "other", 5000);
	uint32_t timeout_ms = me.client->options.timeout_ms;
	struct nam_table *table;
	uint64_t since;

	(void)state;
	assert_int_equal(nam_table_create(me.worker, "slow", &schema), 0);
	table = table_open(&me, "slow");
	put(table, "k", "a");
	nam__op_begin(other.worker, NAM_OP_SCAN);
	put(table, "k", "b");
	me.client->options.timeout_ms = 2500;
	since = nam_now_ns();
	assert_int_equal(nam_table_vacuum(me.worker, table), 0);
	assert_true(nam_now_ns() - since >= 2500 * 1000000ull);
	nam__op_end(other.worker);
	me.client->options.timeout_ms = timeout_ms;
	nam_table_close(me.worker, table);
	assert_int_equal(nam_table_drop(me.worker, "slow"), 0);
	member_leave(&other);
}

/* ---- several at once ------------------------------------------------------------------------- */

#define FIBERS 8u
#define KEYS 8u

static struct nam_table *crowd_table;
static unsigned crowd_writes;
static _Atomic unsigned crowd_failed;

static void
crowd_writer(void *arg)
{
	struct nam_worker *worker = arg;
	struct nam_bytes columns[2] = { { "n", 1 }, { "0", 1 } };
	static _Atomic unsigned number;
	char keys[KEYS][4];

	for (unsigned i = 0; i < crowd_writes; i++) {
		struct nam_table_write writes[KEYS];
		unsigned n = atomic_fetch_add(&number, 1), from = n % KEYS;
		char value[16];

		(void)snprintf(value, sizeof(value), "%u", n);
		columns[1] = bytes_of(value);
		for (unsigned k = 0; k < KEYS; k++) {
			(void)snprintf(keys[k], sizeof(keys[k]), "k%u", (from + k * 3) % KEYS);
			writes[k] = (struct nam_table_write){ crowd_table, bytes_of(keys[k]),
				columns };
		}
		if (nam_table_write(worker, writes, 2 + n % (KEYS - 1), NULL))
			crowd_failed++;
	}
}

static void
crowd_reader(void *arg)
{
	struct nam_worker *worker = arg;
	struct nam_table_rows *mine = nam_table_rows_new();
	const struct nam_table_range range = { .column = 1 };

	for (unsigned i = 0; i < crowd_writes; i++) {
		if (nam_table_scan(worker, crowd_table, &range, mine) ||
			nam_table_rows_count(mine) > KEYS)
			crowd_failed++;
	}
	nam_table_rows_free(mine);
}

/* A worker of this thread's own, and so many fibers that do that; it vacuums when they are done. */
static void
crowd_work(nam_fiber_fn fn, unsigned fibers)
{
	struct nam_worker *worker = test_worker(me.client);

	for (unsigned i = 0; i < fibers; i++)
		crowd_failed += nam_worker_spawn(worker, fn, worker) != 0;
	nam_worker_run(worker);
	crowd_failed += nam_table_vacuum(worker, crowd_table) != 0;
	nam_worker_close(worker);
}

static void
writers_main(void *arg)
{
	(void)arg;
	crowd_work(crowd_writer, FIBERS);
}

static void
reader_main(void *arg)
{
	(void)arg;
	crowd_work(crowd_reader, 1);
}

/* Two workers of one client write the same rows, and another reads; no client dies. */
static void
write__workers_that_meet__NOTHING_IS_LOST(void **state)
{
	struct nam_thread *threads[3];
	struct nam_table_stat stat;
	uint64_t violations, before;

	(void)state;
	crowd_writes = (unsigned)test_scaled_least(400, 20);
	crowd_failed = 0;
	assert_int_equal(nam_table_create(me.worker, "crowd", &schema), 0);
	crowd_table = table_open(&me, "crowd");
	before = nam_client_blocks_lost(me.client);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(nam_thread_start("crowd", i < 2 ? writers_main : reader_main, NULL,
			&threads[i]), 0);
	for (unsigned i = 0; i < 3; i++)
		nam_thread_join(threads[i]);
	assert_int_equal(crowd_failed, 0);
	assert_int_equal(nam_table_verify(me.worker, crowd_table, NULL, NULL, &stat, &violations),
		0);
	nam_table_close(me.worker, crowd_table);
	assert_int_equal(nam_table_drop(me.worker, "crowd"), 0);
	assert_int_equal(violations, 0);
	assert_int_equal(stat.stale, 0);
	assert_int_equal(nam_client_blocks_lost(me.client) - before, 0);
}

static _Atomic bool handles_done;
static unsigned handles_puts;

static void
handles_writer(void *arg)
{
	struct nam_worker *worker = arg;

	for (unsigned i = 0; i < handles_puts; i++) {
		struct nam_bytes columns[2] = { { "n", 1 }, { i % 2 ? "a" : "b", 1 } };

		if (nam_table_put(worker, crowd_table, (struct nam_bytes){ "k", 1 }, columns))
			crowd_failed++;
		if (i % 16 == 0) {
			int rc = nam_table_vacuum(worker, crowd_table);

			crowd_failed += rc != 0;
		}
	}
}

static void
handles_main(void *arg)
{
	(void)arg;
	crowd_work(handles_writer, 1);
	atomic_store(&handles_done, true);
}

/* One thread writes with one handle, another opens and closes a handle of its own. */
static void
close__while_another_handle_is_written_with__NOTHING_IS_TOUCHED(void **state)
{
	struct nam_thread *thread;
	unsigned times = 0;

	(void)state;
	crowd_failed = 0;
	handles_puts = (unsigned)test_scaled_least(3000, 100);
	assert_int_equal(nam_table_create(me.worker, "handles", &schema), 0);
	crowd_table = table_open(&me, "handles");
	assert_int_equal(nam_thread_start("handles", handles_main, NULL, &thread), 0);
	for (; !atomic_load(&handles_done); times++)
		nam_table_close(me.worker, table_open(&me, "handles"));
	nam_thread_join(thread);
	assert_true(times > 0);
	nam_table_close(me.worker, crowd_table);
	assert_int_equal(nam_table_drop(me.worker, "handles"), 0);
	assert_int_equal(crowd_failed, 0);
}

static uint64_t
round_trips(struct nam_table *table, const struct nam_table_range *range)
{
	uint64_t before = nam_worker_counters(me.worker, NAM_OP_TABLE_SCAN)->round_trips;

	assert_string_equal(keys_found(&me, table, range), "");
	return nam_worker_counters(me.worker, NAM_OP_TABLE_SCAN)->round_trips - before;
}

/* A small limit and many entries that are none of the range: not a round for each. */
static void
scan__small_limit_and_many_that_begin_alike__NO_ROUND_FOR_EACH(void **state)
{
	struct nam_table_range range = { .column = 1, .low = { "place99999", 10 } };
	struct nam_table_write writes[32];
	struct nam_bytes columns[32][2];
	char keys[32][16], places[32][16];
	struct nam_table *table;
	uint64_t all;

	(void)state;
	assert_int_equal(nam_table_create(me.worker, "soon", &schema), 0);
	table = table_open(&me, "soon");
	for (unsigned i = 0; i < 60; i++) {
		for (unsigned k = 0; k < 32; k++) {
			(void)snprintf(keys[k], sizeof(keys[k]), "%u.%u", i, k);
			(void)snprintf(places[k], sizeof(places[k]), "place%u", i);
			columns[k][0] = bytes_of(keys[k]);
			columns[k][1] = bytes_of(places[k]);
			writes[k] = (struct nam_table_write){ table, bytes_of(keys[k]),
				columns[k] };
		}
		if (nam_table_write(me.worker, writes, 32, NULL))
			fail_msg("write: %s", nam_worker_diag(me.worker));
	}
	all = round_trips(table, &range);
	assert_in_range(all, 60 * 32 / 16, 60 * 32 / 8);
	range.limit = 1;
	assert_in_range(round_trips(table, &range), all, 2 * all);
	nam_table_close(me.worker, table);
	assert_int_equal(nam_table_drop(me.worker, "soon"), 0);
}

/* The rows read before are gone, and must not be used. */
static void
scan__that_fails__NO_ROWS(void **state)
{
	static uint8_t large[1000000];
	struct nam_table_range range = { .column = 1 };
	struct nam_bytes columns[2] = { { large, sizeof(large) }, { "in", 2 } };
	struct nam_table *table;
	struct nam_worker *worker = me.worker;

	(void)state;
	assert_int_equal(nam_table_create(worker, "fails", &schema), 0);
	table = table_open(&me, "fails");
	assert_int_equal(nam_table_put(worker, table, (struct nam_bytes){ "k", 1 }, columns), 0);
	assert_int_equal(nam_table_scan(worker, table, &range, rows), 0);
	assert_int_equal(nam_table_rows_count(rows), 1);
	assert_int_equal(nam_table_drop(worker, "fails"), 0);
	assert_int_not_equal(nam_table_scan(worker, table, &range, rows), 0);
	assert_int_equal(nam_table_rows_count(rows), 0);
	nam_table_close(worker, table);
}

/* A memory server was restarted. */
static void
sweep__an_index_of_a_table_is_lost__NAMES_THE_TABLE(void **state)
{
	struct nam__server *server = &me.client->servers[me.client->slot_of_id[1]];
	uint64_t renewed = server->view_renewed;
	struct nam_sweep_stat stat;

	(void)state;
	assert_int_equal(nam_table_create(me.worker, "lost", &schema), 0);
	server->view_renewed = UINT64_MAX;
	assert_int_equal(nam_sweep(me.worker, true, &stat), -NAM_E_LOST);
	server->view_renewed = renewed;
	member_says(&me, "table 'lost' has lost a part, so drop the table: memory server 1");
	assert_int_equal(nam_table_drop(me.worker, "lost"), 0);
	assert_int_equal(nam_sweep(me.worker, true, &stat), 0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scan__limit_among_values_that_begin_alike__THE_FIRST),
		cmocka_unit_test(scan__limit_among_equal_values__THE_FIRST_KEYS),
		cmocka_unit_test(scan__many_siblings_outside_of_the_range__ROWS),
		cmocka_unit_test(close__another_store_has_something_left__AT_ONCE),
		cmocka_unit_test(open__made_anew_while_an_old_handle_is_open__THE_NEW_ONE),
		cmocka_unit_test(create__in_a_store_that_is_another_tables_own__REFUSED),
		cmocka_unit_test(write__as_much_as_there_may_be__ROWS),
		cmocka_unit_test(write__workers_that_meet__NOTHING_IS_LOST),
		cmocka_unit_test(close__while_another_handle_is_written_with__NOTHING_IS_TOUCHED),
		cmocka_unit_test(scan__small_limit_and_many_that_begin_alike__NO_ROUND_FOR_EACH),
		cmocka_unit_test(scan__that_fails__NO_ROWS),
		cmocka_unit_test(sweep__an_index_of_a_table_is_lost__NAMES_THE_TABLE),
		/* The free blocks of this cluster are of one size. */
		cmocka_unit_test(write__no_room__NOTHING_IS_LEFT_AND_DELETES_MAKE_ROOM),
		cmocka_unit_test(vacuum__another_client_looks__AS_LONG_AS_timeout_ms),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
