/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h -- what other benchmarks borrow from the raw one. */
#ifndef NAM_BENCH_RAW_BENCH_H
#define NAM_BENCH_RAW_BENCH_H

#include "blocks.h"

/* Write its pattern into every block: what raw_read_rate() expects there. */
int raw_blocks_fill(const struct blocks *blocks) NAM_MUST_CHECK;

struct raw_rate {
	double per_s;
	double per_cpu_s;		/* of processor time, ours */
};

/* READs of whole blocks in a rolling window, for so many seconds, on every thread. */
int raw_read_rate(const struct blocks *blocks, uint32_t depth, double seconds, uint64_t seed,
	struct raw_rate *ret) NAM_MUST_CHECK;

/* The depth at which it reads the most in a second, or in a second of processor time. */
int raw_find_depth(const struct blocks *blocks, uint64_t seed, bool per_cpu,
	uint32_t *ret_depth) NAM_MUST_CHECK;

#endif /* NAM_BENCH_RAW_BENCH_H */
