/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost.h -- the stage of the tests of costs: memory servers, one client, one worker, one index, and
 * a story that is told in every profile.
 *
 * The costs that headers promise are asserted exactly, for all requests of the worker.  Where a
 * fabric promises less order, the rule at the top of index.h says how many round trips come on top.
 */
#ifndef NAM_TESTS_SIM_COST_H
#define NAM_TESTS_SIM_COST_H

#include "compute/worker/worker.h"
#include "index/index_internal.h"
#include "cluster.h"

#define COST_INDEX "cost"
#define COST_CACHE_BYTES (4u << 20)
/* As counters.h counts them. */
#define COST_ATOMIC_IN 8u
#define COST_ATOMIC_OUT 16u

/* The bytes of a redo record, and of its block, for so many bytes of entries. */
static inline uint64_t
cost_redo_out(uint64_t entry_bytes)
{
	return (entry_bytes <= 32 ? 32 : 48) + entry_bytes;
}

struct cost {
	uint64_t round_trips;
	uint64_t locks;		/* taken: 1 round trip more each without ORDER_ATOMIC_READ */
	/* After WRITEs: 1 more each without ORDER_WRITE_ATOMIC, and without ORDER_WRITES. */
	uint64_t releases;
	uint64_t kept;		/* WRITEs without a release: 1 more each without ORDER_WRITES */
	uint64_t doorbells;	/* 0: as many as round trips */
	uint64_t requests;	/* 0: not said */
	uint64_t bytes_in, bytes_out;	/* both 0: not said */
	uint64_t ops;		/* 0: 1, or not said of NAM_OP_OTHER */
	uint64_t colocated_reads, colocated_calls;
};

struct cost_stage {
	struct nam_index_options options;
	uint32_t servers;	/* 0: 1 */
	uint32_t near;		/* the first so many are on the client's machine */
	uint64_t pairs;		/* loaded at the beginning; 0: the index is empty */
	uint32_t fill_percent;
	uint32_t pairs_of_a_key;	/* not unique: 0: 1 */
	uint64_t cache_bytes;	/* of the index's handle */
	void (*act)(struct cost_stage *stage);

	/* The following is for act. */
	enum nam_sim_profile profile;
	struct sim_cluster cluster;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
	uint64_t supplied;	/* pairs that the source of the load has given */
	struct nam_op_counters before[NAM_OP_KINDS_COUNT];
	char why[4000];
};

/* The defaults of an index, a cache, one server, nothing loaded. */
void cost_stage_init(struct cost_stage *stage, void (*act)(struct cost_stage *stage));

/* In every profile.  Fails the test with what was not as it should be. */
void cost_play(struct cost_stage *stage);

/* ---- for act ------------------------------------------------------------------------------ */

void cost_fail(struct cost_stage *stage, const char *format, ...) NAM_PRINTF(2, 3);
/* A code that must be what is expected. */
void cost_expect(struct cost_stage *stage, const char *what, int rc, int expected);

/* From here on ... */
void cost_begin(struct cost_stage *stage);
/* ... to here, all of it under one kind of operation, or NAM_OP_OTHER. */
void cost_end(struct cost_stage *stage, enum nam_op_kind kind, const char *what,
	const struct cost *expected);
/* The costs of all kinds since cost_begin(). */
struct nam_op_counters cost_spent(const struct cost_stage *stage);

/* Pair number n of the load: key 10 n, or 10 (n / pairs_of_a_key); payload n + 1. */
uint64_t cost_key(const struct cost_stage *stage, uint64_t number, uint8_t *ret_key);
/* For nam_index_bulk_load(): pairs from number 0 on. */
int cost_source(void *arg, void *key, uint64_t *payload);
/* Let the cache of the handle know every inner node. */
void cost_warm(struct cost_stage *stage);
/* Let the worker have fresh blocks of the index's stride, 15 at the least, and no used ones. */
void cost_cache(struct cost_stage *stage);
struct nam_index_stat cost_stat(struct cost_stage *stage);
/* Go on with a worker that has no blocks yet; and back to the first one. */
struct nam_worker *cost_worker_new(struct cost_stage *stage);
void cost_worker_back(struct cost_stage *stage, struct nam_worker *first);

#endif /* NAM_TESTS_SIM_COST_H */
