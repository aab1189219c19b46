/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.c -- rows by their keys, and by the values of their columns.
 *
 * A scan pins an epoch before it reads the index, and until its end.  So it finds entries of all
 * versions that were the latest meanwhile (T2), and can READ versions that are replaced meanwhile.
 * Entries lead to records.  The version that the head leads to decides whether the row is in the
 * range (T4).  Before that all missing parts of the transactions have been read (T5, view.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ops.h"

#define ENTRIES_MAX 64u			/* taken from the cursor at once */

/* ---- rows from records ----------------------------------------------------------------------- */

/* Whether a record is a row of the table; and its key and columns. */
static bool
row_of(const struct nam_table *table, const struct nam__view *view,
	const struct nam__seen *record, struct nam_bytes *ret_key, struct nam_bytes *ret_columns)
{
	const uint8_t *key;

	if (record->state != NAM__SEEN_FOUND || record->deleted)
		return false;
	key = view->arena + record->bytes_at;
	if (nam__row_table(key, record->key_bytes) != table->superblock.number)
		return false;
	*ret_key = (struct nam_bytes){ key + NAM__TABLE_NUMBER_BYTES,
		record->key_bytes - NAM__TABLE_NUMBER_BYTES };
	return nam__row_decode(table, key + record->key_bytes, record->value_bytes, ret_columns);
}

/* ---- scans ----------------------------------------------------------------------------------- */

struct scan {
	struct nam_worker *worker;
	struct nam_table *table;
	const struct nam_table_range *range;
	struct nam_table_rows *rows;
	const struct nam_table_index *index;
	struct nam_cursor *cursor;
	bool exhausted;
	uint8_t upto[NAM_KEY_BYTES_MAX];	/* all entries up to this one have been seen */
	uint8_t keys[ENTRIES_MAX * NAM_KEY_BYTES_MAX];
};

/*
 * Whether it is in the range, and all rows before it are here.  Entries of values with the same
 * beginning are in the order of addresses, so all of these must be here before the first is known.
 */
static bool
is_in_range(const struct scan *scan, const struct nam__seen *record,
	const struct nam_bytes *columns)
{
	const struct nam_table_range *range = scan->range;
	const struct nam_bytes *value = &columns[range->column];
	uint8_t key[NAM_KEY_BYTES_MAX];

	if (!nam__range_has(range, value))
		return false;
	if (scan->exhausted)
		return true;
	nam__entry_key(scan->index, value, record->at, key);
	return memcmp(key, scan->upto, scan->index->bytes) < 0;
}

/* Name the records that the next entries lead to, so many or all. */
NAM_FIBER_FN static int
entries_take(struct scan *scan, uint32_t wanted)
{
	const uint32_t bytes = scan->index->bytes, key_bytes = bytes + NAM__ENTRY_AT_BYTES;
	uint64_t heads[ENTRIES_MAX], at;
	uint32_t taken = 0, count;

	do {
		uint32_t most = wanted && wanted - taken < ENTRIES_MAX ? wanted - taken :
			ENTRIES_MAX;
		int rc = nam_cursor_next(scan->cursor, scan->keys, heads, most,
			&count); /* SUSPENDS */

		if (rc)
			return rc;
		for (uint32_t i = 0; i < count; i++) {
			const uint8_t *key = scan->keys + (size_t)i * key_bytes;

			memcpy(&at, key + bytes, sizeof(at));
			if (nam__view_name(&scan->rows->view, heads[i], at) < 0)
				return -ENOMEM;
			memcpy(scan->upto, key, key_bytes);
		}
		taken += count;
		scan->exhausted = !count;
	} while (!scan->exhausted && (!wanted || taken < wanted));
	return 0;
}

static void
answer_get(const struct nam__view *view, struct nam_table_get *get, uint64_t head,
	struct nam_bytes *columns)
{
	const struct nam__seen *record = head ? nam__view_find(view, head) : NULL;
	struct nam_bytes key;

	get->columns = NULL;
	get->timestamp = 0;
	if (!record || record->state != NAM__SEEN_FOUND)
		return;
	get->timestamp = record->timestamp;
	if (row_of(get->table, view, record, &key, columns) &&
		nam__bytes_compare(&key, &get->key) == 0)
		get->columns = columns;
}

/* Rows, sorted and cut; then the rows that were asked for beside them. */
static int
rows_fill(struct scan *scan, const uint64_t *heads)
{
	const struct nam_table_range *range = scan->range;
	const uint32_t each = scan->table->schema.columns_count;
	struct nam_table_rows *rows = scan->rows;
	const struct nam__view *view = &rows->view;
	struct nam_bytes *columns;
	int rc = nam__reserve(&rows->rows, view->found_count, &rows->rows_size,
		sizeof(*rows->rows));

	if (!rc)
		rc = nam__reserve(&rows->columns, (uint64_t)view->found_count * each +
			(uint64_t)range->gets_count * NAM_TABLE_COLUMNS_MAX, &rows->columns_size,
			sizeof(*rows->columns));
	if (rc)
		return rc;
	columns = rows->columns;
	rows->count = 0;
	for (uint32_t i = 0; i < view->found_count; i++) {
		const struct nam__seen *record = &view->found[i];
		struct nam_table_row row = { .columns = columns, .timestamp = record->timestamp };

		if (!row_of(scan->table, view, record, &row.key, columns) ||
			!is_in_range(scan, record, columns))
			continue;
		rows->rows[rows->count++] = row;
		columns += each;
	}
	nam__rows_order(rows, range->column, range->limit);
	for (uint32_t i = 0; i < range->gets_count; i++, columns += NAM_TABLE_COLUMNS_MAX)
		answer_get(view, &range->gets[i], heads[i], columns);
	return 0;
}

/* The heads of the rows beside the range.  A row without a head was not put before the scan. */
NAM_FIBER_FN static int
gets_name(struct scan *scan, uint64_t *ret_heads)
{
	struct nam_records *records = scan->table->store->records;
	uint8_t key[NAM_RECORD_KEY_BYTES_MAX];

	for (uint32_t i = 0; i < scan->range->gets_count; i++) {
		const struct nam_table_get *get = &scan->range->gets[i];
		struct nam__record_id id = nam__record_id(key,
			nam__row_key(get->table, &get->key, key));
		int rc = nam_index_lookup(scan->worker, records->keys, id.word,
			&ret_heads[i]); /* SUSPENDS */

		if (rc == -NAM_E_NOTFOUND)
			ret_heads[i] = 0;
		else if (rc)
			return rc;
		else if (nam__view_name(&scan->rows->view, ret_heads[i], 0) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* A new row beside the range came with another row of its transaction. */
static void
gets_find(struct scan *scan, uint64_t *heads)
{
	const struct nam__view *view = &scan->rows->view;
	uint8_t key[NAM_RECORD_KEY_BYTES_MAX];

	for (uint32_t i = 0; i < scan->range->gets_count; i++) {
		const struct nam_table_get *get = &scan->range->gets[i];
		uint32_t bytes = nam__row_key(get->table, &get->key, key);

		for (uint32_t k = 0; !heads[i] && k < view->found_count; k++) {
			const struct nam__seen *record = &view->found[k];

			if (record->state == NAM__SEEN_FOUND && record->key_bytes == bytes &&
				memcmp(view->arena + record->bytes_at, key, bytes) == 0)
				heads[i] = record->head;
		}
	}
}

NAM_FIBER_FN static int
scan_run(struct scan *scan)
{
	const uint32_t limit = scan->range->limit;
	const struct nam_table_range *range = scan->range;
	const struct nam__view *view = &scan->rows->view;
	struct nam_bytes key, columns[NAM_TABLE_COLUMNS_MAX];
	uint8_t low[NAM_KEY_BYTES_MAX], high[NAM_KEY_BYTES_MAX];
	const struct nam_range entries = { .low = range->low.data ? low : NULL,
		.high = range->high.data ? high : NULL, .high_inclusive = true };
	uint64_t heads[NAM_TABLE_WRITES_MAX];
	/* With one entry more the scan sees whether the last value has more. */
	uint32_t wanted = limit && limit < UINT32_MAX ? limit + 1 : 0, count;
	int rc = gets_name(scan, heads); /* SUSPENDS */

	nam__entry_key(scan->index, &range->low, 0, low);
	nam__entry_key(scan->index, &range->high, UINT64_MAX, high);
	if (!rc)
		rc = nam_cursor_open(scan->worker, scan->table->indexes[scan->index -
			scan->table->schema.indexes], &entries, &scan->cursor);
	if (rc)
		return rc;
	do {
		rc = entries_take(scan, wanted); /* SUSPENDS */
		if (rc)
			break;
		nam__op_begin(scan->worker, NAM_OP_TABLE_SCAN);
		rc = nam__view_whole(&scan->rows->view); /* SUSPENDS */
		nam__op_end(scan->worker);
		/* Each turn counts all records again. */
		wanted = wanted < UINT32_MAX / 2 ? 2 * wanted : 0;
		count = 0;
		for (uint32_t i = 0; i < view->found_count; i++)
			count += row_of(scan->table, view, &view->found[i], &key, columns) &&
				is_in_range(scan, &view->found[i], columns);
	} while (!rc && !scan->exhausted && count < limit);
	nam_cursor_close(scan->cursor); /* SUSPENDS */
	gets_find(scan, heads);
	return rc ? rc : rows_fill(scan, heads);
}

int
nam__read_atomic_scan(struct nam_worker *worker, struct nam_table *table, uint32_t index,
	const struct nam_table_range *range, struct nam_table_rows *rows)
{
	struct scan scan = { .worker = worker, .table = table, .range = range, .rows = rows,
		.index = &table->schema.indexes[index] };
	uint64_t epoch;
	int rc;

	nam__view_reset(&rows->view, worker, table->store->records);
	epoch = nam__epoch_pin(worker);
	rc = scan_run(&scan); /* SUSPENDS */
	nam__epoch_unpin(worker, epoch);
	return rc;
}

/* ---- rows by their keys ---------------------------------------------------------------------- */

NAM_FIBER_FN static int
read_all(struct nam__txn *txn, struct nam_table_get *gets, uint32_t count,
	uint8_t (*keys)[NAM_RECORD_KEY_BYTES_MAX + 1])
{
	bool again;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t bytes = nam__row_key(gets[i].table, &gets[i].key, keys[i]);
		int rc = nam__txn_add(txn, keys[i], bytes, &again);

		if (rc < 0)
			return rc;
		txn->item_of[i] = (uint8_t)rc;
	}
	return nam__txn_get(txn); /* SUSPENDS */
}

/* Copy the rows: the images go back to the worker. */
static int
keep(struct nam__txn *txn, struct nam_table_get *gets, uint32_t count, struct nam_table_rows *rows)
{
	struct nam__view *view = &rows->view;
	struct nam_bytes *columns;
	int rc = nam__reserve(&rows->columns, (uint64_t)count * NAM_TABLE_COLUMNS_MAX,
		&rows->columns_size, sizeof(*rows->columns));

	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		const struct nam__item *item = &txn->items[i];

		if (item->state == NAM__ITEM_FOUND)
			rc = nam__view_keep(view, item->head, item->image);
	}
	columns = rows->columns;
	for (uint32_t i = 0; i < count && !rc; i++, columns += NAM_TABLE_COLUMNS_MAX)
		answer_get(view, &gets[i], txn->items[txn->item_of[i]].head.raw, columns);
	return rc;
}

int
nam__read_atomic_read(struct nam_worker *worker, struct nam_table_get *gets, uint32_t count,
	struct nam_table_rows *rows)
{
	const uint32_t keys_bytes = NAM_TABLE_WRITES_MAX * (NAM_RECORD_KEY_BYTES_MAX + 1);
	struct nam__txn *txn;
	uint8_t *keys;
	int rc;

	nam__view_reset(&rows->view, worker, gets[0].table->store->records);
	txn = nam__txn_new(worker, gets[0].table->store->records);
	keys = nam_buffer_take(worker, keys_bytes);
	rc = txn && keys ? 0 : -ENOMEM;
	if (!rc)
		rc = read_all(txn, gets, count, (void *)keys); /* SUSPENDS */
	if (!rc)
		rc = keep(txn, gets, count, rows);
	nam_buffer_give(worker, keys, keys_bytes);
	nam__txn_free(txn);
	return rc;
}
