/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h -- a worker: the data path of one thread. */
#ifndef NAM_COMPUTE_WORKER_WORKER_H
#define NAM_COMPUTE_WORKER_WORKER_H

#include "common/guard.h"
#include "common/race.h"
#include "compute/client/client_internal.h"
#include "completion.h"
#include "gates.h"
#include "compute/backup/mirror.h"
#include "task.h"

struct nam__call;
struct nam__drain;
struct nam__one_way;
struct nam__block_cache;			/* alloc.c */
struct nam__limbo;			/* limbo.c */

#define NAM__BUFFER_CLASSES 22u		/* 1 B .. 2 MiB */
#define NAM__RECV_BUFFERS 16u

struct nam_worker {
	/* data path */
	struct nam_client *client;
	struct nam_cq *cq;
	int (*cq_poll)(struct nam_cq *, struct nam_wc *, unsigned);
	int (*qp_post)(struct nam_qp *, const struct nam_wr *, unsigned);
	struct nam_qp **qps;		/* by server slot; NULL once closed, or before first use */
	struct nam__task *current;
	STAILQ_HEAD(, nam__task) ready;
	struct nam__tasks paused;	/* the one that goes on soonest first */
	/* lock.c: tasks that pause, in order */
	TAILQ_HEAD(nam__slot_waiters, nam__slot_waiter) slot_waiters;
	uint32_t moves;		/* turns of gates, and ended connections: memory may have moved */
	uint32_t closing_count;
	uint32_t failed_slot;		/* of the last request that has failed */
	uint32_t slots_waiting;	/* their replies come without notice */
	bool public_full;	/* alloc.c: the memory that lacked last was that of clients */
	/* or read-only memory of a server, for so many blocks; count 0: it was not */
	uint32_t lacks_stride, lacks_count;
	uint32_t lock_sequence, lock_sequence_end;	/* lock.c: this worker's share of numbers */
	bool lkeys_needed;		/* local memory must be registered on this fabric */
	bool posting;		/* a request is formed, and waits for room */
	bool in_post_order, reads_only;	/* limits.in_post_order of it; of the client */
	struct nam__deferred deferred;
	struct nam__task thread_task;
	struct nam_op_counters counters[NAM_OP_KINDS_COUNT];
	struct nam__gate gate;
	struct nam__mirror mirror;
	atomic_uint unawaited;		/* requests without a waiter under way */
	/* operations under way, by local epoch & 3; the epoch thread reads them */
	_Alignas(NAM__CACHE_LINE) atomic_uint active[NAM__LOCAL_EPOCHS];

	/* control path */
	const struct nam__worker_ops *ops;
	struct nam_rq *rq;
	struct nam_qp **closing;	/* they have ended, which is not handled yet */
	struct nam__tasks tasks_free;
	struct nam__tasks tasks_made;	/* all of them, to be freed */
	uint32_t tasks_alive;
	uint32_t tasks_left;		/* of these: nam__task_leave(); */
	uint64_t lefts;			/* and the number of the last one */
	bool joins;			/* the thread waits for the end of all tasks */
	uint32_t polls;			/* since deadlines were looked at */
	uint64_t polls_ns;		/* when that was */
	SLIST_HEAD(, nam__call) calls;	/* RPCs waiting for a reply */
	struct nam__answering *answering;	/* by server slot */
	struct nam__one_way **one_way;	/* by server slot; NULL: there were none */
	struct nam__client_mailbox **mailboxes;	/* by server slot; NULL: everything goes by SEND */
	struct nam_frame *frame;	/* a copy of a reply that came to a client mailbox */
	struct nam_rq *datagram_rq;	/* NULL without unreliable queue pairs */
	uint8_t *datagrams;
	struct nam_mr datagrams_mr;
	uint64_t call_ids;
	struct nam__drain *drain;	/* rpc/drain.c */
	void **async_done;		/* contexts that nam_async_poll has not handed out */
	uint32_t async_done_count;
	uint32_t async_pending;		/* posted, not handed out */
	uint32_t async_size;		/* room in async_done, for all that are pending */
	int async_rc;
	void *buffers[NAM__BUFFER_CLASSES];	/* free ones: lists through their first words */
	SLIST_HEAD(, nam__slab) slabs;	/* what the buffers were cut from */
	struct nam__block_cache *block_caches;
	uint32_t alloc_next;		/* round robin */
	struct nam__limbo *limbo;
	/* the worker changes the limbo's lists under it; the epoch thread copies their addresses */
	pthread_mutex_t limbo_mutex;
	struct nam__peers *peers;	/* NULL: this fabric has no endpoints */
	struct nam_rng rng;
	size_t bytes;
	SLIST_ENTRY(nam_worker) link;	/* client->workers */
	struct { nam_worker_stop_fn fn; void *arg; } stop;	/* fn NULL: none */
	struct { uint64_t per_second, next_ns; } pace;	/* of long passes; per_second 0: none */
	struct nam_diag diag;
};

