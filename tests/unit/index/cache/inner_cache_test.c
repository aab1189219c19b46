/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of inner nodes, fed with images that no server ever saw.  Its answers are checked
 * against the images themselves: a child's address tells which node and which entry named it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "index/index_internal.h"

#define BUDGET_BIG (64ull << 20)
#define NODE_WORDS_MAX (NAM_NODE_BYTES_MAX / 8)

struct shape {
	uint32_t key_bytes, node_bytes;
	bool unique;
};

static const struct shape shapes[] = {
	{ 8, 256, true }, { 8, 256, false }, { 8, 1024, true }, { 13, 256, true },
	{ 13, 1024, false }, { 24, 512, true }, { 64, 1024, false }, { 64, 16384, true },
};
#define SHAPES_COUNT (sizeof(shapes) / sizeof(shapes[0]))

/* ---- a client that does nothing but keep garbage ------------------------------------------ */

struct fixture {
	struct nam_client client;
	struct nam__geometry g;
	struct nam__cache *cache;
	uint64_t node[NODE_WORDS_MAX];
};

static struct fixture *
fixture_new(const struct shape *shape, uint64_t budget_bytes)
{
	struct fixture *fixture = aligned_alloc(NAM__CACHE_LINE,
		(sizeof(*fixture) + NAM__CACHE_LINE - 1) / NAM__CACHE_LINE * NAM__CACHE_LINE);
	struct nam_index_options options;

	assert_non_null(fixture);
	memset(fixture, 0, sizeof(*fixture));
	nam_index_options_init(&options);
	options.key_bytes = shape->key_bytes;
	options.node_bytes = shape->node_bytes;
	options.unique = shape->unique;
	options.head_interval = 0;
	assert_int_equal(nam__geometry_init(&fixture->g, &options, 1), 0);
	TAILQ_INIT(&fixture->client.garbage);
	pthread_mutex_init(&fixture->client.mutex, NULL);
	assert_int_equal(nam__cache_new(&fixture->g, &fixture->client, budget_bytes,
				 &fixture->cache), 0);
	return fixture;
}

static void
fixture_free(struct fixture *fixture)
{
	nam__cache_free(fixture->cache);
	/* frees the garbage; there is no epoch thread */
	nam__epoch_thread_stop(&fixture->client);
	pthread_mutex_destroy(&fixture->client.mutex);
	free(fixture);
}

/* ---- keys and images ---------------------------------------------------------------------- */

/*
 * How the numbers 0, 1, 2 .. become separators: where in a full key they are written, and how far
 * apart.  The rest of the key is the same everywhere.
 */
enum layout {
	LAYOUT_FIRST_WORD,	/* differ in the first word, far apart */
	LAYOUT_LAST_WORD,	/* differ in the last word only, next to each other */
	LAYOUT_CLUSTERS,	/* eight neighbours, then a huge gap: slices tie */
	LAYOUT_BOTH_WORDS, /* first word and last word: what ties in one differs in the other */
	LAYOUTS_COUNT
};

static void
key_make(const struct nam__geometry *g, enum layout layout, uint64_t number, uint64_t *ret_key)
{
	unsigned last = g->full_words - 1;

	memset(ret_key, 0, 8ul * g->full_words);
	switch (layout) {
	case LAYOUT_FIRST_WORD:
		ret_key[0] = number << 40;
		break;
	case LAYOUT_LAST_WORD:
		ret_key[last] += number * 2;
		break;
	case LAYOUT_CLUSTERS:
		ret_key[0] = (number / 8) << 44;
		ret_key[last] += number % 8 * 2;
		break;
	case LAYOUT_BOTH_WORDS:
	default:
		ret_key[0] = (number / 64) << 36;
		ret_key[last] += (number % 64) << 20;
		break;
	}
}

/* A key inside the range of separator `number`, past its beginning. */
static void
key_after(const struct nam__geometry *g, enum layout layout, uint64_t number, uint64_t *ret_key)
{
	key_make(g, layout, number, ret_key);
	ret_key[g->full_words - 1]++;
}

static struct nam_gaddr
child_of(uint64_t number, unsigned mark)
{
	return (struct nam_gaddr){ (uint64_t)mark << 48 | (number + 1) };
}

