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

#include "common/env.h"
#include "index/index_internal.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define UNTOUCHED 0x70ac4edull

TEST_CLUSTER(2, test_memory(64 * MIB), 0, 200)

static int
lookup(struct nam_index *index, uint64_t number, uint64_t *ret_payload)
{
	return nam_index_lookup(me.worker, index, tree_key(index, number), ret_payload);
}

/* ---- unique ------------------------------------------------------------------------------- */

static void
lookup__empty_index__NOTFOUND_AND_OUTPUT_UNTOUCHED(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	uint64_t payload = UNTOUCHED;

	(void)state;
	assert_int_equal(lookup(index, 1, &payload), -NAM_E_NOTFOUND);
	assert_int_equal(payload, UNTOUCHED);
	nam_index_close(index);
}

static void
lookup__absent_key_beside_its_neighbours__NOTFOUND(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 1 * MIB);
	uint64_t payload;

	(void)state;
	tree_fill(me.worker, index, 0, 1000, 2);
	for (uint64_t n = 0; n < 1000; n++) {
		payload = UNTOUCHED;
		assert_int_equal(lookup(index, n, &payload), n % 2 ? -NAM_E_NOTFOUND : 0);
		assert_int_equal(payload, n % 2 ? UNTOUCHED : n * 10 + 1);
	}
	nam_index_close(index);
}

static void
insert__key_is_there__EXISTS_AND_KEEPS_THE_PAYLOAD(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	uint64_t payload = 0;

	(void)state;
	tree_fill(me.worker, index, 0, 30, 1);
	assert_int_equal(nam_index_insert(me.worker, index, tree_key(index, 7), 5), -NAM_E_EXISTS);
	assert_int_equal(lookup(index, 7, &payload), 0);
	assert_int_equal(payload, 71);
	tree_check(me.worker, index, 30);
	nam_index_close(index);
}

static void
upsert__absent_or_present__LAST_PAYLOAD_STAYS(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	uint64_t payload = 0;

	(void)state;
	for (uint64_t version = 1; version < 4; version++) {
		for (uint64_t n = 0; n < 50; n++)
			assert_int_equal(nam_index_upsert(me.worker, index, tree_key(index, n),
						 n + version * 1000), 0);
		for (uint64_t n = 0; n < 50; n++) {
			assert_int_equal(lookup(index, n, &payload), 0);
			assert_int_equal(payload, n + version * 1000);
		}
	}
	tree_check(me.worker, index, 50);
	nam_index_close(index);
}

static void
update__present_or_absent__REPLACES_OR_NOTFOUND(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	uint64_t payload = 0;

	(void)state;
	tree_fill(me.worker, index, 0, 30, 2);
	for (uint64_t n = 0; n < 30; n++)
		assert_int_equal(nam_index_update(me.worker, index, tree_key(index, n), n + 7),
			n % 2 ? -NAM_E_NOTFOUND : 0);
	for (uint64_t n = 0; n < 30; n += 2) {
		assert_int_equal(lookup(index, n, &payload), 0);
		assert_int_equal(payload, n + 7);
	}
	tree_check(me.worker, index, 15);
	nam_index_close(index);
}

static void
delete__present_or_absent__REMOVES_ONCE(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 1 * MIB);
	uint64_t payload = UNTOUCHED;

	(void)state;
	tree_fill(me.worker, index, 0, 500, 1);
	for (uint64_t n = 0; n < 500; n += 3) {
		assert_int_equal(nam_index_delete(me.worker, index, tree_key(index, n)), 0);
		assert_int_equal(nam_index_delete(me.worker, index, tree_key(index, n)),
			-NAM_E_NOTFOUND);
		assert_int_equal(lookup(index, n, &payload), -NAM_E_NOTFOUND);
	}
	tree_check(me.worker, index, 500 - 167);
	/* And everything again, into the holes. */
	tree_fill(me.worker, index, 0, 500, 3);
	tree_check(me.worker, index, 500);
	nam_index_close(index);
}

static void
delete_pair__unique_index__REMOVES_ONLY_THAT_PAYLOAD(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);

	(void)state;
	tree_fill(me.worker, index, 0, 20, 1);
	assert_int_equal(nam_index_delete_pair(me.worker, index, tree_key(index, 5), 50),
		-NAM_E_NOTFOUND);
	assert_int_equal(nam_index_delete_pair(me.worker, index, tree_key(index, 5), 51), 0);
	assert_int_equal(nam_index_delete_pair(me.worker, index, tree_key(index, 5), 51),
		-NAM_E_NOTFOUND);
	tree_check(me.worker, index, 19);
	nam_index_close(index);
}

