/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_move.c -- the memory of a memory server passes to its successor, while clients are at
 * work.
 *
 * NOTE: clients note what they change there, and its memory is copied, pass by pass (C30).  MOVE:
 * clients let end what they have posted there, and post nothing more (C28).  Then nothing changes
 * there, so its books are copied, and what changed since the last pass.  MOVED decides: clients go
 * on at the successor.  Before that the old one can go on at any time: the lead gives up the move
 * if this process ends.
 */
#include "server_move.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/view/changer.h"
#include "common/guard.h"
#include "common/race.h"
#include "common/rpc/move_rpc.h"
#include "compute/view/lead.h"
#include "compute/view/succession.h"
#include "move_internal.h"

#define PASSES_MAX 16u
#define NAP_NS 100000000ull
#define LAST_PAGES 256u			/* that are copied while clients wait */
#define TRIES_MAX 4u			/* the view changes meanwhile; or trees are loaded */
#define LOAD_NS 20000000ull		/* clients go on, before the next try */

struct moving {
	struct nam__changer changer;
	const char *address;		/* of the successor */
	enum nam__successor what;
	nam__server_move_fn fn;
	void *arg;
	uint64_t deadline_ns;
	struct nam_view_member from;	/* as the view has it */
	uint64_t number;		/* of the view of this NOTE or MOVE; 0: there is none yet */
	bool noting;			/* clients note for this mover */
	struct nam_client *old, *new;	/* each asks its memory server */
	struct nam__move_pages pages;
	uint8_t *books;
	uint64_t books_bytes;
	uint64_t began_ns;
	uint64_t copy_ns;		/* when the next chunk may be copied */
	bool again;			/* it failed, and may begin again */
	bool loads;			/* it failed, as a client that has stopped loads trees */
	struct nam_server_moved moved;
};

static bool
is_late(const struct moving *moving)
{
	return nam_now_ns() >= moving->deadline_ns;
}

/* timeout_ms, or its default. */
static uint64_t
timeout_ns(const struct moving *moving)
{
	return moving->changer.lead->options.timeout_ms * 1000000ull;
}

static int
report(const struct moving *moving, const char *client)
{
	int rc = moving->fn(moving->arg, client, moving->moved.bytes, !moving->noting);

	return rc ? nam_diag_set(moving->changer.diag, rc, "the move of memory server %u was ended",
		moving->from.id) : 0;
}

static int
explain(struct moving *moving, const struct nam_client *client, const char *what, int rc)
{
	const char *text = client->epoch_worker->diag.text;

	if (nam_err_is(rc, NAM_E_FABRIC) && text[0])
		return nam_diag_set(moving->changer.diag, rc, "%s: %s", what, text);
	return nam_diag_set(moving->changer.diag, rc, "%s the memory server at %s: %s", what,
		client->servers[0].address, nam_err_text(rc));
}

/* ---- the view ------------------------------------------------------------------------------ */

/* A failure, or *ret_member as the view has it now. */
NAM_FIBER_FN static int
look(struct moving *moving, const struct nam_view_member **ret_member)
{
	uint32_t id = moving->new->servers[0].id;
	int rc = nam__changer_take(&moving->changer); /* SUSPENDS */

	if (rc)
		return rc;
	*ret_member = nam__cluster_view_find(moving->changer.view, id);
	if (!*ret_member)
		return nam_diag_set(moving->changer.diag, -NAM_E_CLUSTER, "the memory server at %s "
			"has the id %u, which no member of the cluster has. Start it with the id "
			"of the one whose memory it is to get", moving->address, id);
	return 0;
}

/*
 * C28: clients have acknowledged this MOVE.  If the move was given up and another one has begun,
 * they may have written meanwhile, so a copy from before is of no use.
 */
static bool
is_ours(const struct moving *moving, const struct nam_view_member *member)
{
	return member->state == NAM_VIEW_MOVING && (!NAM_GUARD(MOVE_OURS) ||
		moving->changer.view->head.number == moving->number);
}

/* ---- both processes -------------------------------------------------------------------------- */

NAM_FIBER_FN static int
successor_open(struct moving *moving)
{
	const struct nam_client_options *options = moving->changer.options;
	struct nam_diag *diag = moving->changer.diag;
	int rc = nam__prober_connect(options, moving->address, 0, false, &moving->new, diag);

	if (!rc)
		rc = nam__regions_learn(moving->new, 0, 1, diag); /* SUSPENDS */
	return rc;
}

