/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c -- services that search and change trees (trees.h). */
#include "memserver/trees.h"

#define MOVES_SHIFT 36u
#define WALK_NODES_MAX 256u
#define COLLECT_PARENTS_MAX 4u

int
nam__service_tree_create(struct nam__exchange *exchange)
{
	struct nam_server *server = exchange->server;
	struct nam__tree *tree;
	int rc = nam__tree_new(server, exchange->body, exchange->connection->handler->scratch,
		&tree);

	if (rc)
		return rc;
	tree->object.owner = exchange->connection->client_id;
	return nam__objects_enter(&server->trees, &tree->object);
}

int
nam__service_tree_drop(struct nam__exchange *exchange)
{
	const struct nam_rpc_tree_request *request = exchange->body;

	return nam__objects_drop(&exchange->server->trees, exchange->server, request->tree);
}

/* S5 */
static bool
has(const struct nam__tree *tree, const uint64_t *key)
{
	return !NAM_GUARD(PART_ROUTE) || nam__part_has(&tree->shape.part, &tree->index_g, key);
}

int
nam__service_tree_describe(struct nam__exchange *exchange)
{
	struct nam__tree *tree = exchange->tree;
	struct nam_rpc_tree_describe_reply *reply = exchange->reply;

	*reply = (struct nam_rpc_tree_describe_reply){
		.key_bytes = tree->shape.key_bytes,
		.node_bytes = tree->shape.node_bytes,
		.unique = tree->shape.unique,
		.leaves = tree->leaves,
		.part = tree->shape.part,
	};
	exchange->reply_bytes = sizeof(*reply);
	return 0;
}

static int
point_one(struct nam__tree *tree, uint64_t *scratch, unsigned kind, const uint64_t *pair,
	uint64_t *ret_payload)
{
	static const enum nam_op_kind kinds[NAM_RPC_TREE_POINTS_COUNT] = {
		[NAM_RPC_TREE_INSERT] = NAM_OP_INSERT,
		[NAM_RPC_TREE_UPSERT] = NAM_OP_UPSERT,
		[NAM_RPC_TREE_UPDATE] = NAM_OP_UPDATE,
		[NAM_RPC_TREE_DELETE] = NAM_OP_DELETE,
		[NAM_RPC_TREE_DELETE_PAIR] = NAM_OP_DELETE,
	};
	uint64_t payload = pair[tree->g.key_words];

	if (!has(tree, pair))
		return -NAM_E_PARTITION;
	if (kind == NAM_RPC_TREE_LOOKUP)
		return nam__tree_server_lookup(tree->local, scratch, pair, ret_payload);
	if (kind == NAM_RPC_TREE_DELETE_PAIR && tree->shape.unique)
		return nam__tree_server_delete_pair(tree->local, scratch, pair, payload);
	/* Key and payload of a pair are, in this order, a full key that is not unique. */
	return nam__tree_server_change(tree->local, scratch, kinds[kind], pair, payload);
}

int
nam__service_tree_point(struct nam__exchange *exchange)
{
	uint64_t *scratch = exchange->connection->handler->scratch;
	struct nam__tree *tree = exchange->tree;
	const struct nam_rpc_tree_point_request *request = exchange->body;
	struct nam_rpc_tree_point_reply *reply = exchange->reply;
	size_t words = tree->g.key_words + 1;

	if (!request->kind || request->kind >= NAM_RPC_TREE_POINTS_COUNT || request->reserved ||
		!request->count ||
		exchange->body_bytes != sizeof(*request) + 8 * words * request->count ||
		request->count > (NAM_RPC_BODY_MAX - sizeof(*reply)) / sizeof(reply->results[0]))
		return -NAM_E_FABRIC_PROTOCOL;
	if (request->kind != NAM_RPC_TREE_LOOKUP && !nam__may_change(exchange->connection))
		return -NAM_E_FABRIC_DENIED;
	if (request->kind == NAM_RPC_TREE_UPDATE && !tree->shape.unique)
		return -EINVAL;
	/* S6: a change that comes after the load began is refused. */
	if (NAM_GUARD(LOAD_ALONE) && request->kind != NAM_RPC_TREE_LOOKUP &&
		atomic_load_explicit(&tree->load, memory_order_acquire))
		return -NAM_E_RESTART_LOCKED;
	nam_race_point("tree.admitted");
	for (uint32_t i = 0; i < request->count; i++) {
		struct nam_rpc_tree_point_result *result = &reply->results[i];

		result->payload = 0;
		result->status = point_one(tree, scratch, request->kind,
			request->pairs + i * words, &result->payload);
	}
	reply->count = request->count;
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) +
		request->count * sizeof(reply->results[0]));
	return 0;
}