static void
changes__extreme_keys__ARE_KEYS_LIKE_OTHERS(void **state)
{
	static const uint32_t key_bytes[] = { 8, 9, 13, 16, 64 };
	uint64_t keys = test_scaled_least(300, 130);

	(void)state;
	for (size_t i = 0; i < sizeof(key_bytes) / sizeof(key_bytes[0]); i++) {
		for (unsigned pairs = 0; pairs < 2; pairs++) {
			struct nam_index *index = tree_new(me.worker,
				&(struct tree_options){ key_bytes[i], 1024, pairs, 0 }, 0);
			uint8_t lowest[64] = { 0 }, highest[64];
			uint64_t payload = 0;

			memset(highest, 0xff, sizeof(highest));
			tree_fill(me.worker, index, 1, keys + 1, 1);
			assert_int_equal(nam_index_insert(me.worker, index, lowest, 0), 0);
			assert_int_equal(
				nam_index_insert(me.worker, index, highest, UINT64_MAX), 0);
			assert_int_equal(nam_index_lookup(me.worker, index, lowest, &payload), 0);
			assert_int_equal(payload, 0);
			assert_int_equal(nam_index_lookup(me.worker, index, highest, &payload), 0);
			assert_int_equal(payload, UINT64_MAX);
			tree_check(me.worker, index, keys + 2);
			assert_int_equal(nam_index_delete_pair(me.worker, index, highest,
						 UINT64_MAX), 0);
			assert_int_equal(nam_index_delete_pair(me.worker, index, lowest, 0), 0);
			tree_check(me.worker, index, keys);
			nam_index_close(index);
		}
	}
}

/* ---- pairs -------------------------------------------------------------------------------- */

static void
pairs__of_one_key_over_many_leaves__SMALLEST_IS_FOUND(void **state)
{
	static const struct tree_options shape = { .pairs = true, .node_bytes = 256 };
	struct nam_index *index = tree_new(me.worker, &shape, 1 * MIB);
	uint64_t payload = 0, pairs = test_scaled(10) < 10 ? 100 : 300;

	(void)state;
	for (uint64_t i = 0; i < pairs; i++)
		for (uint64_t n = 2; n <= 6; n += 2)
			assert_int_equal(nam_index_insert(me.worker, index, tree_key(index, n),
						 100 + i * 7 % pairs), 0);
	for (uint64_t i = 0; i < pairs - 1; i++) {
		for (uint64_t n = 1; n <= 7; n++) {
			payload = UNTOUCHED;
			assert_int_equal(lookup(index, n, &payload), n % 2 ? -NAM_E_NOTFOUND : 0);
			assert_int_equal(payload, n % 2 ? UNTOUCHED : 100 + i);
		}
		for (uint64_t n = 2; n <= 6; n += 2)
			assert_int_equal(nam_index_delete_pair(me.worker, index, tree_key(index, n),
						 100 + i), 0);
	}
	tree_check(me.worker, index, 3);
	nam_index_close(index);
}

static void
pairs__same_pair_again__EXISTS_OR_ALREADY_THERE(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ .pairs = true }, 0);

	(void)state;
	assert_int_equal(nam_index_insert(me.worker, index, tree_key(index, 1), 5), 0);
	assert_int_equal(nam_index_insert(me.worker, index, tree_key(index, 1), 6), 0);
	assert_int_equal(nam_index_insert(me.worker, index, tree_key(index, 1), 5), -NAM_E_EXISTS);
	assert_int_equal(nam_index_upsert(me.worker, index, tree_key(index, 1), 5), 0);
	assert_int_equal(nam_index_upsert(me.worker, index, tree_key(index, 1), 7), 0);
	tree_check(me.worker, index, 3);
	assert_int_equal(nam_index_delete_pair(me.worker, index, tree_key(index, 1), 8),
		-NAM_E_NOTFOUND);
	tree_check(me.worker, index, 3);
	nam_index_close(index);
}

static void
pairs__update_or_delete_without_payload__EINVAL_SAYS_WHY(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ .pairs = true }, 0);

	(void)state;
	assert_int_equal(nam_index_update(me.worker, index, tree_key(index, 1), 5), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "not unique"));
	assert_int_equal(nam_index_delete(me.worker, index, tree_key(index, 1)), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "not unique"));
	nam_index_close(index);
}

