/* SPDX-License-Identifier: Apache-2.0 */
#include "check_dense.h"

#include <string.h>

#include "keys.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static uint64_t
differences(const uint8_t *entry_keys, const uint64_t *payloads, uint32_t count, uint64_t key,
	uint64_t stride, uint64_t mask)
{
	uint64_t found = 0;

	for (uint32_t i = 0; i < count; i++, key += stride) {
		found |= nam_key_to_u64(entry_keys + 8 * (size_t)i) ^ key;
		found |= (payloads[i] ^ keys_hash(key)) & mask;
	}
	return found;
}

#if defined(__x86_64__)

typedef uint64_t lanes __attribute__((vector_size(32)));
typedef uint8_t lane_bytes __attribute__((vector_size(32)));

/* By fours, with additions and shuffles only. */
__attribute__((target("avx2"))) static uint64_t
differences_avx2(const uint8_t *entry_keys, const uint64_t *payloads, uint32_t count, uint64_t key,
	uint64_t stride, uint64_t mask)
{
	const lanes numbers = { 0, 1, 2, 3 };
	lanes due = key + stride * numbers, due_step = (lanes){ 0 } + 4 * stride;
	lanes product = due * KEYS_HASH_FACTOR, product_step = due_step * KEYS_HASH_FACTOR;
	lanes found = { 0 };
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
		found |= (payload ^ (product ^ KEYS_HASH_SALT) >> (64 - KEYS_HASH_BITS)) & mask;
		due += due_step;
		product += product_step;
	}
	return found[0] | found[1] | found[2] | found[3] |
	       differences(entry_keys + 8 * (size_t)i, payloads + i, count - i, key + i * stride,
		       stride, mask);
}

/* By eights.  Ternary operations are numbered by their truth tables: 0xf6 is a | (b ^ c). */
__attribute__((target("avx512f,avx512bw,avx512dq"))) static uint64_t
differences_avx512(const uint8_t *entry_keys, const uint64_t *payloads, uint32_t count,
	uint64_t key, uint64_t stride, uint64_t mask)
{
	const __m512i numbers = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
	const __m512i swap = _mm512_broadcast_i32x4(
		_mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
	const __m512i salt = _mm512_set1_epi64(KEYS_HASH_SALT >> (64 - KEYS_HASH_BITS));
	const __m512i masks = _mm512_set1_epi64((int64_t)mask);
	const __m512i due_step = _mm512_set1_epi64((int64_t)(8 * stride));
	const __m512i factor = _mm512_set1_epi64((int64_t)KEYS_HASH_FACTOR);
	const __m512i product_step = _mm512_mullo_epi64(due_step, factor);
	__m512i due = _mm512_add_epi64(_mm512_set1_epi64((int64_t)key),
		_mm512_mullo_epi64(_mm512_set1_epi64((int64_t)stride), numbers));
	__m512i product = _mm512_mullo_epi64(due, factor), found = _mm512_setzero_si512();
	uint32_t i;

	for (i = 0; i + 8 <= count; i += 8) {
		__m512i bytes = _mm512_loadu_si512(entry_keys + 8 * (size_t)i);
		__m512i payload = _mm512_loadu_si512(payloads + i);
		__m512i hash = _mm512_srli_epi64(product, 64 - KEYS_HASH_BITS);

		found = _mm512_ternarylogic_epi64(found, _mm512_shuffle_epi8(bytes, swap), due,
			0xf6);
		/* payload ^ hash ^ salt; then found | (that & masks) */
		payload = _mm512_ternarylogic_epi64(payload, hash, salt, 0x96);
		found = _mm512_ternarylogic_epi64(found, payload, masks, 0xf8);
		due = _mm512_add_epi64(due, due_step);
		product = _mm512_add_epi64(product, product_step);
	}
	return (uint64_t)_mm512_reduce_or_epi64(found) |
	       differences(entry_keys + 8 * (size_t)i, payloads + i, count - i, key + i * stride,
		       stride, mask);
}

#endif

unsigned
dense_checks(dense_check_fn ret_checks[DENSE_CHECKS_MAX])
{
	unsigned count = 0;

	ret_checks[count++] = differences;
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		ret_checks[count++] = differences_avx2;
	if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
		ret_checks[count++] = differences_avx512;
#endif
	return count;
}
