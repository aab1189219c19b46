/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_walk_test.c -- what operations cost that come to every node of an index, exactly as index.h
 * says: stat, verify, drop, and the collector's pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "cost.h"

#define WINDOW 16u
/* Children of a node of 1 KiB, and entries of a leaf, as they are loaded. */
#define FILL 55u

static void
play(struct cost_stage *stage)
{
	cost_play(stage);
}

/* ---- walks -------------------------------------------------------------------------------- */

/* A tree as a bulk load leaves it: nodes of each level, the leaves' first. */
struct tree {
	uint64_t nodes[4];
	uint64_t interval, heads, all;
	unsigned root_level;
};

static struct tree
tree_of(const struct cost_stage *stage)
{
	struct tree tree = { .nodes = { (stage->pairs + FILL - 1) / FILL },
		.interval = stage->options.head_interval };

	tree.heads = tree.interval ? (tree.nodes[0] - 1) / tree.interval : 0;
	tree.all = tree.nodes[0] + tree.heads;
	while (tree.nodes[tree.root_level] > 1) {
		uint64_t below = tree.nodes[tree.root_level++];

		tree.nodes[tree.root_level] = (below + FILL - 1) / FILL;
		tree.all += tree.nodes[tree.root_level];
	}
	return tree;
}

/* Windows of 16 nodes, from number `first` on, that end with the parent and before a head node. */
static uint64_t
windows(const struct tree *tree, unsigned level, uint64_t first)
{
	uint64_t count = 0, run = 0;

	for (uint64_t i = first; i < tree->nodes[level]; i++, run++) {
		if (i % FILL == 0 || (level == 0 && tree->interval && i % tree->interval == 0))
			run = 0;
		count += run % WINDOW == 0;
	}
	return count;
}

/* The first node, the parents, the head nodes, and windows of what they name. */
static uint64_t
walk(const struct tree *tree, unsigned level)
{
	return 1 + (level == 0 ? tree->heads : 0) +
	       (level < tree->root_level ? tree->nodes[level + 1] + windows(tree, level, 1) : 0);
}

static uint64_t
stat_cost(const struct tree *tree)
{
	uint64_t count = 2;

	for (unsigned level = 0; level <= tree->root_level; level++)
		count += walk(tree, level);
	return count;
}

static uint64_t
verify_cost(const struct tree *tree)
{
	uint64_t count = 3 + tree->heads;

	for (unsigned level = 0; level < tree->root_level; level++)
		count += tree->nodes[level + 1] + windows(tree, level, 0);
	return count;
}

/* A walk, but the ways to its first node and to each parent begin at the root. */
static uint64_t
drop_cost(const struct tree *tree)
{
	uint64_t count = 12 + 3 * tree->all;

	for (unsigned level = 0; level < tree->root_level; level++) {
		unsigned above = tree->root_level - level;

		count += walk(tree, level) + above + (above - 1) * tree->nodes[level + 1];
	}
	return count + walk(tree, tree->root_level);
}

/* A pass that finds nothing to do: see index/README.md. */
static uint64_t
pass_cost(const struct tree *tree)
{
	struct tree children = *tree;
	uint64_t count = 5;

	children.interval = 0;
	for (unsigned level = 0; level < tree->root_level; level++)
		count += walk(tree, level + 1) + windows(&children, level, 0);
	return count + (tree->interval ? walk(tree, 0) : 0);
}

