/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_test.c -- the tree that a memory server searches itself: against a model, by many
 * threads, and without memory.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/env.h"
#include "common/race.h"
#include "index/server/tree_internal.h"

#define KEYS 600u
#define STEPS 30000u

/* Retired blocks are given back at the end: threads may be looking at them until then. */
#define RETIRED_MAX 8192u

struct blocks {
	atomic_uint out;
	unsigned most;			/* 0: any number */
	size_t bytes;
	atomic_uint retired_count;
	void *retired[RETIRED_MAX];
};

static void *
block_take(void *arg)
{
	struct blocks *blocks = arg;
	unsigned out = atomic_fetch_add(&blocks->out, 1);
	uint64_t *block;

	if (blocks->most && out >= blocks->most) {
		atomic_fetch_sub(&blocks->out, 1);
		return NULL;
	}
	block = malloc(blocks->bytes);
	assert_non_null(block);
	/* As if it had been used before. */
	memset(block, 0xa5, blocks->bytes);
	return block;
}

static void
block_give(void *arg, void *block)
{
	struct blocks *blocks = arg;

	atomic_fetch_sub(&blocks->out, 1);
	free(block);
}

static void
block_retire(void *arg, void *block)
{
	struct blocks *blocks = arg;
	unsigned number = atomic_fetch_add(&blocks->retired_count, 1);

	assert_true(number < RETIRED_MAX);
	blocks->retired[number] = block;
}

struct fixture {
	struct blocks blocks;
	struct nam__tree_server_tree *tree;
	uint64_t *scratch;
	bool unique;
	uint32_t key_bytes;
};

static void
fixture_open(struct fixture *fixture, uint32_t key_bytes, bool unique, unsigned most)
{
	struct nam_index_options options;
	struct nam__geometry g;
	struct nam__server_memory memory = { block_take, block_give, block_retire,
		&fixture->blocks };

	nam_index_options_init(&options);
	options.key_bytes = key_bytes;
	options.unique = unique;
	options.node_bytes = key_bytes > 8 ? 512 : 256;
	*fixture = (struct fixture){ .unique = unique, .key_bytes = key_bytes,
		.blocks = { .most = most, .bytes = options.node_bytes } };
	assert_int_equal(nam__geometry_init(&g, &options, 0), 0);
	assert_int_equal(nam__tree_server_tree_new(&g, &memory, &fixture->tree), 0);
	fixture->scratch = malloc(nam__tree_server_scratch_bytes(fixture->tree));
	assert_non_null(fixture->scratch);
}

struct figures {
	unsigned height;
	uint64_t entries, leaves, inner_nodes;
};

/* All nodes, few at a time; fails at the first violation if `verify`. */
static struct figures
walk_all(struct fixture *fixture, bool verify)
{
	struct figures figures = { .height = 1 };

	for (unsigned level = 0; level < figures.height; level++) {
		struct nam__tree_server_walk walk = { .more = true };

		while (walk.more) {
			struct nam__key from = walk.next;

			nam__tree_server_walk(fixture->tree, fixture->scratch, level, verify,
				from.w, 3,
				&walk);
			if (walk.violations)
				fail_msg("%s", walk.first.text);
			figures.entries += level ? 0 : walk.entries;
			figures.leaves += level ? 0 : walk.nodes;
			figures.inner_nodes += level ? walk.nodes : 0;
		}
		figures.height = walk.height;
	}
	return figures;
}

static void
collect_all(struct fixture *fixture, uint64_t *merges)
{
	for (unsigned level = 0, height = 2; level + 1 < height; level++) {
		struct nam__tree_server_collected collected = { .more = true };

		while (collected.more) {
			struct nam__key from = collected.next;

			nam__tree_server_collect(fixture->tree, fixture->scratch, level, from.w, 2,
				&collected);
			*merges += collected.merges;
		}
		height = collected.height;
	}
}

