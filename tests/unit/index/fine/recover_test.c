/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover_test.c -- locks of dead clients: those that the next writer takes over, and those that
 * stay (I20).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "index/maintain/maintain.h"
#include "tests/lib/tree_model.h"

#define LOCK_MS 500u
#define BOUND_NS test_bound_ns(LOCK_MS * 1000000ull + 2000000000ull)
#define NODE_WORDS 32u			/* of 256 bytes */
#define FIBERS 32u
#define MIDDLE (TREE_MODEL_KEYS / 4 * 2)	/* a number that is there; the next one is not */

static struct tree tree;
static struct tree_model model;

static int
start(void **state)
{
	(void)state;
	tree_lock_timeout_ms = (uint32_t)(test_bound_ns(LOCK_MS * 1000000ull) / 1000000);
	tree_start(&tree, 2, 64u << 20);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	tree_stop(&tree);
	return 0;
}

/* Half of the model's keys: the even numbers. */
static void
plant(void)
{
	struct nam_index_options options = tree_options_small();

	memset(&model, 0, sizeof(model));
	tree_plant(&tree, &options);
	for (uint64_t number = 0; number < TREE_MODEL_KEYS; number += 2)
		tree_model_insert(&tree, &model, number, number + 1);
}

static void
key_of(uint64_t number, uint8_t *key)
{
	nam_key_from_u64(3 * number + 1, key);
}

static int
insert(uint64_t number)
{
	uint8_t key[8];

	key_of(number, key);
	return nam_index_insert(tree.worker, tree.index, key, number + 1); /* SUSPENDS */
}

static int
lookup(uint64_t number)
{
	uint64_t payload;
	uint8_t key[8];

	key_of(number, key);
	return nam_index_lookup(tree.worker, tree.index, key, &payload);
}

static uint64_t
word_at(struct nam_gaddr at, unsigned number)
{
	uint64_t *image = nam_buffer_take(tree.worker, 8 * NODE_WORDS), word;

	assert_int_equal(nam_read_await(tree.worker, at, image, 8 * NODE_WORDS), 0);
	word = image[number];
	nam_buffer_give(tree.worker, image, 8 * NODE_WORDS);
	return word;
}

static void
poke(struct nam_gaddr at, unsigned number, uint64_t word)
{
	tree_write(&tree, at, number, &word, 1);
}

static void
check(void)
{
	tree_assert_sound(&tree);
	tree_model_check(&tree, &model);
}

/* ---- a guest that holds a lock ------------------------------------------------------------- */

/* At `level`, the node that covers MIDDLE. */
static void
come_and_lock(struct tree_guest *guest, unsigned level, struct nam__held *held)
{
	uint64_t image[NODE_WORDS];
	struct nam_gaddr at = tree_node(&tree, 3 * MIDDLE + 1, level, image);

	tree_guest_come(local_cluster_list(tree.cluster), guest);
	held->image = nam_buffer_take(guest->worker, 8 * NODE_WORDS);
	nam__op_begin(guest->worker, NAM_OP_OTHER);
	assert_int_equal(nam__lock_node(guest->worker, guest->index, at, (int)level, held), 0);
	nam__op_end(guest->worker);
	assert_int_equal(word_at(at, NAM__WORD_LOCK), held->lock.word);
}

/* It dies with the lock, and the memory servers know.  Returns the lock word. */
static uint64_t
lock_and_die(unsigned level, struct nam_gaddr *ret_at)
{
	struct tree_guest guest;
	struct nam__held held;

	come_and_lock(&guest, level, &held);
	tree_guest_go(&guest);
	tree_await_dead(&tree, held.lock.word);
	*ret_at = held.at;
	return held.lock.word;
}

static void
expect(int rc, int expected, uint64_t start_ns, uint64_t word)
{
	char text[32];

	assert_int_equal(rc, expected);
	assert_true(nam_now_ns() - start_ns < BOUND_NS);
	(void)snprintf(text, sizeof(text), "client %u,", nam_lock_owner(word));
	assert_non_null(strstr(nam_worker_diag(tree.worker), text));
	assert_non_null(strstr(nam_worker_diag(tree.worker), "(guest, "));
}

