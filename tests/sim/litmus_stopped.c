/* SPDX-License-Identifier: Apache-2.0 */
/* litmus_stopped.c -- scenes in which a client is stopped or cut off, and in the way of others. */
#include "compute/remote/epoch.h"
#include "compute/worker/worker.h"
#include "litmus_steward.h"

#define FENCE_NS 1000000000ull
#define STOPPED_NS (3 * FENCE_NS)
#define BLOCK_BYTES 4096u
#define LOADED_STEP 10u			/* every tenth key is there from the start */

/* From ONE to TWO it is in the middle of an operation. */
static int
insert_after_scan(struct actor *self)
{
	nam__op_begin(self->worker, NAM_OP_SCAN);
	litmus.flags[ONE] = true;
	litmus_await_for(TWO, 2 * STOPPED_NS);
	nam__op_end(self->worker);
	return litmus_try_insert(self, 115);
}

/* It was stopped meanwhile.  If it could be fenced, nothing that it does takes effect. */
static void
be_stopped(struct actor *self)
{
	bool stays = self->client->caps & NAM_CAP_LASTING;
	int rc = insert_after_scan(self);

	if (rc != (stays ? 0 : -NAM_E_FABRIC_FENCED))
		litmus_fail("a client that was stopped inserts: %s", nam_err_name(rc));
	litmus.flags[SEEN] = true;
}

static void
be_busy(struct actor *self)
{
	int rc = insert_after_scan(self);

	if (rc)
		litmus_fail("a client that was busy inserts: %s", nam_err_name(rc));
	litmus.flags[SEEN] = true;
}

/* Whether the block can be used again within so long. */
static bool
retire_and_wait(struct actor *self, uint64_t timeout_ns)
{
	uint64_t until_ns = nam_sim_now_ns() + timeout_ns, reusable = 0;
	struct nam_gaddr block;

	if (nam_alloc(self->worker, BLOCK_BYTES, &block))
		sim_die("no block: %s", nam_worker_diag(self->worker));
	nam_retire(self->worker, nam_gaddr_untagged(block), BLOCK_BYTES);
	while (!reusable && nam_sim_now_ns() < until_ns) {
		if (nam__limbo_advance(self->worker, &reusable))
			sim_die("the epoch: %s", nam_worker_diag(self->worker));
		nam_sleep_ns(LITMUS_STEWARD_PAUSE_NS);
	}
	return reusable > 0;
}

static void
stop_and_reuse(struct actor *self)
{
	bool stays = self->client->caps & NAM_CAP_LASTING;

	litmus_await(ONE);
	litmus_stall(litmus.actors[A].process, STOPPED_NS);
	if (retire_and_wait(self, STOPPED_NS - FENCE_NS / 2) == stays)
		litmus_fail("a client is stopped, and blocks can%s be used again",
			stays ? "" : "not");
	litmus.flags[TWO] = true;
	litmus_await_for(SEEN, 2 * STOPPED_NS);
	litmus_expect(self, 115, stays ? 0 : -NAM_E_NOTFOUND);
	if (!retire_and_wait(self, FENCE_NS))
		litmus_fail("a client has gone on, and blocks cannot be used again");
	litmus.flags[THREE] = true;
}