static void
fixture_close(struct fixture *fixture)
{
	(void)walk_all(fixture, true);
	nam__tree_server_tree_free(fixture->tree);
	while (fixture->blocks.retired_count)
		block_give(&fixture->blocks,
			fixture->blocks.retired[--fixture->blocks.retired_count]);
	assert_int_equal(fixture->blocks.out, 0);
	free(fixture->scratch);
}

/* Key number n of the model; in a non-unique tree four pairs share a key. */
static struct nam__key
key_of(const struct fixture *fixture, uint64_t number, uint64_t payload)
{
	uint8_t bytes[NAM_KEY_BYTES_MAX] = { 0 };
	struct nam__key key = { { 0 } };

	if (!fixture->unique)
		number /= 4;
	nam_key_from_u64(number * 0x0123456789abcdull, bytes + fixture->key_bytes - 8);
	nam__key_encode(&fixture->tree->g, bytes, payload, &key);
	return key;
}

/* The payload is part of a pair: pairs of one key differ in it. */
static uint64_t
payload_of(const struct fixture *fixture, uint64_t number, uint64_t draw)
{
	return fixture->unique ? draw : number;
}

struct model {
	bool there[KEYS];
	uint64_t payload[KEYS];
};

static void
model_change(struct fixture *fixture, struct model *model, enum nam_op_kind kind, unsigned number,
	uint64_t payload)
{
	struct nam__key key = key_of(fixture, number, payload);
	bool there = model->there[number];
	int wanted = 0;
	int rc = nam__tree_server_change(fixture->tree, fixture->scratch, kind, key.w, payload);

	if (kind == NAM_OP_INSERT && there)
		wanted = -NAM_E_EXISTS;
	if ((kind == NAM_OP_UPDATE || kind == NAM_OP_DELETE) && !there)
		wanted = -NAM_E_NOTFOUND;
	assert_int_equal(rc, wanted);
	if (rc)
		return;
	model->there[number] = kind != NAM_OP_DELETE;
	model->payload[number] = payload;
}

static void
model_lookup(struct fixture *fixture, const struct model *model, unsigned number)
{
	struct nam__key key = key_of(fixture, number, payload_of(fixture, number, 0));
	uint64_t payload = 0;
	int rc = nam__tree_server_lookup(fixture->tree, fixture->scratch, key.w, &payload);
	unsigned wanted = number;

	/* Of pairs with the same key the first. */
	for (wanted -= fixture->unique ? 0 : number % 4; !fixture->unique; wanted++)
		if (model->there[wanted] || wanted % 4 == 3)
			break;
	assert_int_equal(rc, model->there[wanted] ? 0 : -NAM_E_NOTFOUND);
	if (!rc)
		assert_int_equal(payload, model->payload[wanted]);
}

static void
model_scan(struct fixture *fixture, const struct model *model, struct nam_rng *rng)
{
	unsigned low = (unsigned)nam_rng_below(rng, KEYS);
	unsigned high = low + (unsigned)nam_rng_below(rng, KEYS - low);
	uint32_t max = (uint32_t)nam_rng_below(rng, 100), found, width;
	bool reverse = nam_rng_below(rng, 2);
	struct nam__key from = key_of(fixture, low, payload_of(fixture, low, 0));
	struct nam__key to = key_of(fixture, high, payload_of(fixture, high, 0));
	static uint64_t entries[100 * (NAM__KEY_WORDS_MAX + 1)];
	uint32_t wanted = 0;

	width = fixture->tree->g.leaf_words;
	found = nam__tree_server_scan(fixture->tree, fixture->scratch, from.w, to.w, reverse,
		entries,
		max);
	for (unsigned i = 0; i <= high - low && wanted < max; i++) {
		unsigned number = reverse ? high - i : low + i;
		struct nam__key key;

		if (!model->there[number])
			continue;
		assert_true(wanted < found);
		key = key_of(fixture, number, model->payload[number]);
		assert_memory_equal(entries + (size_t)wanted * width, key.w,
			8 * fixture->tree->g.key_words);
		assert_int_equal(entries[(size_t)wanted * width + width - 1],
			model->payload[number]);
		wanted++;
	}
	assert_int_equal(found, wanted);
}

