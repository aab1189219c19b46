/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.c -- one pass of the garbage collector: merge sparse neighbours, name forgotten nodes,
 * rebuild head nodes, and make retired memory reusable.
 *
 * A merge, for neighbours L and R that one parent P names next to each other:
 *
 *	step 1	lock P; then L, R and a head node H between them, if there is one.
 *	step 2	WRITE L with the entries, high fence and sibling of R.  Keep the lock.
 *	step 3	WRITE P without R's separator.  Keep the lock.
 *	step 4	WRITE H and R dead, with R's sibling leading to L; unlock them.
 *	step 5	unlock L, then P.
 *	step 6	retire H and R.
 *
 * R dies under P's lock and its own, once P does not name it (I13).  The holder of the collector's
 * word alone does so (I15).  Deletes leave sparse nodes to this pass (D4).  index/README.md says
 * what others may see after each step.  Only the first of these locks is waited for; the others are
 * tried, and where one is taken there is no merge.
 */
#include <errno.h>

#include "index/fine/fine.h"
#include "maintain.h"
#include "index/hybrid/hybrid.h"
#include "index/node/divide.h"

/* Neighbours are merged if together they fill no more than this. */
#define MERGE_PERCENT 60u
/* Nodes without a separator that are named after one child, before the pass goes on. */
#define FORGOTTEN_MAX 64u

struct pass {
	struct nam_worker *worker;
	struct nam_index *index;
	struct nam_collect_stat *stat;
	unsigned level, root_level;	/* of the nodes to be merged; of the root */
	uint64_t *parent_image;		/* held */
	uint64_t *left_image, *right_image, *head_image;	/* held */
	struct nam__window window;
	int orphaned_rc;		/* a lock whose owner is dead was met */
};

/* A child as it was when the parent was read. */
struct sight {
	struct nam_gaddr at;		/* null: there is none, or it is not to be touched */
	unsigned count;
};

/* An empty node is merged into any neighbour: it costs its readers a round trip for nothing. */
static bool
mergeable(const struct pass *pass, unsigned left, unsigned right)
{
	const struct nam__geometry *g = &pass->index->g;
	unsigned capacity = pass->level ? g->inner_capacity : g->leaf_capacity;

	return (left + right) * 100 <= capacity * MERGE_PERCENT || left == 0 || right == 0;
}

/* The verdict on a failure to lock or read one node: 0, to leave it alone, or the code itself. */
static int
tolerate(struct pass *pass, int rc)
{
	if (rc == -NAM_E_LOCK_ORPHANED) {
		pass->orphaned_rc = rc;
		return 0;
	}
	/* Memory that is full is the very reason to go on: names and head nodes can wait. */
	return nam_err_is(rc, NAM_E_RESTART) || rc == -NAM_E_LOCK_TIMEOUT ||
			       rc == -NAM_E_REMOTE_FULL ?
		       0 :
		       rc;
}

/* ---- merging ------------------------------------------------------------------------------- */

struct merge {
	struct nam__held parent, left, right, head;
	unsigned entry;			/* R's separator in P */
	bool through_head;
};

/* Number of the entry that names R right after L, or 0. */
static unsigned
find_pair(const struct nam__geometry *g, const uint64_t *parent, struct nam_gaddr left,
	struct nam_gaddr right)
{
	unsigned count = nam__node_count(parent);

	for (unsigned entry = 1; entry < count; entry++)
		if (nam_gaddr_same(nam__inner_child(g, parent, entry), right))
			return nam_gaddr_same(nam__inner_child(g, parent, entry - 1), left) ?
				       entry : 0;
	return 0;
}

/*
 * Step 1, behind the parent.  1 when all is held and fits, 0 when it does not, or negative; then
 * nothing but the parent is held.
 */
NAM_FIBER_FN static int
merge_lock(struct pass *pass, struct merge *merge, struct nam_gaddr left_at,
	struct nam_gaddr right_at)
{
	struct nam_worker *worker = pass->worker;
	struct nam_index *index = pass->index;
	int level = (int)pass->level, rc, unlock_rc;
	struct nam_gaddr head_at;

