/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flights.c -- READs that one task keeps in flight and takes one by one, so that what it does with
 * each overlaps with the way of the others.
 */
#include "compute_internal.h"

void
nam__flights_init(struct nam__flights *flights, struct nam_worker *worker)
{
	flights->task = worker->current;
	flights->in_flight = 0;
	flights->done_count = 0;
	flights->waiting = false;
	flights->rc = 0;
	for (unsigned i = 0; i < NAM__FLIGHTS_MAX; i++)
		flights->each[i].flights = flights;
}

static void
landed(struct nam__flights *flights, unsigned number, int status)
{
	if (status && !flights->rc)
		flights->rc = status;
	flights->done[flights->done_count++] = (uint8_t)number;
}

void
nam__flights_completed(struct nam_worker *worker, struct nam__flight *flight,
	const struct nam_wc *wc)
{
	struct nam__flights *flights = flight->flights;

	landed(flights, (unsigned)(flight - flights->each), wc->status);
	if (flights->waiting) {
		flights->waiting = false;
		nam__task_ready(worker, flights->task);
	}
}

/* Post one server's share; failures are met when the flights are taken. */
static inline void
post_run(struct nam_worker *worker, struct nam__flights *flights, int slot, struct nam_wr *wrs,
	const uint8_t *numbers, unsigned count)
{
	struct nam_op_counters *counters = worker->current->counters;
	int rc;

	do {
		struct nam_qp *qp = slot < 0 ? NULL : worker->qps[slot];

		rc = slot < 0 ? slot : -NAM_E_FABRIC_PEER_DEAD;
		if (qp)
			rc = worker->qp_post(qp, wrs, count);
		/* A full queue pair empties as its requests complete. */
	} while (__builtin_expect(rc == -NAM_E_FABRIC_FULL, 0) && (nam__poll(worker), true));
	for (unsigned i = 0; rc && i < count; i++)
		landed(flights, numbers[i], rc);
	if (rc)
		return;
	counters->doorbells++;
	counters->work_requests += count;
	for (unsigned i = 0; i < count; i++)
		counters->bytes_in += wrs[i].bytes;
}

static inline int
fill(struct nam_worker *worker, struct nam__flights *flights, unsigned number, struct nam_gaddr at,
	void *local, uint32_t bytes, struct nam_wr *wr)
{
	wr->op = NAM_WR_READ;
	wr->flags = NAM_WR_SIGNALED;
	wr->bytes = bytes;
	wr->local = local;
	wr->lkey = nam__buffer_lkey(worker, local);
	wr->context = (void *)((uintptr_t)&flights->each[number] | NAM__CONTEXT_FLIGHT);
	return nam__resolve(worker, at, 0, wr);
}

void
nam__flights_read(struct nam_worker *worker, struct nam__flights *flights, unsigned number,
	struct nam_gaddr at, void *local, uint32_t bytes)
{
	uint8_t as_byte = (uint8_t)number;
	struct nam_wr wr;
	int slot = fill(worker, flights, number, at, local, bytes, &wr);

	flights->in_flight++;
	worker->current->counters->round_trips++;
	post_run(worker, flights, slot, &wr, &as_byte, 1);
}

void
nam__flights_read_all(struct nam_worker *worker, struct nam__flights *flights,
	const struct nam_gaddr *at, void *images, unsigned count, uint32_t bytes)
{
	struct nam_wr wrs[NAM__FLIGHTS_MAX], run[NAM__FLIGHTS_MAX];
	uint8_t numbers[NAM__FLIGHTS_MAX];
	int slots[NAM__FLIGHTS_MAX];
	uint32_t posted = 0;		/* bit i: flight i */

	for (unsigned i = 0; i < count; i++)
		slots[i] = fill(worker, flights, i, at[i], (uint8_t *)images + (size_t)i * bytes,
			bytes, &wrs[i]);
	flights->in_flight += count;
	worker->current->counters->round_trips++;
	for (unsigned first = 0; first < count; first++) {
		unsigned in_run = 0;

		if (posted >> first & 1)
			continue;
		for (unsigned i = first; i < count; i++) {
			if (slots[i] != slots[first])
				continue;
			posted |= 1u << i;
			numbers[in_run] = (uint8_t)i;
			run[in_run++] = wrs[i];
		}
		post_run(worker, flights, slots[first], run, numbers, in_run);
	}
}

unsigned
nam__flights_take(struct nam_worker *worker, struct nam__flights *flights)
{
	flights->task = worker->current;
	if (!flights->done_count)
		nam__poll(worker);
	if (!flights->done_count) {
		flights->waiting = true;
		nam__suspend(worker); /* SUSPENDS */
	}
	flights->in_flight--;
	return flights->done[--flights->done_count];
}
