/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h -- the inside of nam-bench index; bench.c sets up, takes the steps and cleans up. */
#ifndef NAM_BENCH_INDEX_BENCH_H
#define NAM_BENCH_INDEX_BENCH_H

#include <stdatomic.h>

#include "bench/session.h"
#include "bench/histogram.h"
#include "options.h"
#include "bench/load/keys.h"
#include "bench/ticks.h"
#include "bench/load/workload.h"
#include "bench/raw/bench.h"

#define INDEX_SCAN_CAPACITY 256u	/* entries that a scan asks for at a time */
#define INDEX_SERVERS_SHOWN 64u

/* A fiber of the workload.  It alone inserts and deletes the pairs that are its own. */
struct bench_fiber {
	struct index_part *part;
	uint64_t number;		/* among all fibers of the process */
	/* Pairs inserted and acknowledged: number, number + fibers, ...  Others read it. */
	atomic_uint_fast64_t inserted;
	uint64_t deleted;		/* of those, the first so many are deleted again */
	uint64_t victims_deleted;
	uint64_t last;			/* ticks at the end of the last operation */
	uint64_t warm_at, warm_end;	/* warm-up: lookups to do */
	uint64_t *payloads;		/* scans */
	uint8_t *keys;
	uint8_t key[NAM_KEY_BYTES_MAX];
	uint8_t key_high[NAM_KEY_BYTES_MAX];
};

struct index_part {
	struct index_bench *bench;
	struct thread_pool_member *member;
	struct nam_worker *worker;
	struct nam_index *index;	/* as its client has opened it */
	struct bench_fiber *fibers;
	struct nam_rng rng;
	struct share share;
	uint64_t ops;			/* that the run completed */
	uint64_t entries;		/* that scans delivered */
	struct histogram latency[OPS_COUNT];
	/* The halves of read-modify-write. */
	struct histogram rmw_lookup, rmw_update;
};

struct index_result {
	uint64_t slowest_ops, fastest_ops;	/* of a thread */
	uint64_t entries;
	struct histogram latency[OPS_COUNT];	/* as the library sees them, and rmw */
	struct nam_op_counters counters[NAM_OP_KINDS_COUNT];
};

struct index_slice {
	uint64_t ops;			/* that ended in it */
	double ops_per_s;
	double seconds;			/* from the run's beginning to the slice's end */
	uint32_t memservers;		/* that the first client knows by then, */
	uint32_t backups;		/* and those of them that have a backup: --failover */
};

struct index_collected {
	uint64_t passes, merges, nodes_retired, nodes_reusable;
};

struct index_bench {
	struct index_bench_options options;
	struct nam_index *index;
	const struct nam_sim_network *network;	/* of a simulated cluster, or NULL */
	struct nam_index **others;	/* [clients]: the index of each client but the first */
	char name[64];
	bool created;			/* by us: to be dropped */
	uint8_t *bounds;		/* of its parts, as they were asked for; NULL: none */

	struct keys keys;
	struct op_mix mix;
	struct zipf zipf;
	struct permutation scatter;	/* of loaded pairs, by popularity */
	uint64_t fibers_count;		/* of the process */
	struct bench_fiber *fibers;
	struct index_part *parts;
	bool dense;			/* nothing but loaded pairs will ever be there */

	unsigned warm_seconds;		/* a warm-up ends after so long; 0: after its lookups */
	uint64_t warm_deadline;		/* ticks */
	uint64_t warm_lookups;		/* done */
	bool warm_cut;			/* one was ended by its deadline */
	struct index_result result;
	uint64_t load_keys;
	double load_seconds;
	struct nam_index_stat loaded_stat, final_stat;
	bool loaded_stat_known, final_stat_known;
	struct index_collected collected;
	struct index_slice *slices;	/* --slices */
	uint32_t slices_count;		/* that are over */
	atomic_uint backups;		/* memory servers that have one: --failover */
	struct raw_turns raw;		/* --raw-ratio */
	uint64_t violations, verified_entries;
	bool verified;
};

/* load.c: 0 or what the library said, printed already. */
int index_load(struct index_bench *bench) NAM_MUST_CHECK;

int index_parts_init(struct index_bench *bench) NAM_MUST_CHECK;
void index_parts_free(struct index_bench *bench);
/* All fibers run fn until they end. */
void index_phase(struct index_bench *bench, nam_fiber_fn fn, uint64_t ops);
/* Lookups until the caches know the inner nodes, or for warm_seconds. */
void index_warm(struct index_bench *bench);
/* @ops 0: for so many seconds.  Results are added to bench->result. */
void index_run(struct index_bench *bench, uint64_t ops, double seconds);

/* verify.c: findings and violations are counted; 0 or why it could not be done. */
int index_verify(struct index_bench *bench) NAM_MUST_CHECK;

/* background.c: threads beside index_run(). */
#define INDEX_BACKGROUND_THREADS 4u

struct index_background {
	struct index_bench *bench;
	struct nam_thread *threads[INDEX_BACKGROUND_THREADS];	/* NULL: none */
	uint64_t began_ns;
	atomic_bool stop;
};

/* 0, or a negative code after a message; to be stopped in any case. */
int index_background_start(struct index_background *background) NAM_MUST_CHECK;
void index_background_stop(struct index_background *background);

void index_print(void *bench);
void index_json(void *bench, cJSON *object);

static inline uint32_t
index_threads(const struct index_bench *bench)
{
	return bench->options.run.threads * bench->options.run.clients;
}

/* A coarse-grained index has no cache, whatever its budget. */
static inline bool
index_has_cache(const struct index_bench *bench)
{
	return bench->options.cache_bytes &&
		nam_index_traits(bench->options.index.design)->client_levels;
}

static inline struct nam_index *
index_of_member(const struct index_bench *bench, const struct thread_pool_member *member)
{
	uint32_t client = member->number / bench->options.run.threads;

	return client ? bench->others[client] : bench->index;
}

#endif /* NAM_BENCH_INDEX_BENCH_H */
