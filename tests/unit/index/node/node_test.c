/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec against models that share nothing with it.  Keys are compared as the byte strings that
 * users see; entries are kept in a plain sorted array.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "index/node/node.h"
#include "index/node/divide.h"

#define SEED 0x5eedull
#define NODE_WORDS_MAX (NAM_NODE_BYTES_MAX / 8)
#define ENTRIES_MAX (NODE_WORDS_MAX / 2)

struct shape {
	uint32_t key_bytes, node_bytes;
	bool unique;
};

static const struct shape shapes[] = {
	{ 8, 256, true },   { 8, 256, false },   { 8, 1024, true },   { 8, 1024, false },
	{ 8, 16384, true }, { 9, 256, true },    { 13, 256, true },   { 13, 256, false },
	{ 13, 1024, true }, { 16, 512, true },   { 16, 512, false },  { 24, 16384, false },
	{ 64, 1024, true }, { 64, 1024, false }, { 64, 16384, true },
};
#define SHAPES_COUNT (sizeof(shapes) / sizeof(shapes[0]))

static void
geometry_of(const struct shape *shape, struct nam__geometry *g)
{
	struct nam_index_options options;

	nam_index_options_init(&options);
	options.key_bytes = shape->key_bytes;
	options.node_bytes = shape->node_bytes;
	options.unique = shape->unique;
	options.head_interval = 0;
	assert_int_equal(nam__geometry_init(g, &options, SEED), 0);
}

/* ---- the model ---------------------------------------------------------------------------- */

/* A full key as bytes: key, and in a non-unique index the payload, most significant byte first. */
struct model_key {
	uint8_t bytes[NAM_KEY_BYTES_MAX + 8];
};

struct model_entry {
	struct model_key key;
	uint64_t value;
};

struct model {
	const struct nam__geometry *g;
	size_t full_bytes;
	unsigned count;
	struct model_entry entries[ENTRIES_MAX];
};

static void
model_init(struct model *model, const struct nam__geometry *g)
{
	model->g = g;
	model->full_bytes = g->key_bytes + (g->unique ? 0 : 8);
	model->count = 0;
}

static int
model_compare(const struct model *model, const struct model_key *a, const struct model_key *b)
{
	return memcmp(a->bytes, b->bytes, model->full_bytes);
}

/* Number of entries below the key. */
static unsigned
model_below(const struct model *model, const struct model_key *key)
{
	unsigned number = 0;

	while (number < model->count && model_compare(model, &model->entries[number].key, key) < 0)
		number++;
	return number;
}

static bool
model_has(const struct model *model, const struct model_key *key, unsigned *ret_number)
{
	*ret_number = model_below(model, key);
	return *ret_number < model->count &&
	       !model_compare(model, &model->entries[*ret_number].key, key);
}

static void
model_add(struct model *model, const struct model_key *key, uint64_t value)
{
	unsigned number = model_below(model, key);

	memmove(&model->entries[number + 1], &model->entries[number],
		(model->count - number) * sizeof(model->entries[0]));
	model->entries[number].key = *key;
	model->entries[number].value = value;
	model->count++;
}

static void
model_remove(struct model *model, unsigned number)
{
	model->count--;
	memmove(&model->entries[number], &model->entries[number + 1],
		(model->count - number) * sizeof(model->entries[0]));
}

/*
 * Key number `number` of a small set, which meets itself often.  Its bytes are as unpleasant as
 * keys get: long common prefixes, differences in the first, a middle or the last byte.
 */
static void
model_key_make(const struct model *model, unsigned number, struct model_key *ret_key)
{
	unsigned spread = number % 3;

	memset(ret_key, 0, sizeof(*ret_key));
	memset(ret_key->bytes, 0x80, model->full_bytes);
	ret_key->bytes[0] = spread == 0 ? (uint8_t)(number >> 4) : 0x7f;
	ret_key->bytes[model->full_bytes / 2] = (uint8_t)(number >> (spread == 1 ? 0 : 8));
	ret_key->bytes[model->full_bytes - 2] = (uint8_t)(number >> 8);
	ret_key->bytes[model->full_bytes - 1] = (uint8_t)number;
}

