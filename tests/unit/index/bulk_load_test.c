/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/design.h"
#include "tests/lib/tree.h"

/* ---- sources ------------------------------------------------------------------------------- */

/* Keys step, 2 * step, ...; the payload is the key.  With `copies`, each key so many times. */
struct source {
	uint64_t next, end, step;
	uint32_t copies, copy;
	uint32_t key_bytes;
	uint64_t fail_at;		/* other than 0: fail there with -EIO */
	uint64_t swap_at;		/* other than 0: this pair and the next change places */
	uint64_t below;			/* so much below: `step` begins with key 0 */
};

static int
source_next(void *arg, void *key, uint64_t *payload)
{
	struct source *source = arg;
	uint64_t value = source->next;
	uint8_t *bytes = key;

	if (value == source->end)
		return NAM_INDEX_END;
	if (source->fail_at == value + 1)
		return -5;
	if (source->swap_at == value + 1)
		value++;
	else if (source->swap_at && source->swap_at == value)
		value--;
	memset(bytes, 0, source->key_bytes);
	nam_key_from_u64((value + 1) * source->step - source->below, bytes + source->key_bytes - 8);
	*payload = source->copies > 1 ? source->copy : (value + 1) * source->step;
	if (++source->copy >= source->copies) {
		source->copy = 0;
		source->next++;
	}
	return NAM_INDEX_PAIR;
}

static struct source
ascending(uint64_t count)
{
	return (struct source){ .end = count, .step = 10, .copies = 1, .key_bytes = 8 };
}

static struct nam_index_options
options_default(void)
{
	struct nam_index_options options;

	nam_index_options_init(&options);
	return options;
}

static int
load(struct tree *tree, struct source *source, uint32_t fill, uint64_t *count)
{
	return nam_index_bulk_load(tree->worker, tree->index, source_next, source, fill, count);
}

/* ---- reading back -------------------------------------------------------------------------- */

/* A scan over everything gives what the source gave. */
static void
assert_scan(struct tree *tree, struct source expected)
{
	uint32_t key_bytes = tree->index->g.key_bytes, count;
	uint8_t *keys = malloc(512ul * key_bytes), key[NAM_KEY_BYTES_MAX];
	uint64_t payloads[512], payload = 0;
	struct nam_range range = { 0 };
	struct nam_cursor *cursor;

	assert_int_equal(nam_cursor_open(tree->worker, tree->index, &range, &cursor), 0);
	do {
		assert_int_equal(nam_cursor_next(cursor, keys, payloads, 512, &count), 0);
		for (uint32_t i = 0; i < count; i++) {
			assert_int_equal(source_next(&expected, key, &payload), 1);
			assert_memory_equal(keys + i * key_bytes, key, key_bytes);
			assert_int_equal(payloads[i], payload);
		}
	} while (count);
	assert_int_equal(source_next(&expected, key, &payload), 0);
	nam_cursor_close(cursor);
	free(keys);
}

/* ---- tests --------------------------------------------------------------------------------- */

static int
start(void **state)
{
	static struct tree tree;

	tree_start(&tree, 2, 96u << 20);
	*state = &tree;
	return 0;
}

static int
stop(void **state)
{
	tree_stop(*state);
	return 0;
}

static void
bulk_load__empty_input__LEAVES_AN_EMPTY_INDEX(void **state)
{
	struct nam_index_options options = options_default();
	struct source source = ascending(0);
	struct nam_index_stat stat;
	uint64_t count = 99;

	tree_plant(*state, &options);
	assert_int_equal(load(*state, &source, 0, &count), 0);
	assert_int_equal(count, 0);
	tree_assert_sound(*state);
	assert_int_equal(nam_index_stat(((struct tree *)*state)->worker,
				 ((struct tree *)*state)->index, &stat), 0);
	assert_int_equal(stat.entries, 0);
	assert_int_equal(stat.leaves, 1);
	/* And it can still be loaded. */
	source = ascending(100);
	assert_int_equal(load(*state, &source, 0, &count), 0);
	assert_int_equal(count, 100);
}

/* Sizes around every edge: one leaf, two, one inner node, two, three levels. */
static void
bulk_load__any_size__IS_SOUND_AND_COMPLETE(void **state)
{
	static const uint64_t sizes[] = { 1, 2, 3, 9, 10, 11, 50, 99, 100, 101, 102, 111, 999,
		1000, 1001, 1331, 5000, 20000 };
	struct nam_index_options options = options_default();
	struct tree *tree = *state;

	options.node_bytes = 256;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (uint32_t interval = 0; interval < 9; interval += 4) {
			struct source source = ascending(sizes[i]);
			uint64_t count = 0;

			if (sizes[i] > test_scaled_least(20000, 1331))
				continue;
			options.head_interval = interval;
			tree_plant(tree, &options);
			assert_int_equal(load(tree, &source, 100, &count), 0);
			assert_int_equal(count, sizes[i]);
			tree_assert_sound(tree);
			assert_scan(tree, ascending(sizes[i]));
		}
	}
}

