/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fibers_and_scans.c -- one thread, many waits at once; a non-unique index; scans both ways.
 *
 *	nam-memserver --id 0 --listen shm:/tmp/nam0 --memory 64M &
 *	nam-memserver --id 1 --listen shm:/tmp/nam1 --memory 64M &
 *	example_fibers_and_scans shm:/tmp/nam0,shm:/tmp/nam1
 *
 * The index is a secondary one: from an age to the people of that age.  Eight fibers fill it; then
 * two scan it side by side.  While a fiber waits for a memory server the others run.  Only
 * functions that the headers mark NAM_FIBER_FN let others run, so there is nothing to lock.
 */
#include <inttypes.h>
#include <stdio.h>

#include "lib/example.h"

#define PEOPLE 4000u
#define AGES 80u
#define FIBERS 8u

/* Input and result of a fiber. */
struct job {
	struct nam_worker *worker;
	struct nam_index *index;
	unsigned number;
	uint64_t count;
	int rc;
};

static void
add_people(void *arg)
{
	struct job *job = arg;
	unsigned char key[8];

	for (uint64_t person = job->number; person < PEOPLE && !job->rc; person += FIBERS) {
		nam_key_from_u64(person % AGES, key);
		job->rc = nam_index_insert(job->worker, job->index, key, person); /* SUSPENDS */
		job->count++;
	}
}

/* All people from 30 to 39, in order of age, then of number. */
static void
count_the_thirties(void *arg)
{
	struct job *job = arg;
	unsigned char low[8], high[8];
	struct nam_range range = { .low = low, .high = high };
	struct nam_cursor *cursor;
	uint64_t people[64];
	uint32_t count;

	nam_key_from_u64(30, low);
	nam_key_from_u64(40, high); /* exclusive */
	job->rc = nam_cursor_open(job->worker, job->index, &range, &cursor);
	if (job->rc)
		return;
	do {
		job->rc = nam_cursor_next(cursor, NULL, people, 64, &count); /* SUSPENDS */
		job->count += job->rc ? 0 : count;
	} while (!job->rc && count);
	nam_cursor_close(cursor);
}

/* The five oldest: from the end, downwards. */
static void
print_the_oldest(void *arg)
{
	struct job *job = arg;
	struct nam_range range = { .reverse = true, .limit = 5 };
	unsigned char ages[5][8];
	struct nam_cursor *cursor;
	uint64_t people[5];
	uint32_t count;

	job->rc = nam_cursor_open(job->worker, job->index, &range, &cursor);
	if (job->rc)
		return;
	do {
		job->rc = nam_cursor_next(cursor, ages, people, 5, &count); /* SUSPENDS */
		for (uint32_t i = 0; !job->rc && i < count; i++)
			printf("age %" PRIu64 ": person %" PRIu64 "\n", nam_key_to_u64(ages[i]),
				people[i]);
		job->count += job->rc ? 0 : count;
	} while (!job->rc && count);
	nam_cursor_close(cursor);
}

/* Run `count` fibers to their ends. */
static int
run(struct nam_worker *worker, const nam_fiber_fn *fns, struct job *jobs, unsigned count)
{
	int rc = 0;

	for (unsigned i = 0; i < count && !rc; i++)
		rc = nam_worker_spawn(worker, fns[i], &jobs[i]);
	nam_worker_run(worker);
	for (unsigned i = 0; i < count && !rc; i++)
		rc = jobs[i].rc;
	return rc ? example_failed("fibers", rc, nam_worker_diag(worker)) : 0;
}

static int
use(struct nam_worker *worker, struct nam_index *index)
{
	static const nam_fiber_fn scans[] = { count_the_thirties, print_the_oldest };
	nam_fiber_fn writers[FIBERS];
	struct job jobs[FIBERS], asks[2];
	int rc;

	for (unsigned i = 0; i < FIBERS; i++) {
		writers[i] = add_people;
		jobs[i] = (struct job){ worker, index, .number = i };
	}
	rc = run(worker, writers, jobs, FIBERS);
	if (rc)
		return rc;
	asks[0] = asks[1] = (struct job){ worker, index, .number = 0 };
	rc = run(worker, scans, asks, 2);
	if (rc)
		return rc;
	printf("%u people, %" PRIu64 " of them in their thirties\n", PEOPLE, asks[0].count);
	if (asks[0].count != 10 * PEOPLE / AGES || asks[1].count != 5) {
		fprintf(stderr, "a scan has lost or invented a person\n");
		return -NAM_E_REMOTE_CORRUPT;
	}
	return 0;
}

int
main(int argc, char **argv)
{
	/* Not unique: many people have one age.  Each pair is there once. */
	return example_index_main(argc, argv,
		(struct example_index){ "people_by_age", .unique = false, use });
}
