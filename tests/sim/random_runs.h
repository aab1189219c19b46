/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_runs.h -- the command line of tests whose runs follow from a seed.  It asks for some of
 * them, a few random, in every profile; or one by itself, with guards turned off.
 *
 * A test's work and findings are in its own `run`; it includes this once.
 */
#ifndef NAM_TESTS_SIM_RANDOM_RUNS_H
#define NAM_TESTS_SIM_RANDOM_RUNS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/env.h"
#include "common/guard.h"
#include "cluster.h"
#include "points.h"

/*
 * The fixed seeds are shared out among so many profiles where each is slow, and where no race point
 * makes them worth more.  Other builds run all of them in all profiles.
 */
#ifdef __SANITIZE_ADDRESS__
#define RANDOM_RUNS_SHARES 4u
#elif !defined(NAM_SIM_POINTS)
#define RANDOM_RUNS_SHARES 2u
#else
#define RANDOM_RUNS_SHARES 1u
#endif

struct random_runs {
	const char *program;		/* as people call it */
	const char *commit;		/* that it was built from */
	unsigned fixed, random;		/* seeds of each profile */
	/* NULL, or what went wrong, which stays until the next run. */
	const char *(*perform)(enum nam_sim_profile profile, uint64_t seed, FILE *trace);
};

/* The race points where clients die in the one run that is asked for; NULL: none is. */
static const char *random_runs_kill_at;

/* Of the simulation that has begun.  Runs of a random seed have deaths at race points, too. */
static inline void
random_runs_points(uint64_t seed)
{
	sim_points_begin(seed, random_runs_kill_at ? random_runs_kill_at :
		seed > UINT16_MAX && seed % 4 == 0 ? SIM_POINTS_ANY : NULL);
}

struct random_runs_profile {
	const struct random_runs *runs;
	enum nam_sim_profile profile;
};

static void
random_runs_of_a_profile(void **state)
{
	const struct random_runs_profile *of = *state;
	const struct random_runs *runs = of->runs;

	for (unsigned i = 0; i < runs->fixed + runs->random; i++) {
		uint64_t seed = i < runs->fixed ? i + 1 : nam_entropy() >> 32;
		const char *why;

		if (i < runs->fixed && (i + of->profile) % RANDOM_RUNS_SHARES)
			continue;
		why = runs->perform(of->profile, seed, NULL);
		if (why)
			fail_msg("%s\nagain: %s %s %llu, commit %s", why, runs->program,
				nam_sim_profile_name(of->profile), (unsigned long long)seed,
				runs->commit);
	}
}

static int
random_runs_one(const struct random_runs *runs, int argc, char **argv)
{
	unsigned profile = 0;
	FILE *trace = NULL;
	const char *why;

	while (profile < NAM_SIM_PROFILES_COUNT && strcmp(argv[1], nam_sim_profile_name(profile)))
		profile++;
	if (profile == NAM_SIM_PROFILES_COUNT)
		sim_die("'%s' is no profile", argv[1]);
	for (int i = 3; i < argc; i++) {
		if (!strcmp(argv[i], "--trace"))
			trace = stdout;
		else if (!strcmp(argv[i], "--kill-at") && i + 1 < argc)
			random_runs_kill_at = argv[++i];
		else if (nam_guard_off(argv[i]))
			sim_die("'%s' is no guard", argv[i]);
	}
	why = runs->perform((enum nam_sim_profile)profile, strtoull(argv[2], NULL, 0), trace);
	if (why)
		printf("FAILED: %s\n", why);
	if (random_runs_kill_at)
		sim_points_print();
	return why != NULL;
}

static inline int
random_runs_main(const struct random_runs *runs, int argc, char **argv)
{
	struct random_runs_profile profiles[NAM_SIM_PROFILES_COUNT];
	struct CMUnitTest tests[NAM_SIM_PROFILES_COUNT];

	if (argc > 2)
		return random_runs_one(runs, argc, argv);
	if (argc > 1)
		sim_die("usage: %s                    some seeds, some of them random\n"
			"       %s PROFILE SEED [GUARD...] [--trace] [--kill-at NAME,...]    one "
			"run, guards turned off, clients killed at race points",
			runs->program, runs->program);
	for (unsigned i = 0; i < NAM_SIM_PROFILES_COUNT; i++) {
		profiles[i] = (struct random_runs_profile){ runs, (enum nam_sim_profile)i };
		tests[i] = (struct CMUnitTest){ .name = nam_sim_profile_name(i),
			.test_func = random_runs_of_a_profile, .initial_state = &profiles[i] };
	}
	return _cmocka_run_group_tests(runs->program, tests, NAM_SIM_PROFILES_COUNT, NULL, NULL);
}

#endif /* NAM_TESTS_SIM_RANDOM_RUNS_H */
