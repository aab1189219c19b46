/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll.c -- cq_poll turns completions of the device into those of the fabric.
 *
 * The first failure of a queue pair names the reason.  Requests that the device flushes afterwards,
 * and those posted still later, complete with the same one.
 */
#include "verbs_internal.h"

#define POLL_BATCH 32

/* A client's queue pair may have failed for its own request, of which its owner has to hear. */
static void
failed(struct verbs_qp *qp)
{
	if (!qp->unreliable_qp &&
		(qp->accepted || nam_err_is(qp->sends.error, NAM_E_FABRIC_PEER_DEAD)))
		qp->closing = true;
	qp->flush_until_ns = nam_now_ns() + VERBS_FLUSH_NS;
	nam__verbs_qp_mark_broken(qp);
}

static inline void
complete(struct nam_wc *wc, struct verbs_qp *qp, const struct verbs_sent *sent, int status)
{
	wc->context = sent->context;
	wc->qp = &qp->pub;
	wc->status = status;
	wc->bytes = sent->bytes;
	wc->op = sent->op;
}

/* Failures of broken queue pairs, and then their CLOSED. */
static unsigned
report_broken(struct verbs_cq *cq, struct nam_wc *wcs, unsigned max)
{
	struct verbs_qp **at = &SLIST_FIRST(&cq->broken), *qp;
	unsigned n = 0;

	while ((qp = *at) && n < max) {
		const struct verbs_sent *sent;

		if (nam__verbs_hold_count(qp))
			nam__verbs_hold_release(qp);
		while (n < max && (sent = nam__sends_next_failed(&qp->sends))) {
			complete(&wcs[n++], qp, sent, qp->sends.error);
			cq->outstanding--;
		}
		if (n == max)
			break;
		if (nam__sends_count(&qp->sends)) {
			/* The device still has some. */
			if (qp->sends.error && nam_now_ns() >= qp->flush_until_ns)
				nam__sends_give_up(&qp->sends);
			else
				at = &SLIST_NEXT(qp, broken_link);
			continue;
		}
		*at = SLIST_NEXT(qp, broken_link);
		qp->broken = false;
		if (qp->closing && !qp->over) {
			qp->over = true;
			wcs[n++] = nam__wc_closed(&qp->pub, -NAM_E_FABRIC_PEER_DEAD);
		}
	}
	return n;
}

static unsigned
raw_poll(struct verbs_done *done, struct ibv_wc *wcs, unsigned max)
{
	unsigned kept = 0;
	int n;

	if (done->stashed) {
		wcs[0] = done->stash;
		done->stashed = false;
		kept = 1;
		if (max == 1)
			return 1;
	}
	n = ibv_poll_cq(done->cq, (int)(max - kept), wcs + kept);
	return kept + (n > 0 ? (unsigned)n : 0);
}

/* Take a completion of a posted request.  True if *to was filled. */
static inline bool
take_send(struct verbs_cq *cq, const struct ibv_wc *from, struct nam_wc *to)
{
	struct verbs_qp *qp = nam__verbs_cq_find(cq, from->qp_num);
	uint32_t position = (uint32_t)from->wr_id, head;
	const struct verbs_sent *sent;

	/* The queue pair was destroyed.  Its number may belong to another one now. */
	if (NAM__UNLIKELY(!qp || ((from->wr_id ^ nam__verbs_wr_id(qp, 0)) &
		0x7fffffff00000000ull)))
		return false;
	if (NAM__UNLIKELY(from->wr_id & VERBS_KEEP_ALIVE)) {
		atomic_store_explicit(&qp->trying, false, memory_order_release);
		if (from->status) {
			nam__verbs_qp_break(qp, nam__verbs_status(from->status));
			failed(qp);
		} else if (nam__verbs_hold_count(qp)) {
			nam__verbs_hold_release(qp);
		}
		return false;
	}
	head = qp->sends.head;
	if (NAM__UNLIKELY(from->status)) {
		nam__sends_failed(&qp->sends, position, nam__verbs_sent_status(from->status,
			qp->sends.sent[position & qp->sends.mask].op));
		cq->outstanding -= qp->sends.head - head;
		failed(qp);
		return false;
	}
	sent = nam__sends_succeeded(&qp->sends, position);
	cq->outstanding -= qp->sends.head - head;
	if (sent)
		complete(to, qp, sent, 0);
	if (NAM__UNLIKELY(nam__verbs_hold_count(qp)))
		nam__verbs_hold_release(qp);
	return sent != NULL;
}

