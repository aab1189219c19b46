/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.c -- the end of versions of rows: entries first, then the memory.
 *
 * T2: a replaced version keeps its entries until the end of every scan that began before all of its
 * replacing transaction was committed.  Such a scan may need them to find the record.
 */
#include <errno.h>

#include "ops.h"

#define VACUUM_PAUSE_NS 2000000ull

/* If the index was dropped, an entry may be gone already. */
NAM_FIBER_FN static int
entries_delete(struct nam_worker *worker, struct nam_table *table,
	const struct nam_version *version, struct nam_gaddr at)
{
	struct nam_bytes columns[NAM_TABLE_COLUMNS_MAX];
	uint8_t key[NAM_KEY_BYTES_MAX];
	int rc = 0;

	if (version->deleted || !nam__row_decode(table, nam__version_value(version),
		version->value_bytes, columns))
		return 0;
	for (uint32_t i = 0; i < table->schema.indexes_count && !rc; i++) {
		const struct nam_table_index *index = &table->schema.indexes[i];

		nam__entry_key(index, &columns[index->column], at.raw, key);
		rc = nam_index_delete_pair(worker, table->indexes[i], key,
			version->head); /* SUSPENDS */
		if (rc == -NAM_E_NOTFOUND)
			rc = 0;
	}
	return rc;
}

static bool
is_for_another_time(int rc)
{
	return rc == -NAM_E_LOCK_TIMEOUT || rc == -NAM_E_RESTART_TORN || rc == -ENOMEM;
}

NAM_FIBER_FN static int
version_sweep(struct nam_worker *worker, struct nam__table_store *store, struct nam_gaddr at)
{
	uint32_t bytes = nam__version_at_bytes(at), stride = nam__version_stride(bytes);
	struct nam_version *version = nam_buffer_take(worker, bytes);
	struct nam_table *table = NULL;
	int rc = version ? 0 : -ENOMEM;

	if (!rc) {
		nam__op_begin(worker, NAM_OP_OTHER);
		rc = nam_read_await(worker, at, version, bytes); /* SUSPENDS */
		nam__op_end(worker);
	}
	if (!rc && !nam__version_whole(version, at, store->records->store, false))
		rc = -NAM_E_REMOTE_CORRUPT;
	if (!rc)
		table = nam__store_table(worker->client, store,
			nam__row_table(nam__version_key(version), version->key_bytes));
	if (table)
		rc = entries_delete(worker, table, version, at); /* SUSPENDS */
	/* Without a table, no scan goes by its entries. */
	if (rc == -NAM_E_DROPPED)
		rc = 0;
	/*
	 * If the table is not open here, or the deletion failed, entries may still lead there.  A
	 * live owner releases its lock in time, so that a later sweep succeeds.
	 */
	if (table && !rc)
		nam_free_unseen(worker, nam_gaddr_untagged(at), stride);
	else if (is_for_another_time(rc))
		nam__limbo_give_back(worker, store->records, at, stride);
	else
		nam__block_leaked(worker->client, stride);
	if (table)
		nam__table_leave(worker->client, table);
	nam_buffer_give(worker, version, bytes);
	return rc;
}

int
nam__table_sweep(struct nam_worker *worker, struct nam__table_store *store, uint32_t most)
{
	struct nam_gaddr at;
	uint32_t count = 0;
	int rc = 0;

	while (!rc && count < most && nam__limbo_take(worker, store->records, &at)) {
		rc = version_sweep(worker, store, at); /* SUSPENDS */
		count++;
	}
	return rc ? rc : (int)count;
}

int
nam__read_atomic_vacuum(struct nam_worker *worker, struct nam_table *table)
{
	uint64_t deadline_ns = nam_now_ns() + worker->client->options.timeout_ms * 1000000ull;
	uint64_t reusable = 0;
	int rc;

	for (;;) {
		rc = nam__limbo_advance(worker, &reusable); /* SUSPENDS */
		if (!rc)
			rc = nam__table_sweep(worker, table->store, UINT32_MAX); /* SUSPENDS */
		if ((rc < 0 && !is_for_another_time(rc)) ||
			!nam__limbo_has(worker, table->store->records) ||
			nam_now_ns() >= deadline_ns)
			return rc < 0 ? rc : 0;
		nam__pause_await(worker, VACUUM_PAUSE_NS); /* SUSPENDS */
	}
}
