/* SPDX-License-Identifier: Apache-2.0 */
/* node.c -- pure functions on private node images. */
#include <assert.h>
#include <errno.h>

#include "common/hash/hash.h"
#include "node.h"
#include "search.h"
#include "index/node/divide.h"

/* ---- geometry ----------------------------------------------------------------------------- */

/* The geometry that follows from the sizes of keys and nodes. */
static int
geometry_fill(struct nam__geometry *g, uint32_t key_bytes, bool unique, uint32_t node_bytes,
	uint64_t seed)
{
	uint32_t room;

	*g = (struct nam__geometry){
		.key_bytes = key_bytes,
		.key_words = (key_bytes + 7) / 8,
		.node_bytes = node_bytes,
		.node_words = node_bytes / 8,
		.stride = node_bytes + NAM_NODE_STAGGER_BYTES,
		.unique = unique,
		.seed = seed,
	};
	g->full_words = g->key_words + !unique;
	g->leaf_words = g->key_words + 1;
	g->inner_words = g->full_words + 1;
	g->entries_at = NAM__WORD_LOW + 2 * g->full_words;
	if (g->node_words < g->entries_at + 1 + 4 * g->inner_words)
		return -EINVAL;
	room = g->node_words - g->entries_at - 1;
	g->leaf_capacity = room / g->leaf_words;
	g->inner_capacity = room / g->inner_words;
	g->head_capacity = room;
	/*
	 * A long tail makes inserts cheap and scans dear.  An insert writes the entry alone, and
	 * once in tail_max times the whole leaf.
	 */
	g->tail_max = g->leaf_capacity / 4;
	if (g->tail_max > 16)
		g->tail_max = 16;
	return 0;
}

int
nam__geometry_init(struct nam__geometry *g, const struct nam_index_options *options, uint64_t seed)
{
	if (options->key_bytes < NAM_KEY_BYTES_MIN || options->key_bytes > NAM_KEY_BYTES_MAX)
		return -EINVAL;
	if (options->node_bytes < NAM_NODE_BYTES_MIN || options->node_bytes > NAM_NODE_BYTES_MAX ||
		(options->node_bytes & (options->node_bytes - 1)))
		return -EINVAL;
	return geometry_fill(g, options->key_bytes, options->unique, options->node_bytes, seed);
}

void
nam__geometry_names(struct nam__geometry *g, const struct nam__geometry *of, uint32_t node_bytes)
{
	int rc = geometry_fill(g, 8 * of->full_words, true, node_bytes, 0);

	assert(!rc);	/* four inner entries fit into a node of the index, and into this */
	(void)rc;
}

/* ---- keys --------------------------------------------------------------------------------- */

const struct nam__key nam__key_lowest;

void
nam__key_encode(const struct nam__geometry *g, const void *key, uint64_t payload,
	struct nam__key *ret_key)
{
	uint32_t whole = g->key_bytes / 8, rest = g->key_bytes % 8;
	const uint8_t *bytes = key;
	uint64_t word;

	for (uint32_t i = 0; i < whole; i++) {
		memcpy(&word, bytes + 8 * i, 8);
		ret_key->w[i] = __builtin_bswap64(word);
	}
	if (rest) {
		word = 0;
		memcpy(&word, bytes + 8 * whole, rest);
		ret_key->w[whole] = __builtin_bswap64(word);
	}
	/* The payload is part of the order, so full keys are distinct (D6). */
	if (!g->unique)
		ret_key->w[g->key_words] = payload;
}

void
nam__key_decode(const struct nam__geometry *g, const uint64_t *words, void *ret_key)
{
	uint32_t whole = g->key_bytes / 8, rest = g->key_bytes % 8;
	uint8_t *bytes = ret_key;
	uint64_t word;

	for (uint32_t i = 0; i < whole; i++) {
		word = __builtin_bswap64(words[i]);
		memcpy(bytes + 8 * i, &word, 8);
	}
	if (rest) {
		word = __builtin_bswap64(words[whole]);
		memcpy(bytes + 8 * whole, &word, rest);
	}
}

bool
nam__key_up(const struct nam__geometry *g, uint64_t *key)
{
	for (unsigned i = g->full_words; i-- > 0;)
		if (++key[i])
			return true;
	return false;
}

