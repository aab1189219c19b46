/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c -- the table of the fine-grained design, and what its handles keep on this host. */
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

void
nam__fine_close(struct nam_index *index)
{
	nam__holder_leave(index->client, &index->holder);
	nam__cache_free(index->cache);
}

const struct nam__index_ops nam__fine_ops = {
	.open = nam__fine_open,
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
	.split_unlock = nam__split_unlock,
	.separator_add = nam__separator_add,
};
