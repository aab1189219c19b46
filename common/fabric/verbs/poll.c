/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll.c -- the data path: qp_post hands chains of requests to the device, cq_poll turns its
 * completions into ours.
 *
 * The last request of every doorbell is signalled, whether its poster asked for that or not: so
 * the device's send queue empties whatever is posted, and its accounts (sends.h) are exact.
 * Small WRITEs and SENDs travel inside the request, which spares the device a fetch.
 *
 * The first failure of a queue pair names the reason.  What the device flushes afterwards, and
 * what is posted still later, completes with the same one.
 */
#include <errno.h>

#include "common/guard.h"
#include "verbs_internal.h"

#define POLL_BATCH 32

/* ---- posting ------------------------------------------------------------------------------- */

/* Why the device is not even asked; 0 if it is. */
static inline int
check(const struct verbs_qp *qp, const struct nam_wr *wr)
{
	if (qp->unreliable_qp && wr->bytes > qp->domain->pub.limits.datagram_bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	switch (wr->op) {
	case NAM_WR_READ:
		break;
	case NAM_WR_SEND:
		if (wr->bytes > qp->domain->pub.limits.message_bytes)
			return -NAM_E_FABRIC_PROTOCOL;
		/* fall through */
	case NAM_WR_WRITE:
		if ((wr->flags & NAM_WR_INLINE) && wr->bytes > qp->inline_bytes)
			return -NAM_E_FABRIC_CAPABILITY;
		break;
	case NAM_WR_CAS:
	case NAM_WR_FETCH_ADD:
		return wr->bytes != 8 || (wr->remote & 7) ? -NAM_E_FABRIC_ACCESS : 0;
	default:
		return -NAM_E_FABRIC_CAPABILITY;
	}
	return wr->bytes > qp->domain->longest ? -NAM_E_FABRIC_CAPABILITY : 0;
}

static inline void
fill(const struct verbs_qp *qp, const struct nam_wr *wr, uint32_t position,
	struct ibv_send_wr *to, struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){
		.addr = (uintptr_t)wr->local,
		.length = wr->bytes,
		.lkey = wr->lkey,
	};
	to->wr_id = nam__verbs_wr_id(qp, position);
	to->sg_list = sge;
	/* A length of 0 means 2 GiB to some devices. */
	to->num_sge = wr->bytes ? 1 : 0;
	to->send_flags = (wr->flags & NAM_WR_SIGNALED ? IBV_SEND_SIGNALED : 0) |
		(wr->flags & NAM_WR_FENCE && !qp->hold.wrs ? IBV_SEND_FENCE : 0);
	to->wr.rdma.remote_addr = wr->remote;
	to->wr.rdma.rkey = wr->rkey;
	switch (wr->op) {
	case NAM_WR_READ:
		to->opcode = IBV_WR_RDMA_READ;
		return;
	case NAM_WR_CAS:
		to->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		break;
	case NAM_WR_FETCH_ADD:
		to->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		break;
	default:
		to->opcode = wr->op == NAM_WR_SEND ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
		if (wr->bytes <= qp->inline_bytes && wr->bytes)
			to->send_flags |= IBV_SEND_INLINE;
		if (VERBS_UNLIKELY(qp->ah != NULL)) {
			to->wr.ud.ah = qp->ah;
			to->wr.ud.remote_qpn = qp->peer_number;
			to->wr.ud.remote_qkey = qp->peer_key;
		}
		return;
	}
	to->wr.atomic.remote_addr = wr->remote;
	to->wr.atomic.compare_add = wr->compare;
	to->wr.atomic.swap = wr->swap;
	to->wr.atomic.rkey = wr->rkey;
}

static void
mark_broken(struct verbs_qp *qp)
{
	if (qp->broken)
		return;
	qp->broken = true;
	qp->next_broken = qp->cq->broken;
	qp->cq->broken = qp;
	atomic_store_explicit(&qp->dead, true, memory_order_relaxed);
}

