/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head_node.c -- head nodes (I10): made, and brought up to date by the collector (I15).
 *
 * The pass walks the chain and looks at one head group at a time: the leaves from one head node to
 * the next.  Writers go on meanwhile, so the pass checks its findings again under the lock of the
 * leaf concerned.  If they no longer hold, they are left for the next pass.
 */
#include <errno.h>
#include <stdlib.h>

#include "compute/remote/lock_slot.h"
#include "compute/worker/pace.h"
#include "maintain.h"

void
nam__head_init(const struct nam__geometry *g, uint64_t *node, uint32_t generation,
	const uint64_t *low, struct nam_gaddr next)
{
	/* An empty range: a reader with a key goes on to the right. */
	nam__node_init(g, node, NAM__NODE_HEAD, 0, generation, low, low);
	node[NAM__WORD_SIBLING] = next.raw;
}

static unsigned
head_fill(const struct nam__geometry *g, uint64_t *node, const struct nam_gaddr *leaves,
	unsigned count)
{
	if (count > g->head_capacity)
		count = g->head_capacity;
	memcpy(node + g->entries_at, leaves, 8ul * count);
	nam__node_set_counts(node, count, count);
	return count;
}

/* ---- one head group ------------------------------------------------------------------------ */

struct rebuild {
	struct nam_worker *worker;
	struct nam_index *index;
	struct nam_collect_stat *stat;
	unsigned interval;
	uint64_t *image;		/* of a node that is held */
	uint64_t *head_image;		/* of a head node that is held or being made */

	/* The group: its head node (null before the first one) and its leaves so far. */
	struct nam_gaddr head;
	struct nam_gaddr *hints;	/* what the head node holds */
	unsigned hints_count;
	struct nam_gaddr *leaves;
	unsigned count;			/* at most 2 * interval */
};

/*
 * Make a head node for the leaves from number `at` of the group on, and let the leaf before them
 * lead to it.  Its lock comes first, as its high fence is the head node's place.  -NAM_E_RESTART:
 * the chain looks different by now.
 */
NAM_FIBER_FN static int
head_insert(struct rebuild *rebuild, unsigned at, struct nam_gaddr *ret_head)
{
	struct nam_worker *worker = rebuild->worker;
	struct nam_index *index = rebuild->index;
	const struct nam__geometry *g = &index->g;
	struct nam__held leaf = { .image = rebuild->image };
	struct nam_gaddr next = rebuild->leaves[at], head;
	uint32_t generation;
	int rc, unlock_rc;

	rc = nam__node_alloc(worker, index, false, &head, &generation); /* SUSPENDS */
	if (rc)
		return rc;
	rc = nam__lock_node(worker, index, rebuild->leaves[at - 1], 0, &leaf); /* SUSPENDS */
	if (rc)
		goto free_head;
	/* I1: a leaf that came between would be lost to the chain. */
	if (NAM_GUARD(HEAD_PLACE) && (!nam_gaddr_same(nam__node_sibling(leaf.image), next) ||
			nam__node_last(leaf.image)))
		goto unlock_leaf;
	nam__head_init(g, rebuild->head_image, generation, nam__node_high(g, leaf.image), next);
	head_fill(g, rebuild->head_image, rebuild->leaves + at, rebuild->count - at);
	rc = nam__new_node_await(worker, index, head, rebuild->head_image); /* SUSPENDS */
	if (rc)
		goto unlock_leaf;
	nam_race_point("head.written");
	leaf.image[NAM__WORD_SIBLING] = head.raw;
	rc = nam__write_unlock(worker, index, &leaf, (struct nam__dirty){ 0, 0 },
		NAM__HEADER_SIBLING); /* SUSPENDS */
	if (rc)
		return rc;	/* the leaf may lead to it */
	nam_race_point("head.linked");
	rebuild->stat->heads_written++;
	*ret_head = head;
	return 0;

unlock_leaf:
	unlock_rc = nam__unlock(worker, &leaf); /* SUSPENDS */
	if (!rc)
		rc = unlock_rc ?: -NAM_E_RESTART;
free_head:
	nam_free_unseen(worker, head, g->stride);
	return rc;
}

