/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_failures.c -- scenes about remains: of connections that break, and by nodes
 * that were taken out.
 */
#include <stdlib.h>

#include "common/guard.h"
#include "compute/client/peers.h"
#include "compute/remote/epoch.h"
#include "compute/remote/lock_slot.h"
#include "index/index_internal.h"
#include "index/maintain/collector_word.h"
#include "litmus.h"

/* About when WRITEs that are posted now are carried out. */
#define BREAK_NS 300u
#define BREAK_SPREAD_NS 900u

/* ---- a node that was taken out has entries that are not in order ----------------------------- */

/* The third leaf has few entries, the last of them out of order, when it goes into the second. */
static void
merge_unsorted(struct actor *self)
{
	struct nam_collect_stat stat = { 0 };
	int rc;

	litmus_await(ONE);
	litmus_delete_range(self, 130, 210);
	litmus_delete_range(self, 220, 290);
	litmus_insert(self, 225);
	rc = nam_index_collect(self->worker, self->index, &stat);
	if (rc || stat.merges != 1)
		litmus_fail("collect: %s, %llu merges", nam_err_name(rc),
			(unsigned long long)stat.merges);
	litmus.flags[TWO] = true;
}

/* By a cached pointer to the node that is gone: whole, and dead. */
static void
look_for_what_moved(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	litmus_expect(self, 225, 0);
	litmus_expect_range(self, 300, 320, 0);
}

static void
end_unsorted(struct actor *self)
{
	litmus_expect_range(self, 0, 120, 0);
	litmus_expect_range(self, 130, 290, -NAM_E_NOTFOUND);
	litmus_expect(self, 225, 0);
	litmus_expect_range(self, 300, 430, 0);
	litmus_verify(self);
}

/* ---- a lock whose holder's writes failed ----------------------------------------------------- */

static void
break_connection(void *arg)
{
	struct actor *self = arg;

	if (self->worker->qps[0])
		nam_sim_qp_break(self->worker->qps[0]);
}

/* A's first worker holds the lock, its second one waits for it in the process's queue. */
static void
hold_then_break(struct actor *self)
{
	if (litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	nam_sleep_ns(LITMUS_POLL_NS);
	nam_sim_call_after(BREAK_NS + nam_sim_random() % BREAK_SPREAD_NS, break_connection,
		self);
}

static void
insert_second(void *arg)
{
	struct actor *self = arg;
	struct actor second = *self;
	int rc;

	second.worker = sim_worker(self->client);
	if (!second.worker)
		sim_die("the second worker cannot come");
	litmus_await(ONE);
	litmus.flags[TWO] = true;
	rc = litmus_try_insert(&second, 165);
	if (rc == -NAM_E_REMOTE_CORRUPT)
		litmus_fail("insert(165): %s", nam_worker_diag(second.worker));
	litmus.flags[INSERTED] = !rc;
	nam_worker_close(second.worker);
}

static void
insert_twice(struct actor *self)
{
	struct nam_thread *thread;

	if (nam_thread_start("second", insert_second, self, &thread))
		sim_die("a thread cannot be started");
	(void)litmus_try_insert(self, 115);	/* its connection breaks, or has just been used */
	nam_thread_join(thread);
	litmus.flags[THREE] = true;
}

/* Another client: acknowledged changes are there. */
static void
look_for_second(struct actor *self)
{
	litmus_await(THREE);
	nam_sleep_ns(LITMUS_TICKS_NS);
	if (litmus.flags[INSERTED])
		litmus_expect(self, 165, 0);
}

/* ---- a lock that stays in one process -------------------------------------------------------- */

#define HOGS 3u

static void
hog(void *arg)
{
	struct actor mine = *(struct actor *)arg;
	struct nam__held held;
	struct nam__key full;
	uint8_t key[8];

	mine.worker = sim_worker(mine.client);
	if (!mine.worker)
		sim_die("another worker cannot come");
	held.image = nam_buffer_take(mine.worker, mine.index->g.node_bytes);
	nam_key_from_u64(115, key);
	nam__key_encode(&mine.index->g, key, 0, &full);
	/* A lock for its own sake: changes would be combined. */
	while (!litmus.flags[TWO]) {
		int rc;

		nam__op_begin(mine.worker, NAM_OP_OTHER);
		rc = nam__lock_covering(mine.worker, mine.index, full.w, 0, &held);
		if (!rc)
			rc = nam__unlock(mine.worker, &held);
		nam__op_end(mine.worker);
		if (rc)
			litmus_fail("a busy lock: %s", nam_err_name(rc));
		litmus.flags[ONE] = true;
	}
	nam_buffer_give(mine.worker, held.image, mine.index->g.node_bytes);
	nam_worker_close(mine.worker);
}

/* A fiber always waits for the lock, so the lock could stay in this process for ever. */
static void
hog_together(struct actor *self)
{
	struct nam_thread *threads[HOGS];

	for (unsigned i = 0; i < HOGS; i++)
		if (nam_thread_start("hog", hog, self, &threads[i]))
			sim_die("a thread cannot be started");
	for (unsigned i = 0; i < HOGS; i++)
		nam_thread_join(threads[i]);
}

static void
insert_beside_hogs(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, 165);
	litmus.flags[TWO] = true;
}

