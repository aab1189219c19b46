/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order_test.c -- the order between requests that each profile keeps, and that other orders do
 * happen.  A simulator that never shows a weakness proves nothing.
 */
#include "sim_fixture.h"

#define SEEDS 60u
#define ROUNDS 20u

/* One end, `ROUNDS` times `round`, which says whether there was a hit. */
static void
rounds(struct world *world, bool (*round)(struct end *end, uint64_t number))
{
	struct end *end = &world->ends[0];

	end_open(world, end);
	assert_int_equal(end_connect(end, NULL), 0);
	for (uint64_t i = 1; i <= ROUNDS; i++)
		world->hits += round(end, i);
	end_close(end);
}

static void
put(struct end *end, uint32_t local, uint64_t value)
{
	memcpy(end->local + local, &value, 8);
}

/* ---- two requests of one queue pair -------------------------------------------------------- */

static bool
write_then_read(struct end *end, uint64_t number)
{
	struct nam_wr wrs[] = {
		request(end, NAM_WR_WRITE, 0, 0, 512),
		request(end, NAM_WR_READ, 0, 1024, 512),
	};

	for (uint32_t at = 0; at < 512; at += 8)
		put(end, at, number);
	carry_out(end, wrs, 2);
	return memcmp(end->local, end->local + 1024, 512) != 0;
}

static void
write_then_read_body(struct world *world)
{
	rounds(world, write_then_read);
}

static void
write_then_read__in_order_profiles__READ_SEES_IT(void **state)
{
	(void)state;
	assert_int_equal(hits(NAM_SIM_STRICT, write_then_read_body, SEEDS), 0);
	assert_int_equal(hits(NAM_SIM_VERBS, write_then_read_body, SEEDS), 0);
}

static void
write_then_read__weak__READ_MAY_PASS(void **state)
{
	(void)state;
	assert_true(hits(NAM_SIM_WEAK, write_then_read_body, SEEDS) > 0);
}

static bool
atomic_then_read(struct end *end, uint64_t number)
{
	struct nam_wr wrs[] = {
		request(end, NAM_WR_CAS, 0, 0, 8),
		request(end, NAM_WR_READ, 0, 64, 64),
	};

	wrs[0].compare = number - 1;
	wrs[0].swap = number;
	carry_out(end, wrs, 2);
	assert_int_equal(word(end->local, 0), number - 1);
	return word(end->local, 64) != number;
}

static void
atomic_then_read_body(struct world *world)
{
	rounds(world, atomic_then_read);
}

static void
atomic_then_read__with_the_bit__READ_SEES_IT(void **state)
{
	(void)state;
	assert_int_equal(hits(NAM_SIM_STRICT, atomic_then_read_body, SEEDS), 0);
	assert_int_equal(hits(NAM_SIM_VERBS, atomic_then_read_body, SEEDS), 0);
}

static void
atomic_then_read__weak__READ_MAY_PASS(void **state)
{
	(void)state;
	assert_true(hits(NAM_SIM_WEAK, atomic_then_read_body, SEEDS) > 0);
}

static bool
read_then_write(struct end *end, uint64_t number, uint8_t flags)
{
	struct nam_wr wrs[] = {
		request(end, NAM_WR_READ, 0, 64, 64),
		request(end, NAM_WR_WRITE, 0, 0, 64),
	};

	for (uint32_t at = 0; at < 64; at += 8)
		put(end, at, number);
	wrs[1].flags |= flags;
	carry_out(end, wrs, 2);
	for (uint32_t at = 64; at < 128; at += 8)
		if (word(end->local, at) == number)
			return true;
	return false;
}

static bool
read_then_plain_write(struct end *end, uint64_t number)
{
	return read_then_write(end, number, 0);
}

static bool
read_then_fenced_write(struct end *end, uint64_t number)
{
	return read_then_write(end, number, NAM_WR_FENCE);
}

static void
plain_body(struct world *world)
{
	rounds(world, read_then_plain_write);
}

static void
fenced_body(struct world *world)
{
	rounds(world, read_then_fenced_write);
}

static void
read_then_write__any_profile__WRITE_MAY_PASS(void **state)
{
	(void)state;
	for (unsigned profile = 0; profile < NAM_SIM_PROFILES_COUNT; profile++)
		assert_true(hits((enum nam_sim_profile)profile, plain_body, SEEDS) > 0);
}

