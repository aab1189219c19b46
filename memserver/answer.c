/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c -- a request goes to its service; a reply that fits in no frame goes by SEND. */
#include <string.h>

#include "mailbox.h"

static const struct {
	nam__service_fn fn;
	bool catalog_server_only;		/* server 0 */
} services[NAM_RPC_TYPES_COUNT] = {
	[NAM_RPC_PING] = { nam__service_ping, false },
	[NAM_RPC_REGISTER] = { nam__service_register, true },
	[NAM_RPC_REGIONS] = { nam__service_regions, false },
	[NAM_RPC_CLIENT_STATE] = { nam__service_client_state, true },
	[NAM_RPC_ALLOC] = { nam__service_alloc, false },
	[NAM_RPC_FREE] = { nam__service_free, false },
	[NAM_RPC_CATALOG_PUT] = { nam__service_catalog_put, true },
	[NAM_RPC_CATALOG_GET] = { nam__service_catalog_get, true },
	[NAM_RPC_CATALOG_LIST] = { nam__service_catalog_list, true },
	[NAM_RPC_CATALOG_DROP] = { nam__service_catalog_drop, true },
	[NAM_RPC_STATUS] = { nam__service_status, false },
	[NAM_RPC_TREE_CREATE] = { nam__service_tree_create, false },
	[NAM_RPC_TREE_DESCRIBE] = { nam__service_tree_describe, false },
	[NAM_RPC_TREE_DROP] = { nam__service_tree_drop, false },
	[NAM_RPC_TREE_POINT] = { nam__service_tree_point, false },
	[NAM_RPC_TREE_SCAN] = { nam__service_tree_scan, false },
	[NAM_RPC_TREE_LOAD] = { nam__service_tree_load, false },
	[NAM_RPC_TREE_WALK] = { nam__service_tree_walk, false },
	[NAM_RPC_TREE_COLLECT] = { nam__service_tree_collect, false },
	[NAM_RPC_TREE_FLOOR] = { nam__service_tree_floor, false },
	[NAM_RPC_ECHO] = { nam__service_echo, false },
	[NAM_RPC_LOCAL] = { nam__service_local, false },
	[NAM_RPC_KV_CREATE] = { nam__service_kv_create, false },
	[NAM_RPC_KV_DESCRIBE] = { nam__service_kv_describe, false },
	[NAM_RPC_KV_DROP] = { nam__service_kv_drop, false },
	[NAM_RPC_KV_GET] = { nam__service_kv_get, false },
	[NAM_RPC_KV_PUT] = { nam__service_kv_put, false },
	[NAM_RPC_KV_DELETE] = { nam__service_kv_delete, false },
	[NAM_RPC_KV_GET_MANY] = { nam__service_kv_get_many, false },
	[NAM_RPC_RECORDS_GET] = { nam__service_records_get, false },
	[NAM_RPC_RECORDS_PREPARE] = { nam__service_records_prepare, false },
	[NAM_RPC_RECORDS_COMMIT] = { nam__service_records_commit, false },
	[NAM_RPC_LOCKING_READ] = { nam__service_locking_read, false },
	[NAM_RPC_LOCKING_RELEASE] = { nam__service_locking_release, false },
	[NAM_RPC_LOCKING_PREPARE] = { nam__service_locking_prepare, false },
	[NAM_RPC_LOCKING_END] = { nam__service_locking_end, false },
	[NAM_RPC_LOCKING_SEAL] = { nam__service_locking_seal, false },
	[NAM_RPC_PRESENCE] = { nam__service_presence, false },
};

uint32_t
nam__dispatch(struct nam_server *server, struct nam__connection *connection, const void *message,
	uint32_t bytes, void *reply)
{
	const struct nam_rpc_header *header = message;
	struct nam_rpc_header *answer = reply;
	struct nam__exchange exchange = {
		.server = server,
		.connection = connection,
		.body = header + 1,
		.reply = answer + 1,
	};
	int rc;

	if (bytes < sizeof(*header) || header->magic_version >> 8 != NAM_RPC_MAGIC)
		return 0;
	rc = nam_rpc_check(message, bytes);
	if (!rc && (header->status || header->passive & ~NAM_RPC_ONE_WAY ||
			   !services[header->type].fn))
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (!rc && services[header->type].catalog_server_only && server->options.id != 0)
		rc = -NAM_E_CLUSTER;
	if (!rc) {
		exchange.body_bytes = header->body_bytes;
		rc = services[header->type].fn(&exchange);
	}
	if (rc)
		exchange.reply_bytes = 0;
	if (header->passive == NAM_RPC_ONE_WAY) {
		connection->one_way_done++;
		connection->one_way_failed += rc != 0;
		/* Later replies will say so. */
		if (!rc)
			return 0;
	}
	nam_rpc_header_fill(answer, header->type, header->id, rc, exchange.reply_bytes);
	answer->passive = nam_rpc_one_way(connection->one_way_done, connection->one_way_failed);
	return (uint32_t)sizeof(*answer) + exchange.reply_bytes;
}

void
nam__handler_count(struct nam__handler *handler)
{
	/* Only this thread counts. */
	atomic_store_explicit(&handler->requests,
		atomic_load_explicit(&handler->requests, memory_order_relaxed) + 1,
		memory_order_relaxed);
}

void
nam__spare_send(struct nam__mailbox *box, uint32_t bytes)
{
	struct nam_qp *qp = box->connection->qp;
	struct nam_wr wr = {
		.op = NAM_WR_SEND,
		.flags = NAM_WR_SIGNALED,
		.bytes = bytes,
		.lkey = box->mr.lkey,
		.local = box->spare.reply,
		.context = &box->spare,
	};

	memcpy(box->spare.reply, box->connection->handler->reply, bytes);
	if (!qp->ops->qp_post(qp, &wr, 1))
		box->spare.sending = box->connection;
}
