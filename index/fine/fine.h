/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fine.h -- the fine-grained design: what nam__fine_ops consists of.  A hybrid index uses the same
 * functions on the handles of its parts' leaves.
 */
#ifndef NAM_INDEX_FINE_FINE_H
#define NAM_INDEX_FINE_FINE_H

#include "index/design.h"

int nam__fine_open(struct nam_worker *worker, struct nam_index *index, uint64_t cache_bytes,
	bool to_drop) NAM_MUST_CHECK;
void nam__fine_close(struct nam_index *index);
/* Retires all nodes.  Others would come upon these: the caller is the collector, for ever. */
NAM_FIBER_FN int nam__fine_free(struct nam_worker *worker, struct nam_index *index,
	bool lost) NAM_MUST_CHECK;

/*
 * recover.c: take the lock of a node over from a client that is dead, as struct nam__lock_recovery
 * says of `take`.
 *
 * @dead	its lock word
 * @word	the lock word that replaces it
 */
NAM_FIBER_FN int nam__node_take(struct nam_worker *worker, void *index, struct nam_gaddr at,
	uint64_t dead, uint64_t word, void *image) NAM_MUST_CHECK;

NAM_FIBER_FN int nam__fine_lookup(struct nam_worker *worker, struct nam_index *index,
	const void *key, uint64_t *ret_payload) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__fine_lookup_many(struct nam_worker *worker, struct nam_index *index,
	const void *keys, uint32_t count, uint64_t *ret_payloads, int *ret_rcs) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__fine_change(struct nam_worker *worker, struct nam_index *index,
	enum nam_op_kind kind, const void *key, uint64_t payload) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__fine_delete_pair(struct nam_worker *worker, struct nam_index *index,
	const void *key, uint64_t payload) NAM_MUST_CHECK;
NAM_FIBER_FN void nam__fine_change_many(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_change *changes, const struct nam__sorted *sorted, uint32_t count);
NAM_FIBER_FN int nam__fine_bulk_load(struct nam_worker *worker, struct nam_index *index,
	nam_index_source_fn source, void *arg, uint32_t fill_percent,
	uint64_t *ret_count) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__fine_stat(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_stat *stat, const struct nam__seen *seen) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__fine_verify(struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *violations) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__fine_collect(struct nam_worker *worker, struct nam_index *index,
	struct nam_collect_stat *stat) NAM_MUST_CHECK;

/* The same for leaves alone, beside the names that a memory server has for them. */
NAM_FIBER_FN int nam__leaves_verify(struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *violations) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__leaves_collect(struct nam_worker *worker, struct nam_index *index,
	struct nam_collect_stat *stat) NAM_MUST_CHECK;

#endif /* NAM_INDEX_FINE_FINE_H */
