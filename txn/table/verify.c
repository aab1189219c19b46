/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c -- whether every row has its entries, and how many there are of both. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "txn/records/walk.h"
#include "ops.h"

struct verify {
	struct nam_worker *worker;
	struct nam_table *table;
	struct nam__view view;
	struct nam__table_findings found;
};

/* A primary key as text, cut at `size`. */
static const char *
key_text(const uint8_t *key, uint32_t bytes, char *ret_text, size_t size)
{
	size_t used = 0;
	bool plain = true;

	for (uint32_t i = 0; i < bytes; i++)
		plain &= isgraph(key[i]) != 0;
	if (plain) {
		(void)snprintf(ret_text, size, "'%.*s'", (int)bytes, (const char *)key);
		return ret_text;
	}
	used += (size_t)snprintf(ret_text, size, "0x");
	for (uint32_t i = 0; i < bytes && used + 2 < size; i++)
		used += (size_t)snprintf(ret_text + used, size - used, "%02x", key[i]);
	return ret_text;
}

void
nam__unindexed_report(struct nam__table_findings *found, const struct nam_table *table,
	const struct nam_bytes *key, uint64_t timestamp, uint32_t index, const char *more)
{
	const struct nam_table_schema *schema = &table->schema;
	char text[256], name[80];

	(void)snprintf(text, sizeof(text), "the row with the key %s, of transaction %" PRIu64
		", has no entry in the index of column '%s'%s",
		key_text(key->data, key->bytes, name, sizeof(name)), timestamp,
		schema->columns[schema->indexes[index].column], more);
	found->violations++;
	if (found->violation)
		found->violation(found->arg, text);
}

void
nam__findings_sum(struct nam__table_findings *found, const struct nam_table *table,
	struct nam_table_stat *ret_stat, uint64_t *ret_violations)
{
	uint64_t live = found->stat.rows * table->schema.indexes_count;

	live -= found->violations < live ? found->violations : live;
	found->stat.stale = found->stat.entries > live ? found->stat.entries - live : 0;
	*ret_stat = found->stat;
	*ret_violations = found->violations;
}

NAM_FIBER_FN static int
row_verify(struct verify *verify, const struct nam__view *view,
	const struct nam__seen *record)
{
	const struct nam_table_schema *schema = &verify->table->schema;
	const uint8_t *key = view->arena + record->bytes_at;
	const struct nam_bytes row = { key + NAM__TABLE_NUMBER_BYTES,
		record->key_bytes - NAM__TABLE_NUMBER_BYTES };
	struct nam_bytes columns[NAM_TABLE_COLUMNS_MAX];
	uint8_t entry[NAM_KEY_BYTES_MAX];

	if (record->state != NAM__SEEN_FOUND || record->deleted ||
		nam__row_table(key, record->key_bytes) != verify->table->superblock.number)
		return 0;
	if (!nam__row_decode(verify->table, key + record->key_bytes, record->value_bytes, columns))
		return -NAM_E_REMOTE_CORRUPT;
	verify->found.stat.rows++;
	verify->found.stat.row_bytes += row.bytes + record->value_bytes;
	for (uint32_t i = 0; i < schema->indexes_count; i++) {
		const struct nam_table_index *index = &schema->indexes[i];
		uint64_t head = 0;
		int rc;

		nam__entry_key(index, &columns[index->column], record->at, entry);
		rc = nam_index_lookup(verify->worker, verify->table->indexes[i], entry,
			&head); /* SUSPENDS */
		if (rc && rc != -NAM_E_NOTFOUND)
			return rc;
		if (!rc && head == record->head)
			continue;
		nam__unindexed_report(&verify->found, verify->table, &row, record->timestamp, i,
			rc ? "" : ", but another has it");
	}
	return 0;
}

NAM_FIBER_FN static int
rows_verify(void *arg, const uint8_t *keys, const uint64_t *heads, uint32_t count)
{
	struct verify *verify = arg;
	struct nam__view *view = &verify->view;
	int rc = 0;

	(void)keys;
	nam__view_reset(view, verify->worker, verify->table->store->records);
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = nam__view_name(view, heads[i], 0) < 0 ? -ENOMEM : 0;
	nam__op_begin(verify->worker, NAM_OP_OTHER);
	if (!rc)
		rc = nam__view_read(view); /* SUSPENDS */
	nam__op_end(verify->worker);
	for (uint32_t i = 0; i < view->found_count && !rc; i++)
		rc = row_verify(verify, view, &view->found[i]); /* SUSPENDS */
	return rc;
}

static int
entries_count(void *arg, const uint8_t *keys, const uint64_t *heads, uint32_t count)
{
	struct verify *verify = arg;

	(void)keys;
	(void)heads;
	verify->found.stat.entries += count;
	return 0;
}

int
nam__read_atomic_verify(struct nam_worker *worker, struct nam_table *table,
	nam_table_violation_fn violation, void *arg, struct nam_table_stat *ret_stat,
	uint64_t *ret_violations)
{
	struct verify verify = { .worker = worker, .table = table,
		.found = { .violation = violation, .arg = arg } };
	uint64_t epoch = nam__epoch_pin(worker);
	int rc = nam__entries_walk(worker, table->store->records->keys, NULL, false, rows_verify,
		&verify); /* SUSPENDS */

	nam__view_free(&verify.view);
	for (uint32_t i = 0; i < table->schema.indexes_count && !rc; i++)
		rc = nam__entries_walk(worker, table->indexes[i], NULL, false, entries_count,
			&verify); /* SUSPENDS */
	nam__epoch_unpin(worker, epoch);
	if (!rc)
		nam__findings_sum(&verify.found, table, ret_stat, ret_violations);
	return rc;
}
