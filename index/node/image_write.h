/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_write.h -- what is written of a changed node, and in which order.
 */
#ifndef NAM_INDEX_NODE_IMAGE_WRITE_H
#define NAM_INDEX_NODE_IMAGE_WRITE_H

#include "compute/remote/lock_slot.h"
#include "index/index_internal.h"

/*
 * The writes of one image, in the order that readers with ORDERED_LOADS rely on: rear word, body,
 * and the front word last.  On other fabrics any order of arrival is fine: the hash decides.
 */
static inline __attribute__((always_inline)) void
nam__image_post(struct nam__doorbell *doorbell, const struct nam_index *index,
	struct nam__held *held, struct nam__dirty dirty, enum nam__header_part part)
{
	const struct nam__geometry *g = &index->g;
	uint64_t *image = held->image;
	uint32_t rear = g->node_words - 1;

	nam__node_seal(g, image, held->at);
	nam__doorbell_write(doorbell, 8 * rear, image + rear, 8);
	if (dirty.end > dirty.first)
		nam__doorbell_write(doorbell, 8 * dirty.first, image + dirty.first,
			8 * (dirty.end - dirty.first));
	if (part != NAM__HEADER_FRONT)
		nam__doorbell_write(doorbell, 8 * NAM__WORD_SHAPE, image + NAM__WORD_SHAPE,
			part == NAM__HEADER_FENCES ? 8 * (g->entries_at - NAM__WORD_SHAPE) : 8);
	nam__doorbell_write(doorbell, 8 * NAM__WORD_HASH, image + NAM__WORD_HASH, 16);
}

/* nam__write_unlock(), in line. */
NAM_FIBER_FN static inline __attribute__((always_inline)) int
nam__write_unlock_quickly(struct nam_worker *worker, struct nam_index *index,
	struct nam__held *held, struct nam__dirty dirty, enum nam__header_part part)
{
	struct nam__doorbell doorbell;

	nam__doorbell_init(&doorbell, worker, held->at);
	nam__image_post(&doorbell, index, held, dirty, part);
	return nam__unlock_quickly(&doorbell, &held->lock); /* SUSPENDS */
}

#endif /* NAM_INDEX_NODE_IMAGE_WRITE_H */
