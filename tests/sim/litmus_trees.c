/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_trees.c -- scenes about the steps of a change: splits, growth, merges, reuse, drops, and
 * locks that others hold.
 */
#include <stdlib.h>

#include "compute/remote/spare.h"
#include "index/index_internal.h"
#include "litmus.h"
#include "memory.h"

static void
raise_three(void *arg)
{
	(void)arg;
	litmus.flags[THREE] = true;
}

/* ---- split ----------------------------------------------------------------------------------- */

static void
divide(struct actor *self)
{
	litmus_insert(self, 111);
	litmus_insert(self, 112);
	litmus.flags[FOUR] = true;
}

static void
divide_only(struct actor *self)
{
	litmus_insert(self, 111);
	litmus_insert(self, 112);
}

static void
hold_long(struct actor *self)
{
	(void)self;
	litmus.flags[ONE] = true;
	litmus_await_for(TWO, LITMUS_TIMEOUT_NS);
}

static void
hold_divided(struct actor *self)
{
	(void)self;
	litmus.flags[ONE] = true;
	litmus_await_for(TWO, LITMUS_SHORT_NS * 8);
}

static void
warm_and_look(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus.flags[THREE] = true;
	litmus_await(ONE);
	/* The separator is not there yet, neither in the parent nor in the cache. */
	litmus_expect_range(self, 110, 210, 0);
	litmus_expect_range(self, 115, 215, -NAM_E_NOTFOUND);
	litmus.flags[TWO] = true;
	litmus_await(FOUR);
	litmus_expect_range(self, 110, 210, 0);
}

static void
divide_when_warm(struct actor *self)
{
	litmus_await(THREE);
	divide(self);
}

static void
end_whole(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus_expect_range(self, 5, 435, -NAM_E_NOTFOUND);
	litmus_verify(self);
}

static void
die(struct actor *self)
{
	litmus.flags[ONE] = true;
	nam_sim_process_kill(self->process);
}

static void
look_after_death(struct actor *self)
{
	litmus_await(ONE);
	nam_sleep_ns(LITMUS_TICKS_NS);
	litmus_expect_range(self, 0, 430, 0);
}

/* ---- a right half that the left one does not lead to yet ------------------------------------- */

static void
hold_unlinked(struct actor *self)
{
	(void)self;
	litmus.flags[ONE] = true;
	litmus_await_for(TWO, LITMUS_SHORT_NS);
}

static void
divide_slowly(struct actor *self)
{
	litmus_await(THREE);
	divide_only(self);
}

/* Without a cache: by the name, if there is one, else by the left half, which is locked. */
static void
insert_by_name(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, 205);
	litmus.flags[FOUR] = true;
}

/* By the names of before. */
static void
look_by_left_half(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus.flags[THREE] = true;
	litmus_await(FOUR);
	litmus_expect(self, 205, 0);
	litmus.flags[TWO] = true;
}

static void
end_divided(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus_expect(self, 111, 0);
	litmus_expect(self, 112, 0);
	litmus_expect(self, 205, 0);
	litmus_verify(self);
}

/* ---- a parent that is locked for longer than splitters wait ---------------------------------- */

static void
divide_without_parent(struct actor *self)
{
	uint64_t late;

	litmus_await(ONE);
	litmus_insert(self, 221);
	litmus_insert(self, 222);
	late = nam_worker_counters(self->worker, NAM_OP_INSERT)->late_separators;
	if (late != 1)
		litmus_fail("%llu separators are late", (unsigned long long)late);
	litmus.flags[TWO] = true;
}

static void
late_only(void *arg, unsigned invariant, const char *text)
{
	(void)arg;
	if (invariant != 7)
		litmus_fail("I%u: %s", invariant, text);
}

/* Only the separator of the new node is missing; a pass of the collector adds it. */
static void
end_named(struct actor *self)
{
	uint64_t violations = 0;
	int rc = nam_index_verify(self->worker, self->index, late_only, NULL, &violations);

	if (rc || violations != 1)
		litmus_fail("the verifier: %s, %llu separators missing", nam_err_name(rc),
			(unsigned long long)violations);
	(void)litmus_collect(self);
	litmus_expect_range(self, 0, 430, 0);
	litmus_verify(self);
}

/* ---- growth: two clients at the same level --------------------------------------------------- */

