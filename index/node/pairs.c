/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c -- what a scan spends its time on: swapping bytes, and keys apart from payloads. */
#include "pairs.h"

#include <string.h>

#if defined(__x86_64__)
#define VECTORS 1
#include <immintrin.h>
#endif

static void
copy_plain(const uint64_t *entries, uint32_t count, uint8_t *ret_keys, uint64_t *ret_payloads)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t big = __builtin_bswap64(entries[2ul * i]);

		memcpy(ret_keys + 8ul * i, &big, 8);
		ret_payloads[i] = entries[2ul * i + 1];
	}
}

#ifdef VECTORS

/* Four entries a turn: two vectors of (key, payload, key, payload) become one of each. */
__attribute__((target("avx2"))) static void
copy_avx2(const uint64_t *entries, uint32_t count, uint8_t *ret_keys, uint64_t *ret_payloads)
{
	const __m256i swap = _mm256_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7,
		8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
	uint32_t i = 0;

	for (; i + 4 <= count; i += 4) {
		const __m256i *from = (const __m256i *)(const void *)(entries + 2ul * i);
		__m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);
		/* Unpacking works in halves: words come out as 0, 2, 1, 3. */
		__m256i keys = _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(a, b), 0xd8);
		__m256i payloads = _mm256_permute4x64_epi64(_mm256_unpackhi_epi64(a, b), 0xd8);

		_mm256_storeu_si256((__m256i *)(void *)(ret_keys + 8ul * i),
			_mm256_shuffle_epi8(keys, swap));
		_mm256_storeu_si256((__m256i *)(void *)(ret_payloads + i), payloads);
	}
	copy_plain(entries + 2ul * i, count - i, ret_keys + 8ul * i, ret_payloads + i);
}

/* The first eight of these entries. */
__attribute__((target("avx512f,avx512bw"))) static inline void
copy_eight(const uint64_t *entries, uint8_t *ret_keys, uint64_t *ret_payloads)
{
	const __m512i swap = _mm512_broadcast_i32x4(
		_mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
	const __m512i even = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
	const __m512i odd = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
	const __m512i a = _mm512_loadu_si512(entries), b = _mm512_loadu_si512(entries + 8);

	_mm512_storeu_si512(ret_keys,
		_mm512_shuffle_epi8(_mm512_permutex2var_epi64(a, even, b), swap));
	_mm512_storeu_si512(ret_payloads, _mm512_permutex2var_epi64(a, odd, b));
}

/*
 * Eight entries a turn.  The second turn begins where payloads are from then on stored in whole
 * cache lines (and keys, if they lie alike).  The last one ends with the last entry.  Some copied
 * entries are copied again, which costs less than masks would.
 */
__attribute__((target("avx512f,avx512bw"))) static void
copy_avx512(const uint64_t *entries, uint32_t count, uint8_t *ret_keys, uint64_t *ret_payloads)
{
	uint32_t i = 8 - ((uintptr_t)ret_payloads / 8 & 7);

	if (count < 8) {
		copy_plain(entries, count, ret_keys, ret_payloads);
		return;
	}
	copy_eight(entries, ret_keys, ret_payloads);
	for (; i + 8 <= count; i += 8)
		copy_eight(entries + 2ul * i, ret_keys + 8ul * i, ret_payloads + i);
	if (i < count) {
		i = count - 8;
		copy_eight(entries + 2ul * i, ret_keys + 8ul * i, ret_payloads + i);
	}
}

#endif

unsigned
nam__pairs_copies(nam__pairs_copy_fn ret_copies[NAM__PAIRS_COPIES_MAX])
{
	unsigned count = 0;

	ret_copies[count++] = copy_plain;
#ifdef VECTORS
	if (__builtin_cpu_supports("avx2"))
		ret_copies[count++] = copy_avx2;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
		ret_copies[count++] = copy_avx512;
#endif
	return count;
}

nam__pairs_copy_fn
nam__pairs_copy_choose(void)
{
	nam__pairs_copy_fn copies[NAM__PAIRS_COPIES_MAX];

	return copies[nam__pairs_copies(copies) - 1];
}
