/* SPDX-License-Identifier: Apache-2.0 */
/* region_kinds_test.c -- regions that become private, read-only and public. */
#include "alloc_fixture.h"
#include "memserver/trees.h"

#include <errno.h>

/* The kind of a region, as a client learns it. */
static uint32_t
announced(struct fixture *f, uint32_t number)
{
	const struct nam_rpc_regions_request request = { .first = 0 };
	const struct nam_rpc_regions_reply *reply = reply_body(f);

	assert_int_equal(call(f, NAM_RPC_REGIONS, &request, sizeof(request)), 0);
	assert_int_equal(reply->total, 2);
	return reply->regions[number].kind;
}

static bool
announced_private(struct fixture *f, uint32_t number)
{
	return announced(f, number) == NAM_MEMORY_PRIVATE;
}

/* If RETURN does not come, the next client that lacks memory of either kind gets it. */
static void
reclaim__return_lost__NEXT_ONE_DECIDES(void **state)
{
	struct fixture *f = *state;
	uint64_t *blocks = calloc(20000, sizeof(*blocks)), batch, later;
	uint32_t all = fill(f, 1088, blocks);

	give_all(f, 1088, blocks, all);
	assert_int_equal(reclaim(f, HOLD_PRIVATE, 0, &batch), all * 1088ull + (512 << 10));
	assert_true(announced_private(f, 1));
	/* Held blocks of region 0 serve their stride; those of region 1 are out of reach. */
	assert_in_range(fill(f, 1088, blocks), all - (512u << 10) / 1088 - 1, all - BLOCKS_MIN / 2);
	assert_in_range(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &later), 512 << 10, 1 << 20);
	assert_false(announced_private(f, 1));
	assert_in_range(later, batch + 1, UINT64_MAX);
	/* Too old: clients may not have heard the last news. */
	assert_int_equal(fill(f, 2048, blocks), 0);
	(void)reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL);
	assert_int_equal(fill(f, 2048, blocks), 0);
	(void)reclaim(f, NAM_RPC_RECLAIM_RETURN, later, NULL);
	assert_in_range(fill(f, 2048, blocks), 250, 256);
	free(blocks);
}

/* A private region without blocks: from the clients, and to them again. */
static void
reclaim__private_region__PUBLIC_AFTER_RETURN(void **state)
{
	struct fixture *f = *state;
	struct nam__allocator *allocator = &f->server->allocator;
	uint64_t *blocks = calloc(20000, sizeof(*blocks)), batch;
	uint32_t all = fill(f, 1088, blocks), n;

	give_all(f, 1088, blocks, all);
	/* Nothing is vacant, so the server has no room either. */
	assert_int_equal(nam__allocator_take(allocator, 4096, NAM_MEMORY_PRIVATE, blocks, 1), 0);
	/* Clients may have old addresses there, so they hear of it first. */
	assert_int_equal(reclaim_all(f), all * 1088ull);
	assert_int_equal(nam__allocator_take(allocator, 4096, NAM_MEMORY_PRIVATE, blocks, 1), 0);
	assert_false(announced_private(f, 1));
	assert_int_equal(reclaim(f, HOLD_PRIVATE, 0, &batch), 512 << 10);
	assert_false(announced_private(f, 0));
	assert_true(announced_private(f, 1));
	assert_in_range(fill(f, 1088, blocks), 1, all / 2 + 1);
	assert_int_equal(nam__allocator_take(allocator, 4096, NAM_MEMORY_PRIVATE, blocks, 1), 0);
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL), 512 << 10);
	n = nam__allocator_take(allocator, 4096, NAM_MEMORY_PRIVATE, blocks, 200);
	assert_int_equal(n, 127);
	assert_int_equal(nam__allocator_take(allocator, 4096, NAM_MEMORY_PRIVATE, blocks + n, 1),
		0);
	for (uint32_t i = 0; i < n; i++)
		memset(nam__block_at(f->server, blocks[i]), 0xab, 4096);
	nam__allocator_give(allocator, 4096, NAM_MEMORY_PRIVATE, blocks, n);
	/* Vacant at once, and zero again for another stride. */
	n = nam__allocator_take(allocator, 64, NAM_MEMORY_PRIVATE, blocks, 8191);
	n += nam__allocator_take(allocator, 64, NAM_MEMORY_PRIVATE, blocks + n, 8191 - n);
	assert_int_equal(n, 8191);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(*(uint64_t *)nam__block_at(f->server, blocks[i]), 0);
	nam__allocator_give(allocator, 64, NAM_MEMORY_PRIVATE, blocks, n);
	assert_int_equal(allocator->memory[NAM_MEMORY_PRIVATE].carved_bytes, 0);
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &batch), 512 << 10);
	assert_int_equal(fill(f, 1088, blocks), 0);
	assert_false(announced_private(f, 1));
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL), 512 << 10);
	assert_int_equal(allocator->memory[NAM_MEMORY_PRIVATE].bytes, 0);
	assert_in_range(fill(f, 1088, blocks), all / 2 - 40, all);
	free(blocks);
}

