/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_write.h -- what is written of a changed node, and in which order.
 */
#ifndef NAM_INDEX_WRITE_IMAGE_WRITE_H
#define NAM_INDEX_WRITE_IMAGE_WRITE_H

#include <errno.h>

#include "compute/remote/lock_slot.h"
#include "index/index_internal.h"
#include "index/node/redo.h"

/*
 * I2: the writes of one sealed image behind its rear word.  Readers with ORDERED_LOADS rely on
 * their order: body, and the front word last.  On other fabrics any order is fine: the hash
 * decides.
 */
static inline __attribute__((always_inline)) void
nam__image_post(struct nam__doorbell *doorbell, const struct nam_index *index,
	struct nam__held *held, struct nam__dirty dirty, enum nam__header_part part)
{
	const struct nam__geometry *g = &index->g;
	uint64_t *image = held->image;

	if (nam__dirty_words(dirty))
		nam__doorbell_write(doorbell, 8 * dirty.first, image + dirty.first,
			8 * nam__dirty_words(dirty));
	if (part != NAM__HEADER_FRONT)
		nam__doorbell_write(doorbell, 8 * NAM__WORD_SHAPE, image + NAM__WORD_SHAPE,
			8 * (nam__header_end(g, part) - NAM__WORD_SHAPE));
	nam__doorbell_write(doorbell, 8 * NAM__WORD_HASH, image + NAM__WORD_HASH, 16);
}

#define NAM__REDO_BUFFER_BYTES (8u + NAM_NODE_STAGGER_BYTES)

/* The record of a change that is under way. */
struct nam__redo {
	uint64_t *words;		/* the rear word and the record; NULL: there is none */
	struct nam_gaddr block;		/* elsewhere, of the same memory server; or null */
};

/* block.c: a record that needs a block.  Posts the WRITE of that. */
NAM_FIBER_FN void nam__redo_block_post(struct nam__doorbell *doorbell,
	const struct nam_index *index, struct nam__held *held, struct nam__dirty dirty,
	enum nam__header_part part, struct nam__redo *redo);

void nam__redo_block_give(struct nam_worker *worker, const struct nam_index *index,
	struct nam_gaddr block);

/*
 * The rear word, and in the same WRITE the record behind the node (I20).  It is the first WRITE of
 * the change.  Where WRITEs may overtake each other, it waits.  A record that needs a block and
 * gets none is empty.
 */
NAM_FIBER_FN static inline __attribute__((always_inline)) int
nam__redo_post(struct nam__doorbell *doorbell, const struct nam_index *index,
	struct nam__held *held, struct nam__dirty dirty, enum nam__header_part part,
	struct nam__redo *redo)
{
	struct nam_worker *worker = doorbell->worker;
	const uint64_t *rear = held->image + index->g.node_words - 1;
	uint32_t bytes;

	redo->block = NAM_GADDR_NULL;
	redo->words = nam__buffer_take(worker, NAM__REDO_BUFFER_BYTES);
	if (__builtin_expect(!redo->words, 0))
		return -ENOMEM;
	redo->words[0] = *rear;
	bytes = nam__redo_fill(redo->words + 1, held->image, dirty, part);
	if (__builtin_expect(!nam__redo_fits(dirty, part), 0)) {
		nam__redo_block_post(doorbell, index, held, dirty, part, redo); /* SUSPENDS */
		/* I20: the record of an earlier change would undo this one later. */
		if (nam_gaddr_is_null(redo->block)) {
			redo->words[1 + NAM__REDO_NOTE] = 0;
			bytes = NAM_GUARD(REDO_NONE) ? 8 : 0;
		}
	}
	nam__doorbell_write(doorbell, index->g.node_bytes - 8, redo->words, 8 + bytes);
	if (__builtin_expect(!(worker->client->caps & NAM_CAP_ORDER_WRITES) &&
		NAM_GUARD(REDO_ORDER), 0))
		return nam__doorbell_await(doorbell); /* SUSPENDS */
	return 0;
}

/* The change is done, and needs no record; or it failed, and another client may need it. */
static inline __attribute__((always_inline)) void
nam__redo_end(struct nam_worker *worker, const struct nam_index *index,
	const struct nam__redo *redo, int rc)
{
	if (redo->words)
		nam__buffer_give(worker, redo->words, NAM__REDO_BUFFER_BYTES);
	if (__builtin_expect(!nam_gaddr_is_null(redo->block) && !rc, 0))
		nam__redo_block_give(worker, index, redo->block);
}

/* nam__write_unlock(), in line. */
NAM_FIBER_FN static inline __attribute__((always_inline)) int
nam__write_unlock_quickly(struct nam_worker *worker, struct nam_index *index,
	struct nam__held *held, struct nam__dirty dirty, enum nam__header_part part)
{
	struct nam__doorbell doorbell;
	struct nam__redo redo;
	int rc, unlock_rc;

	nam__node_seal(&index->g, held->image, held->at);
	nam__doorbell_init(&doorbell, worker, held->at);
	/* I20: the record comes first; else it may come when the node is half-written. */
	rc = nam__redo_post(&doorbell, index, held, dirty, part, &redo); /* SUSPENDS */
	/* I18: it failed, so the lock stays set, and combined changes fail as well. */
	if (__builtin_expect(rc != 0 && NAM_GUARD(REDO_FAILED), 0))
		doorbell.server = rc;
	if (!rc)
		nam__image_post(&doorbell, index, held, dirty, part);
	unlock_rc = nam__unlock_quickly(&doorbell, &held->lock); /* SUSPENDS */
	rc = rc ? rc : unlock_rc;
	nam__redo_end(worker, index, &redo, rc);
	return rc;
}

#endif /* NAM_INDEX_WRITE_IMAGE_WRITE_H */
