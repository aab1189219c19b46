/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_model.h -- a model of a small tree, operations on both, and what tests of whole trees ask.
 *
 * Everything here asserts.
 */
#ifndef NAM_TESTS_LIB_TREE_MODEL_H
#define NAM_TESTS_LIB_TREE_MODEL_H

#include "tree.h"

#define TREE_MODEL_KEYS_MAX 6000u
/* How many there are this time. */
#define TREE_MODEL_KEYS tree_model_keys()

/* Which of the keys are there, and with which payload. */
struct tree_model {
	uint64_t payload[TREE_MODEL_KEYS_MAX];	/* 0: no such key */
};

/* As many as NAM_TEST_SCALE leaves of them. */
uint64_t tree_model_keys(void);

/* Each does to the tree what it does to the model, and expects the model's answer. */
void tree_model_insert(struct tree *tree, struct tree_model *model, uint64_t number,
	uint64_t payload);
void tree_model_delete(struct tree *tree, struct tree_model *model, uint64_t number);
void tree_model_lookup(struct tree *tree, struct tree_model *model, uint64_t number);

/* A scan over everything. */
void tree_model_scan(struct tree *tree, struct tree_model *model, bool reverse);

/* Look every key up, and scan both ways. */
void tree_model_check(struct tree *tree, struct tree_model *model);

/* Most of the model's keys, in a random order. */
void tree_model_fill(struct tree *tree, struct tree_model *model, uint64_t seed);

/* Nodes of 256 bytes and head nodes every 8 leaves: trees of several levels at once. */
struct nam_index_options tree_options_small(void);

struct nam_collect_stat tree_collect(struct tree *tree);
struct nam_index_stat tree_stat(struct tree *tree);

#endif /* NAM_TESTS_LIB_TREE_MODEL_H */
