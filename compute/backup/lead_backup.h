/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lead_backup.h -- the backup of the lead, which becomes the lead when that has ended (C33).
 *
 * Each client is registered at both, so the backup knows all clients.  A client installs a view
 * only if the backup has it, too.  All of this is for the epoch thread, or a client that joins.
 */
#ifndef NAM_COMPUTE_BACKUP_LEAD_BACKUP_H
#define NAM_COMPUTE_BACKUP_LEAD_BACKUP_H

#include "compute/client/client_internal.h"

struct nam_view_member;
struct nam__cluster_view;

/*
 * To the lead's backup, or to the lead that this has become: this client is there.  -NAM_E_VIEW: it
 * has an older view than `number`, and this is to be called again.  Cost: 1 RPC, and connecting if
 * there is no connection.
 *
 * @view	that one, which it gets if it lacks it; or NULL
 */
NAM_FIBER_FN int nam__lead_backup_enter(struct nam_client *client, uint32_t slot, uint64_t number,
	const struct nam__cluster_view *view, struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * Before a view is installed: 0 if the lead's backup has it, or if it has another backup, or none.
 * -NAM_E_VIEW: not yet.  Cost: 1 RPC, if the lead has a backup.
 */
NAM_FIBER_FN int nam__lead_backup_has(struct nam_client *client,
	const struct nam__cluster_view *view) NAM_MUST_CHECK;

/*
 * Once a tick.  If the lead's process has ended, and its backup leads: the number of the view in
 * force, and the epoch thread asks there from now on (lead_slot).  Else `number`.  If the client
 * has no connection to the backup, it enters again.  Cost: 1 RPC while the lead does not answer.
 */
NAM_FIBER_FN uint64_t nam__lead_look(struct nam_client *client, uint64_t number);

/* The backup has got the lead's place, and the client is connected there.  Cost: 1 RPC. */
NAM_FIBER_FN int nam__lead_return(struct nam_client *client, const struct nam_view_member *lead,
	uint64_t number) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_BACKUP_LEAD_BACKUP_H */
