/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.h -- building the nodes of a tree, or a chain of leaves, from sorted pairs, left to right.
 *
 * Nodes are WRITTEN as they fill up, many with one doorbell; no reader can see them.  Per pair the
 * work is one copy; per node, one hash.  Each level has one open node: the spine.  A node is closed
 * when it is full and its successor begins, because only then are its high fence and its sibling
 * known.
 */
#ifndef NAM_INDEX_FINE_LOADER_H
#define NAM_INDEX_FINE_LOADER_H

#include "index/maintain/maintain.h"
#include "index/tree_load.h"

#define NAM__LOADER_NODES 32u		/* under way at a time */

/* The open node of a level. */
struct nam__open_node {
	uint64_t *image;		/* NULL: the level does not exist */
	struct nam_gaddr at;
	unsigned count;
};

struct nam__loader {
	struct nam_worker *worker;
	struct nam_index *index;
	const struct nam__geometry *g;
	unsigned leaf_target, inner_target, head_interval;

	struct nam__open_node spine[NAM__LEVELS_MAX];
	struct nam_gaddr first[NAM__LEVELS_MAX];	/* leftmost node of each level */
	struct nam__open_node head;	/* the last head node, while its leaves are being built */
	uint64_t leaves, pairs;
	struct nam__tree_load *names;	/* hybrid: the load of the levels above; else NULL */

	/* Closed nodes on their way; their images must rest until the doorbell's work is done. */
	struct nam_batch batch;
	uint64_t *images[NAM__LOADER_NODES];
	unsigned images_count;

	/* Every address taken, to be given back on failure. */
	uint64_t *taken;
	size_t taken_count, taken_size;
};

/* Any memory but what *loader is made of is taken later.  @fill_percent	50 .. 100 */
void nam__loader_init(struct nam__loader *loader, struct nam_worker *worker,
	struct nam_index *index, uint32_t fill_percent);

/* Begin a leaf at `low`, closing the one before it and naming the new one in its parent. */
NAM_FIBER_FN int nam__loader_leaf_begin(struct nam__loader *loader,
	const uint64_t *low) NAM_MUST_CHECK;

/* The next pair, by its full key; the first leaf's range begins at `begin`. */
NAM_FIBER_FN static inline int
nam__loader_add(struct nam__loader *loader, const uint64_t *key, uint64_t payload,
	const uint64_t *begin)
{
	const struct nam__geometry *g = loader->g;
	struct nam__open_node *leaf = &loader->spine[0];
	uint64_t *entry;

	if (leaf->count == loader->leaf_target || !loader->pairs) {
		int rc = nam__loader_leaf_begin(loader, loader->pairs ? key : begin); /* SUSPENDS */

		if (rc)
			return rc;
	}
	entry = nam__leaf_entry(g, leaf->image, leaf->count++);
	for (uint32_t i = 0; i < g->key_words; i++)
		entry[i] = key[i];
	entry[g->key_words] = payload;
	loader->pairs++;
	return 0;
}

/* The input, at least one pair, is at its end: every open node is the last of its level. */
NAM_FIBER_FN int nam__loader_close(struct nam__loader *loader,
	struct nam_gaddr *ret_root) NAM_MUST_CHECK;

/* Give a node its right neighbour: no longer the last of its level. */
void nam__loader_link(const struct nam__geometry *g, uint64_t *image, const uint64_t *high,
	struct nam_gaddr sibling);

/* Give the images back and, if no reader has seen them, the nodes. */
void nam__loader_done(struct nam__loader *loader, bool published);

#endif /* NAM_INDEX_FINE_LOADER_H */
