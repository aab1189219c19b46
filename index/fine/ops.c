/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.c -- the tables of the fine-grained design and of inner nodes in remote memory, and what a
 * handle keeps on this host.
 */
#include "fine.h"
#include "scan_internal.h"

static void
forget(struct nam__holder *holder)
{
	struct nam_index *index = (struct nam_index *)((char *)holder -
		offsetof(struct nam_index, holder));

	atomic_store_explicit(&index->root, 0, memory_order_relaxed);
	nam__cache_clear(index->cache);
}

int
nam__fine_open(struct nam_worker *worker, struct nam_index *index, uint64_t cache_bytes,
	bool to_drop)
{
	int rc = 0;

	(void)worker;
	index->recovery = (struct nam__lock_recovery){ nam__node_take, index };
	if (cache_bytes)
		rc = nam__cache_new(&index->g, index->client, cache_bytes, &index->cache);
	index->fast_lookups = index->cache && index->ordered_loads && index->g.unique &&
			      index->g.key_bytes == 8;
	index->fast_changes = index->fast_lookups &&
			      (index->client->caps & NAM_CAP_ORDER_ATOMIC_READ);
	/* A handle for one operation has nothing to forget. */
	if (!rc && !to_drop)
		nam__holder_enter(index->client, &index->holder, forget);
	return rc;
}

NAM_FIBER_FN static int
open_tree(struct nam_worker *worker, struct nam_index *index, uint64_t cache_bytes, bool to_drop)
{
	index->inner = &nam__inner_nodes;
	return nam__fine_open(worker, index, cache_bytes, to_drop); /* SUSPENDS */
}

void
nam__fine_close(struct nam_index *index)
{
	nam__holder_leave(index->client, &index->holder);
	nam__cache_free(index->cache);
}

const struct nam__index_ops nam__fine_ops = {
	.open = open_tree,
	.close = nam__fine_close,
	.free = nam__fine_free,
	.lookup = nam__fine_lookup,
	.lookup_many = nam__fine_lookup_many,
	.change = nam__fine_change,
	.delete_pair = nam__fine_delete_pair,
	.change_many = nam__fine_change_many,
	.cursor_open = nam__scan_open,
	.cursor_next = nam__scan_next,
	.cursor_next_entries = nam__scan_next_entries,
	.cursor_close = nam__scan_close,
	.bulk_load = nam__fine_bulk_load,
	.stat = nam__fine_stat,
	.verify = nam__fine_verify,
	.collect = nam__fine_collect,
};

/* ---- inner nodes --------------------------------------------------------------------------- */

NAM_FIBER_FN static int
root_start(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam__descent *descent)
{
	int rc = nam__root_get(worker, index, &descent->at); /* SUSPENDS */

	(void)key;
	if (!rc)
		descent->level = NAM__ANY_LEVEL;
	return rc;
}

/*
 * READ the root until the superblock names no other one, or the root covers the key.  Otherwise a
 * handle from before the tree grew would walk along the leaves for ever.
 */
NAM_FIBER_FN static int
root_read(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam__descent *descent)
{
	struct nam_gaddr root;
	int rc;

	for (;;) {
		rc = nam__node_read(worker, index, descent->at, NAM__ANY_LEVEL,
			descent->image); /* SUSPENDS */
		if (rc)
			return rc;
		if (!nam__node_beyond(descent->image, &index->g, key))
			break;
		rc = nam__root_refresh(worker, index, &root); /* SUSPENDS */
		if (rc)
			return rc;
		if (nam_gaddr_same(root, descent->at))
			break;
		descent->at = root;
	}
	descent->level = (int)nam__node_level(descent->image);
	return 0;
}

NAM_FIBER_FN static int
root_forget(struct nam_worker *worker, struct nam_index *index, struct nam__descent *descent)
{
	(void)worker;
	if (descent->level < 0)
		atomic_store_explicit(&index->root, 0, memory_order_relaxed);
	return 0;
}

/* A merge takes the entry out of the parent, which it has locked. */
NAM_FIBER_FN static int
leaf_forget(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam_gaddr leaf)
{
	(void)worker;
	(void)index;
	(void)key;
	(void)leaf;
	return 0;
}

const struct nam__inner_ops nam__inner_nodes = {
	.start = root_start,
	.start_read = root_read,
	.start_forget = root_forget,
	.read_covering = nam__read_covering,
	.split_unlock = nam__split_unlock,
	.separator_add = nam__separator_add,
	.leaf_forget = leaf_forget,
};
