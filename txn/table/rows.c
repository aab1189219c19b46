/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c -- rows of tables as bytes: keys of records, values of records, keys of entries. */
#include <errno.h>
#include <string.h>

#include "rows_internal.h"

uint32_t
nam__row_key(const struct nam_table *table, const struct nam_bytes *key, uint8_t *ret_key)
{
	memcpy(ret_key, &table->superblock.number, NAM__TABLE_NUMBER_BYTES);
	memcpy(ret_key + NAM__TABLE_NUMBER_BYTES, key->data, key->bytes);
	return NAM__TABLE_NUMBER_BYTES + key->bytes;
}

uint64_t
nam__row_table(const uint8_t *record_key, uint32_t key_bytes)
{
	uint64_t number = 0;

	if (key_bytes > NAM__TABLE_NUMBER_BYTES)
		memcpy(&number, record_key, sizeof(number));
	return number;
}

uint64_t
nam__row_bytes(const struct nam_table *table, const struct nam_bytes *columns)
{
	uint64_t bytes = 4ull * table->schema.columns_count;

	for (uint32_t i = 0; i < table->schema.columns_count; i++)
		bytes += columns[i].bytes;
	return bytes;
}

void
nam__row_encode(const struct nam_table *table, const struct nam_bytes *columns, uint8_t *ret)
{
	uint8_t *data = ret + 4ull * table->schema.columns_count;

	for (uint32_t i = 0; i < table->schema.columns_count; i++) {
		memcpy(ret + 4ull * i, &columns[i].bytes, 4);
		if (columns[i].bytes)
			memcpy(data, columns[i].data, columns[i].bytes);
		data += columns[i].bytes;
	}
}

bool
nam__row_decode(const struct nam_table *table, const uint8_t *row, uint32_t row_bytes,
	struct nam_bytes *ret_columns)
{
	uint64_t at = 4ull * table->schema.columns_count;

	if (row_bytes < at)
		return false;
	for (uint32_t i = 0; i < table->schema.columns_count; i++) {
		uint32_t bytes;

		memcpy(&bytes, row + 4ull * i, 4);
		if (bytes > row_bytes - at)
			return false;
		ret_columns[i] = (struct nam_bytes){ row + at, bytes };
		at += bytes;
	}
	return at == row_bytes;
}

void
nam__entry_key(const struct nam_table_index *index, const struct nam_bytes *value, uint64_t at,
	uint8_t *ret_key)
{
	uint32_t bytes = value->bytes < index->bytes ? value->bytes : index->bytes;

	memset(ret_key, 0, index->bytes);
	if (bytes)
		memcpy(ret_key, value->data, bytes);
	memcpy(ret_key + index->bytes, &at, NAM__ENTRY_AT_BYTES);
}

int
nam__bytes_compare(const struct nam_bytes *a, const struct nam_bytes *b)
{
	uint32_t bytes = a->bytes < b->bytes ? a->bytes : b->bytes;
	int order = bytes ? memcmp(a->data, b->data, bytes) : 0;

	return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

int
nam__row_check(struct nam_worker *worker, const struct nam_table *first,
	const struct nam_table *table, const struct nam_bytes *key)
{
	if (table->store != first->store)
		return nam_diag_set(&worker->diag, -EINVAL, "tables '%s' and '%s' are in different "
			"stores: make both in one to read or write them together", first->name,
			table->name);
	if (!key->bytes || key->bytes > table->key_bytes_max)
		return nam_diag_set(&worker->diag, -NAM_E_LIMIT, "table '%s': a key of %u bytes; "
			"keys have 1 to %u", table->name, key->bytes, table->key_bytes_max);
	return 0;
}