/* Take a head node that is too close to the one before it out of the chain.  As head_insert. */
NAM_FIBER_FN static int
head_remove(struct rebuild *rebuild, struct nam_gaddr at)
{
	struct nam_worker *worker = rebuild->worker;
	struct nam_index *index = rebuild->index;
	struct nam__held leaf = { .image = rebuild->image };
	struct nam__held head = { .image = rebuild->head_image };
	int rc, unlock_rc;

	rc = nam__lock_node(worker, index, rebuild->leaves[rebuild->count - 1], 0,
		&leaf); /* SUSPENDS */
	if (rc)
		return rc;
	/* I1: a leaf that came between would be lost to the chain. */
	if (NAM_GUARD(HEAD_PLACE) && !nam_gaddr_same(nam__node_sibling(leaf.image), at))
		goto unlock_leaf;
	head.lock.word = nam__lock_word_new(worker);
	rc = nam__unqueued_lock(worker, index, at, 0, 0, &head); /* SUSPENDS */
	if (rc)
		goto unlock_leaf;
	/* First out of the chain, then dead: no reader is sent to a dead node. */
	leaf.image[NAM__WORD_SIBLING] = head.image[NAM__WORD_SIBLING];
	rc = nam__write_unlock(worker, index, &leaf, (struct nam__dirty){ 0, 0 },
		NAM__HEADER_SIBLING); /* SUSPENDS */
	if (rc) {
		unlock_rc = nam__unqueued_unlock(worker, &head); /* SUSPENDS */
		return rc ? rc : unlock_rc;
	}
	nam_race_point("head.unlinked");
	rc = nam__dead_unlock(worker, index, &head, nam__node_sibling(head.image)); /* SUSPENDS */
	if (rc)
		return rc;
	nam_race_point("head.buried");
	nam_retire(worker, at, index->g.stride);
	rebuild->stat->nodes_retired++;
	return 0;

unlock_leaf:
	unlock_rc = nam__unlock(worker, &leaf); /* SUSPENDS */
	return rc ?: unlock_rc ?: -NAM_E_RESTART;
}

/* Write the group's leaves into its head node, under its lock (I12).  They are hints (I10). */
NAM_FIBER_FN static int
head_rewrite(struct rebuild *rebuild, unsigned count)
{
	const struct nam__geometry *g = &rebuild->index->g;
	struct nam__held head = { .image = rebuild->head_image };
	int rc = nam__lock_node(rebuild->worker, rebuild->index, rebuild->head, 0,
		&head); /* SUSPENDS */

	if (rc)
		return rc;
	nam_race_point("head.locked");
	count = head_fill(g, head.image, rebuild->leaves, count);
	rc = nam__write_unlock(rebuild->worker, rebuild->index, &head,
		(struct nam__dirty){ g->entries_at, g->entries_at + count },
		NAM__HEADER_COUNTS); /* SUSPENDS */
	if (!rc)
		rebuild->stat->heads_written++;
	return rc;
}

/* The group is known up to `count` leaves: its head node must say so. */
NAM_FIBER_FN static int
group_check(struct rebuild *rebuild, unsigned count)
{
	int rc;

	if (count > rebuild->index->g.head_capacity)
		count = rebuild->index->g.head_capacity;
	if (nam_gaddr_is_null(rebuild->head) ||
		(count == rebuild->hints_count &&
			!memcmp(rebuild->hints, rebuild->leaves, 8ul * count)))
		return 0;
	rc = head_rewrite(rebuild, count); /* SUSPENDS */
	return nam__node_busy(rc) ? 0 : rc;
}

/* The group is too long: divide it after `interval` leaves, and go on with those behind. */
NAM_FIBER_FN static int
group_divide(struct rebuild *rebuild)
{
	unsigned interval = rebuild->interval, rest = rebuild->count - interval;
	struct nam_gaddr head = NAM_GADDR_NULL;
	int rc = group_check(rebuild, interval); /* SUSPENDS */

	if (rc)
		return rc;
	rc = head_insert(rebuild, interval, &head); /* SUSPENDS */
	if (rc && !nam__node_busy(rc))
		return rc;
	/* Where no head node could be put, go on as if there were one, but write nothing to it. */
	rebuild->head = head;
	memmove(rebuild->leaves, rebuild->leaves + interval, 8ul * rest);
	rebuild->count = rest;
	memcpy(rebuild->hints, rebuild->leaves, 8ul * rest);
	rebuild->hints_count = rest;
	return 0;
}

