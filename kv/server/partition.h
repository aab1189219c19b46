/* SPDX-License-Identifier: Apache-2.0 */
/*
 * partition.h -- a part of a key-value store that one thread at a time changes.
 *
 * Its memory never grows: chunks, which an engine (engine.h) divides into buckets and cells.
 *
 * ASSUMPTIONS: chunks are 64-byte aligned and used by no other owner.  Functions may be called from
 * any thread; they exclude each other.
 */
#ifndef NAM_KV_SERVER_PARTITION_H
#define NAM_KV_SERVER_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "bucket.h"
#include "cells.h"
#include "common/rpc/kv_rpc.h"
#include "htm.h"

#define NAM__KV_CHUNKS_MIN 2u		/* of a partition */
#define NAM__KV_CHUNKS_MAX (1u << 21)	/* numbers of slots and cells fit into their words */

struct nam__kv_engine;

struct nam__kv_chained {
	uint32_t buckets;
	uint32_t hand;			/* of CLOCK: the next cell */
};

/* cuckoo.h */
struct nam__kv_cuckoo {
	struct nam__cuckoo_shape shape;
	uint32_t stash_count, stash_hand;
	uint32_t hand, cell_hand, slot_hand;	/* of CLOCK */
	uint64_t cell_rest, slot_rest;	/* of looks at pairs that are still to come */
	uint32_t merged;		/* buckets of each table, since subgraphs were last exact */
	uint8_t generation;		/* of closed sets */
	bool any_closed;
};

enum nam__kv_tally {
	NAM__KV_HITS,
	NAM__KV_MISSES,
	NAM__KV_PUTS,
	NAM__KV_DELETES,
	NAM__KV_REFUSALS,
	NAM__KV_TALLIES,		/* how many there are; or none of them */
};
_Static_assert(NAM__KV_TALLIES == NAM_RPC_KV_TALLIES, "an image has all");

struct nam__kv_partition {
	/* A cache line: a thread that takes the lock counts there. */
	_Alignas(64) struct nam__htm_lock lock;
	uint64_t tally[NAM__KV_TALLIES];
	/* Another cache line: transactions read the lock, and count here once they have ended. */
	_Alignas(64) struct nam__htm_counts htm_counts;
	uint64_t tally_behind[NAM__KV_TALLIES];
	_Alignas(64) bool evicts;
	uint64_t store;
	const struct nam__kv_engine *engine;
	uint8_t *const *chunks;
	uint32_t chunks_count;
	union {
		struct nam__kv_chained chained;
		struct nam__kv_cuckoo cuckoo;
	};
	struct nam__kv_cells cells;
	struct nam_rpc_kv_counts counts;	/* that the engine keeps */
};
_Static_assert(offsetof(struct nam__kv_partition, tally) + NAM__KV_TALLIES * sizeof(uint64_t) <= 64,
	"a thread that takes the lock changes one cache line");

/* @engine	enum nam_kv_engine */
bool nam__kv_engine_known(uint32_t engine);

/*
 * @store	its number
 * @htm		how threads exclude each other
 * @engine	a known one
 * @chunks	`count` of them, NAM__KV_CHUNKS_MIN to NAM__KV_CHUNKS_MAX; they must stay, and
 *		hold anything
 */
void nam__kv_partition_init(struct nam__kv_partition *partition, uint64_t store,
	enum nam__htm htm, uint32_t engine, uint8_t *const *chunks, uint32_t count, bool evicts);

/* Ask the processor for the cache lines that a request for the key reads first. */
void nam__kv_partition_prefetch(const struct nam__kv_partition *partition, uint32_t hash);

/*
 * @hash	of the key: any function of it, the same each time
 * @value	room for `room` bytes
 * @ret_bytes	also set, and nothing else, if the value is longer than that: -NAM_E_LIMIT
 *
 * 0, -NAM_E_NOTFOUND or -NAM_E_LIMIT, which counts as no look-up.
 */
int nam__kv_partition_get(struct nam__kv_partition *partition, uint32_t hash, const void *key,
	uint32_t key_bytes, void *value, uint32_t room, uint32_t *ret_bytes) NAM_MUST_CHECK;

/* A key that is to be got. */
struct nam__kv_sought {
	struct nam__kv_partition *partition;
	const uint8_t *key;
	uint32_t key_bytes;
	uint32_t hash;
	const void *at[2];		/* the engine's: where its pair seems to be */
};

/*
 * Find out where the pairs of keys of one store seem to be.  The processor fetches the cache lines
 * of all keys at once.  A hint: other threads may change the partitions.
 *
 * @sought	at least one; sets `at`
 */
void nam__kv_partitions_seek(struct nam__kv_sought *sought, uint32_t count);

/*
 * nam__kv_partition_get() of a key that was sought.  A pair in a slot of engine cuckoo takes no
 * lock.  Then it adds a hit to *hits, and nam__kv_partition_hits() is to count it.
 */
int nam__kv_partition_get_sought(const struct nam__kv_sought *sought, void *value, uint32_t room,
	uint32_t *ret_bytes, uint64_t *hits) NAM_MUST_CHECK;
/* Hits of this partition, or of others of its store. */
void nam__kv_partition_hits(struct nam__kv_partition *partition, uint64_t hits);

/*
 * A new pair, or a new value.  0; or -NAM_E_REMOTE_FULL, and no pair has changed.  The
 * partition does not evict, or would not have room if it was empty.
 */
int nam__kv_partition_put(struct nam__kv_partition *partition, uint32_t hash, const void *key,
	uint32_t key_bytes, const void *value, uint32_t value_bytes) NAM_MUST_CHECK;

/* 0 or -NAM_E_NOTFOUND. */
int nam__kv_partition_delete(struct nam__kv_partition *partition, uint32_t hash, const void *key,
	uint32_t key_bytes) NAM_MUST_CHECK;

/*
 * Engine cuckoo, for one-sided GETs.
 *
 * Returns how many chunks, the first ones, its tables have.
 */
uint32_t nam__kv_partition_shape(struct nam__kv_partition *partition,
	struct nam__cuckoo_shape *ret_shape);

/* No READ finds a pair there any more. */
void nam__kv_partition_wipe(struct nam__kv_partition *partition);

/* Add its counts to a sum. */
void nam__kv_partition_count(struct nam__kv_partition *partition, struct nam_rpc_kv_counts *sum);

/* All state that a partition keeps beside its chunks. */
void nam__kv_partition_image(struct nam__kv_partition *partition, struct nam_rpc_kv_image *ret);
/*
 * A partition of the same store, engine and count of chunks, which has just begun, takes an image.
 * Its chunks then come, from outside.  False: it is none of such a partition.
 */
bool nam__kv_partition_take(struct nam__kv_partition *partition,
	const struct nam_rpc_kv_image *image) NAM_MUST_CHECK;

/* Whether the counts agree with the cells: a message in *diag if not.  Takes long, for tests. */
bool nam__kv_partition_sound(struct nam__kv_partition *partition, struct nam_diag *diag);

#endif /* NAM_KV_SERVER_PARTITION_H */
