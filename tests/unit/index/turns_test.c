/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns_test.c -- fibers that are merely ready have their turns beside one whose READs are there
 * whenever it asks, and so never has to wait.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compute/worker/outstanding_reads.h"
#include "index/index_internal.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define KEYS test_scaled_least(20000, 5000)
#define AT_ONCE 64u		/* keys that are looked up together, and entries of a short scan */

TEST_CLUSTER(2, test_memory(64 * MIB), 0, 1000)

struct job {
	struct nam_index *index;
	uint64_t entries;		/* that the busy one has seen */
	unsigned turns;			/* of the other */
	bool done;
	int rc;
};

static void
take_turns(void *arg)
{
	struct job *job = arg;

	while (!job->done) {
		job->turns++;
		nam_worker_yield(me.worker); /* SUSPENDS */
	}
}

/* Keys one by one, each of which is looked up, or changed, together with those of other fibers. */
static void
look_up_singly(void *arg)
{
	struct job *job = arg;
	uint64_t payload;

	while (!job->done) {
		job->turns += !nam_index_lookup(me.worker, job->index,
			tree_key(job->index, job->turns % KEYS), &payload); /* SUSPENDS */
	}
}

static void
update_singly(void *arg)
{
	struct job *job = arg;

	while (!job->done)
		job->turns += !nam_index_update(me.worker, job->index,
			tree_key(job->index, job->turns % KEYS), job->turns); /* SUSPENDS */
}

/* One scan of everything, or with a limit one after the other. */
NAM_FIBER_FN static int
scan(struct job *job, uint64_t low, uint64_t limit)
{
	struct nam_range range = { .low = tree_key(job->index, low), .limit = limit };
	struct nam_entries entries = { .count = 1 };
	struct nam_cursor *cursor;
	int rc = nam_cursor_open(me.worker, job->index, &range, &cursor);

	if (rc)
		return rc;
	while (!rc && entries.count) {
		rc = nam_cursor_next_entries(cursor, &entries); /* SUSPENDS */
		if (!rc)
			job->entries += entries.count;
	}
	nam_cursor_close(cursor); /* SUSPENDS */
	return rc;
}

static void
scan_long(void *arg)
{
	struct job *job = arg;

	job->rc = scan(job, 0, 0); /* SUSPENDS */
	job->done = true;
}

static void
scan_shortly(void *arg)
{
	struct job *job = arg;

	for (uint64_t low = 0; low < KEYS && !job->rc; low += AT_ONCE)
		job->rc = scan(job, low, AT_ONCE); /* SUSPENDS */
	job->done = true;
}

static void
look_up(void *arg)
{
	uint64_t payloads[AT_ONCE];
	uint8_t keys[8 * AT_ONCE];
	struct job *job = arg;
	int rcs[AT_ONCE];

	for (uint64_t low = 0; low + AT_ONCE <= KEYS && !job->rc; low += AT_ONCE) {
		for (unsigned i = 0; i < AT_ONCE; i++)
			nam_key_from_u64(low + i, keys + 8ul * i);
		job->rc = nam_index_lookup_many(me.worker, job->index, keys, AT_ONCE, payloads,
			rcs); /* SUSPENDS */
		for (unsigned i = 0; i < AT_ONCE; i++)
			job->entries += !rcs[i] && payloads[i] == (low + i) * 10 + 1;
	}
	job->done = true;
}

/* The tree is in the cache, so nothing but its READs can make the busy one wait. */
static void
run_beside(nam_fiber_fn busy, nam_fiber_fn other, uint64_t entries, unsigned turns)
{
	struct job warm = { .index = tree_new(me.worker, &(struct tree_options){ 0 }, MIB) };
	struct job job = { .index = warm.index };

	tree_fill(me.worker, warm.index, 0, KEYS, 1);
	look_up(&warm);
	assert_int_equal(warm.rc, 0);

	assert_int_equal(nam_worker_spawn(me.worker, busy, &job), 0);
	assert_int_equal(nam_worker_spawn(me.worker, other, &job), 0);
	nam_worker_run(me.worker);
	assert_int_equal(job.rc, 0);
	assert_int_equal(job.entries, entries);
	if (job.turns < turns)
		fail_msg("%u turns, not %u", job.turns, turns);
	nam_index_close(job.index);
}

/* An operation takes up to four turns. */
#define OPERATIONS(turns) ((turns) / 4)
/* A leaf holds 60 entries, and a scan never asks for more than its ring of leaves at once. */
#define RINGS ((unsigned)(KEYS / 60 / NAM__OUTSTANDING_MAX))
#define BATCHES ((unsigned)(KEYS / AT_ONCE))

static void
turns__beside_a_long_scan__WITH_EVERY_RING_OF_LEAVES(void **state)
{
	(void)state;
	run_beside(scan_long, take_turns, KEYS, RINGS);
	run_beside(scan_long, look_up_singly, KEYS, OPERATIONS(RINGS));
}

static void
turns__beside_short_scans__WITH_EACH(void **state)
{
	(void)state;
	run_beside(scan_shortly, take_turns, KEYS, BATCHES);
	run_beside(scan_shortly, look_up_singly, KEYS, OPERATIONS(BATCHES));
}

static void
turns__beside_batches_of_lookups__WITH_EACH(void **state)
{
	(void)state;
	run_beside(look_up, take_turns, BATCHES * AT_ONCE, BATCHES);
	run_beside(look_up, look_up_singly, BATCHES * AT_ONCE, OPERATIONS(BATCHES));
}

static void
turns_of_updates__beside_scans__WITH_EACH(void **state)
{
	(void)state;
	run_beside(scan_long, update_singly, KEYS, OPERATIONS(RINGS));
	run_beside(scan_shortly, update_singly, KEYS, OPERATIONS(BATCHES));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns__beside_a_long_scan__WITH_EVERY_RING_OF_LEAVES),
		cmocka_unit_test(turns__beside_short_scans__WITH_EACH),
		cmocka_unit_test(turns__beside_batches_of_lookups__WITH_EACH),
		cmocka_unit_test(turns_of_updates__beside_scans__WITH_EACH),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