int
nam__service_tree_scan(struct nam__exchange *exchange)
{
	uint64_t *scratch = exchange->connection->handler->scratch;
	struct nam__tree *tree = exchange->tree;
	const struct nam_rpc_tree_scan_request *request = exchange->body;
	struct nam_rpc_tree_scan_reply *reply = exchange->reply;
	uint32_t most = MIN(request->max, NAM_RPC_TREE_SCAN_MAX(tree->g.key_words));

	if (!request->max || request->flags & ~NAM_RPC_TREE_REVERSE)
		return -NAM_E_FABRIC_PROTOCOL;
	reply->count = nam__tree_server_scan(tree->local, scratch, request->low, request->high,
		request->flags & NAM_RPC_TREE_REVERSE, reply->pairs, most);
	reply->more = reply->count == most;
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) +
		8 * (tree->g.key_words + 1) * reply->count);
	return 0;
}

int
nam__service_tree_walk(struct nam__exchange *exchange)
{
	uint64_t *scratch = exchange->connection->handler->scratch;
	struct nam__tree *tree = exchange->tree;
	const struct nam_rpc_tree_walk_request *request = exchange->body;
	struct nam_rpc_tree_walk_reply *reply = exchange->reply;
	struct nam__tree_server_walk walk;

	if (request->verify > 1)
		return -NAM_E_FABRIC_PROTOCOL;
	nam__tree_server_walk(tree->local, scratch, request->level, request->verify, request->from,
		WALK_NODES_MAX, &walk);
	memset(reply, 0, sizeof(*reply));
	reply->height = walk.height;
	reply->more = walk.more;
	reply->nodes = walk.nodes;
	reply->entries = walk.entries;
	reply->violations = walk.violations;
	memcpy(reply->next, walk.next.w, 8 * tree->g.full_words);
	memcpy(reply->text, walk.first.text, sizeof(reply->text) - 1);
	exchange->reply_bytes = sizeof(*reply);
	return 0;
}

int
nam__service_tree_collect(struct nam__exchange *exchange)
{
	uint64_t *scratch = exchange->connection->handler->scratch;
	struct nam__tree *tree = exchange->tree;
	const struct nam_rpc_tree_collect_request *request = exchange->body;
	struct nam_rpc_tree_collect_reply *reply = exchange->reply;
	struct nam__tree_server_collected collected;

	if (request->reserved)
		return -NAM_E_FABRIC_PROTOCOL;
	nam__tree_server_collect(tree->local, scratch, request->level, request->from,
		COLLECT_PARENTS_MAX, &collected);
	memset(reply, 0, sizeof(*reply));
	reply->height = collected.height;
	reply->more = collected.more;
	reply->nodes = collected.nodes;
	reply->merges = collected.merges;
	memcpy(reply->next, collected.next.w, 8 * tree->g.full_words);
	reply->reusable = nam__tree_reusable(tree);
	exchange->reply_bytes = sizeof(*reply);
	return 0;
}

int
nam__service_tree_floor(struct nam__exchange *exchange)
{
	uint64_t *scratch = exchange->connection->handler->scratch;
	struct nam__tree *tree = exchange->tree;
	const struct nam_rpc_tree_floor_request *request = exchange->body;
	struct nam_rpc_tree_floor_reply *reply = exchange->reply;
	const struct nam__geometry *g = &tree->g;
	struct nam__tree_server_floor found;

	if (!tree->leaves || request->alone > 1 || request->reserved)
		return -NAM_E_FABRIC_PROTOCOL;
	if (!nam__tree_server_floor(tree->local, scratch, request->key, request->alone,
		reply->pairs, &found))
		return -NAM_E_REMOTE_CORRUPT;
	reply->node = nam__block_address(tree->server, found.node);
	/* Clients keep the latest of a node, and a successor has others at the same addresses. */
	reply->version = found.version + ((uint64_t)tree->moves << MOVES_SHIFT);
	reply->count = found.count;
	reply->last = found.last;
	memset(reply->next, 0, sizeof(reply->next));
	memcpy(reply->next, found.next.w, 8 * g->full_words);
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) + 8 * g->leaf_words * found.count);
	return 0;
}

