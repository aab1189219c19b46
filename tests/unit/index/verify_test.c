/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each invariant of index/README.md is broken on purpose, straight in remote memory, and must be
 * reported under its number; the rest of the tree must not be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "index/verify.h"
#include "tests/lib/tree.h"

#define NODE_WORDS 32u
#define KEYS 4000u

/* A fresh tree of several levels for every test; keys are 10, 20, ... 40,000. */
static int
source_next(void *arg, void *key, uint64_t *payload)
{
	uint64_t *next = arg;

	if (*next == KEYS)
		return 0;
	++*next;
	nam_key_from_u64(10 * *next, key);
	*payload = *next;
	return 1;
}

static void
plant(struct tree *tree)
{
	struct nam_index_options options;
	uint64_t next = 0;

	nam_index_options_init(&options);
	options.node_bytes = 8 * NODE_WORDS;
	options.head_interval = 4;
	tree_plant(tree, &options);
	assert_int_equal(nam_index_bulk_load(tree->worker, tree->index, source_next, &next, 80,
				 NULL), 0);
	tree_assert_sound(tree);
}

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

/* ---- breaking things ----------------------------------------------------------------------- */

/* A node to be damaged: its image, and what it was. */
struct victim {
	struct tree *tree;
	struct nam_gaddr at;
	uint64_t image[NODE_WORDS], sound[NODE_WORDS];
};

static struct victim
victim_at(struct tree *tree, struct nam_gaddr at)
{
	struct victim victim = { .tree = tree, .at = at };
	uint64_t *buffer = nam_buffer_take(tree->worker, 8 * NODE_WORDS);

	assert_int_equal(nam_read_await(tree->worker, at, buffer, 8 * NODE_WORDS), 0);
	memcpy(victim.image, buffer, 8 * NODE_WORDS);
	memcpy(victim.sound, buffer, 8 * NODE_WORDS);
	nam_buffer_give(tree->worker, buffer, 8 * NODE_WORDS);
	return victim;
}

static struct victim
victim_of(struct tree *tree, uint64_t key, unsigned level)
{
	uint64_t image[NODE_WORDS];

	return victim_at(tree, tree_node(tree, key, level, image));
}

/* The changed image goes into remote memory as a whole one: hash and ends agree. */
static void
damage(struct victim *victim)
{
	nam__node_seal(&victim->tree->index->g, victim->image, victim->at);
	tree_write(victim->tree, victim->at, 0, victim->image, NODE_WORDS);
}

static void
damage_words(struct victim *victim)
{
	tree_write(victim->tree, victim->at, 0, victim->image, NODE_WORDS);
}

static void
repair(struct victim *victim)
{
	tree_write(victim->tree, victim->at, 0, victim->sound, NODE_WORDS);
	tree_assert_sound(victim->tree);
}

/* The invariant is reported, `times` times (0: at least once), and nothing else is. */
static void
assert_only(struct tree *tree, enum nam__invariant invariant, uint64_t times)
{
	struct tree_violations violations = tree_verify(tree);

	if (violations.total != violations.of[invariant] || !violations.total ||
		(times && violations.total != times))
		fail_msg("I%u %llu times of %llu, the first: %s", invariant,
			(unsigned long long)violations.of[invariant],
			(unsigned long long)violations.total, violations.first);
}

/* The invariant is reported, and perhaps others, which depend on it. */
static void
assert_among(struct tree *tree, enum nam__invariant invariant)
{
	struct tree_violations violations = tree_verify(tree);

	if (!violations.of[invariant])
		fail_msg("I%u is not among %llu, the first: %s", invariant,
			(unsigned long long)violations.total, violations.first);
}

static uint64_t *
leaf_entry(struct victim *victim, unsigned number)
{
	return nam__leaf_entry(&victim->tree->index->g, victim->image, number);
}

static uint64_t *
inner_entry(struct victim *victim, unsigned number)
{
	return nam__inner_entry(&victim->tree->index->g, victim->image, number);
}

