/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of record stores and readers, the plan of a run, what was covered; see ramp_plan.h. */
#include "ramp_plan.h"

#include "common/env.h"
#include "random_clients.h"

#define RUNS_MAX 16u			/* of one kind, before it is given up */

/* Of the runs of one kind, one after the other. */
enum turn {
	TURN_DEATH,
	TURN_ALIVE,
	TURN_DEATH_AND_BREAKS,
	TURN_ANY,
	TURNS_COUNT
};

struct covered {
	uint64_t deathless, deadly, stale;	/* runs */
};

static struct covered covered[NAM_SIM_PROFILES_COUNT][RAMP_KINDS_MAX];

/* ---- kinds ----------------------------------------------------------------------------------- */

/*
 * As the headers say: records.h what goes together, rpc/transport.h and fabric.h what needs
 * unreliable queue pairs.
 */
static bool
can_exist(enum nam_sim_profile profile, const struct ramp_kind *kind)
{
	if (kind->transport == NAM_TRANSPORT_DATAGRAM &&
		!(nam_sim_profile_caps(profile) & NAM_CAP_UD))
		return false;
	if (kind->algorithm != NAM_RAMP_FAST)
		return kind->commit == NAM_RECORDS_SERVED && kind->readers == RAMP_BY_REQUEST;
	return kind->commit == NAM_RECORDS_SERVED || kind->readers == RAMP_BY_ADDRESS;
}

/* The RPC transport changes fastest, so a few seeds in a row have all of them. */
uint32_t
ramp_kinds(enum nam_sim_profile profile, struct ramp_kind ret_kinds[RAMP_KINDS_MAX])
{
	struct ramp_kind kind = { .commit = NAM_RECORDS_ONESIDED };
	uint32_t count = 0;

	for (; kind.commit <= NAM_RECORDS_SERVED; kind.commit++)
		for (kind.algorithm = 1; nam_ramp_name(kind.algorithm); kind.algorithm++)
			for (kind.readers = 1; kind.readers <= 3; kind.readers++)
				for (kind.transport = 1; kind.transport < NAM_TRANSPORTS_COUNT;
						kind.transport++)
					if (can_exist(profile, &kind) && count < RAMP_KINDS_MAX)
						ret_kinds[count++] = kind;
	return count;
}

