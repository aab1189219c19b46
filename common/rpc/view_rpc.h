/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_rpc.h -- requests about the view: the numbered list of the cluster's memory servers.
 *
 * The lead, memory server 0, keeps the view, and every change of it is a compare-and-set on its
 * number.  Other memory servers keep copies, which say where the lead is.
 *
 * If the memory servers have keys, COPY is for admins.  Others need the lead's voucher for that
 * view behind the members of the last page.  The lead's replies to RENEW and to the last page of
 * FORM end with it (common/auth/proof.h).
 *
 * Each reply is the view of that memory server, and to GET it has members.  The pages of a view
 * have the same head, come over one connection, and begin anew with a page whose `first` is 0.
 * FORM and CHANGE ignore the state, memory, since, renewed and backups of a member.  Its boot and
 * address are those of the process that the change is about: of the backup for BACKED and UNBACKED.
 * UP, ABORT, RENEW, NOTE, MOVE, UNBACKED, PROMOTE and REMOVE ignore its address, ABORT its boot.
 *
 * The memory of a member may move to a successor.  That is another process with the same id, and a
 * boot and an address of its own.  After NOTE, clients note which pages of the member they change,
 * and hand over what they have noted; each NOTE begins a pass.  After MOVE they send nothing to the
 * member, until MOVED says that the successor has its place.  If the connection of NOTE or MOVE
 * ends before that, the lead does ABORT by itself, unless another store decides.
 *
 * A member may have two backups, and the lead one: processes of the same id and regions that have
 * all that clients write there.  They are filled as a successor is, and BACKED takes the place of
 * MOVED.  From then on, until UNBACKED, clients write to the backups before they write to the
 * member.  PROMOTE says that the member's process has ended, is given up as it is silent, or is to
 * end.  Clients end what they have sent to the backups, and MOVED to the first one follows.  A
 * promotion is never given up, as there is nothing to go back to.
 *
 * If the lead's process has ended, COPY of the next view makes its backup the lead.  In that view
 * the lead is PROMOTING and lead_boot is the backup's.  That needs an admin, and a backup that is
 * known: the clients have registered there, too.  So the clients acknowledge a view to the lead's
 * backup as well, which answers -NAM_E_VIEW while its copy is older.
 *
 * REMOVE says that the process of a member has ended.  Its memory is lost.  No other member gets
 * its id, so addresses there lead to no memory ever after.
 *
 * One steward at a time leads.  Its term grows, and with it the lease, which the lead or another
 * store keeps.  Every request of a steward names its term.  A memory server that has seen a later
 * one refuses, so a steward that stalled and returns does nothing.  If another store gives out the
 * terms, it decides about additions and moves, too: the lead then takes changes with a term only.
 * FORM and RENEW say what has happened, and need none.
 *
 * -NAM_E_TERM: another steward leads, or led later; nothing was changed.
 * -NAM_E_VIEW_STORE: another store gives out the terms, and decides; nothing was changed.
 * -NAM_E_VIEW: another view is in force, or it does not allow that.  Or the copy is of a life of
 *	the lead that has ended.  Nothing was changed.
 * -NAM_E_CLUSTER: not at this memory server, or a lead of another boot.
 */
#ifndef NAM_COMMON_RPC_VIEW_RPC_H
#define NAM_COMMON_RPC_VIEW_RPC_H

#include "common/gaddr.h"
#include "rpc.h"

#define NAM_VIEW_ADDRESS_BYTES 128u	/* with the NUL */

enum nam_view_state {
	NAM_VIEW_JOINING = 1,		/* clients connect to it; nothing is allocated there yet */
	NAM_VIEW_UP = 2,
	NAM_VIEW_MOVING = 3,		/* clients send nothing there, until it is UP again */
	NAM_VIEW_COPYING = 4,		/* as UP, and clients note what they change there */
	NAM_VIEW_PROMOTING = 5,		/* as MOVING: it has ended or is given up; has a backup */
};

struct nam_view_backup {
	uint64_t boot;			/* 0: there is none, and all is zeroes */
	char address[NAM_VIEW_ADDRESS_BYTES];
};

