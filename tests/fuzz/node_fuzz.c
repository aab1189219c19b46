/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_fuzz.c -- images of index nodes: whatever remote memory holds, a reader may use an image
 * that it validated.
 *
 * input	shape, flags, key, image
 * flags	which fabric's rules apply, and whether the image is made to pass for whole, so that
 *		hostile counts, levels and entries are reached
 */
#include "common/env.h"
#include "fuzz_input.h"
#include "index/index_internal.h"
#include "index/maintain/verify.h"
#include "index/node/divide.h"
#include "index/validate.h"

static const struct nam_index_options shapes[] = {
	{ .key_bytes = 8, .node_bytes = 256, .unique = true },
	{ .key_bytes = 8, .node_bytes = 256, .unique = false },
	{ .key_bytes = 8, .node_bytes = 1024, .unique = true, .head_interval = 32 },
	{ .key_bytes = 13, .node_bytes = 512, .unique = true },
	{ .key_bytes = 13, .node_bytes = 512, .unique = false },
	{ .key_bytes = 64, .node_bytes = 1024, .unique = true },
	{ .key_bytes = 64, .node_bytes = 1024, .unique = false },
	{ .key_bytes = 24, .node_bytes = 4096, .unique = true },
};

enum flag {
	FLAG_ORDERED_LOADS = 1,
	FLAG_ENDS_AGREE = 2,
	FLAG_HASH = 4,
	FLAG_GENERATION = 8,
	FLAG_ALIVE = 16,
	FLAG_LEVEL = 32,
	FLAG_COUNTS_IN_RANGE = 64,
};

struct fixture {
	struct nam_client client;
	struct nam_worker worker;
	struct nam_index index;
};

static void
read_leaf(const struct nam__geometry *g, uint64_t *image, const uint64_t *key)
{
	uint64_t *right = fuzz_memory(g->node_bytes), sum = 0;
	unsigned count = nam__node_count(image);
	uint8_t bytes[NAM_KEY_BYTES_MAX];
	struct nam__dirty dirty;
	int number;

	number = nam__leaf_find(g, image, key);
	if (number >= (int)count)
		abort();
	if (nam__leaf_lower_bound(g, image, key) > count)
		abort();
	for (unsigned i = 0; i < count; i++) {
		nam__key_decode(g, nam__leaf_entry(g, image, i), bytes);
		sum += bytes[0] + nam__leaf_entry(g, image, i)[g->key_words];
	}
	nam__leaf_sort(g, image);
	if (nam__node_sorted(image) != count)
		abort();
	number = nam__leaf_find(g, image, key);
	if (number >= 0)
		nam__leaf_remove(g, image, (unsigned)number, &dirty);
	else if (count < g->leaf_capacity)
		nam__leaf_add(g, image, key, sum, &dirty);
	if (nam__node_count(image) == g->leaf_capacity) {
		nam__node_divide(g, image, g->leaf_capacity / 2, right, 1, &dirty);
		nam__node_seal(g, right, NAM_GADDR_NULL);
	}
	nam__node_seal(g, image, NAM_GADDR_NULL);
	free(right);
}

static void
read_inner(struct fixture *fixture, uint64_t *image, const uint64_t *key)
{
	const struct nam__geometry *g = &fixture->index.g;
	unsigned count = nam__node_count(image), number;
	struct nam_gaddr child, leaves[8];
	const struct nam__cached_node *cached;
	struct nam__cache_hop hop;
	struct nam__dirty dirty;
	struct nam__cache *cache;

	if (!count)
		return;
	number = nam__inner_search(g, image, key);
	if (number >= count)
		abort();
	child = nam__inner_child(g, image, number);
	if (nam__cache_new(g, &fixture->client, 1u << 20, &cache))
		abort();
	nam__cache_put(cache, image, nam_gaddr_make(1, 64, 1), false);
	(void)nam__cache_find(cache, key, 0, &hop);
	cached = nam__cache_node(cache, key);
	if (cached)
		child = nam__cached_node_leaf(cache, cached, key);
	(void)nam__cache_leaves(cache, key, child.raw & 1, leaves, 8, NULL);
	nam__cache_drop(cache, key, 1);
	nam__cache_free(cache);
	if (count < g->inner_capacity && nam__inner_add(g, image, key, child, &dirty) == 0)
		count++;
	if (count > 1)
		nam__inner_remove(g, image, count - 1, &dirty);
}

