/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_many_test.c -- what many changes in one call cost, exactly as changes.h says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/rpc/tree_rpc.h"
#include "cost.h"

#define CHANGES_MAX 100u
#define UNDER_A_LOCK 64u
#define CAPACITY 12u		/* entries of a node of 256 bytes */
/* CAS to lock and to release; rear word, hash and front. */
#define ALWAYS_OUT (2 * COST_ATOMIC_OUT + 24u)
#define COUNTS_OUT 8u
#define PAIR_BYTES 16u
#define SERVERS 2u
#define RPC_HEADER_BYTES 24u

/* A call, as it is built up. */
struct call {
	struct nam_index_change changes[CHANGES_MAX];
	int expected[CHANGES_MAX];
	uint8_t keys[CHANGES_MAX][NAM_KEY_BYTES_MAX];
	uint32_t count;
};

static void
add(struct call *call, enum nam_change_kind kind, uint64_t number, int expected_rc)
{
	struct nam_index_change *change = &call->changes[call->count];

	nam_key_from_u64(number, call->keys[call->count]);
	*change = (struct nam_index_change){ call->keys[call->count], 7, kind, 1 };
	call->expected[call->count++] = expected_rc;
}

static void
carry_out(struct cost_stage *stage, struct call *call, enum nam_op_kind kind, const char *what,
	struct cost expected)
{
	int first = 0, rc;

	cost_begin(stage);
	rc = nam_index_change_many(stage->worker, stage->index, call->changes, call->count);
	cost_end(stage, kind, what, &expected);
	for (uint32_t i = 0; i < call->count; i++) {
		cost_expect(stage, what, call->changes[i].rc, call->expected[i]);
		if (!first)
			first = call->expected[i];
	}
	cost_expect(stage, what, rc, first);
	call->count = 0;
}

/* Changes of one leaf: lock and read, write and release. */
static struct cost
of_a_leaf(const struct cost_stage *stage, uint32_t ops, uint32_t entry_bytes, bool counts)
{
	return (struct cost){ .round_trips = 2, .locks = 1, .releases = 1,
		.requests = (counts ? 7 : 6) + (entry_bytes > 32), .ops = ops,
		.bytes_in = stage->options.node_bytes + 2 * COST_ATOMIC_IN,
		.bytes_out = ALWAYS_OUT + entry_bytes + (counts ? COUNTS_OUT : 0) +
			cost_redo_out(entry_bytes) };
}

/* ---- one leaf -------------------------------------------------------------------------------- */

static void
act_one_leaf(struct cost_stage *stage)
{
	struct call call = { .count = 0 };
	struct cost none = { .round_trips = 2, .locks = 1, .requests = 3, .ops = 3,
		.bytes_in = stage->options.node_bytes + 2 * COST_ATOMIC_IN,
		.bytes_out = 2 * COST_ATOMIC_OUT };

	cost_warm(stage);
	/* From the payload of the first entry to that of the fifth. */
	add(&call, NAM_CHANGE_UPDATE, 40, 0);
	add(&call, NAM_CHANGE_UPDATE, 0, 0);
	add(&call, NAM_CHANGE_UPDATE, 20, 0);
	carry_out(stage, &call, NAM_OP_UPDATE, "updates", of_a_leaf(stage, 3, 4 * 16 + 8, false));
	add(&call, NAM_CHANGE_INSERT, 15, 0);
	add(&call, NAM_CHANGE_INSERT, 5, 0);
	add(&call, NAM_CHANGE_INSERT, 35, 0);
	carry_out(stage, &call, NAM_OP_INSERT, "inserts", of_a_leaf(stage, 3, 3 * 16, true));
	/* Those that change nothing go with the others, the first one too. */
	add(&call, NAM_CHANGE_INSERT, 5, -NAM_E_EXISTS);
	add(&call, NAM_CHANGE_UPDATE, 6, -NAM_E_NOTFOUND);
	add(&call, NAM_CHANGE_UPDATE, 20, 0);
	carry_out(stage, &call, NAM_OP_INSERT, "one of three", of_a_leaf(stage, 1, 8, false));
	add(&call, NAM_CHANGE_DELETE, 6, -NAM_E_NOTFOUND);
	add(&call, NAM_CHANGE_DELETE_PAIR, 20, -NAM_E_NOTFOUND);
	call.changes[1].payload = 8;
	add(&call, NAM_CHANGE_DELETE, 7, -NAM_E_NOTFOUND);
	carry_out(stage, &call, NAM_OP_DELETE, "nothing", none);
	/* So many of one key. */
	for (unsigned i = 0; i < UNDER_A_LOCK; i++)
		add(&call, NAM_CHANGE_UPDATE, 40, 0);
	carry_out(stage, &call, NAM_OP_UPDATE, "as many as there may be",
		of_a_leaf(stage, UNDER_A_LOCK, 8, false));
	for (unsigned i = 0; i <= UNDER_A_LOCK; i++)
		add(&call, NAM_CHANGE_UPDATE, 40, 0);
	carry_out(stage, &call, NAM_OP_UPDATE, "one more",
		(struct cost){ .round_trips = 4, .locks = 2, .releases = 2, .requests = 12,
			.ops = UNDER_A_LOCK + 1 });
}

static void
change_many__one_leaf__AS_ONE_CHANGE(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_one_leaf);
	stage.pairs = 200;
	stage.fill_percent = 50;
	cost_play(&stage);
}