/* A backup keeps its place among them as others come and go. */
struct nam_view_member {
	uint16_t id;
	uint16_t state;			/* enum nam_view_state */
	/* Of a change.  BACKUPS: how many; MOVED to a backup: 1: the other one stays.  Else 0. */
	uint16_t wanted;
	uint16_t known;			/* of the lead: 1: all clients know its backup */
	uint64_t boot;			/* of the process that has the memory */
	uint64_t memory;		/* the boot with which that began: another, once it moved */
	uint64_t since;			/* the view in which this id came UP; 0: JOINING */
	uint64_t renewed;		/* the view in which this memory came UP */
	char address[NAM_VIEW_ADDRESS_BYTES];	/* as its proposer reaches it */
	struct nam_view_backup backups[NAM_BACKUPS_MAX];	/* the lead has the first only */
};
_Static_assert(sizeof(struct nam_view_member) == 440, "wire layout");

struct nam_view_head {
	uint64_t number;		/* 0: there is no view */
	uint64_t term;			/* the latest of a steward; of a request: its own; or 0 */
	uint64_t lead_boot;
	uint16_t lead;			/* its id */
	uint16_t backups;		/* each member is to have so many, 0 to NAM_BACKUPS_MAX */
	uint32_t count;			/* members, in the order of their ids */
	uint8_t removed[NAM_SERVERS_MAX / 8];	/* bit i: no member gets the id i any more */
};
_Static_assert(sizeof(struct nam_view_head) == 64, "wire layout");

enum nam_rpc_view_step {
	NAM_RPC_VIEW_GET = 1,		/* any memory server: a page of its view */
	NAM_RPC_VIEW_FORM,		/* the lead: the first view, in pages; the last commits */
	NAM_RPC_VIEW_CHANGE,		/* the lead: one member, by compare-and-set */
	/*
	 * The lead or its backup, over a session connection: the client has installed that view.
	 * Number 0: it is busy, so its epoch slot is old; or it has lost the member with that boot.
	 */
	NAM_RPC_VIEW_ACK,
	NAM_RPC_VIEW_COPY,		/* others: a copy, in pages; the last one counts */
	NAM_RPC_VIEW_STEWARD,		/* the lead: which steward leads */
};

enum nam_rpc_view_change {
	NAM_RPC_VIEW_ADD = 1,		/* a member that is JOINING; one joins or moves at a time */
	NAM_RPC_VIEW_UP,		/* it is UP, or its backup is known: all acknowledged */
	NAM_RPC_VIEW_ABORT,		/* it does not join or move; its backup is not known */
	NAM_RPC_VIEW_RENEW,		/* a member that is not JOINING was restarted: it is UP */
	NAM_RPC_VIEW_MOVE,		/* a member, UP or COPYING, is MOVING; one at a time */
	NAM_RPC_VIEW_MOVED,		/* it is UP elsewhere: all have acknowledged the MOVE */
	NAM_RPC_VIEW_NOTE,		/* a member, UP or one of both, is COPYING; one at a time */
	NAM_RPC_VIEW_BACKED,		/* it is UP, with a backup: all acknowledged the MOVE */
	NAM_RPC_VIEW_UNBACKED,		/* it has no backup, or not that one */
	NAM_RPC_VIEW_PROMOTE,		/* its process has ended: its backup gets its place */
	NAM_RPC_VIEW_BACKUPS,		/* of the lead: how many each member is to have */
	NAM_RPC_VIEW_REMOVE,		/* its process has ended: it is no member any more */
};
#define NAM_RPC_VIEW_CHANGES NAM_RPC_VIEW_REMOVE	/* the last one */

/* The names of changes, behind a NULL; another NULL ends the table. */
extern const char *const nam_rpc_view_changes[];

enum nam_rpc_view_steward {
	NAM_RPC_STEWARD_ACQUIRE = 1,	/* a term and a lease, if no steward has one */
	NAM_RPC_STEWARD_RENEW,		/* the lease of that term, from now on */
	NAM_RPC_STEWARD_RELEASE,	/* the lease ends, the term stays */
	NAM_RPC_STEWARD_PRESENT,	/* a term that another store has given out */
};
#define NAM_RPC_STEWARD_LEASE_MIN_MS 100u
#define NAM_RPC_STEWARD_LEASE_MAX_MS 600000u

#define NAM_VIEW_CUT_TURN_MS 4000u

