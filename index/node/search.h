/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.h -- branch-free searching in sorted arrays of keys.
 */
#ifndef NAM_INDEX_NODE_SEARCH_H
#define NAM_INDEX_NODE_SEARCH_H

#include "node.h"

/* The result of a comparison is unpredictable: a conditional move, and no branch. */
#ifdef __clang__
#define NAM__UNPREDICTABLE(x) __builtin_unpredictable(x)
#else
#define NAM__UNPREDICTABLE(x) __builtin_expect_with_probability(x, 1, 0.5)
#endif

static inline __attribute__((always_inline)) bool
nam__entry_below(const uint64_t *entry, const uint64_t *key, unsigned words, bool or_equal)
{
	if (words == 1)
		return or_equal ? entry[0] <= key[0] : entry[0] < key[0];
	return nam__key_compare(entry, key, words) < (or_equal ? 1 : 0);
}

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

		base = NAM__UNPREDICTABLE(nam__entry_below(middle, key, words, or_equal)) ? middle
											  : base;
		n -= half;
	}
	base += nam__entry_below(base, key, words, or_equal) ? stride : 0;
	return (unsigned)(base - entries) / stride;
}

/* `other` if its word is at most `key`, else `base`: where compilers would see a branch. */
static inline __attribute__((always_inline)) const uint64_t *
nam__floor_step(const uint64_t *base, const uint64_t *other, uint64_t key)
{
#if defined(__x86_64__)
	__asm__("cmpq %[key], %[word]\n\tcmovbeq %[other], %[base]"
		: [base] "+r"(base)
		: [other] "r"(other), [word] "m"(*other), [key] "r"(key)
		: "cc");
	return base;
#else
	return NAM__UNPREDICTABLE(*other <= key) ? other : base;
#endif
}

/*
 * The last of n sorted pairs of words whose first word is at most `key`; if there is none, the
 * first.  n may be 0.  The halves are powers of two, so a step is three instructions.
 */
static inline __attribute__((always_inline)) const uint64_t *
nam__pairs_floor(const uint64_t *pairs, unsigned n, uint64_t key)
{
	unsigned size = n ? 1u << (31 - __builtin_clz(n)) : 1;
	const uint64_t *base = pairs;

	if (__builtin_expect(n < 2, 0))
		return base;
	base = nam__floor_step(base, base + 2ul * (n - size), key);
	if (__builtin_expect(size != 32, 0)) {
		while (size /= 2)
			base = nam__floor_step(base, base + 2ul * size, key);
		return base;
	}
	base = nam__floor_step(base, base + 32, key);
	base = nam__floor_step(base, base + 16, key);
	base = nam__floor_step(base, base + 8, key);
	base = nam__floor_step(base, base + 4, key);
	return nam__floor_step(base, base + 2, key);
}

/*
 * Truncated keys: sorted keys cut down to 16 bits each, so that searching 64 of them takes two
 * comparisons of vectors.  The first word in which the keys differ is cut down, less the lowest
 * key's.
 */
#define NAM__TRUNCATED_GROUP 64u
#define NAM__TRUNCATED_MAX 0xfffeu
#define NAM__TRUNCATED_PAD 0xffffu	/* fills the last group; above every truncated key */

struct nam__truncation {
	uint64_t base;
	uint8_t word;
	uint8_t shift;
	bool exact;		/* truncated keys tell everything: one word, nothing shifted out */
};

static inline unsigned
nam__truncated_padded(unsigned count)
{
	return (count + NAM__TRUNCATED_GROUP - 1) / NAM__TRUNCATED_GROUP * NAM__TRUNCATED_GROUP;
}

/* Truncate `count` >= 1 sorted keys of `words` words; `truncated` has room for whole groups. */
void nam__keys_truncate(const uint64_t *keys, unsigned count, unsigned words,
	struct nam__truncation *ret_truncation, uint16_t *truncated);

/* Number of the last key at or below `key`, or -1. */
typedef int (*nam__truncated_floor_fn)(const struct nam__truncation *truncation,
	const uint16_t *truncated, const uint64_t *keys, unsigned count, unsigned words,
	const uint64_t *key);

/* The fastest for this processor. */
nam__truncated_floor_fn nam__truncated_floor_choose(void);

#endif /* NAM_INDEX_NODE_SEARCH_H */
