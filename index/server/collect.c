/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.c -- what changes a server tree as a whole: merging sparse nodes, publishing a filled
 * tree.
 *
 * A thread that meets a node that was merged away begins anew at the root.  From there it does not
 * meet that node again (S3).  The block is reused once every handler at work has answered (S4).
 */
#include <stdlib.h>

#include "common/guard.h"
#include "common/race.h"
#include "index/node/divide.h"
#include "tree_internal.h"

/* Merge what fills no more than so much of a node: the next inserts shall not divide it. */
#define MERGE_FILL_PERCENT 75u

struct family {
	struct nam__tree_server_tree *tree;
	uint64_t *parent, *left, *right;		/* nodes */
	uint64_t *parent_image, *left_image, *right_image;
	uint64_t parent_version, left_version, right_version;
};

static bool
fit_together(const struct family *f)
{
	const struct nam__geometry *g = &f->tree->g;
	unsigned capacity = nam__node_level(f->left_image) ? g->inner_capacity : g->leaf_capacity;
	unsigned count = nam__node_count(f->left_image) + nam__node_count(f->right_image);

	return count * 100 <= capacity * MERGE_FILL_PERCENT &&
	       !nam__node_dead(f->left_image) && !nam__node_dead(f->right_image) &&
	       (uint64_t *)f->left_image[NAM__WORD_SIBLING] == f->right;
}

static bool
lock_family(const struct family *f)
{
	if (!nam__tree_server_lock(f->left, f->left_version))
		return false;
	if (nam__tree_server_lock(f->right, f->right_version)) {
		if (nam__tree_server_lock(f->parent, f->parent_version))
			return true;
		nam__tree_server_unlock(f->right, f->right_version);
	}
	nam__tree_server_unlock(f->left, f->left_version);
	return false;
}

/* S3: merge children `number` and `number + 1`, all under locks; false: they stay as they are. */
static bool
merge(struct family *f, unsigned number)
{
	const struct nam__geometry *g = &f->tree->g;
	struct nam__dirty dirty;

	f->left = (uint64_t *)nam__inner_child(g, f->parent_image, number).raw;
	f->right = (uint64_t *)nam__inner_child(g, f->parent_image, number + 1).raw;
	f->left_version = nam__tree_server_read(f->tree, f->left, f->left_image);
	f->right_version = nam__tree_server_read(f->tree, f->right, f->right_image);
	if (!fit_together(f) || !lock_family(f))
		return false;

	nam__node_join(g, f->left_image, f->right_image);
	nam__tree_server_store(f->left, f->left_image, NAM__WORD_FRONT,
		g->entries_at + nam__node_count(f->left_image) *
			nam__node_entry_words(g, f->left_image));
	nam_race_point("server.joined");
	nam__node_set_type(f->right_image,
		nam__node_type_and_flags(f->right_image) | NAM__NODE_DEAD);
	nam__tree_server_store(f->right, f->right_image, NAM__WORD_FRONT, NAM__WORD_FRONT + 1);
	nam__inner_remove(g, f->parent_image, number + 1, &dirty);
	nam__tree_server_store(f->parent, f->parent_image, dirty.first, dirty.end);
	nam__tree_server_store(f->parent, f->parent_image, NAM__WORD_SHAPE, NAM__WORD_SHAPE + 1);

	nam__tree_server_unlock(f->left, f->left_version + 2);
	nam_race_point("server.merged");
	nam__tree_server_unlock(f->right, f->right_version + 2);
	f->parent_version += 2;
	nam__tree_server_unlock(f->parent, f->parent_version);
	nam_race_point("server.taken_out");
	f->tree->memory.retire(f->tree->memory.arg, f->right);
	return true;
}

void
nam__tree_server_collect(struct nam__tree_server_tree *tree, uint64_t *scratch, unsigned level,
	const uint64_t *from, uint32_t max, struct nam__tree_server_collected *ret_collected)
{
	const struct nam__geometry *g = &tree->g;
	struct family f = {
		.tree = tree,
		.parent_image = scratch,
		.left_image = scratch + g->node_words,
		.right_image = scratch + 2 * (size_t)g->node_words,
	};

	*ret_collected = (struct nam__tree_server_collected){
		.height = nam__tree_server_root_level(tree) + 1,
	};
	if (level >= ret_collected->height - 1)
		return;
	ret_collected->more = true;
	memcpy(ret_collected->next.w, from, 8 * g->full_words);
	for (uint32_t i = 0; i < max && ret_collected->more; i++) {
		const uint64_t *next = ret_collected->next.w;

		f.parent = nam__tree_server_cover(tree, NULL, next, level + 1, f.parent_image,
			&f.parent_version);
		ret_collected->nodes += nam__node_count(f.parent_image);
		for (unsigned number = 0; number + 1 < nam__node_count(f.parent_image);) {
			if (merge(&f, number))
				ret_collected->merges++;
			else
				number++;
		}
		ret_collected->more = !nam__node_last(f.parent_image);
		memcpy(ret_collected->next.w, nam__node_high(g, f.parent_image), 8 * g->full_words);
	}
}

/* A full node that grows at its end keeps all but one entry. */
static uint32_t
filled_to(uint32_t capacity, unsigned percent)
{
	uint32_t entries = capacity * percent / 100 + 1;

	return entries < capacity ? entries : capacity;
}

void
nam__tree_server_fill(struct nam__tree_server_tree *tree, unsigned percent)
{
	tree->g.leaf_capacity = filled_to(tree->g.leaf_capacity, percent);
	tree->g.inner_capacity = filled_to(tree->g.inner_capacity, percent);
}

int
nam__tree_server_publish(struct nam__tree_server_tree *tree, uint64_t *scratch,
	struct nam__tree_server_tree *filled, uint32_t entries)
{
	uint64_t *old = (uint64_t *)__atomic_load_n(&tree->root, __ATOMIC_ACQUIRE), version;

	do {
		version = nam__tree_server_read(tree, old, scratch);
		/* I1: ranges in the old root would not be reachable from the new one. */
		if (NAM_GUARD(LOAD_EMPTY) && (nam__node_level(scratch) ||
			nam__node_count(scratch) > entries ||
			!nam__node_last(scratch) || nam__node_dead(scratch)))
			return -NAM_E_NOTEMPTY;
	} while (!nam__tree_server_lock(old, version));
	/* First the root: a thread that finds the old leaf dead begins anew there. */
	__atomic_store_n(&tree->root, filled->root, __ATOMIC_RELEASE);
	nam_race_point("server.published");
	nam__node_set_type(scratch, nam__node_type_and_flags(scratch) | NAM__NODE_DEAD);
	nam__tree_server_store(old, scratch, NAM__WORD_FRONT, NAM__WORD_FRONT + 1);
	nam__tree_server_unlock(old, version + 2);
	tree->memory.retire(tree->memory.arg, old);
	free(filled);
	return 0;
}
