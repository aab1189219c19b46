/* SPDX-License-Identifier: Apache-2.0 */
/* batched_lookup.c -- where a leaf is, by the cache: one search for the keys of several fibers. */
#include "batched_lookup.h"

void
nam__batched_lookups_run(struct nam_worker *worker)
{
	const struct nam__batched_lookups *lookups = nam__batched_lookups(worker);
	struct nam_index *index = lookups->index;
	struct nam_gaddr at[NAM__DEFERRED_MAX];
	unsigned count = worker->deferred.count;

	nam__cache_leaf_group(index->cache, lookups->keys, count, at);
	worker->deferred.count = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct nam__batched_lookup *one = &lookups->each[i];

		*one->ret_at = at[i];
		if (nam_gaddr_is_null(at[i]) || !one->image) {
			nam__task_ready(worker, one->task);
		} else if (!one->lock) {
			nam__read_for(worker, one->task, at[i], one->image, index->g.node_bytes);
		} else if (!nam__lock_post(worker, one->task, at[i], one->image,
				   index->g.node_bytes, one->lock)) {
			*one->ret_at = NAM_GADDR_NULL;
			nam__task_ready(worker, one->task);
		}
	}
}

struct nam_gaddr
nam__cached_leaf(struct nam_worker *worker, struct nam_index *index, const uint64_t *key)
{
	const struct nam__cached_node *node;
	struct nam_gaddr at;

	if (!index->cache)
		return NAM_GADDR_NULL;
	if (index->g.full_words == 1) {
		/* Nothing is posted, so nothing fails. */
		(void)nam__find_batched(worker, index, key[0], NULL, NULL, &at); /* SUSPENDS */
		return at;
	}
	node = nam__cache_node(index->cache, key);
	if (!node)
		return NAM_GADDR_NULL;
	/* Other fibers' work covers the time that the node takes to arrive. */
	nam__give_way(worker); /* SUSPENDS */
	return nam__cached_node_leaf(index->cache, node, key);
}
