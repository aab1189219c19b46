/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.c -- counting with vectors: plain loops, compiled for several processors.
 */
#include "search.h"

/* Resolvers run before sanitizers do; and clang 14 makes no such clones. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
	!defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define VECTOR_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define VECTOR_CLONES
#endif

/* What is counted in vectors: 8 of the widest kind, which takes as long as 2 halvings. */
#define LINEAR_MAX 64u

VECTOR_CLONES unsigned
nam__count_at_most(const uint64_t *sorted, unsigned n, uint64_t key)
{
	const uint64_t *base = sorted;
	uint64_t count = 0;

	while (n > LINEAR_MAX) {
		unsigned half = n / 2;

		base += half & (0 - (size_t)(base[half - 1] <= key));
		n -= half;
	}
	for (unsigned i = 0; i < n; i++)
		count += base[i] <= key;
	return (unsigned)(base - sorted) + (unsigned)count;
}

VECTOR_CLONES unsigned
nam__count_slices(const int32_t *sorted, unsigned n, int32_t key)
{
	int count = 0;

	for (unsigned i = 0; i < n / NAM__SLICES_GROUP * NAM__SLICES_GROUP; i++)
		count += sorted[i] <= key;
	return (unsigned)count;
}
