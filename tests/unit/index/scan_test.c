/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "index/index_internal.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define DELIVERY_MAX 1024u	/* entries of the largest leaf */
#define ROOM 128u
#define QUERIES ((unsigned)test_scaled_least(150, 15))
#define KEYS_PRIME (test_scaled(10) < 10 ? 307ul : 1009ul)
#define KEYS test_scaled_least(3000, 600)	/* of trees that others change */

TEST_CLUSTER(2, test_memory(64 * MIB), 0, 200)

/* ---- the model: entries in order ---------------------------------------------------------- */

struct entry {
	uint64_t number, payload;
};

struct model {
	struct nam_index *index;
	struct entry *entries;
	size_t count;
};

/* `keys` keys at distance `step`, each with `pairs` payloads. */
static void
model_build(struct model *model, const struct tree_options *shape, uint64_t cache_bytes,
	uint64_t keys, uint64_t step, uint64_t pairs)
{
	model->index = tree_new(me.worker, shape, cache_bytes);
	model->entries = malloc(keys * pairs * sizeof(struct entry));
	model->count = keys * pairs;
	assert_non_null(model->entries);
	for (size_t i = 0; i < model->count; i++)
		model->entries[i] = (struct entry){ i / pairs * step, 100 + i % pairs * 3 };
	/* In an order that leaves tails and half-full leaves behind. */
	for (size_t i = 0; i < model->count; i++) {
		const struct entry *entry = &model->entries[i * 7919 % model->count];

		assert_int_equal(nam_index_insert(me.worker, model->index,
					 tree_key(model->index, entry->number), entry->payload), 0);
	}
}

static void
model_free(struct model *model)
{
	nam_index_close(model->index);
	free(model->entries);
}

/* How entries are taken. */
enum way { COPIED, WHERE_THEY_ARE, BY_TURNS, WAYS };

struct query {
	bool has_low, has_high, high_inclusive, reverse;
	enum way way;
	uint64_t low, high, limit;
	uint32_t room;
};

static bool
query_has(const struct query *query, uint64_t number)
{
	if (query->has_low && number < query->low)
		return false;
	if (!query->has_high)
		return true;
	return query->high_inclusive ? number <= query->high : number < query->high;
}

static struct nam_cursor *
query_open(const struct model *model, const struct query *query)
{
	struct nam_range range = {
		.low = query->has_low ? tree_key(model->index, query->low) : NULL,
		.high = query->has_high ? tree_key(model->index, query->high) : NULL,
		.high_inclusive = query->high_inclusive,
		.reverse = query->reverse,
		.limit = query->limit,
	};
	struct nam_cursor *cursor = NULL;

	assert_int_equal(nam_cursor_open(me.worker, model->index, &range, &cursor), 0);
	return cursor;
}

/* The next entry that the query should deliver after place `at`, or model->count. */
static size_t
query_next(const struct model *model, const struct query *query, size_t at)
{
	while (at < model->count && !query_has(query, model->entries[at].number))
		at += query->reverse ? (size_t)-1 : 1;
	return at < model->count ? at : model->count;
}

/* The result of one call. */
struct delivery {
	uint8_t keys[DELIVERY_MAX * NAM_KEY_BYTES_MAX];
	uint64_t payloads[DELIVERY_MAX];
	uint32_t count;
};

static void
take_entries(struct nam_cursor *cursor, struct delivery *delivery)
{
	struct nam_entries entries;

	assert_int_equal(nam_cursor_next_entries(cursor, &entries), 0);
	assert_true(entries.count <= DELIVERY_MAX);
	delivery->count = entries.count;
	for (uint32_t i = 0; i < entries.count; i++) {
		uint8_t *key = delivery->keys + i * entries.key_bytes;

		nam_entries_key(&entries, i, key);
		delivery->payloads[i] = nam_entries_payload(&entries, i);
		if (entries.key_bytes >= 8)
			assert_int_equal(nam_entries_key_u64(&entries, i), nam_key_to_u64(key));
	}
}

static void
query_take(const struct query *query, struct nam_cursor *cursor, struct delivery *delivery)
{
	bool turn = query->way == BY_TURNS && (delivery->count & 1);

	if (query->way == WHERE_THEY_ARE || turn) {
		take_entries(cursor, delivery);
		return;
	}
	assert_int_equal(nam_cursor_next(cursor, delivery->keys, delivery->payloads, query->room,
				 &delivery->count), 0);
	assert_true(delivery->count <= query->room);
}

