/* SPDX-License-Identifier: Apache-2.0 */
/* values.h -- the records of nam-bench ramp and txn: a key for each number, and values. */
#ifndef NAM_BENCH_REQUESTS_VALUES_H
#define NAM_BENCH_REQUESTS_VALUES_H

#include <stdint.h>
#include <string.h>

#include "common/env.h"
#include "options.h"

#define KEY_BYTES 8u
#define SPREAD 0x9e3779b97f4a7c15ull	/* odd: numbers that differ do so times it, too */

static inline uint64_t
record_key(uint64_t number)
{
	struct nam_rng rng = nam_rng_seed(number);

	return nam_rng_next(&rng);
}

static inline size_t
record_room(const struct requests_options *o)
{
	return (o->value_bytes + 7) / 8 * 8;
}

/*
 * A value is pairs of words: one that the caller chooses, and one that follows from it and from the
 * record's number.  Each pair is SPREAD more than the one before.
 */
typedef uint64_t value_pair __attribute__((vector_size(16)));

static inline value_pair
record_pair(uint64_t seed, uint64_t number)
{
	return (value_pair){ seed, (seed ^ number << 32) * SPREAD };
}

static inline void
record_fill(uint8_t *value, uint32_t bytes, uint64_t seed, uint64_t number)
{
	value_pair pair = record_pair(seed, number);
	size_t left = bytes;

	for (; left >= sizeof(pair); left -= sizeof(pair), value += sizeof(pair)) {
		memcpy(value, &pair, sizeof(pair));
		pair += SPREAD;
	}
	memcpy(value, &pair, left);
}

/* Adds to *wrong the bits in which the value differs from that of record_fill(). */
static inline void
record_compare(const uint8_t *value, uint32_t bytes, uint64_t seed, uint64_t number,
	value_pair *wrong)
{
	value_pair pair = record_pair(seed, number), is;
	size_t left = bytes;
	uint64_t word;

	for (; left >= sizeof(pair); left -= sizeof(pair), value += sizeof(pair)) {
		memcpy(&is, value, sizeof(is));
		*wrong |= is ^ pair;
		pair += SPREAD;
	}
	if (left == sizeof(word)) {
		memcpy(&word, value, sizeof(word));
		*wrong |= word ^ pair[0];
	} else if (left) {
		*wrong |= (uint64_t)memcmp(value, &pair, left);
	}
}

#endif /* NAM_BENCH_REQUESTS_VALUES_H */
