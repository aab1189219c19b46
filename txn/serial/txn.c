/* SPDX-License-Identifier: Apache-2.0 */
/* txn.c -- transactions as programs see them: begin, reads, writes, abort. */
#include <errno.h>

#include "compute/worker/buffer.h"
#include "indexed.h"

_Static_assert(sizeof(struct nam_txn) <= 64u << 10, "two of them fit into a slab of buffers");

int
nam_txn_begin(struct nam_worker *worker, struct nam_txn_store *store, struct nam_txn **ret_txn)
{
	int rc = nam__serial_failed(worker, store);
	struct nam_txn *txn;

	if (rc)
		return rc;
	txn = nam__buffer_take(worker, sizeof(*txn));
	if (!txn)
		return -ENOMEM;
	memset(txn, 0, offsetof(struct nam_txn, reads));
	txn->worker = worker;
	txn->store = store;
	txn->epoch = nam__epoch_pin(worker);
	*ret_txn = txn;
	return 0;
}

/* ---- records --------------------------------------------------------------------------------- */

/* The transaction depends on the record from now on: READ it with others. */
static void
item_want(struct nam_txn *txn, struct nam__serial_item *item)
{
	item->read = true;
	if (item->state == NAM__SERIAL_BLIND)
		nam__serial_seek(txn, item);
}

NAM_FIBER_FN static int
execute(struct nam_txn *txn)
{
	int rc;

	nam__op_begin(txn->worker, NAM_OP_TXN_READ);
	rc = nam__serial_execute(txn); /* SUSPENDS */
	nam__op_end(txn->worker);
	txn->failed = rc;
	return rc;
}

/* The record as the transaction sees it; NULL: absent. */
static const struct nam_serial_record *
visible(const struct nam__serial_item *item)
{
	const struct nam_serial_record *record = item->next ? item->next :
		item->state == NAM__SERIAL_FOUND ? item->image : NULL;

	return record && !record->absent ? record : NULL;
}

static void
answer(const struct nam__serial_item *item, struct nam_txn_get *get)
{
	const struct nam_serial_record *record = visible(item);

	get->sequence = item->sequence == NAM__SERIAL_MADE ? 0 : item->sequence;
	get->value_bytes = record ? record->value_bytes : 0;
	get->rc = !record ? -NAM_E_NOTFOUND : record->value_bytes > get->size ? -NAM_E_LIMIT : 0;
	if (!get->rc && record->value_bytes)
		memcpy(get->value, record->bytes + record->key_bytes, record->value_bytes);
}

int
nam_txn_read_all(struct nam_txn *txn, struct nam_txn_get *gets, uint32_t count)
{
	const uint32_t before = txn->count;
	bool known = true;
	int rc;

	if (txn->failed)
		return txn->failed;
	/* value_bytes has the number of the item until the answer is there. */
	for (uint32_t i = 0; i < count; i++) {
		const struct nam__serial_item *item = nam__serial_item_of(txn, gets[i].key,
			gets[i].key_bytes);

		if (!item) {
			txn->count = before;
			return nam__serial_limit(txn, gets[i].key_bytes);
		}
		gets[i].value_bytes = (uint32_t)(item - txn->items);
		txn->items[gets[i].value_bytes].update |= gets[i].update;
	}
	/* The cache is being prefetched: serve other tasks' requests first. */
	if (txn->count > before && txn->worker->tasks_alive > 1)
		nam__poll(txn->worker);
	for (uint32_t i = 0; i < count; i++) {
		struct nam__serial_item *item = &txn->items[gets[i].value_bytes];

		item_want(txn, item);
		known &= item->state == NAM__SERIAL_FOUND || item->state == NAM__SERIAL_NONE;
	}
	rc = known ? 0 : execute(txn); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !rc; i++)
		answer(&txn->items[gets[i].value_bytes], &gets[i]);
	return rc;
}

int
nam_txn_read(struct nam_txn *txn, const void *key, uint32_t key_bytes, void *value, uint32_t size,
	uint32_t *ret_bytes)
{
	struct nam_txn_get get = { .key = key, .key_bytes = key_bytes, .value = value,
		.size = size };
	int rc = nam_txn_read_all(txn, &get, 1); /* SUSPENDS */

	if (rc)
		return rc;
	if (get.rc != -NAM_E_NOTFOUND)
		*ret_bytes = get.value_bytes;
	return get.rc;
}

/* ---- writes ---------------------------------------------------------------------------------- */

/* @value	NULL: none, it is deleted */
static int
item_write(struct nam_txn *txn, struct nam__serial_item *item, const void *value,
	uint32_t value_bytes)
{
	if (!item->next)
		item->next = nam_buffer_take(txn->worker, nam__serial_room(txn->store));
	if (!item->next) {
		txn->failed = -ENOMEM;
		return txn->failed;
	}
	*item->next = (struct nam_serial_record){
		.store = txn->store->store,
		.key_bytes = (uint16_t)item->key_bytes,
		.value_bytes = value_bytes,
		.absent = !value,
	};
	memcpy(item->next->bytes, item->key, item->key_bytes);
	if (value_bytes)
		memcpy(item->next->bytes + item->key_bytes, value, value_bytes);
	return 0;
}

static int
value_check(struct nam_txn *txn, uint32_t value_bytes)
{
	uint32_t most = txn->store->options.value_bytes_max;

	return value_bytes <= most ? 0 : nam_diag_set(&txn->worker->diag, -NAM_E_LIMIT,
		"store '%s': a value of %u bytes; its values have up to %u", txn->store->name,
		value_bytes, most);
}

int
nam_txn_write(struct nam_txn *txn, const void *key, uint32_t key_bytes, const void *value,
	uint32_t value_bytes)
{
	struct nam__serial_item *item;
	int rc = value_check(txn, value_bytes);

	if (rc)
		return rc;
	item = nam__serial_item_of(txn, key, key_bytes);
	if (!item)
		return nam__serial_limit(txn, key_bytes);
	return item_write(txn, item, value_bytes ? value : "", value_bytes);
}

/* READ the record unless it is known.  *ret_item is its item. */
NAM_FIBER_FN static int
item_read(struct nam_txn *txn, const void *key, uint32_t key_bytes,
	struct nam__serial_item **ret_item)
{
	struct nam_txn_get get = { .key = key, .key_bytes = key_bytes, .update = true };
	struct nam__serial_item *item = nam__serial_item_of(txn, key, key_bytes);
	int rc;

	if (!item)
		return nam__serial_limit(txn, key_bytes);
	/* A write of this transaction decides, whatever there was. */
	rc = item->next ? 0 : nam_txn_read_all(txn, &get, 1); /* SUSPENDS */
	*ret_item = item;
	return rc;
}

int
nam_txn_insert(struct nam_txn *txn, const void *key, uint32_t key_bytes, const void *value,
	uint32_t value_bytes)
{
	struct nam__serial_item *item = NULL;
	int rc = value_check(txn, value_bytes);

	if (!rc)
		rc = item_read(txn, key, key_bytes, &item); /* SUSPENDS */
	if (rc)
		return rc;
	return visible(item) ? -NAM_E_EXISTS :
		item_write(txn, item, value_bytes ? value : "", value_bytes);
}

int
nam_txn_delete(struct nam_txn *txn, const void *key, uint32_t key_bytes)
{
	struct nam__serial_item *item = NULL;
	int rc = item_read(txn, key, key_bytes, &item); /* SUSPENDS */

	if (rc)
		return rc;
	return visible(item) ? item_write(txn, item, NULL, 0) : -NAM_E_NOTFOUND;
}
