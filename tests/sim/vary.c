/* SPDX-License-Identifier: Apache-2.0 */
/* vary.c -- what a run is unless told otherwise, and what it is by its seed. */
#include "points.h"
#include "scenario.h"

/* The least that a memory server takes with room for what is loaded; and plenty. */
#define SMALL_BYTES (1ull << 20)
#define LARGE_BYTES (8ull << 20)

void
sim_scenario_init(struct sim_scenario *scenario)
{
	*scenario = (struct sim_scenario){
		.mix = { 20, 15, 10, 25, 25, 5 },
		.design = NAM_DESIGN_FINE,
		.partitioning = NAM_PARTITION_HASH,
		.servers = 2,
		.replicas = 2,
		.handlers = 1,
		.clients = 3,
		.workers = 1,
		.fibers = 4,
		.ops = 100,
		.keys = 150,
		.key_bytes = 8,
		.node_bytes = 256,
		.head_interval = 4,
		.cache_bytes = 1u << 20,
		.memory_bytes = LARGE_BYTES,
		.collector = true,
		.record = true,
	};
	nam_sim_options_init(&scenario->sim);
}

/* A whole number from `low` to `high`. */
static uint32_t
between(struct nam_rng *rng, uint32_t low, uint32_t high)
{
	return low + (uint32_t)nam_rng_below(rng, high - low + 1);
}

/* Not at all, or at a rate between 1 and `most`, of whatever magnitude. */
static uint32_t
rate(struct nam_rng *rng, uint32_t most)
{
	uint32_t top = most >> between(rng, 0, 12);

	return nam_rng_below(rng, 2) ? 1 + (uint32_t)nam_rng_below(rng, top ? top : 1) : 0;
}

static void
vary_faults(struct nam_sim_faults *faults, struct nam_rng *rng)
{
	faults->late = rate(rng, 300000);
	faults->late_ns = 1ull << between(rng, 12, 22);
	faults->read_twice = rate(rng, 100000);
	faults->preempt = rate(rng, 20000);
	faults->race = rate(rng, 500000);
	faults->pause_ns = 1ull << between(rng, 12, 20);
	faults->rnr = rate(rng, 200000);
	faults->clock_ppm = rate(rng, 50000);
	faults->detect_ns = 1ull << between(rng, 14, 24);
	faults->break_qp = between(rng, 0, 7) ? 0 : between(rng, 1, 100);
}

/* Deaths and stalls: a client posts some thousands of messages. */
static void
vary_disasters(struct sim_scenario *scenario, struct nam_rng *rng)
{
	struct nam_sim_faults *faults = &scenario->sim.faults;

	faults->kill = between(rng, 0, 3) ? 0 : between(rng, 1, 300);
	faults->kill_server = between(rng, 0, 15) ? 0 : between(rng, 1, 100);
	faults->stall = between(rng, 0, 3) ? 0 : between(rng, 1, 1000);
	faults->stall_ns = 1ull << between(rng, 16, 25);
	scenario->kills = between(rng, 0, 5) ? 0 : between(rng, 1, 2);
	scenario->server_kills = between(rng, 0, 23) ? 0 : 1;
	scenario->stalls = between(rng, 0, 5) ? 0 : between(rng, 1, 2);
}

/* A few blocks beside what is loaded, or as much as clients want. */
static void
vary_memory(struct sim_scenario *scenario, struct nam_rng *rng)
{
	scenario->spare = between(rng, 0, 7) ? 0 : 1 + between(rng, 0, 4) * scenario->keys / 32;
	scenario->memory_bytes = scenario->spare ? SMALL_BYTES : LARGE_BYTES;
}

/* The least that holds four entries of it, and fences. */
static uint32_t
node_bytes_for(const struct sim_scenario *scenario)
{
	if (scenario->key_bytes + 8 * scenario->pairs > 24)
		return 1024;
	return scenario->key_bytes > 8 ? 512 : 256;
}

/* Handlers that meet in a tree, and not always in the same order. */
static void
vary_design(struct sim_scenario *scenario, struct nam_rng *rng)
{
	static const enum nam_index_design designs[] = { NAM_DESIGN_COARSE, NAM_DESIGN_HYBRID,
		NAM_DESIGN_FINE, NAM_DESIGN_FINE, NAM_DESIGN_FINE };
	uint32_t design = between(rng, 0, 4);
	uint32_t partitioning = between(rng, NAM_PARTITION_RANGE, NAM_PARTITION_ROUND_ROBIN);
	uint32_t handlers = between(rng, 2, 3);

	if (!scenario->design_given)
		scenario->design = designs[design];
	if (scenario->design == NAM_DESIGN_FINE)
		return;
	scenario->handlers = handlers;
	if (!scenario->partitioning_given)
		scenario->partitioning = (enum nam_partitioning)partitioning;
}

