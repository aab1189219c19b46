/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "index/maintain/maintain.h"
#include "tests/lib/tree_model.h"

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

struct heads {
	unsigned count, stale, leaves;
	unsigned longest, shortest;	/* leaves from head node to head node */
};

/* Walk the leaves and hold every hint against what follows. */
static struct heads
heads_of(struct tree *tree)
{
	struct heads heads = { .shortest = UINT32_MAX };
	struct nam_gaddr hints[64], root;
	unsigned hints_count = 0, since = 0, root_level;
	struct nam__walk walk;

	nam__op_begin(tree->worker, NAM_OP_OTHER);
	assert_int_equal(nam__root_find(tree->worker, tree->index, &root, &root_level), 0);
	assert_int_equal(nam__walk_open(&walk, tree->worker, tree->index, 0, root_level), 0);
	while (!nam__walk_next(&walk) && walk.image) {
		if (nam__node_type(walk.image) == NAM__NODE_HEAD) {
			heads.count++;
			heads.stale += hints_count > since;
			if (since > heads.longest)
				heads.longest = since;
			if (since < heads.shortest)
				heads.shortest = since;
			since = 0;
			hints_count = nam__node_count(walk.image);
			assert_in_range(hints_count, 0, 64);
			for (unsigned i = 0; i < hints_count; i++)
				hints[i] = nam__head_entry(&tree->index->g, walk.image, i);
			continue;
		}
		heads.leaves++;
		if (heads.count && since < hints_count)
			heads.stale += !nam_gaddr_same(hints[since], walk.at);
		since++;
	}
	if (since > heads.longest)
		heads.longest = since;
	nam__walk_close(&walk);
	nam__op_end(tree->worker);
	return heads;
}

static void
collect__many_splits__MAKES_HEAD_NODES_AND_FILLS_THEM(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree_model model = { 0 };
	struct heads heads;

	tree_plant(*state, &options);
	tree_model_fill(*state, &model, 5);
	assert_int_equal(heads_of(*state).count, 0);
	assert_true(tree_collect(*state).heads_written > 0);
	heads = heads_of(*state);
	assert_true(heads.count >= heads.leaves / 12 - 1);
	assert_true(heads.longest <= 12);
	assert_int_equal(heads.stale, 0);
	tree_assert_sound(*state);
	assert_int_equal(tree_collect(*state).heads_written, 0);
}

static void
collect__merged_leaves__REMOVES_CROWDED_HEAD_NODES(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree_model model = { 0 };
	struct heads before, after;

	tree_plant(*state, &options);
	tree_model_fill(*state, &model, 6);
	(void)tree_collect(*state);
	before = heads_of(*state);
	for (uint64_t number = 0; number < TREE_MODEL_KEYS; number++)
		if (number % 8)
			tree_model_delete(*state, &model, number);
	(void)tree_collect(*state);
	after = heads_of(*state);
	assert_true(after.count < before.count / 2);
	assert_int_equal(after.stale, 0);
	assert_true(after.shortest >= 4);
	assert_true(after.longest <= 12);
	tree_assert_sound(*state);
	tree_model_check(*state, &model);
}

static void
collect__interval_zero__MAKES_NO_HEAD_NODES(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree_model model = { 0 };

	options.head_interval = 0;
	tree_plant(*state, &options);
	tree_model_fill(*state, &model, 7);
	assert_int_equal(tree_collect(*state).heads_written, 0);
	assert_int_equal(heads_of(*state).count, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collect__many_splits__MAKES_HEAD_NODES_AND_FILLS_THEM),
		cmocka_unit_test(collect__merged_leaves__REMOVES_CROWDED_HEAD_NODES),
		cmocka_unit_test(collect__interval_zero__MAKES_NO_HEAD_NODES),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
