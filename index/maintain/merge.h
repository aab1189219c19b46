/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h -- merging two neighbours, and completing what a dead collector has begun to merge.
 */
#ifndef NAM_INDEX_MAINTAIN_MERGE_H
#define NAM_INDEX_MAINTAIN_MERGE_H

#include "index/index_internal.h"

/*
 * The merge that the collector is about to do; behind the superblock.  It counts until `word` is
 * cleared.  Only the holder of the collector's word writes it (I15).
 */
struct nam__merge_intent {
	uint64_t word;			/* the lock word of all these nodes; NAM_LOCK_FREE: none */
	uint64_t parent, left, right, head;	/* tagged gaddrs; parent, head: may be null */
	uint32_t level;			/* of left and right */
	uint32_t part;			/* hybrid */
	uint64_t unused;
	uint64_t hash;			/* of what is before, mixed with the index's seed */
};
static_assert(sizeof(struct nam__merge_intent) == 64, "remote layout");

/* A merge, for one after the other.  All its locks have one word. */
struct nam__merge {
	struct nam_worker *worker;
	struct nam_index *index;
	/* The images are this merge's; between two merges others may use them. */
	struct nam__held parent, left, right, head;	/* hybrid: no parent; `at` is null */
	struct nam__merge_intent *intent;	/* registered, as the images are */
	unsigned level;
	int name_rc;			/* hybrid: not 0: the name of `right` may still be there */
	bool over;			/* its intent is gone: what is dead is this client's */
	bool stuck;			/* half done, as a write failed: its locks stay set */
};

int nam__merge_init(struct nam__merge *merge, struct nam_worker *worker,
	struct nam_index *index) NAM_MUST_CHECK;
void nam__merge_done(struct nam__merge *merge);

/* Whether neighbours with so many entries are to be merged. */
bool nam__mergeable(const struct nam__geometry *g, unsigned level, unsigned left, unsigned right);

/**
 * nam__merge_pair -- merge R into L, if they and their parent are as they were seen.
 *
 * @stat	counts what was done
 * @ret_count	L's new number of entries
 *
 * The caller is the collector.  Returns 0; -NAM_E_RESTART: they are not as they were seen, and
 * nothing was done; or another failure, also if R's name alone is left (H3).  Nothing is held
 * afterwards, unless merge->stuck.
 *
 * Cost:	9 round trips; 12 through a head node.
 */
NAM_FIBER_FN int nam__merge_pair(struct nam__merge *merge, unsigned level,
	struct nam_gaddr parent_at, struct nam_gaddr left_at, struct nam_gaddr right_at,
	struct nam_collect_stat *stat, unsigned *ret_count) NAM_MUST_CHECK;

/*
 * The intent of a merge that is under way, or was when its collector died.  If there is none, or a
 * part of one, its word is NAM_LOCK_FREE.
 */
NAM_FIBER_FN int nam__merge_intent_read(struct nam_worker *worker, struct nam_index *index,
	struct nam__merge_intent *ret_intent) NAM_MUST_CHECK;

/**
 * nam__merge_resume -- complete the merge that a dead collector has left half done, or undo it.
 *
 * @index	of any part of the index
 *
 * A node that is half-written, and that no record completes, stays locked.
 *
 * The caller is the collector.  Returns 0, also if there is none, or a FABRIC code.
 */
NAM_FIBER_FN int nam__merge_resume(struct nam_worker *worker,
	struct nam_index *index) NAM_MUST_CHECK;

#endif /* NAM_INDEX_MAINTAIN_MERGE_H */
