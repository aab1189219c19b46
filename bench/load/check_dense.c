/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_dense.c -- check_dense.h.  Keys are a power of two apart, so the expected values of a
 * vector's lanes differ by constants, shifted: no vector is ever multiplied.
 */
#include "check_dense.h"

#include <string.h>

#include "keys.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define HASH_SHIFT (64 - KEYS_HASH_BITS)
#define HASH_SALT (KEYS_HASH_SALT >> HASH_SHIFT)
#define FACTOR KEYS_HASH_FACTOR

/* ---- keys and payloads apart --------------------------------------------------------------- */

static uint64_t
differences(const uint8_t *entry_keys, const uint64_t *payloads, uint32_t count, uint64_t key,
	unsigned stride_shift, uint64_t mask)
{
	uint64_t found = 0;

	for (uint32_t i = 0; i < count; i++, key += 1ull << stride_shift) {
		found |= nam_key_to_u64(entry_keys + 8 * (size_t)i) ^ key;
		found |= (payloads[i] ^ keys_hash(key)) & mask;
	}
	return found;
}

#if defined(__x86_64__)

typedef uint64_t lanes __attribute__((vector_size(32)));
typedef uint8_t lane_bytes __attribute__((vector_size(32)));

/* By fours. */
__attribute__((target("avx2"))) static uint64_t
differences_avx2(const uint8_t *entry_keys, const uint64_t *payloads, uint32_t count, uint64_t key,
	unsigned stride_shift, uint64_t mask)
{
	const lanes keys = { 0, 1, 2, 3 }, products = { 0, FACTOR, 2 * FACTOR, 3 * FACTOR };
	const uint64_t due_step = 4ull << stride_shift, product_step = due_step * FACTOR;
	lanes due = key + (keys << stride_shift), found = { 0 };
	lanes product = (uint64_t)(key * FACTOR) + (products << stride_shift);
	uint32_t i;

	for (i = 0; i + 4 <= count; i += 4) {
		lane_bytes bytes;
		lanes payload;

		memcpy(&bytes, entry_keys + 8 * (size_t)i, 32);
		memcpy(&payload, payloads + i, 32);
		bytes = __builtin_shufflevector(bytes, bytes, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13,
			12, 11, 10, 9, 8, 23, 22, 21, 20, 19, 18, 17, 16, 31, 30, 29, 28, 27, 26,
			25, 24);
		found |= (lanes)bytes ^ due;
		found |= (payload ^ product >> HASH_SHIFT ^ HASH_SALT) & mask;
		due += due_step;
		product += product_step;
	}
	return found[0] | found[1] | found[2] | found[3] |
	       differences(entry_keys + 8 * (size_t)i, payloads + i, count - i,
		       key + ((uint64_t)i << stride_shift), stride_shift, mask);
}

