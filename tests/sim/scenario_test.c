/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_test.c -- runs find planted errors, and planned faults hit processes that they may. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/guard.h"
#include "scenario.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#define LEAKS_ARE_WELL() __lsan_disable()
#define LEAKS_ARE_NOT() __lsan_enable()
#else
#define LEAKS_ARE_WELL() ((void)0)
#define LEAKS_ARE_NOT() ((void)0)
#endif

#define SEEDS 20u

static void
sim_scenario_run__operation_hangs__NO_PROGRESS(void **state)
{
	struct sim_scenario scenario;
	struct sim_result outcome;

	(void)state;
	sim_scenario_init(&scenario);
	/* It may have a lock, and others that wait for it would be told first. */
	scenario.clients = 1;
	scenario.fibers = 1;
	scenario.hang_ns = 21000000000ull;
	outcome = sim_scenario_once(&scenario);
	assert_true(outcome.failed);
	assert_non_null(strstr(outcome.why, "no progress"));
	scenario.hang_ns = 15000000000ull;
	outcome = sim_scenario_once(&scenario);
	assert_false(outcome.failed);
	assert_true(outcome.operation_ns >= scenario.hang_ns);
}

static void
sim_scenario_run__pass_of_collector_hangs__NO_PROGRESS(void **state)
{
	struct sim_scenario scenario;
	struct sim_result outcome;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.hang_pass_ns = 61000000000ull;
	/* Three passes or more: the third hangs, and no request is behind it in its queue pair. */
	scenario.collects = 10;
	scenario.fibers = 1;
	scenario.ops = 400;
	outcome = sim_scenario_once(&scenario);
	assert_true(outcome.failed);
	assert_non_null(strstr(outcome.why, "no progress: a pass of the collector"));
}

static void
sim_scenario_run__operation_never_ends__ETIMEDOUT(void **state)
{
	struct sim_scenario scenario;
	struct sim_result outcome;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.sim.limit_ns = 2000000000;
	scenario.hang_ns = 2 * scenario.sim.limit_ns;
	/* A run that is given up in the middle frees little of what it had. */
	LEAKS_ARE_WELL();
	outcome = sim_scenario_once(&scenario);
	LEAKS_ARE_NOT();
	assert_true(outcome.failed);
	assert_int_equal(outcome.rc, -ETIMEDOUT);
}

/* Rates: over some seeds each kind occurs, and nothing is wrong afterwards. */
static void
sim_scenario_run__deaths_and_stalls_have_rates__ALL_happen(void **state)
{
	uint64_t kills = 0, server_kills = 0, stalls = 0, broken = 0;
	struct sim_scenario scenario;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.sim.faults.kill = 100;
	scenario.sim.faults.kill_server = 50;
	scenario.sim.faults.stall = 200;
	scenario.sim.faults.break_qp = 50;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim_result outcome;

		scenario.sim.seed = seed;
		outcome = sim_scenario_once(&scenario);
		assert_string_equal(outcome.why, "");
		kills += outcome.counts.kills;
		server_kills += outcome.counts.server_kills;
		stalls += outcome.counts.stalls;
		broken += outcome.counts.broken;
	}
	assert_true(kills > 0);
	assert_true(server_kills > 0);
	assert_true(stalls > 0);
	assert_true(broken > 0);
}

/* The same for faults without deaths. */
static void
sim_scenario_run__refusals_slowness_and_zombies_have_rates__ALL_happen(void **state)
{
	uint64_t full = 0, slowed = 0, zombies = 0, refused = 0;
	struct sim_scenario scenario;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.sim.faults.full = 500000;
	scenario.sim.faults.slow = 200;
	scenario.sim.faults.zombie = 500000;
	scenario.sim.faults.kill = 200;
	scenario.sim.faults.break_qp = 50;
	scenario.ops = 300;
	for (scenario.sim.seed = 1; scenario.sim.seed <= SEEDS; scenario.sim.seed++) {
		struct sim_result outcome = sim_scenario_once(&scenario);

		assert_string_equal(outcome.why, "");
		full += outcome.counts.full;
		slowed += outcome.counts.slowed;
		zombies += outcome.counts.zombies;
		refused += outcome.full;
	}
	assert_true(slowed > 0);
	assert_true(zombies > 0);
#ifdef NAM_SIM_POINTS
	assert_true(full > 0);
	assert_true(refused > 0);
#else
	assert_int_equal(full + refused, 0);
#endif
}

