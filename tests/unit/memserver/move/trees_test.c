/* SPDX-License-Identifier: Apache-2.0 */
/* trees_test.c -- trees of a memory server are made anew by its successor, and filled. */
#include <errno.h>

#include "common/rpc/tree_rpc.h"
#include "move_fixture.h"

#define MEMORY (8ull << 20)
#define REGION (512u << 10)
#define PAIRS 5000u
#define OWNER 5u
#define LEAF 77u			/* of the tree that names leaves */

enum { PLAIN = 7, MANY = 8, NAMES = 9 };	/* numbers of trees */

static int
setup(void **state)
{
	return pair_start(state, MEMORY, REGION);
}

static void
make(struct fixture *f, uint64_t tree, bool unique, uint64_t leaf)
{
	const struct nam_rpc_tree_create_request request = {
		.tree = tree, .key_bytes = 8, .node_bytes = 1024, .unique = unique, .leaf = leaf,
		.part = { .partitioning = 1, .parts = 1 },	/* by range */
	};

	f->connection.client_id = OWNER;
	assert_int_equal(call(f, NAM_RPC_TREE_CREATE, &request, sizeof(request)), 0);
	f->connection.client_id = 0;
}

static void
insert(struct fixture *f, uint64_t tree, uint64_t key, uint64_t payload)
{
	const struct nam_rpc_tree_point_request head = {
		.tree = tree, .kind = NAM_RPC_TREE_INSERT, .count = 1,
	};
	uint64_t body[sizeof(head) / 8 + 2] = { 0 };
	const struct nam_rpc_tree_point_reply *reply = reply_body(f);

	memcpy(body, &head, sizeof(head));
	body[sizeof(head) / 8] = key;
	body[sizeof(head) / 8 + 1] = payload;
	assert_int_equal(call(f, NAM_RPC_TREE_POINT, body, sizeof(body)), 0);
	assert_int_equal(reply->results[0].status, 0);
}

/* Of keys of one word: of several pairs with a key, and of one. */
static void
live(struct fixture *f)
{
	make(f, PLAIN, true, 0);
	make(f, MANY, false, 0);
	make(f, NAMES, true, LEAF);
	make(f, 10, true, 0);			/* it stays empty */
	for (uint64_t i = 1; i <= PAIRS; i++) {
		insert(f, PLAIN, i * 7919 % 100003, i);
		insert(f, MANY, i % 10, i);
		insert(f, NAMES, i * 7919 % 100003, i << 6);
	}
}

/* A page of pairs behind the last one, as a mover asks for it. */
static const struct nam_rpc_tree_scan_reply *
scan(struct fixture *f, uint64_t tree, bool unique, const uint64_t *after)
{
	struct nam_rpc_tree_scan_request request = { .tree = tree, .max = UINT32_MAX };
	uint32_t words = unique ? 1 : 2;	/* of a full key */

	memset(request.high, 0xff, sizeof(request.high));
	if (after)
		memcpy(request.low, after, 8 * words);
	for (uint32_t i = words; after && i-- > 0;)
		if (++request.low[i])
			break;
	assert_int_equal(call(f, NAM_RPC_TREE_SCAN, &request, sizeof(request)), 0);
	return reply_body(f);
}

static int
load(struct fixture *f, uint64_t tree, uint16_t step, const uint64_t *pairs, uint32_t count)
{
	uint8_t body[NAM_RPC_BODY_MAX] = { 0 };
	struct nam_rpc_tree_load_request *request = (void *)body;

	*request = (struct nam_rpc_tree_load_request){ .tree = tree, .load = 99, .step = step,
		.fill_percent = step == NAM_RPC_TREE_LOAD_BEGIN ? 92 : 0, .count = count };
	if (count)
		memcpy(request->pairs, pairs, 16ul * count);
	return call(f, NAM_RPC_TREE_LOAD, body, (uint32_t)sizeof(*request) + 16 * count);
}

