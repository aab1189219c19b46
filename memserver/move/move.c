/* SPDX-License-Identifier: Apache-2.0 */
/* move.c -- the memory of this server passes to a successor (common/rpc/move_rpc.h). */
#include "books.h"
#include "host.h"
#include "memserver/services/runs.h"
#include "memserver/trees.h"

static enum nam_server_phase
phase_of(const struct nam_server *server)
{
	/* Acquire: once it serves, its books are in place. */
	return (enum nam_server_phase)atomic_load_explicit(&server->phase, memory_order_acquire);
}

static void
phase_set(struct nam_server *server, enum nam_server_phase phase)
{
	static const char *const names[] = { "serves", "successor", "filling", "moved" };

	/* A connection that is being accepted sees that, or is in the list. */
	pthread_mutex_lock(&server->mutex);
	/* Release: pairs with phase_of(). */
	atomic_store_explicit(&server->phase, phase, memory_order_release);
	pthread_mutex_unlock(&server->mutex);
	nam__log(server, NAM_LOG_INFO, "move", "server=%u phase=%s", server->options.id,
		names[phase]);
}

static void
stage_drop(struct nam__connection *connection)
{
	free(connection->move_stage);
	connection->move_stage = NULL;
}

/* As a member: 0, or why not. */
static int
serves(const struct nam_server *server)
{
	enum nam_server_phase phase = phase_of(server);

	return phase == NAM_SERVER_SERVES ? 0 : phase == NAM_SERVER_MOVED ? -NAM_E_FABRIC_MOVED :
		-NAM_E_FABRIC_SUCCESSOR;
}

int
nam__phase_serves(const struct nam_server *server, uint16_t type)
{
	enum nam_server_phase phase = phase_of(server);
	bool always = type == NAM_RPC_STATUS || type == NAM_RPC_MOVE;
	bool before = type == NAM_RPC_PING || type == NAM_RPC_REGIONS || type == NAM_RPC_VIEW ||
		type == NAM_RPC_FENCE;
	bool filling = type == NAM_RPC_TREE_LOAD || type == NAM_RPC_TREE_WALK;

	return always || (phase != NAM_SERVER_MOVED && before) ||
		(phase == NAM_SERVER_FILLING && filling) ? 0 : serves(server);
}

int
nam__phase_admits(const struct nam_server *server, const struct nam__connection *connection)
{
	return phase_of(server) != NAM_SERVER_MOVED && connection->probes &&
		!connection->client_id ? 0 : serves(server);
}

/* M22: from now on, and while the connection lives, the books say which clients are fenced. */
static void
exports_set(struct nam__connection *connection, bool exports)
{
	struct nam__membership *membership = &connection->handler->server->membership;

	NAM__SCOPED_LOCK(&membership->mutex);
	membership->exporting = membership->exporting - connection->exports + exports;
	connection->exports = exports;
}