/* Hand the first `count` requests of cq->wrs to the device; they lie from `position` on. */
static void
ring(struct verbs_qp *qp, uint32_t position, unsigned count)
{
	struct verbs_cq *cq = qp->cq;
	struct ibv_send_wr *bad = NULL;
	int rc;

	for (unsigned i = 0; i + 1 < count; i++)
		cq->wrs[i].next = &cq->wrs[i + 1];
	cq->wrs[count - 1].next = NULL;
	cq->wrs[count - 1].send_flags |= IBV_SEND_SIGNALED;
	rc = ibv_post_send(qp->qp, cq->wrs, &bad);
	if (VERBS_LIKELY(!rc))
		return;
	/* Our accounts leave room for all, so the device has another reason, and gives no other. */
	nam__sends_take_back(&qp->sends, position + (uint32_t)(bad ? bad - cq->wrs : 0),
		rc == EINVAL ? -NAM_E_FABRIC_CAPABILITY : -NAM_E_FABRIC);
	nam__verbs_qp_break(qp, qp->sends.refused);
}

static inline void
push(struct verbs_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	struct verbs_sends *sends = &qp->sends;
	struct verbs_cq *cq = qp->cq;
	uint32_t first = sends->tail;
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++) {
		uint32_t position = nam__sends_add(sends, &wrs[i]);
		int status;

		if (VERBS_UNLIKELY(!nam__sends_open(sends)))
			continue;
		status = check(qp, &wrs[i]);
		if (VERBS_UNLIKELY(status)) {
			nam__sends_refuse(sends, status);
			continue;
		}
		fill(qp, &wrs[i], position, &cq->wrs[n], &cq->sges[n]);
		if (++n == VERBS_BATCH) {
			ring(qp, first, n);
			first = position + 1;
			n = 0;
		}
	}
	if (n)
		ring(qp, first, n);
	if (VERBS_UNLIKELY(!nam__sends_open(sends)))
		mark_broken(qp);
}

void
nam__verbs_qp_push(struct verbs_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	push(qp, wrs, count);
}

/* ---- this host's memory --------------------------------------------------------------------- */

/* Where so many bytes at `offset` of one of `size` are, or NULL. */
static inline const uint8_t *
inside(const uint8_t *base, uint64_t size, uint64_t offset, uint32_t bytes)
{
	return base && offset <= size && bytes <= size - offset ? base + offset : NULL;
}

/* Where the processor finds what a request is about, or NULL. */
static inline const uint8_t *
local_target(const struct verbs_qp *qp, const struct nam_wr *wr, bool alone)
{
	const struct nam_colocated_share *share = qp->share;

	if (share && share->rkey == wr->rkey && (wr->op == NAM_WR_READ || wr->op == NAM_WR_WRITE))
		return inside(share->base, share->bytes, wr->remote - share->remote, wr->bytes);
	if (wr->op != NAM_WR_READ || !alone)
		return NULL;
	for (uint32_t i = 0; i < qp->local->count; i++) {
		const struct nam_colocated_region *region = &qp->local->regions[i];
		const uint8_t *at = inside(region->base, region->bytes,
			wr->remote - region->remote, wr->bytes);

		if (region->rkey == wr->rkey && at)
			return at;
	}
	return NULL;
}

/*
 * The processor's copy is ordered behind nothing that the device has under way, and the memory of
 * a peer that is gone must not be read for longer than it takes to hear of that: whatever is not as
 * simple as can be goes to the device.  Frames in a share say themselves which they are.
 */
