/* SPDX-License-Identifier: Apache-2.0 */
/* replicas.h -- a hosted backup. */
#ifndef NAM_COMPUTE_VIEW_MOVE_REPLICAS_H
#define NAM_COMPUTE_VIEW_MOVE_REPLICAS_H

#include "server_move.h"

/*
 * A backup of that member, in the process that has the most to spare (--spare).  Errors and cost as
 * nam_server_back(), and -EDQUOT: none has enough.
 *
 * @address	room for that of the backup, NAM_VIEW_ADDRESS_BYTES
 */
NAM_FIBER_FN int nam__member_back(const struct nam_client_options *options, uint32_t id,
	nam__server_move_fn fn, void *arg, char *address, struct nam_server_moved *ret_moved,
	struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_MOVE_REPLICAS_H */
