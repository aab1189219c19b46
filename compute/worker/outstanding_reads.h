/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outstanding_reads.h -- READs that one task keeps in flight and takes one by one.  So its work on
 * each overlaps with the transfer of the others.  All must be taken before the struct and their
 * buffers go away.  The common cases are in line: a READ costs a handful of stores.
 */
#ifndef NAM_COMPUTE_WORKER_OUTSTANDING_READS_H
#define NAM_COMPUTE_WORKER_OUTSTANDING_READS_H

#include "compute/worker/worker.h"

#define NAM__OUTSTANDING_MAX 32u

struct nam__outstanding_read {
	struct nam__completion completion;
	struct nam__outstanding_reads *outstanding;
};

struct nam__outstanding_reads {
	struct nam__task *task;
	uint32_t in_flight;		/* posted, not yet taken */
	uint32_t done;			/* bit i: READ i has completed and was not yet taken */
	bool waiting;			/* the task is suspended until something completes */
	bool others_first;		/* before anything is taken, others have their turn */
	int rc;				/* first failure */
	struct nam__outstanding_read each[NAM__OUTSTANDING_MAX];
};

/* Where outstanding reads of a kind come from and go to, by their numbers. */
struct nam__outstanding_post {
	const struct nam_gaddr *at;
	void *images;			/* one behind the other */
	uint32_t bytes;			/* of an image */
	uint32_t size;			/* a power of two, at most NAM__OUTSTANDING_MAX */
};

void nam__outstanding_init(struct nam__outstanding_reads *outstanding, struct nam_worker *worker);
/*
 * Post `count` READs from number `first` on, round the ring: one round trip, a doorbell per server.
 * Where the fabric works in the order of posting, a doorbell per READ, so that they complete in the
 * order of their numbers.  Others may be in flight meanwhile.
 */
void nam__outstanding_read_many(struct nam_worker *worker,
	struct nam__outstanding_reads *outstanding, const struct nam__outstanding_post *post,
	unsigned first, unsigned count);
/* Take this one, which must be in flight or done. */
NAM_FIBER_FN void nam__outstanding_await(struct nam_worker *worker,
	struct nam__outstanding_reads *outstanding, unsigned number);

/* ---- in line ------------------------------------------------------------------------------ */

/* The context of READ `number`. */
static inline void *
nam__outstanding_read_context(struct nam__outstanding_reads *outstanding, unsigned number)
{
	return (void *)((uintptr_t)&outstanding->each[number] | NAM__CONTEXT_OUTSTANDING_READ);
}

/* Fills the request of READ `number`; the server's slot, or negative. */
static inline int
nam__outstanding_read_fill(struct nam_worker *worker, struct nam__outstanding_reads *outstanding,
	unsigned number, struct nam_gaddr at, void *local, uint32_t bytes, struct nam_wr *wr)
{
	nam__wr_begin(wr, NAM_WR_READ, NAM_WR_SIGNALED);
	wr->bytes = bytes;
	wr->local = local;
	wr->lkey = nam__buffer_lkey(worker, local);
	wr->context = nam__outstanding_read_context(outstanding, number);
	return nam__resolve(worker, at, 0, bytes, wr);
}

/*
 * Tasks that are ready or deferred have their turn before anything more is taken.  A task
 * that may never have to wait calls this now and then.
 */
static inline void
nam__outstanding_turn(const struct nam_worker *worker, struct nam__outstanding_reads *outstanding)
{
	outstanding->others_first |= !STAILQ_EMPTY(&worker->ready) || worker->deferred.count;
}

/* outstanding_reads.c: it was refused with `rc`, or done at once.  False if it was local. */
bool nam__outstanding_read_posted_otherwise(struct nam_worker *worker,
	struct nam__outstanding_reads *outstanding, unsigned number, int slot, struct nam_wr *wr,
	int rc);

/* As qp_post, also where `slot` is an error; FULL also where it has no queue pair. */
static inline int
nam__outstanding_read_try(struct nam_worker *worker, int slot, const struct nam_wr *wr)
{
	struct nam_qp *qp;

	if (__builtin_expect(slot < 0, 0))
		return slot;
	qp = worker->qps[slot];
	return __builtin_expect(qp != NULL, 1) ? worker->qp_post(qp, wr, 1)
					       : -NAM_E_FABRIC_FULL;
}

/* Count READs that have gone out, each by a doorbell. */
static inline void
nam__outstanding_count(struct nam_worker *worker, unsigned count, uint32_t bytes)
{
	struct nam_op_counters *counters = worker->current->counters;

	counters->doorbells += count;
	counters->work_requests += count;
	counters->bytes_in += (uint64_t)count * bytes;
}

/* Post READ `number`, already counted as in flight; false if it was local. */
static inline bool
nam__outstanding_read_post(struct nam_worker *worker, struct nam__outstanding_reads *outstanding,
	unsigned number, struct nam_gaddr at, void *local, uint32_t bytes)
{
	struct nam_wr wr;
	int slot = nam__outstanding_read_fill(worker, outstanding, number, at, local, bytes, &wr);
	int rc = nam__outstanding_read_try(worker, slot, &wr);

	if (__builtin_expect(rc != 0, 0))
		return nam__outstanding_read_posted_otherwise(worker, outstanding, number, slot,
			&wr, rc);
	nam__outstanding_count(worker, 1, bytes);
	return true;
}

/* Post READ `number`.  Its failure shows when it is taken. */
static inline void
nam__outstanding_read(struct nam_worker *worker, struct nam__outstanding_reads *outstanding,
	unsigned number, struct nam_gaddr at, void *local, uint32_t bytes)
{
	outstanding->in_flight++;
	worker->current->counters->round_trips +=
		nam__outstanding_read_post(worker, outstanding, number, at, local, bytes);
}

/* outstanding_reads.c: wait until one is done, or let others have their turn. */
NAM_FIBER_FN void nam__outstanding_wait(struct nam_worker *worker,
	struct nam__outstanding_reads *outstanding);

/* The number of a READ that is done; outstanding->rc has the first failure.  in_flight > 0. */
NAM_FIBER_FN static inline unsigned
nam__outstanding_take(struct nam_worker *worker, struct nam__outstanding_reads *outstanding)
{
	unsigned number;

	if (!outstanding->done || outstanding->others_first)
		nam__outstanding_wait(worker, outstanding); /* SUSPENDS */
	number = (unsigned)__builtin_ctz(outstanding->done);
	outstanding->done &= outstanding->done - 1;
	outstanding->in_flight--;
	return number;
}

/* The first failure of these READs, and why. */
static inline int
nam__outstanding_rc(struct nam_worker *worker, const struct nam__outstanding_reads *outstanding)
{
	return __builtin_expect(outstanding->rc, 0) ? nam__failure_why(worker, outstanding->rc) : 0;
}

#endif /* NAM_COMPUTE_WORKER_OUTSTANDING_READS_H */
