/* SPDX-License-Identifier: Apache-2.0 */
/* outstanding_reads.c -- outstanding_reads.h, but for what is in line there. */
#include "outstanding_reads.h"

#include <limits.h>

void
nam__flights_init(struct nam__flights *flights, struct nam_worker *worker)
{
	flights->task = worker->current;
	flights->in_flight = 0;
	flights->done = 0;
	flights->waiting = false;
	flights->others_first = false;
	flights->rc = 0;
	for (unsigned i = 0; i < NAM__FLIGHTS_MAX; i++)
		flights->each[i].flights = flights;
}

static inline void
landed(struct nam__flights *flights, unsigned number, int status)
{
	if (__builtin_expect(status && !flights->rc, 0))
		flights->rc = status;
	flights->done |= 1u << number;
}

static inline void
completed(struct nam_worker *worker, struct nam__flight *flight, const struct nam_wc *wc)
{
	struct nam__flights *flights = flight->flights;

	landed(flights, (unsigned)(flight - flights->each), wc->status);
	if (flights->waiting) {
		flights->waiting = false;
		nam__task_ready(worker, flights->task);
	}
}

void
nam__flights_completed(struct nam_worker *worker, struct nam__flight *flight,
	const struct nam_wc *wc)
{
	completed(worker, flight, wc);
}

/*
 * What qp_post said of one server's share: they are on their way, have landed as local READs, or
 * failed, which is met when they are taken.  False if they were local.
 */
static inline bool
posted(struct nam_worker *worker, struct nam__flights *flights, const struct nam_wr *wrs,
	const uint8_t *numbers, unsigned count, int rc)
{
	struct nam_op_counters *counters = worker->current->counters;

	for (unsigned i = 0; rc && i < count; i++)
		landed(flights, numbers[i], rc < 0 ? rc : 0);
	if (__builtin_expect(rc == NAM_POSTED_LOCAL, 0)) {
		flights->others_first = true;
		counters->local_reads += count;
		return false;
	}
	if (rc)
		return true;
	counters->doorbells++;
	counters->work_requests += count;
	for (unsigned i = 0; i < count; i++)
		counters->bytes_in += wrs[i].bytes;
	return true;
}

/* Post one server's share.  As posted(). */
static inline bool
post_run(struct nam_worker *worker, struct nam__flights *flights, int slot, struct nam_wr *wrs,
	const uint8_t *numbers, unsigned count)
{
	int rc;

	do {
		struct nam_qp *qp = slot < 0 ? NULL : worker->qps[slot];

		rc = slot < 0 ? slot : -NAM_E_FABRIC_PEER_DEAD;
		if (qp)
			rc = worker->qp_post(qp, wrs, count);
		/* A full queue pair empties as its requests complete. */
	} while (__builtin_expect(rc == -NAM_E_FABRIC_FULL, 0) && (nam__poll(worker), true));
	return posted(worker, flights, wrs, numbers, count, rc);
}

/*
 * Who finds all landed has not waited for anything, and nor has who finds each there that it asks
 * for: the others have their turn.
 */
NAM_FIBER_FN static inline void
let_others(struct nam_worker *worker, struct nam__flights *flights)
{
	if (__builtin_expect(flights->others_first, 0)) {
		flights->others_first = false;
		nam_worker_yield(worker); /* SUSPENDS */
	}
}

bool
nam__flight_posted_otherwise(struct nam_worker *worker, struct nam__flights *flights,
	unsigned number, int slot, struct nam_wr *wr, int rc)
{
	uint8_t as_byte = (uint8_t)number;

	if (rc == -NAM_E_FABRIC_FULL)
		return post_run(worker, flights, slot, wr, &as_byte, 1);
	return posted(worker, flights, wr, &as_byte, 1, rc);
}

static inline void *
image_of(const struct nam__flight_ring *ring, unsigned number)
{
	return (uint8_t *)ring->images + (size_t)number * ring->bytes;
}

/* True unless all were local.  What they have in common is filled in once. */
static bool
read_in_order(struct nam_worker *worker, struct nam__flights *flights,
	const struct nam__flight_ring *ring, unsigned first, unsigned count)
{
	unsigned number = first, on_their_way = 0;
	bool sent = !count;
	struct nam_wr wr;

	nam__wr_begin(&wr, NAM_WR_READ, NAM_WR_SIGNALED);
	wr.bytes = ring->bytes;
	wr.lkey = nam__buffer_lkey(worker, ring->images);
	for (unsigned i = 0; i < count; i++, number = (number + 1) & (ring->size - 1)) {
		int slot = nam__resolve(worker, ring->at[number], 0, &wr), rc;

		wr.local = image_of(ring, number);
		wr.context = nam__flight_context(flights, number);
		rc = nam__flight_ring_bell(worker, slot, &wr);
		if (__builtin_expect(rc == 0, 1))
			on_their_way++;
		else
			sent |= nam__flight_posted_otherwise(worker, flights, number, slot, &wr,
				rc);
	}
	nam__flights_count(worker, on_their_way, ring->bytes);
	return sent || on_their_way;
}