	rc = nam__unqueued_lock(worker, index, left_at, level, 0, &merge->left); /* SUSPENDS */
	if (rc)
		return rc;
	rc = nam__unqueued_lock(worker, index, right_at, level, 0, &merge->right); /* SUSPENDS */
	if (rc)
		goto unlock_left;
	/* I4: more entries than fit would lie beyond the node. */
	if (nam__node_type(merge->right.image) != nam__node_type(merge->left.image) ||
		(NAM_GUARD(MERGE_ROOM) && !mergeable(pass, nam__node_count(merge->left.image),
						  nam__node_count(merge->right.image))))
		goto unlock_right;
	head_at = nam__node_sibling(merge->left.image);
	/* I1: a node between L and R would be lost to the chain. */
	merge->through_head = !nam_gaddr_same(head_at, right_at) &&
			      (NAM_GUARD(MERGE_SIBLING) || nam_gaddr_is_null(head_at));
	if (!merge->through_head)
		return 1;
	/* A head node, or else L was divided since, and its parent does not know yet. */
	if (level || nam_gaddr_is_null(head_at))
		goto unlock_right;
	rc = nam__unqueued_lock(worker, index, head_at, 0, 0, &merge->head); /* SUSPENDS */
	if (rc)
		goto unlock_right;
	if (nam__node_type(merge->head.image) == NAM__NODE_HEAD &&
		nam_gaddr_same(nam__node_sibling(merge->head.image), right_at))
		return 1;
	rc = nam__unqueued_unlock(worker, &merge->head); /* SUSPENDS */
unlock_right:
	unlock_rc = nam__unqueued_unlock(worker, &merge->right); /* SUSPENDS */
	if (unlock_rc)
		rc = unlock_rc;
unlock_left:
	unlock_rc = nam__unqueued_unlock(worker, &merge->left); /* SUSPENDS */
	return unlock_rc ? unlock_rc : rc;
}

/* Hybrid: step 3 comes last, for a memory server keeps the names (H4). */
NAM_FIBER_FN static int
merge_unname(struct pass *pass, const struct merge *merge)
{
	struct nam__key name;

	memcpy(name.w, nam__node_low(merge->right.image), 8 * pass->index->g.full_words);
	return nam__inner_rpc_remove(pass->worker, pass->index, name.w,
		merge->right.at); /* SUSPENDS */
}

/* Steps 2 and 3.  On failure the fabric is broken, and everything is still held. */
NAM_FIBER_FN static int
merge_write(struct pass *pass, struct merge *merge)
{
	const struct nam__geometry *g = &pass->index->g;
	struct nam__dirty dirty;
	int rc;

	nam__node_join(g, merge->left.image, merge->right.image);
	dirty = (struct nam__dirty){ g->entries_at, g->node_words - 1 };
	rc = nam__write_keep(pass->worker, pass->index, &merge->left, dirty,
		NAM__HEADER_FENCES); /* SUSPENDS */
	if (rc)
		return rc;
	nam_race_point("merge.left_written");
	if (pass->index->inner_rpc)
		return 0;
	nam__inner_remove(g, merge->parent.image, merge->entry, &dirty);
	return nam__write_keep(pass->worker, pass->index, &merge->parent, dirty,
		NAM__HEADER_COUNTS); /* SUSPENDS */
}

/* Step 4: no pointer but old copies leads to these any more. */
NAM_FIBER_FN static int
merge_bury(struct pass *pass, struct merge *merge)
{
	struct nam_worker *worker = pass->worker;
	int rc = 0, right_rc;

	if (merge->through_head)
		rc = nam__dead_unlock(worker, pass->index, &merge->head,
			nam__node_sibling(merge->head.image)); /* SUSPENDS */
	nam_race_point("merge.head_buried");
	right_rc = nam__dead_unlock(worker, pass->index, &merge->right,
		merge->left.at); /* SUSPENDS */
	return rc ? rc : right_rc;
}

/* Our own caches need not find out the hard way. */
static void
merge_remember(struct pass *pass, const struct merge *merge)
{
	struct nam__cache *cache = pass->index->cache;

	if (!cache)
		return;
	if (pass->level) {
		nam__cache_drop(cache, nam__node_low(merge->right.image), pass->level);
		nam__cache_put(cache, merge->left.image, merge->left.at);
	}
	if (pass->index->inner_rpc)
		nam__cache_drop(cache, nam__node_low(merge->right.image), 1);
	else
		nam__cache_put(cache, merge->parent.image, merge->parent.at);
}

