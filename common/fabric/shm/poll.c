/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll.c -- the data path: qp_post resolves and prefetches, cq_poll carries out.
 *
 * A core has room for some tens of outstanding cache lines; more prefetches hold up later work.  So
 * the prefetches of READs run ahead of their execution by a number of lines.  qp_post issues the
 * first, cq_poll the others, each with the copy of a line that has arrived.  cq_poll leaves some
 * requests for its next call, so that a caller posts more while prefetches are in flight.
 */
#include <string.h>

#include "execute.h"
#include "shm_internal.h"

#define PREFETCH_WHOLE_BYTES 4096u	/* of a longer READ only the first lines: */
#define PREFETCH_FIRST_BYTES 1024u
#define PREFETCH_WRITE_BYTES 512u
#define AHEAD_LINES 160u
#define BURST_LINES 96u			/* most that qp_post issues between two polls */
#define POLL_ALL_BELOW 4u		/* with fewer requests pending, one poll may execute all */

/* How much of a READ is prefetched. */
static inline uint32_t
ahead_bytes(const struct shm_request *request)
{
	return NAM__LIKELY(request->bytes <= PREFETCH_WHOLE_BYTES) ? request->bytes :
		PREFETCH_FIRST_BYTES;
}

static inline void
prefetch_read(const uint8_t *at, uint32_t bytes)
{
	const uint8_t *end = at + bytes;

	at = (const uint8_t *)((uintptr_t)at & ~(uintptr_t)(SHM_CACHE_LINE - 1));
	/* Eight lines a turn: the loop itself would cost as much as what it does. */
	for (; end - at >= 8 * SHM_CACHE_LINE; at += 8 * SHM_CACHE_LINE) {
		__builtin_prefetch(at, 0, 3);
		__builtin_prefetch(at + SHM_CACHE_LINE, 0, 3);
		__builtin_prefetch(at + 2 * SHM_CACHE_LINE, 0, 3);
		__builtin_prefetch(at + 3 * SHM_CACHE_LINE, 0, 3);
		__builtin_prefetch(at + 4 * SHM_CACHE_LINE, 0, 3);
		__builtin_prefetch(at + 5 * SHM_CACHE_LINE, 0, 3);
		__builtin_prefetch(at + 6 * SHM_CACHE_LINE, 0, 3);
		__builtin_prefetch(at + 7 * SHM_CACHE_LINE, 0, 3);
	}
	for (; at < end; at += SHM_CACHE_LINE)
		__builtin_prefetch(at, 0, 3);
}

static inline void
prefetch_write(const uint8_t *at, uint32_t bytes)
{
	const uint8_t *end = at + (bytes < PREFETCH_WRITE_BYTES ? bytes : PREFETCH_WRITE_BYTES);

	for (at = (const uint8_t *)((uintptr_t)at & ~(uintptr_t)(SHM_CACHE_LINE - 1)); at < end;
		at += SHM_CACHE_LINE)
		nam__prefetch_to_write(at);
}

/* NULL: the request reaches outside the peer's registered memory, or may not do that there. */
static inline uint8_t *
resolve(const struct shm_qp *qp, const struct nam_wr *wr)
{
	const struct shm_region *region;

	if (NAM__LIKELY(wr->rkey < qp->regions_count)) {
		/* Pages of a read-only region are mapped without the right to write. */
		if (NAM__UNLIKELY(((wr->rkey | qp->read_only) & SHM_READ_ONLY) &&
				wr->op != NAM_WR_READ))
			return NULL;
		region = &qp->regions[wr->rkey];
	} else if (wr->rkey == SHM_SHARE_KEY && qp->share.base) {
		region = &qp->share;
	} else {
		return NULL;
	}
	if (NAM__UNLIKELY(wr->bytes > region->bytes || wr->remote > region->bytes - wr->bytes))
		return NULL;
	return region->base + wr->remote;
}

static void
post_faulty(struct shm_request *request, int status)
{
	request->op = SHM_OP_FAIL;
	request->status = status;
}

