/* SPDX-License-Identifier: Apache-2.0 */
/* promote.h -- nam_server_promote() and nam_server_unback(), whatever store decides the view. */
#ifndef NAM_COMPUTE_VIEW_MOVE_PROMOTE_H
#define NAM_COMPUTE_VIEW_MOVE_PROMOTE_H

#include "compute/admin.h"
#include "compute/view/view_store.h"

int nam__server_promote(const struct nam_client_options *options, struct nam__view_store *store,
	uint32_t id, struct nam_diag *diag) NAM_MUST_CHECK;
int nam__server_unback(const struct nam_client_options *options, struct nam__view_store *store,
	uint32_t id, struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_MOVE_PROMOTE_H */
