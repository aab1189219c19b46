/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaf_lookup.h -- the payload of a one-word unique key in the image of a leaf, quickly.  It is one
 * piece, since each call would cost a few percent.
 */
#ifndef NAM_INDEX_FINE_LEAF_LOOKUP_H
#define NAM_INDEX_FINE_LEAF_LOOKUP_H

#include "index/node/search.h"
#include "index/validate.h"

/* The answer of one image; as numbers, those of a lookup. */
enum nam__leaf_answer {
	NAM__LEAF_FOUND = 0,
	NAM__LEAF_ABSENT = -NAM_E_NOTFOUND,
	NAM__LEAF_UNUSABLE = 1,	/* torn, not what the pointer promised, or not covering the key */
};

/* @image: what was READ at `at`. */
static inline __attribute__((always_inline)) enum nam__leaf_answer
nam__leaf_lookup(const struct nam_index *index, const uint64_t *image, struct nam_gaddr at,
	uint64_t key, uint64_t *ret_payload)
{
	const uint64_t *entries = image + index->g.entries_at, *entry;
	unsigned count = nam__node_count(image), sorted = nam__node_sorted(image), number;

	if (nam__node_validate(index, image, at, 0, NAM__NODE_LEAF) ||
		!nam__node_covers(image, &key, 1))
		return NAM__LEAF_UNUSABLE;
	entry = nam__pairs_floor(entries, sorted, key);
	if (__builtin_expect(sorted && *entry == key, 1)) {
		*ret_payload = entry[1];
		return NAM__LEAF_FOUND;
	}
	for (number = sorted; number < count && entries[2 * number] != key; number++)
		continue;
	if (number == count)
		return NAM__LEAF_ABSENT;
	*ret_payload = entries[2 * number + 1];
	return NAM__LEAF_FOUND;
}

#endif /* NAM_INDEX_FINE_LEAF_LOOKUP_H */