static int
export(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	struct nam__connection *connection = exchange->connection;
	struct nam_rpc_move_reply *reply = exchange->reply;
	struct nam__move_stage *stage;
	uint64_t left;
	int rc = serves(exchange->server);

	if (rc)
		return rc;
	if (page_bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	if (!request->at) {
		stage_drop(connection);
		exports_set(connection, true);
		rc = nam__books_copy(connection->handler, &connection->move_stage);
		if (rc)
			exports_set(connection, false);
	}
	if (rc)
		return rc;
	stage = connection->move_stage;
	if (!stage || stage->step != NAM_RPC_MOVE_EXPORT || request->at >= stage->bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	left = MIN(stage->bytes - request->at, NAM_RPC_MOVE_PAGE_BYTES);
	reply->bytes = stage->bytes;
	memcpy(reply->page, (const uint8_t *)stage->books + request->at, left);
	exchange->reply_bytes += (uint32_t)left;
	return 0;
}

static int
stage_begin(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	struct nam__connection *connection = exchange->connection;
	const struct nam_move_head *head = (const void *)request->page;
	struct nam__move_stage *stage;
	int rc;

	stage_drop(connection);
	if (page_bytes < sizeof(*head))
		return -NAM_E_FABRIC_PROTOCOL;
	rc = nam__books_head_check(exchange->server, head);
	if (rc)
		return rc;
	stage = malloc(sizeof(*stage) + head->bytes);
	if (!stage)
		return -ENOMEM;
	*stage = (struct nam__move_stage){ .step = NAM_RPC_MOVE_IMPORT, .bytes = head->bytes };
	connection->move_stage = stage;
	return 0;
}

/* M22: a mover that stalled has no queue pair for its late WRITEs.  Of two movers one commits. */
static int
import(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	struct nam__connection *connection = exchange->connection;
	struct nam_server *server = exchange->server;
	struct nam__move_stage *stage;
	bool is_last;
	int rc = 0;

	if (phase_of(server) != NAM_SERVER_SUCCESSOR)
		return -NAM_E_CLUSTER;
	if (!page_bytes || page_bytes % 8)
		return -NAM_E_FABRIC_PROTOCOL;
	if (!request->at)
		rc = stage_begin(exchange, request, page_bytes);
	if (rc)
		return rc;
	stage = connection->move_stage;
	if (!stage || stage->step != NAM_RPC_MOVE_IMPORT || request->at != stage->count ||
		page_bytes > stage->bytes - stage->count)
		return -NAM_E_FABRIC_PROTOCOL;
	is_last = stage->count + page_bytes == stage->bytes;
	if (is_last && nam__connections_fence(server, 0, 0, connection))
		return -EAGAIN;
	memcpy((uint8_t *)stage->books + stage->count, request->page, page_bytes);
	stage->count += page_bytes;
	((struct nam_rpc_move_reply *)exchange->reply)->bytes = stage->bytes;
	if (!is_last)
		return 0;
	rc = nam__books_take(connection->handler, stage->books);
	stage_drop(connection);
	if (!rc)
		phase_set(server, atomic_load(&server->trees.count) ||
			atomic_load(&server->stores.count) ? NAM_SERVER_FILLING :
			NAM_SERVER_SERVES);
	return rc;
}

/* The trees are filled: as many pairs as the mover has sent. */
static int
open_up(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	struct nam_server *server = exchange->server;
	bool loads = false;

	if (phase_of(server) != NAM_SERVER_FILLING)
		return -NAM_E_CLUSTER;
	if (page_bytes || request->at)
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t slot = 0; slot < server->trees.slots_count; slot++) {
		struct nam__tree *tree = (struct nam__tree *)nam__objects_at(&server->trees, slot);

		loads |= tree && atomic_load_explicit(&tree->load, memory_order_acquire);
	}
	if (loads || nam__connections_fence(server, 0, 0, exchange->connection))
		return -EAGAIN;
	phase_set(server, NAM_SERVER_SERVES);
	return 0;
}

/* M25: from then on nothing changes the view here, and the backup may lead. */
static int
lead_retire(struct nam_server *server)
{
	struct nam__membership *membership = &server->membership;
	const struct nam_view_member *lead = &membership->view.members[0];
	int rc = -NAM_E_VIEW;

	if (!nam__leads(server))
		return -NAM_E_CLUSTER;
	/* These have one copy, and none is made meanwhile. */
	if (!nam__objects_close(&server->trees) || !nam__objects_close(&server->stores)) {
		nam__objects_open(&server->trees);
		return -NAM_E_UNMOVABLE;
	}
	pthread_mutex_lock(&server->mutex);
	pthread_mutex_lock(&membership->mutex);
	if ((membership->view.head.number && lead->known && lead->state == NAM_VIEW_UP) ||
		!NAM_GUARD(LEAD_RETIRES)) {
		/* Release: pairs with phase_of(). */
		atomic_store_explicit(&server->phase, NAM_SERVER_MOVED, memory_order_release);
		rc = 0;
	}
	pthread_mutex_unlock(&membership->mutex);
	pthread_mutex_unlock(&server->mutex);
	if (rc) {
		nam__objects_open(&server->trees);
		nam__objects_open(&server->stores);
		return rc;
	}
	nam__log(server, NAM_LOG_INFO, "move", "server=0 phase=moved");
	return 0;
}

/* Trees and stores have one copy. */
static int
leave(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	struct nam__connection *connection = exchange->connection;
	struct nam_server *server = exchange->server;

	if (page_bytes || request->at)
		return -NAM_E_FABRIC_PROTOCOL;
	NAM__SCOPED_LOCK(&server->mutex);
	if (phase_of(server) != NAM_SERVER_SERVES)
		return -NAM_E_CLUSTER;
	if (connection->keeps_objects_out)
		return 0;
	if (!nam__objects_close(&server->trees) || !nam__objects_close(&server->stores)) {
		if (!server->objects_kept_out)
			nam__objects_open(&server->trees);
		return -NAM_E_UNMOVABLE;
	}
	connection->keeps_objects_out = true;
	server->objects_kept_out++;
	return 0;
}

void
nam__move_connection_closed(struct nam_server *server, struct nam__connection *connection)
{
	NAM__SCOPED_LOCK(&server->mutex);
	if (!connection->keeps_objects_out)
		return;
	connection->keeps_objects_out = false;
	if (--server->objects_kept_out || phase_of(server) != NAM_SERVER_SERVES)
		return;
	nam__objects_open(&server->trees);
	nam__objects_open(&server->stores);
}

static int
retire(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	struct nam_server *server = exchange->server;
	enum nam_server_phase phase = phase_of(server);

	if (phase == NAM_SERVER_SUCCESSOR || phase == NAM_SERVER_FILLING)
		return -NAM_E_FABRIC_SUCCESSOR;
	if (page_bytes || request->at)
		return -NAM_E_FABRIC_PROTOCOL;
	if (phase == NAM_SERVER_SERVES && !server->options.id) {
		int rc = lead_retire(server);

		if (rc)
			return rc;
	} else if (phase == NAM_SERVER_SERVES) {
		phase_set(server, NAM_SERVER_MOVED);
	}
	return nam__connections_fence(server, 0, 0, exchange->connection) ? -EAGAIN : 0;
}

/* PEEK: clients have stopped, as for EXPORT.  POKE: no client is there yet. */
static int
piece(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	const struct nam_rpc_move_piece *asked = (const void *)request->page;
	struct nam__connection *connection = exchange->connection;
	struct nam_rpc_move_reply *reply = exchange->reply;
	bool pokes = request->step == NAM_RPC_MOVE_POKE;
	uint8_t *at;
	int rc;

	if (pokes ? phase_of(exchange->server) != NAM_SERVER_FILLING : !connection->exports)
		return -NAM_E_CLUSTER;
	nam__work_begin(connection->handler);
	rc = nam__store_piece(exchange, request, page_bytes, &at);
	if (!rc && page_bytes != sizeof(*asked) + (pokes ? asked->bytes : 0))
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (!rc && pokes) {
		memcpy(at, asked->data, asked->bytes);
	} else if (!rc) {
		memcpy(reply->page, at, asked->bytes);
		exchange->reply_bytes += asked->bytes;
	}
	nam__work_end(connection->handler);
	return rc;
}

static int
host(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	const struct nam_rpc_move_host *wanted = (const void *)request->page;
	struct nam_rpc_move_reply *reply = exchange->reply;
	int rc = serves(exchange->server);

	if (rc)
		return rc;
	if (page_bytes != sizeof(*wanted) || request->at || wanted->reserved)
		return -NAM_E_FABRIC_PROTOCOL;
	if (request->step == NAM_RPC_MOVE_UNHOST)
		return nam__hosted_end(exchange->server, wanted);
	rc = nam__hosted_start(exchange->server, wanted,
		(struct nam_rpc_move_hosted *)(void *)reply->page);
	if (!rc)
		exchange->reply_bytes += (uint32_t)sizeof(struct nam_rpc_move_hosted);
	return rc;
}

/* M24: what the primary has handed out. */
static int
runs(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	const struct nam_rpc_move_runs *runs = (const void *)request->page;
	struct nam_server *server = exchange->server;
	enum nam_server_phase phase = phase_of(server);

	if (nam__leads(server) || phase == NAM_SERVER_SUCCESSOR)
		return -NAM_E_CLUSTER;
	if (phase == NAM_SERVER_MOVED)
		return -NAM_E_FABRIC_MOVED;
	if (page_bytes < sizeof(*runs) || request->at ||
		(page_bytes - sizeof(*runs)) % sizeof(runs->blocks[0]))
		return -NAM_E_FABRIC_PROTOCOL;
	return nam__allocator_place(&server->allocator, runs->stride, runs->run_at,
		runs->run_count, runs->blocks,
		(uint32_t)((page_bytes - sizeof(*runs)) / sizeof(runs->blocks[0])));
}

int
nam__service_move(struct nam__exchange *exchange)
{
	static nam__move_step_fn *const steps[] = {
		[NAM_RPC_MOVE_EXPORT] = export,
		[NAM_RPC_MOVE_IMPORT] = import,
		[NAM_RPC_MOVE_OPEN] = open_up,
		[NAM_RPC_MOVE_RETIRE] = retire,
		[NAM_RPC_MOVE_PEEK] = piece,
		[NAM_RPC_MOVE_POKE] = piece,
		[NAM_RPC_MOVE_HOST] = host,
		[NAM_RPC_MOVE_UNHOST] = host,
		[NAM_RPC_MOVE_CLAIM] = nam__noted_claim,
		[NAM_RPC_MOVE_NOTED] = nam__noted_note,
		[NAM_RPC_MOVE_TAKE] = nam__noted_take,
		[NAM_RPC_MOVE_RUNS] = runs,
		[NAM_RPC_MOVE_LEAVE] = leave,
	};
	const struct nam_rpc_move_request *request = exchange->body;
	struct nam_rpc_move_reply *reply = exchange->reply;

	if (!request->step || request->step >= sizeof(steps) / sizeof(steps[0]) ||
		request->reserved || request->at % 8)
		return -NAM_E_FABRIC_PROTOCOL;
	if (request->step != NAM_RPC_MOVE_NOTED && request->step != NAM_RPC_MOVE_RUNS &&
		!nam__is_admin(exchange))
		return -NAM_E_FABRIC_DENIED;
	/* Epoch, catalog and clients are the lead's: it gets a backup, which leads after it. */
	if ((exchange->server->options.id == 0 && request->step < NAM_RPC_MOVE_HOST &&
			request->step != NAM_RPC_MOVE_EXPORT &&
			request->step != NAM_RPC_MOVE_IMPORT &&
			request->step != NAM_RPC_MOVE_RETIRE) ||
		request->boot != exchange->server->boot)
		return -NAM_E_CLUSTER;
	reply->bytes = 0;
	exchange->reply_bytes = sizeof(*reply);
	return steps[request->step](exchange, request,
		exchange->body_bytes - (uint32_t)sizeof(*request));
}