static void
against_model(uint32_t key_bytes, bool unique)
{
	static const enum nam_op_kind kinds[] = { NAM_OP_INSERT, NAM_OP_INSERT, NAM_OP_UPSERT,
		NAM_OP_DELETE, NAM_OP_UPDATE };
	struct nam_rng rng = nam_rng_seed(key_bytes + unique);
	struct fixture fixture;
	static struct model model;
	uint64_t merges = 0;

	memset(&model, 0, sizeof(model));
	fixture_open(&fixture, key_bytes, unique, 0);
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned number = (unsigned)nam_rng_below(&rng, KEYS);
		unsigned what = (unsigned)nam_rng_below(&rng, 8);

		if (what < 5 && (unique || kinds[what] != NAM_OP_UPDATE))
			model_change(&fixture, &model, kinds[what], number,
				payload_of(&fixture, number, step));
		else if (what < 7)
			model_lookup(&fixture, &model, number);
		else if (step % 64 == 0)
			collect_all(&fixture, &merges);
		else
			model_scan(&fixture, &model, &rng);
	}
	fixture_close(&fixture);
}

static void
random_operations__unique_8_bytes__AS_THE_MODEL(void **state)
{
	(void)state;
	against_model(8, true);
}

static void
random_operations__pairs_of_8_bytes__AS_THE_MODEL(void **state)
{
	(void)state;
	against_model(8, false);
}

static void
random_operations__unique_20_bytes__AS_THE_MODEL(void **state)
{
	(void)state;
	against_model(20, true);
}

static void
random_operations__pairs_of_64_bytes__AS_THE_MODEL(void **state)
{
	(void)state;
	against_model(64, false);
}

static void
insert__ascending__FULL_LEAVES_AND_SEVERAL_LEVELS(void **state)
{
	struct fixture fixture;
	struct figures stat;

	(void)state;
	fixture_open(&fixture, 8, true, 0);
	for (uint64_t number = 0; number < 5000; number++) {
		struct nam__key key = key_of(&fixture, number, 0);

		assert_int_equal(nam__tree_server_change(fixture.tree, fixture.scratch,
			NAM_OP_INSERT,
			key.w, number), 0);
	}
	stat = walk_all(&fixture, false);
	assert_int_equal(stat.entries, 5000);
	assert_true(stat.height >= 3);
	assert_int_equal(stat.leaves + stat.inner_nodes, fixture.blocks.out);
	assert_true(stat.entries >= 8 * stat.leaves * fixture.tree->g.leaf_capacity / 10);
	fixture_close(&fixture);
}

static void
insert__no_memory__REMOTE_FULL_AND_NOTHING_CHANGED(void **state)
{
	struct fixture fixture;
	struct figures stat;
	uint64_t entries = 0;
	unsigned refused = 0;

	(void)state;
	fixture_open(&fixture, 8, true, 40);
	for (uint64_t number = 0; number < 2000; number++) {
		struct nam__key key = key_of(&fixture, number * 7919 % 2000, 0);
		int rc = nam__tree_server_change(fixture.tree, fixture.scratch, NAM_OP_INSERT,
			key.w,
			number);

		assert_true(rc == 0 || rc == -NAM_E_REMOTE_FULL);
		entries += !rc;
		refused += rc != 0;
	}
	assert_true(refused > 1000);
	stat = walk_all(&fixture, false);
	assert_int_equal(stat.entries, entries);
	fixture_close(&fixture);
}

