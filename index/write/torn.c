/* SPDX-License-Identifier: Apache-2.0 */
/* torn.c -- completing a node that a dead client left half-written (I20). */
#include <errno.h>

#include "compute/backup/backups.h"
#include "compute/remote/lock_slot.h"
#include "torn.h"
#include "image_write.h"

/* A torn image, and what its record says of it. */
struct torn {
	uint64_t *image;
	uint64_t *record, *block;	/* of one buffer */
	struct nam__dirty dirty;
	enum nam__header_part part;
};

static uint32_t
record_bytes(const struct nam_index *index)
{
	return NAM_NODE_STAGGER_BYTES + index->g.node_bytes;
}

/*
 * Complete a torn image by its record.  -NAM_E_LOCK_ORPHANED: none leads to a whole image; -ENOMEM;
 * or a FABRIC code.  torn_close() in any case.
 */
NAM_FIBER_FN static int
torn_open(struct nam_worker *worker, const struct nam_index *index, struct nam_gaddr at,
	uint64_t *image, struct torn *torn)
{
	struct nam_gaddr block, record = nam_gaddr_make(nam_gaddr_region(at),
		nam_gaddr_offset(at) + index->g.node_bytes, 0);
	uint64_t *rear = image + index->g.node_words - 1, torn_rear = *rear;
	enum nam__redo_kind kind;
	int rc;

	*torn = (struct torn){ .image = image,
		.record = nam_buffer_take(worker, record_bytes(index)) };
	if (!torn->record)
		return -ENOMEM;
	torn->block = torn->record + NAM__REDO_WORDS;
	/* I20: the rear word came, and of its record only a part. */
	*rear = torn->image[NAM__WORD_FRONT];
	if (NAM_GUARD(REDO_REAR) && nam__node_is_whole(index, torn->image, at))
		return 0;
	rc = nam_read_await(worker, record, torn->record, NAM_NODE_STAGGER_BYTES); /* SUSPENDS */
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
	if (!nam__node_is_whole(index, torn->image, at) && NAM_GUARD(REDO_WHOLE))
		return -NAM_E_LOCK_ORPHANED;
	/* I20: a reader may have the front word of that one, and a part of the torn one. */
	if (torn_rear >> 16 > nam__node_version(torn->image) && NAM_GUARD(REDO_VERSION)) {
		torn->image[NAM__WORD_FRONT] = (torn_rear & ~0xffffull) |
			(torn->image[NAM__WORD_FRONT] & 0xffff);
		nam__node_seal(&index->g, torn->image, at);
	}
	return 0;
}

static void
torn_close(struct nam_worker *worker, const struct nam_index *index, const struct torn *torn)
{
	nam_buffer_give(worker, torn->record, record_bytes(index));
}

/*
 * I20: all words, for a record of an earlier change does not say which ones the dead client wrote.
 */
NAM_FIBER_FN static int
torn_write(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at,
	struct torn *torn)
{
	struct nam__held held = { .at = at, .image = torn->image };
	struct nam__doorbell doorbell;
	int rc;

	if (NAM_GUARD(REDO_ALL)) {
		torn->dirty = (struct nam__dirty){ index->g.entries_at, index->g.node_words - 1 };
		torn->part = NAM__HEADER_FENCES;
	}
	nam__doorbell_init(&doorbell, worker, at);
	nam__doorbell_write(&doorbell, index->g.node_bytes - 8,
		torn->image + index->g.node_words - 1, 8);
	nam__image_post(&doorbell, index, &held, torn->dirty, torn->part);
	rc = nam__doorbell_await(&doorbell); /* SUSPENDS */
	nam_race_point("recover.completed");
	return rc;
}

/* Whether another client has completed the node since this one read it. */
NAM_FIBER_FN static int
look_again(struct nam_worker *worker, struct nam_gaddr at, uint64_t dead, uint64_t *word)
{
	int rc = nam_read_await(worker, nam_gaddr_untagged(at), word, 8); /* SUSPENDS */

	return rc || *word != dead ? rc ?: -NAM_E_RESTART_LOCKED : -NAM_E_LOCK_ORPHANED;
}

/* The image is complete here: take the lock, and write it. */
NAM_FIBER_FN static int
torn_take(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at, uint64_t dead,
	uint64_t word, struct torn *torn)
{
	uint64_t seen;
	int rc;

	nam__unqueued_word_note(worker, at, word, false);
	rc = nam__lock_word_cas(worker, nam_gaddr_untagged(at), dead, word, &seen); /* SUSPENDS */
	if (!rc && seen == dead)
		nam__unqueued_word_note(worker, at, word, true);
	else
		nam__unqueued_word_forget(worker, at, word);

	if (rc)
		return rc;
	/* I20: another client was quicker. */
	if (seen != dead && NAM_GUARD(RECOVER_CAS))
		return -NAM_E_RESTART_LOCKED;
	nam_race_point("recover.torn_taken");
	rc = torn_write(worker, index, at, torn); /* SUSPENDS */
	torn->image[NAM__WORD_LOCK] = word;
	return rc;
}

int
nam__torn_complete(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at,
	uint64_t dead, uint64_t word, uint64_t *image)
{
	struct torn torn;
	int rc;

	nam_race_point("recover.torn_read");
	rc = torn_open(worker, index, at, image, &torn); /* SUSPENDS */
	/* I20: the record may be of a later change than the image. */
	if (rc == -NAM_E_LOCK_ORPHANED && NAM_GUARD(TORN_WORD))
		rc = look_again(worker, at, dead, torn.record); /* SUSPENDS */
	nam_race_point("recover.torn_validated");
	if (!rc)
		rc = word == dead ? torn_write(worker, index, at, &torn) :
			torn_take(worker, index, at, dead, word, &torn); /* SUSPENDS */
	torn_close(worker, index, &torn);
	return rc;
}

int
nam__torn_free_complete(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at,
	uint64_t *image)
{
	uint64_t word = nam__lock_word_new(worker), seen;
	struct torn torn;
	int unlock_rc, rc;

	if (worker->reads_only || !nam__may_be_promoted(worker->client, at))
		return 0;
	rc = torn_open(worker, index, at, image, &torn); /* SUSPENDS */
	torn_close(worker, index, &torn);
	/* Without a record it may be no node, and have no lock word. */
	if (rc)
		return rc == -NAM_E_LOCK_ORPHANED ? 0 : rc;
	rc = nam__lock_try_await(worker, at, NAM_LOCK_FREE, word, image, index->g.node_bytes,
		&seen); /* SUSPENDS */
	if (rc || seen != NAM_LOCK_FREE)
		return rc;
	/* I20: completed under the lock. */
	if (!nam__node_is_whole(index, image, at))
		rc = nam__torn_complete(worker, index, at, word, word, image); /* SUSPENDS */
	unlock_rc = nam__lock_word_cas(worker, nam_gaddr_untagged(at), word, NAM_LOCK_FREE,
		&seen); /* SUSPENDS */
	nam__unqueued_word_forget(worker, at, word);
	return rc == -NAM_E_LOCK_ORPHANED ? unlock_rc : rc ?: unlock_rc;
}

int
nam__node_copy_whole(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at,
	uint64_t *image)
{
	struct torn whole = { .image = image };
	uint16_t slot = nam__server_slot(worker->client, at);

	if (slot == NAM__NO_SLOT || !nam__is_backed(worker->client, slot))
		return 0;
	return torn_write(worker, index, at, &whole); /* SUSPENDS */
}