NAM_FIBER_FN static int
old_open(struct moving *moving)
{
	int rc;

	/* Connections that were closed just now may count in its limit still. */
	while ((rc = nam__prober_connect(moving->changer.options, moving->from.address, 0, false,
			&moving->old, moving->changer.diag)) == -NAM_E_FABRIC_REFUSED &&
		!is_late(moving)) {
		nam__client_free(moving->old);
		moving->old = NULL;
		nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
	}
	if (!rc && moving->old->servers[0].boot != moving->from.boot)
		return nam_diag_set(moving->changer.diag, -NAM_E_FABRIC_PEER_DEAD, "the memory "
			"server at %s was restarted, and its memory is gone", moving->from.address);
	return rc ?: nam__regions_learn(moving->old, 0, 1, moving->changer.diag); /* SUSPENDS */
}

/* ---- the books and the memory ---------------------------------------------------------------- */

NAM_FIBER_FN static int
books_get(struct moving *moving)
{
	struct nam_worker *worker = moving->old->epoch_worker;
	struct nam_rpc_move_reply *reply = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	uint64_t at = 0;
	int rc = reply ? 0 : -ENOMEM;

	do {
		uint32_t bytes = NAM_RPC_BODY_MAX, page;

		if (!rc)
			rc = nam__move_call(moving->old, NAM_RPC_MOVE_EXPORT, at, NULL, 0,
				moving->deadline_ns, reply, &bytes); /* SUSPENDS */
		if (rc)
			break;
		page = bytes - (uint32_t)sizeof(*reply);
		if (!at) {
			moving->books_bytes = reply->bytes;
			moving->books = malloc(reply->bytes);
			rc = moving->books ? 0 : -ENOMEM;
		}
		if (!rc && (bytes <= sizeof(*reply) || reply->bytes != moving->books_bytes ||
				page > moving->books_bytes - at))
			rc = -NAM_E_FABRIC_PROTOCOL;
		if (!rc)
			memcpy(moving->books + at, reply->page, page);
		at += page;
	} while (!rc && at < moving->books_bytes);
	if (reply)
		nam_buffer_give(worker, reply, NAM_RPC_BODY_MAX);
	/* The loader has stopped, so it goes on once others do. */
	moving->loads = rc == -NAM_E_RESTART_LOCKED;
	if (moving->loads)
		return nam_diag_set(moving->changer.diag, -NAM_E_VIEW, "a client loads an index in "
			"bulk at the memory server at %s, and has stopped for the move; try again "
			"once it is loaded", moving->from.address);
	return rc ? explain(moving, moving->old, "copying the books of", rc) : 0;
}

/* The pages from *at on; the last one only if `last`. */
NAM_FIBER_FN static int
books_put(struct moving *moving, bool last)
{
	uint64_t pages = (moving->books_bytes + NAM_RPC_MOVE_PAGE_BYTES - 1) /
		NAM_RPC_MOVE_PAGE_BYTES;
	uint64_t page = last ? pages - 1 : 0, end = last ? pages : pages - 1;
	int rc = 0;

	for (; !rc && page < end; page++) {
		uint64_t at = page * NAM_RPC_MOVE_PAGE_BYTES, left = moving->books_bytes - at;

		rc = nam__move_call(moving->new, NAM_RPC_MOVE_IMPORT, at, moving->books + at,
			left < NAM_RPC_MOVE_PAGE_BYTES ? (uint32_t)left : NAM_RPC_MOVE_PAGE_BYTES,
			moving->deadline_ns, NULL, NULL); /* SUSPENDS */
	}
	return rc ? explain(moving, moving->new, "giving the books to", rc) : 0;
}

/* A failure of steps with pages. */
static int
pages_explain(struct moving *moving, int rc)
{
	static const char *const whats[] = { "asking", "reading", "writing" };
	const struct nam_client *clients[] = { moving->changer.lead, moving->old, moving->new };

	if (!rc || rc == -ENOMEM)
		return !rc ? 0 : nam_diag_set(moving->changer.diag, rc, "no memory for a copy of "
			"pages, or for 2 MiB of registered buffers");
	if (rc == -EAGAIN)
		return nam_diag_set(moving->changer.diag, -NAM_E_VIEW, "another process moves "
			"memory; try again once it has ended");
	/* Another process gave the move up, and a third one may be at work. */
	moving->noting &= rc != -NAM_E_CLUSTER;
	/* The regions may have changed. */
	moving->again = moving->pages.at != NAM__MOVE_AT_NEW;
	return explain(moving, clients[moving->pages.at], whats[moving->pages.at], rc);
}

