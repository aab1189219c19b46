/* SPDX-License-Identifier: Apache-2.0 */
/* place_test.c -- blocks that a primary has handed out, in the books of its backup (M24). */
#include "common/rpc/sweep_rpc.h"
#include "place_fixture.h"

#define UNITS (MEMORY / NAM_GADDR_UNIT_BYTES)
#define USED_BYTE 0xcd
#define DEAD 7u

static int
setup_pair(void **state)
{
	return pair_start(state, MEMORY, REGION);
}

/* ---- vacant memory, and runs that have the blocks ------------------------------------------ */

static void
place__in_vacant_memory__FREE_TAKES_EACH_ONCE_and_alloc_gives_none(void **state)
{
	struct fixture *f = *state;
	static uint64_t all[UNITS];
	uint64_t blocks[4] = { address(0, 3 << 16), address(1, 1 << 18), address(1, 1 << 20),
		address(1, REGION - STRIDE) };
	uint64_t run = address(0, 1 << 17);
	uint32_t count;

	assert_int_equal(place(f, STRIDE, run, 10, blocks, 4), 0);
	check_books(f);
	assert_int_equal(figures(f)->carved_bytes, 14 * STRIDE);
	assert_int_equal(figures(f)->free_bytes, 0);
	count = fill(f, SMALL, all);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t at = nam_gaddr_untagged(NAM_GADDR(all[i])).raw;

		assert_false(at >= run && at < run + 10 * STRIDE / 64);
		for (uint32_t k = 0; k < 4; k++)
			assert_false(at >= blocks[k] && at < blocks[k] + STRIDE / 64);
	}
	for (uint32_t i = 0; i < 10; i++) {
		uint64_t block = run + i * STRIDE / 64;

		assert_int_equal(give(f, STRIDE, &block, 1), 0);
		assert_int_equal(give(f, STRIDE, &block, 1), -NAM_E_FABRIC_PROTOCOL);
	}
	assert_int_equal(give(f, STRIDE, blocks, 4), 0);
	assert_int_equal(give(f, STRIDE, blocks + 3, 1), -NAM_E_FABRIC_PROTOCOL);
	check_books(f);
	/* Only these are left. */
	assert_int_equal(fill(f, STRIDE, all), 14);
}

static void
place__one_behind_the_other__GROWS_ONE_RUN(void **state)
{
	struct fixture *f = *state;
	uint64_t at = address(0, 4096);

	/* The second one joins the first and the third. */
	assert_int_equal(place(f, STRIDE, at, 10, NULL, 0), 0);
	assert_int_equal(place(f, STRIDE, at + 20 * STRIDE / 64, 10, NULL, 0), 0);
	assert_int_equal(books(f)->runs_count, 2);
	assert_int_equal(place(f, STRIDE, at + 10 * STRIDE / 64, 10, NULL, 0), 0);
	assert_int_equal(books(f)->runs_count, 1);
	/* Those that are there already, and more. */
	assert_int_equal(place(f, STRIDE, at + 25 * STRIDE / 64, 10, NULL, 0), 0);
	assert_int_equal(books(f)->runs_count, 1);
	assert_int_equal(figures(f)->carved_bytes, 35 * STRIDE);
	/* A run has 1 MiB at most. */
	assert_int_equal(place(f, 65536, address(1, 64), 10, NULL, 0), 0);
	assert_int_equal(place(f, 65536, address(1, 64 + 10 * 65536), 10, NULL, 0), 0);
	assert_int_equal(books(f)->runs_count, 3);
	check_books(f);
}

static void
place__free_and_waiting_blocks__ARE_USED_AGAIN(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[MANY], again[MANY];

	f->connection.client_id = DEAD;
	assert_int_equal(ask(f, STRIDE, MANY), 0);
	assert_int_equal(collect(f, STRIDE, blocks), MANY);
	f->connection.client_id = 0;
	assert_int_equal(give(f, STRIDE, blocks, 40), 0);
	assert_int_equal(give_later(f, 9, STRIDE, blocks + 40, 40), 0);
	assert_int_equal(place(f, STRIDE, blocks[0], 2, blocks + 30, 20), 0);
	check_books(f);
	assert_int_equal(figures(f)->free_bytes, 28 * STRIDE);
	assert_int_equal(figures(f)->waiting_bytes, 30 * STRIDE);
	/* M19: a sweep leaves them alone. */
	assert_int_equal(books(f)->regions[0].runs[0]->owners[0], 0);
	assert_int_equal(books(f)->regions[0].runs[0]->owners[20], DEAD);
	assert_int_equal(give(f, STRIDE, blocks + 30, 20), 0);
	assert_int_equal(give(f, STRIDE, blocks, 2), 0);
	assert_int_equal(ask(f, STRIDE, MANY), 0);
	assert_int_equal(((struct nam_rpc_alloc_reply *)reply_body(f))->count, 50);
	assert_int_equal(collect(f, STRIDE, again), MANY);
	check_books(f);
}

