/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_test.c -- directed schedules: two or three clients, held up at race points until the
 * others have done awkward steps.  Usage: below.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "commit.h"
#include "litmus.h"
#include "repeat.h"

#define SEEDS 5u
#ifdef __SANITIZE_ADDRESS__
#define SEEDS_HOLD 1u			/* four times as slow; without it all five hold */
#else
#define SEEDS_HOLD SEEDS
#endif
#define CASES_MAX 320u

static const char usage[] =
	"usage: sim_litmus_test                    every scene, in every profile, with 5 seeds;\n"
	"                                          and without the guards that it would miss\n"
	"       sim_litmus_test SCENE PROFILE SEED [GUARD...] [--trace]\n"
	"                                          one run, with guards turned off\n"
	"       sim_litmus_test --list             the scenes, and their events\n"
	"  PROFILE   strict, verbs, weak or routed: guarantees of the fabric\n"
	"  GUARD     a name of common/guard.h\n"
	"  --trace   every event to standard output\n"
	"Exit status: 0, or 1 if the scene failed, or 2 if there is no such run.\n";

/* Scenes that fail, with one of the seeds, if a guard is off. */
static const struct missed {
	const char *scene;
	enum nam_sim_profile profile;
	const char *guard;
} missed[] = {
	{ "busy_client", NAM_SIM_VERBS, "sign-of-life" },
	{ "view_early_ack", NAM_SIM_VERBS, "view-installed" },
	{ "view_two_leads", NAM_SIM_VERBS, "view-boot" },
	{ "sweep_block_cache", NAM_SIM_VERBS, "sweep-owner" },
	{ "sweep_block_cache", NAM_SIM_STRICT, "sweep-mark" },
	{ "sweep_again", NAM_SIM_WEAK, "sweep-own" },
	{ "sweep_limbo", NAM_SIM_VERBS, "sweep-report" },
	{ "sweep_merge", NAM_SIM_VERBS, "sweep-wait" },
	{ "sweep_fencing", NAM_SIM_VERBS, "sweep-fencing" },
	{ "sweep_killed", NAM_SIM_STRICT, "sweep-intent" },
	{ "sweep_heads", NAM_SIM_WEAK, "sweep-slice" },
	{ "sweep_stale", NAM_SIM_STRICT, "sweep-close" },
	{ "sweep_stale_late", NAM_SIM_STRICT, "sweep-close-wait" },
	{ "sweep_unnamed", NAM_SIM_VERBS, "sweep-close-index" },
	{ "collect_two", NAM_SIM_VERBS, "collect-alone" },
	{ "collect_gone_small", NAM_SIM_STRICT, "collect-outrun" },
	{ "sweep_objects", NAM_SIM_VERBS, "sweep-objects" },
	{ "sweep_records", NAM_SIM_VERBS, "sweep-records" },
	{ "sweep_chain", NAM_SIM_VERBS, "sweep-chain" },
	{ "sweep_half", NAM_SIM_STRICT, "sweep-collect" },
	{ "sweep_proof", NAM_SIM_VERBS, "sweep-collect" },
	{ "sweep_reader", NAM_SIM_VERBS, "sweep-barrier" },
	{ "sweep_dropped", NAM_SIM_WEAK, "sweep-drop" },
	{ "sweep_entries", NAM_SIM_VERBS, "sweep-entries" },
	{ "serial_skew", NAM_SIM_VERBS, "serial-validate" },
	{ "serial_lost", NAM_SIM_VERBS, "serial-lock" },
	{ "serial_reads", NAM_SIM_WEAK, "serial-validate" },
	{ "serial_dirty", NAM_SIM_VERBS, "serial-locked" },
	{ "serial_torn", NAM_SIM_VERBS, "serial-hash" },
	{ "serial_dies_halfway", NAM_SIM_VERBS, "serial-log" },
	{ "serial_slow", NAM_SIM_STRICT, "serial-dead" },
	{ "torn_node", NAM_SIM_STRICT, "node-ends" },
	{ "torn_node", NAM_SIM_VERBS, "node-hash" },
	{ "torn_inside", NAM_SIM_VERBS, "node-hash" },
	{ "torn_inside", NAM_SIM_WEAK, "node-hash" },
	{ "torn_inside", NAM_SIM_ROUTED, "node-hash" },
	{ "absent_neighbour", NAM_SIM_STRICT, "node-ends" },
	{ "absent_neighbour", NAM_SIM_VERBS, "node-hash" },
	{ "absent_neighbour", NAM_SIM_WEAK, "node-hash" },
	{ "absent_neighbour", NAM_SIM_VERBS, "fence-high" },
	{ "read_in_parts", NAM_SIM_WEAK, "read-passed-cas" },
	{ "near_memory", NAM_SIM_STRICT, "colocated-order" },
	{ "crowded_next_door", NAM_SIM_STRICT, "frame-end" },
	{ "crowded_next_door", NAM_SIM_WEAK, "frame-number" },
	{ "stolen_lock", NAM_SIM_STRICT, "unlock-owner" },
	{ "stolen_lock", NAM_SIM_WEAK, "unlock-owner" },
	{ "stolen_lock", NAM_SIM_VERBS, "unlock-cas" },
	{ "reused_elsewhere", NAM_SIM_STRICT, "generation" },
	{ "reused_elsewhere", NAM_SIM_VERBS, "generation" },
	{ "locked_elsewhere", NAM_SIM_WEAK, "generation" },
	{ "late_name", NAM_SIM_VERBS, "child-alive" },
	{ "kv_lossy", NAM_SIM_VERBS, "datagram-once" },
	{ "kv_lossy_cuckoo", NAM_SIM_VERBS, "datagram-once" },
	{ "kv_crowd_cuckoo", NAM_SIM_VERBS, "kv-alone" },
	{ "early_name", NAM_SIM_STRICT, "named-last" },
	{ "early_name", NAM_SIM_VERBS, "named-last" },
	{ "early_separator", NAM_SIM_STRICT, "named-last" },
	{ "early_separator", NAM_SIM_VERBS, "named-last" },
	{ "records_half", NAM_SIM_WEAK, "second-round" },
	{ "records_dead", NAM_SIM_VERBS, "second-round" },
	{ "records_damaged", NAM_SIM_STRICT, "version-hash" },
	{ "dropped_commit", NAM_SIM_STRICT, "retire-once" },
	{ "dropped_locked", NAM_SIM_STRICT, "retire-once" },
	{ "records_overtaken", NAM_SIM_ROUTED, "commit-forward" },
	{ "records_slow", NAM_SIM_STRICT, "claim-first" },
	{ "records_slow", NAM_SIM_WEAK, "claim-first" },
	{ "rows_phantom", NAM_SIM_VERBS, "serial-leaves" },
};
#define MISSED (sizeof(missed) / sizeof(missed[0]))