bool
nam__key_down(const struct nam__geometry *g, uint64_t *key)
{
	for (unsigned i = g->full_words; i-- > 0;)
		if (key[i]--)
			return true;
	return false;
}

/* ---- images ------------------------------------------------------------------------------- */

void
nam__node_init(const struct nam__geometry *g, uint64_t *node, unsigned type, unsigned level,
	uint32_t generation, const uint64_t *low, const uint64_t *high)
{
	memset(node, 0, g->node_bytes);
	node[NAM__WORD_FRONT] = (uint64_t)(type | (high ? 0 : NAM__NODE_LAST)) << 8 | level;
	node[NAM__WORD_SHAPE] = generation;
	memcpy(node + NAM__WORD_LOW, low, 8 * g->full_words);
	if (high)
		memcpy(node + NAM__WORD_LOW + g->full_words, high, 8 * g->full_words);
}

uint64_t
nam__node_hash(const struct nam__geometry *g, const uint64_t *node, struct nam_gaddr at)
{
	uint64_t hash = nam_hash64(node + NAM__WORD_FRONT, g->node_bytes - 8 * NAM__WORD_FRONT);

	/* Bound to its index and its place: a stray copy of a node does not verify. */
	return nam_mix64(hash ^ nam_mix64(nam_gaddr_untagged(at).raw ^ g->seed));
}

void
nam__node_seal(const struct nam__geometry *g, uint64_t *node, struct nam_gaddr at)
{
	node[NAM__WORD_FRONT] += 1ull << 16;
	node[g->node_words - 1] = node[NAM__WORD_FRONT];
	node[NAM__WORD_HASH] = nam__node_hash(g, node, at);
}

/* ---- searching ---------------------------------------------------------------------------- */

unsigned
nam__leaf_lower_bound(const struct nam__geometry *g, const uint64_t *node, const uint64_t *key)
{
	const uint64_t *entries = node + g->entries_at;
	unsigned sorted = nam__node_sorted(node);

	/* The common shapes get code of their own: the strides become constants. */
	if (g->full_words == 1)
		return nam__count_below(entries, sorted, 2, key, 1, false);
	if (g->full_words == 2 && g->leaf_words == 2)
		return nam__count_below(entries, sorted, 2, key, 2, false);
	return nam__count_below(entries, sorted, g->leaf_words, key, g->full_words, false);
}

/* Keys of one word: the strides become constants, a comparison one instruction. */
static int
leaf_find_word(const uint64_t *entries, unsigned sorted, unsigned count, uint64_t key)
{
	unsigned number = nam__count_below(entries, sorted, 2, &key, 1, false);

	if (number < sorted && entries[2 * number] == key)
		return (int)number;
	for (number = sorted; number < count; number++)
		if (entries[2 * number] == key)
			return (int)number;
	return -1;
}

int
nam__leaf_find(const struct nam__geometry *g, const uint64_t *node, const uint64_t *key)
{
	const uint64_t *entries = node + g->entries_at;
	unsigned sorted = nam__node_sorted(node), count = nam__node_count(node);
	unsigned number;

	if (g->full_words == 1)
		return leaf_find_word(entries, sorted, count, key[0]);
	number = nam__leaf_lower_bound(g, node, key);
	if (number < sorted && !nam__key_compare(entries + number * g->leaf_words, key,
				       g->full_words))
		return (int)number;
	for (number = sorted; number < count; number++)
		if (!nam__key_compare(entries + number * g->leaf_words, key, g->full_words))
			return (int)number;
	return -1;
}

unsigned
nam__inner_search(const struct nam__geometry *g, const uint64_t *node, const uint64_t *key)
{
	const uint64_t *entries = node + g->entries_at;
	unsigned count = nam__node_count(node), below;

	if (g->full_words == 1)
		below = nam__count_below(entries, count, 2, key, 1, true);
	else
		below = nam__count_below(entries, count, g->inner_words, key, g->full_words, true);
	return below ? below - 1 : 0;
}

/* ---- changing leaves ---------------------------------------------------------------------- */