/* While clients work, at copy_rate. */
static int
pace(struct moving *moving, uint32_t bytes)
{
	uint64_t now = nam_now_ns(), rate = moving->changer.options->copy_rate ?:
		moving->changer.lead->options.copy_rate;
	int rc;

	/* A copy that was slow does not make up for it. */
	if (moving->copy_ns < now)
		moving->copy_ns = now;
	moving->copy_ns += bytes * 1000000000ull / rate;
	for (;;) {
		uint64_t rest = moving->copy_ns - now;

		rc = nam__changer_lease_keep(moving->changer.store, moving->changer.diag) ?:
			report(moving, NULL);
		if (rc || now >= moving->copy_ns)
			return rc;
		nam_sleep_ns(rest < NAP_NS ? rest : NAP_NS);
		now = nam_now_ns();
	}
}

static int
on_copied(void *arg, uint32_t bytes)
{
	struct moving *moving = arg;

	moving->moved.bytes += bytes;
	if (moving->noting)
		return pace(moving, bytes);
	if (is_late(moving))
		return nam_diag_set(moving->changer.diag, -NAM_E_FABRIC_TIMEOUT,
			"the rest of the memory of the memory server at %s was not copied within "
			"half of timeout_ms. Clients wait meanwhile, so the move was given up",
			moving->from.address);
	return report(moving, NULL);
}

NAM_FIBER_FN static int
pages_copy(struct moving *moving)
{
	struct nam_diag *diag = moving->changer.diag;
	int rc;

	diag->text[0] = '\0';
	rc = nam__move_pages_copy(&moving->pages, on_copied, moving); /* SUSPENDS */
	return rc && diag->text[0] ? rc : pages_explain(moving, rc);
}

/* The parts of the books lie within, as many as they say. */
static int
books_check(struct moving *moving)
{
	const struct nam_move_head *head = (const void *)moving->books;

	if (moving->books_bytes < sizeof(*head) || head->bytes != moving->books_bytes ||
		nam__books_bytes(head) != head->bytes)
		return explain(moving, moving->old, "reading the books of",
			-NAM_E_FABRIC_PROTOCOL);
	return moving->what == NAM__SUCCESSOR_LEADS && (head->trees || head->stores) ?
		nam__lead_unmovable(moving->changer.diag) : 0;
}

/* A backup's are others. */
static int
books_back(struct moving *moving)
{
	uint8_t *books = moving->books;
	int rc = nam__backup_books(books, &moving->books, &moving->books_bytes);

	if (rc)
		return nam_diag_set(moving->changer.diag, rc, "no memory for a backup's books");
	free(books);
	return 0;
}

/* ---- what lies in private memory ------------------------------------------------------------- */

/* The successor has made them anew, and their chunks hold anything. */
NAM_FIBER_FN static int
stores_fill(struct moving *moving)
{
	const struct nam_move_head *head = (const void *)moving->books;
	const struct nam_move_store *stores = nam__books_parts((const void *)moving->books).stores;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < head->stores; i++)
		rc = nam__store_move(moving->old->epoch_worker, moving->new->epoch_worker,
			&stores[i], moving->deadline_ns, &moving->moved.bytes); /* SUSPENDS */
	return rc;
}

/* Books without both are open already. */
NAM_FIBER_FN static int
private_fill(struct moving *moving)
{
	const struct nam_move_head *head = (const void *)moving->books;
	int rc = nam__trees_move(moving->old->epoch_worker, moving->new->epoch_worker, head,
		moving->deadline_ns, &moving->moved.bytes); /* SUSPENDS */

	if (!rc)
		rc = stores_fill(moving); /* SUSPENDS */
	if (!rc && (head->trees || head->stores))
		rc = nam__move_call(moving->new, NAM_RPC_MOVE_OPEN, 0, NULL, 0,
			moving->deadline_ns, NULL, NULL); /* SUSPENDS */
	return rc ? explain(moving, moving->new, "copying trees and key-value stores to", rc) : 0;
}