/* Completions taken at a time: few, so that work on each overlaps with the others' misses. */
#define NAM__POLL_BATCH 4u

/* Handle one completion; and, after some, connections that have ended, and what is held back. */
void nam__completed(struct nam_worker *worker, const struct nam_wc *wc);
void nam__closings_end(struct nam_worker *worker);
static inline void
nam__closings_see_to(struct nam_worker *worker)
{
	if (__builtin_expect(worker->closing_count != 0, 0))
		nam__closings_end(worker);
	if (__builtin_expect(worker->mirror.waiting != 0, 0))
		worker->mirror.step(worker);
}

/* connect.c: the diag of a failure of the fabric.  Returns `status`. */
int nam__failure_explain(struct nam_worker *worker, uint32_t slot, int status);
/*
 * connect.c: a request of the current task failed.  -NAM_E_FABRIC_FENCED and its diag, if the
 * connection was closed because this client is fenced; else `rc`.
 */
int nam__failure_why(struct nam_worker *worker, int rc) NAM_MUST_CHECK;
/* The failure of what was asked of a memory server whose queue pair has ended. */
static inline int
nam__lost(const struct nam_worker *worker, uint32_t slot)
{
	return atomic_load_explicit(&worker->client->servers[slot].lost, memory_order_acquire) ?:
		-NAM_E_FABRIC_PEER_DEAD;
}

/*
 * connect.c: if the slot never had a queue pair, connect.  0, the failure of the connection that
 * has ended, or that of connecting, with its diag.  A failure to connect holds for a while.
 */
int nam__qp_connect(struct nam_worker *worker, uint32_t slot) NAM_MUST_CHECK;
/*
 * worker.c: and before that, wait until the gate of this slot is open.  If it stays closed for
 * timeout_ms, -NAM_E_FABRIC_TIMEOUT.  Other tasks of the worker stand still meanwhile.
 */
int nam__qp_open(struct nam_worker *worker, uint32_t slot) NAM_MUST_CHECK;

/*
 * worker.c: as nam__qp_open(), before requests are posted that were formed for that slot.  If its
 * memory has moved meanwhile, they lead there.
 */
int nam__qp_open_for(struct nam_worker *worker, uint32_t slot, struct nam_wr *wrs,
	unsigned count) NAM_MUST_CHECK;
/* gates.c: requests that were formed for a slot before worker->moves was what it is. */
void nam__wrs_move(struct nam_worker *worker, uint32_t slot, struct nam_wr *wrs, unsigned count);

/* Take completions and make tasks ready.  Returns how many completions there were. */
int nam__poll(struct nam_worker *worker);

/* Wait until the current task's pending requests are done.  Returns its rc and clears it. */
NAM_FIBER_FN int nam__task_await(struct nam_worker *worker) NAM_MUST_CHECK;

/* Leave the current task until nam__task_ready() is called for it. */
NAM_FIBER_FN void nam__suspend(struct nam_worker *worker);

/* The worker has not followed the turn of the gates, or is not quiet. */
static inline bool
nam__gates_due(const struct nam_worker *worker)
{
	uint32_t turn = worker->client->gates;

	return __builtin_expect(worker->gate.turn != turn ||
		(worker->gate.slot != NAM__GATES_OPEN && worker->gate.quiet != turn), 0);
}

/* For parts of a call that has begun: also behind a gate. */
static inline struct nam_qp *
nam__qp_of(const struct nam_worker *worker, uint32_t slot)
{
	return worker->gate.slot == slot ? worker->gate.qp : worker->qps[slot];
}

/*
 * Fill what names the remote side of a request for so many bytes, at least 1.  The server's slot,
 * or negative: a wild pointer must not break the connection.
 */
static inline int
nam__resolve(const struct nam_worker *worker, struct nam_gaddr at, uint32_t offset_bytes,
	uint32_t bytes, struct nam_wr *wr)
{
	const struct nam_region *region = nam_region_table_range(&worker->client->regions, at,
		(uint64_t)offset_bytes + bytes);

	if (!region)
		return -NAM_E_NOREGION;
	wr->remote = region->remote + nam_gaddr_offset(at) + offset_bytes;
	wr->rkey = nam_region_rkey(region);
	return (int)region->server;
}

