/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_move.c -- the memory of a memory server passes to its successor, while clients are at
 * work.
 *
 * MOVE: clients let end what they have posted there, and post nothing more (C28).  Then nothing
 * changes there, so its books and its memory are copied.  MOVED decides: clients go on at the
 * successor.  Before that the old one can go on at any time: the lead gives up the move if this
 * process ends.
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
#include "compute/rpc/call.h"
#include "compute/view/fence.h"
#include "compute/view/lead.h"
#include "move_store.h"

#define CHUNK_BYTES (1u << 20)
#define FILL_PERCENT 92u		/* of a tree's nodes, as a bulk load does by default */
#define TRIES_MAX 4u			/* the view changes meanwhile, or trees are loaded */
#define FENCE_NS 1000000000ull
#define LOAD_NS 20000000ull		/* clients go on, before the next try */

struct moving {
	struct nam__changer changer;
	const char *address;		/* of the successor */
	nam_server_move_fn fn;
	void *arg;
	uint64_t deadline_ns;
	struct nam_view_member from;	/* as the view has it */
	uint64_t number;		/* of the view of this MOVE; 0: clients have not stopped */
	struct nam_client *old, *new;	/* each asks its memory server */
	uint8_t *books;
	uint64_t books_bytes;
	uint64_t began_ns;
	bool again;			/* it failed, and may begin again */
	struct nam_server_moved moved;
};

static bool
is_late(const struct moving *moving)
{
	return nam_now_ns() >= moving->deadline_ns;
}

/* timeout_ms, or its default. */
static uint64_t
patience_ns(const struct moving *moving)
{
	return moving->changer.lead->options.timeout_ms * 1000000ull;
}

static void
tell(const struct moving *moving, const char *client)
{
	if (moving->fn)
		moving->fn(moving->arg, client, moving->moved.bytes);
}

/* ---- requests ------------------------------------------------------------------------------ */

/* A step of one of both.  -EAGAIN is over in time, or it is the failure. */
NAM_FIBER_FN static int
ask(struct moving *moving, struct nam_client *client, enum nam_rpc_move_step step, uint64_t at,
	uint32_t page_bytes, struct nam_rpc_move_reply *reply, uint32_t *ret_bytes)
{
	struct nam_worker *worker = client->epoch_worker;
	struct nam_rpc_move_request *request = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	uint32_t room = *ret_bytes;
	int rc;

	if (!request)
		return -ENOMEM;
	*request = (struct nam_rpc_move_request){ .step = step, .boot = client->servers[0].boot,
		.at = at };
	if (page_bytes)
		memcpy(request->page, moving->books + at, page_bytes);
	for (;;) {
		*ret_bytes = room;
		rc = nam_rpc_call(worker, 0, NAM_RPC_MOVE, request,
			(uint32_t)sizeof(*request) + page_bytes, reply, ret_bytes); /* SUSPENDS */
		if (rc != -EAGAIN || is_late(moving))
			break;
		nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
	}
	nam_buffer_give(worker, request, NAM_RPC_BODY_MAX);
	return rc;
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
			"has the id %u, which no member of the cluster has; start it with the id "
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
	int rc = nam__asker_open(options, moving->address, 0, false, &moving->new, diag);

	if (!rc)
		rc = nam__regions_learn(moving->new, 0, 1, diag); /* SUSPENDS */
	return rc;
}

