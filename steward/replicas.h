/* SPDX-License-Identifier: Apache-2.0 */
/* replicas.h -- a steward starts backups, and lets them take the place of what has ended. */
#ifndef NAM_STEWARD_REPLICAS_H
#define NAM_STEWARD_REPLICAS_H

#include "pass.h"

/* The next look at members with backups is due within that time; 0: there are none. */
uint32_t nam__backups_within_ms(const struct nam__cluster_view *view);

/*
 * The change that is due as a process has ended, the member's or its backup's; or 0.  Silence is no
 * reason.  The end of a process goes before a member that joins or moves, which is given up.
 *
 * @ret_member	what the change is about
 *
 * Cost: 2 connections to each member with a backup.
 */
NAM_FIBER_FN enum nam_rpc_view_change nam__backups_due(struct nam__steward *steward,
	const struct nam__cluster_view *view, struct nam_view_member *ret_member);

/*
 * If a member lacks a backup that the view wants, and no member joins or moves: one of them gets
 * one.  That may take long: `within` is called again and again, and ends it by a failure.
 */
NAM_FIBER_FN void nam__backups_make(struct nam__steward *steward,
	const struct nam__cluster_view *view, int (*within)(struct nam__steward *steward));

#endif /* NAM_STEWARD_REPLICAS_H */
