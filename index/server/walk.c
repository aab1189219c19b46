/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c -- reads of a server tree: lookups, scans along a level, counts, the verifier. */
#include "tree_internal.h"

/* A sorted image of the leaf that covers a key. */
static void
leaf_sorted(const struct nam__tree_server_tree *tree, uint64_t *node, const uint64_t *key,
	uint64_t *image)
{
	uint64_t version;

	(void)nam__tree_server_cover(tree, node, key, 0, image, &version);
	(void)nam__leaf_sort(&tree->g, image);
}

static uint32_t
scan_up(struct nam__tree_server_tree *tree, uint64_t *image, const uint64_t *low,
	const uint64_t *high, uint64_t *entries, uint32_t max)
{
	const struct nam__geometry *g = &tree->g;
	uint64_t *node = nam__tree_server_find(tree, low, 0);
	struct nam__key from;
	uint32_t found = 0;

	memcpy(from.w, low, 8 * g->full_words);
	for (;;) {
		unsigned count, number;

		leaf_sorted(tree, node, from.w, image);
		count = nam__node_count(image);
		for (number = nam__leaf_lower_bound(g, image, from.w); number < count; number++) {
			const uint64_t *entry = nam__leaf_entry(g, image, number);

			if (found == max || nam__key_compare(entry, high, g->full_words) > 0)
				return found;
			memcpy(entries + (size_t)found++ * g->leaf_words, entry, 8 * g->leaf_words);
		}
		if (found == max || nam__node_last(image) ||
			nam__key_compare(nam__node_high(g, image), high, g->full_words) > 0)
			return found;
		memcpy(from.w, nam__node_high(g, image), 8 * g->full_words);
		node = (uint64_t *)image[NAM__WORD_SIBLING];
	}
}

static uint32_t
scan_down(struct nam__tree_server_tree *tree, uint64_t *image, const uint64_t *low,
	const uint64_t *high, uint64_t *entries, uint32_t max)
{
	const struct nam__geometry *g = &tree->g;
	struct nam__key to;
	uint32_t found = 0;

	memcpy(to.w, high, 8 * g->full_words);
	for (;;) {
		/* Nothing leads to the left: find the next leaf from above. */
		leaf_sorted(tree, NULL, to.w, image);
		for (unsigned number = nam__node_count(image); number-- > 0;) {
			const uint64_t *entry = nam__leaf_entry(g, image, number);

			if (nam__key_compare(entry, to.w, g->full_words) > 0)
				continue;
			if (found == max || nam__key_compare(entry, low, g->full_words) < 0)
				return found;
			memcpy(entries + (size_t)found++ * g->leaf_words, entry, 8 * g->leaf_words);
		}
		memcpy(to.w, nam__node_low(image), 8 * g->full_words);
		if (found == max || nam__key_compare(to.w, low, g->full_words) <= 0 ||
			!nam__key_down(g, to.w))
			return found;
	}
}

uint32_t
nam__tree_server_scan(struct nam__tree_server_tree *tree, uint64_t *scratch, const uint64_t *low,
	const uint64_t *high, bool reverse, uint64_t *ret_entries, uint32_t max)
{
	if (!max || nam__key_compare(low, high, tree->g.full_words) > 0)
		return 0;
	return reverse ? scan_down(tree, scratch, low, high, ret_entries, max)
		       : scan_up(tree, scratch, low, high, ret_entries, max);
}

/* The smallest payload of a key that has several. */
static int
lookup_smallest(struct nam__tree_server_tree *tree, uint64_t *scratch, const uint64_t *key,
	uint64_t *ret_payload)
{
	const struct nam__geometry *g = &tree->g;
	struct nam__key low, high;
	uint64_t pair[NAM__KEY_WORDS_MAX];

	memcpy(low.w, key, 8 * g->key_words);
	memcpy(high.w, key, 8 * g->key_words);
	low.w[g->key_words] = 0;
	high.w[g->key_words] = UINT64_MAX;
	if (!nam__tree_server_scan(tree, scratch, low.w, high.w, false, pair, 1))
		return -NAM_E_NOTFOUND;
	*ret_payload = pair[g->key_words];
	return 0;
}