static void
query_check(const struct model *model, const struct query *query)
{
	struct nam_cursor *cursor = query_open(model, query);
	uint32_t key_bytes = nam_index_properties(model->index)->key_bytes;
	size_t at = query_next(model, query, query->reverse ? model->count - 1 : 0);
	static struct delivery delivery;
	uint64_t delivered = 0;

	do {
		query_take(query, cursor, &delivery);
		for (uint32_t i = 0; i < delivery.count; i++) {
			assert_true(at < model->count);
			assert_int_equal(tree_key_number(model->index,
						 delivery.keys + i * key_bytes),
				model->entries[at].number);
			assert_int_equal(delivery.payloads[i], model->entries[at].payload);
			at = query_next(model, query, at + (query->reverse ? (size_t)-1 : 1));
			delivered++;
		}
	} while (delivery.count);
	if (query->limit && delivered == query->limit)
		at = model->count;
	assert_int_equal(at, model->count);
	assert_true(!query->limit || delivered <= query->limit);
	/* Once exhausted, always exhausted. */
	query_take(query, cursor, &delivery);
	assert_int_equal(delivery.count, 0);
	nam_cursor_close(cursor);
}

static void
queries_at_random(const struct model *model, uint64_t seed, unsigned queries)
{
	uint64_t top = model->entries[model->count - 1].number + 5;
	struct nam_rng rng = nam_rng_seed(seed);

	for (unsigned i = 0; i < queries; i++) {
		uint64_t a = nam_rng_below(&rng, top), b = nam_rng_below(&rng, top);
		struct query query = {
			.has_low = nam_rng_below(&rng, 4) > 0,
			.has_high = nam_rng_below(&rng, 4) > 0,
			.high_inclusive = nam_rng_below(&rng, 2),
			.reverse = nam_rng_below(&rng, 2),
			.low = a < b ? a : b,
			.high = a < b ? b : a,
			.limit = nam_rng_below(&rng, 2) ? 0 : 1 + nam_rng_below(&rng, model->count),
			.room = 1 + (uint32_t)nam_rng_below(&rng, ROOM),
			.way = (enum way)(i % WAYS),
		};

		if (nam_rng_below(&rng, 8) == 0)
			query.high = query.low;
		query_check(model, &query);
	}
}

/* ---- a tree at rest ----------------------------------------------------------------------- */

static void
cursor__random_ranges__DELIVER_LIKE_A_SORTED_ARRAY(void **state)
{
	static const struct tree_options shapes[] = {
		{ 8, 256, false, 0 },  { 8, 256, false, 5 },    { 8, 1024, false, 16 },
		{ 13, 256, false, 3 }, { 64, 1024, false, 0 },  { 8, 16384, false, 4 },
	};
	static const uint64_t caches[] = { 0, 8u << 10, 4 * MIB };

	(void)state;
	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		struct model model;

		model_build(&model, &shapes[s], caches[s % 3], KEYS_PRIME, 3, 1);
		queries_at_random(&model, s, QUERIES);
		model_free(&model);
	}
}

static void
cursor__pairs_over_many_leaves__DELIVER_LIKE_A_SORTED_ARRAY(void **state)
{
	static const struct tree_options shapes[] = {
		{ 8, 256, true, 0 },
		{ 8, 256, true, 4 },
		{ 13, 512, true, 2 },
		{ 64, 1024, true, 0 },
	};

	(void)state;
	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		struct model model;

		model_build(&model, &shapes[s], s % 2 * MIB, test_scaled_least(11, 5), 5, 101);
		queries_at_random(&model, 50 + s, QUERIES);
		model_free(&model);
	}
}

