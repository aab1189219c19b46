/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "index/maintain/maintain.h"
#include "index/node/redo.h"
#include "tests/lib/tree_model.h"

/* ---- the tree ------------------------------------------------------------------------------ */

static int
start(void **state)
{
	static struct tree tree;

	tree_start(&tree, 2, 64u << 20);
	*state = &tree;
	return 0;
}

static int
stop(void **state)
{
	tree_stop(*state);
	return 0;
}

static bool
stop_at(void *arg)
{
	return --*(unsigned *)arg == 0;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void
collect__empty_index__DOES_NOTHING(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct nam_collect_stat stat;

	tree_plant(*state, &options);
	stat = tree_collect(*state);
	assert_int_equal(stat.merges, 0);
	assert_int_equal(stat.nodes_retired, 0);
	tree_assert_sound(*state);
}

static void
collect__full_leaves__MERGES_NOTHING_TWICE(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree_model model = { 0 };

	tree_plant(*state, &options);
	tree_model_fill(*state, &model, 1);
	(void)tree_collect(*state);
	tree_assert_sound(*state);
	/* A pass leaves nothing for the next one to do. */
	assert_int_equal(tree_collect(*state).merges, 0);
	assert_int_equal(tree_collect(*state).heads_written, 0);
	tree_model_check(*state, &model);
}

/* With head nodes and without: what there is to see is seen once. */
static void
collect__nothing_to_do__VISITS_EACH_NODE_ONCE(void **state)
{
	for (unsigned heads = 0; heads < 2; heads++) {
		struct nam_index_options options = tree_options_small();
		struct tree_model model = { 0 };
		struct nam_index_stat is;

		if (!heads)
			options.head_interval = 0;
		tree_plant(*state, &options);
		assert_int_equal(tree_collect(*state).nodes_visited, 1);
		tree_model_fill(*state, &model, 4);
		(void)tree_collect(*state);
		is = tree_stat(*state);
		assert_int_equal(is.head_nodes > 0, heads);
		assert_int_equal(tree_collect(*state).nodes_visited,
			is.leaves + is.inner_nodes + is.head_nodes);
	}
}

static void
collect__sparse_leaves__MERGES_ON_EVERY_LEVEL(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct nam_index_stat before, after;
	struct nam_collect_stat stat;
	struct tree_model model = { 0 };

	tree_plant(*state, &options);
	tree_model_fill(*state, &model, 2);
	for (uint64_t number = 0; number < TREE_MODEL_KEYS; number++)
		if (number % 10)
			tree_model_delete(*state, &model, number);
	before = tree_stat(*state);
	stat = tree_collect(*state);
	after = tree_stat(*state);
	tree_assert_sound(*state);
	tree_model_check(*state, &model);
	assert_true(after.leaves < before.leaves / 3);
	assert_true(after.inner_nodes < before.inner_nodes / 2);
	assert_int_equal(stat.merges,
		before.leaves + before.inner_nodes - after.leaves - after.inner_nodes);
	assert_int_equal(after.entries, before.entries);
	assert_true(after.leaf_fill > 0.3);
}

/* In parents, leaves and head nodes; what was merged before stays so. */
static void
collect__told_to_stop__ENDS_SOON_AND_HOLDS_NOTHING(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree *tree = *state;
	struct nam_collect_stat stat;
	struct tree_model model = { 0 };
	uint64_t merges = 0;
	unsigned left, stops = 0;
	int rc;

	tree_plant(tree, &options);
	tree_model_fill(tree, &model, 5);
	for (uint64_t number = 0; number < TREE_MODEL_KEYS; number++)
		if (number % 4)
			tree_model_delete(tree, &model, number);
	do {
		left = 1 + 37 * stops++;
		nam_worker_stop_when(tree->worker, stop_at, &left);
		rc = nam_index_collect(tree->worker, tree->index, &stat);
		nam_worker_stop_when(tree->worker, NULL, NULL);
		assert_true(rc == 0 || rc == -ECANCELED);
		assert_true(rc == 0 || stat.nodes_visited <= 37 * stops);
		merges += stat.merges;
		tree_assert_sound(tree);
	} while (rc);
	assert_true(stops > 3 && merges > 0);
	assert_int_equal(tree_collect(tree).merges, 0);
	tree_model_check(tree, &model);
}

static void
collect__everything_deleted__LEAVES_ONE_LEAF(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree_model model = { 0 };

	tree_plant(*state, &options);
	tree_model_fill(*state, &model, 3);
	for (uint64_t number = 0; number < TREE_MODEL_KEYS; number++)
		tree_model_delete(*state, &model, number);
	/* Nodes meet once their parents have: a pass or two for each level. */
	for (unsigned pass = 0; pass < 10 && tree_collect(*state).merges; pass++)
		tree_assert_sound(*state);
	assert_int_equal(tree_stat(*state).leaves, 1);
	assert_int_equal(tree_stat(*state).head_nodes, 0);
	tree_model_check(*state, &model);
	tree_model_fill(*state, &model, 4);
	tree_assert_sound(*state);
	tree_model_check(*state, &model);
}

static void
collect__any_shape_of_keys__KEEPS_EVERY_PAIR(void **state)
{
	static const uint32_t sizes[] = { 8, 12, 40 };
	uint64_t pairs = test_scaled_least(3000, 600);
	struct tree *tree = *state;

	for (unsigned i = 0; i < 6; i++) {
		struct nam_index_options options = tree_options_small();
		uint8_t key[NAM_KEY_BYTES_MAX] = { 0 };
		uint64_t entries;

		options.key_bytes = sizes[i / 2];
		options.unique = i % 2;
		options.node_bytes = 512;
		tree_plant(tree, &options);
		for (uint64_t n = 0; n < pairs; n++) {
			nam_key_from_u64(n / (options.unique ? 1 : 5), key);
			assert_int_equal(nam_index_insert(tree->worker, tree->index, key, n), 0);
		}
		for (uint64_t n = 0; n < pairs; n++) {
			nam_key_from_u64(n / (options.unique ? 1 : 5), key);
			if (n % 7)
				assert_int_equal(nam_index_delete_pair(tree->worker, tree->index,
							 key, n), 0);
		}
		entries = tree_stat(tree).entries;
		assert_true(tree_collect(tree).merges > 10);
		tree_assert_sound(tree);
		assert_int_equal(tree_stat(tree).entries, entries);
		for (uint64_t n = 0; n < pairs; n += 7) {
			nam_key_from_u64(n / (options.unique ? 1 : 5), key);
			assert_int_equal(nam_index_delete_pair(tree->worker, tree->index, key, n),
				0);
		}
	}
}

/* Random operations against the model, with a pass now and then, over many seeds. */
static void
collect__between_random_operations__AGREES_WITH_THE_MODEL(void **state)
{
	uint64_t steps = test_scaled_least(20000, 3000);

	for (uint64_t seed = 1; seed <= test_scaled_least(12, 2); seed++) {
		struct nam_index_options options = tree_options_small();
		struct nam_rng rng = nam_rng_seed(seed);
		struct tree_model model = { 0 };

		options.head_interval = (uint32_t)nam_rng_below(&rng, 6);
		tree_plant(*state, &options);
		for (uint64_t step = 0; step < steps; step++) {
			uint64_t number = nam_rng_below(&rng, TREE_MODEL_KEYS / (1 + seed % 3));
			uint64_t dice = nam_rng_below(&rng, 1000);
			/* Tides: mostly inserts, then mostly deletes. */
			uint64_t inserts = step / (steps / 5) % 2 ? 250 : 650;

			if (dice < inserts)
				tree_model_insert(*state, &model, number, step + 1);
			else if (dice < 900)
				tree_model_delete(*state, &model, number);
			else if (dice < 998)
				tree_model_lookup(*state, &model, number);
			else
				(void)tree_collect(*state);
		}
		tree_assert_sound(*state);
		(void)tree_collect(*state);
		tree_assert_sound(*state);
		tree_model_check(*state, &model);
	}
}

/* ---- beside others ------------------------------------------------------------------------- */

#define WRITERS 2u
#define WRITER_KEYS test_scaled_least(2000, 200)
/* Between the writers' keys lie those that stay: every scan must deliver each of them once. */
#define PARTIES (WRITERS + 1)

struct writer {
	struct tree *tree;
	struct nam_thread *thread;
	unsigned number;
	atomic_bool *stop;
	_Atomic uint64_t operations;
	char failure[300];
};

/* Each writer has keys of its own, so it knows what must be there. */
static void
writer_main(void *arg)
{
	struct writer *writer = arg;
	struct nam_rng rng = nam_rng_seed(100 + writer->number);
	uint64_t keys = WRITER_KEYS, load_wave = test_scaled_least(3000, 300);
	bool *there = calloc(keys, sizeof(bool));
	struct tree_guest guest;

	tree_guest_come(local_cluster_list(writer->tree->cluster), &guest);
	while (!atomic_load(writer->stop) && !writer->failure[0]) {
		bool ebb = writer->operations / load_wave % 2;
		uint64_t number = nam_rng_below(&rng, keys), payload = 0;
		uint64_t dice = nam_rng_below(&rng, 10);
		int rc, expected;
		uint8_t key[8];

		nam_key_from_u64(number * PARTIES + writer->number, key);
		if (dice < (ebb ? 2 : 6)) {
			rc = nam_index_insert(guest.worker, guest.index, key, number);
			expected = there[number] ? -NAM_E_EXISTS : 0;
			there[number] = true;
		} else if (dice < 8) {
			rc = nam_index_delete(guest.worker, guest.index, key);
			expected = there[number] ? 0 : -NAM_E_NOTFOUND;
			there[number] = false;
		} else {
			rc = nam_index_lookup(guest.worker, guest.index, key, &payload);
			expected = there[number] ? 0 : -NAM_E_NOTFOUND;
			if (!rc && payload != number)
				rc = -NAM_E_REMOTE_CORRUPT;
		}
		writer->operations++;
		if (rc != expected)
			snprintf(writer->failure, sizeof(writer->failure),
				"operation %llu, kind %llu, key %llu: %s instead of %s; %s",
				(unsigned long long)writer->operations, (unsigned long long)dice,
				(unsigned long long)number, nam_err_name(rc),
				nam_err_name(expected), nam_worker_diag(guest.worker));
	}
	tree_guest_go(&guest);
	free(there);
}

static void
scan_once(struct writer *writer, struct tree_guest *guest, bool reverse)
{
	uint64_t keys[64], payloads[64], expected = reverse ? WRITER_KEYS - 1 : 0, seen = 0;
	struct nam_range range = { .reverse = reverse };
	struct nam_cursor *cursor;
	uint32_t count;
	int rc;

	assert_int_equal(nam_cursor_open(guest->worker, guest->index, &range, &cursor), 0);
	do {
		rc = nam_cursor_next(cursor, keys, payloads, 64, &count);
		for (uint32_t i = 0; !rc && i < count; i++) {
			uint64_t key = nam_key_to_u64(&keys[i]);

			if (key % PARTIES != WRITERS)
				continue;
			if (key / PARTIES != expected || payloads[i] != key)
				rc = -NAM_E_NOTFOUND;
			expected += reverse ? -1ull : 1;
			seen++;
		}
	} while (!rc && count);
	if (!rc && seen != WRITER_KEYS)
		rc = -NAM_E_NOTFOUND;
	if (rc)
		snprintf(writer->failure, sizeof(writer->failure),
			"%s scan %llu: %s after %llu keys that stay",
			reverse ? "reverse" : "forward",
			(unsigned long long)writer->operations, nam_err_name(rc),
			(unsigned long long)seen);
	nam_cursor_close(cursor);
	writer->operations++;
}

static void
scanner_main(void *arg)
{
	struct writer *writer = arg;
	struct tree_guest guest;

	tree_guest_come(local_cluster_list(writer->tree->cluster), &guest);
	while (!atomic_load(writer->stop) && !writer->failure[0])
		scan_once(writer, &guest, writer->operations % 2);
	tree_guest_go(&guest);
}

#define BESIDE_NS 3000000000ull
#define MERGES test_scaled_least(20, 2)

static bool
all_did_something(const struct writer *writers)
{
	bool all = true;

	for (unsigned i = 0; i < PARTIES; i++)
		all &= writers[i].operations > (i < WRITERS ? 1000 : 10);
	return all;
}

static void
collect__beside_writers_and_a_scanner__LOSES_NOTHING(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct writer writers[PARTIES];
	struct tree *tree = *state;
	atomic_bool done = false;
	uint64_t merges = 0, reusable = 0, heads = 0, passes = 0, start_ns;

	options.head_interval = 4;
	tree_plant(tree, &options);
	for (uint64_t number = 0; number < WRITER_KEYS; number++) {
		uint64_t value = number * PARTIES + WRITERS;
		uint8_t key[8];

		nam_key_from_u64(value, key);
		assert_int_equal(nam_index_insert(tree->worker, tree->index, key, value), 0);
	}
	for (unsigned i = 0; i < PARTIES; i++) {
		writers[i] = (struct writer){ .tree = tree, .number = i, .stop = &done };
		assert_int_equal(nam_thread_start("party", i < WRITERS ? writer_main : scanner_main,
					 &writers[i], &writers[i].thread), 0);
	}
	start_ns = nam_now_ns();
	while (nam_now_ns() < start_ns + BESIDE_NS ||
		(nam_now_ns() < start_ns + test_bound_ns(BESIDE_NS) &&
			(merges <= MERGES || !all_did_something(writers)))) {
		struct nam_collect_stat stat = tree_collect(tree);

		merges += stat.merges;
		reusable += stat.nodes_reusable;
		heads += stat.heads_written;
		passes++;
		nam_sleep_ns(1000000);
	}
	atomic_store(&done, true);
	for (unsigned i = 0; i < PARTIES; i++)
		nam_thread_join(writers[i].thread);
	for (unsigned i = 0; i < PARTIES; i++) {
		if (writers[i].failure[0])
			fail_msg("%s; afterwards %s", writers[i].failure,
				tree_verify(tree).first);
	}
	assert_true(all_did_something(writers));
	print_message("%llu passes, %llu merges, %llu heads written, %llu nodes reusable, "
		"%llu operations, %llu scans\n",
		(unsigned long long)passes, (unsigned long long)merges, (unsigned long long)heads,
		(unsigned long long)reusable,
		(unsigned long long)(writers[0].operations + writers[1].operations),
		(unsigned long long)writers[WRITERS].operations);
	assert_true(merges > MERGES);
	/* Late separators are found and added by a pass. */
	(void)tree_collect(tree);
	tree_assert_sound(tree);
}

/* ---- beside fibers of the same worker ------------------------------------------------------ */

/*
 * Fibers change places at every wait for the fabric.  So writers get between any two steps of a
 * merge, and into the same few nodes: much denser than threads.
 */
#define FIBERS 8u
#define FIBER_KEYS 30u
#define FIBER_STEPS test_scaled_least(4000, 250)

struct crowd {
	struct tree *tree;
	unsigned working;
	uint64_t merges;
	char failure[300];
};

struct fiber {
	struct crowd *crowd;
	struct nam_rng rng;
	unsigned number;
	uint64_t payload[FIBER_KEYS];	/* 0: no such key */
};

static void
fiber_step(struct fiber *fiber, uint64_t step, uint64_t inserts)
{
	struct tree *tree = fiber->crowd->tree;
	uint64_t number = nam_rng_below(&fiber->rng, FIBER_KEYS), payload = 0;
	uint64_t dice = nam_rng_below(&fiber->rng, 10), *mine = &fiber->payload[number];
	int rc, expected;
	uint8_t key[8];

	nam_key_from_u64(number * FIBERS + fiber->number, key);
	if (dice < inserts) {
		rc = nam_index_insert(tree->worker, tree->index, key, step);
		expected = *mine ? -NAM_E_EXISTS : 0;
		*mine = *mine ? *mine : step;
	} else if (dice < 8) {
		rc = nam_index_delete(tree->worker, tree->index, key);
		expected = *mine ? 0 : -NAM_E_NOTFOUND;
		*mine = 0;
	} else {
		rc = nam_index_lookup(tree->worker, tree->index, key, &payload);
		expected = *mine ? 0 : -NAM_E_NOTFOUND;
		if (!rc && payload != *mine)
			rc = -NAM_E_REMOTE_CORRUPT;
	}
	if (rc != expected && !fiber->crowd->failure[0])
		snprintf(fiber->crowd->failure, sizeof(fiber->crowd->failure),
			"fiber %u, step %llu, kind %llu, key %llu: %s instead of %s", fiber->number,
			(unsigned long long)step, (unsigned long long)dice,
			(unsigned long long)number, nam_err_name(rc), nam_err_name(expected));
}

static void
fiber_main(void *arg)
{
	struct fiber *fiber = arg;

	for (uint64_t step = 1; step <= FIBER_STEPS && !fiber->crowd->failure[0]; step++)
		fiber_step(fiber, step, step / 200 % 2 ? 2 : 6);
	fiber->crowd->working--;
}

static void
fiber_collect(void *arg)
{
	struct crowd *crowd = arg;

	while (crowd->working && !crowd->failure[0]) {
		struct nam_collect_stat stat = { 0 };
		int rc = nam_index_collect(crowd->tree->worker, crowd->tree->index, &stat);

		crowd->merges += stat.merges;
		if (rc && !crowd->failure[0])
			snprintf(crowd->failure, sizeof(crowd->failure), "collect: %s",
				nam_err_name(rc));
	}
}

static void
collect__beside_fibers__LOSES_NOTHING(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree *tree = *state;
	uint64_t merges = 0, seeds = test_scaled_least(30, 2);

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct crowd crowd = { .tree = tree, .working = FIBERS };
		struct fiber fibers[FIBERS];

		options.head_interval = (uint32_t)(seed % 9);
		tree_plant(tree, &options);
		for (unsigned i = 0; i < FIBERS; i++) {
			fibers[i] = (struct fiber){ .crowd = &crowd, .number = i,
				.rng = nam_rng_seed(seed * FIBERS + i) };
			assert_int_equal(nam_worker_spawn(tree->worker, fiber_main, &fibers[i]), 0);
		}
		assert_int_equal(nam_worker_spawn(tree->worker, fiber_collect, &crowd), 0);
		nam_worker_run(tree->worker);
		if (crowd.failure[0])
			fail_msg("seed %llu: %s", (unsigned long long)seed, crowd.failure);
		merges += crowd.merges;
		(void)tree_collect(tree);
		tree_assert_sound(tree);
		for (unsigned i = 0; i < FIBERS; i++)
			for (uint64_t n = 0; n < 10; n++)
				fiber_step(&fibers[i], 1, 0);
		assert_string_equal(crowd.failure, "");
	}
	print_message("%llu merges\n", (unsigned long long)merges);
	assert_true(merges > 100 * seeds / 30 * FIBER_STEPS / 4000);
}

