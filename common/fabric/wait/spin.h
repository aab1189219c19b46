/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin.h -- how long a thread that waits looks on before it sleeps in the kernel.
 *
 * It spins as long as that has lately paid.  A spin that paid makes the next one longer.  One in
 * vain makes it half as long, down to none.
 */
#ifndef NAM_COMMON_FABRIC_WAIT_SPIN_H
#define NAM_COMMON_FABRIC_WAIT_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/env.h"

/* Limits of a provider: what a look costs, and how long an answer takes. */
struct nam__spin_limits {
	uint32_t max_ns;
	uint32_t min_ns;		/* after such a spin in vain there is none */
	uint32_t try_every;		/* waits until one of min_ns is tried; 0: none is */
	uint32_t short_ns;		/* shorter sleeps make the next spin long enough for them */
	uint32_t alone_ns;		/* then others may have the processor; 0: never */
	uint32_t lost_ns;		/* in one round: others had it; 0: no matter */
	uint32_t shy_sleeps;		/* after that, so many without a spin */
	bool follows;			/* what a spin took sets the next one; else it doubles */
};

struct nam__spin {
	uint32_t ns;			/* how long the next one is */
	uint32_t waits;			/* without one */
	uint32_t shy;			/* sleeps until there may be one */
};

static inline uint32_t
nam__spin_bounded(const struct nam__spin_limits *limits, uint64_t ns)
{
	return ns < limits->max_ns ? (uint32_t)ns : limits->max_ns;
}

static inline void
nam__spin_paid(struct nam__spin *spin, const struct nam__spin_limits *limits, uint64_t took_ns)
{
	if (!limits->follows) {
		spin->ns = nam__spin_bounded(limits, 2ull * spin->ns);
		return;
	}
	/* Twice what it took is enough the next time, too. */
	spin->ns = (3 * spin->ns + nam__spin_bounded(limits, 2 * took_ns)) / 4;
	if (spin->ns < limits->min_ns)
		spin->ns = limits->min_ns;
}

/* True if has_come() said so.  In line: a look may be a few loads. */
static inline __attribute__((always_inline)) bool
nam__spin(struct nam__spin *spin, const struct nam__spin_limits *limits, uint64_t timeout_ns,
	bool (*has_come)(void *cq), void *cq)
{
	uint64_t begin, before, now;

	if (!spin->ns) {
		if (spin->shy || !limits->try_every || ++spin->waits % limits->try_every)
			return false;
		spin->ns = limits->min_ns;
	}
	begin = now = nam_now_ns();
	while (now - begin < spin->ns && now - begin < timeout_ns) {
		if (has_come(cq)) {
			nam__spin_paid(spin, limits, now - begin);
			return true;
		}
		before = now;
		if (limits->alone_ns && now - begin > limits->alone_ns)
			nam_yield();
		now = nam_now_ns();
		/* Other threads want the processor: a sleeper has it back sooner than a yielder. */
		if (limits->lost_ns && now - before > limits->lost_ns) {
			spin->ns = 0;
			spin->shy = limits->shy_sleeps;
			return false;
		}
	}
	spin->ns = spin->ns <= limits->min_ns ? 0 : spin->ns / 2;
	return false;
}

/* After a sleep that something ended. */
static inline void
nam__spin_slept(struct nam__spin *spin, const struct nam__spin_limits *limits, uint64_t took_ns)
{
	if (spin->shy)
		spin->shy--;
	else if (took_ns < limits->short_ns && spin->ns < 2 * took_ns)
		spin->ns = nam__spin_bounded(limits, 2 * took_ns);
}

#endif /* NAM_COMMON_FABRIC_WAIT_SPIN_H */
