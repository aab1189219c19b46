/* SPDX-License-Identifier: Apache-2.0 */
/* succession.h -- the lead gets a backup, which becomes the lead when that has ended (C33). */
#ifndef NAM_COMPUTE_VIEW_SUCCESSION_H
#define NAM_COMPUTE_VIEW_SUCCESSION_H

#include "common/cluster.h"
#include "compute/view/changer.h"

/*
 * A prober of the lead.  If that has ended, and has a backup that all clients know, the backup is
 * made the lead: PROMOTE is in force there, and MOVED is still to come.
 *
 * 0, or as nam__lead_find(): there is no such backup, or it is not known that the lead has ended.
 * Cost: as nam__lead_find(); or 2 RPCs and connecting for each member, and 2 for the backup.
 *
 * @known	a view that was in force, or NULL
 * @ret_made	whether it has been made the lead now
 */
NAM_FIBER_FN int nam__lead_open(const struct nam_client_options *options,
	const struct nam_cluster *seeds, struct nam__view_store *store,
	const struct nam__cluster_view *known, bool *ret_made, struct nam_client **ret_lead,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* The catalog passes to the lead's backup, which has the books.  Clients have stopped. */
NAM_FIBER_FN int nam__lead_names_copy(struct nam_worker *from, struct nam_worker *to,
	struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * Until all clients know the lead's backup with that boot, and the view says so; or it has another
 * one, or none.  -NAM_E_FABRIC_TIMEOUT: one has not acknowledged it; to be called again.
 *
 * @within	called now and then; its failure ends this
 */
NAM_FIBER_FN int nam__lead_backup_known(struct nam__changer *changer, uint64_t boot,
	uint64_t timeout_ns, int (*within)(void *arg), void *arg) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_SUCCESSION_H */
