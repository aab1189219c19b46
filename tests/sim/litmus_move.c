/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_move.c -- scenes in which the memory of a member moves while clients are at work (C28,
 * C30, M23).
 *
 * A write to the earlier process after its memory was copied is lost: a key is missing, or a lock
 * stays.  So is one that no pass copies.
 */
#include <stdlib.h>
#include <string.h>

#include "compute/admin.h"
#include "compute/client/cluster_view.h"
#include "compute/view/fence.h"
#include "compute/view/lead.h"
#include "compute/worker/worker.h"
#include "litmus_records.h"
#include "memserver/memserver_internal.h"

#define MOVES 1u			/* the id of the member */
#define KEYS_FROM 1000u
#define KEYS 40u
#define SLOW_KEYS 150u
#define SLOW_NS 1000000u
#define HOLD_NS (2 * LITMUS_SHORT_NS)
#define TIMEOUT_MS 2000u

static struct sim_server *successor;	/* of the scene */
static unsigned inserted;
static struct nam_records *records;

/* ---- steps ----------------------------------------------------------------------------------- */

static int
try_move(struct nam_diag *diag)
{
	struct nam_client_options options;
	struct nam_server_moved result;

	nam_client_options_init(&options);
	options.cluster = litmus.cluster.servers[0].address;
	options.timeout_ms = TIMEOUT_MS;
	return nam_server_move(&options, successor->address, NULL, NULL, &result, diag);
}

static void
move(struct actor *self)
{
	struct nam_diag diag = { "" };
	int rc;

	(void)self;
	litmus_await(ONE);
	successor = sim_cluster_successor(&litmus.cluster, MOVES);
	rc = try_move(&diag);
	if (rc && !nam_sim_zombie())
		litmus_fail("server move: %s", diag.text);
	litmus.flags[SEEN] = true;
}

/* Something does not let it end: the old process goes on. */
static void
move_in_vain(struct actor *self)
{
	struct nam_diag diag = { "" };

	(void)self;
	litmus_await(ONE);
	successor = sim_cluster_successor(&litmus.cluster, MOVES);
	if (!try_move(&diag) && !nam_sim_zombie())
		litmus_fail("memory has moved to a process that has died");
	litmus.flags[SEEN] = true;
}

/* Leaves of both memory servers change all the time, before the move and behind it. */
static void
insert_all_the_time(struct actor *self)
{
	uint64_t number = KEYS_FROM * (1 + self->who);

	for (unsigned i = 0; i < KEYS && !litmus.failed; i++) {
		litmus_insert(self, number + i);
		litmus_expect(self, number + i, 0);
		if (i == KEYS / 4)
			litmus.flags[ONE] = true;
		/* The move takes ticks of epoch threads. */
		for (unsigned j = 0; i == KEYS / 2 && j < 2000 && !litmus.flags[SEEN]; j++)
			litmus_expect_range(self, 0, 10 * (LITMUS_LOADED - 1), 0);
	}
	litmus.flags[self->who == A ? TWO : THREE] = true;
}

/* The same, of a client that is killed. */
static void
insert_until_killed(struct actor *self)
{
	for (unsigned i = 0; i < 100 * KEYS && !nam_sim_zombie(); i++) {
		(void)litmus_try_insert(self, KEYS_FROM * (1 + self->who) + i % KEYS);
		for (unsigned j = 0; j < KEYS && !nam_sim_zombie(); j++)
			(void)litmus_try_lookup(self, 10 * j);
	}
}

/* One key after another, for a while. */
static void
insert_slowly(struct actor *self)
{
	litmus.flags[ONE] = true;
	for (inserted = 0; inserted < SLOW_KEYS && !litmus.failed; inserted++) {
		litmus_insert(self, KEYS_FROM + inserted);
		nam_sleep_ns(SLOW_NS);
	}
}