static void
grow_slowly(struct actor *self)
{
	for (uint64_t number = 0; number <= 120; number += 10)
		litmus_insert(self, number);
}

static void
grow_meanwhile(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, 1);
	litmus_insert(self, 2);
	litmus.flags[TWO] = true;
}

static void
end_grown(struct actor *self)
{
	litmus_expect_range(self, 0, 120, 0);
	litmus_verify(self);
}

/* ---- merge ----------------------------------------------------------------------------------- */

static void
empty_and_collect(struct actor *self)
{
	litmus_await(ONE);
	litmus_delete_range(self, 160, 210);
	for (unsigned i = 0; i < 3; i++)
		(void)litmus_collect(self);
	litmus.flags[TWO] = true;
}

static void
end_without_right_half(struct actor *self)
{
	litmus_expect_range(self, 0, 150, 0);
	litmus_expect_range(self, 160, 210, -NAM_E_NOTFOUND);
	litmus_expect_range(self, 220, 430, 0);
	litmus_verify(self);
}

static void
divide_under_merge(struct actor *self)
{
	litmus_await(ONE);
	divide(self);
}

static void
raise_two(struct actor *self)
{
	(void)self;
	litmus.flags[TWO] = true;
}

static void
merge_slowly(struct actor *self)
{
	litmus_delete_range(self, 220, 320);
	(void)litmus_collect(self);
}

static void
hold_briefly(struct actor *self)
{
	(void)self;
	litmus.flags[ONE] = true;
	litmus_await_for(TWO, LITMUS_SHORT_NS);
}

static void
end_merged(struct actor *self)
{
	litmus_expect_range(self, 0, 210, 0);
	litmus_expect_range(self, 330, 430, 0);
	litmus_verify(self);
}

/* ---- reuse while a reader is looking --------------------------------------------------------- */

static void
reuse_under_eyes(struct actor *self)
{
	litmus_await(ONE);
	litmus_delete_range(self, 160, 210);
	(void)litmus_collect(self);
	litmus_collect_until_reusable(self);
	litmus.flags[TWO] = true;
	litmus_await(FOUR);
	litmus_insert(self, 221);
	litmus_insert(self, 222);
}

/* B is about to write a new node where the old one was: stop in the middle of it. */
static void
write_by_halves(struct actor *self)
{
	(void)self;
	nam_sim_delay_next(NAM_WR_WRITE, 16, 3000000);
	nam_sim_call_after(1500000, raise_three, NULL);
}

/* A holds the parent, and is about to see whether its new node is alive. */
static void
hold_before_look(struct actor *self)
{
	(void)self;
	litmus.flags[FOUR] = true;
	litmus_await_for(THREE, LITMUS_SHORT_NS);
}

/* ---- reuse under a cached pointer ------------------------------------------------------------ */

static void
retire(struct actor *self)
{
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	litmus_delete_range(self, 160, 210);
	(void)litmus_collect(self);
	litmus_collect_until_reusable(self);
}

static void
reuse_near(struct actor *self)
{
	divide_only(self);
	retire(self);
	litmus.flags[FOUR] = true;
	for (uint64_t number = 161; number <= 166; number++)
		litmus_insert(self, number);
}

/* A change that needs a block for its record gets that of the right half. */
static void
note_where_it_was(struct actor *self)
{
	struct nam_gaddr spare;

	litmus_await(TWO);
	/* From behind: none of these needs a block. */
	for (uint64_t number = 210; number >= 160; number -= 10)
		litmus_delete_range(self, number, number);
	(void)litmus_collect(self);
	litmus_collect_until_reusable(self);
	/* The merge's record had one; as if another operation were using it. */
	if (nam__spare_take(self->worker, 0, self->index->g.stride, &spare))
		sim_die("there is no spare block");
	litmus_delete_range(self, 330, 330);
	litmus.flags[THREE] = true;
}

static void
divide_first(struct actor *self)
{
	divide_only(self);
	litmus.flags[ONE] = true;
}

static void
insert_by_old_pointer(struct actor *self)
{
	litmus_await(ONE);
	litmus_expect(self, 200, 0);
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	litmus_insert(self, 170);
}

static void
end_noted(struct actor *self)
{
	litmus_expect(self, 170, 0);
	litmus_expect_range(self, 340, 430, 0);
	litmus_verify(self);
}

