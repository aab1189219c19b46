/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generated.h -- histories that are true by construction, or false in one way.
 *
 * Sessions take turns at random; each calls, takes effect on a real map at one moment, and returns.
 * Some die in between, some hear of a broken fabric, and what they asked for then happens at once,
 * much later, or never.  Scans read one key per turn.
 */
#ifndef NAM_TESTS_UNIT_SIM_GENERATED_H
#define NAM_TESTS_UNIT_SIM_GENERATED_H

#include <stdlib.h>
#include <string.h>

#include "common/env.h"
#include "common/error.h"
#include "tests/sim/history.h"

#define GENERATED_KEYS_MAX 65536u
#define GENERATED_SESSIONS_MAX 64u
#define GENERATED_ZOMBIES_MAX 8u

/* Errors that a broken index would make now and then. */
enum lie {
	LIE_NONE,
	LIE_LOST_CHANGE,	/* returns 0 and does nothing */
	LIE_SECOND_INSERT,	/* an insert succeeds over an existing key */
	LIE_STALE_LOOKUP,	/* returns the payload before the present one */
	LIE_SCAN_SKIPS,
	LIE_SCAN_REPEATS,
	LIES,
};

struct generator {
	uint64_t seed;
	size_t ops;
	uint32_t keys;
	uint32_t sessions;
	uint32_t faults_percent;	/* of changes */
	uint32_t scans_percent;
	enum lie lie;
	/* the rest is filled in */
	struct nam_rng rng;
	struct sim_history *history;
	uint64_t map[GENERATED_KEYS_MAX];	/* 0: absent */
	uint64_t before[GENERATED_KEYS_MAX];	/* the payload before the last change */
	uint64_t payload;			/* the last that was written */
	uint64_t now_ns;
	struct fiber {
		enum { IDLE, CALLED, SCANNING, APPLIED } phase;
		uint32_t name;
		size_t op;
		int rc;
		uint64_t payload;
		uint64_t at;			/* of a scan: the next key */
		struct sim_entry entries[128];
		uint32_t entries_count;
	} fibers[GENERATED_SESSIONS_MAX];
	size_t zombies[GENERATED_ZOMBIES_MAX];	/* operations that may still take effect */
	uint32_t zombies_count;
	uint32_t names;
};

static inline bool
chance(struct generator *generator, uint32_t percent)
{
	return nam_rng_below(&generator->rng, 100) < percent;
}

static inline void
generated_set(struct generator *generator, uint64_t key, uint64_t payload)
{
	generator->before[key] = generator->map[key];
	generator->map[key] = payload;
}

/* Do it, now; returns what the operation returns. */
static inline int
generated_apply(struct generator *generator, const struct sim_op *op, uint64_t *ret_payload)
{
	uint64_t present = generator->map[op->key];
	bool lies = generator->lie != LIE_NONE && chance(generator, 10);

	switch (op->kind) {
	case SIM_INSERT:
		if (present && !(lies && generator->lie == LIE_SECOND_INSERT))
			return -NAM_E_EXISTS;
		break;
	case SIM_UPDATE:
	case SIM_DELETE:
		if (!present)
			return -NAM_E_NOTFOUND;
		break;
	case SIM_DELETE_PAIR:
		if (!present || present != op->payload)
			return -NAM_E_NOTFOUND;
		break;
	case SIM_LOOKUP:
		*ret_payload = lies && generator->lie == LIE_STALE_LOOKUP ?
			generator->before[op->key] : present;
		return *ret_payload ? 0 : -NAM_E_NOTFOUND;
	default:
		break;
	}
	if (lies && generator->lie == LIE_LOST_CHANGE)
		return 0;
	generated_set(generator, op->key,
		op->kind == SIM_DELETE || op->kind == SIM_DELETE_PAIR ? 0 : op->payload);
	return 0;
}

static inline void
generated_call_scan(struct generator *generator, struct fiber *fiber)
{
	struct sim_range range = {
		.low = nam_rng_below(&generator->rng, generator->keys),
		.has_low = chance(generator, 80),
		.has_high = true,
		.high_inclusive = chance(generator, 50),
		.reverse = chance(generator, 50),
		.limit = chance(generator, 30) ? 1 + nam_rng_below(&generator->rng, 6) : 0,
	};
	uint64_t low = range.has_low ? range.low : 0;

	range.high = low + nam_rng_below(&generator->rng, 40);
	fiber->op = sim_history_call_scan(generator->history, fiber->name / 4, fiber->name % 4,
		&range, generator->now_ns);
	fiber->phase = SCANNING;
	fiber->entries_count = 0;
	fiber->at = range.reverse ? range.high - !range.high_inclusive : low;
	if (range.high == low && !range.high_inclusive) {
		fiber->phase = APPLIED;
		fiber->rc = 0;
	}
}