/* The first key of a leaf that lies at the member. */
static uint64_t
key_there(struct actor *self)
{
	uint64_t first = 0;

	while (litmus_server_of(self, litmus_leaf_of(self, first, NULL)) !=
		self->client->slot_of_id[MOVES])
		first += 110;
	return first;
}

/* A leaf that lies at the member becomes two. */
static void
split_there(struct actor *self)
{
	uint64_t first = key_there(self);

	litmus_insert(self, first + 1);
	litmus_insert(self, first + 2);
	litmus_expect(self, first + 1, 0);
	litmus_expect(self, first + 2, 0);
	litmus.flags[TWO] = true;
}

/* Its halves are written, and it is still locked. */
static void
hold_until_moved(struct actor *self)
{
	(void)self;
	if (litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	litmus_await_for(SEEN, HOLD_NS);
}

/* A key comes to a leaf there, when all is copied; then the mover goes on. */
static void
insert_and_leave(struct actor *self)
{
	uint64_t first = key_there(self);

	litmus.flags[ONE] = true;
	litmus_await(TWO);
	litmus_insert(self, first + 1);
	litmus.flags[THREE] = true;
}

static void
insert_when_copied(struct actor *self)
{
	insert_and_leave(self);
	litmus_await(SEEN);
}

static void
insert_and_die(struct actor *self)
{
	insert_and_leave(self);
	nam_sim_process_kill(self->process);
}

/* One that locks a leaf there before it is copied, and writes it afterwards. */
static void
insert_slowly_there(struct actor *self)
{
	uint64_t first = key_there(self);

	litmus.flags[FOUR] = true;
	litmus_insert(self, first + 1);
}

static void
hold_until_passed(struct actor *self)
{
	(void)self;
	if (!litmus.flags[FOUR] || litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	litmus_await_for(TWO, HOLD_NS);
}

/* Memory servers change the heads of two records; one of both lies there. */
static void
put_when_copied(struct actor *self)
{
	const struct nam_records_options options = {
		.algorithm = NAM_RAMP_FAST, .commit = NAM_RECORDS_SERVED };

	records = litmus_store_make(self, &options);
	litmus_put(self, records, X, 2, 1);
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	litmus_put(self, records, X, 2, 2);
	litmus.flags[THREE] = true;
	litmus_await(SEEN);
	litmus_expect_records(self, records, X, 2, 2);
	nam_records_close(records);
	litmus.flags[FIVE] = true;
}

/* Of the mover, the first time. */
static void
let_insert(struct actor *self)
{
	(void)self;
	if (litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	litmus_await(THREE);
}

static void
say_passed(struct actor *self)
{
	(void)self;
	litmus.flags[TWO] = true;
}

static void
die(struct actor *self)
{
	litmus.flags[SEEN] = true;
	nam_sim_process_kill(self->process);
}

static void
kill_successor(struct actor *self)
{
	(void)self;
	nam_sim_process_kill(successor->process);
}

/*
 * Once all is exported, B is killed, and a steward would fence it now: the successor's books do not
 * say that it is fenced.
 */
static void
kill_and_fence(struct actor *self)
{
	struct actor *dead = &litmus.actors[B];
	struct nam_client_options options;
	struct nam__cluster_view *view = NULL;
	struct nam_client *prober;
	struct nam_diag diag = { "" };
	uint32_t state;

	(void)self;
	if (litmus.flags[FOUR])
		return;
	litmus.flags[FOUR] = true;
	nam_sim_process_kill(dead->process);
	nam_sleep_ns(LITMUS_TICKS_NS);
	nam_client_options_init(&options);
	options.timeout_ms = TIMEOUT_MS;
	if (nam__prober_open(&options, litmus.cluster.servers[0].address, 0, false, &prober,
			&diag) || nam__cluster_view_get(prober->epoch_worker, 0, &view))
		sim_die("a steward: %s", diag.text);
	(void)!nam__client_fence(prober->epoch_worker, view, dead->id, dead->incarnation, 0,
		LITMUS_SHORT_NS, &state, &diag);
	free(view);
	nam__client_free(prober);
}

/* By the actor's own client. */
static void
change(struct actor *self, enum nam_rpc_view_change what)
{
	struct nam__cluster_view *view = litmus_view_of(self);
	struct nam_view_head head;

	if (nam__cluster_view_change(self->worker, self->client->catalog_slot, view->head.number,
			0, what, &view->members[1], &head))
		litmus_fail("change %d of the view is refused", (int)what);
	free(view);
}

static bool
all_acknowledged(struct actor *self)
{
	struct nam__cluster_view *view = litmus_view_of(self);
	bool all = view->acknowledged == view->head.number;

	free(view);
	return all;
}

/* When all is copied the move is given up, a client writes, and another move begins. */
static void
begin_anew(struct actor *self)
{
	unsigned wanted = inserted + 5;

	if (litmus.flags[FOUR])
		return;
	litmus.flags[FOUR] = true;
	change(self, NAM_RPC_VIEW_ABORT);
	for (unsigned i = 0; i < 100 && inserted < wanted; i++)
		nam_sleep_ns(LITMUS_TICKS_NS / 5);
	if (inserted < wanted)
		litmus_fail("the client does not go on");
	change(self, NAM_RPC_VIEW_MOVE);
	for (unsigned i = 0; i < 100 && !all_acknowledged(self); i++)
		nam_sleep_ns(LITMUS_TICKS_NS / 5);
}

/* The first mover does not take that one for its own. */
static void
move_outrun(struct actor *self)
{
	struct nam_diag diag = { "" };
	int rc;

	litmus_await(ONE);
	successor = sim_cluster_successor(&litmus.cluster, MOVES);
	rc = try_move(&diag);
	if (rc == -NAM_E_VIEW)
		change(self, NAM_RPC_VIEW_ABORT);
	else if (rc)
		litmus_fail("a mover that was outrun: %s", diag.text);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void
expect_place(struct actor *self, const struct sim_server *place)
{
	struct nam__cluster_view *view;

	litmus_expect_members(self, 2);
	view = litmus_view_of(self);
	if (strcmp(view->members[1].address, place->address) != 0)
		litmus_fail("memory server %u is at %s", MOVES, view->members[1].address);
	free(view);
}

static void
expect_inserted(struct actor *self, enum who who)
{
	for (unsigned i = 0; i < KEYS; i++)
		litmus_expect(self, KEYS_FROM * (1 + who) + i, 0);
}

static void
end_outrun(struct actor *self)
{
	for (unsigned i = 0; i < SLOW_KEYS; i++)
		litmus_expect(self, KEYS_FROM + i, 0);
	expect_place(self, &litmus.cluster.servers[MOVES]);
	litmus_verify(self);
}

static void
end_moved(struct actor *self)
{
	expect_place(self, successor);
	litmus_verify(self);
}

/* By now the leaf may be two, and lie elsewhere. */
static void
end_noted(struct actor *self)
{
	unsigned found = 0;

	for (uint64_t first = 0; first <= 330; first += 110)
		found += !litmus_try_lookup(self, first + 1);
	if (found != 1)
		litmus_fail("%u keys were inserted there", found);
	end_moved(self);
}

static void
end_inserted_moved(struct actor *self)
{
	expect_inserted(self, A);
	expect_inserted(self, B);
	end_moved(self);
}

static void
end_one_moved(struct actor *self)
{
	expect_inserted(self, A);
	/* Locks that the dead one left are taken over. */
	for (unsigned i = 0; i < KEYS; i++)
		(void)litmus_try_insert(self, KEYS_FROM * (1 + B) + i);
	(void)litmus_collect(self);
	end_moved(self);
}

/* It returns nowhere. */
static void
end_fenced(struct actor *self)
{
	const struct nam__newest *newest =
		&successor->server->membership.newest[litmus.actors[B].id];

	/* A client that lives fences it, once the move has ended. */
	for (unsigned i = 0; i < 1000 && !newest->fenced; i++)
		nam_sleep_ns(LITMUS_TICKS_NS / 5);
	if (newest->incarnation != litmus.actors[B].incarnation || !newest->fenced)
		litmus_fail("the successor does not know that a client was fenced");
	end_one_moved(self);
}

static void
end_inserted_stayed(struct actor *self)
{
	expect_inserted(self, A);
	expect_inserted(self, B);
	expect_place(self, &litmus.cluster.servers[MOVES]);
	litmus_verify(self);
}

/* ---- cases ----------------------------------------------------------------------------------- */

const struct litmus_case litmus_move_cases[] = {
	{ { "move_writers", LITMUS_LOADED,
		{ end_inserted_moved, insert_all_the_time, insert_all_the_time, move }, { { 0 } } },
		"memory moves while two clients insert and look up", 2, 0 },
	{ { "move_split", LITMUS_LOADED, { end_moved, split_there, NULL, move },
		{ { "split.left_written", A, hold_until_moved } } },
		"the same, while a client divides a leaf there and is slow", 2, 0 },
	{ { "move_mover_dies", LITMUS_LOADED,
		{ end_inserted_stayed, insert_all_the_time, insert_all_the_time, move },
		{ { "move.copied", C, die } } },
		"the mover dies when all is copied, and nothing is decided", 2, 0 },
	{ { "move_mover_dies_late", LITMUS_LOADED,
		{ end_inserted_moved, insert_all_the_time, insert_all_the_time, move },
		{ { "move.decided", C, die } } },
		"the mover dies when the successor has the memory", 2, 0 },
	{ { "move_successor_dies", LITMUS_LOADED,
		{ end_inserted_stayed, insert_all_the_time, insert_all_the_time, move_in_vain },
		{ { "move.exported", C, kill_successor } } },
		"the successor dies while memory is copied to it", 2, 0 },
	{ { "move_client_dies", LITMUS_LOADED,
		{ end_one_moved, insert_all_the_time, insert_until_killed, move },
		{ { "gate.closed", B, litmus_die_here } } },
		"a client dies as it stops its requests", 2, 0 },
	{ { "move_fence", LITMUS_LOADED,
		{ end_fenced, insert_all_the_time, insert_until_killed, move },
		{ { "move.exported", C, kill_and_fence } } },
		"a client dies when the books are copied, and is fenced", 2, 0 },
	{ { "move_outrun", LITMUS_LOADED, { end_outrun, insert_slowly, NULL, move_outrun },
		{ { "move.copied", C, begin_anew } } },
		"a move is given up when all is copied, and another one begins", 2, 0 },
	{ { "move_noted", LITMUS_LOADED, { end_noted, insert_when_copied, NULL, move },
		{ { "move.passed", C, let_insert } } },
		"memory is copied, and a client changes a leaf before it moves", 2, 0 },
	{ { "move_noted_last", LITMUS_LOADED, { end_noted, insert_when_copied, NULL, move },
		{ { "move.passes_over", C, let_insert } } },
		"the same, once only the last pass is to come", 2, 0 },
	{ { "move_noted_late", LITMUS_LOADED, { end_noted, insert_slowly_there, NULL, move },
		{ { "lock.taken", A, hold_until_passed }, { "move.passed", C, say_passed } } },
		"a client has locked a leaf before it was copied, and writes it afterwards", 2, 0 },
	{ { "move_noted_leaves", LITMUS_LOADED, { end_noted, insert_and_leave, NULL, move },
		{ { "move.passed", C, let_insert } } },
		"memory is copied, a client changes a leaf, and leaves", 2, 0 },
	{ { "move_noted_dies", LITMUS_LOADED, { end_noted, NULL, insert_and_die, move },
		{ { "move.passed", C, let_insert } } },
		"memory is copied, a client changes a leaf, and dies", 2, 0 },
	{ { "move_noted_served", LITMUS_LOADED, { end_moved, put_when_copied, NULL, move },
		{ { "move.passed", C, let_insert } } },
		"memory is copied, and a memory server moves the head of a record", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
