/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_test.c -- the books of a sweep: owners of blocks and objects, suspects, their end. */
#include <errno.h>

#include "common/rpc/kv_rpc.h"
#include "common/rpc/sweep_rpc.h"
#include "common/rpc/tree_rpc.h"
#include "kv/kv.h"
#include "alloc_fixture.h"

#define STRIDE 1088u			/* of nodes */
#define OTHER_STRIDE 256u
#define DEAD 5u
#define LIVING 6u
#define NUMBER 77u
#define SMALL_STRIDE 64u
#define MANY 4096u

static struct nam_rpc_sweep_reply last;	/* zeroes after a failure */
#define suspects (last.blocks)

static int
step_with(struct fixture *f, uint32_t step, uint64_t number, uint64_t label, const uint64_t *words,
	uint32_t count)
{
	uint8_t body[NAM_RPC_BODY_MAX] = { 0 };
	struct nam_rpc_sweep_request *request = (void *)body;
	const struct nam_rpc_sweep_reply *reply = reply_body(f);
	int rc;

	*request = (struct nam_rpc_sweep_request){ .step = step, .count = count, .number = number,
		.label = label };
	if (count)
		memcpy(request->words, words, count * sizeof(*words));
	rc = call(f, NAM_RPC_SWEEP, body, (uint32_t)(sizeof(*request) + count * sizeof(*words)));
	memset(&last, 0, sizeof(last));
	if (!rc)
		last = *reply;
	return rc;
}

static int
step(struct fixture *f, uint32_t step, uint64_t number)
{
	return step_with(f, step, number, 0, NULL, 0);
}

static void
alloc_as(struct fixture *f, uint16_t client, uint32_t stride, uint64_t *blocks, uint32_t count)
{
	f->connection.client_id = client;
	assert_int_equal(ask(f, stride, count), 0);
	assert_int_equal(collect(f, stride, blocks), count);
}

static void
begin(struct fixture *f, uint64_t number)
{
	uint64_t living[NAM_SWEEP_LIVING_WORDS] = { 1ull << LIVING };

	assert_int_equal(step(f, NAM_RPC_SWEEP_BEGIN, number), 0);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_SPARE, number, 0, living,
		NAM_SWEEP_LIVING_WORDS), 0);
}

static uint64_t
waiting(struct fixture *f)
{
	return f->server->allocator.memory[NAM_MEMORY_PUBLIC].waiting_bytes;
}

static void
begin__blocks_of_the_dead_and_the_living__SUSPECTS_THOSE_OF_THE_DEAD(void **state)
{
	struct fixture *f = *state;
	uint64_t dead[100], living[100], other[10];

	alloc_as(f, DEAD, STRIDE, dead, 100);
	alloc_as(f, LIVING, STRIDE, living, 100);
	alloc_as(f, DEAD, OTHER_STRIDE, other, 10);
	assert_int_equal(give(f, STRIDE, dead, 10), 0);
	assert_int_equal(give_later(f, 9, STRIDE, dead + 10, 10), 0);
	assert_int_equal(step(f, NAM_RPC_SWEEP_BEGIN, NUMBER), 0);
	assert_int_equal(suspects, 190);
	begin(f, NUMBER);
	assert_int_equal(suspects, 90);
	assert_int_equal(last.bytes, 80 * STRIDE + 10 * OTHER_STRIDE);
	/* If it is marked, comes back, or is owned anew, it is not suspect any more. */
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_MARK, NUMBER, 0, dead + 20, 30), 0);
	assert_int_equal(give(f, STRIDE, dead + 50, 10), 0);
	f->connection.client_id = LIVING;
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_OWN, 0, 0, dead + 60, 5), 0);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_HELD, 0, 0, other, 2), 0);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_END, NUMBER, 8, NULL, 0), 0);
	assert_int_equal(suspects, 35 + 8);
	assert_int_equal(last.bytes, 35 * STRIDE + 8 * OTHER_STRIDE);
	assert_int_equal(last.used_blocks, 70 + 100 + 10);
	assert_int_equal(last.used_bytes, 170 * STRIDE + 10 * OTHER_STRIDE);
	assert_int_equal(last.named_blocks, 30);
	assert_int_equal(last.named_bytes, 30 * STRIDE);
	assert_int_equal(waiting(f), (35 + 10) * STRIDE + 8 * OTHER_STRIDE);
	assert_int_equal(give(f, STRIDE, dead + 65, 1), -NAM_E_FABRIC_PROTOCOL);
	/* Those that were owned stay its own in the next one. */
	begin(f, NUMBER + 1);
	assert_int_equal(suspects, 30 + 2);
}

