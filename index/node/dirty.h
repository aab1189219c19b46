/* SPDX-License-Identifier: Apache-2.0 */
/* dirty.h -- which words of a node a change has touched. */
#ifndef NAM_INDEX_NODE_DIRTY_H
#define NAM_INDEX_NODE_DIRTY_H

#include <stdint.h>

/* Words [first, end) of an image that a change touched, fences and counts apart. */
struct nam__dirty {
	uint32_t first, end;
};

/*
 * The words of a node's header that a change has touched beside hash and front; each includes the
 * last.
 */
enum nam__header_part {
	NAM__HEADER_FRONT,
	NAM__HEADER_COUNTS,
	NAM__HEADER_SIBLING,
	NAM__HEADER_FENCES,
};

static inline uint32_t
nam__dirty_words(struct nam__dirty dirty)
{
	return dirty.end > dirty.first ? dirty.end - dirty.first : 0;
}

#endif /* NAM_INDEX_NODE_DIRTY_H */