/*
 * An inner node with separators number first, first + step .. below end, whose high fence is `end`
 * (UINT64_MAX: it is the last one).
 */
static void
image_make(struct fixture *fixture, enum layout layout, unsigned level, uint64_t version,
	uint64_t first, uint64_t step, uint64_t end, unsigned mark)
{
	const struct nam__geometry *g = &fixture->g;
	uint64_t low[NAM__KEY_WORDS_MAX], high[NAM__KEY_WORDS_MAX], *node = fixture->node;
	bool last = end == UINT64_MAX;
	unsigned count = 0;

	key_make(g, layout, first, low);
	key_make(g, layout, end, high);
	nam__node_init(g, node, NAM__NODE_INNER, level, 1, low, last ? NULL : high);
	for (uint64_t number = first; count < g->inner_capacity && number < end; number += step) {
		uint64_t *entry = nam__inner_entry(g, node, count++);

		key_make(g, layout, number, entry);
		entry[g->full_words] = child_of(number, mark).raw;
	}
	nam__node_set_counts(node, count, count);
	node[NAM__WORD_FRONT] += version << 16;
}

static struct nam_gaddr
address_of(uint64_t first)
{
	return nam_gaddr_make(7, 64 * (first + 1), 1);
}

static void
put_range(struct fixture *fixture, enum layout layout, unsigned level, uint64_t version,
	uint64_t first, uint64_t end)
{
	image_make(fixture, layout, level, version, first, 1, end, level);
	nam__cache_put(fixture->cache, fixture->node, address_of(first), false);
}

static struct nam_gaddr
leaf_singly(const struct fixture *fixture, const uint64_t *key)
{
	const struct nam__cached_node *node = nam__cache_node(fixture->cache, key);

	return node ? nam__cached_node_leaf(fixture->cache, node, key) : NAM_GADDR_NULL;
}

/* The results of both searches: one key at a time, and groups of one-word keys. */
static struct nam_gaddr
leaf_of(const struct fixture *fixture, const uint64_t *key)
{
	struct nam_gaddr leaf = leaf_singly(fixture, key);

	if (fixture->g.full_words == 1) {
		const uint64_t keys[] = { key[0], key[0] };
		struct nam_gaddr leaves[2];

		nam__cache_leaf_group(fixture->cache, keys, 2, leaves);
		assert_int_equal(leaves[0].raw, leaf.raw);
		assert_int_equal(leaves[1].raw, leaf.raw);
	}
	return leaf;
}

/* ---- single nodes ------------------------------------------------------------------------- */

static void
leaf__nothing_cached__NULL(void **state)
{
	struct fixture *fixture = fixture_new(&shapes[0], BUDGET_BIG);
	struct nam__cache_hop hop;
	struct nam_gaddr leaves[4];
	uint64_t key[NAM__KEY_WORDS_MAX] = { 5 };

	(void)state;
	assert_true(nam_gaddr_is_null(leaf_of(fixture, key)));
	assert_false(nam__cache_find(fixture->cache, key, 0, &hop));
	assert_int_equal(nam__cache_leaves(fixture->cache, key, false, leaves, 4, NULL), 0);
	nam__cache_drop(fixture->cache, key, 1);
	fixture_free(fixture);
}

static void
leaf__one_node_of_any_shape__NAMES_THE_CHILD_THAT_COVERS_THE_KEY(void **state)
{
	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		for (enum layout layout = 0; layout < LAYOUTS_COUNT; layout++) {
			struct fixture *fixture = fixture_new(&shapes[s], BUDGET_BIG);
			const struct nam__geometry *g = &fixture->g;
			uint64_t key[NAM__KEY_WORDS_MAX];
			unsigned count;

			/* Every number of entries, so that every padding of slices is met. */
			for (count = 1; count <= g->inner_capacity; count += 1 + count / 20) {
				put_range(fixture, layout, 1, count, 100, 100 + count);
				for (uint64_t n = 100; n < 100u + count; n++) {
					key_make(g, layout, n, key);
					assert_int_equal(leaf_of(fixture, key).raw,
						child_of(n, 1).raw);
					key_after(g, layout, n, key);
					assert_int_equal(leaf_of(fixture, key).raw,
						child_of(n, 1).raw);
				}
				key_make(g, layout, 100 + count, key);
				assert_true(nam_gaddr_is_null(
					leaf_of(fixture, key)));
				key_after(g, layout, 99, key);
				assert_true(nam_gaddr_is_null(
					leaf_of(fixture, key)));
			}
			fixture_free(fixture);
		}
	}
}

