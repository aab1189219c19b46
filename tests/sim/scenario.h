/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario.h -- one simulated run, and what is checked at its end.  There are servers, clients that
 * do everything at once to one index, a collector, and faults.
 */
#ifndef NAM_TESTS_SIM_SCENARIO_H
#define NAM_TESTS_SIM_SCENARIO_H

#include "common/sim/sim.h"
#include "index/index.h"
#include "history.h"

#define SIM_MOVES_MAX 4u

/* Shares of 100. */
struct sim_mix {
	uint32_t insert, upsert, update, delete, lookup, scan;
};

struct sim_scenario {
	struct nam_sim_options sim;
	struct sim_mix mix;
	enum nam_index_design design;		/* of all indexes */
	enum nam_partitioning partitioning;	/* not fine */
	bool design_given, partitioning_given;	/* not to be varied */
	enum nam_transport transport;		/* of all clients; 0: what they choose */
	bool transport_given;			/* not to be varied */
	uint32_t frame_bytes, fetch_bytes;	/* 0: the defaults */
	uint32_t servers, handlers;
	uint32_t clients, workers, fibers;	/* processes; threads of each; fibers of each */
	uint32_t ops;				/* of each fiber */
	/*
	 * After so many operations of all clients together, most that add pairs take them away
	 * instead.  After as many more they add again: so the tree shrinks and grows.  0: never.
	 */
	uint32_t load_wave;
	uint32_t keys;				/* 0 .. keys - 1; every other one is loaded */
	uint32_t key_bytes;			/* 8 .. 64 */
	bool pairs;				/* the index is not unique */
	bool delete_pairs;			/* deletes name payloads, too, as with pairs */
	uint32_t node_bytes, head_interval;
	uint64_t cache_bytes, memory_bytes;
	uint32_t slow_server;			/* one of them is so many times as slow; 0: none */
	uint32_t near;		/* the first so many clients are on machines of memory servers */
	uint32_t spare;				/* blocks left once all is loaded; 0: plenty */
	/* So many processes meet this fault, beside those that sim.faults draws. */
	uint32_t kills, server_kills, stalls;
	const char *kill_at;			/* race points: points.h */
	bool kill_at_given;			/* not to be varied */
	uint32_t bulk;				/* percent of a node; 0: loaded by inserts */
	bool temporary;				/* another index is made, loaded and dropped */
	uint32_t kv;				/* clients of a key-value store; 0: there is none */
	bool kv_given;				/* not to be varied */
	uint32_t many;			/* percent of changes that are several in one call */
	bool many_given;			/* not to be varied */
	uint32_t add;		/* memory servers that come while clients are at work */
	bool add_given;				/* not to be varied */
	uint32_t moves;		/* so often the memory of a member passes to a successor */
	bool moves_given;			/* not to be varied */
	uint32_t lead_moves;	/* so often the lead's memory and role pass to another process */
	uint32_t failovers;	/* so often a member gets a backup, ends, and is succeeded by it */
	uint32_t replicas;	/* such a member has 2 or 3 copies; the lead has 2 */
	uint32_t stewards;	/* beside them; not where memory moves, for the mover leads */
	bool stewards_given;			/* not to be varied */
	bool collector;				/* a process of its own that does nothing else */
	uint32_t collects;			/* of 1000 operations are passes of the collector */
	uint32_t sweeps;			/* and so many sweeps of dead clients' blocks */
	uint32_t leaks;				/* blocks that the director loses on purpose */
	bool stray;				/* the director leaves the root locked on purpose */
	/* So long one message of an operation, or of a collector's pass, takes on purpose. */
	uint64_t hang_ns, hang_pass_ns;
	bool record;				/* a history, and check it */
	FILE *findings;				/* what the checkers find is told here; NULL: not */
};

struct sim_result {
	int rc;				/* of nam_sim_run() */
	bool strayed;			/* `stray` found the root unlocked */
	bool failed;
	char why[512];			/* the first reason */
	uint64_t violations;		/* that the verifier counted */
	uint64_t contradictions;	/* that the checkers of the history counted */
	uint64_t undecided;		/* keys that they gave up */
	uint64_t fingerprint;
	uint64_t ops, refused;		/* done; ended by an error of fabric, lock or restart */
	uint64_t virtual_ns;
	uint64_t entries;		/* left in the index */
	uint64_t merges, retired, reused;	/* nodes, by collectors */
	uint64_t reclaims;		/* returns of runs, by collectors */
	uint64_t swept;			/* blocks of dead clients that sweeps freed */
	uint64_t full;			/* of those refused: there was no memory left */
	uint64_t given_up;		/* blocks, by closed workers in their limbo */
	int64_t lost;			/* blocks that are nowhere; negative: at two places */
	uint64_t late;			/* separators that were missed */
	uint64_t unreadable;		/* keys, at the end, for what died left */
	uint64_t loads, drops;		/* of the temporary index */
	uint64_t kv_ops, kv_unknown;	/* on the store; of these, by errors of the fabric */
	uint64_t kv_evictions;		/* by memory servers that are alive at the end */
	uint32_t added;			/* memory servers */
	uint32_t terms;			/* of stewards that led */
	uint32_t promoted;		/* backups */
	uint32_t moved, unmoved;	/* moves that have ended well, and that have failed */
	uint32_t collectors;		/* one after the other */
	uint64_t operation_ns, pass_ns;	/* the longest */
	char verified[96], counted[96];	/* how much of the index, and of the memory */
	struct nam_sim_counts counts;
};

void sim_scenario_init(struct sim_scenario *scenario);

/*
 * Choose everything but profile and seed by the seed: how many of what, the mix, sizes, faults, and
 * the clients and servers that they meet.
 */
void sim_scenario_vary(struct sim_scenario *scenario);
/* kv.c: whether it will make a store whose buckets clients READ, in a region of its own. */
bool sim_kv_onesided(const struct sim_scenario *scenario);

/* Run it.  @history must have been initialised; it is filled if the scenario says so. */
struct sim_result sim_scenario_run(const struct sim_scenario *scenario,
	struct sim_history *history);
/* The same; the history is dropped. */
struct sim_result sim_scenario_once(const struct sim_scenario *scenario);

#endif /* NAM_TESTS_SIM_SCENARIO_H */
