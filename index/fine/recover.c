/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover.c -- taking the lock of a node over from a client that is dead (I20).
 */
#include "index/index_internal.h"

/* An image that some writer wrote exactly so, of this index's node at `at`. */
static bool
is_whole(const struct nam_index *index, const uint64_t *image, struct nam_gaddr at)
{
	return nam__node_ends_agree(&index->g, image) &&
	       image[NAM__WORD_HASH] == nam__node_hash(&index->g, image, at);
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
		return -NAM_E_LOCK_ORPHANED;
	nam_race_point("recover.judged");
	rc = nam__lock_try_await(worker, at, dead, word, image, index->g.node_bytes,
		&seen); /* SUSPENDS */
	if (rc)
		return rc;
	nam_race_point("recover.taken");
	/* I20: another client was quicker. */
	return seen == dead || !NAM_GUARD(RECOVER_CAS) ? 0 : -NAM_E_RESTART_LOCKED;
}
