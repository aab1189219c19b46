/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/remote/block_cache.h"
#include "compute/remote/spare.h"
#include "tests/lib/fake_server.h"

#define SERVERS 3u
#define STRIDE 1088u

struct fixture {
	struct fake_server *servers[SERVERS];
	struct nam_client *client;
	struct nam_worker *worker;
};

static void
connect_all(struct fixture *fixture, uint32_t count, const struct fake_server_options *like)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	char text[600] = "";

	for (uint32_t i = 0; i < count; i++) {
		struct fake_server_options server_options = *like;

		server_options.id = i;
		fixture->servers[i] = fake_server_start(&server_options);
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? "," : "",
			fake_server_address(fixture->servers[i]));
	}
	nam_client_options_init(&options);
	options.cluster = text;
	options.timeout_ms = 60000;
	if (nam_client_connect(&options, &fixture->client, &diag))
		fail_msg("%s", diag.text);
	assert_int_equal(nam_worker_open(fixture->client, &fixture->worker, &diag), 0);
}

static void
close_all(struct fixture *fixture)
{
	if (fixture->worker)
		nam_worker_close(fixture->worker);
	nam_client_close(fixture->client);
	for (uint32_t i = 0; i < SERVERS; i++)
		if (fixture->servers[i])
			fake_server_stop(fixture->servers[i]);
}

static void
set_up(struct fixture *fixture, uint32_t count)
{
	struct fake_server_options options = { .memory_bytes = 16u << 20 };

	memset(fixture, 0, sizeof(*fixture));
	connect_all(fixture, count, &options);
}

static uint32_t
slot_of(const struct fixture *fixture, struct nam_gaddr at)
{
	return nam_region_table_find(&fixture->client->regions, at)->server;
}

static int
compare_words(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* ---- where blocks come from --------------------------------------------------------------- */

static void
nam_alloc__three_servers__ROUND_ROBIN(void **state)
{
	struct fixture fixture;
	struct nam_gaddr at;
	uint32_t first;

	(void)state;
	set_up(&fixture, 3);
	assert_int_equal(nam_alloc(fixture.worker, STRIDE, &at), 0);
	first = slot_of(&fixture, at);
	for (uint32_t i = 1; i < 30; i++) {
		assert_int_equal(nam_alloc(fixture.worker, STRIDE, &at), 0);
		assert_int_equal(slot_of(&fixture, at), (first + i) % 3);
	}
	close_all(&fixture);
}

#define EIGHTH ((1u << 20) / STRIDE)	/* of a server's memory, in blocks */

/* Server 0 has so many eighths of its memory less than others. */
static void
fill_first(struct fixture *fixture, uint32_t eighths)
{
	struct nam_gaddr at;

	for (uint32_t i = 0; i < EIGHTH * eighths; i++)
		assert_int_equal(nam_alloc_on(fixture->worker, 0, STRIDE, &at), 0);
}

static uint32_t
count_at_first(struct fixture *fixture, uint32_t count,
	int (*alloc)(struct nam_worker *worker, uint32_t stride, struct nam_gaddr *ret_at))
{
	uint32_t at_first = 0;
	struct nam_gaddr at;

	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(alloc(fixture->worker, STRIDE, &at), 0);
		at_first += !slot_of(fixture, at);
	}
	return at_first;
}

static void
nam_alloc__server_with_less_free_memory__PASSED_BY_AT_FIRST(void **state)
{
	struct fake_server_options options = { .memory_bytes = 8u << 20 };
	struct fixture fixture = { .client = NULL };
	uint32_t asked, at_first;

	(void)state;
	connect_all(&fixture, 2, &options);
	fill_first(&fixture, 3);
	/* The block cache's blocks of it are used up; beside that a few come, now and then. */
	(void)count_at_first(&fixture, EIGHTH / 4, nam_alloc);
	asked = fake_server_requests(fixture.servers[0], NAM_RPC_ALLOC);
	at_first = count_at_first(&fixture, EIGHTH, nam_alloc);
	assert_true(at_first < EIGHTH / 8);
	assert_true(fake_server_requests(fixture.servers[0], NAM_RPC_ALLOC) - asked < 4);
	/* Server 1 has about as little now: by turns again. */
	(void)count_at_first(&fixture, EIGHTH, nam_alloc);
	at_first = count_at_first(&fixture, EIGHTH, nam_alloc);
	assert_in_range(at_first, EIGHTH * 3 / 8, EIGHTH * 5 / 8);
	close_all(&fixture);
}

