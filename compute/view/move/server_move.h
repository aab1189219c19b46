/* SPDX-License-Identifier: Apache-2.0 */
/* server_move.h -- nam_server_move(), whatever store decides the view. */
#ifndef NAM_COMPUTE_VIEW_MOVE_SERVER_MOVE_H
#define NAM_COMPUTE_VIEW_MOVE_SERVER_MOVE_H

#include "compute/admin.h"
#include "compute/view/view_store.h"

/* Further errors as nam__server_add(). */
int nam__server_move(const struct nam_client_options *options, struct nam__view_store *store,
	const char *address, nam_server_move_fn fn, void *arg, struct nam_server_moved *ret_moved,
	struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_MOVE_SERVER_MOVE_H */
