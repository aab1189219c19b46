/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups by many fibers of a worker, batched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/env.h"
#include "index/index_internal.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define KEYS test_scaled_least(3000, 600)	/* even ones are there */
#define FIBERS 50u		/* more than one search takes */
#define LOOKUPS test_scaled_least(400, 40)
#define YIELDS_MAX 1000000u

TEST_CLUSTER(2, test_memory(64 * MIB), 0, 200)

struct reader {
	struct nam_index *indexes[2];
	unsigned number, wrong, done;
};

/* Of two indexes in turn, keys that are there and keys that are not. */
static void
read_keys(void *arg)
{
	struct reader *self = arg;
	struct nam_rng rng = nam_rng_seed(self->number);

	for (unsigned i = 0; i < LOOKUPS; i++) {
		uint64_t n = nam_rng_below(&rng, KEYS), payload = 0;
		struct nam_index *index = self->indexes[(i + self->number) % 2];
		uint8_t key[8];
		int rc;

		nam_key_from_u64(n, key);
		rc = nam_index_lookup(me.worker, index, key, &payload); /* SUSPENDS */
		if (n % 2 ? rc != -NAM_E_NOTFOUND : rc || payload != n * 10 + 1)
			self->wrong++;
		self->done++;
	}
}

static void
spawn_readers(struct reader *readers, unsigned count, struct nam_index *a, struct nam_index *b)
{
	for (unsigned i = 0; i < count; i++) {
		readers[i] = (struct reader){ { a, b }, i, 0, 0 };
		assert_int_equal(nam_worker_spawn(me.worker, read_keys, &readers[i]), 0);
	}
}

static struct nam_index *
filled_index(uint64_t cache_bytes)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, cache_bytes);

	tree_fill(me.worker, index, 0, KEYS, 2);
	return index;
}

static void
lookup__many_fibers_and_two_indexes__EACH_GETS_ITS_OWN_ANSWER(void **state)
{
	struct nam_index *a = filled_index(1 * MIB), *b = filled_index(1 * MIB);
	struct reader readers[FIBERS];

	(void)state;
	for (unsigned count = 1; count <= FIBERS; count += 7) {
		spawn_readers(readers, count, a, b);
		nam_worker_run(me.worker);
		for (unsigned i = 0; i < count; i++) {
			assert_int_equal(readers[i].done, LOOKUPS);
			assert_int_equal(readers[i].wrong, 0);
		}
	}
	nam_index_close(a);
	nam_index_close(b);
}

static void
lookup__many_fibers_and_a_warm_cache__ONE_ROUND_TRIP_AND_ONE_NODE_EACH(void **state)
{
	struct nam_index *index = filled_index(1 * MIB);
	const struct nam_op_counters *counters = nam_worker_counters(me.worker, NAM_OP_LOOKUP);
	struct nam_op_counters before;
	struct reader readers[FIBERS];
	uint64_t ops;

	(void)state;
	spawn_readers(readers, FIBERS, index, index);
	nam_worker_run(me.worker);
	before = *counters;
	spawn_readers(readers, FIBERS, index, index);
	nam_worker_run(me.worker);
	ops = counters->ops - before.ops;
	assert_int_equal(ops, FIBERS * LOOKUPS);
	assert_int_equal(counters->round_trips - before.round_trips, ops);
	assert_int_equal(counters->work_requests - before.work_requests, ops);
	assert_int_equal(counters->bytes_in - before.bytes_in, ops * index->g.node_bytes);
	nam_index_close(index);
}

/* ---- batches that do not fill up ---------------------------------------------------------- */

struct impatient {
	const struct reader *reader;
	unsigned yields;
};

/* Never waits for anything, so that the worker always has a fiber to run. */
static void
yield_until_done(void *arg)
{
	struct impatient *self = arg;

	while (self->reader->done < LOOKUPS && self->yields < YIELDS_MAX) {
		self->yields++;
		nam_worker_yield(me.worker); /* SUSPENDS */
	}
}

static void
lookup__others_are_never_idle__IT_ENDS_ALL_THE_SAME(void **state)
{
	struct nam_index *index = filled_index(1 * MIB);
	struct impatient impatient[8];
	struct reader reader;

	(void)state;
	spawn_readers(&reader, 1, index, index);
	for (unsigned i = 0; i < 8; i++) {
		impatient[i] = (struct impatient){ &reader, 0 };
		assert_int_equal(nam_worker_spawn(me.worker, yield_until_done, &impatient[i]), 0);
	}
	nam_worker_run(me.worker);
	assert_int_equal(reader.done, LOOKUPS);
	assert_int_equal(reader.wrong, 0);
	for (unsigned i = 0; i < 8; i++)
		assert_true(impatient[i].yields < YIELDS_MAX);
	nam_index_close(index);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookup__many_fibers_and_two_indexes__EACH_GETS_ITS_OWN_ANSWER),
		cmocka_unit_test(lookup__others_are_never_idle__IT_ENDS_ALL_THE_SAME),
	};
	/* Promises of the fine-grained design alone. */
	const struct CMUnitTest fine[] = {
		cmocka_unit_test(
			lookup__many_fibers_and_a_warm_cache__ONE_ROUND_TRIP_AND_ONE_NODE_EACH),
	};
	int failed = cmocka_run_group_tests(tests, start, stop);

	if (tree_is_fine())
		failed += cmocka_run_group_tests(fine, start, stop);
	return failed;
}
