/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ramp_plan.h -- the kinds of record stores and readers.  It says by its seed what a run of random
 * transactions on one of them is to be, and what runs have covered.
 */
#ifndef NAM_TESTS_SIM_RAMP_PLAN_H
#define NAM_TESTS_SIM_RAMP_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/sim/sim.h"
#include "common/rpc/transport.h"
#include "txn/records.h"

/* How the clients of a run read; or both, some in one way and some in the other. */
#define RAMP_BY_ADDRESS 1u		/* GET* */
#define RAMP_BY_REQUEST 2u		/* GET, GET+ */

struct ramp_kind {
	enum nam_records_commit commit;
	enum nam_ramp algorithm;
	unsigned readers;
	enum nam_transport transport;
};

#define RAMP_KINDS_MAX 64u

/* All that can exist under this profile, in the order in which seeds take them; how many. */
uint32_t ramp_kinds(enum nam_sim_profile profile, struct ramp_kind ret_kinds[RAMP_KINDS_MAX]);

/* "served fast, by address and request, mailbox"; returns text. */
#define RAMP_KIND_TEXT_BYTES 80
const char *ramp_kind_text(const struct ramp_kind *kind, char text[RAMP_KIND_TEXT_BYTES]);

#define RAMP_CLIENTS_MAX 4u
#define RAMP_FIBERS_MAX 6u
#define RAMP_KEYS_MAX 8u
#define RAMP_ROUNDS 16u			/* of each fiber */

struct ramp_plan {
	struct ramp_kind kind;
	uint32_t servers, handlers, clients, fibers, keys, slowness;
	uint64_t cache_bytes, ahead_us;
	bool alike;			/* all values have one length: blocks go round */
	bool large;			/* some values fit into no message */
	bool sweeps;			/* clients sweep, too */
	/* A memory server gets a backup; then its process is killed, or that of the backup. */
	bool failover, backup_dies;
	/* This client is killed so long after this fiber has begun that round. */
	bool murder;
	uint32_t victim, victim_fiber, victim_round;
	uint64_t victim_ns;
};

/*
 * Seeds count: through all kinds, and then through what may happen in a run of each.  Of the first
 * two times one is with a death for sure and with cached addresses, and one without deaths, where
 * all blocks come back.  The rest is drawn; of the next two, the deaths are drawn, too.
 */
void ramp_plan(enum nam_sim_profile profile, uint64_t seed, struct ramp_plan *ret_plan,
	struct nam_sim_options *ret_options);

/* The events of a run. */
struct ramp_deeds {
	uint64_t reads, writes;		/* transactions that committed */
	uint64_t deaths;
	uint64_t stale;			/* cached addresses of versions that were not the latest */
};

/* Enter a run by what its clients found themselves to be; false: there is no such kind. */
bool ramp_cover(enum nam_sim_profile profile, const struct ramp_kind *kind,
	const struct ramp_deeds *deeds);

/*
 * Perform further runs of each kind that is not covered after the runs of seeds 1 to `fixed`, at
 * most 16 in all.  Returns how many of them failed, and prints that.
 */
uint32_t ramp_cover_more(uint64_t fixed,
	const char *(*perform)(enum nam_sim_profile profile, uint64_t seed, FILE *trace));

/*
 * How many kinds, of all profiles, lack something.  That is a run with reads and writes in which no
 * client died, and one with both in which one did.  Where versions are READ by address, it is also
 * one with a stale one.  Each is told to the file.
 */
uint32_t ramp_uncovered(FILE *file);

#endif /* NAM_TESTS_SIM_RAMP_PLAN_H */