static void
fill_tree(struct pair *pair, uint64_t tree, bool unique)
{
	uint64_t pairs[NAM_RPC_BODY_MAX / 8], *after = NULL;
	uint32_t count, most = NAM_RPC_TREE_LOAD_MAX(1);
	int rc;

	do
		rc = load(pair->next, tree, NAM_RPC_TREE_LOAD_BEGIN, NULL, 0);
	while (rc == -NAM_E_RESTART_LOCKED);
	assert_int_equal(rc, 0);
	while ((count = scan(pair->old, tree, unique, after)->count)) {
		const struct nam_rpc_tree_scan_reply *page = reply_body(pair->old);

		memcpy(pairs, page->pairs, 16ul * count);
		for (uint32_t i = 0; i < count; i += most)
			assert_int_equal(load(pair->next, tree, NAM_RPC_TREE_LOAD_PAIRS,
				pairs + 2 * i, count - i < most ? count - i : most), 0);
		after = pairs + 2 * (count - 1);
	}
	assert_int_equal(load(pair->next, tree, NAM_RPC_TREE_LOAD_END, NULL, 0), 0);
}

static int
open_up(struct fixture *f)
{
	return move_step(f, &f->connection, NAM_RPC_MOVE_OPEN, 0, NULL, 0);
}

static uint32_t
phase(struct fixture *f)
{
	assert_int_equal(call_status(f), 0);
	return ((struct nam_rpc_status_reply *)reply_body(f))->phase;
}

static void
same_pairs(struct pair *pair, uint64_t tree, bool unique)
{
	uint64_t pairs[NAM_RPC_BODY_MAX / 8], last[2], *after = NULL;
	uint32_t count;

	do {
		count = scan(pair->old, tree, unique, after)->count;
		assert_int_equal(scan(pair->next, tree, unique, after)->count, count);
		memcpy(pairs, scan(pair->old, tree, unique, after)->pairs, 16ul * count);
		assert_memory_equal(scan(pair->next, tree, unique, after)->pairs, pairs,
			16ul * count);
		if (count)
			after = memcpy(last, pairs + 2 * (count - 1), sizeof(last));
	} while (count);
}

static struct nam_rpc_tree_floor_reply
floor_of(struct fixture *f, uint64_t key)
{
	const struct nam_rpc_tree_floor_request request = { .tree = NAMES, .alone = 1,
		.key = { key } };

	assert_int_equal(call(f, NAM_RPC_TREE_FLOOR, &request, sizeof(request)), 0);
	return *(const struct nam_rpc_tree_floor_reply *)reply_body(f);
}

static void
import__trees__ARE_FILLED_AND_OPENED(void **state)
{
	struct pair *pair = *state;
	const struct nam_rpc_tree_request drop = { .tree = PLAIN };
	struct fixture *next = pair->next;
	struct books books, again;
	struct nam__object *tree;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &books), 0);
	assert_int_equal(head_of(&books)->trees, 4);
	assert_int_equal(open_up(next), -NAM_E_CLUSTER);
	assert_int_equal(import_books(next, &books), 0);
	assert_int_equal(phase(next), NAM_SERVER_FILLING);
	assert_int_equal(import_books(next, &books), -NAM_E_CLUSTER);
	assert_int_equal(export_books(next, &again), -NAM_E_FABRIC_SUCCESSOR);
	/* The mover fills it; clients wait. */
	assert_int_equal(ask(next, 64, 1), -NAM_E_FABRIC_SUCCESSOR);
	assert_int_equal(load(next, PLAIN, NAM_RPC_TREE_LOAD_BEGIN, NULL, 0),
		-NAM_E_RESTART_LOCKED);
	assert_int_equal(open_up(next), -EAGAIN);
	assert_int_equal(load(next, PLAIN, NAM_RPC_TREE_LOAD_CANCEL, NULL, 0), 0);
	fill_tree(pair, PLAIN, true);
	fill_tree(pair, MANY, false);
	fill_tree(pair, NAMES, true);
	assert_int_equal(open_up(next), 0);
	assert_int_equal(open_up(next), -NAM_E_CLUSTER);
	assert_int_equal(phase(next), NAM_SERVER_SERVES);
	same_pairs(pair, PLAIN, true);
	same_pairs(pair, MANY, false);
	same_pairs(pair, NAMES, true);
	same_pairs(pair, 10, true);
	tree = nam__objects_find(&next->server->trees, PLAIN);
	assert_int_equal(tree->owner, OWNER);
	/* They move again, and change. */
	assert_int_equal(export_books(next, &again), 0);
	assert_int_equal(head_of(&again)->trees, 4);
	assert_int_equal(call(next, NAM_RPC_TREE_DROP, &drop, sizeof(drop)), 0);
	insert(next, NAMES, 100003, 64);
	free(books.words);
	free(again.words);
}