int
nam__tree_server_lookup(struct nam__tree_server_tree *tree, uint64_t *scratch, const uint64_t *key,
	uint64_t *ret_payload)
{
	const struct nam__geometry *g = &tree->g;
	uint64_t version;
	int number;

	if (!g->unique)
		return lookup_smallest(tree, scratch, key, ret_payload);
	(void)nam__tree_server_cover(tree, NULL, key, 0, scratch, &version);
	number = nam__leaf_find(g, scratch, key);
	if (number < 0)
		return -NAM_E_NOTFOUND;
	*ret_payload = nam__leaf_entry(g, scratch, (unsigned)number)[g->key_words];
	return 0;
}

/* Keeps the floor alone of a sorted leaf whose first entry is not above the key. */
static const uint64_t *
keep_floor(const struct nam__geometry *g, uint64_t *image, const uint64_t *key,
	struct nam__tree_server_floor *floor)
{
	unsigned number = nam__leaf_lower_bound(g, image, key);

	if (number == floor->count ||
		nam__key_compare(nam__leaf_entry(g, image, number), key, g->full_words) > 0)
		number--;
	if (number + 1 < floor->count) {
		memcpy(floor->next.w, nam__leaf_entry(g, image, number + 1), 8 * g->full_words);
		floor->last = false;
	}
	floor->count = 1;
	return nam__leaf_entry(g, image, number);
}

bool
nam__tree_server_floor(struct nam__tree_server_tree *tree, uint64_t *scratch, const uint64_t *key,
	bool alone, uint64_t *ret_entries, struct nam__tree_server_floor *ret_floor)
{
	const struct nam__geometry *g = &tree->g;
	uint64_t *image = scratch, version;
	const uint64_t *first = image + g->entries_at;

	*ret_floor = (struct nam__tree_server_floor){ 0 };
	ret_floor->node = nam__tree_server_cover(tree, NULL, key, 0, image, &version);
	(void)nam__leaf_sort(g, image);
	ret_floor->version = version / 2;
	ret_floor->count = nam__node_count(image);
	ret_floor->last = nam__node_last(image);
	memcpy(ret_floor->next.w, nam__node_high(g, image), 8 * g->full_words);
	if (alone && ret_floor->count && nam__key_compare(first, key, g->full_words) <= 0)
		first = keep_floor(g, image, key, ret_floor);
	if (ret_floor->count && nam__key_compare(first, key, g->full_words) <= 0) {
		memcpy(ret_entries, first, 8 * (size_t)(ret_floor->count * g->leaf_words));
		return true;
	}
	/* All entries of the node up to the key were deleted: the floor lies further left. */
	if (ret_floor->count) {
		memcpy(ret_floor->next.w, first, 8 * g->full_words);
		ret_floor->last = false;
	}
	ret_floor->count = nam__tree_server_scan(tree, scratch, nam__key_lowest.w, key, true,
		ret_entries, 1);
	return ret_floor->count == 1;
}

struct look {
	const struct nam__tree_server_tree *tree;
	struct nam__tree_server_walk *walk;
	unsigned level;
};

static void
wrong(struct look *look, const char *what)
{
	if (!look->walk->violations++)
		(void)nam_diag_set(&look->walk->first, -NAM_E_REMOTE_CORRUPT, "level %u: %s",
			look->level, what);
}

