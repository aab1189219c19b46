/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_colocated_test.c -- costs of operations of a client on the machine of a memory server.
 * READs of its memory are copies, and so are requests to it.  All the rest costs as much as for
 * other clients.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"

#define PAIRS 10000u
#define STRIDE 1024u

static void
play(uint32_t servers, uint32_t near, uint64_t cache_bytes, void (*act)(struct cost_stage *stage))
{
	struct cost_stage stage;

	cost_stage_init(&stage, act);
	stage.servers = servers;
	stage.near = near;
	stage.cache_bytes = cache_bytes;
	stage.pairs = PAIRS;
	cost_play(&stage);
}

/* ---- one key -------------------------------------------------------------------------------- */

static void
lookup(struct cost_stage *stage, const char *what, uint64_t colocated_reads)
{
	const struct cost expected = { .colocated_reads = colocated_reads };
	uint8_t key[8];
	uint64_t payload;

	nam_key_from_u64(5000, key);
	cost_begin(stage);
	cost_expect(stage, what, nam_index_lookup(stage->worker, stage->index, key, &payload), 0);
	cost_end(stage, NAM_OP_LOOKUP, what, &expected);
	assert_int_equal(cost_spent(stage).bytes_in, 0);
	assert_int_equal(cost_spent(stage).work_requests, 0);
}

static void
act_lookups(struct cost_stage *stage)
{
	lookup(stage, "a lookup without a cache", 3);
}

static void
lookup__near__HEIGHT_COPIES_AND_NO_ROUND_TRIP(void **state)
{
	(void)state;
	play(1, 1, 0, act_lookups);
}

static void
act_lookups_warm(struct cost_stage *stage)
{
	cost_warm(stage);
	lookup(stage, "a lookup with a warm cache", 1);
}

static void
lookup__near_and_warm__ONE_COPY(void **state)
{
	(void)state;
	play(1, 1, COST_CACHE_BYTES, act_lookups_warm);
}

static void
act_changes(struct cost_stage *stage)
{
	/* The lock and the image come with one doorbell, which changes something. */
	struct cost expected = { .round_trips = 2, .releases = 1 };
	uint8_t key[8];

	/* Or the image is READ once the lock is there. */
	if (!(stage->client->caps & NAM_CAP_ORDER_ATOMIC_READ))
		expected.colocated_reads = 1;
	cost_warm(stage);
	nam_key_from_u64(5001, key);
	cost_begin(stage);
	cost_expect(stage, "insert", nam_index_insert(stage->worker, stage->index, key, 1), 0);
	cost_end(stage, NAM_OP_INSERT, "insert", &expected);
}

static void
insert__near__ALL_BY_THE_CARD(void **state)
{
	(void)state;
	play(1, 1, COST_CACHE_BYTES, act_changes);
}

/* ---- many keys ------------------------------------------------------------------------------ */

static void
act_scan(struct cost_stage *stage)
{
	struct nam_range range = { .limit = PAIRS };
	struct nam_op_counters spent;
	struct nam_cursor *cursor;
	uint64_t seen = 0;
	uint32_t got;

	cost_begin(stage);
	cost_expect(stage, "scan",
		nam_cursor_open(stage->worker, stage->index, &range, &cursor), 0);
	do {
		uint64_t keys[100], payloads[100];

		got = 0;
		cost_expect(stage, "scan", nam_cursor_next(cursor, keys, payloads, 100,
			&got), 0);
		seen += got;
	} while (got);
	nam_cursor_close(cursor);
	spent = cost_spent(stage);
	if (seen != PAIRS)
		cost_fail(stage, "a scan found %llu pairs", (unsigned long long)seen);
	if (spent.round_trips || spent.doorbells || spent.bytes_in ||
		spent.colocated_reads < PAIRS / 55)
		cost_fail(stage, "a scan made %llu round trips, %llu doorbells, %llu local READs",
			(unsigned long long)spent.round_trips, (unsigned long long)spent.doorbells,
			(unsigned long long)spent.colocated_reads);
}