NAM_FIBER_FN static int
old_open(struct moving *moving)
{
	int rc;

	/* Connections that were closed just now may count in its limit still. */
	while ((rc = nam__asker_open(moving->changer.options, moving->from.address, 0, false,
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
			rc = ask(moving, moving->old, NAM_RPC_MOVE_EXPORT, at, 0, reply,
				&bytes); /* SUSPENDS */
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
	/* The loader has stopped, so it goes on once the move is given up. */
	moving->again = rc == -NAM_E_RESTART_LOCKED;
	if (moving->again)
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
		struct nam_rpc_move_reply reply;
		uint32_t bytes = sizeof(reply);

		rc = ask(moving, moving->new, NAM_RPC_MOVE_IMPORT, at,
			left < NAM_RPC_MOVE_PAGE_BYTES ? (uint32_t)left : NAM_RPC_MOVE_PAGE_BYTES,
			&reply, &bytes); /* SUSPENDS */
	}
	return rc ? explain(moving, moving->new, "giving the books to", rc) : 0;
}

NAM_FIBER_FN static int
run_copy(struct moving *moving, const struct nam_move_run *run, void *from, void *to)
{
	uint16_t region = (uint16_t)(moving->from.id * NAM_REGIONS_PER_SERVER + run->region);
	struct nam_worker *old = moving->old->epoch_worker, *new = moving->new->epoch_worker;

	for (uint64_t done = 0; done < run->bytes; done += CHUNK_BYTES) {
		uint64_t left = run->bytes - done;
		uint32_t bytes = left < CHUNK_BYTES ? (uint32_t)left : CHUNK_BYTES;
		struct nam_gaddr at = nam_gaddr_make(region, run->offset + done, 0);
		int rc = nam_read_await(old, at, from, bytes); /* SUSPENDS */

		if (rc)
			return explain(moving, moving->old, "reading", rc);
		memcpy(to, from, bytes);
		rc = nam_write_await(new, at, to, bytes); /* SUSPENDS */
		if (rc)
			return explain(moving, moving->new, "writing", rc);
		moving->moved.bytes += bytes;
		if (is_late(moving))
			return nam_diag_set(moving->changer.diag, -NAM_E_FABRIC_TIMEOUT,
				"the memory of the memory server at %s was not copied within half "
				"of timeout_ms (%llu MiB were); clients wait meanwhile, so the "
				"move was given up", moving->from.address,
				(unsigned long long)moving->moved.bytes >> 20);
		tell(moving, NULL);
	}
	return 0;
}

NAM_FIBER_FN static int
runs_copy(struct moving *moving)
{
	const struct nam_move_head *head = (const void *)moving->books;
	const struct nam_move_run *runs = nam__books_parts((const void *)moving->books).runs;
	void *from = nam_buffer_take(moving->old->epoch_worker, CHUNK_BYTES);
	void *to = nam_buffer_take(moving->new->epoch_worker, CHUNK_BYTES);
	int rc = from && to ? 0 : -ENOMEM;

	for (uint32_t i = 0; !rc && i < head->runs; i++)
		if (runs[i].stride)
			rc = run_copy(moving, &runs[i], from, to); /* SUSPENDS */
	if (from)
		nam_buffer_give(moving->old->epoch_worker, from, CHUNK_BYTES);
	if (to)
		nam_buffer_give(moving->new->epoch_worker, to, CHUNK_BYTES);
	return rc == -ENOMEM ? nam_diag_set(moving->changer.diag, rc, "no memory for 2 MiB of "
		"registered buffers") : rc;
}

/* Its parts lie within, as many as it says there are. */
static int
books_check(struct moving *moving)
{
	const struct nam_move_head *head = (const void *)moving->books;

	if (moving->books_bytes < sizeof(*head) || head->bytes != moving->books_bytes ||
		nam__books_bytes(head) != head->bytes)
		return explain(moving, moving->old, "reading the books of",
			-NAM_E_FABRIC_PROTOCOL);
	return 0;
}

/* ---- trees ----------------------------------------------------------------------------------- */

/* Of a tree that is filled. */
struct filling {
	struct moving *moving;
	const struct nam_move_tree *tree;
	uint64_t load;
	uint32_t key_words, pair_words;	/* of a full key; of a pair */
	struct nam_rpc_tree_load_request *request;	/* room for a body */
	struct nam_rpc_tree_scan_reply *page;	/* the same */
};

/* -NAM_E_RESTART_LOCKED: handlers that looked at the empty tree leave it soon. */
NAM_FIBER_FN static int
load(struct filling *filling, uint16_t step, const uint64_t *pairs, uint32_t count)
{
	struct nam_rpc_tree_load_request *request = filling->request;
	uint32_t bytes = count * filling->pair_words * 8, none;
	int rc;

	*request = (struct nam_rpc_tree_load_request){ .tree = filling->tree->create.tree,
		.load = filling->load, .step = step, .count = count,
		.fill_percent = step == NAM_RPC_TREE_LOAD_BEGIN ? FILL_PERCENT : 0 };
	if (bytes)
		memcpy(request->pairs, pairs, bytes);
	for (;;) {
		none = 0;
		rc = nam_rpc_call(filling->moving->new->epoch_worker, 0, NAM_RPC_TREE_LOAD,
			request, (uint32_t)sizeof(*request) + bytes, NULL, &none); /* SUSPENDS */
		if (rc != -NAM_E_RESTART_LOCKED || is_late(filling->moving))
			return rc;
		nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
	}
}

/* The pairs behind *low, which becomes the key behind them.  *ret_more: there may be others. */
NAM_FIBER_FN static int
page_copy(struct filling *filling, struct nam_rpc_tree_scan_request *low, bool *ret_more)
{
	uint32_t bytes = NAM_RPC_BODY_MAX, most = NAM_RPC_TREE_LOAD_MAX(filling->pair_words - 1);
	uint32_t words = filling->pair_words;
	const uint64_t *pairs = filling->page->pairs;
	int rc = nam_rpc_call(filling->moving->old->epoch_worker, 0, NAM_RPC_TREE_SCAN, low,
		sizeof(*low), filling->page, &bytes); /* SUSPENDS */
	uint32_t count = rc ? 0 : filling->page->count;

	if (!rc && (bytes < sizeof(*filling->page) || count > NAM_RPC_TREE_SCAN_MAX(words - 1) ||
			bytes != sizeof(*filling->page) + count * words * 8))
		rc = -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; !rc && i < count; i += most)
		rc = load(filling, NAM_RPC_TREE_LOAD_PAIRS, pairs + (size_t)i * words,
			count - i < most ? count - i : most); /* SUSPENDS */
	*ret_more = count && filling->page->more;
	if (rc || !count)
		return rc;
	filling->moving->moved.bytes += count * words * 8;
	memcpy(low->low, pairs + (size_t)(count - 1) * words, filling->key_words * 8);
	for (uint32_t i = filling->key_words; i-- > 0;)
		if (++low->low[i])
			return 0;
	*ret_more = false;	/* it was the highest key */
	return 0;
}

NAM_FIBER_FN static int
tree_fill(struct filling *filling)
{
	const struct nam_rpc_tree_create_request *create = &filling->tree->create;
	struct nam_rpc_tree_scan_request low = { .tree = create->tree, .max = UINT32_MAX };
	bool more = true;
	int rc;

	filling->key_words = (create->key_bytes + 7) / 8 + !create->unique;
	/* Names of leaves are full keys, each with a payload of its own. */
	filling->pair_words = create->leaf ? filling->key_words + 1 :
		(create->key_bytes + 7) / 8 + 1;
	if (filling->pair_words > NAM_RPC_TREE_KEY_WORDS_MAX + 1)
		return -NAM_E_FABRIC_PROTOCOL;
	memset(low.high, 0xff, sizeof(low.high));
	rc = load(filling, NAM_RPC_TREE_LOAD_BEGIN, NULL, 0); /* SUSPENDS */
	while (!rc && more && !is_late(filling->moving))
		rc = page_copy(filling, &low, &more); /* SUSPENDS */
	if (!rc && more)
		return -NAM_E_FABRIC_TIMEOUT;
	return rc ?: load(filling, NAM_RPC_TREE_LOAD_END, NULL, 0); /* SUSPENDS */
}

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

/* The successor has made them anew, empty. */
NAM_FIBER_FN static int
trees_fill(struct moving *moving)
{
	const struct nam_move_head *head = (const void *)moving->books;
	const struct nam_move_tree *trees = nam__books_parts((const void *)moving->books).trees;
	struct filling filling = {
		.moving = moving,
		.load = nam_entropy() | 1,
		.request = nam_buffer_take(moving->new->epoch_worker, NAM_RPC_BODY_MAX),
		.page = nam_buffer_take(moving->old->epoch_worker, NAM_RPC_BODY_MAX),
	};
	int rc = filling.request && filling.page ? 0 : -ENOMEM;

	for (uint32_t i = 0; !rc && i < head->trees; i++) {
		filling.tree = &trees[i];
		rc = tree_fill(&filling); /* SUSPENDS */
	}
	if (filling.request)
		nam_buffer_give(moving->new->epoch_worker, filling.request, NAM_RPC_BODY_MAX);
	if (filling.page)
		nam_buffer_give(moving->old->epoch_worker, filling.page, NAM_RPC_BODY_MAX);
	return rc;
}

/* Books without both are open already. */
NAM_FIBER_FN static int
private_fill(struct moving *moving)
{
	const struct nam_move_head *head = (const void *)moving->books;
	struct nam_rpc_move_reply reply;
	uint32_t bytes = sizeof(reply);
	int rc = trees_fill(moving); /* SUSPENDS */

	if (!rc)
		rc = stores_fill(moving); /* SUSPENDS */
	if (!rc && (head->trees || head->stores))
		rc = ask(moving, moving->new, NAM_RPC_MOVE_OPEN, 0, 0, &reply,
			&bytes); /* SUSPENDS */
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
	if (!rc)
		rc = books_put(moving, false); /* SUSPENDS */
	if (!rc)
		rc = runs_copy(moving); /* SUSPENDS */
	nam_race_point("move.copied");
	if (!rc)
		rc = still_quiet(moving); /* SUSPENDS */
	if (!rc)
		rc = books_put(moving, true); /* SUSPENDS */
	return rc ?: private_fill(moving); /* SUSPENDS */
}

/* ---- steps of the view --------------------------------------------------------------------- */

/* No other member joins or moves, and then this one does. */
NAM_FIBER_FN static int
stop_clients(struct moving *moving)
{
	const struct nam_view_member *member;
	int rc;

	for (;;) {
		rc = look(moving, &member); /* SUSPENDS */
		if (rc)
			return rc;
		moving->from = *member;
		if (member->boot == moving->new->servers[0].boot) {
			moving->moved.already = 1;
			return 0;
		}
		if (is_ours(moving, member))
			return old_open(moving); /* SUSPENDS */
		if (member->id == moving->changer.view->head.lead)
			return nam_diag_set(moving->changer.diag, -NAM_E_UNMOVABLE, "memory server "
				"%u is the lead, whose memory does not move", member->id);
		if (moving->number || is_late(moving))
			return nam_diag_set(moving->changer.diag, -NAM_E_VIEW, "another memory "
				"server joins or moves, or the view changes all the time; try "
				"again");
		rc = nam__changer_change(&moving->changer, NAM_RPC_VIEW_MOVE,
			member); /* SUSPENDS */
		if (rc)
			return rc;
		if (moving->changer.changed)
			moving->number = moving->changer.view->head.number + 1;
		/* Copies say where the lead is, which stays: clients do not wait for them. */
		moving->changer.changed = false;
	}
}

/*
 * Clients that have ended: this process fences them, as those that live do not reach the member.
 * If a memory server does not answer, the client is fenced later.
 */
NAM_FIBER_FN static void
ended_fence(struct moving *moving)
{
	struct nam_worker *lead = moving->changer.lead->epoch_worker;
	struct nam_rpc_fence_reply next;
	struct nam_diag diag;
	uint32_t state;

	while (!nam__fence_next(lead, 0, &next) && next.client_id && /* SUSPENDS */
		!is_late(moving))
		if (nam__client_fence(lead, moving->changer.view, next.client_id,
				next.incarnation, 0, FENCE_NS, &state, &diag)) /* SUSPENDS */
			break;
}

/* Until all clients have nothing under way there. */
NAM_FIBER_FN static int
quiet_await(struct moving *moving)
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
		if (!is_ours(moving, member))
			return nam_diag_set(moving->changer.diag, -NAM_E_VIEW, "the move of memory "
				"server %u was given up meanwhile; try again", member->id);
		if (view->acknowledged >= view->head.number)
			return 0;
		ended_fence(moving); /* SUSPENDS */
		nam__changer_delay(&moving->changer, client, sizeof(client)); /* SUSPENDS */
		if (is_late(moving))
			return nam_diag_set(moving->changer.diag, -NAM_E_FABRIC_TIMEOUT,
				"%s has not stopped its requests to the memory server at %s: it is "
				"stopped, slow or has ended and is not fenced; let it go on or end "
				"it, and try again", client, moving->from.address);
		tell(moving, client);
		nam_sleep_ns(NAM__CHANGER_PAUSE_NS / 5);
	}
}

