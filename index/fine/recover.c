/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover.c -- taking the lock of a node over from a client that is dead, and completing a node
 * that it left half-written (I20).
 */
#include <errno.h>

#include "index/node/image_write.h"

/* An image that some writer wrote exactly so, of this index's node at `at`. */
static bool
is_whole(const struct nam_index *index, const uint64_t *image, struct nam_gaddr at)
{
	return nam__node_ends_agree(&index->g, image) &&
	       image[NAM__WORD_HASH] == nam__node_hash(&index->g, image, at);
}

/* A torn image, and what its record says of it. */
struct torn {
	uint64_t *image;
	uint64_t *record, *block;	/* of one buffer */
	struct nam__dirty dirty;
	enum nam__header_part part;
};

/* Complete a torn image by its record.  -NAM_E_LOCK_ORPHANED: none leads to a whole image. */
NAM_FIBER_FN static int
complete(struct nam_worker *worker, const struct nam_index *index, struct nam_gaddr at,
	struct torn *torn)
{
	struct nam_gaddr block, record = nam_gaddr_make(nam_gaddr_region(at),
		nam_gaddr_offset(at) + index->g.node_bytes, 0);
	enum nam__redo_kind kind;
	int rc = nam_read_await(worker, record, torn->record,
		NAM_NODE_STAGGER_BYTES); /* SUSPENDS */

	if (rc)
		return rc;
	kind = nam__redo_read(&index->g, torn->record, &torn->dirty, &torn->part);
	if (kind == NAM__REDO_NONE)
		return -NAM_E_LOCK_ORPHANED;
	block.raw = torn->record[NAM__REDO_BLOCK];
	if (kind == NAM__REDO_ELSEWHERE) {
		/* I17: a damaged record may name other memory. */
		if (!nam_region_table_public(&index->client->regions, block))
			return -NAM_E_LOCK_ORPHANED;
		rc = nam_read_await(worker, nam_gaddr_untagged(block), torn->block,
			index->g.node_bytes); /* SUSPENDS */
		if (rc)
			return rc == -NAM_E_NOREGION ? -NAM_E_LOCK_ORPHANED : rc;
	}
	nam__redo_apply(&index->g, torn->image, torn->record,
		kind == NAM__REDO_ELSEWHERE ? torn->block : NULL, torn->dirty, torn->part);
	/* I20: the record of an earlier change leads to no whole image, or to the one before. */
	return is_whole(index, torn->image, at) || !NAM_GUARD(REDO_WHOLE) ? 0 :
		-NAM_E_LOCK_ORPHANED;
}

/* The image is complete here: take the lock, and write it. */
NAM_FIBER_FN static int
write_completed(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at,
	uint64_t dead, uint64_t word, struct torn *torn)
{
	struct nam__held held = { .at = at, .image = torn->image };
	struct nam__doorbell doorbell;
	uint64_t seen;
	int rc = nam_cas_await(worker, nam_gaddr_untagged(at), dead, word, &seen); /* SUSPENDS */

	if (rc)
		return rc;
	/* I20: another client was quicker. */
	if (seen != dead && NAM_GUARD(RECOVER_CAS))
		return -NAM_E_RESTART_LOCKED;
	nam_race_point("recover.torn_taken");
	nam__doorbell_init(&doorbell, worker, at);
	nam__image_post(&doorbell, index, &held, torn->dirty, torn->part);
	rc = nam__doorbell_await(&doorbell); /* SUSPENDS */
	torn->image[NAM__WORD_LOCK] = word;
	nam_race_point("recover.completed");
	return rc;
}

NAM_FIBER_FN static int
take_torn(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at, uint64_t dead,
	uint64_t word, uint64_t *image)
{
	uint32_t bytes = NAM_NODE_STAGGER_BYTES + index->g.node_bytes;
	struct torn torn = { .image = image, .record = nam_buffer_take(worker, bytes) };
	int rc;

	if (!torn.record)
		return -ENOMEM;
	torn.block = torn.record + NAM__REDO_WORDS;
	rc = complete(worker, index, at, &torn); /* SUSPENDS */
	nam_race_point("recover.torn_judged");
	if (!rc)
		rc = write_completed(worker, index, at, dead, word, &torn); /* SUSPENDS */
	nam_buffer_give(worker, torn.record, bytes);
	return rc;
}

int
nam__node_take(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at,
	uint64_t dead, uint64_t word, uint64_t *image)
{
	uint64_t seen;
	int rc;

	/* I20: there is more to repair than this node. */
	if (dead & NAM_LOCK_ASIDE && NAM_GUARD(ASIDE_STAYS))
		return -NAM_E_LOCK_ORPHANED;
	rc = nam_read_await(worker, at, image, index->g.node_bytes); /* SUSPENDS */
	if (rc)
		return rc;
	if (image[NAM__WORD_LOCK] != dead)
		return -NAM_E_RESTART_LOCKED;
	if (!is_whole(index, image, at))
		return take_torn(worker, index, at, dead, word, image); /* SUSPENDS */
	nam_race_point("recover.judged");
	rc = nam__lock_try_await(worker, at, dead, word, image, index->g.node_bytes,
		&seen); /* SUSPENDS */
	if (rc)
		return rc;
	nam_race_point("recover.taken");
	/* I20: another client was quicker. */
	return seen == dead || !NAM_GUARD(RECOVER_CAS) ? 0 : -NAM_E_RESTART_LOCKED;
}