/* Blocks that no client has any more are not suspect in any sweep, until they come back. */
static void
keep__blocks_of_the_dead__STAY(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[10];

	alloc_as(f, DEAD, STRIDE, blocks, 10);
	begin(f, NUMBER);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_KEEP, 0, 0, blocks, 4), 0);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_END, NUMBER, 0, NULL, 0), 0);
	assert_int_equal(suspects, 6);
	begin(f, NUMBER + 1);
	assert_int_equal(suspects, 6);
	assert_int_equal(give(f, STRIDE, blocks, 1), 0);
	alloc_as(f, DEAD, STRIDE, blocks, 1);
	begin(f, NUMBER + 2);
	assert_int_equal(suspects, 7);
}

static void
ask__suspects_and_others__SAYS_WHICH(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_sweep_reply *reply = reply_body(f);
	uint64_t blocks[70];

	alloc_as(f, DEAD, STRIDE, blocks, 70);
	begin(f, NUMBER);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_MARK, NUMBER, 0, blocks + 1, 2), 0);
	blocks[65] = nam_gaddr_make(0, 0, 0).raw;
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_ASK, NUMBER, 0, blocks, 70), 0);
	assert_int_equal(reply->count, 2);
	assert_int_equal(reply->words[0], ~6ull);
	assert_int_equal(reply->words[1], 0x3d);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_ASK, NUMBER + 1, 0, blocks, 1), -EAGAIN);
}

/* Blocks of a run that grew meanwhile, and recycled ones. */
static void
alloc__during_a_sweep__IS_NOT_SUSPECT(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[64], more[64];

	alloc_as(f, DEAD, STRIDE, blocks, 3);
	begin(f, NUMBER);
	alloc_as(f, DEAD, STRIDE, more, 64);
	assert_int_equal(give(f, STRIDE, blocks, 1), 0);
	alloc_as(f, DEAD, STRIDE, blocks, 1);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_END, NUMBER, 8, NULL, 0), 0);
	assert_int_equal(suspects, 2);
}

static void
end__without_a_label__FREES_NOTHING(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[10];

	alloc_as(f, DEAD, STRIDE, blocks, 10);
	begin(f, NUMBER);
	assert_int_equal(step(f, NAM_RPC_SWEEP_END, NUMBER), 0);
	assert_int_equal(suspects, 10);
	assert_int_equal(waiting(f), 0);
	/* It has ended. */
	assert_int_equal(step(f, NAM_RPC_SWEEP_END, NUMBER), -EAGAIN);
	assert_int_equal(give(f, STRIDE, blocks, 10), 0);
}