/* INLINE: the caller may reuse its buffer at once, so take the payload now. */
static void
post_inline(struct shm_cq *cq, struct shm_request *request, uint32_t place)
{
	uint8_t *kept = cq->inline_data + (size_t)place * SHM_INLINE_BYTES;

	if (request->bytes > SHM_INLINE_BYTES) {
		post_faulty(request, -NAM_E_FABRIC_CAPABILITY);
		return;
	}
	memcpy(kept, request->local, request->bytes);
	request->local = kept;
}

/* SENDs, and what is faulty or unusual of the others. */
static __attribute__((noinline)) void
post_other(struct shm_cq *cq, struct shm_request *request, const struct nam_wr *wr)
{
	uint32_t place = (uint32_t)(request - cq->requests);

	switch (wr->op) {
	case NAM_WR_WRITE:
		if (!request->target)
			break;
		prefetch_write(request->target, wr->bytes);
		if (wr->flags & NAM_WR_INLINE)
			post_inline(cq, request, place);
		return;
	case NAM_WR_SEND:
		if (wr->bytes > SHM_MESSAGE_BYTES)
			post_faulty(request, -NAM_E_FABRIC_PROTOCOL);
		else if (wr->flags & NAM_WR_INLINE)
			post_inline(cq, request, place);
		return;
	case NAM_WR_READ:
	case NAM_WR_CAS:
	case NAM_WR_FETCH_ADD:
		break;
	default:
		post_faulty(request, -NAM_E_FABRIC_CAPABILITY);
		return;
	}
	post_faulty(request, -NAM_E_FABRIC_ACCESS);
}

/* True: a short WRITE or an atomic, as it should be, and its one line or two are prefetched. */
static inline bool
post_short(struct shm_request *request, const struct nam_wr *wr)
{
	uint8_t *target = request->target;

	if (NAM__UNLIKELY(!target))
		return false;
	if (wr->op == NAM_WR_WRITE) {
		if (NAM__UNLIKELY(wr->bytes > SHM_CACHE_LINE || (wr->flags & NAM_WR_INLINE)))
			return false;
		nam__prefetch_to_write(target);
		if (((uintptr_t)target & (SHM_CACHE_LINE - 1)) + wr->bytes > SHM_CACHE_LINE)
			nam__prefetch_to_write(target + SHM_CACHE_LINE);
		if (NAM__LIKELY(!(((uintptr_t)target | wr->bytes) & 7)))
			request->op = SHM_OP_WORDS;
		return true;
	}
	if (NAM__UNLIKELY((wr->op != NAM_WR_CAS && wr->op != NAM_WR_FETCH_ADD) || wr->bytes != 8 ||
		    ((uintptr_t)target & 7)))
		return false;
	request->compare = wr->compare;
	request->swap = wr->swap;
	nam__prefetch_to_write(target);
	return true;
}

/* The first request that was not prefetched yet: a READ, or one that post_other did prefetch. */
static __attribute__((noinline)) void
prefetch_next(struct shm_cq *cq)
{
	struct shm_request *request = &cq->requests[cq->ahead++ & cq->mask];

	if (NAM__UNLIKELY(request->op != NAM_WR_READ))
		return;
	request->lines = ahead_bytes(request) / SHM_CACHE_LINE + 1;
	cq->ahead_lines += request->lines;
	prefetch_read(request->target, ahead_bytes(request));
}

/* Two requests with the same of op, flags and bytes. */
static inline bool
matches(const struct shm_request *a, const struct shm_request *b)
{
	uint64_t words[2];

	_Static_assert(offsetof(struct shm_request, target) == 8, "what is compared");
	memcpy(&words[0], a, 8);
	memcpy(&words[1], b, 8);
	return words[0] == words[1];
}

