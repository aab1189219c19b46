/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c -- tables by name: create, open, drop, list.
 *
 * A table is made in this order: store, indexes, superblock, name.  It is dropped name first, then
 * in the reverse order.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "txn/records/superblock.h"
#include "ops.h"

#define INDEX_BYTES_DEFAULT 16u
#define OWN_STORE ".rows"		/* behind the table's name */

_Static_assert(NAM_TABLE_NAME_BYTES_MAX + NAM_TABLE_COLUMN_NAME_BYTES_MAX + sizeof(".by.") <=
	NAM_INDEX_NAME_BYTES, "names of indexes fit");
_Static_assert(NAM_TABLE_COLUMN_NAME_BYTES_MAX + 1 ==
	sizeof(((struct nam_table_superblock *)0)->columns[0]), "names of columns fit");

static const struct nam__superblock_kind superblock_kind = { NAM_CATALOG_TABLE, "table",
	NAM_TABLE_MAGIC, NAM_TABLE_FORMAT, sizeof(struct nam_table_superblock) };

/* How the table keeps its rows. */
static const struct nam__table_ops *
ops_of(const struct nam_table_superblock *superblock)
{
	return superblock->serializable ? &nam__serializable_tables : &nam__read_atomic_tables;
}

static const char *const isolations[] = {
	[NAM_ISOLATION_READ_ATOMIC] = "read-atomic",
	[NAM_ISOLATION_SERIALIZABLE] = "serializable",
};

const char *
nam_isolation_name(enum nam_isolation isolation)
{
	return (unsigned)isolation < sizeof(isolations) / sizeof(isolations[0]) ?
		isolations[isolation] : NULL;
}

int
nam_table_expect(struct nam_worker *worker, const struct nam_table *table,
	enum nam_isolation isolation)
{
	enum nam_isolation is = table->schema.options.isolation;

	return is == isolation ? 0 : nam_diag_set(&worker->diag, -NAM_E_KIND, "table '%s' is %s "
		"and not %s: use it as it is, or make another one", table->name,
		nam_isolation_name(is), nam_isolation_name(isolation) ?: "of that isolation");
}

int
nam_table_store(struct nam_worker *worker, struct nam_table *table,
	struct nam_txn_store **ret_store)
{
	int rc = nam_table_expect(worker, table, NAM_ISOLATION_SERIALIZABLE);

	if (!rc)
		*ret_store = table->store->serial;
	return rc;
}

/* ---- names, schemas -------------------------------------------------------------------------- */

static int
name_check(struct nam_worker *worker, const char *name)
{
	int rc = nam__name_check(worker, NAM_CATALOG_TABLE, name);

	if (!rc && strlen(name) > NAM_TABLE_NAME_BYTES_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "the name of a table has up to %u "
			"bytes; '%s' has %zu", NAM_TABLE_NAME_BYTES_MAX, name, strlen(name));
	return rc;
}

static int
columns_check(struct nam_worker *worker, const struct nam_table_schema *schema)
{
	if (!schema->columns_count || schema->columns_count > NAM_TABLE_COLUMNS_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "%u columns; a table has 1 to %u",
			schema->columns_count, NAM_TABLE_COLUMNS_MAX);
	for (uint32_t i = 0; i < schema->columns_count; i++) {
		const char *name = schema->columns[i];
		size_t length = name ? strlen(name) : 0;

		if (!length || length > NAM_TABLE_COLUMN_NAME_BYTES_MAX ||
			nam__name_check(worker, NAM_CATALOG_TABLE, name))
			return nam_diag_set(&worker->diag, -EINVAL, "the name of column %u: 1 to "
				"%u printable bytes without blanks", i + 1,
				NAM_TABLE_COLUMN_NAME_BYTES_MAX);
		for (uint32_t k = 0; k < i; k++)
			if (strcmp(schema->columns[k], name) == 0)
				return nam_diag_set(&worker->diag, -EINVAL,
					"two columns have the name '%s'", name);
	}
	return 0;
}

static int
indexes_check(struct nam_worker *worker, const struct nam_table_schema *schema)
{
	if (schema->indexes_count > NAM_TABLE_INDEXES_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "%u indexes; a table has up to %u",
			schema->indexes_count, NAM_TABLE_INDEXES_MAX);
	for (uint32_t i = 0; i < schema->indexes_count; i++) {
		const struct nam_table_index *index = &schema->indexes[i];

		if (index->column >= schema->columns_count)
			return nam_diag_set(&worker->diag, -EINVAL, "index %u is of column %u; "
				"there are %u", i + 1, index->column + 1, schema->columns_count);
		if (index->bytes > NAM_TABLE_INDEX_BYTES_MAX)
			return nam_diag_set(&worker->diag, -EINVAL, "the index of column '%s' is "
				"to have %u bytes; indexes have up to %u",
				schema->columns[index->column], index->bytes,
				NAM_TABLE_INDEX_BYTES_MAX);
		for (uint32_t k = 0; k < i; k++)
			if (schema->indexes[k].column == index->column)
				return nam_diag_set(&worker->diag, -EINVAL, "column '%s' has two "
					"indexes", schema->columns[index->column]);
	}
	return 0;
}

