/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.c -- finding, changing and dividing nodes behind plain pointers.
 *
 * S1: a word of a node is loaded with acquire and stored with release, after the store of the odd
 * version.  So a thread that loads a word of a later image finds the version changed.
 */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/env.h"
#include "common/guard.h"
#include "common/race.h"
#include "index/fine/leaf_change.h"
#include "tree_internal.h"
#include "index/node/divide.h"

#define SPINS_BEFORE_YIELD 64u
#define RESERVE_MAX (NAM__LEVELS_MAX + 2)

/* ---- versions ------------------------------------------------------------------------------ */

static inline uint64_t
word_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void
word_store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

_Atomic uint64_t nam__tree_server_restarts[NAM_SERVER_RESTARTS_COUNT];

static void
count_restart(enum nam_server_restart cause)
{
	atomic_fetch_add_explicit(&nam__tree_server_restarts[cause], 1, memory_order_relaxed);
}

/* The node's version, once no thread writes it. */
static uint64_t
version_of(const uint64_t *node)
{
	uint64_t version = word_load(node);

	if (version & 1)
		count_restart(NAM_SERVER_RESTART_LOCKED);
	for (unsigned spins = 1; (version = word_load(node)) & 1; spins++)
		if (spins % SPINS_BEFORE_YIELD == 0)
			nam_yield();
	return version;
}

/* S2: the version is the one at which the caller decided. */
bool
nam__tree_server_lock(uint64_t *node, uint64_t version)
{
	nam_race_point("server.image_read");
	return __atomic_compare_exchange_n(node, &version, version | 1, false, __ATOMIC_ACQUIRE,
		__ATOMIC_RELAXED);
}

void
nam__tree_server_unlock(uint64_t *node, uint64_t version)
{
	word_store(node, version);
}

/* ---- images -------------------------------------------------------------------------------- */

/* Words from the node's: whole only if the version is unchanged afterwards. */
static void
words_load(const uint64_t *node, uint64_t *image, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++)
		image[i] = word_load(node + i);
}

void
nam__tree_server_store(uint64_t *node, const uint64_t *image, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++)
		word_store(node + i, image[i]);
}

uint64_t
nam__tree_server_read(const struct nam__tree_server_tree *tree, const uint64_t *node,
	uint64_t *image)
{
	const struct nam__geometry *g = &tree->g;

	for (;;) {
		uint64_t version = version_of(node);
		uint32_t end;

		words_load(node, image, 1, g->entries_at);
		/* Halves of two images may say anything: stay inside of the node. */
		end = g->entries_at + nam__node_count(image) * nam__node_entry_words(g, image);
		nam_race_point("server.header_read");
		words_load(node, image, g->entries_at, end < g->node_words ? end : g->node_words);
		/* S1: the words are of one version. */
		if (!NAM_GUARD(SERVER_VERSION) || word_load(node) == version)
			return version;
		count_restart(NAM_SERVER_RESTART_CHANGED);
	}
}

/* ---- the way down -------------------------------------------------------------------------- */

static int
key_compare_at(const uint64_t *at, const uint64_t *key, unsigned words)
{
	for (unsigned i = 0; i < words; i++) {
		uint64_t word = word_load(at + i);

		if (word != key[i])
			return word < key[i] ? -1 : 1;
	}
	return 0;
}

/* The child that covers the key, in an inner node that does. */
static uint64_t *
child_of(const struct nam__geometry *g, const uint64_t *node, const uint64_t *key)
{
	unsigned count = (unsigned)(word_load(node + NAM__WORD_SHAPE) >> 48), low = 0;
	const uint64_t *entries = node + g->entries_at;

	if (count > g->inner_capacity)
		count = g->inner_capacity;
	/* The first separator is the low fence: the key is not below it. */
	for (unsigned high = count; high - low > 1;) {
		unsigned middle = low + (high - low) / 2;

		if (key_compare_at(entries + (size_t)middle * g->inner_words, key,
			    g->full_words) <= 0)
			low = middle;
		else
			high = middle;
	}
	return (uint64_t *)word_load(entries + (size_t)low * g->inner_words + g->full_words);
}