/* Head nodes make windows longer; what a scan delivers does not depend on them. */
static void
cursor__after_the_collector_wrote_head_nodes__DELIVERS_THE_SAME(void **state)
{
	struct nam_collect_stat stat;
	struct nam_index *cold;
	struct model model;

	(void)state;
	model_build(&model, &(struct tree_options){ 8, 256, false, 6 }, MIB, KEYS_PRIME, 3, 1);
	assert_int_equal(nam_index_collect(me.worker, model.index, &stat), 0);
	/* Memory servers that have the leaves themselves need none. */
	assert_int_equal(stat.heads_written > 0,
		nam_index_properties(model.index)->design != NAM_DESIGN_COARSE);
	queries_at_random(&model, 7, QUERIES);
	cold = tree_open(me.worker, model.index->name, 0);
	nam_index_close(model.index);
	model.index = cold;
	queries_at_random(&model, 8, QUERIES);
	tree_check(me.worker, model.index, KEYS_PRIME);
	model_free(&model);
}

static void
cursor__empty_index_or_empty_range__NOTHING(void **state)
{
	struct query query = { .room = 10 };
	struct model model;

	(void)state;
	model_build(&model, &(struct tree_options){ 0 }, 0, 1, 1, 1);
	model.count = 0;
	assert_int_equal(nam_index_delete(me.worker, model.index, tree_key(model.index, 0)), 0);
	for (unsigned i = 0; i < 8; i++) {
		query.reverse = i & 1;
		query.has_low = i & 2;
		query.has_high = i & 4;
		query.low = 3;
		query.high = 9;
		query_check(&model, &query);
	}
	model_free(&model);
}

static void
cursor_open__low_above_high__EINVAL(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	struct nam_range range = { .low = tree_key(index, 5), .high = tree_key(index, 4) };
	struct nam_cursor *cursor;

	(void)state;
	assert_int_equal(nam_cursor_open(me.worker, index, &range, &cursor), -EINVAL);
	assert_true(strlen(nam_worker_diag(me.worker)) > 0);
	range.high = tree_key(index, 5);
	assert_int_equal(nam_cursor_open(me.worker, index, &range, &cursor), 0);
	nam_cursor_close(cursor);
	nam_index_close(index);
}

static void
cursor__highest_key_inclusive__IS_DELIVERED(void **state)
{
	uint8_t highest[8], lowest[8] = { 0 }, keys[16];
	struct nam_range range = { .low = lowest, .high = highest, .high_inclusive = true };
	uint64_t payloads[4];
	uint32_t count;

	(void)state;
	memset(highest, 0xff, sizeof(highest));
	for (unsigned i = 0; i < 4; i++) {
		struct nam_index *index =
			tree_new(me.worker, &(struct tree_options){ .pairs = i & 1 }, 0);
		struct nam_cursor *cursor;

		range.reverse = i & 2;
		assert_int_equal(nam_index_insert(me.worker, index, lowest, 0), 0);
		assert_int_equal(nam_index_insert(me.worker, index, highest, UINT64_MAX), 0);
		assert_int_equal(nam_cursor_open(me.worker, index, &range, &cursor), 0);
		assert_int_equal(nam_cursor_next(cursor, keys, payloads, 2, &count), 0);
		assert_int_equal(count, 2);
		assert_int_equal(payloads[range.reverse ? 0 : 1], UINT64_MAX);
		nam_cursor_close(cursor);
		nam_index_close(index);
	}
}

static void
cursor_next__no_room_for_keys_or_payloads__COUNTS_ONLY(void **state)
{
	struct query query = { .has_low = true, .low = 300, .room = 1 };
	struct nam_cursor *cursor;
	struct model model;
	uint32_t count, sum = 0;

	(void)state;
	model_build(&model, &(struct tree_options){ 0 }, 0, 1000, 1, 1);
	cursor = query_open(&model, &query);
	do {
		assert_int_equal(nam_cursor_next(cursor, NULL, NULL, 77, &count), 0);
		sum += count;
	} while (count);
	assert_int_equal(sum, 700);
	nam_cursor_close(cursor);
	model_free(&model);
}

/* A scan's page is the caller's until the next call, under any change of the tree. */
static void
cursor_next_entries__held_while_the_tree_changes__STAY_AS_THEY_ARE(void **state)
{
	struct query query = { .has_low = true, .low = 300 };
	struct nam_entries entries;
	struct nam_cursor *cursor;
	struct model model;

	(void)state;
	model_build(&model, &(struct tree_options){ 0 }, MIB, 1000, 1, 1);
	cursor = query_open(&model, &query);
	for (size_t at = 300; at < model.count; at += entries.count) {
		assert_int_equal(nam_cursor_next_entries(cursor, &entries), 0);
		assert_in_range(entries.count, 1, model.count - at);
		for (uint32_t i = 0; i < entries.count; i++)
			assert_int_equal(nam_index_delete(me.worker, model.index,
						 tree_key(model.index, at + i)), 0);
		for (uint32_t i = 0; i < entries.count; i++) {
			assert_int_equal(nam_entries_key_u64(&entries, i), at + i);
			assert_int_equal(nam_entries_payload(&entries, i),
				model.entries[at + i].payload);
		}
	}
	nam_cursor_close(cursor);
	model_free(&model);
}