/* The next owner of such a block is told once, and again if it gives the block back as it came. */
static void
end__blocks_that_may_be_nodes__TAGS_THEM_AT_THE_NEXT_ALLOC(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[10];

	alloc_as(f, DEAD, STRIDE, blocks, 10);
	begin(f, NUMBER);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_MARK, NUMBER, 0, blocks + 4, 6), 0);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_END, NUMBER, 8, NULL, 0), 0);
	assert_int_equal(give(f, STRIDE, blocks + 4, 1), 0);
	oldest_slot = 9;
	assert_int_equal(reclaim_all(f), 0);	/* the run has a block that is used */
	alloc_as(f, LIVING, STRIDE, blocks, 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(nam_gaddr_tag(NAM_GADDR(blocks[i])),
			i < 4 ? NAM_BLOCK_SWEPT : 0);
	assert_int_equal(give(f, STRIDE, blocks, 2), 0);
	blocks[2] = nam_gaddr_untagged(NAM_GADDR(blocks[2])).raw;
	assert_int_equal(give(f, STRIDE, blocks + 2, 1), 0);
	alloc_as(f, LIVING, STRIDE, blocks, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(nam_gaddr_tag(NAM_GADDR(blocks[i])),
			i < 2 ? NAM_BLOCK_SWEPT : 0);
	oldest_slot = 1;
}

static void
begin__of_another_sweep__ENDS_THE_FIRST(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[10], none[NAM_SWEEP_LIVING_WORDS] = { 0 };

	alloc_as(f, DEAD, STRIDE, blocks, 10);
	begin(f, NUMBER);
	begin(f, NUMBER + 1);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_SPARE, NUMBER, 0, none,
		NAM_SWEEP_LIVING_WORDS), -EAGAIN);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_END, NUMBER, 8, NULL, 0), -EAGAIN);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_END, NUMBER + 1, 8, NULL, 0), 0);
	assert_int_equal(suspects, 10);
}

/* A step looks at a slice of runs; between two of them another sweep may begin. */
static void
begin__many_blocks__IN_SLICES(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_sweep_reply *reply = reply_body(f);
	uint64_t words[NAM_SWEEP_LIVING_WORDS + 1] = { 0 }, first, seen = 0, all = 0;
	unsigned slices = 0;

	f->connection.client_id = DEAD;
	/* Both regions. */
	while (!ask(f, SMALL_STRIDE, MANY))
		all += ((const struct nam_rpc_alloc_reply *)reply_body(f))->run_count;
	assert_int_equal(step(f, NAM_RPC_SWEEP_BEGIN, NUMBER), 0);
	first = reply->words[0];
	assert_int_not_equal(first, 0);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_BEGIN, NUMBER + 1, 0, &first, 1), -EAGAIN);
	assert_int_equal(step(f, NAM_RPC_SWEEP_BEGIN, NUMBER + 1), 0);
	/* M19: the first one makes nothing suspect any more. */
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_BEGIN, NUMBER, 0, &first, 1), -EAGAIN);
	for (uint64_t place = first; place; place = reply->words[0])
		assert_int_equal(step_with(f, NAM_RPC_SWEEP_BEGIN, NUMBER + 1, 0, &place, 1), 0);
	do {
		assert_int_equal(step_with(f, NAM_RPC_SWEEP_SPARE, NUMBER + 1, 0, words,
			NAM_SWEEP_LIVING_WORDS + (slices > 0)), 0);
		words[NAM_SWEEP_LIVING_WORDS] = reply->words[0];
		seen += suspects;
		slices++;
	} while (words[NAM_SWEEP_LIVING_WORDS]);
	assert_int_equal(seen, all);
	assert_true(slices > 1);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_END, NUMBER + 1, 8, NULL, 0), 0);
	seen = suspects;
	for (uint64_t place = reply->words[0]; place; place = reply->words[0]) {
		assert_int_equal(step_with(f, NAM_RPC_SWEEP_END, NUMBER + 1, 8, &place, 1), 0);
		seen += suspects;
	}
	assert_int_equal(seen, all);
	assert_int_equal(waiting(f), all * SMALL_STRIDE);
}

