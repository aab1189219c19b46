/* SPDX-License-Identifier: Apache-2.0 */
/*
 * truncated_keys.h -- the inside of a search in truncated keys, in line where calls would be felt:
 * node/search.c and cache/search.c.
 */
#ifndef NAM_INDEX_NODE_TRUNCATED_KEYS_H
#define NAM_INDEX_NODE_TRUNCATED_KEYS_H

#include "search.h"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define NAM__VECTORS 1
#include <immintrin.h>
#endif

/* The mark of a function that uses these vectors. */
#define NAM__ISA_AVX512 __attribute__((target("avx512bw,popcnt")))
#define NAM__ISA_AVX2 __attribute__((target("avx2,popcnt")))

static inline unsigned
nam__count_plain(const uint16_t *truncated, unsigned count, uint16_t truncated_key)
{
	unsigned below = 0;

	while (count) {
		unsigned half = (count + 1) / 2;
		bool right = truncated[below + half - 1] <= truncated_key;

		below += right ? half : 0;
		count = right ? count - half : half - 1;
	}
	return below;
}

#ifdef NAM__VECTORS

NAM__ISA_AVX512 static inline unsigned
nam__count_avx512(const uint16_t *truncated, unsigned count, uint16_t truncated_key)
{
	const __m512i pivot = _mm512_set1_epi16((short)truncated_key);
	unsigned below = 0;

	for (unsigned from = 0; from < count; from += NAM__TRUNCATED_GROUP) {
		uint64_t low = _mm512_cmple_epu16_mask(
			_mm512_loadu_si512(truncated + from), pivot);
		uint64_t high = _mm512_cmple_epu16_mask(
			_mm512_loadu_si512(truncated + from + NAM__TRUNCATED_GROUP / 2), pivot);

		below += (unsigned)__builtin_popcountll(high << 32 | low);
	}
	return below;
}

/* Unsigned a <= b is a - b saturated to 0; the results of two words become one mask. */
NAM__ISA_AVX2 static inline unsigned
nam__count_avx2(const uint16_t *truncated, unsigned count, uint16_t truncated_key)
{
	const __m256i pivot = _mm256_set1_epi16((short)truncated_key);
	const __m256i zero = _mm256_setzero_si256();
	unsigned below = 0;

	for (unsigned from = 0; from < count; from += NAM__TRUNCATED_GROUP / 2) {
		const __m256i *at = (const __m256i *)(const void *)(truncated + from);
		__m256i a = _mm256_cmpeq_epi16(
			_mm256_subs_epu16(_mm256_loadu_si256(at), pivot), zero);
		__m256i b = _mm256_cmpeq_epi16(
			_mm256_subs_epu16(_mm256_loadu_si256(at + 1), pivot), zero);

		below += (unsigned)__builtin_popcount(
			(unsigned)_mm256_movemask_epi8(_mm256_packs_epi16(a, b)));
	}
	return below;
}

#endif

/*
 * Whether the first keys alone decide: then *ret_floor is the answer.  Else truncated keys decide,
 * by *ret_truncated.  Words that all keys share are compared first, where there are any.
 */
static inline __attribute__((always_inline)) bool
nam__floor_by_ends(const struct nam__truncation *truncation, const uint64_t *keys, unsigned count,
	const uint64_t *key, int *ret_floor, uint16_t *ret_truncated)
{
	uint64_t distance;

	*ret_floor = -1;
	if (truncation->word) {
		int order = nam__key_compare(key, keys, truncation->word);

		if (order > 0)
			*ret_floor = (int)count - 1;
		if (order)
			return true;
	}
	if (key[truncation->word] < truncation->base)
		return true;
	distance = (key[truncation->word] - truncation->base) >> truncation->shift;
	*ret_truncated = distance > NAM__TRUNCATED_MAX ? NAM__TRUNCATED_MAX : (uint16_t)distance;
	return false;
}

/* A tie of truncated keys says nothing about the keys themselves. */
static inline __attribute__((always_inline)) int
nam__floor_among_ties(const struct nam__truncation *truncation, const uint16_t *truncated,
	const uint64_t *keys, int number, unsigned words, const uint64_t *key,
	uint16_t truncated_key)
{
	if (truncation->exact)
		return number;
	while (number >= 0 && truncated[number] == truncated_key &&
		nam__key_compare(keys + (size_t)number * words, key, words) > 0)
		number--;
	return number;
}

#endif /* NAM_INDEX_NODE_TRUNCATED_KEYS_H */
