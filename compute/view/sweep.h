/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.h -- freeing the blocks that dead clients allocated and that nothing leads to (C26).
 *
 * The caller begins a sweep, marks all blocks that names lead to, and ends it.  Only blocks of
 * index nodes are freed.
 */
#ifndef NAM_COMPUTE_VIEW_SWEEP_H
#define NAM_COMPUTE_VIEW_SWEEP_H

#include "common/rpc/sweep_rpc.h"
#include "compute/worker/worker.h"

struct nam__sweep {
	struct nam_worker *worker;
	uint64_t number;
	uint64_t killed;		/* clients, before it began */
	uint64_t marked;		/* blocks, some of them more than once */
	struct nam_rpc_sweep_request *marks[NAM_SERVERS_MAX];	/* by slot; not sent yet */
};

struct nam__swept {
	uint64_t blocks, bytes;
};

/*
 * From now on blocks of clients that are dead are suspect; *ret_suspect is how many.  The worker
 * runs no operation.  0, -EAGAIN: another sweep has begun; or as nam_rpc_call(), and *diag says
 * why.  Must be followed by nam__sweep_free().  Cost: 2 RPCs to each memory server, 1 to the lead.
 */
NAM_FIBER_FN int nam__sweep_begin(struct nam__sweep *sweep, struct nam_worker *worker,
	struct nam__swept *ret_suspect, struct nam_diag *diag) NAM_MUST_CHECK;
/* A name leads there.  Cost: 1 RPC for each 506 blocks of a memory server. */
NAM_FIBER_FN int nam__sweep_mark(struct nam__sweep *sweep, struct nam_gaddr at) NAM_MUST_CHECK;
/*
 * All is marked.  Waits until operations that were under way have ended and all clients have
 * reported what is in their limbos, at most timeout_ms each; then frees what is suspect, unless
 * `dry`.  -NAM_E_LOCK_TIMEOUT: a client is stopped or slow; nothing is freed, and *diag names it.
 * -EAGAIN: a client was killed meanwhile, or another sweep has begun; nothing is freed.
 */
NAM_FIBER_FN int nam__sweep_end(struct nam__sweep *sweep, bool dry, struct nam__swept *ret_freed,
	struct nam_diag *diag) NAM_MUST_CHECK;
void nam__sweep_free(struct nam__sweep *sweep);

/* The sweep with that number asks for reports, as the meta page says.  The epoch thread. */
NAM_FIBER_FN void nam__sweep_follow(struct nam_client *client, uint64_t number);

#endif /* NAM_COMPUTE_VIEW_SWEEP_H */