/* ---- costs -------------------------------------------------------------------------------- */

static struct nam_op_counters
cost_since(enum nam_op_kind kind, const struct nam_op_counters *before)
{
	const struct nam_op_counters *now = nam_worker_counters(me.worker, kind);

	return (struct nam_op_counters){
		.ops = now->ops - before->ops,
		.round_trips = now->round_trips - before->round_trips,
		.doorbells = now->doorbells - before->doorbells,
		.work_requests = now->work_requests - before->work_requests,
		.bytes_in = now->bytes_in - before->bytes_in,
		.bytes_out = now->bytes_out - before->bytes_out,
		.splits = now->splits - before->splits,
	};
}

/* Operations of which the cost is counted. */
#define COSTED test_scaled_least(1000, 300)

/* A tree of 1 KiB nodes with room in every leaf, and a cache that knows all of it. */
static struct nam_index *
warm_tree(uint64_t keys)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 8, 1024, false, 0 },
		4 * MIB);
	uint64_t payload;

	for (uint64_t n = keys; n-- > 0;)
		tree_fill(me.worker, index, n * 4, n * 4 + 1, 1);
	for (uint64_t n = 0; n < keys; n++)
		assert_int_equal(lookup(index, n * 4, &payload), 0);
	return index;
}

static void
lookup__warm_cache__ONE_ROUND_TRIP_AND_ONE_NODE(void **state)
{
	struct nam_index *index = warm_tree(3 * COSTED);
	struct nam_op_counters before = *nam_worker_counters(me.worker, NAM_OP_LOOKUP), cost;
	uint64_t payload;

	(void)state;
	for (uint64_t n = 0; n < 12 * COSTED; n++)
		assert_int_equal(lookup(index, n, &payload), n % 4 ? -NAM_E_NOTFOUND : 0);
	cost = cost_since(NAM_OP_LOOKUP, &before);
	assert_int_equal(cost.ops, 12 * COSTED);
	assert_int_equal(cost.round_trips, 12 * COSTED);
	assert_int_equal(cost.doorbells, 12 * COSTED);
	assert_int_equal(cost.work_requests, 12 * COSTED);
	assert_int_equal(cost.bytes_in, 12 * COSTED * 1024);
	assert_int_equal(cost.bytes_out, 0);
	nam_index_close(index);
}

static void
lookup__no_cache__ONE_ROUND_TRIP_PER_LEVEL(void **state)
{
	struct nam_index *warm = warm_tree(3 * COSTED);
	struct nam_index *index = tree_open(me.worker, warm->name, 0);
	struct nam_op_counters before, cost;
	struct nam_index_stat stat;
	uint64_t payload;

	(void)state;
	assert_int_equal(nam_index_stat(me.worker, index, &stat), 0);
	assert_int_equal(lookup(index, 0, &payload), 0);
	before = *nam_worker_counters(me.worker, NAM_OP_LOOKUP);
	for (uint64_t n = 0; n < COSTED; n++)
		assert_int_equal(lookup(index, n * 12, &payload), 0);
	cost = cost_since(NAM_OP_LOOKUP, &before);
	assert_int_equal(cost.round_trips, COSTED * stat.height);
	assert_int_equal(cost.bytes_in, COSTED * stat.height * 1024);
	nam_index_close(index);
	nam_index_close(warm);
}

static void
insert__warm_cache_and_no_split__TWO_ROUND_TRIPS(void **state)
{
	struct nam_index *index = warm_tree(3 * COSTED);
	struct nam_op_counters before, cost, total = { 0 };

	(void)state;
	for (uint64_t n = 0; n < COSTED; n++) {
		before = *nam_worker_counters(me.worker, NAM_OP_INSERT);
		tree_fill(me.worker, index, n * 12 + 1, n * 12 + 2, 1);
		cost = cost_since(NAM_OP_INSERT, &before);
		if (cost.splits)
			continue;
		assert_int_equal(cost.round_trips, 2);
		assert_int_equal(cost.doorbells, 2);
		assert_int_equal(cost.bytes_in, 1024 + 8 + 8);
		nam_op_counters_add(&total, &cost);
	}
	assert_true(total.ops > COSTED * 9 / 10);
	assert_true(total.bytes_out / total.ops <= 200);
	nam_index_close(index);
}