static void
act_hybrid(struct cost_stage *stage)
{
	struct call call = { .count = 0 };

	cost_warm(stage);
	for (unsigned i = 0; i < 5; i++)
		add(&call, NAM_CHANGE_UPDATE, 10 * (i + 1), 0);
	carry_out(stage, &call, NAM_OP_UPDATE, "updates", of_a_leaf(stage, 5, 4 * 16 + 8, false));
	/* The last keys are in another part. */
	add(&call, NAM_CHANGE_UPDATE, 0, 0);
	add(&call, NAM_CHANGE_UPDATE, 10 * (stage->pairs - 1), 0);
	carry_out(stage, &call, NAM_OP_UPDATE, "updates in two parts",
		(struct cost){ .round_trips = 4, .locks = 2, .releases = 2, .requests = 12,
			.ops = 2 });
}

static void
change_many__leaf_of_a_hybrid_index__AS_ONE_CHANGE(void **state)
{
	struct cost_stage stage;
	uint8_t bound[8];

	(void)state;
	cost_stage_init(&stage, act_hybrid);
	stage.options.design = NAM_DESIGN_HYBRID;
	stage.options.partitioning = NAM_PARTITION_RANGE;
	stage.options.bounds = bound;
	stage.options.bounds_count = 1;
	nam_key_from_u64(1000, bound);
	stage.servers = SERVERS;
	stage.pairs = 200;
	stage.fill_percent = 50;
	cost_play(&stage);
}

/* ---- several leaves -------------------------------------------------------------------------- */

static void
act_leaves(struct cost_stage *stage)
{
	uint64_t last = 10 * (stage->pairs - CAPACITY);
	struct call call = { .count = 0 };

	cost_warm(stage);
	cost_cache(stage);
	/* In no order: two of the first leaf, two of the second, one of the last. */
	add(&call, NAM_CHANGE_UPDATE, 10 * CAPACITY, 0);
	add(&call, NAM_CHANGE_UPDATE, 0, 0);
	add(&call, NAM_CHANGE_UPDATE, 10 * (stage->pairs - 1), 0);
	add(&call, NAM_CHANGE_UPDATE, 10 * CAPACITY + 20, 0);
	add(&call, NAM_CHANGE_UPDATE, 10, 0);
	carry_out(stage, &call, NAM_OP_UPDATE, "updates of three leaves",
		(struct cost){ .round_trips = 6, .locks = 3, .releases = 3, .requests = 19,
			.ops = 5 });
	/* Of the last leaf: what comes before the new key; a split; what comes behind it. */
	add(&call, NAM_CHANGE_UPSERT, last + 15, 0);
	add(&call, NAM_CHANGE_UPSERT, last, 0);
	add(&call, NAM_CHANGE_UPSERT, last + 10, 0);
	add(&call, NAM_CHANGE_UPSERT, last + 100, 0);
	add(&call, NAM_CHANGE_UPSERT, last + 110, 0);
	carry_out(stage, &call, NAM_OP_UPSERT, "a split",
		(struct cost){ .round_trips = 2 + 6 + 2, .locks = 4, .releases = 4, .ops = 5 });
}

static void
change_many__leaves_and_a_split__THE_SUM(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_leaves);
	stage.options.node_bytes = 256;
	stage.options.head_interval = 0;
	stage.fill_percent = 100;
	stage.pairs = (uint64_t)CAPACITY * (CAPACITY + 1);
	cost_play(&stage);
}

/* ---- coarse ---------------------------------------------------------------------------------- */

static struct cost
of_messages(uint32_t ops, uint32_t messages, uint32_t pairs)
{
	return (struct cost){ .round_trips = 1, .doorbells = SERVERS, .requests = messages,
		.ops = ops,
		.bytes_out = messages * (RPC_HEADER_BYTES +
			sizeof(struct nam_rpc_tree_point_request)) + pairs * PAIR_BYTES,
		.bytes_in = messages * (RPC_HEADER_BYTES +
			sizeof(struct nam_rpc_tree_point_reply)) +
			pairs * sizeof(struct nam_rpc_tree_point_result) };
}

static void
act_coarse(struct cost_stage *stage)
{
	struct call call = { .count = 0 };

	for (unsigned i = 0; i < 100; i++)
		add(&call, NAM_CHANGE_INSERT, 10 * i + 5, 0);
	carry_out(stage, &call, NAM_OP_INSERT, "100 inserts", of_messages(100, SERVERS, 100));
	for (unsigned i = 0; i < 50; i++) {
		add(&call, NAM_CHANGE_DELETE, 20 * i + 5, 0);
		add(&call, NAM_CHANGE_DELETE_PAIR, 20 * i + 15, 0);
	}
	carry_out(stage, &call, NAM_OP_DELETE, "100 deletes of two kinds",
		of_messages(100, 2 * SERVERS, 100));
	add(&call, NAM_CHANGE_INSERT, 5, 0);
	add(&call, NAM_CHANGE_INSERT, 5, -NAM_E_EXISTS);
	add(&call, NAM_CHANGE_INSERT, 5, -NAM_E_EXISTS);
	carry_out(stage, &call, NAM_OP_INSERT, "three of one key",
		(struct cost){ .round_trips = 3, .requests = 3, .ops = 3 });
}

static void
change_many__coarse__A_MESSAGE_FOR_EACH_KIND_AND_SERVER(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_coarse);
	stage.options.design = NAM_DESIGN_COARSE;
	stage.options.partitioning = NAM_PARTITION_HASH;
	stage.servers = SERVERS;
	stage.pairs = 1000;
	cost_play(&stage);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(change_many__one_leaf__AS_ONE_CHANGE),
		cmocka_unit_test(change_many__leaf_of_a_hybrid_index__AS_ONE_CHANGE),
		cmocka_unit_test(change_many__leaves_and_a_split__THE_SUM),
		cmocka_unit_test(change_many__coarse__A_MESSAGE_FOR_EACH_KIND_AND_SERVER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
