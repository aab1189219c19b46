/* SPDX-License-Identifier: Apache-2.0 */
/* step_fixture.h -- steps of a move, handed to a memory server, and pages that it has noted. */
#ifndef NAM_TESTS_UNIT_MEMSERVER_MOVE_STEP_FIXTURE_H
#define NAM_TESTS_UNIT_MEMSERVER_MOVE_STEP_FIXTURE_H

#include "tests/unit/memserver/server_fixture.h"

#include "common/rpc/books_rpc.h"
#include "common/rpc/move_rpc.h"

static inline int
move_step(struct fixture *f, struct nam__connection *connection, uint32_t step, uint64_t at,
	const void *page, uint32_t bytes)
{
	uint8_t body[NAM_RPC_BODY_MAX] = { 0 };
	struct nam_rpc_move_request *request = (void *)body;

	*request = (struct nam_rpc_move_request){ .step = step, .boot = f->server->boot, .at = at };
	if (bytes)
		memcpy(request->page, page, bytes);
	return call_over(f, connection, NAM_RPC_MOVE, body, (uint32_t)sizeof(*request) + bytes);
}

/* About that member, whose regions are as those of this memory server. */
static inline int
claim(struct fixture *f, struct nam__connection *connection, uint32_t id)
{
	const struct nam_rpc_move_claim body = { f->server->memory.mrs[0].bytes, id,
		f->server->memory.count };

	return move_step(f, connection, NAM_RPC_MOVE_CLAIM, 0, &body, sizeof(body));
}

static inline int
take(struct fixture *f, struct nam__connection *connection, uint64_t word)
{
	return move_step(f, connection, NAM_RPC_MOVE_TAKE, 8 * word, NULL, 0);
}

/* The reply to the last TAKE. */
static inline const struct nam_rpc_move_notes *
taken(struct fixture *f)
{
	return (const void *)((const struct nam_rpc_move_reply *)reply_body(f))->page;
}

static inline uint32_t
taken_count(const struct fixture *f)
{
	return (f->reply_bytes - (uint32_t)(sizeof(struct nam_rpc_move_reply) +
		sizeof(struct nam_rpc_move_notes))) / (uint32_t)sizeof(struct nam_move_noted);
}

/* One TAKE brings all, and these are those pages of one word, or none. */
static inline void
assert_taken(struct fixture *f, struct nam__connection *connection, uint32_t word, uint64_t pages)
{
	const struct nam_rpc_move_reply *reply = reply_body(f);

	assert_int_equal(take(f, connection, 0), 0);
	assert_int_equal(reply->bytes, 0);
	assert_int_equal(taken_count(f), pages ? 1 : 0);
	if (pages) {
		assert_int_equal(taken(f)->noted[0].word, word);
		assert_true(taken(f)->noted[0].pages == pages);
	}
}

#endif /* NAM_TESTS_UNIT_MEMSERVER_MOVE_STEP_FIXTURE_H */
