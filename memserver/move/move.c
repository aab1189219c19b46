/* SPDX-License-Identifier: Apache-2.0 */
/* move.c -- the memory of this server passes to a successor (common/rpc/move_rpc.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "books.h"

static void
stage_drop(struct nam__connection *connection)
{
	free(connection->move_stage);
	connection->move_stage = NULL;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int
export(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	struct nam__connection *connection = exchange->connection;
	struct nam_rpc_move_reply *reply = exchange->reply;
	struct nam__move_stage *stage;
	uint64_t left;
	int rc = 0;

	if (page_bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	if (!request->at) {
		stage_drop(connection);
		rc = nam__books_copy(exchange->server, &connection->move_stage);
	}
	if (rc)
		return rc;
	stage = connection->move_stage;
	if (!stage || stage->step != NAM_RPC_MOVE_EXPORT || request->at >= stage->bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	left = stage->bytes - request->at;
	if (left > NAM_RPC_MOVE_PAGE_BYTES)
		left = NAM_RPC_MOVE_PAGE_BYTES;
	reply->bytes = stage->bytes;
	memcpy(reply->page, (const uint8_t *)stage->books + request->at, left);
	exchange->reply_bytes += (uint32_t)left;
	return 0;
}

int
nam__service_move(struct nam__exchange *exchange)
{
	static int (*const steps[])(struct nam__exchange *exchange,
		const struct nam_rpc_move_request *request, uint32_t page_bytes) = {
		[NAM_RPC_MOVE_EXPORT] = export,
	};
	const struct nam_rpc_move_request *request = exchange->body;
	struct nam_rpc_move_reply *reply = exchange->reply;

	if (!request->step || request->step >= sizeof(steps) / sizeof(steps[0]) ||
		request->reserved || request->at % 8)
		return -NAM_E_FABRIC_PROTOCOL;
	if (!nam__is_admin(exchange))
		return -NAM_E_FABRIC_DENIED;
	/* Epoch, catalog and clients are the lead's: it stays. */
	if (exchange->server->options.id == 0 || request->boot != exchange->server->boot)
		return -NAM_E_CLUSTER;
	reply->bytes = 0;
	exchange->reply_bytes = sizeof(*reply);
	return steps[request->step](exchange, request,
		exchange->body_bytes - (uint32_t)sizeof(*request));
}
