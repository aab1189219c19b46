/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_test.c -- directed schedules: two or three clients, held up at race points until the
 * others have done what is awkward.
 *
 *	litmus_test				every scene, in every profile, with several seeds
 *	litmus_test SCENE PROFILE SEED [GUARD...]	one run with guards turned off; 1: it failed
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/guard.h"
#include "../../common/race.h"
#include "../../index/index_internal.h"
#include "litmus.h"

#define SEEDS 5u

static void
raise_three(void *arg)
{
	(void)arg;
	litmus.flags[THREE] = true;
}

/* ---- split -------------------------------------------------------------------------------- */

static void
divide(struct actor *self)
{
	litmus_insert(self, 111);
	litmus_insert(self, 112);
	litmus.flags[FOUR] = true;
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

/* ---- growth: two clients at the same level ------------------------------------------------- */

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

/* ---- merge ---------------------------------------------------------------------------------- */

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

/* ---- reuse while somebody is looking ------------------------------------------------------- */

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
	if (nam_sim_call_after(1500000, raise_three, NULL))
		abort();
}

/* A holds the parent, and is about to see whether its new node is alive. */
static void
hold_before_look(struct actor *self)
{
	(void)self;
	litmus.flags[FOUR] = true;
	litmus_await_for(THREE, LITMUS_SHORT_NS);
}

static void
divide_only(struct actor *self)
{
	litmus_insert(self, 111);
	litmus_insert(self, 112);
}

/* ---- reuse under a cached pointer ---------------------------------------------------------- */

static void
retire_and_reuse(struct actor *self)
{
	divide_only(self);
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	litmus_delete_range(self, 160, 210);
	(void)litmus_collect(self);
	litmus_collect_until_reusable(self);
}

static void
reuse_near(struct actor *self)
{
	retire_and_reuse(self);
	litmus.flags[FOUR] = true;
	for (uint64_t number = 161; number <= 166; number++)
		litmus_insert(self, number);
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
	retire_and_reuse(self);
	litmus_insert(self, 331);
	litmus_insert(self, 332);
	litmus.flags[THREE] = true;
}

static void
end_reused(struct actor *self)
{
	litmus_expect(self, 170, 0);
	litmus_verify(self);
}

/* ---- drop beside a collector --------------------------------------------------------------- */

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

/* ---- torn, and aborted ---------------------------------------------------------------------- */

/* Entries of the leaf move to and fro while half of it has been read. */
static void
move_entries(struct actor *self)
{
	litmus_await(ONE);
	while (!litmus.flags[TWO]) {
		litmus_delete_range(self, 110, 110);
		nam_sleep_ns(LITMUS_POLL_NS);
		litmus_insert(self, 110);
		nam_sleep_ns(LITMUS_POLL_NS);
	}
}

static void
read_by_halves(struct actor *self)
{
	litmus_expect_range(self, 120, 210, 0);
	litmus.flags[ONE] = true;
	for (unsigned i = 0; i < 5; i++) {
		for (uint64_t number = 120; number <= 210; number += 10) {
			nam_sim_delay_next(NAM_WR_READ, 12, 7 * LITMUS_POLL_NS);
			litmus_expect(self, number, 0);
		}
	}
	litmus.flags[TWO] = true;
}

static uint64_t
lock_word_of(struct actor *self, uint64_t number)
{
	uint64_t *image = nam_buffer_take(self->worker, self->index->g.node_bytes), word = 0;
	struct nam_gaddr at;
	struct nam__key key;
	uint8_t bytes[8];
	int rc;

	nam_key_from_u64(number, bytes);
	nam__key_encode(&self->index->g, bytes, 0, &key);
	nam__op_begin(self->worker, NAM_OP_OTHER);
	rc = nam__read_covering(self->worker, self->index, key.w, 0, image, &at);
	nam__op_end(self->worker);
	if (rc)
		litmus_fail("reading a leaf: %s", nam_err_name(rc));
	else
		word = image[NAM__WORD_LOCK];
	nam_buffer_give(self->worker, image, self->index->g.node_bytes);
	return word;
}