static void
add_while_clients_work(struct sim_scenario *scenario)
{
	sim_scenario_init(scenario);
	scenario->add = 2;
	scenario->ops = 3000;
	scenario->keys = 4000;
}

static void
sim_scenario_run__memory_servers_come__NOTHING_fails(void **state)
{
	struct sim_scenario scenario;
	struct sim_result outcome;

	(void)state;
	add_while_clients_work(&scenario);
	outcome = sim_scenario_once(&scenario);
	assert_string_equal(outcome.why, "");
	assert_int_equal(outcome.added, 2);
	assert_int_equal(outcome.refused, 0);
}

#ifdef NAM_SIM_POINTS
/* Blocks of a memory server that some clients do not know yet. */
static void
sim_scenario_run__allocates_before_all_know__NOREGION(void **state)
{
	struct sim_scenario scenario;
	bool found = false;

	(void)state;
	add_while_clients_work(&scenario);
	assert_int_equal(nam_guard_off("view-usable"), 0);
	LEAKS_ARE_WELL();
	for (scenario.sim.seed = 1; scenario.sim.seed <= SEEDS && !found; scenario.sim.seed++) {
		struct sim_result outcome = sim_scenario_once(&scenario);

		found = outcome.failed && strstr(outcome.why, "NAM_E_NOREGION");
	}
	LEAKS_ARE_NOT();
	nam_guards_on();
	assert_true(found);
}
#endif

/* ---- memory that moves ---------------------------------------------------------------------- */

static void
sim_scenario_run__memory_moves__NOTHING_fails_and_nothing_lost(void **state)
{
	struct sim_scenario scenario;
	uint64_t kv_ops = 0;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.moves = 2;
	scenario.servers = 3;
	for (unsigned i = 0; i < 3 * 2 * NAM_SIM_PROFILES_COUNT; i++) {
		struct sim_result outcome;

		scenario.sim.seed = 1 + i;
		scenario.kv = 2;
		if (sim_kv_onesided(&scenario))
			scenario.kv = 0;
		scenario.design = (enum nam_index_design)(NAM_DESIGN_FINE + i % 3);
		scenario.pairs = i / 3 % 2;
		scenario.sim.profile = (enum nam_sim_profile)(i / 6);
		outcome = sim_scenario_once(&scenario);
		assert_string_equal(outcome.why, "");
		assert_int_equal(outcome.moved, 2);
		assert_int_equal(outcome.unmoved, 0);
		kv_ops += outcome.kv_ops;
		assert_string_equal(outcome.counted, "all");
		assert_int_equal(outcome.lost, 0);
	}
	assert_true(kv_ops);
}

static void
sim_scenario_run__the_lead_moves__NO_OPERATION_fails(void **state)
{
	struct sim_scenario scenario;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.lead_moves = 2;
	for (scenario.sim.seed = 1; scenario.sim.seed <= 4 * NAM_SIM_PROFILES_COUNT;
		scenario.sim.seed++) {
		struct sim_result outcome;

		scenario.sim.profile = (enum nam_sim_profile)((scenario.sim.seed - 1) / 4);
		outcome = sim_scenario_once(&scenario);
		assert_string_equal(outcome.why, "");
		assert_int_equal(outcome.moved, 2);
		assert_int_equal(outcome.refused, 0);
		assert_string_equal(outcome.verified, "whole");
	}
}