/* "<table>.rows" would go with that table. */
static int
store_check(struct nam_worker *worker, const struct nam_table_schema *schema)
{
	const size_t own_bytes = strlen(OWN_STORE);
	const char *store = schema->store;
	size_t length = store ? strlen(store) : 0;

	if (length > NAM_RECORDS_NAME_BYTES_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "the name of a record store has up to "
			"%u bytes", NAM_RECORDS_NAME_BYTES_MAX);
	if (!nam_isolation_name(schema->options.isolation ?: NAM_ISOLATION_READ_ATOMIC))
		return nam_diag_set(&worker->diag, -EINVAL, "isolation: %u; choose one of enum "
			"nam_isolation", (unsigned)schema->options.isolation);
	if (length >= own_bytes && strcmp(store + length - own_bytes, OWN_STORE) == 0)
		return nam_diag_set(&worker->diag, -EINVAL, "'%s' is the name of a table's own "
			"record store: make all tables in one of another name", store);
	return 0;
}

/* ---- create ---------------------------------------------------------------------------------- */

static void
superblock_fill(struct nam_table_superblock *superblock, const char *name,
	const struct nam_table_schema *schema)
{
	*superblock = (struct nam_table_superblock){
		.magic = NAM_TABLE_MAGIC,
		.number = nam_entropy() | 1,
		.format = NAM_TABLE_FORMAT,
		.columns_count = (uint16_t)schema->columns_count,
		.indexes_count = (uint16_t)schema->indexes_count,
		.owns_store = !schema->store,
		.serializable = schema->options.isolation == NAM_ISOLATION_SERIALIZABLE,
	};
	(void)snprintf(superblock->store, sizeof(superblock->store), "%s%s",
		schema->store ? schema->store : name, schema->store ? "" : OWN_STORE);
	for (uint32_t i = 0; i < schema->columns_count; i++)
		memcpy(superblock->columns[i], schema->columns[i], strlen(schema->columns[i]));
	for (uint32_t i = 0; i < schema->indexes_count; i++) {
		uint32_t bytes = schema->indexes[i].bytes;

		superblock->indexes[i].column = (uint16_t)schema->indexes[i].column;
		superblock->indexes[i].bytes = (uint16_t)(bytes ? bytes : INDEX_BYTES_DEFAULT);
	}
}

int
nam_table_create(struct nam_worker *worker, const char *name,
	const struct nam_table_schema *schema)
{
	const struct nam__table_ops *ops;
	struct nam__table_made *made;
	int rc = name_check(worker, name);

	if (!rc)
		rc = columns_check(worker, schema);
	if (!rc)
		rc = indexes_check(worker, schema);
	if (!rc)
		rc = store_check(worker, schema);
	if (rc)
		return rc;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->schema = schema;
	superblock_fill(&made->superblock, name, schema);
	ops = ops_of(&made->superblock);
	made->names_count = 1;
	rc = ops->check(worker, schema);
	if (!rc)
		rc = ops->make(worker, name, made); /* SUSPENDS */
	if (!rc)
		rc = nam__superblock_make(worker, &superblock_kind, &made->superblock,
			&made->at); /* SUSPENDS */
	if (rc) {
		ops->made_end(worker, made, -ECANCELED); /* SUSPENDS */
		goto free_made;
	}
	made->names[0] = nam__name_entry(NAM_CATALOG_TABLE, name, made->at.raw);
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__names_put(worker, made->names, made->names_count); /* SUSPENDS */
	nam__op_end(worker);
	ops->made_end(worker, made, rc); /* SUSPENDS */
	nam__superblock_made_end(worker, &superblock_kind, made->at, rc);
free_made:
	free(made);
	return rc;
}

/* ---- open ------------------------------------------------------------------------------------ */

NAM_FIBER_FN static int
superblock_find(struct nam_worker *worker, const char *name,
	struct nam_table_superblock *superblock, struct nam_gaddr *ret_at)
{
	int rc = nam__superblock_find(worker, &superblock_kind, name, superblock,
		ret_at); /* SUSPENDS */

	if (!rc && (superblock->columns_count > NAM_TABLE_COLUMNS_MAX ||
			superblock->indexes_count > NAM_TABLE_INDEXES_MAX))
		return nam_diag_set(&worker->diag, -NAM_E_REMOTE_CORRUPT, "the superblock of table "
			"'%s' has too many columns or indexes", name);
	return rc;
}

