/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.h -- freeing the blocks that dead clients allocated and that nothing leads to (C26).
 *
 * The caller opens a sweep, completes what dead clients have begun, begins, marks all blocks that
 * names lead to, quiesces, and ends it.
 */
#ifndef NAM_COMPUTE_VIEW_SWEEP_H
#define NAM_COMPUTE_VIEW_SWEEP_H

#include "common/rpc/sweep_rpc.h"
#include "compute/worker/worker.h"

enum nam__sweep_marks {
	NAM__SWEEP_BLOCKS, NAM__SWEEP_RECORDS, NAM__SWEEP_OBJECTS,
	NAM__SWEEP_MARKS,
};

/* Become the client that sweeps, within timeout_ms, as nam__owner_word_enter(); and leave. */
NAM_FIBER_FN int nam__sweeper_enter(struct nam_worker *worker, uint64_t *ret_word) NAM_MUST_CHECK;
NAM_FIBER_FN void nam__sweeper_leave(struct nam_worker *worker, uint64_t word);

struct nam__sweep {
	struct nam_worker *worker;
	bool dry;			/* nothing is to be freed */
	uint64_t number;
	uint64_t living[NAM_SWEEP_LIVING_WORDS];	/* bits, by client: not dead then */
	bool begun[NAM_SERVERS_MAX];	/* by slot: blocks there can be suspect */
	uint64_t *marked;		/* how many so far, without versions of records; or NULL */
	struct nam_rpc_sweep_request *marks[NAM_SERVERS_MAX][NAM__SWEEP_MARKS];	/* not sent yet */
};

/* Sums over all memory servers. */
struct nam__swept {
	struct nam_blocks suspect;
	struct nam_blocks used, named;	/* as the sweep ends: before it frees the suspect ones */
	uint64_t objects;		/* trees and parts of stores, likewise suspect */
	uint64_t objects_bytes, objects_used_bytes, objects_named_bytes;
};

/*
 * The worker runs no operation.  Blocks of clients that are not dead by now are not freed.  Must
 * be followed by nam__sweep_free().  Cost: 1 RPC to the lead.
 *
 * The functions below return 0; -EAGAIN: another sweep has begun; or as nam_rpc_call().  *diag says
 * why.
 */
NAM_FIBER_FN int nam__sweep_open(struct nam__sweep *sweep, struct nam_worker *worker,
	bool dry, struct nam_diag *diag) NAM_MUST_CHECK;
/*
 * All that dead clients had begun is complete.  Waits until operations under way have ended, at
 * most timeout_ms.  -NAM_E_LOCK_TIMEOUT: a client is stopped or slow, and *diag names it.  From now
 * on blocks of clients that are dead are suspect.  Cost: 2 RPCs for each 4,096 blocks of a memory
 * server, 1 to the lead; 20 ms.
 *
 * @ret_used	blocks of all clients
 */
NAM_FIBER_FN int nam__sweep_begin(struct nam__sweep *sweep, struct nam_blocks *ret_used,
	struct nam_diag *diag) NAM_MUST_CHECK;
/* A name leads there.  Cost: 1 RPC for each 506 blocks of a memory server. */
NAM_FIBER_FN int nam__sweep_mark(struct nam__sweep *sweep, struct nam_gaddr at) NAM_MUST_CHECK;
/* A name leads to that head of a record, and it to versions.  Cost: the same. */
NAM_FIBER_FN int nam__sweep_mark_record(struct nam__sweep *sweep,
	struct nam_gaddr head) NAM_MUST_CHECK;
/* A name leads to the tree or key-value store with that number, on any memory servers. */
NAM_FIBER_FN int nam__sweep_mark_object(struct nam__sweep *sweep, uint64_t number) NAM_MUST_CHECK;
/*
 * All is marked.  Waits until operations that were under way have ended and all clients have
 * reported what is in their limbos.  Each takes at most timeout_ms: -NAM_E_LOCK_TIMEOUT as above.
 */
NAM_FIBER_FN int nam__sweep_quiesce(struct nam__sweep *sweep, struct nam_diag *diag) NAM_MUST_CHECK;
/*
 * Which of up to 64 blocks are suspect: bits.  Blocks are not if their memory servers are unknown,
 * or have come after the sweep began.
 * Cost: 1 RPC to each memory server that has some.
 */
NAM_FIBER_FN int nam__sweep_query(struct nam__sweep *sweep, const uint64_t *addresses,
	uint32_t count,
	uint64_t *ret_bits) NAM_MUST_CHECK;
/*
 * C26: suspect heads of records are no heads any more, and indexes of suspect superblocks are
 * dropped.  If *ret_closed is not 0, quiesce again: an operation under way may have found one open.
 * Cost: 1 RPC for each 4,096 blocks of a memory server.
 */
NAM_FIBER_FN int nam__sweep_close(struct nam__sweep *sweep, uint64_t *ret_closed,
	struct nam_diag *diag) NAM_MUST_CHECK;
/* Frees what is suspect, unless it is dry. */
NAM_FIBER_FN int nam__sweep_end(struct nam__sweep *sweep, struct nam__swept *ret_swept,
	struct nam_diag *diag) NAM_MUST_CHECK;
void nam__sweep_free(struct nam__sweep *sweep);

/* The sweep with that number asks for reports, as the meta page says.  The epoch thread. */
NAM_FIBER_FN void nam__sweep_follow(struct nam_client *client, uint64_t number);

#endif /* NAM_COMPUTE_VIEW_SWEEP_H */
