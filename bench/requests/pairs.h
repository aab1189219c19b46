/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.h -- the pairs of nam-bench kv and pilaf: a key, a length and a value for each number. */
#ifndef NAM_BENCH_REQUESTS_PAIRS_H
#define NAM_BENCH_REQUESTS_PAIRS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/env.h"
#include "options.h"

/* Lengths as of the texts of which Su et al. tell: 1 to 899 bytes, 43 on average. */
#define MIXED_MEAN 43.0
#define MIXED_MAX 899u

static inline void
key_fill(uint64_t number, uint64_t key[KV_KEY_BYTES / 8])
{
	struct nam_rng rng = nam_rng_seed(number);

	key[0] = nam_rng_next(&rng);
	key[1] = nam_rng_next(&rng);
}

static inline uint32_t
value_bytes(const struct requests_options *o, uint64_t number)
{
	struct nam_rng rng = nam_rng_seed(number ^ 0x5eed);
	double bytes;

	if (!o->mixed)
		return o->value_bytes;
	bytes = 1 - (MIXED_MEAN - 1) * log(((double)(nam_rng_next(&rng) >> 11) + 1) * 0x1p-53);
	return bytes < MIXED_MAX ? (uint32_t)bytes : MIXED_MAX;
}

/* Bytes of the longest value, rounded up to words. */
static inline uint32_t
value_room(const struct requests_options *o)
{
	return ((o->mixed ? MIXED_MAX : o->value_bytes) + 7) / 8 * 8;
}

static inline uint32_t
value_fill(const struct requests_options *o, uint64_t number, uint64_t *value)
{
	struct nam_rng rng = nam_rng_seed(~number);
	uint32_t bytes = value_bytes(o, number);

	for (uint32_t i = 0; i < (bytes + 7) / 8; i++)
		value[i] = nam_rng_next(&rng);
	return bytes;
}

static inline bool
value_right(const struct requests_options *o, uint64_t number, const uint64_t *value,
	uint32_t bytes)
{
	struct nam_rng rng = nam_rng_seed(~number);
	bool right = bytes == value_bytes(o, number);
	uint64_t word;

	for (uint32_t i = 0; i < bytes / 8 && right; i++)
		right = value[i] == nam_rng_next(&rng);
	if (bytes % 8 && right) {
		word = nam_rng_next(&rng);
		right = memcmp(&value[bytes / 8], &word, bytes % 8) == 0;
	}
	return right;
}

#endif /* NAM_BENCH_REQUESTS_PAIRS_H */