/* ---- memory -------------------------------------------------------------------------------- */

static void
collect__retired_nodes__COME_BACK_WITH_A_NEW_GENERATION(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct nam_collect_stat stat;
	struct tree *tree = *state;
	struct tree_model model = { 0 };
	uint64_t reusable = 0, retired = 0, image[32];
	bool reused = false;

	tree_plant(tree, &options);
	for (unsigned round = 0; round < 6; round++) {
		tree_model_fill(tree, &model, round);
		for (uint64_t number = 0; number < TREE_MODEL_KEYS; number++)
			tree_model_delete(tree, &model, number);
		/* The clocks of this process need a moment. */
		for (unsigned i = 0; i < 100 && (i < 3 || reusable < retired); i++) {
			stat = tree_collect(tree);
			retired += stat.nodes_retired;
			reusable += stat.nodes_reusable;
			nam_sleep_ns(1000000);
		}
	}
	assert_true(retired > TREE_MODEL_KEYS / 6);
	assert_true(reusable > retired / 2);
	tree_model_fill(tree, &model, 9);
	for (uint64_t number = 0; number < TREE_MODEL_KEYS; number += 100) {
		(void)tree_node(tree, number * 3 + 1, 0, image);
		reused |= nam__node_generation(image) > 1;
	}
	assert_true(reused);
	tree_assert_sound(tree);
}

