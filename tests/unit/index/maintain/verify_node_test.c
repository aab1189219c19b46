/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The properties of one node are broken on purpose.  They must be reported under the number of the
 * invariant in index/README.md; the rest of the tree must not be.
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

/* ---- I2 ------------------------------------------------------------------------------------ */

static void
verify__any_flipped_bit__I2(void **state)
{
	struct nam_rng rng = nam_rng_seed(1);

	victim_plant(*state);
	/* Any word but the lock, which is not part of the image, of nodes on every level. */
	for (unsigned i = 0; i < test_scaled_least(200, 10); i++) {
		struct victim victim = victim_of(*state, 10 + nam_rng_below(&rng, 10 * VICTIM_KEYS),
			(unsigned)nam_rng_below(&rng, 3));

		victim.image[1 + nam_rng_below(&rng, VICTIM_NODE_WORDS - 1)] ^=
			1ull << nam_rng_below(&rng, 64);
		victim_damage_words(&victim);
		victim_assert_among(*state, NAM__I_WHOLE);
		victim_repair(&victim);
	}
}

static void
verify__torn_image__I2(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	victim.image[VICTIM_NODE_WORDS - 1] += 1ull << 16;
	victim_damage_words(&victim);
	victim_assert_only(*state, NAM__I_WHOLE, 1);
	victim_repair(&victim);
}

/* A whole image, but of another place. */
static void
verify__stray_copy_of_another_node__I2(void **state)
{
	struct victim victim, other;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	other = victim_of(*state, 30000, 0);
	memcpy(victim.image, other.image, sizeof(victim.image));
	victim_damage_words(&victim);
	victim_assert_among(*state, NAM__I_WHOLE);
	victim_repair(&victim);
}

static void
verify__garbage__I2_AND_AN_END(void **state)
{
	struct nam_rng rng = nam_rng_seed(2);

	victim_plant(*state);
	for (unsigned i = 0; i < test_scaled_least(200, 10); i++) {
		struct victim victim = victim_of(*state, 10 + nam_rng_below(&rng, 10 * VICTIM_KEYS),
			(unsigned)nam_rng_below(&rng, 3));
		unsigned first = 1 + (unsigned)nam_rng_below(&rng, VICTIM_NODE_WORDS - 1);

		for (unsigned word = first; word < VICTIM_NODE_WORDS; word++)
			victim.image[word] = nam_rng_next(&rng);
		victim_damage_words(&victim);
		victim_assert_among(*state, NAM__I_WHOLE);
		victim_repair(&victim);
	}
}

/* Sealed garbage passes for whole: whatever is said about it, nothing may go wrong. */
static void
verify__sealed_garbage__IS_SURVIVED(void **state)
{
	struct nam_rng rng = nam_rng_seed(3);

	victim_plant(*state);
	for (unsigned i = 0; i < test_scaled_least(1000, 20); i++) {
		struct victim victim = victim_of(*state, 10 + nam_rng_below(&rng, 10 * VICTIM_KEYS),
			(unsigned)nam_rng_below(&rng, 3));

		for (unsigned n = 0; n < 1 + i % 3; n++) {
			unsigned word = 2 + (unsigned)nam_rng_below(&rng, 10);

			victim.image[word] = i % 2 ? nam_rng_next(&rng) :
				victim.image[word] ^ 1ull << nam_rng_below(&rng, 64);
		}
		victim_damage(&victim);
		(void)tree_verify(*state);
		victim_repair(&victim);
	}
}

/* ---- I3 ------------------------------------------------------------------------------------ */

static void
verify__another_generation__I3(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	victim.image[NAM__WORD_SHAPE]++;
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_PROMISE, 1);
	victim_repair(&victim);
}

static void
verify__another_level__I3(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	victim.image[NAM__WORD_FRONT]++;
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_PROMISE, 1);
	victim_repair(&victim);
}

static void
verify__another_type__I3(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	nam__node_set_type(victim.image, NAM__NODE_INNER);
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_PROMISE, 1);
	victim_repair(&victim);
}

