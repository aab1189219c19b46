/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h -- marks what an index leads to, for a sweep: compute/view/sweep.h. */
#ifndef NAM_INDEX_MAINTAIN_SWEEP_H
#define NAM_INDEX_MAINTAIN_SWEEP_H

#include "compute/view/sweep.h"

/*
 * Mark the nodes of an index, and its number.  0; -NAM_E_NOINDEX, -NAM_E_DROPPED: it has been
 * dropped.  After another code nothing may be freed, and the worker's diag says why.  Paced.
 *
 * Cost: a walk, as nam_index_stat(), and one RPC for 506 nodes.  A way from the root for 256 nodes,
 * or less if the pace is slow.
 */
NAM_FIBER_FN int nam__sweep_mark_index(struct nam__sweep *sweep, const char *name) NAM_MUST_CHECK;
#endif /* NAM_INDEX_MAINTAIN_SWEEP_H */
