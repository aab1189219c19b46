/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_parts_test.c -- what operations on indexes in parts cost: coarse-grained ones exactly,
 * message by message, and hybrid ones where they differ from fine-grained ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "index/coarse/coarse.h"
#include "cost.h"

#define SERVERS 2u
#define RPC_HEADER_BYTES 24u
#define PAIR_BYTES 16u		/* of 8-byte keys */
#define PAIRS 3000u

static void
play(enum nam_index_design design, uint64_t pairs, uint64_t cache_bytes,
	void (*act)(struct cost_stage *stage))
{
	struct cost_stage stage;

	cost_stage_init(&stage, act);
	stage.options.design = design;
	stage.options.partitioning = NAM_PARTITION_HASH;
	stage.servers = SERVERS;
	stage.pairs = pairs;
	stage.cache_bytes = cache_bytes;
	cost_play(&stage);
}

/* How many of the pairs lie in a part. */
static uint64_t
pairs_of(const struct cost_stage *stage, uint32_t part, uint64_t pairs)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < pairs; i++) {
		uint8_t bytes[NAM_KEY_BYTES_MAX];
		struct nam__key key;

		(void)cost_key(stage, i, bytes);
		nam__key_encode(&stage->index->g, bytes, 0, &key);
		count += nam__part_of(stage->index, key.w) == part;
	}
	return count;
}

/* ---- one key -------------------------------------------------------------------------------- */

static void
act_points(struct cost_stage *stage)
{
	const struct cost expected = { .round_trips = 1, .requests = 1,
		.bytes_out = RPC_HEADER_BYTES + sizeof(struct nam_rpc_tree_point_request) +
			PAIR_BYTES,
		.bytes_in = RPC_HEADER_BYTES + sizeof(struct nam_rpc_tree_point_reply) +
			sizeof(struct nam_rpc_tree_point_result) };
	struct nam_worker *worker = stage->worker;
	struct nam_index *index = stage->index;
	uint8_t key[8];
	uint64_t payload;

	nam_key_from_u64(11, key);
	/* Results are ignored; one of them splits a leaf. */
	for (uint64_t i = 0; i < 100; i++) {
		nam_key_from_u64(11 + 10 * i, key);
		cost_begin(stage);
		cost_expect(stage, "insert", nam_index_insert(worker, index, key, 1), 0);
		cost_end(stage, NAM_OP_INSERT, "insert", &expected);
	}
	cost_begin(stage);
	cost_expect(stage, "insert", nam_index_insert(worker, index, key, 1), -NAM_E_EXISTS);
	cost_end(stage, NAM_OP_INSERT, "insert of what is there", &expected);
	cost_begin(stage);
	cost_expect(stage, "lookup", nam_index_lookup(worker, index, key, &payload), 0);
	cost_end(stage, NAM_OP_LOOKUP, "lookup", &expected);
	cost_begin(stage);
	cost_expect(stage, "upsert", nam_index_upsert(worker, index, key, 2), 0);
	cost_end(stage, NAM_OP_UPSERT, "upsert", &expected);
	cost_begin(stage);
	cost_expect(stage, "update", nam_index_update(worker, index, key, 3), 0);
	cost_end(stage, NAM_OP_UPDATE, "update", &expected);
	cost_begin(stage);
	cost_expect(stage, "delete", nam_index_delete(worker, index, key), 0);
	cost_end(stage, NAM_OP_DELETE, "delete", &expected);
	cost_begin(stage);
	cost_expect(stage, "lookup", nam_index_lookup(worker, index, key, &payload),
		-NAM_E_NOTFOUND);
	cost_end(stage, NAM_OP_LOOKUP, "lookup of what is not there", &expected);
}

static void
coarse_point_operation__any__ONE_RPC(void **state)
{
	(void)state;
	play(NAM_DESIGN_COARSE, PAIRS, 0, act_points);
}