/*
 * Steps 2 to 6, with everything held.  Nothing is, afterwards, but the parent.
 *
 * When a write fails its connection is broken, but those to other servers may not be.  Half a merge
 * must not be written to, so its nodes stay locked, as if we had died: R while P may name it, for
 * the chain passes it by already; and L while an old copy of P may lead to an R that is not dead.
 */
NAM_FIBER_FN static int
merge_held(struct pass *pass, struct merge *merge)
{
	uint32_t stride = pass->index->g.stride;
	int rc, name_rc = 0;

	rc = merge_write(pass, merge); /* SUSPENDS */
	if (rc)
		return rc;
	nam_race_point("merge.parent_written");
	merge_remember(pass, merge);
	rc = merge_bury(pass, merge); /* SUSPENDS */
	nam_race_point("merge.buried");
	if (!rc && pass->index->inner_rpc)
		name_rc = merge_unname(pass, merge); /* SUSPENDS */
	if (!rc)
		rc = nam__unqueued_unlock(pass->worker, &merge->left); /* SUSPENDS */
	/* The first client that needs a name that is still there removes it.  The block is lost. */
	if (!rc)
		rc = name_rc;
	if (rc)
		return rc;
	nam_race_point("merge.left_unlocked");
	if (merge->through_head) {
		nam_retire(pass->worker, merge->head.at, stride);
		pass->stat->nodes_retired++;
	}
	nam_retire(pass->worker, merge->right.at, stride);
	pass->stat->nodes_retired++;
	pass->stat->merges++;
	return 0;
}

/*
 * Merge R into L, if they and their parent are as they were seen.
 *
 * Returns 1 with L's new number of entries, 0 if nothing was done, or negative.  Nothing is held.
 */
NAM_FIBER_FN static int
merge_pair(struct pass *pass, struct nam_gaddr parent_at, struct nam_gaddr left_at,
	struct nam_gaddr right_at, unsigned *ret_count)
{
	struct merge merge = {
		.parent.image = pass->parent_image,
		.left.image = pass->left_image,
		.right.image = pass->right_image,
		.head.image = pass->head_image,
	};
	bool parent = !pass->index->inner_rpc;	/* else a memory server has the names */
	int rc = 0, locked = 0, unlock_rc = 0;

	if (parent) {
		rc = nam__lock_node(pass->worker, pass->index, parent_at, (int)pass->level + 1,
			&merge.parent); /* SUSPENDS */
		if (rc)
			return tolerate(pass, rc);
		nam_race_point("merge.parent_locked");
		merge.entry = find_pair(&pass->index->g, merge.parent.image, left_at, right_at);
	}
	if (!parent || merge.entry)
		locked = merge_lock(pass, &merge, left_at, right_at); /* SUSPENDS */
	nam_race_point("merge.locked");
	rc = locked > 0 ? merge_held(pass, &merge) : tolerate(pass, locked); /* SUSPENDS */
	if (parent)
		unlock_rc = nam__unlock(pass->worker, &merge.parent); /* SUSPENDS */
	if (rc || unlock_rc)
		return rc ? rc : unlock_rc;
	*ret_count = nam__node_count(merge.left.image);
	return locked > 0;
}

/* ---- nodes without a separator ------------------------------------------------------------- */

/*
 * A child ends before `end`, where its parent thinks that the next one begins (NULL: nowhere): the
 * range between was split off, and its splitter has not named it yet, or died.  Name it.
 */
NAM_FIBER_FN static int
name_forgotten(struct pass *pass, const uint64_t *child, const uint64_t *end)
{
	struct nam_worker *worker = pass->worker;
	const struct nam__geometry *g = &pass->index->g;
	uint64_t *image = pass->right_image;
	struct nam_gaddr at;
	struct nam__key low;
	int rc = 0;

	memcpy(image, child, g->node_bytes);
	for (unsigned i = 0; i < FORGOTTEN_MAX; i++) {
		if (nam__node_last(image) || (end && nam__key_compare(nam__node_high(g, image), end,
							     g->full_words) >= 0))
			return 0;
		do {
			at = nam__node_sibling(image);
			rc = nam__node_read(worker, pass->index, at, (int)pass->level,
				image); /* SUSPENDS */
			if (rc)
				return tolerate(pass, rc);
		} while (nam__node_type(image) == NAM__NODE_HEAD && ++i < FORGOTTEN_MAX);
		if (nam__node_type(image) == NAM__NODE_HEAD)
			return 0;
		memcpy(low.w, nam__node_low(image), 8 * g->full_words);
		if (end && nam__key_compare(low.w, end, g->full_words) >= 0)
			return 0;
		rc = nam__separator_add(worker, pass->index, low.w, at,
			pass->level + 1); /* SUSPENDS */
		if (rc)
			return tolerate(pass, rc);
	}
	return 0;
}

