/* SPDX-License-Identifier: Apache-2.0 */
/* htm_test.c -- one thread at a time, whatever the kind of lock; aborts are counted and bounded. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kv/server/htm.h"

#define THREADS 3u
#define ROUNDS 20000u

static struct nam__htm_lock lock;
static struct nam__htm_counts counts;
static uint64_t shared[2];

static void *
count_both(void *arg)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		nam__htm_lock(&lock);
		shared[0]++;
		shared[1]++;
		nam__htm_unlock(&lock);
	}
	return arg;
}

static void
crowd(enum nam__htm htm)
{
	pthread_t threads[THREADS];

	counts = (struct nam__htm_counts){ 0 };
	lock = (struct nam__htm_lock){ .htm = htm, .counts = &counts };
	shared[0] = shared[1] = 0;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_both, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(shared[0], THREADS * ROUNDS);
	assert_int_equal(shared[1], THREADS * ROUNDS);
	assert_int_equal(lock.locked, 0);
}

static void
lock__threads_of_each_kind__ONE_AT_A_TIME(void **state)
{
	(void)state;
	crowd(NAM__HTM_NONE);
	assert_int_equal(counts.commits + counts.aborts + counts.fallbacks, 0);
	crowd(NAM__HTM_STAND_IN);
	/* Each critical section is one or the other, after four aborts at the most. */
	assert_int_equal(counts.commits + counts.fallbacks, THREADS * ROUNDS);
	assert_true(counts.aborts > counts.commits / 3 && counts.commits > counts.fallbacks);
	assert_true(counts.aborts <= 4 * (uint64_t)THREADS * ROUNDS);
#ifndef __SANITIZE_THREAD__	/* which does not see its instructions */
	/* A processor without HLE takes the lock, for it ignores the prefixes. */
	crowd(NAM__HTM_HLE);
	assert_int_equal(counts.commits + counts.fallbacks, THREADS * ROUNDS);
	assert_int_equal(counts.aborts, counts.fallbacks);
#endif
	if (nam__htm_available() == NAM__HTM_RTM) {
		crowd(NAM__HTM_RTM);
		assert_int_equal(counts.commits + counts.fallbacks, THREADS * ROUNDS);
	}
}

static void
lock__transactions_that_abort_again_and_again__TAKES_IT(void **state)
{
	uint64_t taken = 0;

	(void)state;
	counts = (struct nam__htm_counts){ 0 };
	lock = (struct nam__htm_lock){ .htm = NAM__HTM_STAND_IN, .counts = &counts };
	for (unsigned i = 0; i < 10000; i++) {
		nam__htm_lock(&lock);
		taken += lock.locked;
		nam__htm_unlock(&lock);
	}
	assert_int_equal(counts.commits + counts.fallbacks, 10000);
	/* A third to the fourth power. */
	assert_true(taken > 50 && taken < 300);
	assert_int_equal(counts.fallbacks, taken);
}

/* Aborts of each of the first transactions, two bits for each. */
static uint64_t
aborts_by(uint64_t seed)
{
	uint64_t bits = 0, before = 0;

	nam__htm_stand_in_seed = seed;
	counts = (struct nam__htm_counts){ 0 };
	lock = (struct nam__htm_lock){ .htm = NAM__HTM_STAND_IN, .counts = &counts };
	for (unsigned i = 0; i < 32; i++) {
		nam__htm_lock(&lock);
		bits = bits << 2 | ((counts.aborts - before) & 3);
		before = counts.aborts;
		nam__htm_unlock(&lock);
	}
	nam__htm_stand_in_seed = 0;
	return bits;
}

static void
lock__stand_in_with_another_seed__ABORTS_OTHERS(void **state)
{
	(void)state;
	assert_true(aborts_by(1) == aborts_by(1));
	assert_true(aborts_by(1) != aborts_by(2));
}

static void
available__on_this_processor__HAS_A_NAME(void **state)
{
	(void)state;
	assert_string_equal(nam__htm_name(NAM__HTM_NONE), "none");
	assert_non_null(nam__htm_name(nam__htm_available()));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lock__threads_of_each_kind__ONE_AT_A_TIME),
		cmocka_unit_test(lock__transactions_that_abort_again_and_again__TAKES_IT),
		cmocka_unit_test(lock__stand_in_with_another_seed__ABORTS_OTHERS),
		cmocka_unit_test(available__on_this_processor__HAS_A_NAME),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
