/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serializable.c -- tables over stores of serializable transactions: made, opened and dropped.
 *
 * A store's indexes are of bytes at fixed places of its values.  So a value is the row, and from
 * row_bytes_max on a slot for each index of its table.  A slot has the table's number and the
 * beginning of the column's value.  Rows of a table without that index are shorter, so they are not
 * in it.
 */
#include <errno.h>
#include <stdlib.h>

#include "ops.h"
#include "slots.h"

#define KEY_BYTES_DEFAULT 24u
#define ROW_BYTES_DEFAULT 256u
/* Tables that come later to a shared store may have so many bytes in an index. */
#define SHARED_INDEX_BYTES 16u

_Static_assert(NAM_TABLE_SERIALIZABLE_KEY_BYTES_MAX + NAM__TABLE_NUMBER_BYTES ==
	NAM_TXN_KEY_BYTES_MAX, "it fits");

/* ---- create ---------------------------------------------------------------------------------- */

static int
options_check(struct nam_worker *worker, const struct nam_table_schema *schema)
{
	const struct nam_table_options *options = &schema->options;

	if (schema->indexes_count > NAM_TABLE_SERIALIZABLE_INDEXES_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "%u indexes; a serializable table has "
			"up to %u", schema->indexes_count, NAM_TABLE_SERIALIZABLE_INDEXES_MAX);
	if (options->key_bytes_max > NAM_TABLE_SERIALIZABLE_KEY_BYTES_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "key_bytes_max: %u; keys of a "
			"serializable table have up to %u bytes", options->key_bytes_max,
			NAM_TABLE_SERIALIZABLE_KEY_BYTES_MAX);
	return 0;
}

/* The options of a store of its own; or of one that other tables may come to. */
static int
store_options_fill(struct nam_worker *worker, const struct nam__table_made *made,
	struct nam_txn_store_options *ret_options)
{
	const struct nam_table_superblock *superblock = &made->superblock;
	const struct nam_table_options *options = &made->schema->options;
	const uint32_t count = superblock->owns_store ? superblock->indexes_count :
		NAM_TXN_INDEXES_MAX;
	uint32_t row_bytes = options->row_bytes_max ?: ROW_BYTES_DEFAULT;
	uint64_t bytes = row_bytes;

	nam_txn_store_options_init(ret_options);
	ret_options->key_bytes_max = NAM__TABLE_NUMBER_BYTES +
		(options->key_bytes_max ?: KEY_BYTES_DEFAULT);
	if (options->rows)
		ret_options->records = options->rows;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t own = i < superblock->indexes_count ? superblock->indexes[i].bytes : 0;
		struct nam_txn_index *slot = &ret_options->indexes[i];

		if (!superblock->owns_store && own < SHARED_INDEX_BYTES)
			own = SHARED_INDEX_BYTES;
		slot->value_offset = (uint32_t)bytes;
		slot->key_bytes = NAM__TABLE_NUMBER_BYTES + own;
		bytes += slot->key_bytes;
	}
	if (bytes > NAM_TXN_VALUE_BYTES_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "row_bytes_max: %u, and %llu for the "
			"indexes of the store; choose up to %u together", row_bytes,
			(unsigned long long)(bytes - row_bytes), NAM_TXN_VALUE_BYTES_MAX);
	ret_options->value_bytes_max = (uint32_t)bytes;
	return 0;
}

/* Whether the store, which another table has made, has room for the rows. */
static int
fits(struct nam_worker *worker, const struct nam__table_made *made,
	const struct nam_txn_store *store)
{
	const struct nam_table_superblock *superblock = &made->superblock;
	const struct nam_table_options *options = &made->schema->options;
	const uint32_t key_bytes = store->options.key_bytes_max - NAM__TABLE_NUMBER_BYTES;

	if (options->key_bytes_max > key_bytes)
		return nam_diag_set(&worker->diag, -EINVAL, "key_bytes_max: %u; store '%s' was "
			"made for keys of up to %u bytes", options->key_bytes_max, store->name,
			key_bytes);
	if (options->row_bytes_max > nam__slots_at(store))
		return nam_diag_set(&worker->diag, -EINVAL, "row_bytes_max: %u; store '%s' was "
			"made for rows of up to %u bytes", options->row_bytes_max, store->name,
			nam__slots_at(store));
	for (uint32_t i = 0; i < superblock->indexes_count; i++)
		if (superblock->indexes[i].bytes > nam__slot_bytes(store, i))
			return nam_diag_set(&worker->diag, -EINVAL, "the index of column '%s' is "
				"to have %u bytes; index %u of store '%s' has up to %u",
				superblock->columns[superblock->indexes[i].column],
				superblock->indexes[i].bytes, i + 1, store->name,
				nam__slot_bytes(store, i));
	return 0;
}

