/* SPDX-License-Identifier: Apache-2.0 */
#include "loader.h"

#include <errno.h>
#include <stdlib.h>

#include "compute/remote/reclaim.h"

static int
taken_reserve(struct nam__loader *loader)
{
	size_t size = loader->taken_size ? 2 * loader->taken_size : 1024;
	uint64_t *taken;

	if (loader->taken_count < loader->taken_size)
		return 0;
	taken = realloc(loader->taken, size * sizeof(*taken));
	if (!taken)
		return -ENOMEM;
	loader->taken = taken;
	loader->taken_size = size;
	return 0;
}

/* If memory is full, the operation ends until runs of dropped objects have come back. */
NAM_FIBER_FN static int
node_alloc(struct nam__loader *loader, struct nam_gaddr *ret_at, uint32_t *ret_generation)
{
	struct nam_worker *worker = loader->worker;
	struct nam_gaddr root;
	unsigned tries = 0;
	bool again;
	int rc;

	do {
		rc = nam__node_alloc(worker, loader->index, true, ret_at,
			ret_generation); /* SUSPENDS */
		if (rc != -NAM_E_REMOTE_FULL)
			return rc;
		nam__op_end(worker);
		again = nam__memory_retry(worker, rc, &tries); /* SUSPENDS */
		nam__op_resume(worker, NAM_OP_BULK_LOAD);
		if (again)
			rc = nam__root_refresh(worker, loader->index, &root); /* SUSPENDS */
	} while (again && !rc);
	return rc;
}

/* An image and a place for a new node; nothing is taken on failure. */
NAM_FIBER_FN static int
node_take(struct nam__loader *loader, struct nam__open_node *node, uint32_t *ret_generation)
{
	uint64_t *image;
	int rc = taken_reserve(loader);

	if (rc)
		return rc;
	image = nam_buffer_take(loader->worker, loader->g->node_bytes);
	if (!image)
		return -ENOMEM;
	rc = node_alloc(loader, &node->at, ret_generation); /* SUSPENDS */
	if (rc) {
		nam_buffer_give(loader->worker, image, loader->g->node_bytes);
		return rc;
	}
	loader->taken[loader->taken_count++] = node->at.raw;
	node->image = image;
	node->count = 0;
	return 0;
}

static void
images_give(struct nam__loader *loader)
{
	while (loader->images_count)
		nam_buffer_give(loader->worker, loader->images[--loader->images_count],
			loader->g->node_bytes);
}

/* Post what is closed, and wait. */
NAM_FIBER_FN static int
flush(struct nam__loader *loader)
{
	int rc = nam_batch_await(&loader->batch); /* SUSPENDS */

	images_give(loader);
	return rc;
}

/* A node has got everything: seal it and send it off.  Its image is the batch's from here on. */
NAM_FIBER_FN static int
node_send(struct nam__loader *loader, struct nam__open_node *node)
{
	nam__batch_new_node(&loader->batch, loader->index, node->at, node->image);
	loader->images[loader->images_count++] = node->image;
	node->image = NULL;
	/* A node takes up to three requests. */
	if (loader->images_count < NAM__LOADER_NODES && loader->batch.count + 3 <= NAM_BATCH_MAX)
		return 0;
	return flush(loader); /* SUSPENDS */
}

static void
inner_append(const struct nam__geometry *g, struct nam__open_node *node, const uint64_t *key,
	struct nam_gaddr child)
{
	uint64_t *entry = nam__inner_entry(g, node->image, node->count++);

	memcpy(entry, key, 8 * g->full_words);
	entry[g->full_words] = child.raw;
	nam__node_set_counts(node->image, node->count, node->count);
}

void
nam__loader_link(const struct nam__geometry *g, uint64_t *image, const uint64_t *high,
	struct nam_gaddr sibling)
{
	nam__node_set_type(image, nam__node_type(image));
	memcpy(image + NAM__WORD_LOW + g->full_words, high, 8 * g->full_words);
	image[NAM__WORD_SIBLING] = sibling.raw;
}

/* Begin a level: its first node names the first node of the level below. */
NAM_FIBER_FN static int
level_begin(struct nam__loader *loader, unsigned level)
{
	struct nam__open_node *node = &loader->spine[level];
	uint32_t generation;
	int rc = node_take(loader, node, &generation); /* SUSPENDS */

	if (rc)
		return rc;
	loader->first[level] = node->at;
	nam__node_init(loader->g, node->image, NAM__NODE_INNER, level, generation,
		nam__key_lowest.w, NULL);
	inner_append(loader->g, node, nam__key_lowest.w, loader->first[level - 1]);
	return 0;
}

/*
 * Name a child whose range begins at `key` at `level`, and at the levels above if that begins a new
 * node.  None goes into the cache: a lookup must not find nodes that may yet be taken back.
 */
