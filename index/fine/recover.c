/* SPDX-License-Identifier: Apache-2.0 */
/* recover.c -- taking the lock of a node over from a client that is dead (I20). */
#include "compute/remote/lock.h"
#include "fine.h"
#include "index/maintain/maintain.h"
#include "index/maintain/merge.h"
#include "index/write/torn.h"

/*
 * A lock of a merge.  0: nothing is half-merged, and it is a lock like any other.
 * -NAM_E_RESTART_LOCKED: the merge is completed, or undone.
 */
NAM_FIBER_FN static int
merge_end(struct nam_worker *worker, struct nam_index *index, uint64_t dead)
{
	struct nam__merge_intent intent;
	int rc = nam__merge_intent_read(worker, index, &intent); /* SUSPENDS */

	if (rc || intent.word != dead || !NAM_GUARD(MERGE_ENDS))
		return rc;
	/*
	 * I15, I20: two clients that complete it would undo each other's changes.  The merge's
	 * collector died with the word, so the next one resumes the merge.
	 */
	rc = nam__merge_complete(worker, index); /* SUSPENDS */
	return rc ? rc : -NAM_E_RESTART_LOCKED;
}

int
nam__node_take(struct nam_worker *worker, void *of, struct nam_gaddr at, uint64_t dead,
	uint64_t word, void *ret_image)
{
	struct nam_index *index = of;
	uint64_t *image = ret_image, seen;
	int rc = 0;

	/* I20: there may be more to repair than this node. */
	if (dead & NAM_LOCK_MERGES)
		rc = merge_end(worker, index, dead); /* SUSPENDS */
	/* I20: a backup may have it, from a merge or as it was filled.  It is to be free there. */
	if (!rc)
		rc = nam__backed_lock(worker, at, dead, NAM_LOCK_FREE); /* SUSPENDS */
	if (rc)
		return rc;
	rc = nam_read_await(worker, at, image, index->g.node_bytes); /* SUSPENDS */
	if (rc)
		return rc;
	if (image[NAM__WORD_LOCK] != dead)
		return -NAM_E_RESTART_LOCKED;
	if (!nam__node_is_whole(index, image, at))
		return nam__torn_complete(worker, index, at, dead, word, image); /* SUSPENDS */
	nam_race_point("recover.validated");
	rc = nam__lock_try_await(worker, at, dead, word, image, index->g.node_bytes,
		&seen); /* SUSPENDS */
	if (rc)
		return rc;
	nam_race_point("recover.taken");
	/* I20: another client was quicker. */
	if (seen != dead && NAM_GUARD(RECOVER_CAS))
		return -NAM_E_RESTART_LOCKED;
	return nam__node_copy_whole(worker, index, at, image); /* SUSPENDS */
}
