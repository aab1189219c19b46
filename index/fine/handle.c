/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c -- what a handle for fine-grained nodes keeps on this host. */
#include "fine.h"

int
nam__fine_open(struct nam_worker *worker, struct nam_index *index, uint64_t cache_bytes,
	bool to_drop)
{
	int rc = 0;

	(void)worker;
	(void)to_drop;
	if (cache_bytes)
		rc = nam__cache_new(&index->g, index->client, cache_bytes, &index->cache);
	index->fast_lookups = index->cache && index->ordered_loads && index->g.unique &&
			      index->g.key_bytes == 8;
	index->fast_changes = index->fast_lookups &&
			      (index->client->caps & NAM_CAP_ORDER_ATOMIC_READ);
	return rc;
}

void
nam__fine_close(struct nam_index *index)
{
	nam__cache_free(index->cache);
}

void
nam__fine_cache_stat(const struct nam_index *index, struct nam_index_stat *stat)
{
	if (index->cache)
		nam__cache_stat(index->cache, stat);
}
