/* SPDX-License-Identifier: Apache-2.0 */
/* server_move.h -- nam_server_move() and nam_server_back(), which their caller can end. */
#ifndef NAM_COMPUTE_VIEW_MOVE_SERVER_MOVE_H
#define NAM_COMPUTE_VIEW_MOVE_SERVER_MOVE_H

#include "compute/admin.h"

enum nam__successor {
	NAM__SUCCESSOR_MOVES,		/* it gets the place of the member's process */
	NAM__SUCCESSOR_BACKS,		/* it becomes the member's backup (C31) */
	NAM__SUCCESSOR_LEADS,		/* it becomes the lead's backup, and then the lead */
};

/*
 * As nam_server_move_fn.  A failure ends the move, and comes back.
 *
 * @stopped	clients may be waiting for what is done now
 */
typedef int (*nam__server_move_fn)(void *arg, const char *client, uint64_t bytes, bool stopped);

/*
 * Further errors, if a store outside of the cluster decides: -NAM_E_TERM: this process led, and
 * another steward does now.
 */
int nam__server_move(const struct nam_client_options *options, enum nam__successor what,
	const char *address, nam__server_move_fn fn, void *arg, struct nam_server_moved *ret_moved,
	struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * lead_move.c: the lead has a backup that counts, and this becomes the lead.  The changer asks the
 * new one afterwards.  Its store may be any.  *moved gets what is to be known of that.
 */
struct nam__changer;
NAM_FIBER_FN int nam__lead_hand_over(struct nam__changer *changer,
	struct nam_server_moved *moved) NAM_MUST_CHECK;

/*
 * replicas.c: a backup of that member, in the process that has the most to spare (--spare).  Errors
 * and cost as nam_server_back(), and -EDQUOT: none has enough.
 *
 * @address	room for that of the backup, NAM_VIEW_ADDRESS_BYTES
 */
NAM_FIBER_FN int nam__member_back(const struct nam_client_options *options, uint32_t id,
	nam__server_move_fn fn, void *arg, char *address, struct nam_server_moved *ret_moved,
	struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_MOVE_SERVER_MOVE_H */
