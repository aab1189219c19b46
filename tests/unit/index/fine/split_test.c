/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "index/design.h"
#include "index/maintain/verify.h"
#include "tests/lib/index_fixture.h"
#include "index/node/divide.h"

#define MIB (1ull << 20)

static struct local_cluster *cluster;

static int
start(void **state)
{
	(void)state;
	cluster = local_cluster_start(2, test_memory(64 * MIB), 0);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	local_cluster_stop(cluster);
	return 0;
}

static struct nam_index_stat
stat_of(struct nam_worker *worker, struct nam_index *index)
{
	struct nam_index_stat stat;

	assert_int_equal(nam_index_stat(worker, index, &stat), 0);
	return stat;
}

/* ---- shapes of growth --------------------------------------------------------------------- */

static void
insert__ascending_keys__LEAVES_FULL_NODES_BEHIND(void **state)
{
	struct member me = member_join(cluster, "test", 0);
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 1 * MIB);
	uint64_t keys = test_scaled_least(2000, 600);

	(void)state;
	tree_fill(me.worker, index, 0, keys, 1);
	tree_check(me.worker, index, keys);
	assert_true(stat_of(me.worker, index).leaf_fill > 0.85);
	nam_index_close(index);
	member_leave(&me);
}

static void
insert__descending_and_shuffled_keys__KEEPS_THE_INVARIANTS(void **state)
{
	static const struct tree_options shapes[] = {
		{ 8, 256, false, 0 },
		{ 8, 256, true, 0 },
		{ 13, 256, false, 8 },
		{ 64, 1024, true, 4 },
		{ 24, 512, false, 0 },
	};
	struct member me = member_join(cluster, "test", 0);
	uint64_t keys = test_scaled(10) < 10 ? 307 : 1009;

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct nam_index *down = tree_new(me.worker, &shapes[i], 1 * MIB);
		struct nam_index *shuffled = tree_new(me.worker, &shapes[i], 0);

		for (uint64_t n = keys; n-- > 0;)
			tree_fill(me.worker, down, n, n + 1, 1);
		tree_check(me.worker, down, keys);
		for (uint64_t n = 0; n < keys; n++)
			tree_fill(me.worker, shuffled, n * 123 % keys, n * 123 % keys + 1, 1);
		tree_check(me.worker, shuffled, keys);
		nam_index_close(down);
		nam_index_close(shuffled);
	}
	member_leave(&me);
}

static void
insert__equal_keys_only__SPLITS_BETWEEN_PAYLOADS(void **state)
{
	struct member me = member_join(cluster, "test", 0);
	struct nam_index *index =
		tree_new(me.worker, &(struct tree_options){ .pairs = true }, 1 * MIB);
	uint64_t payload = 0;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(nam_index_insert(me.worker, index, tree_key(index, 7),
					 5 + i * 769 % 1000), 0);
	tree_check(me.worker, index, 1000);
	assert_int_equal(nam_index_lookup(me.worker, index, tree_key(index, 7), &payload), 0);
	assert_int_equal(payload, 5);
	assert_true(stat_of(me.worker, index).height >= 3);
	nam_index_close(index);
	member_leave(&me);
}

/* ---- several writers ---------------------------------------------------------------------- */

struct writer {
	struct nam_worker *worker;
	struct nam_index *index;
	uint64_t first, end, step;
	int rc;
};

static void
write_keys(void *arg)
{
	struct writer *writer = arg;
	uint8_t key[8];

	for (uint64_t n = writer->first; n < writer->end && !writer->rc; n += writer->step) {
		nam_key_from_u64(n * 2654435761u % (1u << 30), key);
		writer->rc = nam_index_insert(writer->worker, writer->index, key, n); /* SUSPENDS */
	}
}

/* A young tree: all of its nodes are the root, or were a moment ago. */
static void
insert__many_fibers_into_a_young_tree__GROWS_ONE_ROOT_AFTER_THE_OTHER(void **state)
{
	enum { FIBERS = 32, KEYS = 320 };
	struct member me = member_join(cluster, "test", 0);

	(void)state;
	for (unsigned round = 0; round < test_scaled(150); round++) {
		struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 },
			round % 2 * MIB);
		struct writer writers[FIBERS];

		for (unsigned i = 0; i < FIBERS; i++) {
			writers[i] = (struct writer){ me.worker, index, i, KEYS, FIBERS, 0 };
			assert_int_equal(nam_worker_spawn(me.worker, write_keys, &writers[i]), 0);
		}
		nam_worker_run(me.worker);
		for (unsigned i = 0; i < FIBERS; i++)
			assert_int_equal(writers[i].rc, 0);
		tree_check(me.worker, index, KEYS);
		nam_index_close(index);
	}
	member_leave(&me);
}