static void
delete__most_of_it_then_collect__FEW_NODES_AND_THE_REST_IS_THERE(void **state)
{
	struct fixture fixture;
	struct figures before, after;
	uint64_t merges = 0, payload;

	(void)state;
	fixture_open(&fixture, 8, true, 0);
	for (uint64_t number = 0; number < 6000; number++) {
		struct nam__key key = key_of(&fixture, number, 0);

		assert_int_equal(nam__tree_server_change(fixture.tree, fixture.scratch,
			NAM_OP_INSERT,
			key.w, number), 0);
	}
	before = walk_all(&fixture, true);
	for (uint64_t number = 0; number < 6000; number++) {
		struct nam__key key = key_of(&fixture, number, 0);

		if (number % 100)
			assert_int_equal(nam__tree_server_change(fixture.tree, fixture.scratch,
				NAM_OP_DELETE, key.w, 0), 0);
	}
	collect_all(&fixture, &merges);
	after = walk_all(&fixture, true);
	assert_int_equal(after.entries, 60);
	assert_int_equal(before.leaves + before.inner_nodes - after.leaves - after.inner_nodes,
		merges);
	assert_true(after.leaves * 4 < before.leaves);
	for (uint64_t number = 0; number < 6000; number++) {
		struct nam__key key = key_of(&fixture, number, 0);

		assert_int_equal(nam__tree_server_lookup(fixture.tree, fixture.scratch, key.w,
			&payload),
			number % 100 ? -NAM_E_NOTFOUND : 0);
	}
	fixture_close(&fixture);
}

/* Levels come from messages. */
static void
collect__level_that_no_tree_has__NOTHING_DONE(void **state)
{
	static const unsigned levels[] = { 3, 64, INT_MAX, UINT_MAX - 1, UINT_MAX };
	struct nam__tree_server_collected collected;
	struct nam__key lowest = { { 0 } };
	struct fixture fixture;

	(void)state;
	fixture_open(&fixture, 8, true, 0);
	for (uint64_t number = 0; number < 4; number++) {
		struct nam__key key = key_of(&fixture, number, 0);

		assert_int_equal(nam__tree_server_change(fixture.tree, fixture.scratch,
			NAM_OP_INSERT,
			key.w, 64 + number), 0);
	}
	for (unsigned i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		nam__tree_server_collect(fixture.tree, fixture.scratch, levels[i], lowest.w, 8,
			&collected);
		assert_int_equal(collected.height, 1);
		assert_int_equal(collected.nodes, 0);
		assert_false(collected.more);
	}
	fixture_close(&fixture);
}

static void
delete_pair__another_payload__NOTFOUND_AND_KEPT(void **state)
{
	struct fixture fixture;
	struct nam__key key;
	uint64_t payload = 0;

	(void)state;
	fixture_open(&fixture, 8, true, 0);
	key = key_of(&fixture, 7, 0);
	assert_int_equal(nam__tree_server_change(fixture.tree, fixture.scratch, NAM_OP_INSERT,
		key.w,
		70), 0);
	assert_int_equal(nam__tree_server_delete_pair(fixture.tree, fixture.scratch, key.w, 71),
		-NAM_E_NOTFOUND);
	assert_int_equal(nam__tree_server_lookup(fixture.tree, fixture.scratch, key.w, &payload),
		0);
	assert_int_equal(payload, 70);
	assert_int_equal(nam__tree_server_delete_pair(fixture.tree, fixture.scratch, key.w, 70), 0);
	assert_int_equal(nam__tree_server_lookup(fixture.tree, fixture.scratch, key.w, &payload),
		-NAM_E_NOTFOUND);
	fixture_close(&fixture);
}

static void
publish__into_an_empty_tree_only__NODES_AS_FULL_AS_ASKED(void **state)
{
	struct fixture fixture, filled;
	struct figures stat;
	uint64_t payload = 0;

	(void)state;
	fixture_open(&fixture, 8, true, 0);
	fixture_open(&filled, 8, true, 0);
	filled.tree->memory = fixture.tree->memory;
	nam__tree_server_fill(filled.tree, 50);
	for (uint64_t number = 0; number < 1000; number++) {
		struct nam__key key = key_of(&fixture, number, 0);

		assert_int_equal(nam__tree_server_change(filled.tree, filled.scratch, NAM_OP_INSERT,
			key.w, number), 0);
	}
	/* The root of the other came from the other's blocks. */
	filled.blocks.out--;
	fixture.blocks.out++;
	assert_int_equal(nam__tree_server_publish(fixture.tree, fixture.scratch, filled.tree, 0),
		0);
	stat = walk_all(&fixture, true);
	assert_int_equal(stat.entries, 1000);
	assert_in_range(stat.leaves * fixture.tree->g.leaf_capacity, 1900, 2300);
	for (uint64_t number = 0; number < 1000; number++) {
		struct nam__key key = key_of(&fixture, number, 0);

		assert_int_equal(nam__tree_server_lookup(fixture.tree, fixture.scratch, key.w,
			&payload),
			0);
		assert_int_equal(payload, number);
	}
	free(filled.scratch);

	fixture_open(&filled, 8, true, 0);
	assert_int_equal(nam__tree_server_publish(fixture.tree, fixture.scratch, filled.tree, 0),
		-NAM_E_NOTEMPTY);
	fixture_close(&filled);
	fixture_close(&fixture);
}