static uint64_t
payload_of(const struct model *model, const struct model_key *key, uint64_t fallback)
{
	uint64_t big;

	if (model->g->unique)
		return fallback;
	memcpy(&big, key->bytes + model->g->key_bytes, 8);
	return __builtin_bswap64(big);
}

static void
encode(const struct model *model, const struct model_key *key, struct nam__key *ret_full)
{
	nam__key_encode(model->g, key->bytes, payload_of(model, key, 0), ret_full);
}

/* ---- keys --------------------------------------------------------------------------------- */

static void
key_encode__random_pairs__ORDER_OF_WORDS_IS_ORDER_OF_BYTES(void **state)
{
	struct nam_rng rng = nam_rng_seed(1);

	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		struct nam__geometry g;
		struct model model;

		geometry_of(&shapes[s], &g);
		model_init(&model, &g);
		for (unsigned i = 0; i < 2000; i++) {
			struct model_key a, b;
			struct nam__key full_a, full_b;
			int bytes_say, words_say;

			model_key_make(&model, (unsigned)nam_rng_below(&rng, 1000), &a);
			model_key_make(&model, (unsigned)nam_rng_below(&rng, 1000), &b);
			encode(&model, &a, &full_a);
			encode(&model, &b, &full_b);
			bytes_say = model_compare(&model, &a, &b);
			words_say = nam__key_compare(full_a.w, full_b.w, g.full_words);
			assert_int_equal((bytes_say > 0) - (bytes_say < 0), words_say);
		}
	}
}

static void
key_decode__what_was_encoded__GIVES_THE_SAME_BYTES(void **state)
{
	struct nam_rng rng = nam_rng_seed(2);

	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		struct nam__geometry g;

		geometry_of(&shapes[s], &g);
		for (unsigned i = 0; i < 200; i++) {
			uint8_t key[NAM_KEY_BYTES_MAX + 1], back[NAM_KEY_BYTES_MAX + 1];
			struct nam__key full;

			for (uint32_t k = 0; k < g.key_bytes; k++)
				key[k] = (uint8_t)nam_rng_next(&rng);
			key[g.key_bytes] = back[g.key_bytes] = 0xa5;
			nam__key_encode(&g, key, 7, &full);
			nam__key_decode(&g, full.w, back);
			assert_memory_equal(key, back, g.key_bytes + 1);
		}
	}
}

static void
key_from_u64__ascending_integers__GIVES_ASCENDING_KEYS(void **state)
{
	static const uint64_t values[] = { 0, 1, 255, 256, 1ull << 31, 1ull << 32, 1ull << 63,
		UINT64_MAX };
	uint8_t before[8], key[8];

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		nam_key_from_u64(values[i], key);
		assert_int_equal(nam_key_to_u64(key), values[i]);
		if (i)
			assert_true(memcmp(before, key, 8) < 0);
		memcpy(before, key, 8);
	}
}

/* ---- images ------------------------------------------------------------------------------- */

static const struct nam__key lowest;

static void
node_init__of_any_type__IS_EMPTY_AND_SAYS_WHAT_IT_IS(void **state)
{
	uint64_t node[NODE_WORDS_MAX];

	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		struct nam__key low, high;
		struct nam__geometry g;

		geometry_of(&shapes[s], &g);
		memset(&low, 0x11, sizeof(low));
		memset(&high, 0x22, sizeof(high));
		nam__node_init(&g, node, NAM__NODE_LEAF, 0, 77, low.w, NULL);
		assert_int_equal(nam__node_type(node), NAM__NODE_LEAF);
		assert_true(nam__node_last(node));
		assert_false(nam__node_dead(node));
		assert_int_equal(nam__node_generation(node), 77);
		assert_int_equal(nam__node_count(node), 0);
		assert_int_equal(nam__node_sorted(node), 0);
		assert_int_equal(nam__node_version(node), 0);
		assert_memory_equal(nam__node_low(node), low.w, 8 * g.full_words);
		assert_true(nam__node_counts_valid(&g, node, nam__node_type(node)));
		memset(&high, 0xff, sizeof(high));
		assert_false(nam__node_beyond(node, &g, high.w));
		assert_true(nam__node_below(node, &g, lowest.w));

		memset(&high, 0x22, sizeof(high));
		nam__node_init(&g, node, NAM__NODE_INNER, 3, 78, low.w, high.w);
		assert_int_equal(nam__node_type(node), NAM__NODE_INNER);
		assert_int_equal(nam__node_level(node), 3);
		assert_false(nam__node_last(node));
		assert_memory_equal(nam__node_high(&g, node), high.w, 8 * g.full_words);
		assert_true(nam__node_beyond(node, &g, high.w));
		assert_false(nam__node_beyond(node, &g, low.w));
		assert_false(nam__node_below(node, &g, low.w));
	}
}

