/* SPDX-License-Identifier: Apache-2.0 */
/* cq.c -- completion queues and receive queues, and the queue pairs that they know. */
#include <errno.h>
#include <stdlib.h>

#include "common/fabric/wait/wake.h"
#include "common/fabric/list.h"
#include "verbs_internal.h"

#define KEEP_ALIVES 1024u		/* completions of what the watcher sends: one for each qp */

int
nam__verbs_done_open(struct verbs_done *done, struct verbs_cq *cq, uint32_t depth)
{
	errno = 0;
	done->cq = ibv_create_cq(cq->domain->verbs, (int)depth, &done->armed, cq->channel, 0);
	if (!done->cq)
		return errno ? -errno : -ENOMEM;
	/* Sends are looked at first. */
	if (done == &cq->sends)
		LIST_INSERT_HEAD(&cq->dones, done, link);
	else
		LIST_INSERT_AFTER(&cq->sends, done, link);
	return 0;
}

void
nam__verbs_done_close(struct verbs_done *done)
{
	if (!done->cq)
		return;
	LIST_REMOVE(done, link);
	(void)ibv_destroy_cq(done->cq);
}

int
nam__verbs_cq_create(struct nam_domain *pub, uint32_t depth, struct nam_cq **ret)
{
	struct verbs_domain *domain = (struct verbs_domain *)pub;
	uint32_t most = domain->cqes_max;
	struct verbs_cq *cq;
	int rc = 0;

	if (depth == 0)
		return -EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->pub.ops = domain->pub.ops;
	cq->domain = domain;
	cq->wake_fd = -1;
	/* Twice: completions of queue pairs that are gone may remain.  A small device has less. */
	cq->depth = depth;
	if (2 * (uint64_t)depth + KEEP_ALIVES < most)
		most = 2 * depth + KEEP_ALIVES;
	else
		cq->depth = most > 2 * KEEP_ALIVES ? (most - KEEP_ALIVES) / 2 : most / 2;
	(void)pthread_mutex_init(&cq->mutex, NULL);
	errno = 0;
	cq->channel = ibv_create_comp_channel(domain->verbs);
	rc = cq->channel ? nam__verbs_nonblocking(cq->channel->fd) : errno ? -errno : -ENOMEM;
	if (!rc)
		rc = nam__verbs_done_open(&cq->sends, cq, most);
	if (!rc) {
		cq->wake_fd = nam__wake_open();
		rc = cq->wake_fd < 0 ? cq->wake_fd : 0;
	}
	if (rc) {
		nam__verbs_cq_destroy(&cq->pub);
		return rc;
	}
	*ret = &cq->pub;
	return 0;
}

/* Also destroys what create could not finish. */
void
nam__verbs_cq_destroy(struct nam_cq *pub)
{
	struct verbs_cq *cq = (struct verbs_cq *)pub;

	if (!cq)
		return;
	nam__verbs_done_close(&cq->sends);
	if (cq->channel)
		(void)ibv_destroy_comp_channel(cq->channel);
	if (cq->wake_fd >= 0)
		close(cq->wake_fd);
	(void)pthread_mutex_destroy(&cq->mutex);
	free(cq);
}

int
nam__verbs_rq_create(struct nam_domain *pub, struct nam_cq *cq, uint32_t depth,
	struct nam_rq **ret)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = depth, .max_sge = 1 } };
	struct verbs_rq *rq;
	int rc = -ENOMEM;

	if (depth == 0)
		return -EINVAL;
	rq = calloc(1, sizeof(*rq));
	if (!rq)
		return rc;
	attr.srq_context = rq;
	rq->pub.ops = pub->ops;
	rq->cq = (struct verbs_cq *)cq;
	rq->depth = depth;
	LIST_INSERT_HEAD(&rq->cq->rqs, rq, link);
	errno = 0;
	rq->slots = calloc(depth, sizeof(rq->slots[0]));
	rq->free = calloc(depth, sizeof(rq->free[0]));
	if (rq->slots && rq->free)
		rq->srq = ibv_create_srq(((struct verbs_domain *)pub)->pd, &attr);
	if (rq->srq)
		rc = nam__verbs_done_open(&rq->recvs, rq->cq, depth);
	else if (errno)
		rc = -errno;
	if (rc) {
		nam__verbs_rq_destroy(&rq->pub);
		return rc;
	}
	for (uint32_t i = 0; i < depth; i++)
		rq->free[rq->free_count++] = depth - 1 - i;
	*ret = &rq->pub;
	return 0;
}

/* Also destroys what create could not finish. */
void
nam__verbs_rq_destroy(struct nam_rq *pub)
{
	struct verbs_rq *rq = (struct verbs_rq *)pub;

	if (!rq)
		return;
	LIST_REMOVE(rq, link);
	if (rq->srq)
		(void)ibv_destroy_srq(rq->srq);
	nam__verbs_done_close(&rq->recvs);
	free(rq->slots);
	free(rq->free);
	free(rq);
}