static uint64_t *
high_fence(struct victim *victim)
{
	return victim->image + NAM__WORD_LOW + victim->tree->index->g.full_words;
}

/* ---- sound trees --------------------------------------------------------------------------- */

static void
verify__sound_tree__REPORTS_NOTHING(void **state)
{
	plant(*state);
	assert_int_equal(tree_verify(*state).total, 0);
}

static void
verify__no_callback__COUNTS(void **state)
{
	struct tree *tree = *state;
	struct victim victim;
	uint64_t violations = 0;

	plant(tree);
	victim = victim_of(tree, 20000, 0);
	victim.image[NAM__WORD_HASH] ^= 1;
	damage_words(&victim);
	assert_int_equal(nam_index_verify(tree->worker, tree->index, NULL, NULL, &violations), 0);
	assert_int_equal(violations, 1);
}

/* ---- I1 ------------------------------------------------------------------------------------ */

static void
verify__gap_between_leaves__I1(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	*high_fence(&victim) -= 5;
	damage(&victim);
	assert_only(*state, NAM__I_CHAIN, 1);
	repair(&victim);
}

static void
verify__leaves_overlap__I1(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	*high_fence(&victim) += 5;
	damage(&victim);
	assert_only(*state, NAM__I_CHAIN, 1);
	repair(&victim);
}

static void
verify__sibling_skips_a_leaf__I1(void **state)
{
	struct victim victim, next;

	plant(*state);
	/* Two leaves without a head node between them. */
	for (uint64_t key = 20000;; key += 10) {
		victim = victim_of(*state, key, 0);
		next = victim_at(*state, nam__node_sibling(victim.image));
		if (nam__node_type(next.image) == NAM__NODE_LEAF)
			break;
	}
	victim.image[NAM__WORD_SIBLING] = next.image[NAM__WORD_SIBLING];
	damage(&victim);
	assert_among(*state, NAM__I_CHAIN);
	assert_among(*state, NAM__I_PARENT);
	repair(&victim);
}

static void
verify__siblings_in_a_circle__I1_AND_AN_END(void **state)
{
	struct victim victim, first;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	first = victim_of(*state, 10, 0);
	victim.image[NAM__WORD_SIBLING] = first.at.raw;
	damage(&victim);
	assert_among(*state, NAM__I_CHAIN);
	repair(&victim);
	victim.image[NAM__WORD_SIBLING] = victim.at.raw;
	damage(&victim);
	assert_among(*state, NAM__I_CHAIN);
	repair(&victim);
}

static void
verify__no_sibling__I1(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	victim.image[NAM__WORD_SIBLING] = 0;
	damage(&victim);
	assert_only(*state, NAM__I_CHAIN, 1);
	repair(&victim);
}

static void
verify__pointer_outside_of_memory__I1(void **state)
{
	static const uint64_t pointers[] = { 0x0001ffff00000000ull, 0x00010000ffffffffull };
	struct victim victim;

	plant(*state);
	for (unsigned i = 0; i < 2; i++) {
		victim = victim_of(*state, 20000, 0);
		victim.image[NAM__WORD_SIBLING] = pointers[i];
		damage(&victim);
		assert_only(*state, NAM__I_CHAIN, 1);
		repair(&victim);
	}
}

static void
verify__last_leaf_has_a_sibling__I1(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 10 * KEYS, 0);
	assert_true(nam__node_last(victim.image));
	victim.image[NAM__WORD_SIBLING] = victim.at.raw;
	damage(&victim);
	assert_only(*state, NAM__I_CHAIN, 1);
	repair(&victim);
}

static void
verify__leftmost_leaf_begins_above_zero__I1(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 10, 0);
	victim.image[NAM__WORD_LOW] = 5;
	damage(&victim);
	assert_among(*state, NAM__I_CHAIN);
	repair(&victim);
}

static void
verify__gap_between_inner_nodes__I1(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 10, 1);
	*high_fence(&victim) -= 5;
	damage(&victim);
	assert_only(*state, NAM__I_CHAIN, 1);
	repair(&victim);
}