/* Nothing lies to the left of it. */
static void
bulk_load__lowest_key_of_all__IS_SOUND_AND_COMPLETE(void **state)
{
	static const uint64_t sizes[] = { 1, 2, 3, 2000 };
	struct tree *tree = *state;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (uint32_t copies = 1; copies <= 7; copies += 6) {
			struct nam_index_options options = options_default();
			struct source source = ascending(sizes[i]), again;
			uint64_t count;

			source.below = source.step;
			source.copies = copies;
			again = source;
			options.node_bytes = 256;
			options.unique = copies == 1;
			tree_plant(tree, &options);
			assert_int_equal(load(tree, &source, 100, &count), 0);
			assert_int_equal(count, sizes[i] * copies);
			tree_assert_sound(tree);
			assert_scan(tree, again);
			assert_int_equal(nam_index_insert(tree->worker, tree->index,
						 "\0\0\0\0\0\0\0\1", 7), 0);
			tree_assert_sound(tree);
		}
	}
}

static void
bulk_load__any_key_size_and_uniqueness__IS_SOUND_AND_COMPLETE(void **state)
{
	static const uint32_t sizes[] = { 8, 9, 15, 16, 31, 64 };
	struct nam_index_options options = options_default();
	struct tree *tree = *state;

	for (unsigned i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct source source = ascending(test_scaled_least(3000, 600)), again;
		uint64_t keys = source.end, count;

		options.key_bytes = sizes[i / 2];
		options.unique = i % 2;
		source.key_bytes = options.key_bytes;
		source.copies = options.unique ? 1 : 7;
		again = source;
		tree_plant(tree, &options);
		assert_int_equal(load(tree, &source, 0, &count), 0);
		assert_int_equal(count, keys * source.copies);
		tree_assert_sound(tree);
		assert_scan(tree, again);
	}
}

static void
bulk_load__fill_percent__DECIDES_HOW_FULL_LEAVES_ARE(void **state)
{
	struct nam_index_options options = options_default();
	struct tree *tree = *state;
	struct nam_index_stat stat;

	for (uint32_t fill = 50; fill <= 100; fill += 10) {
		uint64_t keys = test_scaled_least(50000, 10000);
		struct source source = ascending(keys);

		tree_plant(tree, &options);
		assert_int_equal(load(tree, &source, fill, NULL), 0);
		assert_int_equal(nam_index_stat(tree->worker, tree->index, &stat), 0);
		assert_int_equal(stat.entries, keys);
		assert_true(stat.leaf_fill > fill / 100.0 - 0.03);
		assert_true(stat.leaf_fill <= fill / 100.0 + 0.001);
		assert_int_equal(stat.remote_bytes, tree->index->g.stride *
			(stat.leaves + stat.inner_nodes + stat.head_nodes));
	}
}

static void
bulk_load__fill_percent_out_of_range__EINVAL(void **state)
{
	struct nam_index_options options = options_default();
	struct source source = ascending(10);

	tree_plant(*state, &options);
	assert_int_equal(load(*state, &source, 49, NULL), -22);
	assert_int_equal(load(*state, &source, 101, NULL), -22);
	assert_int_equal(source.next, 0);
}

static void
bulk_load__several_servers__ALL_GET_THEIR_SHARE(void **state)
{
	struct nam_index_options options = options_default();
	struct source source = ascending(test_scaled_least(100000, 20000));
	struct tree *tree = *state;
	struct nam_index_stat stat;

	tree_plant(tree, &options);
	assert_int_equal(load(tree, &source, 0, NULL), 0);
	assert_int_equal(nam_index_stat(tree->worker, tree->index, &stat), 0);
	assert_true(labs((long)stat.servers_nodes[0] - (long)stat.servers_nodes[1]) < 8);
	assert_int_equal(stat.servers_nodes[0] + stat.servers_nodes[1],
		stat.leaves + stat.inner_nodes + stat.head_nodes);
	assert_int_equal(stat.head_nodes, (stat.leaves - 1) / options.head_interval);
}

