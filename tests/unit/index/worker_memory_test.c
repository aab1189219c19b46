/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_memory_test.c -- the needs of a worker with all of its fibers at work.  These are bytes as
 * it counts them itself, and the depth of its stacks.  fiber.h says how much of that is ours.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/fiber/switch.h"
#include "index/index_internal.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define FIBERS 64u
#define KEYS_EACH ((unsigned)test_scaled_least(200, 20))
#define LOADED 20000u
#define SCANNED test_scaled_least(10000, 4000)
#define OURS_OF_A_STACK (12u << 10)

TEST_CLUSTER(2, test_memory(64 * MIB), 0, 1000)

struct job {
	struct nam_index *index;
	unsigned number;
	unsigned *at_the_scan;		/* so many fibers have a cursor in the middle of a scan */
	uint64_t scanned;
	int rc;
};

/* The keys of all jobs lie side by side, so leaves and their parents are split under all jobs. */
static int
change_much(struct job *job)
{
	struct nam_worker *worker = me.worker;
	uint8_t key[8];
	uint64_t payload;
	int rc = 0;

	for (unsigned i = 0; i < KEYS_EACH && !rc; i++) {
		uint64_t number = (uint64_t)i * FIBERS + job->number;

		nam_key_from_u64(LOADED * 100ull + number, key);
		rc = nam_index_insert(worker, job->index, key, number); /* SUSPENDS */
		if (!rc)
			rc = nam_index_lookup(worker, job->index, key, &payload); /* SUSPENDS */
		if (!rc)
			rc = nam_index_update(worker, job->index, key, number + 1); /* SUSPENDS */
		if (!rc && i % 4 == 0)
			rc = nam_index_delete(worker, job->index, key); /* SUSPENDS */
	}
	return rc;
}

/* All wait until each has a cursor with as many leaves under way as there ever are. */
static int
scan_long(struct job *job)
{
	struct nam_range range = { .limit = SCANNED };
	uint64_t payloads[100];
	struct nam_cursor *cursor;
	uint32_t count = 0;
	int rc = nam_cursor_open(me.worker, job->index, &range, &cursor);

	if (rc)
		return rc;
	do {
		rc = nam_cursor_next(cursor, NULL, payloads, 100, &count); /* SUSPENDS */
		if (job->scanned < SCANNED / 2 && job->scanned + count >= SCANNED / 2) {
			++*job->at_the_scan;
			while (*job->at_the_scan < FIBERS)
				nam_worker_yield(me.worker); /* SUSPENDS */
		}
		job->scanned += count;
	} while (!rc && count);
	nam_cursor_close(cursor); /* SUSPENDS */
	return rc;
}

static void
job_main(void *arg)
{
	struct job *job = arg;

	job->rc = change_much(job); /* SUSPENDS */
	if (!job->rc)
		job->rc = scan_long(job); /* SUSPENDS */
	else
		++*job->at_the_scan;
}

static void
ignore(void *arg, unsigned invariant, const char *text)
{
	(void)arg;
	(void)invariant;
	(void)text;
}

/* Walks over whole trees, in a fiber as well. */
static void
look_after(void *arg)
{
	struct job *job = arg;
	struct nam_collect_stat collected;
	struct nam_index_stat stat;
	uint64_t violations = 0;

	job->rc = nam_index_collect(me.worker, job->index, &collected); /* SUSPENDS */
	if (!job->rc)
		job->rc = nam_index_stat(me.worker, job->index, &stat); /* SUSPENDS */
	if (!job->rc)
		job->rc = nam_index_verify(me.worker, job->index, ignore, NULL,
			&violations); /* SUSPENDS */
	if (!job->rc && violations)
		job->rc = -NAM_E_REMOTE_CORRUPT;
	if (!job->rc)
		job->rc = nam_index_drop(me.worker, job->index->name); /* SUSPENDS */
}