/* Clients keep the version that is higher, and other nodes may lie at the addresses. */
static void
floor__after_a_move__HAS_HIGHER_VERSIONS(void **state)
{
	struct pair *pair = *state;
	struct nam_rpc_tree_floor_reply before, after;
	struct books books;

	live(pair->old);
	before = floor_of(pair->old, 1);
	assert_int_equal(export_books(pair->old, &books), 0);
	assert_int_equal(import_books(pair->next, &books), 0);
	fill_tree(pair, PLAIN, true);
	fill_tree(pair, MANY, false);
	fill_tree(pair, NAMES, true);
	assert_int_equal(open_up(pair->next), 0);
	after = floor_of(pair->next, 1);
	assert_true(after.version > before.version + 1000000);
	assert_int_equal(after.count, before.count);
	free(books.words);
}

static void
export__a_tree_is_being_loaded__IS_LOCKED_until_it_ends(void **state)
{
	struct pair *pair = *state;
	struct books books;

	make(pair->old, PLAIN, true, 0);
	assert_int_equal(load(pair->old, PLAIN, NAM_RPC_TREE_LOAD_BEGIN, NULL, 0),
		-NAM_E_RESTART_LOCKED);
	assert_int_equal(export_books(pair->old, &books), -NAM_E_RESTART_LOCKED);
	assert_int_equal(load(pair->old, PLAIN, NAM_RPC_TREE_LOAD_CANCEL, NULL, 0), 0);
	assert_int_equal(export_books(pair->old, &books), 0);
	free(books.words);
}

static struct nam_move_tree *
trees_of(const struct books *books)
{
	return (struct nam_move_tree *)(void *)(members_of(books) + head_of(books)->members);
}

static void
import__a_malformed_tree__IS_REFUSED_AND_MAY_BEGIN_ANEW(void **state)
{
	struct pair *pair = *state;
	struct nam_move_tree *trees, saved;
	struct books books;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &books), 0);
	trees = trees_of(&books);
	for (unsigned i = 0; i < 6; i++) {
		saved = trees[3];
		if (i == 0)
			trees[3].reserved = 1;
		else if (i == 1)
			trees[3].owner = NAM_CLIENTS_MAX;
		else if (i == 2)
			trees[3].create.node_bytes = 1;
		else if (i == 3)
			trees[3].create.tree = 0;
		else if (i == 4)
			trees[3].create.part.parts = 0;
		else
			trees[3].create.tree = trees[0].create.tree;
		books_seal(&books);
		assert_int_equal(import_books(pair->next, &books), i < 5 ?
			-NAM_E_FABRIC_PROTOCOL : -NAM_E_INDEX_EXISTS);
		assert_int_equal(phase(pair->next), NAM_SERVER_SUCCESSOR);
		assert_int_equal(pair->next->server->trees.count, 0);
		trees[3] = saved;
	}
	books_seal(&books);
	assert_int_equal(import_books(pair->next, &books), 0);
	free(books.words);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, pair_end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(import__trees__ARE_FILLED_AND_OPENED),
		TEST(floor__after_a_move__HAS_HIGHER_VERSIONS),
		TEST(export__a_tree_is_being_loaded__IS_LOCKED_until_it_ends),
		TEST(import__a_malformed_tree__IS_REFUSED_AND_MAY_BEGIN_ANEW),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
