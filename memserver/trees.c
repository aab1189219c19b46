/* SPDX-License-Identifier: Apache-2.0 */
/* trees.c -- the table of trees, their memory, and when it can be used again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "common/race.h"
#include "trees.h"

/* ---- the clock ----------------------------------------------------------------------------- */

void
nam__trees_work_begin(struct nam__handler *handler)
{
	uint64_t clock = atomic_load_explicit(&handler->server->trees.clock, memory_order_relaxed);

	nam_race_point("trees.clock_read");
	atomic_store_explicit(&handler->began, clock, memory_order_relaxed);
	/* Pairs with nam__trees_work_oldest(): it sees us at work, or we what was taken out. */
	atomic_thread_fence(memory_order_seq_cst);
}

void
nam__trees_work_end(struct nam__handler *handler)
{
	atomic_store_explicit(&handler->began, 0, memory_order_release);
}

/* Handlers see no node that was unlinked at a count below this one. */
uint64_t
nam__trees_work_oldest(const struct nam_server *server)
{
	uint64_t oldest = atomic_load_explicit(&server->trees.clock, memory_order_relaxed);

	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; i < server->options.rpc_threads; i++) {
		uint64_t began = atomic_load_explicit(&server->handlers[i].began,
			memory_order_acquire);

		if (began && began < oldest)
			oldest = began;
	}
	return oldest;
}

/* The count at which something was taken out; later ones begin with the next. */
uint64_t
nam__trees_tick(struct nam_server *server)
{
	return atomic_fetch_add_explicit(&server->trees.clock, 1, memory_order_acq_rel);
}

/* ---- memory -------------------------------------------------------------------------------- */

void *
nam__block_at(const struct nam_server *server, uint64_t raw)
{
	struct nam_gaddr at = { raw };
	uint32_t region = nam_gaddr_region(at) - nam__first_region_id(server);

	return (uint8_t *)server->memory.mrs[region].base + nam_gaddr_offset(at);
}

static uint64_t
address_of(const struct nam_server *server, const void *block)
{
	for (uint32_t i = 0; i < server->memory.count; i++) {
		const struct nam_mr *mr = &server->memory.mrs[i];
		uint64_t offset = (uint64_t)((const uint8_t *)block - (const uint8_t *)mr->base);

		if ((const uint8_t *)block >= (const uint8_t *)mr->base && offset < mr->bytes)
			return nam_gaddr_make((uint16_t)(nam__first_region_id(server) + i), offset,
				0).raw;
	}
	return 0;
}

uint64_t
nam__tree_address_of(const struct nam__tree *tree, const void *node)
{
	return address_of(tree->server, node);
}

static void
cache_fill(struct nam__tree *tree)
{
	uint64_t blocks[NAM__TREE_CACHE];
	uint32_t count = nam__allocator_take(&tree->server->allocator, tree->stride, blocks,
		NAM__TREE_CACHE);

	while (count)
		tree->cache[tree->cache_count++] = nam__block_at(tree->server, blocks[--count]);
}