/* ---- a lock that is never free, and never the same ------------------------------------------- */

#define RESTLESS_NS 5000000u
#define RESTLESS_TIMES 200u
#define TIMEOUT_NS 450000000u	/* eight times lock_timeout_ms, and something */

/* As if many clients took turns, each of which is there before us. */
static void
pass_on(struct actor *self)
{
	struct nam_gaddr at = nam_gaddr_untagged(litmus_leaf_of(self, 150, NULL));
	uint64_t word = NAM_LOCK_FREE, next = NAM_LOCK_FREE, seen;
	int rc = 0;

	for (uint32_t i = 1; !rc && i <= RESTLESS_TIMES && !litmus.flags[TWO]; i++) {
		next = nam_lock_word(self->client->id, self->client->incarnation, i);
		rc = nam_cas_await(self->worker, at, word, next, &seen);
		if (rc || seen != word)
			sim_die("another client has taken the lock");
		word = next;
		litmus.flags[ONE] = true;
		nam_sleep_ns(RESTLESS_NS);
	}
	rc = nam_cas_await(self->worker, at, word, NAM_LOCK_FREE, &seen);
	if (rc || seen != word)
		litmus_fail("the lock of another is gone");
}

static void
give_up_waiting(struct actor *self)
{
	uint64_t since_ns;
	int rc;

	litmus_await(ONE);
	since_ns = nam_sim_now_ns();
	rc = litmus_try_insert(self, 151);
	litmus.flags[TWO] = true;
	if (rc != -NAM_E_LOCK_TIMEOUT || nam_sim_now_ns() - since_ns > TIMEOUT_NS)
		litmus_fail("insert(151): %s after %llu ns", nam_err_name(rc),
			(unsigned long long)(nam_sim_now_ns() - since_ns));
}

/* ---- a turn that does not come --------------------------------------------------------------- */

#define NAMES_NS (4 * LITMUS_TICKS_NS)	/* until clients know each other */
#define TURN_LATE_NS (LITMUS_TICKS_NS + 60000000u)
#define TURN_LOOK_NS 10000u		/* less than any wait for a turn */
#define FOR_EVER_NS 10000000000u