/* ---- costs -------------------------------------------------------------------------------- */

static void
cursor__hundred_entries_in_a_warm_tree__TWO_ROUND_TRIPS_ON_AVERAGE(void **state)
{
	struct nam_op_counters before;
	struct model model;
	uint64_t payload, scans = 0, keys = test_scaled(10) < 10 ? 1999 : 9973;

	(void)state;
	model_build(&model, &(struct tree_options){ 8, 1024, false, 16 }, 4 * MIB, keys, 1, 1);
	for (uint64_t n = 0; n < keys; n++)
		assert_int_equal(nam_index_lookup(me.worker, model.index, tree_key(model.index, n),
					 &payload), 0);
	before = *nam_worker_counters(me.worker, NAM_OP_SCAN);
	for (uint64_t n = 0; n + 100 < keys; n += 97, scans++) {
		struct query query = { .has_low = true, .low = n, .limit = 100, .room = 100,
			.reverse = false };

		query_check(&model, &query);
	}
	assert_int_equal(nam_worker_counters(me.worker, NAM_OP_SCAN)->ops - before.ops, scans);
	assert_true(nam_worker_counters(me.worker, NAM_OP_SCAN)->round_trips - before.round_trips <=
		    2 * scans);
	model_free(&model);
}

/* ---- stale hints -------------------------------------------------------------------------- */

/*
 * The scanning handle's cache knows the tree as it was; another handle has split or merged all of
 * it since.  Scans must come to an end, with the right entries.
 */
static void
cursor__cache_made_stale_by_splits__DELIVERS_EVERYTHING(void **state)
{
	for (unsigned reverse = 0; reverse < 2; reverse++) {
		struct nam_index *writer = tree_new(me.worker, &(struct tree_options){ 0 }, MIB);
		struct model model = { .count = KEYS };
		uint64_t payload;

		(void)state;
		model.entries = malloc(KEYS * sizeof(struct entry));
		model.index = tree_open(me.worker, writer->name, MIB);
		tree_fill(me.worker, writer, 0, KEYS, 10);
		for (uint64_t n = 0; n < KEYS; n += 10)
			assert_int_equal(nam_index_lookup(me.worker, model.index,
						 tree_key(model.index, n), &payload), 0);
		for (uint64_t n = 0; n < KEYS; n += 10)
			tree_fill(me.worker, writer, n + 1, n + 10, 1);
		for (uint64_t n = 0; n < KEYS; n++)
			model.entries[n] = (struct entry){ n, n * 10 + 1 };
		query_check(&model, &(struct query){ .reverse = reverse, .room = 50 });
		queries_at_random(&model, reverse, QUERIES / 3);
		nam_index_close(writer);
		model_free(&model);
	}
}

static void
cursor__cache_made_stale_by_merges__DELIVERS_EVERYTHING(void **state)
{
	for (unsigned reverse = 0; reverse < 2; reverse++) {
		struct nam_index *writer = tree_new(me.worker,
			&(struct tree_options){ .head_interval = 4 * reverse }, MIB);
		struct model model = { .count = 0 };
		struct nam_collect_stat stat;

		(void)state;
		model.entries = malloc(KEYS * sizeof(struct entry));
		model.index = tree_open(me.worker, writer->name, MIB);
		tree_fill(me.worker, writer, 0, KEYS, 1);
		for (uint64_t n = 0; n < KEYS; n++)
			model.entries[model.count++] = (struct entry){ n, n * 10 + 1 };
		query_check(&model, &(struct query){ .reverse = reverse, .room = 50 });
		model.count = 0;
		for (uint64_t n = 0; n < KEYS; n++)
			if (n % 25)
				assert_int_equal(nam_index_delete(me.worker, writer,
							 tree_key(writer, n)), 0);
			else
				model.entries[model.count++] = (struct entry){ n, n * 10 + 1 };
		for (unsigned pass = 0; pass < 6; pass++)
			assert_int_equal(nam_index_collect(me.worker, writer, &stat), 0);
		query_check(&model, &(struct query){ .reverse = reverse, .room = 50 });
		queries_at_random(&model, reverse, QUERIES / 3);
		nam_index_close(writer);
		model_free(&model);
	}
}