/* ---- locks --------------------------------------------------------------------------------- */

#define COLLECTOR_WORD (offsetof(struct nam_superblock, collector) / 8)

static uint64_t
collector_word(struct tree *tree)
{
	struct nam_superblock *block = nam_buffer_take(tree->worker, sizeof(*block));
	uint64_t word;

	assert_int_equal(nam_read_await(tree->worker, tree->index->superblock, block,
				 sizeof(*block)), 0);
	word = block->collector;
	nam_buffer_give(tree->worker, block, sizeof(*block));
	return word;
}

static void
collect__another_collector_lives__LOCK_TIMEOUT(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct nam_collect_stat stat = { .merges = 77 };
	struct tree *tree = *state;
	uint64_t word;

	tree_plant(tree, &options);
	word = nam_lock_word(tree->client->id, tree->client->incarnation, 5);
	tree_write(tree, tree->index->superblock, COLLECTOR_WORD, &word, 1);
	assert_int_equal(nam_index_collect(tree->worker, tree->index, &stat), -NAM_E_LOCK_TIMEOUT);
	assert_int_equal(stat.merges, 77);
	assert_int_equal(collector_word(tree), word);
	word = 0;
	tree_write(tree, tree->index->superblock, COLLECTOR_WORD, &word, 1);
	(void)tree_collect(tree);
	assert_int_equal(collector_word(tree), 0);
}

