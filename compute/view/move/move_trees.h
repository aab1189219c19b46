/* SPDX-License-Identifier: Apache-2.0 */
/* move_trees.h -- the pairs of trees pass to a successor, which has made these anew, empty. */
#ifndef NAM_COMPUTE_VIEW_MOVE_MOVE_TREES_H
#define NAM_COMPUTE_VIEW_MOVE_MOVE_TREES_H

#include "common/rpc/move_rpc.h"
#include "compute/worker/worker.h"

/*
 * @old, @new	the memory server and its successor have slot 0
 * @books	of the old one
 * @bytes	grows by what is done
 *
 * 0, -ENOMEM, -NAM_E_FABRIC_TIMEOUT at the deadline, or as TREE_SCAN and TREE_LOAD.  Cost: 1 RPC to
 * each of both for each 4 KiB.
 */
NAM_FIBER_FN int nam__trees_move(struct nam_worker *old, struct nam_worker *new,
	const struct nam_move_head *books, uint64_t deadline_ns, uint64_t *bytes) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_MOVE_MOVE_TREES_H */
