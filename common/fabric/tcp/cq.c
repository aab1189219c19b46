/* SPDX-License-Identifier: Apache-2.0 */
/* cq.c -- completion queues and receive queues: their making, and their owners. */
#include <errno.h>
#include <stdlib.h>

#include "common/fabric/wait/wake.h"
#include "common/fabric/list.h"
#include "tcp_internal.h"

/* Room for what is posted and for what may be received; done is empty. */
static int
done_resize(struct tcp_cq *cq, uint32_t receives)
{
	uint32_t capacity = nam__round_up_power2(cq->depth + receives);
	struct tcp_done *done;

	if (cq->done && capacity <= cq->done_mask + 1)
		return 0;
	if (cq->done_head != cq->done_tail)
		return -EINVAL;
	done = calloc(capacity, sizeof(done[0]));
	if (!done)
		return -ENOMEM;
	free(cq->done);
	cq->done = done;
	cq->done_mask = capacity - 1;
	return 0;
}

int
nam__tcp_cq_create(struct nam_domain *domain, uint32_t depth, struct nam_cq **ret)
{
	struct tcp_cq *cq;
	int rc;

	if (depth == 0)
		return -EINVAL;
	if (depth > NAM__SOFT_DEPTH_MAX)
		depth = NAM__SOFT_DEPTH_MAX;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->pub.ops = domain->ops;
	cq->depth = depth;
	nam__shm_copy_choose(&cq->copy_read, &cq->copy_write);
	rc = done_resize(cq, 0);
	if (rc)
		goto free_cq;
	rc = nam__wake_epoll(0, &cq->epoll_fd, &cq->wake_fd);
	if (rc)
		goto free_done;
	(void)pthread_mutex_init(&cq->mutex, NULL);
	*ret = &cq->pub;
	return 0;

free_done:
	free(cq->done);
free_cq:
	free(cq);
	return rc;
}

void
nam__tcp_cq_destroy(struct nam_cq *pub)
{
	struct tcp_cq *cq = (struct tcp_cq *)pub;

	if (!cq)
		return;
	(void)pthread_mutex_destroy(&cq->mutex);
	close(cq->wake_fd);
	close(cq->epoll_fd);
	free(cq->done);
	free(cq);
}

void
nam__tcp_cq_wake(struct nam_cq *pub)
{
	struct tcp_cq *cq = (struct tcp_cq *)pub;

	if (!atomic_exchange_explicit(&cq->woken, 1, memory_order_acq_rel))
		nam__wake_post(cq->wake_fd);
}

int
nam__tcp_rq_create(struct nam_domain *domain, struct nam_cq *pub_cq, uint32_t depth,
	struct nam_rq **ret)
{
	struct tcp_cq *cq = (struct tcp_cq *)pub_cq;
	struct nam__soft_rq *rq;
	int rc = nam__soft_rq_create(domain, pub_cq, depth, &rq);

	if (rc)
		return rc;
	rc = done_resize(cq, cq->receives + depth);
	if (rc) {
		nam__soft_rq_destroy(rq);
		return rc;
	}
	cq->receives += depth;
	*ret = &rq->pub;
	return 0;
}

void
nam__tcp_rq_destroy(struct nam_rq *pub)
{
	struct nam__soft_rq *rq = (struct nam__soft_rq *)pub;

	if (rq)
		((struct tcp_cq *)rq->cq)->receives -= rq->depth;
	nam__soft_rq_destroy(rq);
}

int
nam__tcp_rq_post(struct nam_rq *rq, const struct nam_recv *recvs, unsigned count)
{
	return nam__soft_rq_post((struct nam__soft_rq *)rq, recvs, count);
}

void
nam__tcp_cq_arrive(struct tcp_cq *cq, struct tcp_qp *qp)
{
	qp->known = true;
	pthread_mutex_lock(&cq->mutex);
	SLIST_INSERT_HEAD(&cq->arrivals, qp, link);
	atomic_fetch_add_explicit(&cq->arrivals_count, 1, memory_order_release);
	pthread_mutex_unlock(&cq->mutex);
	nam__tcp_cq_wake(&cq->pub);
}

void
nam__tcp_cq_take_arrivals(struct tcp_cq *cq)
{
	struct tcp_qp *arrivals, *next;

	pthread_mutex_lock(&cq->mutex);
	arrivals = SLIST_FIRST(&cq->arrivals);
	SLIST_INIT(&cq->arrivals);
	atomic_store_explicit(&cq->arrivals_count, 0, memory_order_relaxed);
	pthread_mutex_unlock(&cq->mutex);
	for (; arrivals; arrivals = next) {
		struct epoll_event interest = { .events = EPOLLIN | EPOLLRDHUP };

		next = SLIST_NEXT(arrivals, link);
		SLIST_INSERT_HEAD(&cq->qps, arrivals, link);
		arrivals->arrived = true;
		interest.data.ptr = arrivals;
		/* Requests posted before the poll may have filled the socket. */
		if (arrivals->blocked)
			interest.events |= EPOLLOUT;
		/* Failed before it was ever polled for: there is nothing to hear of it. */
		if (arrivals->error)
			continue;
		if (epoll_ctl(cq->epoll_fd, EPOLL_CTL_ADD, arrivals->fd, &interest))
			nam__tcp_qp_close(arrivals, -NAM_E_FABRIC);
	}
}

/* Completions of qp that were not polled will not be reported; receive buffers are free. */
static void
forget_done(struct tcp_cq *cq, const struct tcp_qp *qp)
{
	uint32_t kept = cq->done_head;

	for (uint32_t i = cq->done_head; i != cq->done_tail; i++) {
		struct tcp_done *done = &cq->done[i & cq->done_mask];

		if (done->wc.qp != &qp->pub)
			cq->done[kept++ & cq->done_mask] = *done;
		else
			nam__tcp_done_taken(cq, done);
		if (done->wc.qp == &qp->pub && done->wc.op == NAM_WC_RECV)
			(void)nam__tcp_rq_post(&qp->rq->pub, &done->recv, 1);
	}
	cq->done_tail = kept;
}

void
nam__tcp_cq_forget(struct tcp_cq *cq, struct tcp_qp *qp)
{
	/* No other thread knows it, and the destroying thread may not be the owner. */
	if (!qp->known)
		return;
	pthread_mutex_lock(&cq->mutex);
	(void)NAM__SLIST_UNLINK(&cq->arrivals, qp, link);
	pthread_mutex_unlock(&cq->mutex);
	if (qp->arrived)
		(void)epoll_ctl(cq->epoll_fd, EPOLL_CTL_DEL, qp->fd, NULL);
	(void)NAM__SLIST_UNLINK(&cq->qps, qp, link);
	(void)NAM__SLIST_UNLINK(&cq->dirty, qp, dirty_link);
	(void)NAM__SLIST_UNLINK(&cq->stalled, qp, stalled_link);
	(void)NAM__SLIST_UNLINK(&cq->closing, qp, closing_link);
	forget_done(cq, qp);
	cq->outstanding -= qp->unreported;
}
