/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hybrid.h -- the hybrid design.  Each part of the keys has a chain of leaves as in the
 * fine-grained design, on all memory servers.  One memory server says where they are.
 *
 * A handle of a hybrid index has a handle for the leaves of each part: index->leaves[part].  On it
 * all functions of fine-grained trees work as they are.  Here is what concerns all parts.
 */
#ifndef NAM_INDEX_HYBRID_HYBRID_H
#define NAM_INDEX_HYBRID_HYBRID_H

#include "index/coarse/coarse.h"

/*
 * Make first leaves, one for each memory server of the index, and the trees that name them; or
 * nothing.
 *
 * @index	client, options and geometry are known; the seed is the trees' number
 */
NAM_FIBER_FN int nam__hybrid_create(struct nam_worker *worker, struct nam_index *index,
	const char *name, const struct nam__members *members,
	struct nam_gaddr *ret_leaves) NAM_MUST_CHECK;

NAM_FIBER_FN int nam__hybrid_bulk_load(struct nam_worker *worker, struct nam_index *index,
	nam_index_source_fn source, void *arg, uint32_t fill_percent,
	uint64_t *ret_count) NAM_MUST_CHECK;

/*
 * ---- inner_rpc.c: the inner nodes of one part, which a memory server searches ----------------
 *
 * The handle of a part has leaves as a fine-grained tree has, and its inner nodes are here
 * (nam__inner_rpc).  Each answer of the memory server is a hint, as an inner node's image is:
 * leaves tell by their fences whether it was right.
 */

/**
 * nam__inner_rpc_read -- the level-1 node that covers a full key: an image of an inner node (D10).
 *
 * @alone	the child that covers the key, without its neighbours: nothing is cached
 * @ret_at	where the memory server keeps it: not to be read
 *
 * Cost:	1 RPC.
 */
NAM_FIBER_FN int nam__inner_rpc_read(struct nam_worker *worker, struct nam_index *index,
	const uint64_t *key, bool alone, uint64_t *image, struct nam_gaddr *ret_at) NAM_MUST_CHECK;

/**
 * nam__inner_rpc_add -- report a leaf whose range begins at a full key, written already.
 *
 * Does nothing if a leaf is named there already, or if this one has died meanwhile.
 */
NAM_FIBER_FN int nam__inner_rpc_add(struct nam_worker *worker, struct nam_index *index,
	const uint64_t *key, struct nam_gaddr leaf) NAM_MUST_CHECK;

/* Take exactly this name away, if it is there, of a leaf that is dead. */
NAM_FIBER_FN int nam__inner_rpc_remove(struct nam_worker *worker, struct nam_index *index,
	const uint64_t *key, struct nam_gaddr leaf) NAM_MUST_CHECK;

#endif /* NAM_INDEX_HYBRID_HYBRID_H */