/* ---- I2 ------------------------------------------------------------------------------------ */

static void
verify__any_flipped_bit__I2(void **state)
{
	struct nam_rng rng = nam_rng_seed(1);

	plant(*state);
	/* Any word but the lock, which is not part of the image, of nodes on every level. */
	for (unsigned i = 0; i < 200; i++) {
		struct victim victim = victim_of(*state, 10 + nam_rng_below(&rng, 10 * KEYS),
			(unsigned)nam_rng_below(&rng, 3));

		victim.image[1 + nam_rng_below(&rng, NODE_WORDS - 1)] ^=
			1ull << nam_rng_below(&rng, 64);
		damage_words(&victim);
		assert_among(*state, NAM__I_WHOLE);
		repair(&victim);
	}
}

static void
verify__torn_image__I2(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	victim.image[NODE_WORDS - 1] += 1ull << 16;
	damage_words(&victim);
	assert_only(*state, NAM__I_WHOLE, 1);
	repair(&victim);
}

/* A whole image, but of another place. */
static void
verify__stray_copy_of_another_node__I2(void **state)
{
	struct victim victim, other;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	other = victim_of(*state, 30000, 0);
	memcpy(victim.image, other.image, sizeof(victim.image));
	damage_words(&victim);
	assert_among(*state, NAM__I_WHOLE);
	repair(&victim);
}

static void
verify__garbage__I2_AND_AN_END(void **state)
{
	struct nam_rng rng = nam_rng_seed(2);

	plant(*state);
	for (unsigned i = 0; i < 200; i++) {
		struct victim victim = victim_of(*state, 10 + nam_rng_below(&rng, 10 * KEYS),
			(unsigned)nam_rng_below(&rng, 3));
		unsigned first = 1 + (unsigned)nam_rng_below(&rng, NODE_WORDS - 1);

		for (unsigned word = first; word < NODE_WORDS; word++)
			victim.image[word] = nam_rng_next(&rng);
		damage_words(&victim);
		assert_among(*state, NAM__I_WHOLE);
		repair(&victim);
	}
}

/* Sealed garbage passes for whole: whatever is said about it, nothing may go wrong. */
static void
verify__sealed_garbage__IS_SURVIVED(void **state)
{
	struct nam_rng rng = nam_rng_seed(3);

	plant(*state);
	for (unsigned i = 0; i < 1000; i++) {
		struct victim victim = victim_of(*state, 10 + nam_rng_below(&rng, 10 * KEYS),
			(unsigned)nam_rng_below(&rng, 3));

		for (unsigned n = 0; n < 1 + i % 3; n++) {
			unsigned word = 2 + (unsigned)nam_rng_below(&rng, 10);

			victim.image[word] = i % 2 ? nam_rng_next(&rng) :
				victim.image[word] ^ 1ull << nam_rng_below(&rng, 64);
		}
		damage(&victim);
		(void)tree_verify(*state);
		repair(&victim);
	}
}

/* ---- I3 ------------------------------------------------------------------------------------ */

static void
verify__another_generation__I3(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	victim.image[NAM__WORD_SHAPE]++;
	damage(&victim);
	assert_only(*state, NAM__I_PROMISE, 1);
	repair(&victim);
}

static void
verify__another_level__I3(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	victim.image[NAM__WORD_FRONT]++;
	damage(&victim);
	assert_only(*state, NAM__I_PROMISE, 1);
	repair(&victim);
}

static void
verify__another_type__I3(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	nam__node_set_type(victim.image, NAM__NODE_INNER);
	damage(&victim);
	assert_only(*state, NAM__I_PROMISE, 1);
	repair(&victim);
}

static void
verify__unknown_flag__I3(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	nam__node_set_type(victim.image, NAM__NODE_LEAF | 0x10);
	damage(&victim);
	assert_only(*state, NAM__I_PROMISE, 1);
	repair(&victim);
}

