/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c -- a request goes to its service; a reply that fits in no frame goes by SEND. */
#include "common/auth/proof.h"
#include "common/rpc/fence_rpc.h"
#include "common/rpc/locking_rpc.h"
#include "common/rpc/move_rpc.h"
#include "common/rpc/serial_rpc.h"
#include "common/rpc/sweep_rpc.h"
#include "common/rpc/view_rpc.h"
#include "mailbox.h"
#include "stores.h"
#include "trees.h"

#define EXACTLY(request) sizeof(struct nam_rpc_##request), sizeof(struct nam_rpc_##request)
#define VOUCHED(request)                                                                           \
	sizeof(struct nam_rpc_##request), sizeof(struct nam_rpc_##request) + NAM_VOUCHER_BYTES
#define FROM(request) sizeof(struct nam_rpc_##request), NAM_RPC_BODY_MAX
/* A service for clients that change something; and one for all: it does not, or looks further. */
#define ROW(type, fn, ...) [NAM_RPC_##type] = { nam__service_##fn, NAM_ROLE_WRITE, __VA_ARGS__ }
#define FOR_ALL(type, fn, ...) [NAM_RPC_##type] = { nam__service_##fn, NAM_ROLE_READ, __VA_ARGS__ }

/* A request needs server 0, which has the catalog, or the tree or store whose id comes first. */
enum target { ANY_SERVER, CATALOG_SERVER, TREE, STORE };

static const struct service {
	nam__service_fn *fn;
	enum nam_role role;			/* the least that the client has proven (M18) */
	enum target target;
	uint32_t bytes_min, bytes_max;		/* of the body */
} services[NAM_RPC_TYPES_COUNT] = {
	FOR_ALL(PING, ping, ANY_SERVER, 0, NAM_RPC_BODY_MAX),
	FOR_ALL(REGISTER, register, CATALOG_SERVER, EXACTLY(register_request)),
	FOR_ALL(REGIONS, regions, ANY_SERVER, VOUCHED(regions_request)),
	FOR_ALL(CLIENT_STATE, client_state, CATALOG_SERVER, EXACTLY(client_state_request)),
	ROW(ALLOC, alloc, ANY_SERVER, EXACTLY(alloc_request)),
	ROW(FREE, free, ANY_SERVER, FROM(free_request)),
	ROW(CATALOG_PUT, catalog_put, CATALOG_SERVER, FROM(catalog_entry)),
	FOR_ALL(CATALOG_GET, catalog_get, CATALOG_SERVER, EXACTLY(catalog_entry)),
	FOR_ALL(CATALOG_LIST, catalog_list, CATALOG_SERVER, EXACTLY(catalog_list_request)),
	ROW(CATALOG_DROP, catalog_drop, CATALOG_SERVER, FROM(catalog_entry)),
	FOR_ALL(STATUS, status, ANY_SERVER, EXACTLY(status_request)),
	ROW(TREE_CREATE, tree_create, ANY_SERVER, EXACTLY(tree_create_request)),
	FOR_ALL(TREE_DESCRIBE, tree_describe, TREE, FROM(tree_request)),
	ROW(TREE_DROP, tree_drop, ANY_SERVER, EXACTLY(tree_request)),
	FOR_ALL(TREE_POINT, tree_point, TREE, FROM(tree_point_request)),
	FOR_ALL(TREE_SCAN, tree_scan, TREE, EXACTLY(tree_scan_request)),
	ROW(TREE_LOAD, tree_load, TREE, FROM(tree_load_request)),
	FOR_ALL(TREE_WALK, tree_walk, TREE, EXACTLY(tree_walk_request)),
	ROW(TREE_COLLECT, tree_collect, TREE, EXACTLY(tree_collect_request)),
	FOR_ALL(TREE_FLOOR, tree_floor, TREE, EXACTLY(tree_floor_request)),
	FOR_ALL(ECHO, echo, ANY_SERVER, FROM(echo_request)),
	ROW(COLOCATED, colocated, ANY_SERVER, EXACTLY(colocated_request)),
	ROW(KV_CREATE, kv_create, ANY_SERVER, EXACTLY(kv_create_request)),
	FOR_ALL(KV_DESCRIBE, kv_describe, STORE, EXACTLY(kv_request)),
	ROW(KV_DROP, kv_drop, ANY_SERVER, EXACTLY(kv_request)),
	FOR_ALL(KV_GET, kv_key, STORE, FROM(kv_key_request)),
	ROW(KV_PUT, kv_key, STORE, FROM(kv_key_request)),
	ROW(KV_DELETE, kv_key, STORE, FROM(kv_key_request)),
	FOR_ALL(KV_GET_MANY, kv_get_many, STORE, FROM(kv_many_request)),
	FOR_ALL(KV_LAYOUT, kv_layout, STORE, EXACTLY(kv_layout_request)),
	FOR_ALL(RECORDS_GET, records_get, ANY_SERVER, FROM(records_request)),
	ROW(RECORDS_PREPARE, records_prepare, ANY_SERVER, FROM(records_request)),
	ROW(RECORDS_COMMIT, records_commit, ANY_SERVER, FROM(records_request)),
	ROW(LOCKING_READ, locking_read, ANY_SERVER, FROM(locking_request)),
	ROW(LOCKING_RELEASE, locking_release, ANY_SERVER, FROM(locking_request)),
	ROW(LOCKING_PREPARE, locking_prepare, ANY_SERVER, FROM(locking_request)),
	ROW(LOCKING_END, locking_end, ANY_SERVER, FROM(locking_request)),
	ROW(LOCKING_SEAL, locking_seal, ANY_SERVER, FROM(locking_request)),
	FOR_ALL(PRESENCE, presence, ANY_SERVER, 0, 0),
	ROW(RECLAIM, reclaim, ANY_SERVER, EXACTLY(reclaim_request)),
	ROW(KV_GET_LARGE, kv_large, STORE, FROM(kv_large_request)),
	ROW(KV_PUT_LARGE, kv_large, STORE, FROM(kv_large_request)),
	FOR_ALL(VIEW, view, ANY_SERVER, FROM(view_request)),
	FOR_ALL(FENCE, fence, ANY_SERVER, VOUCHED(fence_request)),
	FOR_ALL(SWEEP, sweep, ANY_SERVER, FROM(sweep_request)),
	ROW(MOVE, move, ANY_SERVER, FROM(move_request)),
	FOR_ALL(SERIAL_READ, serial, ANY_SERVER, FROM(serial_request)),
	ROW(SERIAL_CHANGE, serial, ANY_SERVER, FROM(serial_request)),
	FOR_ALL(EPOCH, epoch, CATALOG_SERVER, EXACTLY(epoch_request)),
};

/* No tree and no store is freed while a handler is at work on it (M10). */
static int
serve_object(const struct service *service, struct nam__exchange *exchange)
{
	struct nam__handler *handler = exchange->connection->handler;
	const struct nam_server *server = exchange->server;
	const uint64_t *id = exchange->body;
	int rc;

	nam__work_begin(handler);
	if (service->target == TREE) {
		exchange->tree = (struct nam__tree *)nam__objects_find(&server->trees, *id);
		nam_race_point("tree.found");
	} else {
		exchange->store = (struct nam__store *)nam__objects_find(&server->stores, *id);
		nam_race_point("kv.found");
	}
	rc = exchange->tree || exchange->store ? service->fn(exchange) : -NAM_E_DROPPED;
	nam__work_end(handler);
	return rc;
}

static int
serve(const struct service *service, struct nam__exchange *exchange)
{
	struct nam_server *server = exchange->server;
	int rc = 0;

	if (!service->fn)
		return -NAM_E_FABRIC_PROTOCOL;
	/* Acquire: once it serves, its books are in place. */
	if (__builtin_expect(atomic_load_explicit(&server->phase, memory_order_acquire), 0))
		rc = nam__phase_serves(server, exchange->type);
	if (rc)
		return rc;
	if (service->role > NAM_ROLE_READ && !nam__may_change(exchange->connection))
		return -NAM_E_FABRIC_DENIED;
	if (service->target == CATALOG_SERVER && server->options.id != 0)
		return -NAM_E_CLUSTER;
	if (exchange->body_bytes < service->bytes_min || exchange->body_bytes > service->bytes_max)
		return -NAM_E_FABRIC_PROTOCOL;
	return service->target >= TREE ? serve_object(service, exchange) : service->fn(exchange);
}

static void
count_answer(struct nam__handler *handler, uint16_t type, int rc, uint64_t ns)
{
	struct nam__service_counts *counts = &handler->services[type];
	uint64_t bound = NAM_LATENCY_FIRST_NS;

	nam__count(&counts->requests, 1);
	nam__count(&counts->failed, rc != 0);
	nam__count(&counts->total_ns, ns);
	for (uint32_t i = 0; i < NAM_LATENCIES; i++, bound *= 4)
		if (ns <= bound) {
			nam__count(&counts->within[i], 1);
			return;
		}
}

uint32_t
nam__dispatch(struct nam_server *server, struct nam__connection *connection, const void *message,
	uint32_t bytes, void *reply)
{
	const struct nam_rpc_header *header = message;
	struct nam_rpc_header *answer = reply;
	uint64_t began_ns = nam_now_ns();
	struct nam__exchange exchange = {
		.server = server,
		.connection = connection,
		.body = header + 1,
		.reply = answer + 1,
	};
	int rc;

	if (bytes < sizeof(*header) || header->magic_version >> 8 != NAM_RPC_MAGIC) {
		count_answer(connection->handler, NAM_RPC_NONE, -NAM_E_FABRIC_PROTOCOL, 0);
		return 0;
	}
	rc = nam_rpc_check(message, bytes);
	if (!rc && (header->status || header->one_way & ~NAM_RPC_ONE_WAY))
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (!rc) {
		exchange.type = header->type;
		exchange.body_bytes = header->body_bytes;
		rc = serve(&services[header->type], &exchange);
	}
	if (__builtin_expect(connection->handler->noted_later.count != 0, 0))
		nam__noted_flush(connection->handler);
	count_answer(connection->handler, exchange.type, rc, nam_now_ns() - began_ns);
	if (rc)
		exchange.reply_bytes = 0;
	if (header->one_way == NAM_RPC_ONE_WAY) {
		connection->one_way_done++;
		connection->one_way_failed += rc != 0;
		/* Later replies will say so. */
		if (!rc)
			return 0;
	}
	nam_rpc_header_fill(answer, header->type, header->id, rc, exchange.reply_bytes);
	answer->one_way = nam_rpc_one_way(connection->one_way_done, connection->one_way_failed);
	return (uint32_t)sizeof(*answer) + exchange.reply_bytes;
}

/* From box->spare, which is free.  If it fails, the client's time is out. */
static void
spare_send(struct nam__mailbox *box, uint32_t bytes)
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

uint32_t
nam__frame_answer(struct nam__handler *handler, struct nam__mailbox *box, uint32_t request_bytes,
	struct nam_frame *frame, uint32_t most)
{
	uint32_t bytes = nam__dispatch(handler->server, box->connection, handler->frame->message,
		request_bytes, handler->reply);

	nam_answered(handler->reply, bytes);
	if (nam_frame_bytes(bytes) > most) {
		spare_send(box, bytes);
		return 0;
	}
	memcpy(frame->message, handler->reply, bytes);
	return bytes;
}
