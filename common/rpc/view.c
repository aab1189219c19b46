/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.c -- how each change turns one view into the next.
 *
 * The lead, and stores that decide in its place, apply the same rules.  Only the lead knows which
 * clients have acknowledged a view.
 */
#include "view_rpc.h"

#include <stdbool.h>
#include <string.h>

#include "common/gaddr.h"

const char *const nam_rpc_view_changes[] = {
	NULL,
	[NAM_RPC_VIEW_ADD] = "add",
	[NAM_RPC_VIEW_UP] = "up",
	[NAM_RPC_VIEW_ABORT] = "abort",
	[NAM_RPC_VIEW_RENEW] = "renew",
	[NAM_RPC_VIEW_MOVE] = "move",
	[NAM_RPC_VIEW_MOVED] = "moved",
	[NAM_RPC_VIEW_NOTE] = "note",
	[NAM_RPC_VIEW_BACKED] = "backed",
	[NAM_RPC_VIEW_UNBACKED] = "unbacked",
	[NAM_RPC_VIEW_PROMOTE] = "promote",
	[NAM_RPC_VIEW_BACKUPS] = "backups",
	[NAM_RPC_VIEW_REMOVE] = "remove",
	NULL,
};

/* The first member whose id is not less; the count if there is none. */
static uint32_t
lower_bound(const struct nam_view_head *head, const struct nam_view_member *members, uint32_t id)
{
	uint32_t at = 0;

	while (at < head->count && members[at].id < id)
		at++;
	return at;
}

const struct nam_view_member *
nam_view_find(const struct nam_view_head *head, const struct nam_view_member *members, uint32_t id)
{
	uint32_t at = lower_bound(head, members, id);

	return at < head->count && members[at].id == id ? &members[at] : NULL;
}

const struct nam_view_member *
nam_view_in_state(const struct nam_view_head *head, const struct nam_view_member *members,
	enum nam_view_state state)
{
	for (uint32_t i = 0; i < head->count; i++)
		if (members[i].state == state)
			return &members[i];
	return NULL;
}

const struct nam_view_member *
nam_view_leaving(const struct nam_view_head *head, const struct nam_view_member *members)
{
	return nam_view_in_state(head, members, NAM_VIEW_COPYING) ?:
		nam_view_in_state(head, members, NAM_VIEW_MOVING) ?:
		nam_view_in_state(head, members, NAM_VIEW_PROMOTING);
}

/* A member joins or moves.  Only one member does so at a time. */
static bool
is_busy(const struct nam_view_head *head, const struct nam_view_member *members)
{
	return nam_view_in_state(head, members, NAM_VIEW_JOINING) ||
		nam_view_leaving(head, members);
}

static bool
has_backup_at(const struct nam_view_member *member, const char *address)
{
	for (uint32_t i = 0; i < NAM_BACKUPS_MAX; i++)
		if (!strcmp(member->backups[i].address, address))
			return true;
	return false;
}

/* Another member than the one that is asked for, or its backup, has that address. */
static bool
is_taken(const struct nam_view_head *head, const struct nam_view_member *members,
	const struct nam_view_member *asked)
{
	for (uint32_t i = 0; i < head->count; i++)
		if (members[i].id != asked->id && (!strcmp(members[i].address, asked->address) ||
				has_backup_at(&members[i], asked->address)))
			return true;
	return false;
}

bool
nam_view_was_removed(const struct nam_view_head *head, uint32_t id)
{
	return head->removed[id / 8] >> id % 8 & 1;
}

/* ---- backups --------------------------------------------------------------------------------- */

const struct nam_view_backup *
nam_view_backup(const struct nam_view_member *member)
{
	for (uint32_t i = 0; i < NAM_BACKUPS_MAX; i++)
		if (member->backups[i].boot)
			return &member->backups[i];
	return NULL;
}

uint32_t
nam_view_backups(const struct nam_view_member *member)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < NAM_BACKUPS_MAX; i++)
		count += member->backups[i].boot != 0;
	return count;
}

/* C33: clients register at the lead's backup, too, and know one of them. */
uint32_t
nam_view_backups_max(const struct nam_view_head *head, const struct nam_view_member *member)
{
	return member->id == head->lead ? 1 : NAM_BACKUPS_MAX;
}

const struct nam_view_backup *
nam_view_backup_find(const struct nam_view_member *member, uint64_t boot)
{
	for (uint32_t i = 0; boot && i < NAM_BACKUPS_MAX; i++)
		if (member->backups[i].boot == boot)
			return &member->backups[i];
	return NULL;
}