static const struct litmus_case *
case_at(size_t number)
{
	static const struct litmus_case *const all[] = { litmus_image_cases, litmus_tree_cases,
		litmus_failure_cases, litmus_server_cases, litmus_mail_cases, litmus_kv_cases,
		litmus_cuckoo_cases, litmus_onesided_cases,
		litmus_records_cases, litmus_locking_cases, litmus_collect_cases,
		litmus_dropped_cases, litmus_serial_cases, litmus_grown_cases, litmus_scan_cases,
		litmus_rows_cases,
		litmus_table_cases, litmus_reclaim_cases, litmus_later_cases,
		litmus_view_cases, litmus_in_time_cases, litmus_fence_cases, litmus_steward_cases,
		litmus_stopped_cases,
		litmus_move_cases, litmus_backup_cases, litmus_backups_cases, litmus_lead_cases,
		litmus_silent_cases,
		litmus_keys_cases, litmus_attacks_cases,
		litmus_readers_cases,
		litmus_recover_cases, litmus_sweep_cases, litmus_swept_cases };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (const struct litmus_case *one = all[i]; one->scene.name; one++)
			if (!number--)
				return one;
	return NULL;
}

static const struct litmus_case *
case_find(const char *name)
{
	const struct litmus_case *one;

	for (size_t i = 0; (one = case_at(i)); i++)
		if (!strcmp(one->scene.name, name))
			return one;
	sim_die("'%s' is no scene; --list tells which there are", name);
}

/* ---- one run --------------------------------------------------------------------------------- */

struct run {
	const struct litmus_case *what;
	enum nam_sim_profile profile;
	uint64_t seed;
	const char *guards;		/* those that are off, each after a blank */
	FILE *trace;
};

static void
perform(const struct run *run)
{
	const char *profile = nam_sim_profile_name(run->profile), *name = run->what->scene.name;
	unsigned long long seed = run->seed;

	(void)snprintf(sim_repeat, sizeof(sim_repeat),
		"scene %s, profile %s, seed %llu, guards off:%s, commit " NAM_SIM_COMMIT "\n"
		"again: sim_litmus_test %s %s %llu%s\n", name, profile, seed,
		*run->guards ? run->guards : " none", name, profile, seed, run->guards);
	sim_repeat_on_signals(true);
	litmus_perform(run->what, run->profile, run->seed, run->trace);
	sim_repeat_on_signals(false);
}

