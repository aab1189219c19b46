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

static struct sim_result
run(struct sim_scenario *scenario)
{
	struct sim_history history;
	struct sim_result outcome;

	sim_history_init(&history);
	outcome = sim_scenario_run(scenario, &history);
	sim_history_free(&history);
	return outcome;
}

static void
sim_memory_lost__all_books_agree__NONE(void **state)
{
	struct sim_memory memory = { .out_bytes = 1280, .reached_bytes = 768, .stride = 256 };

	(void)state;
	assert_int_equal(sim_memory_lost(&memory, 2), 0);
}

static void
sim_memory_lost__more_out_than_reached__SO_MANY(void **state)
{
	struct sim_memory memory = { .out_bytes = 1280, .reached_bytes = 768, .stride = 256 };

	(void)state;
	assert_int_equal(sim_memory_lost(&memory, 0), 2);
	assert_int_equal(sim_memory_lost(&memory, 1), 1);
	memory.out_bytes += 64;
	assert_int_equal(sim_memory_lost(&memory, 2), 1);
}

static void
sim_memory_lost__free_and_reached__NEGATIVE(void **state)
{
	struct sim_memory memory = { .out_bytes = 512, .reached_bytes = 768, .stride = 256 };

	(void)state;
	assert_int_equal(sim_memory_lost(&memory, 0), -1);
	assert_int_equal(sim_memory_lost(&memory, 1), -2);
}

static void
sim_scenario_run__nothing_lost__PASSES(void **state)
{
	struct sim_scenario scenario;
	struct sim_result outcome;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.tide = 200;
	scenario.sim.slowness = 64;
	outcome = run(&scenario);
	assert_false(outcome.failed);
	assert_true(outcome.reused > 0);
	assert_int_equal(outcome.lost, 0);
}

static void
sim_scenario_run__blocks_lost__LEAK(void **state)
{
	struct sim_scenario scenario;
	struct sim_result outcome;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.leaks = 3;
	outcome = run(&scenario);
	assert_true(outcome.failed);
	assert_int_equal(outcome.lost, 3);
	assert_non_null(strstr(outcome.why, "leak: 3 blocks"));
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
	scenario.ops = 300;
	scenario.keys = 400;
	outcome = run(&scenario);
	assert_false(outcome.failed);
	assert_true(outcome.full > 0);
	assert_int_equal(outcome.lost, 0);
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
		cmocka_unit_test(sim_scenario_run__servers_become_full__REFUSED_and_nothing_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