static void
unback(struct nam_view_member *member, uint64_t boot)
{
	member->known = 0;
	for (uint32_t i = 0; i < NAM_BACKUPS_MAX; i++)
		if (member->backups[i].boot == boot)
			memset(&member->backups[i], 0, sizeof(member->backups[i]));
}

/* ---- each change ----------------------------------------------------------------------------- */

static bool
add(struct nam_view_head *head, struct nam_view_member *members,
	const struct nam_view_member *asked)
{
	struct nam_view_member *member = &members[lower_bound(head, members, asked->id)];

	if (head->count == NAM_SERVERS_MAX || is_busy(head, members) ||
		is_taken(head, members, asked) || nam_view_was_removed(head, asked->id))
		return false;
	memmove(member + 1, member, (size_t)(members + head->count - member) * sizeof(*member));
	*member = *asked;
	member->wanted = 0;
	member->state = NAM_VIEW_JOINING;
	member->since = member->renewed = 0;
	member->memory = asked->boot;
	member->known = 0;
	memset(member->backups, 0, sizeof(member->backups));
	head->count++;
	return true;
}

static void
take_out(struct nam_view_head *head, const struct nam_view_member *members,
	struct nam_view_member *member)
{
	head->count--;
	memmove(member, member + 1, (size_t)(members + head->count - member) * sizeof(*member));
}

/* C20: the id has names of memory that is lost, so no other memory gets it. */
static bool
remove_member(struct nam_view_head *head, const struct nam_view_member *members,
	struct nam_view_member *member, uint64_t boot)
{
	if (member->id == head->lead || nam_view_backup(member) || member->boot != boot ||
		is_busy(head, members))
		return false;
	head->removed[member->id / 8] |= (uint8_t)(1u << member->id % 8);
	take_out(head, members, member);
	return true;
}

/* The member becomes UP, or all clients know the backup of the lead. */
static bool
come_up(const struct nam_view_head *head, struct nam_view_member *member, uint64_t boot,
	uint64_t number)
{
	if (member->id == head->lead && member->state == NAM_VIEW_UP && member->boot == boot &&
		nam_view_backup(member) && !member->known) {
		member->known = 1;
		return true;
	}
	if (member->state != NAM_VIEW_JOINING || member->boot != boot)
		return false;
	member->state = NAM_VIEW_UP;
	member->since = member->renewed = number;
	return true;
}

/* The member does not join, or does not move.  Or its backup does not count any more. */
static bool
give_up(struct nam_view_head *head, const struct nam_view_member *members,
	struct nam_view_member *member)
{
	if (member->state == NAM_VIEW_UP && member->known) {
		member->known = 0;
		return true;
	}
	if (member->state == NAM_VIEW_UP || member->state == NAM_VIEW_PROMOTING)
		return false;
	if (member->state != NAM_VIEW_JOINING) {
		member->state = NAM_VIEW_UP;
		return true;
	}
	take_out(head, members, member);
	return true;
}

/*
 * The life of the lead is the life of its view.  Memory that has moved away does not come back.
 * Memory that a backup has is not given up.
 */
static bool
renew(const struct nam_view_head *head, struct nam_view_member *member, uint64_t boot,
	uint64_t number)
{
	if (member->state == NAM_VIEW_JOINING || member->id == head->lead ||
		nam_view_backup(member) ||
		member->boot == boot || member->memory == boot)
		return false;
	member->state = NAM_VIEW_UP;
	member->boot = member->memory = boot;
	member->renewed = number;
	return true;
}

/* The member becomes COPYING, again or for the first time, or MOVING.  MOVING may turn COPYING. */
static bool
leave(const struct nam_view_head *head, const struct nam_view_member *members,
	struct nam_view_member *member, uint64_t boot, enum nam_view_state state)
{
	bool leaves = member->state == NAM_VIEW_COPYING ||
		(member->state == NAM_VIEW_MOVING && state == NAM_VIEW_COPYING);

	if ((!leaves && is_busy(head, members)) || member->boot != boot ||
		nam_view_backups(member) == nam_view_backups_max(head, member))
		return false;
	member->state = (uint16_t)state;
	return true;
}

static bool
moved(const struct nam_view_head *head, const struct nam_view_member *members,
	struct nam_view_member *member, const struct nam_view_member *asked)
{
	const struct nam_view_backup *backup = nam_view_backup(member);
	bool promoted = member->state == NAM_VIEW_PROMOTING && asked->boot == backup->boot;

