/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gates.h -- while the memory of a memory server moves, nothing is posted to it (C28).
 *
 * The epoch thread closes the gate of its slot.  Each worker puts its queue pair aside and lets end
 * what it has posted.  Requests wait in nam__qp_open().  Then the gate opens: workers take their
 * queue pairs back, or connect to the process that has the memory now.  Gates close one at a time.
 */
#ifndef NAM_COMPUTE_WORKER_GATES_H
#define NAM_COMPUTE_WORKER_GATES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct nam_client;
struct nam_qp;
struct nam_worker;

/* A turn: which slot's gate is closed, and how often that has changed. */
#define NAM__GATES_OPEN 0xffffu		/* in place of the slot: all are open */

static inline uint32_t
nam__gate_slot(uint32_t turn)
{
	return turn & 0xffffu;
}

/* The gate as one worker follows it. */
struct nam__gate {
	uint32_t turn;			/* that it has followed */
	uint32_t slot;			/* its queue pair is put aside; or NAM__GATES_OPEN */
	struct nam_qp *qp;		/* NULL: there is none */
	atomic_uint quiet;		/* the turn for which it has nothing under way there */
};

/* The epoch thread: close the gate of a slot, if it is open. */
void nam__gate_close(struct nam_client *client, uint32_t slot);
/*
 * After that and a barrier of all threads: no request is under way there, and none will be posted
 * before the gate opens.
 */
bool nam__gate_is_quiet(struct nam_client *client);
/*
 * Whether the worker asks the lead in that slot behind its gate, too: the epoch thread's does.  The
 * lead gets a backup only, and what the thread changes there, the client brings to the backup.
 */
bool nam__gate_passes(const struct nam_worker *worker, uint32_t slot);
/* Whether it is this slot's that is closed. */
bool nam__gate_is_of(const struct nam_client *client, uint32_t slot);
/* The worker's connection in that slot, which it has, ends. */
void nam__qp_drop(struct nam_worker *worker, uint32_t slot);
/* The worker's connection behind the gate ends: its process has passed the memory on. */
void nam__gate_drop(struct nam_worker *worker);
/* The epoch thread: a turn.  The slot names the process that has the memory now. */
void nam__gates_open(struct nam_client *client);

/* A turn of the gates has begun, or the worker is not quiet yet: one step. */
void nam__gates_step(struct nam_worker *worker);

#endif /* NAM_COMPUTE_WORKER_GATES_H */