static void
verify__more_entries_than_fit__I3(void **state)
{
	struct victim victim;

	plant(*state);
	for (unsigned level = 0; level < 3; level++) {
		victim = victim_of(*state, 20000, level);
		nam__node_set_counts(victim.image, 1000, 1000);
		damage(&victim);
		assert_only(*state, NAM__I_PROMISE, 1);
		repair(&victim);
	}
}

/* ---- I4 ------------------------------------------------------------------------------------ */

static void
verify__entries_out_of_order__I4(void **state)
{
	struct victim victim;
	uint64_t key;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	key = *leaf_entry(&victim, 3);
	*leaf_entry(&victim, 3) = *leaf_entry(&victim, 4);
	*leaf_entry(&victim, 4) = key;
	damage(&victim);
	assert_only(*state, NAM__I_ORDER, 1);
	repair(&victim);
}

static void
verify__key_twice__I4(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	*leaf_entry(&victim, 3) = *leaf_entry(&victim, 4);
	damage(&victim);
	assert_only(*state, NAM__I_ORDER, 1);
	repair(&victim);
}

static void
verify__key_twice_in_the_tail__I4(void **state)
{
	struct victim victim;
	unsigned count;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	count = nam__node_count(victim.image);
	memcpy(leaf_entry(&victim, count), leaf_entry(&victim, 1), 16);
	nam__node_set_counts(victim.image, count + 1, count);
	damage(&victim);
	assert_only(*state, NAM__I_ORDER, 1);
	repair(&victim);
}

static void
verify__unsorted_tail__IS_LEGAL_UP_TO_ITS_LIMIT(void **state)
{
	struct tree *tree = *state;
	struct victim victim;
	unsigned count, tail;

	plant(tree);
	victim = victim_of(tree, 20000, 0);
	count = nam__node_count(victim.image);
	tail = tree->index->g.tail_max;
	assert_true(count > tail + 1);
	nam__node_set_counts(victim.image, count, count - tail);
	damage(&victim);
	tree_assert_sound(tree);
	nam__node_set_counts(victim.image, count, count - tail - 1);
	damage(&victim);
	assert_only(tree, NAM__I_ORDER, 1);
	repair(&victim);
}

static void
verify__key_outside_of_the_fences__I4(void **state)
{
	struct victim victim;
	unsigned count;

	plant(*state);
	victim = victim_of(*state, 20000, 0);
	*leaf_entry(&victim, 0) = victim.image[NAM__WORD_LOW] - 1;
	damage(&victim);
	assert_only(*state, NAM__I_ORDER, 1);
	repair(&victim);
	victim = victim_of(*state, 20000, 0);
	count = nam__node_count(victim.image);
	*leaf_entry(&victim, count - 1) = *high_fence(&victim);
	damage(&victim);
	assert_only(*state, NAM__I_ORDER, 1);
	repair(&victim);
}

static void
verify__separators_out_of_order__I4(void **state)
{
	struct victim victim;
	uint64_t swap[2];

	plant(*state);
	victim = victim_of(*state, 20000, 1);
	memcpy(swap, inner_entry(&victim, 2), 16);
	memcpy(inner_entry(&victim, 2), inner_entry(&victim, 3), 16);
	memcpy(inner_entry(&victim, 3), swap, 16);
	damage(&victim);
	assert_among(*state, NAM__I_ORDER);
	repair(&victim);
}

/* ---- I5, I6, I7 ---------------------------------------------------------------------------- */

static void
verify__first_separator_is_not_the_low_fence__I5(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 20000, 1);
	++*inner_entry(&victim, 0);
	damage(&victim);
	/* Once for the node itself and once for the child, whose low fence it is not. */
	assert_only(*state, NAM__I_SEPARATOR, 2);
	repair(&victim);
}

static void
verify__separator_is_not_its_childs_low_fence__I5(void **state)
{
	struct victim victim;

	plant(*state);
	for (int shift = -1; shift < 2; shift += 2) {
		victim = victim_of(*state, 20000, 1);
		*inner_entry(&victim, 3) += (uint64_t)(int64_t)shift;
		damage(&victim);
		assert_only(*state, NAM__I_SEPARATOR, 1);
		repair(&victim);
	}
}