static void
update_and_delete__warm_cache__TWO_ROUND_TRIPS(void **state)
{
	struct nam_index *index = warm_tree(COSTED);
	struct nam_op_counters before, cost;

	(void)state;
	before = *nam_worker_counters(me.worker, NAM_OP_UPDATE);
	for (uint64_t n = 0; n < COSTED; n++)
		assert_int_equal(nam_index_update(me.worker, index, tree_key(index, n * 4), n), 0);
	cost = cost_since(NAM_OP_UPDATE, &before);
	assert_int_equal(cost.round_trips, 2 * COSTED);
	/* Payload, rear, hash and front, the redo record, and the atomics. */
	assert_int_equal(cost.bytes_out, COSTED * (8 + 8 + 16 + 40 + 16 + 16));
	before = *nam_worker_counters(me.worker, NAM_OP_DELETE);
	for (uint64_t n = 0; n < COSTED; n++)
		assert_int_equal(nam_index_delete(me.worker, index, tree_key(index, n * 4)), 0);
	cost = cost_since(NAM_OP_DELETE, &before);
	assert_int_equal(cost.round_trips, 2 * COSTED);
	nam_index_close(index);
}

/* ---- names -------------------------------------------------------------------------------- */

static void
create__bad_names_and_options__EINVAL_SAYS_WHICH(void **state)
{
	static const char *const names[] = { "", "with blank", "tab\there", "new\nline",
		"0123456789012345678901234567890123456789012345678901234567890123" };
	struct nam_index_options options;

	(void)state;
	nam_index_options_init(&options);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(nam_index_create(me.worker, names[i], &options), -EINVAL);
		assert_non_null(strstr(nam_worker_diag(me.worker), "name"));
	}
	options.key_bytes = 7;
	assert_int_equal(nam_index_create(me.worker, "seven", &options), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "7"));
	options.key_bytes = 8;
	options.node_bytes = 1000;
	assert_int_equal(nam_index_create(me.worker, "thousand", &options), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "1000"));
}

static void
create__name_is_taken__INDEX_EXISTS(void **state)
{
	const char *name = tree_create(me.worker, &(struct tree_options){ 0 });
	struct nam_index_options options;

	(void)state;
	nam_index_options_init(&options);
	assert_int_equal(nam_index_create(me.worker, name, &options), -NAM_E_INDEX_EXISTS);
}

static void
open__no_such_name__NOINDEX_NAMES_IT(void **state)
{
	struct nam_index *index = (struct nam_index *)(uintptr_t)UNTOUCHED;

	(void)state;
	assert_int_equal(nam_index_open(me.worker, "nowhere", 0, &index), -NAM_E_NOINDEX);
	assert_non_null(strstr(nam_worker_diag(me.worker), "nowhere"));
	assert_ptr_equal(index, (struct nam_index *)(uintptr_t)UNTOUCHED);
	assert_int_equal(nam_index_drop(me.worker, "nowhere"), -NAM_E_NOINDEX);
}

static void
open__by_a_second_client__SEES_WHAT_THE_FIRST_WROTE(void **state)
{
	struct nam_index *mine = tree_new(me.worker, &(struct tree_options){ 13, 512, true, 3 }, 0);
	struct member other = member_join(cluster, "other", 0);
	struct nam_index *theirs;
	uint64_t payload = 0;

	(void)state;
	tree_fill(me.worker, mine, 0, 100, 1);
	theirs = tree_open(other.worker, mine->name, 1 * MIB);
	assert_int_equal(nam_index_properties(theirs)->key_bytes, 13);
	assert_int_equal(nam_index_properties(theirs)->node_bytes, 512);
	assert_int_equal(nam_index_properties(theirs)->head_interval,
		nam_index_properties(theirs)->design == NAM_DESIGN_COARSE ? 0 : 3);
	assert_false(nam_index_properties(theirs)->unique);
	assert_int_equal(nam_index_lookup(other.worker, theirs, tree_key(theirs, 42), &payload), 0);
	assert_int_equal(payload, 421);
	nam_index_close(theirs);
	member_leave(&other);
	nam_index_close(mine);
}

static int
count_names(void *arg, const char *name)
{
	unsigned *count = arg;

	if (!strncmp(name, "listed-", 7))
		++*count;
	return 0;
}

static int
stop_at_once(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return 4711;
}