/*
 * No parent names the node to the right of the root: it was divided when there was no memory for a
 * node above it.  Make one, now that there may be.
 */
NAM_FIBER_FN static int
grow_forgotten(struct pass *pass)
{
	struct nam_worker *worker = pass->worker;
	struct nam_index *index = pass->index;
	struct nam_gaddr root;
	int rc;

	rc = nam__root_read(worker, index, &root, pass->left_image); /* SUSPENDS */
	if (rc)
		return rc;
	pass->stat->nodes_visited++;	/* all others have a parent */
	pass->root_level = nam__node_level(pass->left_image);
	if (nam__node_last(pass->left_image))
		return 0;
	pass->level = pass->root_level;
	rc = name_forgotten(pass, pass->left_image, NULL); /* SUSPENDS */
	return rc ? rc : nam__root_find(worker, index, &root, &pass->root_level); /* SUSPENDS */
}

/* ---- the pass ------------------------------------------------------------------------------ */

/* Where a child's range ends according to its parent; NULL: nowhere. */
static const uint64_t *
end_of(const struct nam__geometry *g, const uint64_t *parent, unsigned entry)
{
	if (entry + 1 < nam__node_count(parent))
		return parent + g->entries_at + (entry + 1) * g->inner_words;
	return nam__node_last(parent) ? NULL : nam__node_high(g, parent);
}

/* I17: whether a leaf entry has led to other bytes; if so, what they look like says nothing. */
static bool
other_bytes(const struct pass *pass, const uint64_t *image, struct nam_gaddr at, int rc)
{
	if (!nam__names_old(pass->index))
		return false;
	return rc ? rc == -NAM_E_REMOTE_CORRUPT || rc == -NAM_E_NOREGION :
		image[NAM__WORD_HASH] != nam__node_hash(&pass->index->g, image, at);
}

/* Look at one child: merge it into its left neighbour, or let it be the next one's. */
NAM_FIBER_FN static int
visit_child(struct pass *pass, const uint64_t *parent, struct nam_gaddr parent_at, unsigned entry,
	struct sight *left)
{
	struct nam_gaddr at = nam__inner_child(&pass->index->g, parent, entry);
	unsigned count;
	uint64_t *image = NULL;
	int rc = nam__worker_stopped(pass->worker);

	if (rc)
		return rc;
	rc = nam__window_node(&pass->window, at, (int)pass->level, parent, entry,
		&image); /* SUSPENDS */
	pass->stat->nodes_visited++;
	if (other_bytes(pass, image, at, rc))
		rc = -NAM_E_RESTART_DEAD;
	if (rc) {
		left->at = NAM_GADDR_NULL;
		return tolerate(pass, rc);
	}
	count = nam__node_count(image);
	rc = name_forgotten(pass, image, end_of(&pass->index->g, parent, entry)); /* SUSPENDS */
	if (rc)
		return rc;
	if (!nam_gaddr_is_null(left->at) && mergeable(pass, left->count, count)) {
		rc = merge_pair(pass, parent_at, left->at, at, &left->count); /* SUSPENDS */
		if (rc)
			return rc < 0 ? rc : 0;
	}
	*left = (struct sight){ at, count };
	return 0;
}

