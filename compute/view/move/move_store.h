/* SPDX-License-Identifier: Apache-2.0 */
/* move_store.h -- the pairs of a key-value store pass to a successor, in pieces of its chunks. */
#ifndef NAM_COMPUTE_VIEW_MOVE_MOVE_STORE_H
#define NAM_COMPUTE_VIEW_MOVE_MOVE_STORE_H

#include "common/rpc/move_rpc.h"
#include "compute/worker/worker.h"

/*
 * @old, @new	the memory server and its successor have slot 0
 * @bytes	is set to what is done so far, again and again
 *
 * 0, -NAM_E_FABRIC_TIMEOUT at the deadline, or as PEEK and POKE.  Cost: 1 RPC to each of both for
 * each 4 KiB, 16 at once.
 */
NAM_FIBER_FN int nam__store_move(struct nam_worker *old, struct nam_worker *new,
	const struct nam_move_store *store, uint64_t deadline_ns, uint64_t *bytes) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_MOVE_MOVE_STORE_H */
