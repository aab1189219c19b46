/* SPDX-License-Identifier: Apache-2.0 */
/* The read-ahead of a cursor: its size, and its fate under concurrent changes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "index/fine/scan_internal.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define PAIRS 20000u
#define PER_LEAF 57u			/* 95 % of 60 */
#define ROOM 256u
/* From one distance ahead of a cursor to the next. */
#define STEP (test_scaled(9) < 9 ? 27u : 9u)

TEST_CLUSTER(2, test_memory(64 * MIB), 0, 200)

/* ---- a tree of leaves that are equally full ----------------------------------------------- */

static int
source_next(void *arg, void *key, uint64_t *payload)
{
	uint64_t *number = arg;

	if (*number == PAIRS)
		return NAM_INDEX_END;
	nam_key_from_u64(*number * 2, key);
	*payload = *number * 2 * 10 + 1;
	(*number)++;
	return NAM_INDEX_PAIR;
}

/* Even numbers, as tree_fill() writes them; the cache knows every inner node. */
static void
load(struct nam_worker *worker, struct nam_index *index)
{
	uint64_t number = 0, payload;

	assert_int_equal(nam_index_bulk_load(worker, index, source_next, &number, 95, NULL), 0);
	for (uint64_t n = 0; n < PAIRS; n += 50)
		assert_int_equal(nam_index_lookup(worker, index, tree_key(index, 2 * n),
					 &payload), 0);
}

static struct nam_index *
loaded_tree(void)
{
	struct nam_index *index = tree_new(me.worker,
		&(struct tree_options){ .node_bytes = 1024 }, MIB);

	load(me.worker, index);
	return index;
}

static struct nam_cursor *
cursor_at(struct nam_worker *worker, struct nam_index *index, const struct nam_range *range)
{
	struct nam_cursor *cursor = NULL;

	assert_int_equal(nam_cursor_open(worker, index, range, &cursor), 0);
	return cursor;
}

/* Numbers *next, *next + 2, ...; returns how many. */
static uint32_t
take(struct nam_index *index, struct nam_cursor *cursor, uint32_t room, uint64_t *next)
{
	uint64_t payloads[ROOM];
	uint8_t keys[8 * ROOM];
	uint32_t count;

	assert_int_equal(nam_cursor_next(cursor, keys, payloads, room, &count), 0);
	for (uint32_t i = 0; i < count; i++, *next += 2) {
		assert_int_equal(tree_key_number(index, keys + 8 * i), *next);
		assert_int_equal(payloads[i], *next * 10 + 1);
	}
	return count;
}

/* Take entries until READs of two windows are on their way. */
static void
take_until_two_windows(struct nam_index *index, struct nam_cursor *cursor, uint64_t *next)
{
	const struct nam__scan *scan = (struct nam__scan *)cursor;

	for (unsigned i = 0; i < 100; i++) {
		uint64_t trips = me.worker->counters[NAM_OP_SCAN].round_trips;

		assert_int_equal(take(index, cursor, PER_LEAF, next), PER_LEAF);
		if (me.worker->counters[NAM_OP_SCAN].round_trips > trips && i &&
			scan->outstanding.in_flight > scan->ring / 2)
			return;
	}
	fail_msg("no window was ever posted ahead");
}

static void
take_rest(struct nam_index *index, struct nam_cursor *cursor, uint64_t *next)
{
	while (take(index, cursor, ROOM, next))
		continue;
	assert_int_equal(*next, 2 * PAIRS);
}

/* ---- how much is read --------------------------------------------------------------------- */

/* READs that a scan takes, and its round trips. */
static uint64_t
reads_of(struct nam_index *index, const struct nam_range *range, uint64_t first, uint64_t pairs,
	uint64_t *ret_trips)
{
	struct nam_op_counters before = me.worker->counters[NAM_OP_SCAN];
	struct nam_cursor *cursor = cursor_at(me.worker, index, range);
	uint64_t next = first;

	while (take(index, cursor, ROOM, &next))
		continue;
	assert_int_equal(next, first + 2 * pairs);
	nam_cursor_close(cursor);
	*ret_trips = me.worker->counters[NAM_OP_SCAN].round_trips - before.round_trips;
	return me.worker->counters[NAM_OP_SCAN].work_requests - before.work_requests;
}

static void
cursor__limit__READS_EXACTLY_THE_LEAVES_OF_A_LONG_SCAN(void **state)
{
	static const uint64_t leaves[] = { 40, 100, 200 };
	struct nam_index *index = loaded_tree();

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		uint64_t first = 2 * PER_LEAF * 7, trips, reads;
		struct nam_range range = {
			.low = tree_key(index, first),
			.limit = leaves[i] * PER_LEAF,
		};

		reads = reads_of(index, &range, first, range.limit, &trips);
		assert_int_equal(reads, leaves[i]);
		/* A window of 32, then one of 16 whenever half of them are used up. */
		assert_int_equal(trips, 1 + (leaves[i] - 32 + 15) / 16);
	}
	nam_index_close(index);
}