/* Merge what can be merged on one level, parent by parent. */
NAM_FIBER_FN static int
level_pass(struct pass *pass)
{
	struct nam__walk parents;
	int rc;

	rc = nam__walk_open(&parents, pass->worker, pass->index, pass->level + 1, pass->root_level);
	if (rc)
		return rc;
	while ((rc = nam__walk_next(&parents)) > 0) { /* SUSPENDS */
		struct sight left = { NAM_GADDR_NULL, 0 };
		unsigned count = nam__node_count(parents.image);

		rc = 0;
		for (unsigned entry = 0; !rc && entry < count; entry++)
			rc = visit_child(pass, parents.image, parents.at, entry,
				&left); /* SUSPENDS */
		if (rc)
			break;
	}
	nam__walk_close(&parents);
	return tolerate(pass, rc);
}

/* Hybrid: all leaves, as a memory server names them. */
NAM_FIBER_FN static int
leaves_pass(struct pass *pass)
{
	const struct nam__geometry *g = &pass->index->g;
	struct nam__key from = { { 0 } };
	uint64_t *names = nam_buffer_take(pass->worker, g->node_bytes);
	int rc = 0;

	if (!names)
		return -ENOMEM;
	do {
		struct sight left = { NAM_GADDR_NULL, 0 };
		struct nam_gaddr at;

		rc = nam__inner_rpc_read(pass->worker, pass->index, from.w, false, names,
			&at); /* SUSPENDS */
		for (unsigned entry = 0; !rc && entry < nam__node_count(names); entry++)
			rc = visit_child(pass, names, at, entry, &left); /* SUSPENDS */
		memcpy(from.w, nam__node_high(g, names), 8 * g->full_words);
	} while (!rc && !nam__node_last(names));
	nam_buffer_give(pass->worker, names, g->node_bytes);
	return tolerate(pass, rc);
}

NAM_FIBER_FN static int
pass_run(struct pass *pass)
{
	int rc;

	if (pass->index->inner_rpc) {
		pass->root_level = 1;
		rc = leaves_pass(pass); /* SUSPENDS */
	} else {
		rc = grow_forgotten(pass); /* SUSPENDS */
		/* From below: parents that lose children become candidates themselves. */
		for (pass->level = 0; !rc && pass->level < pass->root_level; pass->level++)
			rc = level_pass(pass); /* SUSPENDS */
	}
	if (!rc)
		rc = tolerate(pass, nam__heads_rebuild(pass->worker, pass->index,
			pass->root_level, pass->stat)); /* SUSPENDS */
	return rc ? rc : pass->orphaned_rc;
}

NAM_FIBER_FN static int
pass_as_collector(struct pass *pass)
{
	uint64_t word;
	int rc, leave_rc;

	rc = nam__collector_enter(pass->worker, pass->index, 0, &word); /* SUSPENDS */
	if (rc)
		return rc;
	rc = pass_run(pass); /* SUSPENDS */
	leave_rc = nam__collector_leave(pass->worker, pass->index, word); /* SUSPENDS */
	return rc ? rc : leave_rc;
}

/* Five nodes at a time and a window: allocated once for the pass. */
NAM_FIBER_FN static int
collect(struct nam_worker *worker, struct nam_index *index, struct nam_collect_stat *stat)
{
	uint32_t node_bytes = index->g.node_bytes, node_words = index->g.node_words;
	uint64_t *images = nam_buffer_take(worker, 4 * node_bytes);
	struct pass pass = { .worker = worker, .index = index, .stat = stat };
	int rc = -ENOMEM;

	if (!images)
		return rc;
	pass.parent_image = images;
	pass.left_image = images + node_words;
	pass.right_image = images + 2 * (size_t)node_words;
	pass.head_image = images + 3 * (size_t)node_words;
	rc = nam__window_init(&pass.window, worker, index);
	if (!rc) {
		rc = pass_as_collector(&pass); /* SUSPENDS */
		nam__window_done(&pass.window);
	}
	nam_buffer_give(worker, images, 4 * node_bytes);
	return rc;
}

int
nam__fine_collect(struct nam_worker *worker, struct nam_index *index, struct nam_collect_stat *stat)
{
	uint64_t reusable = 0;
	int rc, advance_rc;

	nam__op_begin(worker, NAM_OP_COLLECT);
	rc = collect(worker, index, stat); /* SUSPENDS */
	nam__op_end(worker);
	/* Outside the operation, which keeps from being reused what it may have seen itself. */
	advance_rc = nam__limbo_advance(worker, &reusable); /* SUSPENDS */
	stat->nodes_reusable += reusable;
	return rc ? rc : advance_rc;
}
