/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.c -- one pass of the garbage collector (D4): merge sparse neighbours, name forgotten
 * nodes, rebuild head nodes, and make retired memory reusable.
 */
#include <errno.h>

#include "compute/worker/pace.h"
#include "index/fine/fine.h"
#include "index/validate.h"
#include "maintain.h"
#include "merge.h"

/* Nodes without a separator that are named after one child, before the pass goes on. */
#define FORGOTTEN_MAX 64u

struct pass {
	struct nam_worker *worker;
	struct nam_index *index;
	struct nam_collect_stat *stat;
	unsigned level, root_level;	/* of the nodes to be merged; of the root */
	struct nam__merge merge;
	struct nam__window window;
	int orphaned_rc;		/* a lock whose owner is dead was met */
};

/* Merges on all levels of a tree, or leaves alone, and sets root_level. */
typedef int (*pass_fn)(struct pass *pass);

/* A child as it was when the parent was read. */
struct sight {
	struct nam_gaddr at;		/* null: there is none, or it is not to be touched */
	unsigned count;
};

/* The verdict on a failure to lock or read one node: 0, to leave it alone, or the code itself. */
static int
tolerate(struct pass *pass, int rc)
{
	if (rc == -NAM_E_LOCK_ORPHANED)
		pass->orphaned_rc = rc;
	/* Memory that is full is the very reason to go on: names and head nodes can wait. */
	return nam__node_busy(rc) ? 0 : rc;
}

/*
 * I7: if a child ends before `end`, where the next one begins by its parent (NULL: nowhere), name
 * what was split off.  Its splitter is slow, or died.
 */
NAM_FIBER_FN static int
name_forgotten(struct pass *pass, const uint64_t *child, const uint64_t *end)
{
	struct nam_worker *worker = pass->worker;
	const struct nam__geometry *g = &pass->index->g;
	uint64_t *image = pass->merge.right.image;
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
		rc = pass->index->inner->separator_add(worker, pass->index, low.w, at,
			pass->level + 1); /* SUSPENDS */
		if (rc)
			return tolerate(pass, rc);
	}
	return 0;
}

/* I7: the root was divided when there was no memory for a node above it.  Now there may be. */
NAM_FIBER_FN static int
grow_forgotten(struct pass *pass)
{
	struct nam_worker *worker = pass->worker;
	struct nam_index *index = pass->index;
	struct nam_gaddr root;
	int rc = nam__root_read(worker, index, &root, pass->merge.left.image); /* SUSPENDS */

	if (rc)
		return rc;
	pass->stat->nodes_visited++;	/* all others have a parent */
	pass->root_level = nam__node_level(pass->merge.left.image);
	if (nam__node_last(pass->merge.left.image))
		return 0;
	pass->level = pass->root_level;
	rc = name_forgotten(pass, pass->merge.left.image, NULL); /* SUSPENDS */
	return rc ? rc : nam__root_find(worker, index, &root, &pass->root_level); /* SUSPENDS */
}

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
		!nam__node_is_whole(pass->index, image, at);
}

/* H3: the leaf of an entry is dead, or its block has another use; it will never be that leaf. */
NAM_FIBER_FN static int
forget_name(struct pass *pass, const uint64_t *parent, unsigned entry)
{
	const struct nam__geometry *g = &pass->index->g;
	int rc = 0;

	if (NAM_GUARD(STALE_NAME))
		rc = pass->index->inner->leaf_forget(pass->worker, pass->index,
			parent + g->entries_at + entry * g->inner_words,
			nam__inner_child(g, parent, entry)); /* SUSPENDS */
	return rc ? rc : -NAM_E_RESTART_DEAD;
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
	else if (rc == -NAM_E_RESTART_DEAD)
		rc = forget_name(pass, parent, entry); /* SUSPENDS */
	if (rc) {
		left->at = NAM_GADDR_NULL;
		return tolerate(pass, rc);
	}
	count = nam__node_count(image);
	rc = name_forgotten(pass, image, end_of(&pass->index->g, parent, entry)); /* SUSPENDS */
	if (rc)
		return rc;
	if (!nam_gaddr_is_null(left->at) &&
		nam__mergeable(&pass->index->g, pass->level, left->count, count)) {
		rc = nam__merge_pair(&pass->merge, pass->level, parent_at, left->at, at,
			pass->stat, &left->count); /* SUSPENDS */
		if (!rc)
			return 0;
		rc = pass->merge.stuck ? rc : tolerate(pass, rc);
		if (rc)
			return rc;
	}
	*left = (struct sight){ at, count };
	return 0;
}

