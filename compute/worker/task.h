/* SPDX-License-Identifier: Apache-2.0 */
/* task.h -- a task of a worker: one of its fibers, or the thread; and tasks that are deferred. */
#ifndef NAM_COMPUTE_WORKER_TASK_H
#define NAM_COMPUTE_WORKER_TASK_H

#include <sys/queue.h>

#include "compute/client/client_internal.h"

SLIST_HEAD(nam__tasks, nam__task);

struct nam__task {
	struct nam_fiber *fiber;
	union {
		STAILQ_ENTRY(nam__task) ready;	/* worker->ready */
		SLIST_ENTRY(nam__task) link;	/* pauses, free list, waiters for blocks */
	};
	uint64_t paused_until_ns;
	SLIST_ENTRY(nam__task) made;	/* worker->tasks_made */
	struct nam_op_counters *counters;	/* of the operation under way */
	uint32_t pending;		/* signalled requests that it waits for */
	int rc;				/* first failure among them */
	uint64_t epoch;			/* local epoch of the operation under way */
	bool is_thread;			/* the plain thread, not a fiber */
	uint64_t left;			/* number of nam__task_leave(); 0: it was none */
	bool colocated;			/* it has READ colocated memory and not given way since */
	void *scratch;			/* a node buffer, taken on first use */
	uint32_t scratch_bytes;
	nam_fiber_fn fn;
	void *arg;
	struct nam_worker *worker;
};

/*
 * Tasks whose requests are formed together, by a room above, which keeps its records of them in
 * `state`.  The worker calls `run` once `enough` wait, or nothing else is to be done.
 */
#define NAM__DEFERRED_MAX 16u
#define NAM__DEFERRED_BYTES 704u

struct nam__deferred {
	uint32_t count;			/* tasks that wait; at most NAM__DEFERRED_MAX */
	uint32_t enough;
	/* post requests for all of these tasks or make them ready; `count` becomes 0 */
	void (*run)(struct nam_worker *worker);
	/* zeroes at first */
	_Alignas(NAM__CACHE_LINE) unsigned char state[NAM__DEFERRED_BYTES];
};

#define NAM__TASKS_LEFT_MAX 64u	/* of callers that can wait instead */
/*
 * worker.c: as nam_worker_spawn(), for work that no task waits for.  It begins at once, and the
 * caller goes on when it first waits, or has ended.  0 or -ENOMEM.
 */
NAM_FIBER_FN int nam__task_leave(struct nam_worker *worker, nam_fiber_fn fn,
	void *arg) NAM_MUST_CHECK;
/* Until those that were left before have ended. */
NAM_FIBER_FN void nam__left_await(struct nam_worker *worker);

#endif /* NAM_COMPUTE_WORKER_TASK_H */
