/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim.h -- break a tree on purpose, straight in remote memory, and see what the verifier says.
 *
 * Everything here asserts.
 */
#ifndef NAM_TESTS_LIB_VICTIM_H
#define NAM_TESTS_LIB_VICTIM_H

#include "index/maintain/verify.h"
#include "tree.h"

#define VICTIM_NODE_WORDS 32u
#define VICTIM_KEYS 4000u

/* A fresh tree of several levels, with keys 10, 20, ... and a head node every 4 leaves. */
void victim_plant(struct tree *tree);

/* A node to be damaged: its image, and what it was. */
struct victim {
	struct tree *tree;
	struct nam_gaddr at;
	uint64_t image[VICTIM_NODE_WORDS], sound[VICTIM_NODE_WORDS];
};

struct victim victim_at(struct tree *tree, struct nam_gaddr at);
/* The node at `level` that covers a key. */
struct victim victim_of(struct tree *tree, uint64_t key, unsigned level);

uint64_t *victim_leaf_entry(struct victim *victim, unsigned number);
uint64_t *victim_inner_entry(struct victim *victim, unsigned number);
uint64_t *victim_high_fence(struct victim *victim);

/* Write the changed image as a whole one, hash and ends agreeing; or just as it is. */
void victim_damage(struct victim *victim);
void victim_damage_words(struct victim *victim);
/* As it was; the tree must be sound again. */
void victim_repair(struct victim *victim);

/* The invariant is reported, `times` times (0: at least once), and nothing else is. */
void victim_assert_only(struct tree *tree, enum nam__invariant invariant, uint64_t times);
/* The invariant is reported, and perhaps others, which depend on it. */
void victim_assert_among(struct tree *tree, enum nam__invariant invariant);

#endif /* NAM_TESTS_LIB_VICTIM_H */
