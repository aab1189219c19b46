/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serial_phases.h -- phases of serializable transactions that a fabric allows, at random.
 */
#ifndef NAM_TESTS_SIM_SERIAL_PHASES_H
#define NAM_TESTS_SIM_SERIAL_PHASES_H

#include "common/env.h"
#include "txn/phases.h"

/* Locks go with the READs only if both go by RPC. */
static inline uint32_t
serial_phases_early(uint32_t phases)
{
	const uint32_t both = NAM_TXN_EXECUTE_RPC | NAM_TXN_LOCK_RPC;

	return (phases & both) == both ? phases : phases & ~(uint32_t)NAM_TXN_LOCK_EARLY;
}

/* Of a store.  Words go by NICs alone, or by CPUs alone, where these are not atomic together. */
static inline uint32_t
serial_phases_draw(struct nam_rng *rng, bool atomic)
{
	const uint32_t words = NAM_TXN_LOCK_RPC | NAM_TXN_COMMIT_RPC;
	uint32_t phases = (uint32_t)nam_rng_below(rng, NAM_TXN_RPC + 1);

	return atomic ? phases : phases & NAM_TXN_LOCK_RPC ? phases | words : phases & ~words;
}

#endif /* NAM_TESTS_SIM_SERIAL_PHASES_H */