static void
verify__unknown_flag__I3(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	nam__node_set_type(victim.image, NAM__NODE_LEAF | 0x10);
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_PROMISE, 1);
	victim_repair(&victim);
}

static void
verify__more_entries_than_fit__I3(void **state)
{
	struct victim victim;

	victim_plant(*state);
	for (unsigned level = 0; level < 3; level++) {
		victim = victim_of(*state, 20000, level);
		nam__node_set_counts(victim.image, 1000, 1000);
		victim_damage(&victim);
		victim_assert_only(*state, NAM__I_PROMISE, 1);
		victim_repair(&victim);
	}
}

/* ---- I4 ------------------------------------------------------------------------------------ */

static void
verify__entries_out_of_order__I4(void **state)
{
	struct victim victim;
	uint64_t key;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	key = *victim_leaf_entry(&victim, 3);
	*victim_leaf_entry(&victim, 3) = *victim_leaf_entry(&victim, 4);
	*victim_leaf_entry(&victim, 4) = key;
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_ORDER, 1);
	victim_repair(&victim);
}

static void
verify__key_twice__I4(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	*victim_leaf_entry(&victim, 3) = *victim_leaf_entry(&victim, 4);
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_ORDER, 1);
	victim_repair(&victim);
}

static void
verify__key_twice_in_the_tail__I4(void **state)
{
	struct victim victim;
	unsigned count;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	count = nam__node_count(victim.image);
	memcpy(victim_leaf_entry(&victim, count), victim_leaf_entry(&victim, 1), 16);
	nam__node_set_counts(victim.image, count + 1, count);
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_ORDER, 1);
	victim_repair(&victim);
}

static void
verify__unsorted_tail__IS_LEGAL_UP_TO_ITS_LIMIT(void **state)
{
	struct tree *tree = *state;
	struct victim victim;
	unsigned count, tail;

	victim_plant(tree);
	victim = victim_of(tree, 20000, 0);
	count = nam__node_count(victim.image);
	tail = tree->index->g.tail_max;
	assert_true(count > tail + 1);
	nam__node_set_counts(victim.image, count, count - tail);
	victim_damage(&victim);
	tree_assert_sound(tree);
	nam__node_set_counts(victim.image, count, count - tail - 1);
	victim_damage(&victim);
	victim_assert_only(tree, NAM__I_ORDER, 1);
	victim_repair(&victim);
}

static void
verify__key_outside_of_the_fences__I4(void **state)
{
	struct victim victim;
	unsigned count;

	victim_plant(*state);
	victim = victim_of(*state, 20000, 0);
	*victim_leaf_entry(&victim, 0) = victim.image[NAM__WORD_LOW] - 1;
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_ORDER, 1);
	victim_repair(&victim);
	victim = victim_of(*state, 20000, 0);
	count = nam__node_count(victim.image);
	*victim_leaf_entry(&victim, count - 1) = *victim_high_fence(&victim);
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_ORDER, 1);
	victim_repair(&victim);
}

static void
verify__separators_out_of_order__I4(void **state)
{
	struct victim victim;
	uint64_t swap[2];

	victim_plant(*state);
	victim = victim_of(*state, 20000, 1);
	memcpy(swap, victim_inner_entry(&victim, 2), 16);
	memcpy(victim_inner_entry(&victim, 2), victim_inner_entry(&victim, 3), 16);
	memcpy(victim_inner_entry(&victim, 3), swap, 16);
	victim_damage(&victim);
	victim_assert_among(*state, NAM__I_ORDER);
	victim_repair(&victim);
}

/* ---- I8, I9 -------------------------------------------------------------------------------- */

static void
verify__dead_node_in_the_chain__I8(void **state)
{
	struct victim victim;

	victim_plant(*state);
	for (unsigned level = 0; level < 3; level++) {
		victim = victim_of(*state, 20000, level);
		nam__node_set_type(victim.image,
			nam__node_type_and_flags(victim.image) | NAM__NODE_DEAD);
		victim_damage(&victim);
		victim_assert_only(*state, NAM__I_ALIVE, 1);
		victim_repair(&victim);
	}
}