static void
hold_unpublished(struct actor *self)
{
	(void)self;
	if (!litmus.flags[FOUR])
		return;
	litmus.flags[THREE] = true;
	nam_sleep_ns(10000000);
}

static void
insert_by_cache(struct actor *self)
{
	litmus_await(ONE);
	litmus_expect(self, 200, 0);
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	litmus_insert(self, 170);
	litmus.flags[INSERTED] = true;
	litmus_await(SEEN);
}

/* Another client, which knows nothing of old pointers, must see it. */
static void
look_afresh(struct actor *self)
{
	litmus_await(INSERTED);
	litmus_expect(self, 170, 0);
	litmus.flags[SEEN] = true;
}

/* The new node is being written where the cache of C still sees the old one. */
static void
write_reused_by_halves(struct actor *self)
{
	if (litmus.flags[FOUR])
		write_by_halves(self);
	/* Violates I2: the new node is one WRITE, as if readers verified its hash. */
	self->index->ordered_loads &= NAM_GUARD(NEW_NODE_ORDER);
}

static void
look_by_cache(struct actor *self)
{
	litmus_await(ONE);
	litmus_expect(self, 200, 0);
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	for (uint64_t number = 161; number <= 165; number++)
		litmus_expect(self, number, 0);
	litmus.flags[INSERTED] = true;
}

static void
look_at_the_end(struct actor *self)
{
	litmus_await(INSERTED);
	litmus_expect(self, 165, 0);
}

static void
end_halved(struct actor *self)
{
	for (uint64_t number = 161; number <= 166; number++)
		litmus_expect(self, number, 0);
	litmus_verify(self);
}

static void
reuse_far(struct actor *self)
{
	divide_only(self);
	retire(self);
	litmus_insert(self, 331);
	litmus_insert(self, 332);
	litmus.flags[THREE] = true;
}

/* The block becomes the root of another index, whose nodes never verify as nodes of this one. */
static void
reuse_elsewhere(struct actor *self)
{
	struct nam_index *index = self->index;
	struct nam_index_options options;
	struct nam_gaddr old, now;
	int rc;

	divide_only(self);
	old = litmus_leaf_of(self, 200, NULL);
	retire(self);
	nam_index_options_init(&options);
	options.node_bytes = 256;
	rc = nam_index_create(self->worker, "other", &options);
	if (!rc)
		rc = nam_index_open(self->worker, "other", 0, &self->index);
	if (rc)
		sim_die("the other index: %s", nam_worker_diag(self->worker));
	litmus_insert(self, 200);
	now = litmus_leaf_of(self, 200, NULL);
	if (!nam_gaddr_same(nam_gaddr_untagged(old), nam_gaddr_untagged(now)))
		litmus_fail("the other index has not got the block");
	nam_index_close(self->index);
	self->index = index;
	litmus.flags[THREE] = true;
}

static void
look_and_insert_by_cache(struct actor *self)
{
	litmus_await(ONE);
	litmus_expect(self, 200, 0);
	litmus_expect(self, 190, 0);
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	litmus_expect(self, 200, -NAM_E_NOTFOUND);
	litmus_insert(self, 170);
	litmus.flags[INSERTED] = true;
	litmus_await(SEEN);
}

static void
insert_first_by_cache(struct actor *self)
{
	litmus_await(ONE);
	litmus_expect(self, 200, 0);
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	litmus_insert(self, 170);
	litmus_expect(self, 200, -NAM_E_NOTFOUND);
	litmus.flags[INSERTED] = true;
	litmus_await(SEEN);
}

static void
end_reused(struct actor *self)
{
	litmus_expect(self, 170, 0);
	litmus_verify(self);
}

/* ---- drop beside a collector ----------------------------------------------------------------- */

static void
renew(struct actor *self, bool create)
{
	struct nam_index_options options;
	int rc = 0;

	nam_index_close(self->index);
	self->index = NULL;
	nam_index_options_init(&options);
	options.node_bytes = 256;
	options.head_interval = 0;
	if (create)
		rc = nam_index_create(self->worker, LITMUS_INDEX, &options);
	if (!rc)
		rc = nam_index_open(self->worker, LITMUS_INDEX, 1u << 20, &self->index);
	if (rc)
		sim_die("the new index: %s", nam_worker_diag(self->worker));
}

