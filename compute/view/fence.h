/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h -- the end of another client (common/rpc/fence_rpc.h). */
#ifndef NAM_COMPUTE_VIEW_FENCE_H
#define NAM_COMPUTE_VIEW_FENCE_H

#include "common/rpc/fence_rpc.h"
#include "compute/client/client_internal.h"
#include "compute/client/cluster_view.h"

/*
 * Every memory server refuses a client from now on and closes its queue pairs; then it is DEAD.
 * The worker runs no fibers.
 *
 * @view	its members are asked by connections of their own, for a worker that knows the lead
 *		only.  NULL: the members of the view that the worker's client has installed
 * @term	of the steward that asks; 0
 * @ret_state	enum nam_client_state: DEAD, or UNKNOWN if the lead has never had such a client
 * @diag	which memory server was in the way, or ""
 *
 * 0; -EAGAIN: queue pairs are left after timeout_ns; -NAM_E_VIEW: another view is in force;
 * -NAM_E_TERM: of an earlier steward.  -NAM_E_FABRIC_CAPABILITY: it is alive, and its process has
 * to end.  Or a FABRIC code.  The client may be refused by some memory servers then.  Cost: 1 RPC
 * to each memory server, 2 to the lead.
 */
NAM_FIBER_FN int nam__client_fence(struct nam_worker *worker,
	const struct nam__cluster_view *view, uint16_t id, uint16_t incarnation, uint64_t term,
	uint64_t timeout_ns, uint32_t *ret_state, struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * The client behind `id` that is FENCING, round by id; 0: there is none.  The worker's client need
 * not have joined.  Cost: 1 RPC to the lead.
 */
NAM_FIBER_FN int nam__fence_next(struct nam_worker *worker, uint16_t id,
	struct nam_rpc_fence_reply *ret_next) NAM_MUST_CHECK;

/* `count` clients are FENCING, as the view word says.  The epoch thread. */
NAM_FIBER_FN void nam__fence_follow(struct nam_client *client, uint64_t count);

#endif /* NAM_COMPUTE_VIEW_FENCE_H */
