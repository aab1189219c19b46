/* SPDX-License-Identifier: Apache-2.0 */
/* place_memory_test.c -- RUNS, where a backup has no memory for its books. */
#include "memserver/services/runs.h"

/* The allocations that succeed before one fails. */
static unsigned allocations_left;

static struct nam__run *
run_new_or_fail(uint32_t region, uint64_t offset, uint64_t end, uint32_t stride, bool dirty)
{
	return allocations_left-- ? nam__run_new(region, offset, end, stride, dirty) : NULL;
}

static void *
array_grown_or_fail(void *array, uint32_t *size, uint32_t count, size_t element_bytes)
{
	return count <= *size || allocations_left-- ?
		nam__array_grown(array, size, count, element_bytes) : NULL;
}

#define nam__run_new run_new_or_fail
#define nam__array_grown array_grown_or_fail
#include "memserver/services/place.c"
#undef nam__run_new
#undef nam__array_grown

#include "place_fixture.h"

/* Until it succeeds.  Up to then nothing changes. */
static void
place_short_of_memory(struct fixture *f, uint32_t stride, uint64_t at, unsigned allocations)
{
	struct nam_memory_figures before = *figures(f);
	uint32_t runs_count = books(f)->runs_count;
	int rc;

	for (unsigned i = 0; i < allocations; i++) {
		allocations_left = i;
		assert_int_equal(place(f, stride, at, 1, NULL, 0), -ENOMEM);
		check_books(f);
		assert_memory_equal(figures(f), &before, sizeof(before));
		assert_int_equal(books(f)->runs_count, runs_count);
	}
	allocations_left = allocations;
	rc = place(f, stride, at, 1, NULL, 0);
	assert_int_equal(rc, 0);
	check_books(f);
	/* It is there, so asking again needs none. */
	allocations_left = 0;
	assert_int_equal(place(f, stride, at, 1, NULL, 0), 0);
}

static void
place__one_block_without_memory__CHANGES_NOTHING(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[MANY];

	assert_int_equal(ask(f, STRIDE, MANY), 0);
	assert_int_equal(collect(f, STRIDE, blocks), MANY);
	assert_int_equal(give(f, STRIDE, blocks + 60, 20), 0);
	/* Vacant memory on both sides. */
	place_short_of_memory(f, SMALL, address(1, 4096), 3);
	/* Beside it: that run grows. */
	place_short_of_memory(f, SMALL, address(1, 4096 + SMALL), 1);
	/* In the middle of a run with bits. */
	place_short_of_memory(f, SMALL, blocks[50] + 1, 4);
	assert_int_equal(give(f, STRIDE, blocks, 50), 0);
	assert_int_equal(give(f, STRIDE, blocks + 51, 9), 0);
}

static void
place__many_blocks_without_memory__HAS_WHOLE_ONES_FROM_THE_FRONT(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[MANY];
	unsigned failed = 0;
	uint64_t carved;
	int rc;

	for (uint32_t i = 0; i < MANY; i++)
		blocks[i] = address(1, 4096 + i * 4096);
	do {
		allocations_left = failed++;
		rc = place(f, STRIDE, address(0, 4096), 10, blocks, MANY);
		assert_true(!rc || rc == -ENOMEM);
		check_books(f);
		carved = figures(f)->carved_bytes;
		assert_int_equal(carved % STRIDE, 0);
		assert_true(!carved || carved >= 10 * STRIDE);
	} while (rc);
	assert_true(failed > 2);
	assert_int_equal(carved, (10 + MANY) * STRIDE);
	assert_int_equal(give(f, STRIDE, blocks, MANY), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(place__one_block_without_memory__CHANGES_NOTHING),
		TEST(place__many_blocks_without_memory__HAS_WHOLE_ONES_FROM_THE_FRONT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