NAM_FIBER_FN static int
group_end(struct rebuild *rebuild)
{
	if (rebuild->count > rebuild->interval + rebuild->interval / 2) {
		int rc = group_divide(rebuild); /* SUSPENDS */

		if (rc)
			return rc;
	}
	return group_check(rebuild, rebuild->count); /* SUSPENDS */
}

/* ---- the pass ------------------------------------------------------------------------------ */

/* The walk has come to a head node: the group ends here, unless the head node is to go. */
NAM_FIBER_FN static int
meet_head(struct rebuild *rebuild, const uint64_t *image, struct nam_gaddr at)
{
	const struct nam__geometry *g = &rebuild->index->g;
	int rc;

	if (rebuild->count && rebuild->count < rebuild->interval / 2) {
		rc = head_remove(rebuild, at); /* SUSPENDS */
		if (!nam__node_busy(rc))
			return rc;
	}
	rc = group_end(rebuild); /* SUSPENDS */
	if (rc)
		return rc;
	rebuild->head = at;
	rebuild->count = 0;
	rebuild->hints_count = nam__node_count(image);
	memcpy(rebuild->hints, image + g->entries_at, 8ul * rebuild->hints_count);
	return 0;
}

NAM_FIBER_FN static int
rebuild_pass(struct rebuild *rebuild, unsigned root_level)
{
	struct nam__walk walk;
	int rc = nam__walk_open(&walk, rebuild->worker, rebuild->index, 0, root_level);

	if (rc)
		return rc;
	while (!(rc = nam__walk_next(&walk)) && walk.image) { /* SUSPENDS */
		rc = nam__worker_stopped(rebuild->worker);
		if (rc)
			break;
		/* Leaves have been visited as children of their parents. */
		if (nam__node_type(walk.image) == NAM__NODE_HEAD) {
			rebuild->stat->nodes_visited++;
			rc = meet_head(rebuild, walk.image, walk.at); /* SUSPENDS */
			if (rc)
				break;
			continue;
		}
		rebuild->leaves[rebuild->count++] = walk.at;
		if (rebuild->count == 2 * rebuild->interval) {
			rc = group_divide(rebuild); /* SUSPENDS */
			if (rc)
				break;
		}
	}
	if (!rc)
		rc = group_end(rebuild); /* SUSPENDS */
	nam__walk_close(&walk);
	return rc;
}

int
nam__heads_rebuild(struct nam_worker *worker, struct nam_index *index,
	unsigned root_level, struct nam_collect_stat *stat)
{
	const struct nam__geometry *g = &index->g;
	struct rebuild rebuild = {
		.worker = worker,
		.index = index,
		.stat = stat,
		.interval = nam__head_interval(index),
	};
	size_t room;
	int rc = -ENOMEM;

	if (!rebuild.interval)
		return 0;
	/* Hints are what an image holds, or the rest of a group that was divided. */
	room = 8ul * (2 * rebuild.interval + g->head_capacity);
	rebuild.hints = malloc(room);
	rebuild.leaves = malloc(room);
	rebuild.image = nam_buffer_take(worker, g->node_bytes);
	rebuild.head_image = nam_buffer_take(worker, g->node_bytes);
	if (rebuild.hints && rebuild.leaves && rebuild.image && rebuild.head_image)
		rc = rebuild_pass(&rebuild, root_level); /* SUSPENDS */
	if (nam_err_is(rc, NAM_E_RESTART))
		rc = 0;		/* the chain would not hold still: the next pass goes on */
	nam_buffer_give(worker, rebuild.head_image, g->node_bytes);
	nam_buffer_give(worker, rebuild.image, g->node_bytes);
	free(rebuild.leaves);
	free(rebuild.hints);
	return rc;
}
