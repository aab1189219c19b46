/* SPDX-License-Identifier: Apache-2.0 */
/*
 * siblings.c -- siblings.h, for each vector unit.
 *
 * A sibling has three words, the id first; a vector has a power of two of words.  So in three
 * consecutive vectors all ids are at different positions: blended they are one vector of ids.
 */
#include "siblings.h"

#include "txn/records/version.h"

#if defined(__x86_64__)
#define VECTORS 1
#include <immintrin.h>
#endif

_Static_assert(sizeof(struct nam_version_sibling) == 24 && NAM__NAMED_IDS == 4, "see below");

static bool
any_of(const struct nam_version_sibling *siblings, uint32_t count,
	const uint64_t ids[NAM__NAMED_IDS])
{
	unsigned any = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t id = siblings[i].key_id;

		any |= (id == ids[0]) | (id == ids[1]) | (id == ids[2]) | (id == ids[3]);
	}
	return any;
}

static bool
named_plain(const struct nam_version *const *versions, uint32_t count,
	const uint64_t ids[NAM__NAMED_IDS])
{
	const struct nam_version_sibling *siblings;
	bool any = false;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t left = nam__version_siblings(versions[i], &siblings);

		any |= any_of(siblings, left, ids);
	}
	return any;
}

#ifdef VECTORS

/* Four siblings a turn: their ids are words 0, 3, 6 and 9. */
__attribute__((target("avx2"))) static bool
named_avx2(const struct nam_version *const *versions, uint32_t count,
	const uint64_t ids[NAM__NAMED_IDS])
{
	const __m256i id0 = _mm256_set1_epi64x((long long)ids[0]);
	const __m256i id1 = _mm256_set1_epi64x((long long)ids[1]);
	const __m256i id2 = _mm256_set1_epi64x((long long)ids[2]);
	const __m256i id3 = _mm256_set1_epi64x((long long)ids[3]);
	const struct nam_version_sibling *siblings;
	__m256i found = _mm256_setzero_si256();
	bool any = false;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t left = nam__version_siblings(versions[i], &siblings);

		for (; left >= 4; left -= 4, siblings += 4) {
			const __m256i *from = (const __m256i *)(const void *)siblings;
			__m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);
			__m256i c = _mm256_loadu_si256(from + 2);
			__m256i is = _mm256_blend_epi32(_mm256_blend_epi32(a, b, 0x30), c, 0x0c);

			found = _mm256_or_si256(found, _mm256_cmpeq_epi64(is, id0));
			found = _mm256_or_si256(found, _mm256_cmpeq_epi64(is, id1));
			found = _mm256_or_si256(found, _mm256_cmpeq_epi64(is, id2));
			found = _mm256_or_si256(found, _mm256_cmpeq_epi64(is, id3));
		}
		any |= any_of(siblings, left, ids);
	}
	return any || !_mm256_testz_si256(found, found);
}

/* Words of three vectors that are ids: 0, 3 and 6 of the first, 1, 4, 7 and 2, 5 of the others. */
#define IDS_FIRST 0x49u
#define IDS_SECOND 0x92u
#define IDS_THIRD 0x24u

/*
 * Eight siblings a turn; missing ones count as 0.  Each id has a mask of its own, so that no
 * comparison waits for the one before.
 */
__attribute__((target("avx512f"))) static bool
named_avx512(const struct nam_version *const *versions, uint32_t count,
	const uint64_t ids[NAM__NAMED_IDS])
{
	const __m512i id0 = _mm512_set1_epi64((long long)ids[0]);
	const __m512i id1 = _mm512_set1_epi64((long long)ids[1]);
	const __m512i id2 = _mm512_set1_epi64((long long)ids[2]);
	const __m512i id3 = _mm512_set1_epi64((long long)ids[3]);
	__mmask8 none0 = 0xff, none1 = 0xff, none2 = 0xff, none3 = 0xff;
	const struct nam_version_sibling *siblings;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t left = nam__version_siblings(versions[i], &siblings);

		while (left) {
			const uint64_t *from = (const uint64_t *)(const void *)siblings;
			uint32_t here = left < 8 ? (1u << 3 * left) - 1 : 0;
			__m512i is;

			/* Most turns have eight, and masks that stay where they are. */
			if (left >= 8) {
				is = _mm512_maskz_loadu_epi64(IDS_FIRST, from);
				is = _mm512_mask_loadu_epi64(is, IDS_SECOND, from + 8);
				is = _mm512_mask_loadu_epi64(is, IDS_THIRD, from + 16);
			} else {
				is = _mm512_maskz_loadu_epi64((__mmask8)(here & IDS_FIRST), from);
				is = _mm512_mask_loadu_epi64(is,
					(__mmask8)(here >> 8 & IDS_SECOND), from + 8);
				is = _mm512_mask_loadu_epi64(is,
					(__mmask8)(here >> 16 & IDS_THIRD), from + 16);
			}
			none0 = _mm512_mask_cmpneq_epi64_mask(none0, is, id0);
			none1 = _mm512_mask_cmpneq_epi64_mask(none1, is, id1);
			none2 = _mm512_mask_cmpneq_epi64_mask(none2, is, id2);
			none3 = _mm512_mask_cmpneq_epi64_mask(none3, is, id3);
			left -= left < 8 ? left : 8;
			siblings += 8;
		}
	}
	return (none0 & none1 & none2 & none3) != 0xff;
}

#endif

unsigned
nam__named_kinds(nam__named_fn ret_kinds[NAM__NAMED_KINDS_MAX])
{
	unsigned count = 0;

	ret_kinds[count++] = named_plain;
#ifdef VECTORS
	if (__builtin_cpu_supports("avx2"))
		ret_kinds[count++] = named_avx2;
	if (__builtin_cpu_supports("avx512f"))
		ret_kinds[count++] = named_avx512;
#endif
	return count;
}

nam__named_fn
nam__named_choose(void)
{
	nam__named_fn kinds[NAM__NAMED_KINDS_MAX];

	return kinds[nam__named_kinds(kinds) - 1];
}
