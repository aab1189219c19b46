/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_test.c -- which bucket a hash has in tables of every shape, up to 512 buckets each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kv/server/bucket.h"

#define HASHES 200000u
#define LEVEL_END 8u

static uint32_t hashes[HASHES], indexes[HASHES], counts[2u << LEVEL_END];

/* Buckets of a table of this shape. */
static uint32_t
size_of(const struct nam__cuckoo_shape *shape, uint32_t table)
{
	return (2u << shape->level) + (shape->split + 1 - table) / 2;
}

/* The share of a group's hashes, in 16ths, that a bucket has among so many. */
static uint32_t
share_of(uint32_t index_in_group, uint32_t buckets)
{
	assert_in_range(buckets, 2, 4);
	if (buckets == 3)
		return index_in_group == 2 ? 6 : 5;
	return 16 / buckets;
}

static void
assert_even(const struct nam__cuckoo_shape *shape, uint32_t table)
{
	const uint32_t groups = 1u << shape->level, size = size_of(shape, table);

	for (uint32_t i = 0; i < size; i++)
		counts[i] = 0;
	for (uint32_t i = 0; i < HASHES; i++)
		counts[indexes[i]]++;
	for (uint32_t i = 0; i < size; i++) {
		uint32_t buckets = (size - i % groups + groups - 1) / groups;
		uint32_t share = HASHES / groups * share_of(i / groups, buckets) / 16;

		/* Six standard deviations of a binomial distribution, and its integer division. */
		assert_true((counts[i] - (double)share) * (counts[i] - (double)share) <=
			36.0 * share + 2);
	}
}

/* From this shape to the next one a hash keeps its bucket, or gets the one that came. */
static void
step(const struct nam__cuckoo_shape *before, const struct nam__cuckoo_shape *shape, uint32_t table)
{
	const uint32_t groups = 1u << before->level, was = size_of(before, table);
	const uint32_t is = size_of(shape, table);

	assert_true(is == was || is == was + 1);
	for (uint32_t i = 0; i < HASHES; i++) {
		uint32_t index = nam__cuckoo_index(shape, hashes[i], table);

		if (index != indexes[i]) {
			assert_true(is > was && index == was);
			assert_int_equal(index % groups, indexes[i] % groups);
		}
		indexes[i] = index;
	}
	assert_even(shape, table);
}

static void
index__tables_of_every_shape__ONE_BUCKET_COMES_AND_ALL_ARE_EVEN(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < HASHES; i++)
		hashes[i] = (uint32_t)nam_mix64(i);
	for (uint32_t table = 0; table < 2; table++) {
		struct nam__cuckoo_shape shape = { NAM__CUCKOO_LEVEL_MIN, 0 };

		for (uint32_t i = 0; i < HASHES; i++)
			indexes[i] = nam__cuckoo_index(&shape, hashes[i], table);
		assert_even(&shape, table);
		while (shape.level < LEVEL_END) {
			struct nam__cuckoo_shape before = shape;

			if (++shape.split == 4u << shape.level)
				shape = (struct nam__cuckoo_shape){ shape.level + 1, 0 };
			step(&before, &shape, table);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(index__tables_of_every_shape__ONE_BUCKET_COMES_AND_ALL_ARE_EVEN),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