static void
collect__another_collector_died__SUCCEEDS_IT(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree *tree = *state;
	struct tree_guest guest;
	uint64_t word;

	tree_plant(tree, &options);
	tree_guest_come(local_cluster_list(tree->cluster), &guest);
	word = nam_lock_word(guest.client->id, guest.client->incarnation, 5);
	tree_guest_go(&guest);
	tree_write(tree, tree->index->superblock, COLLECTOR_WORD, &word, 1);
	tree_await_dead(tree, word);
	(void)tree_collect(tree);
	assert_int_equal(collector_word(tree), 0);
}

/* Nodes that are locked are left alone, and everything else is done. */
static void
collect__locked_nodes__ARE_SKIPPED(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree *tree = *state;
	struct tree_model model = { 0 };
	struct nam_gaddr at;
	uint64_t image[32], word;

	tree_plant(tree, &options);
	tree_model_fill(tree, &model, 8);
	for (uint64_t number = 0; number < TREE_MODEL_KEYS; number++)
		if (number % 10)
			tree_model_delete(tree, &model, number);
	at = tree_node(tree, 3 * (TREE_MODEL_KEYS / 2), 0, image);
	word = nam_lock_word(tree->client->id, tree->client->incarnation, 5);
	tree_write(tree, at, NAM__WORD_LOCK, &word, 1);
	assert_true(tree_collect(tree).merges > TREE_MODEL_KEYS / 60);
	assert_int_equal(tree_verify(tree).of[9], 1);
	word = 0;
	tree_write(tree, at, NAM__WORD_LOCK, &word, 1);
	tree_assert_sound(tree);
	tree_model_check(tree, &model);
}