static void
leaf__key_far_beyond_the_separators__LAST_CHILD(void **state)
{
	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		for (enum layout layout = 0; layout < LAYOUTS_COUNT; layout++) {
			struct fixture *fixture = fixture_new(&shapes[s], BUDGET_BIG);
			const struct nam__geometry *g = &fixture->g;
			uint64_t key[NAM__KEY_WORDS_MAX];

			image_make(fixture, layout, 1, 1, 0, 1, UINT64_MAX, 1);
			nam__cache_put(fixture->cache, fixture->node, address_of(0), false);
			memset(key, 0xff, sizeof(key));
			assert_int_equal(leaf_of(fixture, key).raw,
				child_of(g->inner_capacity - 1, 1).raw);
			/* Beyond all of them in the first word, below them in the others. */
			memset(key, 0, sizeof(key));
			key[0] = UINT64_MAX;
			assert_int_equal(leaf_of(fixture, key).raw,
				child_of(g->inner_capacity - 1, 1).raw);
			fixture_free(fixture);
		}
	}
}

static void
put__versions_of_one_node__THE_NEWEST_STAYS(void **state)
{
	struct fixture *fixture = fixture_new(&shapes[0], BUDGET_BIG);
	uint64_t key[NAM__KEY_WORDS_MAX];
	struct nam_index_stat stat;

	(void)state;
	image_make(fixture, LAYOUT_FIRST_WORD, 1, 5, 0, 2, 8, 1);
	nam__cache_put(fixture->cache, fixture->node, address_of(0), false);
	key_make(&fixture->g, LAYOUT_FIRST_WORD, 3, key);
	assert_int_equal(leaf_of(fixture, key).raw, child_of(2, 1).raw);

	image_make(fixture, LAYOUT_FIRST_WORD, 1, 4, 0, 1, 8, 2);
	nam__cache_put(fixture->cache, fixture->node, address_of(0), false);
	assert_int_equal(leaf_of(fixture, key).raw, child_of(2, 1).raw);

	image_make(fixture, LAYOUT_FIRST_WORD, 1, 6, 0, 1, 8, 3);
	nam__cache_put(fixture->cache, fixture->node, address_of(0), false);
	assert_int_equal(leaf_of(fixture, key).raw, child_of(3, 3).raw);

	/* Another node took the range over; its versions say nothing about the old one's. */
	image_make(fixture, LAYOUT_FIRST_WORD, 1, 1, 0, 1, 8, 4);
	nam__cache_put(fixture->cache, fixture->node, address_of(1000), false);
	assert_int_equal(leaf_of(fixture, key).raw, child_of(3, 4).raw);

	memset(&stat, 0, sizeof(stat));
	memset(&stat, 0, sizeof(stat));
	nam__cache_stat(fixture->cache, &stat);
	assert_int_equal(stat.cache_nodes, 1);
	fixture_free(fixture);
}

/* I17: an operation from before a generation may be late. */
static void
put_names__cache_was_cleared_or_generation_began__NOTHING(void **state)
{
	struct fixture *fixture = fixture_new(&shapes[0], BUDGET_BIG);
	uint64_t key[NAM__KEY_WORDS_MAX];

	(void)state;
	image_make(fixture, LAYOUT_FIRST_WORD, 1, 5, 0, 2, 8, 1);
	key_make(&fixture->g, LAYOUT_FIRST_WORD, 3, key);
	atomic_store(&fixture->client.generation, 1);
	nam__cache_put(fixture->cache, fixture->node, address_of(0), true);
	assert_int_equal(leaf_of(fixture, key).raw, 0);
	atomic_store(&fixture->client.generation, 0);
	nam__cache_put(fixture->cache, fixture->node, address_of(0), true);
	assert_int_equal(leaf_of(fixture, key).raw, child_of(2, 1).raw);

	nam__cache_clear(fixture->cache);
	assert_int_equal(leaf_of(fixture, key).raw, 0);
	nam__cache_put(fixture->cache, fixture->node, address_of(0), true);
	assert_int_equal(leaf_of(fixture, key).raw, 0);
	nam__cache_put(fixture->cache, fixture->node, address_of(0), false);
	assert_int_equal(leaf_of(fixture, key).raw, child_of(2, 1).raw);
	fixture_free(fixture);
}

