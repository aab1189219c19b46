/* SPDX-License-Identifier: Apache-2.0 */
/* search.c -- truncating keys, and searching truncated keys with the processor's vectors. */
#include "truncated_keys.h"

void
nam__keys_truncate(const uint64_t *keys, unsigned count, unsigned words,
	struct nam__truncation *ret_truncation, uint16_t *truncated)
{
	const uint64_t *last = keys + (size_t)(count - 1) * words;
	unsigned word = 0, shift = 0;
	uint64_t span;

	while (word + 1 < words && keys[word] == last[word])
		word++;
	span = last[word] - keys[word];
	/* The smallest shift that leaves less than NAM__TRUNCATED_MAX. */
	if (span >= NAM__TRUNCATED_MAX)
		shift = 64 - 16 - (unsigned)__builtin_clzll(span);
	shift += span >> shift >= NAM__TRUNCATED_MAX;
	*ret_truncation = (struct nam__truncation){
		.base = keys[word],
		.word = (uint8_t)word,
		.shift = (uint8_t)shift,
		.exact = words == 1 && shift == 0,
	};
	for (unsigned i = 0; i < count && words == 1; i++)
		truncated[i] = (uint16_t)((keys[i] - keys[0]) >> shift);
	for (unsigned i = 0; i < count && words > 1; i++)
		truncated[i] = (uint16_t)((keys[(size_t)i * words + word] - keys[word]) >> shift);
	for (unsigned i = count; i < nam__truncated_padded(count); i++)
		truncated[i] = NAM__TRUNCATED_PAD;
}

#define DEFINE_FLOOR(name, isa)									\
	isa static int floor_##name(const struct nam__truncation *truncation,			\
		const uint16_t *truncated, const uint64_t *keys, unsigned count,		\
		unsigned words, const uint64_t *key)						\
	{											\
		uint16_t pivot = 0;								\
		int number;									\
												\
		if (__builtin_expect(nam__floor_by_ends(truncation, keys, count, key, &number,	\
				&pivot), 0))							\
			return number;								\
		number = (int)nam__count_##name(truncated, count, pivot) - 1;			\
		return nam__floor_among_ties(truncation, truncated, keys, number, words, key,	\
			pivot);									\
	}

DEFINE_FLOOR(plain, )
#ifdef NAM__VECTORS
DEFINE_FLOOR(avx512, NAM__ISA_AVX512)
DEFINE_FLOOR(avx2, NAM__ISA_AVX2)
#endif

nam__truncated_floor_fn
nam__truncated_floor_choose(void)
{
#ifdef NAM__VECTORS
	if (__builtin_cpu_supports("avx512bw"))
		return floor_avx512;
	if (__builtin_cpu_supports("avx2"))
		return floor_avx2;
#endif
	return floor_plain;
}
