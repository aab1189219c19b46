/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_test.c -- tables over three memory servers: names, rows written and read by two clients,
 * scans, leftovers, and the look of each error of table.h.
 */
#include <errno.h>
#include <stddef.h>

#include "compute/client/names.h"
#include "table_fixture.h"

#define NAME 0u
#define PLACE 1u
#define SIZE 2u

static const struct nam_table_schema schema = {
	.columns = { "name", "place", "size" }, .columns_count = 3,
	.indexes = { { PLACE, 4 }, { SIZE, 8 } }, .indexes_count = 2,
};

static struct member other;
static struct nam_table *mine, *others;

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
	assert_int_equal(nam_table_create(me.worker, "t", &schema), 0);
	mine = table_open(&me, "t");
	others = table_open(&other, "t");
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

struct row {
	const char *key, *place;
	uint64_t size;
};

/* Rows by one transaction; without a place they are deleted. */
static void
write_rows(const struct member *who, struct nam_table *table, const struct row *some,
	uint32_t count)
{
	struct nam_table_write writes[NAM_TABLE_WRITES_MAX];
	struct nam_bytes columns[NAM_TABLE_WRITES_MAX][3];
	uint8_t sizes[NAM_TABLE_WRITES_MAX][8];

	for (uint32_t i = 0; i < count; i++) {
		nam_key_from_u64(some[i].size, sizes[i]);
		columns[i][NAME] = bytes_of(some[i].key);
		columns[i][PLACE] = bytes_of(some[i].place ? some[i].place : "");
		columns[i][SIZE] = (struct nam_bytes){ sizes[i], 8 };
		writes[i] = (struct nam_table_write){ table, bytes_of(some[i].key),
			some[i].place ? columns[i] : NULL };
	}
	if (nam_table_write(who->worker, writes, count, NULL))
		fail_msg("write: %s", nam_worker_diag(who->worker));
}

/* The same, and each row is whole. */
static const char *
found(const struct member *who, struct nam_table *table, const struct nam_table_range *range)
{
	const char *text = keys_found(who, table, range);

	for (uint32_t i = 0; i < nam_table_rows_count(rows); i++) {
		const struct nam_table_row *row = nam_table_rows_at(rows, i);

		assert_memory_equal(row->columns[NAME].data, row->key.data, row->key.bytes);
		assert_true(row->timestamp != 0);
	}
	return text;
}

static const char *
found_at(const struct member *who, struct nam_table *table, const char *low, const char *high)
{
	const struct nam_table_range range = { .column = PLACE, .low = bytes_of(low),
		.high = bytes_of(high) };

	return found(who, table, &range);
}

static void
violation(void *arg, const char *text)
{
	(void)arg;
	print_error("%s\n", text);
}

