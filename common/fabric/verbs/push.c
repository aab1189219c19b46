/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push.c -- requests become those of the device, behind one doorbell.
 *
 * The last request of every doorbell is signalled, so the device's send queue empties.
 */
#include <errno.h>

#include "verbs_internal.h"

/* Why the device is not even asked; 0 if it is. */
static inline int
request_check(const struct verbs_qp *qp, const struct nam_wr *wr)
{
	const struct verbs_domain *domain = qp->domain;

	if (qp->unreliable_qp && wr->bytes > domain->pub.limits.datagram_bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	return nam__wr_check(wr, domain->longest, domain->pub.limits.message_bytes,
		qp->inline_bytes);
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
		if (NAM__UNLIKELY(qp->ah != NULL)) {
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

void
nam__verbs_qp_mark_broken(struct verbs_qp *qp)
{
	if (qp->broken)
		return;
	qp->broken = true;
	SLIST_INSERT_HEAD(&qp->cq->broken, qp, broken_link);
	atomic_store_explicit(&qp->dead, true, memory_order_relaxed);
}

void
nam__verbs_qp_break(struct verbs_qp *qp, int status)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	nam__sends_break(&qp->sends, status);
	qp->flush_until_ns = nam_now_ns() + VERBS_FLUSH_NS;
	nam__verbs_qp_mark_broken(qp);
	(void)ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE);
}

/* Hand the first `count` requests of cq->wrs to the device; they lie from `position` on. */
static void
to_device(struct verbs_qp *qp, uint32_t position, unsigned count)
{
	struct verbs_cq *cq = qp->cq;
	struct ibv_send_wr *bad = NULL;
	int rc;

	for (unsigned i = 0; i + 1 < count; i++)
		cq->wrs[i].next = &cq->wrs[i + 1];
	cq->wrs[count - 1].next = NULL;
	cq->wrs[count - 1].send_flags |= IBV_SEND_SIGNALED;
	rc = ibv_post_send(qp->qp, cq->wrs, &bad);
	if (NAM__LIKELY(!rc))
		return;
	/* Our accounts leave room for all, so the device has another reason, and gives no other. */
	nam__sends_take_back(&qp->sends, position + (uint32_t)(bad ? bad - cq->wrs : 0),
		rc == EINVAL ? -NAM_E_FABRIC_CAPABILITY : -NAM_E_FABRIC);
	nam__verbs_qp_break(qp, qp->sends.refused);
}

void
nam__verbs_qp_push(struct verbs_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	struct verbs_sends *sends = &qp->sends;
	struct verbs_cq *cq = qp->cq;
	uint32_t first = sends->tail;
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++) {
		uint32_t position = nam__sends_add(sends, &wrs[i]);
		int status;

		if (NAM__UNLIKELY(!nam__sends_open(sends)))
			continue;
		status = request_check(qp, &wrs[i]);
		if (NAM__UNLIKELY(status)) {
			nam__sends_refuse(sends, status);
			continue;
		}
		fill(qp, &wrs[i], position, &cq->wrs[n], &cq->sges[n]);
		if (++n == VERBS_BATCH) {
			to_device(qp, first, n);
			first = position + 1;
			n = 0;
		}
	}
	if (n)
		to_device(qp, first, n);
	if (NAM__UNLIKELY(!nam__sends_open(sends)))
		nam__verbs_qp_mark_broken(qp);
}