static void
put__node_shrunk_by_a_split__NO_ANSWER_FOR_WHAT_IT_LOST(void **state)
{
	struct fixture *fixture = fixture_new(&shapes[0], BUDGET_BIG);
	uint64_t key[NAM__KEY_WORDS_MAX];

	(void)state;
	put_range(fixture, LAYOUT_FIRST_WORD, 1, 1, 0, 8);
	put_range(fixture, LAYOUT_FIRST_WORD, 1, 2, 0, 4);
	key_make(&fixture->g, LAYOUT_FIRST_WORD, 5, key);
	assert_true(nam_gaddr_is_null(leaf_of(fixture, key)));
	put_range(fixture, LAYOUT_FIRST_WORD, 1, 1, 4, 8);
	assert_int_equal(leaf_of(fixture, key).raw, child_of(5, 1).raw);
	fixture_free(fixture);
}

static void
put__leaves_and_empty_nodes__ARE_NOT_KEPT(void **state)
{
	struct fixture *fixture = fixture_new(&shapes[0], BUDGET_BIG);
	struct nam_index_stat stat;

	(void)state;
	memset(&stat, 0, sizeof(stat));
	put_range(fixture, LAYOUT_FIRST_WORD, 0, 1, 0, 4);
	image_make(fixture, LAYOUT_FIRST_WORD, 1, 1, 0, 1, 4, 1);
	nam__node_set_counts(fixture->node, 0, 0);
	nam__cache_put(fixture->cache, fixture->node, address_of(0), false);
	put_range(fixture, LAYOUT_FIRST_WORD, NAM__LEVELS_MAX, 1, 0, 4);
	memset(&stat, 0, sizeof(stat));
	nam__cache_stat(fixture->cache, &stat);
	assert_int_equal(stat.cache_nodes, 0);
	fixture_free(fixture);
}

/* ---- several nodes ------------------------------------------------------------------------ */

static void
find__several_levels__THE_DEEPEST_THAT_COVERS(void **state)
{
	struct fixture *fixture = fixture_new(&shapes[3], BUDGET_BIG);
	uint64_t key[NAM__KEY_WORDS_MAX];
	struct nam__cache_hop hop;

	(void)state;
	for (unsigned level = 1; level < NAM__LEVELS_MAX; level++)
		put_range(fixture, LAYOUT_BOTH_WORDS, level, 1, 0, 1 + (level < 4 ? level : 3));
	for (uint64_t n = 0; n < 5; n++) {
		key_after(&fixture->g, LAYOUT_BOTH_WORDS, n, key);
		for (unsigned level = 0; level < NAM__LEVELS_MAX; level++) {
			unsigned expect = n < 4 && n > level ? (unsigned)n : level + 1;
			bool found = nam__cache_find(fixture->cache, key, level, &hop);

			assert_int_equal(found, n < 4 && expect < NAM__LEVELS_MAX);
			if (!found)
				continue;
			assert_int_equal(hop.level, expect - 1);
			assert_int_equal(hop.child.raw, child_of(n, expect).raw);
		}
	}
	fixture_free(fixture);
}

static void
leaves__both_directions__NEIGHBOURS_IN_ORDER(void **state)
{
	struct fixture *fixture = fixture_new(&shapes[0], BUDGET_BIG);
	struct nam_gaddr leaves[32];
	uint64_t key[NAM__KEY_WORDS_MAX];

	(void)state;
	put_range(fixture, LAYOUT_FIRST_WORD, 1, 1, 0, 10);
	key_after(&fixture->g, LAYOUT_FIRST_WORD, 6, key);
	assert_int_equal(nam__cache_leaves(fixture->cache, key, false, leaves, 32, NULL), 4);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(leaves[i].raw, child_of(6 + i, 1).raw);
	assert_int_equal(nam__cache_leaves(fixture->cache, key, true, leaves, 32, NULL), 7);
	for (uint64_t i = 0; i < 7; i++)
		assert_int_equal(leaves[i].raw, child_of(6 - i, 1).raw);
	assert_int_equal(nam__cache_leaves(fixture->cache, key, true, leaves, 3, NULL), 3);
	fixture_free(fixture);
}

