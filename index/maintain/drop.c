/* SPDX-License-Identifier: Apache-2.0 */
/* drop.c -- give the nodes of an index back. */
#include <errno.h>

#include "compute/remote/lock_slot.h"
#include "index/fine/fine.h"
#include "maintain.h"

/*
 * Mark one node dead, under its lock, and retire it.  Without the mark, clients whose cache leads
 * here would go on writing, perhaps when the block has its next owner (I3).
 */
NAM_FIBER_FN static int
node_free(struct nam__walk *walk, uint64_t timeout_ns, struct nam__held *held)
{
	const struct nam__geometry *g = &walk->index->g;
	int rc;

	held->lock.word = nam__lock_word_new(walk->worker);
	rc = nam__unqueued_lock(walk->worker, walk->index, walk->at, (int)walk->level, timeout_ns,
		held); /* SUSPENDS */
	if (rc)
		return rc;
	/* Split since the walk read it: its new sibling comes next. */
	if (nam__node_version(held->image) != nam__node_version(walk->image) &&
		nam__node_type(held->image) != NAM__NODE_HEAD) {
		walk->next = nam__node_sibling(held->image);
		walk->ended = nam__node_last(held->image);
		if (!walk->ended)
			memcpy(walk->from.w, nam__node_high(g, held->image), 8 * g->full_words);
	}
	rc = nam__dead_unlock(walk->worker, walk->index, held,
		nam__node_sibling(held->image)); /* SUSPENDS */
	if (!rc)
		nam_retire(walk->worker, walk->at, g->stride);
	return rc;
}

/*
 * From left to right, so that dead nodes lie behind the walk.  A node that cannot be locked stays
 * as it is, until a sweep.
 */
int
nam__level_free(struct nam_worker *worker, struct nam_index *index, unsigned level,
	unsigned root_level)
{
	uint64_t timeout_ns = worker->client->options.lock_timeout_ms * 1000000ull;
	/* The images of a walk belong to the walk; this is for the node in hand. */
	struct nam__held held = { .image = nam_buffer_take(worker, index->g.node_bytes) };
	struct nam__walk walk;
	int rc;

	if (!held.image)
		return -ENOMEM;
	rc = nam__walk_open(&walk, worker, index, level, root_level);
	if (rc)
		goto give_image;
	/* The walk delivers no node twice, so no block is retired twice. */
	while (!(rc = nam__walk_next(&walk)) && walk.image) { /* SUSPENDS */
		rc = node_free(&walk, timeout_ns, &held); /* SUSPENDS */
		if (nam_err_is(rc, NAM_E_FABRIC))
			break;
		if (!rc)
			continue;
		nam__block_leaked(worker->client, index->g.stride);
		/* A client that keeps one node may keep many: do not wait each time. */
		timeout_ns = 0;
	}
	nam__walk_close(&walk);
give_image:
	nam_buffer_give(worker, held.image, index->g.node_bytes);
	return rc;
}

/* The root, now that no client comes in: for nam__root_find() the index is gone. */
NAM_FIBER_FN static int
last_root(struct nam_worker *worker, struct nam_index *index, uint64_t *ret_root,
	unsigned *ret_level)
{
	uint64_t *image = nam_buffer_take(worker, index->g.node_bytes);
	struct nam_superblock superblock;
	int rc = -ENOMEM;

	if (!image)
		return rc;
	for (unsigned tries = 0; tries < 2; tries++) {
		struct nam_gaddr root;

		rc = nam__superblock_read(worker, index, &superblock); /* SUSPENDS */
		if (rc)
			break;
		root.raw = *ret_root = superblock.root;
		/* Also if handles forget meanwhile: this one serves one operation. */
		atomic_store_explicit(&index->root, superblock.root, memory_order_relaxed);
		rc = nam__node_read(worker, index, root, NAM__ANY_LEVEL, image); /* SUSPENDS */
		if (!rc)
			*ret_level = nam__node_level(image);
		if (rc != -NAM_E_RESTART_DEAD)
			break;
		rc = nam__root_follow(worker, index, root, image); /* SUSPENDS */
		rc = rc ? rc : -NAM_E_RESTART_DEAD;
	}
	nam_buffer_give(worker, image, index->g.node_bytes);
	return rc;
}

int
nam__fine_free(struct nam_worker *worker, struct nam_index *index, bool lost)
{
	unsigned root_level = 0, level = 0;
	uint64_t root = 0, seen = 1;
	int rc = 0, step_rc = 0;

	/* Without a root the tree does not grow any more.  Until then another client may do so. */
	while (!lost && !step_rc && seen != root) {
		step_rc = last_root(worker, index, &root, &root_level); /* SUSPENDS */
		rc = rc ?: step_rc;
		if (step_rc)
			break;
		/* From below, so that the way to a level is there until it is done. */
		for (; level <= root_level; level++) {
			step_rc = nam__level_free(worker, index, level, root_level); /* SUSPENDS */
			rc = rc ?: step_rc;
		}
		/* I3: the last pointer to the retired nodes goes, before they are labelled. */
		step_rc = nam_cas_await(worker, index->superblock, root, 0, &seen); /* SUSPENDS */
		rc = rc ?: step_rc;
	}
	return rc;
}