/* If it is not, the successor is one still, so the same move may begin again. */
NAM_FIBER_FN static int
still_quiet(struct moving *moving)
{
	const struct nam_view_member *member;
	int rc = look(moving, &member); /* SUSPENDS */

	if (rc || (is_ours(moving, member) &&
			moving->changer.view->acknowledged >= moving->number))
		return rc;
	moving->again = true;
	return nam_diag_set(moving->changer.diag, -NAM_E_VIEW, "the view of the cluster "
		"changed while the memory of the memory server at %s moved; try again",
		moving->from.address);
}

NAM_FIBER_FN static int
copy(struct moving *moving)
{
	int rc = books_get(moving); /* SUSPENDS */

	nam_race_point("move.exported");
	if (!rc)
		rc = books_check(moving);
	if (!rc && moving->what != NAM__SUCCESSOR_MOVES)
		rc = books_back(moving);
	if (!rc)
		rc = books_put(moving, false); /* SUSPENDS */
	/* C30: the last notes, and then their pages. */
	if (!rc)
		rc = pages_explain(moving, nam__move_pages_take(&moving->pages)); /* SUSPENDS */
	if (!rc)
		rc = pages_copy(moving); /* SUSPENDS */
	nam_race_point("move.copied");
	/* C28: in a later view clients may have written since. */
	if (!rc)
		rc = still_quiet(moving); /* SUSPENDS */
	if (!rc)
		rc = books_put(moving, true); /* SUSPENDS */
	if (!rc && moving->what == NAM__SUCCESSOR_MOVES)
		rc = private_fill(moving); /* SUSPENDS */
	/* Only the lead has some. */
	if (!rc && !moving->from.id)
		rc = nam__lead_names_copy(moving->old->epoch_worker,
			moving->new->epoch_worker, moving->changer.diag); /* SUSPENDS */
	return rc;
}

/* ---- steps of the view --------------------------------------------------------------------- */

/* This mover's pass, or MOVE, has begun. */
static bool
has_begun(const struct moving *moving, const struct nam_view_member *member,
	enum nam_rpc_view_change what)
{
	if (what == NAM_RPC_VIEW_MOVE)
		return is_ours(moving, member);
	return moving->number && moving->changer.view->head.number >= moving->number &&
		member->state == NAM_VIEW_COPYING;
}

/* NOTE or MOVE: no other member joins or moves, and then this one does. */
NAM_FIBER_FN static int
begin(struct moving *moving, enum nam_rpc_view_change what)
{
	const struct nam_view_member *member;
	int rc;

	moving->number = 0;
	for (;;) {
		rc = look(moving, &member); /* SUSPENDS */
		if (rc || has_begun(moving, member, what))
			return rc;
		if (moving->number || is_late(moving))
			return nam_diag_set(moving->changer.diag, -NAM_E_VIEW, "another memory "
				"server joins or moves, or the view changes all the time; try "
				"again");
		rc = nam__changer_change(&moving->changer, what, member); /* SUSPENDS */
		if (rc)
			return rc;
		if (moving->changer.changed)
			moving->number = moving->changer.view->head.number + 1;
		else
			rc = report(moving, NULL);
		if (rc)
			return rc;
		/* Copies say where the lead is, which stays: clients wait for the one only. */
		moving->changer.changed_for_lead |= moving->changer.changed;
		moving->changer.changed = false;
	}
}

/* The process with that boot has the place that the successor is to get. */
static bool
has_place(const struct moving *moving, const struct nam_view_member *member, uint64_t boot)
{
	return moving->what == NAM__SUCCESSOR_MOVES ? member->boot == boot :
		nam_view_backup_find(member, boot) != NULL;
}

/* No backup may be in its way; NULL: none is. */
static const struct nam_view_backup *
in_the_way(const struct moving *moving, const struct nam_view_member *member)
{
	return moving->what == NAM__SUCCESSOR_BACKS && nam_view_backups(member) <
		nam_view_backups_max(&moving->changer.view->head, member) ? NULL :
		nam_view_backup(member);
}