/* One look at a node: where to go from there, or NULL: it is at `level` and covers the key. */
static uint64_t *
step(const struct nam__tree_server_tree *tree, const uint64_t *node, const uint64_t *key,
	unsigned level)
{
	const struct nam__geometry *g = &tree->g;
	uint64_t *next;
	uint64_t version;

	for (;; count_restart(NAM_SERVER_RESTART_CHANGED)) {
		uint64_t front;

		version = version_of(node);
		front = word_load(node + NAM__WORD_FRONT);
		/* S3: a dead node leads nowhere, so the walk begins anew. */
		if (NAM_GUARD(SERVER_DEAD) && (front >> 8 & NAM__NODE_DEAD)) {
			count_restart(NAM_SERVER_RESTART_DEAD);
			next = (uint64_t *)word_load(&tree->root);
		} else if (!(front >> 8 & NAM__NODE_LAST) &&
			key_compare_at(node + NAM__WORD_LOW + g->full_words, key,
				g->full_words) <= 0)
			next = (uint64_t *)word_load(node + NAM__WORD_SIBLING);
		else if ((front & 0xff) == level)
			next = NULL;
		else
			next = child_of(g, node, key);
		if (word_load(node) == version)
			return next;
	}
}

/* S4: no node on the way is reused before this handler has answered. */
uint64_t *
nam__tree_server_find(const struct nam__tree_server_tree *tree, const uint64_t *key, unsigned level)
{
	uint64_t *node = (uint64_t *)word_load(&tree->root), *next;

	while ((next = step(tree, node, key, level))) {
		nam_race_point("server.stepped");
		node = next;
	}
	return node;
}

uint64_t *
nam__tree_server_cover(const struct nam__tree_server_tree *tree, uint64_t *node,
	const uint64_t *key, unsigned level, uint64_t *image, uint64_t *ret_version)
{
	if (!node)
		node = nam__tree_server_find(tree, key, level);
	for (;;) {
		*ret_version = nam__tree_server_read(tree, node, image);
		if (NAM_GUARD(SERVER_DEAD) && nam__node_dead(image))
			node = nam__tree_server_find(tree, key, level);
		else if (nam__node_beyond(image, &tree->g, key))
			node = (uint64_t *)image[NAM__WORD_SIBLING];	/* D8: moves right */
		else
			return node;
	}
}

unsigned
nam__tree_server_root_level(const struct nam__tree_server_tree *tree)
{
	const uint64_t *root = (const uint64_t *)word_load(&tree->root);

	return (unsigned)(word_load(root + NAM__WORD_FRONT) & 0xff);
}

/* ---- dividing ------------------------------------------------------------------------------ */

/* Blocks for a division and all that may come of it, taken before anything is changed (S2). */
struct reserve {
	struct nam__tree_server_tree *tree;
	void *blocks[RESERVE_MAX];
	unsigned count;
};

static void
reserve_give(struct reserve *reserve)
{
	const struct nam__server_memory *memory = &reserve->tree->memory;

	while (reserve->count)
		memory->give(memory->arg, reserve->blocks[--reserve->count]);
}

static int
reserve_take(struct reserve *reserve, struct nam__tree_server_tree *tree)
{
	const struct nam__server_memory *memory = &tree->memory;
	/* A block for each level that there is, one for the next, and one if others are quicker. */
	unsigned wanted = nam__tree_server_root_level(tree) + 3;

	*reserve = (struct reserve){ .tree = tree };
	if (wanted > RESERVE_MAX)
		return -NAM_E_LIMIT;
	while (reserve->count < wanted && (reserve->blocks[reserve->count] =
			memory->take(memory->arg)))
		reserve->count++;
	if (reserve->count == wanted)
		return 0;
	reserve_give(reserve);
	return -NAM_E_REMOTE_FULL;
}

/* The tree has grown by more than a level meanwhile: one more, if there is memory. */
static bool
reserve_more(struct reserve *reserve)
{
	const struct nam__server_memory *memory = &reserve->tree->memory;

	if (!reserve->count && (reserve->blocks[0] = memory->take(memory->arg)))
		reserve->count = 1;
	return reserve->count > 0;
}

/* Fill a block without a pointer to it yet. */
static void
node_fill(const struct nam__geometry *g, uint64_t *node, const uint64_t *image)
{
	uint64_t version = word_load(node) | 1;

	/* A reader of its last life sees that this is over. */
	word_store(node, version);
	nam__tree_server_store(node, image, 1,
		g->entries_at + nam__node_count(image) * nam__node_entry_words(g, image));
	word_store(node, version + 1);
}

