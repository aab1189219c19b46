/* SPDX-License-Identifier: Apache-2.0 */
/* trees.c -- trees, and their memory. */
#include "trees.h"

void *
nam__block_at(const struct nam_server *server, uint64_t raw)
{
	struct nam_gaddr at = { raw };
	uint32_t region = nam_gaddr_region(at) - nam__first_region_id(server);

	/* Acquire: pairs with nam__memory_withdraw(). */
	return atomic_load_explicit(&server->memory.bases[region], memory_order_acquire) +
		nam_gaddr_offset(at);
}

uint64_t
nam__block_address(const struct nam_server *server, const void *block)
{
	for (uint32_t i = 0; i < server->memory.count; i++) {
		const uint8_t *base = atomic_load_explicit(&server->memory.bases[i],
			memory_order_relaxed);
		uint64_t offset = (uint64_t)((const uint8_t *)block - base);

		if ((const uint8_t *)block >= base && offset < server->memory.mrs[i].bytes)
			return nam_gaddr_make((uint16_t)(nam__first_region_id(server) + i), offset,
				0).raw;
	}
	return 0;
}

static void
blocks_give(struct nam__tree *tree, void *const *blocks, uint32_t count)
{
	uint64_t raw[NAM__TREE_CACHE];

	for (uint32_t i = 0; i < count; i++)
		raw[i] = nam__block_address(tree->server, blocks[i]);
	tree->object.bytes -= (uint64_t)count * tree->stride;
	nam__allocator_give(&tree->server->allocator, tree->stride, NAM_MEMORY_PRIVATE, raw, count);
}

static void
cache_put(struct nam__tree *tree, void *block)
{
	if (tree->cache_count == NAM__TREE_CACHE) {
		tree->cache_count -= NAM__TREE_CACHE / 2;
		blocks_give(tree, tree->cache + tree->cache_count, NAM__TREE_CACHE / 2);
	}
	tree->cache[tree->cache_count++] = block;
}

static void
limbo_pop(struct nam__tree *tree)
{
	struct nam__tree_limbo *first = STAILQ_FIRST(&tree->limbo);

	STAILQ_REMOVE_HEAD(&tree->limbo, link);
	cache_put(tree, first->block);
	free(first);
}

/* M10: nodes that no handler can be looking at any more. */
static void
limbo_advance(struct nam__tree *tree)
{
	struct nam__tree_limbo *first = STAILQ_FIRST(&tree->limbo);
	uint64_t oldest = first ? nam__work_oldest(tree->server) : 0;

	for (; first && (!NAM_GUARD(SERVER_EPOCH) || first->clock < oldest);
		first = STAILQ_FIRST(&tree->limbo)) {
		limbo_pop(tree);
		tree->reusable++;
	}
}

static void *
node_take(void *arg)
{
	struct nam__tree *tree = arg;
	uint64_t raw[NAM__TREE_CACHE];
	void *block = NULL;

	if (nam_fault_point("trees.full"))
		return NULL;
	NAM__SCOPED_LOCK(&tree->mutex);
	if (!tree->cache_count)
		limbo_advance(tree);
	if (!tree->cache_count) {
		tree->cache_count = nam__allocator_take(&tree->server->allocator, tree->stride,
			NAM_MEMORY_PRIVATE, raw, NAM__TREE_CACHE);
		tree->object.bytes += (uint64_t)tree->cache_count * tree->stride;
		for (uint32_t i = 0; i < tree->cache_count; i++)
			tree->cache[i] = nam__block_at(tree->server,
				raw[tree->cache_count - 1 - i]);
	}
	if (tree->cache_count)
		block = tree->cache[--tree->cache_count];
	return block;
}

static void
node_give(void *arg, void *block)
{
	struct nam__tree *tree = arg;

	NAM__SCOPED_LOCK(&tree->mutex);
	cache_put(tree, block);
}

/* M10: requests that began before this clock may look at the node. */
static void
node_retire(void *arg, void *block)
{
	struct nam__tree *tree = arg;
	struct nam__tree_limbo *entry = malloc(sizeof(*entry));

	/* Without memory for a note of it the block is lost until the tree is: nothing worse. */
	if (!entry)
		return;
	*entry = (struct nam__tree_limbo){ .block = block, .clock = nam__work_tick(tree->server) };
	nam_race_point("trees.retired");
	NAM__SCOPED_LOCK(&tree->mutex);
	STAILQ_INSERT_TAIL(&tree->limbo, entry, link);
}

