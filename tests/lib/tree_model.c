/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_model.c -- see tree_model.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tree_model.h"

uint64_t
tree_model_keys(void)
{
	return test_scaled_least(TREE_MODEL_KEYS_MAX, TREE_MODEL_KEYS_MAX / 10);
}

static void
tree_model_key(uint64_t number, uint8_t *key)
{
	nam_key_from_u64(number * 3 + 1, key);
}

void
tree_model_insert(struct tree *tree, struct tree_model *model, uint64_t number, uint64_t payload)
{
	int expected = model->payload[number] ? -NAM_E_EXISTS : 0;
	uint8_t key[8];

	tree_model_key(number, key);
	assert_int_equal(nam_index_insert(tree->worker, tree->index, key, payload), expected);
	if (!expected)
		model->payload[number] = payload;
}

void
tree_model_delete(struct tree *tree, struct tree_model *model, uint64_t number)
{
	int expected = model->payload[number] ? 0 : -NAM_E_NOTFOUND;
	uint8_t key[8];

	tree_model_key(number, key);
	assert_int_equal(nam_index_delete(tree->worker, tree->index, key), expected);
	model->payload[number] = 0;
}

void
tree_model_lookup(struct tree *tree, struct tree_model *model, uint64_t number)
{
	uint64_t payload = 0;
	uint8_t key[8];
	int rc;

	tree_model_key(number, key);
	rc = nam_index_lookup(tree->worker, tree->index, key, &payload);
	assert_int_equal(rc, model->payload[number] ? 0 : -NAM_E_NOTFOUND);
	assert_int_equal(payload, model->payload[number]);
}

void
tree_model_scan(struct tree *tree, struct tree_model *model, bool reverse)
{
	uint64_t keys[256], payloads[256], number = reverse ? TREE_MODEL_KEYS - 1 : 0;
	struct nam_range range = { .reverse = reverse };
	struct nam_cursor *cursor;
	uint8_t key[8];
	uint32_t count;

	assert_int_equal(nam_cursor_open(tree->worker, tree->index, &range, &cursor), 0);
	do {
		assert_int_equal(nam_cursor_next(cursor, keys, payloads, 256, &count), 0);
		for (uint32_t i = 0; i < count; i++) {
			while (number < TREE_MODEL_KEYS && !model->payload[number])
				number += reverse ? -1ull : 1;
			assert_in_range(number, 0, TREE_MODEL_KEYS - 1);
			tree_model_key(number, key);
			assert_memory_equal(&keys[i], key, 8);
			assert_int_equal(payloads[i], model->payload[number]);
			number += reverse ? -1ull : 1;
		}
	} while (count);
	while (number < TREE_MODEL_KEYS && !model->payload[number])
		number += reverse ? -1ull : 1;
	assert_true(number >= TREE_MODEL_KEYS);
	nam_cursor_close(cursor);
}

void
tree_model_check(struct tree *tree, struct tree_model *model)
{
	for (uint64_t number = 0; number < TREE_MODEL_KEYS; number++)
		tree_model_lookup(tree, model, number);
	tree_model_scan(tree, model, false);
	tree_model_scan(tree, model, true);
}

struct nam_collect_stat
tree_collect(struct tree *tree)
{
	struct nam_collect_stat stat;
	int rc = nam_index_collect(tree->worker, tree->index, &stat);

	if (rc)
		fail_msg("%s: %s", nam_err_name(rc), nam_worker_diag(tree->worker));
	return stat;
}

struct nam_index_stat
tree_stat(struct tree *tree)
{
	struct nam_index_stat stat;

	assert_int_equal(nam_index_stat(tree->worker, tree->index, &stat), 0);
	return stat;
}

struct nam_index_options
tree_options_small(void)
{
	struct nam_index_options options;

	nam_index_options_init(&options);
	options.node_bytes = 256;
	options.head_interval = 8;
	return options;
}

/* All of the model's keys, in a random order. */
void
tree_model_fill(struct tree *tree, struct tree_model *model, uint64_t seed)
{
	struct nam_rng rng = nam_rng_seed(seed);

	for (uint64_t i = 0; i < 4 * TREE_MODEL_KEYS; i++) {
		uint64_t number = nam_rng_below(&rng, TREE_MODEL_KEYS);

		if (!model->payload[number])
			tree_model_insert(tree, model, number, i + 1);
	}
}
