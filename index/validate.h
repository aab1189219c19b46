/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate.h -- whether an image can be used: it is a whole node, the promised one (I2, I3), and
 * covers a key.  Always in line: it takes part in each lookup and in each change.
 */
#ifndef NAM_INDEX_VALIDATE_H
#define NAM_INDEX_VALIDATE_H

#include "index_internal.h"

#define NAM__ANY_TYPE 0u

/*
 * Whether some writer wrote exactly this image, of this index's node at `at` (I2): its ends agree,
 * too.
 */
static inline __attribute__((always_inline)) bool
nam__node_is_whole(const struct nam_index *index, const uint64_t *image, struct nam_gaddr at)
{
	return image[NAM__WORD_HASH] == nam__node_hash(&index->g, image, at);
}

/**
 * nam__node_validate -- whether an image is whole, and the node that a pointer promised.
 *
 * @at		the pointer, tagged with the generation that it promises
 * @level	the level that it promises, or NAM__ANY_LEVEL
 * @type	the type that it promises, or NAM__ANY_TYPE: a head node passes at level 0
 *
 * Returns 0; -NAM_E_RESTART_DEAD: dead, or of another generation, level or type;
 * -NAM_E_RESTART_TORN; or -NAM_E_REMOTE_CORRUPT: whole, with counts that no node has.
 */
static inline __attribute__((always_inline)) int
nam__node_validate(const struct nam_index *index, const uint64_t *image, struct nam_gaddr at,
	int level, unsigned type)
{
	const struct nam__geometry *g = &index->g;
	uint64_t mask = 0, promised = 0;

	/*
	 * First of all, and of torn images, too.  A block that now serves another index never
	 * verifies here, however often it is read.  Its generation changes only with each life.
	 */
	if (NAM_GUARD(GENERATION) && (uint16_t)nam__node_generation(image) != nam_gaddr_tag(at))
		return -NAM_E_RESTART_DEAD;
	/* D2: the hash decides, or, where loads are ordered, two words. */
	if (__builtin_expect(index->ordered_loads, 1)) {
		/* Words of one READ were loaded front first and rear last: see fabric.h. */
		if (NAM_GUARD(NODE_ENDS) && !nam__node_ends_agree(g, image))
			return -NAM_E_RESTART_TORN;
	} else if (NAM_GUARD(NODE_HASH) && !nam__node_is_whole(index, image, at)) {
		return -NAM_E_RESTART_TORN;
	}
	/* One comparison tells whether the node is alive, and has this level and type. */
	if (NAM_GUARD(DEAD_NODE))
		mask = NAM__NODE_DEAD << 8;
	if (NAM_GUARD(NODE_TYPE) && level >= 0) {
		mask |= 0xff;
		promised = (unsigned)level;
	}
	if (NAM_GUARD(NODE_TYPE) && type) {
		mask |= NAM__NODE_TYPE_MASK << 8;
		promised |= type << 8;
	}
	if ((image[NAM__WORD_FRONT] & mask) != promised)
		return -NAM_E_RESTART_DEAD;
	if (!nam__node_counts_valid(g, image, type ? type : nam__node_type(image)))
		return -NAM_E_REMOTE_CORRUPT;
	return 0;
}

/* Whether a leaf or an inner node has a full key of so many words between its fences (I4). */
static inline __attribute__((always_inline)) bool
nam__node_covers(const uint64_t *image, const uint64_t *key, unsigned words)
{
	const uint64_t *low = nam__node_low(image);

	return (!NAM_GUARD(FENCE_LOW) || nam__key_compare(key, low, words) >= 0) &&
	       (!NAM_GUARD(FENCE_HIGH) || nam__node_last(image) ||
		       nam__key_compare(key, low + words, words) < 0);
}

#endif /* NAM_INDEX_VALIDATE_H */