static bool
copy_locally(struct verbs_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	const uint8_t *target = NULL, *next;
	bool alone = !NAM_GUARD(LOCAL_ORDER) ||
		!(nam__sends_count(&qp->sends) + nam__verbs_hold_count(qp));

	if (!nam__sends_open(&qp->sends) || qp->broken || qp->closing || qp->over ||
		atomic_load_explicit(&qp->cq->news, memory_order_acquire))
		return false;
	for (unsigned i = count; i--;) {
		target = local_target(qp, &wrs[i], alone);
		if (!target)
			return false;
	}
	for (unsigned i = 0; i < count; i++, target = next) {
		next = i + 1 < count ? local_target(qp, &wrs[i + 1], alone) : target;
		if (wrs[i].op == NAM_WR_READ)
			qp->copy(wrs[i].local, target, wrs[i].bytes, next);
		else	/* only the share is ever written, whose base is no constant */
			qp->copy_out((uint8_t *)(uintptr_t)target, wrs[i].local, wrs[i].bytes);
	}
	return true;
}

void
nam__verbs_qp_share_near(struct nam_qp *pub, const struct nam_colocated_share *share)
{
	struct verbs_qp *qp = (struct verbs_qp *)pub;

	/* Who may not copy regions may not copy this. */
	if (qp->local)
		qp->share = share;
}

int
nam__verbs_qp_post(struct nam_qp *pub, const struct nam_wr *wrs, unsigned count)
{
	struct verbs_qp *qp = (struct verbs_qp *)pub;
	uint64_t under_way = nam__sends_count(&qp->sends) + nam__verbs_hold_count(qp);

	if (VERBS_UNLIKELY(qp->local != NULL) && copy_locally(qp, wrs, count))
		return NAM_POSTED_LOCAL;
	/* Nothing arrives before both ends are joined, and nothing has to. */
	if (VERBS_UNLIKELY(qp->unreliable_qp && !qp->ready))
		return -NAM_E_FABRIC_FULL;
	if (VERBS_UNLIKELY(under_way + count > qp->sends.depth ||
		qp->cq->outstanding + (uint64_t)count > qp->cq->depth))
		return -NAM_E_FABRIC_FULL;
	qp->cq->outstanding += count;
	if (VERBS_LIKELY(!qp->hold.wrs))
		push(qp, wrs, count);
	else
		nam__verbs_hold_post(qp, wrs, count);
	/* The watcher wants to know that there was traffic; only this thread counts. */
	atomic_store_explicit(&qp->posts,
		atomic_load_explicit(&qp->posts, memory_order_relaxed) + 1, memory_order_relaxed);
	return 0;
}

/* ---- failing ------------------------------------------------------------------------------- */

void
nam__verbs_qp_break(struct verbs_qp *qp, int status)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	nam__sends_break(&qp->sends, status);
	qp->flush_until_ns = nam_now_ns() + VERBS_FLUSH_NS;
	mark_broken(qp);
	(void)ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE);
}

/*
 * A server's queue pair that fails is of no more use to anyone, whatever the reason; a client's may
 * have failed for what it asked, and its owner still has to hear of that.
 */
static void
failed(struct verbs_qp *qp)
{
	if (!qp->unreliable_qp &&
		(qp->accepted || nam_err_is(qp->sends.error, NAM_E_FABRIC_PEER_DEAD)))
		qp->closing = true;
	qp->flush_until_ns = nam_now_ns() + VERBS_FLUSH_NS;
	mark_broken(qp);
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

/* What failed on broken queue pairs, and then that they are closed. */
static unsigned
report_broken(struct verbs_cq *cq, struct nam_wc *wcs, unsigned max)
{
	struct verbs_qp **at = &cq->broken;
	unsigned n = 0;

	while (*at && n < max) {
		struct verbs_qp *qp = *at;
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
				at = &qp->next_broken;
			continue;
		}
		*at = qp->next_broken;
		qp->broken = false;
		if (qp->closing && !qp->over) {
			qp->over = true;
			wcs[n++] = (struct nam_wc){
				.qp = &qp->pub,
				.status = -NAM_E_FABRIC_PEER_DEAD,
				.op = NAM_WC_CLOSED,
			};
		}
	}
	return n;
}

/* ---- completions --------------------------------------------------------------------------- */

