/* SPDX-License-Identifier: Apache-2.0 */
#include "soft_rq.h"

#include <errno.h>
#include <stdlib.h>

int
nam__soft_rq_create(struct nam_domain *domain, struct nam_cq *cq, uint32_t depth,
	struct nam__soft_rq **ret)
{
	struct nam__soft_rq *rq;
	struct nam_recv *recvs;
	uint32_t capacity;

	if (depth == 0 || depth > NAM__SOFT_DEPTH_MAX)
		return -EINVAL;
	capacity = nam__round_up_power2(depth);
	rq = malloc(sizeof(*rq));
	recvs = calloc(capacity, sizeof(*recvs));
	if (!rq || !recvs) {
		free(recvs);
		free(rq);
		return -ENOMEM;
	}
	*rq = (struct nam__soft_rq){ .pub.ops = domain->ops, .cq = cq, .mask = capacity - 1,
		.depth = depth, .recvs = recvs };
	*ret = rq;
	return 0;
}

void
nam__soft_rq_destroy(struct nam__soft_rq *rq)
{
	if (rq)
		free(rq->recvs);
	free(rq);
}
