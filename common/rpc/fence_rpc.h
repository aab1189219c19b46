/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence_rpc.h -- requests about the end of a client, which is over only when it can no longer act.
 *
 * A client whose session connection closed is FENCING.  It is not alive.  It is not dead either,
 * for other queue pairs of it may be alive.  Any client makes it DEAD, in three steps.
 *
 * The lead gets CLOSE, too.  There it also fences a client that is alive, unless the fabric's
 * connections last as long as their processes do: then those have to end.
 *
 * -EAGAIN: some queue pairs are not destroyed yet; ask again.
 * -NAM_E_VIEW: another view is in force.
 * -NAM_E_TERM: the memory server has seen a higher term; a request without one is of no steward.
 */
#ifndef NAM_COMMON_RPC_FENCE_RPC_H
#define NAM_COMMON_RPC_FENCE_RPC_H

#include "rpc.h"

enum nam_rpc_fence_step {
	NAM_RPC_FENCE_NEXT = 1,		/* the lead: a client that is FENCING */
	NAM_RPC_FENCE_CLOSE,		/* refuse it from now on, and close all its queue pairs */
	/*
	 * The lead: it is DEAD, for every member of that view has closed them.  Or the lead's
	 * backup, by an admin: the lead says so.
	 */
	NAM_RPC_FENCE_PUBLISH,
};

/* With keys, CLOSE to another memory server than the lead needs the lead's voucher behind it. */
struct nam_rpc_fence_request {
	uint16_t step;			/* enum nam_rpc_fence_step */
	uint16_t client_id;		/* NEXT: those behind it come first, or 0 */
	uint16_t incarnation;		/* CLOSE: and earlier ones; NEXT: 0 */
	uint16_t reserved;
	uint64_t term;			/* of the steward that asks, or 0 */
	uint64_t view;			/* PUBLISH: the number of the view; else 0 */
};
_Static_assert(sizeof(struct nam_rpc_fence_request) == 24, "wire layout");

/* With keys, a voucher comes behind the lead's answer to CLOSE (common/auth/proof.h). */
struct nam_rpc_fence_reply {
	uint16_t client_id;		/* NEXT: 0: none is FENCING; else as asked */
	uint16_t incarnation;
	uint32_t state;			/* lead: enum nam_client_state, afterwards; else FENCING */
};
_Static_assert(sizeof(struct nam_rpc_fence_reply) == 8, "wire layout");

#endif /* NAM_COMMON_RPC_FENCE_RPC_H */