/* How far a stack was ever used: below that its pages are as the kernel gave them. */
static size_t
stack_depth(const struct nam_fiber *fiber)
{
	size_t guard_bytes = fiber->mapping_bytes - NAM_FIBER_STACK_BYTES;
	const char *low = (const char *)fiber->mapping + guard_bytes;
	const char *end = (const char *)fiber->mapping + fiber->mapping_bytes - fiber->color_bytes;

	while (low < end && !*(const uint64_t *)(const void *)low)
		low += 8;
	return (size_t)(end - low);
}

/* The keys that all of them scan: numbers from 0 on. */
static int
source_next(void *arg, void *key, uint64_t *payload)
{
	uint64_t *number = arg;

	if (*number == LOADED)
		return NAM_INDEX_END;
	nam_key_from_u64(*number, key);
	*payload = (*number)++ * 10 + 1;
	return NAM_INDEX_PAIR;
}

static struct nam_index *
work_with_all_fibers(uint32_t node_bytes)
{
	struct tree_options options = { .node_bytes = node_bytes, .head_interval = 8 };
	struct nam_index *index = tree_new(me.worker, &options, 8 * MIB);
	struct job jobs[FIBERS];
	unsigned at_the_scan = 0;
	uint64_t loaded = 0;

	assert_int_equal(nam_index_bulk_load(me.worker, index, source_next, &loaded, 95, NULL), 0);
	for (unsigned i = 0; i < FIBERS; i++) {
		jobs[i] = (struct job){ index, i, &at_the_scan, 0, 0 };
		assert_int_equal(nam_worker_spawn(me.worker, job_main, &jobs[i]), 0);
	}
	nam_worker_run(me.worker);
	for (unsigned i = 0; i < FIBERS; i++) {
		assert_int_equal(jobs[i].rc, 0);
		assert_int_equal(jobs[i].scanned, SCANNED);
	}
	return index;
}

static void
worker_bytes__64_fibers_that_change_and_scan__BELOW_FOUR_MIB(void **state)
{
	struct nam_index *index = work_with_all_fibers(1024);
	size_t stacks = FIBERS * (size_t)NAM_FIBER_STACK_BYTES;

	(void)state;
	print_message("%zu bytes, stacks %zu\n", nam_worker_bytes(me.worker), stacks);
	assert_true(nam_worker_bytes(me.worker) > stacks + 64ul * 32 * 1024);
#if !defined(NAM_FIBER_ASAN) && !defined(NAM_FIBER_TSAN)
	assert_true(nam_worker_bytes(me.worker) <= 4 * MIB);
#endif
	nam_index_close(index);
}

/* Small nodes: a tall tree, whose splits go up many levels. */
static void
stacks__64_fibers_that_change_and_scan__NO_DEEPER_THAN_PROMISED(void **state)
{
	struct nam_index *index = work_with_all_fibers(256);
	struct job job = { .index = index };
	const struct nam__task *task;
	size_t deepest = 0;

	(void)state;
	assert_int_equal(nam_worker_spawn(me.worker, look_after, &job), 0);
	nam_worker_run(me.worker);
	assert_int_equal(job.rc, 0);
	SLIST_FOREACH(task, &me.worker->tasks_made, made) {
		size_t depth = stack_depth(task->fiber);

		deepest = depth > deepest ? depth : deepest;
	}
	print_message("%zu bytes deep\n", deepest);
	assert_true(deepest > 0);
#if !defined(NAM_FIBER_ASAN) && !defined(NAM_FIBER_TSAN)
	assert_true(deepest <= OURS_OF_A_STACK);
#endif
	nam_index_close(index);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			worker_bytes__64_fibers_that_change_and_scan__BELOW_FOUR_MIB, start, stop),
		cmocka_unit_test_setup_teardown(
			stacks__64_fibers_that_change_and_scan__NO_DEEPER_THAN_PROMISED, start,
			stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