static void
hold_lock(struct actor *self)
{
	(void)self;
	if (litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	litmus_await_for(TWO, 2 * STOPPED_NS);
}

static void
insert_or_be_fenced(struct actor *self)
{
	bool stays = self->client->caps & NAM_CAP_LASTING;
	int rc = litmus_try_insert(self, 115);

	if (rc != (stays ? 0 : -NAM_E_FABRIC_FENCED))
		litmus_fail("a client that was stopped with a lock: %s", nam_err_name(rc));
	litmus.flags[SEEN] = true;
}

/* No client retires a block, but one waits for the lock. */
static void
stop_and_lock(struct actor *self)
{
	uint64_t until_ns = nam_sim_now_ns() + STOPPED_NS - FENCE_NS / 2;
	bool stays = self->client->caps & NAM_CAP_LASTING;
	int rc = -NAM_E_LOCK_TIMEOUT;

	litmus_await(ONE);
	litmus_stall(litmus.actors[A].process, STOPPED_NS);
	while (rc == -NAM_E_LOCK_TIMEOUT && nam_sim_now_ns() < until_ns)
		rc = litmus_try_insert(self, 116);
	if (rc != (stays ? -NAM_E_LOCK_TIMEOUT : 0))
		litmus_fail("a client is stopped with a lock, and another inserts: %s",
			nam_err_name(rc));
	litmus.flags[TWO] = true;
	litmus_await_for(SEEN, 2 * STOPPED_NS);
	litmus_expect(self, 115, stays ? 0 : -NAM_E_NOTFOUND);
	litmus.flags[THREE] = true;
}

static void
reuse_not(struct actor *self)
{
	litmus_await(ONE);
	if (retire_and_wait(self, STOPPED_NS))
		litmus_fail("a client may still read a block that can be used again");
	litmus.flags[TWO] = true;
	litmus_await_for(SEEN, LITMUS_TIMEOUT_NS);
	litmus.flags[THREE] = true;
}

/* A key whose leaf is not on the lead.  It and the next one are not there. */
static uint64_t
far_key(struct actor *self)
{
	uint64_t number = 1;

	while (!litmus_server_of(self, litmus_leaf_of(self, number, NULL)))
		number += LOADED_STEP;
	return number;
}

static uint64_t far;

/* It reaches the lead, and not the memory server on which it has a lock. */
static void
lock_and_be_cut(struct actor *self)
{
	if (!litmus.flags[ONE] || litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	/* Elsewhere a connection lasts as long as both ends. */
	if (!(self->client->caps & NAM_CAP_LASTING))
		nam_sim_qp_break(self->worker->qps[1]);
}

static void
insert_far(struct actor *self)
{
	far = far_key(self);
	litmus.flags[ONE] = true;
	while (!litmus.flags[SEEN] && !litmus.failed) {
		(void)litmus_try_insert(self, far);
		nam_sleep_ns(LITMUS_STEWARD_PAUSE_NS);
	}
}

static void
insert_beside_cut(struct actor *self)
{
	uint64_t until_ns = nam_sim_now_ns() + STOPPED_NS;
	int rc = -NAM_E_LOCK_TIMEOUT;

	litmus_await(TWO);
	while (rc == -NAM_E_LOCK_TIMEOUT && nam_sim_now_ns() < until_ns)
		rc = litmus_try_insert(self, far + 1);
	if (rc)
		litmus_fail("a client is cut off with a lock, and another inserts: %s",
			nam_err_name(rc));
	litmus.flags[SEEN] = true;
	litmus.flags[THREE] = true;
}

static void
fence_the_stopped(struct actor *self)
{
	struct litmus_steward party;

	(void)self;
	litmus_steward_begin(&party, litmus_steward_store());
	party.steward.fence_ms = FENCE_NS / 1000000;
	while (!litmus.flags[THREE] && !litmus.failed) {
		(void)litmus_steward_pass(&party);
		nam_sleep_ns(10 * LITMUS_STEWARD_PAUSE_NS);
	}
	litmus_steward_end(&party);
}

static void
end_with_two(struct actor *self)
{
	litmus_expect_members(self, 2);
	litmus_verify(self);
}

const struct litmus_case litmus_stopped_cases[] = {
	{ { "stopped_client", LITMUS_LOADED,
		{ end_with_two, be_stopped, stop_and_reuse, fence_the_stopped }, { { 0 } } },
		"a client is stopped in the middle of an operation, and holds back the epoch", 2,
		0 },
	{ { "cut_holder", LITMUS_LOADED,
		{ end_with_two, insert_far, insert_beside_cut, fence_the_stopped },
		{ { "lock.taken", A, lock_and_be_cut } } },
		"a client loses the memory server on which it has a lock, and reaches the lead", 2,
		0 },
	{ { "stopped_holder", LITMUS_LOADED,
		{ end_with_two, insert_or_be_fenced, stop_and_lock, fence_the_stopped },
		{ { "lock.taken", A, hold_lock } } },
		"a client is stopped with a lock, and another one waits for that", 2, 0 },
	{ { "busy_client", LITMUS_LOADED,
		{ end_with_two, be_busy, reuse_not, fence_the_stopped }, { { 0 } } },
		"a long operation holds back the epoch", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
