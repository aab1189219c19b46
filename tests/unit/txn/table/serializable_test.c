/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serializable_test.c -- serializable tables over three memory servers, beside tables of the other
 * isolation; rows by calls and by transactions; the errors of isolation.h.
 */
#include <errno.h>

#include "compute/client/names.h"
#include "table_fixture.h"
#include "txn/serial/layout.h"

#define NAME 0u
#define PLACE 1u
#define SIZE 2u

static const struct nam_table_schema schema = {
	.columns = { "name", "place", "size" }, .columns_count = 3,
	.indexes = { { PLACE, 4 }, { SIZE, 8 } }, .indexes_count = 2,
	.options = { .isolation = NAM_ISOLATION_SERIALIZABLE, .rows = 1024 },
};

static struct member other;
static struct nam_table *mine, *others;
static struct nam_txn_store *my_store, *others_store;

static int
start(void **state)
{
	int rc = cluster_begin(state);

	other = member_join(cluster, "other", 200);
	return rc;
}

static int
stop(void **state)
{
	member_leave(&other);
	return cluster_end(state);
}

static int
table_new(void **state)
{
	(void)state;
	if (nam_table_create(me.worker, "t", &schema))
		fail_msg("create: %s", nam_worker_diag(me.worker));
	mine = table_open(&me, "t");
	others = table_open(&other, "t");
	assert_int_equal(nam_table_store(me.worker, mine, &my_store), 0);
	assert_int_equal(nam_table_store(other.worker, others, &others_store), 0);
	return 0;
}

static int
table_end(void **state)
{
	(void)state;
	nam_table_close(me.worker, mine);
	nam_table_close(other.worker, others);
	assert_int_equal(nam_table_drop(me.worker, "t"), 0);
	return 0;
}

/* ---- rows of tests --------------------------------------------------------------------------- */

/* The name is the key; of one fiber at a time. */
static struct nam_table_write
row(struct nam_table *table, const char *key, const char *place, uint64_t size)
{
	static struct nam_bytes columns[16][3];
	static uint8_t sizes[16][8];
	static unsigned next;
	unsigned i = next++ % 16;

	nam_key_from_u64(size, sizes[i]);
	columns[i][NAME] = bytes_of(key);
	columns[i][PLACE] = bytes_of(place ? place : "");
	columns[i][SIZE] = (struct nam_bytes){ sizes[i], 8 };
	return (struct nam_table_write){ table, bytes_of(key), place ? columns[i] : NULL };
}

/* Without a place it is deleted. */
static void
put(const struct member *who, struct nam_table *table, const char *key, const char *place,
	uint64_t size)
{
	const struct nam_table_write one = row(table, key, place, size);

	if (nam_table_write(who->worker, &one, 1, NULL))
		fail_msg("write: %s", nam_worker_diag(who->worker));
}

static struct nam_table_range
places(const char *low, const char *high)
{
	return (struct nam_table_range){ .column = PLACE, .low = bytes_of(low),
		.high = bytes_of(high) };
}

static const char *
found_at(const struct member *who, struct nam_table *table, const char *low, const char *high)
{
	const struct nam_table_range range = places(low, high);

	return keys_found(who, table, &range);
}

static uint64_t
violations_of(const struct member *who, struct nam_table *table, struct nam_table_stat *ret_stat)
{
	uint64_t violations = 99;

	if (nam_table_verify(who->worker, table, NULL, NULL, ret_stat, &violations))
		fail_msg("verify: %s", nam_worker_diag(who->worker));
	return violations;
}

/* ---- names, isolations ----------------------------------------------------------------------- */

static void
create__options_that_do_not_fit__EINVAL_SAYS_WHY(void **state)
{
	struct nam_table_schema bad = schema;

	(void)state;
	bad.options.isolation = (enum nam_isolation)7;
	assert_int_equal(nam_table_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "isolation: 7");
	bad.options.isolation = NAM_ISOLATION_READ_ATOMIC;
	assert_int_equal(nam_table_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "are of serializable tables");
	bad = schema;
	bad.options.key_bytes_max = 121;
	assert_int_equal(nam_table_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "key_bytes_max: 121");
	bad = schema;
	bad.options.row_bytes_max = 4090;
	assert_int_equal(nam_table_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "row_bytes_max: 4090, and 28 for the indexes");
	bad = schema;
	bad.columns_count = bad.indexes_count = 5;
	bad.columns[3] = "d", bad.columns[4] = "e";
	for (uint32_t i = 0; i < 5; i++)
		bad.indexes[i].column = i;
	assert_int_equal(nam_table_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "5 indexes; a serializable table has up to 4");
}

