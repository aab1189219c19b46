/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backups.h -- the backup of a member, to which clients write before they write to the member
 * (C31).
 *
 * A backup has a slot of its own, from the last one backwards, which no loop over memory servers
 * meets, and a region table of its own: its regions have the ids of the member's.
 */
#ifndef NAM_COMPUTE_BACKUP_BACKUPS_H
#define NAM_COMPUTE_BACKUP_BACKUPS_H

#include "compute/client/client_internal.h"

struct nam_view_member;
struct nam__cluster_view;

static inline uint32_t
nam__backup_slot(uint32_t slot)
{
	return NAM_SERVERS_MAX - 1 - slot;
}

/* Whether what is written to the member in that slot is written to a backup first. */
static inline bool
nam__is_backed(const struct nam_client *client, uint32_t slot)
{
	return atomic_load_explicit(&client->servers[slot].backup, memory_order_acquire);
}

/* Whether the process at that address is another one than the memory began in: perhaps a backup. */
static inline bool
nam__may_be_promoted(const struct nam_client *client, struct nam_gaddr at)
{
	uint16_t slot = nam__server_slot(client, at);

	return slot != NAM__NO_SLOT && client->servers[slot].memory != client->servers[slot].boot;
}

/*
 * The epoch thread, or a client that joins: the backup is as the view says.  Others write to the
 * member meanwhile if it keeps, loses or has none; behind its gate, if it gets one.  A failure: the
 * backup does not answer, or the lead's has an older view (-NAM_E_VIEW), and this is
 * to be called again.  Cost: connecting, 1 RPC for regions, 1 more to the lead's.
 */
NAM_FIBER_FN int nam__backup_follow(struct nam_client *client, uint32_t slot,
	const struct nam_view_member *member, const struct nam__cluster_view *view,
	struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_BACKUP_BACKUPS_H */