/*
 * Ranges [i * width, (i + 1) * width) are put and dropped at random; what is cached is known.  More
 * ranges than a chunk has room for, in any order.
 */
static void
churn(const struct shape *shape, enum layout layout, uint64_t seed)
{
	enum { RANGES = 700, STEPS = 6000 };
	struct fixture *fixture = fixture_new(shape, BUDGET_BIG);
	struct nam_rng rng = nam_rng_seed(seed);
	bool cached[RANGES] = { false };
	uint64_t key[NAM__KEY_WORDS_MAX], versions[RANGES] = { 0 };
	uint64_t width = fixture->g.inner_capacity;
	struct nam_index_stat stat;
	unsigned count = 0;

	for (unsigned step = 0; step < STEPS; step++) {
		uint64_t range = nam_rng_below(&rng, RANGES), n;
		bool filling = step < STEPS / 2;

		if (nam_rng_below(&rng, 10) < (filling ? 8 : 2)) {
			put_range(fixture, layout, 1, ++versions[range], range * width,
				(range + 1) * width);
			cached[range] = true;
		} else if (cached[range]) {
			key_after(&fixture->g, layout,
				range * width + nam_rng_below(&rng, width), key);
			nam__cache_drop(fixture->cache, key, 1);
			cached[range] = false;
		}
		n = nam_rng_below(&rng, RANGES * width);
		key_after(&fixture->g, layout, n, key);
		assert_int_equal(leaf_of(fixture, key).raw,
			cached[n / width] ? child_of(n, 1).raw : 0);
	}
	for (unsigned i = 0; i < RANGES; i++)
		count += cached[i];
	memset(&stat, 0, sizeof(stat));
	memset(&stat, 0, sizeof(stat));
	nam__cache_stat(fixture->cache, &stat);
	assert_int_equal(stat.cache_nodes, count);
	assert_int_equal(stat.cache_evictions, 0);
	fixture_free(fixture);
}

static void
put_and_drop__at_random__ANSWER_LIKE_A_MODEL(void **state)
{
	(void)state;
	for (size_t s = 0; s < SHAPES_COUNT; s++) {
		enum layout layout = s % LAYOUTS_COUNT;

		if (shapes[s].node_bytes > 1024)
			continue;
		churn(&shapes[s], layout, 10 + s);
		churn(&shapes[s], LAYOUT_CLUSTERS, 20 + s);
	}
}

static void
drop__every_node_in_turn__EMPTY_AND_USABLE_AGAIN(void **state)
{
	struct fixture *fixture = fixture_new(&shapes[0], BUDGET_BIG);
	uint64_t key[NAM__KEY_WORDS_MAX];
	struct nam_index_stat stat;

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < 300; i++)
			put_range(fixture, LAYOUT_FIRST_WORD, 1 + (unsigned)(i % 2), 1, i * 4,
				(i + 1) * 4);
		for (uint64_t i = 0; i < 300; i++) {
			key_make(&fixture->g, LAYOUT_FIRST_WORD, (299 - i) * 4, key);
			nam__cache_drop(fixture->cache, key, 1 + (unsigned)((299 - i) % 2));
		}
		memset(&stat, 0, sizeof(stat));
		memset(&stat, 0, sizeof(stat));
		nam__cache_stat(fixture->cache, &stat);
		assert_int_equal(stat.cache_nodes, 0);
		assert_true(stat.cache_bytes < 1024);
	}
	fixture_free(fixture);
}

/* ---- the budget --------------------------------------------------------------------------- */

