/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c -- copies between shared regions and local buffers, in an order that can be relied on.
 *
 * READ: the first 64 bytes in ascending words; the rest in vectors; the last word once more, at the
 * end.  Since x86-64 performs loads and stores in program order, compiler barriers suffice.  An
 * aligned word never crosses a cache line, so it is whole in every vector.
 *
 * While one READ is copied, a later one is prefetched line by line, which keeps the core's places
 * for outstanding lines filled.  Vectors of 32 bytes do that better than those of 64 on Zen 5; on
 * Sapphire Rapids those of 64 are faster by a twentieth.
 *
 * Under ThreadSanitizer both sides use relaxed atomic words: the races are intended.
 */
#include <string.h>

#include "shm_internal.h"

#if defined(__SANITIZE_THREAD__)
#define SHM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHM_TSAN 1
#endif
#endif

#if defined(__x86_64__) && !defined(SHM_TSAN)
#define SHM_VECTORS 1
#include <immintrin.h>
#endif

#define COMPILER_BARRIER() __asm__ volatile("" ::: "memory")

static inline uint64_t
word_load(const uint8_t *at)
{
	return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_RELAXED);
}

static inline void
word_store(uint8_t *at, uint64_t word)
{
	__atomic_store_n((uint64_t *)(void *)at, word, __ATOMIC_RELAXED);
}

/* Ascending words; for ends or addresses that are not multiples of 8, ascending bytes. */
static void
read_plain(void *to, const void *from, uint32_t bytes)
{
	uint8_t *out = to;
	const uint8_t *in = from;
	uint32_t at = 0;

	if (!((uintptr_t)in & 7)) {
		for (; bytes - at >= 8; at += 8) {
			uint64_t word = word_load(in + at);

			memcpy(out + at, &word, 8);
			COMPILER_BARRIER();
		}
	}
	for (; at < bytes; at++)
		out[at] = __atomic_load_n(in + at, __ATOMIC_RELAXED);
}

static void
read_fallback(void *to, const void *from, uint32_t bytes, const void *ahead)
{
	for (uint32_t at = 0; at < bytes; at += SHM_CACHE_LINE)
		__builtin_prefetch((const uint8_t *)ahead + at, 0, 3);
	read_plain(to, from, bytes);
}

static void
write_plain(void *to, const void *from, uint32_t bytes)
{
	uint8_t *out = to;
	const uint8_t *in = from;
	uint32_t at = 0;

	if (!((uintptr_t)out & 7)) {
		for (; bytes - at >= 8; at += 8) {
			uint64_t word;

			memcpy(&word, in + at, 8);
			word_store(out + at, word);
		}
	}
	for (; at < bytes; at++)
		__atomic_store_n(out + at, in[at], __ATOMIC_RELAXED);
}

#ifdef SHM_VECTORS

#define READ_VECTORS_FROM 128u
#define WRITE_VECTORS_FROM 64u

static inline __attribute__((always_inline)) void
read_word(uint8_t *out, const uint8_t *in)
{
	uint64_t word = word_load(in);

	memcpy(out, &word, 8);
	COMPILER_BARRIER();
}

/* A loop would cost as much as what it does. */
static inline __attribute__((always_inline)) void
read_first_line(uint8_t *out, const uint8_t *in)
{
	read_word(out, in);
	read_word(out + 8, in + 8);
	read_word(out + 16, in + 16);
	read_word(out + 24, in + 24);
	read_word(out + 32, in + 32);
	read_word(out + 40, in + 40);
	read_word(out + 48, in + 48);
	read_word(out + 56, in + 56);
}

static inline __attribute__((always_inline)) void
read_last_word(uint8_t *out, const uint8_t *in, uint32_t bytes)
{
	uint64_t word;

	COMPILER_BARRIER();
	word = word_load(in + bytes - 8);
	memcpy(out + bytes - 8, &word, 8);
}

/*
 * LINE copies 64 bytes.  If the length is no multiple of 64, the last line overlaps the one before,
 * so there is no tail.  Four lines a turn: the loop itself would cost as much as a copy.
 */
