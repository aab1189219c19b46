/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h -- an engine: how a partition keeps its pairs.  partition.c calls it, one thread at a
 * time, and counts hits, misses, puts, deletes and refusals.  An engine counts pairs, their bytes
 * and evictions.
 */
#ifndef NAM_KV_SERVER_ENGINE_H
#define NAM_KV_SERVER_ENGINE_H

#include "common/error.h"
#include "partition.h"

/* K4: of CLOCK, at cells, for a pair of so many; then pairs are evicted in any case. */
#define NAM__KV_LOOKS(cells) (512u + 4u * (cells))

/* Reads what other threads change, as a hint for the processor. */
#define NAM__KV_HINT_FN __attribute__((no_sanitize("thread")))

/* Results are those of partition.h. */
struct nam__kv_engine {
	void (*init)(struct nam__kv_partition *partition);
	int (*get)(struct nam__kv_partition *partition, uint32_t hash, const void *key,
		uint32_t key_bytes, void *value, uint32_t room, uint32_t *ret_bytes);
	/* Before a request, without the lock: see nam__kv_partition_prefetch(), */
	void (*prefetch)(const struct nam__kv_partition *partition, uint32_t hash);
	/* and nam__kv_partitions_seek(). */
	void (*seek)(struct nam__kv_sought *sought, uint32_t count);
	/* A get without the lock.  False, or no such function: get() knows. */
	bool (*look)(const struct nam__kv_sought *sought, void *value, uint32_t room,
		uint32_t *ret_bytes);
	int (*put)(struct nam__kv_partition *partition, uint32_t hash, const void *key,
		uint32_t key_bytes, const void *value, uint32_t value_bytes);
	int (*remove)(struct nam__kv_partition *partition, uint32_t hash, const void *key,
		uint32_t key_bytes);
	/* Add its memory, used and in all. */
	void (*count)(const struct nam__kv_partition *partition, struct nam_rpc_kv_counts *sum);
	/* The engine's part of an image; a zeroed one comes.  False: of another partition. */
	void (*image)(const struct nam__kv_partition *partition, struct nam_rpc_kv_image *ret);
	bool (*take)(struct nam__kv_partition *partition, const struct nam_rpc_kv_image *image);
	bool (*sound)(const struct nam__kv_partition *partition, struct nam_diag *diag);
};

extern const struct nam__kv_engine nam__kv_chained_engine;
extern const struct nam__kv_engine nam__kv_cuckoo_engine;

#endif /* NAM_KV_SERVER_ENGINE_H */