/* A turn for each server: the first of those left, and whatever else is on the same. */
static bool
read_by_servers(struct nam_worker *worker, struct nam__flights *flights,
	const struct nam__flight_ring *ring, unsigned first, unsigned count)
{
	struct nam_wr run[NAM__FLIGHTS_MAX];
	uint8_t numbers[NAM__FLIGHTS_MAX];
	uint32_t left = count < 32 ? (1u << count) - 1 : UINT32_MAX;	/* bit i: first + i */
	bool sent = !count;

	while (left) {
		int slot = INT_MIN;
		unsigned in_run = 0;

		for (uint32_t rest = left; rest; rest &= rest - 1) {
			unsigned i = (unsigned)__builtin_ctz(rest);
			unsigned number = (first + i) & (ring->size - 1);
			int its_slot = nam__flight_fill(worker, flights, number, ring->at[number],
				image_of(ring, number), ring->bytes, &run[in_run]);

			if (slot == INT_MIN)
				slot = its_slot;
			if (its_slot != slot)
				continue;
			left &= ~(1u << i);
			numbers[in_run++] = (uint8_t)number;
		}
		sent |= post_run(worker, flights, slot, run, numbers, in_run);
	}
	return sent;
}

void
nam__flights_read_ring(struct nam_worker *worker, struct nam__flights *flights,
	const struct nam__flight_ring *ring, unsigned first, unsigned count)
{
	bool sent;

	flights->in_flight += count;
	if (worker->in_post_order)
		sent = read_in_order(worker, flights, ring, first, count);
	else
		sent = read_by_servers(worker, flights, ring, first, count);
	nam__flights_turn(worker, flights);
	worker->current->counters->round_trips += sent;
}

/* ---- completions -------------------------------------------------------------------------- */

/* With more in flight than this, completions that are awaited in order are taken one by one. */
#define FLIGHTS_FEW 8u
/* Taken at a time otherwise: few, so that work on each overlaps with the others' misses. */
#define FLIGHTS_POLL 4u
_Static_assert(FLIGHTS_POLL >= NAM__POLL_BATCH, "room for either");

static inline void
take(struct nam_worker *worker, const struct nam_wc *wc)
{
	uintptr_t context = (uintptr_t)wc->context;

	if ((context & NAM__CONTEXT_MASK) == NAM__CONTEXT_FLIGHT && wc->op < NAM_WC_RECV &&
		!wc->status)
		completed(worker, (void *)(context & ~(uintptr_t)NAM__CONTEXT_MASK), wc);
	else
		nam__completed(worker, wc);
}

/* Take completions, at most FLIGHTS_POLL, which are mostly flights. */
static inline int
poll_flights(struct nam_worker *worker, unsigned max)
{
	struct nam_wc wcs[FLIGHTS_POLL];
	int count;

	/* nam__poll() looks for replies and watches the deadlines of calls, too. */
	if (__builtin_expect(worker->calls != NULL, 0))
		return nam__poll(worker);
	count = worker->cq_poll(worker->cq, wcs, max);
	for (int i = 0; i < count; i++)
		take(worker, &wcs[i]);
	nam__closings_see_to(worker);
	return count;
}

void
nam__flights_wait(struct nam_worker *worker, struct nam__flights *flights)
{
	flights->task = worker->current;
	let_others(worker, flights); /* SUSPENDS */
	if (!flights->done)
		poll_flights(worker, FLIGHTS_POLL);
	while (!flights->done) {
		flights->waiting = true;
		nam__suspend(worker); /* SUSPENDS */
	}
}

/*
 * What is done with each overlaps with the misses of those behind it, and if there are many that is
 * best when they are taken one by one.
 */
NAM_FIBER_FN static __attribute__((noinline)) void
await(struct nam_worker *worker, struct nam__flights *flights, unsigned number)
{
	flights->task = worker->current;
	let_others(worker, flights); /* SUSPENDS */
	while (!(flights->done >> number & 1)) {
		unsigned max = flights->in_flight <= FLIGHTS_FEW ? NAM__POLL_BATCH : 1;

		if (poll_flights(worker, max) > 0 && !worker->ready_head)
			continue;
		if (flights->done >> number & 1)
			break;
		flights->waiting = true;
		nam__suspend(worker); /* SUSPENDS */
	}
	flights->done &= ~(1u << number);
	flights->in_flight--;
}

/* The next completion is mostly the one that is waited for, and leaves nothing else to be done. */
void
nam__flights_await(struct nam_worker *worker, struct nam__flights *flights, unsigned number)
{
	struct nam_wc wc;

	if (__builtin_expect(flights->in_flight > FLIGHTS_FEW && !flights->others_first &&
		!worker->calls && !(flights->done >> number & 1), 1) &&
		worker->cq_poll(worker->cq, &wc, 1) == 1) {
		bool is_it = wc.context == nam__flight_context(flights, number) && !wc.status &&
			wc.op < NAM_WC_RECV;

		if (!is_it)
			take(worker, &wc);
		nam__closings_see_to(worker);
		if (__builtin_expect(is_it, 1)) {
			flights->in_flight--;
			return;
		}
	}
	await(worker, flights, number); /* SUSPENDS */
}