struct nam_rpc_view_request {
	uint16_t step;			/* enum nam_rpc_view_step */
	/* CHANGE, STEWARD: one of those enums.  ACK: 1: it changes nothing more.  Else 0. */
	uint16_t change;
	/*
	 * GET, FORM, COPY: number of the page's first member.  ACQUIRE, RENEW: the lease in ms.
	 * ACK with number 0: 1 + the id of the member that is lost, or 0
	 */
	uint32_t first;
	uint32_t count;			/* members of this page: CHANGE 1; GET, ACK 0 */
	uint16_t newest;		/* FORM: incarnations of clients begin above it; else 0 */
	uint16_t reserved;
	/*
	 * CHANGE: number, term; ACK: number, or lead_boot, that of the lost one; STEWARD: term;
	 * COPY: all; FORM: count
	 */
	struct nam_view_head view;
	struct nam_view_member members[];
};
_Static_assert(sizeof(struct nam_rpc_view_request) == 80, "wire layout");

struct nam_rpc_view_reply {
	struct nam_view_head view;
	/*
	 * Lead: the smallest of its living clients.  While a member is COPYING, MOVING or
	 * PROMOTING, also of those that are FENCING, with requests under way.  Others: number.
	 */
	uint64_t acknowledged;
	uint16_t delaying;		/* the client that has acknowledged least; 0: none lags */
	uint16_t delaying_incarnation;
	uint32_t count;			/* members of this page */
	/* Lead: the living client that has held back the epoch longest in silence; 0: none. */
	uint16_t silent, silent_incarnation;
	uint32_t silent_ms;
	/*
	 * GET, lead: the living client that has lost a member first, which is UP since; 0: none.
	 * If clients have lost several members, they have turns of NAM_VIEW_CUT_TURN_MS.
	 */
	uint16_t cut, cut_incarnation;
	uint16_t cut_from;		/* the member's id */
	/* Lead: 1: a client has ended in the middle, so backups of one member may differ (C32). */
	uint16_t unclean;
	uint32_t cut_ms;
	uint32_t delaying_ms;		/* since the last ACK of the one that lags */
	struct nam_view_member members[];
};
_Static_assert(sizeof(struct nam_rpc_view_reply) == 104, "wire layout");

/* Members of a page; there is room for a voucher behind them. */
#define NAM_RPC_VIEW_MEMBERS ((NAM_RPC_BODY_MAX - 120) / (uint32_t)sizeof(struct nam_view_member))

/*
 * view.c: the rules of a view, in force or recorded.
 *
 * @members	head->count, by id
 */

/* The member with that id, or NULL. */
const struct nam_view_member *nam_view_find(const struct nam_view_head *head,
	const struct nam_view_member *members, uint32_t id);
/* The first member in that state, or NULL. */
const struct nam_view_member *nam_view_in_state(const struct nam_view_head *head,
	const struct nam_view_member *members, enum nam_view_state state);
/* The member that is COPYING, MOVING or PROMOTING, or NULL. */
const struct nam_view_member *nam_view_leaving(const struct nam_view_head *head,
	const struct nam_view_member *members);
/* A member with that id was removed. */
bool nam_view_was_removed(const struct nam_view_head *head, uint32_t id);
/* The first of its backups, which gets its place before others do; NULL: it has none. */
const struct nam_view_backup *nam_view_backup(const struct nam_view_member *member);
/* How many backups it has, and how many it may have. */
uint32_t nam_view_backups(const struct nam_view_member *member);
uint32_t nam_view_backups_max(const struct nam_view_head *head,
	const struct nam_view_member *member);
/* Its backup with that boot; NULL: there is none. */
const struct nam_view_backup *nam_view_backup_find(const struct nam_view_member *member,
	uint64_t boot);
/*
 * The next view.  It does not know what clients have acknowledged.  0, or -NAM_E_VIEW: the view
 * does not allow that, and stays.
 *
 * @members	room for NAM_SERVERS_MAX
 * @asked	as it travels: its address ends
 */
int nam_view_change(struct nam_view_head *head, struct nam_view_member *members,
	enum nam_rpc_view_change change, const struct nam_view_member *asked) NAM_MUST_CHECK;

#endif /* NAM_COMMON_RPC_VIEW_RPC_H */
