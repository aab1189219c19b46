/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes among each other: defects that only a walk shows are made on purpose.  They must be
 * reported under the number of their invariant in index/README.md; the rest of the tree must not
 * be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/victim.h"

static struct tree shared_tree;

static int
start(void **state)
{
	tree_start(&shared_tree, 2, 32u << 20);
	*state = &shared_tree;
	return 0;
}

static int
stop(void **state)
{
	tree_stop(*state);
	return 0;
}

/* ---- sound trees --------------------------------------------------------------------------- */

static void
verify__sound_tree__REPORTS_NOTHING(void **state)
{
	victim_plant(*state);
	assert_int_equal(tree_verify(*state).total, 0);
}

static void
verify__no_callback__COUNTS(void **state)
{
	struct tree *tree = *state;
	struct victim victim;
	uint64_t violations = 0;

	victim_plant(tree);
	victim = victim_of(tree, 20000, 0);
	victim.image[NAM__WORD_HASH] ^= 1;
	victim_damage_words(&victim);
	assert_int_equal(nam_index_verify(tree->worker, tree->index, NULL, NULL, &violations), 0);
	victim_repair(&victim);
	assert_int_equal(violations, 1);
}

/* ---- I1 ------------------------------------------------------------------------------------ */

static void
verify__gap_between_leaves__I1(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	*victim_high_fence(&victim) -= 5;
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_CHAIN, 1);
	victim_repair(&victim);
}

static void
verify__leaves_overlap__I1(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	*victim_high_fence(&victim) += 5;
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_CHAIN, 1);
	victim_repair(&victim);
}

static void
verify__sibling_skips_a_leaf__I1(void **state)
{
	struct victim victim, next;

	victim_plant(*state);
	/* Two leaves without a head node between them. */
	for (uint64_t key = 20000;; key += 10) {
		victim = victim_of(*state, key, 0);
		next = victim_at(*state, nam__node_sibling(victim.image));
		if (nam__node_type(next.image) == NAM__NODE_LEAF)
			break;
	}
	victim.image[NAM__WORD_SIBLING] = next.image[NAM__WORD_SIBLING];
	victim_damage(&victim);
	victim_assert_among(*state, NAM__I_CHAIN);
	victim_assert_among(*state, NAM__I_PARENT);
	victim_repair(&victim);
}

static void
verify__siblings_in_a_circle__I1_AND_AN_END(void **state)
{
	struct victim victim, first;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	first = victim_of(*state, 10, 0);
	victim.image[NAM__WORD_SIBLING] = first.at.raw;
	victim_damage(&victim);
	victim_assert_among(*state, NAM__I_CHAIN);
	victim_repair(&victim);
	victim.image[NAM__WORD_SIBLING] = victim.at.raw;
	victim_damage(&victim);
	victim_assert_among(*state, NAM__I_CHAIN);
	victim_repair(&victim);
}

static void
verify__no_sibling__I1(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	victim.image[NAM__WORD_SIBLING] = 0;
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_CHAIN, 1);
	victim_repair(&victim);
}

static void
verify__pointer_outside_of_memory__I1(void **state)
{
	static const uint64_t pointers[] = { 0x0001ffff00000000ull, 0x00010000ffffffffull };
	struct victim victim;

	victim_plant(*state);
	for (unsigned i = 0; i < 2; i++) {
		victim = victim_of(*state, 20000, 0);
		victim.image[NAM__WORD_SIBLING] = pointers[i];
		victim_damage(&victim);
		victim_assert_only(*state, NAM__I_CHAIN, 1);
		victim_repair(&victim);
	}
}

static void
verify__last_leaf_has_a_sibling__I1(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 10 * VICTIM_KEYS, 0);
	assert_true(nam__node_last(victim.image));
	victim.image[NAM__WORD_SIBLING] = victim.at.raw;
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_CHAIN, 1);
	victim_repair(&victim);
}

static void
verify__leftmost_leaf_begins_above_zero__I1(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 10, 0);
	victim.image[NAM__WORD_LOW] = 5;
	victim_damage(&victim);
	victim_assert_among(*state, NAM__I_CHAIN);
	victim_repair(&victim);
}

static void
verify__gap_between_inner_nodes__I1(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 10, 1);
	*victim_high_fence(&victim) -= 5;
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_CHAIN, 1);
	victim_repair(&victim);
}

/* ---- I5, I6, I7 ---------------------------------------------------------------------------- */

static void
verify__first_separator_is_not_the_low_fence__I5(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 1);
	++*victim_inner_entry(&victim, 0);
	victim_damage(&victim);
	/* Once for the node itself and once for the child, whose low fence it is not. */
	victim_assert_only(*state, NAM__I_SEPARATOR, 2);
	victim_repair(&victim);
}

static void
verify__separator_is_not_its_childs_low_fence__I5(void **state)
{
	struct victim victim;

	victim_plant(*state);
	for (int shift = -1; shift < 2; shift += 2) {
		victim = victim_of(*state, 20000, 1);
		*victim_inner_entry(&victim, 3) += (uint64_t)(int64_t)shift;
		victim_damage(&victim);
		victim_assert_only(*state, NAM__I_SEPARATOR, 1);
		victim_repair(&victim);
	}
}

