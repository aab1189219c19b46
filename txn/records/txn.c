/* SPDX-License-Identifier: Apache-2.0 */
/* txn.c -- items, addresses and timestamps of transactions that read or write. */
#include <errno.h>
#include <stddef.h>

#include "txn_internal.h"

#define CLIENT_BITS 12u

_Static_assert(1u << CLIENT_BITS == NAM_CLIENTS_MAX, "a client's id fits");

/* ---- timestamps ------------------------------------------------------------------------------ */

/* Microseconds of the clock, so that clients agree on the order; unique, later than all seen. */
uint64_t
nam__timestamp_next(struct nam_client *client)
{
	uint64_t now_us = nam_wall_ns() / 1000;
	atomic_uint_fast64_t *clock_us = &nam__txn_client(client)->last_us;
	uint64_t last_us = atomic_load_explicit(clock_us, memory_order_relaxed);
	uint64_t next_us;

	do
		next_us = now_us > last_us ? now_us : last_us + 1;
	while (!atomic_compare_exchange_weak_explicit(clock_us, &last_us, next_us,
		memory_order_relaxed, memory_order_relaxed));
	return next_us << CLIENT_BITS | client->id;
}

void
nam__timestamp_seen(struct nam_client *client, uint64_t timestamp)
{
	uint64_t seen_us = timestamp >> CLIENT_BITS;
	atomic_uint_fast64_t *clock_us = &nam__txn_client(client)->last_us;
	uint64_t last_us = atomic_load_explicit(clock_us, memory_order_relaxed);

	while (last_us < seen_us && !atomic_compare_exchange_weak_explicit(clock_us, &last_us,
		seen_us, memory_order_relaxed, memory_order_relaxed))
		continue;
}

/* ---- items ----------------------------------------------------------------------------------- */

struct nam__txn *
nam__txn_new(struct nam_worker *worker, struct nam_records *records)
{
	struct nam__txn *txn = nam_buffer_take(worker, sizeof(*txn));

	if (!txn)
		return NULL;
	nam__clear(txn, offsetof(struct nam__txn, replaced));
	txn->worker = worker;
	txn->records = records;
	txn->epoch = nam__epoch_pin(worker);
	txn->generation = nam__generation(worker->client);
	return txn;
}

void
nam__txn_free(struct nam__txn *txn)
{
	if (!txn)
		return;
	for (uint32_t i = 0; i < txn->count; i++)
		nam_buffer_give(txn->worker, txn->items[i].image, txn->items[i].image_bytes);
	nam__epoch_unpin(txn->worker, txn->epoch);
	nam_buffer_give(txn->worker, txn, sizeof(*txn));
}

int
nam__item_room(struct nam__txn *txn, struct nam__item *item, uint32_t bytes)
{
	if (item->image_bytes >= bytes)
		return 0;
	nam_buffer_give(txn->worker, item->image, item->image_bytes);
	item->image_bytes = 0;
	item->image = nam_buffer_take(txn->worker, bytes);
	if (!item->image)
		return -ENOMEM;
	item->image_bytes = bytes;
	return 0;
}

bool
nam__version_can_be_at(const struct nam_client *client, struct nam_gaddr at)
{
	const struct nam_region *region = nam_region_table_find(&client->regions, at);
	uint32_t bytes = nam__version_at_bytes(at);

	return region && bytes >= sizeof(struct nam_version) && bytes <= NAM__VERSION_BYTES_MAX &&
	       nam_gaddr_offset(at) + bytes <= region->bytes;
}

int
nam__version_at_check(struct nam_worker *worker, const struct nam_records *records,
	struct nam_gaddr at)
{
	if (nam__version_can_be_at(worker->client, at))
		return 0;
	return nam_diag_set(&worker->diag, -NAM_E_REMOTE_CORRUPT, "record store '%s': a record "
		"leads to region %u offset %llu, where no version of %u bytes can be: its head was "
		"overwritten. Drop the store, and load it anew", records->name,
		nam_gaddr_region(at), (unsigned long long)nam_gaddr_offset(at),
		nam__version_at_bytes(at));
}

int
nam__version_misled(struct nam_worker *worker, const struct nam_records *records)
{
	return nam_diag_set(&worker->diag, -NAM_E_REMOTE_CORRUPT, "record store '%s': a record "
		"leads to a block that is no version of it: either was overwritten, or the store "
		"was dropped", records->name);
}

int
nam__records_dropped(struct nam_worker *worker, const struct nam_records *records)
{
	return nam_diag_set(&worker->diag, -NAM_E_DROPPED, "record store '%s' was dropped: close "
		"the handle; if there is a new one of that name, open that", records->name);
}

int
nam__txn_add(struct nam__txn *txn, const void *key, uint32_t key_bytes, bool *ret_again)
{
	struct nam_worker *worker = txn->worker;
	struct nam__item *item = &txn->items[txn->count];
	uint32_t number = 0;

	if (!key_bytes || key_bytes > NAM_RECORD_KEY_BYTES_MAX)
		return nam_diag_set(&worker->diag, -NAM_E_LIMIT, "record store '%s': a key of %u "
			"bytes; keys have 1 to %u", txn->records->name, key_bytes,
			NAM_RECORD_KEY_BYTES_MAX);
	nam__clear((uint8_t *)item + sizeof(item->header), sizeof(*item) - sizeof(item->header));
	item->key = key;
	item->key_bytes = key_bytes;
	item->id = nam__record_id(key, key_bytes);
	while (number < txn->count && (txn->items[number].id.word[0] != item->id.word[0] ||
		txn->items[number].id.word[1] != item->id.word[1]))
		number++;
	*ret_again = number < txn->count;
	if (*ret_again)
		return (int)number;
	nam__addresses_prefetch(txn->records->addresses, &item->id, 1);
	return (int)txn->count++;
}

/* ---- addresses ------------------------------------------------------------------------------- */

int
nam__txn_locate(struct nam__txn *txn)
{
	/* The cache is being prefetched: serve other tasks' requests first. */
	if (txn->worker->tasks_alive > 1)
		nam__poll(txn->worker);
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];
		uint64_t head;
		int rc;

		if (nam__addresses_find(txn->records->addresses, &item->id, &item->cached)) {
			item->head = item->cached.head;
			continue;
		}
		rc = nam_index_lookup(txn->worker, txn->records->keys, item->id.word,
			&head); /* SUSPENDS */
		if (!rc)
			item->head.raw = item->cached.head.raw = head;
		else if (rc != -NAM_E_NOTFOUND)
			return rc == -NAM_E_DROPPED ?
				nam__records_dropped(txn->worker, txn->records) : rc;
	}
	return 0;
}

void
nam__txn_note(struct nam__txn *txn)
{
	uint64_t latest = 0;

	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];
		struct nam__address address = { .head = item->head, .at = item->at,
			.timestamp = item->timestamp,
			.epoch = item->latest ? txn->worker->current->epoch : 0 };

		if (nam_gaddr_is_null(item->head))
			continue;
		latest = item->timestamp > latest ? item->timestamp : latest;
		if (item->cached.head.raw != address.head.raw ||
			item->cached.at.raw != address.at.raw ||
			item->cached.timestamp != address.timestamp ||
			item->cached.epoch < address.epoch)
			nam__addresses_note(txn->records->addresses, &item->id, &address,
				txn->epoch);
	}
	nam__timestamp_seen(txn->records->client, latest);
}