unsigned
nam__leaf_sort(const struct nam__geometry *g, uint64_t *node)
{
	unsigned count = nam__node_count(node), width = g->leaf_words, first = count;
	uint64_t entry[NAM__KEY_WORDS_MAX + 1];

	/* The tail is short: insertion from the right, one binary search and one move for each. */
	for (unsigned sorted = nam__node_sorted(node); sorted < count; sorted++) {
		uint64_t *from = nam__leaf_entry(g, node, sorted), *to;
		unsigned number;

		memcpy(entry, from, 8 * width);
		nam__node_set_counts(node, count, sorted);
		number = nam__leaf_lower_bound(g, node, entry);
		if (number == sorted)
			continue;
		if (number < first)
			first = number;
		to = nam__leaf_entry(g, node, number);
		memmove(to + width, to, 8ul * width * (sorted - number));
		memcpy(to, entry, 8 * width);
	}
	nam__node_set_counts(node, count, count);
	return first;
}

void
nam__leaf_add(const struct nam__geometry *g, uint64_t *node, const uint64_t *key_words,
	uint64_t payload, struct nam__dirty *ret_dirty)
{
	unsigned count = nam__node_count(node), sorted = nam__node_sorted(node);
	uint64_t *entry = nam__leaf_entry(g, node, count);

	for (unsigned i = 0; i < g->key_words; i++)
		entry[i] = key_words[i];
	entry[g->key_words] = payload;
	if (sorted == count && nam__leaf_lower_bound(g, node, key_words) == count)
		sorted++;
	nam__node_set_counts(node, count + 1, sorted);
	if (count + 1 - sorted > g->tail_max) {
		nam__leaf_sort(g, node);
		ret_dirty->first = g->entries_at;
	} else {
		ret_dirty->first = g->entries_at + count * g->leaf_words;
	}
	ret_dirty->end = g->entries_at + (count + 1) * g->leaf_words;
}

void
nam__leaf_remove(const struct nam__geometry *g, uint64_t *node, unsigned number,
	struct nam__dirty *ret_dirty)
{
	unsigned count = nam__node_count(node), sorted = nam__node_sorted(node);
	uint64_t *entry = nam__leaf_entry(g, node, number);
	uint64_t *end = nam__leaf_entry(g, node, count);

	memmove(entry, entry + g->leaf_words, 8ul * (size_t)(end - entry - g->leaf_words));
	memset(end - g->leaf_words, 0, 8 * g->leaf_words);
	nam__node_set_counts(node, count - 1, number < sorted ? sorted - 1 : sorted);
	ret_dirty->first = (uint32_t)(entry - node);
	ret_dirty->end = (uint32_t)(end - node);
}

/* ---- changing inner nodes ----------------------------------------------------------------- */

int
nam__inner_add(const struct nam__geometry *g, uint64_t *node, const uint64_t *key,
	struct nam_gaddr child, struct nam__dirty *ret_dirty)
{
	unsigned count = nam__node_count(node), width = g->inner_words;
	unsigned number = nam__inner_search(g, node, key);
	uint64_t *entry = nam__inner_entry(g, node, number);

	if (!nam__key_compare(entry, key, g->full_words))
		return -NAM_E_EXISTS;
	entry += width;
	memmove(entry + width, entry, 8ul * width * (count - number - 1));
	memcpy(entry, key, 8 * g->full_words);
	entry[g->full_words] = child.raw;
	nam__node_set_counts(node, count + 1, count + 1);
	ret_dirty->first = (uint32_t)(entry - node);
	ret_dirty->end = g->entries_at + (count + 1) * width;
	return 0;
}

void
nam__inner_remove(const struct nam__geometry *g, uint64_t *node, unsigned number,
	struct nam__dirty *ret_dirty)
{
	unsigned count = nam__node_count(node), width = g->inner_words;
	uint64_t *entry = nam__inner_entry(g, node, number);

	memmove(entry, entry + width, 8ul * width * (count - number - 1));
	memset(nam__inner_entry(g, node, count - 1), 0, 8 * width);
	nam__node_set_counts(node, count - 1, count - 1);
	ret_dirty->first = (uint32_t)(entry - node);
	ret_dirty->end = g->entries_at + count * width;
}