static void
put__more_than_the_budget__EVICTS_AND_STAYS_WITHIN(void **state)
{
	static const uint64_t budgets[] = { 8u << 10, 32u << 10, 200u << 10 };

	(void)state;
	for (size_t b = 0; b < sizeof(budgets) / sizeof(budgets[0]); b++) {
		struct fixture *fixture = fixture_new(&shapes[2], budgets[b]);
		struct nam_rng rng = nam_rng_seed(b);
		uint64_t width = fixture->g.inner_capacity, hits = 0;
		uint64_t key[NAM__KEY_WORDS_MAX];
		struct nam_index_stat stat;

		memset(&stat, 0, sizeof(stat));
		for (unsigned i = 0; i < 4000; i++) {
			uint64_t range = nam_rng_below(&rng, 500), n;
			struct nam_gaddr leaf;

			put_range(fixture, LAYOUT_FIRST_WORD, 1, i + 1, range * width,
				(range + 1) * width);
			memset(&stat, 0, sizeof(stat));
			nam__cache_stat(fixture->cache, &stat);
			assert_true(stat.cache_bytes <= budgets[b]);
			n = nam_rng_below(&rng, 500 * width);
			key_after(&fixture->g, LAYOUT_FIRST_WORD, n, key);
			leaf = leaf_of(fixture, key);
			if (nam_gaddr_is_null(leaf))
				continue;
			assert_int_equal(leaf.raw, child_of(n, 1).raw);
			hits++;
		}
		assert_true(stat.cache_evictions > 0);
		assert_int_equal(stat.cache_budget_bytes, budgets[b]);
		/* It is a cache, not a sieve: most of the budget is in use. */
		assert_true(stat.cache_bytes > budgets[b] / 2);
		assert_true(hits > 0);
		fixture_free(fixture);
	}
}

static void
put__budget_too_small_for_anything__SURVIVES(void **state)
{
	struct fixture *fixture = fixture_new(&shapes[2], 1);
	uint64_t width = fixture->g.inner_capacity, key[NAM__KEY_WORDS_MAX];
	struct nam__cache_hop hop;

	(void)state;
	for (uint64_t i = 0; i < 200; i++) {
		put_range(fixture, LAYOUT_FIRST_WORD, 1 + (unsigned)(i % 3), 1, i * width,
			(i + 1) * width);
		key_after(&fixture->g, LAYOUT_FIRST_WORD, i * width, key);
		if (nam__cache_find(fixture->cache, key, 0, &hop))
			assert_int_equal(hop.child.raw & 0xffffffffffffull,
				child_of(i * width, 0).raw);
	}
	fixture_free(fixture);
}

static void
put__used_nodes_and_unused_ones__THE_USED_ONES_STAY_LONGER(void **state)
{
	struct fixture *fixture = fixture_new(&shapes[2], 100u << 10);
	uint64_t width = fixture->g.inner_capacity, key[NAM__KEY_WORDS_MAX];
	unsigned hot_kept = 0;

	(void)state;
	/* Ranges 0 .. 9 are asked for all the time while a long scan passes by. */
	for (uint64_t i = 0; i < 2000; i++) {
		put_range(fixture, LAYOUT_FIRST_WORD, 1, 1, i * width, (i + 1) * width);
		for (uint64_t hot = 0; hot < 10 && hot <= i; hot++) {
			key_after(&fixture->g, LAYOUT_FIRST_WORD, hot * width, key);
			(void)leaf_of(fixture, key);
		}
	}
	for (uint64_t hot = 0; hot < 10; hot++) {
		key_after(&fixture->g, LAYOUT_FIRST_WORD, hot * width, key);
		hot_kept += !nam_gaddr_is_null(leaf_of(fixture, key));
	}
	/* The first sweep finds everything in use and takes what it comes to. */
	assert_true(hot_kept >= 8);
	fixture_free(fixture);
}

/* ---- threads ------------------------------------------------------------------------------ */

/*
 * A writer replaces, drops and evicts nodes; readers must only ever get children that some version
 * of the right node named.  Separators are every number or every second one, so an answer is the
 * key's own number or the even one at or below it.
 */
struct race {
	struct fixture *fixture;
	atomic_bool stop;
	atomic_uint wrong, hits;
};

#define RACE_RANGES 40u

