/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulk_load.c -- fill an empty index from sorted input.
 *
 *	step 1	take the collector's word, and lock the root, which is an empty leaf.
 *	step 2	build all levels at once, from left to right.  Nodes are WRITTEN as they fill up,
 *		many with one doorbell; nobody can see them.
 *	step 3	mark the old leaf dead, keeping its lock.  Whoever comes to it looks for the root
 *		anew, and again, until there is one.
 *	step 4	CAS the superblock's root pointer from the old leaf to the new root.  From here on
 *		the pairs are there, all of them, for everyone.
 *	step 5	unlock the old leaf and retire it; give the collector's word back.
 *
 * With steps 3 and 4 the other way round, who opened the index before would go on seeing it empty
 * after others have seen it full.
 *
 * Per pair the work is one call of the source, one comparison with the pair before and one copy;
 * per node, one hash.  Each level has one open node: the spine.  A node is closed when it is full
 * and its successor begins, because only then are its high fence and its sibling known.
 */
#include <errno.h>
#include <stdlib.h>

#include "maintain.h"

#define FILL_DEFAULT 92u
#define FILL_MIN 50u
#define FILL_MAX 100u
#define BATCH_NODES 32u

/* The open node of a level. */
struct open_node {
	uint64_t *image;		/* NULL: the level does not exist */
	struct nam_gaddr at;
	unsigned count;
};

struct loader {
	struct nam_worker *worker;
	struct nam_index *index;
	const struct nam__geometry *g;
	unsigned leaf_target, inner_target, head_interval;

	struct open_node spine[NAM__LEVELS_MAX];
	struct nam_gaddr first[NAM__LEVELS_MAX];	/* leftmost node of each level */
	struct open_node head;		/* the last head node, while its leaves are being built */
	uint64_t leaves;

	/* Closed nodes on their way; their images must rest until the doorbell's work is done. */
	struct nam_batch batch;
	uint64_t *images[BATCH_NODES];
	unsigned images_count;
	uint64_t *idle[BATCH_NODES];	/* images whose nodes have arrived, for the next ones */
	unsigned idle_count;

	/* Every address taken, to be given back on failure. */
	uint64_t *taken;
	size_t taken_count, taken_size;
};

/* ---- images and addresses ------------------------------------------------------------------ */

static uint64_t *
image_take(struct loader *loader)
{
	if (loader->idle_count)
		return loader->idle[--loader->idle_count];
	return nam_buffer_take(loader->worker, loader->g->node_bytes);
}

static int
taken_reserve(struct loader *loader)
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

/* An image and a place for a new node; nothing is taken on failure. */
NAM_FIBER_FN static int
node_take(struct loader *loader, struct open_node *node, uint32_t *ret_generation)
{
	uint64_t *image;
	int rc = taken_reserve(loader);

	if (rc)
		return rc;
	image = image_take(loader);
	if (!image)
		return -ENOMEM;
	rc = nam__node_alloc(loader->worker, loader->index, &node->at,
		ret_generation); /* SUSPENDS */
	if (rc) {
		nam_buffer_give(loader->worker, image, loader->g->node_bytes);
		return rc;
	}
	loader->taken[loader->taken_count++] = node->at.raw;
	node->image = image;
	node->count = 0;
	return 0;
}

/* Ring the doorbell for what is closed and wait; then the images are idle. */
NAM_FIBER_FN static int
flush(struct loader *loader)
{
	int rc = nam_batch_await(&loader->batch); /* SUSPENDS */

	while (loader->images_count) {
		uint64_t *image = loader->images[--loader->images_count];

		if (loader->idle_count < BATCH_NODES)
			loader->idle[loader->idle_count++] = image;
		else
			nam_buffer_give(loader->worker, image, loader->g->node_bytes);
	}
	return rc;
}