static void
check_entries(struct look *look, uint64_t *image)
{
	const struct nam__geometry *g = &look->tree->g;
	bool inner = look->level > 0;
	unsigned width = inner ? g->inner_words : g->leaf_words, count;

	if (!nam__node_counts_valid(g, image, nam__node_type(image)) ||
		nam__node_level(image) != look->level) {
		wrong(look, "a node of another level, or with impossible counts");
		return;
	}
	if (!inner)
		(void)nam__leaf_sort(g, image);
	count = nam__node_count(image);
	for (unsigned i = 0; i < count; i++) {
		const uint64_t *key = inner ? nam__inner_entry(g, image, i)
					    : nam__leaf_entry(g, image, i);

		if (nam__node_below(image, g, key) || nam__node_beyond(image, g, key))
			wrong(look, "an entry beyond the fences");
		if (i && nam__key_compare(key - width, key, g->full_words) >= 0)
			wrong(look, "entries out of order");
	}
	if (inner && (!count || nam__key_compare(nam__inner_entry(g, image, 0),
					nam__node_low(image), g->full_words)))
		wrong(look, "the first separator is not the low fence");
	if (nam__node_last(image) != !image[NAM__WORD_SIBLING])
		wrong(look, "the end of the level is elsewhere");
}

/* The separators above a level, one after the other, beside its nodes. */
struct names {
	uint64_t *image;
	unsigned number;
};

static void
names_begin(struct look *look, struct names *names, const uint64_t *low)
{
	const struct nam__geometry *g = &look->tree->g;
	uint64_t version;

	(void)nam__tree_server_cover(look->tree, NULL, low, look->level + 1, names->image,
		&version);
	names->number = nam__inner_search(g, names->image, low);
}

static void
check_name(struct look *look, struct names *names, const uint64_t *node, const uint64_t *low)
{
	const struct nam__geometry *g = &look->tree->g;

	while (names->number == nam__node_count(names->image)) {
		const uint64_t *next = (const uint64_t *)names->image[NAM__WORD_SIBLING];

		if (!next) {
			wrong(look, "a node without a name");
			return;
		}
		(void)nam__tree_server_read(look->tree, next, names->image);
		names->number = 0;
	}
	if ((const uint64_t *)nam__inner_child(g, names->image, names->number).raw != node ||
		nam__key_compare(nam__inner_entry(g, names->image, names->number), low,
			g->full_words))
		wrong(look, "a node and its separator differ");
	else
		names->number++;
}

void
nam__tree_server_walk(struct nam__tree_server_tree *tree, uint64_t *scratch, unsigned level,
	bool verify, const uint64_t *from, uint32_t max, struct nam__tree_server_walk *ret_walk)
{
	const struct nam__geometry *g = &tree->g;
	struct look look = { .tree = tree, .walk = ret_walk, .level = level };
	struct names names = { .image = scratch + g->node_words };
	uint64_t *image = scratch, *node = NULL, version;

	*ret_walk = (struct nam__tree_server_walk){
		.height = nam__tree_server_root_level(tree) + 1,
	};
	if (level >= ret_walk->height)
		return;
	ret_walk->more = true;
	memcpy(ret_walk->next.w, from, 8 * g->full_words);
	for (uint32_t i = 0; i < max && ret_walk->more; i++) {
		node = nam__tree_server_cover(tree, node, ret_walk->next.w, level, image, &version);
		ret_walk->nodes++;
		ret_walk->entries += nam__node_count(image);
		if (verify && nam__key_compare(nam__node_low(image), ret_walk->next.w,
				      g->full_words))
			wrong(&look, "a gap between fences");
		if (verify && level + 1 < ret_walk->height) {
			if (!i)
				names_begin(&look, &names, nam__node_low(image));
			check_name(&look, &names, node, nam__node_low(image));
		}
		if (verify)
			check_entries(&look, image);
		ret_walk->more = !nam__node_last(image);
		memcpy(ret_walk->next.w, nam__node_high(g, image), 8 * g->full_words);
		node = (uint64_t *)image[NAM__WORD_SIBLING];
	}
	if (verify && level + 1 == ret_walk->height && (ret_walk->more || ret_walk->nodes != 1))
		wrong(&look, "the root has a sibling");
}
