/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coarse_test.c -- a coarse-grained index's own features: its parts, its costs, errors between
 * compute nodes and memory servers.  The common promises of designs are in point_ops_test.c and
 * others.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "index/coarse/coarse.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define SERVERS 3u

TEST_CLUSTER_OF_TWO(SERVERS, 8 * MIB, 4 * MIB, 200)

static const uint64_t bounds_of[SERVERS - 1] = { 1000, 2000 };

static struct nam_index_options
options_by(enum nam_partitioning partitioning)
{
	static uint8_t bounds[8 * (SERVERS - 1)];
	struct nam_index_options options;

	nam_index_options_init(&options);
	options.design = NAM_DESIGN_COARSE;
	options.partitioning = partitioning;
	options.node_bytes = 256;
	for (unsigned i = 0; i < SERVERS - 1; i++)
		nam_key_from_u64(bounds_of[i], bounds + 8 * i);
	if (partitioning == NAM_PARTITION_RANGE) {
		options.bounds = bounds;
		options.bounds_count = SERVERS - 1;
	}
	return options;
}

static struct nam_index *
make(const char *name, enum nam_partitioning partitioning)
{
	struct nam_index_options options = options_by(partitioning);

	assert_int_equal(nam_index_create(me.worker, name, &options), 0);
	return tree_open(me.worker, name, 0);
}

static void
unmake(struct nam_index *index)
{
	assert_int_equal(nam_index_drop(me.worker, index->name), 0);
	nam_index_close(index);
}

static int
insert(struct member *member, struct nam_index *index, uint64_t number)
{
	uint8_t key[8];

	nam_key_from_u64(number, key);
	return nam_index_insert(member->worker, index, key, number + 7);
}

static int
lookup(struct member *member, struct nam_index *index, uint64_t number, uint64_t *ret_payload)
{
	uint8_t key[8];

	nam_key_from_u64(number, key);
	return nam_index_lookup(member->worker, index, key, ret_payload);
}

/* ---- parts -------------------------------------------------------------------------------- */

static void
create__bounds_that_are_none__EINVAL_SAYS_WHY(void **state)
{
	struct nam_index_options options = options_by(NAM_PARTITION_RANGE);
	uint8_t twice[16] = { 0 };

	(void)state;
	options.bounds = NULL;
	assert_int_equal(nam_index_create(me.worker, "x", &options), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "2 keys"));
	options.bounds = twice;
	options.bounds_count = SERVERS - 2;
	assert_int_equal(nam_index_create(me.worker, "x", &options), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "2 keys"));
	options.bounds_count = SERVERS - 1;
	assert_int_equal(nam_index_create(me.worker, "x", &options), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "lowest key"));
	twice[7] = twice[15] = 1;
	assert_int_equal(nam_index_create(me.worker, "x", &options), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "do not ascend"));
	options.partitioning = NAM_PARTITION_HASH;
	assert_int_equal(nam_index_create(me.worker, "x", &options), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "by range only"));
	options.bounds = NULL;
	options.partitioning = (enum nam_partitioning)9;
	assert_int_equal(nam_index_create(me.worker, "x", &options), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "partitioning 9"));
}

static void
create__what_the_design_has_not__EINVAL_SAYS_WHY(void **state)
{
	struct nam_index_options options = options_by(NAM_PARTITION_HASH);
	uint8_t bounds[16] = { 1, [8] = 2 };

	(void)state;
	options.head_interval = 8;
	assert_int_equal(nam_index_create(me.worker, "x", &options), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "no head nodes"));
	nam_index_options_init(&options);
	options.bounds = bounds;
	assert_int_equal(nam_index_create(me.worker, "x", &options), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "bounds are of no use"));
	options.bounds = NULL;
	options.partitioning = NAM_PARTITION_RANGE;
	assert_int_equal(nam_index_create(me.worker, "x", &options), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "leave it at the default"));
}

