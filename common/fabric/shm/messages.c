/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.c -- what cq_poll does besides one-sided requests: messages, full rings, dead peers.
 *
 * A SEND that finds its ring full moves to cq->blocked.  Every later request of that queue pair
 * does the same, so they take effect in post order.  The receiver wakes the sender when it has made
 * room.
 *
 * If a peer makes no room for the time-out of the domain, its SENDs are not sent, and end with
 * TIMEOUT.  Requests behind them go on, and the queue pair stays whole.  Memory servers wait
 * without end.
 *
 * While an accepted queue pair has requests in cq->blocked, its messages are not taken.  So a
 * client that takes no replies ties up only one ring's worth of buffers.  Clients do take messages,
 * or two full rings could wait for each other.
 */
#include <string.h>

#include "execute.h"
#include "shm_internal.h"

/* In one visit, so that a busy queue pair does not keep the others waiting. */
#define TAKE_MAX 8

void
nam__shm_qp_fail(struct shm_qp *qp, int error)
{
	if (!qp->error)
		qp->error = error;
	qp->slow = 1;
	if (qp->blocked)
		qp->cq->retry = true;
}

/* True if the request is done. */
static bool
try_request(struct shm_cq *cq, struct shm_request *request, int *ret_status)
{
	struct shm_qp *qp = request->qp;

	if (request->op == SHM_OP_NONE) {
		*ret_status = 0;
		return true;
	}
	if (qp->error || request->op == SHM_OP_LATE) {
		*ret_status = qp->error ? qp->error : -NAM_E_FABRIC_TIMEOUT;
		return true;
	}
	if (request->op == NAM_WR_SEND) {
		int rc = nam__shm_ring_send(qp, request->local, request->bytes);

		if (rc == -NAM_E_FABRIC_FULL)
			return false;
		*ret_status = rc;
	} else {
		*ret_status = nam__shm_execute(cq, request);
	}
	if (*ret_status)
		nam__shm_qp_fail(qp, *ret_status);
	return true;
}

static uint8_t *
blocked_inline(const struct shm_cq *cq, uint32_t place)
{
	return cq->blocked_inline + (size_t)place * SHM_INLINE_BYTES;
}

/* A request, and its payload if that lies in `inline_data`, into a place of cq->blocked. */
static void
block(struct shm_cq *cq, uint32_t place, const struct shm_request *request,
	const uint8_t *inline_data)
{
	cq->blocked[place] = *request;
	if (request->local != inline_data)
		return;
	cq->blocked[place].local = blocked_inline(cq, place);
	memcpy(cq->blocked[place].local, inline_data, request->bytes);
}

/* Move an entry of the blocked queue pairs. */
static void
block_again(struct shm_cq *cq, uint32_t to, uint32_t from)
{
	if (to != from)
		block(cq, to, &cq->blocked[from], blocked_inline(cq, from));
}

bool
nam__shm_execute_slow(struct shm_cq *cq, struct shm_request *request, const uint8_t *inline_data,
	int *ret_status)
{
	if (!request->qp->blocked && try_request(cq, request, ret_status))
		return true;
	block(cq, cq->blocked_count++, request, inline_data);
	if (!request->qp->blocked++)
		request->qp->blocked_ns = nam_now_ns();
	request->qp->slow = 1;
	return false;
}

void
nam__shm_expire_blocked(struct shm_cq *cq)
{
	uint64_t now = nam_now_ns();

	for (uint32_t i = 0; i < cq->blocked_count; i++) {
		struct shm_qp *qp = cq->blocked[i].qp;

		if (cq->blocked[i].op != NAM_WR_SEND ||
			now - qp->blocked_ns <= (qp->domain->pub.timeout_ns ?: SHM_CONNECT_NS))
			continue;
		cq->blocked[i].op = SHM_OP_LATE;
		cq->retry = true;
	}
}

unsigned
nam__shm_retry_blocked(struct shm_cq *cq, struct nam_wc *wcs, unsigned max)
{
	uint32_t kept = 0, count = cq->blocked_count;
	uint64_t stuck[SHM_BELL_WORDS] = { 0 };
	bool out_of_room = false;
	unsigned n = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct shm_request *request = &cq->blocked[i];
		struct shm_qp *qp = request->qp;
		uint64_t bit = 1ull << qp->index % 64;
		int status = 0;

		if (n == max)
			out_of_room = true;
		if (out_of_room || (stuck[qp->index / 64] & bit) ||
			!try_request(cq, request, &status)) {
			stuck[qp->index / 64] |= bit;
			block_again(cq, kept++, i);
			continue;
		}
		if (--qp->blocked)
			qp->blocked_ns = nam_now_ns();
		if (!qp->blocked && !qp->error) {
			qp->slow = 0;
			/* We did not listen while it was blocked. */
			if (qp->accepted) {
				cq->ready[qp->index / 64] |= bit;
				cq->ready_summary |= 1ull << qp->index / 64;
				cq->starved = false;
			}
		}
		if ((request->flags & NAM_WR_SIGNALED) || status)
			nam__shm_complete(&wcs[n++], request, status);
	}
	cq->blocked_count = kept;
	cq->retry = out_of_room;
	return n;
}

void
nam__shm_blocked_forget(struct shm_cq *cq, const struct shm_qp *qp)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < cq->blocked_count; i++)
		if (cq->blocked[i].qp != qp)
			block_again(cq, kept++, i);
	cq->blocked_count = kept;
}

