/* SPDX-License-Identifier: Apache-2.0 */
/* qp.c -- the making and unmaking of queue pairs, whichever side they are on. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tcp_internal.h"

#define REQUESTS_BYTES (sizeof(struct tcp_request) * TCP_QP_DEPTH)

static size_t
mapped_bytes(const struct tcp_qp *qp)
{
	return REQUESTS_BYTES + (size_t)qp->kept_bytes * TCP_QP_DEPTH + TCP_OUT_BYTES +
		TCP_IN_BYTES + TCP_WINDOW_BYTES;
}

int
nam__tcp_qp_create(struct tcp_domain *domain, const struct nam_qp_options *options,
	bool accepted, struct tcp_qp **ret)
{
	struct tcp_qp *qp;
	uint8_t *at;

	if (!options->cq)
		return -EINVAL;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	/* A client that does not take its replies keeps no buffer that others wait for. */
	qp->kept_bytes = accepted ? TCP_MESSAGE_BYTES : TCP_INLINE_BYTES;
	/* Unused memory is never touched and costs nothing. */
	at = mmap(NULL, mapped_bytes(qp), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED) {
		free(qp);
		return -ENOMEM;
	}
	qp->pub.ops = domain->pub.ops;
	qp->pub.user = options->user;
	qp->cq = (struct tcp_cq *)options->cq;
	qp->rq = (struct nam__soft_rq *)options->rq;
	qp->domain = domain;
	qp->fd = -1;
	qp->accepted = accepted;
	if (options->share)
		qp->share = *options->share;
	if (options->rights == NAM_MR_REMOTE_READ)
		qp->read_only = TCP_READ_ONLY;
	qp->requests = (struct tcp_request *)(void *)at;
	qp->kept = at + REQUESTS_BYTES;
	qp->out.data = qp->kept + (size_t)qp->kept_bytes * TCP_QP_DEPTH;
	qp->in = (struct tcp_stream){ .data = qp->out.data + TCP_OUT_BYTES,
		.capacity = TCP_IN_BYTES };
	qp->parked = (struct tcp_stream){ .data = qp->in.data + TCP_IN_BYTES,
		.capacity = TCP_WINDOW_BYTES };
	*ret = qp;
	return 0;
}

/* Owner thread, or a queue pair that its cq has never seen. */
void
nam__tcp_qp_destroy(struct nam_qp *pub)
{
	struct tcp_qp *qp = (struct tcp_qp *)pub;

	if (!qp)
		return;
	nam__tcp_cq_forget(qp->cq, qp);
	if (qp->fd >= 0)
		close(qp->fd);
	(void)munmap(qp->requests, mapped_bytes(qp));
	free(qp);
}
