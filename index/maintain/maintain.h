/* SPDX-License-Identifier: Apache-2.0 */
/*
 * maintain.h -- what the operations on whole trees share: locks held beside the queue, the
 * collector's word, and walks along a level.
 *
 * ASSUMPTIONS	The caller is between nam__op_begin() and nam__op_end().
 * ERRORS	As in index_internal.h; RESTART codes mean "not now", never damage.
 */
#ifndef NAM_INDEX_MAINTAIN_MAINTAIN_H
#define NAM_INDEX_MAINTAIN_MAINTAIN_H

#include "index/index_internal.h"
#include "index/maintain/collector_word.h"

/* ---- unqueued_lock.c: locks beside the queue ----------------------------------------------- */

/**
 * nam__unqueued_lock -- lock and read one node without entering the process's queue for its slot.
 *
 * For callers that hold other locks already, or will hold this one for long.  Slots of the queue
 * are shared by unrelated nodes and waited for without a bound, so neither may happen inside one.
 * Since a holder of several locks only ever tries, it cannot be part of a cycle of waiters.
 *
 * @timeout_ns	how long to try; 0: a moment
 * @held	`image` and `lock.word` are the caller's
 *
 * Returns 0, or a FABRIC code.  -NAM_E_RESTART_LOCKED (the holder lives), -NAM_E_LOCK_ORPHANED (it
 * died; the diag names it); -NAM_E_RESTART_TORN, -NAM_E_RESTART_DEAD (the image, validated).
 * -NAM_E_FENCED (another client overwrote the word just taken).
 * Nothing is held on failure.
 */
NAM_FIBER_FN int nam__unqueued_lock(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr at, int level, uint64_t timeout_ns,
	struct nam__held *held) NAM_MUST_CHECK;

/* Release what nam__unqueued_lock() took, after the writes under it are done. */
NAM_FIBER_FN int nam__unqueued_unlock(struct nam_worker *worker,
	struct nam__held *held) NAM_MUST_CHECK;

/**
 * nam__dead_unlock -- mark a node under an unqueued lock dead and release it.
 *
 * @forward	its sibling from now on: the node that has its range
 *
 * The caller's next step: nam_retire() once no pointer leads to the node.
 */
NAM_FIBER_FN int nam__dead_unlock(struct nam_worker *worker, struct nam_index *index,
	struct nam__held *held, struct nam_gaddr forward) NAM_MUST_CHECK;

/* ---- stat.c -------------------------------------------------------------------------------- */

/*
 * Add the nodes of a level.  @seen	its fn may be NULL; else the operation ends, and another one
 *	begins, after each slice
 */
NAM_FIBER_FN int nam__count_level(struct nam_worker *worker, struct nam_index *index,
	unsigned level, unsigned root_level, struct nam_index_stat *stat,
	const struct nam__seen *seen) NAM_MUST_CHECK;

/* ---- index.c ------------------------------------------------------------------------------- */

/*
 * All nodes of clients, for a sweep: those that are there throughout, the head nodes too.
 * Several operations, and not within one.  RESTART codes: a node cannot be read.
 */
NAM_FIBER_FN int nam__index_nodes(struct nam_worker *worker, struct nam_index *index,
	const struct nam__seen *seen) NAM_MUST_CHECK;

/* ---- drop.c -------------------------------------------------------------------------------- */

/*
 * Kill and retire all nodes of a level, or all leaves of a handle that has only these: see
 * nam__fine_free().
 */
NAM_FIBER_FN int nam__level_free(struct nam_worker *worker, struct nam_index *index,
	unsigned level, unsigned root_level) NAM_MUST_CHECK;

/* ---- walk.c: along a level ----------------------------------------------------------------- */

/* Whether a node can lie there at all.  Do not post for a damaged pointer what a fabric refuses. */
bool nam__node_readable(const struct nam_worker *worker, const struct nam_index *index,
	struct nam_gaddr at);

#define NAM__WINDOW_NODES 16u

/* Images of nodes that a parent names next to each other, read with one doorbell. */
struct nam__window {
	struct nam_worker *worker;
	struct nam_index *index;
	uint64_t *images;
	unsigned count;
	struct nam_gaddr at[NAM__WINDOW_NODES];
};