static void
nam_alloc_evenly__server_with_less_free_memory__BY_TURNS(void **state)
{
	struct fake_server_options options = { .memory_bytes = 8u << 20 };
	struct fixture fixture = { .client = NULL };

	(void)state;
	connect_all(&fixture, 2, &options);
	fill_first(&fixture, 3);
	assert_int_equal(count_at_first(&fixture, 2000, nam_alloc_evenly), 1000);
	close_all(&fixture);
}

static void
nam_alloc_slot__server_with_less_free_memory__NOT_CHOSEN(void **state)
{
	struct fake_server_options options = { .memory_bytes = 8u << 20 };
	struct fixture fixture = { .client = NULL };
	struct nam_gaddr at;

	(void)state;
	connect_all(&fixture, 3, &options);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(nam_alloc_on(fixture.worker, i, STRIDE, &at), 0);
		assert_int_equal(nam_alloc_slot(fixture.client, i * 0x55555556u), i);
	}
	fill_first(&fixture, 3);
	assert_int_equal(nam_alloc_slot(fixture.client, 0), 1);
	assert_int_equal(nam_alloc_slot(fixture.client, UINT32_MAX), 2);
	close_all(&fixture);
}

/* Even if the others have little, and the full one no less than they may have. */
static void
nam_alloc_slot__server_is_full__NOT_CHOSEN(void **state)
{
	struct fake_server_options options = { .memory_bytes = 8u << 20 };
	struct fixture fixture = { .client = NULL };
	struct nam_gaddr at;

	(void)state;
	connect_all(&fixture, 2, &options);
	for (uint32_t i = 0; i < EIGHTH * 15 / 2; i++)
		assert_int_equal(nam_alloc_on(fixture.worker, 1, STRIDE, &at), 0);
	while (nam_alloc_on(fixture.worker, 0, STRIDE, &at) == 0)
		continue;
	assert_int_equal(nam_alloc_slot(fixture.client, 0), 1);
	while (nam_alloc_on(fixture.worker, 1, STRIDE, &at) == 0)
		continue;
	assert_int_equal(nam_alloc_slot(fixture.client, 0), 0);
	close_all(&fixture);
}

static void
nam_alloc_on__chosen_server__THERE(void **state)
{
	struct fixture fixture;
	struct nam_gaddr at;

	(void)state;
	set_up(&fixture, 3);
	for (uint32_t i = 0; i < 9; i++) {
		assert_int_equal(nam_alloc_on(fixture.worker, i % 3, STRIDE, &at), 0);
		assert_int_equal(slot_of(&fixture, at), i % 3);
	}
	assert_int_equal(nam_alloc_on(fixture.worker, 3, STRIDE, &at), -EINVAL);
	assert_int_equal(nam_alloc_on(fixture.worker, 0, 0, &at), -EINVAL);
	assert_int_equal(nam_alloc_on(fixture.worker, 0, 100, &at), -EINVAL);
	close_all(&fixture);
}

#define MANY 10000u

static void
nam_alloc__many_blocks__DISTINCT_and_few_rpcs(void **state)
{
	static uint64_t blocks[MANY];
	struct fixture fixture;
	struct nam_gaddr at;

	(void)state;
	set_up(&fixture, 1);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(nam_alloc(fixture.worker, STRIDE, &at), 0);
		assert_int_equal(nam_gaddr_tag(at), NAM_BLOCK_FRESH);
		blocks[i] = at.raw;
	}
	qsort(blocks, MANY, sizeof(blocks[0]), compare_words);
	for (uint32_t i = 1; i < MANY; i++)
		assert_true(blocks[i] - blocks[i - 1] >= STRIDE / NAM_GADDR_UNIT_BYTES);
	/* 16 + 32 + ... + 512, then at most 1 MiB and a block: 964 each. */
	assert_int_equal(fake_server_requests(fixture.servers[0], NAM_RPC_ALLOC), 6 + 10);
	assert_true(fake_server_blocks_out(fixture.servers[0]) - MANY <= 964);
	close_all(&fixture);
}

