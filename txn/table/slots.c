/* SPDX-License-Identifier: Apache-2.0 */
/* slots.c -- rows of serializable tables as bytes. */
#include <string.h>

#include "slots.h"

void
nam__slot_fill(const struct nam_table *table, uint32_t index, const struct nam_bytes *value,
	uint8_t *ret_slot)
{
	const uint32_t room = nam__slot_bytes(table->store->serial, index);
	uint32_t bytes = table->schema.indexes[index].bytes;

	memcpy(ret_slot, &table->superblock.number, NAM__TABLE_NUMBER_BYTES);
	memset(ret_slot + NAM__TABLE_NUMBER_BYTES, 0, room);
	if (bytes > value->bytes)
		bytes = value->bytes;
	if (bytes)
		memcpy(ret_slot + NAM__TABLE_NUMBER_BYTES, value->data, bytes);
}

uint32_t
nam__row_fill(const struct nam_table *table, const struct nam_bytes *columns, uint8_t *ret_value)
{
	const struct nam_table_schema *schema = &table->schema;
	const struct nam_txn_store *store = table->store->serial;
	uint32_t bytes = (uint32_t)nam__row_bytes(table, columns);

	nam__row_encode(table, columns, ret_value);
	if (!schema->indexes_count)
		return bytes;
	memset(ret_value + bytes, 0, nam__slots_at(store) - bytes);
	bytes = nam__slots_at(store);
	for (uint32_t i = 0; i < schema->indexes_count; i++) {
		nam__slot_fill(table, i, &columns[schema->indexes[i].column], ret_value + bytes);
		bytes += store->options.indexes[i].key_bytes;
	}
	return bytes;
}

bool
nam__row_take(const struct nam_table *table, const uint8_t *value, uint32_t value_bytes,
	struct nam_bytes *ret_columns)
{
	const uint32_t most = nam__slots_at(table->store->serial);
	uint64_t bytes = 4ull * table->schema.columns_count;

	if (value_bytes > most)
		value_bytes = most;
	for (uint32_t i = 0; bytes <= value_bytes && i < table->schema.columns_count; i++) {
		uint32_t column;

		memcpy(&column, value + 4ull * i, 4);
		bytes += column;
	}
	return bytes <= value_bytes &&
		nam__row_decode(table, value, (uint32_t)bytes, ret_columns);
}