/* Entries appear and vanish between two calls: what was there throughout comes exactly once. */
static void
cursor__tree_changes_between_two_calls__STEADY_ENTRIES_EXACTLY_ONCE(void **state)
{
	(void)state;
	for (unsigned round = 0; round < test_scaled_least(20, 4); round++) {
		struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 },
			round % 2 * MIB);
		struct nam_range range = { .reverse = round % 4 >= 2 };
		struct nam_rng rng = nam_rng_seed(round);
		struct nam_collect_stat stat;
		struct nam_cursor *cursor;
		uint64_t steady = 0, last = 0, top = test_scaled_least(500, 100) * 4;
		uint32_t count;

		/* Every fourth number stays; the others come and go. */
		tree_fill(me.worker, index, 0, top, 4);
		assert_int_equal(nam_cursor_open(me.worker, index, &range, &cursor), 0);
		for (;;) {
			uint8_t keys[40 * 8];
			uint64_t payloads[40], seen = 0;

			assert_int_equal(nam_cursor_next(cursor, keys, payloads, 40, &count), 0);
			if (!count)
				break;
			for (uint32_t i = 0; i < count; i++) {
				uint64_t n = tree_key_number(index, keys + 8 * i);

				assert_int_equal(payloads[i], n * 10 + 1);
				if (steady || seen)
					assert_true(range.reverse ? n < last : n > last);
				last = n;
				seen++;
				steady += n % 4 == 0;
			}
			for (unsigned i = 0; i < 100; i++) {
				uint64_t n = nam_rng_below(&rng, top);
				int rc = 0;

				if (n % 4 == 0)
					continue;
				rc = nam_rng_below(&rng, 2) ?
					nam_index_upsert(me.worker, index, tree_key(index, n),
						n * 10 + 1) :
					nam_index_delete(me.worker, index, tree_key(index, n));
				assert_true(rc == 0 || rc == -NAM_E_NOTFOUND);
			}
			if (nam_rng_below(&rng, 4) == 0)
				assert_int_equal(nam_index_collect(me.worker, index, &stat), 0);
		}
		assert_int_equal(steady, top / 4);
		nam_cursor_close(cursor);
		nam_index_close(index);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cursor__random_ranges__DELIVER_LIKE_A_SORTED_ARRAY),
		cmocka_unit_test(cursor__pairs_over_many_leaves__DELIVER_LIKE_A_SORTED_ARRAY),
		cmocka_unit_test(cursor__after_the_collector_wrote_head_nodes__DELIVERS_THE_SAME),
		cmocka_unit_test(cursor__empty_index_or_empty_range__NOTHING),
		cmocka_unit_test(cursor_open__low_above_high__EINVAL),
		cmocka_unit_test(cursor__highest_key_inclusive__IS_DELIVERED),
		cmocka_unit_test(cursor_next__no_room_for_keys_or_payloads__COUNTS_ONLY),
		cmocka_unit_test(
			cursor_next_entries__held_while_the_tree_changes__STAY_AS_THEY_ARE),
		cmocka_unit_test(cursor__cache_made_stale_by_splits__DELIVERS_EVERYTHING),
		cmocka_unit_test(cursor__cache_made_stale_by_merges__DELIVERS_EVERYTHING),
		cmocka_unit_test(
			cursor__tree_changes_between_two_calls__STEADY_ENTRIES_EXACTLY_ONCE),
	};
	/* Promises of the fine-grained design alone. */
	const struct CMUnitTest fine[] = {
		cmocka_unit_test(
			cursor__hundred_entries_in_a_warm_tree__TWO_ROUND_TRIPS_ON_AVERAGE),
	};
	int failed = cmocka_run_group_tests(tests, start, stop);

	if (tree_is_fine())
		failed += cmocka_run_group_tests(fine, start, stop);
	return failed;
}