/* The member as the view has it, and a client that asks its process; or it has moved already. */
NAM_FIBER_FN static int
find(struct moving *moving)
{
	const struct nam_view_backup *backup;
	const struct nam_view_member *member;
	int rc = look(moving, &member); /* SUSPENDS */

	if (rc)
		return rc;
	moving->from = *member;
	if (has_place(moving, member, moving->new->servers[0].boot) ||
		(moving->what == NAM__SUCCESSOR_LEADS &&
			member->boot == moving->new->servers[0].boot)) {
		moving->moved.already = 1;
		return 0;
	}
	if (member->boot == moving->new->servers[0].boot)
		return nam_diag_set(moving->changer.diag, -NAM_E_UNMOVABLE, "the memory of memory "
			"server %u is in that process already; name another one", member->id);
	backup = in_the_way(moving, member);
	if (backup)
		return nam_diag_set(moving->changer.diag, -NAM_E_UNMOVABLE, "memory server %u has "
			"a backup at %s; take that away first", member->id, backup->address);
	return old_open(moving); /* SUSPENDS */
}

/* Until all clients have acknowledged it: nothing that they have not noted is under way there. */
NAM_FIBER_FN static int
acknowledged_await(struct moving *moving, enum nam_rpc_view_change what)
{
	const struct nam__cluster_view *view;
	const struct nam_view_member *member;
	char client[128];
	int rc;

	for (;;) {
		rc = look(moving, &member); /* SUSPENDS */
		if (rc)
			return rc;
		view = moving->changer.view;
		if (!has_begun(moving, member, what))
			return nam_diag_set(moving->changer.diag, -NAM_E_VIEW, "the move of memory "
				"server %u was given up meanwhile; try again", member->id);
		if (view->acknowledged >= moving->number)
			return 0;
		nam__changer_ended_fence(&moving->changer, moving->deadline_ns); /* SUSPENDS */
		nam__changer_delay(&moving->changer, client, sizeof(client)); /* SUSPENDS */
		if (is_late(moving))
			return nam_diag_set(moving->changer.diag, -NAM_E_FABRIC_TIMEOUT,
				"%s has not stopped its requests to the memory server at %s: it is "
				"stopped, slow or has ended and is not fenced. Let it go on or end "
				"it, and try again", client, moving->from.address);
		rc = report(moving, client);
		if (rc)
			return rc;
		nam_sleep_ns(NAM__CHANGER_PAUSE_NS / 5);
	}
}

/* By compare-and-set: from here on the successor has the memory, or what is written to it. */
NAM_FIBER_FN static int
decide(struct moving *moving)
{
	const struct nam_view_member *member;
	struct nam_view_member to = moving->from;
	int rc;

	to.boot = moving->new->servers[0].boot;
	(void)snprintf(to.address, sizeof(to.address), "%s", moving->address);
	for (;;) {
		rc = nam__changer_change(&moving->changer, moving->what == NAM__SUCCESSOR_MOVES ?
			NAM_RPC_VIEW_MOVED : NAM_RPC_VIEW_BACKED, &to); /* SUSPENDS */
		nam_race_point("move.decided");
		if (!rc)
			rc = look(moving, &member); /* SUSPENDS */
		if (rc)
			return rc;
		if (has_place(moving, member, to.boot))
			return 0;
		/* C28: in a later view clients may have written since. */
		if (!is_ours(moving, member) || is_late(moving))
			return nam_diag_set(moving->changer.diag, -NAM_E_VIEW, "the move of memory "
				"server %u was given up meanwhile, or a client that has ended is "
				"not fenced; start another successor, and try again", member->id);
	}
}

/* Clients have taken it up, or are lost; a process that stays is of no use to any. */
NAM_FIBER_FN static void
retire(struct moving *moving)
{
	const struct nam_view_member *member;

	moving->deadline_ns = nam_now_ns() + timeout_ns(moving);
	while (!look(moving, &member) && !is_late(moving) && /* SUSPENDS */
		moving->changer.view->acknowledged < moving->moved.view)
		nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
	moving->moved.retired = !nam__move_call(moving->old, NAM_RPC_MOVE_RETIRE, 0, NULL, 0,
		moving->deadline_ns, NULL, NULL); /* SUSPENDS */
}