static void
nam_alloc__large_stride__AT_MOST_1_MIB_AND_A_BLOCK(void **state)
{
	const uint32_t stride = 512u << 10;
	struct fixture fixture;
	struct nam_gaddr at;

	(void)state;
	set_up(&fixture, 1);
	assert_int_equal(nam_alloc(fixture.worker, stride, &at), 0);
	assert_int_equal(fake_server_blocks_out(fixture.servers[0]), 3);
	close_all(&fixture);
}

/* ---- recycling ---------------------------------------------------------------------------- */

static void
nam_free_unseen__then_alloc__SAME_BLOCK_RECYCLED(void **state)
{
	struct fixture fixture;
	struct nam_gaddr at, again;

	(void)state;
	set_up(&fixture, 1);
	assert_int_equal(nam_alloc(fixture.worker, STRIDE, &at), 0);
	assert_int_equal(nam_gaddr_tag(at), NAM_BLOCK_FRESH);
	/* Its present tag is not part of its name. */
	nam_free_unseen(fixture.worker, nam_gaddr_tagged(at, 12345), STRIDE);
	assert_int_equal(nam_alloc(fixture.worker, STRIDE, &again), 0);
	assert_int_equal(nam_gaddr_tag(again), NAM_BLOCK_RECYCLED);
	assert_true(nam_gaddr_same(nam_gaddr_untagged(again), nam_gaddr_untagged(at)));
	close_all(&fixture);
}

static void
nam_free_unseen__two_strides__NEVER_MIXED(void **state)
{
	struct fixture fixture;
	struct nam_gaddr small, large, again;

	(void)state;
	set_up(&fixture, 1);
	assert_int_equal(nam_alloc(fixture.worker, 128, &small), 0);
	assert_int_equal(nam_alloc(fixture.worker, STRIDE, &large), 0);
	nam_free_unseen(fixture.worker, small, 128);
	assert_int_equal(nam_alloc(fixture.worker, STRIDE, &again), 0);
	assert_int_equal(nam_gaddr_tag(again), NAM_BLOCK_FRESH);
	assert_int_equal(nam_alloc(fixture.worker, 128, &again), 0);
	assert_true(nam_gaddr_same(nam_gaddr_untagged(again), small));
	close_all(&fixture);
}

static void
nam_worker_close__cache_left__ALL_BACK_AT_THE_SERVERS(void **state)
{
	struct fixture fixture;
	struct nam_gaddr at[10];
	uint32_t out = 0;

	(void)state;
	set_up(&fixture, 3);
	/* Enough that one message does not hold it. */
	for (uint32_t i = 0; i < 3000; i++) {
		assert_int_equal(nam_alloc(fixture.worker, STRIDE, &at[i % 10]), 0);
		if (i >= 10)
			nam_free_unseen(fixture.worker, at[i % 10], STRIDE);
	}
	for (uint32_t i = 0; i < 1500; i++)
		assert_int_equal(nam_alloc(fixture.worker, 64, &at[i % 10]), 0);
	for (uint32_t i = 0; i < 3; i++)
		out += fake_server_blocks_out(fixture.servers[i]);
	assert_true(out > 1510);
	nam_worker_close(fixture.worker);
	fixture.worker = NULL;
	out = 0;
	for (uint32_t i = 0; i < 3; i++)
		out += fake_server_blocks_out(fixture.servers[i]);
	assert_int_equal(out, 1510);
	close_all(&fixture);
}

