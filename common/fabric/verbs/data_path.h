/* SPDX-License-Identifier: Apache-2.0 */
/* data_path.h -- requests on their way to the device, and completions on their way back. */
#ifndef NAM_COMMON_FABRIC_VERBS_DATA_PATH_H
#define NAM_COMMON_FABRIC_VERBS_DATA_PATH_H

#include "verbs_internal.h"

/* ---- post.c, poll.c ------------------------------------------------------------------------ */

int nam__verbs_qp_post(struct nam_qp *qp, const struct nam_wr *wrs, unsigned count);
void nam__verbs_qp_share_near(struct nam_qp *qp, const struct nam_colocated_share *share);
int nam__verbs_cq_poll(struct nam_cq *cq, struct nam_wc *wcs, unsigned max);

/* ---- push.c -------------------------------------------------------------------------- */

/* Owner: to the device, whatever is under way.  There is room. */
void nam__verbs_qp_push(struct verbs_qp *qp, const struct nam_wr *wrs, unsigned count);
/* Owner: nothing more goes out; what is under way will be handed back. */
void nam__verbs_qp_break(struct verbs_qp *qp, int status);
/* Owner: cq_poll reports what has failed. */
void nam__verbs_qp_mark_broken(struct verbs_qp *qp);

/* ---- hold.c -------------------------------------------------------------------------- */

int nam__verbs_hold_init(struct verbs_qp *qp) NAM_MUST_CHECK;
void nam__verbs_hold_free(struct verbs_qp *qp);
/* Owner, of a queue pair with a hold: push what may go, keep the rest. */
void nam__verbs_hold_post(struct verbs_qp *qp, const struct nam_wr *wrs, unsigned count);
/* Owner: push what may go now; all of it once the queue pair is broken. */
void nam__verbs_hold_release(struct verbs_qp *qp);

static inline uint32_t
nam__verbs_hold_count(const struct verbs_qp *qp)
{
	return qp->hold.tail - qp->hold.head;
}

#endif /* NAM_COMMON_FABRIC_VERBS_DATA_PATH_H */