/* ---- cutting ------------------------------------------------------------------------------- */

static void
place__across_blocks_of_other_runs__CUTS_EXACTLY_THESE(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[MANY], small;

	f->connection.client_id = DEAD;
	assert_int_equal(ask(f, STRIDE, MANY), 0);
	assert_int_equal(collect(f, STRIDE, blocks), MANY);
	f->connection.client_id = 0;
	assert_int_equal(give(f, STRIDE, blocks + 69, 31), 0);
	/* The last unit of block 4, all of 5, and the first one of 6. */
	small = blocks[5] - 1;
	assert_int_equal(place(f, SMALL, small, 2 + STRIDE / SMALL, NULL, 0), 0);
	check_books(f);
	assert_int_equal(figures(f)->carved_bytes, (MANY - 3) * STRIDE + 2 * SMALL + STRIDE);
	/* They have moved by 7 bits. */
	assert_int_equal(figures(f)->free_bytes, 31 * STRIDE);
	for (uint32_t i = 4; i < 7; i++)
		assert_int_equal(give(f, STRIDE, blocks + i, 1), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(give(f, STRIDE, blocks + 69, 1), -NAM_E_FABRIC_PROTOCOL);
	/* By the same stride at another boundary: two more, and one that is free. */
	assert_int_equal(place(f, STRIDE, blocks[67] + 1, 2, NULL, 0), 0);
	check_books(f);
	assert_int_equal(figures(f)->carved_bytes, (MANY - 4) * STRIDE + 2 * SMALL + STRIDE);
	assert_int_equal(figures(f)->free_bytes, 30 * STRIDE);
	assert_int_equal(give(f, STRIDE, blocks, 4), 0);
	assert_int_equal(give(f, STRIDE, blocks + 7, 60), 0);
	assert_int_equal(give(f, SMALL, &small, 1), 0);
	check_books(f);
}

/* M14 */
static void
place__across_a_run_whose_blocks_wait__THEY_WAIT_AS_BEFORE(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[MANY];

	assert_int_equal(ask(f, STRIDE, MANY), 0);
	assert_int_equal(collect(f, STRIDE, blocks), MANY);
	assert_int_equal(give_later(f, 100, STRIDE, blocks, MANY), 0);
	assert_int_equal(place(f, SMALL, blocks[50], 1, NULL, 0), 0);
	oldest_slot = 100;
	(void)reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, NULL);
	assert_int_equal(figures(f)->waiting_bytes, (MANY - 1) * STRIDE);
	check_books(f);
	oldest_slot = 101;
	(void)reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, NULL);
	assert_int_equal(figures(f)->waiting_bytes, 0);
	check_books(f);
	oldest_slot = 1;
}

/* M3 */
static void
place__beside_vacant_memory_that_is_zero__IS_ZEROED_LATER_WHERE_IT_IS_NOT(void **state)
{
	struct fixture *f = *state;
	struct nam__alloc_region *region = &books(f)->regions[1];
	static uint64_t all[UNITS];
	uint64_t block = address(1, 65536);

	assert_int_equal(place(f, 65536, block, 1, NULL, 0), 0);
	memset(nam__memory_public_at(f->server, NAM_GADDR(block), 65536), USED_BYTE, 65536);
	assert_true(region->runs[0]->dirty && !region->runs[2]->dirty);
	/* As books have it if the region was public before: clean, dirty, clean. */
	region->runs[0]->dirty = false;
	assert_int_equal(give(f, 65536, &block, 1), 0);
	assert_int_equal(reclaim_all(f), 65536);
	assert_int_equal(region->runs_count, 3);
	assert_int_equal(place(f, SMALL, address(1, 4096), 1, NULL, 0), 0);
	check_books(f);
	assert_int_equal(region->runs_count, 5);
	assert_false(region->runs[2]->dirty);
	assert_true(region->runs[3]->dirty);
	assert_int_equal(place(f, SMALL, block + 1, 1, NULL, 0), 0);
	check_books(f);
	assert_false(region->runs[2]->dirty);
	/* The rest of the block that is cut is dirty, and the memory behind it is not. */
	assert_int_equal(place(f, 4096, block + 65536 / 64 - 1, 1, NULL, 0), 0);
	assert_int_equal(place(f, SMALL, block + 65536 / 64, 1, NULL, 0), 0);
	check_books(f);
	assert_true(region->runs[region->runs_count - 2]->dirty);
	assert_false(region->runs[region->runs_count - 1]->dirty);
	for (uint32_t i = 0, count = fill(f, SMALL, all); i < count; i++)
		assert_int_equal(*(uint64_t *)nam__memory_public_at(f->server, NAM_GADDR(all[i]),
			SMALL), 0);
}

