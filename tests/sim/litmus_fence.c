/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_fence.c -- scenes about the end of a client: once it is DEAD, it changes no memory.
 */
#include <string.h>

#include "compute/view/fence.h"
#include "compute/remote/lock_slot.h"
#include "compute/worker/worker.h"
#include "litmus.h"
#include "memserver/memserver_internal.h"

#define NODE_BYTES 256u
#define LATE_NS (4 * LITMUS_TICKS_NS)	/* a WRITE is under way for so long */
#define HELD_UP_NS (6 * LITMUS_TICKS_NS)
#define KEY 115u

static struct nam_gaddr leaf;		/* of KEY */

static void
end_session(struct actor *self)
{
	struct nam_client *client = self->client;

	nam_sim_qp_break(client->epoch_worker->qps[client->catalog_slot]);
}

static void
leaf_find(struct actor *self)
{
	leaf = nam_gaddr_untagged(litmus_leaf_of(self, KEY, NULL));
}

static void
leaf_read(struct actor *self, uint8_t *ret_bytes)
{
	void *image = nam_buffer_take(self->worker, NODE_BYTES);

	if (!image || nam_read_await(self->worker, leaf, image, NODE_BYTES))
		sim_die("the leaf: %s", nam_worker_diag(self->worker));
	memcpy(ret_bytes, image, NODE_BYTES);
	nam_buffer_give(self->worker, image, NODE_BYTES);
}

/* From the death on, until this flag is set, or for as long as that WRITE is under way. */
static void
expect_unchanged(struct actor *self, enum flag flag)
{
	uint8_t before[NODE_BYTES], after[NODE_BYTES];

	litmus_await_state(self, A, NAM_CLIENT_DEAD);
	leaf_read(self, before);
	litmus.flags[THREE] = true;
	litmus_await_for(flag, 2 * LATE_NS);
	leaf_read(self, after);
	if (memcmp(before, after, NODE_BYTES) != 0)
		litmus_fail("a client that is dead has changed a node");
}

/* ---- a WRITE is under way -------------------------------------------------------------------- */

/* Violates M5: the lead says that the client is DEAD, and its queue pairs are open. */
static void
publish_first(const struct nam_client *client)
{
	struct nam__membership *membership = &litmus.cluster.servers[0].server->membership;
	struct nam__member *member = &membership->members[client->id];

	member->session->session = false;
	member->session = NULL;
	nam__member_fence(membership, member);
	nam__member_publish(membership, member);
}

