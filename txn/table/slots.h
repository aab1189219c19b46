/* SPDX-License-Identifier: Apache-2.0 */
/* slots.h -- where a row of a serializable table has the keys of its indexes. */
#ifndef NAM_TXN_TABLE_SLOTS_H
#define NAM_TXN_TABLE_SLOTS_H

#include "txn/serial/serial.h"
#include "rows_internal.h"

/* Where the slots begin in a value: rows have so many bytes. */
static inline uint32_t
nam__slots_at(const struct nam_txn_store *store)
{
	return store->options.indexes[0].key_bytes ? store->options.indexes[0].value_offset :
		store->options.value_bytes_max;
}

/* Bytes of a column's value in the slot of an index; 0: there is no such index. */
static inline uint32_t
nam__slot_bytes(const struct nam_txn_store *store, uint32_t index)
{
	const uint32_t bytes = store->options.indexes[index].key_bytes;

	return bytes ? bytes - NAM__TABLE_NUMBER_BYTES : 0;
}

/* The key of a row in an index, as long as that index's. */
void nam__slot_fill(const struct nam_table *table, uint32_t index, const struct nam_bytes *value,
	uint8_t *ret_slot);

/* The row as a value; ret_value has room for the store's longest.  Returns its length. */
uint32_t nam__row_fill(const struct nam_table *table, const struct nam_bytes *columns,
	uint8_t *ret_value);

/* Where the columns lie in a value; false: it is none of this table. */
bool nam__row_take(const struct nam_table *table, const uint8_t *value, uint32_t value_bytes,
	struct nam_bytes *ret_columns);

#endif /* NAM_TXN_TABLE_SLOTS_H */