static void
node_seal__again_and_again__COUNTS_VERSIONS_AND_VERIFIES(void **state)
{
	const struct nam_gaddr at = nam_gaddr_make(3, 64 * 1000, 0);
	uint64_t node[NODE_WORDS_MAX];

	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		struct nam__geometry g;

		geometry_of(&shapes[s], &g);
		nam__node_init(&g, node, NAM__NODE_LEAF, 0, 1, lowest.w, NULL);
		for (uint64_t version = 1; version < 20; version++) {
			node[NAM__WORD_SIBLING] = version * 0x9e3779b97f4a7c15ull;
			nam__node_seal(&g, node, at);
			assert_int_equal(nam__node_version(node), version);
			assert_true(nam__node_ends_agree(&g, node));
			assert_int_equal(node[NAM__WORD_HASH], nam__node_hash(&g, node, at));
			assert_int_equal(nam__node_type(node), NAM__NODE_LEAF);
			assert_true(nam__node_last(node));
		}
	}
}

static void
node_hash__one_bit_anywhere_changed__DIFFERS(void **state)
{
	const struct nam_gaddr at = nam_gaddr_make(3, 64 * 1000, 0);
	struct nam_rng rng = nam_rng_seed(3);
	uint64_t node[NODE_WORDS_MAX];

	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		struct nam__geometry g;

		geometry_of(&shapes[s], &g);
		for (uint32_t i = 0; i < g.node_words; i++)
			node[i] = nam_rng_next(&rng);
		nam__node_seal(&g, node, at);
		for (uint32_t word = NAM__WORD_FRONT; word < g.node_words; word++) {
			uint64_t bit = 1ull << nam_rng_below(&rng, 64);

			node[word] ^= bit;
			assert_int_not_equal(node[NAM__WORD_HASH], nam__node_hash(&g, node, at));
			node[word] ^= bit;
		}
		/* The lock word does not matter. */
		node[NAM__WORD_LOCK] ^= 1;
		assert_int_equal(node[NAM__WORD_HASH], nam__node_hash(&g, node, at));
	}
}

static void
node_hash__same_image_elsewhere__DIFFERS(void **state)
{
	const struct nam_gaddr at = nam_gaddr_make(3, 64 * 1000, 0);
	uint64_t node[NODE_WORDS_MAX];
	struct nam__geometry g;

	(void)state;
	geometry_of(&shapes[2], &g);
	nam__node_init(&g, node, NAM__NODE_LEAF, 0, 1, lowest.w, NULL);
	nam__node_seal(&g, node, at);
	/* Another place, another region, another index; but not another tag. */
	assert_int_not_equal(node[NAM__WORD_HASH],
		nam__node_hash(&g, node, nam_gaddr_make(3, 64 * 1001, 0)));
	assert_int_not_equal(node[NAM__WORD_HASH],
		nam__node_hash(&g, node, nam_gaddr_make(4, 64 * 1000, 0)));
	assert_int_equal(node[NAM__WORD_HASH],
		nam__node_hash(&g, node, nam_gaddr_make(3, 64 * 1000, 99)));
	g.seed++;
	assert_int_not_equal(node[NAM__WORD_HASH], nam__node_hash(&g, node, at));
}