static void
act_walks(struct cost_stage *stage)
{
	const struct tree tree = tree_of(stage);
	struct nam_worker *first = cost_worker_new(stage);
	struct nam_collect_stat collected = { 0 };
	struct nam_index_stat stat;
	uint64_t violations;

	cost_warm(stage);
	cost_begin(stage);
	stat = cost_stat(stage);
	cost_end(stage, NAM_OP_VERIFY, "stat", &(struct cost){ .round_trips = stat_cost(&tree) });
	if (stat.leaves + stat.inner_nodes + stat.head_nodes != tree.all)
		cost_fail(stage, "not the tree that was expected");

	cost_begin(stage);
	cost_expect(stage, "verify", nam_index_verify(stage->worker, stage->index, NULL, NULL,
		&violations), 0);
	cost_end(stage, NAM_OP_VERIFY, "verify",
		&(struct cost){ .round_trips = verify_cost(&tree) });

	cost_begin(stage);
	cost_expect(stage, "collect", nam_index_collect(stage->worker, stage->index, &collected),
		0);
	cost_end(stage, NAM_OP_COLLECT, "collect",
		&(struct cost){ .round_trips = pass_cost(&tree) });
	if (collected.merges || collected.heads_written)
		cost_fail(stage, "the collector has found something to do");

	cost_begin(stage);
	cost_expect(stage, "drop", nam_index_drop(stage->worker, COST_INDEX), 0);
	/* The root is locked like the other nodes. */
	cost_end(stage, NAM_OP_OTHER, "drop",
		&(struct cost){ .round_trips = drop_cost(&tree), .locks = tree.all,
			.kept = tree.all });
	cost_worker_back(stage, first);
}

static void
play_walks(uint64_t pairs, uint32_t interval)
{
	struct cost_stage stage;

	cost_stage_init(&stage, act_walks);
	stage.pairs = pairs;
	stage.options.head_interval = interval;
	play(&stage);
}

static void
walks__one_leaf__COST_WHAT_THE_HEADER_SAYS(void **state)
{
	(void)state;
	play_walks(10, 32);
	play_walks(10, 0);
}

static void
walks__two_levels__COST_WHAT_THE_HEADER_SAYS(void **state)
{
	(void)state;
	play_walks(2000, 32);
	play_walks(2000, 0);
}

static void
walks__three_levels__COST_WHAT_THE_HEADER_SAYS(void **state)
{
	(void)state;
	play_walks(10000, 32);
	play_walks(10000, 0);
	play_walks(20000, 10);
}

/* ---- what a collector does ---------------------------------------------------------------- */

/* Take all pairs out of a leaf. */
static void
empty_leaf(struct cost_stage *stage, uint64_t leaf)
{
	uint8_t key[8];

	for (uint64_t i = leaf * FILL; i < (leaf + 1) * FILL; i++) {
		cost_key(stage, i, key);
		cost_expect(stage, "a delete", nam_index_delete(stage->worker, stage->index, key),
			0);
	}
}

/* A pass over the tree that did what `expected` says, and then looked at its limbo. */
static void
collect(struct cost_stage *stage, const char *what, struct cost cost,
	const struct nam_collect_stat *expected)
{
	struct nam_collect_stat did = { 0 };

	cost_begin(stage);
	cost_expect(stage, what, nam_index_collect(stage->worker, stage->index, &did), 0);
	cost_end(stage, NAM_OP_COLLECT, what, &cost);
	if (did.merges != expected->merges || did.heads_written != expected->heads_written ||
		did.nodes_retired != expected->nodes_retired)
		cost_fail(stage, "%s: %llu merges, %llu head nodes, %llu retired", what,
			(unsigned long long)did.merges, (unsigned long long)did.heads_written,
			(unsigned long long)did.nodes_retired);
}

static void
act_merge(struct cost_stage *stage)
{
	const struct tree tree = tree_of(stage);
	struct nam_worker *first = cost_worker_new(stage);

	cost_warm(stage);
	empty_leaf(stage, 20);
	/* Merged with the leaf before it.  At the end: the clock, an owner, all clients' slots. */
	collect(stage, "a merge",
		(struct cost){ .round_trips = pass_cost(&tree) + 9 + 3, .locks = 3,
			.kept = 3 },
		&(struct nam_collect_stat){ .merges = 1, .nodes_retired = 1 });
	cost_worker_back(stage, first);
}

static void
collect__a_merge__NINE_MORE(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_merge);
	stage.options.head_interval = 0;
	stage.pairs = 40 * FILL;
	play(&stage);
}