/* The fixture lives for one input: garbage of the cache is freed with it. */
static struct fixture *
fixture_new(unsigned shape)
{
	struct fixture *fixture = aligned_alloc(NAM__CACHE_LINE,
		(sizeof(*fixture) + NAM__CACHE_LINE - 1) / NAM__CACHE_LINE * NAM__CACHE_LINE);

	if (!fixture)
		abort();
	memset(fixture, 0, sizeof(*fixture));
	TAILQ_INIT(&fixture->client.garbage);
	pthread_mutex_init(&fixture->client.mutex, NULL);
	fixture->worker.client = &fixture->client;
	fixture->index.client = &fixture->client;
	fixture->index.options = shapes[shape];
	if (nam__geometry_init(&fixture->index.g, &shapes[shape], 1234567))
		abort();
	return fixture;
}

/* Make the image pass the checks that a flag stands for. */
static void
dress(const struct fixture *fixture, uint64_t *image, unsigned flags, struct nam_gaddr at)
{
	const struct nam__geometry *g = &fixture->index.g;

	if (flags & FLAG_ALIVE)
		image[NAM__WORD_FRONT] &= ~((uint64_t)NAM__NODE_DEAD << 8);
	if (flags & FLAG_GENERATION)
		image[NAM__WORD_SHAPE] = (image[NAM__WORD_SHAPE] & ~0xffffull) | nam_gaddr_tag(at);
	if (flags & FLAG_COUNTS_IN_RANGE) {
		unsigned most = nam__node_type(image) == NAM__NODE_LEAF ? g->leaf_capacity :
									    g->inner_capacity;
		unsigned count = nam__node_count(image) % (most + 1);

		nam__node_set_counts(image, count, nam__node_sorted(image) % (count + 1));
	}
	if (flags & FLAG_ENDS_AGREE)
		image[g->node_words - 1] = image[NAM__WORD_FRONT];
	if (flags & FLAG_HASH)
		image[NAM__WORD_HASH] = nam__node_hash(g, image, at);
}

static void
verify_one(struct fixture *fixture, const uint64_t *image, struct nam_gaddr at)
{
	struct nam__verifier verifier = {
		.worker = &fixture->worker,
		.index = &fixture->index,
		.at = at,
		.level = nam__node_level(image) % NAM__LEVELS_MAX,
		.sorted = fuzz_memory(fixture->index.g.node_bytes),
	};

	(void)nam__verify_image(&verifier, image);
	free(verifier.sorted);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct fixture *fixture =
		fixture_new(fuzz_u8(&input) % (sizeof(shapes) / sizeof(shapes[0])));
	const struct nam__geometry *g = &fixture->index.g;
	const struct nam_gaddr at = nam_gaddr_make(7, 64 * 99, 4711);
	unsigned flags = fuzz_u8(&input);
	uint64_t *image = fuzz_memory(g->node_bytes), *key = fuzz_memory(8ul * g->full_words);
	int rc;

	fixture->index.ordered_loads = flags & FLAG_ORDERED_LOADS;
	fuzz_take(&input, key, 8ul * g->full_words);
	fuzz_take(&input, image, g->node_bytes);
	dress(fixture, image, flags, at);
	verify_one(fixture, image, at);
	rc = nam__node_validate(&fixture->index, image, at,
		flags & FLAG_LEVEL ? (int)nam__node_level(image) : NAM__ANY_LEVEL, NAM__ANY_TYPE);
	if (rc == 0) {
		(void)nam__node_below(image, g, key);
		(void)nam__node_beyond(image, g, key);
		if (nam__node_type(image) == NAM__NODE_LEAF) {
			read_leaf(g, image, key);
		} else if (nam__node_type(image) == NAM__NODE_INNER) {
			read_inner(fixture, image, key);
		} else {
			uint64_t sum = 0;

			for (unsigned i = 0; i < nam__node_count(image); i++)
				sum += nam__head_entry(g, image, i).raw;
			key[0] = sum;
		}
	}
	free(image);
	free(key);
	nam__epoch_thread_stop(&fixture->client);
	pthread_mutex_destroy(&fixture->client.mutex);
	free(fixture);
	return 0;
}