static inline void
generated_call(struct generator *generator, struct fiber *fiber)
{
	static const enum sim_kind kinds[] = { SIM_INSERT, SIM_INSERT, SIM_UPSERT, SIM_UPDATE,
		SIM_DELETE, SIM_DELETE, SIM_DELETE_PAIR, SIM_LOOKUP, SIM_LOOKUP, SIM_LOOKUP };
	uint64_t key = nam_rng_below(&generator->rng, generator->keys), payload = 0;
	enum sim_kind kind = kinds[nam_rng_below(&generator->rng, 10)];

	if (chance(generator, generator->scans_percent)) {
		generated_call_scan(generator, fiber);
		return;
	}
	if (kind == SIM_DELETE_PAIR)
		payload = chance(generator, 70) ? generator->map[key] : 1;
	else if (kind != SIM_DELETE && kind != SIM_LOOKUP)
		payload = ++generator->payload;
	fiber->op = sim_history_call(generator->history, fiber->name / 4, fiber->name % 4, kind,
		key, payload, generator->now_ns);
	fiber->phase = CALLED;
}

static inline void
generated_scan(struct generator *generator, struct fiber *fiber)
{
	const struct sim_op *op = &generator->history->ops[fiber->op];
	const struct sim_range *range = &generator->history->scans[op->scan].range;
	uint64_t low = range->has_low ? range->low : 0, high = range->high - !range->high_inclusive;
	uint64_t payload = fiber->at < generator->keys ? generator->map[fiber->at] : 0;
	uint32_t times = payload != 0;

	if (times && generator->lie == LIE_SCAN_SKIPS && chance(generator, 5))
		times = 0;
	if (times && generator->lie == LIE_SCAN_REPEATS && chance(generator, 5))
		times = 2;
	for (; times > 0 && (range->limit == 0 || fiber->entries_count < range->limit); times--)
		fiber->entries[fiber->entries_count++] = (struct sim_entry){ fiber->at, payload };
	fiber->rc = 0;
	if (fiber->at == (range->reverse ? low : high) ||
			(range->limit != 0 && fiber->entries_count == range->limit))
		fiber->phase = APPLIED;
	else
		fiber->at += range->reverse ? -1 : 1;
}

/* A change that the client will never hear of, or only that something broke. */
static inline void
generated_fault(struct generator *generator, struct fiber *fiber)
{
	uint64_t payload;

	if (chance(generator, 30))
		(void)generated_apply(generator, &generator->history->ops[fiber->op], &payload);
	else if (generator->zombies_count < GENERATED_ZOMBIES_MAX && chance(generator, 60))
		generator->zombies[generator->zombies_count++] = fiber->op;
	if (chance(generator, 50))
		sim_history_return(generator->history, fiber->op, -NAM_E_FABRIC_TIMEOUT, 0,
			generator->now_ns);
	else
		fiber->name = generator->names++;
	fiber->phase = IDLE;
}

static inline void
generated_turn(struct generator *generator)
{
	struct fiber *fiber =
		&generator->fibers[nam_rng_below(&generator->rng, generator->sessions)];

	generator->now_ns += nam_rng_below(&generator->rng, 3);
	if (generator->zombies_count > 0 && chance(generator, 5)) {
		uint64_t payload;

		(void)generated_apply(generator,
			&generator->history->ops[generator->zombies[--generator->zombies_count]],
			&payload);
	}
	switch (fiber->phase) {
	case IDLE:
		generated_call(generator, fiber);
		break;
	case CALLED:
		if (generator->history->ops[fiber->op].kind != SIM_LOOKUP &&
				chance(generator, generator->faults_percent)) {
			generated_fault(generator, fiber);
			break;
		}
		fiber->rc = generated_apply(generator, &generator->history->ops[fiber->op],
			&fiber->payload);
		fiber->phase = APPLIED;
		break;
	case SCANNING:
		generated_scan(generator, fiber);
		break;
	case APPLIED:
		if (generator->history->ops[fiber->op].kind == SIM_SCAN)
			sim_history_return_scan(generator->history, fiber->op, fiber->rc,
				fiber->entries, fiber->entries_count, generator->now_ns);
		else
			sim_history_return(generator->history, fiber->op, fiber->rc, fiber->payload,
				generator->now_ns);
		fiber->phase = IDLE;
		break;
	}
}

/* Every third key is there from the beginning. */
static inline void
generate(struct generator *generator, struct sim_history *into)
{
	generator->rng = nam_rng_seed(generator->seed);
	generator->history = into;
	generator->payload = 1000;
	for (uint32_t key = 0; key < generator->keys; key += 3) {
		sim_history_load(into, key, ++generator->payload);
		generated_set(generator, key, generator->payload);
	}
	for (uint32_t i = 0; i < generator->sessions; i++)
		generator->fibers[i].name = generator->names++;
	while (into->ops_count < generator->ops)
		generated_turn(generator);
}

/* The final contents of the map. */
static inline size_t
generated_contents(const struct generator *generator, struct sim_entry *entries)
{
	size_t count = 0;

	for (uint32_t key = 0; key < generator->keys; key++)
		if (generator->map[key])
			entries[count++] = (struct sim_entry){ key, generator->map[key] };
	return count;
}

#endif /* NAM_TESTS_UNIT_SIM_GENERATED_H */
