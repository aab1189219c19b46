/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim.c -- see victim.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "victim.h"

/* A fresh tree of several levels for every test; keys are 10, 20, ... 40,000. */
static int
source_next(void *arg, void *key, uint64_t *payload)
{
	uint64_t *next = arg;

	if (*next == VICTIM_KEYS)
		return NAM_INDEX_END;
	++*next;
	nam_key_from_u64(10 * *next, key);
	*payload = *next;
	return NAM_INDEX_PAIR;
}

void
victim_plant(struct tree *tree)
{
	struct nam_index_options options;
	uint64_t next = 0;

	nam_index_options_init(&options);
	options.node_bytes = 8 * VICTIM_NODE_WORDS;
	options.head_interval = 4;
	tree_plant(tree, &options);
	assert_int_equal(nam_index_bulk_load(tree->worker, tree->index, source_next, &next, 80,
				 NULL), 0);
	tree_assert_sound(tree);
}

struct victim
victim_at(struct tree *tree, struct nam_gaddr at)
{
	struct victim victim = { .tree = tree, .at = at };
	uint64_t *buffer = nam_buffer_take(tree->worker, 8 * VICTIM_NODE_WORDS);

	assert_int_equal(nam_read_await(tree->worker, at, buffer, 8 * VICTIM_NODE_WORDS), 0);
	memcpy(victim.image, buffer, 8 * VICTIM_NODE_WORDS);
	memcpy(victim.sound, buffer, 8 * VICTIM_NODE_WORDS);
	nam_buffer_give(tree->worker, buffer, 8 * VICTIM_NODE_WORDS);
	return victim;
}

struct victim
victim_of(struct tree *tree, uint64_t key, unsigned level)
{
	uint64_t image[VICTIM_NODE_WORDS];

	return victim_at(tree, tree_node(tree, key, level, image));
}

/* The changed image goes into remote memory as a whole one: hash and ends agree. */
void
victim_damage(struct victim *victim)
{
	nam__node_seal(&victim->tree->index->g, victim->image, victim->at);
	tree_write(victim->tree, victim->at, 0, victim->image, VICTIM_NODE_WORDS);
}

void
victim_damage_words(struct victim *victim)
{
	tree_write(victim->tree, victim->at, 0, victim->image, VICTIM_NODE_WORDS);
}

void
victim_repair(struct victim *victim)
{
	tree_write(victim->tree, victim->at, 0, victim->sound, VICTIM_NODE_WORDS);
	tree_assert_sound(victim->tree);
}

/* The invariant is reported, `times` times (0: at least once), and nothing else is. */
void
victim_assert_only(struct tree *tree, enum nam__invariant invariant, uint64_t times)
{
	struct tree_violations violations = tree_verify(tree);

	if (violations.total != violations.of[invariant] || !violations.total ||
		(times && violations.total != times))
		fail_msg("I%u %llu times of %llu, the first: %s", invariant,
			(unsigned long long)violations.of[invariant],
			(unsigned long long)violations.total, violations.first);
}

/* The invariant is reported, and perhaps others, which depend on it. */
void
victim_assert_among(struct tree *tree, enum nam__invariant invariant)
{
	struct tree_violations violations = tree_verify(tree);

	if (!violations.of[invariant])
		fail_msg("I%u is not among %llu, the first: %s", invariant,
			(unsigned long long)violations.total, violations.first);
}

uint64_t *
victim_leaf_entry(struct victim *victim, unsigned number)
{
	return nam__leaf_entry(&victim->tree->index->g, victim->image, number);
}

uint64_t *
victim_inner_entry(struct victim *victim, unsigned number)
{
	return nam__inner_entry(&victim->tree->index->g, victim->image, number);
}

uint64_t *
victim_high_fence(struct victim *victim)
{
	return victim->image + NAM__WORD_LOW + victim->tree->index->g.full_words;
}