static void
verify__separator_names_another_node__I6(void **state)
{
	struct victim victim;

	plant(*state);
	victim = victim_of(*state, 20000, 1);
	inner_entry(&victim, 3)[1] = inner_entry(&victim, 1)[1];
	damage(&victim);
	assert_only(*state, NAM__I_PARENT, 1);
	repair(&victim);
}

static void
verify__separator_too_many__I6(void **state)
{
	struct victim victim;
	struct nam__dirty dirty;
	uint64_t key;

	plant(*state);
	victim = victim_of(*state, 20000, 1);
	key = *inner_entry(&victim, 3) + 5;
	assert_int_equal(nam__inner_add(&((struct tree *)*state)->index->g, victim.image, &key,
		(struct nam_gaddr){ inner_entry(&victim, 1)[1] }, &dirty), 0);
	damage(&victim);
	assert_only(*state, NAM__I_PARENT, 1);
	repair(&victim);
}

/* The last separator of all: found when the level below is at its end. */
static void
verify__separator_too_many_at_the_end__I6(void **state)
{
	struct victim victim;
	struct nam__dirty dirty;
	uint64_t key = UINT64_MAX;

	plant(*state);
	victim = victim_of(*state, 10 * KEYS, 1);
	assert_int_equal(nam__inner_add(&((struct tree *)*state)->index->g, victim.image, &key,
		(struct nam_gaddr){ inner_entry(&victim, 0)[1] }, &dirty), 0);
	damage(&victim);
	assert_only(*state, NAM__I_PARENT, 1);
	repair(&victim);
}

static void
verify__missing_separator__I7(void **state)
{
	struct victim victim;
	struct nam__dirty dirty;

	plant(*state);
	for (unsigned level = 1; level < 3; level++) {
		victim = victim_of(*state, 20000, level);
		assert_true(nam__node_count(victim.image) > 2);
		nam__inner_remove(&((struct tree *)*state)->index->g, victim.image, 2, &dirty);
		damage(&victim);
		assert_only(*state, NAM__I_NAMED, 1);
		repair(&victim);
	}
}

/* The root pointer leads to the leftmost node of a level that has several. */
static void
verify__nodes_right_of_the_root__I7(void **state)
{
	struct tree *tree = *state;
	struct victim victim;
	uint64_t root;

	plant(tree);
	root = atomic_load(&tree->index->root);
	victim = victim_of(tree, 0, 1);
	tree_write(tree, tree->index->superblock, 0, &victim.at.raw, 1);
	assert_among(tree, NAM__I_NAMED);
	assert_int_equal(tree_verify(tree).total, tree_verify(tree).of[NAM__I_NAMED]);
	tree_write(tree, tree->index->superblock, 0, &root, 1);
	tree_assert_sound(tree);
}

/* ---- I8, I9 -------------------------------------------------------------------------------- */

static void
verify__dead_node_in_the_chain__I8(void **state)
{
	struct victim victim;

	plant(*state);
	for (unsigned level = 0; level < 3; level++) {
		victim = victim_of(*state, 20000, level);
		nam__node_set_type(victim.image,
			nam__node_type_and_flags(victim.image) | NAM__NODE_DEAD);
		damage(&victim);
		assert_only(*state, NAM__I_ALIVE, 1);
		repair(&victim);
	}
}

static void
verify__lock_held__I9(void **state)
{
	struct tree_violations violations;
	struct victim victim;

	plant(*state);
	for (unsigned level = 0; level < 3; level++) {
		victim = victim_of(*state, 20000, level);
		victim.image[NAM__WORD_LOCK] = nam_lock_word(4, 7, 9);
		damage_words(&victim);
		assert_only(*state, NAM__I_UNLOCKED, 1);
		violations = tree_verify(*state);
		assert_non_null(strstr(violations.first, "client 4, incarnation 7"));
		repair(&victim);
	}
}