/* A node has got everything: seal it and send it off.  Its image is the batch's from here on. */
NAM_FIBER_FN static int
node_send(struct loader *loader, struct open_node *node)
{
	nam__batch_new_node(&loader->batch, loader->index, node->at, node->image);
	loader->images[loader->images_count++] = node->image;
	node->image = NULL;
	/* A node takes up to three requests. */
	if (loader->images_count < BATCH_NODES && loader->batch.count + 3 <= NAM_BATCH_MAX)
		return 0;
	return flush(loader); /* SUSPENDS */
}

/* ---- inner levels -------------------------------------------------------------------------- */

static void
inner_append(const struct nam__geometry *g, struct open_node *node, const uint64_t *key,
	struct nam_gaddr child)
{
	uint64_t *entry = nam__inner_entry(g, node->image, node->count++);

	memcpy(entry, key, 8 * g->full_words);
	entry[g->full_words] = child.raw;
	nam__node_set_counts(node->image, node->count, node->count);
}

/* Give a node its right neighbour: no longer the last of its level. */
static void
node_link(const struct nam__geometry *g, uint64_t *image, const uint64_t *high,
	struct nam_gaddr sibling)
{
	nam__node_set_type(image, nam__node_type(image));
	memcpy(image + NAM__WORD_LOW + g->full_words, high, 8 * g->full_words);
	image[NAM__WORD_SIBLING] = sibling.raw;
}

/* Begin a level: its first node names the first node of the level below. */
NAM_FIBER_FN static int
level_begin(struct loader *loader, unsigned level)
{
	static const struct nam__key lowest;
	struct open_node *node = &loader->spine[level];
	uint32_t generation;
	int rc = node_take(loader, node, &generation); /* SUSPENDS */

	if (rc)
		return rc;
	loader->first[level] = node->at;
	nam__node_init(loader->g, node->image, NAM__NODE_INNER, level, generation, lowest.w, NULL);
	inner_append(loader->g, node, lowest.w, loader->first[level - 1]);
	return 0;
}

/*
 * Inner nodes do not go into the cache as they are made: until step 3 a lookup must not find its
 * way to what may yet be taken back.
 *
 * Name a child whose range begins at `key` at `level`, and at the levels above where that begins a
 * new node.
 */
