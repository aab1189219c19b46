/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c -- rows that transactions read, write, load. */
#include "rows.h"

#include <string.h>

#define LOAD_ROWS 64u			/* of a transaction that loads */
#define ROUNDS_MAX 64u			/* of all tries of a store, for one transaction */

void *
rows_want(struct rows_room *room, uint64_t key, uint32_t bytes)
{
	uint32_t i = room->count++;

	room->keys[i] = key;
	room->gets[i] = (struct nam_txn_get){ .key = &room->keys[i], .key_bytes = ROWS_KEY_BYTES,
		.size = bytes, .value = room->rows[i] };
	return room->rows[i];
}

int
rows_read(struct rows_room *room, struct nam_txn *txn)
{
	uint32_t first = room->read;
	int rc = nam_txn_read_all(txn, room->gets + first, room->count - first); /* SUSPENDS */

	room->read = room->count;
	for (uint32_t i = first; i < room->count && !rc; i++)
		if (room->gets[i].rc || room->gets[i].value_bytes != room->gets[i].size) {
			room->missing = true;
			rc = ROWS_MISSING;
		}
	return rc;
}

int
rows_write(struct nam_txn *txn, uint64_t key, const void *row, uint32_t bytes)
{
	return nam_txn_write(txn, &key, ROWS_KEY_BYTES, row, bytes);
}

struct call {
	struct rows_room *room;
	nam_txn_fn body;
};

NAM_FIBER_FN static int
call_body(struct nam_txn *txn, void *arg)
{
	struct call *call = arg;
	int rc;

	call->room->count = call->room->read = 0;
	call->room->missing = false;
	rc = call->body(txn, call->room); /* SUSPENDS */
	return rc == ROWS_MISSING ? 0 : rc;
}

int
rows_run(struct rows_room *room, nam_txn_fn body)
{
	struct call call = { room, body };
	int rc = -NAM_E_CONFLICT;

	room->conflicts = 0;
	for (unsigned i = 0; i < ROUNDS_MAX && rc == -NAM_E_CONFLICT; i++) {
		uint32_t tries = 0;

		rc = nam_txn_run(room->worker, room->store, call_body, &call, NULL,
			&tries); /* SUSPENDS */
		room->conflicts += tries - (rc != -NAM_E_CONFLICT);
	}
	room->rolled_back = rc == ROWS_ROLLED_BACK;
	return room->rolled_back ? 0 : rc;
}

NAM_FIBER_FN static int
load_body(struct nam_txn *txn, void *arg)
{
	const struct rows_room *room = arg;
	int rc = 0;

	for (uint32_t i = 0; i < room->count && !rc; i++)
		rc = rows_write(txn, room->keys[i], room->rows[i], room->gets[i].size);
	return rc;
}

int
rows_load_end(struct rows_room *room)
{
	int rc = room->count ? nam_txn_run(room->worker, room->store, load_body, room, NULL,
		NULL) : 0; /* SUSPENDS */

	room->count = 0;
	return rc;
}

int
rows_load(struct rows_room *room, uint64_t key, const void *row, uint32_t bytes)
{
	memcpy(rows_want(room, key, bytes), row, bytes);
	return room->count < LOAD_ROWS ? 0 : rows_load_end(room); /* SUSPENDS */
}

NAM_FIBER_FN static int
warm_body(struct nam_txn *txn, void *arg)
{
	struct rows_room *room = arg;

	room->read = 0;
	return rows_read(room, txn) > 0 ? -NAM_E_NOTFOUND : 0; /* SUSPENDS */
}

int
rows_warm_end(struct rows_room *room)
{
	int rc = room->count ? nam_txn_run(room->worker, room->store, warm_body, room, NULL,
		NULL) : 0; /* SUSPENDS */

	room->count = 0;
	return rc;
}

int
rows_warm(struct rows_room *room, uint64_t key, uint32_t bytes)
{
	(void)rows_want(room, key, bytes);
	return room->count < LOAD_ROWS ? 0 : rows_warm_end(room); /* SUSPENDS */
}