	/* The lead gets a backup, which leads after it. */
	if (!(promoted || (member->state == NAM_VIEW_MOVING && !backup)) || !asked->boot ||
		(member->id == head->lead && !promoted) ||
		member->boot == asked->boot || is_taken(head, members, asked))
		return false;
	member->state = NAM_VIEW_UP;
	member->boot = asked->boot;
	memcpy(member->address, promoted ? backup->address : asked->address,
		sizeof(member->address));
	unback(member, asked->boot);
	/* C32: it may lack what a client that has ended wrote to the first. */
	if (!asked->wanted)
		memset(member->backups, 0, sizeof(member->backups));
	return true;
}

/* Filled as a successor is: nothing has changed since clients acknowledged the MOVE. */
static bool
backed(const struct nam_view_head *head, const struct nam_view_member *members,
	struct nam_view_member *member, const struct nam_view_member *asked)
{
	struct nam_view_backup *backup = member->backups;

	if (member->state != NAM_VIEW_MOVING || !asked->boot || member->boot == asked->boot ||
		nam_view_backup_find(member, asked->boot) || is_taken(head, members, asked) ||
		!strcmp(member->address, asked->address) || has_backup_at(member, asked->address))
		return false;
	/* leave() has found that there is room. */
	while (backup->boot)
		backup++;
	member->state = NAM_VIEW_UP;
	backup->boot = asked->boot;
	memcpy(backup->address, asked->address, sizeof(backup->address));
	return true;
}

/* Not the last one while it is promoted: the member's own process has ended. */
static bool
unbacked(struct nam_view_member *member, uint64_t boot)
{
	bool may = member->state == NAM_VIEW_UP ||
		(member->state == NAM_VIEW_PROMOTING && nam_view_backups(member) > 1);

	if (!may || !nam_view_backup_find(member, boot))
		return false;
	unback(member, boot);
	return true;
}

/* Members are promoted one at a time: one gate at a time is closed.  The lead's backup leads. */
static bool
promote(struct nam_view_head *head, const struct nam_view_member *members,
	struct nam_view_member *member, uint64_t boot)
{
	const struct nam_view_backup *backup = nam_view_backup(member);

	if (member->state != NAM_VIEW_UP || !backup || member->boot != boot ||
		is_busy(head, members) || (member->id == head->lead && !member->known))
		return false;
	if (member->id == head->lead)
		head->lead_boot = backup->boot;
	member->state = NAM_VIEW_PROMOTING;
	return true;
}

static bool
want(struct nam_view_head *head, const struct nam_view_member *asked)
{
	if (asked->id != head->lead || asked->wanted > NAM_BACKUPS_MAX ||
		asked->wanted == head->backups)
		return false;
	head->backups = (uint16_t)asked->wanted;
	return true;
}

static bool
apply(struct nam_view_head *head, struct nam_view_member *members, enum nam_rpc_view_change change,
	const struct nam_view_member *asked)
{
	uint32_t at = lower_bound(head, members, asked->id);
	struct nam_view_member *member = &members[at];
	uint64_t number = head->number + 1;

	if (!nam_view_find(head, members, asked->id) != (change == NAM_RPC_VIEW_ADD))
		return false;
	switch (change) {
	case NAM_RPC_VIEW_ADD:
		return add(head, members, asked);
	case NAM_RPC_VIEW_UP:
		return come_up(head, member, asked->boot, number);
	case NAM_RPC_VIEW_ABORT:
		return give_up(head, members, member);
	case NAM_RPC_VIEW_RENEW:
		return renew(head, member, asked->boot, number);
	case NAM_RPC_VIEW_MOVE:
		return leave(head, members, member, asked->boot, NAM_VIEW_MOVING);
	case NAM_RPC_VIEW_NOTE:
		return leave(head, members, member, asked->boot, NAM_VIEW_COPYING);
	case NAM_RPC_VIEW_MOVED:
		return moved(head, members, member, asked);
	case NAM_RPC_VIEW_BACKED:
		return backed(head, members, member, asked);
	case NAM_RPC_VIEW_UNBACKED:
		return unbacked(member, asked->boot);
	case NAM_RPC_VIEW_PROMOTE:
		return promote(head, members, member, asked->boot);
	case NAM_RPC_VIEW_BACKUPS:
		return want(head, asked);
	case NAM_RPC_VIEW_REMOVE:
		return remove_member(head, members, member, asked->boot);
	}
	return false;
}

int
nam_view_change(struct nam_view_head *head, struct nam_view_member *members,
	enum nam_rpc_view_change change, const struct nam_view_member *asked)
{
	if (!apply(head, members, change, asked))
		return -NAM_E_VIEW;
	head->number++;
	return 0;
}