static void
node_plausible__counts_beyond_capacity__FALSE(void **state)
{
	uint64_t node[NODE_WORDS_MAX];

	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		struct nam__geometry g;

		geometry_of(&shapes[s], &g);
		nam__node_init(&g, node, NAM__NODE_LEAF, 0, 1, lowest.w, NULL);
		nam__node_set_counts(node, g.leaf_capacity, g.leaf_capacity);
		assert_true(nam__node_counts_valid(&g, node, nam__node_type(node)));
		nam__node_set_counts(node, g.leaf_capacity + 1, 0);
		assert_false(nam__node_counts_valid(&g, node, nam__node_type(node)));
		nam__node_set_counts(node, 3, 4);
		assert_false(nam__node_counts_valid(&g, node, nam__node_type(node)));
		nam__node_set_counts(node, 0xffff, 0xffff);
		assert_false(nam__node_counts_valid(&g, node, nam__node_type(node)));
		nam__node_init(&g, node, NAM__NODE_INNER, 1, 1, lowest.w, NULL);
		nam__node_set_counts(node, g.inner_capacity, g.inner_capacity);
		assert_true(nam__node_counts_valid(&g, node, nam__node_type(node)));
		nam__node_set_counts(node, g.inner_capacity + 1, 1);
		assert_false(nam__node_counts_valid(&g, node, nam__node_type(node)));
		nam__node_set_counts(node, 0, 0);
		assert_false(nam__node_counts_valid(&g, node, nam__node_type(node)));
		nam__node_init(&g, node, NAM__NODE_HEAD, 0, 1, lowest.w, NULL);
		nam__node_set_counts(node, g.head_capacity + 1, 0);
		assert_false(nam__node_counts_valid(&g, node, nam__node_type(node)));
		nam__node_set_type(node, 0);
		assert_false(nam__node_counts_valid(&g, node, nam__node_type(node)));
	}
}

/* ---- leaves ------------------------------------------------------------------------------- */

/* Every entry of the model is in the leaf, and nothing else; in order as far as it claims order. */
static void
leaf_check(const struct model *model, uint64_t *node)
{
	const struct nam__geometry *g = model->g;

	assert_true(nam__node_counts_valid(g, node, nam__node_type(node)));
	assert_int_equal(nam__node_count(node), model->count);
	assert_true(nam__node_count(node) - nam__node_sorted(node) <= g->tail_max);
	for (unsigned i = 1; i < nam__node_sorted(node); i++)
		assert_true(nam__key_compare(nam__leaf_entry(g, node, i - 1),
				    nam__leaf_entry(g, node, i), g->full_words) < 0);
	for (unsigned i = 0; i < model->count; i++) {
		struct nam__key full;
		int number;

		encode(model, &model->entries[i].key, &full);
		number = nam__leaf_find(g, node, full.w);
		assert_true(number >= 0 && number < (int)model->count);
		assert_int_equal(nam__leaf_entry(g, node, (unsigned)number)[g->key_words],
			model->entries[i].value);
	}
	for (uint32_t i = g->entries_at + model->count * g->leaf_words; i < g->node_words - 1; i++)
		assert_int_equal(node[i], 0);
}

/* A change touched nothing but the counts and what it says. */
static void
dirty_check(const struct nam__geometry *g, const uint64_t *before, const uint64_t *after,
	const struct nam__dirty *dirty)
{
	assert_true(dirty->first >= g->entries_at && dirty->end <= g->node_words - 1 &&
		    dirty->first <= dirty->end);
	for (uint32_t i = 0; i < g->node_words; i++)
		if (i != NAM__WORD_SHAPE && (i < dirty->first || i >= dirty->end))
			assert_int_equal(before[i], after[i]);
}

/* One random step.  Keys come from a set twice as large as the leaf. */
static void
leaf_step(struct model *model, uint64_t *node, struct nam_rng *rng)
{
	const struct nam__geometry *g = model->g;
	uint64_t before[NODE_WORDS_MAX], payload;
	struct nam__dirty dirty;
	struct model_key key;
	struct nam__key full;
	unsigned in_model;
	int number;
	bool has;

	model_key_make(model, (unsigned)nam_rng_below(rng, 2 * g->leaf_capacity), &key);
	payload = payload_of(model, &key, nam_rng_next(rng));
	encode(model, &key, &full);
	number = nam__leaf_find(g, node, full.w);
	has = model_has(model, &key, &in_model);
	assert_int_equal(number >= 0, has);
	memcpy(before, node, g->node_bytes);
	if (has) {
		nam__leaf_remove(g, node, (unsigned)number, &dirty);
		model_remove(model, in_model);
	} else if (model->count < g->leaf_capacity) {
		nam__leaf_add(g, node, full.w, payload, &dirty);
		model_add(model, &key, payload);
	} else {
		nam__leaf_sort(g, node);
		assert_int_equal(nam__node_sorted(node), g->leaf_capacity);
		assert_int_equal(nam__leaf_lower_bound(g, node, full.w), in_model);
		return;
	}
	dirty_check(g, before, node, &dirty);
}

