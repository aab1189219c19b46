/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backups.h -- the backups of a member, to which clients write before they write to the member
 * (C31).
 *
 * A backup has a place among those of its member: 0 to NAM_BACKUPS_MAX - 1.  It has a slot of its
 * own, from the last one backwards, which no loop over memory servers meets.  The backups of a
 * place have a region table of their own, as their regions have the ids of the members'.
 */
#ifndef NAM_COMPUTE_BACKUP_BACKUPS_H
#define NAM_COMPUTE_BACKUP_BACKUPS_H

#include "compute/client/client_internal.h"

struct nam_view_member;
struct nam__cluster_view;

static inline uint32_t
nam__backup_slot(uint32_t slot, uint32_t place)
{
	return NAM_SERVERS_MAX - 1 - (slot * NAM_BACKUPS_MAX + place);
}

/* The boot of the backup in that place; 0: there is none. */
static inline uint64_t
nam__backup_boot(const struct nam_client *client, uint32_t slot, uint32_t place)
{
	return atomic_load_explicit(&client->servers[slot].backups[place], memory_order_acquire);
}

/* The first place with a backup, from `place` on; NAM_BACKUPS_MAX: there is none. */
static inline uint32_t
nam__backup_next(const struct nam_client *client, uint32_t slot, uint32_t place)
{
	while (place < NAM_BACKUPS_MAX && !nam__backup_boot(client, slot, place))
		place++;
	return place;
}

/* Whether what is written to the member in that slot is written to a backup first. */
static inline bool
nam__is_backed(const struct nam_client *client, uint32_t slot)
{
	return nam__backup_next(client, slot, 0) < NAM_BACKUPS_MAX;
}

/* Whether the process at that address is another one than the memory began in: perhaps a backup. */
static inline bool
nam__may_be_promoted(const struct nam_client *client, struct nam_gaddr at)
{
	uint16_t slot = nam__server_slot(client, at);

	return slot != NAM__NO_SLOT && client->servers[slot].memory != client->servers[slot].boot;
}

/*
 * The epoch thread, or a client that joins: the backups are as the view says.  Others write to the
 * member meanwhile if it keeps, loses or has none; behind its gate, if it gets one.  A failure: the
 * backup does not answer, or the lead's has an older view (-NAM_E_VIEW), and this is
 * to be called again.  Cost: connecting, 1 RPC for regions, 1 more to the lead's.
 */
NAM_FIBER_FN int nam__backup_follow(struct nam_client *client, uint32_t slot,
	const struct nam_view_member *member, const struct nam__cluster_view *view,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* ---- locks.c: lock words at a backup: it has none, until it gets the place of its member ----- */

/*
 * C32: the words that this client has at a member, at its first backup, which gets its place.
 * Nothing of this client is under way to either.  The epoch thread.  Cost: 1 round trip for each.
 */
NAM_FIBER_FN int nam__locks_take_again(struct nam_client *client, uint32_t slot) NAM_MUST_CHECK;
/* C31: words that it has, or has gone for, at the backup that the member gets: it has none. */
NAM_FIBER_FN int nam__locks_leave(struct nam_client *client, uint32_t slot,
	uint32_t place) NAM_MUST_CHECK;

/* ---- lead_backup.c --------------------------------------------------------------------------- */

/*
 * The backup of the lead becomes the lead when that has ended (C33).  Each client is registered at
 * both, so the backup knows all clients.  A client installs a view only if the backup has it, too.
 * All of this is for the epoch thread, or a client that joins.
 */

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
 * Once a tick.  If the lead's process has ended, and its backup leads, the epoch thread asks there
 * from now on (lead_slot).  Returns the number of the view in force then, else `number`.  If the
 * client has no connection to the backup, it enters again.  Cost: 1 RPC while the lead does not
 * answer.
 */
NAM_FIBER_FN uint64_t nam__lead_look(struct nam_client *client, uint64_t number);

/* The backup has got the lead's place, and the client is connected there.  Cost: 1 RPC. */
NAM_FIBER_FN int nam__lead_return(struct nam_client *client, const struct nam_view_member *lead,
	uint64_t number) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_BACKUP_BACKUPS_H */
