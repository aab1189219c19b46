/* SPDX-License-Identifier: Apache-2.0 */
/* ticks.h -- a clock that costs a few nanoseconds: the time-stamp counter, if it can be trusted. */
#ifndef NAM_BENCH_TICKS_H
#define NAM_BENCH_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/env.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

extern bool ticks_are_tsc;

/* Calibrate: some 20 ms.  Call once, before any thread. */
void ticks_init(void);

double ticks_ns(uint64_t ticks);
/* Processor time of the calling thread: the share that others take does not count. */
uint64_t ticks_cpu_ns(void);
uint64_t ticks_from_ns(double ns);

static inline uint64_t
ticks_now(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(ticks_are_tsc, 1))
		return __rdtsc();
#endif
	return nam_now_ns();
}

#endif /* NAM_BENCH_TICKS_H */
