/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_test.c -- directed schedules: two or three clients, held up at race points until the
 * others have done what is awkward.
 *
 *	litmus_test				every scene, in every profile, with several seeds
 *	litmus_test SCENE PROFILE SEED [GUARD...]	one run with guards turned off; 1: it failed
 *
 * Eleven entries to a leaf: keys 0, 10 .. 430 fill the leaves 0 .. 100, 110 .. 210, 220 .. 320 and
 * 330 .. 430.  Inserting 111 and 112 divides the second; its right half begins at 160.
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
#include "cluster.h"

#define NAME "litmus"
#define LOADED 44u
#define POLL_NS 20000u
#define PATIENCE_NS 400000000ull
#define SHORT_NS 30000000ull
#define TICKS_NS 15000000u		/* a keeper looks at its clocks every 10 ms */
#define SEEDS 5u
#define ACTORS 4u

enum who { DIRECTOR, A, B, C };

/* What the actors tell each other. */
enum flag { READY, ONE, TWO, THREE, FOUR, INSERTED, SEEN, FLAGS };

struct play;

struct actor {
	struct play *play;
	enum who who;
	struct nam_sim_process *process;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
};

struct scene {
	const char *name;
	uint32_t loaded;		/* keys that are there at the beginning */
	void (*act[ACTORS])(struct actor *self);	/* DIRECTOR: at the end; NULL: no such */
	struct {
		const char *point;
		enum who who;
		void (*fn)(struct actor *self);	/* each time that this actor comes there */
	} held[3];
};

struct play {
	const struct scene *scene;
	struct sim_cluster cluster;
	struct actor actors[ACTORS];
	bool flags[FLAGS];
	bool failed;
	char why[300];
};

static struct play play;

static void NAM_PRINTF(1, 2)
fail_scene(const char *format, ...)
{
	va_list args;

	if (play.failed)
		return;
	play.failed = true;
	va_start(args, format);
	(void)vsnprintf(play.why, sizeof(play.why), format, args);
	va_end(args);
}

static void
await_for(enum flag flag, uint64_t patience_ns)
{
	for (uint64_t i = 0; !play.flags[flag] && i < patience_ns / POLL_NS; i++)
		nam_sleep_ns(POLL_NS);
}

static void
await(enum flag flag)
{
	await_for(flag, PATIENCE_NS);
}

/* ---- operations --------------------------------------------------------------------------- */

static int
try_insert(struct actor *self, uint64_t number)
{
	uint8_t key[8];

	nam_key_from_u64(number, key);
	return nam_index_insert(self->worker, self->index, key, number + 1);
}

static void
insert(struct actor *self, uint64_t number)
{
	int rc = try_insert(self, number);

	if (rc && !nam_sim_ghost())
		fail_scene("insert(%llu): %s", (unsigned long long)number, nam_err_name(rc));
}

static void
delete_range(struct actor *self, uint64_t first, uint64_t last)
{
	uint8_t key[8];

	for (uint64_t number = first; number <= last; number += 10) {
		int rc;

		nam_key_from_u64(number, key);
		rc = nam_index_delete(self->worker, self->index, key);
		if (rc)
			fail_scene("delete(%llu): %s", (unsigned long long)number,
				nam_err_name(rc));
	}
}

static void
expect(struct actor *self, uint64_t number, int expected)
{
	uint64_t payload = 0;
	uint8_t key[8];
	int rc;

	nam_key_from_u64(number, key);
	rc = nam_index_lookup(self->worker, self->index, key, &payload);
	if (rc != expected || (!rc && payload != number + 1))
		fail_scene("lookup(%llu): %s, %llu", (unsigned long long)number, nam_err_name(rc),
			(unsigned long long)payload);
}

static void
expect_range(struct actor *self, uint64_t first, uint64_t last, int expected)
{
	for (uint64_t number = first; number <= last; number += 10)
		expect(self, number, expected);
}

