/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_view.h -- the view of the cluster: asked for, formed, changed and acknowledged by
 * requests (common/rpc/view_rpc.h).  Every reply is checked before it is used (C1).
 */
#ifndef NAM_COMPUTE_CLIENT_CLUSTER_VIEW_H
#define NAM_COMPUTE_CLIENT_CLUSTER_VIEW_H

#include "common/auth/proof.h"
#include "common/rpc/view_rpc.h"
#include "compute/client/client_internal.h"

/* On the heap, to be freed with free(). */
struct nam__cluster_view {
	struct nam_view_head head;
	uint64_t acknowledged;		/* by all living clients; of the lead's answer only */
	uint16_t delaying, delaying_incarnation;	/* the client that lags; 0: none */
	uint32_t delaying_ms;		/* since its last ACK */
	/* The living client that has held back the epoch longest in silence; 0: none. */
	uint16_t silent, silent_incarnation;
	uint32_t silent_ms;
	/* The living client that has lost a member first, which is UP since; 0: none. */
	uint16_t cut, cut_incarnation, cut_from;
	uint32_t cut_ms;
	bool unclean;			/* a client has ended in the middle (C32) */
	/* The lead's, of a view that it has changed at this client's request; 0 bytes: none. */
	uint8_t voucher[NAM_VOUCHER_BYTES];
	uint32_t voucher_bytes;
	struct nam_view_member members[];	/* head.count, in the order of their ids */
};

/* With room for all members, and without any; or with those of another one.  NULL: no memory. */
struct nam__cluster_view *nam__cluster_view_new(void) NAM_MUST_CHECK;
struct nam__cluster_view *nam__cluster_view_clone(
	const struct nam__cluster_view *view) NAM_MUST_CHECK;

/*
 * The view of a memory server: the lead's is in force, others have a copy.  Number 0: it has
 * none.  0, -ENOMEM, or as nam_rpc_call().  Cost: 1 RPC for each 9 members.
 */
NAM_FIBER_FN int nam__cluster_view_get(struct nam_worker *worker, uint32_t slot,
	struct nam__cluster_view **ret_view) NAM_MUST_CHECK;

/*
 * The first view, whose lead is at that slot.  -NAM_E_VIEW: there is one.  Sets the head and the
 * voucher.
 *
 * @newest	incarnation that a client has: those that the lead gives out are above it
 */
NAM_FIBER_FN int nam__cluster_view_form(struct nam_worker *worker, uint32_t slot, uint16_t newest,
	struct nam__cluster_view *view) NAM_MUST_CHECK;

/*
 * A change of view `number`.  -NAM_E_VIEW: that is not the view in force, or not its state.
 * -NAM_E_TERM: another steward leads than the one of that term.  -NAM_E_VIEW_STORE: another store
 * decides, so it needs a term.
 *
 * @term	0: not by a steward
 */
NAM_FIBER_FN int nam__cluster_view_change(struct nam_worker *worker, uint32_t slot, uint64_t number,
	uint64_t term, enum nam_rpc_view_change change, const struct nam_view_member *member,
	struct nam_view_head *ret_head) NAM_MUST_CHECK;

/* A member of the view was restarted: the head, the voucher and that member are as it says then. */
NAM_FIBER_FN int nam__cluster_view_renew(struct nam_worker *worker, uint32_t slot,
	struct nam__cluster_view *view, struct nam_view_member *member,
	uint64_t boot) NAM_MUST_CHECK;

/*
 * To the lead.  *ret_term is the steward's, or the one that was given out.  -NAM_E_TERM: another
 * steward leads.  -NAM_E_VIEW_STORE, to ACQUIRE: another store gives out the terms.
 *
 * @lease_ms	of ACQUIRE and RENEW, else 0
 */
NAM_FIBER_FN int nam__cluster_view_steward(struct nam_worker *worker, uint32_t slot,
	enum nam_rpc_view_steward what, uint64_t term, uint32_t lease_ms,
	uint64_t *ret_term) NAM_MUST_CHECK;

/* Over the session connection: view `number` is installed, or 0; and the client lives. */
NAM_FIBER_FN int nam__cluster_view_ack(struct nam_worker *worker, uint32_t slot,
	uint64_t number) NAM_MUST_CHECK;
/* Report to the lead that the client has lost the memory server with that id and boot. */
NAM_FIBER_FN int nam__cluster_view_lost(struct nam_worker *worker, uint32_t slot, uint32_t id,
	uint64_t boot) NAM_MUST_CHECK;

/*
 * To a memory server that is not the lead.  -NAM_E_VIEW: it has a later one.  -NAM_E_FABRIC_DENIED:
 * the client is no admin, and the view has no voucher.
 */
NAM_FIBER_FN int nam__cluster_view_copy(struct nam_worker *worker, uint32_t slot,
	const struct nam__cluster_view *view) NAM_MUST_CHECK;

/* To the lead: this client changes nothing more. */
NAM_FIBER_FN int nam__cluster_view_left(struct nam_worker *worker, uint32_t slot) NAM_MUST_CHECK;

/* If its process has ended, and its backup gets its place: the boot and address of that. */
void nam__member_to_query(struct nam_view_member *member);
/* As MOVED asks for it, once all have acknowledged the PROMOTE (C32). */
void nam__promoted(const struct nam__cluster_view *view, struct nam_view_member *member);
/* The member with that id, or NULL. */
const struct nam_view_member *nam__cluster_view_find(const struct nam__cluster_view *view,
	uint32_t id);

#endif /* NAM_COMPUTE_CLIENT_CLUSTER_VIEW_H */
