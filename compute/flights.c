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

void
nam__flights_read(struct nam_worker *worker, struct nam__flights *flights, unsigned number,
	struct nam_gaddr at, void *local, uint32_t bytes)
{
	struct nam_op_counters *counters = worker->current->counters;
	struct nam_wr wr;
	int rc, slot = nam__resolve(worker, at, 0, &wr);

	flights->in_flight++;
	wr.op = NAM_WR_READ;
	wr.flags = NAM_WR_SIGNALED;
	wr.bytes = bytes;
	wr.local = local;
	wr.lkey = nam__buffer_lkey(worker, local);
	wr.context = (void *)((uintptr_t)&flights->each[number] | NAM__CONTEXT_FLIGHT);
	do {
		struct nam_qp *qp = slot < 0 ? NULL : worker->qps[slot];

		rc = slot < 0 ? slot : -NAM_E_FABRIC_PEER_DEAD;
		if (qp)
			rc = worker->qp_post(qp, &wr, 1);
		/* A full queue pair empties as its requests complete. */
	} while (__builtin_expect(rc == -NAM_E_FABRIC_FULL, 0) && (nam__poll(worker), true));
	if (__builtin_expect(rc != 0, 0)) {
		landed(flights, number, rc);
		return;
	}
	counters->round_trips++;
	counters->doorbells++;
	counters->work_requests++;
	counters->bytes_in += bytes;
}

unsigned
nam__flights_take(struct nam_worker *worker, struct nam__flights *flights)
{
	if (!flights->done_count)
		nam__poll(worker);
	if (!flights->done_count) {
		flights->waiting = true;
		nam__suspend(worker); /* SUSPENDS */
	}
	flights->in_flight--;
	return flights->done[--flights->done_count];
}
