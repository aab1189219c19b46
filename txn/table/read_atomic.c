/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_atomic.c -- tables over one-sided record stores: their indexes and stores are made, opened
 * and dropped with them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/client/names.h"
#include "ops.h"

static void
index_name(const char *name, const char *column, char *ret_text)
{
	(void)snprintf(ret_text, NAM_INDEX_NAME_BYTES, "%.*s.by.%.*s",
		(int)NAM_TABLE_NAME_BYTES_MAX, name, (int)NAM_TABLE_COLUMN_NAME_BYTES_MAX, column);
}

static int
options_check(struct nam_worker *worker, const struct nam_table_schema *schema)
{
	const struct nam_table_options *options = &schema->options;

	if (options->key_bytes_max || options->row_bytes_max || options->rows)
		return nam_diag_set(&worker->diag, -EINVAL, "key_bytes_max, row_bytes_max and rows "
			"are of serializable tables: a read-atomic table has no use for them");
	return 0;
}

/* ---- create ---------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
indexes_make(struct nam_worker *worker, const char *name, struct nam__table_made *made)
{
	const struct nam_table_superblock *superblock = &made->superblock;
	struct nam_index_options options;
	char text[NAM_INDEX_NAME_BYTES];

	for (uint32_t i = 0; i < superblock->indexes_count; i++) {
		int rc;

		nam_index_options_init(&options);
		options.key_bytes = superblock->indexes[i].bytes + NAM__ENTRY_AT_BYTES;
		index_name(name, superblock->columns[superblock->indexes[i].column], text);
		rc = nam__index_make(worker, text, &options, &made->indexes[i]); /* SUSPENDS */
		if (rc)
			return rc;
		made->indexes_count++;
		made->names[made->names_count++] = nam__name_entry(NAM_CATALOG_INDEX, text,
			nam__index_made_entry(made->indexes[i]));
	}
	return 0;
}

/* A shared store may be there already. */
NAM_FIBER_FN static int
store_share(struct nam_worker *worker, const char *name)
{
	struct nam_records *records;
	int rc = nam__records_create(worker, name, NULL, true); /* SUSPENDS */

	if (rc != -NAM_E_INDEX_EXISTS)
		return rc;
	rc = nam__records_open(worker, name, 0, NAM__RECORDS_ROWS, &records); /* SUSPENDS */
	if (!rc)
		nam_records_close(records);
	return rc;
}

NAM_FIBER_FN static int
store_make(struct nam_worker *worker, struct nam__table_made *made)
{
	const char *name = made->superblock.store;
	int rc;

	if (!made->superblock.owns_store)
		return store_share(worker, name); /* SUSPENDS */
	rc = nam__records_make(worker, name, NULL, true, made->names + made->names_count,
		&made->records); /* SUSPENDS */
	made->has_store = !rc;
	made->names_count += rc ? 0 : NAM__RECORDS_NAMES;
	return rc;
}

NAM_FIBER_FN static int
parts_make(struct nam_worker *worker, const char *name, struct nam__table_made *made)
{
	int rc = store_make(worker, made); /* SUSPENDS */

	return rc ? rc : indexes_make(worker, name, made); /* SUSPENDS */
}

NAM_FIBER_FN static void
parts_made_end(struct nam_worker *worker, struct nam__table_made *made, int rc)
{
	while (made->indexes_count)
		nam__index_made_end(worker, made->indexes[--made->indexes_count],
			rc); /* SUSPENDS */
	if (made->has_store)
		nam__records_made_end(worker, &made->records, rc); /* SUSPENDS */
}

/* ---- open ------------------------------------------------------------------------------------ */

NAM_FIBER_FN static int
store_open(struct nam_worker *worker, struct nam_table *table, uint64_t cache_bytes)
{
	struct nam__table_store *store = calloc(1, sizeof(*store));
	int rc;

	if (!store)
		return -ENOMEM;
	rc = nam__records_open(worker, table->superblock.store, cache_bytes, NAM__RECORDS_ROWS,
		&store->records); /* SUSPENDS */
	if (rc) {
		free(store);
		return rc;
	}
	store->ops = &nam__read_atomic_tables;
	store->number = store->records->store;
	store->records->tables = store;
	store->records->rows_sweep = nam__table_sweep;
	nam__table_join(worker->client, table, store);
	return 0;
}

NAM_FIBER_FN static int
parts_open(struct nam_worker *worker, struct nam_table *table, uint64_t cache_bytes)
{
	const struct nam_table_schema *schema = &table->schema;
	char text[NAM_INDEX_NAME_BYTES];
	int rc = 0;

	table->key_bytes_max = NAM_TABLE_KEY_BYTES_MAX;
	table->row_bytes_max = NAM_RECORD_VALUE_BYTES_MAX;
	for (uint32_t i = 0; !rc && i < schema->indexes_count; i++) {
		index_name(table->name, schema->columns[schema->indexes[i].column], text);
		rc = nam_index_open(worker, text, cache_bytes / 2 / schema->indexes_count,
			&table->indexes[i]); /* SUSPENDS */
	}
	return rc ? rc : store_open(worker, table, cache_bytes / 2); /* SUSPENDS */
}

static void
store_close(struct nam__table_store *store)
{
	nam_records_close(store->records);
}

/* ---- drop ------------------------------------------------------------------------------------ */

NAM_FIBER_FN static int
parts_drop_join(struct nam_worker *worker, const char *name, struct nam__table_drop *drop)
{
	const struct nam_table_superblock *superblock = &drop->superblock;
	char text[NAM_INDEX_NAME_BYTES];
	int rc = 0;

	for (uint32_t i = 0; i < superblock->indexes_count && !rc; i++) {
		index_name(name, superblock->columns[superblock->indexes[i].column], text);
		rc = nam__index_drop_join(worker, text, &drop->indexes[i], drop->names,
			&drop->names_count); /* SUSPENDS */
	}
	if (rc || !superblock->owns_store)
		return rc;
	rc = nam__records_drop_join(worker, superblock->store, &drop->records, drop->names,
		&drop->names_count); /* SUSPENDS */
	drop->has_store = !rc;
	return rc == -NAM_E_NOINDEX || rc == -NAM_E_KIND ? 0 : rc;
}

NAM_FIBER_FN static int
parts_drop_end(struct nam_worker *worker, struct nam__table_drop *drop, int name_rc)
{
	int first_rc = name_rc, rc;

	for (uint32_t i = 0; i < NAM_TABLE_INDEXES_MAX; i++) {
		rc = nam__index_drop_end(worker, &drop->indexes[i], name_rc); /* SUSPENDS */
		first_rc = first_rc ? first_rc : rc;
	}
	if (drop->has_store) {
		rc = nam__records_drop_end(worker, &drop->records, name_rc); /* SUSPENDS */
		first_rc = first_rc ? first_rc : rc;
	}
	return first_rc;
}

const struct nam__table_ops nam__read_atomic_tables = {
	.isolation = NAM_ISOLATION_READ_ATOMIC,
	.check = options_check,
	.make = parts_make,
	.made_end = parts_made_end,
	.open = parts_open,
	.close = store_close,
	.drop_join = parts_drop_join,
	.drop_end = parts_drop_end,
	.vacuum = nam__read_atomic_vacuum,
	.write = nam__read_atomic_write,
	.read = nam__read_atomic_read,
	.scan = nam__read_atomic_scan,
	.verify = nam__read_atomic_verify,
};