#define DEFINE_COPIES(name, isa, LINE)                                                              \
	__attribute__((target(isa))) static void read_##name(void *to, const void *from,            \
		uint32_t bytes, const void *ahead)                                                  \
	{                                                                                           \
		const uint8_t *in = from, *next = ahead, *end = in + bytes;                         \
		uint8_t *out = to;                                                                  \
                                                                                                    \
		if (bytes < READ_VECTORS_FROM || (((uintptr_t)in | bytes) & 7)) {                   \
			read_fallback(to, from, bytes, ahead);                                      \
			return;                                                                     \
		}                                                                                   \
		__builtin_prefetch(next, 0, 3);                                                     \
		read_first_line(out, in);                                                           \
		in += 64, out += 64, next += 64;                                                    \
		for (; end - in >= 256; in += 256, out += 256, next += 256) {                       \
			LINE_AND_AHEAD(LINE, 0);                                                    \
			LINE_AND_AHEAD(LINE, 64);                                                   \
			LINE_AND_AHEAD(LINE, 128);                                                  \
			LINE_AND_AHEAD(LINE, 192);                                                  \
		}                                                                                   \
		for (; end - in >= 64; in += 64, out += 64, next += 64)                             \
			LINE_AND_AHEAD(LINE, 0);                                                    \
		__builtin_prefetch(next + (end - in) - 1, 0, 3);                                    \
		if (in < end)                                                                       \
			LINE(out + (end - in) - 64, end - 64);                                      \
		read_last_word(to, from, bytes);                                                    \
	}                                                                                           \
                                                                                                    \
	__attribute__((target(isa))) static void write_##name(void *to, const void *from,           \
		uint32_t bytes)                                                                     \
	{                                                                                           \
		uint8_t *out = to;                                                                  \
		const uint8_t *in = from;                                                           \
		uint32_t at = 0;                                                                    \
                                                                                                    \
		if (bytes <= WRITE_VECTORS_FROM || (((uintptr_t)out | bytes) & 7)) {                \
			write_plain(to, from, bytes);                                               \
			return;                                                                     \
		}                                                                                   \
		for (; at + 64 <= bytes; at += 64)                                                  \
			LINE(out + at, in + at);                                                    \
		if (at < bytes)                                                                     \
			LINE(out + bytes - 64, in + bytes - 64);                                    \
		COMPILER_BARRIER();                                                                 \
	}

#define LINE_AND_AHEAD(LINE, at)                                                                    \
	do {                                                                                        \
		__builtin_prefetch(next + (at), 0, 3);                                              \
		LINE(out + (at), in + (at));                                                        \
		COMPILER_BARRIER();                                                                 \
	} while (0)

#define LINE_SSE2(out, in)                                                                          \
	do {                                                                                        \
		const __m128i *from_ = (const __m128i *)(const void *)(in);                         \
		__m128i *to_ = (__m128i *)(void *)(out);                                            \
		__m128i a_ = _mm_loadu_si128(from_), b_ = _mm_loadu_si128(from_ + 1);               \
		__m128i c_ = _mm_loadu_si128(from_ + 2), d_ = _mm_loadu_si128(from_ + 3);           \
		_mm_storeu_si128(to_, a_);                                                          \
		_mm_storeu_si128(to_ + 1, b_);                                                      \
		_mm_storeu_si128(to_ + 2, c_);                                                      \
		_mm_storeu_si128(to_ + 3, d_);                                                      \
	} while (0)

#define LINE_AVX2(out, in)                                                                          \
	do {                                                                                        \
		const __m256i *from_ = (const __m256i *)(const void *)(in);                         \
		__m256i *to_ = (__m256i *)(void *)(out);                                            \
		__m256i a_ = _mm256_loadu_si256(from_), b_ = _mm256_loadu_si256(from_ + 1);         \
		_mm256_storeu_si256(to_, a_);                                                       \
		_mm256_storeu_si256(to_ + 1, b_);                                                   \
	} while (0)

#define LINE_AVX512(out, in)                                                                        \
	_mm512_storeu_si512((void *)(out), _mm512_loadu_si512((const void *)(in)))

DEFINE_COPIES(sse2, "sse2", LINE_SSE2)
DEFINE_COPIES(avx2, "avx2", LINE_AVX2)
DEFINE_COPIES(avx512, "avx512f", LINE_AVX512)

#endif /* SHM_VECTORS */

void
nam__shm_copy_choose(shm_read_fn *ret_read, shm_write_fn *ret_write)
{
#ifdef SHM_VECTORS
	__builtin_cpu_init();
	if (__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f")) {
		*ret_read = read_avx512;
		*ret_write = write_avx512;
	} else if (__builtin_cpu_supports("avx2")) {
		*ret_read = read_avx2;
		*ret_write = write_avx2;
	} else {
		*ret_read = read_sse2;
		*ret_write = write_sse2;
	}
#else
	*ret_read = read_fallback;
	*ret_write = write_plain;
#endif
}
