/* SPDX-License-Identifier: Apache-2.0 */
/* items.c -- the records of a transaction, by their keys. */
#include "serial.h"

struct nam__serial_item *
nam__serial_item_of(struct nam_txn *txn, const void *key, uint32_t key_bytes)
{
	struct nam__serial_item *item;
	struct nam__record_id id;
	uint64_t bit;

	if (!key_bytes || key_bytes > txn->store->options.key_bytes_max)
		return NULL;
	id = nam__record_id(key, key_bytes);
	bit = 1ull << id.word[0] % 64;
	for (uint32_t i = 0; txn->ids & bit && i < txn->count; i++) {
		item = &txn->items[i];
		if (item->id.word[0] == id.word[0] && item->id.word[1] == id.word[1] &&
			nam__serial_key_is(item, key, key_bytes))
			return item;
	}
	if (txn->count == NAM_TXN_RECORDS_MAX)
		return NULL;
	txn->ids |= bit;
	item = &txn->items[txn->count++];
	nam__clear(item, offsetof(struct nam__serial_item, key));
	item->id = id;
	nam__addresses_prefetch(txn->store->addresses, &item->id, 1);
	item->key_bytes = (uint16_t)key_bytes;
	item->state = NAM__SERIAL_BLIND;
	/* Keys of 8 bytes are common, and a constant length takes no call. */
	if (key_bytes == sizeof(uint64_t))
		memcpy(item->key, key, sizeof(uint64_t));
	else
		memcpy(item->key, key, key_bytes);
	return item;
}

bool
nam__serial_has_locks(const struct nam_txn *txn)
{
	bool some = false;

	for (uint32_t i = 0; i < txn->count; i++)
		some |= txn->items[i].locked || txn->items[i].locking;
	return some;
}

int
nam__serial_limit(struct nam_txn *txn, uint32_t key_bytes)
{
	return nam_diag_set(&txn->worker->diag, -NAM_E_LIMIT, "store '%s': a key of %u bytes, or "
		"the transaction's record number %u. Keys have 1 to %u bytes, and a transaction "
		"has up to %u records", txn->store->name, key_bytes, txn->count + 1,
		txn->store->options.key_bytes_max, NAM_TXN_RECORDS_MAX);
}
