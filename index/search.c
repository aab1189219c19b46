/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.c -- searching among slices of keys, with whatever vectors the processor has.
 */
#include "search.h"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define VECTORS 1
#include <immintrin.h>
#endif

void
nam__slice(const uint64_t *keys, unsigned count, unsigned words, struct nam__slicing *ret_slicing,
	uint16_t *slices)
{
	const uint64_t *last = keys + (size_t)(count - 1) * words;
	unsigned word = 0, shift = 0;
	uint64_t span;

	while (word + 1 < words && keys[word] == last[word])
		word++;
	span = last[word] - keys[word];
	while (span >> shift >= NAM__SLICE_MAX)
		shift++;
	*ret_slicing = (struct nam__slicing){
		.base = keys[word],
		.word = (uint8_t)word,
		.shift = (uint8_t)shift,
		.exact = words == 1 && shift == 0,
	};
	for (unsigned i = 0; i < count; i++)
		slices[i] = (uint16_t)((keys[(size_t)i * words + word] - keys[word]) >> shift);
	for (unsigned i = count; i < nam__slices_padded(count); i++)
		slices[i] = NAM__SLICE_PAD;
}

/* ---- counting slices at or below one ------------------------------------------------------ */

static inline unsigned
count_plain(const uint16_t *slices, unsigned count, uint16_t slice)
{
	unsigned below = 0;

	while (count) {
		unsigned half = (count + 1) / 2;
		bool right = slices[below + half - 1] <= slice;

		below += right ? half : 0;
		count = right ? count - half : half - 1;
	}
	return below;
}

#ifdef VECTORS

__attribute__((target("avx512bw,popcnt"))) static inline unsigned
count_avx512(const uint16_t *slices, unsigned count, uint16_t slice)
{
	const __m512i pivot = _mm512_set1_epi16((short)slice);
	unsigned below = 0;

	for (unsigned from = 0; from < count; from += NAM__SLICES_GROUP) {
		uint64_t low = _mm512_cmple_epu16_mask(_mm512_loadu_si512(slices + from), pivot);
		uint64_t high = _mm512_cmple_epu16_mask(
			_mm512_loadu_si512(slices + from + NAM__SLICES_GROUP / 2), pivot);

		below += (unsigned)__builtin_popcountll(high << 32 | low);
	}
	return below;
}

/*
 * Unsigned a <= b is a - b saturated to 0; bytes of two words' verdicts are gathered into one mask.
 */
__attribute__((target("avx2,popcnt"))) static inline unsigned
count_avx2(const uint16_t *slices, unsigned count, uint16_t slice)
{
	const __m256i pivot = _mm256_set1_epi16((short)slice), zero = _mm256_setzero_si256();
	unsigned below = 0;

	for (unsigned from = 0; from < count; from += NAM__SLICES_GROUP / 2) {
		const __m256i *at = (const __m256i *)(const void *)(slices + from);
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

/* ---- searching ---------------------------------------------------------------------------- */

/*
 * -2 when slices have to decide, with *ret_slice; else the answer.  Words that all keys share come
 * first; they are compared only where there are any.
 */
static inline __attribute__((always_inline)) int
floor_by_ends(const struct nam__slicing *slicing, const uint64_t *keys, unsigned count,
	const uint64_t *key, uint16_t *ret_slice)
{
	uint64_t distance;

	if (slicing->word) {
		int order = nam__key_compare(key, keys, slicing->word);

		if (order)
			return order > 0 ? (int)count - 1 : -1;
	}
	if (key[slicing->word] < slicing->base)
		return -1;
	distance = (key[slicing->word] - slicing->base) >> slicing->shift;
	*ret_slice = distance > NAM__SLICE_MAX ? NAM__SLICE_MAX : (uint16_t)distance;
	return -2;
}

/* A tie of slices says nothing about the keys themselves. */
static inline __attribute__((always_inline)) int
floor_among_ties(const struct nam__slicing *slicing, const uint16_t *slices, const uint64_t *keys,
	int number, unsigned words, const uint64_t *key, uint16_t slice)
{
	if (slicing->exact)
		return number;
	while (number >= 0 && slices[number] == slice &&
		nam__key_compare(keys + (size_t)number * words, key, words) > 0)
		number--;
	return number;
}

#define DEFINE_FLOOR(name, isa)									\
	isa static int floor_##name(const struct nam__slicing *slicing, const uint16_t *slices,	\
		const uint64_t *keys, unsigned count, unsigned words, const uint64_t *key)	\
	{											\
		uint16_t slice = 0;								\
		int number = floor_by_ends(slicing, keys, count, key, &slice);			\
												\
		if (__builtin_expect(number != -2, 0))						\
			return number;								\
		number = (int)count_##name(slices, count, slice) - 1;				\
		return floor_among_ties(slicing, slices, keys, number, words, key, slice);	\
	}

DEFINE_FLOOR(plain, )
#ifdef VECTORS
DEFINE_FLOOR(avx512, __attribute__((target("avx512bw,popcnt"))))
DEFINE_FLOOR(avx2, __attribute__((target("avx2,popcnt"))))
#endif

nam__sliced_floor_fn
nam__sliced_floor_choose(void)
{
#ifdef VECTORS
	if (__builtin_cpu_supports("avx512bw"))
		return floor_avx512;
	if (__builtin_cpu_supports("avx2"))
		return floor_avx2;
#endif
	return floor_plain;
}