/* An older message beside a new code would be a lie. */
static void
diag__failure_after_failure__IS_THAT_OF_THE_LAST(void **state)
{
	struct nam_index *index = make("twice", NAM_PARTITION_HASH);
	struct nam_index_options options = options_by(NAM_PARTITION_HASH);
	struct nam_range range = { .low = "b2345678", .high = "a2345678" };
	struct nam_cursor *cursor;

	(void)state;
	options.key_bytes = 1;
	assert_int_equal(nam_index_create(me.worker, "x", &options), -EINVAL);
	options.key_bytes = 8;
	assert_int_equal(nam_index_create(me.worker, "twice", &options), -NAM_E_INDEX_EXISTS);
	assert_non_null(strstr(nam_worker_diag(me.worker), "'twice' is taken already"));
	assert_int_equal(nam_cursor_open(me.worker, index, &range, &cursor), -EINVAL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "above its high key"));
	unmake(index);
}

static void
expect__another_design__CODES_AND_DIAGS(void **state)
{
	struct nam_index *index = make("as-it-is", NAM_PARTITION_HASH);
	struct nam_index_options expected = options_by(NAM_PARTITION_HASH);

	(void)state;
	assert_int_equal(nam_index_properties(index)->head_interval, 0);
	assert_int_equal(nam_index_expect(me.worker, index, &expected), 0);
	expected.design = NAM_DESIGN_HYBRID;
	assert_int_equal(nam_index_expect(me.worker, index, &expected), -NAM_E_DESIGN);
	assert_non_null(strstr(nam_worker_diag(me.worker), "is coarse, not hybrid"));
	expected = (struct nam_index_options){ .partitioning = NAM_PARTITION_RANGE };
	assert_int_equal(nam_index_expect(me.worker, index, &expected), -NAM_E_DESIGN);
	assert_non_null(strstr(nam_worker_diag(me.worker), "partitioning 2, not 1"));
	expected = (struct nam_index_options){ .key_bytes = 16 };
	assert_int_equal(nam_index_expect(me.worker, index, &expected), -NAM_E_KEY_BYTES);
	assert_non_null(strstr(nam_worker_diag(me.worker), "keys of 8 bytes, not of 16"));
	expected = (struct nam_index_options){ .key_bytes = 0 };
	assert_int_equal(nam_index_expect(me.worker, index, &expected), 0);
	unmake(index);
}

static void
open__by_range__TELLS_ITS_BOUNDS(void **state)
{
	struct nam_index *index = make("ranges", NAM_PARTITION_RANGE), *seen;
	struct nam_index_options options = options_by(NAM_PARTITION_RANGE);

	(void)state;
	seen = tree_open(other.worker, "ranges", 0);
	assert_int_equal(nam_index_properties(seen)->design, NAM_DESIGN_COARSE);
	assert_int_equal(nam_index_properties(seen)->partitioning, NAM_PARTITION_RANGE);
	assert_int_equal(nam_index_properties(seen)->bounds_count, SERVERS - 1);
	assert_memory_equal(nam_index_properties(seen)->bounds, options.bounds,
		8 * (SERVERS - 1));
	nam_index_close(seen);
	unmake(index);
}

static void
keys__of_three_ranges__LIE_ON_THEIR_SERVERS(void **state)
{
	struct nam_index *index = make("ranges", NAM_PARTITION_RANGE);
	struct nam_index_stat stat;

	(void)state;
	for (uint64_t n = 0; n < 1000; n++)
		assert_int_equal(insert(&me, index, n), 0);
	assert_int_equal(insert(&me, index, 1000), 0);
	assert_int_equal(nam_index_stat(me.worker, index, &stat), 0);
	assert_true(stat.servers_nodes[0] > 50);
	assert_int_equal(stat.servers_nodes[1], 1);
	assert_int_equal(stat.servers_nodes[2], 1);
	assert_int_equal(stat.entries, 1001);
	unmake(index);
}

static void
keys__by_hash_or_in_turn__SPREAD_EVENLY(void **state)
{
	(void)state;
	for (int by = NAM_PARTITION_HASH; by <= NAM_PARTITION_ROUND_ROBIN; by++) {
		struct nam_index *index = make("spread", (enum nam_partitioning)by);
		uint32_t counts[SERVERS] = { 0 };

		for (uint64_t n = 0; n < 3000; n++)
			counts[nam__part_of(index, &n)]++;
		for (unsigned i = 0; i < SERVERS; i++)
			assert_in_range(counts[i], by == NAM_PARTITION_HASH ? 850 : 1000,
				by == NAM_PARTITION_HASH ? 1150 : 1000);
		unmake(index);
	}
}

