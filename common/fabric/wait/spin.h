/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin.h -- how long a thread that waits looks on before it sleeps in the kernel.
 *
 * To spin as long as a sleep and its wake-up take costs at most twice as much as the better of the
 * two.  A spin that paid, or a short sleep, makes the next spin that long.  A spin that finds
 * nothing makes it half as long, down to none.
 *
 * Between two looks a thread yields.  If that takes long, others have had the processor.  Then
 * there is no spin for some sleeps, twice as many the next time, unless spins have paid.
 */
#ifndef NAM_COMMON_FABRIC_WAIT_SPIN_H
#define NAM_COMMON_FABRIC_WAIT_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/env.h"

#define NAM__SPIN_MIN_NS 1000u		/* a shorter one is none */
#define NAM__SPIN_ALONE_NS 4000u	/* then others may have the processor between two looks */
#define NAM__SPIN_SHORT_NS 100000u	/* a wait that ends sooner than a sleep would */
#define NAM__SPIN_TRY_EVERY 64u		/* waits without a spin */
#define NAM__SPIN_SHY_MIN 16u
#define NAM__SPIN_SHY_MAX 2048u
#define NAM__SPIN_FORGIVE_EVERY 32u	/* spins that paid */

/* Limits of a provider. */
struct nam__spin_limits {
	uint32_t max_ns;		/* what a sleep and its wake-up take */
	uint32_t lost_ns;		/* a longer yield is a loss; 0: none is */
};

/* All zero: the first spin comes after a short sleep. */
struct nam__spin {
	uint32_t ns;			/* how long the next one is */
	uint32_t waits;			/* without one */
	uint32_t paid;
	uint32_t shy;			/* sleeps until there may be one */
	uint32_t shy_next;
};

static inline void
nam__spin_paid(struct nam__spin *spin, const struct nam__spin_limits *limits)
{
	spin->ns = limits->max_ns;
	if (++spin->paid % NAM__SPIN_FORGIVE_EVERY == 0)
		spin->shy_next /= 2;
}

static inline void
nam__spin_lost(struct nam__spin *spin)
{
	uint32_t shy = spin->shy_next < NAM__SPIN_SHY_MIN ? NAM__SPIN_SHY_MIN : spin->shy_next;

	spin->ns = 0;
	spin->shy = shy;
	spin->shy_next = shy < NAM__SPIN_SHY_MAX ? 2 * shy : shy;
}

static inline void
nam__spin_in_vain(struct nam__spin *spin)
{
	spin->ns = spin->ns <= NAM__SPIN_MIN_NS ? 0 : spin->ns / 2;
}

/* How long to spin in this wait. */
static inline uint32_t
nam__spin_length(struct nam__spin *spin, const struct nam__spin_limits *limits)
{
	if (!spin->ns && !spin->shy && ++spin->waits % NAM__SPIN_TRY_EVERY == 0)
		spin->ns = limits->max_ns;
	return spin->ns;
}

/* Between two looks: the next one's time.  False: other threads have had the processor. */
static inline bool
nam__spin_pause(struct nam__spin *spin, const struct nam__spin_limits *limits, uint64_t begin_ns,
	uint64_t *ret_now_ns)
{
	uint64_t before = nam_now_ns();

	*ret_now_ns = before;
	if (before - begin_ns <= NAM__SPIN_ALONE_NS)
		return true;
	nam_yield();
	*ret_now_ns = nam_now_ns();
	if (!limits->lost_ns || *ret_now_ns - before <= limits->lost_ns)
		return true;
	/* A sleeper has the processor back sooner than a yielder. */
	nam__spin_lost(spin);
	return false;
}

/*
 * True if has_come() said so.  Else @timeout_ns is what is left of it: a short one is all spin.
 * In line: a look may be a few loads.
 */
static inline __attribute__((always_inline)) bool
nam__spin(struct nam__spin *spin, const struct nam__spin_limits *limits, uint64_t *timeout_ns,
	bool (*has_come)(void *cq), void *cq)
{
	bool is_short = *timeout_ns <= NAM__SPIN_SHORT_NS && !spin->shy;
	uint64_t length = is_short ? *timeout_ns : nam__spin_length(spin, limits);
	uint64_t begin, now;

	if (!length)
		return false;
	begin = now = nam_now_ns();
	while (now - begin < length) {
		if (has_come(cq)) {
			nam__spin_paid(spin, limits);
			return true;
		}
		if (!nam__spin_pause(spin, limits, begin, &now))
			break;
	}
	*timeout_ns -= now - begin < *timeout_ns ? now - begin : *timeout_ns;
	if (!is_short && !spin->shy)
		nam__spin_in_vain(spin);
	return false;
}

/* @took_ns	UINT64_MAX: nothing ended the sleep */
static inline void
nam__spin_slept(struct nam__spin *spin, const struct nam__spin_limits *limits, uint64_t took_ns)
{
	if (spin->shy)
		spin->shy--;
	else if (took_ns < limits->max_ns)
		spin->ns = limits->max_ns;
}

#endif /* NAM_COMMON_FABRIC_WAIT_SPIN_H */