static void
fill(struct actor *self, uint64_t from)
{
	litmus_collect_until_reusable(self);
	for (uint64_t number = from; number < 4000; number += 20)
		litmus_insert(self, number);
}

static void
drop_meanwhile(struct actor *self)
{
	int rc;

	litmus_await(ONE);
	rc = nam_index_drop(self->worker, LITMUS_INDEX);
	if (rc)
		litmus_fail("drop: %s", nam_err_name(rc));
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	renew(self, true);
	litmus.flags[FOUR] = true;
	fill(self, 0);
}

static void
merge_meanwhile(struct actor *self)
{
	struct nam_collect_stat stat;
	int rc;

	litmus_delete_range(self, 220, 320);
	rc = nam_index_collect(self->worker, self->index, &stat);
	(void)rc;	/* the index may be gone */
	litmus.flags[THREE] = true;
	litmus_await(FOUR);
	renew(self, false);
	fill(self, 10);
}

static void
end_renewed(struct actor *self)
{
	renew(self, false);
	litmus_expect_range(self, 0, 3990, 0);
	litmus_verify(self);
}

/* ---- drop beside growth ---------------------------------------------------------------------- */

static void
grow_until_dropped(struct actor *self)
{
	int rc = 0;

	for (uint64_t number = 0; number <= 120 && !rc; number += 10)
		rc = litmus_try_insert(self, number);
	if (rc && rc != -NAM_E_DROPPED)
		litmus_fail("insert beside a drop: %s", nam_err_name(rc));
}

static void
drop_under_growth(struct actor *self)
{
	int rc;

	litmus_await(ONE);
	rc = nam_index_drop(self->worker, LITMUS_INDEX);
	if (rc)
		litmus_fail("drop: %s", nam_err_name(rc));
	litmus.flags[TWO] = true;
}

/* All blocks are in a new index, or free. */
static void
end_all_accounted(struct actor *self)
{
	struct sim_memory memory;
	int64_t lost;
	int rc;

	if (!litmus.flags[TWO])
		litmus_fail("no client has grown the tree");
	renew(self, true);
	/* This worker returns its block cache; another one counts. */
	nam_worker_close(self->worker);
	self->worker = sim_worker(self->client);
	if (!self->worker)
		sim_die("no memory");
	rc = sim_memory_count(self->worker, self->index, &memory);
	if (rc)
		sim_die("counting blocks: %s", nam_err_name(rc));
	lost = sim_memory_lost(&memory, sim_memory_given_up(self->client));
	if (lost)
		litmus_fail("%lld blocks are neither in an index nor free", (long long)lost);
}

/* ---- aborted --------------------------------------------------------------------------------- */

static uint64_t
lock_word_of(struct actor *self, uint64_t number)
{
	uint64_t word;

	(void)litmus_leaf_of(self, number, &word);
	return word;
}

static void
abort_locking(struct actor *self)
{
	uint64_t word;
	int rc;

	litmus_await(ONE);
	word = lock_word_of(self, 150);
	for (unsigned i = 0; i < 2; i++) {
		rc = litmus_try_insert(self, 151);
		if (rc != -NAM_E_LOCK_TIMEOUT)
			litmus_fail("insert under another's lock: %s", nam_err_name(rc));
		if (!word || lock_word_of(self, 150) != word)
			litmus_fail("the lock of another is gone");
	}
	litmus.flags[TWO] = true;
}

static void
insert_one(struct actor *self)
{
	litmus_insert(self, 111);
}

/* ---- the scenes ------------------------------------------------------------------------------ */

