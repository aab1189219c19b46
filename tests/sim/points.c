/* SPDX-License-Identifier: Apache-2.0 */
/* points.c -- see points.h. */
#include "points.h"

#include <stdio.h>
#include <string.h>

#include "common/sim/sim.h"
#include "cluster.h"

#define POINTS_MAX 256u
#define DEATHS_MAX 2u			/* of a run */
#define DEADLY_ONE_IN 16u
/* A client dies at one of so many visits, as a power of two: chosen points are often reached. */
#define LOG_VISITS_CHOSEN 8u
#define LOG_VISITS_NAMED 3u

static struct point {
	const char *name;
	uint64_t reached, deaths;
	bool died;				/* a client died here in this run */
} points[POINTS_MAX];

static struct {
	const char *deadly;
	bool any;
	uint64_t seed;
	struct nam_rng rng;
	uint64_t one_in;		/* visits of deadly points at which the client dies */
	uint32_t left;			/* clients that may die */
} run;

static struct point *
point_of(const char *name)
{
	for (unsigned i = 0; i < POINTS_MAX; i++) {
		if (!points[i].name)
			points[i].name = name;
		if (!strcmp(points[i].name, name))
			return &points[i];
	}
	sim_die("more than %u race points", POINTS_MAX);
}

static bool
is_listed(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += length)
		if ((at == list || at[-1] == ',') && (!at[length] || at[length] == ','))
			return true;
	return false;
}

static bool
is_chosen(const char *name)
{
	struct nam_rng rng = nam_rng_seed(run.seed ^ 0x706f696e74000000ull);

	for (; *name; name++)
		rng = nam_rng_seed(nam_rng_next(&rng) ^ (uint8_t)*name);
	return !nam_rng_below(&rng, DEADLY_ONE_IN);
}

static void
on_race(const char *name)
{
	struct point *point = point_of(name);

	if (nam_sim_zombie())
		return;
	point->reached++;
	if (!run.deadly || !run.left || point->died || !nam_sim_process_mortal(nam_sim_self()) ||
		!(run.any ? is_chosen(name) : is_listed(run.deadly, name)) ||
		nam_rng_below(&run.rng, run.one_in))
		return;
	run.left--;
	point->died = true;
	point->deaths++;
	nam_sim_process_kill(nam_sim_self());
}

void
sim_points_begin(uint64_t seed, const char *deadly)
{
	run.deadly = deadly;
	run.seed = seed;
	run.rng = nam_rng_seed(seed ^ 0x6465616468000000ull);
	run.any = deadly && !strcmp(deadly, SIM_POINTS_ANY);
	run.one_in = 1ull << nam_rng_below(&run.rng,
		1 + (run.any ? LOG_VISITS_CHOSEN : LOG_VISITS_NAMED));
	run.left = DEATHS_MAX;
	for (unsigned i = 0; i < POINTS_MAX; i++)
		points[i].died = false;
	nam_sim_on_race(on_race);
}

void
sim_points_print(void)
{
	for (unsigned i = 0; i < POINTS_MAX && points[i].name; i++)
		printf("point %s %llu %llu\n", points[i].name,
			(unsigned long long)points[i].reached,
			(unsigned long long)points[i].deaths);
}
