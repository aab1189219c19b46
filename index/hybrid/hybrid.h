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

/* Make first leaves, one for each memory server, and the trees that name them, or nothing. */
NAM_FIBER_FN int nam__hybrid_create(struct nam_worker *worker, const char *name, uint64_t tree,
	const struct nam_index_options *options, struct nam_gaddr *ret_leaves) NAM_MUST_CHECK;
/* Give back such leaves, which no reader has seen. */
void nam__hybrid_uncreate(struct nam_worker *worker, const struct nam_index_options *options,
	const struct nam_gaddr *leaves, uint32_t count);

/* Open the parts, and make a handle for the leaves of each. */
NAM_FIBER_FN int nam__hybrid_open(struct nam_worker *worker, struct nam_index *index,
	uint64_t cache_bytes, bool to_drop) NAM_MUST_CHECK;
void nam__hybrid_close(struct nam_index *index);

NAM_FIBER_FN int nam__hybrid_lookup_many(struct nam_worker *worker, struct nam_index *index,
	const void *keys, uint32_t count, uint64_t *ret_payloads, int *ret_rcs) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__hybrid_stat(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_stat *ret_stat) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__hybrid_verify(struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *ret_violations) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__hybrid_collect(struct nam_worker *worker, struct nam_index *index,
	struct nam_collect_stat *ret_stat) NAM_MUST_CHECK;
void nam__hybrid_cache_stat(const struct nam_index *index, struct nam_index_stat *stat);

/* Kill and retire the leaves of all parts.  The caller is the index's collector, for ever. */
NAM_FIBER_FN int nam__hybrid_free_leaves(struct nam_worker *worker, struct nam_index *index)
	NAM_MUST_CHECK;

NAM_FIBER_FN int nam__hybrid_bulk_load(struct nam_worker *worker, struct nam_index *index,
	nam_index_source_fn source, void *arg, uint32_t fill_percent,
	uint64_t *ret_count) NAM_MUST_CHECK;

/* ---- scan.c ------------------------------------------------------------------------- */

int nam__part_scans_open(struct nam_worker *worker, struct nam_index *index,
	const struct nam_range *range, struct nam_cursor **ret_cursor) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__part_scans_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads,
	uint32_t capacity, uint32_t *ret_count) NAM_MUST_CHECK;
NAM_FIBER_FN void nam__part_scans_close(struct nam_cursor *cursor);

#endif /* NAM_INDEX_HYBRID_HYBRID_H */
