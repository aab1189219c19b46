/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion.h -- contexts of requests and queue pairs, and how the worker dispatches completions.
 */
#ifndef NAM_COMPUTE_WORKER_COMPLETION_H
#define NAM_COMPUTE_WORKER_COMPLETION_H

#include <stdint.h>

#include "common/fabric/fabric.h"

struct nam_worker;

/* A worker calls these of the layers above, which have requests under way. */
struct nam__worker_ops {
	/* Fill qps[slot], and all that belongs to it; waits for the server. */
	int (*connect)(struct nam_worker *worker, uint32_t slot, struct nam_diag *diag);
	/* Whether no request to that server is under way; else to be called again. */
	bool (*drain)(struct nam_worker *worker, uint32_t slot);
	/* The connection of a slot has ended. */
	void (*server_closed)(struct nam_worker *worker, uint32_t slot);
	/* Take replies that memory servers WROTE; returns how many. */
	int (*poll)(struct nam_worker *worker);
	/* How long the worker may sleep: at most wait_ns, 0 to poll. */
	uint64_t (*wait_max)(const struct nam_worker *worker, uint64_t wait_ns);
	/* End calls whose deadline had passed by then. */
	void (*check_deadlines)(struct nam_worker *worker, uint64_t then_ns);
};

/* The low bits of nam_wr.context and nam_recv.context: the type that the rest points to. */
enum nam__context {
	NAM__CONTEXT_TASK = 0,		/* a task that waits for this request */
	NAM__CONTEXT_UNSIGNALED = 1,	/* a task that is told only of a failure */
	NAM__CONTEXT_ASYNC = 2,		/* nam_async_*: the user's pointer, 8-byte aligned */
	NAM__CONTEXT_HANDLER = 4,	/* struct nam__completion */
	/* a handler, too, with a tag that outstanding_reads.c recognizes without a load */
	NAM__CONTEXT_OUTSTANDING_READ = NAM__CONTEXT_HANDLER | 1,
	NAM__CONTEXT_MASK = 7,
};

/*
 * The first member of each struct whose requests or receive buffers are not a task's.  The worker
 * calls `completed` and knows nothing else of the struct.
 */
struct nam__completion {
	void (*completed)(struct nam_worker *worker, struct nam__completion *completion,
		const struct nam_wc *wc);
};

/* A memory server, as a worker sees it. */
struct nam__answering {
	struct nam_worker *worker;	/* its queue pairs there lead here: nam_qp.user */
	uint32_t slot;
	uint32_t replies;
	bool silent;	/* a call ended at its deadline, and no reply has come since it began */
	uint64_t boot;			/* of the process that has qps[slot] */
	uint32_t ended;			/* worker->moves as the last one with a backup ended */
	uint64_t ended_boot;		/* the process of that one */
	bool entered;			/* REGISTER came over the connection: lead_backup.c */
	bool ends;			/* requests of it have failed, and it is not closed yet */
	int refusal;			/* of the last attempt to connect, */
	uint64_t refusing_boot;		/* and by which process */
	uint64_t connect_again_ns;	/* when to try again, after a failure */
};

/* The memory server of a queue pair, by slot. */
static inline uint32_t
nam__slot_of(const struct nam_qp *qp)
{
	return ((const struct nam__answering *)qp->user)->slot;
}

static inline void *
nam__handler_context(struct nam__completion *completion)
{
	return (void *)((uintptr_t)completion | NAM__CONTEXT_HANDLER);
}

#endif /* NAM_COMPUTE_WORKER_COMPLETION_H */
