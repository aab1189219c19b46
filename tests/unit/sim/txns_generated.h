/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txns_generated.h -- histories of transactions that are true by construction.
 *
 * Each transaction happens at one moment; it begins before and ends after it, and so overlaps with
 * others.  Clocks of sessions differ: a slow one writes versions that are never seen.
 */
#ifndef NAM_TESTS_UNIT_SIM_TXNS_GENERATED_H
#define NAM_TESTS_UNIT_SIM_TXNS_GENERATED_H

#include "common/env.h"
#include "txns_said.h"

#define KEYS_MAX 64u
#define SESSIONS 8u

struct generator {
	struct nam_rng rng;
	uint32_t count;
	uint32_t keys;
	uint32_t sessions;
	uint32_t stamped_percent;
	bool timed;
	/* the rest is filled in */
	uint64_t now;
	uint64_t value;
	uint64_t skews[SESSIONS];
	uint64_t ends[SESSIONS];
	uint64_t current[KEYS_MAX];
	uint64_t stamps[KEYS_MAX];	/* of the current values */
};

static inline uint64_t
below(struct generator *generator, uint64_t bound)
{
	return nam_rng_below(&generator->rng, bound);
}

static inline bool
chance(struct generator *generator, uint32_t percent)
{
	return below(generator, 100) < percent;
}

static inline void
generate_reads(struct generator *generator, uint32_t txn)
{
	uint64_t first = below(generator, generator->keys);
	uint64_t count = 1 + below(generator, generator->keys < 6 ? generator->keys : 6);

	for (uint64_t i = 0; i < count; i++) {
		uint64_t key = (first + i) % generator->keys;

		sim_txns_read(&txns, txn, key, generator->current[key]);
		if (chance(generator, 5))
			sim_txns_read(&txns, txn, key, generator->current[key]);
	}
}

static inline void
generate_writes(struct generator *generator, uint32_t txn, uint64_t stamp, bool applies)
{
	uint64_t first = below(generator, generator->keys);
	uint64_t count = 1 + below(generator, generator->keys < 6 ? generator->keys : 6);

	for (uint64_t i = 0; i < count; i++) {
		uint64_t key = (first + i) % generator->keys;

		do {
			sim_txns_write(&txns, txn, key, ++generator->value);
			if (chance(generator, 10))
				sim_txns_read(&txns, txn, key, generator->value);
		} while (chance(generator, 10));
		if (applies && stamp > generator->stamps[key]) {
			generator->current[key] = generator->value;
			generator->stamps[key] = stamp;
		}
	}
}

static inline void
generate_txn(struct generator *generator)
{
	uint32_t session = (uint32_t)below(generator, generator->sessions), txn;
	uint64_t begin = 0, end = 0, stamp;
	bool writer = chance(generator, 50);
	enum sim_txn_outcome outcome = SIM_TXN_COMMITTED;

	generator->now += 10;
	if (generator->now <= generator->ends[session])
		generator->now = generator->ends[session] + 1;
	if (generator->timed) {
		begin = generator->now - below(generator, 40);
		if (begin <= generator->ends[session])
			begin = generator->ends[session] + 1;
		end = generator->now + below(generator, 40);
		generator->ends[session] = end;
	}
	stamp = (generator->now + generator->skews[session]) * 64 + session;
	if (writer && chance(generator, 15))
		outcome = chance(generator, 50) ? SIM_TXN_UNKNOWN : SIM_TXN_ABORTED;
	txn = sim_txns_begin(&txns, session, begin);
	if (!writer || chance(generator, 30))
		generate_reads(generator, txn);
	if (writer)
		generate_writes(generator, txn, stamp, outcome == SIM_TXN_COMMITTED ||
			(outcome == SIM_TXN_UNKNOWN && chance(generator, 50)));
	sim_txns_end(&txns, txn, outcome,
		writer && chance(generator, generator->stamped_percent) ? stamp : 0,
		outcome == SIM_TXN_UNKNOWN ? 0 : end);
}

/* Every third key is loaded. */
static inline void
generate(struct generator *generator)
{
	sim_txns_free(&txns);
	sim_txns_init(&txns);
	generator->now = 1000;
	for (uint32_t i = 0; i < SESSIONS; i++)
		generator->skews[i] = chance(generator, 50) ? 0 : below(generator, 500);
	for (uint64_t key = 0; key < generator->keys; key += 3) {
		sim_txns_load(&txns, key, ++generator->value);
		generator->current[key] = generator->value;
	}
	for (uint32_t i = 0; i < generator->count; i++)
		generate_txn(generator);
}

static inline struct generator
large(uint64_t seed)
{
	return (struct generator){ .rng = nam_rng_seed(seed), .count = 600, .keys = 24,
		.sessions = SESSIONS, .stamped_percent = 100, .timed = true };
}

#endif /* NAM_TESTS_UNIT_SIM_TXNS_GENERATED_H */
