/* SPDX-License-Identifier: Apache-2.0 */
/* scan_failure_test.c -- a memory server ends between two calls of a scan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/env.h"
#include "index/index_internal.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define KEYS 3000u
#define ROOM 64u

TEST_CLUSTER(2, test_memory(64 * MIB), 0, 1000)

/* ---- the two ways to take entries ----------------------------------------------------------- */

struct delivery {
	uint64_t keys[KEYS];
	uint32_t count;
};

typedef int (*next_fn)(struct nam_cursor *cursor, struct delivery *delivery);

static int
next_copied(struct nam_cursor *cursor, struct delivery *delivery)
{
	uint64_t payloads[ROOM];
	uint8_t keys[8 * ROOM];
	int rc = nam_cursor_next(cursor, keys, payloads, ROOM, &delivery->count);

	for (uint32_t i = 0; !rc && i < delivery->count; i++)
		delivery->keys[i] = nam_key_to_u64(keys + 8ul * i);
	return rc;
}

static int
next_in_place(struct nam_cursor *cursor, struct delivery *delivery)
{
	struct nam_entries entries;
	int rc = nam_cursor_next_entries(cursor, &entries);

	if (rc)
		return rc;
	assert_true(entries.count <= KEYS);
	delivery->count = entries.count;
	for (uint32_t i = 0; i < entries.count; i++)
		delivery->keys[i] = nam_entries_key_u64(&entries, i);
	return 0;
}

/* A region that is mapped can be read until the connection is known to be closed. */
static void
server_ends(void)
{
	uint64_t deadline = nam_now_ns() + 5000000000ull;

	local_cluster_stop_server(cluster, 1);
	while (me.worker->qps[1] && nam_now_ns() < deadline)
		nam_worker_yield(me.worker);
	assert_null(me.worker->qps[1]);
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* The next failure: what comes before it is the next keys. */
static int
scan_on(struct nam_cursor *cursor, next_fn next, uint64_t *seen)
{
	struct delivery delivery;
	int rc = next(cursor, &delivery);

	for (; !rc && delivery.count; rc = next(cursor, &delivery))
		for (uint32_t i = 0; i < delivery.count; i++)
			assert_int_equal(delivery.keys[i], (*seen)++);
	return rc;
}

/* Delivered pairs are right up to the failure, which each further call reports. */
static void
scan_past_a_server(next_fn next)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, MIB);
	struct delivery delivery;
	struct nam_cursor *cursor;
	uint64_t seen;

	tree_fill(me.worker, index, 0, KEYS, 1);
	assert_int_equal(nam_cursor_open(me.worker, index, &(struct nam_range){ 0 }, &cursor), 0);
	assert_int_equal(next(cursor, &delivery), 0);
	seen = delivery.count;
	server_ends();
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(scan_on(cursor, next, &seen), -NAM_E_FABRIC_PEER_DEAD);
		member_says(&me, "is gone");
	}
	assert_in_range(seen, 1, KEYS - 1);
	nam_cursor_close(cursor);
	nam_index_close(index);
}

static void
cursor_next__server_ends_in_between__NAMED_TIME_AND_AGAIN(void **state)
{
	(void)state;
	scan_past_a_server(next_copied);
}

static void
cursor_next_entries__server_ends_in_between__NAMED_TIME_AND_AGAIN(void **state)
{
	(void)state;
	scan_past_a_server(next_in_place);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			cursor_next__server_ends_in_between__NAMED_TIME_AND_AGAIN, start, stop),
		cmocka_unit_test_setup_teardown(
			cursor_next_entries__server_ends_in_between__NAMED_TIME_AND_AGAIN, start,
			stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