/* A client that believes in other bounds is told, and nothing is changed. */
static void
change__of_a_key_elsewhere__PARTITION_AND_NOTHING_CHANGED(void **state)
{
	struct nam_index *index = make("ranges", NAM_PARTITION_RANGE);
	uint64_t payload;

	(void)state;
	assert_int_equal(insert(&me, index, 1500), 0);
	index->parts->lows[1] = 1600;
	assert_int_equal(insert(&me, index, 1501), -NAM_E_PARTITION);
	assert_int_equal(lookup(&me, index, 1500, &payload), -NAM_E_PARTITION);
	index->parts->lows[1] = 1000;
	assert_int_equal(lookup(&me, index, 1501, &payload), -NAM_E_NOTFOUND);
	assert_int_equal(lookup(&me, index, 1500, &payload), 0);
	unmake(index);
}

static void
open__a_part_is_missing__CLUSTER_NAMES_THE_SERVER(void **state)
{
	struct nam_index *index = make("holes", NAM_PARTITION_HASH), *again;
	struct nam_rpc_tree_request request = { .tree = index->tree };
	uint32_t none = 0;

	(void)state;
	assert_int_equal(nam_rpc_call(me.worker, index->parts->slots[1], NAM_RPC_TREE_DROP,
		&request, sizeof(request), NULL, &none), 0);
	assert_int_equal(nam_index_open(me.worker, "holes", 0, &again), -NAM_E_CLUSTER);
	assert_non_null(strstr(nam_worker_diag(me.worker), local_cluster_address(cluster, 1)));
	unmake(index);
}

/* ---- costs -------------------------------------------------------------------------------- */

static void
point_operations__of_any_kind__ONE_ROUND_TRIP(void **state)
{
	struct nam_index *index = make("costs", NAM_PARTITION_HASH);
	const struct nam_op_counters *counters = nam_worker_counters(me.worker, NAM_OP_LOOKUP);
	struct nam_op_counters before;
	uint64_t payload;

	(void)state;
	for (uint64_t n = 0; n < 2000; n++)
		assert_int_equal(insert(&me, index, n), 0);
	before = *counters;
	for (uint64_t n = 0; n < 100; n++)
		assert_int_equal(lookup(&me, index, n, &payload), 0);
	assert_int_equal(counters->round_trips - before.round_trips, 100);
	assert_int_equal(counters->work_requests - before.work_requests, 100);
	/* Headers of 24 bytes; 16 and a pair out, 8 and a result in. */
	assert_int_equal(counters->bytes_out - before.bytes_out, 100 * (24 + 16 + 16));
	assert_int_equal(counters->bytes_in - before.bytes_in, 100 * (24 + 8 + 16));
	unmake(index);
}

static void
lookup_many__more_than_a_message_holds__A_MESSAGE_FOR_MANY(void **state)
{
	enum { COUNT = 3000 };
	struct nam_index *index = make("many", NAM_PARTITION_HASH);
	const struct nam_op_counters *counters = nam_worker_counters(me.worker, NAM_OP_LOOKUP);
	static uint8_t keys[8 * COUNT];
	static uint64_t payloads[COUNT];
	static int rcs[COUNT];
	uint64_t before;

	(void)state;
	for (uint64_t n = 0; n < COUNT; n++) {
		nam_key_from_u64(n, keys + 8 * n);
		if (n % 3)
			assert_int_equal(insert(&me, index, n), 0);
	}
	before = counters->work_requests;
	assert_int_equal(nam_index_lookup_many(me.worker, index, keys, COUNT, payloads, rcs), 0);
	for (uint64_t n = 0; n < COUNT; n++) {
		assert_int_equal(rcs[n], n % 3 ? 0 : -NAM_E_NOTFOUND);
		if (n % 3)
			assert_int_equal(payloads[n], n + 7);
	}
	assert_true(counters->work_requests - before <= COUNT / 128 + SERVERS);
	unmake(index);
}

/* ---- loading ------------------------------------------------------------------------------ */

struct source {
	uint64_t next, end;
	struct nam_index *index;
	int insert_rc, load_rc;		/* of others, half-way */
	struct nam_index_change changes[3];
};