static void
race_reader(void *arg)
{
	struct race *race = arg;
	const struct nam__geometry *g = &race->fixture->g;
	struct nam_rng rng = nam_rng_seed((uint64_t)(uintptr_t)&rng);
	uint64_t width = g->inner_capacity;

	while (!atomic_load_explicit(&race->stop, memory_order_relaxed)) {
		uint64_t n = nam_rng_below(&rng, RACE_RANGES * width);
		uint64_t key[NAM__KEY_WORDS_MAX], even = n - n % width % 2;
		struct nam_gaddr leaf, leaves[8];
		struct nam__cache_hop hop;

		key_after(g, LAYOUT_CLUSTERS, n, key);
		leaf = leaf_singly(race->fixture, key);
		if (!nam_gaddr_is_null(leaf)) {
			atomic_fetch_add(&race->hits, 1);
			if (leaf.raw != child_of(n, 1).raw && leaf.raw != child_of(even, 2).raw)
				atomic_fetch_add(&race->wrong, 1);
		}
		if (nam__cache_find(race->fixture->cache, key, 0, &hop) && hop.level != 0)
			atomic_fetch_add(&race->wrong, 1);
		if (nam__cache_leaves(race->fixture->cache, key, n & 1, leaves, 8, NULL) > 8)
			atomic_fetch_add(&race->wrong, 1);
		if (n % 64 == 0)
			nam_yield();
	}
}

static void
readers__while_a_writer_replaces_nodes__ONLY_SEE_WHOLE_ONES(void **state)
{
	struct fixture *fixture = fixture_new(&shapes[1], 48u << 10);
	struct race race = { .fixture = fixture };
	struct nam_rng rng = nam_rng_seed(5);
	uint64_t width = fixture->g.inner_capacity;
	struct nam_thread *readers[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(nam_thread_start("reader", race_reader, &race, &readers[i]), 0);
	for (unsigned i = 1; i <= 20000 || (!atomic_load(&race.hits) && i < 20000000); i++) {
		uint64_t range = nam_rng_below(&rng, RACE_RANGES);
		unsigned step = 1 + (unsigned)nam_rng_below(&rng, 2);

		if (nam_rng_below(&rng, 8) == 0) {
			uint64_t key[NAM__KEY_WORDS_MAX];

			key_after(&fixture->g, LAYOUT_CLUSTERS, range * width, key);
			nam__cache_drop(fixture->cache, key, 1);
		} else {
			image_make(fixture, LAYOUT_CLUSTERS, 1, i, range * width, step,
				(range + 1) * width, step);
			nam__cache_put(fixture->cache, fixture->node,
				address_of(range * width), false);
		}
		if (i % 64 == 0)
			nam_yield();
	}
	atomic_store(&race.stop, true);
	for (unsigned i = 0; i < 2; i++)
		nam_thread_join(readers[i]);
	assert_int_equal(atomic_load(&race.wrong), 0);
	assert_true(atomic_load(&race.hits) > 0);
	fixture_free(fixture);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaf__nothing_cached__NULL),
		cmocka_unit_test(leaf__one_node_of_any_shape__NAMES_THE_CHILD_THAT_COVERS_THE_KEY),
		cmocka_unit_test(leaf__key_far_beyond_the_separators__LAST_CHILD),
		cmocka_unit_test(put__versions_of_one_node__THE_NEWEST_STAYS),
		cmocka_unit_test(put_names__cache_was_cleared_or_generation_began__NOTHING),
		cmocka_unit_test(put__node_shrunk_by_a_split__NO_ANSWER_FOR_WHAT_IT_LOST),
		cmocka_unit_test(put__leaves_and_empty_nodes__ARE_NOT_KEPT),
		cmocka_unit_test(find__several_levels__THE_DEEPEST_THAT_COVERS),
		cmocka_unit_test(leaves__both_directions__NEIGHBOURS_IN_ORDER),
		cmocka_unit_test(put_and_drop__at_random__ANSWER_LIKE_A_MODEL),
		cmocka_unit_test(drop__every_node_in_turn__EMPTY_AND_USABLE_AGAIN),
		cmocka_unit_test(put__more_than_the_budget__EVICTS_AND_STAYS_WITHIN),
		cmocka_unit_test(put__budget_too_small_for_anything__SURVIVES),
		cmocka_unit_test(put__used_nodes_and_unused_ones__THE_USED_ONES_STAY_LONGER),
		cmocka_unit_test(readers__while_a_writer_replaces_nodes__ONLY_SEE_WHOLE_ONES),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