uint64_t
nam__tree_reusable(struct nam__tree *tree)
{
	uint64_t reusable;

	NAM__SCOPED_LOCK(&tree->mutex);
	limbo_advance(tree);
	reusable = tree->reusable;
	tree->reusable = 0;
	return reusable;
}

int
nam__tree_server_open(struct nam__tree *tree, struct nam__tree_server_tree **ret)
{
	const struct nam__server_memory memory = { node_take, node_give, node_retire, tree };

	return nam__tree_server_tree_new(&tree->g, &memory, ret);
}

void
nam__tree_free(struct nam__object *object)
{
	struct nam__tree *tree = (struct nam__tree *)object;

	nam__tree_server_tree_free(tree->filling);
	nam__tree_server_tree_free(tree->local);
	while (!STAILQ_EMPTY(&tree->limbo))
		limbo_pop(tree);
	blocks_give(tree, tree->cache, tree->cache_count);
	(void)pthread_mutex_destroy(&tree->mutex);
	free(tree);
}

int
nam__tree_new(struct nam_server *server, const struct nam_rpc_tree_create_request *request,
	uint64_t *scratch, struct nam__tree **ret)
{
	static const struct nam__key lowest;
	const struct nam_rpc_tree_part *part = &request->part;
	const struct nam_index_options options = {
		.key_bytes = request->key_bytes,
		.node_bytes = request->node_bytes,
		.unique = request->unique,
	};
	struct nam__tree *tree;
	int rc;

	if (!request->tree || request->unique > 1 || request->reserved || part->reserved ||
		part->partitioning < NAM_PARTITION_RANGE ||
		part->partitioning > NAM_PARTITION_ROUND_ROBIN || !part->parts ||
		part->parts > NAM_SERVERS_MAX || part->number >= part->parts)
		return -NAM_E_FABRIC_PROTOCOL;
	tree = calloc(1, sizeof(*tree));
	if (!tree)
		return -ENOMEM;
	tree->object.id = request->tree;
	tree->server = server;
	tree->leaves = request->leaf != 0;
	tree->shape = *request;
	STAILQ_INIT(&tree->limbo);
	rc = -pthread_mutex_init(&tree->mutex, NULL);
	if (rc) {
		free(tree);
		return rc;
	}
	rc = nam__geometry_init(&tree->index_g, &options, 0) ? -NAM_E_FABRIC_PROTOCOL : 0;
	if (!rc) {
		tree->g = tree->index_g;
		if (tree->leaves)
			nam__geometry_names(&tree->g, &tree->index_g,
				MIN(request->node_bytes, NAM_RPC_TREE_INNER_NODE_BYTES));
		/* A stride of its own: no pointer of clients leads to a block that was a node. */
		tree->stride = tree->g.node_bytes;
		rc = nam__tree_server_open(tree, &tree->local);
	}
	if (!rc && tree->leaves)
		rc = nam__tree_server_change(tree->local, scratch, NAM_OP_INSERT, lowest.w,
			request->leaf);
	if (rc) {
		nam__tree_free(&tree->object);
		return rc;
	}
	*ret = tree;
	return 0;
}

void
nam__tree_load_over(struct nam__tree *tree)
{
	nam__tree_server_tree_free(tree->filling);
	tree->filling = NULL;
	atomic_store_explicit(&tree->loader, NULL, memory_order_relaxed);
	atomic_store_explicit(&tree->load, 0, memory_order_release);
}

void
nam__trees_connection_closed(struct nam__objects *trees, const struct nam__connection *connection)
{
	if (!atomic_load_explicit(&trees->count, memory_order_relaxed))
		return;
	nam__work_begin(connection->handler);
	for (uint32_t i = 0; i < trees->slots_count; i++) {
		struct nam__tree *tree = (struct nam__tree *)nam__objects_at(trees, i);

		if (tree && atomic_load_explicit(&tree->loader, memory_order_acquire) == connection)
			nam__tree_load_over(tree);
	}
	nam__work_end(connection->handler);
}
