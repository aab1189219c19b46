/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c -- what a handle for fine-grained nodes keeps on this host. */
#include "fine.h"

/* The quick ways that are open to a handle, once all else is known. */
static void
choose_ways(struct nam_index *index)
{
	index->fast_lookups = index->cache && index->ordered_loads && index->g.unique &&
			      index->g.key_bytes == 8;
	index->fast_changes = index->fast_lookups &&
			      (index->client->caps & NAM_CAP_ORDER_ATOMIC_READ);
}

int
nam__fine_open(struct nam_worker *worker, struct nam_index *index, uint64_t cache_bytes,
	bool to_drop)
{
	int rc = 0;

	(void)worker;
	(void)to_drop;
	if (cache_bytes)
		rc = nam__cache_new(&index->g, index->client, cache_bytes, &index->cache);
	choose_ways(index);
	return rc;
}

void
nam__fine_close(struct nam_index *index)
{
	nam__cache_free(index->cache);
}

void
nam__fine_cache_stat(const struct nam_index *index, struct nam_index_stat *ret_stat)
{
	if (index->cache) {
		nam__cache_stat(index->cache, ret_stat);
		return;
	}
	ret_stat->cache_bytes = 0;
	ret_stat->cache_nodes = 0;
	ret_stat->cache_budget_bytes = 0;
	ret_stat->cache_evictions = 0;
}
