/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_lookup_test.c -- what lookups and scans cost, with a cache and without, exactly as index.h
 * says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"

#define LEAF_PAIRS 55u		/* of a leaf of 1 KiB as it is loaded */
#define SCAN_MAX 20000u
#define RING 32u		/* leaves that a cursor asks for at a time */
#define WINDOW_FIRST 4u		/* without a limit */

static void
play(struct cost_stage *stage)
{
	cost_play(stage);
}

/* ---- lookups ------------------------------------------------------------------------------ */

/* So many nodes, one after the other. */
static struct cost
reads(const struct cost_stage *stage, uint64_t nodes)
{
	return (struct cost){ .round_trips = nodes, .requests = nodes,
		.bytes_in = nodes * stage->options.node_bytes };
}

static void
lookup(struct cost_stage *stage, const char *what, uint64_t number, int expected_rc, uint64_t nodes)
{
	const struct cost expected = reads(stage, nodes);
	uint8_t key[NAM_KEY_BYTES_MAX] = { 0 };
	uint64_t payload;
	int rc;

	nam_key_from_u64(number, key);
	cost_begin(stage);
	rc = nam_index_lookup(stage->worker, stage->index, key, &payload);
	cost_end(stage, NAM_OP_LOOKUP, what, &expected);
	cost_expect(stage, what, rc, expected_rc);
}

static void
act_lookups(struct cost_stage *stage)
{
	lookup(stage, "the first lookup of a handle", 0, 0, 3);
	lookup(stage, "a lookup under the same parent", LEAF_PAIRS * 10, 0, 1);
	lookup(stage, "a lookup under another parent", (stage->pairs - 1) * 10, 0, 2);
	cost_warm(stage);
	lookup(stage, "a lookup with a warm cache", 50000, 0, 1);
	lookup(stage, "a lookup of what is not there", 50001, -NAM_E_NOTFOUND, 1);
}

static void
lookup__cold_then_warm__HEIGHT_THEN_ONE(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_lookups);
	stage.pairs = 10000;
	play(&stage);
}

static void
act_lookups_uncached(struct cost_stage *stage)
{
	for (unsigned i = 0; i < 2; i++)
		lookup(stage, "a lookup without a cache", 50000, 0, 3);
	lookup(stage, "a lookup of nothing without a cache", 50001, -NAM_E_NOTFOUND, 3);
}

static void
lookup__no_cache__HEIGHT(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_lookups_uncached);
	stage.cache_bytes = 0;
	stage.pairs = 10000;
	play(&stage);
}

static void
act_lookups_one_leaf(struct cost_stage *stage)
{
	lookup(stage, "a lookup in one leaf", 0, 0, 1);
	lookup(stage, "a lookup of nothing in one leaf", 1, -NAM_E_NOTFOUND, 1);
}

static void
lookup__the_leaf_is_the_root__ONE(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_lookups_one_leaf);
	stage.pairs = 10;
	play(&stage);
}

/*
 * Leaves of 11: keys 0 .. 10 with one pair, then key 11 with 44.  The search for the smallest pair
 * of a key begins where payload 0 would be: in the leaf to the left.
 */
static int
uneven_source(void *arg, void *key, uint64_t *payload)
{
	struct cost_stage *stage = arg;
	uint64_t number = stage->supplied++;

	nam_key_from_u64(number < 11 ? number : 11, key);
	*payload = number + 1;
	return number < 55 ? NAM_INDEX_PAIR : NAM_INDEX_END;
}

static void
act_lookups_pairs(struct cost_stage *stage)
{
	uint8_t key[8];

	stage->supplied = 0;
	cost_expect(stage, "the load", nam_index_bulk_load(stage->worker, stage->index,
		uneven_source, stage, 100, NULL), 0);
	lookup(stage, "the first lookup", 0, 0, 2);
	lookup(stage, "the smallest pair in the leaf itself", 10, 0, 1);
	lookup(stage, "the smallest pair in the next leaf", 11, 0, 2);
	nam_key_from_u64(11, key);
	for (uint64_t payload = 12; payload <= 22; payload++)
		cost_expect(stage, "a delete", nam_index_delete_pair(stage->worker, stage->index,
			key, payload), 0);
	lookup(stage, "the smallest pair behind an empty leaf", 11, 0, 3);
	lookup(stage, "no pair behind the last", 12, -NAM_E_NOTFOUND, 1);
}

