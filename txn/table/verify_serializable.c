/* SPDX-License-Identifier: Apache-2.0 */
/* verify_serializable.c -- the same for serializable tables: all records of the store are READ. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "txn/records/walk.h"
#include "txn/serial/walk.h"
#include "ops.h"
#include "slots.h"

#define RECORDS_MAX 16u			/* READ at once */
#define AGAIN_NS 20000u			/* before a record is READ again */

struct verify {
	struct nam_worker *worker;
	struct nam_table *table;
	const struct nam_txn_store *store;
	uint64_t *records;		/* their addresses */
	uint64_t count, size;
	struct nam_index *index;	/* its entries are counted */
	struct nam__table_findings found;
};

static int
record_list(void *arg, enum nam__serial_block kind, struct nam_gaddr at, uint32_t stride)
{
	struct verify *verify = arg;
	int rc;

	(void)stride;
	if (kind != NAM__SERIAL_BLOCK_RECORD)
		return 0;
	rc = nam__reserve(&verify->records, verify->count + 1, &verify->size,
		sizeof(*verify->records));
	if (!rc)
		verify->records[verify->count++] = at.raw;
	return rc;
}

/* Whether the index has that entry. */
NAM_FIBER_FN static int
entry_find(const struct verify *verify, uint32_t number, const uint8_t *key, struct nam_gaddr at,
	bool *ret_found)
{
	const struct nam_range range = { .low = key, .high = key, .high_inclusive = true };
	uint64_t records[NAM__ENTRIES_MAX];
	struct nam_cursor *cursor;
	uint32_t count;
	int rc = nam_cursor_open(verify->worker, verify->store->indexes[number], &range, &cursor);

	*ret_found = false;
	if (rc)
		return rc;
	do {
		rc = nam_cursor_next(cursor, NULL, records, NAM__ENTRIES_MAX,
			&count); /* SUSPENDS */
		for (uint32_t i = 0; i < count && !rc; i++)
			*ret_found |= nam_gaddr_same(NAM_GADDR(records[i]), at);
	} while (!rc && count && !*ret_found);
	nam_cursor_close(cursor); /* SUSPENDS */
	return rc;
}

NAM_FIBER_FN static int
row_verify(struct verify *verify, const struct nam_serial_record *record, struct nam_gaddr at)
{
	const struct nam_table *table = verify->table;
	const uint8_t *value = record->bytes + record->key_bytes;
	struct nam_bytes columns[NAM_TABLE_COLUMNS_MAX];
	const struct nam_bytes key = { record->bytes + NAM__TABLE_NUMBER_BYTES,
		record->key_bytes - NAM__TABLE_NUMBER_BYTES };
	uint8_t slot[NAM_KEY_BYTES_MAX];
	int rc = 0;

	if (!nam__row_take(table, value, record->value_bytes, columns))
		return -NAM_E_REMOTE_CORRUPT;
	verify->found.stat.rows++;
	verify->found.stat.row_bytes += key.bytes + nam__row_bytes(table, columns);
	for (uint32_t i = 0; i < table->schema.indexes_count && !rc; i++) {
		bool found;

		nam__slot_fill(table, i, &columns[table->schema.indexes[i].column], slot);
		rc = entry_find(verify, i, slot, at, &found); /* SUSPENDS */
		if (!rc && !found)
			nam__unindexed_report(&verify->found, table, &key, record->sequence, i, "");
	}
	return rc;
}

/* Z1: READ a record again while others write it, until the image is whole. */
NAM_FIBER_FN static int
record_await(struct verify *verify, const struct nam__read *read)
{
	const struct nam_serial_record *record = read->local;
	struct nam_worker *worker = verify->worker;
	const uint64_t end_ns = nam_now_ns() +
		worker->client->options.lock_timeout_ms * 1000000ull;
	int rc = 0;

	while (!nam__serial_whole(verify->store, record, read->at)) {
		bool locked = nam__serial_locked(record->word);

		if (nam_now_ns() >= end_ns)
			return nam_diag_set(&worker->diag, locked ? -NAM_E_CONFLICT :
				-NAM_E_REMOTE_CORRUPT, "store '%s': the record at region %u offset "
				"%llu %s", verify->store->name, nam_gaddr_region(read->at),
				(unsigned long long)nam_gaddr_offset(read->at), locked ?
				"stays locked: try again" : "does not verify");
		nam__pause_await(worker, AGAIN_NS); /* SUSPENDS */
		nam__op_begin(worker, NAM_OP_OTHER);
		/* The client that has locked it may be dead. */
		rc = locked ? nam__serial_met(worker, verify->table->store->serial, read->at,
			record->word) : 0; /* SUSPENDS */
		if (!rc || rc == -NAM_E_CONFLICT)
			rc = nam_read_await(worker, read->at, read->local,
				read->bytes); /* SUSPENDS */
		nam__op_end(worker);
		if (rc)
			return rc;
	}
	return 0;
}