/* Leaf 32 lies behind the only head node, which goes with it; what is left needs none. */
static void
act_merge_through_head(struct cost_stage *stage)
{
	struct tree tree = tree_of(stage);
	struct nam_worker *first = cost_worker_new(stage);
	uint64_t count;

	cost_warm(stage);
	empty_leaf(stage, 32);
	count = pass_cost(&tree) - walk(&tree, 0);
	tree.nodes[0]--;
	tree.interval = tree.heads = 0;
	count += walk(&tree, 0);
	collect(stage, "a merge through a head node",
		(struct cost){ .round_trips = count + 12 + 3, .locks = 4, .kept = 4 },
		&(struct nam_collect_stat){ .merges = 1, .nodes_retired = 2 });
	cost_worker_back(stage, first);
}

static void
collect__a_merge_through_a_head_node__TWELVE_MORE(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_merge_through_head);
	stage.pairs = 40 * FILL;
	play(&stage);
}

/*
 * Head nodes after 4 leaves each.  Leaves 5, 6 and 7 go.  The head node behind them comes too soon
 * and goes, too; the one before them has to name its successors.
 */
static void
act_head_nodes(struct cost_stage *stage)
{
	struct tree tree = tree_of(stage);
	struct nam_worker *first = cost_worker_new(stage);
	/* The first leaf, its parent, two head nodes, windows 1 .. 3, 4 and 8 .. 11. */
	uint64_t count = pass_cost(&tree) - walk(&tree, 0) + 2 + 2 + 3;

	cost_warm(stage);
	for (uint64_t leaf = 5; leaf < 8; leaf++)
		empty_leaf(stage, leaf);
	collect(stage, "a head node taken out, and one written anew",
		(struct cost){ .round_trips = count + 3 * 9 + 5 + 2 + 3, .locks = 3 * 3 + 2 + 1,
			.releases = 2, .kept = 3 * 3 + 1 },
		&(struct nam_collect_stat){ .merges = 3, .heads_written = 1, .nodes_retired = 4 });
	cost_worker_back(stage, first);
}

static void
collect__head_nodes__FIVE_TO_TAKE_OUT_TWO_TO_REWRITE(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_head_nodes);
	stage.options.head_interval = 4;
	stage.pairs = 12 * FILL;
	play(&stage);
}

/* A tree that has grown by inserts has no head nodes: they are made. */
static void
act_new_head_nodes(struct cost_stage *stage)
{
	struct nam_worker *first;
	struct nam_index_stat stat;
	uint8_t key[8];

	for (uint64_t i = 0; i < 500; i++) {
		nam_key_from_u64(i, key);
		cost_expect(stage, "an insert", nam_index_insert(stage->worker, stage->index, key,
			i), 0);
	}
	stat = cost_stat(stage);
	if (stat.leaves != 9 || stat.inner_nodes != 1 || stat.head_nodes)
		cost_fail(stage, "not the tree that was expected");
	first = cost_worker_new(stage);
	cost_cache(stage);
	/*
	 * Word and root; parents, a window of children, and the walk along the leaves.  Head nodes
	 * before leaves 2, 4 and 6; the last of these gets the ninth leaf, too.
	 */
	collect(stage, "head nodes are made",
		(struct cost){ .round_trips = 5 + 1 + 1 + 3 + 3 * 3 + 2, .locks = 4,
			.releases = 4 },
		&(struct nam_collect_stat){ .heads_written = 4 });
	cost_worker_back(stage, first);
}

static void
collect__new_head_nodes__THREE_EACH(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_new_head_nodes);
	stage.options.head_interval = 2;
	play(&stage);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walks__one_leaf__COST_WHAT_THE_HEADER_SAYS),
		cmocka_unit_test(walks__two_levels__COST_WHAT_THE_HEADER_SAYS),
		cmocka_unit_test(walks__three_levels__COST_WHAT_THE_HEADER_SAYS),
		cmocka_unit_test(collect__a_merge__NINE_MORE),
		cmocka_unit_test(collect__a_merge_through_a_head_node__TWELVE_MORE),
		cmocka_unit_test(collect__head_nodes__FIVE_TO_TAKE_OUT_TWO_TO_REWRITE),
		cmocka_unit_test(collect__new_head_nodes__THREE_EACH),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