static void
open__the_other_isolation__REFUSED_BY_BOTH_NAMES(void **state)
{
	struct nam_table_schema plain = schema;
	struct nam_txn_store *store = NULL;
	struct nam_records *records;
	struct nam_table *table;

	(void)state;
	plain.options = (struct nam_table_options){ .isolation = 0 };
	assert_int_equal(nam_table_create(me.worker, "plain", &plain), 0);
	table = table_open(&me, "plain");
	assert_int_equal(nam_table_properties(table)->options.isolation,
		NAM_ISOLATION_READ_ATOMIC);
	assert_int_equal(nam_table_properties(mine)->options.isolation,
		NAM_ISOLATION_SERIALIZABLE);
	assert_int_equal(nam_table_expect(me.worker, table, NAM_ISOLATION_READ_ATOMIC), 0);
	assert_int_equal(nam_table_expect(me.worker, table, NAM_ISOLATION_SERIALIZABLE),
		-NAM_E_KIND);
	member_says(&me, "'plain' is read-atomic and not serializable");
	assert_int_equal(nam_table_store(me.worker, table, &store), -NAM_E_KIND);
	assert_null(store);
	assert_int_equal(nam_table_expect(me.worker, mine, NAM_ISOLATION_READ_ATOMIC), -NAM_E_KIND);
	member_says(&me, "'t' is serializable and not read-atomic");
	/* Both work beside each other. */
	put(&me, table, "a", "here", 1);
	put(&me, mine, "a", "there", 1);
	assert_string_equal(found_at(&me, table, "here", "here"), "a ");
	assert_string_equal(found_at(&me, mine, "here", "here"), "");
	/* Their stores are not opened by themselves, nor as the other kind. */
	assert_int_equal(nam_txn_store_open(me.worker, "t.rows", 0, &store), -NAM_E_KIND);
	member_says(&me, "holds the rows of tables");
	assert_int_equal(nam_txn_store_open(me.worker, "plain.rows", 0, &store), -NAM_E_KIND);
	member_says(&me, "is a record store and not a store of serializable transactions");
	assert_int_equal(nam_records_open(me.worker, "t.rows", 0, &records), -NAM_E_KIND);
	nam_table_close(me.worker, table);
	assert_int_equal(nam_table_drop(me.worker, "plain"), 0);
}

static void
create__in_a_store_of_other_use__KIND(void **state)
{
	struct nam_table_schema shared = schema, plain = schema;

	(void)state;
	shared.store = plain.store = "mixed";
	plain.options = (struct nam_table_options){ .isolation = NAM_ISOLATION_READ_ATOMIC };
	assert_int_equal(nam_table_create(me.worker, "one", &plain), 0);
	assert_int_equal(nam_table_create(me.worker, "two", &shared), -NAM_E_KIND);
	member_says(&me, "'mixed' is a record store and not a store of serializable transactions");
	assert_int_equal(nam_table_drop(me.worker, "one"), 0);
	assert_int_equal(nam_records_drop(me.worker, "mixed"), 0);
	assert_int_equal(nam_txn_store_create(me.worker, "mixed", NULL), 0);
	assert_int_equal(nam_table_create(me.worker, "two", &shared), -NAM_E_KIND);
	member_says(&me, "was not made for tables");
	assert_int_equal(nam_table_create(me.worker, "one", &plain), -NAM_E_KIND);
	assert_int_equal(nam_txn_store_drop(me.worker, "mixed"), 0);
}