static void
hold_for_a_while(struct actor *self)
{
	(void)self;
	if (litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	nam_sleep_ns(LITMUS_TICKS_NS);
}

static void
insert_late(struct actor *self)
{
	nam_sleep_ns(NAMES_NS);
	litmus_insert(self, 115);
}

/* Violates C18: a task that waits for its turn does so for ever. */
static void
wait_for_ever(void *arg)
{
	struct actor *self = arg;

	for (uint32_t i = 0; i < NAM__LOCK_SLOTS; i++) {
		struct nam__task *task = self->client->locks->queues[i].task;

		if (task) {
			task->paused_until_ns += FOR_EVER_NS;
			return;
		}
	}
	if (nam_sim_faults()->lose)
		nam_sim_call_after(TURN_LOOK_NS, wait_for_ever, self);
}

/* All that the holder is asked for, or answers, is lost. */
static void
insert_without_turn(struct actor *self)
{
	uint64_t since_ns;

	litmus_await(ONE);
	nam_sim_faults()->lose = 1000000;
	if (!NAM_GUARD(QUEUE_TIMEOUT))
		wait_for_ever(self);
	since_ns = nam_sim_now_ns();
	litmus_insert(self, 165);
	nam_sim_faults()->lose = 0;
	if (nam_sim_now_ns() - since_ns > TURN_LATE_NS)
		litmus_fail("insert(165) took %llu ns",
			(unsigned long long)(nam_sim_now_ns() - since_ns));
}

/* ---- a dead client in a queue ---------------------------------------------------------------- */

static void
expect_turn(struct actor *self, uint64_t number)
{
	uint64_t since_ns = nam_sim_now_ns();

	litmus_insert(self, number);
	if (nam_sim_now_ns() - since_ns > TURN_LATE_NS)
		litmus_fail("insert(%llu) took %llu ns", (unsigned long long)number,
			(unsigned long long)(nam_sim_now_ns() - since_ns));
}

/* Meanwhile this client takes those that ask into its list. */
NAM_FIBER_FN static void
hold_and_receive(struct actor *self)
{
	litmus.flags[ONE] = true;
	nam__pause_await(self->worker, 2 * LITMUS_TICKS_NS); /* SUSPENDS */
}

/* It is in the holder's list, or about to be. */
static void
queue_and_die(struct actor *self)
{
	litmus_await(ONE);
	nam_sim_call_after(1 + nam_sim_random() % LITMUS_TICKS_NS, litmus_die, self);
	(void)litmus_try_insert(self, 116);
}

static void
queue_behind(struct actor *self)
{
	litmus_await(ONE);
	nam_sleep_ns(nam_sim_random() % LITMUS_TICKS_NS);
	expect_turn(self, 165);
}

/* The holder dies, and the list of those that wait with it. */
static void
die_with_list(struct actor *self)
{
	litmus.flags[ONE] = true;
	nam_sleep_ns(LITMUS_TICKS_NS);
	litmus_die_here(self);
}

static void
queue_first(struct actor *self)
{
	litmus_await(ONE);
	expect_turn(self, 116);
}

/* ---- datagrams of a client with a bug -------------------------------------------------------- */

#define STRAYS 400u
#define STRAYS_NS 20000u	/* from one to the next */
#define INSERTS 20u

/* Well formed, most of them, but for what they say. */
static void
send_strays(struct actor *self)
{
	struct nam_endpoint *endpoint = self->worker->peers->endpoint;
	struct nam_gaddr at = nam_gaddr_untagged(litmus_leaf_of(self, 150, NULL));
	static const uint8_t place[NAM_PLACE_BYTES];
	uint32_t handle;

	if (endpoint->ops->endpoint_place(endpoint, place, &handle))
		sim_die("a place is not known");
	litmus.flags[ONE] = true;
	for (unsigned i = 0; i < STRAYS; i++) {
		uint64_t words[NAM_DATAGRAM_BYTES_MAX / 8], dice = nam_sim_random();
		uint32_t count = dice % 4 ? 4 : (uint32_t)(dice >> 8) % 34;

		for (unsigned k = 0; k < NAM_DATAGRAM_BYTES_MAX / 8; k++)
			words[k] = (nam_sim_random() % 4 + 1) | 1ull << 16 |
				(nam_sim_random() % 8) << 32;
		/* kind, hops, count, place; receiver; word of the lock; lock word */
		words[0] = (1 + (dice >> 16) % 5) | (uint64_t)count << 16 |
			((dice >> 32) % 40) << 32;
		words[1] = (1 + (dice >> 40) % 4) | 1ull << 16;
		words[2] = dice % 8 ? at.raw : nam_sim_random();
		endpoint->ops->endpoint_send(endpoint, handle, (uint32_t)(dice >> 48) % 8, words,
			dice % 16 ? 32 + 8 * (count % 33) : (uint32_t)(dice >> 8) % 288);
		nam_sleep_ns(STRAYS_NS);
	}
}

static void
insert_among_strays(struct actor *self, uint64_t first)
{
	litmus_await(ONE);
	for (uint64_t i = 0; i < INSERTS; i++)
		litmus_insert(self, first + 2 * i);
}

static void
insert_among_strays_left(struct actor *self)
{
	insert_among_strays(self, 121);
}

static void
insert_among_strays_right(struct actor *self)
{
	insert_among_strays(self, 161);
}

/* ---- a lock that is taken away --------------------------------------------------------------- */

/* Its later writes are not to be trusted, so it must not report success. */
static void
insert_without_lock(struct actor *self)
{
	int rc = litmus_try_insert(self, 115);

	if (rc != -NAM_E_FENCED)
		litmus_fail("insert(115): %s, though its lock was taken away", nam_err_name(rc));
	litmus.flags[THREE] = true;
}

struct combined_update {
	struct actor *self;
	uint64_t key;
	int rc;
};

static void
combined_update(void *arg)
{
	struct combined_update *update = arg;
	uint8_t key[8];

	nam_key_from_u64(update->key, key);
	update->rc = nam_index_update(update->self->worker, update->self->index, key, 1);
}

/* The second one waits for the lock when the first takes it, and is carried out under it. */
static void
update_two_without_lock(struct actor *self)
{
	struct combined_update updates[2] = { { self, 110, 0 }, { self, 120, 0 } };

	for (unsigned i = 0; i < 2; i++)
		if (nam_worker_spawn(self->worker, combined_update, &updates[i]))
			sim_die("no fiber");
	nam_worker_run(self->worker);
	for (unsigned i = 0; i < 2; i++)
		if (updates[i].rc != -NAM_E_FENCED)
			litmus_fail("update(%llu): %s, though the lock was taken away",
				(unsigned long long)updates[i].key, nam_err_name(updates[i].rc));
	litmus.flags[THREE] = true;
}

/* The same with two calls of two changes each; the last finds nothing to update. */
struct combined_call {
	struct actor *self;
	struct nam_index_change changes[2];
};

static void
combined_call(void *arg)
{
	struct combined_call *call = arg;

	(void)!nam_index_change_many(call->self->worker, call->self->index, call->changes, 2);
}

static void
change_many_without_lock(struct actor *self)
{
	static const uint64_t numbers[] = { 110, 120, 130, 135 };
	struct combined_call calls[2];
	uint8_t keys[4][8];

	for (unsigned i = 0; i < 4; i++) {
		nam_key_from_u64(numbers[i], keys[i]);
		calls[i / 2].self = self;
		calls[i / 2].changes[i % 2] = (struct nam_index_change){ keys[i], 1,
			NAM_CHANGE_UPDATE, 0 };
	}
	for (unsigned i = 0; i < 2; i++)
		if (nam_worker_spawn(self->worker, combined_call, &calls[i]))
			sim_die("no fiber");
	nam_worker_run(self->worker);
	for (unsigned i = 0; i < 4; i++)
		if (calls[i / 2].changes[i % 2].rc != -NAM_E_FENCED)
			litmus_fail("change of %llu: %s, though the lock was taken away",
				(unsigned long long)numbers[i],
				nam_err_name(calls[i / 2].changes[i % 2].rc));
	litmus.flags[THREE] = true;
}

/* As a client that finds a holder dead by mistake. */
static void
steal(struct actor *self)
{
	uint64_t mine = nam_lock_word(self->client->id, self->client->incarnation, 1), word, seen;
	struct nam_gaddr at;
	int rc;

	litmus_await(ONE);
	at = nam_gaddr_untagged(litmus_leaf_of(self, 115, &word));
	if (nam_lock_owner(word) != litmus.actors[A].client->id)
		sim_die("the lock is not where it was expected");
	rc = nam_cas_await(self->worker, at, word, mine, &seen);
	if (rc || seen != word)
		sim_die("the lock cannot be taken away");
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	rc = nam_cas_await(self->worker, at, mine, NAM_LOCK_FREE, &seen);
	if (rc || seen != mine)
		litmus_fail("a client without its lock released that of another");
}

/* ---- a merge whose connection breaks --------------------------------------------------------- */

/* A leaf behind another one, and on another server than its parent, the root. */
static uint64_t
leaf_apart(struct actor *self)
{
	struct nam_gaddr root = NAM_GADDR_NULL;
	unsigned level;
	int rc;

	nam__op_begin(self->worker, NAM_OP_OTHER);
	rc = nam__root_find(self->worker, self->index, &root, &level);
	nam__op_end(self->worker);
	if (rc || level != 1)
		sim_die("the tree has grown otherwise");
	for (uint64_t first = 110; first <= 330; first += 110)
		if (litmus_server_of(self, litmus_leaf_of(self, first, NULL)) !=
			litmus_server_of(self, root))
			return first;
	sim_die("all leaves are where the root is");
}

static uint64_t apart;			/* the first key of the leaf that B empties */

static void
merge_half(struct actor *self)
{
	struct nam_collect_stat stat;
	int rc;

	apart = leaf_apart(self);
	litmus_delete_range(self, apart, apart + 100);
	rc = nam_index_collect(self->worker, self->index, &stat);
	if (!nam_err_is(rc, NAM_E_FABRIC))
		litmus_fail("collect: %s", nam_err_name(rc));
	litmus.flags[ONE] = true;
	litmus_await(TWO);
}

/* The left node has been written, the parent has not: now it cannot be any more. */
static void
break_before_parent(struct actor *self)
{
	struct nam_gaddr root = { atomic_load(&self->index->root) };
	uint32_t server = litmus_server_of(self, root);

	if (self->worker->qps[server])
		nam_sim_qp_break(self->worker->qps[server]);
}

static uint64_t
scanned(struct actor *self, uint64_t first, uint64_t last)
{
	uint8_t low[8], high[8];
	struct nam_range range = { .low = low, .high = high, .high_inclusive = true };
	struct nam_cursor *cursor;
	uint32_t got = 1;
	uint64_t count = 0;
	int rc;

	nam_key_from_u64(first, low);
	nam_key_from_u64(last, high);
	rc = nam_cursor_open(self->worker, self->index, &range, &cursor);
	if (rc)
		sim_die("no memory");
	while (!rc && got) {
		uint64_t payloads[16];

		rc = nam_cursor_next(cursor, NULL, payloads, 16, &got);
		count += rc ? 0 : got;
	}
	nam_cursor_close(cursor);
	if (rc)
		litmus_fail("scan: %s", nam_err_name(rc));
	return count;
}

/* Into the node that the chain passes by, but that the parent still names: not at all, or seen. */
static void
insert_after_half(struct actor *self)
{
	litmus_await(ONE);
	if (!litmus_try_insert(self, apart + 5) &&
		scanned(self, apart - 110, apart + 100) != LITMUS_LOADED / 4 + 1)
		litmus_fail("an acknowledged insert is not in the chain");
	litmus.flags[TWO] = true;
}

/* ---- the scenes ------------------------------------------------------------------------------ */

/* ---- a word that one client at a time has ---------------------------------------------------- */

static int
enter(struct actor *self, uint64_t *ret_word)
{
	int rc;

	nam__op_begin(self->worker, NAM_OP_OTHER);
	rc = nam__collector_enter(self->worker, self->index, 0, ret_word);
	nam__op_end(self->worker);
	return rc;
}

/* Again, once another client has seen the first word. */
static void
own_twice_and_die(struct actor *self)
{
	uint64_t word;

	if (enter(self, &word))
		litmus_fail("the first owner: %s", nam_worker_diag(self->worker));
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	if (nam__collector_leave(self->worker, self->index, word) || enter(self, &word))
		litmus_fail("the first owner again: %s", nam_worker_diag(self->worker));
	litmus_die_here(self);
}

static void
succeed(struct actor *self)
{
	uint64_t word;
	int rc;

	litmus_await(ONE);
	rc = enter(self, &word);
	if (!rc)
		rc = nam__collector_leave(self->worker, self->index, word);
	if (rc)
		litmus_fail("the word of a dead owner: %s", nam_worker_diag(self->worker));
}

static void
await_death(struct actor *self)
{
	if (litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	litmus_await_state(self, A, NAM_CLIENT_DEAD);
}

const struct litmus_case litmus_failure_cases[] = {
	{ { "merged_unsorted", LITMUS_LOADED, { end_unsorted, merge_unsorted, look_for_what_moved },
			{ { 0 } } },
		"a cached pointer leads to a dead node whose entries were out of order", 1, 0 },
	{ { "failed_writes", LITMUS_LOADED, { NULL, insert_twice, look_for_second },
			{ { "lock.taken", A, hold_then_break } } },
		"a holder's connection breaks as it writes, and a sibling thread waits", 1, 0 },
	{ { "hogged_lock", LITMUS_LOADED, { NULL, hog_together, insert_beside_hogs }, { { 0 } } },
		"workers of one process hand a lock on, and another process wants it", 1, 0 },
	{ { "restless_lock", LITMUS_LOADED, { NULL, pass_on, give_up_waiting }, { { 0 } } },
		"a lock changes hands and is never free: the waiter gives up", 1, 0 },
	{ { "lost_turn", LITMUS_LOADED, { NULL, insert_late, insert_without_turn },
			{ { "lock.taken", A, hold_for_a_while } } },
		"datagrams about a lock are lost: the waiter looks by itself", 2, 0 },
	{ { "dead_waiter", LITMUS_LOADED, { NULL, insert_late, queue_and_die, queue_behind },
			{ { "lock.taken", A, hold_for_a_while } } },
		"a client that waits for a lock dies, and another waits behind it", 2, 0 },
	{ { "dead_turn", LITMUS_LOADED, { NULL, insert_late, queue_and_die, queue_behind },
			{ { "lock.taken", A, hold_and_receive } } },
		"a lock word is reserved for a client that has died", 2, 0 },
	{ { "dead_list", LITMUS_LOADED, { NULL, insert_late, queue_first, queue_behind },
			{ { "lock.taken", A, die_with_list } } },
		"a client dies with a lock and the list of those that wait for it", 2, 0 },
	{ { "stray_datagrams", LITMUS_LOADED, { NULL, insert_among_strays_left,
			insert_among_strays_right, send_strays }, { { 0 } } },
		"a client sends datagrams about a lock that say anything", 2, 0 },
	{ { "stolen_lock", LITMUS_LOADED, { NULL, insert_without_lock, steal },
			{ { "lock.taken", A, litmus_hold_first } } },
		"a holder's lock is taken away: it is told, and leaves the other's lock", 1, 0 },
	{ { "stolen_from_two", LITMUS_LOADED, { NULL, update_two_without_lock, steal },
			{ { "lock.taken", A, litmus_hold_first } } },
		"the same, and the holder has carried out another task's change", 1, 0 },
	{ { "stolen_from_many", LITMUS_LOADED, { NULL, change_many_without_lock, steal },
			{ { "lock.taken", A, litmus_hold_first } } },
		"the same with two calls of several changes each", 1, 0 },
	{ { "half_a_merge", LITMUS_LOADED, { NULL, insert_after_half, merge_half },
			{ { "merge.left_written", B, break_before_parent } } },
		"a collector's connection breaks between the left node and the parent", 2, 0 },
	{ { "succeed_again", LITMUS_LOADED, { NULL, own_twice_and_die, succeed },
		{ { "owner.seen", B, await_death } } },
		"a collector leaves, comes again and dies, after another client has seen its word",
		2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
