/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mix.h -- how long GETs, updates and inserts take in tables at a load factor.
 *
 * There are three kinds: engine cuckoo with a lock, the same with hardware transactions, and a
 * conventional insert into the same buckets.  They take turns, with the same operations on the same
 * pairs.  GETs and updates are the engine's.
 */
#ifndef NAM_BENCH_CUCKOO_MIX_H
#define NAM_BENCH_CUCKOO_MIX_H

#include <stdint.h>

#include "common/env.h"
#include "kv/server/cuckoo.h"

#define TABLES_CHUNKS 8u
#define TABLES_SLOTS ((TABLES_CHUNKS * NAM__CUCKOO_BUCKETS_PER_CHUNK -                             \
	NAM__CUCKOO_STASH_BUCKETS) * NAM__CUCKOO_SLOTS)
#define TABLES_COUNTED (TABLES_SLOTS / 100)	/* inserts at the load factor */

/* Empty tables that have grown as far as they can. */
void tables_begin(struct nam__kv_partition *partition, uint8_t *const *chunks, enum nam__htm htm);

enum mix_way { MIX_GRAPH, MIX_PLAIN, MIX_HTM, MIX_WAYS };

struct mix {
	double load_factor, get_percent, update_percent;	/* the rest inserts */
	uint32_t tables, kicks_max;
	uint64_t seed;
	/* Results: medians over the tables. */
	double ns[MIX_WAYS];		/* of an operation; 0: this processor has no transactions */
	double plain_ratio, htm_ratio;	/* times of plain, and of HTM, over those of graph */
	enum nam__htm htm;
	struct nam__htm_counts htm_counts;
	uint64_t ops;			/* of each way */
	uint64_t failed;		/* a GET that was wrong, or a pair without a slot */
};

/* 0, -ENOMEM, or -EINTR if a signal ended it. */
int mix_run(struct mix *mix, uint8_t *const *chunks);

#endif /* NAM_BENCH_CUCKOO_MIX_H */