/* Returns what to prefetch along with the copy: a later READ as long, or itself, cached already. */
static inline const uint8_t *
run_ahead(struct shm_cq *cq, const struct shm_request *request, uint32_t head, uint32_t tail)
{
	struct shm_request *next = &cq->requests[cq->ahead & cq->mask];
	const uint8_t *along = request->target;

	if (cq->ahead == tail || cq->ahead_lines >= AHEAD_LINES)
		return along;
	if (NAM__LIKELY(matches(next, request) && cq->ahead != head && request->op == NAM_WR_READ &&
		    request->bytes <= PREFETCH_WHOLE_BYTES)) {
		cq->ahead++;
		next->lines = request->lines;
		cq->ahead_lines += next->lines;
		along = next->target;
	}
	if (NAM__UNLIKELY(cq->ahead != tail && cq->ahead_lines < AHEAD_LINES))
		prefetch_next(cq);
	return along;
}

/* Whether to prefetch a READ as it is posted: not after a burst, as all line buffers are taken. */
static inline bool
prefetch_at_post(const struct shm_cq *cq)
{
	return cq->ahead == cq->tail && cq->ahead_lines < AHEAD_LINES &&
		cq->burst_lines < BURST_LINES;
}

static inline void
post_one(struct shm_cq *cq, struct shm_qp *qp, const struct nam_wr *wr)
{
	struct shm_request *request = &cq->requests[cq->tail & cq->mask];
	const uint8_t op = wr->op;

	request->op = op;
	request->flags = wr->flags;
	request->posted_op = op;
	request->bytes = wr->bytes;
	request->lines = 0;
	request->local = wr->local;
	request->context = wr->context;
	request->qp = qp;
	request->target = resolve(qp, wr);
	if (NAM__LIKELY(op == NAM_WR_READ && request->target)) {
		if (prefetch_at_post(cq)) {
			prefetch_next(cq);
			cq->burst_lines += request->lines;
		}
		cq->tail++;
		return;
	}
	/* Such requests are prefetched at once; a READ behind this one need not wait for a poll. */
	if (cq->ahead == cq->tail)
		cq->ahead++;
	cq->tail++;
	if (NAM__UNLIKELY(!post_short(request, wr)))
		post_other(cq, request, wr);
}

static __attribute__((noinline)) bool
post_prefetch(struct shm_cq *cq, const struct shm_request *request)
{
	prefetch_next(cq);
	cq->burst_lines += request->lines;
	return true;
}

/* A READ of a region, as it should be; else false. */
static inline bool
post_read(struct shm_cq *cq, struct shm_qp *qp, const struct nam_wr *wr)
{
	struct shm_request *request = &cq->requests[cq->tail & cq->mask];
	const struct shm_region *region;

	if (NAM__UNLIKELY(wr->op != NAM_WR_READ || wr->rkey >= qp->regions_count))
		return false;
	region = &qp->regions[wr->rkey];
	if (NAM__UNLIKELY(wr->bytes > region->bytes || wr->remote > region->bytes - wr->bytes))
		return false;
	request->op = NAM_WR_READ;
	request->flags = wr->flags;
	request->posted_op = NAM_WR_READ;
	request->bytes = wr->bytes;
	request->target = region->base + wr->remote;
	request->local = wr->local;
	request->context = wr->context;
	request->qp = qp;
	request->lines = 0;
	if (prefetch_at_post(cq)) {
		cq->tail++;
		return post_prefetch(cq, request);
	}
	cq->tail++;
	return true;
}

static __attribute__((noinline)) void
post_all(struct shm_cq *cq, struct shm_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		post_one(cq, qp, &wrs[i]);
}

int
nam__shm_qp_post(struct nam_qp *pub, const struct nam_wr *wrs, unsigned count)
{
	struct shm_qp *qp = (struct shm_qp *)pub;
	struct shm_cq *cq = qp->cq;

	if (NAM__UNLIKELY(cq->tail - cq->head + cq->blocked_count + (uint64_t)count > cq->depth))
		return -NAM_E_FABRIC_FULL;
	if (count != 1 || !post_read(cq, qp, wrs))
		post_all(cq, qp, wrs, count);
	return 0;
}