static void
list__more_names_than_a_page_has__ALL_OF_THEM_ONCE(void **state)
{
	struct nam_index_options options;
	unsigned count = 0;
	char name[32];

	(void)state;
	nam_index_options_init(&options);
	for (unsigned i = 0; i < 150; i++) {
		(void)snprintf(name, sizeof(name), "listed-%u", i * 37 % 150);
		assert_int_equal(nam_index_create(me.worker, name, &options), 0);
	}
	assert_int_equal(nam_index_list(me.worker, count_names, &count), 0);
	assert_int_equal(count, 150);
	assert_int_equal(nam_index_list(me.worker, stop_at_once, NULL), 4711);
	for (unsigned i = 0; i < 150; i++) {
		(void)snprintf(name, sizeof(name), "listed-%u", i);
		assert_int_equal(nam_index_drop(me.worker, name), 0);
	}
	count = 0;
	assert_int_equal(nam_index_list(me.worker, count_names, &count), 0);
	assert_int_equal(count, 0);
}

static void
create_and_drop__again_and_again__MEMORY_COMES_BACK(void **state)
{
	uint64_t carved[2] = { 0, 0 }, keys = test_scaled_least(2000, 300);

	(void)state;
	for (unsigned round = 0; round < test_scaled_least(12, 6); round++) {
		struct member passing = member_join(cluster, "passing", 0);
		struct nam_index *index = tree_new(passing.worker, &(struct tree_options){ 0 }, 0);

		for (uint64_t n = 0; n < keys; n++)
			assert_int_equal(nam_index_insert(passing.worker, index, tree_key(index, n),
						 n), 0);
		assert_int_equal(nam_index_drop(passing.worker, index->name), 0);
		nam_index_close(index);
		member_leave(&passing);
		for (unsigned slot = 0; slot < 2; slot++) {
			struct nam_server_status status;

			assert_int_equal(nam_server_status_get(me.worker, slot, &status), 0);
			if (round == 3)
				carved[slot] = status.carved_bytes;
			/* The memory of the first rounds is enough for all that follow. */
			if (round > 3)
				assert_true(status.carved_bytes <= carved[slot] + MIB / 4);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookup__empty_index__NOTFOUND_AND_OUTPUT_UNTOUCHED),
		cmocka_unit_test(lookup__absent_key_beside_its_neighbours__NOTFOUND),
		cmocka_unit_test(insert__key_is_there__EXISTS_AND_KEEPS_THE_PAYLOAD),
		cmocka_unit_test(upsert__absent_or_present__LAST_PAYLOAD_STAYS),
		cmocka_unit_test(update__present_or_absent__REPLACES_OR_NOTFOUND),
		cmocka_unit_test(delete__present_or_absent__REMOVES_ONCE),
		cmocka_unit_test(delete_pair__unique_index__REMOVES_ONLY_THAT_PAYLOAD),
		cmocka_unit_test(changes__extreme_keys__ARE_KEYS_LIKE_OTHERS),
		cmocka_unit_test(pairs__of_one_key_over_many_leaves__SMALLEST_IS_FOUND),
		cmocka_unit_test(pairs__same_pair_again__EXISTS_OR_ALREADY_THERE),
		cmocka_unit_test(pairs__update_or_delete_without_payload__EINVAL_SAYS_WHY),
		cmocka_unit_test(create__bad_names_and_options__EINVAL_SAYS_WHICH),
		cmocka_unit_test(create__name_is_taken__INDEX_EXISTS),
		cmocka_unit_test(open__no_such_name__NOINDEX_NAMES_IT),
		cmocka_unit_test(open__by_a_second_client__SEES_WHAT_THE_FIRST_WROTE),
		cmocka_unit_test(list__more_names_than_a_page_has__ALL_OF_THEM_ONCE),
		cmocka_unit_test(create_and_drop__again_and_again__MEMORY_COMES_BACK),
	};
	/* Promises of the fine-grained design alone. */
	const struct CMUnitTest fine[] = {
		cmocka_unit_test(lookup__warm_cache__ONE_ROUND_TRIP_AND_ONE_NODE),
		cmocka_unit_test(lookup__no_cache__ONE_ROUND_TRIP_PER_LEVEL),
		cmocka_unit_test(insert__warm_cache_and_no_split__TWO_ROUND_TRIPS),
		cmocka_unit_test(update_and_delete__warm_cache__TWO_ROUND_TRIPS),
	};
	int failed = cmocka_run_group_tests(tests, start, stop);

	if (tree_is_fine())
		failed += cmocka_run_group_tests(fine, start, stop);
	return failed;
}
