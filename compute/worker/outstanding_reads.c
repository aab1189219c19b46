/* SPDX-License-Identifier: Apache-2.0 */
/* outstanding_reads.c -- outstanding_reads.h, but for what is in line there. */
#include "outstanding_reads.h"

#include <limits.h>

static inline void
landed(struct nam__outstanding_reads *outstanding, unsigned number, int status)
{
	if (__builtin_expect(status && !outstanding->rc, 0))
		outstanding->rc = status;
	outstanding->done |= 1u << number;
}

static inline void
completed(struct nam_worker *worker, struct nam__outstanding_read *read, const struct nam_wc *wc)
{
	struct nam__outstanding_reads *outstanding = read->outstanding;

	landed(outstanding, (unsigned)(read - outstanding->each), wc->status);
	if (outstanding->waiting) {
		outstanding->waiting = false;
		nam__task_ready(worker, outstanding->task);
	}
}

static void
read_completed(struct nam_worker *worker, struct nam__completion *completion,
	const struct nam_wc *wc)
{
	completed(worker, (struct nam__outstanding_read *)completion, wc);
}

void
nam__outstanding_init(struct nam__outstanding_reads *outstanding, struct nam_worker *worker)
{
	outstanding->task = worker->current;
	outstanding->in_flight = 0;
	outstanding->done = 0;
	outstanding->waiting = false;
	outstanding->others_first = false;
	outstanding->rc = 0;
	for (unsigned i = 0; i < NAM__OUTSTANDING_MAX; i++) {
		outstanding->each[i].completion.completed = read_completed;
		outstanding->each[i].outstanding = outstanding;
	}
}

