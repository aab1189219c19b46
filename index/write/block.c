/* SPDX-License-Identifier: Apache-2.0 */
/* block.c -- blocks for nodes, and for redo records that need one. */
#include <errno.h>

#include "common/race.h"
#include "compute/remote/spare.h"
#include "image_write.h"

#define CLAIMS_MAX 8u			/* of blocks that other clients have locked, in a try */

/* The generation of the last node in a block. */
NAM_FIBER_FN static int
generation_read(struct nam_worker *worker, struct nam_gaddr at, uint32_t *ret_generation)
{
	uint64_t *words = nam_buffer_take(worker, 64);
	int rc;

	if (!words)
		return -ENOMEM;
	rc = nam_read_await(worker, at, words, 64); /* SUSPENDS */
	*ret_generation = nam__node_generation(words);
	nam_buffer_give(worker, words, 64);
	return rc;
}

/* I3: from here on pointers of the node that was there lead to restarts. */
NAM_FIBER_FN static int
generation_write(struct nam_worker *worker, struct nam_gaddr at, uint32_t generation)
{
	uint64_t *shape = nam_buffer_take(worker, 8);
	struct nam_batch batch;
	int rc;

	if (!shape)
		return -ENOMEM;
	*shape = generation;
	nam_batch_init(&batch, worker);
	nam_batch_write(&batch, at, 8 * NAM__WORD_SHAPE, shape, 8);
	rc = nam_batch_await(&batch); /* SUSPENDS */
	nam_buffer_give(worker, shape, 8);
	return rc;
}

/*
 * I3: the block may have been a node that is not dead.  A writer with a warm cache may be at it, or
 * come to it.  So its generation is one more, under its lock.
 *
 * -NAM_E_RESTART_LOCKED: a client that is not dead has the lock.
 */
NAM_FIBER_FN static int
block_claim(struct nam_worker *worker, struct nam_gaddr at, uint32_t *ret_generation)
{
	uint64_t word = nam__lock_word_new(worker), held = NAM_LOCK_FREE, seen;
	uint64_t *words = nam_buffer_take(worker, 64);
	struct nam__lock_holder holder;
	int rc = words ? nam__lock_try_await(worker, at, NAM_LOCK_FREE, word, words, 64,
		&seen) : -ENOMEM; /* SUSPENDS */

	if (!rc && seen != NAM_LOCK_FREE) {
		held = seen;
		rc = nam__lock_holder_query(worker, held, &holder); /* SUSPENDS */
		if (!rc)
			rc = holder.dead ? nam__lock_try_await(worker, at, held, word, words, 64,
				&seen) : -NAM_E_RESTART_LOCKED; /* SUSPENDS */
	}
	if (rc == -NAM_E_RESTART_LOCKED || (!rc && seen != held))
		rc = nam_diag_set(&worker->diag, -NAM_E_RESTART_LOCKED, "a client that is alive "
			"has locked a block that a sweep freed: try again, or end that client");
	if (!rc) {
		*ret_generation = nam__node_generation(words) + 1;
		rc = generation_write(worker, at, *ret_generation); /* SUSPENDS */
	}
	if (!rc)
		rc = nam__lock_word_cas(worker, at, word, NAM_LOCK_FREE, &seen); /* SUSPENDS */
	nam__unqueued_word_forget(worker, at, word);
	if (!rc && seen != word)
		rc = -NAM_E_FENCED;
	nam_buffer_give(worker, words, 64);
	return rc;
}

/* I3: the generation of the next node in a block that was used before.  As block_claim(). */
NAM_FIBER_FN static int
generation_next(struct nam_worker *worker, struct nam_gaddr tagged, uint32_t *ret_generation)
{
	struct nam_gaddr at = nam_gaddr_untagged(tagged);
	int rc;

	if (nam_gaddr_tag(tagged) == NAM_BLOCK_SWEPT && NAM_GUARD(NODE_CLAIM))
		return block_claim(worker, at, ret_generation); /* SUSPENDS */
	/* Unlike what old pointers promise: one more than the last one here. */
	rc = generation_read(worker, at, ret_generation); /* SUSPENDS */
	nam_race_point("alloc.generation_read");
	++*ret_generation;
	return rc;
}

/* A block that a sweep freed, and a client has locked, stays allocated until the next sweep. */
static void
block_leave(struct nam_worker *worker, struct nam_gaddr tagged, uint32_t stride)
{
	if (nam_gaddr_tag(tagged) == NAM_BLOCK_RECYCLED)
		nam_free_unseen(worker, nam_gaddr_untagged(tagged), stride);
}

int
nam__node_alloc(struct nam_worker *worker, struct nam_index *index, bool evenly,
	struct nam_gaddr *ret_at, uint32_t *ret_generation)
{
	uint32_t generation = 1, claims = 0;
	struct nam_gaddr at;
	int rc;

	do {
		rc = evenly ? nam_alloc_evenly(worker, index->g.stride, &at) : nam_alloc(worker,
			index->g.stride, &at); /* SUSPENDS */
		if (rc || nam_gaddr_tag(at) == NAM_BLOCK_FRESH)
			break;
		rc = generation_next(worker, at, &generation); /* SUSPENDS */
		if (rc)
			block_leave(worker, at, index->g.stride);
	} while (rc == -NAM_E_RESTART_LOCKED && ++claims < CLAIMS_MAX);
	if (rc)
		return rc;
	*ret_at = nam_gaddr_tagged(at, (uint16_t)generation);
	*ret_generation = generation;
	return 0;
}

void
nam__redo_block_post(struct nam__doorbell *doorbell, const struct nam_index *index,
	struct nam__held *held, struct nam__dirty dirty, enum nam__header_part part,
	struct nam__redo *redo)
{
	struct nam_worker *worker = doorbell->worker;
	struct nam__dirty words = nam__redo_elsewhere(&index->g, dirty, part);
	uint32_t bytes = 8 * nam__dirty_words(words);
	struct nam_gaddr tagged, at;
	struct nam_wr *wr;
	uint32_t generation = 0;

	if (doorbell->server < 0 || nam__spare_take(worker, (uint32_t)doorbell->server,
			index->g.stride, &tagged)) /* SUSPENDS */
		return;
	at = nam_gaddr_untagged(tagged);
	/* I3, I20: a reader with an old pointer would find a torn node, so a generation begins. */
	if (nam_gaddr_tag(tagged) != NAM_BLOCK_FRESH && NAM_GUARD(REDO_BLOCK) &&
		(generation_next(worker, tagged, &generation) || /* SUSPENDS */
			generation_write(worker, at, generation))) { /* SUSPENDS */
		block_leave(worker, tagged, index->g.stride);
		return;
	}
	/* In the places of a node, without the header: it is that of the last node there. */
	wr = nam__doorbell_add(doorbell, NAM_WR_WRITE, 0, held->image + words.first, bytes);
	(void)nam__resolve(worker, at, 8 * words.first, bytes, wr);
	doorbell->bytes_out += bytes;
	redo->block = at;
	redo->words[1 + NAM__REDO_BLOCK] = at.raw;
}

void
nam__redo_block_give(struct nam_worker *worker, const struct nam_index *index,
	struct nam_gaddr block)
{
	const struct nam_region *region = nam_region_table_find(&worker->client->regions, block);

	if (region)
		nam__spare_give(worker, region->server, block, index->g.stride);
}