static uint32_t
take_read_only(struct fixture *f, uint64_t *blocks, uint32_t count)
{
	return nam__allocator_take(&f->server->allocator, 4096, NAM_MEMORY_READ_ONLY, blocks,
		count);
}

/* Blocks of clients never come from it, nor can clients give its blocks back. */
static void
reclaim__read_only_region__IS_APART_AND_COMES_BACK(void **state)
{
	struct fixture *f = *state;
	struct nam__allocator *allocator = &f->server->allocator;
	uint64_t *blocks = calloc(20000, sizeof(*blocks)), mine[127], batch;
	struct nam_rpc_free_request *free_request = calloc(1, sizeof(*free_request) + 8);

	/* A region that clients have never used: they must learn its key, so RETURN comes first. */
	assert_int_equal(take_read_only(f, mine, 1), 0);
	wanted_count = 1000;
	assert_int_equal(reclaim(f, HOLD_READ_ONLY, 0, &batch), 0);
	assert_int_equal(announced(f, 1), NAM_MEMORY_PUBLIC);
	wanted_count = 127;
	assert_int_equal(reclaim(f, HOLD_READ_ONLY, 0, &batch), 512 << 10);
	assert_int_equal(announced(f, 1), NAM_MEMORY_READ_ONLY);
	assert_int_equal(announced(f, 0), NAM_MEMORY_PUBLIC);
	assert_int_equal(take_read_only(f, mine, 1), 0);
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL), 512 << 10);
	/* There is room for them now. */
	assert_int_equal(reclaim(f, HOLD_READ_ONLY, 0, &batch), 0);
	assert_int_equal(take_read_only(f, mine, 127), 127);
	assert_int_equal(take_read_only(f, mine, 1), 0);
	assert_int_equal(allocator->memory[NAM_MEMORY_READ_ONLY].carved_bytes, 127 * 4096);
	assert_int_equal(allocator->memory[NAM_MEMORY_PRIVATE].bytes, 0);
	for (uint32_t i = 0; i < 127; i++)
		assert_int_equal(nam_gaddr_region(NAM_GADDR(mine[i])), nam_gaddr_region(
			NAM_GADDR(mine[0])));
	assert_in_range(fill(f, 4096, blocks), 80, 127);
	for (uint32_t i = 0; blocks[i]; i++)
		assert_int_not_equal(nam_gaddr_region(NAM_GADDR(blocks[i])),
			nam_gaddr_region(NAM_GADDR(mine[0])));
	free_request->stride = 4096;
	free_request->count = 1;
	free_request->blocks[0] = mine[0];
	assert_int_equal(call(f, NAM_RPC_FREE, free_request, sizeof(*free_request) + 8),
		-NAM_E_FABRIC_PROTOCOL);

	/* Clients may know addresses there: two steps to private, and two more to public. */
	nam__allocator_give(allocator, 4096, NAM_MEMORY_READ_ONLY, mine, 127);
	assert_int_equal(take_read_only(f, mine, 127), 127);
	nam__allocator_give(allocator, 4096, NAM_MEMORY_READ_ONLY, mine, 127);
	assert_true(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &batch) > 0);
	assert_true(announced_private(f, 1));
	assert_int_equal(take_read_only(f, mine, 1), 0);
	assert_int_equal(fill(f, 4096, blocks), 0);
	assert_true(reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL) > 0);
	assert_int_equal(allocator->memory[NAM_MEMORY_READ_ONLY].bytes, 0);
	assert_int_equal(reclaim_all(f), 512 << 10);
	assert_int_equal(announced(f, 1), NAM_MEMORY_PUBLIC);
	/* Those of this region; and one that was left to be the reserve (M20). */
	assert_int_equal(fill(f, 4096, blocks), 128);
	free(free_request);
	free(blocks);
}