static int
sweep(struct fixture *f, uint32_t step, uint64_t label, const uint64_t *words, uint32_t count)
{
	uint8_t body[NAM_RPC_BODY_MAX] = { 0 };
	struct nam_rpc_sweep_request *request = (void *)body;

	*request = (struct nam_rpc_sweep_request){ .step = step, .count = count, .number = 3,
		.label = label };
	if (count)
		memcpy(request->words, words, count * sizeof(*words));
	return call(f, NAM_RPC_SWEEP, body, (uint32_t)(sizeof(*request) + count * sizeof(*words)));
}

static void
place__while_a_sweep_is_under_way__ITS_SUSPECTS_ARE_THE_SAME(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_sweep_reply *reply = reply_body(f);
	uint64_t blocks[2 * MANY], marked[MANY], dead;

	f->connection.client_id = DEAD;
	assert_int_equal(ask(f, STRIDE, 2 * MANY), 0);
	assert_int_equal(collect(f, STRIDE, blocks), 2 * MANY);
	f->connection.client_id = 0;
	assert_int_equal(sweep(f, NAM_RPC_SWEEP_BEGIN, 0, NULL, 0), 0);
	for (uint32_t i = 0; i < MANY; i++)
		marked[i] = blocks[2 * i];
	assert_int_equal(sweep(f, NAM_RPC_SWEEP_MARK, 0, marked, MANY), 0);
	/* Block 10 is cut out; 101 is used, and no suspect any more. */
	assert_int_equal(place(f, SMALL, blocks[10] + 1, 1, NULL, 0), 0);
	assert_int_equal(place(f, STRIDE, 0, 0, &blocks[101], 1), 0);
	check_books(f);
	assert_int_equal(sweep(f, NAM_RPC_SWEEP_END, 9, NULL, 0), 0);
	assert_int_equal(reply->blocks, MANY - 1);
	assert_int_equal(reply->named_blocks, MANY - 1);
	check_books(f);
	for (uint32_t i = 0; i < 2 * MANY; i++) {
		dead = blocks[i];
		assert_int_equal(give(f, STRIDE, &dead, 1), i != 10 && (i % 2 == 0 || i == 101) ?
			0 : -NAM_E_FABRIC_PROTOCOL);
	}
}

static void
place__in_runs_that_are_held__CUT_ONES_STAY_HELD_and_used_ones_are_not(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[MANY], others[MANY], batch;

	assert_int_equal(ask(f, STRIDE, MANY), 0);
	assert_int_equal(collect(f, STRIDE, blocks), MANY);
	assert_int_equal(ask(f, 4096, MANY), 0);
	assert_int_equal(collect(f, 4096, others), MANY);
	assert_int_equal(give(f, STRIDE, blocks, MANY), 0);
	assert_int_equal(give(f, 4096, others, MANY), 0);
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &batch), MANY * (STRIDE + 4096));
	/* Behind one: it does not grow. */
	assert_int_equal(place(f, 4096, others[MANY - 1] + 4096 / 64, 1, NULL, 0), 0);
	check_books(f);
	assert_int_equal(place(f, 4096, 0, 0, others + 50, 1), 0);
	assert_int_equal(place(f, SMALL, blocks[50], 1, NULL, 0), 0);
	check_books(f);
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL), (MANY - 1) * STRIDE);
	check_books(f);
	assert_int_equal(figures(f)->carved_bytes, (MANY + 1) * 4096 + SMALL);
	assert_int_equal(figures(f)->free_bytes, (MANY - 1) * 4096);
	assert_int_equal(give(f, 4096, others + 50, 1), 0);
}