/* By compare-and-set: from here on the successor has the memory. */
NAM_FIBER_FN static int
decide(struct moving *moving)
{
	const struct nam_view_member *member;
	struct nam_view_member to = moving->from;
	int rc;

	to.boot = moving->new->servers[0].boot;
	(void)snprintf(to.address, sizeof(to.address), "%s", moving->address);
	for (;;) {
		rc = nam__changer_change(&moving->changer, NAM_RPC_VIEW_MOVED, &to); /* SUSPENDS */
		nam_race_point("move.decided");
		if (!rc)
			rc = look(moving, &member); /* SUSPENDS */
		if (rc)
			return rc;
		if (member->boot == to.boot)
			return 0;
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
	struct nam_rpc_move_reply reply;
	uint32_t bytes = sizeof(reply);

	moving->deadline_ns = nam_now_ns() + patience_ns(moving);
	while (!look(moving, &member) && !is_late(moving) && /* SUSPENDS */
		moving->changer.view->acknowledged < moving->moved.view)
		nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
	moving->moved.retired = !ask(moving, moving->old, NAM_RPC_MOVE_RETIRE, 0, 0, &reply,
		&bytes); /* SUSPENDS */
}

/* The old one goes on.  If this fails, the lead gives up as the connection ends. */
NAM_FIBER_FN static void
give_up(struct moving *moving)
{
	const struct nam_view_member *member;
	struct nam_diag diag, *told = moving->changer.diag;

	moving->changer.diag = &diag;
	if (!look(moving, &member) && is_ours(moving, member)) /* SUSPENDS */
		(void)!nam__changer_change(&moving->changer, NAM_RPC_VIEW_ABORT,
			member); /* SUSPENDS */
	moving->changer.diag = told;
}

/* Once: as far as MOVED, or back. */
NAM_FIBER_FN static int
try(struct moving *moving)
{
	int rc;

	moving->again = false;
	moving->number = moving->moved.bytes = 0;
	rc = stop_clients(moving); /* SUSPENDS */
	if (rc || moving->moved.already)
		goto out;
	moving->began_ns = nam_now_ns();
	rc = quiet_await(moving); /* SUSPENDS */
	if (!rc)
		rc = copy(moving); /* SUSPENDS */
	if (!rc)
		rc = decide(moving); /* SUSPENDS */
	moving->moved.stopped_us = (nam_now_ns() - moving->began_ns) / 1000;
out:
	if (rc && moving->number)
		give_up(moving); /* SUSPENDS */
	if (rc && moving->old) {
		nam__client_free(moving->old);
		moving->old = NULL;
	}
	free(moving->books);
	moving->books = NULL;
	return rc;
}

NAM_FIBER_FN static int
steps(struct moving *moving)
{
	int rc = successor_open(moving); /* SUSPENDS */
	unsigned tries = 0;

	if (rc)
		return rc;
	for (;;) {
		moving->deadline_ns = nam_now_ns() + patience_ns(moving) / 2;
		rc = try(moving); /* SUSPENDS */
		if (!rc || !moving->again || ++tries == TRIES_MAX)
			break;
		nam_sleep_ns(LOAD_NS << tries);
	}
	if (rc)
		return rc;
	moving->moved.view = moving->changer.view->head.number;
	if (!moving->moved.already)
		retire(moving); /* SUSPENDS */
	return 0;
}

int
nam__server_move(const struct nam_client_options *options, struct nam__view_store *store,
	const char *address, nam_server_move_fn fn, void *arg, struct nam_server_moved *ret_moved,
	struct nam_diag *diag)
{
	struct nam_client_options one = *options;
	struct nam_cluster *seeds = NULL, *new = NULL;
	struct moving moving = {
		.changer = { .options = options, .store = store, .diag = diag },
		.fn = fn,
		.arg = arg,
	};
	int rc = nam__cluster_read(options, &seeds, diag);

	one.cluster = address;
	if (!rc)
		rc = nam__cluster_read(&one, &new, diag);
	if (!rc && new->count != 1)
		rc = nam_diag_set(diag, -EINVAL, "memory moves to one successor; %u are named",
			new->count);
	if (rc)
		goto free_clusters;
	moving.address = new->servers[0].listen;
	rc = nam__lead_find(options, seeds, NULL, &moving.changer.lead, diag); /* SUSPENDS */
	if (!rc)
		rc = steps(&moving); /* SUSPENDS */
	if (!rc) {
		moving.moved.id = moving.from.id;
		*ret_moved = moving.moved;
	}
	if (moving.changer.lead)
		nam__client_free(moving.changer.lead);
	if (moving.old)
		nam__client_free(moving.old);
	if (moving.new)
		nam__client_free(moving.new);
	free(moving.changer.view);
free_clusters:
	free(seeds);
	free(new);
	return rc;
}

int
nam_server_move(const struct nam_client_options *options, const char *address,
	nam_server_move_fn fn, void *arg, struct nam_server_moved *ret_moved, struct nam_diag *diag)
{
	struct nam__view_store *store = nam__view_store_embedded(0);
	int rc;

	if (!store)
		return nam_diag_set(diag, -ENOMEM, "no memory for a view store");
	rc = nam__server_move(options, store, address, fn, arg, ret_moved, diag); /* SUSPENDS */
	store->ops->close(store);
	return rc;
}