/* ---- threads ------------------------------------------------------------------------------- */

#define THREADS 3u
#define OWN_KEYS 400u
#define ROUNDS 6000u

struct writer {
	struct fixture *fixture;
	unsigned number;
	bool there[OWN_KEYS];
	const char *wrong;
	atomic_bool stop;
};

/* Beside the writers, for as long as they are at it. */
static void *
collect_beside(void *arg)
{
	struct writer *writer = arg;
	struct fixture own = { .tree = writer->fixture->tree };
	uint64_t merges = 0;

	own.scratch = malloc(nam__tree_server_scratch_bytes(own.tree));
	while (!atomic_load(&writer->stop)) {
		collect_all(&own, &merges);
		nam_yield();
	}
	free(own.scratch);
	return NULL;
}

/* Keys of all threads lie side by side in the same leaves; each changes its own. */
static void *
write_own(void *arg)
{
	struct writer *writer = arg;
	struct nam__tree_server_tree *tree = writer->fixture->tree;
	struct nam_rng rng = nam_rng_seed(writer->number);
	uint64_t *scratch = malloc(nam__tree_server_scratch_bytes(tree)), payload;
	uint64_t entries[2 * 64];

	for (unsigned round = 0; round < ROUNDS && !writer->wrong; round++) {
		unsigned own = (unsigned)nam_rng_below(&rng, OWN_KEYS);
		struct nam__key key = { { own * THREADS + writer->number } };
		struct nam__key high = { { key.w[0] + 50 } };
		bool there = writer->there[own];
		uint32_t found;

		if (nam__tree_server_change(tree, scratch, there ? NAM_OP_DELETE : NAM_OP_INSERT,
			key.w,
			    key.w[0]))
			writer->wrong = "a change of one's own key was refused";
		writer->there[own] = !there;
		if (nam__tree_server_lookup(tree, scratch, key.w, &payload) !=
			(there ? -NAM_E_NOTFOUND : 0))
			writer->wrong = "a lookup does not see one's own change";
		found = nam__tree_server_scan(tree, scratch, key.w, high.w, round % 2, entries, 64);
		for (uint32_t i = 0; i < found; i++) {
			if (entries[2 * i] != entries[2 * i + 1])
				writer->wrong = "a scan saw half of an entry";
			if (i && (entries[2 * i] < entries[2 * i - 2]) != (round % 2))
				writer->wrong = "a scan is out of order";
		}
		/* Of one's own keys a scan sees exactly those that are there. */
		for (unsigned other = own, i = 0; other < OWN_KEYS &&
			other * THREADS + writer->number <= high.w[0]; other++) {
			bool seen = false;

			for (i = 0; i < found; i++)
				seen |= entries[2 * i] == other * THREADS + writer->number;
			if (seen != writer->there[other])
				writer->wrong = "a scan missed or invented one's own key";
		}
	}
	free(scratch);
	return NULL;
}