static void
verify__collectors_word_taken__I9(void **state)
{
	struct tree *tree = *state;
	uint64_t word = nam_lock_word(4, 7, 9);

	plant(tree);
	tree_write(tree, tree->index->superblock, 1, &word, 1);
	assert_only(tree, NAM__I_UNLOCKED, 1);
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

	plant(*state);
	victim = head_victim(*state);
	leaf_entry(&victim, 0)[1] = victim.at.raw;
	damage(&victim);
	tree_assert_sound(*state);
	repair(&victim);
}

static void
verify__hint_outside_of_memory__I10(void **state)
{
	struct victim victim;

	plant(*state);
	victim = head_victim(*state);
	leaf_entry(&victim, 0)[1] = 0x0001ffff00000001ull;
	damage(&victim);
	assert_only(*state, NAM__I_HEAD, 1);
	repair(&victim);
}

static void
verify__head_with_a_range__I10(void **state)
{
	struct victim victim;

	plant(*state);
	victim = head_victim(*state);
	++*high_fence(&victim);
	damage(&victim);
	assert_only(*state, NAM__I_HEAD, 1);
	repair(&victim);
}

static void
verify__head_in_the_wrong_place__I10(void **state)
{
	struct victim victim;

	plant(*state);
	victim = head_victim(*state);
	++victim.image[NAM__WORD_LOW];
	++*high_fence(&victim);
	damage(&victim);
	assert_only(*state, NAM__I_HEAD, 1);
	repair(&victim);
}

static void
verify__head_without_a_leaf__I10(void **state)
{
	struct victim victim;

	plant(*state);
	victim = head_victim(*state);
	victim.image[NAM__WORD_SIBLING] = 0;
	damage(&victim);
	assert_only(*state, NAM__I_HEAD, 1);
	victim.image[NAM__WORD_SIBLING] = victim.at.raw;
	damage(&victim);
	assert_only(*state, NAM__I_HEAD, 1);
	repair(&victim);
}

/* ---- I11 ----------------------------------------------------------------------------------- */

static void
verify__superblock_changed__I11(void **state)
{
	struct tree *tree = *state;
	uint64_t words[16], *buffer;

	plant(tree);
	buffer = nam_buffer_take(tree->worker, sizeof(words));
	assert_int_equal(nam_read_await(tree->worker, tree->index->superblock, buffer,
				 sizeof(words)), 0);
	memcpy(words, buffer, sizeof(words));
	nam_buffer_give(tree->worker, buffer, sizeof(words));
	for (unsigned word = 4; word < 8; word++) {
		uint64_t wrong = words[word] ^ 1;

		tree_write(tree, tree->index->superblock, word, &wrong, 1);
		assert_only(tree, NAM__I_SUPERBLOCK, 1);
		tree_write(tree, tree->index->superblock, word, &words[word], 1);
	}
	tree_assert_sound(tree);
}

static void
verify__root_pointer_outside_of_memory__I11(void **state)
{
	struct tree *tree = *state;
	uint64_t root, wrong = 0x0001ffff00000001ull;

	plant(tree);
	root = atomic_load(&tree->index->root);
	tree_write(tree, tree->index->superblock, 0, &wrong, 1);
	assert_only(tree, NAM__I_SUPERBLOCK, 1);
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
		TEST(first_separator_is_not_the_low_fence__I5),
		TEST(separator_is_not_its_childs_low_fence__I5),
		TEST(separator_names_another_node__I6),
		TEST(separator_too_many__I6),
		TEST(separator_too_many_at_the_end__I6),
		TEST(missing_separator__I7),
		TEST(nodes_right_of_the_root__I7),
		TEST(dead_node_in_the_chain__I8),
		TEST(lock_held__I9),
		TEST(collectors_word_taken__I9),
		TEST(stale_hints__ARE_LEGAL),
		TEST(hint_outside_of_memory__I10),
		TEST(head_with_a_range__I10),
		TEST(head_in_the_wrong_place__I10),
		TEST(head_without_a_leaf__I10),
		TEST(superblock_changed__I11),
		TEST(root_pointer_outside_of_memory__I11),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
