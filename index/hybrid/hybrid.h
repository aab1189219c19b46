/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hybrid.h -- the hybrid design: for each part of the keys a chain of leaves as in the fine-grained
 * design, on all memory servers, and one memory server that says where they are.
 *
 * A handle of a hybrid index has a handle for the leaves of each part, on which all that is said of
 * fine-grained trees works as it is: index->leaves[part].  Here is what concerns all parts.
 */
#ifndef NAM_INDEX_HYBRID_HYBRID_H
#define NAM_INDEX_HYBRID_HYBRID_H

#include "index/coarse/coarse.h"

/*
 * Make first leaves, one for each memory server, and the trees that name them, or nothing.
 *
 * @index	client, options and geometry are known; the seed is the trees' number
 */
NAM_FIBER_FN int nam__hybrid_create(struct nam_worker *worker, struct nam_index *index,
	const char *name, struct nam_gaddr *ret_leaves) NAM_MUST_CHECK;

NAM_FIBER_FN int nam__hybrid_bulk_load(struct nam_worker *worker, struct nam_index *index,
	nam_index_source_fn source, void *arg, uint32_t fill_percent,
	uint64_t *ret_count) NAM_MUST_CHECK;

#endif /* NAM_INDEX_HYBRID_HYBRID_H */
