/* SPDX-License-Identifier: Apache-2.0 */
#include "ticks.h"

#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define CALIBRATION_NS 20000000ull

bool ticks_are_tsc;

static double ns_per_tick = 1.0;

/* A counter that runs at one rate whatever the core does: Linux's constant_tsc and nonstop_tsc. */
static bool
tsc_is_invariant(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
#else
	return false;
#endif
}

void
ticks_init(void)
{
	uint64_t ns, ns_end, ticks;

	if (ticks_are_tsc || !tsc_is_invariant())
		return;
	ticks_are_tsc = true;
	ns = nam_now_ns();
	ticks = ticks_now();
	do
		ns_end = nam_now_ns();
	while (ns_end - ns < CALIBRATION_NS);
	ns_per_tick = (double)(ns_end - ns) / (double)(ticks_now() - ticks);
}

uint64_t
ticks_cpu_ns(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now))
		return 0;
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double
ticks_ns(uint64_t ticks)
{
	return (double)ticks * ns_per_tick;
}

uint64_t
ticks_from_ns(double ns)
{
	return (uint64_t)(ns / ns_per_tick);
}