static void
bulk_load__index_with_an_entry__NOTEMPTY(void **state)
{
	struct nam_index_options options = options_default();
	struct tree *tree = *state;
	struct source source = ascending(100);
	uint64_t count = 7;
	uint8_t key[8];

	tree_plant(tree, &options);
	nam_key_from_u64(1, key);
	assert_int_equal(nam_index_insert(tree->worker, tree->index, key, 1), 0);
	assert_int_equal(load(tree, &source, 0, &count), -NAM_E_NOTEMPTY);
	assert_int_equal(count, 7);
	assert_int_equal(source.next, 0);
	tree_assert_sound(tree);
	/* Emptied, it may be loaded. */
	assert_int_equal(nam_index_delete(tree->worker, tree->index, key), 0);
	assert_int_equal(load(tree, &source, 0, &count), 0);
	assert_int_equal(count, 100);
	assert_int_equal(load(tree, &source, 0, &count), -NAM_E_NOTEMPTY);
}

static void
bulk_load__unsorted_input__UNSORTED_NAMES_THE_PAIR_AND_LEAVES_NOTHING(void **state)
{
	struct nam_index_options options = options_default();
	struct tree *tree = *state;
	struct source source = ascending(30000);
	uint64_t used;

	tree_plant(tree, &options);
	assert_int_equal(load(tree, &source, 0, NULL), 0);
	tree_plant(tree, &options);
	used = tree_memory_carved(tree);
	for (unsigned i = 0; i < 5; i++) {
		source = ascending(30000);
		source.swap_at = 20000;
		assert_int_equal(load(tree, &source, 0, NULL), -NAM_E_UNSORTED);
		assert_non_null(strstr(nam_worker_diag(tree->worker), "pair 20001"));
		tree_assert_sound(tree);
	}
	/* The failures took their blocks from those that the first returned. */
	assert_true(tree_memory_carved(tree) <= used + (8u << 20));
	source = ascending(30000);
	assert_int_equal(load(tree, &source, 0, NULL), 0);
	tree_assert_sound(tree);
}

static void
bulk_load__equal_keys__UNSORTED_WHERE_UNIQUE(void **state)
{
	struct nam_index_options options = options_default();
	struct source source = ascending(10);

	source.copies = 2;
	tree_plant(*state, &options);
	assert_int_equal(load(*state, &source, 0, NULL), -NAM_E_UNSORTED);
	assert_non_null(strstr(nam_worker_diag(((struct tree *)*state)->worker), "same key"));
	options.unique = false;
	source = ascending(10);
	source.copies = 2;
	tree_plant(*state, &options);
	assert_int_equal(load(*state, &source, 0, NULL), 0);
}

static void
bulk_load__failing_source__ITS_CODE_AND_AN_EMPTY_INDEX(void **state)
{
	struct nam_index_options options = options_default();
	struct source source = ascending(5000);
	struct tree *tree = *state;
	struct nam_index_stat stat;

	source.fail_at = 4000;
	tree_plant(tree, &options);
	assert_int_equal(load(tree, &source, 0, NULL), -5);
	tree_assert_sound(tree);
	assert_int_equal(nam_index_stat(tree->worker, tree->index, &stat), 0);
	assert_int_equal(stat.entries, 0);
}

static void
bulk_load__memory_runs_out__REMOTE_FULL_AND_AN_EMPTY_INDEX(void **state)
{
	struct nam_index_options options = options_default();
	struct source source = ascending(1u << 30);
	struct tree tree;
	uint8_t key[8];
	(void)state;

	tree_start(&tree, 1, 8u << 20);
	tree_plant(&tree, &options);
	assert_int_equal(load(&tree, &source, 0, NULL), -NAM_E_REMOTE_FULL);
	tree_assert_sound(&tree);
	/* The memory is there again. */
	source = ascending(100000);
	assert_int_equal(load(&tree, &source, 0, NULL), 0);
	tree_assert_sound(&tree);
	nam_key_from_u64(500, key);
	assert_int_equal(nam_index_delete(tree.worker, tree.index, key), 0);
	tree_stop(&tree);
}

struct thief {
	struct tree *tree;
	struct source source;
	uint64_t root;
};

/* Like the source inside, but puts another root pointer into the superblock at its end. */
static int
thief_next(void *arg, void *key, uint64_t *payload)
{
	struct thief *thief = arg;
	int rc = source_next(&thief->source, key, payload);

	if (rc == NAM_INDEX_END)
		tree_write(thief->tree, thief->tree->index->superblock, 0, &thief->root, 1);
	return rc;
}

static void
bulk_load__root_pointer_is_another__DROPPED_AND_UNDONE(void **state)
{
	struct nam_index_options options = options_default();
	struct source source = ascending(100);
	struct tree *tree = *state;
	uint64_t root, carved = 0, keys = test_scaled_least(50000, 10000);

	tree_plant(tree, &options);
	root = atomic_load(&tree->index->root);
	for (unsigned i = 0; i < 8; i++) {
		struct thief thief = { tree, ascending(keys), root ^ 64 };

		assert_int_equal(nam_index_bulk_load(tree->worker, tree->index, thief_next, &thief,
					 0, NULL), -NAM_E_DROPPED);
		tree_write(tree, tree->index->superblock, 0, &root, 1);
		tree_assert_sound(tree);
		if (i == 0)
			carved = tree_memory_carved(tree);
	}
	assert_true(tree_memory_carved(tree) <= carved + (1u << 20));
	assert_int_equal(load(tree, &source, 0, NULL), 0);
	tree_assert_sound(tree);
}

