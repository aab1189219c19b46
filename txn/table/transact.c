/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transact.c -- rows in serializable transactions: of programs, or one for a call of table.h.
 *
 * A row is found by its key or by an index as any record is.  So Z1 to Z13 hold of rows, too.  A
 * scan asks for the range of beginnings.  The rows say whether their values are in the bounds.
 */
#include <errno.h>
#include <string.h>

#include "ops.h"
#include "slots.h"

/* More than a transaction may have. */
#define RECORDS_ALL (NAM_TXN_RECORDS_MAX + 1)

static int
txn_check(struct nam_txn *txn, const struct nam_table *table)
{
	int rc = nam_table_expect(txn->worker, table, NAM_ISOLATION_SERIALIZABLE);

	if (rc || table->store->serial == txn->store)
		return rc;
	return nam_diag_set(&txn->worker->diag, -EINVAL, "table '%s' is in store '%s', and the "
		"transaction in '%s': make all tables in one to read or write them together",
		table->name, table->store->serial->name, txn->store->name);
}

/* ---- writes ---------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
row_delete(struct nam_txn *txn, const uint8_t *key, uint32_t key_bytes)
{
	int rc = nam_txn_delete(txn, key, key_bytes); /* SUSPENDS */

	return rc == -NAM_E_NOTFOUND ? 0 : rc;
}

NAM_FIBER_FN static int
rows_write(struct nam_txn *txn, const struct nam_table_write *writes, uint32_t count)
{
	const uint32_t room = txn->store->options.value_bytes_max;
	uint8_t key[NAM_RECORD_KEY_BYTES_MAX], *value = nam_buffer_take(txn->worker, room);
	int rc = value ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < count && !rc; i++) {
		uint32_t bytes = nam__row_key(writes[i].table, &writes[i].key, key);

		rc = writes[i].columns ? nam_txn_write(txn, key, bytes, value,
			nam__row_fill(writes[i].table, writes[i].columns, value)) :
			row_delete(txn, key, bytes); /* SUSPENDS */
	}
	if (value)
		nam_buffer_give(txn->worker, value, room);
	return rc;
}

int
nam_txn_rows_write(struct nam_txn *txn, const struct nam_table_write *writes, uint32_t count)
{
	int rc = count ? txn_check(txn, writes[0].table) : 0;

	if (!rc)
		rc = nam__writes_check(txn->worker, writes, count);
	return rc ? rc : rows_write(txn, writes, count); /* SUSPENDS */
}

/* ---- reads ----------------------------------------------------------------------------------- */

/* Room for so many bytes of rows, and for the columns of so many rows. */
static int
room_make(struct nam_table_rows *rows, uint64_t bytes, uint64_t count)
{
	int rc = nam__reserve(&rows->view.arena, bytes, &rows->view.arena_size, 1);

	return rc ? rc : nam__reserve(&rows->columns, count * NAM_TABLE_COLUMNS_MAX,
		&rows->columns_size, sizeof(*rows->columns));
}

static int
damaged(struct nam_txn *txn, const struct nam_table *table)
{
	return nam_diag_set(&txn->worker->diag, -NAM_E_REMOTE_CORRUPT, "table '%s' has a record "
		"that is no row", table->name);
}

/* Bytes that reading some rows takes: their keys, and the longest values. */
static uint64_t
gets_bytes(const struct nam_txn *txn, uint32_t count)
{
	const struct nam_txn_store_options *options = &txn->store->options;

	return (uint64_t)count * (options->key_bytes_max + options->value_bytes_max);
}

/* Rows by their keys.  @bytes, @columns	room for them */
NAM_FIBER_FN static int
rows_get(struct nam_txn *txn, struct nam_table_get *gets, uint32_t count,
	struct nam_table_rows *rows, uint8_t *bytes, struct nam_bytes *columns)
{
	const struct nam_txn_store_options *options = &txn->store->options;
	int rc = nam__reserve(&rows->reads, count, &rows->reads_size, sizeof(*rows->reads));

	for (uint32_t i = 0; i < count && !rc; i++) {
		uint8_t *value = bytes + options->key_bytes_max;

		rows->reads[i] = (struct nam_txn_get){ .key = bytes,
			.key_bytes = nam__row_key(gets[i].table, &gets[i].key, bytes),
			.size = options->value_bytes_max, .value = value };
		bytes = value + options->value_bytes_max;
	}
	if (!rc)
		rc = nam_txn_read_all(txn, rows->reads, count); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !rc; i++, columns += NAM_TABLE_COLUMNS_MAX) {
		const struct nam_txn_get *read = &rows->reads[i];

		gets[i].timestamp = read->sequence;
		gets[i].columns = read->rc ? NULL : columns;
		if (!read->rc && !nam__row_take(gets[i].table, read->value, read->value_bytes,
				columns))
			rc = damaged(txn, gets[i].table);
	}
	return rc;
}