static void
leaf__random_changes__ANSWERS_LIKE_A_MODEL(void **state)
{
	struct model *model = malloc(sizeof(*model));
	uint64_t node[NODE_WORDS_MAX];

	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		struct nam_rng rng = nam_rng_seed(100 + s);
		struct nam__geometry g;
		unsigned steps;

		geometry_of(&shapes[s], &g);
		model_init(model, &g);
		nam__node_init(&g, node, NAM__NODE_LEAF, 0, 1, lowest.w, NULL);
		steps = 10 * g.leaf_capacity + 500;
		for (unsigned i = 0; i < steps; i++) {
			leaf_step(model, node, &rng);
			if (i % (1 + g.leaf_capacity / 8) == 0)
				leaf_check(model, node);
			if (nam_rng_below(&rng, 50) == 0)
				nam__leaf_sort(&g, node);
		}
		leaf_check(model, node);
		nam__leaf_sort(&g, node);
		leaf_check(model, node);
		assert_int_equal(nam__node_sorted(node), model->count);
	}
	free(model);
}

static void
leaf_lower_bound__sorted_leaf__COUNTS_WHAT_IS_BELOW(void **state)
{
	struct model *model = malloc(sizeof(*model));
	uint64_t node[NODE_WORDS_MAX];

	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		struct nam_rng rng = nam_rng_seed(200 + s);
		struct nam__geometry g;

		geometry_of(&shapes[s], &g);
		model_init(model, &g);
		nam__node_init(&g, node, NAM__NODE_LEAF, 0, 1, lowest.w, NULL);
		for (unsigned filled = 0; filled <= 2; filled++) {
			while (model->count < filled * g.leaf_capacity / 2)
				leaf_step(model, node, &rng);
			nam__leaf_sort(&g, node);
			for (unsigned i = 0; i < 2 * g.leaf_capacity; i++) {
				struct model_key key;
				struct nam__key full;

				model_key_make(model, i, &key);
				encode(model, &key, &full);
				assert_int_equal(nam__leaf_lower_bound(&g, node, full.w),
					model_below(model, &key));
			}
		}
	}
	free(model);
}

static void
leaf_add__ascending_keys__STAY_SORTED_AND_WRITE_ONE_ENTRY_EACH(void **state)
{
	uint64_t node[NODE_WORDS_MAX];
	struct nam__geometry g;

	(void)state;
	geometry_of(&shapes[2], &g);
	nam__node_init(&g, node, NAM__NODE_LEAF, 0, 1, lowest.w, NULL);
	for (uint64_t i = 0; i < g.leaf_capacity; i++) {
		struct nam__dirty dirty;
		uint64_t key[1] = { i };

		nam__leaf_add(&g, node, key, i, &dirty);
		assert_int_equal(nam__node_sorted(node), i + 1);
		assert_int_equal(dirty.end - dirty.first, g.leaf_words);
	}
}

/* ---- inner nodes -------------------------------------------------------------------------- */

static void
inner_check(const struct model *model, uint64_t *node, unsigned keys)
{
	const struct nam__geometry *g = model->g;

	assert_int_equal(nam__node_count(node), model->count);
	for (unsigned i = 0; i < model->count; i++)
		assert_int_equal(nam__inner_child(g, node, i).raw, model->entries[i].value);
	for (unsigned i = 0; i < keys; i++) {
		unsigned below, has_number;
		struct model_key key;
		struct nam__key full;

		model_key_make(model, i, &key);
		encode(model, &key, &full);
		below = model_below(model, &key);
		if (!model_has(model, &key, &has_number))
			below--;	/* entry 0 is the lowest key of all */
		assert_int_equal(nam__inner_search(g, node, full.w), below);
	}
}

static void
inner_begin(struct model *model, uint64_t *node)
{
	const struct nam__geometry *g = model->g;
	struct model_key zero;
	uint64_t *entry;

	memset(&zero, 0, sizeof(zero));
	nam__node_init(g, node, NAM__NODE_INNER, 1, 1, lowest.w, NULL);
	entry = nam__inner_entry(g, node, 0);
	memcpy(entry, lowest.w, 8 * g->full_words);
	entry[g->full_words] = 4711;
	nam__node_set_counts(node, 1, 1);
	model->count = 0;
	model_add(model, &zero, 4711);
}

