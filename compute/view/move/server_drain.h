/* SPDX-License-Identifier: Apache-2.0 */
/* server_drain.h -- nam_server_drain() and nam_rebalance(), whatever store decides the view. */
#ifndef NAM_COMPUTE_VIEW_MOVE_SERVER_DRAIN_H
#define NAM_COMPUTE_VIEW_MOVE_SERVER_DRAIN_H

#include "compute/admin.h"
#include "compute/view/view_store.h"

/* Further errors as nam__server_add().  @store NULL: the one of the lead */
int nam__server_drain(const struct nam_client_options *options, struct nam__view_store *store,
	const char *server, nam_server_drain_fn fn, void *arg, uint32_t *ret_moved,
	struct nam_diag *diag) NAM_MUST_CHECK;
int nam__rebalance(const struct nam_client_options *options, struct nam__view_store *store,
	bool dry, nam_server_drain_fn fn, void *arg, uint32_t *ret_moved,
	struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_MOVE_SERVER_DRAIN_H */