struct thread_pool {
	struct nam_client *client;
	struct nam_index *index;
	unsigned number;
	int rc;
};

#define POOL_FIBERS 8u
#define POOL_THREADS 3u
#define POOL_KEYS 480u

static void
thread_pool_main(void *arg)
{
	struct thread_pool *pool = arg;
	struct nam_worker *worker = test_worker(pool->client);
	struct writer writers[POOL_FIBERS];

	for (unsigned i = 0; i < POOL_FIBERS; i++) {
		writers[i] = (struct writer){ worker, pool->index, pool->number * POOL_FIBERS + i,
			POOL_KEYS, POOL_FIBERS * POOL_THREADS, 0 };
		if (nam_worker_spawn(worker, write_keys, &writers[i]))
			test_die("cannot start a fiber");
	}
	nam_worker_run(worker); /* SUSPENDS */
	for (unsigned i = 0; i < POOL_FIBERS; i++)
		if (writers[i].rc)
			pool->rc = writers[i].rc;
	nam_worker_close(worker);
}

static void
insert__several_threads_into_a_young_tree__KEEPS_THE_INVARIANTS(void **state)
{
	struct member me = member_join(cluster, "test", 0);

	(void)state;
	for (unsigned round = 0; round < test_scaled(40); round++) {
		struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 },
			round % 2 * MIB);
		struct thread_pool pools[POOL_THREADS];
		struct nam_thread *threads[POOL_THREADS];

		for (unsigned i = 0; i < POOL_THREADS; i++) {
			pools[i] = (struct thread_pool){ me.client, index, i, 0 };
			assert_int_equal(nam_thread_start("pool", thread_pool_main, &pools[i],
						 &threads[i]), 0);
		}
		for (unsigned i = 0; i < POOL_THREADS; i++) {
			nam_thread_join(threads[i]);
			assert_int_equal(pools[i].rc, 0);
		}
		tree_check(me.worker, index, POOL_KEYS);
		nam_index_close(index);
	}
	member_leave(&me);
}

/* ---- separators --------------------------------------------------------------------------- */

/* The address and the image of the leaf that covers a key. */
static struct nam_gaddr
leaf_at(struct member *me, struct nam_index *index, uint64_t number, uint64_t *image)
{
	struct nam__key key;
	struct nam_gaddr at;

	nam__key_encode(&index->g, tree_key(index, number), 0, &key);
	nam__op_begin(me->worker, NAM_OP_OTHER);
	assert_int_equal(nam__read_covering(me->worker, index, key.w, 0, image, &at), 0);
	nam__op_end(me->worker);
	return at;
}

static void
separator_add__named_already__CHANGES_NOTHING(void **state)
{
	struct member me = member_join(cluster, "test", 0);
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	uint64_t *image = nam_buffer_take(me.worker, index->g.node_bytes);
	struct nam_gaddr at;

	(void)state;
	tree_fill(me.worker, index, 0, 100, 1);
	for (uint64_t n = 0; n < 100; n += 5) {
		at = leaf_at(&me, index, n, image);
		nam__op_begin(me.worker, NAM_OP_OTHER);
		assert_int_equal(nam__separator_add(me.worker, index, nam__node_low(image), at, 1),
			0);
		nam__op_end(me.worker);
	}
	tree_check(me.worker, index, 100);
	nam_buffer_give(me.worker, image, index->g.node_bytes);
	nam_index_close(index);
	member_leave(&me);
}

static void
separator_add__child_of_another_generation__IS_NOT_NAMED(void **state)
{
	struct member me = member_join(cluster, "test", 0);
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	uint64_t *image = nam_buffer_take(me.worker, index->g.node_bytes);
	struct nam__key key;
	struct nam_gaddr at;

	(void)state;
	tree_fill(me.worker, index, 0, 100, 1);
	at = leaf_at(&me, index, 50, image);
	nam__key_encode(&index->g, tree_key(index, 51), 0, &key);
	nam__op_begin(me.worker, NAM_OP_OTHER);
	assert_int_equal(nam__separator_add(me.worker, index, key.w,
				 nam_gaddr_tagged(at, (uint16_t)(nam_gaddr_tag(at) + 1)), 1), 0);
	nam__op_end(me.worker);
	tree_check(me.worker, index, 100);
	nam_buffer_give(me.worker, image, index->g.node_bytes);
	nam_index_close(index);
	member_leave(&me);
}

/*
 * Steps 1 and 2 of a split, and then the client dies: two halves, one of them without a separator.
 * All entries stay reachable, and the next one that moves right twice names the new node.
 */