const struct litmus_case litmus_tree_cases[] = {
	{ { "stale_parent", LITMUS_LOADED, { end_whole, divide_when_warm, warm_and_look },
			{ { "split.left_written", A, hold_divided } } },
		"a split is seen from a cached parent, before the new node is named", 1, 0 },
	{ { "aborted_lock", LITMUS_LOADED, { end_whole, insert_one, abort_locking },
			{ { "lock.taken", A, hold_long } } },
		"attempts to lock time out: the lock of another stays", 1, 0 },
	{ { "splitter_dies", LITMUS_LOADED, { NULL, divide_only, look_after_death },
			{ { "split.left_written", A, die } } },
		"after the left half has been written, before the separator", 1, 0 },
	{ { "parent_kept", LITMUS_LOADED, { end_named, divide_only, divide_without_parent },
			{ { "separator.locked", A, hold_long } } },
		"a parent is locked for longer than a splitter waits: a collector names", 1, 0 },
	{ { "two_growths", 0, { end_grown, grow_slowly, grow_meanwhile },
			{ { "root.written", A, hold_briefly } } },
		"two clients put a root above the same node", 1, 0 },
	{ { "late_separator", LITMUS_LOADED,
			{ end_without_right_half, divide_only, empty_and_collect },
			{ { "split.left_written", A, hold_divided } } },
		"the new node is merged away before its splitter names it", 1, 0 },
	{ { "late_name", LITMUS_LOADED,
			{ end_without_right_half, divide_only, empty_and_collect },
			{ { "split.left_written", A, hold_divided } } },
		"hybrid: the new leaf is merged away before its splitter names it", 1,
		LITMUS_HYBRID_HASH },
	{ { "early_separator", LITMUS_LOADED,
			{ end_divided, divide_slowly, insert_by_name, look_by_left_half },
			{ { "split.sibling_written", A, hold_unlinked } } },
		"others look for a right half that its left half does not lead to yet", 1, 0 },
	{ { "early_name", LITMUS_LOADED,
			{ end_divided, divide_slowly, insert_by_name, look_by_left_half },
			{ { "split.sibling_written", A, hold_unlinked } } },
		"hybrid: the same for the right half of a leaf", 1, LITMUS_HYBRID_HASH },
	{ { "split_under_merge", LITMUS_LOADED, { end_merged, divide_under_merge, merge_slowly },
			{ { "merge.parent_locked", B, hold_briefly },
				{ "split.left_written", A, raise_two } } },
		"the left one of two nodes that are to be merged is divided first", 1, 0 },
	{ { "noted_under_pointer", LITMUS_LOADED,
			{ end_noted, note_where_it_was, insert_by_old_pointer, divide_first },
			{ { 0 } } },
		"a redo record lies in the block of a node that a client has a pointer to", 1, 0 },
	{ { "reused_under_eyes", LITMUS_LOADED,
			{ end_without_right_half, divide_only, reuse_under_eyes },
			{ { "split.left_written", A, hold_divided },
				{ "separator.locked", A, hold_before_look },
				{ "split.allocated", B, write_by_halves } } },
		"the block of a node whose splitter is still at work is used again", 1, 0 },
	{ { "reused_near", LITMUS_LOADED, { end_reused, look_afresh, reuse_near, insert_by_cache },
			{ { "split.sibling_written", B, hold_unpublished } } },
		"a block under a cached pointer is used again, and not yet published", 1, 0 },
	{ { "reused_by_halves", LITMUS_LOADED,
			{ end_halved, look_at_the_end, reuse_near, look_by_cache },
			{ { "split.allocated", B, write_reused_by_halves } } },
		"a block under a cached pointer is used again, and half written", 1, 0 },
	{ { "reused_far", LITMUS_LOADED, { end_reused, look_afresh, reuse_far, insert_by_cache },
			{ { 0 } } },
		"a block under a cached pointer is used again, for other keys", 1, 0 },
	{ { "reused_elsewhere", LITMUS_LOADED,
			{ end_reused, look_afresh, reuse_elsewhere, look_and_insert_by_cache },
			{ { 0 } } },
		"a block under a cached pointer is used again by another index, and read", 1, 0 },
	{ { "locked_elsewhere", LITMUS_LOADED,
			{ end_reused, look_afresh, reuse_elsewhere, insert_first_by_cache },
			{ { 0 } } },
		"a block under a cached pointer is used again by another index, and locked", 1, 0 },
	{ { "drop_under_merge", LITMUS_LOADED, { end_renewed, drop_meanwhile, merge_meanwhile },
			{ { "merge.locked", B, hold_briefly } } },
		"an index is dropped while a collector is at work", 1, 0 },
	{ { "drop_under_growth", 0, { end_all_accounted, grow_until_dropped, drop_under_growth },
			{ { "root.written", A, hold_long } } },
		"an index is dropped while a client is about to put a root on top", 1, 0 },
	{ { 0 }, NULL, 0, 0 },
};
