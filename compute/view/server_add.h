/* SPDX-License-Identifier: Apache-2.0 */
/* server_add.h -- nam_server_add(), whatever store decides the view. */
#ifndef NAM_COMPUTE_VIEW_SERVER_ADD_H
#define NAM_COMPUTE_VIEW_SERVER_ADD_H

#include "compute/admin.h"
#include "view_store.h"

/*
 * -NAM_E_VIEW_STORE: another store decides than this one; -NAM_E_TERM: this process led, and
 * another steward does now.
 */
int nam__server_add(const struct nam_client_options *options, struct nam__view_store *store,
	const char *address, nam_server_add_fn fn, void *arg, struct nam_server_added *ret_added,
	struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_SERVER_ADD_H */
