/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the command line of nam-bench index. */
#ifndef NAM_BENCH_INDEX_OPTIONS_H
#define NAM_BENCH_INDEX_OPTIONS_H

#include <stdbool.h>

#include "common/gaddr.h"
#include "nam.h"
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
	bool node_bytes_set, head_interval_set, design_set, partitioning_set, cache_set;
	const char *name;		/* NULL: one of our own */
	bool keep, verify, raw_ratio, collect;
};

/* The defaults; the workload is the caller's. */
void index_options_init(struct index_bench_options *options);

/* Returns 0, or 1 when the program is to exit with *ret_exit. */
int index_options_parse(int argc, char **argv, struct index_bench_options *ret_options,
	int *ret_exit) NAM_MUST_CHECK;

#endif /* NAM_BENCH_INDEX_OPTIONS_H */