static void
lookup__not_unique__ONE_MORE_FOR_EACH_LEAF(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_lookups_pairs);
	stage.options.unique = false;
	stage.options.node_bytes = 256;
	play(&stage);
}

/* ---- many lookups ------------------------------------------------------------------------- */

#define MANY 100u

static void
lookup_many(struct cost_stage *stage, const char *what, uint64_t offset, int expected_rc,
	uint64_t nodes)
{
	struct cost expected = reads(stage, nodes);
	uint8_t keys[MANY * NAM_KEY_BYTES_MAX];
	uint64_t payloads[MANY];
	int rcs[MANY], rc;

	for (uint64_t i = 0; i < MANY; i++) {
		uint8_t *key = keys + i * stage->options.key_bytes;

		cost_key(stage, i * (stage->pairs / MANY), key);
		key[7] = (uint8_t)(key[7] + offset);
	}
	expected.ops = MANY;
	cost_begin(stage);
	rc = nam_index_lookup_many(stage->worker, stage->index, keys, MANY, payloads, rcs);
	cost_end(stage, NAM_OP_LOOKUP, what, &expected);
	cost_expect(stage, what, rc, 0);
	for (uint64_t i = 0; i < MANY; i++)
		cost_expect(stage, what, rcs[i], expected_rc);
}

static void
act_lookup_many(struct cost_stage *stage)
{
	uint32_t height = cost_stat(stage).height;

	cost_warm(stage);
	lookup_many(stage, "many lookups", 0, 0, stage->cache_bytes ? MANY : MANY * height);
	/* Keys are multiples of 10, payloads their numbers: nothing lies in between. */
	lookup_many(stage, "many lookups of nothing", 1, -NAM_E_NOTFOUND,
		stage->cache_bytes ? MANY : MANY * height);
}

static void
lookup_many__warm_cache__ONE_FOR_EACH_KEY(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_lookup_many);
	stage.pairs = 10000;
	play(&stage);
	cost_stage_init(&stage, act_lookup_many);
	stage.pairs = 2000;
	stage.options.key_bytes = 16;
	play(&stage);
}

static void
lookup_many__no_cache__HEIGHT_FOR_EACH_KEY(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_lookup_many);
	stage.cache_bytes = 0;
	stage.pairs = 10000;
	play(&stage);
}

/* ---- scans -------------------------------------------------------------------------------- */

struct scan {
	uint64_t first;		/* number of the pair at which it begins */
	uint64_t count;		/* pairs that it must deliver */
	uint64_t limit;		/* 0: it ends at a key */
	bool reverse;
};

/* The pairs of a range; what it cost is between cost_begin() and now. */
static void
run_scan(struct cost_stage *stage, const struct scan *scan)
{
	uint64_t last = scan->first + (scan->count - 1) * (scan->reverse ? -1ull : 1);
	uint64_t low_number = scan->reverse ? last : scan->first, delivered = 0, *payloads;
	struct nam_range range = { .limit = scan->limit, .reverse = scan->reverse,
		.high_inclusive = true };
	uint8_t low[8], high[8], *keys = malloc(8ul * SCAN_MAX);
	struct nam_cursor *cursor;
	uint32_t count = 0;

	payloads = malloc(8ul * SCAN_MAX);
	nam_key_from_u64(10 * low_number, low);
	nam_key_from_u64(10 * (low_number + scan->count - 1), high);
	/* With a limit it is the limit that ends the scan. */
	range.low = scan->limit && scan->reverse ? NULL : low;
	range.high = scan->limit && !scan->reverse ? NULL : high;
	cost_begin(stage);
	cost_expect(stage, "a cursor", nam_cursor_open(stage->worker, stage->index, &range,
		&cursor), 0);
	do {
		cost_expect(stage, "a scan", nam_cursor_next(cursor, keys, payloads, SCAN_MAX,
			&count), 0);
		delivered += count;
	} while (count);
	nam_cursor_close(cursor);
	if (delivered != scan->count)
		cost_fail(stage, "a scan of %llu has delivered %llu",
			(unsigned long long)scan->count, (unsigned long long)delivered);
	free(payloads);
	free(keys);
}