static int
source_next(void *arg, void *key, uint64_t *payload)
{
	static const uint8_t keys[3][8] = { { 1 }, { 2 }, { 3 } };
	struct source *source = arg;

	if (source->next == source->end)
		return NAM_INDEX_END;
	if (source->next == source->end / 2 && source->index) {
		struct source more = { .end = 1 };
		uint64_t found;

		source->insert_rc = insert(&other, source->index, source->end + 5);
		assert_non_null(strstr(nam_worker_diag(other.worker), "is being loaded"));
		for (unsigned i = 0; i < 3; i++)
			source->changes[i] = (struct nam_index_change){ keys[i], i,
				NAM_CHANGE_UPSERT, 1 };
		assert_int_equal(nam_index_change_many(other.worker, source->index,
			source->changes, 3), -NAM_E_LOCK_TIMEOUT);
		source->load_rc = nam_index_bulk_load(other.worker, source->index, source_next,
			&more, 0, NULL);
		assert_non_null(strstr(nam_worker_diag(other.worker), "is being loaded"));
		assert_int_equal(lookup(&other, source->index, 0, &found), -NAM_E_NOTFOUND);
	}
	nam_key_from_u64(source->next, key);
	*payload = source->next++ + 7;
	return NAM_INDEX_PAIR;
}

static void
bulk_load__others_change_meanwhile__WAIT_AND_SEE_NOTHING(void **state)
{
	struct nam_index *index = make("load", NAM_PARTITION_ROUND_ROBIN);
	struct source source = { .end = 5000 };
	uint64_t payload;

	(void)state;
	source.index = tree_open(other.worker, "load", 0);
	assert_int_equal(nam_index_bulk_load(me.worker, index, source_next, &source, 0, NULL), 0);
	assert_int_equal(source.insert_rc, -NAM_E_LOCK_TIMEOUT);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(source.changes[i].rc, -NAM_E_LOCK_TIMEOUT);
	assert_int_equal(source.load_rc, -NAM_E_LOCK_TIMEOUT);
	assert_non_null(strstr(nam_worker_diag(other.worker), "is being loaded"));
	tree_check(me.worker, index, 5000);
	assert_int_equal(lookup(&other, source.index, 4999, &payload), 0);
	assert_int_equal(insert(&other, source.index, 5005), 0);
	assert_int_equal(nam_index_change_many(other.worker, source.index, source.changes, 3), 0);
	tree_check(me.worker, index, 5004);
	nam_index_close(source.index);
	unmake(index);
}

/* A source that does not return. */
static int
source_leaves(void *arg, void *key, uint64_t *payload)
{
	struct source *source = arg;

	if (source->next == source->end)
		return -ECANCELED;
	return source_next(arg, key, payload);
}

static void
bulk_load__cancelled_or_its_worker_gone__AS_EMPTY_AS_BEFORE(void **state)
{
	struct nam_index *index = make("load", NAM_PARTITION_HASH), *theirs;
	struct member passing = member_join(cluster, "passing", 200);
	struct nam_rpc_tree_load_request begin = {
		.tree = index->tree, .load = 99, .step = NAM_RPC_TREE_LOAD_BEGIN,
		.fill_percent = 90,
	};
	struct source source = { .end = 3000 };
	uint32_t none = 0;
	int rc;

	(void)state;
	assert_int_equal(nam_index_bulk_load(me.worker, index, source_leaves, &source, 0, NULL),
		-ECANCELED);
	tree_check(me.worker, index, 0);

	theirs = tree_open(passing.worker, "load", 0);
	do {
		rc = nam_rpc_call(passing.worker, theirs->parts->slots[2], NAM_RPC_TREE_LOAD,
			&begin, sizeof(begin), NULL, &none);
	} while (rc == -NAM_E_RESTART_LOCKED);
	assert_int_equal(rc, 0);
	nam_index_close(theirs);
	member_leave(&passing);
	source = (struct source){ .end = 3000 };
	assert_int_equal(nam_index_bulk_load(me.worker, index, source_next, &source, 0, NULL), 0);
	tree_check(me.worker, index, 3000);
	unmake(index);
}

/* ---- memory ------------------------------------------------------------------------------- */