static void
scan__near__NO_ROUND_TRIP(void **state)
{
	(void)state;
	play(1, 1, COST_CACHE_BYTES, act_scan);
}

static void
act_lookup_many(struct cost_stage *stage)
{
	enum { COUNT = 64 };
	const struct cost expected = { .ops = COUNT, .colocated_reads = COUNT };
	uint8_t keys[8 * COUNT];
	uint64_t payloads[COUNT];
	int rcs[COUNT];

	cost_warm(stage);
	for (uint64_t i = 0; i < COUNT; i++)
		nam_key_from_u64(1000 * i, keys + 8 * i);
	cost_begin(stage);
	cost_expect(stage, "lookups", nam_index_lookup_many(stage->worker, stage->index, keys,
		COUNT, payloads, rcs), 0);
	cost_end(stage, NAM_OP_LOOKUP, "64 lookups", &expected);
}

static void
lookup_many__near__A_COPY_EACH(void **state)
{
	(void)state;
	play(1, 1, COST_CACHE_BYTES, act_lookup_many);
}

/* ---- requests ------------------------------------------------------------------------------- */

static void
act_coarse(struct cost_stage *stage)
{
	const struct cost one = { .colocated_calls = 1 };
	struct nam_range range = { .limit = PAIRS };
	struct nam_op_counters spent;
	struct nam_cursor *cursor;
	uint64_t payload, seen = 0;
	uint8_t key[8];
	uint32_t got;

	nam_key_from_u64(5000, key);
	cost_begin(stage);
	cost_expect(stage, "lookup",
		nam_index_lookup(stage->worker, stage->index, key, &payload), 0);
	cost_end(stage, NAM_OP_LOOKUP, "a lookup in a coarse-grained index", &one);
	cost_begin(stage);
	cost_expect(stage, "upsert", nam_index_upsert(stage->worker, stage->index, key, 7), 0);
	cost_end(stage, NAM_OP_UPSERT, "an upsert in a coarse-grained index", &one);
	cost_begin(stage);
	cost_expect(stage, "scan",
		nam_cursor_open(stage->worker, stage->index, &range, &cursor), 0);
	do {
		uint64_t keys[100], payloads[100];

		got = 0;
		cost_expect(stage, "scan", nam_cursor_next(cursor, keys, payloads, 100,
			&got), 0);
		seen += got;
	} while (got);
	nam_cursor_close(cursor);
	spent = cost_spent(stage);
	if (seen != PAIRS || spent.round_trips || spent.doorbells || !spent.colocated_calls)
		cost_fail(stage, "a scan of %llu pairs made %llu round trips, %llu doorbells, "
			"%llu local requests", (unsigned long long)seen,
			(unsigned long long)spent.round_trips, (unsigned long long)spent.doorbells,
			(unsigned long long)spent.colocated_calls);
}

/* Longer than a memory server waits for more to do. */
#define IDLE_NS 5000000u

static void
act_asleep(struct cost_stage *stage)
{
	const struct cost message = { .round_trips = 1 }, copies = { .colocated_calls = 1 };
	uint64_t payload;
	uint8_t key[8];

	nam_key_from_u64(5000, key);
	for (unsigned i = 0; i < 3; i++) {
		nam_sleep_ns(IDLE_NS);
		cost_begin(stage);
		cost_expect(stage, "lookup",
			nam_index_lookup(stage->worker, stage->index, key, &payload), 0);
		cost_end(stage, NAM_OP_LOOKUP, "a lookup that wakes the memory server", &message);
		cost_begin(stage);
		cost_expect(stage, "lookup",
			nam_index_lookup(stage->worker, stage->index, key, &payload), 0);
		cost_end(stage, NAM_OP_LOOKUP, "a lookup behind it", &copies);
	}
}

static void
play_coarse(void (*act)(struct cost_stage *stage))
{
	struct cost_stage stage;

	cost_stage_init(&stage, act);
	stage.options.design = NAM_DESIGN_COARSE;
	stage.servers = stage.near = 1;
	stage.pairs = PAIRS;
	cost_play(&stage);
}