/* Any address in a block marks it; only a used block can be owned. */
static void
mark_and_own__any_address__IN_BOUNDS(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[2], at;

	alloc_as(f, DEAD, STRIDE, blocks, 2);
	begin(f, NUMBER);
	at = blocks[0] + 3;
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_MARK, NUMBER, 0, &at, 1), 0);
	at = nam_gaddr_make(0, 0, 0).raw;
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_MARK, NUMBER, 0, &at, 1), 0);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_OWN, 0, 0, &at, 1), -NAM_E_FABRIC_PROTOCOL);
	at = nam_gaddr_make(0xffff, 64, 0).raw;
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_MARK, NUMBER, 0, &at, 1),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(give(f, STRIDE, blocks + 1, 1), 0);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_OWN, 0, 0, blocks + 1, 1),
		-NAM_E_FABRIC_PROTOCOL);
	f->connection.client_id = 0;
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_OWN, 0, 0, blocks, 1), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_END, NUMBER, 8, NULL, 0), 0);
	assert_int_equal(suspects, 0);
}

/* ---- trees and key-value stores -------------------------------------------------------------- */

#define TREE 1u				/* the first number of trees, and of stores */
#define STORE 101u
#define EACH 3u				/* of the dead one, named or not; of the living one */

static void
objects_make(struct fixture *f)
{
	for (uint32_t i = 0; i < EACH; i++) {
		const struct nam_rpc_tree_create_request tree = {
			.tree = TREE + i, .key_bytes = 8, .node_bytes = 1024, .unique = 1,
			.part = { .partitioning = 1, .parts = 1 },	/* by range */
		};
		const struct nam_rpc_kv_create_request store = {
			.store = STORE + i, .memory_bytes = NAM_KV_PARTITION_BYTES_MIN,
			.mode = NAM_KV_STORE, .engine = NAM_KV_CHAINED, .partitions = 1,
			.servers = 1,
		};

		f->connection.client_id = i < 2 ? DEAD : LIVING;
		assert_int_equal(call(f, NAM_RPC_TREE_CREATE, &tree, sizeof(tree)), 0);
		assert_int_equal(call(f, NAM_RPC_KV_CREATE, &store, sizeof(store)), 0);
	}
}

static void
expect_object(struct fixture *f, uint32_t number, int expected)
{
	const struct nam_rpc_tree_request tree = { TREE + number };
	const struct nam_rpc_kv_request store = { STORE + number };

	assert_int_equal(call(f, NAM_RPC_TREE_DESCRIBE, &tree, sizeof(tree)), expected);
	assert_int_equal(call(f, NAM_RPC_KV_DESCRIBE, &store, sizeof(store)), expected);
}

/* The first of each is marked.  @label	0: a dry sweep */
static uint64_t
objects_sweep(struct fixture *f, uint64_t number, uint64_t label)
{
	const uint64_t named[] = { TREE, STORE, STORE + EACH };

	begin(f, number);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_OBJECTS, number, 0, named, 3), 0);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_OBJECTS, number + 1, 0, named, 3), -EAGAIN);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_END, number, label, NULL, 0), 0);
	return last.objects;
}

/* The handlers free what was dropped, also in an idle moment of their own. */
static uint64_t
private_used_bytes(struct fixture *f)
{
	struct nam__allocator *allocator = &f->server->allocator;
	const struct nam_memory_figures *memory = &allocator->memory[NAM_MEMORY_PRIVATE];
	uint64_t used;

	pthread_mutex_lock(&allocator->mutex);
	used = memory->carved_bytes - memory->free_bytes;
	pthread_mutex_unlock(&allocator->mutex);
	return used;
}

/* @each	of trees and stores: they have the same size each, and the first is named */
static void
expect_books(struct fixture *f, uint64_t each)
{
	uint64_t end = nam_now_ns() + 10ull * 1000 * 1000 * 1000;

	while (private_used_bytes(f) != last.objects_used_bytes && nam_now_ns() < end) {
		nam__objects_idle(&f->server->trees, f->server);
		nam__objects_idle(&f->server->stores, f->server);
	}
	assert_int_equal(last.objects_used_bytes, private_used_bytes(f));
	assert_int_equal(last.objects_named_bytes, last.objects_used_bytes / each);
	assert_int_equal(last.objects_bytes, each == EACH ? last.objects_named_bytes : 0);
}

