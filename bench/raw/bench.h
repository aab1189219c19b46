/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h -- what other benchmarks borrow from the raw one. */
#ifndef NAM_BENCH_RAW_BENCH_H
#define NAM_BENCH_RAW_BENCH_H

#include "bench/load/check.h"
#include "bench/thread_pool.h"
#include "blocks.h"

/* Write its pattern into every block: what raw_read_rate() expects there. */
int raw_blocks_fill(struct thread_pool *pool, const struct blocks *blocks,
	struct findings *findings) NAM_MUST_CHECK;

struct raw_rate {
	double per_s;
	double per_cpu_s;		/* of processor time, ours */
};

/*
 * READs of whole blocks in a rolling window, for so many seconds, on every thread of the thread
 * pool.
 */
int raw_read_rate(struct thread_pool *pool, const struct blocks *blocks, struct findings *findings,
	uint32_t depth, double seconds, uint64_t seed, struct raw_rate *ret) NAM_MUST_CHECK;

/* The depth at which it reads the most in a second, or in a second of processor time. */
int raw_find_depth(struct thread_pool *pool, const struct blocks *blocks,
	struct findings *findings, uint64_t seed, bool per_cpu, uint32_t *ret_depth) NAM_MUST_CHECK;

#endif /* NAM_BENCH_RAW_BENCH_H */