/* A region that has had blocks of clients: they forget these first. */
static void
reclaim__read_only_from_used__PRIVATE_IN_BETWEEN(void **state)
{
	struct fixture *f = *state;
	uint64_t *blocks = calloc(20000, sizeof(*blocks)), mine[127], batch;
	uint32_t all = fill(f, 1088, blocks);

	give_all(f, 1088, blocks, all);
	wanted_count = 127;
	assert_true(reclaim(f, HOLD_READ_ONLY, 0, &batch) > 0);
	assert_true(announced_private(f, 1));
	assert_true(reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL) > 0);
	assert_int_equal(take_read_only(f, mine, 1), 0);
	assert_int_equal(reclaim(f, HOLD_READ_ONLY, 0, &batch), 512 << 10);
	assert_int_equal(announced(f, 1), NAM_MEMORY_READ_ONLY);
	/* The next client that lacks private memory does not get what another one waits for. */
	assert_int_equal(reclaim(f, HOLD_PRIVATE, 0, NULL), 512 << 10);
	assert_int_equal(announced(f, 1), NAM_MEMORY_READ_ONLY);
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL), 512 << 10);
	assert_int_equal(take_read_only(f, mine, 127), 127);
	for (uint32_t i = 0; i < 127; i++)
		assert_int_equal(*(uint64_t *)nam__block_at(f->server, mine[i]), 0);
	free(blocks);
}

/* Clients that ask while a region gets its pages, and while its memory is not whole. */
static struct {
	struct fixture *f;
	int (*restore)(void *arg, uint32_t region, enum nam_memory_kind kind);
	int result;
	unsigned calls;
} restoring;

static int
restore_beside_requests(void *arg, uint32_t region, enum nam_memory_kind kind)
{
	struct nam__allocator *allocator = &restoring.f->server->allocator;
	/* The fixture's buffers are in use by HOLD. */
	struct fixture *f = calloc(1, sizeof(*f));
	uint64_t block;

	f->server = restoring.f->server;
	restoring.calls++;
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_RETURN, UINT64_MAX, NULL), 0);
	assert_int_equal(ask(f, 4096, 1), -NAM_E_REMOTE_FULL);
	assert_int_equal(nam__allocator_take(allocator, 4096, NAM_MEMORY_PRIVATE, &block, 1), 0);
	assert_int_equal(allocator->regions[region].kind, NAM_MEMORY_PRIVATE);
	free(f);
	return restoring.result ? restoring.result : restoring.restore(arg, region, kind);
}

static void
reclaim__requests_while_a_region_is_restored__LEAVE_IT_ALONE(void **state)
{
	struct fixture *f = *state;
	struct nam__allocator *allocator = &f->server->allocator;
	uint64_t *blocks = calloc(FULL_BLOCKS + 20000, sizeof(*blocks)), block, batch;

	restoring.f = f;
	restoring.calls = 0;
	restoring.result = -ENOMEM;
	restoring.restore = allocator->calls.restore;
	allocator->calls.restore = restore_beside_requests;
	assert_int_equal(nam__allocator_take(allocator, 1088, NAM_MEMORY_PRIVATE, &block, 1), 1);
	(void)fill(f, 64, blocks);
	nam__allocator_give(allocator, 1088, NAM_MEMORY_PRIVATE, &block, 1);
	/* If it fails, the region is as before. */
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &batch), 0);
	assert_int_equal(nam__allocator_take(allocator, 1088, NAM_MEMORY_PRIVATE, &block, 1), 1);
	nam__allocator_give(allocator, 1088, NAM_MEMORY_PRIVATE, &block, 1);
	restoring.result = 0;
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &batch), 512 << 10);
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL), 512 << 10);
	assert_int_equal(ask(f, 4096, 1), 0);
	assert_int_equal(restoring.calls, 2);
	free(blocks);
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reclaim__return_lost__NEXT_ONE_DECIDES),
		TEST(reclaim__private_region__PUBLIC_AFTER_RETURN),
		TEST(reclaim__read_only_region__IS_APART_AND_COMES_BACK),
		TEST(reclaim__read_only_from_used__PRIVATE_IN_BETWEEN),
		TEST(reclaim__requests_while_a_region_is_restored__LEAVE_IT_ALONE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