/* The kind of a request, in one store: providers load it whole, which waits for smaller stores. */
static inline __attribute__((always_inline)) void
nam__wr_begin(struct nam_wr *wr, uint8_t op, uint8_t flags)
{
	wr->op = op;
	wr->flags = flags;
	wr->hint = 0;
}

/* Post a READ for a task other than the current one; if it is local or fails, the task is ready. */
void nam__read_for(struct nam_worker *worker, struct nam__task *task, struct nam_gaddr at,
	void *local, uint32_t bytes);

/* Let the ready fibers run, if there are any, without looking for completions. */
NAM_FIBER_FN void nam__give_way(struct nam_worker *worker);

/* Give way for at least `ns`; for back-off.  Runs other fibers; sleeps if there is none to run. */
NAM_FIBER_FN void nam__pause_await(struct nam_worker *worker, uint64_t ns);
/* Another task's pause, if it is pausing, ends after `ns` more. */
void nam__pause_set(struct nam_worker *worker, struct nam__task *task, uint64_t ns);

/* buffer.c */
void nam__buffers_free(struct nam_worker *worker);
uint32_t nam__buffer_lkey_find(const struct nam_worker *worker, const void *local);

/* The registration that holds `local`; providers that need none give slabs the lkey 0. */
static inline uint32_t
nam__buffer_lkey(const struct nam_worker *worker, const void *local)
{
	return worker->lkeys_needed ? nam__buffer_lkey_find(worker, local) : 0;
}

/* The registered buffer of the current task, of `bytes` or more.  NULL: no memory. */
void *nam__scratch(struct nam_worker *worker, uint32_t bytes);

void nam__task_ready(struct nam_worker *worker, struct nam__task *task);

/*
 * Post requests to a memory server for a task that waits for them; a failure goes into its rc.
 * True if they were local: they are done, without a round trip.
 */
bool nam__post_for(struct nam_worker *worker, struct nam__task *task, uint32_t slot,
	struct nam_wr *wrs, unsigned count);
static inline bool
nam__post(struct nam_worker *worker, uint32_t slot, struct nam_wr *wrs, unsigned count)
{
	return nam__post_for(worker, worker->current, slot, wrs, count);
}

/* After qp_post with a result other than 0: as nam__post(), which posts them anew. */
bool nam__posted_otherwise(struct nam_worker *worker, struct nam__task *task, uint32_t slot,
	struct nam_wr *wrs, unsigned count, int rc);

/* Post a READ for a task.  False: it need not wait, as the READ was local or failed (task->rc). */
static inline __attribute__((always_inline)) bool
nam__read_post(struct nam_worker *worker, struct nam__task *task, struct nam_gaddr at, void *local,
	uint32_t bytes)
{
	struct nam_op_counters *counters = task->counters;
	struct nam_wr wr;
	int rc, slot = nam__resolve(worker, at, 0, bytes, &wr);
	struct nam_qp *qp = slot < 0 ? NULL : worker->qps[slot];

	if (__builtin_expect(!qp, 0)) {
		rc = slot < 0 ? slot : nam__qp_open_for(worker, (uint32_t)slot, &wr, 1);
		if (rc) {
			task->rc = rc;
			return false;
		}
		qp = worker->qps[slot];
	}
	/* The commonest request by far: fields that a READ does not use stay unset. */
	nam__wr_begin(&wr, NAM_WR_READ, NAM_WR_SIGNALED);
	wr.bytes = bytes;
	wr.local = local;
	wr.lkey = nam__buffer_lkey(worker, local);
	wr.context = task;
	counters->round_trips++;
	counters->bytes_in += bytes;
	rc = worker->qp_post(qp, &wr, 1);
	if (__builtin_expect(rc != 0, 0)) {
		if (nam__posted_otherwise(worker, task, (uint32_t)slot, &wr, 1, rc))
			counters->round_trips--;
		return task->pending != 0;
	}
	counters->doorbells++;
	counters->work_requests++;
	task->pending++;
	return true;
}

/* Only the worker's thread writes it. */
static inline void
nam__unawaited_add(struct nam_worker *worker, uint32_t count)
{
	atomic_store_explicit(&worker->unawaited,
		atomic_load_explicit(&worker->unawaited, memory_order_relaxed) + count,
		memory_order_release);
}

static inline void
nam__count_restart(struct nam_worker *worker, enum nam_restart_cause cause)
{
	worker->current->counters->restarts[cause]++;
}

#endif /* NAM_COMPUTE_WORKER_WORKER_H */