/* Of each image, so that all of them are aligned. */
static uint32_t
image_room(const struct verify *verify)
{
	return (nam__serial_room(verify->store) + 7) & ~7u;
}

/* So many records from that one on, as READ.  Z1: if a record is torn, others may be writing it. */
NAM_FIBER_FN static int
some_verify(struct verify *verify, uint64_t from, uint32_t count, uint8_t *images)
{
	const uint32_t room = image_room(verify);
	struct nam__read reads[RECORDS_MAX];
	int rc;

	for (uint32_t i = 0; i < count; i++)
		reads[i] = (struct nam__read){ NAM_GADDR(verify->records[from + i]),
			images + (size_t)i * room, nam__serial_read_bytes(verify->store,
			verify->store->options.key_bytes_max) };
	nam__op_begin(verify->worker, NAM_OP_OTHER);
	nam_race_point("table.verify");
	rc = nam__reads_await(verify->worker, reads, count); /* SUSPENDS */
	nam__op_end(verify->worker);
	for (uint32_t i = 0; i < count && !rc; i++) {
		const struct nam_serial_record *record = reads[i].local;

		rc = record_await(verify, &reads[i]); /* SUSPENDS */
		if (!rc && !record->absent && nam__row_table(record->bytes, record->key_bytes) ==
			verify->table->superblock.number)
			rc = row_verify(verify, record, reads[i].at); /* SUSPENDS */
	}
	return rc;
}

NAM_FIBER_FN static int
rows_verify(struct verify *verify)
{
	const uint32_t bytes = RECORDS_MAX * image_room(verify);
	uint8_t *images;
	int rc;

	nam__op_begin(verify->worker, NAM_OP_OTHER);
	rc = nam__serial_walk(verify->worker, verify->store, record_list, verify); /* SUSPENDS */
	nam__op_end(verify->worker);
	if (rc)
		return rc;
	images = nam_buffer_take(verify->worker, bytes);
	if (!images)
		return -ENOMEM;
	for (uint64_t i = 0; i < verify->count && !rc; i += RECORDS_MAX)
		rc = some_verify(verify, i, verify->count - i < RECORDS_MAX ?
			(uint32_t)(verify->count - i) : RECORDS_MAX, images); /* SUSPENDS */
	nam_buffer_give(verify->worker, images, bytes);
	return rc;
}

/* A shared store's index has entries of other tables, too. */
static int
entries_count(void *arg, const uint8_t *keys, const uint64_t *records, uint32_t count)
{
	struct verify *verify = arg;
	const uint32_t bytes = nam_index_properties(verify->index)->key_bytes;

	(void)records;
	for (uint32_t i = 0; i < count; i++)
		verify->found.stat.entries += !memcmp(keys + (size_t)i * bytes,
			&verify->table->superblock.number, NAM__TABLE_NUMBER_BYTES);
	return 0;
}

NAM_FIBER_FN static int
entries_verify(struct verify *verify)
{
	const uint32_t bytes = NAM__ENTRIES_MAX * NAM_KEY_BYTES_MAX;
	uint8_t *keys = nam_buffer_take(verify->worker, bytes);
	int rc = keys ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < verify->table->schema.indexes_count && !rc; i++) {
		verify->index = verify->store->indexes[i];
		rc = nam__entries_walk(verify->worker, verify->index, keys, false, entries_count,
			verify); /* SUSPENDS */
	}
	if (keys)
		nam_buffer_give(verify->worker, keys, bytes);
	return rc;
}

int
nam__serializable_verify(struct nam_worker *worker, struct nam_table *table,
	nam_table_violation_fn violation, void *arg, struct nam_table_stat *ret_stat,
	uint64_t *ret_violations)
{
	struct verify verify = { .worker = worker, .table = table, .store = table->store->serial,
		.found = { .violation = violation, .arg = arg } };
	uint64_t epoch = nam__epoch_pin(worker);
	int rc = rows_verify(&verify); /* SUSPENDS */

	if (!rc)
		rc = entries_verify(&verify); /* SUSPENDS */
	nam__epoch_unpin(worker, epoch);
	free(verify.records);
	if (!rc)
		nam__findings_sum(&verify.found, table, ret_stat, ret_violations);
	return rc;
}