/* A load's state is its connection's, and so one handler's, until the load is over. */
static bool
is_loader(struct nam__tree *tree, const struct nam__connection *connection, uint64_t load)
{
	return atomic_load_explicit(&tree->load, memory_order_acquire) == load &&
	       atomic_load_explicit(&tree->loader, memory_order_acquire) == connection;
}

/* M10: while a change that began earlier may be under way, the loader asks again. */
static int
load_begin(struct nam__tree *tree, struct nam__connection *connection, uint64_t *scratch,
	const struct nam_rpc_tree_load_request *request)
{
	struct nam__tree_server_walk walk;
	static const struct nam__key lowest;
	uint64_t free = 0;
	int rc;

	if (request->fill_percent < 50 || request->fill_percent > 100)
		return -NAM_E_FABRIC_PROTOCOL;
	if (atomic_compare_exchange_strong(&tree->load, &free, request->load)) {
		nam_race_point("tree.load_asked");
		tree->load_clock = nam__work_tick(tree->server);
		atomic_store_explicit(&tree->loader, connection, memory_order_release);
		return -NAM_E_RESTART_LOCKED;
	}
	if (!is_loader(tree, connection, request->load) || (NAM_GUARD(LOAD_WAIT) &&
			nam__work_oldest(tree->server) <= tree->load_clock))
		return -NAM_E_RESTART_LOCKED;
	nam__tree_server_walk(tree->local, scratch, 0, false, lowest.w, 1, &walk);
	/* The first leaf of all is named always. */
	if (NAM_GUARD(LOAD_EMPTY) && (walk.height > 1 || walk.entries > tree->leaves)) {
		nam__tree_load_over(tree);
		return -NAM_E_NOTEMPTY;
	}
	if (tree->filling)
		return -NAM_E_FABRIC_PROTOCOL;
	rc = nam__tree_server_open(tree, &tree->filling);
	if (rc) {
		nam__tree_load_over(tree);
		return rc;
	}
	nam__tree_server_fill(tree->filling, request->fill_percent);
	tree->load_any = false;
	return 0;
}

static int
load_pairs(struct nam__tree *tree, uint64_t *scratch,
	const struct nam_rpc_tree_load_request *request)
{
	const struct nam__geometry *g = &tree->g;

	for (uint32_t i = 0; i < request->count; i++) {
		const uint64_t *pair = request->pairs + i * (size_t)(g->key_words + 1);
		int rc;

		if (!has(tree, pair) && !(tree->leaves && !tree->load_any))
			return -NAM_E_PARTITION;
		if (tree->load_any && nam__key_compare(tree->load_last.w, pair, g->full_words) >= 0)
			return -NAM_E_UNSORTED;
		rc = nam__tree_server_change(tree->filling, scratch, NAM_OP_INSERT, pair,
			pair[g->key_words]);
		if (rc)
			return rc;
		memcpy(tree->load_last.w, pair, 8 * g->full_words);
		tree->load_any = true;
	}
	return 0;
}

int
nam__service_tree_load(struct nam__exchange *exchange)
{
	const struct nam_rpc_tree_load_request *request = exchange->body;
	uint64_t *scratch = exchange->connection->handler->scratch;
	struct nam__tree *tree = exchange->tree;
	int rc;

	if (!request->load || exchange->body_bytes != sizeof(*request) +
		8ull * (tree->g.key_words + 1) * request->count ||
		(request->count && request->step != NAM_RPC_TREE_LOAD_PAIRS))
		return -NAM_E_FABRIC_PROTOCOL;
	if (request->step == NAM_RPC_TREE_LOAD_BEGIN)
		return load_begin(tree, exchange->connection, scratch, request);
	/* To cancel a load that is over is nothing. */
	if (!is_loader(tree, exchange->connection, request->load))
		return request->step == NAM_RPC_TREE_LOAD_CANCEL ? 0 : -NAM_E_FABRIC_PROTOCOL;
	if (request->step == NAM_RPC_TREE_LOAD_CANCEL) {
		nam__tree_load_over(tree);
		return 0;
	}
	if (!tree->filling)
		return -NAM_E_FABRIC_PROTOCOL;
	if (request->step == NAM_RPC_TREE_LOAD_PAIRS)
		return load_pairs(tree, scratch, request);
	if (request->step != NAM_RPC_TREE_LOAD_END)
		return -NAM_E_FABRIC_PROTOCOL;
	rc = nam__tree_server_publish(tree->local, scratch, tree->filling, tree->leaves);
	if (!rc)
		tree->filling = NULL;
	nam__tree_load_over(tree);
	return rc;
}
