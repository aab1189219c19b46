/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outstanding_reads.h -- READs that one task keeps in flight and takes one by one, so that what it
 * does with each overlaps with the way of the others.  They must all have been taken before the
 * struct and their buffers go away.
 *
 * The common cases are in line: a flight costs the handful of stores that it consists of.
 */
#ifndef NAM_COMPUTE_WORKER_OUTSTANDING_READS_H
#define NAM_COMPUTE_WORKER_OUTSTANDING_READS_H

#include "compute/compute_internal.h"

#define NAM__FLIGHTS_MAX 32u

struct nam__flight {
	struct nam__flights *flights;
};

struct nam__flights {
	struct nam__task *task;
	uint32_t in_flight;		/* posted, not yet taken */
	uint32_t done;			/* bit i: flight i has completed and was not yet taken */
	bool waiting;			/* the task is suspended until something completes */
	bool others_first;		/* before anything is taken, others have their turn */
	int rc;				/* first failure */
	struct nam__flight each[NAM__FLIGHTS_MAX];
};

/* Where flights of a kind come from and go to, by their numbers. */
struct nam__flight_ring {
	const struct nam_gaddr *at;
	void *images;			/* one behind the other */
	uint32_t bytes;			/* of an image */
	uint32_t size;			/* a power of two, at most NAM__FLIGHTS_MAX */
};

void nam__flights_init(struct nam__flights *flights, struct nam_worker *worker);
/*
 * Post `count` flights from number `first` on, round the ring: one round trip, a doorbell per
 * server; or one per READ where the fabric works in the order of posting, so that they come in the
 * order in which they are wanted.  Others may be in flight meanwhile.
 */
void nam__flights_read_ring(struct nam_worker *worker, struct nam__flights *flights,
	const struct nam__flight_ring *ring, unsigned first, unsigned count);
/* Take this one, which must be in flight or done. */
NAM_FIBER_FN void nam__flights_await(struct nam_worker *worker, struct nam__flights *flights,
	unsigned number);
/* For worker.c. */
void nam__flights_completed(struct nam_worker *worker, struct nam__flight *flight,
	const struct nam_wc *wc);

/* ---- in line ------------------------------------------------------------------------------ */

/* How completions name a flight. */
static inline void *
nam__flight_context(struct nam__flights *flights, unsigned number)
{
	return (void *)((uintptr_t)&flights->each[number] | NAM__CONTEXT_FLIGHT);
}

/* What fills a request for a flight; the server's slot, or negative. */
static inline int
nam__flight_fill(struct nam_worker *worker, struct nam__flights *flights, unsigned number,
	struct nam_gaddr at, void *local, uint32_t bytes, struct nam_wr *wr)
{
	nam__wr_begin(wr, NAM_WR_READ, NAM_WR_SIGNALED);
	wr->bytes = bytes;
	wr->local = local;
	wr->lkey = nam__buffer_lkey(worker, local);
	wr->context = nam__flight_context(flights, number);
	return nam__resolve(worker, at, 0, wr);
}

/*
 * Others that are ready, or have gathered and wait until nobody is, have their turn before anything
 * more is taken.  Whoever may never have to wait calls this now and then.
 */
static inline void
nam__flights_turn(const struct nam_worker *worker, struct nam__flights *flights)
{
	flights->others_first |= worker->ready_head || worker->gather.count;
}

/* outstanding_reads.c: it was refused with `rc`, or done at once.  False if it was local. */
bool nam__flight_posted_otherwise(struct nam_worker *worker, struct nam__flights *flights,
	unsigned number, int slot, struct nam_wr *wr, int rc);

/* As qp_post, also where `slot` is an error or its server is gone. */
static inline int
nam__flight_ring_bell(struct nam_worker *worker, int slot, const struct nam_wr *wr)
{
	struct nam_qp *qp;

	if (__builtin_expect(slot < 0, 0))
		return slot;
	qp = worker->qps[slot];
	return __builtin_expect(qp != NULL, 1) ? worker->qp_post(qp, wr, 1)
					       : -NAM_E_FABRIC_PEER_DEAD;
}

/* So many READs have gone out, each by a doorbell. */
static inline void
nam__flights_count(struct nam_worker *worker, unsigned count, uint32_t bytes)
{
	struct nam_op_counters *counters = worker->current->counters;

	counters->doorbells += count;
	counters->work_requests += count;
	counters->bytes_in += (uint64_t)count * bytes;
}

/* Post a READ for a flight that is counted as such already; false if it was local. */
static inline bool
nam__flight_post(struct nam_worker *worker, struct nam__flights *flights, unsigned number,
	struct nam_gaddr at, void *local, uint32_t bytes)
{
	struct nam_wr wr;
	int slot = nam__flight_fill(worker, flights, number, at, local, bytes, &wr);
	int rc = nam__flight_ring_bell(worker, slot, &wr);

	if (__builtin_expect(rc != 0, 0))
		return nam__flight_posted_otherwise(worker, flights, number, slot, &wr, rc);
	nam__flights_count(worker, 1, bytes);
	return true;
}

/* Post flight `number`, which is not in flight.  A failure is met when it is taken. */
static inline void
nam__flights_read(struct nam_worker *worker, struct nam__flights *flights, unsigned number,
	struct nam_gaddr at, void *local, uint32_t bytes)
{
	flights->in_flight++;
	worker->current->counters->round_trips +=
		nam__flight_post(worker, flights, number, at, local, bytes);
}

/* outstanding_reads.c: wait until one is done, or let others have their turn. */
NAM_FIBER_FN void nam__flights_wait(struct nam_worker *worker, struct nam__flights *flights);

/* The number of a flight that is done; flights->rc says whether all went well.  in_flight > 0. */
NAM_FIBER_FN static inline unsigned
nam__flights_take(struct nam_worker *worker, struct nam__flights *flights)
{
	unsigned number;

	if (!flights->done || flights->others_first)
		nam__flights_wait(worker, flights); /* SUSPENDS */
	number = (unsigned)__builtin_ctz(flights->done);
	flights->done &= flights->done - 1;
	flights->in_flight--;
	return number;
}

#endif /* NAM_COMPUTE_WORKER_OUTSTANDING_READS_H */