static void
act_many(struct cost_stage *stage)
{
	enum { COUNT = 100 };
	uint8_t keys[8 * COUNT];
	uint64_t payloads[COUNT];
	int rcs[COUNT];
	/* A message to each memory server. */
	const struct cost expected = { .round_trips = SERVERS, .requests = SERVERS, .ops = COUNT,
		.bytes_out = SERVERS * (RPC_HEADER_BYTES +
			sizeof(struct nam_rpc_tree_point_request)) + COUNT * PAIR_BYTES,
		.bytes_in = SERVERS * (RPC_HEADER_BYTES +
			sizeof(struct nam_rpc_tree_point_reply)) +
			COUNT * sizeof(struct nam_rpc_tree_point_result) };

	for (uint64_t i = 0; i < COUNT; i++)
		nam_key_from_u64(10 * i, keys + 8 * i);
	cost_begin(stage);
	cost_expect(stage, "lookups", nam_index_lookup_many(stage->worker, stage->index, keys,
		COUNT, payloads, rcs), 0);
	cost_end(stage, NAM_OP_LOOKUP, "100 lookups", &expected);
}

static void
coarse_lookup_many__100_keys__A_MESSAGE_TO_EACH_SERVER(void **state)
{
	(void)state;
	play(NAM_DESIGN_COARSE, PAIRS, 0, act_many);
}

/* ---- scans ---------------------------------------------------------------------------------- */

static void
scan(struct cost_stage *stage, const char *what, uint64_t limit, uint64_t messages,
	uint64_t pairs_sent)
{
	struct nam_range range = { .limit = limit };
	struct nam_op_counters spent;
	struct nam_cursor *cursor;
	uint32_t got = 1;

	cost_begin(stage);
	cost_expect(stage, what, nam_cursor_open(stage->worker, stage->index, &range, &cursor), 0);
	while (got) {
		uint64_t payloads[64];

		cost_expect(stage, what, nam_cursor_next(cursor, NULL, payloads, 64, &got), 0);
	}
	nam_cursor_close(cursor);
	spent = cost_spent(stage);
	if (spent.work_requests != messages ||
		spent.bytes_out != messages * (RPC_HEADER_BYTES +
			sizeof(struct nam_rpc_tree_scan_request)) ||
		spent.bytes_in != messages * (RPC_HEADER_BYTES +
			sizeof(struct nam_rpc_tree_scan_reply)) + PAIR_BYTES * pairs_sent)
		cost_fail(stage, "%s: %llu messages and not %llu, %llu bytes in", what,
			(unsigned long long)spent.work_requests, (unsigned long long)messages,
			(unsigned long long)spent.bytes_in);
	/* A reply that arrives before it is needed costs no wait. */
	if (!spent.round_trips || spent.round_trips > messages)
		cost_fail(stage, "%s: %llu round trips", what,
			(unsigned long long)spent.round_trips);
}

static void
act_scans(struct cost_stage *stage)
{
	uint64_t page = NAM_RPC_TREE_SCAN_MAX(1), messages = 0;

	/* Pages until one is not full. */
	for (uint32_t part = 0; part < SERVERS; part++)
		messages += pairs_of(stage, part, PAIRS) / page + 1;
	scan(stage, "a scan of everything", 0, messages, PAIRS);
	/* An even share of the limit and 16 more, but not more than the limit. */
	scan(stage, "10 pairs", 10, SERVERS, SERVERS * 10ull);
	/* Such a page is not all of it: the next one is asked for at once. */
	scan(stage, "100 pairs", 100, 2 * SERVERS, 2 * SERVERS * 66ull);
}