NAM_FIBER_FN static int
rows_read(struct nam_txn *txn, struct nam_table_get *gets, uint32_t count,
	struct nam_table_rows *rows)
{
	int rc = room_make(rows, gets_bytes(txn, count), count);

	rows->count = 0;
	return rc ? rc : rows_get(txn, gets, count, rows, rows->view.arena,
		rows->columns); /* SUSPENDS */
}

int
nam_txn_rows_read(struct nam_txn *txn, struct nam_table_get *gets, uint32_t count,
	struct nam_table_rows *rows)
{
	int rc = count ? txn_check(txn, gets[0].table) : 0;

	if (!rc && count)
		rc = nam__gets_check(txn->worker, gets[0].table, gets, count);
	return rc ? rc : rows_read(txn, gets, count, rows); /* SUSPENDS */
}

/* ---- scans ----------------------------------------------------------------------------------- */

struct scan {
	struct nam_txn *txn;
	struct nam_table *table;
	uint32_t index;
	const struct nam_table_range *range;
	struct nam_table_rows *rows;
	uint32_t count;			/* records that may be rows of the range, */
	uint64_t bytes;			/* and theirs */
	bool exhausted;			/* there is no other row in the range */
};

/* The first records of the range of beginnings. */
NAM_FIBER_FN static int
records_scan(struct scan *scan, uint32_t wanted)
{
	const struct nam_table_range *range = scan->range;
	uint8_t low[NAM_KEY_BYTES_MAX], high[NAM_KEY_BYTES_MAX];
	const struct nam_range keys = { .low = low, .high = high, .high_inclusive = true };
	struct nam_table_rows *rows = scan->rows;
	int rc = nam__reserve(&rows->records, wanted, &rows->records_size,
		sizeof(*rows->records));

	if (rc)
		return rc;
	nam__slot_fill(scan->table, scan->index, &range->low, low);
	nam__slot_fill(scan->table, scan->index, &range->high, high);
	if (!range->high.data)
		memset(high + NAM__TABLE_NUMBER_BYTES, 0xff,
			nam__slot_bytes(scan->txn->store, scan->index));
	rc = nam_txn_scan(scan->txn, scan->index, &keys, rows->records, wanted,
		&scan->count); /* SUSPENDS */
	scan->exhausted = !rc && scan->count < wanted;
	return rc;
}

static const uint8_t *
slot_of(const struct scan *scan, const struct nam_txn_row *record)
{
	return (const uint8_t *)record->value +
		scan->txn->store->options.indexes[scan->index].value_offset;
}

/*
 * Keep the records whose value is within the bounds.  Those of equal beginnings come in any order.
 * So if others of the last one's may be missing, all of these are left out.
 */
static int
records_choose(struct scan *scan)
{
	const uint32_t slot_bytes = scan->txn->store->options.indexes[scan->index].key_bytes;
	struct nam_txn_row *records = scan->rows->records;
	struct nam_bytes columns[NAM_TABLE_COLUMNS_MAX];
	uint32_t count = scan->count, kept = 0;

	while (!scan->exhausted && count && !memcmp(slot_of(scan, &records[count - 1]),
			slot_of(scan, &records[scan->count - 1]), slot_bytes))
		count--;
	scan->bytes = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (!nam__row_take(scan->table, records[i].value, records[i].value_bytes, columns))
			return damaged(scan->txn, scan->table);
		if (!nam__range_has(scan->range, &columns[scan->range->column]))
			continue;
		scan->bytes += records[i].key_bytes + records[i].value_bytes;
		records[kept++] = records[i];
	}
	scan->count = kept;
	return 0;
}

/* Copy the rows: the transaction's images end with it. */
static void
records_copy(struct scan *scan, uint8_t *bytes, struct nam_bytes *columns)
{
	struct nam_table_rows *rows = scan->rows;

	for (uint32_t i = 0; i < scan->count; i++, columns += NAM_TABLE_COLUMNS_MAX) {
		const struct nam_txn_row *record = &rows->records[i];
		const struct nam__serial_item *item = nam__serial_item_of(scan->txn, record->key,
			record->key_bytes);
		uint8_t *value = bytes + record->key_bytes;

		memcpy(bytes, record->key, record->key_bytes);
		memcpy(value, record->value, record->value_bytes);
		(void)nam__row_take(scan->table, value, record->value_bytes, columns);
		rows->rows[i] = (struct nam_table_row){ .key = { bytes + NAM__TABLE_NUMBER_BYTES,
			record->key_bytes - NAM__TABLE_NUMBER_BYTES }, .columns = columns,
			.timestamp = item && item->sequence > NAM__SERIAL_MADE ?
			item->sequence : 0 };
		bytes = value + record->value_bytes;
	}
	rows->count = scan->count;
}