int
nam__verbs_rq_post(struct nam_rq *pub, const struct nam_recv *recvs, unsigned count)
{
	struct verbs_rq *rq = (struct verbs_rq *)pub;

	if (count > rq->free_count)
		return -NAM_E_FABRIC_FULL;
	for (unsigned i = 0; i < count; i++) {
		uint32_t slot = rq->free[rq->free_count - 1];
		struct ibv_sge sge = {
			.addr = (uintptr_t)recvs[i].buffer,
			.length = recvs[i].bytes,
			.lkey = recvs[i].lkey,
		};
		struct ibv_recv_wr wr = {
			.wr_id = slot,
			.sg_list = &sge,
			.num_sge = recvs[i].bytes ? 1 : 0,
		};
		struct ibv_recv_wr *bad;

		rq->slots[slot] = recvs[i];
		/* There is room: the queue is as deep as there are slots. */
		if (ibv_post_srq_recv(rq->srq, &wr, &bad))
			return -NAM_E_FABRIC_FULL;
		rq->free_count--;
	}
	/* Once: tell the watcher when fewer than an eighth of the buffers are left. */
	if (NAM__UNLIKELY(!rq->watched) && rq->free_count <= rq->depth / 2) {
		struct ibv_srq_attr attr = { .srq_limit = rq->depth / 8 };

		rq->watched = true;
		if (attr.srq_limit)
			(void)ibv_modify_srq(rq->srq, &attr, IBV_SRQ_LIMIT);
	}
	return 0;
}

void
nam__verbs_cq_join(struct verbs_cq *cq, struct verbs_qp *qp)
{
	pthread_mutex_lock(&cq->mutex);
	SLIST_INSERT_HEAD(&cq->joining, qp, joining_link);
	/* Pairs with the acquire in nam__verbs_cq_poll and nam__verbs_cq_find. */
	atomic_fetch_add_explicit(&cq->news, 1, memory_order_release);
	pthread_mutex_unlock(&cq->mutex);
}

bool
nam__verbs_cq_closed(struct verbs_cq *cq, struct verbs_qp *qp, int status)
{
	bool first;

	pthread_mutex_lock(&cq->mutex);
	first = !qp->closed_reported;
	if (first) {
		qp->closed_reported = true;
		qp->closed_status = status;
		SLIST_INSERT_HEAD(&cq->closed, qp, closed_link);
		atomic_fetch_add_explicit(&cq->news, 1, memory_order_release);
	}
	pthread_mutex_unlock(&cq->mutex);
	if (first)
		nam__verbs_cq_wake(&cq->pub);
	return first;
}

void
nam__verbs_cq_news(struct verbs_cq *cq)
{
	struct verbs_qp *joining, *closed, *next, *qp;

	pthread_mutex_lock(&cq->mutex);
	joining = SLIST_FIRST(&cq->joining);
	closed = SLIST_FIRST(&cq->closed);
	SLIST_INIT(&cq->joining);
	SLIST_INIT(&cq->closed);
	atomic_store_explicit(&cq->news, 0, memory_order_relaxed);
	for (qp = joining; qp; qp = SLIST_NEXT(qp, joining_link))
		qp->joined = true;
	pthread_mutex_unlock(&cq->mutex);
	for (qp = joining; qp; qp = SLIST_NEXT(qp, joining_link))
		SLIST_INSERT_HEAD(&cq->hash[qp->number & (VERBS_HASH - 1)], qp, hash_link);
	for (; closed; closed = next) {
		next = SLIST_NEXT(closed, closed_link);
		closed->closing = true;
		nam__verbs_qp_break(closed, closed->closed_status);
	}
}

struct verbs_qp *
nam__verbs_cq_find(struct verbs_cq *cq, uint32_t number)
{
	struct verbs_qp *qp;

	if (NAM__LIKELY(cq->last && cq->last->number == number))
		return cq->last;
	for (int tries = 0; tries < 2; tries++) {
		SLIST_FOREACH(qp, &cq->hash[number & (VERBS_HASH - 1)], hash_link) {
			if (qp->number == number)
				return cq->last = qp;
		}
		/* Accepted a moment ago: it joined before its peer could send anything. */
		if (!atomic_load_explicit(&cq->news, memory_order_acquire))
			break;
		nam__verbs_cq_news(cq);
	}
	return NULL;
}

void
nam__verbs_cq_forget(struct verbs_cq *cq, struct verbs_qp *qp)
{
	uint32_t removed = 0, under_way = nam__sends_count(&qp->sends) + nam__verbs_hold_count(qp);

	/* Only the owner of the queue has posted; others destroy unused queue pairs. */
	if (under_way)
		cq->outstanding -= under_way;
	pthread_mutex_lock(&cq->mutex);
	removed += NAM__SLIST_UNLINK(&cq->joining, qp, joining_link);
	removed += NAM__SLIST_UNLINK(&cq->closed, qp, closed_link);
	atomic_fetch_sub_explicit(&cq->news, removed, memory_order_relaxed);
	pthread_mutex_unlock(&cq->mutex);
	if (!qp->joined)
		return;
	(void)NAM__SLIST_UNLINK(&cq->hash[qp->number & (VERBS_HASH - 1)], qp, hash_link);
	(void)NAM__SLIST_UNLINK(&cq->broken, qp, broken_link);
	if (cq->last == qp)
		cq->last = NULL;
}