static void
scan(struct cost_stage *stage, const char *what, struct scan scan, uint64_t leaves,
	uint64_t windows, uint64_t doorbells)
{
	struct cost expected = reads(stage, leaves);

	expected.round_trips = windows;
	expected.doorbells = doorbells;
	run_scan(stage, &scan);
	cost_end(stage, NAM_OP_SCAN, what, &expected);
}

/*
 * Windows for leaves whose addresses are known.  Each next one is posted when half of what was
 * asked for is used up.  It asks for up to twice as many as the one before, as far as there is
 * room.
 */
static uint64_t
windows(uint64_t leaves, uint64_t *window)
{
	uint64_t in_ring = 0, count = 0;

	for (; leaves; count++) {
		uint64_t asked = *window < RING - in_ring ? *window : RING - in_ring;

		if (asked > leaves)
			asked = leaves;
		leaves -= asked;
		in_ring = (in_ring + asked) / 2;
		if (*window < RING)
			*window *= 2;
	}
	return count;
}

/* Leaves and parents have 55 entries each; pair 12,000 is in child 53 of its parent. */
static void
act_scans(struct cost_stage *stage)
{
	uint64_t window = WINDOW_FIRST, long_scan, servers = stage->servers ? stage->servers : 1;

	cost_warm(stage);
	scan(stage, "100 entries", (struct scan){ 200, 100, 100, false }, 4, 1, servers);
	long_scan = 1 + (183 - 32 + 15) / 16;
	scan(stage, "10,000 entries", (struct scan){ 200, 10000, 10000, false }, 183, long_scan,
		servers * long_scan);
	scan(stage, "100 entries of a range", (struct scan){ 200, 100, 0, false }, 3, 1, servers);
	long_scan = windows(183, &window);
	scan(stage, "10,000 entries of a range", (struct scan){ 200, 10000, 0, false }, 183,
		long_scan, servers * long_scan);
	scan(stage, "100 entries in reverse", (struct scan){ 12000, 100, 100, true }, 4, 1,
		servers);
}

static void
scan__warm_cache__ONE_FOR_EACH_WINDOW(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_scans);
	stage.pairs = 15000;
	play(&stage);
}

static void
scan__two_servers__A_DOORBELL_FOR_EACH(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_scans);
	stage.pairs = 15000;
	stage.servers = 2;
	play(&stage);
}

static void
act_scans_in_reverse(struct cost_stage *stage)
{
	uint64_t window = RING, count;

	cost_warm(stage);
	count = windows(54, &window) + windows(55, &window) + windows(55, &window) +
		windows(183 - 164, &window);
	scan(stage, "10,000 in reverse", (struct scan){ 12000, 10000, 10000, true }, 183, count,
		0);
	window = WINDOW_FIRST;
	count = windows(54, &window) + 3 * windows(55, &window);
	scan(stage, "all in reverse", (struct scan){ 12000, 12001, 0, true }, 219, count, 0);
	/* No leaf beyond the low end, in the parent of which there are 36 more. */
	window = WINDOW_FIRST;
	count = windows(54, &window) + windows(55, &window) + windows(55, &window) +
		windows(183 - 164, &window);
	scan(stage, "10,000 of a range in reverse", (struct scan){ 12000, 10000, 0, true }, 183,
		count, 0);
	scan(stage, "100 of a range in reverse", (struct scan){ 12000, 100, 0, true }, 3, 1, 0);
	scan(stage, "1 of a range in reverse", (struct scan){ 12000, 1, 0, true }, 1, 1, 0);
}