/* A short WRITE or a CAS, as most requests but READs are; else false. */
static inline bool
execute_short(struct shm_cq *cq, const struct shm_request *request, uint32_t tail)
{
	if (request->op == SHM_OP_WORDS)
		nam__shm_do_words(request);
	else if (request->op == NAM_WR_CAS)
		nam__shm_do_cas(request);
	else
		return false;
	if (NAM__UNLIKELY(cq->ahead != tail && cq->ahead_lines < AHEAD_LINES))
		prefetch_next(cq);
	return true;
}

/* False: it waits for the peer. */
static inline bool
execute_other(struct shm_cq *cq, struct shm_request *request, uint32_t head, uint32_t tail,
	int *ret_status)
{
	const uint8_t *ahead = run_ahead(cq, request, head, tail);

	cq->ahead_lines -= request->lines;
	if (NAM__LIKELY(request->op == NAM_WR_READ && !request->qp->slow)) {
		cq->copy_read(request->local, request->target, request->bytes, ahead);
		*ret_status = 0;
		return true;
	}
	if (request->op < NAM_WR_SEND && !request->qp->slow) {
		*ret_status = nam__shm_execute(cq, request);
		return true;
	}
	return nam__shm_execute_slow(cq, request, cq->inline_data +
		(size_t)(head & cq->mask) * SHM_INLINE_BYTES, ret_status);
}

static unsigned
execute_requests(struct shm_cq *cq, struct nam_wc *wcs, unsigned max)
{
	struct shm_request *const requests = cq->requests;
	const uint32_t mask = cq->mask, tail = cq->tail;
	uint32_t head = cq->head;
	unsigned n = 0;

	cq->burst_lines = 0;
	if (tail - head >= POLL_ALL_BELOW && max > (tail - head) / 2)
		max = (tail - head) / 2;
	while (n < max && head != tail) {
		struct shm_request *request = &requests[head & mask];
		int status = 0;

		if (NAM__UNLIKELY(request->qp->slow || !execute_short(cq, request, tail)) &&
			NAM__UNLIKELY(!execute_other(cq, request, head, tail, &status))) {
			head++;
			continue;
		}
		head++;
		if (NAM__LIKELY((request->flags & NAM_WR_SIGNALED) || status))
			nam__shm_complete(&wcs[n++], request, status);
	}
	cq->head = head;
	/* Start over at the front while nothing is pending: those lines are still cached. */
	if (head == tail)
		cq->head = cq->tail = cq->ahead = 0;
	return n;
}

/* One READ in front needs no loop.  The completion is written before the copy. */
static inline bool
execute_read(struct shm_cq *cq, struct nam_wc *wc)
{
	const uint32_t head = cq->head, tail = cq->tail;
	struct shm_request *request = &cq->requests[head & cq->mask];
	const uint8_t *ahead;

	if (head == tail || request->op != NAM_WR_READ || request->qp->slow ||
		!(request->flags & NAM_WR_SIGNALED))
		return false;
	ahead = run_ahead(cq, request, head, tail);
	cq->burst_lines = 0;
	cq->ahead_lines -= request->lines;
	nam__shm_complete(wc, request, 0);
	cq->head = head + 1;
	if (head + 1 == tail)
		cq->head = cq->tail = cq->ahead = 0;
	cq->copy_read(request->local, request->target, request->bytes, ahead);
	return true;
}

static void
request_forget(struct shm_cq *cq, uint32_t i)
{
	struct shm_request *request = &cq->requests[i & cq->mask];

	if (i - cq->head < cq->ahead - cq->head)
		cq->ahead_lines -= request->lines;
	request->lines = 0;
	request->qp = &cq->gone;
	request->op = SHM_OP_NONE;
	request->flags = 0;
}

void
nam__shm_requests_forget(struct shm_cq *cq, const struct shm_qp *qp)
{
	for (uint32_t i = cq->head; i != cq->tail; i++)
		if (cq->requests[i & cq->mask].qp == qp)
			request_forget(cq, i);
}