static void
inner_step(struct model *model, uint64_t *node, struct nam_rng *rng)
{
	const struct nam__geometry *g = model->g;
	struct nam_gaddr child = { nam_rng_next(rng) };
	uint64_t before[NODE_WORDS_MAX];
	struct nam__dirty dirty;
	struct model_key key;
	struct nam__key full;
	unsigned number;

	model_key_make(model, (unsigned)nam_rng_below(rng, 2 * g->inner_capacity), &key);
	encode(model, &key, &full);
	memcpy(before, node, g->node_bytes);
	if (model_has(model, &key, &number)) {
		if (model->count < g->inner_capacity)
			assert_int_equal(nam__inner_add(g, node, full.w, child, &dirty),
				-NAM_E_EXISTS);
		assert_memory_equal(before, node, g->node_bytes);
		nam__inner_remove(g, node, number, &dirty);
		model_remove(model, number);
	} else if (model->count < g->inner_capacity) {
		assert_int_equal(nam__inner_add(g, node, full.w, child, &dirty), 0);
		model_add(model, &key, child.raw);
	} else {
		return;
	}
	dirty_check(g, before, node, &dirty);
}

static void
inner__random_changes__ANSWERS_LIKE_A_MODEL(void **state)
{
	struct model *model = malloc(sizeof(*model));
	uint64_t node[NODE_WORDS_MAX];

	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		struct nam_rng rng = nam_rng_seed(300 + s);
		struct nam__geometry g;

		geometry_of(&shapes[s], &g);
		model_init(model, &g);
		inner_begin(model, node);
		for (unsigned i = 0; i < 6 * g.inner_capacity; i++) {
			inner_step(model, node, &rng);
			if (i % (1 + g.inner_capacity / 6) == 0)
				inner_check(model, node, 2 * g.inner_capacity);
		}
		inner_check(model, node, 2 * g.inner_capacity);
	}
	free(model);
}

/* ---- dividing ----------------------------------------------------------------------------- */

/* The halves of `whole`, in order, meet at its entry `at`. */
static void
halves_check(const struct nam__geometry *g, const uint64_t *whole, uint64_t *left, uint64_t *right,
	unsigned at)
{
	bool leaf = nam__node_type(whole) == NAM__NODE_LEAF;
	unsigned width = leaf ? g->leaf_words : g->inner_words, count = nam__node_count(whole);
	const uint64_t *entries = whole + g->entries_at;

	assert_int_equal(nam__node_count(left), at);
	assert_int_equal(nam__node_count(right), count - at);
	assert_int_equal(nam__node_sorted(left), at);
	assert_int_equal(nam__node_sorted(right), count - at);
	assert_memory_equal(left + g->entries_at, entries, 8ul * at * width);
	assert_memory_equal(
		right + g->entries_at, entries + at * width, 8ul * (count - at) * width);
	assert_memory_equal(nam__node_low(left), nam__node_low(whole), 8 * g->full_words);
	assert_memory_equal(nam__node_high(g, left), entries + at * width, 8 * g->full_words);
	assert_memory_equal(nam__node_low(right), entries + at * width, 8 * g->full_words);
	assert_false(nam__node_last(left));
	assert_int_equal(nam__node_last(right), nam__node_last(whole));
	if (!nam__node_last(whole))
		assert_memory_equal(nam__node_high(g, right), nam__node_high(g, whole),
			8 * g->full_words);
	assert_int_equal(right[NAM__WORD_SIBLING], whole[NAM__WORD_SIBLING]);
	assert_int_equal(nam__node_type(left), nam__node_type(whole));
	assert_int_equal(nam__node_type(right), nam__node_type(whole));
	assert_int_equal(nam__node_level(right), nam__node_level(whole));
	assert_int_equal(nam__node_generation(right), 555);
	assert_int_equal(nam__node_generation(left), nam__node_generation(whole));
	assert_int_equal(nam__node_version(left), nam__node_version(whole));
	assert_int_equal(nam__node_version(right), 0);
	assert_int_equal(right[NAM__WORD_LOCK], NAM_LOCK_FREE);
	for (uint32_t i = g->entries_at + (count - at) * width; i < g->node_words; i++)
		assert_int_equal(right[i], 0);
}