static void
nam_alloc__blocks_given_back_by_another__RECYCLED(void **state)
{
	struct fixture fixture;
	struct nam_worker *second;
	struct nam_gaddr at;
	struct nam_diag diag;

	(void)state;
	set_up(&fixture, 1);
	assert_int_equal(nam_alloc(fixture.worker, STRIDE, &at), 0);
	nam_worker_close(fixture.worker);
	assert_int_equal(nam_worker_open(fixture.client, &second, &diag), 0);
	fixture.worker = second;
	for (uint32_t i = 0; i < 15; i++) {
		assert_int_equal(nam_alloc(second, STRIDE, &at), 0);
		assert_int_equal(nam_gaddr_tag(at), NAM_BLOCK_RECYCLED);
	}
	assert_int_equal(nam_alloc(second, STRIDE, &at), 0);
	assert_int_equal(nam_gaddr_tag(at), NAM_BLOCK_FRESH);
	close_all(&fixture);
}

static void
nam__block_cache_return__more_than_needed__SURPLUS_BACK(void **state)
{
	static struct nam_gaddr at[4000];
	struct fixture fixture;
	uint32_t out;

	(void)state;
	set_up(&fixture, 1);
	for (uint32_t i = 0; i < 4000; i++)
		assert_int_equal(nam_alloc(fixture.worker, 64, &at[i]), 0);
	out = fake_server_blocks_out(fixture.servers[0]);
	nam__block_cache_return(fixture.worker, NAM__BLOCKS_KEPT);
	assert_int_equal(fake_server_blocks_out(fixture.servers[0]), out);
	for (uint32_t i = 0; i < 4000; i++)
		nam_free_unseen(fixture.worker, at[i], 64);
	nam__block_cache_return(fixture.worker, NAM__BLOCKS_KEPT);
	assert_int_equal(fake_server_blocks_out(fixture.servers[0]), 1024);
	close_all(&fixture);
}

/* ---- no room ------------------------------------------------------------------------------ */

static void
nam_alloc__servers_full__REMOTE_FULL_only_when_all_are(void **state)
{
	struct fake_server_options options = { .memory_bytes = 256u << 10 };
	struct fixture fixture = { .client = NULL };
	struct nam_gaddr at, last = NAM_GADDR_NULL;
	uint32_t count = 0, per_server[3] = { 0 };
	int rc;

	(void)state;
	connect_all(&fixture, 3, &options);
	/* Server 1 alone is full first. */
	while ((rc = nam_alloc_on(fixture.worker, 1, STRIDE, &at)) == 0)
		count++;
	assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	assert_non_null(strstr(nam_worker_diag(fixture.worker), "Its 256 KiB in all"));
	assert_non_null(strstr(nam_worker_diag(fixture.worker), "used blocks of other sizes"));
	assert_non_null(strstr(nam_worker_diag(fixture.worker), "--memory"));
	while ((rc = nam_alloc(fixture.worker, STRIDE, &at)) == 0) {
		per_server[slot_of(&fixture, at)]++;
		last = at;
	}
	assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	assert_int_equal(per_server[0], count);
	assert_int_equal(per_server[1], 0);
	assert_int_equal(per_server[2], count);
	assert_non_null(strstr(nam_worker_diag(fixture.worker), "have 768 KiB in all"));
	assert_non_null(strstr(nam_worker_diag(fixture.worker), "--memory"));
	nam_free_unseen(fixture.worker, last, STRIDE);
	assert_int_equal(nam_alloc(fixture.worker, STRIDE, &at), 0);
	assert_true(nam_gaddr_same(nam_gaddr_untagged(at), nam_gaddr_untagged(last)));
	close_all(&fixture);
}

static void
nam_alloc__full_server__NOT_ASKED_EVERY_TIME(void **state)
{
	struct fake_server_options options = { .memory_bytes = 256u << 10 };
	struct fixture fixture = { .client = NULL };
	struct nam_gaddr at;
	uint32_t asked;

	(void)state;
	connect_all(&fixture, 2, &options);
	while (nam_alloc_on(fixture.worker, 1, 64, &at) == 0)
		continue;
	asked = fake_server_requests(fixture.servers[1], NAM_RPC_ALLOC);
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(nam_alloc(fixture.worker, 64, &at), 0);
	assert_int_equal(fake_server_requests(fixture.servers[1], NAM_RPC_ALLOC), asked);
	close_all(&fixture);
}

