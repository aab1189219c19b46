/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drop.c -- give the nodes of an index back.
 */
#include <errno.h>

#include "maintain.h"

/*
 * A node is retired, not freed: operations that began before the index was dropped may still be in
 * it, and read it whole until they have left.  Those that begin later find the superblock's state.
 * The images are left as they are; whoever holds an old pointer sees another generation once the
 * block is in use again.
 *
 * The walk goes on reading nodes that it has retired (parents, as hints).  That is sound because
 * the walk itself is inside an operation.
 */
NAM_FIBER_FN static int
level_free(struct nam_worker *worker, struct nam_index *index, unsigned level,
	unsigned root_level)
{
	struct nam__walk walk;
	int rc;

	rc = nam__walk_open(&walk, worker, index, level, root_level);
	if (rc)
		return rc;
	/* The walk delivers no node twice, so no block is retired twice. */
	while ((rc = nam__walk_next(&walk)) > 0) { /* SUSPENDS */
		uint64_t holder = walk.image[NAM__WORD_LOCK];
		struct nam_gaddr at = walk.at;

		/* A lock that a dead client left never comes free: such a block serves nobody. */
		if (holder == NAM_LOCK_FREE ||
			nam__lock_owner_dead(worker, holder) == 0) /* SUSPENDS */
			nam_retire(worker, at, index->g.stride);
	}
	nam__walk_close(&walk);
	return rc;
}

/*
 * The root as it is now that nobody new comes in.  nam__root_level() would not say: for it the
 * index is gone.
 */
NAM_FIBER_FN static int
last_root(struct nam_worker *worker, struct nam_index *index, unsigned *ret_level)
{
	struct nam_superblock *superblock = nam_buffer_take(worker, sizeof(*superblock));
	uint64_t *image = nam_buffer_take(worker, index->g.node_bytes);
	int rc = -ENOMEM;

	if (!superblock || !image)
		goto give;
	rc = nam_read_await(worker, index->superblock, superblock,
		sizeof(*superblock)); /* SUSPENDS */
	if (rc)
		goto give;
	atomic_store_explicit(&index->root, superblock->root, memory_order_relaxed);
	rc = nam__node_read(worker, index, (struct nam_gaddr){ superblock->root }, -1,
		image); /* SUSPENDS */
	if (!rc)
		*ret_level = nam__node_level(image);
give:
	nam_buffer_give(worker, image, index->g.node_bytes);
	nam_buffer_give(worker, superblock, sizeof(*superblock));
	return rc;
}

int
nam__index_free_nodes(struct nam_worker *worker, struct nam_index *index)
{
	unsigned root_level = 0;
	int rc;

	rc = last_root(worker, index, &root_level); /* SUSPENDS */
	if (rc == -NAM_E_RESTART_DEAD)
		return 0;	/* a bulk load died between its steps 3 and 4: there is no tree */
	if (rc)
		return rc;
	/*
	 * What a split adds behind the walk stays allocated, and nothing leads to it; so does what
	 * lies to the right of a node that a dying client left torn.
	 */
	for (unsigned level = 0; level <= root_level; level++) {
		int level_rc = level_free(worker, index, level, root_level); /* SUSPENDS */

		if (!rc)
			rc = level_rc;
	}
	return rc;
}