/* By eights.  Ternary operations are numbered by their truth tables: 0xf6 is a | (b ^ c). */
__attribute__((target("avx512f,avx512bw"))) static uint64_t
differences_avx512(const uint8_t *entry_keys, const uint64_t *payloads, uint32_t count,
	uint64_t key, unsigned stride_shift, uint64_t mask)
{
	const __m512i swap = _mm512_broadcast_i32x4(
		_mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
	const __m512i keys = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
	const __m512i products = _mm512_set_epi64((int64_t)(7 * FACTOR), (int64_t)(6 * FACTOR),
		(int64_t)(5 * FACTOR), (int64_t)(4 * FACTOR), (int64_t)(3 * FACTOR),
		(int64_t)(2 * FACTOR), (int64_t)FACTOR, 0);
	const __m512i due_step = _mm512_set1_epi64((int64_t)(8ull << stride_shift));
	const __m512i product_step = _mm512_set1_epi64((int64_t)(8 * FACTOR << stride_shift));
	const __m512i salt = _mm512_set1_epi64(HASH_SALT), masks = _mm512_set1_epi64((int64_t)mask);
	__m512i due = _mm512_add_epi64(_mm512_set1_epi64((int64_t)key),
		_mm512_slli_epi64(keys, stride_shift));
	__m512i product = _mm512_add_epi64(_mm512_set1_epi64((int64_t)(key * FACTOR)),
		_mm512_slli_epi64(products, stride_shift));
	__m512i found = _mm512_setzero_si512();
	uint32_t i;

	for (i = 0; i + 8 <= count; i += 8) {
		__m512i bytes = _mm512_loadu_si512(entry_keys + 8 * (size_t)i);
		__m512i payload = _mm512_loadu_si512(payloads + i);

		found = _mm512_ternarylogic_epi64(found, _mm512_shuffle_epi8(bytes, swap), due,
			0xf6);
		/* payload ^ hash ^ salt; then found | (that & masks) */
		payload = _mm512_ternarylogic_epi64(payload,
			_mm512_srli_epi64(product, HASH_SHIFT), salt, 0x96);
		found = _mm512_ternarylogic_epi64(found, payload, masks, 0xf8);
		due = _mm512_add_epi64(due, due_step);
		product = _mm512_add_epi64(product, product_step);
	}
	return (uint64_t)_mm512_test_epi64_mask(found, found) |
	       differences(entry_keys + 8 * (size_t)i, payloads + i, count - i,
		       key + ((uint64_t)i << stride_shift), stride_shift, mask);
}

#endif

/* ---- entries where they are ---------------------------------------------------------------- */

static uint64_t
entries_differences(const uint64_t *entries, uint32_t count, uint64_t key, unsigned stride_shift,
	uint64_t mask)
{
	uint64_t found = 0;

	for (uint32_t i = 0; i < count; i++, key += 1ull << stride_shift) {
		found |= entries[2 * (size_t)i] ^ key;
		found |= (entries[2 * (size_t)i + 1] ^ keys_hash(key)) & mask;
	}
	return found;
}

#if defined(__x86_64__)

/*
 * Even lanes go from key to key, odd ones from product to product, which are shifted and salted to
 * make hashes of them.
 */
__attribute__((target("avx2"))) static uint64_t
entries_differences_avx2(const uint64_t *entries, uint32_t count, uint64_t key,
	unsigned stride_shift, uint64_t mask)
{
	const lanes shifts = { 0, HASH_SHIFT, 0, HASH_SHIFT };
	const lanes salts = { 0, HASH_SALT, 0, HASH_SALT };
	const lanes masks = { UINT64_MAX, mask, UINT64_MAX, mask };
	const lanes firsts = { 0, 0, 1, FACTOR }, steps = { 2, 2 * FACTOR, 2, 2 * FACTOR };
	const lanes step = steps << stride_shift;
	lanes due = (lanes){ key, key * FACTOR, key, key * FACTOR } + (firsts << stride_shift);
	lanes found = { 0 };
	uint32_t i;

	for (i = 0; i + 2 <= count; i += 2) {
		lanes entry;

		memcpy(&entry, entries + 2 * (size_t)i, 32);
		found |= (entry ^ due >> shifts ^ salts) & masks;
		due += step;
	}
	return found[0] | found[1] | found[2] | found[3] |
	       entries_differences(entries + 2 * (size_t)i, count - i,
		       key + ((uint64_t)i << stride_shift), stride_shift, mask);
}

__attribute__((target("avx512f"))) static uint64_t
entries_differences_avx512(const uint64_t *entries, uint32_t count, uint64_t key,
	unsigned stride_shift, uint64_t mask)
{
	const __mmask8 odd = 0xaa;
	const __m512i shifts = _mm512_maskz_set1_epi64(odd, HASH_SHIFT);
	const __m512i salts = _mm512_maskz_set1_epi64(odd, HASH_SALT);
	const __m512i masks = _mm512_mask_set1_epi64(_mm512_set1_epi64(-1), odd, (int64_t)mask);
	const __m512i firsts = _mm512_set_epi64((int64_t)(3 * FACTOR), 3, (int64_t)(2 * FACTOR), 2,
		(int64_t)FACTOR, 1, 0, 0);
	const uint64_t due_step = 4ull << stride_shift;
	const __m512i step = _mm512_mask_set1_epi64(_mm512_set1_epi64((int64_t)due_step), odd,
		(int64_t)(due_step * FACTOR));
	__m512i due = _mm512_add_epi64(_mm512_slli_epi64(firsts, stride_shift),
		_mm512_mask_set1_epi64(_mm512_set1_epi64((int64_t)key), odd,
			(int64_t)(key * FACTOR)));
	__m512i found = _mm512_setzero_si512(), entry;
	uint32_t i;

	for (i = 0; i + 4 <= count; i += 4) {
		entry = _mm512_ternarylogic_epi64(_mm512_loadu_si512(entries + 2 * (size_t)i),
			_mm512_srlv_epi64(due, shifts), salts, 0x96);
		found = _mm512_ternarylogic_epi64(found, entry, masks, 0xf8);
		due = _mm512_add_epi64(due, step);
	}
	if (i < count) {
		const __mmask8 left = (__mmask8)((1u << 2 * (count - i)) - 1);

		entry = _mm512_ternarylogic_epi64(
			_mm512_maskz_loadu_epi64(left, entries + 2 * (size_t)i),
			_mm512_srlv_epi64(due, shifts), salts, 0x96);
		found = _mm512_mask_ternarylogic_epi64(found, left, entry, masks, 0xf8);
	}
	return _mm512_test_epi64_mask(found, found);
}

#endif

unsigned
dense_checks(struct dense_check ret_checks[DENSE_CHECKS_MAX])
{
	unsigned count = 0;

	ret_checks[count++] = (struct dense_check){ differences, entries_differences };
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		ret_checks[count++] = (struct dense_check){ differences_avx2,
			entries_differences_avx2 };
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
		ret_checks[count++] = (struct dense_check){ differences_avx512,
			entries_differences_avx512 };
#endif
	return count;
}