static void
create__in_a_store_that_is_too_small__EINVAL(void **state)
{
	struct nam_table_schema first = schema, later = schema;

	(void)state;
	first.store = later.store = "shop";
	first.options.row_bytes_max = 100;
	first.indexes[0].bytes = 20;
	assert_int_equal(nam_table_create(me.worker, "first", &first), 0);
	later.options.row_bytes_max = 101;
	assert_int_equal(nam_table_create(me.worker, "later", &later), -EINVAL);
	member_says(&me, "row_bytes_max: 101; store 'shop' was made for rows of up to 100");
	later.options = (struct nam_table_options){ .isolation = NAM_ISOLATION_SERIALIZABLE,
		.key_bytes_max = 25 };
	assert_int_equal(nam_table_create(me.worker, "later", &later), -EINVAL);
	member_says(&me, "key_bytes_max: 25; store 'shop' was made for keys of up to 24");
	later.options.key_bytes_max = 0;
	later.indexes[1].bytes = 17;
	assert_int_equal(nam_table_create(me.worker, "later", &later), -EINVAL);
	member_says(&me, "the index of column 'size' is to have 17 bytes; index 2 of store 'shop' "
		"has up to 16");
	later.indexes[0].bytes = 20;
	later.indexes[1].bytes = 16;
	assert_int_equal(nam_table_create(me.worker, "later", &later), 0);
	assert_int_equal(nam_table_drop(me.worker, "later"), 0);
	assert_int_equal(nam_table_drop(me.worker, "first"), 0);
	assert_int_equal(nam_txn_store_drop(me.worker, "shop"), 0);
}

/* Its superblock does not verify any more. */
static void
superblock_damage(const char *name)
{
	uint64_t *word = nam_buffer_take(me.worker, sizeof(*word));
	struct nam_batch batch;
	struct nam_gaddr at;

	assert_non_null(word);
	*word = 1;
	assert_int_equal(nam__name_find(me.worker, NAM_CATALOG_SERIAL, name, &at.raw), 0);
	nam_batch_init(&batch, me.worker);
	nam_batch_write(&batch, at, offsetof(struct nam_serial_superblock, image_hash), word,
		sizeof(*word));
	assert_int_equal(nam_batch_await(&batch), 0);
	nam_buffer_give(me.worker, word, sizeof(*word));
}

static void
drop__a_store_that_does_not_verify__GOES_AND_SAYS_LOST(void **state)
{
	struct nam_table *table;

	(void)state;
	assert_int_equal(nam_table_create(me.worker, "torn", &schema), 0);
	superblock_damage("torn.rows");
	assert_int_equal(nam_table_open(me.worker, "torn", 0, &table), -NAM_E_REMOTE_CORRUPT);
	assert_int_equal(nam_table_drop(me.worker, "torn"), -NAM_E_LOST);
	member_says(&me, "torn.rows");
	member_says(&me, "does not verify");
	/* All names have gone, also those of the indexes. */
	assert_int_equal(nam_table_create(me.worker, "torn", &schema), 0);
	assert_int_equal(nam_table_drop(me.worker, "torn"), 0);
}

/* ---- rows by calls --------------------------------------------------------------------------- */

static void
read__rows_that_are_there_or_not__COLUMNS(void **state)
{
	struct nam_table_get gets[3] = { { .table = others, .key = { "b", 1 } },
		{ .table = others, .key = { "nothing", 7 } },
		{ .table = others, .key = { "c", 1 } } };
	struct nam_table_write writes[2];
	uint64_t timestamp = 0;

	(void)state;
	writes[0] = row(mine, "b", "there", 2);
	writes[1] = row(mine, "c", "", 3);
	assert_int_equal(nam_table_write(me.worker, writes, 2, &timestamp), 0);
	assert_true(timestamp != 0);
	assert_int_equal(nam_table_read(other.worker, gets, 3, rows), 0);
	assert_non_null(gets[0].columns);
	assert_int_equal(gets[0].columns[PLACE].bytes, 5);
	assert_memory_equal(gets[0].columns[PLACE].data, "there", 5);
	assert_int_equal(gets[0].timestamp, timestamp);
	assert_null(gets[1].columns);
	assert_int_equal(gets[1].timestamp, 0);
	assert_int_equal(gets[2].columns[PLACE].bytes, 0);
	assert_int_equal(nam_table_delete(me.worker, mine, bytes_of("b")), 0);
	assert_int_equal(nam_table_delete(me.worker, mine, bytes_of("b")), 0);
	assert_int_equal(nam_table_read(other.worker, gets, 1, rows), 0);
	assert_null(gets[0].columns);
	assert_true(gets[0].timestamp > timestamp);
}