static void
collect_bell(struct shm_cq *cq)
{
	uint64_t summary;

	if (!atomic_load_explicit(&cq->bell->summary, memory_order_relaxed))
		return;
	/* Pairs with the release in nam__shm_bell_post, so the tails of rings are current. */
	summary = atomic_exchange_explicit(&cq->bell->summary, 0, memory_order_acquire);
	/* A peer may have written bits that do not exist. */
	summary &= (1ull << SHM_BELL_WORDS) - 1;
	for (; summary; summary &= summary - 1) {
		unsigned word = (unsigned)__builtin_ctzll(summary);
		uint64_t bits = atomic_exchange_explicit(&cq->bell->bits[word], 0,
			memory_order_acquire);

		cq->ready[word] |= bits;
		if (cq->ready[word])
			cq->ready_summary |= 1ull << word;
		if (bits)
			cq->starved = false;
	}
}

/* The first ready index at or after `from`, or SHM_QPS_MAX. */
static uint32_t
next_ready(const struct shm_cq *cq, uint32_t from)
{
	uint32_t word = from / 64;
	uint64_t bits;

	if (from >= SHM_QPS_MAX)
		return SHM_QPS_MAX;
	bits = cq->ready[word] & ~0ull << from % 64;
	while (!bits) {
		if (++word == SHM_BELL_WORDS)
			return SHM_QPS_MAX;
		bits = cq->ready[word];
	}
	return word * 64 + (uint32_t)__builtin_ctzll(bits);
}

static void
clear_ready(struct shm_cq *cq, uint32_t index)
{
	cq->ready[index / 64] &= ~(1ull << index % 64);
	if (!cq->ready[index / 64])
		cq->ready_summary &= ~(1ull << index / 64);
}

/* A peer that breaks the protocol is treated as gone: its owner destroys the queue pair. */
static void
condemn(struct shm_qp *qp)
{
	struct shm_cq *cq = qp->cq;

	nam__shm_qp_fail(qp, -NAM_E_FABRIC_PROTOCOL);
	(void)shutdown(qp->fd, SHUT_RDWR);	/* the watcher will report it */
	clear_ready(cq, qp->index);
}

/* Take what one queue pair has sent.  *progress: it is not waiting for a receive buffer. */
static unsigned
take_from(struct shm_cq *cq, struct shm_qp *qp, struct nam_wc *wcs, unsigned max, bool *progress)
{
	struct nam__soft_rq *rq = qp->rq;
	unsigned n = 0;
	int waiting;

	if (qp->blocked)
		cq->retry = true;
	if (qp->error || !rq || (qp->accepted && qp->blocked)) {
		clear_ready(cq, qp->index);
		*progress = true;
		return 0;
	}
	waiting = nam__shm_ring_waiting(qp);
	if (waiting < 0) {
		condemn(qp);
		*progress = true;
		return 0;
	}
	while (n < max && n < TAKE_MAX && n < (unsigned)waiting && rq->head != rq->tail) {
		struct nam_recv *recv = &rq->recvs[rq->head & rq->mask];
		int bytes = nam__shm_ring_take(qp, recv->buffer, recv->bytes);

		if (bytes < 0) {
			condemn(qp);
			*progress = true;
			return n;
		}
		rq->head++;
		wcs[n++] = nam__wc_recv(recv, &qp->pub, (uint32_t)bytes);
	}
	if (n)
		nam__shm_ring_give_back(qp);
	if (n == (unsigned)waiting)
		clear_ready(cq, qp->index);
	if (n == (unsigned)waiting || rq->head != rq->tail)
		*progress = true;
	return n;
}

unsigned
nam__shm_take_messages(struct shm_cq *cq, struct nam_wc *wcs, unsigned max)
{
	uint32_t index, from = cq->next_index;
	bool progress = false, wrapped = false;
	unsigned n = 0;

	collect_bell(cq);
	while (n < max) {
		struct shm_qp *qp;

		index = next_ready(cq, from);
		if (index >= (wrapped ? cq->next_index : SHM_QPS_MAX)) {
			if (wrapped)
				break;
			wrapped = true;
			from = 0;
			continue;
		}
		from = index + 1;
		/* Pairs with the release in nam__shm_cq_publish. */
		qp = atomic_load_explicit(&cq->qps[index], memory_order_acquire);
		if (!qp || qp == &cq->gone) {
			clear_ready(cq, index);
			progress = true;
			continue;
		}
		n += take_from(cq, qp, wcs + n, max - n, &progress);
	}
	cq->next_index = from % SHM_QPS_MAX;
	/* All ready queue pairs wait for receive buffers: sleep until some are posted. */
	if (cq->ready_summary && n == 0 && !progress)
		cq->starved = true;
	return n;
}

void
nam__shm_notice_closed(struct shm_cq *cq)
{
	struct shm_qp *closed, *next;

	pthread_mutex_lock(&cq->mutex);
	closed = SLIST_FIRST(&cq->closed);
	SLIST_INIT(&cq->closed);
	atomic_store_explicit(&cq->closed_count, 0, memory_order_relaxed);
	pthread_mutex_unlock(&cq->mutex);
	for (; closed; closed = next) {
		next = SLIST_NEXT(closed, closed_link);
		nam__shm_qp_fail(closed, -NAM_E_FABRIC_PEER_DEAD);
		closed->closing = true;
		SLIST_INSERT_HEAD(&cq->closing, closed, closed_link);
	}
}
