/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collector_word.h -- the collector's word of an index, which one client at a time has.
 *
 * The caller is between nam__op_begin() and nam__op_end().
 */
#ifndef NAM_INDEX_MAINTAIN_COLLECTOR_WORD_H
#define NAM_INDEX_MAINTAIN_COLLECTOR_WORD_H

#include "index/index.h"

/**
 * nam__collector_enter -- become the collector, which alone takes nodes out of an index.
 *
 * @timeout_ns	how long to wait for another one to finish
 * @ret_word	for nam__collector_leave()
 *
 * If the last one died in the middle of a merge, this completes it (I20).
 *
 * Returns 0, -NAM_E_LOCK_TIMEOUT (another one is at work; the diag names it), or a FABRIC code.
 */
NAM_FIBER_FN int nam__collector_enter(struct nam_worker *worker, struct nam_index *index,
	uint64_t timeout_ns, uint64_t *ret_word) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__collector_leave(struct nam_worker *worker, struct nam_index *index,
	uint64_t word) NAM_MUST_CHECK;
/* Completes the merge of a dead collector, if there is one.  Returns as the two above. */
NAM_FIBER_FN int nam__merge_complete(struct nam_worker *worker,
	struct nam_index *index) NAM_MUST_CHECK;

#endif /* NAM_INDEX_MAINTAIN_COLLECTOR_WORD_H */