static void
collect_and_drop__everything_deleted__MEMORY_COMES_BACK(void **state)
{
	struct nam_index *index = make("memory", NAM_PARTITION_HASH);
	struct nam_collect_stat stat, again;
	uint64_t before, full;

	(void)state;
	before = member_sees_used(&me);
	for (uint64_t n = 0; n < 20000; n++)
		assert_int_equal(insert(&me, index, n), 0);
	full = member_sees_used(&me);
	assert_true(full > before + 20000 * 16);
	for (uint64_t n = 0; n < 20000; n++) {
		uint8_t key[8];

		nam_key_from_u64(n, key);
		assert_int_equal(nam_index_delete(me.worker, index, key), 0);
	}
	assert_int_equal(nam_index_collect(me.worker, index, &stat), 0);
	assert_int_equal(nam_index_collect(me.worker, index, &again), 0);
	assert_true(stat.merges > 1000);
	assert_true(stat.nodes_reusable + again.nodes_reusable >= stat.merges * 9 / 10);
	tree_check(me.worker, index, 0);
	assert_true(member_sees_used(&me) < before + (full - before) / 5);
	unmake(index);
	/* Memory servers free dropped trees between requests. */
	for (unsigned i = 0; i < 100 && member_sees_used(&me) > before; i++)
		;
	assert_true(member_sees_used(&me) <= before);
}

/* The last message names the index and the memory server of that part. */
static void
says_where(const struct nam_index *index, uint32_t part)
{
	char text[NAM_INDEX_NAME_BYTES + 16];

	(void)snprintf(text, sizeof(text), "index '%s'", index->name);
	member_says(&me, text);
	member_says(&me, me.client->servers[index->parts->slots[part]].address);
}

static void
insert__no_memory_left__REMOTE_FULL_AND_ALL_IS_THERE(void **state)
{
	struct nam_index *index = make("full", NAM_PARTITION_RANGE);
	struct nam_index_change change;
	uint64_t n, payload;
	uint8_t key[8];
	int rc = 0;

	(void)state;
	/* All in the second part, in no order. */
	for (n = 0; !rc && n < 1000; n++)
		rc = insert(&me, index, 1000 + n * 7919 % 1000);
	assert_int_equal(rc, 0);
	/* The third has no upper bound. */
	for (n = 0; !rc && n < 4000000; n++)
		rc = insert(&me, index, 2000 + n * 2654435761u % 4294967296u);
	assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	says_where(index, 2);
	tree_check(me.worker, index, 1000 + n - 1);
	for (uint64_t i = 0; i < n - 1; i += 997)
		assert_int_equal(lookup(&me, index, 2000 + i * 2654435761u % 4294967296u,
			&payload), 0);
	nam_key_from_u64(2000 + (n - 1) * 2654435761u % 4294967296u, key);
	change = (struct nam_index_change){ key, n, NAM_CHANGE_INSERT, 0 };
	(void)nam_diag_set(&me.worker->diag, 0, "%s", "");
	(void)!nam_index_change_many(me.worker, index, &change, 1);
	assert_int_equal(change.rc, -NAM_E_REMOTE_FULL);
	says_where(index, 2);
	unmake(index);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create__bounds_that_are_none__EINVAL_SAYS_WHY),
		cmocka_unit_test(create__what_the_design_has_not__EINVAL_SAYS_WHY),
		cmocka_unit_test(diag__failure_after_failure__IS_THAT_OF_THE_LAST),
		cmocka_unit_test(expect__another_design__CODES_AND_DIAGS),
		cmocka_unit_test(open__by_range__TELLS_ITS_BOUNDS),
		cmocka_unit_test(keys__of_three_ranges__LIE_ON_THEIR_SERVERS),
		cmocka_unit_test(keys__by_hash_or_in_turn__SPREAD_EVENLY),
		cmocka_unit_test(change__of_a_key_elsewhere__PARTITION_AND_NOTHING_CHANGED),
		cmocka_unit_test(open__a_part_is_missing__CLUSTER_NAMES_THE_SERVER),
		cmocka_unit_test(point_operations__of_any_kind__ONE_ROUND_TRIP),
		cmocka_unit_test(lookup_many__more_than_a_message_holds__A_MESSAGE_FOR_MANY),
		cmocka_unit_test(bulk_load__others_change_meanwhile__WAIT_AND_SEE_NOTHING),
		cmocka_unit_test(bulk_load__cancelled_or_its_worker_gone__AS_EMPTY_AS_BEFORE),
		cmocka_unit_test(collect_and_drop__everything_deleted__MEMORY_COMES_BACK),
		cmocka_unit_test(insert__no_memory_left__REMOTE_FULL_AND_ALL_IS_THERE),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
