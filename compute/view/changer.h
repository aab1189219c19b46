/* SPDX-License-Identifier: Apache-2.0 */
/* changer.h -- a program that changes the view, round by round: it asks, and makes one change. */
#ifndef NAM_COMPUTE_VIEW_CHANGER_H
#define NAM_COMPUTE_VIEW_CHANGER_H

#include "common/cluster.h"
#include "view_store.h"

#define NAM__CHANGER_PAUSE_NS 5000000ull	/* between two looks at the view */

struct nam__changer {
	const struct nam_client_options *options;
	struct nam__view_store *store;	/* that of the options, */
	struct nam__view_store *own;	/* or this embedded one */
	struct nam_diag *diag;
	struct nam_cluster *seeds;	/* of the options */
	struct nam_client *lead;	/* asks it; NULL: has to be found */
	struct nam__cluster_view *view;	/* in force; asked last */
	bool changed;			/* the copies are of an earlier view; */
	bool changed_for_lead;		/* only that of the lead's backup matters */
};

/* All but the seeds and the store is 0 at first.  nam__changer_close() in any case. */
int nam__changer_open(struct nam__changer *changer, const struct nam_client_options *options,
	struct nam_diag *diag) NAM_MUST_CHECK;
void nam__changer_close(struct nam__changer *changer);

NAM_FIBER_FN int nam__changer_query(struct nam__changer *changer) NAM_MUST_CHECK;
/* The view in force, which is at its members.  The first client forms it. */
NAM_FIBER_FN int nam__changer_take(struct nam__changer *changer) NAM_MUST_CHECK;
/*
 * By compare-and-set.  0 also if another client has changed the view, or it does not allow that
 * now: the next round sees it.
 */
NAM_FIBER_FN int nam__changer_change(struct nam__changer *changer, enum nam_rpc_view_change what,
	const struct nam_view_member *member) NAM_MUST_CHECK;
/*
 * Work that may be longer than the lease of a store that leads: to be called now and then.  Such a
 * store is a recorded one, which asks no worker.  @store	or NULL: the embedded one
 */
int nam__changer_lease_keep(struct nam__view_store *store, struct nam_diag *diag) NAM_MUST_CHECK;
/*
 * Clients that have ended: this process fences them, as those that live do not reach a member whose
 * gate is closed.  If a memory server does not answer, the client is fenced later.
 */
NAM_FIBER_FN void nam__changer_ended_fence(const struct nam__changer *changer,
	uint64_t deadline_ns);
/* The client that has not acknowledged the view yet: "client 7 (loader, pid 4711)". */
NAM_FIBER_FN void nam__changer_delay(const struct nam__changer *changer, char *text, size_t size);

#endif /* NAM_COMPUTE_VIEW_CHANGER_H */