static void
write__rows_that_are_too_long__LIMIT(void **state)
{
	char key[25], text[300];
	struct nam_table_write one = row(mine, "k", "", 0);
	struct nam_bytes columns[3] = { { text, 235 }, { "", 0 }, { "12345678", 8 } };

	(void)state;
	memset(key, 'k', sizeof(key));
	memset(text, 't', sizeof(text));
	one.key = (struct nam_bytes){ key, 25 };
	assert_int_equal(nam_table_write(me.worker, &one, 1, NULL), -NAM_E_LIMIT);
	member_says(&me, "a key of 25 bytes; keys have 1 to 24");
	one.key.bytes = 24;
	one.columns = columns;
	assert_int_equal(nam_table_write(me.worker, &one, 1, NULL), 0);
	columns[0].bytes += 2;
	assert_int_equal(nam_table_write(me.worker, &one, 1, NULL), -NAM_E_LIMIT);
	member_says(&me, "a row of more than 256 bytes");
}

static void
scan__bounds__ROWS_IN_ORDER(void **state)
{
	static const struct {
		const char *key, *place;
		uint64_t size;
	} some[] = {
		{ "1", "ant", 5 }, { "2", "bee", 4 }, { "3", "bee", 3 }, { "4", "beetle", 2 },
		{ "5", "beet", 1 }, { "6", "cow", 0 }, { "7", "", 7 } };
	uint8_t low[8], high[8];
	const struct nam_table_range sizes = { .column = SIZE, .low = { low, 8 },
		.high = { high, 8 } };
	struct nam_table_range range = { .column = PLACE };

	(void)state;
	for (unsigned i = 0; i < 7; i++)
		put(&me, mine, some[i].key, some[i].place, some[i].size);
	assert_string_equal(keys_found(&other, others, &range), "7 1 2 3 5 4 6 ");
	assert_true(nam_table_rows_at(rows, 0)->timestamp != 0);
	assert_string_equal(found_at(&other, others, "bee", "bee"), "2 3 ");
	/* Longer than what the index holds of a value. */
	assert_string_equal(found_at(&other, others, "beetle", "beetle"), "4 ");
	assert_string_equal(found_at(&other, others, "bee", "beet"), "2 3 5 ");
	assert_string_equal(found_at(&other, others, "bef", "bz"), "");
	assert_string_equal(found_at(&other, others, "", ""), "7 ");
	nam_key_from_u64(1, low);
	nam_key_from_u64(4, high);
	assert_string_equal(keys_found(&other, others, &sizes), "5 4 3 2 ");
	range.limit = 2;
	assert_string_equal(keys_found(&other, others, &range), "7 1 ");
	/* "beet" and "beetle" begin alike. */
	range.limit = 5;
	assert_string_equal(keys_found(&other, others, &range), "7 1 2 3 5 ");
	range.low = bytes_of("bee");
	range.limit = 100;
	assert_string_equal(keys_found(&other, others, &range), "2 3 5 4 6 ");
	range.low = bytes_of("z");
	range.high = bytes_of("a");
	assert_int_equal(nam_table_scan(me.worker, mine, &range, rows), -EINVAL);
}

static void
scan__rows_moved_and_deleted__EACH_WHERE_IT_IS(void **state)
{
	struct nam_table_get get = { .table = mine, .key = { "c", 1 } };
	struct nam_table_range range = places("p", "p");
	struct nam_table_write writes[3];
	struct nam_table_stat stat;

	(void)state;
	put(&me, mine, "a", "p", 1);
	put(&me, mine, "b", "p", 2);
	put(&me, mine, "c", "q", 3);
	assert_string_equal(found_at(&other, others, "p", "p"), "a b ");
	writes[0] = row(others, "a", "q", 1);
	writes[1] = row(others, "b", NULL, 0);
	writes[2] = row(others, "d", "p", 4);
	assert_int_equal(nam_table_write(other.worker, writes, 3, NULL), 0);
	range.gets = &get;
	range.gets_count = 1;
	assert_string_equal(keys_found(&me, mine, &range), "d ");
	assert_memory_equal(get.columns[PLACE].data, "q", 1);
	assert_string_equal(found_at(&me, mine, "q", "q"), "a c ");
	assert_string_equal(found_at(&me, mine, "a", "z"), "d a c ");
	assert_int_equal(violations_of(&me, mine, &stat), 0);
	assert_int_equal(stat.rows, 3);
	assert_int_equal(stat.entries, 6);
	assert_int_equal(stat.stale, 0);
	assert_int_equal(nam_table_vacuum(me.worker, mine), 0);
}