static void
verify__lock_held__I9(void **state)
{
	struct tree_violations violations;
	struct victim victim;

	victim_plant(*state);
	for (unsigned level = 0; level < 3; level++) {
		victim = victim_of(*state, 20000, level);
		victim.image[NAM__WORD_LOCK] = nam_lock_word(4, 7, 9);
		victim_damage_words(&victim);
		victim_assert_only(*state, NAM__I_UNLOCKED, 1);
		violations = tree_verify(*state);
		assert_non_null(strstr(violations.first, "client 4, incarnation 7"));
		victim_repair(&victim);
	}
}

static void
verify__collectors_word_taken__I9(void **state)
{
	struct tree *tree = *state;
	uint64_t word = nam_lock_word(4, 7, 9);

	victim_plant(tree);
	tree_write(tree, tree->index->superblock, 1, &word, 1);
	victim_assert_only(tree, NAM__I_UNLOCKED, 1);
	word = 0;
	tree_write(tree, tree->index->superblock, 1, &word, 1);
	tree_assert_sound(tree);
}

/* ---- I10 ----------------------------------------------------------------------------------- */

static struct victim
head_victim(struct tree *tree)
{
	struct victim victim = victim_of(tree, 10, 0);

	while (nam__node_type(victim.image) != NAM__NODE_HEAD)
		victim = victim_at(tree, nam__node_sibling(victim.image));
	return victim;
}

static void
verify__stale_hints__ARE_LEGAL(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = head_victim(*state);
	victim_leaf_entry(&victim, 0)[1] = victim.at.raw;
	victim_damage(&victim);
	tree_assert_sound(*state);
	victim_repair(&victim);
}

static void
verify__hint_outside_of_memory__I10(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = head_victim(*state);
	victim_leaf_entry(&victim, 0)[1] = 0x0001ffff00000001ull;
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_HEAD, 1);
	victim_repair(&victim);
}

static void
verify__head_with_a_range__I10(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = head_victim(*state);
	++*victim_high_fence(&victim);
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_HEAD, 1);
	victim_repair(&victim);
}

static void
verify__head_in_the_wrong_place__I10(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = head_victim(*state);
	++victim.image[NAM__WORD_LOW];
	++*victim_high_fence(&victim);
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_HEAD, 1);
	victim_repair(&victim);
}

static void
verify__head_without_a_leaf__I10(void **state)
{
	struct victim victim;

	victim_plant(*state);
	victim = head_victim(*state);
	victim.image[NAM__WORD_SIBLING] = 0;
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_HEAD, 1);
	victim.image[NAM__WORD_SIBLING] = victim.at.raw;
	victim_damage(&victim);
	victim_assert_only(*state, NAM__I_HEAD, 1);
	victim_repair(&victim);
}

#define TEST(name) cmocka_unit_test(verify__##name)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(any_flipped_bit__I2),
		TEST(torn_image__I2),
		TEST(stray_copy_of_another_node__I2),
		TEST(garbage__I2_AND_AN_END),
		TEST(sealed_garbage__IS_SURVIVED),
		TEST(another_generation__I3),
		TEST(another_level__I3),
		TEST(another_type__I3),
		TEST(unknown_flag__I3),
		TEST(more_entries_than_fit__I3),
		TEST(entries_out_of_order__I4),
		TEST(key_twice__I4),
		TEST(key_twice_in_the_tail__I4),
		TEST(unsorted_tail__IS_LEGAL_UP_TO_ITS_LIMIT),
		TEST(key_outside_of_the_fences__I4),
		TEST(separators_out_of_order__I4),
		TEST(dead_node_in_the_chain__I8),
		TEST(lock_held__I9),
		TEST(collectors_word_taken__I9),
		TEST(stale_hints__ARE_LEGAL),
		TEST(hint_outside_of_memory__I10),
		TEST(head_with_a_range__I10),
		TEST(head_in_the_wrong_place__I10),
		TEST(head_without_a_leaf__I10),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