static void
scan__reverse__WINDOWS_END_WITH_THE_PARENT(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_scans_in_reverse);
	stage.pairs = 15000;
	play(&stage);
}

/*
 * A way down of two nodes to the first parent, whose windows end with its leaf 54.  The leaves up
 * to the first head node one by one; then each head node, and a window of its 32 leaves.
 */
static void
act_scans_uncached(struct cost_stage *stage)
{
	uint64_t window = RING, leaves = 182, heads = 4, count;
	struct scan part = { 0, 10000, 10000, false };

	scan(stage, "100 entries without a cache", (struct scan){ 0, 100, 100, false }, 2 + 4,
		2 + 1, 0);
	count = 2 + windows(55, &window) + (64 - 55) + heads + 4;
	scan(stage, "10,000 entries without a cache", part, leaves + heads + 2, count, 0);
	/* In reverse a way down to each of four parents. */
	part = (struct scan){ 12000, 10000, 10000, true };
	window = RING;
	count = 4 * 2 + windows(54, &window) + windows(55, &window) + windows(55, &window) +
		windows(183 - 164, &window);
	scan(stage, "10,000 in reverse without a cache", part, 183 + 4 * 2, count, 0);
}

/*
 * A scan that ends at a key reads no leaf beyond it.  Forward: a way down to the first parent; the
 * leaves up to the first head node; two head nodes.  Then the end is near, and the parents of
 * leaves 128 and 165 say where it is.
 */
static void
act_ranges_uncached(struct cost_stage *stage)
{
	uint64_t window = WINDOW_FIRST, count;

	count = 2 + windows(55, &window) + (64 - 55) + 2 * (1 + windows(32, &window)) +
		2 + windows(165 - 128, &window) + 2 + windows(182 - 165, &window);
	scan(stage, "10,000 of a range without a cache", (struct scan){ 0, 10000, 0, false },
		182 + 2 + 3 * 2, count, 0);
	scan(stage, "100 of a range without a cache", (struct scan){ 0, 100, 0, false }, 2 + 2,
		2 + 1, 0);
	window = WINDOW_FIRST;
	count = 4 * 2 + windows(54, &window) + windows(55, &window) + windows(55, &window) +
		windows(183 - 164, &window);
	scan(stage, "10,000 of a range in reverse without a cache",
		(struct scan){ 12000, 10000, 0, true }, 183 + 4 * 2, count, 0);
	scan(stage, "100 of a range in reverse without a cache",
		(struct scan){ 12000, 100, 0, true }, 3 + 2, 2 + 1, 0);
}

static void
scan__range_and_no_cache__NOTHING_BEYOND_THE_END(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_ranges_uncached);
	stage.pairs = 15000;
	stage.cache_bytes = 0;
	play(&stage);
}

static void
scan__no_cache__WINDOWS_END_WITH_THE_HEAD_NODE(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_scans_uncached);
	stage.pairs = 15000;
	stage.cache_bytes = 0;
	play(&stage);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookup__cold_then_warm__HEIGHT_THEN_ONE),
		cmocka_unit_test(lookup__no_cache__HEIGHT),
		cmocka_unit_test(lookup__the_leaf_is_the_root__ONE),
		cmocka_unit_test(lookup__not_unique__ONE_MORE_FOR_EACH_LEAF),
		cmocka_unit_test(lookup_many__warm_cache__ONE_FOR_EACH_KEY),
		cmocka_unit_test(lookup_many__no_cache__HEIGHT_FOR_EACH_KEY),
		cmocka_unit_test(scan__warm_cache__ONE_FOR_EACH_WINDOW),
		cmocka_unit_test(scan__two_servers__A_DOORBELL_FOR_EACH),
		cmocka_unit_test(scan__reverse__WINDOWS_END_WITH_THE_PARENT),
		cmocka_unit_test(scan__no_cache__WINDOWS_END_WITH_THE_HEAD_NODE),
		cmocka_unit_test(scan__range_and_no_cache__NOTHING_BEYOND_THE_END),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
