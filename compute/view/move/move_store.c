/* SPDX-License-Identifier: Apache-2.0 */
#include "move_internal.h"

#include <errno.h>
#include <string.h>

#define PIECES_MAX 16u			/* under way at once */

/* A request, and the reply to it. */
struct piece {
	_Alignas(8) uint8_t body[NAM_RPC_BODY_MAX];
	_Alignas(8) uint8_t reply[NAM_RPC_BODY_MAX];
};

static struct nam_rpc_move_request *
request_of(struct piece *piece)
{
	return (void *)piece->body;
}

static struct nam_rpc_move_piece *
head_of(struct piece *piece)
{
	return (void *)request_of(piece)->page;
}

/* The next pieces from *at on, of at most one chunk each. */
static uint32_t
pieces_form(const struct nam_move_store *store, uint64_t *at, struct piece *pieces)
{
	uint64_t end = (uint64_t)store->chunks * NAM_MOVE_CHUNK_BYTES, left;
	uint32_t n = 0;

	for (; n < PIECES_MAX && *at < end; n++, *at += left) {
		left = NAM_MOVE_CHUNK_BYTES - *at % NAM_MOVE_CHUNK_BYTES;
		if (left > NAM_MOVE_PIECE_BYTES)
			left = NAM_MOVE_PIECE_BYTES;
		*request_of(&pieces[n]) = (struct nam_rpc_move_request){ .at = *at };
		*head_of(&pieces[n]) = (struct nam_rpc_move_piece){ .store = store->create.store,
			.bytes = (uint32_t)left };
	}
	return n;
}

/* All of them, to one memory server.  The bytes of a PEEK become those of a POKE. */
NAM_FIBER_FN static int
pieces_send(struct nam_worker *worker, enum nam_rpc_move_step step, struct piece *pieces,
	uint32_t count)
{
	struct nam_call calls[PIECES_MAX];
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		struct nam_rpc_move_piece *head = head_of(&pieces[i]);

		request_of(&pieces[i])->step = step;
		request_of(&pieces[i])->boot = worker->client->servers[0].boot;
		calls[i] = (struct nam_call){
			.type = NAM_RPC_MOVE,
			.body = pieces[i].body,
			.body_bytes = (uint32_t)(head->data - pieces[i].body) +
				(step == NAM_RPC_MOVE_POKE ? head->bytes : 0),
			.reply = pieces[i].reply,
			.reply_size = sizeof(pieces[i].reply),
		};
	}
	rc = nam_rpc_call_many(worker, calls, count); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !rc; i++) {
		uint32_t bytes = step == NAM_RPC_MOVE_PEEK ? head_of(&pieces[i])->bytes : 0;

		if (calls[i].reply_bytes != sizeof(struct nam_rpc_move_reply) + bytes)
			return -NAM_E_FABRIC_PROTOCOL;
		memcpy(head_of(&pieces[i])->data,
			pieces[i].reply + sizeof(struct nam_rpc_move_reply), bytes);
	}
	return rc;
}

int
nam__store_move(struct nam_worker *old, struct nam_worker *new, const struct nam_move_store *store,
	uint64_t deadline_ns, uint64_t *bytes)
{
	struct piece *pieces = nam_buffer_take(old, PIECES_MAX * sizeof(*pieces));
	uint64_t at = 0, before = *bytes;
	uint32_t n;
	int rc = pieces ? 0 : -ENOMEM;

	while (!rc && (n = pieces_form(store, &at, pieces)) > 0) {
		rc = nam_now_ns() < deadline_ns ? 0 : -NAM_E_FABRIC_TIMEOUT;
		if (!rc)
			rc = pieces_send(old, NAM_RPC_MOVE_PEEK, pieces, n); /* SUSPENDS */
		if (!rc)
			rc = pieces_send(new, NAM_RPC_MOVE_POKE, pieces, n); /* SUSPENDS */
		*bytes = before + at;
	}
	if (pieces)
		nam_buffer_give(old, pieces, PIECES_MAX * sizeof(*pieces));
	return rc;
}
