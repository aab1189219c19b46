/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h -- what other benchmarks borrow from the raw one. */
#ifndef NAM_BENCH_RAW_BENCH_H
#define NAM_BENCH_RAW_BENCH_H

#include "blocks.h"

/* A workload by turns with READs, so that both meet the same moods of the machine. */
struct raw_turns {
	uint32_t bytes;			/* of a READ */
	uint64_t memory_bytes;		/* to READ from; 0: BLOCKS_DEFAULT_BYTES */
	bool per_cpu;			/* rates are of a second of processor time */
	double seconds;			/* of a turn of READs */
	uint64_t seed;
	/* A turn of the workload: its rate. */
	double (*turn)(void *arg, unsigned number);
	void *arg;
	/* Results: medians, and the depth at which READs are the quickest. */
	double rate, raw_rate, ratio;
	uint32_t raw_depth;
};

#define RAW_TURNS 5u

/* 0, also if a signal ends it early, without results; or a negative code, after a message. */
int raw_turns_run(struct raw_turns *turns) NAM_MUST_CHECK;

#endif /* NAM_BENCH_RAW_BENCH_H */
