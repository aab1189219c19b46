/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.h -- branch-free searching in sorted arrays of keys.
 */
#ifndef NAM_INDEX_SEARCH_H
#define NAM_INDEX_SEARCH_H

#include "node.h"

/*
 * Number of the first n entries whose leading key words are below `key` (or_equal: at most `key`).
 * No branch depends on the data, so the processor can go on with other fibers' loads.
 */
static inline __attribute__((always_inline)) unsigned
nam__count_below(const uint64_t *entries, unsigned n, unsigned stride, const uint64_t *key,
	unsigned words, bool or_equal)
{
	const uint64_t *base = entries;

	if (!n)
		return 0;
	while (n > 1) {
		unsigned half = n / 2;
		const uint64_t *middle = base + half * stride;
		bool right;

		if (words == 1)
			right = or_equal ? middle[0] <= key[0] : middle[0] < key[0];
		else
			right = nam__key_compare(middle, key, words) < (or_equal ? 1 : 0);
		/* Arithmetic, because compilers turn a conditional into a branch. */
		base += half * stride & (0 - (size_t)right);
		n -= half;
	}
	if (words == 1)
		base += (or_equal ? base[0] <= key[0] : base[0] < key[0]) ? stride : 0;
	else
		base += nam__key_compare(base, key, words) < (or_equal ? 1 : 0) ? stride : 0;
	return (unsigned)(base - entries) / stride;
}

/*
 * Number of sorted words at or below `key`.  Halves until a few vectors are left, and counts those.
 */
unsigned nam__count_at_most(const uint64_t *sorted, unsigned n, uint64_t key);

/* The same for a multiple of NAM__SLICES_GROUP signed halves. */
unsigned nam__count_slices(const int32_t *sorted, unsigned n, int32_t key);

#define NAM__SLICES_GROUP 16u

#endif /* NAM_INDEX_SEARCH_H */