static void
verify__separator_names_another_node__I6(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 1);
	victim_inner_entry(&victim, 3)[1] = victim_inner_entry(&victim, 1)[1];
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_PARENT, 1);
	victim_repair(&victim);
}

static void
verify__separator_too_many__I6(void **state)
{
	struct victim victim;
	struct nam__dirty dirty;
	uint64_t key;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 1);
	key = *victim_inner_entry(&victim, 3) + 5;
	assert_int_equal(nam__inner_add(&((struct tree *)*state)->index->g, victim.image, &key,
		(struct nam_gaddr){ victim_inner_entry(&victim, 1)[1] }, &dirty), 0);
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_PARENT, 1);
	victim_repair(&victim);
}

/* The last separator of all: found when the level below is at its end. */
static void
verify__separator_too_many_at_the_end__I6(void **state)
{
	struct victim victim;
	struct nam__dirty dirty;
	uint64_t key = UINT64_MAX;

	victim_plant(*state);
	victim = victim_of(*state, 10 * VICTIM_KEYS, 1);
	assert_int_equal(nam__inner_add(&((struct tree *)*state)->index->g, victim.image, &key,
		(struct nam_gaddr){ victim_inner_entry(&victim, 0)[1] }, &dirty), 0);
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_PARENT, 1);
	victim_repair(&victim);
}

static void
verify__missing_separator__I7(void **state)
{
	struct victim victim;
	struct nam__dirty dirty;

	victim_plant(*state);
	for (unsigned level = 1; level < 3; level++) {
		victim = victim_of(*state, 20000, level);
		assert_true(nam__node_count(victim.image) > 2);
		nam__inner_remove(&((struct tree *)*state)->index->g, victim.image, 2, &dirty);
		victim_damage(&victim);
		victim_assert_only(*state, NAM__I_NAMED, 1);
		victim_repair(&victim);
	}
}

/* The root pointer leads to the leftmost node of a level that has several. */
static void
verify__nodes_right_of_the_root__I7(void **state)
{
	struct tree *tree = *state;
	struct victim victim;
	uint64_t root;

	victim_plant(tree);
	root = atomic_load(&tree->index->root);
	victim = victim_of(tree, 0, 1);
	tree_write(tree, tree->index->superblock, 0, &victim.at.raw, 1);
	victim_assert_among(tree, NAM__I_NAMED);
	assert_int_equal(tree_verify(tree).total, tree_verify(tree).of[NAM__I_NAMED]);
	tree_write(tree, tree->index->superblock, 0, &root, 1);
	tree_assert_sound(tree);
}

/* ---- I11 ----------------------------------------------------------------------------------- */

static void
verify__superblock_changed__I11(void **state)
{
	struct tree *tree = *state;
	uint64_t words[16], *buffer;

	victim_plant(tree);
	buffer = nam_buffer_take(tree->worker, sizeof(words));
	assert_int_equal(nam_read_await(tree->worker, tree->index->superblock, buffer,
				 sizeof(words)), 0);
	memcpy(words, buffer, sizeof(words));
	nam_buffer_give(tree->worker, buffer, sizeof(words));
	for (unsigned word = 4; word < 8; word++) {
		uint64_t wrong = words[word] ^ 1;

		tree_write(tree, tree->index->superblock, word, &wrong, 1);
		victim_assert_only(tree, NAM__I_SUPERBLOCK, 1);
		tree_write(tree, tree->index->superblock, word, &words[word], 1);
	}
	tree_assert_sound(tree);
}

static void
verify__root_pointer_outside_of_memory__I11(void **state)
{
	struct tree *tree = *state;
	uint64_t root, wrong = 0x0001ffff00000001ull;

	victim_plant(tree);
	root = atomic_load(&tree->index->root);
	tree_write(tree, tree->index->superblock, 0, &wrong, 1);
	victim_assert_only(tree, NAM__I_SUPERBLOCK, 1);
	tree_write(tree, tree->index->superblock, 0, &root, 1);
	tree_assert_sound(tree);
}

#define TEST(name) cmocka_unit_test(verify__##name)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sound_tree__REPORTS_NOTHING),
		TEST(no_callback__COUNTS),
		TEST(gap_between_leaves__I1),
		TEST(leaves_overlap__I1),
		TEST(sibling_skips_a_leaf__I1),
		TEST(siblings_in_a_circle__I1_AND_AN_END),
		TEST(no_sibling__I1),
		TEST(pointer_outside_of_memory__I1),
		TEST(last_leaf_has_a_sibling__I1),
		TEST(leftmost_leaf_begins_above_zero__I1),
		TEST(gap_between_inner_nodes__I1),
		TEST(first_separator_is_not_the_low_fence__I5),
		TEST(separator_is_not_its_childs_low_fence__I5),
		TEST(separator_names_another_node__I6),
		TEST(separator_too_many__I6),
		TEST(separator_too_many_at_the_end__I6),
		TEST(missing_separator__I7),
		TEST(nodes_right_of_the_root__I7),
		TEST(superblock_changed__I11),
		TEST(root_pointer_outside_of_memory__I11),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