int nam__window_init(struct nam__window *window, struct nam_worker *worker,
	struct nam_index *index) NAM_MUST_CHECK;
void nam__window_done(struct nam__window *window);

/**
 * nam__window_read -- the image of a node, not validated, from the window or from remote memory.
 *
 * @parent	NULL, or an image whose child number `entry` may be the node: then its right
 *		neighbours are read along with it
 * @ret_image	valid until the next call; the caller may read it anew in place
 */
NAM_FIBER_FN int nam__window_read(struct nam__window *window, struct nam_gaddr at,
	const uint64_t *parent, unsigned entry, uint64_t **ret_image) NAM_MUST_CHECK;
/* As nam__window_read(), validated as nam__node_read() does: a torn image is READ anew. */
NAM_FIBER_FN int nam__window_node(struct nam__window *window, struct nam_gaddr at, int level,
	const uint64_t *parent, unsigned entry, uint64_t **ret_image) NAM_MUST_CHECK;

/*
 * From left to right along one level; head nodes come along at level 0.  Concurrent changes are
 * survived: no node is delivered twice.  Nodes that were there throughout are delivered, if only
 * with the images of slightly different moments.
 */
struct nam__walk {
	struct nam_worker *worker;
	struct nam_index *index;
	unsigned level;
	uint64_t *image;		/* of the node delivered last; until the next call */
	struct nam_gaddr at;		/* its address, tagged */

	struct nam__window window;
	uint64_t *parent;		/* hints for the window */
	bool parent_valid, parents_exist;
	bool ended;
	bool repeats;			/* rather deliver a node twice than leave one out */
	bool again;			/* found the way anew: what follows may be known already */
	bool was_head;			/* the node delivered last */
	unsigned restarts;		/* and steps that delivered nothing, since one that did */
	uint64_t stuck_since_ns;	/* 0: not since then */
	struct nam_gaddr next;		/* null: to be found by `from` */
	struct nam__key from;		/* everything below has been delivered */
};

/* @root_level	as nam__root_find() said a moment ago; `level` is at most that.  0 or -ENOMEM. */
int nam__walk_open(struct nam__walk *walk, struct nam_worker *worker, struct nam_index *index,
	unsigned level, unsigned root_level) NAM_MUST_CHECK;
/* Sets walk->image and walk->at; the image is NULL at the end.  0, or as nam__node_read(). */
NAM_FIBER_FN int nam__walk_next(struct nam__walk *walk) NAM_MUST_CHECK;
/*
 * The operation ends.  In the next one the walk goes on with the node that has the key range of the
 * last one delivered.  That is no head node.
 */
void nam__walk_leave(struct nam__walk *walk);
void nam__walk_close(struct nam__walk *walk);

/* ---- head_node.c --------------------------------------------------------------------------- */

/* Leaves per head node: the index's interval, or less where a node cannot hold so many. */
static inline unsigned
nam__head_interval(const struct nam_index *index)
{
	unsigned interval = index->options.head_interval;

	return interval < index->g.head_capacity ? interval : index->g.head_capacity;
}

/* An empty head node in front of the leaf `next`, whose low fence is `low`. */
void nam__head_init(const struct nam__geometry *g, uint64_t *node, uint32_t generation,
	const uint64_t *low, struct nam_gaddr next);

static inline struct nam_gaddr
nam__head_entry(const struct nam__geometry *g, const uint64_t *node, unsigned number)
{
	return (struct nam_gaddr){ node[g->entries_at + number] };
}

/**
 * nam__heads_rebuild -- bring the head nodes of an index up to date.  The caller is the collector.
 *
 * Adds to ret_stat what it did.  Nodes that are busy are left for the next pass.
 */
NAM_FIBER_FN int nam__heads_rebuild(struct nam_worker *worker, struct nam_index *index,
	unsigned root_level, struct nam_collect_stat *stat) NAM_MUST_CHECK;

#endif /* NAM_INDEX_MAINTAIN_MAINTAIN_H */
