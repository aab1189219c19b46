/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locking.c -- nam-bench txn over a record store with two-phase locking, to compare with.
 *
 * Its transactions either read or write.  So one that reads and then writes is two transactions,
 * and updates are lost: sums are reported and are no findings.
 */
#include "txn.h"

#define CACHE_BYTES_PER_RECORD 128u	/* for inner nodes of the index */
#define CACHE_BYTES_MIN (1u << 20)

static int
store_create(const struct requests *bench, uint64_t records)
{
	const struct nam_records_options options = {
		.algorithm = NAM_RAMP_LOCKING,
		.commit = NAM_RECORDS_SERVED,
	};

	(void)records;
	return nam_records_create(session_worker(), bench->name, &options); /* SUSPENDS */
}

static int
store_open(struct requests_part *part, uint64_t records)
{
	return nam_records_open(part->member->worker, part->bench->name,
		CACHE_BYTES_MIN + records * CACHE_BYTES_PER_RECORD, &part->records); /* SUSPENDS */
}

NAM_FIBER_FN static int
read_all(struct txn_room *room)
{
	uint32_t bytes = room->part->bench->options.value_bytes;
	int rc;

	for (uint32_t i = 0; i < room->count; i++)
		room->ramp.gets[i] = (struct nam_record_get){ &room->records[i].key, KEY_BYTES,
			bytes, txn_value(room, i), 0, 0, 0 };
	rc = nam_records_get_all(room->part->member->worker, room->part->records, room->ramp.gets,
		room->count); /* SUSPENDS */
	for (uint32_t i = 0; i < room->count && !rc; i++) {
		room->records[i].sequence = room->ramp.gets[i].timestamp;
		rc = room->ramp.gets[i].rc;
	}
	return rc;
}

NAM_FIBER_FN static int
run(struct txn_room *room, uint32_t *ret_tries, uint64_t *ret_sequence)
{
	struct nam_record_put *put = room->ramp.puts;
	int rc = room->kind == TXN_LOAD ? 0 : read_all(room); /* SUSPENDS */

	*ret_tries = 1;
	if (rc)
		return rc;
	txn_apply(room);
	for (uint32_t i = 0; i < room->count; i++)
		if (room->records[i].writes)
			*put++ = (struct nam_record_put){ &room->records[i].key, KEY_BYTES,
				room->part->bench->options.value_bytes, txn_value(room, i) };
	if (put == room->ramp.puts)
		return 0;
	return nam_records_put_all(room->part->member->worker, room->part->records,
		room->ramp.puts, (uint32_t)(put - room->ramp.puts), ret_sequence); /* SUSPENDS */
}

static void
store_close(struct requests_part *part)
{
	nam_records_close(part->records);
}

const struct txn_store txn_store_2pl = {
	.name = "2pl",
	.create = store_create,
	.open = store_open,
	.run = run,
	.close = store_close,
	.drop = nam_records_drop,
};