static void
split_without_separator(struct member *me, struct nam_index *index, uint64_t number, unsigned level)
{
	struct nam__held held = { .image = nam_buffer_take(me->worker, index->g.node_bytes) };
	uint64_t *right = nam_buffer_take(me->worker, index->g.node_bytes);
	struct nam_gaddr right_at;
	struct nam__dirty dirty;
	struct nam_batch batch;
	uint32_t generation;
	struct nam__key key;

	nam__key_encode(&index->g, tree_key(index, number), 0, &key);
	nam__op_begin(me->worker, NAM_OP_OTHER);
	assert_int_equal(nam__lock_covering(me->worker, index, key.w, level, &held), 0);
	assert_int_equal(nam__node_alloc(me->worker, index, false, &right_at,
		&generation), 0);
	nam__node_divide(&index->g, held.image, nam__node_count(held.image) / 2, right, generation,
		&dirty);
	nam_batch_init(&batch, me->worker);
	nam__batch_new_node(&batch, index, right_at, right);
	assert_int_equal(nam_batch_await(&batch), 0);
	held.image[NAM__WORD_SIBLING] = right_at.raw;
	assert_int_equal(nam__write_unlock(me->worker, index, &held, dirty,
				 NAM__HEADER_FENCES), 0);
	nam__op_end(me->worker);
	nam_buffer_give(me->worker, right, index->g.node_bytes);
	nam_buffer_give(me->worker, held.image, index->g.node_bytes);
}

static void
lookup__splits_whose_separators_are_missing__FINDS_EVERYTHING(void **state)
{
	struct member me = member_join(cluster, "test", 0);
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	struct nam_index *cached = tree_open(me.worker, index->name, 1 * MIB);
	struct nam_collect_stat stat;
	uint64_t payload;

	(void)state;
	tree_fill(me.worker, index, 0, 300, 1);
	for (uint64_t n = 0; n < 300; n++)
		assert_int_equal(nam_index_lookup(me.worker, cached, tree_key(index, n),
					 &payload), 0);
	for (uint64_t n = 0; n < 300; n += 3)
		split_without_separator(&me, index, n, 0);
	for (unsigned round = 0; round < 2; round++) {
		for (uint64_t n = 0; n < 300; n++) {
			assert_int_equal(nam_index_lookup(me.worker, round ? cached : index,
						 tree_key(index, n), &payload), 0);
			assert_int_equal(payload, n * 10 + 1);
		}
	}
	/* Writers find their way, too, and the collector names what is still nameless. */
	tree_fill(me.worker, cached, 1000, 1050, 1);
	assert_int_equal(nam_index_collect(me.worker, index, &stat), 0);
	tree_check(me.worker, index, 350);
	nam_index_close(cached);
	nam_index_close(index);
	member_leave(&me);
}

static void
count_named(void *arg, unsigned invariant, const char *text)
{
	uint64_t *named = arg;

	(void)text;
	assert_int_equal(invariant, NAM__I_NAMED);
	++*named;
}

/* The root was divided, more than once, and there was no memory for a parent: the tree grows. */
static void
collect__root_was_divided__GROWS_THE_TREE(void **state)
{
	struct member me = member_join(cluster, "test", 0);
	struct nam_collect_stat stat;

	(void)state;
	for (unsigned level = 0; level < 3; level++) {
		struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 1 * MIB);
		uint64_t entries[] = { 9, 80, 800 }, named = 0, violations;
		struct nam_gaddr root;
		unsigned height;

		tree_fill(me.worker, index, 0, entries[level], 1);
		assert_int_equal(nam__root_find(me.worker, index, &root, &height), 0);
		assert_int_equal(height, level);
		split_without_separator(&me, index, 0, level);
		split_without_separator(&me, index, entries[level] - 1, level);
		assert_int_equal(nam_index_verify(me.worker, index, count_named, &named,
			&violations), 0);
		assert_int_equal(named, 2);
		assert_int_equal(nam_index_collect(me.worker, index, &stat), 0);
		tree_check(me.worker, index, entries[level]);
		assert_int_equal(nam__root_find(me.worker, index, &root, &height), 0);
		assert_int_equal(height, level + 1);
		nam_index_close(index);
	}
	member_leave(&me);
}

/*
 * The root leaf was divided twice before there was a new root, and both splitters want to grow the
 * tree.  One is so many round trips ahead of the other.
 */
struct namer {
	struct member *me;
	struct nam_index *index;
	uint64_t number;		/* of a key in the node to be named */
	unsigned pauses;
	int rc;
};