static unsigned
raw_poll(struct ibv_cq *cq, struct ibv_wc *stash, bool *stashed, struct ibv_wc *wcs, unsigned max)
{
	unsigned kept = 0;
	int n;

	if (*stashed) {
		wcs[0] = *stash;
		*stashed = false;
		kept = 1;
		if (max == 1)
			return 1;
	}
	n = ibv_poll_cq(cq, (int)(max - kept), wcs + kept);
	return kept + (n > 0 ? (unsigned)n : 0);
}

/* One completion of what was posted.  True if *to was filled. */
static inline bool
take_send(struct verbs_cq *cq, const struct ibv_wc *from, struct nam_wc *to)
{
	struct verbs_qp *qp = nam__verbs_cq_find(cq, from->qp_num);
	uint32_t position = (uint32_t)from->wr_id, head;
	const struct verbs_sent *sent;

	/* Of a queue pair that was destroyed, or whose number belongs to another one now. */
	if (VERBS_UNLIKELY(!qp || ((from->wr_id ^ nam__verbs_wr_id(qp, 0)) &
		0x7fffffff00000000ull)))
		return false;
	if (VERBS_UNLIKELY(from->wr_id & VERBS_KEEP_ALIVE)) {
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
	if (VERBS_UNLIKELY(from->status)) {
		nam__sends_failed(&qp->sends, position, nam__verbs_status(from->status));
		cq->outstanding -= qp->sends.head - head;
		failed(qp);
		return false;
	}
	sent = nam__sends_succeeded(&qp->sends, position);
	cq->outstanding -= qp->sends.head - head;
	if (sent)
		complete(to, qp, sent, 0);
	if (VERBS_UNLIKELY(nam__verbs_hold_count(qp)))
		nam__verbs_hold_release(qp);
	return sent != NULL;
}

/* One receive.  True if *to was filled. */
static bool
take_recv(struct verbs_rq *rq, const struct ibv_wc *from, struct nam_wc *to)
{
	struct verbs_qp *qp = nam__verbs_cq_find(rq->cq, from->qp_num);
	uint32_t slot = (uint32_t)from->wr_id;
	struct nam_recv recv = rq->slots[slot];

	rq->free[rq->free_count++] = slot;
	if (VERBS_UNLIKELY(qp && qp->front) && !from->status) {
		*to = (struct nam_wc){
			.context = recv.context,
			.qp = &qp->front->pub,
			.bytes = from->byte_len - NAM_DATAGRAM_HEADROOM,
			.op = NAM_WC_RECV,
		};
		return true;
	}
	if (VERBS_LIKELY(!from->status && qp && !qp->over)) {
		*to = (struct nam_wc){
			.context = recv.context,
			.qp = &qp->pub,
			.bytes = from->byte_len,
			.op = NAM_WC_RECV,
		};
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

		got = raw_poll(cq->sends, &cq->stash, &cq->stashed, raw, most);
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
	unsigned n = 0;

	for (struct verbs_rq *rq = cq->rqs; rq; rq = rq->next) {
		unsigned got;

		do {
			unsigned most = max - n < POLL_BATCH ? max - n : POLL_BATCH;

			if (!most)
				return n;
			got = raw_poll(rq->recvs, &rq->stash, &rq->stashed, raw, most);
			for (unsigned i = 0; i < got; i++)
				n += take_recv(rq, &raw[i], &wcs[n]);
		} while (got);
	}
	return n;
}

int
nam__verbs_cq_poll(struct nam_cq *pub, struct nam_wc *wcs, unsigned max)
{
	struct verbs_cq *cq = (struct verbs_cq *)pub;
	unsigned n;

	if (VERBS_UNLIKELY(atomic_load_explicit(&cq->news, memory_order_acquire)))
		nam__verbs_cq_news(cq);
	n = poll_sends(cq, wcs, max);
	n += poll_recvs(cq, wcs + n, max - n);
	/*
	 * What had arrived before a peer went away comes before its CLOSED: where there is still
	 * room for that, no message is left.
	 */
	if (VERBS_UNLIKELY(cq->broken != NULL))
		n += report_broken(cq, wcs + n, max - n);
	return (int)n;
}