static void
end__trees_and_stores__DROPS_THOSE_OF_THE_DEAD_WITHOUT_A_NAME(void **state)
{
	struct fixture *f = *state;

	objects_make(f);
	assert_int_equal(objects_sweep(f, NUMBER, 0), 2);
	expect_books(f, 3);
	expect_object(f, 1, 0);
	assert_int_equal(objects_sweep(f, NUMBER, 8), 2);
	expect_object(f, 0, 0);
	expect_object(f, 1, -NAM_E_DROPPED);
	expect_object(f, 2, 0);
	assert_int_equal(objects_sweep(f, NUMBER, 8), 0);
	expect_books(f, 2);
}

static void
end__made_during_a_sweep__STAYS(void **state)
{
	struct fixture *f = *state;

	begin(f, NUMBER);
	objects_make(f);
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_END, NUMBER, 8, NULL, 0), 0);
	assert_int_equal(last.objects, 0);
	for (uint32_t i = 0; i < EACH; i++)
		expect_object(f, i, 0);
}

static void
sweep__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	uint64_t words[NAM_SWEEP_LIVING_WORDS + 1] = { 0 };

	for (uint32_t what = 0; what < NAM_RPC_SWEEP_END + 3; what++) {
		bool numbered = what != NAM_RPC_SWEEP_LIVING && what != NAM_RPC_SWEEP_HELD &&
			what != NAM_RPC_SWEEP_OWN && what != NAM_RPC_SWEEP_KEEP;
		bool counts = !numbered ? what != NAM_RPC_SWEEP_LIVING :
			what == NAM_RPC_SWEEP_SPARE || what == NAM_RPC_SWEEP_MARK ||
			what == NAM_RPC_SWEEP_RECORDS || what == NAM_RPC_SWEEP_OBJECTS ||
			what == NAM_RPC_SWEEP_ASK;

		assert_int_equal(step_with(f, what, numbered ? 0 : NUMBER, 0, words, counts ? 64 :
			0), -NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(step_with(f, what, numbered ? NUMBER : 0, 0, words, counts ? 0 :
			1), -NAM_E_FABRIC_PROTOCOL);
		if (what != NAM_RPC_SWEEP_END && what != NAM_RPC_SWEEP_RECORDS)
			assert_int_equal(step_with(f, what, numbered ? NUMBER : 0, 1, words,
				counts ? 64 : 0), -NAM_E_FABRIC_PROTOCOL);
	}
	assert_int_equal(step_with(f, NAM_RPC_SWEEP_SPARE, NUMBER, 0, words,
		NAM_SWEEP_LIVING_WORDS + 1), -NAM_E_FABRIC_PROTOCOL);
	/* Not over a session connection. */
	assert_int_equal(step(f, NAM_RPC_SWEEP_ACK, NUMBER), -NAM_E_FABRIC_PROTOCOL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(begin__blocks_of_the_dead_and_the_living__SUSPECTS_THOSE_OF_THE_DEAD),
		TEST(keep__blocks_of_the_dead__STAY),
		TEST(ask__suspects_and_others__SAYS_WHICH),
		TEST(alloc__during_a_sweep__IS_NOT_SUSPECT),
		TEST(end__without_a_label__FREES_NOTHING),
		TEST(end__blocks_that_may_be_nodes__TAGS_THEM_AT_THE_NEXT_ALLOC),
		TEST(begin__of_another_sweep__ENDS_THE_FIRST),
		TEST(begin__many_blocks__IN_SLICES),
		TEST(mark_and_own__any_address__IN_BOUNDS),
		TEST(end__trees_and_stores__DROPS_THOSE_OF_THE_DEAD_WITHOUT_A_NAME),
		TEST(end__made_during_a_sweep__STAYS),
		TEST(sweep__malformed__IS_PROTOCOL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