/* The session ends; the client's worker has taken a lock, and is about to write. */
static void
end_before_writes(struct actor *self)
{
	if (litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	nam_sim_delay_next(NAM_WR_WRITE, 0, LATE_NS);
	if (!NAM_GUARD(FENCE_FIRST))
		publish_first(self->client);
	end_session(self);
}

static void
insert_late(struct actor *self)
{
	litmus_await(TWO);
	(void)litmus_try_insert(self, KEY);
}

static void
watch_writes(struct actor *self)
{
	leaf_find(self);
	litmus.flags[TWO] = true;
	litmus_await(ONE);
	expect_unchanged(self, FOUR);
}

/* ---- a key that is removed ------------------------------------------------------------------- */

/* The same, but it is the operator that ends the client. */
static void
withdraw_before_writes(struct actor *self)
{
	if (litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	if (!(self->client->caps & NAM_CAP_LASTING))
		nam_sim_delay_next(NAM_WR_WRITE, 0, LATE_NS);
	litmus_keys_withdraw(&litmus.cluster);
}

/* Where its mappings cannot be taken from it, it stays. */
static void
watch_withdrawal(struct actor *self)
{
	leaf_find(self);
	litmus.flags[TWO] = true;
	litmus_await(ONE);
	if (!(self->client->caps & NAM_CAP_LASTING)) {
		expect_unchanged(self, FOUR);
	} else if (litmus_state_of(self, A) != NAM_CLIENT_ALIVE) {
		litmus_fail("a client is fenced, and its mappings stay");
	}
}

/* ---- a client that comes back ---------------------------------------------------------------- */

static void
come_back(struct actor *self)
{
	struct nam_worker *worker;
	struct nam_diag diag = { "" };
	uint64_t seen;
	int rc;

	litmus_await(TWO);
	end_session(self);
	litmus.flags[ONE] = true;
	litmus_await(THREE);
	rc = nam_worker_open(self->client, &worker, &diag);
	if (rc && rc != -NAM_E_FABRIC_FENCED)
		litmus_fail("a client that is dead connects: %s", nam_err_name(rc));
	if (rc)
		return;
	(void)!nam_cas_await(worker, leaf, NAM_LOCK_FREE, nam__lock_word_new(worker), &seen);
	nam_worker_close(worker);
	litmus.flags[FOUR] = true;
}

static void
watch_return(struct actor *self)
{
	leaf_find(self);
	litmus.flags[TWO] = true;
	litmus_await(ONE);
	expect_unchanged(self, FOUR);
}

/* ---- a memory server that does not say so ---------------------------------------------------- */

static struct nam_sim_process *
last_server(void)
{
	return litmus.actors[SERVER].process;
}

static void
end_only(struct actor *self)
{
	litmus.flags[FOUR] = true;
	litmus_await(TWO);
	end_session(self);
	litmus.flags[ONE] = true;
	litmus_await(THREE);
}

/* It is stopped: the client is not dead before it goes on. */
static void
watch_silence(struct actor *self)
{
	uint64_t until_ns = nam_sim_now_ns() + HELD_UP_NS;

	litmus_stall(last_server(), HELD_UP_NS);
	litmus.flags[TWO] = true;
	litmus_await(ONE);
	while (nam_sim_now_ns() + LITMUS_TICKS_NS < until_ns) {
		if (litmus_state_of(self, A) == NAM_CLIENT_DEAD)
			litmus_fail("a client is dead, and a memory server has not answered");
		nam_sleep_ns(LITMUS_POLL_NS);
	}
	litmus_await_state(self, A, NAM_CLIENT_DEAD);
	litmus.flags[THREE] = true;
}

/* It has ended: nothing is left there that could hold up the end of a client. */
static void
watch_gone(struct actor *self)
{
	/* While a client joins, no memory server may end. */
	litmus_await(FOUR);
	nam_sim_process_kill(last_server());
	litmus.flags[TWO] = true;
	litmus_await(ONE);
	litmus_await_state(self, A, NAM_CLIENT_DEAD);
	litmus.flags[THREE] = true;
}

/* ---- by hand --------------------------------------------------------------------------------- */

/* A client that is alive, where its queue pairs can be taken from it. */
static void
fence_alive(struct actor *self)
{
	const struct actor *other = &litmus.actors[A];
	struct nam_diag diag = { "" };
	uint32_t state = NAM_CLIENT_UNKNOWN;
	int rc;

	litmus_await(ONE);
	leaf_find(self);
	rc = nam__client_fence(self->worker, NULL, other->id, other->incarnation, 0,
		LITMUS_TIMEOUT_NS, &state, &diag);
	if (self->client->caps & NAM_CAP_LASTING) {
		if (rc != -NAM_E_FABRIC_CAPABILITY || litmus_state_of(self, A) != NAM_CLIENT_ALIVE)
			litmus_fail("fencing a living client: %s", nam_err_name(rc));
	} else if (rc || state != NAM_CLIENT_DEAD) {
		litmus_fail("fencing: %s, state %u", nam_err_name(rc), state);
	} else {
		expect_unchanged(self, SEEN);
	}
	litmus.flags[THREE] = true;
}

static void
insert_until_fenced(struct actor *self)
{
	litmus.flags[ONE] = true;
	for (uint64_t i = 0; i < 9 && !litmus.flags[THREE]; i++) {
		(void)litmus_try_insert(self, KEY + i % 5);
		nam_sleep_ns(LITMUS_POLL_NS);
	}
	litmus_await(THREE);
}

/* ---- a client that fences another one dies --------------------------------------------------- */

static int
fence_a(struct actor *self, uint32_t *ret_state)
{
	const struct actor *other = &litmus.actors[A];
	struct nam_diag diag = { "" };

	return nam__client_fence(self->worker, NULL, other->id, other->incarnation, 0,
		LITMUS_TIMEOUT_NS, ret_state, &diag);
}

/* Where it cannot be fenced alive, its session ends first. */
static void
insert_until_dead(struct actor *self)
{
	litmus_await(TWO);
	if (self->client->caps & NAM_CAP_LASTING)
		end_session(self);
	insert_until_fenced(self);
}

static void
fence_and_die(struct actor *self)
{
	uint32_t state;

	litmus_await(ONE);
	if (self->client->caps & NAM_CAP_LASTING)
		litmus_await_state(self, A, NAM_CLIENT_FENCING);
	(void)!fence_a(self, &state);
}

/* All queue pairs are closed, and it is not published. */
static void
die_closed(struct actor *self)
{
	if (!litmus.flags[ONE])
		return;
	litmus.flags[FIVE] = true;
	nam_sim_process_kill(self->process);
}

static void
fence_after(struct actor *self)
{
	uint32_t state = NAM_CLIENT_UNKNOWN;
	int rc;

	leaf_find(self);
	litmus.flags[TWO] = true;
	litmus_await(FIVE);
	if (litmus_state_of(self, A) != NAM_CLIENT_FENCING)
		litmus_fail("the client is not half fenced");
	rc = fence_a(self, &state);
	if (rc || state != NAM_CLIENT_DEAD)
		litmus_fail("fencing: %s, state %u", nam_err_name(rc), state);
	expect_unchanged(self, SEEN);
}

/* ---- another life of the lead ---------------------------------------------------------------- */

/* Clients of the first life are still connected to the other memory server, and may hold locks. */
static void
begin_anew(struct actor *self)
{
	struct nam_client *client;
	struct nam_diag diag = { "" };

	(void)self;
	sim_server_restart(&litmus.cluster.servers[0]);
	if (sim_client_try(&litmus.cluster, litmus.cluster.list, "other", &client, &diag)) {
		litmus_fail("a client of the second life: %s", diag.text);
		return;
	}
	for (unsigned i = DIRECTOR; i <= A; i++)
		if (client->id == litmus.actors[i].client->id &&
			client->incarnation == litmus.actors[i].client->incarnation)
			litmus_fail("two clients have the name %u, %u", client->id,
				client->incarnation);
	nam_client_close(client);
}

/* Incarnations of its first life have come round. */
static void
wrap_and_begin_anew(struct actor *self)
{
	static const uint16_t befores[] = { 20000, 40000, 60000, UINT16_MAX };

	for (unsigned i = 0; i < sizeof(befores) / sizeof(befores[0]); i++) {
		struct nam_client *client;
		struct nam_diag diag = { "" };

		litmus.cluster.servers[0].server->membership.before = befores[i];
		if (sim_client_try(&litmus.cluster, litmus.cluster.list, "one", &client, &diag))
			sim_die("a client of the first life: %s", diag.text);
		nam_client_close(client);
	}
	begin_anew(self);
}

/* ---- cases ----------------------------------------------------------------------------------- */

const struct litmus_case litmus_fence_cases[] = {
	{ { "fence_first", LITMUS_LOADED, { NULL, insert_late, watch_writes },
		{ { "lock.taken", A, end_before_writes } } },
		"a client's session ends, and another queue pair of it has a WRITE under way",
		2, 0 },
	{ { "fence_alone", LITMUS_LOADED, { NULL, insert_late, watch_writes },
		{ { "lock.taken", A, end_before_writes } } },
		"the same with one memory server, which needs no other client", 1, 0 },
	{ { "fence_key_removed", LITMUS_LOADED, { NULL, insert_late, watch_withdrawal },
		{ { "lock.taken", A, withdraw_before_writes } } },
		"a client's key is removed while a WRITE of it is under way", 2,
		LITMUS_FINE_KEYS },
	{ { "fence_returns", LITMUS_LOADED, { NULL, come_back, watch_return }, { { 0 } } },
		"a client that is dead connects anew, and takes a lock", 2, 0 },
	{ { "fence_silent", LITMUS_LOADED, { NULL, end_only, watch_silence }, { { 0 } } },
		"a client's session ends while a memory server is stopped", 3, 0 },
	{ { "fence_gone", LITMUS_LOADED, { NULL, end_only, watch_gone }, { { 0 } } },
		"a client's session ends after a memory server has", 3, 0 },
	{ { "fence_by_hand", LITMUS_LOADED, { NULL, insert_until_fenced, fence_alive }, { { 0 } } },
		"a client that is alive is fenced", 2, 0 },
	{ { "fence_dies", LITMUS_LOADED, { NULL, insert_until_dead, fence_and_die, fence_after },
		{ { "fence.closed", B, die_closed } } },
		"a client dies that has closed another one's queue pairs, and a third goes on", 2,
		0 },
	{ { "fence_new_lead", LITMUS_LOADED, { NULL, begin_anew }, { { 0 } } },
		"the lead is restarted, and clients come beside those of its first life", 2, 0 },
	{ { "fence_wrapped", LITMUS_LOADED, { NULL, wrap_and_begin_anew }, { { 0 } } },
		"the same, after incarnations of clients have come round", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