NAM_FIBER_FN static int
inner_add(struct nam__loader *loader, unsigned level, const uint64_t *key, struct nam_gaddr child)
{
	for (;; level++) {
		struct nam__open_node *node, next;
		uint32_t generation;
		int rc;

		if (level == NAM__LEVELS_MAX)
			return -NAM_E_LIMIT;
		node = &loader->spine[level];
		if (!node->image) {
			rc = level_begin(loader, level); /* SUSPENDS */
			if (rc)
				return rc;
		}
		if (node->count < loader->inner_target) {
			inner_append(loader->g, node, key, child);
			return 0;
		}
		rc = node_take(loader, &next, &generation); /* SUSPENDS */
		if (rc)
			return rc;
		nam__loader_link(loader->g, node->image, key, next.at);
		rc = node_send(loader, node); /* SUSPENDS */
		*node = next;
		if (rc)
			return rc;
		nam__node_init(loader->g, node->image, NAM__NODE_INNER, level, generation, key,
			NULL);
		inner_append(loader->g, node, key, child);
		child = node->at;
	}
}

/* All leaves that a head node has room for are known by now, or there are no more. */
NAM_FIBER_FN static int
head_close(struct nam__loader *loader)
{
	if (!loader->head.image)
		return 0;
	nam__node_set_counts(loader->head.image, loader->head.count, loader->head.count);
	return node_send(loader, &loader->head); /* SUSPENDS */
}

/* Put a head node before the leaf `leaf`, whose range begins at `low`. */
NAM_FIBER_FN static int
head_begin(struct nam__loader *loader, const uint64_t *low, struct nam_gaddr leaf)
{
	uint32_t generation;
	int rc = head_close(loader); /* SUSPENDS */

	if (!rc)
		rc = node_take(loader, &loader->head, &generation); /* SUSPENDS */
	if (!rc)
		nam__head_init(loader->g, loader->head.image, generation, low, leaf);
	return rc;
}

int
nam__loader_leaf_begin(struct nam__loader *loader, const uint64_t *low)
{
	const struct nam__geometry *g = loader->g;
	struct nam__open_node *open = &loader->spine[0], next;
	struct nam_gaddr sibling;
	uint32_t generation;
	int rc = node_take(loader, &next, &generation); /* SUSPENDS */

	if (rc)
		return rc;
	nam__node_init(g, next.image, NAM__NODE_LEAF, 0, generation, low, NULL);
	sibling = next.at;
	if (loader->leaves) {
		if (loader->head_interval && loader->leaves % loader->head_interval == 0) {
			rc = head_begin(loader, low, next.at); /* SUSPENDS */
			if (rc)
				goto give_image;
			sibling = loader->head.at;
		}
		nam__node_set_counts(open->image, open->count, open->count);
		nam__loader_link(g, open->image, low, sibling);
		rc = node_send(loader, open); /* SUSPENDS */
		if (rc)
			goto give_image;
	} else {
		loader->first[0] = next.at;
	}
	*open = next;
	if (loader->head.image)
		loader->head.image[g->entries_at + loader->head.count++] = open->at.raw;
	loader->leaves++;
	if (loader->names)
		return nam__tree_load_add(loader->names, low, open->at.raw); /* SUSPENDS */
	/* The first leaf of all is named when its level's parent begins. */
	if (loader->leaves > 1)
		return inner_add(loader, 1, low, open->at); /* SUSPENDS */
	return 0;

give_image:
	nam_buffer_give(loader->worker, next.image, g->node_bytes);
	return rc;
}

int
nam__loader_close(struct nam__loader *loader, struct nam_gaddr *ret_root)
{
	struct nam__open_node *leaf = &loader->spine[0];
	int rc = 0;

	nam__node_set_counts(leaf->image, leaf->count, leaf->count);
	for (unsigned level = 0; !rc && level < NAM__LEVELS_MAX && loader->spine[level].image;
		level++) {
		*ret_root = loader->spine[level].at;
		rc = node_send(loader, &loader->spine[level]); /* SUSPENDS */
	}
	if (!rc)
		rc = head_close(loader); /* SUSPENDS */
	if (!rc)
		rc = flush(loader); /* SUSPENDS */
	return rc;
}

static unsigned
target(uint32_t capacity, uint32_t fill_percent)
{
	unsigned entries = capacity * fill_percent / 100;

	return entries < 2 ? 2 : entries;
}

void
nam__loader_init(struct nam__loader *loader, struct nam_worker *worker, struct nam_index *index,
	uint32_t fill_percent)
{
	memset(loader, 0, sizeof(*loader));
	loader->worker = worker;
	loader->index = index;
	loader->g = &index->g;
	loader->leaf_target = target(index->g.leaf_capacity, fill_percent);
	loader->inner_target = target(index->g.inner_capacity, fill_percent);
	loader->head_interval = nam__head_interval(index);
	nam_batch_init(&loader->batch, worker);
}

void
nam__loader_done(struct nam__loader *loader, bool published)
{
	uint32_t node_bytes = loader->g->node_bytes;

	for (size_t i = 0; !published && i < loader->taken_count; i++)
		nam_free_unseen(loader->worker, (struct nam_gaddr){ loader->taken[i] },
			loader->g->stride);
	free(loader->taken);
	images_give(loader);
	for (unsigned level = 0; level < NAM__LEVELS_MAX; level++)
		nam_buffer_give(loader->worker, loader->spine[level].image, node_bytes);
	nam_buffer_give(loader->worker, loader->head.image, node_bytes);
}