static void
hold_long(struct actor *self)
{
	(void)self;
	litmus.flags[ONE] = true;
	litmus_await_for(TWO, LITMUS_PATIENCE_NS);
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

static const struct scene scenes[] = {
	{ "torn_node", LITMUS_LOADED,
		{ end_whole, move_entries, read_by_halves }, { { 0 } } },
	{ "stale_parent", LITMUS_LOADED,
		{ end_whole, divide_when_warm, warm_and_look },
		{ { "split.left_written", A, hold_divided } } },
	{ "aborted_lock", LITMUS_LOADED,
		{ end_whole, insert_one, abort_locking },
		{ { "lock.taken", A, hold_long } } },
	{ "splitter_dies", LITMUS_LOADED,
		{ NULL, divide_only, look_after_death },
		{ { "split.left_written", A, die } } },
	{ "two_growths", 0, { end_grown, grow_slowly, grow_meanwhile },
		{ { "root.written", A, hold_briefly } } },
	{ "late_separator", LITMUS_LOADED,
		{ end_without_right_half, divide_only, empty_and_collect },
		{ { "split.left_written", A, hold_divided } } },
	{ "split_under_merge", LITMUS_LOADED,
		{ end_merged, divide_under_merge, merge_slowly },
		{ { "merge.parent_locked", B, hold_briefly },
			{ "split.left_written", A, raise_two } } },
	{ "reused_under_eyes", LITMUS_LOADED,
		{ end_without_right_half, divide_only, reuse_under_eyes },
		{ { "split.left_written", A, hold_divided },
			{ "separator.locked", A, hold_before_look },
			{ "split.allocated", B, write_by_halves } } },
	{ "reused_near", LITMUS_LOADED,
		{ end_reused, look_afresh, reuse_near, insert_by_cache },
		{ { "split.sibling_written", B, hold_unpublished } } },
	{ "reused_by_halves", LITMUS_LOADED,
		{ end_halved, look_at_the_end, reuse_near, look_by_cache },
		{ { "split.allocated", B, write_reused_by_halves } } },
	{ "reused_far", LITMUS_LOADED,
		{ end_reused, look_afresh, reuse_far, insert_by_cache },
		{ { 0 } } },
	{ "drop_under_merge", LITMUS_LOADED,
		{ end_renewed, drop_meanwhile, merge_meanwhile },
		{ { "merge.locked", B, hold_briefly } } },
};
#define SCENES (sizeof(scenes) / sizeof(scenes[0]))

/* ---- tests ----------------------------------------------------------------------------------  */

static void
scene__every_profile_and_seed__HOLDS(void **state)
{
	const struct scene *scene = *state;

	for (unsigned profile = 0; profile < NAM_SIM_PROFILES_COUNT; profile++) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			litmus_perform(scene, (enum nam_sim_profile)profile, seed);
			if (litmus.failed)
				fail_msg("%s %s %llu: %s", scene->name,
					nam_sim_profile_name(profile), (unsigned long long)seed,
					litmus.why);
		}
	}
}

static int
perform_one(int argc, char **argv)
{
	unsigned profile = 0;

	while (profile < NAM_SIM_PROFILES_COUNT && strcmp(argv[2], nam_sim_profile_name(profile)))
		profile++;
	if (profile == NAM_SIM_PROFILES_COUNT)
		sim_die("'%s' is no profile", argv[2]);
	for (int i = 4; i < argc; i++)
		if (nam_guard_off(argv[i]))
			sim_die("'%s' is no guard", argv[i]);
	for (size_t i = 0; i < SCENES; i++) {
		if (strcmp(scenes[i].name, argv[1]))
			continue;
		litmus_perform(&scenes[i], (enum nam_sim_profile)profile,
			strtoull(argv[3], NULL, 0));
		if (litmus.failed)
			printf("FAILED: %s\n", litmus.why);
		return litmus.failed;
	}
	sim_die("'%s' is no scene", argv[1]);
}

int
main(int argc, char **argv)
{
	struct CMUnitTest tests[SCENES];

#ifndef NAM_SIM_POINTS
	(void)argc;
	(void)argv;
	puts("no race points in this build: -DNAM_SIM_POINTS=ON");
	return 77;
#endif
	if (argc > 3)
		return perform_one(argc, argv);
	for (size_t i = 0; i < SCENES; i++)
		tests[i] = (struct CMUnitTest){ .name = scenes[i].name,
			.test_func = scene__every_profile_and_seed__HOLDS,
			.initial_state = (void *)(uintptr_t)&scenes[i] };
	return _cmocka_run_group_tests("litmus", tests, SCENES, NULL, NULL);
}
