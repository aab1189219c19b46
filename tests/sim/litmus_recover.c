/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_recover.c -- scenes about the locks of dead clients, which others take over.
 */
#include "index/index_internal.h"
#include "litmus.h"

#define KEY 115u

static void
die(void *arg)
{
	struct actor *self = arg;

	nam_sim_process_kill(self->process);
	litmus.flags[ONE] = true;
}

static void
die_here(struct actor *self)
{
	if (nam_sim_call_after(0, die, self))
		sim_die("no memory");
	/* No further. */
	nam_sleep_ns(LITMUS_PATIENCE_NS);
}

static void
insert_and_die(struct actor *self)
{
	(void)litmus_try_insert(self, KEY);
}

static void
insert_after(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, KEY + 1);
	litmus_insert(self, KEY);
	litmus.flags[INSERTED] = true;
}

static void
end_whole(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus_expect(self, KEY, 0);
	litmus_expect(self, KEY + 1, 0);
	litmus_verify(self);
}

/* ---- two that take over ---------------------------------------------------------------------- */

/* B has judged the image, and comes back when C has changed the node. */
static void
hold_judge(struct actor *self)
{
	(void)self;
	if (litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	litmus_await(THREE);
}

static void
insert_second(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, KEY);
}

static void
insert_first(struct actor *self)
{
	litmus_await(TWO);
	litmus_insert(self, KEY + 1);
	litmus.flags[THREE] = true;
}

/* ---- a merge half done ----------------------------------------------------------------------- */

/* The third leaf goes into the second. */
static void
merge_and_die(struct actor *self)
{
	struct nam_collect_stat stat = { 0 };

	litmus_delete_range(self, 130, 210);
	litmus_delete_range(self, 230, 290);
	litmus.flags[TWO] = true;
	if (!nam_index_collect(self->worker, self->index, &stat))
		litmus_fail("a collector that died has ended its pass");
}

/* The pointers that B and C have lead to both leaves of the merge. */
static void
change_merged(struct actor *self)
{
	int rc;

	litmus_expect_range(self, 0, 120, 0);
	litmus_await(ONE);
	rc = litmus_try_insert(self, 225);
	if (rc && rc != -NAM_E_LOCK_ORPHANED)
		litmus_fail("insert(225): %s", nam_err_name(rc));
	litmus.flags[INSERTED] = !rc;
	litmus_expect(self, 220, 0);
	litmus.flags[THREE] = true;
}

static void
end_merged(struct actor *self)
{
	litmus_expect_range(self, 0, 120, 0);
	litmus_expect(self, 220, 0);
	litmus_expect_range(self, 300, 430, 0);
	if (litmus.flags[INSERTED])
		litmus_fail("a leaf was changed that a dead client was merging");
}

const struct litmus_case litmus_recover_cases[] = {
	{ { "recover_taken", LITMUS_LOADED, { end_whole, insert_and_die, insert_after },
		{ { "lock.taken", A, die_here } } },
		"a client dies with a lock, before its first WRITE", 2, 0 },
	{ { "recover_two", LITMUS_LOADED,
		{ end_whole, insert_and_die, insert_second, insert_first },
		{ { "lock.taken", A, die_here }, { "recover.judged", B, hold_judge } } },
		"two clients take over the same lock", 2, 0 },
	{ { "recover_merge", LITMUS_LOADED, { end_merged, merge_and_die, change_merged },
		{ { "merge.left_written", A, die_here } } },
		"a collector dies half-way through a merge", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