static void
schema_fill(struct nam_table *table)
{
	struct nam_table_superblock *superblock = &table->superblock;
	struct nam_table_schema *schema = &table->schema;

	superblock->store[sizeof(superblock->store) - 1] = '\0';
	schema->store = superblock->owns_store ? NULL : superblock->store;
	schema->options.isolation = ops_of(superblock)->isolation;
	schema->columns_count = superblock->columns_count;
	for (uint32_t i = 0; i < schema->columns_count; i++) {
		superblock->columns[i][NAM_TABLE_COLUMN_NAME_BYTES_MAX] = '\0';
		schema->columns[i] = superblock->columns[i];
	}
	schema->indexes_count = superblock->indexes_count;
	for (uint32_t i = 0; i < schema->indexes_count; i++)
		schema->indexes[i] = (struct nam_table_index){ superblock->indexes[i].column,
			superblock->indexes[i].bytes };
}

int
nam_table_open(struct nam_worker *worker, const char *name, uint64_t cache_bytes,
	struct nam_table **ret_table)
{
	struct nam_table *table;
	struct nam_gaddr at;
	int rc = name_check(worker, name);

	if (rc)
		return rc;
	table = calloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	rc = superblock_find(worker, name, &table->superblock, &at); /* SUSPENDS */
	if (!rc) {
		memcpy(table->name, name, strlen(name) + 1);
		schema_fill(table);
	}
	if (!rc)
		rc = ops_of(&table->superblock)->open(worker, table, cache_bytes); /* SUSPENDS */
	if (!rc)
		*ret_table = table;
	else
		nam__table_free(worker->client, table);
	return rc;
}

void
nam_table_close(struct nam_worker *worker, struct nam_table *table)
{
	struct nam_client *client;
	int rc;

	if (!table)
		return;
	client = worker->client;
	rc = nam_table_vacuum(worker, table); /* SUSPENDS */
	(void)rc;		/* versions that were not swept are counted as lost */
	/* From now on nam__store_table() does not find it; a sweep may still work on it. */
	pthread_mutex_lock(&client->mutex);
	LIST_REMOVE(table, link);
	pthread_mutex_unlock(&client->mutex);
	nam__table_leave(client, table);
}

const struct nam_table_schema *
nam_table_properties(const struct nam_table *table)
{
	return &table->schema;
}

int
nam_table_column(const struct nam_table *table, const char *name)
{
	for (uint32_t i = 0; i < table->schema.columns_count; i++)
		if (strcmp(table->schema.columns[i], name) == 0)
			return (int)i;
	return -NAM_E_NOTFOUND;
}

/* ---- drop, list ------------------------------------------------------------------------------ */

NAM_FIBER_FN static int
table_drop(struct nam_worker *worker, const char *name, struct nam__table_drop *drop)
{
	struct nam_gaddr at;
	int rc = superblock_find(worker, name, &drop->superblock, &at); /* SUSPENDS */

	nam_race_point("table.found");
	if (rc)
		return rc;
	drop->names[drop->names_count++] = nam__name_entry(NAM_CATALOG_TABLE, name, at.raw);
	rc = ops_of(&drop->superblock)->drop_join(worker, name, drop); /* SUSPENDS */
	if (!rc) {
		nam__op_begin(worker, NAM_OP_OTHER);
		rc = nam__names_take(worker, drop->names,
			drop->names_count); /* SUSPENDS */
		nam__op_end(worker);
	}
	if (!rc) {
		nam_race_point("table.unnamed");
		/* R12: the name has gone. */
		nam_retire(worker, at, sizeof(drop->superblock));
	}
	return ops_of(&drop->superblock)->drop_end(worker, drop, rc); /* SUSPENDS */
}

int
nam_table_drop(struct nam_worker *worker, const char *name)
{
	struct nam__table_drop *drop;
	int rc = name_check(worker, name);
	uint64_t epoch;

	if (rc)
		return rc;
	drop = calloc(1, sizeof(*drop));
	if (!drop)
		return -ENOMEM;
	/* G7, as for a store.  And no table made meanwhile has its superblock at this address. */
	epoch = nam__epoch_pin(worker);
	rc = table_drop(worker, name, drop); /* SUSPENDS */
	nam__epoch_unpin(worker, epoch);
	nam__drop_reclaim(worker); /* SUSPENDS */
	free(drop);
	return rc;
}

int
nam_table_list(struct nam_worker *worker, nam_records_list_fn fn, void *arg)
{
	return nam__names_list(worker, NAM_CATALOG_TABLE, fn, arg); /* SUSPENDS */
}