static void
name_late(void *arg)
{
	struct namer *namer = arg;
	struct nam_worker *worker = namer->me->worker;
	uint64_t *image = nam_buffer_take(worker, namer->index->g.node_bytes);
	struct nam__key key;
	struct nam_gaddr at;

	nam__key_encode(&namer->index->g, tree_key(namer->index, namer->number), 0, &key);
	nam__op_begin(worker, NAM_OP_OTHER);
	namer->rc = nam__read_covering(worker, namer->index, key.w, 0, image, &at); /* SUSPENDS */
	for (unsigned i = 0; i < namer->pauses; i++)
		namer->rc |= nam_read_await(worker, at, image, 256); /* SUSPENDS */
	memcpy(key.w, nam__node_low(image), 8 * namer->index->g.full_words);
	namer->rc |= nam__separator_add(worker, namer->index, key.w, at, 1); /* SUSPENDS */
	nam__op_end(worker);
	nam_buffer_give(worker, image, namer->index->g.node_bytes);
}

static void
separator_add__two_nodes_without_a_level_above__IT_GROWS_ONCE(void **state)
{
	struct member me = member_join(cluster, "test", 0);

	(void)state;
	for (unsigned lead = 0; lead < 32; lead++) {
		struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 },
			lead % 2 * MIB);
		unsigned capacity = index->g.leaf_capacity;
		struct namer namers[2] = {
			{ &me, index, capacity / 2, 0, 0 },
			{ &me, index, capacity - 1, lead / 2, 0 },
		};

		tree_fill(me.worker, index, 0, capacity, 1);
		split_without_separator(&me, index, 0, 0);
		split_without_separator(&me, index, capacity - 1, 0);
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(nam_worker_spawn(me.worker, name_late, &namers[i]), 0);
		nam_worker_run(me.worker);
		assert_int_equal(namers[0].rc, 0);
		assert_int_equal(namers[1].rc, 0);
		tree_check(me.worker, index, capacity);
		assert_int_equal(stat_of(me.worker, index).height, 2);
		nam_index_close(index);
	}
	member_leave(&me);
}

/* ---- no room ------------------------------------------------------------------------------ */

static void
insert__memory_full__REMOTE_FULL_AND_NOTHING_CHANGED(void **state)
{
	bool brief = test_scaled(10) < 10;
	struct local_cluster *small =
		local_cluster_start(brief ? 1 : 2, (brief ? 256u : 512u) << 10, 256u << 10);
	struct member me = member_join(small, "test", 0);
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 1 * MIB);
	uint64_t n, full = 0, payload;
	int rc = 0;

	(void)state;
	for (n = 0; n < 1000000 && full < 100; n++) {
		rc = nam_index_insert(me.worker, index, tree_key(index, n * 7919 % 1000003), n);
		if (rc) {
			assert_int_equal(rc, -NAM_E_REMOTE_FULL);
			assert_true(strlen(nam_worker_diag(me.worker)) > 0);
			assert_int_equal(nam_index_lookup(me.worker, index,
						 tree_key(index, n * 7919 % 1000003), &payload),
				-NAM_E_NOTFOUND);
			full++;
		}
	}
	assert_int_equal(full, 100);
	assert_true(n > 1000);
	tree_check(me.worker, index, n - full);
	/* Where there is room in a leaf, things go on; and what is deleted makes room. */
	for (uint64_t i = 0; i < n; i++) {
		rc = nam_index_delete(me.worker, index, tree_key(index, i * 7919 % 1000003));
		assert_true(rc == 0 || rc == -NAM_E_NOTFOUND);
	}
	assert_int_equal(nam_index_insert(me.worker, index, tree_key(index, 5), 5), 0);
	tree_check(me.worker, index, 1);
	nam_index_close(index);
	member_leave(&me);
	local_cluster_stop(small);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(insert__ascending_keys__LEAVES_FULL_NODES_BEHIND),
		cmocka_unit_test(insert__descending_and_shuffled_keys__KEEPS_THE_INVARIANTS),
		cmocka_unit_test(insert__equal_keys_only__SPLITS_BETWEEN_PAYLOADS),
		cmocka_unit_test(
			insert__many_fibers_into_a_young_tree__GROWS_ONE_ROOT_AFTER_THE_OTHER),
		cmocka_unit_test(insert__several_threads_into_a_young_tree__KEEPS_THE_INVARIANTS),
		cmocka_unit_test(separator_add__named_already__CHANGES_NOTHING),
		cmocka_unit_test(separator_add__child_of_another_generation__IS_NOT_NAMED),
		cmocka_unit_test(lookup__splits_whose_separators_are_missing__FINDS_EVERYTHING),
		cmocka_unit_test(collect__root_was_divided__GROWS_THE_TREE),
		cmocka_unit_test(separator_add__two_nodes_without_a_level_above__IT_GROWS_ONCE),
		cmocka_unit_test(insert__memory_full__REMOTE_FULL_AND_NOTHING_CHANGED),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