static void
coarse__near__NO_MESSAGE(void **state)
{
	(void)state;
	play_coarse(act_coarse);
}

static void
coarse__near_and_asleep__WOKEN_BY_ONE_MESSAGE(void **state)
{
	(void)state;
	play_coarse(act_asleep);
}

/* ---- near and far --------------------------------------------------------------------------- */

static void
act_batch(struct cost_stage *stage)
{
	const struct cost one = { .round_trips = 1, .doorbells = 1, .requests = 1,
		.bytes_in = STRIDE, .colocated_reads = 1 };
	const struct cost mixed = { .round_trips = 1, .doorbells = 1, .requests = 2,
		.bytes_in = STRIDE, .bytes_out = STRIDE };
	uint8_t *local = nam_buffer_take(stage->worker, 2 * STRIDE);
	struct nam_gaddr at[2];
	struct nam_batch batch;

	for (uint32_t i = 0; i < 2; i++) {
		cost_expect(stage, "a block", nam_alloc_on(stage->worker, i, STRIDE, &at[i]), 0);
		at[i] = nam_gaddr_untagged(at[i]);
	}
	memset(local, 0, 2ul * STRIDE);
	cost_begin(stage);
	nam_batch_init(&batch, stage->worker);
	nam_batch_read(&batch, at[0], local, STRIDE);
	nam_batch_read(&batch, at[1], local + STRIDE, STRIDE);
	cost_expect(stage, "a batch", nam_batch_await(&batch), 0);
	cost_end(stage, NAM_OP_OTHER, "READs of a near and of a far server", &one);
	cost_begin(stage);
	nam_batch_init(&batch, stage->worker);
	nam_batch_write(&batch, at[0], 0, local, STRIDE);
	nam_batch_read(&batch, at[0], local, STRIDE);
	cost_expect(stage, "a batch", nam_batch_await(&batch), 0);
	cost_end(stage, NAM_OP_OTHER, "a READ behind a WRITE", &mixed);
	nam_buffer_give(stage->worker, local, 2 * STRIDE);
}

static void
batch__near_and_far__ONLY_READS_ALONE_ARE_COPIES(void **state)
{
	(void)state;
	play(2, 1, COST_CACHE_BYTES, act_batch);
}

static void
act_not_near(struct cost_stage *stage)
{
	const struct cost expected = { .round_trips = 1, .requests = 1 };
	uint8_t key[8];
	uint64_t payload;

	cost_warm(stage);
	nam_key_from_u64(5000, key);
	cost_begin(stage);
	cost_expect(stage, "lookup",
		nam_index_lookup(stage->worker, stage->index, key, &payload), 0);
	cost_end(stage, NAM_OP_LOOKUP, "lookup", &expected);
}

static void
lookup__far__A_ROUND_TRIP(void **state)
{
	(void)state;
	play(1, 0, COST_CACHE_BYTES, act_not_near);
}

static void
lookup__near_but_told_not_to__A_ROUND_TRIP(void **state)
{
	(void)state;
	setenv("NAM_COLOCATED_ACCESS", "0", 1);
	play(1, 1, COST_CACHE_BYTES, act_not_near);
	unsetenv("NAM_COLOCATED_ACCESS");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookup__near__HEIGHT_COPIES_AND_NO_ROUND_TRIP),
		cmocka_unit_test(lookup__near_and_warm__ONE_COPY),
		cmocka_unit_test(insert__near__ALL_BY_THE_CARD),
		cmocka_unit_test(scan__near__NO_ROUND_TRIP),
		cmocka_unit_test(lookup_many__near__A_COPY_EACH),
		cmocka_unit_test(coarse__near__NO_MESSAGE),
		cmocka_unit_test(coarse__near_and_asleep__WOKEN_BY_ONE_MESSAGE),
		cmocka_unit_test(batch__near_and_far__ONLY_READS_ALONE_ARE_COPIES),
		cmocka_unit_test(lookup__far__A_ROUND_TRIP),
		cmocka_unit_test(lookup__near_but_told_not_to__A_ROUND_TRIP),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