/*
 * Frames that hold all, or few, and fetches that are too short for most replies.  Where nothing is
 * said messages go by srq, but within a machine.
 */
static void
vary_transport(struct sim_scenario *scenario, struct nam_rng *rng)
{
	bool unreliable_qps = nam_sim_profile_caps(scenario->sim.profile) & NAM_CAP_UD;
	uint32_t transport = between(rng, NAM_TRANSPORT_SRQ,
		unreliable_qps ? NAM_TRANSPORT_DATAGRAM :
		NAM_TRANSPORT_FETCH);

	if (transport == NAM_TRANSPORT_SRQ)
		transport = NAM_TRANSPORT_DEFAULT;
	if (!scenario->transport_given)
		scenario->transport = (enum nam_transport)transport;
	scenario->frame_bytes = between(rng, 0, 1) ? 0 : 64 * between(rng, 2, 8);
	scenario->fetch_bytes = between(rng, 0, 1) ? 0 : 8 * between(rng, 3, 32);
}

/*
 * By another stream of the seed than all the rest.  So if nothing of this is drawn, runs of earlier
 * seeds stay the same.
 */
static void
vary_more(struct sim_scenario *scenario)
{
	static const uint32_t key_bytes[] = { 8, 8, 16, 16, 24, 64 };
	struct nam_rng rng = nam_rng_seed(scenario->sim.seed ^ 0x6d6f726500000000ull);
	struct nam_sim_faults *faults = &scenario->sim.faults;
	bool unlike = between(&rng, 0, 3) == 0;

	scenario->key_bytes = unlike ? key_bytes[between(&rng, 0, 5)] : 8;
	scenario->pairs = unlike && between(&rng, 0, 1);
	scenario->delete_pairs = unlike && between(&rng, 0, 1);
	if (scenario->node_bytes < node_bytes_for(scenario))
		scenario->node_bytes = node_bytes_for(scenario);
	/* Of some hundred refills, some thousand messages, some WRITEs of the dead. */
	faults->full = between(&rng, 0, 7) ? 0 : rate(&rng, 500000);
	faults->slow = between(&rng, 0, 7) ? 0 : between(&rng, 1, 1000);
	faults->lose = between(&rng, 0, 3) ? rate(&rng, 100000) : rate(&rng, 500000);
	faults->twice = rate(&rng, 300000);
	faults->zombie = between(&rng, 0, 3) ? 0 : between(&rng, 1, 1000000);
	vary_design(scenario, &rng);
	vary_transport(scenario, &rng);
	scenario->near = between(&rng, 0, 7) ? 0 : between(&rng, 1, 5);
}

/* By a stream of its own, for the same reason.  There are handlers that meet in the store. */
static void
vary_kv(struct sim_scenario *scenario)
{
	struct nam_rng rng = nam_rng_seed(scenario->sim.seed ^ 0x6b76000000000000ull);
	uint32_t clients = between(&rng, 0, 7) ? 0 : between(&rng, 1, 4);

	if (!scenario->kv_given)
		scenario->kv = clients;
	if (scenario->kv && scenario->handlers < 2)
		scenario->handlers = between(&rng, 2, 3);
}

/* Likewise.  Among few keys too much would be under way to decide what may have happened. */
static void
vary_many(struct sim_scenario *scenario)
{
	struct nam_rng rng = nam_rng_seed(scenario->sim.seed ^ 0x6d616e7900000000ull);
	uint32_t many = between(&rng, 0, 2) ? 0 : between(&rng, 10, 100);

	if (!scenario->many_given)
		scenario->many = scenario->keys < 64 ? 0 : many;
}

/* Likewise.  Where little memory is left, it would be more. */
static void
vary_members(struct sim_scenario *scenario)
{
	struct nam_rng rng = nam_rng_seed(scenario->sim.seed ^ 0x6164640000000000ull);
	uint32_t add = between(&rng, 0, 7) ? 0 : between(&rng, 1, 2);

	if (!scenario->add_given)
		scenario->add = scenario->spare ? 0 : add;
	scenario->sweeps = between(&rng, 0, 3) ? 0 : between(&rng, 1, 2);
}