static void
blocks_give(struct nam__tree *tree, void *const *blocks, uint32_t count)
{
	uint64_t raw[NAM__TREE_CACHE];

	for (uint32_t i = 0; i < count; i++)
		raw[i] = address_of(tree->server, blocks[i]);
	nam__allocator_give(&tree->server->allocator, tree->stride, raw, count);
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

/* Nodes that no handler can be looking at any more. */
static void
limbo_advance(struct nam__tree *tree)
{
	uint64_t oldest = tree->limbo ? nam__trees_work_oldest(tree->server) : 0;

	while (tree->limbo && (!NAM_GUARD(LOCAL_EPOCH) || tree->limbo->clock < oldest)) {
		struct nam__tree_limbo *first = tree->limbo;

		tree->limbo = first->next;
		cache_put(tree, first->block);
		free(first);
		tree->reusable++;
	}
}

static void *
node_take(void *arg)
{
	struct nam__tree *tree = arg;
	void *block = NULL;

	if (nam_fault_point("trees.full"))
		return NULL;
	pthread_mutex_lock(&tree->mutex);
	if (!tree->cache_count)
		limbo_advance(tree);
	if (!tree->cache_count)
		cache_fill(tree);
	if (tree->cache_count)
		block = tree->cache[--tree->cache_count];
	pthread_mutex_unlock(&tree->mutex);
	return block;
}

static void
node_give(void *arg, void *block)
{
	struct nam__tree *tree = arg;

	pthread_mutex_lock(&tree->mutex);
	cache_put(tree, block);
	pthread_mutex_unlock(&tree->mutex);
}

static void
node_retire(void *arg, void *block)
{
	struct nam__tree *tree = arg;
	struct nam__tree_limbo *entry = malloc(sizeof(*entry));

	/* Without memory for a note of it the block is lost until the tree is: nothing worse. */
	if (!entry)
		return;
	*entry = (struct nam__tree_limbo){ .block = block, .clock = nam__trees_tick(tree->server) };
	nam_race_point("trees.retired");
	pthread_mutex_lock(&tree->mutex);
	if (tree->limbo)
		tree->limbo_last->next = entry;
	else
		tree->limbo = entry;
	tree->limbo_last = entry;
	pthread_mutex_unlock(&tree->mutex);
}

uint64_t
nam__tree_reusable(struct nam__tree *tree)
{
	uint64_t reusable;

	pthread_mutex_lock(&tree->mutex);
	limbo_advance(tree);
	reusable = tree->reusable;
	tree->reusable = 0;
	pthread_mutex_unlock(&tree->mutex);
	return reusable;
}

/* ---- one tree ------------------------------------------------------------------------------ */

int
nam__tree_local_new(struct nam__tree *tree, struct nam__tree_server_tree **ret)
{
	const struct nam__server_memory memory = { node_take, node_give, node_retire, tree };

	return nam__tree_server_tree_new(&tree->g, &memory, ret);
}

/* No handler may be at work on it. */
void
nam__tree_free(struct nam__tree *tree)
{
	if (!tree)
		return;
	nam__tree_server_tree_free(tree->filling);
	nam__tree_server_tree_free(tree->local);
	while (tree->limbo) {
		struct nam__tree_limbo *first = tree->limbo;

		tree->limbo = first->next;
		cache_put(tree, first->block);
		free(first);
	}
	blocks_give(tree, tree->cache, tree->cache_count);
	(void)pthread_mutex_destroy(&tree->mutex);
	free(tree);
}

static bool
part_valid(const struct nam_rpc_tree_part *part)
{
	return part->partitioning >= NAM_PARTITION_RANGE &&
	       part->partitioning <= NAM_PARTITION_ROUND_ROBIN && part->parts &&
	       part->parts <= NAM_SERVERS_MAX && part->number < part->parts && !part->reserved;
}

static int
shape_choose(struct nam__tree *tree)
{
	int rc = nam__geometry_init(&tree->index_g, &tree->options, 0);
	uint32_t node_bytes = tree->options.node_bytes;

	if (rc)
		return -NAM_E_FABRIC_PROTOCOL;
	if (node_bytes > NAM_RPC_TREE_UPPER_NODE_BYTES)
		node_bytes = NAM_RPC_TREE_UPPER_NODE_BYTES;
	if (tree->leaves)
		nam__geometry_names(&tree->g, &tree->index_g, node_bytes);
	else
		tree->g = tree->index_g;
	/* A stride of their own: no client's pointer ever leads to a block that was a node here. */
	tree->stride = tree->g.node_bytes;
	return 0;
}

int
nam__tree_new(struct nam_server *server, const struct nam_rpc_tree_create_request *request,
	uint64_t *scratch, struct nam__tree **ret)
{
	static const struct nam__key lowest;
	struct nam__tree *tree;
	int rc;

	if (!request->tree || request->unique > 1 || request->reserved ||
		!part_valid(&request->part))
		return -NAM_E_FABRIC_PROTOCOL;
	tree = calloc(1, sizeof(*tree));
	if (!tree)
		return -ENOMEM;
	tree->id = request->tree;
	tree->server = server;
	tree->leaves = request->leaf != 0;
	tree->options = (struct nam_index_options){
		.key_bytes = request->key_bytes,
		.node_bytes = request->node_bytes,
		.unique = request->unique,
	};
	tree->part = request->part;
	rc = -pthread_mutex_init(&tree->mutex, NULL);
	if (rc) {
		free(tree);
		return rc;
	}
	rc = shape_choose(tree);
	if (!rc)
		rc = nam__tree_local_new(tree, &tree->local);
	if (!rc && tree->leaves)
		rc = nam__tree_server_change(tree->local, scratch, NAM_OP_INSERT, lowest.w,
			request->leaf);
	if (rc) {
		nam__tree_free(tree);
		return rc;
	}
	*ret = tree;
	return 0;
}

/* ---- the table ----------------------------------------------------------------------------- */

/* Where a tree was taken out others may come behind it. */
#define GONE ((struct nam__tree *)1)

static inline uint32_t
slot_of(uint64_t id, uint32_t probe)
{
	return (uint32_t)(nam_mix64(id) + probe) % NAM__TREES_SLOTS;
}

struct nam__tree *
nam__trees_find(struct nam__trees *trees, uint64_t id)
{
	for (uint32_t probe = 0; probe < NAM__TREES_SLOTS; probe++) {
		struct nam__tree *tree = atomic_load_explicit(&trees->slots[slot_of(id, probe)],
			memory_order_acquire);

		if (!tree)
			return NULL;
		if (tree != GONE && tree->id == id)
			return tree;
	}
	return NULL;
}

/* Under the mutex. */
static int
enter(struct nam__trees *trees, struct nam__tree *tree)
{
	if (nam__trees_find(trees, tree->id))
		return -NAM_E_INDEX_EXISTS;
	if (trees->count == NAM__CATALOG_MAX)
		return -NAM_E_LIMIT;
	for (uint32_t probe = 0;; probe++) {
		_Atomic(struct nam__tree *) *slot = &trees->slots[slot_of(tree->id, probe)];
		struct nam__tree *there = atomic_load_explicit(slot, memory_order_relaxed);

		if (there && there != GONE)
			continue;
		atomic_store_explicit(slot, tree, memory_order_release);
		trees->count++;
		return 0;
	}
}

/*
 * Nothing lies behind a row's last tree, so what is gone at its end is empty: or else a server that
 * sees trees come and go would look through the whole table for those that are not there.
 */
static void
clear_end(struct nam__trees *trees, uint32_t at)
{
	while (trees->slots[at] == GONE && !trees->slots[(at + 1) % NAM__TREES_SLOTS]) {
		atomic_store_explicit(&trees->slots[at], NULL, memory_order_relaxed);
		at = (at + NAM__TREES_SLOTS - 1) % NAM__TREES_SLOTS;
	}
}

/* Under the mutex. */
static struct nam__tree *
tree_take_out(struct nam__trees *trees, uint64_t id)
{
	for (uint32_t probe = 0; probe < NAM__TREES_SLOTS; probe++) {
		_Atomic(struct nam__tree *) *slot = &trees->slots[slot_of(id, probe)];
		struct nam__tree *tree = atomic_load_explicit(slot, memory_order_relaxed);

		if (!tree)
			return NULL;
		if (tree == GONE || tree->id != id)
			continue;
		atomic_store_explicit(slot, GONE, memory_order_release);
		clear_end(trees, slot_of(id, probe));
		trees->count--;
		return tree;
	}
	return NULL;
}

int
nam__trees_enter(struct nam__trees *trees, struct nam__tree *tree)
{
	int rc;

	pthread_mutex_lock(&trees->mutex);
	rc = enter(trees, tree);
	pthread_mutex_unlock(&trees->mutex);
	return rc;
}

int
nam__trees_drop(struct nam_server *server, uint64_t id)
{
	struct nam__trees *trees = &server->trees;
	struct nam__tree_limbo *entry = calloc(1, sizeof(*entry)), **link;

	if (!entry)
		return -ENOMEM;
	pthread_mutex_lock(&trees->mutex);
	entry->tree = tree_take_out(trees, id);
	if (entry->tree) {
		entry->clock = nam__trees_tick(server);
		for (link = &trees->dropped; *link; link = &(*link)->next)
			;
		*link = entry;
		atomic_fetch_add_explicit(&trees->dropped_count, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&trees->mutex);
	if (entry->tree)
		return 0;
	free(entry);
	return -NAM_E_DROPPED;
}

/* Dropped trees that no handler can be looking at any more.  Under the mutex. */
static struct nam__tree *
dropped_next(struct nam_server *server)
{
	struct nam__trees *trees = &server->trees;
	struct nam__tree_limbo **link = &trees->dropped, *first = *link;
	struct nam__tree *tree;

	if (!first || first->clock >= nam__trees_work_oldest(server))
		return NULL;
	tree = first->tree;
	*link = first->next;
	atomic_fetch_sub_explicit(&trees->dropped_count, 1, memory_order_relaxed);
	free(first);
	return tree;
}

int
nam__trees_init(struct nam__trees *trees)
{
	memset(trees, 0, sizeof(*trees));
	atomic_init(&trees->clock, 1);
	trees->slots = calloc(NAM__TREES_SLOTS, sizeof(trees->slots[0]));
	if (!trees->slots)
		return -ENOMEM;
	return -pthread_mutex_init(&trees->mutex, NULL);
}

void
nam__trees_free(struct nam__trees *trees)
{
	if (!trees->slots)
		return;
	for (uint32_t i = 0; i < NAM__TREES_SLOTS; i++) {
		struct nam__tree *tree = atomic_load_explicit(&trees->slots[i],
			memory_order_relaxed);

		if (tree != GONE)
			nam__tree_free(tree);
	}
	while (trees->dropped) {
		struct nam__tree_limbo *first = trees->dropped;

		trees->dropped = first->next;
		nam__tree_free(first->tree);
		free(first);
	}
	free(trees->slots);
	trees->slots = NULL;
	(void)pthread_mutex_destroy(&trees->mutex);
}

/* Between requests a handler sees to trees that were dropped. */
void
nam__trees_idle(struct nam_server *server)
{
	struct nam__trees *trees = &server->trees;
	struct nam__tree *tree;

	if (__builtin_expect(!atomic_load_explicit(&trees->dropped_count,
			memory_order_relaxed), 1))
		return;
	do {
		pthread_mutex_lock(&trees->mutex);
		tree = dropped_next(server);
		pthread_mutex_unlock(&trees->mutex);
		nam__tree_free(tree);
	} while (tree);
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
nam__trees_connection_closed(struct nam__trees *trees, const struct nam__connection *connection)
{
	if (!trees->slots || !atomic_load_explicit(&trees->count, memory_order_relaxed))
		return;
	nam__trees_work_begin(connection->handler);
	for (uint32_t i = 0; i < NAM__TREES_SLOTS; i++) {
		struct nam__tree *tree = atomic_load_explicit(&trees->slots[i],
			memory_order_acquire);

		if (tree && tree != GONE && atomic_load_explicit(&tree->loader,
						    memory_order_acquire) == connection)
			nam__tree_load_over(tree);
	}
	nam__trees_work_end(connection->handler);
}