static void
collect__torn_node_of_a_dead_client__ORPHANED_AFTER_THE_REST_IS_DONE(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree *tree = *state;
	struct nam_collect_stat stat;
	struct tree_model model = { 0 };
	struct tree_guest guest;
	struct nam_gaddr at;
	uint64_t image[32], word, hash, leaves, none = 0;

	tree_plant(tree, &options);
	tree_model_fill(tree, &model, 8);
	for (uint64_t number = 0; number < TREE_MODEL_KEYS; number++)
		if (number % 10)
			tree_model_delete(tree, &model, number);
	tree_guest_come(local_cluster_list(tree->cluster), &guest);
	word = nam_lock_word(guest.client->id, guest.client->incarnation, 5);
	tree_guest_go(&guest);
	tree_await_dead(tree, word);
	at = tree_node(tree, 3 * (TREE_MODEL_KEYS / 2), 0, image);
	leaves = tree_stat(tree).leaves;
	tree_write(tree, at, NAM__WORD_LOCK, &word, 1);
	hash = image[NAM__WORD_HASH] + 1;
	tree_write(tree, at, NAM__WORD_HASH, &hash, 1);
	/* That of its last change would complete it. */
	tree_write(tree, at, tree->index->g.node_words + NAM__REDO_NOTE, &none, 1);
	assert_int_equal(nam_index_collect(tree->worker, tree->index, &stat),
		-NAM_E_LOCK_ORPHANED);
	assert_non_null(strstr(nam_worker_diag(tree->worker), "died"));
	assert_int_equal(collector_word(tree), 0);
	word = 0;
	tree_write(tree, at, NAM__WORD_LOCK, &word, 1);
	tree_write(tree, at, NAM__WORD_HASH, &image[NAM__WORD_HASH], 1);
	assert_true(tree_stat(tree).leaves < leaves / 2);
	tree_assert_sound(tree);
	tree_model_check(tree, &model);
}

