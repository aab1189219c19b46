/* SPDX-License-Identifier: Apache-2.0 */
/* qp.c -- the making and unmaking of queue pairs, whichever side they are on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peers.h"

int
nam__shm_qp_create(struct shm_domain *domain, const struct nam_qp_options *options,
	struct shm_qp **ret)
{
	struct shm_qp *qp;

	if (!options->cq)
		return -EINVAL;
	qp = aligned_alloc(SHM_CACHE_LINE, (sizeof(*qp) + SHM_CACHE_LINE - 1) / SHM_CACHE_LINE *
		SHM_CACHE_LINE);
	if (!qp)
		return -ENOMEM;
	memset(qp, 0, sizeof(*qp));
	qp->pub.ops = domain->pub.ops;
	qp->pub.user = options->user;
	qp->cq = (struct shm_cq *)options->cq;
	qp->rq = (struct nam__soft_rq *)options->rq;
	qp->domain = domain;
	qp->fd = -1;
	qp->index = UINT32_MAX;
	*ret = qp;
	return 0;
}

/* Owner thread, or a queue pair that its cq has never seen. */
void
nam__shm_qp_destroy(struct nam_qp *pub)
{
	struct shm_qp *qp = (struct shm_qp *)pub;

	if (!qp)
		return;
	nam__shm_watch_remove(&qp->domain->watch, qp);
	if (qp->index != UINT32_MAX)
		nam__shm_cq_forget(qp->cq, qp);
	if (qp->fd >= 0)
		close(qp->fd);
	if (qp->peer_bell)
		(void)munmap(qp->peer_bell, SHM_PAGE_BYTES);
	if (qp->rings)
		(void)munmap(qp->rings, sizeof(*qp->rings));
	if (qp->share.base)
		(void)munmap(qp->share.base, qp->share.bytes);
	if (qp->peer)
		nam__shm_peer_put(qp->domain, qp->peer);
	free(qp);
}