static void
sim_scenario_run__members_end__THEIR_BACKUPS_have_all(void **state)
{
	struct sim_scenario scenario;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.failovers = 2;
	scenario.servers = 3;
	for (scenario.sim.seed = 1; scenario.sim.seed <= 4 * NAM_SIM_PROFILES_COUNT;
		scenario.sim.seed++) {
		struct sim_result outcome;

		scenario.pairs = scenario.sim.seed % 2;
		scenario.replicas = 2 + scenario.sim.seed / 2 % 2;
		scenario.sim.profile = (enum nam_sim_profile)((scenario.sim.seed - 1) / 4);
		outcome = sim_scenario_once(&scenario);
		assert_string_equal(outcome.why, "");
		/* A second backup may get the place after the first. */
		assert_in_range(outcome.promoted, 2, 2 * (scenario.replicas - 1));
		assert_int_equal(outcome.refused, 0);
		assert_string_equal(outcome.verified, "whole");
	}
}

/* Any process may die, the mover and successors, too: then a move is given up, and all goes on. */
static void
sim_scenario_run__memory_moves_among_deaths__SOME_given_up(void **state)
{
	uint32_t moved = 0, unmoved = 0, harmless = 0;
	struct sim_scenario scenario;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.moves = 3;
	scenario.kills = 1;
	scenario.server_kills = 1;
	scenario.sim.faults.stall = 100;
	for (scenario.sim.seed = 1; scenario.sim.seed <= 2 * SEEDS; scenario.sim.seed++) {
		struct sim_result outcome = sim_scenario_once(&scenario);

		assert_string_equal(outcome.why, "");
		moved += outcome.moved;
		unmoved += outcome.unmoved;
		/* It had no memory yet, or no more, so all blocks were counted. */
		harmless += outcome.counts.server_kills && !strstr(outcome.counted, "not");
	}
	assert_true(moved > 0);
	assert_true(unmoved > 0);
	assert_true(harmless > 0);
}

/* Stewards lead by turns while memory servers come, and processes of all kinds die and stall. */
static void
sim_scenario_run__stewards_among_deaths__SOME_lead(void **state)
{
	uint32_t terms = 0, added = 0, kills = 0;
	struct sim_scenario scenario;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.stewards = 3;
	scenario.add = 2;
	scenario.kills = 3;
	scenario.stalls = 3;
	for (scenario.sim.seed = 1; scenario.sim.seed <= SEEDS; scenario.sim.seed++) {
		struct sim_result outcome = sim_scenario_once(&scenario);

		assert_string_equal(outcome.why, "");
		terms += outcome.terms;
		added += outcome.added;
		kills += outcome.counts.kills > 0;
	}
	assert_true(terms > SEEDS);
	assert_true(added > 0);
	assert_true(kills > 0);
}

#ifdef NAM_SIM_POINTS
/* Requests are under way while memory is copied. */
static void
sim_scenario_run__moves_before_all_are_quiet__FAILS(void **state)
{
	struct sim_scenario scenario;
	bool found = false;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.moves = 3;
	scenario.sim.faults.late = 100000;
	scenario.sim.faults.late_ns = 4000000;
	assert_int_equal(nam_guard_off("gate-quiet"), 0);
	LEAKS_ARE_WELL();
	for (scenario.sim.seed = 1; scenario.sim.seed <= SEEDS && !found; scenario.sim.seed++)
		found = sim_scenario_once(&scenario).failed;
	LEAKS_ARE_NOT();
	nam_guards_on();
	assert_true(found);
}
#endif

/* ---- keys and pairs ----------------------------------------------------------------------- */

static const struct shape {
	uint32_t key_bytes, node_bytes;
	bool pairs, delete_pairs;
} shapes[] = {
	{ 8, 256, true, false },
	{ 8, 256, false, true },
	{ 13, 256, false, false },
	{ 16, 256, true, false },
	{ 24, 512, false, true },
	{ 64, 1024, true, false },
};

static void
sim_scenario_run__keys_and_pairs_of_all_kinds__PASSES(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct sim_scenario scenario;

		sim_scenario_init(&scenario);
		scenario.key_bytes = shapes[i].key_bytes;
		scenario.node_bytes = shapes[i].node_bytes;
		scenario.pairs = shapes[i].pairs;
		scenario.delete_pairs = shapes[i].delete_pairs;
		scenario.load_wave = 200;
		for (unsigned profile = 0; profile < NAM_SIM_PROFILES_COUNT; profile++) {
			scenario.sim.profile = (enum nam_sim_profile)profile;
			assert_string_equal(sim_scenario_once(&scenario).why, "");
		}
	}
}