static void
scan__more_rows_than_a_transaction_has__LIMIT(void **state)
{
	struct nam_table_range range = { .column = SIZE };
	struct nam_table_stat stat;
	char key[8];

	(void)state;
	for (uint32_t i = 0; i < 300; i++) {
		(void)snprintf(key, sizeof(key), "r%u", i);
		put(&me, mine, key, i % 2 ? "odd" : "even", i);
	}
	assert_int_equal(nam_table_scan(other.worker, others, &range, rows), -NAM_E_LIMIT);
	member_says(&other, "up to 256 records");
	range.limit = 255;
	assert_int_equal(nam_table_scan(other.worker, others, &range, rows), 0);
	assert_int_equal(nam_table_rows_count(rows), 255);
	for (uint32_t i = 0; i < 255; i++)
		assert_int_equal(nam_key_to_u64(nam_table_rows_at(rows, i)->columns[SIZE].data),
			i);
	(void)found_at(&other, others, "odd", "odd");
	assert_int_equal(nam_table_rows_count(rows), 150);
	assert_int_equal(violations_of(&me, mine, &stat), 0);
	assert_int_equal(stat.rows, 300);
	assert_int_equal(stat.entries, 600);
}

static void
verify__an_entry_is_missing__ONE_VIOLATION(void **state)
{
	uint8_t key[NAM_KEY_BYTES_MAX];
	struct nam_table_stat stat;
	struct nam_cursor *cursor;
	struct nam_index *index;
	uint64_t record;
	uint32_t count;

	(void)state;
	put(&me, mine, "a", "p", 1);
	put(&me, mine, "b", "p", 2);
	assert_int_equal(nam_index_open(me.worker, "t.rows.index0", 0, &index), 0);
	assert_int_equal(nam_cursor_open(me.worker, index, &(struct nam_range){ .low = NULL },
		&cursor), 0);
	assert_int_equal(nam_cursor_next(cursor, key, &record, 1, &count), 0);
	nam_cursor_close(cursor);
	assert_int_equal(nam_index_delete_pair(me.worker, index, key, record), 0);
	nam_index_close(index);
	assert_int_equal(violations_of(&me, mine, &stat), 1);
	assert_int_equal(stat.rows, 2);
	assert_int_equal(stat.entries, 3);
	assert_int_equal(stat.stale, 0);
}

/* ---- rows by transactions -------------------------------------------------------------------- */

static struct nam_txn *
begin(const struct member *who, struct nam_txn_store *store)
{
	struct nam_txn *txn;

	assert_int_equal(nam_txn_begin(who->worker, store, &txn), 0);
	return txn;
}

static void
write__tables_of_one_store__TOGETHER(void **state)
{
	struct nam_table_schema shared = schema, bare = schema;
	struct nam_table_get get = { .key = { "o", 1 } };
	struct nam_table *orders, *lines;
	struct nam_table_range range;
	struct nam_table_write writes[2];
	struct nam_txn_store *store, *same;
	struct nam_txn *txn;

	(void)state;
	shared.store = bare.store = "shop";
	bare.indexes_count = 0;
	assert_int_equal(nam_table_create(me.worker, "orders", &shared), 0);
	assert_int_equal(nam_table_create(me.worker, "lines", &bare), 0);
	orders = table_open(&me, "orders");
	lines = table_open(&me, "lines");
	assert_int_equal(nam_table_store(me.worker, orders, &store), 0);
	assert_int_equal(nam_table_store(me.worker, lines, &same), 0);
	assert_ptr_equal(store, same);
	/* The same key in both. */
	writes[0] = row(orders, "o", "x", 1);
	writes[1] = row(lines, "o", "y", 2);
	txn = begin(&me, store);
	assert_int_equal(nam_txn_rows_write(txn, writes, 2), 0);
	/* The transaction sees what it wrote; others do not. */
	get.table = lines;
	assert_int_equal(nam_txn_rows_read(txn, &get, 1, rows), 0);
	assert_memory_equal(get.columns[PLACE].data, "y", 1);
	range = places("x", "x");
	assert_int_equal(nam_txn_rows_scan(txn, orders, &range, rows), 0);
	assert_int_equal(nam_table_rows_count(rows), 1);
	assert_int_equal(nam_table_read(me.worker, &get, 1, rows), 0);
	assert_null(get.columns);
	assert_int_equal(nam_txn_commit(txn, NULL), 0);
	assert_int_equal(nam_table_read(me.worker, &get, 1, rows), 0);
	assert_memory_equal(get.columns[PLACE].data, "y", 1);
	assert_string_equal(found_at(&me, orders, "x", "x"), "o ");
	/* A table of another store, or of the other isolation. */
	txn = begin(&me, my_store);
	assert_int_equal(nam_txn_rows_write(txn, writes, 2), -EINVAL);
	member_says(&me, "table 'orders' is in store 'shop', and the transaction in 't.rows'");
	assert_int_equal(nam_txn_rows_scan(txn, orders, &range, rows), -EINVAL);
	nam_txn_abort(txn);
	writes[1].table = mine;
	assert_int_equal(nam_table_write(me.worker, writes, 2, NULL), -EINVAL);
	nam_table_close(me.worker, orders);
	assert_int_equal(nam_table_drop(me.worker, "orders"), 0);
	assert_int_equal(nam_table_read(me.worker, &get, 1, rows), 0);
	assert_non_null(get.columns);
	nam_table_close(me.worker, lines);
	assert_int_equal(nam_table_drop(me.worker, "lines"), 0);
	assert_int_equal(nam_txn_store_drop(me.worker, "shop"), 0);
}