static void
threads__own_keys_in_shared_leaves_and_a_collector__ALL_SEEN(void **state)
{
	static struct writer writers[THREADS];
	static struct writer collecting;
	pthread_t threads[THREADS], collector;
	struct figures stat;
	struct fixture fixture;
	uint64_t entries = 0;

	(void)state;
	fixture_open(&fixture, 8, true, 0);
	for (unsigned i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){ .fixture = &fixture, .number = i };
		assert_int_equal(pthread_create(&threads[i], NULL, write_own, &writers[i]), 0);
	}
	collecting = (struct writer){ .fixture = &fixture };
	assert_int_equal(pthread_create(&collector, NULL, collect_beside, &collecting), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&collecting.stop, true);
	pthread_join(collector, NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		if (writers[i].wrong)
			fail_msg("%s", writers[i].wrong);
		for (unsigned own = 0; own < OWN_KEYS; own++)
			entries += writers[i].there[own];
	}
	stat = walk_all(&fixture, false);
	assert_int_equal(stat.entries, entries);
	fixture_close(&fixture);
}

#ifdef NAM_SIM_POINTS
/* Between a division and the new node's name, another makes the tree higher. */
static struct {
	struct fixture *fixture;
	uint64_t *scratch;
	struct nam_rng rng;
	uint64_t count;
	bool busy;
} meanwhile;

static void
grow_meanwhile(const char *point)
{
	struct fixture *fixture = meanwhile.fixture;

	if (strcmp(point, "server.divided") || meanwhile.busy)
		return;
	meanwhile.busy = true;
	for (uint64_t i = 0; i < meanwhile.count; i++) {
		struct nam__key key = { { nam_rng_next(&meanwhile.rng) } };
		int rc = nam__tree_server_change(fixture->tree, meanwhile.scratch, NAM_OP_INSERT,
			key.w,
			i);

		assert_int_equal(rc, 0);
	}
	meanwhile.busy = false;
}

static void
divide__tree_grows_by_some_levels_meanwhile__EVERY_NODE_IS_NAMED(void **state)
{
	(void)state;
	for (uint64_t seed = 300; seed < 500; seed++) {
		struct fixture fixture;

		fixture_open(&fixture, 8, true, 0);
		meanwhile.fixture = &fixture;
		meanwhile.scratch = malloc(nam__tree_server_scratch_bytes(fixture.tree));
		meanwhile.rng = nam_rng_seed(seed);
		meanwhile.count = seed;
		assert_non_null(meanwhile.scratch);
		nam_race_hook = grow_meanwhile;
		for (unsigned i = 0; i < 20; i++) {
			struct nam__key key = { { nam_rng_next(&meanwhile.rng) } };
			int rc = nam__tree_server_change(fixture.tree, fixture.scratch,
				NAM_OP_INSERT,
				key.w, i);

			assert_int_equal(rc, 0);
		}
		nam_race_hook = NULL;
		free(meanwhile.scratch);
		fixture_close(&fixture);
	}
}
#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations__unique_8_bytes__AS_THE_MODEL),
		cmocka_unit_test(random_operations__pairs_of_8_bytes__AS_THE_MODEL),
		cmocka_unit_test(random_operations__unique_20_bytes__AS_THE_MODEL),
		cmocka_unit_test(random_operations__pairs_of_64_bytes__AS_THE_MODEL),
		cmocka_unit_test(insert__ascending__FULL_LEAVES_AND_SEVERAL_LEVELS),
		cmocka_unit_test(insert__no_memory__REMOTE_FULL_AND_NOTHING_CHANGED),
		cmocka_unit_test(delete__most_of_it_then_collect__FEW_NODES_AND_THE_REST_IS_THERE),
		cmocka_unit_test(collect__level_that_no_tree_has__NOTHING_DONE),
		cmocka_unit_test(delete_pair__another_payload__NOTFOUND_AND_KEPT),
		cmocka_unit_test(publish__into_an_empty_tree_only__NODES_AS_FULL_AS_ASKED),
#ifdef NAM_SIM_POINTS
		cmocka_unit_test(divide__tree_grows_by_some_levels_meanwhile__EVERY_NODE_IS_NAMED),
#endif
		cmocka_unit_test(threads__own_keys_in_shared_leaves_and_a_collector__ALL_SEEN),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
