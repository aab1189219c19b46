/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qp.c -- the making and unmaking of queue pairs, whichever side they are on.  Attributes are those
 * of rdma_cm, except READs in flight (of the handshake), timeouts and the MTU.
 */
#include <errno.h>
#include <stdlib.h>

#include "verbs_internal.h"

int
nam__verbs_qp_create(struct verbs_domain *domain, const struct nam_qp_options *options,
	struct rdma_cm_id *id, struct verbs_qp **ret, struct nam_diag *diag)
{
	static _Atomic uint32_t serial;
	uint32_t depth = domain->pub.limits.qp_depth;
	struct verbs_qp *qp;
	int rc;

	if (!options->cq)
		return nam_diag_set(diag, -EINVAL, "verbs: a queue pair needs a completion queue");
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return nam_diag_set(diag, -ENOMEM, "verbs: no memory");
	qp->pub.ops = domain->pub.ops;
	qp->pub.user = options->user;
	qp->domain = domain;
	qp->cq = (struct verbs_cq *)options->cq;
	if (options->colocated && options->colocated->count) {
		qp->colocated = options->colocated;
		nam__shm_copy_choose(&qp->copy, &qp->copy_out);
	}
	qp->read_only = options->rights == NAM_MR_REMOTE_READ;
	qp->serial = atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed);
	rc = nam__sends_init(&qp->sends, qp->cq->depth < depth ? qp->cq->depth : depth);
	if (rc)
		goto free_qp;
	rc = nam__verbs_hold_init(qp);
	if (rc)
		goto free_sends;
	errno = 0;
	/* The watcher needs one place more. */
	qp->qp = nam__verbs_device_qp(qp, (struct verbs_rq *)options->rq, IBV_QPT_RC,
		qp->sends.depth + 1);
	if (!qp->qp) {
		rc = errno ? -errno : -ENOMEM;
		(void)nam_diag_set(diag, rc, "verbs: %s: no queue pair of %u requests: %s",
			domain->device, qp->sends.depth, nam_err_text(rc));
		goto free_hold;
	}
	qp->number = qp->qp->qp_num;
	qp->id = id;
	id->context = qp;
	*ret = qp;
	return 0;

free_hold:
	nam__verbs_hold_free(qp);
free_sends:
	nam__sends_free(&qp->sends);
free_qp:
	free(qp);
	return rc;
}

int
nam__verbs_qp_init(struct verbs_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	if (rdma_init_qp_attr(qp->id, &attr, &mask))
		return -errno;
	attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	/* The card checks them beside those of the memory, also of a WRITE of no bytes. */
	if (!qp->accepted || !qp->read_only)
		attr.qp_access_flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	return -ibv_modify_qp(qp->qp, &attr, mask);
}

int
nam__verbs_qp_start(struct verbs_qp *qp, const struct nam_cm_request *request)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask, rc;

	if (rdma_init_qp_attr(qp->id, &attr, &mask))
		return -errno;
	qp->mtu = nam__verbs_mtu((uint8_t)attr.path_mtu, (uint8_t)qp->domain->mtu, qp->mtu);
	attr.path_mtu = qp->mtu;
	if (request)
		attr.max_dest_rd_atomic = request->reads_in;
	attr.min_rnr_timer = VERBS_RNR_TIMER;
	rc = -ibv_modify_qp(qp->qp, &attr, mask);
	if (rc)
		return rc;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	if (rdma_init_qp_attr(qp->id, &attr, &mask))
		return -errno;
	if (request)
		attr.max_rd_atomic = request->reads_out;
	attr.timeout = qp->domain->soft ? VERBS_SOFT_ACK_TIMEOUT : VERBS_ACK_TIMEOUT;
	attr.retry_cnt = VERBS_RETRIES;
	attr.rnr_retry = VERBS_RNR_FOREVER;
	return -ibv_modify_qp(qp->qp, &attr, mask);
}

/* Owner thread, or a queue pair that its cq has never seen. */
void
nam__verbs_qp_destroy(struct nam_qp *pub)
{
	struct verbs_qp *qp = (struct verbs_qp *)pub;

	if (!qp)
		return;
	if (qp->unreliable_qp) {
		nam__verbs_unreliable_qp_destroy(qp);
		return;
	}
	nam__verbs_watch_remove(qp);
	nam__verbs_cq_forget(qp->cq, qp);
	/* Fails if the other side was first. */
	(void)rdma_disconnect(qp->id);
	(void)ibv_destroy_qp(qp->qp);
	(void)rdma_destroy_id(qp->id);
	nam__verbs_hold_free(qp);
	nam__sends_free(&qp->sends);
	free(qp);
}