/* Each worker's first block for a passing use is of the reserve if the memory server is full. */
static void
nam__spare_take__server_is_full__OF_THE_RESERVE(void **state)
{
	struct fake_server_options options = {
		.memory_bytes = 256u << 10,
		.reserve_bytes = STRIDE,
	};
	struct fixture fixture = { .client = NULL };
	struct nam_gaddr at, spare;

	(void)state;
	connect_all(&fixture, 3, &options);
	while (nam_alloc_on(fixture.worker, 0, STRIDE, &at) == 0)
		continue;
	assert_int_equal(nam__spare_take(fixture.worker, 0, STRIDE, &spare), 0);
	assert_int_equal(slot_of(&fixture, spare), 0);
	assert_int_equal(nam__spare_take(fixture.worker, 0, STRIDE, &at), -NAM_E_REMOTE_FULL);
	/* One that has come back comes before all others. */
	nam__spare_give(fixture.worker, 0, nam_gaddr_untagged(spare), STRIDE);
	assert_int_equal(nam_alloc_on(fixture.worker, 0, STRIDE, &at), -NAM_E_REMOTE_FULL);
	assert_int_equal(nam__spare_take(fixture.worker, 0, STRIDE, &at), 0);
	assert_true(nam_gaddr_same(nam_gaddr_untagged(at), nam_gaddr_untagged(spare)));
	close_all(&fixture);
}

static void
nam_alloc__server_dies__OTHERS_SERVE_then_PEER_DEAD(void **state)
{
	struct fixture fixture;
	struct nam_gaddr at;

	(void)state;
	set_up(&fixture, 2);
	/* Also if some of its blocks are in the cache. */
	assert_int_equal(nam_alloc_on(fixture.worker, 1, STRIDE, &at), 0);
	fake_server_stop(fixture.servers[1]);
	fixture.servers[1] = NULL;
	while (fixture.worker->qps[1])
		nam_worker_yield(fixture.worker);
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(nam_alloc(fixture.worker, STRIDE, &at), 0);
		assert_int_equal(slot_of(&fixture, at), 0);
	}
	fake_server_stop(fixture.servers[0]);
	fixture.servers[0] = NULL;
	assert_int_equal(nam_alloc(fixture.worker, 64, &at), -NAM_E_FABRIC_PEER_DEAD);
	close_all(&fixture);
}

/* ---- malformed replies -------------------------------------------------------------------- */

static void
spoil(struct fake_server *server, const struct nam_rpc_header *request, struct fake_reply *reply)
{
	struct nam_rpc_alloc_reply *body = (void *)reply->body;

	if (request->type != NAM_RPC_ALLOC)
		return;
	switch (atomic_load((atomic_int *)fake_server_hook_arg(server))) {
	case 0:
		body->run_count = 0;
		break;
	case 1:
		body->run_count = 17;
		break;
	case 2:
		body->run_at = nam_gaddr_make(256, 4096, 0).raw;	/* server 1's */
		break;
	case 3:
		body->run_at = nam_gaddr_make(77, 4096, 0).raw;		/* free */
		break;
	case 4:
		body->run_at = nam_gaddr_make(0, (1u << 20) - 64, 0).raw;
		break;
	case 5:
		body->run_at = 0;
		break;
	case 6:
		body->count = 1;
		break;
	case 7:
		reply->header.body_bytes = 8;
		break;
	case 8:
		body->run_count = 15;
		body->count = 1;
		body->blocks[0] = nam_gaddr_make(0, 1u << 20, 0).raw;
		reply->header.body_bytes += 8;
		break;
	case 9:
		body->run_count = 15;
		body->count = 2;
		body->blocks[0] = body->blocks[1] = nam_gaddr_make(0, 4096, 0).raw;
		reply->header.body_bytes += 16;
		break;
	case 10:
		body->run_at |= 1ull << 48;
		break;
	default:
		body->run_at = nam_gaddr_make(0, 1ull << 37, 0).raw;
	}
}

