/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold.c -- requests that a device must not have yet.
 *
 * Soft-RoCE (rxe, Linux 6.1) completes an ATOMIC without its answer.  A WRITE that arrives twice is
 * acknowledged with the number of the last WRITE, SEND or ATOMIC that was carried out (rxe_resp.c,
 * duplicate_request).  If that is an ATOMIC in flight, the other side takes the acknowledgement for
 * its completion (rxe_comp.c, check_ack).  A fenced request that is sent anew waits for itself
 * (rxe_req.c).  Requests are sent anew without loss, too.
 *
 * So there no ATOMIC is in flight behind a WRITE or SEND, and no fenced request behind any other.
 * It waits here, and so do all later posts, in post order.  A mutex of the queue pair keeps the
 * watcher's WRITE out between the look for it and the post.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_internal.h"

int
nam__verbs_hold_init(struct verbs_qp *qp)
{
	uint32_t capacity = qp->sends.mask + 1;

	if (!qp->domain->soft)
		return 0;
	qp->hold.mask = qp->sends.mask;
	qp->hold.wrs = calloc(capacity, sizeof(qp->hold.wrs[0]));
	qp->hold.inlined = calloc(capacity, VERBS_INLINE_BYTES);
	(void)pthread_mutex_init(&qp->hold.mutex, NULL);
	if (qp->hold.wrs && qp->hold.inlined)
		return 0;
	free(qp->hold.wrs);
	free(qp->hold.inlined);
	qp->hold.wrs = NULL;
	return -ENOMEM;
}

void
nam__verbs_hold_free(struct verbs_qp *qp)
{
	if (!qp->hold.wrs)
		return;
	(void)pthread_mutex_destroy(&qp->hold.mutex);
	free(qp->hold.wrs);
	free(qp->hold.inlined);
}

static void
keep(struct verbs_qp *qp, const struct nam_wr *wr)
{
	struct verbs_hold *hold = &qp->hold;
	uint32_t slot = hold->tail++ & hold->mask;

	hold->wrs[slot] = *wr;
	/* Longer ones are refused when their turn comes. */
	if ((wr->flags & NAM_WR_INLINE) && wr->bytes <= qp->inline_bytes) {
		uint8_t *copy = hold->inlined + (size_t)slot * VERBS_INLINE_BYTES;

		memcpy(copy, wr->local, wr->bytes);
		hold->wrs[slot].local = copy;
	}
}

/* How many of these went. */
static unsigned
push(struct verbs_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	bool watched = atomic_load_explicit(&qp->trying, memory_order_relaxed);
	unsigned n = nam__sends_may_go(&qp->sends, wrs, count, watched);

	if (n)
		nam__verbs_qp_push(qp, wrs, n);
	return n;
}

void
nam__verbs_hold_release(struct verbs_qp *qp)
{
	struct verbs_hold *hold = &qp->hold;
	unsigned count, n = 1;

	pthread_mutex_lock(&qp->hold.mutex);
	while (n && (count = nam__verbs_hold_count(qp))) {
		uint32_t slot = hold->head & hold->mask;

		if (count > hold->mask + 1 - slot)
			count = hold->mask + 1 - slot;
		n = push(qp, &hold->wrs[slot], count);
		hold->head += n;
	}
	pthread_mutex_unlock(&qp->hold.mutex);
}

void
nam__verbs_hold_post(struct verbs_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	unsigned n = 0;

	if (!nam__verbs_hold_count(qp)) {
		pthread_mutex_lock(&qp->hold.mutex);
		n = push(qp, wrs, count);
		pthread_mutex_unlock(&qp->hold.mutex);
	}
	for (; n < count; n++)
		keep(qp, &wrs[n]);
}