/* Merge what can be merged on one level, parent by parent. */
NAM_FIBER_FN static int
level_pass(struct pass *pass)
{
	struct nam__walk parents;
	int rc = nam__walk_open(&parents, pass->worker, pass->index, pass->level + 1,
		pass->root_level);

	if (rc)
		return rc;
	while (!(rc = nam__walk_next(&parents)) && parents.image) { /* SUSPENDS */
		struct sight left = { NAM_GADDR_NULL, 0 };
		unsigned count = nam__node_count(parents.image);

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
	pass->root_level = 1;
	do {
		struct sight left = { NAM_GADDR_NULL, 0 };
		struct nam_gaddr at;

		rc = pass->index->inner->read_covering(pass->worker, pass->index, from.w, 1, names,
			&at); /* SUSPENDS */
		for (unsigned entry = 0; !rc && entry < nam__node_count(names); entry++)
			rc = visit_child(pass, names, NAM_GADDR_NULL, entry, &left); /* SUSPENDS */
		memcpy(from.w, nam__node_high(g, names), 8 * g->full_words);
	} while (!rc && !nam__node_last(names));
	nam_buffer_give(pass->worker, names, g->node_bytes);
	return tolerate(pass, rc);
}

NAM_FIBER_FN static int
tree_pass(struct pass *pass)
{
	int rc = grow_forgotten(pass); /* SUSPENDS */

	/* From below: parents that lose children become candidates themselves. */
	for (pass->level = 0; !rc && pass->level < pass->root_level; pass->level++)
		rc = level_pass(pass); /* SUSPENDS */
	return rc;
}

NAM_FIBER_FN static int
pass_run(struct pass *pass, pass_fn merges)
{
	int rc = merges(pass); /* SUSPENDS */

	if (!rc)
		rc = tolerate(pass, nam__heads_rebuild(pass->worker, pass->index,
			pass->root_level, pass->stat)); /* SUSPENDS */
	return rc ? rc : pass->orphaned_rc;
}

NAM_FIBER_FN static int
pass_as_collector(struct pass *pass, pass_fn merges)
{
	uint64_t word;
	int rc, leave_rc;

	rc = nam__collector_enter(pass->worker, pass->index, 0, &word); /* SUSPENDS */
	if (rc)
		return rc;
	rc = pass_run(pass, merges); /* SUSPENDS */
	/* I20: the next collector completes it, when this client has ended. */
	if (pass->merge.stuck)
		return rc;
	leave_rc = nam__collector_leave(pass->worker, pass->index, word); /* SUSPENDS */
	return rc ? rc : leave_rc;
}

/* A merge's nodes and a window: allocated once for the pass. */
NAM_FIBER_FN static int
pass_once(struct nam_worker *worker, struct nam_index *index, pass_fn merges,
	struct nam_collect_stat *stat)
{
	struct pass pass = { .worker = worker, .index = index, .stat = stat };
	int rc = nam__merge_init(&pass.merge, worker, index);

	if (rc)
		return rc;
	rc = nam__window_init(&pass.window, worker, index);
	if (!rc) {
		rc = pass_as_collector(&pass, merges); /* SUSPENDS */
		nam__window_done(&pass.window);
	}
	nam__merge_done(&pass.merge);
	return rc;
}

NAM_FIBER_FN static int
collect(struct nam_worker *worker, struct nam_index *index, pass_fn merges,
	struct nam_collect_stat *stat)
{
	uint64_t reusable = 0;
	int rc, advance_rc;

	nam__op_begin(worker, NAM_OP_COLLECT);
	rc = pass_once(worker, index, merges, stat); /* SUSPENDS */
	nam__op_end(worker);
	/* Outside the operation, which keeps from being reused what it may have seen itself. */
	advance_rc = nam__limbo_advance(worker, &reusable); /* SUSPENDS */
	stat->nodes_reusable += reusable;
	return rc ? rc : advance_rc;
}

int
nam__fine_collect(struct nam_worker *worker, struct nam_index *index, struct nam_collect_stat *stat)
{
	return collect(worker, index, tree_pass, stat); /* SUSPENDS */
}

int
nam__leaves_collect(struct nam_worker *worker, struct nam_index *index,
	struct nam_collect_stat *stat)
{
	return collect(worker, index, leaves_pass, stat); /* SUSPENDS */
}