static void
read_then_fenced_write__any_profile__IN_ORDER(void **state)
{
	(void)state;
	for (unsigned profile = 0; profile < NAM_SIM_PROFILES_COUNT; profile++)
		assert_int_equal(hits((enum nam_sim_profile)profile, fenced_body, SEEDS), 0);
}

/* ---- an observer looks on ------------------------------------------------------------------ */

static void
observer_main(void *arg)
{
	struct world *world = arg;

	((void (*)(struct world *))world->arg)(world);
}

/* The first end writes, and another thread of the client looks, over an end of its own. */
static void
watched(struct world *world, bool (*round)(struct end *end, uint64_t number),
	void (*look)(struct world *world))
{
	struct nam_thread *thread;

	world->arg = (void *)look;
	for (unsigned i = 0; i < 2; i++) {
		end_open(world, &world->ends[i]);
		assert_int_equal(end_connect(&world->ends[i], NULL), 0);
	}
	assert_int_equal(nam_thread_start("observer", observer_main, world, &thread), 0);
	for (uint64_t i = 1; i <= ROUNDS; i++)
		(void)round(&world->ends[0], i);
	world->done = true;
	nam_thread_join(thread);
	for (unsigned i = 0; i < 2; i++)
		end_close(&world->ends[i]);
}

static bool
write_then_atomic(struct end *end, uint64_t number)
{
	struct nam_wr wrs[] = {
		request(end, NAM_WR_WRITE, 64, 64, 256),
		request(end, NAM_WR_CAS, 0, 0, 8),
	};

	for (uint32_t at = 64; at < 320; at += 8)
		put(end, at, number);
	wrs[1].compare = number - 1;
	wrs[1].swap = number;
	carry_out(end, wrs, 2);
	return false;
}

/* Two READs, the second posted after the first has completed. */
static void
look_at_both(struct world *world)
{
	struct end *end = &world->ends[1];
	struct nam_wr first = request(end, NAM_WR_READ, 0, 0, 8);
	struct nam_wr second = request(end, NAM_WR_READ, 64, 64, 256);

	while (!world->done) {
		carry_out(end, &first, 1);
		carry_out(end, &second, 1);
		for (uint32_t at = 64; at < 320; at += 8)
			world->hits += word(end->local, at) < word(end->local, 0);
	}
}

static void
write_then_atomic_body(struct world *world)
{
	watched(world, write_then_atomic, look_at_both);
}

static void
write_then_atomic__with_the_bit__WRITE_IS_VISIBLE(void **state)
{
	(void)state;
	assert_int_equal(hits(NAM_SIM_STRICT, write_then_atomic_body, SEEDS), 0);
	assert_int_equal(hits(NAM_SIM_VERBS, write_then_atomic_body, SEEDS), 0);
}

static void
write_then_atomic__weak__ATOMIC_MAY_PASS(void **state)
{
	(void)state;
	assert_true(hits(NAM_SIM_WEAK, write_then_atomic_body, SEEDS) > 0);
}

/* Rear word, body, front word: three WRITEs. */
static bool
write_image(struct end *end, uint64_t number)
{
	struct nam_wr wrs[] = {
		request(end, NAM_WR_WRITE, 248, 248, 8),
		request(end, NAM_WR_WRITE, 8, 8, 240),
		request(end, NAM_WR_WRITE, 0, 0, 8),
	};

	for (uint32_t at = 0; at < 256; at += 8)
		put(end, at, number);
	carry_out(end, wrs, 3);
	return false;
}

static void
look_for_torn_images(struct world *world, bool ends_agree)
{
	struct end *end = &world->ends[1];
	struct nam_wr read = request(end, NAM_WR_READ, 0, 0, 256);

	while (!world->done) {
		carry_out(end, &read, 1);
		if (ends_agree && word(end->local, 0) != word(end->local, 248))
			continue;
		for (uint32_t at = 8; at < 256; at += 8)
			world->hits += word(end->local, at) != word(end->local, 0);
	}
}

static void
look_for_any(struct world *world)
{
	look_for_torn_images(world, false);
}

static void
look_for_agreeing(struct world *world)
{
	look_for_torn_images(world, true);
}

static void
torn_body(struct world *world)
{
	watched(world, write_image, look_for_any);
}

static void
agreeing_body(struct world *world)
{
	watched(world, write_image, look_for_agreeing);
}

static void
read_beside_write__any_profile__MAY_BE_TORN(void **state)
{
	(void)state;
	for (unsigned profile = 0; profile < NAM_SIM_PROFILES_COUNT; profile++)
		assert_true(hits((enum nam_sim_profile)profile, torn_body, SEEDS) > 0);
}

