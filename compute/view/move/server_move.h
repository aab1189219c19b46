/* SPDX-License-Identifier: Apache-2.0 */
/* server_move.h -- nam_server_move() and nam_server_back(), whatever store decides the view. */
#ifndef NAM_COMPUTE_VIEW_MOVE_SERVER_MOVE_H
#define NAM_COMPUTE_VIEW_MOVE_SERVER_MOVE_H

#include "compute/admin.h"
#include "compute/view/view_store.h"

enum nam__successor {
	NAM__SUCCESSOR_MOVES,		/* it gets the place of the member's process */
	NAM__SUCCESSOR_BACKS,		/* it becomes the member's backup (C31) */
};

/*
 * As nam_server_move_fn.  A failure ends the move, and comes back.
 *
 * @stopped	clients may be waiting for what is done now
 */
typedef int (*nam__server_move_fn)(void *arg, const char *client, uint64_t bytes, bool stopped);

/* Further errors as nam__server_add(). */
int nam__server_move(const struct nam_client_options *options, struct nam__view_store *store,
	enum nam__successor what, const char *address, nam__server_move_fn fn, void *arg,
	struct nam_server_moved *ret_moved, struct nam_diag *diag) NAM_MUST_CHECK;

/* For callers whose function ends no move. */
struct nam__move_teller {
	nam_server_move_fn fn;		/* or NULL */
	void *arg;
};

/* @arg	struct nam__move_teller */
int nam__move_tell(void *arg, const char *client, uint64_t bytes, bool stopped);

#endif /* NAM_COMPUTE_VIEW_MOVE_SERVER_MOVE_H */