/* A shared store may be there already. */
NAM_FIBER_FN static int
store_share(struct nam_worker *worker, const struct nam__table_made *made,
	const struct nam_txn_store_options *options)
{
	const char *name = made->superblock.store;
	struct nam_txn_store *store;
	int rc = nam__serial_store_create(worker, name, options, true); /* SUSPENDS */

	if (rc != -NAM_E_INDEX_EXISTS)
		return rc;
	rc = nam__serial_store_open(worker, name, 0, true, &store); /* SUSPENDS */
	if (rc)
		return rc;
	rc = fits(worker, made, store);
	nam_txn_store_close(store);
	return rc;
}

NAM_FIBER_FN static int
parts_make(struct nam_worker *worker, const char *name, struct nam__table_made *made)
{
	struct nam_txn_store_options options;
	int rc = store_options_fill(worker, made, &options);

	(void)name;
	if (rc)
		return rc;
	if (!made->superblock.owns_store)
		return store_share(worker, made, &options); /* SUSPENDS */
	rc = nam__serial_store_make(worker, made->superblock.store, &options, true, made->names,
		&made->names_count, &made->serial); /* SUSPENDS */
	made->has_store = !rc;
	return rc;
}

NAM_FIBER_FN static void
parts_made_end(struct nam_worker *worker, struct nam__table_made *made, int rc)
{
	if (made->has_store)
		nam__serial_store_made_end(worker, &made->serial, rc); /* SUSPENDS */
}

/* ---- open ------------------------------------------------------------------------------------ */

static bool
is_of(const struct nam_table *table, const struct nam_txn_store *store)
{
	for (uint32_t i = 0; i < table->schema.indexes_count; i++)
		if (i >= store->indexes_count ||
			table->schema.indexes[i].bytes > nam__slot_bytes(store, i))
			return false;
	return store->options.key_bytes_max > NAM__TABLE_NUMBER_BYTES;
}

NAM_FIBER_FN static int
parts_open(struct nam_worker *worker, struct nam_table *table, uint64_t cache_bytes)
{
	struct nam__table_store *store = calloc(1, sizeof(*store));
	struct nam_table_options *options = &table->schema.options;
	int rc;

	if (!store)
		return -ENOMEM;
	store->ops = &nam__serializable_tables;
	rc = nam__serial_store_open(worker, table->superblock.store,
		cache_bytes / (1 + table->schema.indexes_count), true,
		&store->serial); /* SUSPENDS */
	if (!rc && !is_of(table, store->serial)) {
		nam_txn_store_close(store->serial);
		rc = nam_diag_set(&worker->diag, -NAM_E_REMOTE_CORRUPT, "the rows of table '%s' "
			"are not of store '%s'", table->name, table->superblock.store);
	}
	if (rc) {
		free(store);
		return rc;
	}
	store->number = store->serial->store;
	nam__table_join(worker->client, table, store);
	store = table->store;
	table->key_bytes_max = store->serial->options.key_bytes_max - NAM__TABLE_NUMBER_BYTES;
	table->row_bytes_max = nam__slots_at(store->serial);
	options->key_bytes_max = table->key_bytes_max;
	options->row_bytes_max = table->row_bytes_max;
	options->rows = store->serial->options.records;
	return 0;
}

static void
store_close(struct nam__table_store *store)
{
	nam_txn_store_close(store->serial);
}

/* ---- drop ------------------------------------------------------------------------------------ */

NAM_FIBER_FN static int
parts_drop_join(struct nam_worker *worker, const char *name, struct nam__table_drop *drop)
{
	int rc;

	(void)name;
	if (!drop->superblock.owns_store)
		return 0;
	rc = nam__serial_drop_join(worker, drop->superblock.store, &drop->serial, drop->names,
		&drop->names_count); /* SUSPENDS */
	drop->has_store = !rc;
	return rc == -NAM_E_NOINDEX || rc == -NAM_E_KIND ? 0 : rc;
}

NAM_FIBER_FN static int
parts_drop_end(struct nam_worker *worker, struct nam__table_drop *drop, int name_rc)
{
	return drop->has_store ? nam__serial_drop_end(worker, &drop->serial, name_rc) :
		name_rc; /* SUSPENDS */
}

/* Rows are replaced in place. */
static int
vacuum(struct nam_worker *worker, struct nam_table *table)
{
	(void)worker;
	(void)table;
	return 0;
}

const struct nam__table_ops nam__serializable_tables = {
	.isolation = NAM_ISOLATION_SERIALIZABLE,
	.check = options_check,
	.make = parts_make,
	.made_end = parts_made_end,
	.open = parts_open,
	.close = store_close,
	.drop_join = parts_drop_join,
	.drop_end = parts_drop_end,
	.vacuum = vacuum,
	.write = nam__serializable_write,
	.read = nam__serializable_read,
	.scan = nam__serializable_scan,
	.verify = nam__serializable_verify,
};