/* A splitter died before it named the new node: the pass does it. */
static void
collect__missing_separator__IS_ADDED(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree *tree = *state;
	struct tree_model model = { 0 };
	struct nam__dirty dirty;
	uint64_t image[32];
	struct nam_gaddr at;

	tree_plant(tree, &options);
	tree_model_fill(tree, &model, 11);
	(void)tree_collect(tree);
	at = tree_node(tree, 3 * (TREE_MODEL_KEYS / 2), 1, image);
	assert_true(nam__node_count(image) > 2);
	nam__inner_remove(&tree->index->g, image, 2, &dirty);
	nam__inner_remove(&tree->index->g, image, 1, &dirty);
	nam__node_seal(&tree->index->g, image, at);
	tree_write(tree, at, NAM__WORD_HASH, image + NAM__WORD_HASH, 31);
	assert_int_equal(tree_verify(tree).of[7], 2);
	(void)tree_collect(tree);
	tree_assert_sound(tree);
	tree_model_check(tree, &model);
}

/* ---- drop ---------------------------------------------------------------------------------- */

static void
drop__again_and_again__MEMORY_DOES_NOT_GROW(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree *tree = *state;
	uint64_t carved = 0;

	for (unsigned round = 0; round < test_scaled_least(12, 6); round++) {
		struct tree_model model = { 0 };
		uint64_t reusable;

		tree_plant(tree, &options);
		tree_model_fill(tree, &model, round);
		(void)tree_collect(tree);
		for (unsigned i = 0; i < 50; i++) {
			assert_int_equal(nam__limbo_advance(tree->worker, &reusable), 0);
			nam_sleep_ns(1000000);
		}
		if (round == 3)
			carved = tree_memory_carved(tree);
	}
	assert_true(tree_memory_carved(tree) <= carved + (1u << 20));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collect__empty_index__DOES_NOTHING),
		cmocka_unit_test(collect__full_leaves__MERGES_NOTHING_TWICE),
		cmocka_unit_test(collect__nothing_to_do__VISITS_EACH_NODE_ONCE),
		cmocka_unit_test(collect__sparse_leaves__MERGES_ON_EVERY_LEVEL),
		cmocka_unit_test(collect__told_to_stop__ENDS_SOON_AND_HOLDS_NOTHING),
		cmocka_unit_test(collect__everything_deleted__LEAVES_ONE_LEAF),
		cmocka_unit_test(collect__any_shape_of_keys__KEEPS_EVERY_PAIR),
		cmocka_unit_test(collect__between_random_operations__AGREES_WITH_THE_MODEL),
		cmocka_unit_test(collect__beside_writers_and_a_scanner__LOSES_NOTHING),
		cmocka_unit_test(collect__beside_fibers__LOSES_NOTHING),
		cmocka_unit_test(collect__retired_nodes__COME_BACK_WITH_A_NEW_GENERATION),
		cmocka_unit_test(collect__another_collector_lives__LOCK_TIMEOUT),
		cmocka_unit_test(collect__another_collector_died__SUCCEEDS_IT),
		cmocka_unit_test(collect__locked_nodes__ARE_SKIPPED),
		cmocka_unit_test(
			collect__torn_node_of_a_dead_client__ORPHANED_AFTER_THE_REST_IS_DONE),
		cmocka_unit_test(collect__missing_separator__IS_ADDED),
		cmocka_unit_test(drop__again_and_again__MEMORY_DOES_NOT_GROW),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
