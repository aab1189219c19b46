/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c -- the table of the hybrid design: one key concerns the leaves of one part. */
#include "hybrid.h"
#include "index/fine/fine.h"

/* The handle whose leaves keep a key. */
static inline struct nam_index *
leaves_of(struct nam_index *index, const void *key)
{
	struct nam__key full;

	nam__key_encode(&index->g, key, 0, &full);
	return index->leaves[nam__part_of(index, full.w)];
}

/*
 * The leaves go first: only their readers ask for the trees.  If a memory server was restarted,
 * pointers of the remaining leaves may lead to nodes of other indexes.
 */
NAM_FIBER_FN static int
free_parts(struct nam_worker *worker, struct nam_index *index, bool lost)
{
	int rc = 0, drop_rc;

	if (!lost)
		rc = nam__hybrid_free_leaves(worker, index); /* SUSPENDS */
	drop_rc = nam__parts_drop(worker, index); /* SUSPENDS */
	return rc ? rc : drop_rc;
}

NAM_FIBER_FN static int
lookup(struct nam_worker *worker, struct nam_index *index, const void *key, uint64_t *ret_payload)
{
	return nam__fine_lookup(worker, leaves_of(index, key), key, ret_payload); /* SUSPENDS */
}

NAM_FIBER_FN static int
change(struct nam_worker *worker, struct nam_index *index, enum nam_op_kind kind, const void *key,
	uint64_t payload)
{
	return nam__fine_change(worker, leaves_of(index, key), kind, key, payload); /* SUSPENDS */
}

NAM_FIBER_FN static int
delete_pair(struct nam_worker *worker, struct nam_index *index, const void *key, uint64_t payload)
{
	return nam__fine_delete_pair(worker, leaves_of(index, key), key, payload); /* SUSPENDS */
}

const struct nam__index_ops nam__hybrid_ops = {
	.scattered = true,
	.open = nam__hybrid_open,
	.close = nam__hybrid_close,
	.free = free_parts,
	.lookup = lookup,
	.lookup_many = nam__hybrid_lookup_many,
	.change = change,
	.delete_pair = delete_pair,
	.cursor_open = nam__part_scans_open,
	.cursor_next = nam__part_scans_next,
	.cursor_next_entries = nam__cursor_next_copied,
	.cursor_close = nam__part_scans_close,
	.bulk_load = nam__hybrid_bulk_load,
	.stat = nam__hybrid_stat,
	.verify = nam__hybrid_verify,
	.collect = nam__hybrid_collect,
	.cache_stat = nam__hybrid_cache_stat,
};