/* ---- tests --------------------------------------------------------------------------------- */

static void
leaf__its_holder_died__NEXT_WRITER_TAKES_IT_OVER(void **state)
{
	struct nam_gaddr at;
	uint64_t start_ns;

	(void)state;
	plant();
	(void)lock_and_die(0, &at);
	start_ns = nam_now_ns();
	tree_model_insert(&tree, &model, MIDDLE + 1, 7);
	assert_true(nam_now_ns() - start_ns < BOUND_NS);
	assert_int_equal(word_at(at, NAM__WORD_LOCK), NAM_LOCK_FREE);
	check();
}

/* The word is the new holder's, and the node is as it was. */
static void
take_over(unsigned level)
{
	struct nam__held held = { .image = nam_buffer_take(tree.worker, 8 * NODE_WORDS) };
	uint64_t start_ns, version, dead;
	struct nam_gaddr at;

	dead = lock_and_die(level, &at);
	version = word_at(at, NAM__WORD_FRONT);
	start_ns = nam_now_ns();
	nam__op_begin(tree.worker, NAM_OP_OTHER);
	assert_int_equal(nam__lock_node(tree.worker, tree.index, at, (int)level, &held), 0);
	assert_true(nam_now_ns() - start_ns < BOUND_NS);
	assert_int_not_equal(held.lock.word, dead);
	assert_int_equal(nam_lock_owner(held.lock.word), nam_client_id(tree.client));
	assert_int_equal(word_at(at, NAM__WORD_LOCK), held.lock.word);
	assert_int_equal(held.image[NAM__WORD_FRONT], version);
	assert_int_equal(nam__unlock(tree.worker, &held), 0);
	nam__op_end(tree.worker);
	nam_buffer_give(tree.worker, held.image, 8 * NODE_WORDS);
	assert_int_equal(word_at(at, NAM__WORD_LOCK), NAM_LOCK_FREE);
	check();
}

static void
inner_node__its_holder_died__NEXT_WRITER_TAKES_IT_OVER(void **state)
{
	(void)state;
	plant();
	assert_true(tree_stat(&tree).height > 2);
	take_over(1);
}

static void
root__its_holder_died__NEXT_WRITER_TAKES_IT_OVER(void **state)
{
	(void)state;
	plant();
	take_over(tree_stat(&tree).height - 1);
}

static void
leaf__of_a_dead_collector_without_an_intent__NEXT_WRITER_TAKES_IT_OVER(void **state)
{
	struct nam_gaddr at;
	uint64_t word;

	(void)state;
	plant();
	word = lock_and_die(0, &at) | NAM_LOCK_MERGES;
	poke(at, NAM__WORD_LOCK, word);
	tree_model_insert(&tree, &model, MIDDLE + 1, 7);
	assert_int_equal(word_at(at, NAM__WORD_LOCK), NAM_LOCK_FREE);
	check();
}

/* The record behind the rear word came in part, so the last image counts. */
static void
leaf__torn_in_its_rear_word_and_its_record__NEXT_WRITER_TAKES_IT_OVER(void **state)
{
	struct nam_gaddr at;

	(void)state;
	plant();
	(void)lock_and_die(0, &at);
	poke(at, NODE_WORDS, 1);
	poke(at, NODE_WORDS - 1, word_at(at, NODE_WORDS - 1) + (1ull << 16));
	tree_model_insert(&tree, &model, MIDDLE + 1, 7);
	assert_int_equal(word_at(at, NAM__WORD_LOCK), NAM_LOCK_FREE);
	check();
}