#ifdef NAM_SIM_POINTS
/* Without a guard the history of pairs contradicts itself, as that of keys does. */
static void
sim_scenario_run__guard_is_off__PAIRS_contradict(void **state)
{
	struct sim_scenario scenario;
	uint64_t contradictions = 0;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.key_bytes = 16;
	scenario.pairs = true;
	assert_int_equal(nam_guard_off("node-hash"), 0);
	for (scenario.sim.seed = 1; scenario.sim.seed <= 5 * SEEDS && !contradictions;
		scenario.sim.seed++)
		contradictions += sim_scenario_once(&scenario).contradictions;
	nam_guards_on();
	assert_true(contradictions > 0);
}
#endif

/* A lock that no death explains stays a violation where others have died. */
static void
sim_scenario_run__stray_lock__FAILS_with_I9(void **state)
{
	struct sim_scenario scenario;
	struct sim_result outcome;
	unsigned disturbed = 0;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.stray = true;
	outcome = sim_scenario_once(&scenario);
	assert_true(outcome.failed);
	assert_non_null(strstr(outcome.why, "I9: region"));
	scenario.kills = 1;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		scenario.sim.seed = seed;
		outcome = sim_scenario_once(&scenario);
		if (!outcome.counts.kills || !outcome.strayed)
			continue;
		disturbed++;
		assert_true(outcome.failed);
		assert_non_null(strstr(outcome.why, "I9: region"));
	}
	assert_true(disturbed > 0);
}

/* With one client and many passes most of the dead are collectors. */
static void
sim_scenario_run__collector_dies__ANOTHER_goes_on(void **state)
{
	struct sim_scenario scenario;
	uint32_t collectors = 0;
	uint64_t merges = 0;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.sim.faults.kill = 600;
	scenario.load_wave = 100;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim_result outcome;

		scenario.sim.seed = seed;
		outcome = sim_scenario_once(&scenario);
		assert_string_equal(outcome.why, "");
		collectors += outcome.collectors;
		merges += outcome.merges;
	}
	assert_true(collectors > SEEDS);
	assert_true(merges > 0);
}

/* In bulk or by inserts: the same pairs, which the history checks. */
static void
sim_scenario_run__loaded_in_bulk__PASSES(void **state)
{
	struct sim_scenario scenario;
	struct sim_result outcome;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.bulk = 100;
	scenario.ops = 0;
	outcome = sim_scenario_once(&scenario);
	assert_false(outcome.failed);
	assert_int_equal(outcome.entries, scenario.keys / 2);
	scenario.ops = 100;
	assert_false(sim_scenario_once(&scenario).failed);
}

static void
sim_scenario_run__temporary_index__LOADED_and_DROPPED_and_nothing_lost(void **state)
{
	struct sim_scenario scenario;
	struct sim_result outcome;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.temporary = true;
	outcome = sim_scenario_once(&scenario);
	assert_string_equal(outcome.why, "");
	assert_true(outcome.loads > 0);
	assert_true(outcome.drops > 0);
	assert_string_equal(outcome.counted, "all");
	assert_int_equal(outcome.lost, 0);
}

static void
sim_scenario_run__key_value_store__IN_ORDER_and_nothing_lost(void **state)
{
	struct sim_scenario scenario;
	uint64_t evictions = 0;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.kv = 4;
	scenario.handlers = 2;
	/* Each engine as a store and as a cache. */
	for (unsigned i = 0; i < 4 * NAM_SIM_PROFILES_COUNT; i++) {
		struct sim_result outcome;

		scenario.sim.seed = 1 + i;
		scenario.sim.profile = (enum nam_sim_profile)(i % NAM_SIM_PROFILES_COUNT);
		outcome = sim_scenario_once(&scenario);
		assert_string_equal(outcome.why, "");
		assert_true(outcome.kv_ops > 0);
		assert_int_equal(outcome.kv_unknown, 0);
		assert_string_equal(outcome.counted, "all");
		assert_int_equal(outcome.lost, 0);
		evictions += outcome.kv_evictions;
	}
	assert_true(evictions > 0);
}