NAM_FIBER_FN static int
inner_add(struct loader *loader, unsigned level, const uint64_t *key, struct nam_gaddr child)
{
	for (;; level++) {
		struct open_node *node, next;
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
		node_link(loader->g, node->image, key, next.at);
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

/* ---- leaves and head nodes ----------------------------------------------------------------- */

/* All leaves that a head node has room for are known by now, or there are no more. */
NAM_FIBER_FN static int
head_close(struct loader *loader)
{
	if (!loader->head.image)
		return 0;
	nam__node_set_counts(loader->head.image, loader->head.count, loader->head.count);
	return node_send(loader, &loader->head); /* SUSPENDS */
}

/* Put a head node before the leaf `leaf`, whose range begins at `low`. */
NAM_FIBER_FN static int
head_begin(struct loader *loader, const uint64_t *low, struct nam_gaddr leaf)
{
	uint32_t generation;
	int rc = head_close(loader); /* SUSPENDS */

	if (!rc)
		rc = node_take(loader, &loader->head, &generation); /* SUSPENDS */
	if (!rc)
		nam__head_init(loader->g, loader->head.image, generation, low, leaf);
	return rc;
}

static void
leaf_close(const struct nam__geometry *g, struct open_node *leaf, const uint64_t *high,
	struct nam_gaddr sibling)
{
	nam__node_set_counts(leaf->image, leaf->count, leaf->count);
	if (high)
		node_link(g, leaf->image, high, sibling);
}

/* Begin a leaf at `low`, closing the one before it and naming the new one in its parent. */
NAM_FIBER_FN static int
leaf_begin(struct loader *loader, const uint64_t *low)
{
	const struct nam__geometry *g = loader->g;
	struct open_node *open = &loader->spine[0], next;
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
		leaf_close(g, open, low, sibling);
		rc = node_send(loader, open); /* SUSPENDS */
		if (rc)
			goto give_image;
	} else {
		loader->first[0] = next.at;
	}
	*open = next;
	if (loader->head.image)
		loader->head.image[g->entries_at + loader->head.count++] = open->at.raw;
	/* The first leaf of all is named when its level's parent begins. */
	if (loader->leaves++)
		return inner_add(loader, 1, low, open->at); /* SUSPENDS */
	return 0;

give_image:
	nam_buffer_give(loader->worker, next.image, g->node_bytes);
	return rc;
}

/* ---- the input ----------------------------------------------------------------------------- */

static int
unsorted(struct loader *loader, uint64_t pair, int order)
{
	return nam_diag_set(&loader->worker->diag, -NAM_E_UNSORTED,
		"pair %llu of the input %s pair %llu; %s", (unsigned long long)pair + 1,
		order ? "belongs before" : loader->g->unique ? "has the same key as" : "equals",
		(unsigned long long)pair,
		order ? "sort the input by key and, in a non-unique index, by payload"
		      : "each may occur once only");
}

/* Step 2: read the source to its end. */
NAM_FIBER_FN static int
input_load(struct loader *loader, nam_index_source_fn source, void *arg, uint64_t *ret_count)
{
	const struct nam__geometry *g = loader->g;
	struct open_node *leaf = &loader->spine[0];
	static const struct nam__key lowest;
	struct nam__key keys[2] = { 0 }, *key = &keys[0], *last = &keys[1];
	uint8_t bytes[NAM_KEY_BYTES_MAX];
	uint64_t payload = 0, pairs = 0;
	int rc;

	while ((rc = source(arg, bytes, &payload)) > 0) {
		struct nam__key *swap = last;
		uint64_t *entry;
		int order;

		nam__key_encode(g, bytes, payload, key);
		order = pairs ? nam__key_compare(last->w, key->w, g->full_words) : -1;
		if (order >= 0)
			return unsorted(loader, pairs, order);
		if (leaf->count == loader->leaf_target || !pairs) {
			rc = leaf_begin(loader, pairs ? key->w : lowest.w); /* SUSPENDS */
			if (rc)
				return rc;
		}
		entry = nam__leaf_entry(g, leaf->image, leaf->count++);
		for (uint32_t i = 0; i < g->key_words; i++)
			entry[i] = key->w[i];
		entry[g->key_words] = payload;
		pairs++;
		last = key;
		key = swap;
	}
	*ret_count = pairs;
	return rc;
}

/* The input is at its end: every open node is the last of its level. */
NAM_FIBER_FN static int
spine_close(struct loader *loader, struct nam_gaddr *ret_root)
{
	unsigned level = 0;
	int rc;

	leaf_close(loader->g, &loader->spine[0], NULL, NAM_GADDR_NULL);
	*ret_root = loader->spine[0].at;
	rc = node_send(loader, &loader->spine[0]); /* SUSPENDS */
	for (level = 1; !rc && level < NAM__LEVELS_MAX && loader->spine[level].image; level++) {
		*ret_root = loader->spine[level].at;
		rc = node_send(loader, &loader->spine[level]); /* SUSPENDS */
	}
	if (!rc)
		rc = head_close(loader); /* SUSPENDS */
	if (!rc)
		rc = flush(loader); /* SUSPENDS */
	return rc;
}

/* ---- the root ------------------------------------------------------------------------------ */

static bool
is_empty_root(const struct nam__geometry *g, const uint64_t *image)
{
	static const struct nam__key lowest;

	return nam__node_type(image) == NAM__NODE_LEAF && nam__node_last(image) &&
	       nam__node_count(image) == 0 &&
	       nam__key_compare(nam__node_low(image), lowest.w, g->full_words) == 0;
}

/* Step 1. */
NAM_FIBER_FN static int
root_lock(struct nam_worker *worker, struct nam_index *index, struct nam__held *root)
{
	uint64_t patience_ns = worker->client->options.lock_timeout_ms * 1000000ull;
	struct nam_gaddr at;
	int rc, unlock_rc;

	rc = nam__root_refresh(worker, index); /* SUSPENDS */
	if (rc)
		return rc;
	at.raw = atomic_load_explicit(&index->root, memory_order_relaxed);
	/* Beside the queue: this lock is held for as long as the load takes. */
	rc = nam__aside_lock(worker, index, at, 0, patience_ns, root); /* SUSPENDS */
	if (rc == -NAM_E_RESTART_DEAD)
		return -NAM_E_NOTEMPTY;		/* an inner node, or somebody loaded just now */
	if (rc == -NAM_E_RESTART_LOCKED)
		return nam_diag_set(&worker->diag, -NAM_E_LOCK_TIMEOUT,
			"the root of the index is being written by others");
	if (rc)
		return rc;
	if (is_empty_root(&index->g, root->image))
		return 0;
	unlock_rc = nam__aside_unlock(worker, root); /* SUSPENDS */
	return unlock_rc ? unlock_rc : -NAM_E_NOTEMPTY;
}

/* Write the old root as dead, or alive and empty again.  The lock stays held. */
NAM_FIBER_FN static int
root_mark(struct loader *loader, struct nam__held *root, bool dead, struct nam_gaddr forward)
{
	nam__node_set_type(root->image,
		NAM__NODE_LEAF | NAM__NODE_LAST | (dead ? NAM__NODE_DEAD : 0));
	root->image[NAM__WORD_SIBLING] = forward.raw;
	return nam__write_keep(loader->worker, loader->index, root, (struct nam__dirty){ 0, 0 },
		NAM__HEADER_FENCES); /* SUSPENDS */
}

/*
 * Steps 3 to 5.  *ret_published says whether the new nodes can be seen, or may be: then they are
 * not to be given back.
 */
NAM_FIBER_FN static int
root_switch(struct loader *loader, struct nam__held *root, struct nam_gaddr new_root,
	bool *ret_published)
{
	struct nam_worker *worker = loader->worker;
	struct nam_index *index = loader->index;
	uint64_t seen = 0;
	int rc, unlock_rc;

	*ret_published = true;
	rc = root_mark(loader, root, true, new_root); /* SUSPENDS */
	nam_race_point("load.old_root_dead");
	if (!rc)
		rc = nam_cas_await(worker, index->superblock, root->at.raw, new_root.raw,
			&seen); /* SUSPENDS */
	if (!rc && seen != root->at.raw) {
		/* Nobody can have grown the tree under our lock: the index is gone. */
		*ret_published = false;
		rc = root_mark(loader, root, false, NAM_GADDR_NULL); /* SUSPENDS */
		if (!rc)
			rc = -NAM_E_DROPPED;
	}
	nam_race_point("load.root_switched");
	if (!rc)
		atomic_store_explicit(&index->root, new_root.raw, memory_order_relaxed);
	unlock_rc = nam__aside_unlock(worker, root); /* SUSPENDS */
	if (!rc)
		rc = unlock_rc;
	if (!rc)
		nam_retire(worker, root->at, loader->g->stride);
	return rc;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static unsigned
target(uint32_t capacity, uint32_t fill_percent)
{
	unsigned entries = capacity * fill_percent / 100;

	return entries < 2 ? 2 : entries;
}

/* Give the images back and, if nobody has seen them, the nodes. */
static void
loader_done(struct loader *loader, bool published)
{
	uint32_t node_bytes = loader->g->node_bytes;

	for (size_t i = 0; !published && i < loader->taken_count; i++)
		nam_free_unseen(loader->worker, (struct nam_gaddr){ loader->taken[i] },
			loader->g->stride);
	free(loader->taken);
	while (loader->images_count)
		nam_buffer_give(loader->worker, loader->images[--loader->images_count], node_bytes);
	while (loader->idle_count)
		nam_buffer_give(loader->worker, loader->idle[--loader->idle_count], node_bytes);
	for (unsigned level = 0; level < NAM__LEVELS_MAX; level++)
		nam_buffer_give(loader->worker, loader->spine[level].image, node_bytes);
	nam_buffer_give(loader->worker, loader->head.image, node_bytes);
}

/* The root is held, and is not afterwards. */
NAM_FIBER_FN static int
load(struct loader *loader, struct nam__held *root, nam_index_source_fn source, void *arg,
	uint64_t *ret_count)
{
	struct nam_gaddr new_root;
	bool published = false;
	uint64_t count = 0;
	int rc, unlock_rc;

	rc = input_load(loader, source, arg, &count); /* SUSPENDS */
	if (rc || !count)
		goto unlock_root;
	rc = spine_close(loader, &new_root); /* SUSPENDS */
	if (rc)
		goto unlock_root;
	nam_race_point("load.built");
	rc = root_switch(loader, root, new_root, &published); /* SUSPENDS */
	goto done;

unlock_root:
	unlock_rc = nam__aside_unlock(loader->worker, root); /* SUSPENDS */
	if (!rc)
		rc = unlock_rc;
done:
	loader_done(loader, published);
	if (!rc && ret_count)
		*ret_count = count;
	return rc;
}

/* Nobody else may retire the old root: not a collector, and not whoever drops the index. */
NAM_FIBER_FN static int
load_alone(struct loader *loader, struct nam__held *root, nam_index_source_fn source, void *arg,
	uint64_t *ret_count)
{
	struct nam_worker *worker = loader->worker;
	struct nam_index *index = loader->index;
	uint64_t patience_ns = worker->client->options.lock_timeout_ms * 1000000ull, word;
	int rc, leave_rc;

	rc = nam__collector_enter(worker, index, patience_ns, &word); /* SUSPENDS */
	if (rc)
		return rc;
	rc = root_lock(worker, index, root); /* SUSPENDS */
	nam_race_point("load.root_locked");
	if (!rc)
		rc = load(loader, root, source, arg, ret_count); /* SUSPENDS */
	leave_rc = nam__collector_leave(worker, index, word); /* SUSPENDS */
	return rc ? rc : leave_rc;
}

int
nam_index_bulk_load(struct nam_worker *worker, struct nam_index *index, nam_index_source_fn source,
	void *arg, uint32_t fill_percent, uint64_t *ret_count)
{
	const struct nam__geometry *g = &index->g;
	struct nam__held root;
	struct loader *loader;
	int rc;

	if (!fill_percent)
		fill_percent = FILL_DEFAULT;
	if (fill_percent < FILL_MIN || fill_percent > FILL_MAX)
		return nam_diag_set(&worker->diag, -EINVAL,
			"fill percentage %u: it must be between %u and %u, or 0 for %u",
			fill_percent, FILL_MIN, FILL_MAX, FILL_DEFAULT);
	/* A batch is large, and fibers' stacks are small. */
	loader = calloc(1, sizeof(*loader));
	root.image = nam_buffer_take(worker, g->node_bytes);
	if (!loader || !root.image) {
		rc = -ENOMEM;
		goto give_image;
	}
	loader->worker = worker;
	loader->index = index;
	loader->g = g;
	loader->leaf_target = target(g->leaf_capacity, fill_percent);
	loader->inner_target = target(g->inner_capacity, fill_percent);
	loader->head_interval = nam__head_interval(index);
	nam_batch_init(&loader->batch, worker);

	nam__op_begin(worker, NAM_OP_BULK_LOAD);
	rc = load_alone(loader, &root, source, arg, ret_count); /* SUSPENDS */
	nam__op_end(worker);
give_image:
	nam_buffer_give(worker, root.image, g->node_bytes);
	free(loader);
	return rc;
}
