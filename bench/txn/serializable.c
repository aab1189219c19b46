/* SPDX-License-Identifier: Apache-2.0 */
/* serializable.c -- nam-bench txn over a store of serializable transactions. */
#include "txn.h"

#define CACHE_BYTES_PER_RECORD 256u	/* an address is 32 of them; hardly a set overflows */
#define CACHE_BYTES_MIN (1u << 20)

static int
store_create(const struct requests *bench, uint64_t records)
{
	struct nam_txn_store_options options;

	nam_txn_store_options_init(&options);
	options.key_bytes_max = KEY_BYTES;
	options.value_bytes_max = bench->options.value_bytes;
	options.records = records;
	options.phases = bench->options.txn_phases;
	return nam_txn_store_create(session_worker(), bench->name, &options); /* SUSPENDS */
}

static int
store_open(struct requests_part *part, uint64_t records)
{
	return nam_txn_store_open(part->member->worker, part->bench->name,
		part->bench->options.txn_no_cache ? 0 : CACHE_BYTES_MIN +
		records * CACHE_BYTES_PER_RECORD, &part->store); /* SUSPENDS */
}

NAM_FIBER_FN static int
read_all(struct nam_txn *txn, struct txn_room *room)
{
	uint32_t bytes = room->part->bench->options.value_bytes;
	int rc;

	for (uint32_t i = 0; i < room->count; i++)
		room->gets[i] = (struct nam_txn_get){ &room->records[i].key, KEY_BYTES, bytes,
			txn_value(room, i), 0, 0, 0, room->records[i].update };
	rc = nam_txn_read_all(txn, room->gets, room->count); /* SUSPENDS */
	for (uint32_t i = 0; i < room->count && !rc; i++) {
		room->records[i].sequence = room->gets[i].sequence;
		rc = room->gets[i].rc;
	}
	return rc;
}

NAM_FIBER_FN static int
body(struct nam_txn *txn, void *arg)
{
	struct txn_room *room = arg;
	int rc = room->kind == TXN_LOAD ? 0 : read_all(txn, room); /* SUSPENDS */

	if (rc)
		return rc;
	txn_apply(room);
	for (uint32_t i = 0; i < room->count && !rc; i++)
		if (room->records[i].writes)
			rc = nam_txn_write(txn, &room->records[i].key, KEY_BYTES,
				txn_value(room, i), room->part->bench->options.value_bytes);
	return rc;
}

NAM_FIBER_FN static int
run(struct txn_room *room, uint32_t *ret_tries, uint64_t *ret_sequence)
{
	return nam_txn_run(room->part->member->worker, room->part->store, body, room,
		ret_sequence, ret_tries); /* SUSPENDS */
}

static void
store_close(struct requests_part *part)
{
	nam_txn_store_close(part->store);
}

const struct txn_store txn_store_serializable = {
	.name = "serializable",
	.serializable = true,
	.create = store_create,
	.open = store_open,
	.run = run,
	.close = store_close,
	.drop = nam_txn_store_drop,
};