static void
place__in_a_region_that_was_to_leave__KEEPS_IT(void **state)
{
	struct fixture *f = *state;
	uint64_t all[MEMORY / 65536], batch;
	uint32_t count = fill(f, 65536, all);

	give_all(f, 65536, all, count);
	(void)reclaim_all(f);
	(void)reclaim(f, HOLD_PRIVATE, 0, &batch);
	assert_int_equal(books(f)->regions[1].announced, NAM_MEMORY_PRIVATE);
	assert_int_equal(place(f, SMALL, address(1, 4096), 1, NULL, 0), 0);
	assert_int_equal(books(f)->regions[1].announced, NAM_MEMORY_PUBLIC);
	assert_int_equal(books(f)->regions[1].turning, 0);
	(void)reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL);
	assert_int_equal(books(f)->regions[1].kind, NAM_MEMORY_PUBLIC);
	check_books(f);
}

/* ---- what is refused ----------------------------------------------------------------------- */

static void
place__malformed__IS_PROTOCOL_AND_CHANGES_NOTHING(void **state)
{
	struct fixture *f = *state;
	uint64_t good = address(0, 4096), body[4] = { SMALL, 0, good };
	const struct {
		uint32_t stride, run_count;
		uint64_t run_at, block;		/* 0: none */
	} bad[] = {
		{ 0, 1, good, 0 },
		{ 63, 1, good, 0 },
		{ 1000, 1, good, 0 },
		{ SMALL, 0, 0, 0 },
		{ SMALL, 0, good, good },
		{ SMALL, 1, 0, good },
		{ SMALL, NAM__ALLOC_COUNT_MAX + 1, good, 0 },
		{ SMALL, UINT32_MAX, good, good },
		{ UINT32_MAX - 63, 1, good, 0 },
		{ UINT32_MAX - 63, NAM__ALLOC_COUNT_MAX, good, 0 },
		{ SMALL, 1, good | 1ull << 48, 0 },
		{ SMALL, 1, good | 2ull << 48, 0 },
		{ SMALL, 1, address(0, 0), 0 },		/* no region's first bytes are a block's */
		{ SMALL, 1, address(2, 4096), 0 },
		{ SMALL, 1, 4096 / 64, 0 },		/* of the lead */
		{ SMALL, 2, address(1, REGION - SMALL), 0 },
		{ SMALL, 1, address(1, REGION), 0 },
		{ SMALL, 1, good, address(1, 0) },
		{ SMALL, 1, good, address(1, REGION) },
		{ 128, 1, good, address(1, REGION - SMALL) },
		{ SMALL, 1, good, good | 1ull << 48 },
		{ SMALL, 1, good, address(2, 4096) },
		{ SMALL, 0, 0, UINT64_MAX },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(place(f, bad[i].stride, bad[i].run_at, bad[i].run_count,
			&bad[i].block, bad[i].block != 0), -NAM_E_FABRIC_PROTOCOL);
	for (uint32_t bytes = 0; bytes < 32; bytes++)
		if (bytes != 24)
			assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_RUNS, 0, body,
				bytes), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_RUNS, 8, body, 24),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(figures(f)->carved_bytes, 0);
	assert_int_equal(books(f)->regions[0].runs_count, 1);
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_RUNS, 0, body, 24), 0);
	/* One that a sweep freed. */
	good |= (uint64_t)NAM_BLOCK_SWEPT << 48;
	assert_int_equal(place(f, SMALL, 0, 0, &good, 1), 0);
	assert_int_equal(figures(f)->carved_bytes, SMALL);
}

