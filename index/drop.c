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
 * The walk goes on reading nodes that it has retired (parents, as hints).  That is sound because the
 * walk itself is inside an operation.
 */
NAM_FIBER_FN static int
level_free(struct nam_worker *worker, struct nam_index *index, unsigned level)
{
	struct nam__walk walk;
	int rc;

	rc = nam__walk_open(&walk, worker, index, level); /* SUSPENDS */
	if (rc)
		return rc;
	/* The walk delivers no node twice, so no block is retired twice. */
	while ((rc = nam__walk_next(&walk)) > 0) /* SUSPENDS */
		nam_retire(worker, walk.at, index->g.stride);
	nam__walk_close(&walk);
	return rc;
}

int
nam__index_free_nodes(struct nam_worker *worker, struct nam_index *index)
{
	unsigned root_level;
	uint64_t word;
	int rc;

	/* A collector retires nodes, too.  It would come upon those that we have retired. */
	rc = nam__collector_enter(worker, index, &word); /* SUSPENDS */
	if (!rc)
		rc = nam__root_level(worker, index, &root_level); /* SUSPENDS */
	for (unsigned level = 0; !rc && level <= root_level; level++)
		rc = level_free(worker, index, level); /* SUSPENDS */
	return rc;
}
