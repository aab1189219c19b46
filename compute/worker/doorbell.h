/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doorbell.h -- a few requests to one remote object, resolved once and posted together.
 *
 * As nam_batch_*, for the most frequent operations on one address: lock a node and READ it; WRITE
 * it and unlock.  Everything is in line: a request costs a handful of stores.
 */
#ifndef NAM_COMPUTE_WORKER_DOORBELL_H
#define NAM_COMPUTE_WORKER_DOORBELL_H

#include <assert.h>
#include <stddef.h>

#include "compute/worker/worker.h"

#define NAM__DOORBELL_MAX 7u

/* Lives on the stack of the task that waits for it.  Requests take effect like a batch's. */
struct nam__doorbell {
	struct nam_worker *worker;
	struct nam__task *task;		/* waits for it */
	uint64_t remote;		/* of the object's first byte */
	uint32_t rkey;
	int server;			/* slot, or negative: the address names no known region */
	uint32_t moves;			/* the worker's, as it was resolved */
	uint32_t bytes_in;
	uint32_t count;			/* apart: as neighbours, both sums would be one vector */
	uint32_t bytes_out;
	struct nam_wr wrs[NAM__DOORBELL_MAX];
};

static inline __attribute__((always_inline)) void
nam__doorbell_init_for(struct nam__doorbell *doorbell, struct nam_worker *worker,
	struct nam__task *task, struct nam_gaddr at)
{
	struct nam_wr resolved = { 0 };

	doorbell->worker = worker;
	doorbell->task = task;
	doorbell->count = 0;
	doorbell->bytes_in = doorbell->bytes_out = 0;
	doorbell->moves = worker->moves;
	doorbell->server = nam__resolve(worker, at, 0, NAM_GADDR_UNIT_BYTES, &resolved);
	doorbell->remote = resolved.remote;
	doorbell->rkey = resolved.rkey;
}

static inline __attribute__((always_inline)) void
nam__doorbell_init(struct nam__doorbell *doorbell, struct nam_worker *worker, struct nam_gaddr at)
{
	nam__doorbell_init_for(doorbell, worker, worker->current, at);
}

static inline __attribute__((always_inline)) struct nam_wr *
nam__doorbell_add(struct nam__doorbell *doorbell, uint8_t op, uint32_t offset_bytes, void *local,
	uint32_t bytes)
{
	struct nam_wr *wr = &doorbell->wrs[doorbell->count++];

	assert(doorbell->count <= NAM__DOORBELL_MAX);
	nam__wr_begin(wr, op, 0);
	wr->hint = op == NAM_WR_CAS ? NAM_WR_LOCK : 0;
	wr->bytes = bytes;
	wr->remote = doorbell->remote + offset_bytes;
	wr->rkey = doorbell->rkey;
	wr->lkey = nam__buffer_lkey(doorbell->worker, local);
	wr->local = local;
	wr->context = (void *)((uintptr_t)doorbell->task | NAM__CONTEXT_UNSIGNALED);
	return wr;
}

/* The operands of an atomic, in one store: a provider may load both at once. */
static inline void
nam__wr_operands(struct nam_wr *wr, uint64_t compare, uint64_t swap)
{
	typedef uint64_t word_pair __attribute__((vector_size(16), aligned(8), may_alias));

	_Static_assert(offsetof(struct nam_wr, swap) == offsetof(struct nam_wr, compare) + 8,
		"one store for both");
	*(word_pair *)(void *)&wr->compare = (word_pair){ compare, swap };
}

static inline __attribute__((always_inline)) void
nam__doorbell_read(struct nam__doorbell *doorbell, void *local, uint32_t bytes)
{
	nam__doorbell_add(doorbell, NAM_WR_READ, 0, local, bytes);
	doorbell->bytes_in += bytes;
}

static inline __attribute__((always_inline)) void
nam__doorbell_write(struct nam__doorbell *doorbell, uint32_t offset_bytes, const void *local,
	uint32_t bytes)
{
	nam__doorbell_add(doorbell, NAM_WR_WRITE, offset_bytes, (void *)(uintptr_t)local, bytes);
	doorbell->bytes_out += bytes;
}

/* Add a CAS of a lock word. */
static inline __attribute__((always_inline)) void
nam__doorbell_cas(struct nam__doorbell *doorbell, uint32_t offset_bytes, uint64_t compare,
	uint64_t swap, uint64_t *local_old)
{
	struct nam_wr *wr = nam__doorbell_add(doorbell, NAM_WR_CAS, offset_bytes, local_old, 8);

	nam__wr_operands(wr, compare, swap);
	doorbell->bytes_out += 16;
	doorbell->bytes_in += 8;
}

/*
 * remote.c: after doorbell->count requests have failed, or the gates have turned meanwhile.
 * Returns their result, once they have been repeated if they had no effect (C32).
 */
NAM_FIBER_FN int nam__doorbell_again(struct nam__doorbell *doorbell, uint32_t count,
	int rc) NAM_MUST_CHECK;
/* gates.c: memory has moved since it was resolved (C28). */
void nam__doorbell_move(struct nam__doorbell *doorbell);

/* Post what was collected, at least one, and empty the doorbell.  Its server is known. */
static inline __attribute__((always_inline)) void
nam__doorbell_post(struct nam__doorbell *doorbell)
{
	struct nam_worker *worker = doorbell->worker;
	struct nam__task *task = doorbell->task;
	struct nam_op_counters *counters = task->counters;
	uint32_t count = doorbell->count;
	struct nam_qp *qp;

	/* Completions of one queue pair come in order: the last one proves them all. */
	doorbell->wrs[count - 1].context = task;
	doorbell->wrs[count - 1].flags = NAM_WR_SIGNALED;
	if (__builtin_expect(doorbell->moves != worker->moves, 0))
		nam__doorbell_move(doorbell);
	doorbell->count = 0;
	counters->round_trips++;
	counters->bytes_in += doorbell->bytes_in;
	counters->bytes_out += doorbell->bytes_out;
	doorbell->bytes_in = doorbell->bytes_out = 0;
	qp = worker->qps[doorbell->server];
	if (__builtin_expect(!qp || worker->qp_post(qp, doorbell->wrs, count), 0)) {
		/* Connects, waits, or notes the failure.  Never local: it changes memory. */
		nam__post_for(worker, task, (uint32_t)doorbell->server, doorbell->wrs, count);
		if (doorbell->moves != worker->moves)
			nam__doorbell_move(doorbell);
	} else {
		counters->doorbells++;
		counters->work_requests += count;
		task->pending++;
	}
}

/**
 * nam__doorbell_await -- post what was collected, wait for all of it, and empty the doorbell.
 *
 * Returns 0, -NAM_E_NOREGION, or -NAM_E_FABRIC_*: it is unknown which of the writes were done.
 * Cost: 1 round trip, 1 doorbell; nothing if it is empty.
 */
NAM_FIBER_FN static inline __attribute__((always_inline)) int
nam__doorbell_await(struct nam__doorbell *doorbell)
{
	uint32_t count = doorbell->count;
	int rc;

	if (__builtin_expect(doorbell->server < 0, 0))
		return doorbell->server;
	if (!count)
		return 0;
	nam__doorbell_post(doorbell);
	rc = nam__task_await(doorbell->worker); /* SUSPENDS */
	if (__builtin_expect(rc || doorbell->moves != doorbell->worker->moves, 0))
		rc = nam__doorbell_again(doorbell, count, rc); /* SUSPENDS */
	return rc;
}

#endif /* NAM_COMPUTE_WORKER_DOORBELL_H */