/* Without a record there is nothing to complete the image by. */
static void
leaf__torn_by_a_dead_client_without_a_record__STAYS(void **state)
{
	uint64_t word, start_ns, rear, hash;
	struct nam_gaddr at;

	(void)state;
	plant();
	word = lock_and_die(0, &at);
	rear = word_at(at, NODE_WORDS - 1);
	hash = word_at(at, NAM__WORD_HASH);
	poke(at, NODE_WORDS, 0);
	poke(at, NODE_WORDS - 1, rear + (1ull << 16));
	poke(at, NAM__WORD_HASH, ~hash);
	start_ns = nam_now_ns();
	expect(insert(MIDDLE + 1), -NAM_E_LOCK_ORPHANED, start_ns, word);
	start_ns = nam_now_ns();
	expect(lookup(MIDDLE), -NAM_E_LOCK_ORPHANED, start_ns, word);
	assert_int_equal(word_at(at, NAM__WORD_LOCK), word);
	assert_int_equal(word_at(at, NODE_WORDS - 1), rear + (1ull << 16));
	poke(at, NODE_WORDS - 1, rear);
	poke(at, NAM__WORD_HASH, hash);
	/* The node is whole again, so it is taken over. */
	tree_model_insert(&tree, &model, MIDDLE + 1, 7);
	assert_int_equal(word_at(at, NAM__WORD_LOCK), NAM_LOCK_FREE);
	check();
}

static void
leaf__its_holder_lives__LOCK_TIMEOUT(void **state)
{
	struct tree_guest guest;
	struct nam__held held;
	uint64_t start_ns;

	(void)state;
	plant();
	come_and_lock(&guest, 0, &held);
	start_ns = nam_now_ns();
	expect(insert(MIDDLE + 1), -NAM_E_LOCK_TIMEOUT, start_ns, held.lock.word);
	assert_int_equal(word_at(held.at, NAM__WORD_LOCK), held.lock.word);
	nam__op_begin(guest.worker, NAM_OP_OTHER);
	assert_int_equal(nam__unlock(guest.worker, &held), 0);
	nam__op_end(guest.worker);
	tree_model_insert(&tree, &model, MIDDLE + 1, 7);
	nam_buffer_give(guest.worker, held.image, 8 * NODE_WORDS);
	tree_guest_go(&guest);
	check();
}

struct inserter {
	uint64_t number;
	int rc;
};

static void
insert_one(void *arg)
{
	struct inserter *self = arg;

	self->rc = insert(self->number); /* SUSPENDS */
}

static void
leaf__its_holder_died_and_many_fibers_want_it__ALL_SUCCEED(void **state)
{
	struct inserter inserters[FIBERS];
	struct nam_gaddr at;
	uint64_t start_ns;

	(void)state;
	plant();
	(void)lock_and_die(0, &at);
	start_ns = nam_now_ns();
	for (unsigned i = 0; i < FIBERS; i++) {
		inserters[i] = (struct inserter){ MIDDLE + 1 + 2 * i, -1 };
		assert_int_equal(nam_worker_spawn(tree.worker, insert_one, &inserters[i]), 0);
	}
	nam_worker_run(tree.worker);
	assert_true(nam_now_ns() - start_ns < BOUND_NS);
	for (unsigned i = 0; i < FIBERS; i++) {
		assert_int_equal(inserters[i].rc, 0);
		model.payload[inserters[i].number] = inserters[i].number + 1;
	}
	assert_int_equal(word_at(at, NAM__WORD_LOCK), NAM_LOCK_FREE);
	check();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaf__its_holder_died__NEXT_WRITER_TAKES_IT_OVER),
		cmocka_unit_test(inner_node__its_holder_died__NEXT_WRITER_TAKES_IT_OVER),
		cmocka_unit_test(root__its_holder_died__NEXT_WRITER_TAKES_IT_OVER),
		cmocka_unit_test(
			leaf__of_a_dead_collector_without_an_intent__NEXT_WRITER_TAKES_IT_OVER),
		cmocka_unit_test(
			leaf__torn_in_its_rear_word_and_its_record__NEXT_WRITER_TAKES_IT_OVER),
		cmocka_unit_test(leaf__torn_by_a_dead_client_without_a_record__STAYS),
		cmocka_unit_test(leaf__its_holder_lives__LOCK_TIMEOUT),
		cmocka_unit_test(leaf__its_holder_died_and_many_fibers_want_it__ALL_SUCCEED),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
