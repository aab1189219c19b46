/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write.c -- rows are put and deleted: their entries first, then by RAMP.
 *
 * An entry names one version, by its address.  T1: all entries of a transaction are in their
 * indexes before any of its versions can be seen.  So every scan finds the row by its column.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ops.h"

#define SWEEP_MOST 64u

/* The state of nam__put_hooks. */
struct entries {
	const struct nam_table_write *writes;
	uint32_t made;				/* so many, in order */
};

/* The entry with that number, counted over all rows that are put; false: there is none. */
static bool
entry_find(const struct nam__txn *txn, const struct entries *entries, uint32_t number,
	struct nam_index **ret_index, uint8_t *ret_key, uint64_t *ret_head)
{
	for (uint32_t i = 0; i < txn->count; i++) {
		const struct nam_table_write *write = &entries->writes[i];
		const struct nam_table_schema *schema = &write->table->schema;
		uint32_t count = write->columns ? schema->indexes_count : 0;

		if (number < count) {
			const struct nam_table_index *index = &schema->indexes[number];

			nam__entry_key(index, &write->columns[index->column],
				txn->items[i].at.raw, ret_key);
			*ret_index = write->table->indexes[number];
			*ret_head = txn->items[i].head.raw;
			return true;
		}
		number -= count;
	}
	return false;
}

NAM_FIBER_FN static void
entries_unmake(struct nam__txn *txn, void *arg)
{
	struct entries *entries = arg;
	uint8_t key[NAM_KEY_BYTES_MAX];
	struct nam_index *index;
	uint64_t head;

	while (entries->made > 0) {
		int rc;

		if (!entry_find(txn, entries, --entries->made, &index, key, &head))
			continue;
		rc = nam_index_delete_pair(txn->worker, index, key, head); /* SUSPENDS */
		(void)rc;		/* a stale entry is passed over by scans */
	}
}

NAM_FIBER_FN static int
entries_make(struct nam__txn *txn, void *arg)
{
	struct entries *entries = arg;
	uint8_t key[NAM_KEY_BYTES_MAX];
	struct nam_index *index;
	uint64_t head;
	int rc = 0;

	/* T1: entries come before the commit. */
	while (NAM_GUARD(ENTRY_FIRST) && !rc &&
		entry_find(txn, entries, entries->made, &index, key, &head)) {
		rc = nam_index_insert(txn->worker, index, key, head); /* SUSPENDS */
		/* A stale entry of an earlier version in this block. */
		if (rc == -NAM_E_EXISTS)
			rc = nam_index_update(txn->worker, index, key, head); /* SUSPENDS */
		if (!rc)
			entries->made++;
		nam_race_point("table.entry");
	}
	return rc;
}

/* Keys and rows as bytes, one after the other. */
struct encoded {
	uint8_t *bytes;
	uint32_t size;
	struct nam_record_put puts[NAM_TABLE_WRITES_MAX];
};

static int
encode(struct nam_worker *worker, const struct nam_table_write *writes, uint32_t count,
	struct encoded *encoded)
{
	uint64_t size = 0;
	uint8_t *at;

	for (uint32_t i = 0; i < count; i++)
		size += NAM_RECORD_KEY_BYTES_MAX +
			(writes[i].columns ? nam__row_bytes(writes[i].table, writes[i].columns) :
			0);
	if (size > UINT32_MAX)
		return -NAM_E_LIMIT;
	encoded->size = (uint32_t)size;
	encoded->bytes = at = size <= NAM__VERSION_BYTES_MAX ?
		nam_buffer_take(worker, (uint32_t)size) : malloc(size);
	if (!at)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct nam_record_put *put = &encoded->puts[i];

		*put = (struct nam_record_put){ .key = at };
		put->key_bytes = nam__row_key(writes[i].table, &writes[i].key, at);
		at += put->key_bytes;
		if (!writes[i].columns)
			continue;
		put->value = at;
		put->value_bytes = (uint32_t)nam__row_bytes(writes[i].table, writes[i].columns);
		nam__row_encode(writes[i].table, writes[i].columns, at);
		at += put->value_bytes;
	}
	return 0;
}

int
nam__read_atomic_write(struct nam_worker *worker, const struct nam_table_write *writes,
	uint32_t count, uint64_t *ret_timestamp)
{
	struct entries entries = { .writes = writes };
	const struct nam__put_hooks beside = { entries_make, entries_unmake, &entries };
	struct nam__table_store *store = writes[0].table->store;
	struct encoded encoded;
	int rc = encode(worker, writes, count, &encoded), sweep_rc;

	if (rc)
		return rc;
	rc = nam__records_put(worker, store->records, encoded.puts, count, &beside,
		ret_timestamp); /* SUSPENDS */
	if (encoded.size <= NAM__VERSION_BYTES_MAX)
		nam_buffer_give(worker, encoded.bytes, encoded.size);
	else
		free(encoded.bytes);
	/* A failed sweep does not fail the transaction; the memory stays allocated. */
	sweep_rc = nam__table_sweep(worker, store, SWEEP_MOST); /* SUSPENDS */
	(void)sweep_rc;
	return rc;
}
