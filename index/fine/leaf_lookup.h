/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaf_lookup.h -- the payload of a one-word unique key in the image of a leaf, quickly: in one
 * piece, since each call would cost a few percent.
 */
#ifndef NAM_INDEX_FINE_LEAF_LOOKUP_H
#define NAM_INDEX_FINE_LEAF_LOOKUP_H

#include "index/index_internal.h"
#include "index/node/search.h"

/* Not an answer: the image is torn, is not what the pointer promised, or does not cover the key. */
#define NAM__LOOK_CLOSELY 1

/* @image: what was READ at `at`.  0, -NAM_E_NOTFOUND or NAM__LOOK_CLOSELY. */
static inline __attribute__((always_inline)) int
nam__leaf_lookup(const struct nam_index *index, const uint64_t *image, struct nam_gaddr at,
	uint64_t key, uint64_t *ret_payload)
{
	const uint64_t *entries = image + index->g.entries_at, *entry;
	unsigned count = nam__node_count(image), sorted = nam__node_sorted(image), number;

	if (!nam__leaf_covers_words(index, image, at, &key, 1))
		return NAM__LOOK_CLOSELY;
	entry = nam__pairs_floor(entries, sorted, key);
	if (__builtin_expect(sorted && *entry == key, 1)) {
		*ret_payload = entry[1];
		return 0;
	}
	for (number = sorted; number < count && entries[2 * number] != key; number++)
		continue;
	if (number == count)
		return -NAM_E_NOTFOUND;
	*ret_payload = entries[2 * number + 1];
	return 0;
}

#endif /* NAM_INDEX_FINE_LEAF_LOOKUP_H */
