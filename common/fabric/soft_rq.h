/* SPDX-License-Identifier: Apache-2.0 */
/* soft_rq.h -- receive queues of providers without a card: a ring of buffers of one thread. */
#ifndef NAM_COMMON_FABRIC_SOFT_RQ_H
#define NAM_COMMON_FABRIC_SOFT_RQ_H

#include <stdint.h>

#include "fabric.h"

#define NAM__SOFT_DEPTH_MAX 65536u	/* of a receive or completion queue */

struct nam__soft_rq {
	struct nam_rq pub;
	struct nam_cq *cq;
	uint32_t head, tail, mask, depth;
	struct nam_recv *recvs;
};

static inline uint32_t
nam__round_up_power2(uint32_t x)
{
	return x <= 1 ? 1 : 1u << (32 - __builtin_clz(x - 1));
}

int nam__soft_rq_create(struct nam_domain *domain, struct nam_cq *cq, uint32_t depth,
	struct nam__soft_rq **ret) NAM_MUST_CHECK;
void nam__soft_rq_destroy(struct nam__soft_rq *rq);

static inline int
nam__soft_rq_post(struct nam__soft_rq *rq, const struct nam_recv *recvs, unsigned count)
{
	if (count > rq->depth - (rq->tail - rq->head))
		return -NAM_E_FABRIC_FULL;
	for (unsigned i = 0; i < count; i++)
		rq->recvs[rq->tail++ & rq->mask] = recvs[i];
	return 0;
}

#endif /* NAM_COMMON_FABRIC_SOFT_RQ_H */