/* A handle that was opened before the load, and thinks that it knows the root. */
static void
bulk_load__handle_opened_before__SEES_THE_ENTRIES(void **state)
{
	struct nam_index_options options = options_default();
	struct source source = ascending(20000);
	struct tree_guest guest;
	struct tree *tree = *state;
	uint64_t payload;
	uint8_t key[8];

	tree_plant(tree, &options);
	tree_guest_come(local_cluster_list(tree->cluster), &guest);
	nam_key_from_u64(20, key);
	assert_int_equal(nam_index_lookup(guest.worker, guest.index, key, &payload),
		-NAM_E_NOTFOUND);
	assert_int_equal(load(tree, &source, 0, NULL), 0);
	for (uint64_t i = 1; i <= 20000; i += 7) {
		nam_key_from_u64(10 * i, key);
		assert_int_equal(nam_index_lookup(guest.worker, guest.index, key, &payload), 0);
		assert_int_equal(payload, 10 * i);
	}
	nam_key_from_u64(15, key);
	assert_int_equal(nam_index_insert(guest.worker, guest.index, key, 15), 0);
	assert_int_equal(nam_index_lookup(tree->worker, tree->index, key, &payload), 0);
	tree_guest_go(&guest);
	tree_assert_sound(tree);
}

/* The exact cost: 32 nodes to a doorbell and server. */
static void
bulk_load__many_entries__GATHERS_NODES_IN_BATCHES(void **state)
{
	struct nam_index_options options = options_default();
	struct source source = ascending(200000);
	struct tree *tree = *state;
	struct nam_op_counters before, after;
	struct nam_index_stat stat;
	uint64_t nodes;

	tree_plant(tree, &options);
	before = *nam_worker_counters(tree->worker, NAM_OP_BULK_LOAD);
	assert_int_equal(load(tree, &source, 0, NULL), 0);
	after = *nam_worker_counters(tree->worker, NAM_OP_BULK_LOAD);
	assert_int_equal(nam_index_stat(tree->worker, tree->index, &stat), 0);
	nodes = stat.leaves + stat.inner_nodes + stat.head_nodes;
	assert_int_equal(after.ops - before.ops, 1);
	assert_true(after.bytes_out - before.bytes_out < nodes * 1024 + 65536);
	/* Recycled blocks are read first, for their generation. */
	assert_true(after.round_trips - before.round_trips < 2 * nodes);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bulk_load__any_size__IS_SOUND_AND_COMPLETE),
		cmocka_unit_test(bulk_load__lowest_key_of_all__IS_SOUND_AND_COMPLETE),
		cmocka_unit_test(bulk_load__any_key_size_and_uniqueness__IS_SOUND_AND_COMPLETE),
		cmocka_unit_test(bulk_load__fill_percent_out_of_range__EINVAL),
		cmocka_unit_test(bulk_load__index_with_an_entry__NOTEMPTY),
		cmocka_unit_test(
			bulk_load__unsorted_input__UNSORTED_NAMES_THE_PAIR_AND_LEAVES_NOTHING),
		cmocka_unit_test(bulk_load__equal_keys__UNSORTED_WHERE_UNIQUE),
		cmocka_unit_test(bulk_load__failing_source__ITS_CODE_AND_AN_EMPTY_INDEX),
		cmocka_unit_test(bulk_load__memory_runs_out__REMOTE_FULL_AND_AN_EMPTY_INDEX),
		cmocka_unit_test(bulk_load__handle_opened_before__SEES_THE_ENTRIES),
		cmocka_unit_test(bulk_load__many_entries__GATHERS_NODES_IN_BATCHES),
	};
	/* Promises of the fine-grained design alone. */
	const struct CMUnitTest fine[] = {
		cmocka_unit_test(bulk_load__empty_input__LEAVES_AN_EMPTY_INDEX),
		cmocka_unit_test(bulk_load__fill_percent__DECIDES_HOW_FULL_LEAVES_ARE),
		cmocka_unit_test(bulk_load__root_pointer_is_another__DROPPED_AND_UNDONE),
		cmocka_unit_test(bulk_load__several_servers__ALL_GET_THEIR_SHARE),
	};
	int failed = cmocka_run_group_tests(tests, start, stop);

	if (tree_is_fine())
		failed += cmocka_run_group_tests(fine, start, stop);
	return failed;
}