static uint64_t
collect(struct actor *self)
{
	struct nam_collect_stat stat = { 0 };
	int rc = nam_index_collect(self->worker, self->index, &stat);

	if (rc && !nam_err_is(rc, NAM_E_RESTART) && !nam_err_is(rc, NAM_E_LOCK_TIMEOUT))
		fail_scene("collect: %s", nam_err_name(rc));
	return stat.nodes_reusable;
}

/* Until what was taken out may be used again, or it is clear that somebody is in the way. */
static void
collect_until_reusable(struct actor *self)
{
	for (unsigned i = 0; i < 8; i++) {
		if (collect(self))
			return;
		nam_sleep_ns(TICKS_NS);
	}
}

static void
violated(void *arg, unsigned invariant, const char *text)
{
	(void)arg;
	fail_scene("I%u: %s", invariant, text);
}

static void
verify(struct actor *self)
{
	uint64_t violations;
	int rc = nam_index_verify(self->worker, self->index, violated, NULL, &violations);

	if (rc)
		fail_scene("the verifier: %s", nam_err_name(rc));
}

static void
raise_three(void *arg)
{
	(void)arg;
	play.flags[THREE] = true;
}

/* ---- split -------------------------------------------------------------------------------- */

static void
divide(struct actor *self)
{
	insert(self, 111);
	insert(self, 112);
	play.flags[FOUR] = true;
}

static void
hold_divided(struct actor *self)
{
	(void)self;
	play.flags[ONE] = true;
	await_for(TWO, SHORT_NS * 8);
}

static void
warm_and_look(struct actor *self)
{
	expect_range(self, 0, 430, 0);
	play.flags[THREE] = true;
	await(ONE);
	/* The separator is not there yet, neither in the parent nor in the cache. */
	expect_range(self, 110, 210, 0);
	expect_range(self, 115, 215, -NAM_E_NOTFOUND);
	play.flags[TWO] = true;
	await(FOUR);
	expect_range(self, 110, 210, 0);
}

static void
divide_when_warm(struct actor *self)
{
	await(THREE);
	divide(self);
}

static void
end_whole(struct actor *self)
{
	expect_range(self, 0, 430, 0);
	expect_range(self, 5, 435, -NAM_E_NOTFOUND);
	verify(self);
}

static void
die(struct actor *self)
{
	play.flags[ONE] = true;
	nam_sim_process_kill(self->process);
}

static void
look_after_death(struct actor *self)
{
	await(ONE);
	nam_sleep_ns(TICKS_NS);
	expect_range(self, 0, 430, 0);
}

/* ---- growth: two clients at the same level ------------------------------------------------- */

static void
grow_slowly(struct actor *self)
{
	for (uint64_t number = 0; number <= 120; number += 10)
		insert(self, number);
}

static void
grow_meanwhile(struct actor *self)
{
	await(ONE);
	insert(self, 1);
	insert(self, 2);
	play.flags[TWO] = true;
}

static void
end_grown(struct actor *self)
{
	expect_range(self, 0, 120, 0);
	verify(self);
}

/* ---- merge ---------------------------------------------------------------------------------- */

static void
empty_and_collect(struct actor *self)
{
	await(ONE);
	delete_range(self, 160, 210);
	for (unsigned i = 0; i < 3; i++)
		(void)collect(self);
	play.flags[TWO] = true;
}

static void
end_without_right_half(struct actor *self)
{
	expect_range(self, 0, 150, 0);
	expect_range(self, 160, 210, -NAM_E_NOTFOUND);
	expect_range(self, 220, 430, 0);
	verify(self);
}

static void
divide_under_merge(struct actor *self)
{
	await(ONE);
	divide(self);
}

static void
raise_two(struct actor *self)
{
	(void)self;
	play.flags[TWO] = true;
}

static void
merge_slowly(struct actor *self)
{
	delete_range(self, 220, 320);
	(void)collect(self);
}