/* A failed operation was done or not; it explains nothing else. */
static void
sim_scenario_run__key_value_store_among_deaths__IN_ORDER_and_some_unknown(void **state)
{
	uint64_t ops = 0, unknown = 0, kills = 0, evicted_beside_kills = 0;
	struct sim_scenario scenario;

	(void)state;
	sim_scenario_init(&scenario);
	scenario.kv = 4;
	scenario.handlers = 2;
	scenario.ops = 30;
	scenario.sim.faults.kill = 100;
	scenario.sim.faults.kill_server = 50;
	scenario.sim.faults.break_qp = 200;
	scenario.sim.faults.late = 50000;
	/* Until one is unknown and one is evicted beside a death, which may take further seeds. */
	for (scenario.sim.seed = 1; scenario.sim.seed <= SEEDS || ((!unknown ||
		!evicted_beside_kills) && scenario.sim.seed <= 16 * SEEDS); scenario.sim.seed++) {
		struct sim_result outcome = sim_scenario_once(&scenario);

		assert_string_equal(outcome.why, "");
		ops += outcome.kv_ops;
		unknown += outcome.kv_unknown;
		kills += outcome.counts.kills;
		if (outcome.counts.kills || outcome.counts.server_kills)
			evicted_beside_kills += outcome.kv_evictions;
	}
	assert_true(unknown > 0 && ops > unknown);
	assert_true(kills > 0 && evicted_beside_kills > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sim_scenario_run__operation_hangs__NO_PROGRESS),
		cmocka_unit_test(sim_scenario_run__pass_of_collector_hangs__NO_PROGRESS),
		cmocka_unit_test(sim_scenario_run__operation_never_ends__ETIMEDOUT),
		cmocka_unit_test(sim_scenario_run__deaths_and_stalls_have_rates__ALL_happen),
		cmocka_unit_test(
			sim_scenario_run__refusals_slowness_and_zombies_have_rates__ALL_happen),
		cmocka_unit_test(sim_scenario_run__memory_servers_come__NOTHING_fails),
#ifdef NAM_SIM_POINTS
		cmocka_unit_test(sim_scenario_run__allocates_before_all_know__NOREGION),
#endif
		cmocka_unit_test(sim_scenario_run__memory_moves__NOTHING_fails_and_nothing_lost),
		cmocka_unit_test(sim_scenario_run__the_lead_moves__NO_OPERATION_fails),
		cmocka_unit_test(sim_scenario_run__members_end__THEIR_BACKUPS_have_all),
		cmocka_unit_test(sim_scenario_run__memory_moves_among_deaths__SOME_given_up),
		cmocka_unit_test(sim_scenario_run__stewards_among_deaths__SOME_lead),
#ifdef NAM_SIM_POINTS
		cmocka_unit_test(sim_scenario_run__moves_before_all_are_quiet__FAILS),
#endif
		cmocka_unit_test(sim_scenario_run__keys_and_pairs_of_all_kinds__PASSES),
#ifdef NAM_SIM_POINTS
		cmocka_unit_test(sim_scenario_run__guard_is_off__PAIRS_contradict),
#endif
		cmocka_unit_test(sim_scenario_run__stray_lock__FAILS_with_I9),
		cmocka_unit_test(sim_scenario_run__collector_dies__ANOTHER_goes_on),
		cmocka_unit_test(sim_scenario_run__loaded_in_bulk__PASSES),
		cmocka_unit_test(
			sim_scenario_run__temporary_index__LOADED_and_DROPPED_and_nothing_lost),
		cmocka_unit_test(sim_scenario_run__key_value_store__IN_ORDER_and_nothing_lost),
		cmocka_unit_test(
			sim_scenario_run__key_value_store_among_deaths__IN_ORDER_and_some_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