void
nam__node_divide(const struct nam__geometry *g, uint64_t *node, unsigned at, uint64_t *right,
	uint32_t generation, struct nam__dirty *ret_dirty)
{
	bool leaf = nam__node_type(node) == NAM__NODE_LEAF;
	unsigned count = nam__node_count(node), first = at;
	unsigned width = nam__node_entry_words(g, node);
	uint64_t *entries = node + g->entries_at, *upper = right + g->entries_at;

	/* All entries in order, then those of the left half back to where they belong. */
	memcpy(upper, entries, 8ul * width * count);
	if (leaf) {
		right[NAM__WORD_SHAPE] = node[NAM__WORD_SHAPE];
		first = nam__leaf_sort(g, right);
		if (first > at)
			first = at;
		memcpy(entries + first * width, upper + first * width, 8ul * width * (at - first));
	}
	ret_dirty->first = g->entries_at + first * width;
	ret_dirty->end = g->entries_at + at * width;

	memcpy(right + NAM__WORD_LOW, upper + at * width, 8 * g->full_words);
	memmove(upper, upper + at * width, 8ul * width * (count - at));
	memset(upper + (count - at) * width, 0,
		8ul * (g->node_words - g->entries_at - (count - at) * width));
	right[NAM__WORD_LOCK] = NAM_LOCK_FREE;
	right[NAM__WORD_HASH] = 0;
	right[NAM__WORD_FRONT] = node[NAM__WORD_FRONT] & 0xffff;	/* version 0 */
	right[NAM__WORD_SHAPE] = generation;
	right[NAM__WORD_SIBLING] = node[NAM__WORD_SIBLING];
	memcpy(right + NAM__WORD_LOW + g->full_words, nam__node_high(g, node), 8 * g->full_words);
	nam__node_set_counts(right, count - at, count - at);

	memcpy(node + NAM__WORD_LOW + g->full_words, nam__node_low(right), 8 * g->full_words);
	nam__node_set_counts(node, at, at);
	nam__node_set_type(node, nam__node_type(node));
}

/* Whether a key lies above all entries of a node, whose order is not known. */
static bool
above_all(const struct nam__geometry *g, uint64_t *image, const uint64_t *key)
{
	const uint64_t *entries = image + g->entries_at;
	unsigned width = nam__node_entry_words(g, image);

	for (unsigned i = nam__node_count(image); i-- > 0;)
		if (nam__key_compare(key, entries + i * width, g->full_words) <= 0)
			return false;
	return true;
}

unsigned
nam__division_point(const struct nam__geometry *g, uint64_t *image, const uint64_t *key)
{
	unsigned count = nam__node_count(image);

	if (nam__node_last(image) && above_all(g, image, key))
		return count - 1;
	return count / 2;
}

void
nam__add_to_half(const struct nam__geometry *g, uint64_t *left, uint64_t *right,
	const uint64_t *key, uint64_t value, struct nam__dirty *dirty)
{
	uint64_t *half = nam__key_compare(key, nam__node_low(right), g->full_words) < 0 ? left
											: right;
	struct nam__dirty added;
	int rc = 0;

	if (nam__node_type(half) == NAM__NODE_LEAF)
		nam__leaf_add(g, half, key, value, &added);
	else
		rc = nam__inner_add(g, half, key, (struct nam_gaddr){ value }, &added);
	assert(!rc);	/* the caller has looked: the entry is not there */
	(void)rc;
	if (half == right)
		return;
	/* Both ranges end near the last entry, so next to nothing lies between them. */
	if (added.first < dirty->first)
		dirty->first = added.first;
	if (added.end > dirty->end)
		dirty->end = added.end;
}

void
nam__node_join(const struct nam__geometry *g, uint64_t *left, const uint64_t *right)
{
	bool leaf = nam__node_type(left) == NAM__NODE_LEAF;
	unsigned width = nam__node_entry_words(g, left);
	unsigned left_count = nam__node_count(left), right_count = nam__node_count(right);
	unsigned count = left_count + right_count;

	assert(count <= (leaf ? g->leaf_capacity : g->inner_capacity));
	if (leaf)
		nam__leaf_sort(g, left);
	memcpy(left + g->entries_at + left_count * width, right + g->entries_at,
		8ul * width * right_count);
	nam__node_set_counts(left, count, leaf ? left_count + nam__node_sorted(right) : count);
	if (leaf)
		nam__leaf_sort(g, left);
	memcpy(left + NAM__WORD_LOW + g->full_words, nam__node_high(g, right), 8 * g->full_words);
	nam__node_set_type(left, nam__node_type_and_flags(right));
	left[NAM__WORD_SIBLING] = right[NAM__WORD_SIBLING];
}
