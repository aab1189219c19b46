/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_store.h -- where the view of a cluster is decided.
 *
 * Stewards, and programs that add memory servers, change the view by compare-and-set on its number.
 * One steward at a time leads.  The embedded store is the lead itself (embedded.c).  steward/ has
 * another one.  Clients and memory servers use neither: for them the lead's view is the view.
 */
#ifndef NAM_COMPUTE_VIEW_VIEW_STORE_H
#define NAM_COMPUTE_VIEW_VIEW_STORE_H

#include "compute/client/cluster_view.h"

struct nam__view_store;

/*
 * @lead	asks the lead, which has slot 0
 *
 * Each may also return what asking the lead, or the store, returns.  *diag then says why, unless
 * the text of the code says it all.
 */
struct nam__view_store_ops {
	/* The view in force; to be freed with free(). */
	int (*get)(struct nam__view_store *store, struct nam_worker *lead,
		struct nam__cluster_view **ret_view, struct nam_diag *diag);
	/*
	 * A change of that view, with the term if the store leads.  -NAM_E_VIEW: the view has
	 * changed, or does not allow that.  -NAM_E_TERM: this is not the steward that leads.
	 * -NAM_E_VIEW_STORE: another store decides, and *diag has the remedy.
	 */
	int (*change)(struct nam__view_store *store, struct nam_worker *lead,
		const struct nam__cluster_view *view, enum nam_rpc_view_change what,
		const struct nam_view_member *member, struct nam_diag *diag);
	/*
	 * The lead has ended, and its backup, which is known, becomes the lead: in that view, which
	 * is to be installed there.  -NAM_E_VIEW: others decide; try again.
	 *
	 * @view	the newest that any memory server has; out: the next one
	 */
	int (*succeed)(struct nam__view_store *store, struct nam__cluster_view *view,
		struct nam_diag *diag);
	/* Sets `term`.  -NAM_E_TERM: another steward leads; -NAM_E_VIEW_STORE as above. */
	int (*acquire)(struct nam__view_store *store, struct nam_worker *lead,
		struct nam_diag *diag);
	/* The lease goes on.  -NAM_E_TERM: it has ended, and the term is 0. */
	int (*renew)(struct nam__view_store *store, struct nam_worker *lead,
		struct nam_diag *diag);
	/* If it leads.  A lost release ends with the lease. */
	void (*release)(struct nam__view_store *store, struct nam_worker *lead);
	void (*close)(struct nam__view_store *store);
};

struct nam__view_store {
	const struct nam__view_store_ops *ops;
	const char *name;
	uint32_t lease_ms;
	uint64_t term;			/* 0: it does not lead */
	uint64_t lead_boot;		/* embedded: the life of the lead that gave the term */
	bool moves;			/* this process moves memory now */
	uint64_t renewed_ns;		/* when nam__changer_lease_keep() last renewed the lease */
};

struct nam__view_store *nam__view_store_embedded(uint32_t lease_ms) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_VIEW_STORE_H */