static void
cursor__far_end__READS_EXACTLY_THE_LEAVES_OF_THE_RANGE(void **state)
{
	struct nam_index *index = loaded_tree();

	(void)state;
	for (uint64_t leaves = 1; leaves < 150; leaves += 7) {
		uint64_t first = 2 * PER_LEAF * 50, trips;
		uint8_t low[8], high[8];
		struct nam_range range = { .low = low, .high = high };

		nam_key_from_u64(first, low);
		nam_key_from_u64(first + 2 * PER_LEAF * leaves, high);
		assert_int_equal(reads_of(index, &range, first, leaves * PER_LEAF, &trips), leaves);
	}
	nam_index_close(index);
}

/* Without a limit a window is no longer than what the scan has already shown to need. */
static void
cursor__first_entries_of_an_endless_range__FEW_READS(void **state)
{
	struct nam_index *index = loaded_tree();
	struct nam_range range = { 0 };
	uint64_t before = me.worker->counters[NAM_OP_SCAN].work_requests, next = 0;
	struct nam_cursor *cursor = cursor_at(me.worker, index, &range);

	(void)state;
	assert_int_equal(take(index, cursor, PER_LEAF, &next), PER_LEAF);
	assert_int_equal(me.worker->counters[NAM_OP_SCAN].work_requests - before, 4);
	nam_cursor_close(cursor);
	nam_index_close(index);
}

/* ---- two windows under way ---------------------------------------------------------------- */

/* Odd numbers appear, splitting leaves that are on their way and leaves behind those. */
static void
cursor__splits_under_two_windows__STEADY_ENTRIES_EXACTLY_ONCE(void **state)
{
	(void)state;
	for (unsigned ahead = 2; ahead < 60; ahead += STEP) {
		struct nam_index *index = loaded_tree();
		struct nam_index *writer = tree_open(me.worker, index->name, MIB);
		struct nam_cursor *cursor = cursor_at(me.worker, index, &(struct nam_range){ 0 });
		uint64_t next = 0, from, payloads[ROOM];
		uint8_t keys[8 * ROOM];
		uint32_t count;

		take_until_two_windows(index, cursor, &next);
		from = next + 2 * PER_LEAF * ahead;
		tree_fill(me.worker, writer, from + 1, from + 2 * PER_LEAF * 40, 2);
		do {
			assert_int_equal(nam_cursor_next(cursor, keys, payloads, ROOM, &count), 0);
			for (uint32_t i = 0; i < count; i++) {
				uint64_t n = tree_key_number(index, keys + 8 * i);

				assert_int_equal(payloads[i], n * 10 + 1);
				assert_true(n == next || (n == next - 1 && n > from));
				next = n % 2 ? n + 1 : n + 2;
			}
		} while (count);
		assert_int_equal(next, 2 * PAIRS);
		nam_cursor_close(cursor);
		nam_index_close(writer);
		nam_index_close(index);
	}
}

/* Leaves die that are on their way, or that the cursor holds the addresses of. */
static void
cursor__merges_under_two_windows__STEADY_ENTRIES_EXACTLY_ONCE(void **state)
{
	(void)state;
	for (unsigned ahead = 2; ahead < 60; ahead += STEP) {
		struct nam_index *index = loaded_tree();
		struct nam_index *writer = tree_open(me.worker, index->name, MIB);
		struct nam_cursor *cursor = cursor_at(me.worker, index, &(struct nam_range){ 0 });
		uint64_t next = 0, from, end, steady = 0, payloads[ROOM];
		struct nam_collect_stat stat;
		uint8_t keys[8 * ROOM];
		uint32_t count;

		take_until_two_windows(index, cursor, &next);
		from = next + 2 * PER_LEAF * ahead;
		end = from + 2 * PER_LEAF * 40;
		for (uint64_t n = from; n < end; n += 2)
			if (n % 100)
				assert_int_equal(nam_index_delete(me.worker, writer,
							 tree_key(writer, n)), 0);
		for (unsigned pass = 0; pass < 4; pass++)
			assert_int_equal(nam_index_collect(me.worker, writer, &stat), 0);
		for (uint64_t n = next; n < 2 * PAIRS; n += 2)
			steady += n < from || n >= end || n % 100 == 0;
		do {
			assert_int_equal(nam_cursor_next(cursor, keys, payloads, ROOM, &count), 0);
			for (uint32_t i = 0; i < count; i++) {
				uint64_t n = tree_key_number(index, keys + 8 * i);

				assert_int_equal(payloads[i], n * 10 + 1);
				assert_true(n >= next);
				next = n + 2;
				steady -= n < from || n >= end || n % 100 == 0;
			}
		} while (count);
		assert_int_equal(next, 2 * PAIRS);
		assert_int_equal(steady, 0);
		nam_cursor_close(cursor);
		nam_index_close(writer);
		nam_index_close(index);
	}
}