/* Rows of the range, until the limit is reached for certain. */
NAM_FIBER_FN static int
range_read(struct scan *scan)
{
	const uint32_t limit = scan->range->limit;
	uint32_t wanted = limit && limit < NAM_TXN_RECORDS_MAX ? limit + 1 : RECORDS_ALL;
	int rc;

	for (;;) {
		rc = records_scan(scan, wanted); /* SUSPENDS */
		if (!rc)
			rc = records_choose(scan);
		if (rc || scan->exhausted || (limit && scan->count >= limit))
			return rc;
		/* A transaction has no more records than that. */
		if (wanted == RECORDS_ALL)
			return nam__serial_limit(scan->txn, 1);
		wanted = wanted < RECORDS_ALL / 2 ? 2 * wanted : RECORDS_ALL;
	}
}

NAM_FIBER_FN static int
rows_scan(struct nam_txn *txn, struct nam_table *table, uint32_t index,
	const struct nam_table_range *range, struct nam_table_rows *rows)
{
	struct scan scan = { .txn = txn, .table = table, .index = index, .range = range,
		.rows = rows };
	int rc = range_read(&scan); /* SUSPENDS */

	if (!rc)
		rc = nam__reserve(&rows->rows, scan.count, &rows->rows_size, sizeof(*rows->rows));
	if (!rc)
		rc = room_make(rows, scan.bytes + gets_bytes(txn, range->gets_count),
			(uint64_t)scan.count + range->gets_count);
	if (rc)
		return rc;
	records_copy(&scan, rows->view.arena, rows->columns);
	nam__rows_order(rows, range->column, range->limit);
	return rows_get(txn, range->gets, range->gets_count, rows, rows->view.arena + scan.bytes,
		rows->columns + (uint64_t)scan.count * NAM_TABLE_COLUMNS_MAX); /* SUSPENDS */
}

int
nam_txn_rows_scan(struct nam_txn *txn, struct nam_table *table,
	const struct nam_table_range *range, struct nam_table_rows *rows)
{
	uint32_t index;
	int rc = txn_check(txn, table);

	if (!rc)
		rc = nam__range_check(txn->worker, table, range, &index);
	if (rc)
		return rc;
	rows->count = 0;
	return rows_scan(txn, table, index, range, rows); /* SUSPENDS */
}

/* ---- by a transaction of their own ----------------------------------------------------------- */

struct call {
	const struct nam_table_write *writes;
	struct nam_table_get *gets;
	uint32_t count;
	struct nam_table *table;
	uint32_t index;
	const struct nam_table_range *range;
	struct nam_table_rows *rows;
};

NAM_FIBER_FN static int
call_write(struct nam_txn *txn, void *arg)
{
	const struct call *call = arg;

	return rows_write(txn, call->writes, call->count); /* SUSPENDS */
}

NAM_FIBER_FN static int
call_read(struct nam_txn *txn, void *arg)
{
	const struct call *call = arg;

	return rows_read(txn, call->gets, call->count, call->rows); /* SUSPENDS */
}

NAM_FIBER_FN static int
call_scan(struct nam_txn *txn, void *arg)
{
	const struct call *call = arg;

	return rows_scan(txn, call->table, call->index, call->range, call->rows); /* SUSPENDS */
}

int
nam__serializable_write(struct nam_worker *worker, const struct nam_table_write *writes,
	uint32_t count, uint64_t *ret_timestamp)
{
	struct call call = { .writes = writes, .count = count };

	return nam_txn_run(worker, writes[0].table->store->serial, call_write, &call,
		ret_timestamp, NULL); /* SUSPENDS */
}

int
nam__serializable_read(struct nam_worker *worker, struct nam_table_get *gets, uint32_t count,
	struct nam_table_rows *rows)
{
	struct call call = { .gets = gets, .count = count, .rows = rows };

	return nam_txn_run(worker, gets[0].table->store->serial, call_read, &call, NULL,
		NULL); /* SUSPENDS */
}

int
nam__serializable_scan(struct nam_worker *worker, struct nam_table *table, uint32_t index,
	const struct nam_table_range *range, struct nam_table_rows *rows)
{
	struct call call = { .table = table, .index = index, .range = range, .rows = rows };

	return nam_txn_run(worker, table->store->serial, call_scan, &call, NULL,
		NULL); /* SUSPENDS */
}