static void
hold_briefly(struct actor *self)
{
	(void)self;
	play.flags[ONE] = true;
	await_for(TWO, SHORT_NS);
}

static void
end_merged(struct actor *self)
{
	expect_range(self, 0, 210, 0);
	expect_range(self, 330, 430, 0);
	verify(self);
}

/* ---- reuse while somebody is looking ------------------------------------------------------- */

static void
reuse_under_eyes(struct actor *self)
{
	await(ONE);
	delete_range(self, 160, 210);
	(void)collect(self);
	collect_until_reusable(self);
	play.flags[TWO] = true;
	await(FOUR);
	insert(self, 221);
	insert(self, 222);
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
	play.flags[FOUR] = true;
	await_for(THREE, SHORT_NS);
}

static void
divide_only(struct actor *self)
{
	insert(self, 111);
	insert(self, 112);
}

/* ---- reuse under a cached pointer ---------------------------------------------------------- */

static void
retire_and_reuse(struct actor *self)
{
	divide_only(self);
	play.flags[ONE] = true;
	await(TWO);
	delete_range(self, 160, 210);
	(void)collect(self);
	collect_until_reusable(self);
}

static void
reuse_near(struct actor *self)
{
	retire_and_reuse(self);
	play.flags[FOUR] = true;
	for (uint64_t number = 161; number <= 166; number++)
		insert(self, number);
}

static void
hold_unpublished(struct actor *self)
{
	(void)self;
	if (!play.flags[FOUR])
		return;
	play.flags[THREE] = true;
	nam_sleep_ns(10000000);
}

static void
insert_by_cache(struct actor *self)
{
	await(ONE);
	expect(self, 200, 0);
	play.flags[TWO] = true;
	await(THREE);
	insert(self, 170);
	play.flags[INSERTED] = true;
	await(SEEN);
}

/* Another client, which knows nothing of old pointers, must see it. */
static void
look_afresh(struct actor *self)
{
	await(INSERTED);
	expect(self, 170, 0);
	play.flags[SEEN] = true;
}

static void
reuse_far(struct actor *self)
{
	retire_and_reuse(self);
	insert(self, 331);
	insert(self, 332);
	play.flags[THREE] = true;
}

static void
end_reused(struct actor *self)
{
	expect(self, 170, 0);
	verify(self);
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
		rc = nam_index_create(self->worker, NAME, &options);
	if (!rc)
		rc = nam_index_open(self->worker, NAME, 1u << 20, &self->index);
	if (rc)
		sim_die("the new index: %s", nam_worker_diag(self->worker));
}

static void
fill(struct actor *self, uint64_t from)
{
	collect_until_reusable(self);
	for (uint64_t number = from; number < 4000; number += 20)
		insert(self, number);
}

static void
drop_meanwhile(struct actor *self)
{
	int rc;

	await(ONE);
	rc = nam_index_drop(self->worker, NAME);
	if (rc)
		fail_scene("drop: %s", nam_err_name(rc));
	play.flags[TWO] = true;
	await(THREE);
	renew(self, true);
	play.flags[FOUR] = true;
	fill(self, 0);
}

static void
merge_meanwhile(struct actor *self)
{
	struct nam_collect_stat stat;
	int rc;

	delete_range(self, 220, 320);
	rc = nam_index_collect(self->worker, self->index, &stat);
	(void)rc;	/* the index may be gone */
	play.flags[THREE] = true;
	await(FOUR);
	renew(self, false);
	fill(self, 10);
}

static void
end_renewed(struct actor *self)
{
	renew(self, false);
	expect_range(self, 0, 3990, 0);
	verify(self);
}

/* ---- torn, and aborted ---------------------------------------------------------------------- */

/* Entries of the leaf move to and fro while half of it has been read. */
static void
move_entries(struct actor *self)
{
	await(ONE);
	while (!play.flags[TWO]) {
		delete_range(self, 110, 110);
		nam_sleep_ns(POLL_NS);
		insert(self, 110);
		nam_sleep_ns(POLL_NS);
	}
}

