/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.c -- dividing a node, and naming the new one in its parent.
 *
 *	step 1	WRITE the new right sibling, whole.  No reader can see it.
 *	step 2	WRITE the left node with its new high fence and sibling, unlock.  Visible: two
 *		halves, one parent entry; readers of the upper half move right.
 *	step 3	WRITE the separator into the parent, while the child is seen alive (I14).  Late
 *		is legal.
 *
 * One lock at a time: the left node's until step 2, the parent's in step 3.  A node's words change
 * under its lock, or before the node is published (I12).
 */
#include <errno.h>

#include "index/design.h"
#include "index/node/divide.h"

/* ---- growing ------------------------------------------------------------------------------ */

/* The root was divided: put a new root above both halves.  -NAM_E_EXISTS: another client has. */
NAM_FIBER_FN static int
grow(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr old_root,
	const uint64_t *key, struct nam_gaddr right, unsigned level)
{
	const struct nam__geometry *g = &index->g;
	uint64_t *image = nam_buffer_take(worker, g->node_bytes), *entry, seen;
	struct nam__dirty dirty;
	uint32_t generation;
	struct nam_gaddr at;
	int rc;

	if (!image)
		return -ENOMEM;
	rc = nam__node_alloc(worker, index, false, &at, &generation); /* SUSPENDS */
	if (rc)
		goto give_image;
	nam__node_init(g, image, NAM__NODE_INNER, level, generation, nam__key_lowest.w, NULL);
	entry = nam__inner_entry(g, image, 0);
	memcpy(entry, nam__key_lowest.w, 8 * g->full_words);
	entry[g->full_words] = old_root.raw;
	nam__node_set_counts(image, 1, 1);
	rc = nam__inner_add(g, image, key, right, &dirty);
	if (rc)
		goto free_node;
	rc = nam__new_node_await(worker, index, at, image); /* SUSPENDS */
	if (rc)
		goto free_node;
	nam_race_point("root.written");
	rc = nam_cas_await(worker, index->superblock, old_root.raw, at.raw, &seen); /* SUSPENDS */
	if (rc)
		goto give_image;	/* it may be the root now */
	nam_race_point("root.switched");
	if (!seen) {
		rc = nam__index_dropped(worker, index);
		goto free_node;
	}
	/* I7: if another root came first, that one needs the separator. */
	if (NAM_GUARD(ROOT_CAS) && seen != old_root.raw) {
		atomic_store_explicit(&index->root, seen, memory_order_relaxed);
		rc = -NAM_E_EXISTS;
		goto free_node;
	}
	atomic_store_explicit(&index->root, at.raw, memory_order_relaxed);
	if (index->cache)
		nam__cache_put(index->cache, image, at, false);
	goto give_image;

free_node:
	nam_free_unseen(worker, at, g->stride);
give_image:
	nam_buffer_give(worker, image, g->node_bytes);
	return rc;
}

/* There is no node at `level` yet: if the root is right below, grow the tree. */
NAM_FIBER_FN static int
separator_grow(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam_gaddr child, unsigned level)
{
	unsigned root_level;
	struct nam_gaddr root;
	int rc = nam__root_find(worker, index, &root, &root_level); /* SUSPENDS */

	if (rc || root_level >= level)
		return rc;
	if (root_level + 1 < level)
		return -NAM_E_RESTART_PARENT;	/* levels below have to grow first */
	rc = grow(worker, index, root, key, child, level); /* SUSPENDS */
	return rc == -NAM_E_EXISTS ? 0 : rc;
}

/* ---- naming ------------------------------------------------------------------------------- */

/* The parent is held and covers the key. */
NAM_FIBER_FN static int
separator_insert(struct nam_worker *worker, struct nam_index *index, struct nam__held *parent,
	const uint64_t *key, struct nam_gaddr child)
{
	const struct nam__geometry *g = &index->g;
	unsigned number = nam__inner_search(g, parent->image, key);
	struct nam__dirty dirty;
	bool alive = false;
	int rc, unlock_rc;

	if (!nam__key_compare(nam__inner_entry(g, parent->image, number), key, g->full_words))
		return nam__unlock(worker, parent); /* SUSPENDS */
	/*
	 * I14: a collector holds the parent until the child is dead.  So if the child is alive
	 * under this lock, no merge of it is under way, and a later merge finds the separator.
	 */
	nam_race_point("separator.locked");
	rc = nam__child_alive(worker, child, &alive); /* SUSPENDS */
	nam_race_point("separator.child_seen");
	if (rc || (NAM_GUARD(CHILD_ALIVE) && !alive)) {
		unlock_rc = nam__unlock(worker, parent); /* SUSPENDS */
		return rc ? rc : unlock_rc;
	}
	if (nam__node_count(parent->image) == g->inner_capacity)
		return index->inner->split_unlock(worker, index, parent, key,
			child.raw); /* SUSPENDS */
	rc = nam__inner_add(g, parent->image, key, child, &dirty);
	if (rc)
		return rc;
	rc = nam__write_unlock(worker, index, parent, dirty, NAM__HEADER_COUNTS); /* SUSPENDS */
	nam_race_point("separator.written");
	if (!rc && index->cache)
		nam__cache_put(index->cache, parent->image, parent->at, false);
	return rc;
}