/* Requests of a queue pair end with its error, as far as there is room. */
static unsigned
requests_flush(struct shm_cq *cq, const struct shm_qp *qp, struct nam_wc *wcs, unsigned max)
{
	unsigned n = 0;

	for (uint32_t i = cq->head; i != cq->tail && n < max; i++) {
		const struct shm_request *request = &cq->requests[i & cq->mask];

		if (request->qp != qp)
			continue;
		nam__shm_complete(&wcs[n++], request, qp->error);
		request_forget(cq, i);
	}
	return n;
}

static inline bool
messages_may_wait(const struct shm_cq *cq)
{
	return atomic_load_explicit(&cq->bell->summary, memory_order_relaxed) ||
		(cq->ready_summary && !cq->starved);
}

/* Queue pairs whose peer went away: flush what they have, then say so. */
static unsigned
report_closed(struct shm_cq *cq, struct nam_wc *wcs, unsigned max)
{
	struct shm_qp **at = &SLIST_FIRST(&cq->closing), *qp;
	unsigned n = 0;

	while ((qp = *at) && n < max) {
		/* The requests of a flush come first; cq->retry is set. */
		if (!qp->blocked)
			n += requests_flush(cq, qp, wcs + n, max - n);
		if (qp->blocked || n == max) {
			at = &SLIST_NEXT(qp, closed_link);
			continue;
		}
		*at = SLIST_NEXT(qp, closed_link);
		qp->closing = false;
		wcs[n++] = nam__wc_closed(&qp->pub, -NAM_E_FABRIC_PEER_DEAD);
	}
	return n;
}

/* Before all else, as requests and messages of other queue pairs may fill every poll. */
static __attribute__((noinline)) unsigned
poll_closed(struct shm_cq *cq, struct nam_wc *wcs, unsigned max)
{
	unsigned n = 0;

	if (atomic_load_explicit(&cq->closed_count, memory_order_acquire))
		nam__shm_notice_closed(cq);
	if (SLIST_EMPTY(&cq->closing))
		return 0;
	if (cq->retry)
		n = nam__shm_retry_blocked(cq, wcs, max);
	return n + report_closed(cq, wcs + n, max - n);
}

/* Everything else but plain one-sided requests. */
static __attribute__((noinline)) unsigned
poll_events(struct shm_cq *cq, struct nam_wc *wcs, unsigned max)
{
	unsigned n = 0, budget = max;

	/* Leave room for requests, so that neither they nor the messages starve. */
	if (cq->head != cq->tail) {
		budget = max / 2;
		cq->turn = !cq->turn;
		if (max == 1 && cq->turn)
			budget = 1;
	}
	if (budget && messages_may_wait(cq))
		n = nam__shm_take_messages(cq, wcs, budget);
	/* All queue pairs of one queue are accepted, or none is. */
	if (cq->blocked_count && !cq->blocked[0].qp->accepted)
		nam__shm_expire_blocked(cq);
	if (cq->retry && n < max)
		n += nam__shm_retry_blocked(cq, wcs + n, max - n);
	return n;
}

/* Whether anything but one-sided requests has to be seen to. */
static inline bool
events_may_wait(struct shm_cq *cq)
{
	return messages_may_wait(cq) || cq->blocked_count || !SLIST_EMPTY(&cq->closing) ||
		atomic_load_explicit(&cq->closed_count, memory_order_relaxed);
}

/* Apart from its caller, whose quick way has no use for as many registers. */
static __attribute__((noinline)) int
poll_all(struct shm_cq *cq, struct nam_wc *wcs, unsigned max)
{
	unsigned n = 0;

	if (NAM__UNLIKELY(events_may_wait(cq))) {
		n = poll_closed(cq, wcs, max);
		n += poll_events(cq, wcs + n, max - n);
	}
	n += execute_requests(cq, wcs + n, max - n);
	return (int)n;
}

int
nam__shm_cq_poll(struct nam_cq *pub, struct nam_wc *wcs, unsigned max)
{
	struct shm_cq *cq = (struct shm_cq *)pub;

	if (max == 1 && NAM__LIKELY(!events_may_wait(cq)) && execute_read(cq, wcs))
		return 1;
	return poll_all(cq, wcs, max);
}
