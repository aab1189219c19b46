/* SPDX-License-Identifier: Apache-2.0 */
/* memory_test.c -- blocks that get lost are noticed, and none are where nothing goes wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "memory.h"
#include "scenario.h"

#define SEEDS 10u

static void
sim_memory_lost__all_books_agree__NONE(void **state)
{
	struct sim_memory memory = { .out_bytes = 1280, .reached_bytes = 768, .stride = 256 };

	(void)state;
	assert_int_equal(sim_memory_lost(&memory, 512), 0);
}

static void
sim_memory_lost__more_out_than_reached__SO_MANY(void **state)
{
	struct sim_memory memory = { .out_bytes = 1280, .reached_bytes = 768, .stride = 256 };

	(void)state;
	assert_int_equal(sim_memory_lost(&memory, 0), 2);
	assert_int_equal(sim_memory_lost(&memory, 256), 1);
	memory.out_bytes += 64;
	assert_int_equal(sim_memory_lost(&memory, 512), 1);
}

static void
sim_memory_lost__free_and_reached__NEGATIVE(void **state)
{
	struct sim_memory memory = { .out_bytes = 512, .reached_bytes = 768, .stride = 256 };

	(void)state;
	assert_int_equal(sim_memory_lost(&memory, 0), -1);
	assert_int_equal(sim_memory_lost(&memory, 256), -2);
}

static void
sim_scenario_run__nothing_lost__PASSES(void **state)
{
	struct sim_scenario scenario;
	struct sim_result outcome;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.load_wave = 200;
	scenario.sim.slowness = 64;
	for (unsigned i = NAM_DESIGN_FINE; i <= NAM_DESIGN_HYBRID; i++) {
		uint64_t reused = 0;

		scenario.design = (enum nam_index_design)i;
		for (unsigned seed = 1; seed <= 3; seed++) {
			scenario.sim.seed = seed;
			outcome = sim_scenario_once(&scenario);
			assert_string_equal(outcome.why, "");
			assert_string_equal(outcome.counted, "all");
			assert_int_equal(outcome.lost, 0);
			reused += outcome.reused + outcome.reclaims;
		}
		assert_true(reused > 0);
	}
}

static void
sim_scenario_run__blocks_lost__LEAK(void **state)
{
	struct sim_scenario scenario;
	struct sim_result outcome;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.leaks = 3;
	for (unsigned i = NAM_DESIGN_FINE; i <= NAM_DESIGN_HYBRID; i++) {
		scenario.design = (enum nam_index_design)i;
		outcome = sim_scenario_once(&scenario);
		assert_true(outcome.failed);
		assert_int_equal(outcome.lost, 3);
		assert_non_null(strstr(outcome.why, "leak: 3 blocks"));
	}
}

/* Only the blocks that dead processes cached are lost. */
static void
sim_scenario_run__clients_die__THEIR_CACHE_is_lost(void **state)
{
	struct sim_scenario scenario;
	uint64_t lost = 0;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.kills = 2;
	for (scenario.sim.seed = 1; scenario.sim.seed <= SEEDS; scenario.sim.seed++) {
		struct sim_result outcome = sim_scenario_once(&scenario);

		assert_string_equal(outcome.why, "");
		lost += (uint64_t)outcome.lost;
	}
	assert_true(lost > 0);
}

/* Clients have no such blocks if memory servers do all the work. */
static void
sim_scenario_run__clients_of_a_coarse_index_die__NOTHING_is_lost(void **state)
{
	struct sim_scenario scenario;
	uint64_t kills = 0;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.design = NAM_DESIGN_COARSE;
	scenario.kills = 2;
	for (scenario.sim.seed = 1; scenario.sim.seed <= SEEDS; scenario.sim.seed++) {
		struct sim_result outcome = sim_scenario_once(&scenario);

		assert_string_equal(outcome.why, "");
		assert_string_equal(outcome.counted, "all");
		kills += outcome.counts.kills;
	}
	assert_true(kills > 0);
}

static void
sim_scenario_run__more_lost_than_the_dead_had__LEAK(void **state)
{
	struct sim_scenario scenario;
	unsigned found = 0;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.kills = 2;
	scenario.leaks = 100;
	for (scenario.sim.seed = 1; scenario.sim.seed <= SEEDS; scenario.sim.seed++) {
		struct sim_result outcome = sim_scenario_once(&scenario);

		if (!outcome.counts.kills || !strncmp(outcome.counted, "not:", 4))
			continue;
		assert_true(outcome.failed);
		assert_non_null(strstr(outcome.why, "free, nor lost with the dead"));
		found++;
	}
	assert_true(found > 0);
}

static void
sim_scenario_run__servers_become_full__REFUSED_and_nothing_lost(void **state)
{
	struct sim_scenario scenario;
	struct sim_result outcome;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.memory_bytes = 1u << 20;
	scenario.spare = 8;
	scenario.ops = 1500;
	scenario.keys = 4000;
	for (unsigned i = NAM_DESIGN_FINE; i <= NAM_DESIGN_HYBRID; i++) {
		scenario.design = (enum nam_index_design)i;
		outcome = sim_scenario_once(&scenario);
		assert_string_equal(outcome.why, "");
		assert_true(outcome.full > 0);
		assert_int_equal(outcome.lost, 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sim_memory_lost__all_books_agree__NONE),
		cmocka_unit_test(sim_memory_lost__more_out_than_reached__SO_MANY),
		cmocka_unit_test(sim_memory_lost__free_and_reached__NEGATIVE),
		cmocka_unit_test(sim_scenario_run__nothing_lost__PASSES),
		cmocka_unit_test(sim_scenario_run__blocks_lost__LEAK),
		cmocka_unit_test(sim_scenario_run__clients_die__THEIR_CACHE_is_lost),
		cmocka_unit_test(sim_scenario_run__clients_of_a_coarse_index_die__NOTHING_is_lost),
		cmocka_unit_test(sim_scenario_run__more_lost_than_the_dead_had__LEAK),
		cmocka_unit_test(sim_scenario_run__servers_become_full__REFUSED_and_nothing_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