static void
read_by_halves(struct actor *self)
{
	expect_range(self, 120, 210, 0);
	play.flags[ONE] = true;
	for (unsigned i = 0; i < 5; i++) {
		for (uint64_t number = 120; number <= 210; number += 10) {
			nam_sim_delay_next(NAM_WR_READ, 12, 7 * POLL_NS);
			expect(self, number, 0);
		}
	}
	play.flags[TWO] = true;
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
		fail_scene("reading a leaf: %s", nam_err_name(rc));
	else
		word = image[NAM__WORD_LOCK];
	nam_buffer_give(self->worker, image, self->index->g.node_bytes);
	return word;
}

static void
hold_long(struct actor *self)
{
	(void)self;
	play.flags[ONE] = true;
	await_for(TWO, PATIENCE_NS);
}

static void
abort_locking(struct actor *self)
{
	uint64_t word;
	int rc;

	await(ONE);
	word = lock_word_of(self, 150);
	for (unsigned i = 0; i < 2; i++) {
		rc = try_insert(self, 151);
		if (rc != -NAM_E_LOCK_TIMEOUT)
			fail_scene("insert under another's lock: %s", nam_err_name(rc));
		if (!word || lock_word_of(self, 150) != word)
			fail_scene("the lock of another is gone");
	}
	play.flags[TWO] = true;
}

static void
insert_one(struct actor *self)
{
	insert(self, 111);
}

/* ---- the scenes ------------------------------------------------------------------------------ */

static const struct scene scenes[] = {
	{ "torn_node", LOADED, { end_whole, move_entries, read_by_halves }, { { 0 } } },
	{ "stale_parent", LOADED, { end_whole, divide_when_warm, warm_and_look },
		{ { "split.left_written", A, hold_divided } } },
	{ "aborted_lock", LOADED, { end_whole, insert_one, abort_locking },
		{ { "lock.taken", A, hold_long } } },
	{ "splitter_dies", LOADED, { NULL, divide_only, look_after_death },
		{ { "split.left_written", A, die } } },
	{ "two_growths", 0, { end_grown, grow_slowly, grow_meanwhile },
		{ { "root.written", A, hold_briefly } } },
	{ "late_separator", LOADED, { end_without_right_half, divide_only, empty_and_collect },
		{ { "split.left_written", A, hold_divided } } },
	{ "split_under_merge", LOADED, { end_merged, divide_under_merge, merge_slowly },
		{ { "merge.parent_locked", B, hold_briefly },
			{ "split.left_written", A, raise_two } } },
	{ "reused_under_eyes", LOADED, { end_without_right_half, divide_only, reuse_under_eyes },
		{ { "split.left_written", A, hold_divided },
			{ "separator.locked", A, hold_before_look },
			{ "split.allocated", B, write_by_halves } } },
	{ "reused_near", LOADED, { end_reused, look_afresh, reuse_near, insert_by_cache },
		{ { "split.sibling_written", B, hold_unpublished } } },
	{ "reused_far", LOADED, { end_reused, look_afresh, reuse_far, insert_by_cache },
		{ { 0 } } },
	{ "drop_under_merge", LOADED, { end_renewed, drop_meanwhile, merge_meanwhile },
		{ { "merge.locked", B, hold_briefly } } },
};
#define SCENES (sizeof(scenes) / sizeof(scenes[0]))

/* ---- the stage ------------------------------------------------------------------------------- */

static void
on_race(const char *name)
{
	for (unsigned i = 0; i < 3; i++) {
		struct actor *actor = &play.actors[play.scene->held[i].who];

		if (play.scene->held[i].point && !strcmp(play.scene->held[i].point, name) &&
			play.flags[READY] && nam_sim_self() == actor->process)
			play.scene->held[i].fn(actor);
	}
}