static void
nam_alloc__malformed_reply__PROTOCOL(void **state)
{
	atomic_int what = 0;
	struct fake_server_options options = {
		.memory_bytes = 1u << 20,
		.hook = spoil,
		.hook_arg = &what,
	};
	struct fixture fixture = { .client = NULL };
	struct nam_gaddr at = { 99 };

	(void)state;
	connect_all(&fixture, 2, &options);
	for (int i = 0; i <= 11; i++) {
		atomic_store(&what, i);
		assert_int_equal(nam_alloc_on(fixture.worker, 0, STRIDE, &at),
			-NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(at.raw, 99);
		assert_non_null(strstr(nam_worker_diag(fixture.worker), "ALLOC"));
	}
	close_all(&fixture);
}

/* ---- fibers ------------------------------------------------------------------------------- */

#define FIBERS 64u

struct allocator {
	struct nam_worker *worker;
	struct nam_gaddr at[4];
	int rc;
};

static void
alloc_four(void *arg)
{
	struct allocator *allocator = arg;

	for (uint32_t i = 0; i < 4 && !allocator->rc; i++)
		allocator->rc = nam_alloc(allocator->worker, STRIDE,
			&allocator->at[i]); /* SUSPENDS */
}

static void
nam_alloc__many_fibers_on_an_empty_cache__ONE_ASKS_for_all(void **state)
{
	struct allocator allocators[FIBERS];
	uint64_t blocks[4 * FIBERS];
	struct fixture fixture;

	(void)state;
	set_up(&fixture, 1);
	for (uint32_t i = 0; i < FIBERS; i++) {
		allocators[i] = (struct allocator){ .worker = fixture.worker };
		assert_int_equal(nam_worker_spawn(fixture.worker, alloc_four, &allocators[i]), 0);
	}
	nam_worker_run(fixture.worker);
	for (uint32_t i = 0; i < FIBERS; i++) {
		assert_int_equal(allocators[i].rc, 0);
		for (uint32_t j = 0; j < 4; j++)
			blocks[4 * i + j] = allocators[i].at[j].raw;
	}
	qsort(blocks, 4 * FIBERS, sizeof(blocks[0]), compare_words);
	for (uint32_t i = 1; i < 4 * FIBERS; i++)
		assert_true(blocks[i] - blocks[i - 1] >= STRIDE / NAM_GADDR_UNIT_BYTES);
	/* 16 + 32 + 64 + 128 + 256 is the first sum above 256. */
	assert_int_equal(fake_server_requests(fixture.servers[0], NAM_RPC_ALLOC), 5);
	close_all(&fixture);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_alloc__three_servers__ROUND_ROBIN),
		cmocka_unit_test(
			nam_alloc__server_with_less_free_memory__PASSED_BY_AT_FIRST),
		cmocka_unit_test(nam_alloc_evenly__server_with_less_free_memory__BY_TURNS),
		cmocka_unit_test(nam_alloc_slot__server_with_less_free_memory__NOT_CHOSEN),
		cmocka_unit_test(nam_alloc_slot__server_is_full__NOT_CHOSEN),
		cmocka_unit_test(nam_alloc_on__chosen_server__THERE),
		cmocka_unit_test(nam_alloc__many_blocks__DISTINCT_and_few_rpcs),
		cmocka_unit_test(nam_alloc__large_stride__AT_MOST_1_MIB_AND_A_BLOCK),
		cmocka_unit_test(nam_free_unseen__then_alloc__SAME_BLOCK_RECYCLED),
		cmocka_unit_test(nam_free_unseen__two_strides__NEVER_MIXED),
		cmocka_unit_test(nam_worker_close__cache_left__ALL_BACK_AT_THE_SERVERS),
		cmocka_unit_test(nam_alloc__blocks_given_back_by_another__RECYCLED),
		cmocka_unit_test(nam__block_cache_return__more_than_needed__SURPLUS_BACK),
		cmocka_unit_test(nam_alloc__servers_full__REMOTE_FULL_only_when_all_are),
		cmocka_unit_test(nam_alloc__full_server__NOT_ASKED_EVERY_TIME),
		cmocka_unit_test(nam__spare_take__server_is_full__OF_THE_RESERVE),
		cmocka_unit_test(nam_alloc__server_dies__OTHERS_SERVE_then_PEER_DEAD),
		cmocka_unit_test(nam_alloc__malformed_reply__PROTOCOL),
		cmocka_unit_test(nam_alloc__many_fibers_on_an_empty_cache__ONE_ASKS_for_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