/* `remote`, with the dirty words and the header written over it, is the left half word by word. */
static void
half_check_dirty(const struct nam__geometry *g, const uint64_t *remote, const uint64_t *left,
	struct nam__dirty dirty, unsigned at)
{
	unsigned width = nam__node_type(left) == NAM__NODE_LEAF ? g->leaf_words : g->inner_words;

	assert_true(dirty.first >= g->entries_at && dirty.first <= dirty.end);
	assert_int_equal(dirty.end, g->entries_at + at * width);
	for (uint32_t i = g->entries_at; i < g->node_words; i++)
		if (i < dirty.first || i >= dirty.end)
			assert_int_equal(left[i], remote[i]);
	if (nam__node_sorted(remote) == nam__node_count(remote))
		assert_int_equal(dirty.first, dirty.end);
}

static void
divide_everywhere(const struct nam__geometry *g, const uint64_t *node)
{
	uint64_t left[NODE_WORDS_MAX], right[NODE_WORDS_MAX], whole[NODE_WORDS_MAX];
	unsigned count = nam__node_count(node);

	memcpy(whole, node, g->node_bytes);
	if (nam__node_type(node) == NAM__NODE_LEAF)
		nam__leaf_sort(g, whole);
	for (unsigned at = 1; at < count; at += 1 + count / 16) {
		struct nam__dirty dirty;

		memcpy(left, node, g->node_bytes);
		memset(right, 0xee, g->node_bytes);
		nam__node_divide(g, left, at, right, 555, &dirty);
		halves_check(g, whole, left, right, at);
		half_check_dirty(g, node, left, dirty, at);
	}
}

static void
node_divide__full_nodes__SHARE_ENTRIES_AND_FENCES(void **state)
{
	struct model *model = malloc(sizeof(*model));
	uint64_t node[NODE_WORDS_MAX];

	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		struct nam_rng rng = nam_rng_seed(400 + s);
		struct nam__geometry g;
		struct nam__key high;

		geometry_of(&shapes[s], &g);
		model_init(model, &g);
		memset(&high, 0xfe, sizeof(high));
		nam__node_init(&g, node, NAM__NODE_LEAF, 0, 9, lowest.w, s % 2 ? high.w : NULL);
		node[NAM__WORD_SIBLING] = 0x123456789ull;
		while (model->count < g.leaf_capacity)
			leaf_step(model, node, &rng);
		divide_everywhere(&g, node);
		nam__leaf_sort(&g, node);
		divide_everywhere(&g, node);

		inner_begin(model, node);
		while (model->count < g.inner_capacity)
			inner_step(model, node, &rng);
		divide_everywhere(&g, node);
	}
	free(model);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_encode__random_pairs__ORDER_OF_WORDS_IS_ORDER_OF_BYTES),
		cmocka_unit_test(key_decode__what_was_encoded__GIVES_THE_SAME_BYTES),
		cmocka_unit_test(key_from_u64__ascending_integers__GIVES_ASCENDING_KEYS),
		cmocka_unit_test(node_init__of_any_type__IS_EMPTY_AND_SAYS_WHAT_IT_IS),
		cmocka_unit_test(node_seal__again_and_again__COUNTS_VERSIONS_AND_VERIFIES),
		cmocka_unit_test(node_hash__one_bit_anywhere_changed__DIFFERS),
		cmocka_unit_test(node_hash__same_image_elsewhere__DIFFERS),
		cmocka_unit_test(node_plausible__counts_beyond_capacity__FALSE),
		cmocka_unit_test(leaf__random_changes__ANSWERS_LIKE_A_MODEL),
		cmocka_unit_test(leaf_lower_bound__sorted_leaf__COUNTS_WHAT_IS_BELOW),
		cmocka_unit_test(leaf_add__ascending_keys__STAY_SORTED_AND_WRITE_ONE_ENTRY_EACH),
		cmocka_unit_test(inner__random_changes__ANSWERS_LIKE_A_MODEL),
		cmocka_unit_test(node_divide__full_nodes__SHARE_ENTRIES_AND_FENCES),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