static struct nam_table_stat
verified(const struct member *who, struct nam_table *table)
{
	struct nam_table_stat stat;
	uint64_t violations;

	assert_int_equal(nam_table_verify(who->worker, table, violation, NULL, &stat, &violations),
		0);
	assert_int_equal(violations, 0);
	return stat;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void
create__schemas_that_are_none__EINVAL_SAYS_WHY(void **state)
{
	struct nam_table_schema bad = schema;

	(void)state;
	bad.columns_count = 0;
	assert_int_equal(nam_table_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "1 to 32");
	bad = schema;
	bad.columns[2] = "name";
	assert_int_equal(nam_table_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "two columns have the name 'name'");
	bad.columns[2] = "a b";
	assert_int_equal(nam_table_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "the name of column 3");
	bad = schema;
	bad.indexes[1].column = 3;
	assert_int_equal(nam_table_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "index 2 is of column 4; there are 3");
	bad.indexes[1].column = PLACE;
	assert_int_equal(nam_table_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "column 'place' has two indexes");
	bad = schema;
	bad.indexes[0].bytes = 57;
	assert_int_equal(nam_table_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "up to 56");
	assert_int_equal(nam_table_create(me.worker, "a-name-that-has-far-too-many-bytes", &schema),
		-EINVAL);
	member_says(&me, "up to 31 bytes");
}

static void
create__a_name_that_is_taken__EXISTS_and_nothing_is_left(void **state)
{
	struct nam_table_schema bad = schema;
	struct nam_index_options options;
	struct nam_records *records;
	uint64_t before;

	(void)state;
	before = member_sees_used(&me);
	assert_int_equal(nam_table_create(me.worker, "t", &schema), -NAM_E_INDEX_EXISTS);
	assert_int_equal(nam_records_create(me.worker, "plain", NULL), 0);
	bad.store = "plain";
	assert_int_equal(nam_table_create(me.worker, "bad", &bad), -NAM_E_KIND);
	member_says(&me, "was not made for tables");
	assert_int_equal(nam_records_drop(me.worker, "plain"), 0);
	nam_index_options_init(&options);
	assert_int_equal(nam_index_create(me.worker, "half.by.size", &options), 0);
	assert_int_equal(nam_table_create(me.worker, "half", &schema), -NAM_E_INDEX_EXISTS);
	assert_int_equal(nam_index_drop(me.worker, "half.by.size"), 0);
	assert_int_equal(nam_table_create(me.worker, "half", &schema), 0);
	assert_int_equal(nam_table_drop(me.worker, "half"), 0);
	assert_int_equal(nam_records_open(me.worker, "t.rows", 0, &records), -NAM_E_KIND);
	member_says(&me, "holds the rows of tables");
	/* This client's block cache and limbo count as used. */
	assert_in_range(member_sees_used(&me), before, before + 4 * MIB);
}

/* Its superblock does not verify any more. */
static void
superblock_damage(enum nam_catalog_kind kind, const char *name, uint32_t hash_offset)
{
	uint64_t *word = nam_buffer_take(me.worker, sizeof(*word));
	struct nam_batch batch;
	struct nam_gaddr at;

	assert_non_null(word);
	*word = 1;
	assert_int_equal(nam__name_find(me.worker, kind, name, &at.raw), 0);
	nam_batch_init(&batch, me.worker);
	nam_batch_write(&batch, at, hash_offset, word, sizeof(*word));
	assert_int_equal(nam_batch_await(&batch), 0);
	nam_buffer_give(me.worker, word, sizeof(*word));
}

static void
drop__a_part_that_does_not_verify__GOES_AND_SAYS_LOST(void **state)
{
	static const struct {
		enum nam_catalog_kind kind;
		const char *name;
		uint32_t hash_offset;
	} parts[] = {
		{ NAM_CATALOG_INDEX, "torn.by.size",
			offsetof(struct nam_superblock, image_hash) },
		{ NAM_CATALOG_RECORDS, "torn.rows",
			offsetof(struct nam_records_superblock, image_hash) },
		{ NAM_CATALOG_INDEX, "torn.rows.keys",
			offsetof(struct nam_superblock, image_hash) },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		assert_int_equal(nam_table_create(me.worker, "torn", &schema), 0);
		superblock_damage(parts[i].kind, parts[i].name, parts[i].hash_offset);
		assert_int_equal(nam_table_drop(me.worker, "torn"), -NAM_E_LOST);
		member_says(&me, parts[i].name);
		member_says(&me, "does not verify");
	}
	assert_int_equal(nam_table_create(me.worker, "torn", &schema), 0);
	assert_int_equal(nam_table_drop(me.worker, "torn"), 0);
}

static void
open__what_is_no_table__SAYS_SO(void **state)
{
	struct nam_table *table;

	(void)state;
	assert_int_equal(nam_table_open(me.worker, "nothing", 0, &table), -NAM_E_NOINDEX);
	assert_int_equal(nam_table_open(me.worker, "t.rows", 0, &table), -NAM_E_KIND);
	member_says(&me, "'t.rows' is a record store");
	assert_int_equal(nam_table_drop(me.worker, "nothing"), -NAM_E_NOINDEX);
	assert_int_equal(nam_table_column(mine, "size"), SIZE);
	assert_int_equal(nam_table_column(mine, "weight"), -NAM_E_NOTFOUND);
	assert_string_equal(nam_table_properties(others)->columns[PLACE], "place");
	assert_int_equal(nam_table_properties(others)->indexes[0].bytes, 4);
}

static int
count_names(void *arg, const char *name)
{
	*(uint32_t *)arg += strcmp(name, "t") == 0;
	return 0;
}

static void
list__a_table__IS_THERE_ONCE(void **state)
{
	uint32_t count = 0;

	(void)state;
	assert_int_equal(nam_table_list(me.worker, count_names, &count), 0);
	assert_int_equal(count, 1);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void
read__rows_that_are_there_or_not__COLUMNS(void **state)
{
	const struct row some[] = { { "a", "here", 1 }, { "b", "there", 2 }, { "c", "", 3 } };
	struct nam_table_get gets[4] = { { .table = others, .key = { "b", 1 } },
		{ .table = others, .key = { "nothing", 7 } },
		{ .table = others, .key = { "c", 1 } }, { .table = others, .key = { "b", 1 } } };

	(void)state;
	write_rows(&me, mine, some, 3);
	assert_int_equal(nam_table_read(other.worker, gets, 4, rows), 0);
	assert_non_null(gets[0].columns);
	assert_memory_equal(gets[0].columns[PLACE].data, "there", 5);
	assert_int_equal(gets[0].columns[PLACE].bytes, 5);
	assert_null(gets[1].columns);
	assert_int_equal(gets[1].timestamp, 0);
	assert_int_equal(gets[2].columns[PLACE].bytes, 0);
	assert_int_equal(gets[2].timestamp, gets[0].timestamp);
	assert_memory_equal(gets[3].columns[NAME].data, "b", 1);
	assert_int_equal(nam_table_delete(me.worker, mine, bytes_of("b")), 0);
	assert_int_equal(nam_table_read(other.worker, gets, 1, rows), 0);
	assert_null(gets[0].columns);
	assert_true(gets[0].timestamp > gets[2].timestamp);
}

static void
scan__bounds__ROWS_IN_ORDER(void **state)
{
	const struct row some[] = { { "1", "ant", 5 }, { "2", "bee", 4 }, { "3", "bee", 3 },
		{ "4", "beetle", 2 }, { "5", "beet", 1 }, { "6", "cow", 0 }, { "7", "", 7 } };
	uint8_t low[8], high[8];
	const struct nam_table_range sizes = { .column = SIZE, .low = { low, 8 },
		.high = { high, 8 } };
	struct nam_table_range range = { .column = PLACE };

	(void)state;
	write_rows(&me, mine, some, 7);
	assert_string_equal(found(&other, others, &range), "7 1 2 3 5 4 6 ");
	assert_string_equal(found_at(&other, others, "bee", "bee"), "2 3 ");
	/* Longer than what the index holds of a value. */
	assert_string_equal(found_at(&other, others, "beetle", "beetle"), "4 ");
	assert_string_equal(found_at(&other, others, "bee", "beet"), "2 3 5 ");
	assert_string_equal(found_at(&other, others, "bef", "bz"), "");
	assert_string_equal(found_at(&other, others, "", ""), "7 ");
	nam_key_from_u64(1, low);
	nam_key_from_u64(4, high);
	assert_string_equal(found(&other, others, &sizes), "5 4 3 2 ");
	range.limit = 2;
	assert_string_equal(found(&other, others, &range), "7 1 ");
	range.low = bytes_of("bee");
	range.limit = 100;
	assert_string_equal(found(&other, others, &range), "2 3 5 4 6 ");
}

static void
scan__rows_moved_and_deleted__EACH_WHERE_IT_IS(void **state)
{
	const struct row before[] = { { "a", "p", 1 }, { "b", "p", 2 }, { "c", "q", 3 } };
	const struct row after[] = { { "a", "q", 1 }, { "b", NULL, 0 }, { "d", "p", 4 } };
	struct nam_table_stat stat;

	(void)state;
	write_rows(&me, mine, before, 3);
	assert_string_equal(found_at(&other, others, "p", "p"), "a b ");
	write_rows(&other, others, after, 3);
	assert_string_equal(found_at(&me, mine, "p", "p"), "d ");
	assert_string_equal(found_at(&me, mine, "q", "q"), "a c ");
	assert_string_equal(found_at(&me, mine, "a", "z"), "d a c ");
	stat = verified(&me, mine);
	assert_int_equal(stat.rows, 3);
	assert_int_equal(stat.entries - stat.stale, 6);
	assert_true(stat.stale > 0);
	/* A replaced version is freed by its replacer. */
	assert_int_equal(nam_table_vacuum(other.worker, others), 0);
	stat = verified(&me, mine);
	assert_int_equal(stat.entries, 6);
	assert_int_equal(stat.stale, 0);
	assert_string_equal(found_at(&me, mine, "a", "z"), "d a c ");
}

static void
scan__more_rows_than_one_batch__ALL_OF_THEM(void **state)
{
	struct nam_table_range range = { .column = SIZE };
	char keys[600][8];
	uint8_t high[8];

	(void)state;
	for (uint32_t from = 0; from < 600; from += 30) {
		struct row some[30];

		for (uint32_t i = 0; i < 30; i++) {
			(void)snprintf(keys[from + i], sizeof(keys[0]), "r%u", from + i);
			some[i] = (struct row){ keys[from + i], i % 2 ? "odd" : "even", from + i };
		}
		write_rows(&me, mine, some, 30);
	}
	assert_int_equal(nam_table_scan(other.worker, others, &range, rows), 0);
	assert_int_equal(nam_table_rows_count(rows), 600);
	for (uint32_t i = 0; i < 600; i++)
		assert_int_equal(nam_key_to_u64(nam_table_rows_at(rows, i)->columns[SIZE].data),
			i);
	nam_key_from_u64(299, high);
	range.high = (struct nam_bytes){ high, 8 };
	range.limit = 250;
	assert_int_equal(nam_table_scan(other.worker, others, &range, rows), 0);
	assert_int_equal(nam_table_rows_count(rows), 250);
	assert_int_equal(nam_key_to_u64(nam_table_rows_at(rows, 249)->columns[SIZE].data), 249);
	(void)found_at(&other, others, "odd", "odd");
	assert_int_equal(nam_table_rows_count(rows), 300);
	assert_int_equal(verified(&me, mine).rows, 600);
}

/* ---- several tables -------------------------------------------------------------------------- */

static void
write__tables_of_one_store__TOGETHER(void **state)
{
	struct nam_table_schema shared = schema;
	struct nam_bytes columns[3] = { { "o", 1 }, { "x", 1 }, { "12345678", 8 } };
	struct nam_table *orders, *lines;
	struct nam_table_write writes[2];
	struct nam_table_get gets[2];
	struct nam_table_range range = { .column = PLACE, .gets = gets, .gets_count = 2 };

	(void)state;
	shared.store = "shop";
	assert_int_equal(nam_table_create(me.worker, "orders", &shared), 0);
	assert_int_equal(nam_table_create(me.worker, "lines", &shared), 0);
	orders = table_open(&me, "orders");
	lines = table_open(&me, "lines");
	/* The same key in both. */
	writes[0] = (struct nam_table_write){ orders, { "o", 1 }, columns };
	writes[1] = (struct nam_table_write){ lines, { "o", 1 }, columns };
	assert_int_equal(nam_table_write(me.worker, writes, 2, NULL), 0);
	gets[0] = (struct nam_table_get){ .table = orders, .key = { "o", 1 } };
	gets[1] = (struct nam_table_get){ .table = orders, .key = { "p", 1 } };
	assert_string_equal(found(&me, lines, &range), "o ");
	assert_non_null(gets[0].columns);
	assert_memory_equal(gets[0].columns[PLACE].data, "x", 1);
	assert_null(gets[1].columns);
	assert_int_equal(gets[0].timestamp, nam_table_rows_at(rows, 0)->timestamp);
	writes[1].table = mine;
	assert_int_equal(nam_table_write(me.worker, writes, 2, NULL), -EINVAL);
	member_says(&me, "'orders' and 't' are in different stores");
	gets[0].table = mine;
	assert_int_equal(nam_table_scan(me.worker, lines, &range, rows), -EINVAL);
	assert_int_equal(nam_table_read(me.worker, gets, 2, rows), -EINVAL);
	nam_table_close(me.worker, orders);
	assert_int_equal(nam_table_drop(me.worker, "orders"), 0);
	assert_string_equal(found(&me, lines, &(struct nam_table_range){ .column = PLACE }), "o ");
	nam_table_close(me.worker, lines);
	assert_int_equal(nam_table_drop(me.worker, "lines"), 0);
	assert_int_equal(nam_records_drop(me.worker, "shop"), 0);
}

/* ---- bad input ------------------------------------------------------------------------------- */

static void
write__what_cannot_be__NOTHING_CHANGED(void **state)
{
	struct nam_bytes columns[3] = { { "n", 1 }, { "p", 1 }, { "s", 1 } };
	struct nam_table_write writes[2] = { { mine, { "k", 1 }, columns },
		{ mine, { "k", 1 }, NULL } };
	static const uint8_t large[NAM_RECORD_VALUE_BYTES_MAX];
	struct nam_table_range range = { .column = NAME };

	(void)state;
	assert_int_equal(nam_table_write(me.worker, writes, 2, NULL), -EINVAL);
	member_says(&me, "the same key");
	assert_int_equal(nam_table_write(me.worker, writes, 0, NULL), -NAM_E_LIMIT);
	assert_int_equal(nam_table_write(me.worker, writes, 33, NULL), -NAM_E_LIMIT);
	writes[0].key.bytes = 0;
	assert_int_equal(nam_table_write(me.worker, writes, 1, NULL), -NAM_E_LIMIT);
	writes[0].key = (struct nam_bytes){ large, 248 };
	assert_int_equal(nam_table_write(me.worker, writes, 1, NULL), -NAM_E_LIMIT);
	member_says(&me, "1 to 247");
	writes[0].key = (struct nam_bytes){ "k", 1 };
	columns[0] = (struct nam_bytes){ large, sizeof(large) };
	assert_int_equal(nam_table_write(me.worker, writes, 1, NULL), -NAM_E_LIMIT);
	columns[0].bytes -= 14;
	assert_int_equal(nam_table_write(me.worker, writes, 1, NULL), 0);
	assert_int_equal(nam_table_delete(me.worker, mine, bytes_of("k")), 0);
	assert_int_equal(nam_table_scan(me.worker, mine, &range, rows), -EINVAL);
	member_says(&me, "column 'name' has no index");
	range = (struct nam_table_range){ .column = PLACE, .low = { "b", 1 }, .high = { "a", 1 } };
	assert_int_equal(nam_table_scan(me.worker, mine, &range, rows), -EINVAL);
	member_says(&me, "above the high one");
	assert_int_equal(verified(&me, mine).rows, 0);
}

/* Invisible versions go, entries first, when there is no room left. */
static void
write__little_memory__ROOM_COMES_BACK(void **state)
{
	static uint8_t large[600000];
	struct nam_bytes columns[3] = { { large, sizeof(large) }, { "p", 1 }, { "s", 1 } };
	struct nam_table_stat stat;

	(void)state;
	for (unsigned i = 0; i < 400; i++) {
		uint8_t key = i % 8;

		if (nam_table_put(me.worker, mine, (struct nam_bytes){ &key, 1 }, columns))
			fail_msg("put %u: %s", i, nam_worker_diag(me.worker));
	}
	assert_int_equal(nam_table_vacuum(me.worker, mine), 0);
	stat = verified(&me, mine);
	assert_int_equal(stat.rows, 8);
	assert_int_equal(stat.stale, 0);
}

int
main(void)
{
#define TABLE_TEST(fn) cmocka_unit_test_setup_teardown(fn, table_new, table_end)
	const struct CMUnitTest tests[] = {
		TABLE_TEST(create__schemas_that_are_none__EINVAL_SAYS_WHY),
		TABLE_TEST(create__a_name_that_is_taken__EXISTS_and_nothing_is_left),
		TABLE_TEST(drop__a_part_that_does_not_verify__GOES_AND_SAYS_LOST),
		TABLE_TEST(open__what_is_no_table__SAYS_SO),
		TABLE_TEST(list__a_table__IS_THERE_ONCE),
		TABLE_TEST(read__rows_that_are_there_or_not__COLUMNS),
		TABLE_TEST(scan__bounds__ROWS_IN_ORDER),
		TABLE_TEST(scan__rows_moved_and_deleted__EACH_WHERE_IT_IS),
		TABLE_TEST(scan__more_rows_than_one_batch__ALL_OF_THEM),
		TABLE_TEST(write__tables_of_one_store__TOGETHER),
		TABLE_TEST(write__what_cannot_be__NOTHING_CHANGED),
		TABLE_TEST(write__little_memory__ROOM_COMES_BACK),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
