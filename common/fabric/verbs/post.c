/* SPDX-License-Identifier: Apache-2.0 */
/* post.c -- qp_post: requests go to the device, to hold.c, or are copies of this host's memory. */
#include "common/guard.h"
#include "verbs_internal.h"

/* Where so many bytes at `offset` of one of `size` are, or NULL. */
static inline const uint8_t *
inside(const uint8_t *base, uint64_t size, uint64_t offset, uint32_t bytes)
{
	return base && offset <= size && bytes <= size - offset ? base + offset : NULL;
}

/* Where the processor finds what a request is about, or NULL. */
static inline const uint8_t *
colocated_target(const struct verbs_qp *qp, const struct nam_wr *wr, bool alone)
{
	const struct nam_colocated_share *share = qp->share;

	if (share && share->rkey == wr->rkey && (wr->op == NAM_WR_READ || wr->op == NAM_WR_WRITE))
		return inside(share->base, share->bytes, wr->remote - share->remote, wr->bytes);
	if (wr->op != NAM_WR_READ || !alone)
		return NULL;
	for (uint32_t i = 0; i < qp->colocated->count; i++) {
		const struct nam_colocated_region *region = &qp->colocated->regions[i];
		const uint8_t *at = inside(region->base, region->bytes,
			wr->remote - region->remote, wr->bytes);

		if (atomic_load_explicit(&region->rkey, memory_order_relaxed) == wr->rkey && at)
			return at;
	}
	return NULL;
}

/*
 * The processor's copy is not ordered behind requests in flight.  The memory of a dead peer must
 * not be read for longer than the notice of its death takes.  So all but the simplest case goes to
 * the device (E3).  Frames in a share have numbers.
 */
static bool
copy_colocated(struct verbs_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	const uint8_t *target = NULL, *next;
	bool alone = !NAM_GUARD(COLOCATED_ORDER) ||
		!(nam__sends_count(&qp->sends) + nam__verbs_hold_count(qp));

	if (!nam__sends_open(&qp->sends) || qp->broken || qp->closing || qp->over ||
		atomic_load_explicit(&qp->cq->news, memory_order_acquire))
		return false;
	for (unsigned i = count; i--;) {
		target = colocated_target(qp, &wrs[i], alone);
		if (!target)
			return false;
	}
	for (unsigned i = 0; i < count; i++, target = next) {
		next = i + 1 < count ? colocated_target(qp, &wrs[i + 1], alone) : target;
		if (wrs[i].op == NAM_WR_READ)
			qp->copy(wrs[i].local, target, wrs[i].bytes, next);
		else	/* only the share is ever written, whose base is no constant */
			qp->copy_out((uint8_t *)(uintptr_t)target, wrs[i].local, wrs[i].bytes);
	}
	return true;
}

void
nam__verbs_qp_share_near(struct nam_qp *pub, const struct nam_colocated_share *share)
{
	struct verbs_qp *qp = (struct verbs_qp *)pub;

	/* A client that may not copy regions may not copy this. */
	if (qp->colocated)
		qp->share = share;
}

int
nam__verbs_qp_post(struct nam_qp *pub, const struct nam_wr *wrs, unsigned count)
{
	struct verbs_qp *qp = (struct verbs_qp *)pub;
	uint64_t under_way = nam__sends_count(&qp->sends) + nam__verbs_hold_count(qp);

	if (NAM__UNLIKELY(qp->colocated != NULL) && copy_colocated(qp, wrs, count))
		return NAM_POSTED_COLOCATED;
	/* Nothing arrives before both ends are joined, and nothing has to. */
	if (NAM__UNLIKELY(qp->unreliable_qp && !qp->ready))
		return -NAM_E_FABRIC_FULL;
	if (NAM__UNLIKELY(under_way + count > qp->sends.depth ||
		qp->cq->outstanding + (uint64_t)count > qp->cq->depth))
		return -NAM_E_FABRIC_FULL;
	qp->cq->outstanding += count;
	if (NAM__LIKELY(!qp->hold.wrs))
		nam__verbs_qp_push(qp, wrs, count);
	else
		nam__verbs_hold_post(qp, wrs, count);
	/* The watcher wants to know that there was traffic; only this thread counts. */
	atomic_store_explicit(&qp->posts,
		atomic_load_explicit(&qp->posts, memory_order_relaxed) + 1, memory_order_relaxed);
	return 0;
}
