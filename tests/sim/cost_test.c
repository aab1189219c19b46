/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_test.c -- operations with a warm cache cost exactly as index/README.md says, in every
 * profile the same.  But if a fabric keeps nothing in order, the parts of a doorbell wait for each
 * other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "compute/worker/worker.h"
#include "litmus.h"

#define NODE_BYTES 256u
#define ATOMIC_IN 8u
#define ATOMIC_OUT 16u
/* rear; shape; hash and front */
#define IMAGE_BYTES (8u + 8u + 16u)
/* Of a split: of the leaf, whose fences and entries are in a block; of the parent. */
#define RECORDS_BYTES (48u + 192u + 48u + 16u)

enum what { LOOKUP, ABSENT, INSERT, UPDATE, DELETE, SPLIT, SCAN, WHATS };

static struct nam_op_counters costs[WHATS];

static struct nam_op_counters
begin(struct actor *self, enum nam_op_kind kind)
{
	return self->worker->counters[kind];
}

static void
end(struct actor *self, enum nam_op_kind kind, struct nam_op_counters before, enum what what)
{
	const struct nam_op_counters *now = &self->worker->counters[kind];

	costs[what] = (struct nam_op_counters){
		.ops = now->ops - before.ops,
		.round_trips = now->round_trips - before.round_trips,
		.doorbells = now->doorbells - before.doorbells,
		.work_requests = now->work_requests - before.work_requests,
		.bytes_in = now->bytes_in - before.bytes_in,
		.bytes_out = now->bytes_out - before.bytes_out,
		.splits = now->splits - before.splits,
		.late_separators = now->late_separators - before.late_separators,
	};
}

static void
scan_leaf(struct actor *self)
{
	struct nam_op_counters before = begin(self, NAM_OP_SCAN);
	uint8_t low[8], high[8], keys[16 * 8];
	struct nam_range range = { .low = low, .high = high, .limit = 5 };
	struct nam_cursor *cursor;
	uint64_t payloads[16];
	uint32_t count;

	nam_key_from_u64(220, low);
	nam_key_from_u64(270, high);
	if (nam_cursor_open(self->worker, self->index, &range, &cursor))
		sim_die("no cursor");
	if (nam_cursor_next(cursor, keys, payloads, 16, &count) || count != 5)
		litmus_fail("the scan");
	nam_cursor_close(cursor);
	end(self, NAM_OP_SCAN, before, SCAN);
}

static void
measure(struct actor *self)
{
	struct nam_op_counters before;
	uint8_t key[8];

	litmus_expect_range(self, 0, 430, 0);
	before = begin(self, NAM_OP_LOOKUP);
	litmus_expect(self, 270, 0);
	end(self, NAM_OP_LOOKUP, before, LOOKUP);
	before = begin(self, NAM_OP_LOOKUP);
	litmus_expect(self, 275, -NAM_E_NOTFOUND);
	end(self, NAM_OP_LOOKUP, before, ABSENT);
	scan_leaf(self);
	before = begin(self, NAM_OP_UPDATE);
	nam_key_from_u64(270, key);
	if (nam_index_update(self->worker, self->index, key, 7))
		litmus_fail("the update");
	end(self, NAM_OP_UPDATE, before, UPDATE);
	before = begin(self, NAM_OP_INSERT);
	litmus_insert(self, 321);
	end(self, NAM_OP_INSERT, before, INSERT);
	before = begin(self, NAM_OP_DELETE);
	litmus_delete_range(self, 321, 321);
	end(self, NAM_OP_DELETE, before, DELETE);
	/* The first split fills the block cache. */
	litmus_insert(self, 111);
	litmus_insert(self, 112);
	litmus_insert(self, 1);
	before = begin(self, NAM_OP_INSERT);
	litmus_insert(self, 2);
	end(self, NAM_OP_INSERT, before, SPLIT);
}

static void
measure_in(enum nam_sim_profile profile)
{
	static const struct litmus_case what = {
		{ "cost", LITMUS_LOADED, { NULL, measure }, { { 0 } } }, NULL, 1, 0 };

	memset(costs, 0, sizeof(costs));
	litmus_perform(&what, profile, 1, NULL);
	if (litmus.failed)
		fail_msg("%s", litmus.why);
}

static void
assert_cost(enum what what, uint64_t round_trips, uint64_t requests, uint64_t in, uint64_t out)
{
	assert_int_equal(costs[what].ops, 1);
	assert_int_equal(costs[what].round_trips, round_trips);
	assert_int_equal(costs[what].doorbells, round_trips);
	assert_int_equal(costs[what].work_requests, requests);
	assert_int_equal(costs[what].bytes_in, in);
	assert_int_equal(costs[what].bytes_out, out);
}

static void
operations__in_order__COST_WHAT_THE_README_SAYS(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NAM_SIM_PROFILES_COUNT; i++) {
		const uint64_t image = NODE_BYTES + 2 * ATOMIC_IN;
		const uint64_t waits = i == NAM_SIM_ROUTED;	/* for each redo record */

		if (i == NAM_SIM_WEAK)
			continue;
		measure_in((enum nam_sim_profile)i);
		assert_cost(LOOKUP, 1, 1, NODE_BYTES, 0);
		assert_cost(ABSENT, 1, 1, NODE_BYTES, 0);
		assert_cost(SCAN, 1, 1, NODE_BYTES, 0);
		/* The counts stay as they were. */
		assert_cost(UPDATE, 2 + waits, 6, image, IMAGE_BYTES + 40 + 2 * ATOMIC_OUT);
		assert_cost(INSERT, 2 + waits, 7, image, IMAGE_BYTES + 16 + 48 + 2 * ATOMIC_OUT);
		assert_cost(DELETE, 2 + waits, 7, image, IMAGE_BYTES + 16 + 48 + 2 * ATOMIC_OUT);
		/* Leaf and parent, the way to the parent, and a look at the child. */
		assert_cost(SPLIT, 7 + 2 * waits, 19, 2 * image + NODE_BYTES + 64,
			576 + RECORDS_BYTES);
		assert_int_equal(costs[SPLIT].splits, 1);
	}
}

static void
operations__nothing_in_order__WAIT_BEFORE_EACH_ATOMIC_AND_AFTER(void **state)
{
	(void)state;
	measure_in(NAM_SIM_WEAK);
	assert_cost(LOOKUP, 1, 1, NODE_BYTES, 0);
	assert_cost(SCAN, 1, 1, NODE_BYTES, 0);
	assert_cost(UPDATE, 5, 6, NODE_BYTES + 2 * ATOMIC_IN, IMAGE_BYTES + 40 + 2 * ATOMIC_OUT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations__in_order__COST_WHAT_THE_README_SAYS),
		cmocka_unit_test(operations__nothing_in_order__WAIT_BEFORE_EACH_ATOMIC_AND_AFTER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