static void
read_with_agreeing_ends__ordered_loads__IS_WHOLE(void **state)
{
	(void)state;
	assert_int_equal(hits(NAM_SIM_STRICT, agreeing_body, SEEDS), 0);
}

static void
read_with_agreeing_ends__no_ordered_loads__MAY_BE_TORN(void **state)
{
	(void)state;
	assert_true(hits(NAM_SIM_VERBS, agreeing_body, SEEDS) > 0);
	assert_true(hits(NAM_SIM_WEAK, agreeing_body, SEEDS) > 0);
}

/* ---- buffers and completions ---------------------------------------------------------------- */

static bool
reuse_too_early(struct end *end, uint64_t number, uint8_t flags)
{
	struct nam_wr write = request(end, NAM_WR_WRITE, 0, 0, 64);

	for (uint32_t at = 0; at < 64; at += 8)
		put(end, at, number);
	write.flags |= flags;
	post(end, &write, 1);
	memset(end->local, 0xff, 64);
	assert_int_equal(next(end).status, 0);
	return word(end->world->memory, 0) != number;
}

static bool
reuse_plain(struct end *end, uint64_t number)
{
	return reuse_too_early(end, number, 0);
}

static bool
reuse_inline(struct end *end, uint64_t number)
{
	return reuse_too_early(end, number, NAM_WR_INLINE);
}

static void
reuse_body(struct world *world)
{
	rounds(world, reuse_plain);
}

static void
inline_body(struct world *world)
{
	rounds(world, reuse_inline);
}

static void
buffer_reused_before_the_completion__plain__SHOWS(void **state)
{
	(void)state;
	assert_true(hits(NAM_SIM_STRICT, reuse_body, 3) > 0);
}

static void
buffer_reused_before_the_completion__inline__DOES_NOT_SHOW(void **state)
{
	(void)state;
	assert_int_equal(hits(NAM_SIM_STRICT, inline_body, SEEDS), 0);
}

static bool
completions(struct end *end, uint64_t number)
{
	struct nam_wr wrs[8];
	unsigned out_of_order = 0;

	(void)number;
	for (uint32_t i = 0; i < 8; i++) {
		wrs[i] = request(end, i % 3 ? NAM_WR_READ : NAM_WR_WRITE, 512 * i, 512 * i,
			i % 2 ? 512 : 8);
		wrs[i].context = (void *)(uintptr_t)i;
		if (i == 5)
			wrs[i].flags = 0;
	}
	post(end, wrs, 8);
	for (uintptr_t i = 0; i < 8; i++)
		if (i != 5)
			out_of_order += (uintptr_t)next(end).context != i;
	return out_of_order;
}

static void
completions_body(struct world *world)
{
	rounds(world, completions);
}

static void
completions__signalled_only__IN_POST_ORDER(void **state)
{
	(void)state;
	for (unsigned profile = 0; profile < NAM_SIM_PROFILES_COUNT; profile++)
		assert_int_equal(hits((enum nam_sim_profile)profile, completions_body, SEEDS), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_then_read__in_order_profiles__READ_SEES_IT),
		cmocka_unit_test(write_then_read__weak__READ_MAY_PASS),
		cmocka_unit_test(atomic_then_read__with_the_bit__READ_SEES_IT),
		cmocka_unit_test(atomic_then_read__weak__READ_MAY_PASS),
		cmocka_unit_test(read_then_write__any_profile__WRITE_MAY_PASS),
		cmocka_unit_test(read_then_fenced_write__any_profile__IN_ORDER),
		cmocka_unit_test(write_then_atomic__with_the_bit__WRITE_IS_VISIBLE),
		cmocka_unit_test(write_then_atomic__weak__ATOMIC_MAY_PASS),
		cmocka_unit_test(read_beside_write__any_profile__MAY_BE_TORN),
		cmocka_unit_test(read_with_agreeing_ends__ordered_loads__IS_WHOLE),
		cmocka_unit_test(read_with_agreeing_ends__no_ordered_loads__MAY_BE_TORN),
		cmocka_unit_test(buffer_reused_before_the_completion__plain__SHOWS),
		cmocka_unit_test(buffer_reused_before_the_completion__inline__DOES_NOT_SHOW),
		cmocka_unit_test(completions__signalled_only__IN_POST_ORDER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