static void
commit__a_row_has_come_into_the_range__CONFLICT(void **state)
{
	const struct nam_table_range range = places("p", "p");
	struct nam_table_write one;
	struct nam_txn *txn;

	(void)state;
	put(&me, mine, "a", "p", 1);
	txn = begin(&me, my_store);
	assert_int_equal(nam_txn_rows_scan(txn, mine, &range, rows), 0);
	assert_int_equal(nam_table_rows_count(rows), 1);
	put(&other, others, "b", "p", 2);
	one = row(mine, "count", "q", 1);
	assert_int_equal(nam_txn_rows_write(txn, &one, 1), 0);
	assert_int_equal(nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	assert_string_equal(found_at(&me, mine, "q", "q"), "");
}

/* Takes one of the size of each. */
static int
decrement(struct nam_txn *txn, void *arg)
{
	struct nam_table_get get = { .table = arg, .key = { "a", 1 } };
	struct nam_table_write one;
	int rc = nam_txn_rows_read(txn, &get, 1, rows);

	if (rc)
		return rc;
	one = row(arg, "a", "p", nam_key_to_u64(get.columns[SIZE].data) - 1);
	return nam_txn_rows_write(txn, &one, 1);
}

static void
run__a_row_that_others_write__NO_UPDATE_IS_LOST(void **state)
{
	struct nam_table_get get = { .table = mine, .key = { "a", 1 } };

	(void)state;
	put(&me, mine, "a", "p", 10);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(nam_txn_run(me.worker, my_store, decrement, mine, NULL, NULL), 0);
		assert_int_equal(nam_txn_run(other.worker, others_store, decrement, others, NULL,
			NULL), 0);
	}
	assert_int_equal(nam_table_read(me.worker, &get, 1, rows), 0);
	assert_int_equal(nam_key_to_u64(get.columns[SIZE].data), 0);
}

int
main(void)
{
#define ROWS(name) cmocka_unit_test_setup_teardown(name, table_new, table_end)
	const struct CMUnitTest tests[] = {
		ROWS(create__options_that_do_not_fit__EINVAL_SAYS_WHY),
		ROWS(open__the_other_isolation__REFUSED_BY_BOTH_NAMES),
		ROWS(create__in_a_store_of_other_use__KIND),
		ROWS(create__in_a_store_that_is_too_small__EINVAL),
		ROWS(drop__a_store_that_does_not_verify__GOES_AND_SAYS_LOST),
		ROWS(read__rows_that_are_there_or_not__COLUMNS),
		ROWS(write__rows_that_are_too_long__LIMIT),
		ROWS(scan__bounds__ROWS_IN_ORDER),
		ROWS(scan__rows_moved_and_deleted__EACH_WHERE_IT_IS),
		ROWS(scan__more_rows_than_a_transaction_has__LIMIT),
		ROWS(verify__an_entry_is_missing__ONE_VIOLATION),
		ROWS(write__tables_of_one_store__TOGETHER),
		ROWS(commit__a_row_has_come_into_the_range__CONFLICT),
		ROWS(run__a_row_that_others_write__NO_UPDATE_IS_LOST),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