int
nam__separator_add(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam_gaddr child, unsigned level)
{
	uint64_t *image = nam_buffer_take(worker, index->g.node_bytes);
	int rc = -NAM_E_RESTART;

	if (!image)
		return -ENOMEM;
	for (unsigned tries = 0; tries < NAM__RESTARTS_MAX; tries++) {
		struct nam__held parent = { .image = image };

		/* I14: the parent is locked before the child is seen alive. */
		rc = nam__lock_covering(worker, index, key, level, &parent); /* SUSPENDS */
		if (rc == -NAM_E_RESTART_PARENT) {
			rc = separator_grow(worker, index, key, child, level); /* SUSPENDS */
			if (rc == -NAM_E_RESTART_PARENT)
				nam__pause_await(worker, 1000ull * (tries + 1)); /* SUSPENDS */
			else if (rc)
				break;
			continue;	/* also after growing: the separator is found there */
		}
		if (rc)
			break;
		rc = separator_insert(worker, index, &parent, key, child); /* SUSPENDS */
		break;
	}
	nam_buffer_give(worker, image, index->g.node_bytes);
	return rc;
}

/* ---- dividing ----------------------------------------------------------------------------- */

/* Step 3.  A failure to reach the parent is forgiven: the split is done and legal (I1). */
NAM_FIBER_FN static int
name_right(struct nam_worker *worker, struct nam_index *index, const struct nam__key *separator,
	struct nam_gaddr right_at, unsigned level)
{
	int rc = index->inner->separator_add(worker, index, separator->w, right_at,
		level); /* SUSPENDS */

	if (!nam__node_busy(rc))
		return rc;
	worker->current->counters->late_separators++;
	return 0;
}

int
nam__split_unlock(struct nam_worker *worker, struct nam_index *index, struct nam__held *held,
	const uint64_t *key, uint64_t value)
{
	const struct nam__geometry *g = &index->g;
	uint64_t *right = nam_buffer_take(worker, g->node_bytes);
	unsigned level = nam__node_level(held->image);
	struct nam__key separator;
	struct nam_gaddr right_at;
	struct nam__dirty dirty;
	uint32_t generation;
	int rc = -ENOMEM, unlock_rc;

	if (!right)
		goto unlock;
	rc = nam__node_alloc(worker, index, false, &right_at, &generation); /* SUSPENDS */
	if (rc)
		goto unlock;

	/* Step 1: nothing leads to a node that is not there yet (I1; guard sibling-first). */
	nam_race_point("split.allocated");
	nam__node_divide(g, held->image, nam__division_point(g, held->image, key), right,
		generation, &dirty);
	nam__add_to_half(g, held->image, right, key, value, &dirty);
	memcpy(separator.w, nam__node_low(right), 8 * g->full_words);
	rc = nam__new_node_await(worker, index, right_at, right); /* SUSPENDS */
	if (rc)
		goto free_right;
	nam_race_point("split.sibling_written");

	/* Step 2.  The entries of the right half stay in the left one, behind its last entry. */
	held->image[NAM__WORD_SIBLING] = right_at.raw;
	rc = nam__write_unlock(worker, index, held, dirty, NAM__HEADER_FENCES); /* SUSPENDS */
	worker->current->counters->splits++;
	nam_race_point("split.left_written");
	if (index->cache && level > 0 && !rc) {
		nam__cache_put(index->cache, held->image, held->at, false);
		nam__cache_put(index->cache, right, right_at, false);
	}
	if (!rc)
		rc = name_right(worker, index, &separator, right_at, level + 1); /* SUSPENDS */
	nam_buffer_give(worker, right, g->node_bytes);
	return rc;

free_right:
	nam_free_unseen(worker, right_at, g->stride);
unlock:
	unlock_rc = nam__unlock(worker, held); /* SUSPENDS */
	nam_buffer_give(worker, right, g->node_bytes);
	return rc ? rc : unlock_rc;
}
