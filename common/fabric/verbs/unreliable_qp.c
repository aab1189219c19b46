/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unreliable_qp.c -- unreliable queue pairs: one of type UC and one of type UD beside a connection.
 *
 * The client WRITEs over UC and receives over UD, the memory server the other way round.  Their
 * numbers travel as names in the handshake of the queue pair beside them, which also knows the
 * path, the port and the MTU.  If an unreliable queue pair fails, that connection closes.
 *
 *	name	bits 0 .. 23	the UC queue pair's number
 *		24 .. 47	the UD queue pair's
 *		48 .. 63	drawn for each: its first packet number and part of its key,
 *				so a packet to an earlier owner of a number finds no queue pair
 */
#include <errno.h>
#include <stdlib.h>

#include "verbs_internal.h"

#define KEY 0x4e410000u		/* not one of those that only the kernel may use */

static inline uint32_t
salt_of(uint64_t name)
{
	return (uint32_t)(name >> 48);
}

void
nam__verbs_unreliable_qp_destroy(struct verbs_qp *unreliable_qp)
{
	struct verbs_qp *other = unreliable_qp->companion;

	nam__verbs_watch_remove(unreliable_qp);
	nam__verbs_cq_forget(unreliable_qp->cq, unreliable_qp);
	if (other)
		nam__verbs_cq_forget(other->cq, other);
	if (unreliable_qp->qp)
		(void)ibv_destroy_qp(unreliable_qp->qp);
	if (other && other->qp)
		(void)ibv_destroy_qp(other->qp);
	if (unreliable_qp->ah)
		(void)ibv_destroy_ah(unreliable_qp->ah);
	nam__sends_free(&unreliable_qp->sends);
	free(other);
	free(unreliable_qp);
}

static void
number(struct verbs_qp *qp, const struct nam_qp_options *options, struct verbs_domain *domain)
{
	qp->pub.ops = domain->pub.ops;
	qp->pub.user = options->user;
	qp->domain = domain;
	qp->cq = (struct verbs_cq *)options->cq;
	qp->unreliable_qp = true;
	if (qp->qp)
		qp->number = qp->qp->qp_num;
}

int
nam__verbs_unreliable_qp_create(struct nam_domain *pub, const struct nam_qp_options *options,
	uint64_t *ret_name, struct nam_qp **ret)
{
	struct verbs_domain *domain = (struct verbs_domain *)pub;
	struct verbs_rq *rq = (struct verbs_rq *)options->rq;
	struct verbs_qp *unreliable_qp, *other;
	uint32_t depth = 4 * VERBS_BATCH;
	struct ibv_qp *uc, *ud;
	int rc = -ENOMEM;

	if (!(pub->limits.caps & NAM_CAP_UD))
		return -NAM_E_FABRIC_CAPABILITY;
	unreliable_qp = calloc(1, sizeof(*unreliable_qp));
	other = calloc(1, sizeof(*other));
	if (!unreliable_qp || !other) {
		free(unreliable_qp);
		free(other);
		return rc;
	}
	errno = 0;
	unreliable_qp->companion = other;
	unreliable_qp->receives = rq != NULL;
	other->front = unreliable_qp;
	number(unreliable_qp, options, domain);
	number(other, options, domain);
	if (depth > pub->limits.qp_depth)
		depth = pub->limits.qp_depth;
	rc = nam__sends_init(&unreliable_qp->sends, depth);
	if (rc)
		goto fail;
	rc = -ENOMEM;
	uc = nam__verbs_device_qp(unreliable_qp, NULL, IBV_QPT_UC, depth);
	ud = nam__verbs_device_qp(unreliable_qp, rq, IBV_QPT_UD, depth);
	unreliable_qp->qp = rq ? uc : ud;
	other->qp = rq ? ud : uc;
	if (!uc || !ud)
		goto fail;
	number(unreliable_qp, options, domain);
	number(other, options, domain);
	unreliable_qp->inline_bytes = pub->limits.inline_bytes;
	*ret_name = uc->qp_num | (uint64_t)ud->qp_num << 24 | nam_entropy() << 48;
	unreliable_qp->name = *ret_name;
	*ret = &unreliable_qp->pub;
	return 0;

fail:
	if (errno)
		rc = -errno;
	nam__verbs_unreliable_qp_destroy(unreliable_qp);
	return rc;
}

/* INIT, RTR and RTS, with these attributes each. */
static int
start(struct ibv_qp *qp, struct ibv_qp_attr steps[3], const int masks[3])
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	int rc = 0;

	for (unsigned i = 0; i < 3 && !rc; i++) {
		steps[i].qp_state = states[i];
		rc = -ibv_modify_qp(qp, &steps[i], IBV_QP_STATE | masks[i]);
	}
	return rc;
}

static int
start_uc(struct ibv_qp *uc, const struct ibv_qp_attr *path, uint64_t own, uint64_t peer)
{
	static const int masks[] = { IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, IBV_QP_SQ_PSN };
	struct ibv_qp_attr steps[] = {
		{
			.pkey_index = path->pkey_index,
			.port_num = path->port_num,
			.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		}, {
			.ah_attr = path->ah_attr,
			.path_mtu = path->path_mtu,
			.dest_qp_num = (uint32_t)peer & VERBS_NUMBER_MASK,
			.rq_psn = salt_of(peer),
		},
		{ .sq_psn = salt_of(own) },
	};

	return start(uc, steps, masks);
}

int
nam__verbs_start_ud(struct ibv_qp *ud, const struct ibv_qp_attr *path, uint32_t qkey, uint32_t psn)
{
	static const int masks[] = { IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0,
		IBV_QP_SQ_PSN };
	struct ibv_qp_attr steps[] = {
		{ .pkey_index = path->pkey_index, .port_num = path->port_num, .qkey = qkey },
		{ .qkey = 0 },
		{ .sq_psn = psn },
	};

	return start(ud, steps, masks);
}

int
nam__verbs_unreliable_qp_join(struct nam_qp *pub, struct nam_qp *beside, uint64_t peer)
{
	struct verbs_qp *unreliable_qp = (struct verbs_qp *)pub, *other = unreliable_qp->companion;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr path = { 0 };
	int rc = -ibv_query_qp(((struct verbs_qp *)beside)->qp, &path,
		IBV_QP_AV | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MTU, &init);

	if (rc)
		return rc;
	if (unreliable_qp->domain->pub.limits.datagram_bytes > 128u << path.path_mtu)
		return -NAM_E_FABRIC_CAPABILITY;
	rc = start_uc(unreliable_qp->receives ? unreliable_qp->qp : other->qp, &path,
		unreliable_qp->name, peer);
	if (!rc)
		rc = nam__verbs_start_ud(unreliable_qp->receives ? other->qp : unreliable_qp->qp,
			&path, KEY | salt_of(unreliable_qp->name), salt_of(unreliable_qp->name));
	if (rc)
		return rc;
	if (!unreliable_qp->receives) {
		errno = 0;
		unreliable_qp->ah = ibv_create_ah(unreliable_qp->domain->pd, &path.ah_attr);
		if (!unreliable_qp->ah)
			return errno ? -errno : -ENOMEM;
		unreliable_qp->peer_number = (uint32_t)(peer >> 24) & VERBS_NUMBER_MASK;
		unreliable_qp->peer_key = KEY | salt_of(peer);
	}
	unreliable_qp->ready = true;
	nam__verbs_watch_unreliable_qp(unreliable_qp, (struct verbs_qp *)beside);
	nam__verbs_cq_join(unreliable_qp->cq, unreliable_qp);
	nam__verbs_cq_join(other->cq, other);
	return 0;
}