/*
 * Likewise, if there is a memory server beside the lead, and no store for one-sided GETs.  If it is
 * given there will be.
 */
static void
vary_moves(struct sim_scenario *scenario)
{
	struct nam_rng rng = nam_rng_seed(scenario->sim.seed ^ 0x6d6f766500000000ull);
	uint32_t moves = between(&rng, 0, 7) ? 0 : between(&rng, 1, 2);

	if (!scenario->moves_given)
		scenario->moves = sim_kv_onesided(scenario) || scenario->servers < 2 ? 0 : moves;
	if (!scenario->moves)
		return;
	if (sim_kv_onesided(scenario))
		scenario->kv = 0;
	if (scenario->servers < 2)
		scenario->servers = 2;
}

/* Likewise.  A mover leads. */
static void
vary_stewards(struct sim_scenario *scenario)
{
	struct nam_rng rng = nam_rng_seed(scenario->sim.seed ^ 0x6c65616400000000ull);
	uint32_t stewards = between(&rng, 0, 3) ? 0 : between(&rng, 1, 3);

	if (!scenario->stewards_given)
		scenario->stewards = scenario->moves ? 0 : stewards;
	if (scenario->stewards)
		scenario->moves = 0;
}

/* Likewise. */
static void
vary_deaths(struct sim_scenario *scenario)
{
	struct nam_rng rng = nam_rng_seed(scenario->sim.seed ^ 0x6b696c6c61740000ull);

	if (!scenario->kill_at_given)
		scenario->kill_at = between(&rng, 0, 7) ? NULL : SIM_POINTS_ANY;
}

void
sim_scenario_vary(struct sim_scenario *scenario)
{
	struct nam_rng rng = nam_rng_seed(scenario->sim.seed ^ 0x7661727900000000ull);
	static const uint32_t node_bytes[] = { 256, 256, 256, 512, 1024 };
	struct sim_mix *mix = &scenario->mix;

	scenario->sim.step_bytes = nam_rng_below(&rng, 2) ? 8 : 64;
	vary_faults(&scenario->sim.faults, &rng);
	/* So that nodes are reused within the run. */
	scenario->sim.slowness = nam_rng_below(&rng, 2) ? 1 : 1u << between(&rng, 0, 8);
	scenario->servers = between(&rng, 1, 3);
	scenario->handlers = between(&rng, 1, 2);
	scenario->clients = between(&rng, 1, 5);
	scenario->workers = between(&rng, 1, 2);
	scenario->fibers = between(&rng, 1, 6);
	scenario->ops = 2000 / (scenario->clients * scenario->workers * scenario->fibers) + 1;
	scenario->load_wave = nam_rng_below(&rng, 4) ? between(&rng, 100, 600) : 0;
	scenario->keys = 8u << between(&rng, 0, 6);
	mix->insert = between(&rng, 5, 25);
	mix->upsert = between(&rng, 0, 20);
	mix->update = between(&rng, 0, 15);
	mix->delete = between(&rng, 5, 25);
	mix->scan = between(&rng, 0, 10);
	mix->lookup = 100 - mix->insert - mix->upsert - mix->update - mix->delete - mix->scan;
	scenario->node_bytes = node_bytes[between(&rng, 0, 4)];
	scenario->head_interval = between(&rng, 0, 2) * between(&rng, 1, 8);
	scenario->cache_bytes = nam_rng_below(&rng, 3) ? 1u << between(&rng, 10, 20) : 0;
	scenario->collector = nam_rng_below(&rng, 4) != 0;
	scenario->collects = between(&rng, 0, 2) ? between(&rng, 1, 20) : 0;
	vary_disasters(scenario, &rng);
	vary_memory(scenario, &rng);
	scenario->slow_server = between(&rng, 0, 5) ? 0 : 2u << between(&rng, 0, 6);
	scenario->bulk = between(&rng, 0, 1) ? 0 : between(&rng, 50, 100);
	/* It would need more memory than there is. */
	scenario->temporary = !scenario->spare && between(&rng, 0, 3) == 0;
	vary_more(scenario);
	vary_kv(scenario);
	vary_many(scenario);
	vary_members(scenario);
	vary_moves(scenario);
	vary_stewards(scenario);
	vary_deaths(scenario);
}