/* The old one goes on.  If this fails, the lead gives up as the connection ends. */
NAM_FIBER_FN static void
give_up(struct moving *moving)
{
	const struct nam_view_member *member;
	struct nam_diag diag, *diag_before = moving->changer.diag;

	moving->changer.diag = &diag;
	if (!look(moving, &member) && (is_ours(moving, member) || /* SUSPENDS */
			(moving->noting && member->state == NAM_VIEW_COPYING)))
		(void)!nam__changer_change(&moving->changer, NAM_RPC_VIEW_ABORT,
			member); /* SUSPENDS */
	moving->changer.diag = diag_before;
}

/* ---- all of it ----------------------------------------------------------------------------- */

NAM_FIBER_FN static int
claim(struct moving *moving)
{
	int rc;

	moving->pages.lead = moving->changer.lead;
	moving->pages.old = moving->old;
	moving->pages.new = moving->new;
	rc = pages_explain(moving, nam__move_pages_claim(&moving->pages, moving->from.id,
		moving->deadline_ns)); /* SUSPENDS */
	moving->noting = !rc;
	return rc;
}

/* Clients note what they change from now on, and have handed over what they have noted. */
NAM_FIBER_FN static int
note(struct moving *moving)
{
	int rc;

	moving->deadline_ns = nam_now_ns() + timeout_ns(moving) / 2;
	rc = begin(moving, NAM_RPC_VIEW_NOTE); /* SUSPENDS */
	if (rc)
		return rc;
	moving->noting = true;
	return acknowledged_await(moving, NAM_RPC_VIEW_NOTE); /* SUSPENDS */
}

/* While clients are at work: until little is left, or copying does not gain on them. */
NAM_FIBER_FN static int
passes(struct moving *moving)
{
	struct nam__move_pages *pages = &moving->pages;
	uint64_t before = UINT64_MAX;
	int rc = 0;

	for (unsigned pass = 0; !rc; pass++) {
		rc = note(moving); /* SUSPENDS */
		/* C30: what was noted had been done, so a copy from now on has it. */
		if (!rc)
			rc = pages_explain(moving, nam__move_pages_take(pages)); /* SUSPENDS */
		if (rc || (pass && (pages->left <= LAST_PAGES ||
				pages->left > before / 4 * 3 || pass == PASSES_MAX)))
			break;
		before = pages->left;
		rc = pages_copy(moving); /* SUSPENDS */
		nam_race_point("move.passed");
	}
	return rc;
}

/* Clients wait, for half of timeout_ms at the most. */
NAM_FIBER_FN static int
last_pass(struct moving *moving)
{
	int rc;

	nam_race_point("move.passes_over");
	moving->deadline_ns = nam_now_ns() + timeout_ns(moving) / 2;
	moving->began_ns = nam_now_ns();
	rc = begin(moving, NAM_RPC_VIEW_MOVE); /* SUSPENDS */
	if (!rc) {
		moving->noting = false;
		rc = acknowledged_await(moving, NAM_RPC_VIEW_MOVE); /* SUSPENDS */
	}
	/* C28: all clients are quiet. */
	if (!rc)
		rc = copy(moving); /* SUSPENDS */
	if (!rc)
		rc = decide(moving); /* SUSPENDS */
	moving->moved.stopped_us = (nam_now_ns() - moving->began_ns) / 1000;
	return rc;
}

/* Once: as far as MOVED, or back. */
NAM_FIBER_FN static int
try(struct moving *moving)
{
	int rc;

	moving->again = moving->loads = false;
	moving->number = moving->moved.bytes = 0;
	moving->deadline_ns = nam_now_ns() + timeout_ns(moving) / 2;
	rc = find(moving); /* SUSPENDS */
	if (rc || moving->moved.already)
		goto out;
	rc = claim(moving); /* SUSPENDS */
	for (unsigned tries = 1; !rc; tries++) {
		rc = passes(moving) ?: last_pass(moving); /* SUSPENDS */
		if (!rc || !moving->loads || tries == TRIES_MAX)
			break;
		/* Clients go on, and what is copied stays of use. */
		rc = note(moving); /* SUSPENDS */
		nam_sleep_ns(LOAD_NS << tries);
	}
out:
	if (rc && (moving->number || moving->noting))
		give_up(moving); /* SUSPENDS */
	moving->noting = false;
	if (rc && moving->old) {
		nam__client_free(moving->old);
		moving->old = NULL;
	}
	nam__move_pages_end(&moving->pages);
	free(moving->books);
	moving->books = NULL;
	return rc;
}