/* S2: the new root is whole before the CAS.  Another thread may have put one there before. */
static void
grow(struct nam__tree_server_tree *tree, uint64_t *image, uint64_t *old_root, const uint64_t *key,
	uint64_t *right, unsigned level, struct reserve *reserve)
{
	const struct nam__geometry *g = &tree->g;
	uint64_t *node = reserve->blocks[reserve->count - 1], expected = (uint64_t)old_root;
	struct nam__dirty dirty;
	int rc;

	nam__node_init(g, image, NAM__NODE_INNER, level, 1, nam__key_lowest.w, NULL);
	nam__inner_entry(g, image, 0)[g->full_words] = (uint64_t)old_root;
	nam__node_set_counts(image, 1, 1);
	rc = nam__inner_add(g, image, key, (struct nam_gaddr){ (uint64_t)right }, &dirty);
	assert(!rc);	/* no node but the first begins with the lowest key */
	(void)rc;
	node_fill(g, node, image);
	nam_race_point("server.root_filled");
	if (__atomic_compare_exchange_n(&tree->root, &expected, (uint64_t)node, false,
		    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		reserve->count--;
}

static void divide(struct nam__tree_server_tree *tree, uint64_t *scratch, uint64_t *node,
	uint64_t version, const uint64_t *key, uint64_t value, struct reserve *reserve);

/* S2: name a new node, which is linked already, in the parent, under its lock. */
static void
separator_add(struct nam__tree_server_tree *tree, uint64_t *scratch, const uint64_t *key,
	uint64_t *child, unsigned level, struct reserve *reserve)
{
	const struct nam__geometry *g = &tree->g;
	uint64_t *node, version;
	struct nam__dirty dirty;
	int rc;

	do {
		uint64_t *root = (uint64_t *)word_load(&tree->root);

		if ((word_load(root + NAM__WORD_FRONT) & 0xff) < level) {
			if (!reserve_more(reserve))
				return;	/* see below */
			grow(tree, scratch, root, key, child, level, reserve);
		}
		node = nam__tree_server_cover(tree, NULL, key, level, scratch, &version);
	} while (!nam__tree_server_lock(node, version));
	rc = 0;
	/* The new root names it; or a reader of its keys finds it from the left, without a name. */
	if (!nam__key_compare(nam__inner_entry(g, scratch, nam__inner_search(g, scratch, key)), key,
		    g->full_words) ||
		(nam__node_count(scratch) == g->inner_capacity && !reserve_more(reserve))) {
		nam__tree_server_unlock(node, version);
	} else if (nam__node_count(scratch) == g->inner_capacity) {
		divide(tree, scratch, node, version, key, (uint64_t)child, reserve);
	} else {
		rc = nam__inner_add(g, scratch, key, (struct nam_gaddr){ (uint64_t)child }, &dirty);
		nam__tree_server_store(node, scratch, dirty.first, dirty.end);
		nam_race_point("server.separator_stored");
		word_store(node + NAM__WORD_SHAPE, scratch[NAM__WORD_SHAPE]);
		nam__tree_server_unlock(node, version + 2);
	}
	assert(!rc);	/* it was looked for */
	(void)rc;
}

/*
 * Divide a locked full node, whose image is in the first half of the scratch.  Add an entry to the
 * half that covers it, unlock, and name the new node.  S2: the new node first, then its link, then
 * its name.
 */
static void
divide(struct nam__tree_server_tree *tree, uint64_t *scratch, uint64_t *node, uint64_t version,
	const uint64_t *key, uint64_t value, struct reserve *reserve)
{
	const struct nam__geometry *g = &tree->g;
	uint64_t *image = scratch, *right_image = scratch + g->node_words;
	uint64_t *right = reserve->blocks[--reserve->count];
	unsigned level = nam__node_level(image);
	struct nam__dirty dirty;
	struct nam__key separator;

	nam__node_divide(g, image, nam__division_point(g, image, key), right_image, 1, &dirty);
	nam__add_to_half(g, image, right_image, key, value, &dirty);
	memcpy(separator.w, nam__node_low(right_image), 8 * g->full_words);
	node_fill(g, right, right_image);

	image[NAM__WORD_SIBLING] = (uint64_t)right;
	nam__tree_server_store(node, image, dirty.first, dirty.end);
	nam_race_point("server.left_stored");
	nam__tree_server_store(node, image, NAM__WORD_FRONT, g->entries_at);
	nam__tree_server_unlock(node, version + 2);
	nam_race_point("server.divided");
	separator_add(tree, scratch, separator.w, right, level + 1, reserve);
}

/* ---- changing ------------------------------------------------------------------------------ */

/* @exact	a delete of a key with this payload only */
static int
change(struct nam__tree_server_tree *tree, uint64_t *scratch, enum nam_op_kind kind, bool exact,
	const uint64_t *key, uint64_t payload)
{
	const struct nam__geometry *g = &tree->g;
	struct nam__leaf_outcome outcome;
	struct reserve reserve;
	uint64_t *node, version;
	int rc;

	do {
		node = nam__tree_server_cover(tree, NULL, key, 0, scratch, &version);
		nam__leaf_change(g, scratch, kind, exact, key, payload, &outcome);
		/* S1: the image is of one version: that is enough to say no. */
		if (outcome.effect != NAM__LEAF_WRITE && outcome.effect != NAM__LEAF_SPLIT)
			return nam__leaf_effect_rc(outcome.effect);
	} while (!nam__tree_server_lock(node, version));
	if (outcome.effect == NAM__LEAF_SPLIT) {
		rc = reserve_take(&reserve, tree);
		if (rc) {
			nam__tree_server_unlock(node, version);
			return rc;
		}
		divide(tree, scratch, node, version, key, payload, &reserve);
		reserve_give(&reserve);
		return 0;
	}
	/* S1: the version is odd, so no reader counts what it loads meanwhile. */
	nam__tree_server_store(node, scratch, outcome.dirty.first, outcome.dirty.end);
	nam_race_point("server.entry_stored");
	if (outcome.part != NAM__HEADER_FRONT)
		word_store(node + NAM__WORD_SHAPE, scratch[NAM__WORD_SHAPE]);
	nam__tree_server_unlock(node, version + 2);
	return 0;
}

int
nam__tree_server_change(struct nam__tree_server_tree *tree, uint64_t *scratch,
	enum nam_op_kind kind, const uint64_t *key, uint64_t payload)
{
	return change(tree, scratch, kind, false, key, payload);
}

int
nam__tree_server_delete_pair(struct nam__tree_server_tree *tree, uint64_t *scratch,
	const uint64_t *key, uint64_t payload)
{
	return change(tree, scratch, NAM_OP_DELETE, true, key, payload);
}

/* ---- the whole ----------------------------------------------------------------------------- */

size_t
nam__tree_server_scratch_bytes(const struct nam__tree_server_tree *tree)
{
	return NAM__SERVER_IMAGES * (size_t)tree->g.node_bytes;
}

int
nam__tree_server_tree_new(const struct nam__geometry *geometry,
	const struct nam__server_memory *memory, struct nam__tree_server_tree **ret_tree)
{
	struct nam__tree_server_tree *tree = calloc(1, sizeof(*tree));
	uint64_t *root = NULL, *image = NULL;
	int rc;

	if (!tree)
		return -ENOMEM;
	tree->memory = *memory;
	tree->g = *geometry;
	rc = -ENOMEM;
	image = calloc(1, geometry->node_bytes);
	if (!image)
		goto free_all;
	rc = -NAM_E_REMOTE_FULL;
	root = memory->take(memory->arg);
	if (!root)
		goto free_all;
	nam__node_init(&tree->g, image, NAM__NODE_LEAF, 0, 1, nam__key_lowest.w, NULL);
	node_fill(&tree->g, root, image);
	tree->root = (uint64_t)root;
	free(image);
	*ret_tree = tree;
	return 0;

free_all:
	free(image);
	free(tree);
	return rc;
}

void
nam__tree_server_tree_free(struct nam__tree_server_tree *tree)
{
	uint64_t *first, *node, *next;

	if (!tree)
		return;
	for (first = (uint64_t *)tree->root; first; first = next) {
		/* The level below begins with the first child. */
		next = nam__node_level(first)
			       ? (uint64_t *)first[tree->g.entries_at + tree->g.full_words] : NULL;
		while ((node = first)) {
			first = (uint64_t *)node[NAM__WORD_SIBLING];
			tree->memory.give(tree->memory.arg, node);
		}
	}
	free(tree);
}