/* Addresses that the cursor holds lead to another leaf, to none, and out of all memory. */
static void
cursor__hints_that_lead_elsewhere__ARE_READ_ANEW(void **state)
{
	struct nam_index *index = loaded_tree();

	(void)state;
	for (unsigned kind = 0; kind < 3; kind++) {
		struct nam_cursor *cursor = cursor_at(me.worker, index, &(struct nam_range){ 0 });
		struct nam__scan *scan = (struct nam__scan *)cursor;
		uint64_t before, next = 0;

		take_until_two_windows(index, cursor, &next);
		assert_true(scan->hints_end > scan->hints_at + 2);
		before = me.worker->counters[NAM_OP_SCAN].restarts[NAM_RESTART_HINT];
		if (kind == 0)
			scan->hints[scan->hints_at] = scan->hints[scan->hints_end - 1];
		else if (kind == 1)
			scan->hints[scan->hints_at].raw ^= 1ull << 48;
		else
			scan->hints[scan->hints_at] = index->superblock;
		take_rest(index, cursor, &next);
		assert_true(me.worker->counters[NAM_OP_SCAN].restarts[NAM_RESTART_HINT] > before);
		nam_cursor_close(cursor);
	}
	nam_index_close(index);
}

/* Nothing arrives in a closed cursor's buffer, also after its reuse. */
static void
cursor_close__two_windows_under_way__WAITS_FOR_THEM(void **state)
{
	struct nam_index *index = loaded_tree();
	struct nam_cursor *cursor = cursor_at(me.worker, index, &(struct nam_range){ 0 });
	struct nam__scan *scan = (struct nam__scan *)cursor;
	uint32_t bytes = scan->ring * index->g.node_bytes;
	uint64_t next = 0, payload;
	uint8_t *images = (uint8_t *)scan->images, *buffer;

	(void)state;
	take_until_two_windows(index, cursor, &next);
	nam_cursor_close(cursor);
	buffer = nam_buffer_take(me.worker, bytes);
	assert_ptr_equal(buffer, images);
	memset(buffer, 0xee, bytes);
	for (uint64_t n = 0; n < 200; n++)
		assert_int_equal(nam_index_lookup(me.worker, index, tree_key(index, 2 * n),
					 &payload), 0);
	for (uint32_t i = 0; i < bytes; i++)
		assert_int_equal(buffer[i], 0xee);
	nam_buffer_give(me.worker, buffer, bytes);
	nam_index_close(index);
}

/* ---- a server dies ------------------------------------------------------------------------ */

static void
cursor__server_dead_under_two_windows__SAYS_SO_AND_CLOSES(void **state)
{
	struct local_cluster *doomed = local_cluster_start(2, test_memory(64 * MIB), 0);
	struct member survivor = me;
	struct nam_cursor *cursor;
	struct nam_index *index;
	uint64_t next = 0, payloads[ROOM];
	uint8_t keys[8 * ROOM];
	uint32_t count = 0;
	int rc = 0;

	(void)state;
	me = member_join(doomed, "test", 200);
	index = loaded_tree();
	cursor = cursor_at(me.worker, index, &(struct nam_range){ 0 });
	take_until_two_windows(index, cursor, &next);
	local_cluster_stop_server(doomed, 1);
	for (unsigned i = 0; i < 1000 && !rc; i++) {
		rc = nam_cursor_next(cursor, keys, payloads, ROOM, &count);
		assert_true(rc || count);
		nam_sleep_ns(2000000);
	}
	assert_int_equal(rc, -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(((struct nam__scan *)cursor)->outstanding.in_flight, 0);
	assert_int_equal(nam_cursor_next(cursor, keys, payloads, ROOM, &count),
		-NAM_E_FABRIC_PEER_DEAD);
	nam_cursor_close(cursor);
	nam_index_close(index);
	member_leave(&me);
	local_cluster_stop(doomed);
	me = survivor;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cursor__limit__READS_EXACTLY_THE_LEAVES_OF_A_LONG_SCAN),
		cmocka_unit_test(cursor__far_end__READS_EXACTLY_THE_LEAVES_OF_THE_RANGE),
		cmocka_unit_test(cursor__first_entries_of_an_endless_range__FEW_READS),
		cmocka_unit_test(cursor__splits_under_two_windows__STEADY_ENTRIES_EXACTLY_ONCE),
		cmocka_unit_test(cursor__merges_under_two_windows__STEADY_ENTRIES_EXACTLY_ONCE),
		cmocka_unit_test(cursor__hints_that_lead_elsewhere__ARE_READ_ANEW),
		cmocka_unit_test(cursor_close__two_windows_under_way__WAITS_FOR_THEM),
		cmocka_unit_test(cursor__server_dead_under_two_windows__SAYS_SO_AND_CLOSES),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
