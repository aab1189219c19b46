/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the command line of nam-bench index. */
#ifndef NAM_BENCH_INDEX_OPTIONS_H
#define NAM_BENCH_INDEX_OPTIONS_H

#include <stdbool.h>

#include "common/gaddr.h"
#include "nam.h"
#include "bench/load/keys.h"
#include "bench/options.h"
#include "bench/load/workload.h"

#define INDEX_BATCH_MAX 64u

enum load_method {
	LOAD_BULK,
	LOAD_INSERT,
	LOAD_NONE,		/* an index that an earlier run kept */
};

struct index_bench_options {
	struct bench_options run;
	struct nam_index_options index;
	struct workload workload;
	double theta;			/* of Zipf's law */
	bool reverse;			/* scans go downwards */
	bool copy;			/* scans copy entries out */
	uint64_t keys;
	uint32_t slices;		/* of the run's time, with the rate of each; 0: none */
	uint32_t grow;			/* simulated: memory servers at the end; 0: as before */
	bool failover;			/* simulated: a memory server is killed, and has a backup */
	uint32_t batch;			/* keys that one lookup call is asked for */
	uint64_t cache_bytes;
	uint64_t warmup;		/* lookups; UINT64_MAX: enough to fill the cache */
	enum load_method load;
	uint32_t fill_percent;		/* 0: the library's */
	unsigned dup_shift;		/* non-unique: 2^this pairs share a key */
	/* By range: per cent of the loaded keys that each memory server keeps; none: all alike. */
	double shares[NAM_SERVERS_MAX];
	uint32_t shares_count;
	/* On the command line. */
	const char *workload_name, *mix;
	enum distribution distribution;
	double selectivity, cache_mb;
	uint32_t scan_length, duplicates;
	bool node_bytes_set, head_interval_set, design_set, partitioning_set, cache_set;
	bool non_unique, duplicates_set, distribution_set;
	const char *name;		/* NULL: one of our own */
	bool keep, verify, raw_ratio, collect;
};

/* The words for enum nam_index_design and enum nam_partitioning, ended by NULL. */
extern const char *const index_designs[], *const index_partitionings[];

extern const struct nam_options_table index_options_table;

void index_options_init(struct index_bench_options *options);

int index_options_resolve(void *options) NAM_MUST_CHECK;

/* "80,12,5,3": each above 0, 100 in all.  0, or -EINVAL with *diag. */
int index_shares_take(void *options, const char *text, struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * Where the parts of an index begin.  They ascend, also where there are more parts than keys.
 *
 * @shares	[parts] of the loaded keys, in per cent; NULL: all alike
 * @ret_bounds	[parts - 1] keys of keys->key_bytes
 */
void index_bounds(const struct keys *keys, const double *shares, uint32_t parts,
	uint8_t *ret_bounds);

#endif /* NAM_BENCH_INDEX_OPTIONS_H */