NAM_FIBER_FN static int
on_known(void *arg)
{
	return report(arg, NULL);
}

/* C33: while `old` lives, no client is fenced at the lead. */
NAM_FIBER_FN static int
known_await(struct moving *moving)
{
	nam__client_free(moving->old);
	moving->old = moving->pages.old = NULL;
	/* Clients are at work. */
	moving->noting = true;
	return nam__lead_backup_known(&moving->changer, moving->new->servers[0].boot,
		timeout_ns(moving), on_known, moving); /* SUSPENDS */
}

NAM_FIBER_FN static int
steps(struct moving *moving)
{
	int rc = successor_open(moving); /* SUSPENDS */
	unsigned tries = 0;

	if (rc)
		return rc;
	if (!moving->new->servers[0].id && moving->what == NAM__SUCCESSOR_MOVES)
		moving->what = NAM__SUCCESSOR_LEADS;
	for (;;) {
		rc = try(moving); /* SUSPENDS */
		if (!rc || !moving->again || ++tries == TRIES_MAX)
			break;
		nam_sleep_ns(LOAD_NS << tries);
	}
	if (rc)
		return rc;
	moving->moved.view = moving->changer.view->head.number;
	if (!moving->moved.already && moving->what == NAM__SUCCESSOR_MOVES)
		retire(moving); /* SUSPENDS */
	if (moving->from.id || moving->from.boot == moving->new->servers[0].boot)
		return 0;
	rc = known_await(moving); /* SUSPENDS */
	if (!rc && moving->what == NAM__SUCCESSOR_LEADS)
		rc = nam__lead_hand_over(&moving->changer, &moving->moved); /* SUSPENDS */
	return rc;
}

int
nam__server_move(const struct nam_client_options *options, enum nam__successor what,
	const char *address, nam__server_move_fn fn, void *arg, struct nam_server_moved *ret_moved,
	struct nam_diag *diag)
{
	struct nam_client_options one = *options;
	struct nam_cluster *new = NULL;
	struct moving moving = { .what = what, .fn = fn, .arg = arg };
	int rc = nam__changer_open(&moving.changer, options, diag);

	one.cluster = address;
	if (!rc)
		rc = nam__cluster_read(&one, &new, diag);
	if (!rc && new->count != 1)
		rc = nam_diag_set(diag, -EINVAL, "memory moves to one successor; %u are named",
			new->count);
	if (rc)
		goto out;
	moving.address = new->servers[0].listen;
	rc = nam__lead_find(options, moving.changer.seeds, NULL, &moving.changer.lead,
		diag); /* SUSPENDS */
	moving.changer.store->moves = true;
	if (!rc)
		rc = steps(&moving); /* SUSPENDS */
	moving.changer.store->moves = false;
	if (!rc) {
		moving.moved.id = moving.from.id;
		*ret_moved = moving.moved;
	}
	nam__client_free(moving.old);
	nam__client_free(moving.new);
out:
	nam__changer_close(&moving.changer);
	free(new);
	return rc;
}

/* For callers whose function ends no move. */
struct reporter {
	nam_server_move_fn fn;		/* or NULL */
	void *arg;
};

static int
on_move(void *arg, const char *client, uint64_t bytes, bool stopped)
{
	const struct reporter *reporter = arg;

	(void)stopped;
	if (reporter->fn)
		reporter->fn(reporter->arg, client, bytes);
	return 0;
}

int
nam_server_move(const struct nam_client_options *options, const char *address,
	nam_server_move_fn fn, void *arg, struct nam_server_moved *ret_moved, struct nam_diag *diag)
{
	struct reporter reporter = { fn, arg };

	return nam__server_move(options, NAM__SUCCESSOR_MOVES, address, on_move, &reporter,
		ret_moved,
		diag); /* SUSPENDS */
}

int
nam_server_back(const struct nam_client_options *options, const char *address,
	nam_server_move_fn fn, void *arg, struct nam_server_moved *ret_moved, struct nam_diag *diag)
{
	struct reporter reporter = { fn, arg };

	return nam__server_move(options, NAM__SUCCESSOR_BACKS, address, on_move, &reporter,
		ret_moved,
		diag); /* SUSPENDS */
}