static unsigned
profile_find(const char *name)
{
	unsigned profile = 0;

	while (profile < NAM_SIM_PROFILES_COUNT && strcmp(name, nam_sim_profile_name(profile)))
		profile++;
	if (profile == NAM_SIM_PROFILES_COUNT)
		sim_die("'%s' is no profile\n%s", name, usage);
	return profile;
}

static int
perform_one(int argc, char **argv)
{
	struct run run = {
		.what = case_find(argv[1]),
		.profile = (enum nam_sim_profile)profile_find(argv[2]),
	};
	char guards[400] = "", *end;

	run.seed = strtoull(argv[3], &end, 0);
	if (end == argv[3] || *end)
		sim_die("'%s' is no seed\n%s", argv[3], usage);
	for (int i = 4; i < argc; i++) {
		size_t length = strlen(guards);

		if (!strcmp(argv[i], "--trace")) {
			run.trace = stdout;
			continue;
		}
		if (nam_guard_off(argv[i]))
			sim_die("'%s' is no guard", argv[i]);
		(void)snprintf(guards + length, sizeof(guards) - length, " %s", argv[i]);
	}
	run.guards = guards;
	perform(&run);
	if (litmus.failed)
		printf("FAILED: %s\n%s", litmus.why, sim_repeat);
	return litmus.failed;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void
scene__every_profile_and_seed__HOLDS(void **state)
{
	struct run run = { .what = *state, .guards = "" };

	for (unsigned profile = 0; profile < NAM_SIM_PROFILES_COUNT; profile++) {
		run.profile = (enum nam_sim_profile)profile;
		for (run.seed = 1; run.seed <= SEEDS_HOLD; run.seed++) {
			perform(&run);
			if (litmus.failed)
				fail_msg("%s\n%s", litmus.why, sim_repeat);
		}
	}
}

static void
scene__guard_off__FAILS(void **state)
{
	const struct missed *missing = *state;
	struct run run = { .what = case_find(missing->scene), .profile = missing->profile };
	bool failed = false;
	char guard[40];

	(void)snprintf(guard, sizeof(guard), " %s", missing->guard);
	run.guards = guard;
	assert_int_equal(nam_guard_off(missing->guard), 0);
	for (run.seed = 1; !failed && run.seed <= 6 * SEEDS; run.seed++) {
		perform(&run);
		failed = litmus.failed;
	}
	nam_guards_on();
	if (!failed)
		fail_msg("no run failed without the guard\n%s", sim_repeat);
}

static int
list(void)
{
	const struct litmus_case *one;

	for (size_t i = 0; (one = case_at(i)); i++)
		printf("%-18s %s\n", one->scene.name, one->text);
	return 0;
}

static int
test_all(void)
{
	static char names[MISSED][80];
	struct CMUnitTest tests[CASES_MAX + MISSED];
	size_t count = 0;

	for (const struct litmus_case *one; count < CASES_MAX && (one = case_at(count)); count++)
		tests[count] = (struct CMUnitTest){ .name = one->scene.name,
			.test_func = scene__every_profile_and_seed__HOLDS,
			.initial_state = (void *)(uintptr_t)one };
	if (case_at(count))
		sim_die("there are more than %u scenes", CASES_MAX);
	for (size_t i = 0; i < MISSED; i++, count++) {
		(void)snprintf(names[i], sizeof(names[i]), "%s in %s without %s", missed[i].scene,
			nam_sim_profile_name(missed[i].profile), missed[i].guard);
		tests[count] = (struct CMUnitTest){ .name = names[i],
			.test_func = scene__guard_off__FAILS,
			.initial_state = (void *)(uintptr_t)&missed[i] };
	}
	return _cmocka_run_group_tests("litmus", tests, count, NULL, NULL);
}

int
main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--help")) {
		(void)fputs(usage, stdout);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "--list"))
		return list();
#ifndef NAM_SIM_POINTS
	puts("no race points in this build: -DNAM_SIM_POINTS=ON");
	return 77;
#endif
	if (argc > 3)
		return perform_one(argc, argv);
	if (argc > 1)
		sim_die("%s", usage);
	return test_all();
}