/* The result of qp_post for one server's READs; failures show as they are taken.  False: local. */
static inline bool
posted(struct nam_worker *worker, struct nam__outstanding_reads *outstanding,
	const struct nam_wr *wrs, const uint8_t *numbers, unsigned count, int rc)
{
	struct nam_op_counters *counters = worker->current->counters;

	for (unsigned i = 0; rc && i < count; i++)
		landed(outstanding, numbers[i], rc < 0 ? rc : 0);
	if (__builtin_expect(rc == NAM_POSTED_COLOCATED, 0)) {
		outstanding->others_first = true;
		counters->colocated_reads += count;
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
post_run(struct nam_worker *worker, struct nam__outstanding_reads *outstanding, int slot,
	struct nam_wr *wrs, const uint8_t *numbers, unsigned count)
{
	int rc;

	do {
		rc = slot < 0 ? slot : 0;
		if (!rc && !worker->qps[slot])
			rc = nam__qp_open_for(worker, (uint32_t)slot, wrs, count);
		rc = rc ?: worker->qp_post(worker->qps[slot], wrs, count);
		/* A full queue pair empties as its requests complete. */
	} while (__builtin_expect(rc == -NAM_E_FABRIC_FULL, 0) && (nam__poll(worker), true));
	return posted(worker, outstanding, wrs, numbers, count, rc);
}

/* A task that finds its READs done has not waited, so others have their turn. */
NAM_FIBER_FN static inline void
let_others(struct nam_worker *worker, struct nam__outstanding_reads *outstanding)
{
	if (__builtin_expect(outstanding->others_first, 0)) {
		outstanding->others_first = false;
		nam_worker_yield(worker); /* SUSPENDS */
	}
}

bool
nam__outstanding_read_posted_otherwise(struct nam_worker *worker,
	struct nam__outstanding_reads *outstanding, unsigned number, int slot, struct nam_wr *wr,
	int rc)
{
	uint8_t as_byte = (uint8_t)number;

	if (rc == -NAM_E_FABRIC_FULL)
		return post_run(worker, outstanding, slot, wr, &as_byte, 1);
	return posted(worker, outstanding, wr, &as_byte, 1, rc);
}

static inline void *
image_of(const struct nam__outstanding_post *post, unsigned number)
{
	return (uint8_t *)post->images + (size_t)number * post->bytes;
}

/* True unless all were local.  Their common part is filled in once. */
static bool
read_in_order(struct nam_worker *worker, struct nam__outstanding_reads *outstanding,
	const struct nam__outstanding_post *post, unsigned first, unsigned count)
{
	unsigned number = first, on_their_way = 0;
	bool sent = !count;
	struct nam_wr wr;

	nam__wr_begin(&wr, NAM_WR_READ, NAM_WR_SIGNALED);
	wr.bytes = post->bytes;
	wr.lkey = nam__buffer_lkey(worker, post->images);
	for (unsigned i = 0; i < count; i++, number = (number + 1) & (post->size - 1)) {
		int slot = nam__resolve(worker, post->at[number], 0, post->bytes, &wr), rc;

		wr.local = image_of(post, number);
		wr.context = nam__outstanding_read_context(outstanding, number);
		rc = nam__outstanding_read_try(worker, slot, &wr);
		if (__builtin_expect(rc == 0, 1))
			on_their_way++;
		else
			sent |= nam__outstanding_read_posted_otherwise(worker, outstanding, number,
				slot, &wr, rc);
	}
	nam__outstanding_count(worker, on_their_way, post->bytes);
	return sent || on_their_way;
}

/* A turn for each server: the first of those left, and whatever else is on the same. */
static bool
read_by_servers(struct nam_worker *worker, struct nam__outstanding_reads *outstanding,
	const struct nam__outstanding_post *post, unsigned first, unsigned count)
{
	struct nam_wr run[NAM__OUTSTANDING_MAX];
	uint8_t numbers[NAM__OUTSTANDING_MAX];
	uint32_t left = count < 32 ? (1u << count) - 1 : UINT32_MAX;	/* bit i: first + i */
	bool sent = !count;

	while (left) {
		int slot = INT_MIN;
		unsigned in_run = 0;

		for (uint32_t rest = left; rest; rest &= rest - 1) {
			unsigned i = (unsigned)__builtin_ctz(rest);
			unsigned number = (first + i) & (post->size - 1);
			int its_slot = nam__outstanding_read_fill(worker, outstanding, number,
				post->at[number], image_of(post, number), post->bytes,
				&run[in_run]);

			if (slot == INT_MIN)
				slot = its_slot;
			if (its_slot != slot)
				continue;
			left &= ~(1u << i);
			numbers[in_run++] = (uint8_t)number;
		}
		sent |= post_run(worker, outstanding, slot, run, numbers, in_run);
	}
	return sent;
}

void
nam__outstanding_read_many(struct nam_worker *worker, struct nam__outstanding_reads *outstanding,
	const struct nam__outstanding_post *post, unsigned first, unsigned count)
{
	bool sent;

	outstanding->in_flight += count;
	if (worker->in_post_order)
		sent = read_in_order(worker, outstanding, post, first, count);
	else
		sent = read_by_servers(worker, outstanding, post, first, count);
	nam__outstanding_turn(worker, outstanding);
	worker->current->counters->round_trips += sent;
}

/* ---- completions -------------------------------------------------------------------------- */

/* With more in flight than this, completions that are awaited in order are taken one by one. */
#define OUTSTANDING_FEW 8u
/* Taken at a time otherwise: few, so that work on each overlaps with the others' misses. */
#define OUTSTANDING_POLL 4u
_Static_assert(OUTSTANDING_POLL >= NAM__POLL_BATCH, "room for either");

static inline void
take(struct nam_worker *worker, const struct nam_wc *wc)
{
	uintptr_t context = (uintptr_t)wc->context;

	if ((context & NAM__CONTEXT_MASK) == NAM__CONTEXT_OUTSTANDING_READ &&
		wc->op < NAM_WC_RECV && !wc->status)
		completed(worker, (void *)(context & ~(uintptr_t)NAM__CONTEXT_MASK), wc);
	else
		nam__completed(worker, wc);
}

/* Take completions, at most OUTSTANDING_POLL, which are mostly outstanding reads. */
static inline int
poll_outstanding(struct nam_worker *worker, unsigned max)
{
	struct nam_wc wcs[OUTSTANDING_POLL];
	int count;

	/* nam__poll() looks for replies and watches the deadlines of calls, too. */
	if (__builtin_expect(!SLIST_EMPTY(&worker->calls), 0))
		return nam__poll(worker);
	count = worker->cq_poll(worker->cq, wcs, max);
	for (int i = 0; i < count; i++)
		take(worker, &wcs[i]);
	nam__closings_see_to(worker);
	return count;
}

void
nam__outstanding_wait(struct nam_worker *worker, struct nam__outstanding_reads *outstanding)
{
	outstanding->task = worker->current;
	let_others(worker, outstanding); /* SUSPENDS */
	if (!outstanding->done)
		poll_outstanding(worker, OUTSTANDING_POLL);
	while (!outstanding->done) {
		outstanding->waiting = true;
		nam__suspend(worker); /* SUSPENDS */
	}
}

/* Work on each READ overlaps with the cache misses of the next; with many, one by one is best. */
NAM_FIBER_FN static __attribute__((noinline)) void
await(struct nam_worker *worker, struct nam__outstanding_reads *outstanding, unsigned number)
{
	outstanding->task = worker->current;
	let_others(worker, outstanding); /* SUSPENDS */
	while (!(outstanding->done >> number & 1)) {
		unsigned max = outstanding->in_flight <= OUTSTANDING_FEW ? NAM__POLL_BATCH : 1;

		if (poll_outstanding(worker, max) > 0 && STAILQ_EMPTY(&worker->ready))
			continue;
		if (outstanding->done >> number & 1)
			break;
		outstanding->waiting = true;
		nam__suspend(worker); /* SUSPENDS */
	}
	outstanding->done &= ~(1u << number);
	outstanding->in_flight--;
}

/* Mostly the next completion is the awaited one, and no other work is left. */
void
nam__outstanding_await(struct nam_worker *worker, struct nam__outstanding_reads *outstanding,
	unsigned number)
{
	struct nam_wc wc;

	if (__builtin_expect(outstanding->in_flight > OUTSTANDING_FEW &&
		!outstanding->others_first && SLIST_EMPTY(&worker->calls) &&
		!(outstanding->done >> number & 1), 1) &&
		worker->cq_poll(worker->cq, &wc, 1) == 1) {
		bool is_it = wc.context == nam__outstanding_read_context(outstanding, number) &&
			!wc.status && wc.op < NAM_WC_RECV;

		if (!is_it)
			take(worker, &wc);
		nam__closings_see_to(worker);
		if (__builtin_expect(is_it, 1)) {
			outstanding->in_flight--;
			return;
		}
	}
	await(worker, outstanding, number); /* SUSPENDS */
}