static bool
come(struct actor *self)
{
	int rc = 0;

	self->client = sim_client(&play.cluster, "actor");
	self->worker = self->client ? sim_worker(self->client) : NULL;
	if (self->worker && self->who != DIRECTOR)
		rc = nam_index_open(self->worker, NAME, 1u << 20, &self->index);
	return self->worker && !rc;
}

static void
go(struct actor *self)
{
	nam_index_close(self->index);
	if (self->worker)
		nam_worker_close(self->worker);
	if (self->client)
		nam_client_close(self->client);
}

static void
actor_main(void *arg)
{
	struct actor *self = arg;

	if (come(self))
		play.scene->act[self->who](self);
	else
		fail_scene("an actor cannot come");
	go(self);
}

static void
plant(struct actor *self)
{
	struct nam_index_options options;
	int rc;

	nam_index_options_init(&options);
	options.node_bytes = 256;
	options.head_interval = 0;
	rc = nam_index_create(self->worker, NAME, &options);
	if (!rc)
		rc = nam_index_open(self->worker, NAME, 1u << 20, &self->index);
	if (rc)
		sim_die("the index: %s", nam_worker_diag(self->worker));
	for (uint64_t i = 0; i < play.scene->loaded; i++)
		insert(self, 10 * i);
}

static void
director_main(void *arg)
{
	struct actor *self = arg;

	sim_cluster_await(&play.cluster);
	if (!come(self))
		sim_die("the director cannot come");
	plant(self);
	play.flags[READY] = true;
	for (unsigned i = A; i < ACTORS; i++) {
		play.actors[i] = (struct actor){ .play = &play, .who = (enum who)i };
		if (play.scene->act[i] &&
			nam_sim_process_start("actor", actor_main, &play.actors[i],
				&play.actors[i].process))
			sim_die("an actor cannot be started");
	}
	for (unsigned i = A; i < ACTORS; i++)
		while (play.actors[i].process && !nam_sim_process_ended(play.actors[i].process))
			nam_sleep_ns(POLL_NS);
	if (play.scene->act[DIRECTOR])
		play.scene->act[DIRECTOR](self);
	go(self);
	sim_cluster_stop(&play.cluster);
}

static void
perform(const struct scene *scene, enum nam_sim_profile profile, uint64_t seed)
{
	struct nam_sim_options options;
	int rc;

	nam_sim_options_init(&options);
	options.seed = seed;
	options.profile = profile;
	options.step_bytes = 8;
	memset(&play, 0, sizeof(play));
	play.scene = scene;
	if (nam_sim_begin(&options))
		sim_die("the simulation cannot begin");
	nam_sim_on_race(on_race);
	sim_cluster_start(&play.cluster, 1, 1, 8u << 20);
	play.actors[DIRECTOR] = (struct actor){ .play = &play, .who = DIRECTOR };
	if (nam_sim_process_start("director", director_main, &play.actors[DIRECTOR],
		    &play.actors[DIRECTOR].process))
		sim_die("the director cannot be started");
	rc = nam_sim_run();
	if (rc)
		fail_scene("the run: %s", nam_err_name(rc));
	nam_sim_end();
}

/* ---- tests ------------------------------------------------------------------------------------ */

static void
scene__every_profile_and_seed__HOLDS(void **state)
{
	const struct scene *scene = *state;

	for (unsigned profile = 0; profile < NAM_SIM_PROFILES_COUNT; profile++) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			perform(scene, (enum nam_sim_profile)profile, seed);
			if (play.failed)
				fail_msg("%s %s %llu: %s", scene->name,
					nam_sim_profile_name(profile), (unsigned long long)seed,
					play.why);
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
		perform(&scenes[i], (enum nam_sim_profile)profile, strtoull(argv[3], NULL, 0));
		if (play.failed)
			printf("FAILED: %s\n", play.why);
		return play.failed;
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