/* Take a completed receive.  True if *to was filled. */
static bool
take_recv(struct verbs_rq *rq, const struct ibv_wc *from, struct nam_wc *to)
{
	struct verbs_qp *qp = nam__verbs_cq_find(rq->cq, from->qp_num);
	uint32_t slot = (uint32_t)from->wr_id;
	struct nam_recv recv = rq->slots[slot];

	rq->free[rq->free_count++] = slot;
	if (NAM__UNLIKELY(qp && qp->front) && !from->status) {
		*to = nam__wc_recv(&recv, &qp->front->pub,
			from->byte_len - NAM_DATAGRAM_HEADROOM);
		return true;
	}
	if (NAM__LIKELY(!from->status && qp && !qp->over)) {
		*to = nam__wc_recv(&recv, &qp->pub, from->byte_len);
		return true;
	}
	/* The buffer is its owner's again only with a message in it: back into the queue. */
	(void)nam__verbs_rq_post(&rq->pub, &recv, 1);
	if (qp && !qp->unreliable_qp && from->status && from->status != IBV_WC_WR_FLUSH_ERR) {
		qp->closing = true;
		nam__verbs_qp_break(qp, nam__verbs_status(from->status));
	}
	return false;
}

static unsigned
poll_sends(struct verbs_cq *cq, struct nam_wc *wcs, unsigned max)
{
	struct ibv_wc raw[POLL_BATCH];
	unsigned n = 0, got;

	do {
		unsigned most = max - n < POLL_BATCH ? max - n : POLL_BATCH;

		got = raw_poll(&cq->sends, raw, most);
		for (unsigned i = 0; i < got; i++)
			n += take_send(cq, &raw[i], &wcs[n]);
	} while (got && !n);
	return n;
}

/* Fewer than `max`: those are all that had arrived. */
static unsigned
poll_recvs(struct verbs_cq *cq, struct nam_wc *wcs, unsigned max)
{
	struct ibv_wc raw[POLL_BATCH];
	struct verbs_rq *rq;
	unsigned n = 0;

	LIST_FOREACH(rq, &cq->rqs, link) {
		unsigned got;

		do {
			unsigned most = max - n < POLL_BATCH ? max - n : POLL_BATCH;

			if (!most)
				return n;
			got = raw_poll(&rq->recvs, raw, most);
			for (unsigned i = 0; i < got; i++)
				n += take_recv(rq, &raw[i], &wcs[n]);
		} while (got);
	}
	return n;
}

static unsigned
poll_endpoints(struct verbs_cq *cq, struct nam_wc *wcs, unsigned max)
{
	struct verbs_endpoint *endpoint;
	struct ibv_wc raw[POLL_BATCH];
	unsigned n = 0, got;

	LIST_FOREACH(endpoint, &cq->endpoints, link) {
		bool arrived = false;

		if (n == max)
			return n;
		while ((got = raw_poll(&endpoint->done, raw, POLL_BATCH)))
			for (unsigned i = 0; i < got; i++)
				arrived |= nam__verbs_endpoint_take(endpoint, &raw[i]);
		if (NAM__UNLIKELY(endpoint->failed))
			nam__verbs_endpoint_mend(endpoint);
		if (arrived)
			wcs[n++] = (struct nam_wc){
				.context = endpoint->context,
				.op = NAM_WC_DATAGRAM,
			};
	}
	return n;
}

/*
 * Messages that arrived before a peer's end come before its CLOSED: if there is room, none is left.
 * Requests come last, since those of other queue pairs may fill every poll.
 */
static __attribute__((noinline)) unsigned
poll_broken(struct verbs_cq *cq, struct nam_wc *wcs, unsigned max)
{
	unsigned n = poll_recvs(cq, wcs, max);

	n += report_broken(cq, wcs + n, max - n);
	if (n < max)
		n += poll_sends(cq, wcs + n, max - n);
	return n + poll_endpoints(cq, wcs + n, max - n);
}

int
nam__verbs_cq_poll(struct nam_cq *pub, struct nam_wc *wcs, unsigned max)
{
	struct verbs_cq *cq = (struct verbs_cq *)pub;
	unsigned n;

	if (NAM__UNLIKELY(atomic_load_explicit(&cq->news, memory_order_acquire)))
		nam__verbs_cq_news(cq);
	if (NAM__UNLIKELY(!SLIST_EMPTY(&cq->broken)))
		return (int)poll_broken(cq, wcs, max);
	n = poll_sends(cq, wcs, max);
	n += poll_recvs(cq, wcs + n, max - n);
	n += poll_endpoints(cq, wcs + n, max - n);
	if (NAM__UNLIKELY(!SLIST_EMPTY(&cq->broken)))
		n += report_broken(cq, wcs + n, max - n);
	return (int)n;
}