const char *
ramp_kind_text(const struct ramp_kind *kind, char text[RAMP_KIND_TEXT_BYTES])
{
	static const char *const readers[] = { "no reader", "by address", "by request",
		"by address and request" };

	(void)snprintf(text, RAMP_KIND_TEXT_BYTES, "%s %s, %s, %s",
		kind->commit == NAM_RECORDS_SERVED ? "served" : "onesided",
		nam_ramp_name(kind->algorithm), readers[kind->readers & 3],
		nam_transport_name(kind->transport));
	return text;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void
choose_faults(struct nam_sim_options *options, struct nam_rng *rng, enum turn turn)
{
	struct nam_sim_faults *faults = &options->faults;
	bool kill = nam_rng_below(rng, 2);

	faults->late = (uint32_t)nam_rng_below(rng, 100000);
	faults->late_ns = 100000ull * options->slowness;
	faults->race = (uint32_t)nam_rng_below(rng, 300000);
	faults->read_twice = (uint32_t)nam_rng_below(rng, 100000);
	if (kill && turn != TURN_ALIVE)
		faults->kill = random_between(rng, 20, turn == TURN_DEATH ? 100 : 300);
	/* A client that cannot join because of it does not die either. */
	if (turn != TURN_DEATH && !nam_rng_below(rng, turn == TURN_DEATH_AND_BREAKS ? 1 : 4))
		faults->break_qp = random_between(rng, 20, 100);
	if (!nam_rng_below(rng, 4))
		faults->full = 300000;
	if (!nam_rng_below(rng, 4)) {
		faults->stall = random_between(rng, 20, 100);
		faults->stall_ns = 10 * RANDOM_TICK_NS;
	}
	if (!nam_rng_below(rng, 2))
		faults->zombie = 300000;
}

/* Over unreliable queue pairs messages are lost, and come twice. */
static void
choose_losses(struct nam_sim_options *options, struct nam_rng *rng)
{
	if (!nam_rng_below(rng, 2))
		return;
	options->faults.lose = (uint32_t)nam_rng_below(rng, 100000);
	options->faults.twice = (uint32_t)nam_rng_below(rng, 300000);
}

/* Before its end, and at any step of an operation of one to some ten round trips. */
static void
choose_victim(struct ramp_plan *plan, struct nam_rng *rng)
{
	plan->murder = true;
	plan->victim = random_between(rng, 0, plan->clients - 1);
	plan->victim_fiber = random_between(rng, 0, plan->fibers - 1);
	plan->victim_round = random_between(rng, 0, RAMP_ROUNDS / 2);
	plan->victim_ns = nam_rng_below(rng, 30000ull * plan->slowness);
}

void
ramp_plan(enum nam_sim_profile profile, uint64_t seed, struct ramp_plan *ret_plan,
	struct nam_sim_options *ret_options)
{
	static const uint64_t caches[] = { 1024, 1 << 20, 0 }, aheads[] = { 0, 100, 10000000 };
	struct ramp_kind kinds[RAMP_KINDS_MAX];
	uint32_t count = ramp_kinds(profile, kinds);
	enum turn turn = (enum turn)((seed - 1) / count % TURNS_COUNT);
	struct nam_rng rng = nam_rng_seed(seed);

	nam_sim_options_init(ret_options);
	ret_options->seed = seed;
	ret_options->profile = profile;
	ret_options->step_bytes = nam_rng_below(&rng, 2) ? 8 : 64;
	ret_options->slowness = 1u << random_between(&rng, 0, 7);
	choose_faults(ret_options, &rng, turn);
	*ret_plan = (struct ramp_plan){ .kind = kinds[(seed - 1) % count],
		.slowness = ret_options->slowness };
	ret_plan->servers = random_between(&rng, 1, 3);
	ret_plan->handlers = random_between(&rng, 1, 3);
	ret_plan->clients = random_between(&rng, 3, RAMP_CLIENTS_MAX);
	ret_plan->fibers = random_between(&rng, 4, RAMP_FIBERS_MAX);
	ret_plan->keys = random_between(&rng, 4, RAMP_KEYS_MAX);
	ret_plan->cache_bytes = turn == TURN_DEATH ? 1 << 20 : caches[nam_rng_below(&rng, 3)];
	ret_plan->ahead_us = aheads[nam_rng_below(&rng, 3)];
	ret_plan->alike = nam_rng_below(&rng, 2);
	ret_plan->large = nam_rng_below(&rng, 4) == 0;
	if (turn == TURN_DEATH || turn == TURN_DEATH_AND_BREAKS)
		choose_victim(ret_plan, &rng);
	if (ret_plan->kind.transport == NAM_TRANSPORT_DATAGRAM)
		choose_losses(ret_options, &rng);
	ret_plan->sweeps = nam_rng_below(&rng, 4) == 0;
	ret_plan->failover = nam_rng_below(&rng, 2) && ret_plan->servers > 1 &&
		ret_plan->kind.commit == NAM_RECORDS_ONESIDED;
	ret_plan->backup_dies = nam_rng_below(&rng, 3) == 0;
	/* A client that is cut off delays a failover until a steward fences it. */
	if (ret_plan->failover)
		ret_options->faults.break_qp = 0;
}

/* ---- what was covered ------------------------------------------------------------------------ */

bool
ramp_cover(enum nam_sim_profile profile, const struct ramp_kind *kind,
	const struct ramp_deeds *deeds)
{
	struct ramp_kind kinds[RAMP_KINDS_MAX];
	uint32_t count = ramp_kinds(profile, kinds);

	for (uint32_t i = 0; i < count; i++) {
		struct covered *of = &covered[profile][i];

		if (kinds[i].commit != kind->commit || kinds[i].algorithm != kind->algorithm ||
			kinds[i].readers != kind->readers || kinds[i].transport != kind->transport)
			continue;
		if (deeds->reads && deeds->writes && deeds->deaths)
			of->deadly++;
		else if (deeds->reads && deeds->writes)
			of->deathless++;
		of->stale += deeds->stale > 0;
		return true;
	}
	return false;
}

static bool
is_covered(enum nam_sim_profile profile, uint32_t kind)
{
	const struct covered *of = &covered[profile][kind];
	struct ramp_kind kinds[RAMP_KINDS_MAX];

	(void)ramp_kinds(profile, kinds);
	return of->deathless && of->deadly &&
	       (of->stale || !(kinds[kind].readers & RAMP_BY_ADDRESS));
}

uint32_t
ramp_cover_more(uint64_t fixed,
	const char *(*perform)(enum nam_sim_profile profile, uint64_t seed, FILE *trace))
{
	struct ramp_kind kinds[RAMP_KINDS_MAX];
	uint32_t failures = 0;

	for (unsigned i = 0; i < NAM_SIM_PROFILES_COUNT; i++) {
		enum nam_sim_profile profile = (enum nam_sim_profile)i;
		uint32_t count = ramp_kinds(profile, kinds);

		for (uint64_t seed = fixed + 1; seed <= RUNS_MAX * count; seed++) {
			const char *why;

			if (is_covered(profile, (uint32_t)((seed - 1) % count)))
				continue;
			why = perform(profile, seed, NULL);
			if (!why)
				continue;
			failures++;
			printf("FAILED: %s %llu: %s\n", nam_sim_profile_name(profile),
				(unsigned long long)seed, why);
		}
	}
	return failures;
}

uint32_t
ramp_uncovered(FILE *file)
{
	uint32_t lacking = 0, all = 0;

	for (unsigned profile = 0; profile < NAM_SIM_PROFILES_COUNT; profile++) {
		struct ramp_kind kinds[RAMP_KINDS_MAX];
		uint32_t count = ramp_kinds((enum nam_sim_profile)profile, kinds);

		all += count;
		for (uint32_t i = 0; i < count; i++) {
			const struct covered *of = &covered[profile][i];
			char text[RAMP_KIND_TEXT_BYTES];

			if (is_covered((enum nam_sim_profile)profile, i))
				continue;
			lacking++;
			(void)fprintf(file, "%s, %s: %llu runs without deaths, %llu with, %llu "
				"with stale addresses\n",
				nam_sim_profile_name((enum nam_sim_profile)profile),
				ramp_kind_text(&kinds[i], text),
				(unsigned long long)of->deathless, (unsigned long long)of->deadly,
				(unsigned long long)of->stale);
		}
	}
	(void)fprintf(file, "%u kinds of stores and readers, each with deaths and without: %u "
		"not covered\n", all, lacking);
	return lacking;
}