static void
place__of_a_server_that_is_no_backup__IS_REFUSED(void **state)
{
	struct pair *pair = *state;
	struct fixture *lead = server_start(0, false, MEMORY, REGION);
	struct nam_rpc_move_request request = { .step = NAM_RPC_MOVE_RUNS,
		.boot = pair->old->server->boot };
	uint64_t at = address(0, 4096);

	assert_int_equal(place(lead, SMALL, 1000, 1, NULL, 0), -NAM_E_CLUSTER);
	server_end(lead);
	assert_int_equal(place(pair->next, SMALL, at, 1, NULL, 0), -NAM_E_CLUSTER);
	pair->next->server->phase = NAM_SERVER_FILLING;
	assert_int_equal(place(pair->next, SMALL, at, 1, NULL, 0), 0);
	pair->next->server->phase = NAM_SERVER_SUCCESSOR;
	pair->old->connection.proven.role = NAM_ROLE_READ;
	assert_int_equal(place(pair->old, SMALL, at, 1, NULL, 0), -NAM_E_FABRIC_DENIED);
	pair->old->connection.proven.role = NAM_ROLE_WRITE;
	assert_int_equal(place(pair->old, SMALL, at, 1, NULL, 0), 0);
	pair->old->connection.proven.role = NAM_ROLE_ADMIN;
	request.boot++;
	assert_int_equal(call(pair->old, NAM_RPC_MOVE, &request, sizeof(request)), -NAM_E_CLUSTER);
	assert_int_equal(move_step(pair->old, &pair->old->connection, NAM_RPC_MOVE_RETIRE, 0, NULL,
		0), 0);
	assert_int_equal(place(pair->old, SMALL, at, 1, NULL, 0), -NAM_E_FABRIC_MOVED);
}

static void
place__in_memory_that_is_not_public__IS_REGIONS_AND_CHANGES_NOTHING(void **state)
{
	struct fixture *f = *state;
	uint64_t bad = address(1, 4096);

	assert_true(nam__region_make_private(books(f), 1));
	assert_int_equal(place(f, SMALL, bad, 1, NULL, 0), -NAM_E_REGIONS);
	assert_int_equal(place(f, SMALL, address(0, 4096), 1, &bad, 1), -NAM_E_REGIONS);
	assert_int_equal(figures(f)->carved_bytes, 0);
	assert_int_equal(place(f, SMALL, address(0, 4096), 1, NULL, 0), 0);
}

static void
place__more_runs_or_strides_than_there_may_be__IS_LIMIT(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[MANY];

	assert_int_equal(ask(f, STRIDE, MANY), 0);
	assert_int_equal(collect(f, STRIDE, blocks), MANY);
	/* As if there were others. */
	books(f)->runs_count += NAM__RUNS_MAX - 1;
	assert_int_equal(place(f, SMALL, address(1, 4096), 1, NULL, 0), -NAM_E_LIMIT);
	assert_int_equal(place(f, SMALL, blocks[50], 1, NULL, 0), -NAM_E_LIMIT);
	assert_int_equal(place(f, STRIDE, blocks[99], 2, NULL, 0), 0);
	books(f)->runs_count -= NAM__RUNS_MAX - 1;
	check_books(f);
	assert_int_equal(figures(f)->carved_bytes, (MANY + 1) * STRIDE);
	assert_int_equal(give(f, STRIDE, blocks, MANY), 0);
	for (uint32_t i = 1; books(f)->strides_count < NAM__STRIDES_MAX; i++)
		assert_int_equal(place(f, i * 64, address(1, 4096), 1, NULL, 0), 0);
	assert_int_equal(place(f, 1 << 20, address(1, 4096), 1, NULL, 0), -NAM_E_LIMIT);
	check_books(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define PAIR(name) cmocka_unit_test_setup_teardown(name, setup_pair, pair_end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(place__in_vacant_memory__FREE_TAKES_EACH_ONCE_and_alloc_gives_none),
		TEST(place__one_behind_the_other__GROWS_ONE_RUN),
		TEST(place__free_and_waiting_blocks__ARE_USED_AGAIN),
		TEST(place__across_blocks_of_other_runs__CUTS_EXACTLY_THESE),
		TEST(place__across_a_run_whose_blocks_wait__THEY_WAIT_AS_BEFORE),
		TEST(place__beside_vacant_memory_that_is_zero__IS_ZEROED_LATER_WHERE_IT_IS_NOT),
		TEST(place__while_a_sweep_is_under_way__ITS_SUSPECTS_ARE_THE_SAME),
		TEST(place__in_runs_that_are_held__CUT_ONES_STAY_HELD_and_used_ones_are_not),
		TEST(place__in_a_region_that_was_to_leave__KEEPS_IT),
		TEST(place__malformed__IS_PROTOCOL_AND_CHANGES_NOTHING),
		PAIR(place__of_a_server_that_is_no_backup__IS_REFUSED),
		TEST(place__in_memory_that_is_not_public__IS_REGIONS_AND_CHANGES_NOTHING),
		TEST(place__more_runs_or_strides_than_there_may_be__IS_LIMIT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