static void
coarse_scan__hash__PAGES_OF_EACH_SERVER(void **state)
{
	(void)state;
	play(NAM_DESIGN_COARSE, PAIRS, 0, act_scans);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void
act_load(struct cost_stage *stage)
{
	uint64_t most = NAM_RPC_TREE_LOAD_MAX(1), messages = 3 * SERVERS, count = 0;
	struct cost expected = { .bytes_out = PAIRS * PAIR_BYTES };

	stage->pairs = PAIRS;
	stage->supplied = 0;
	/* Two to begin, one to end; and pairs. */
	for (uint32_t part = 0; part < SERVERS; part++)
		messages += (pairs_of(stage, part, PAIRS) + most - 1) / most;
	expected.round_trips = expected.requests = messages;
	expected.bytes_out += messages *
		(RPC_HEADER_BYTES + sizeof(struct nam_rpc_tree_load_request));
	expected.bytes_in = messages * RPC_HEADER_BYTES;
	cost_begin(stage);
	cost_expect(stage, "bulk load", nam_index_bulk_load(stage->worker, stage->index,
		cost_source, stage, 100, &count), 0);
	cost_end(stage, NAM_OP_BULK_LOAD, "bulk load", &expected);
	stage->pairs = 0;
}

static void
coarse_bulk_load__alone__THREE_MESSAGES_A_SERVER_AND_THE_PAIRS(void **state)
{
	(void)state;
	play(NAM_DESIGN_COARSE, 0, 0, act_load);
}

static void
act_open(struct cost_stage *stage)
{
	const struct cost expected = { .round_trips = 2 + SERVERS, .requests = 2 + SERVERS,
		.bytes_out = RPC_HEADER_BYTES + sizeof(struct nam_rpc_catalog_entry) +
			SERVERS * (RPC_HEADER_BYTES + sizeof(struct nam_rpc_tree_request)),
		.bytes_in = RPC_HEADER_BYTES + sizeof(struct nam_rpc_catalog_entry) +
			NAM_SUPERBLOCK_INTENT + SERVERS * (RPC_HEADER_BYTES +
			sizeof(struct nam_rpc_tree_describe_reply)) };
	struct nam_index *index;

	cost_begin(stage);
	cost_expect(stage, "open", nam_index_open(stage->worker, COST_INDEX, 1u << 20, &index), 0);
	cost_end(stage, NAM_OP_OTHER, "open", &expected);
	nam_index_close(index);
}

static void
open__in_parts__ONE_RPC_MORE_FOR_EACH_SERVER(void **state)
{
	(void)state;
	play(NAM_DESIGN_COARSE, PAIRS, 0, act_open);
	play(NAM_DESIGN_HYBRID, PAIRS, 0, act_open);
}

/* ---- hybrid --------------------------------------------------------------------------------- */

static void
hybrid_lookup(struct cost_stage *stage, const char *what, uint64_t round_trips)
{
	const struct cost expected = { .round_trips = round_trips, .requests = round_trips };
	uint8_t key[8];
	uint64_t payload;

	nam_key_from_u64(10 * (PAIRS / 2), key);
	cost_begin(stage);
	cost_expect(stage, what, nam_index_lookup(stage->worker, stage->index, key, &payload), 0);
	cost_end(stage, NAM_OP_LOOKUP, what, &expected);
}

static void
act_hybrid_cached(struct cost_stage *stage)
{
	hybrid_lookup(stage, "a lookup with a cold cache", 2);
	hybrid_lookup(stage, "a lookup with a warm cache", 1);
}

static void
act_hybrid_uncached(struct cost_stage *stage)
{
	hybrid_lookup(stage, "a lookup without a cache", 2);
	hybrid_lookup(stage, "another lookup without a cache", 2);
}

static void
hybrid_lookup__any_height__AN_RPC_AND_A_READ_OR_ONLY_THE_READ(void **state)
{
	(void)state;
	play(NAM_DESIGN_HYBRID, PAIRS, COST_CACHE_BYTES, act_hybrid_cached);
	play(NAM_DESIGN_HYBRID, PAIRS, 0, act_hybrid_uncached);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(coarse_point_operation__any__ONE_RPC),
		cmocka_unit_test(coarse_lookup_many__100_keys__A_MESSAGE_TO_EACH_SERVER),
		cmocka_unit_test(coarse_scan__hash__PAGES_OF_EACH_SERVER),
		cmocka_unit_test(coarse_bulk_load__alone__THREE_MESSAGES_A_SERVER_AND_THE_PAIRS),
		cmocka_unit_test(open__in_parts__ONE_RPC_MORE_FOR_EACH_SERVER),
		cmocka_unit_test(hybrid_lookup__any_height__AN_RPC_AND_A_READ_OR_ONLY_THE_READ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
