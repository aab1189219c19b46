/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/load/distribution.h"

static void
permutation__any_size__BIJECTION(void **state)
{
	static const uint64_t sizes[] = { 1, 2, 3, 4, 5, 7, 8, 9, 100, 1000, 1023, 1024, 1025,
		65537 };

	(void)state;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint64_t size = sizes[s];
		uint8_t *seen = calloc(size, 1);
		struct permutation p;

		assert_non_null(seen);
		permutation_init(&p, size, size * 31);
		for (uint64_t i = 0; i < size; i++) {
			uint64_t to = permutation_apply(&p, i);

			assert_true(to < size);
			assert_false(seen[to]);
			seen[to] = 1;
			assert_int_equal(permutation_invert(&p, to), i);
		}
		free(seen);
	}
}

static void
permutation__large_sizes__INVERTS(void **state)
{
	static const uint64_t sizes[] = { 10000000, 1ull << 40, (1ull << 40) - 1,
		(1ull << 62) + 12345, UINT64_MAX };
	struct nam_rng rng = nam_rng_seed(5);

	(void)state;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct permutation p;

		permutation_init(&p, sizes[s], 99);
		for (int i = 0; i < 1000; i++) {
			uint64_t from = nam_rng_below(&rng, sizes[s]);
			uint64_t to = permutation_apply(&p, from);

			assert_true(to < sizes[s]);
			assert_int_equal(permutation_invert(&p, to), from);
		}
	}
}

static void
permutation__neighbours__SCATTERED(void **state)
{
	struct permutation p;
	uint64_t near = 0;

	(void)state;
	permutation_init(&p, 1000000, 7);
	for (uint64_t i = 0; i + 1 < 10000; i++) {
		uint64_t a = permutation_apply(&p, i), b = permutation_apply(&p, i + 1);
		uint64_t distance = a > b ? a - b : b - a;

		near += distance < 1000;
	}
	/* By chance 1 in 500 is. */
	assert_in_range(near, 0, 100);
}

static void
zeta__small_and_large__EQUALS_THE_SUM(void **state)
{
	static const uint64_t items[] = { 1, 2, 999, 1000, 1001, 5000, 1000000 };
	static const double thetas[] = { 0.2, 0.5, 0.99 };

	(void)state;
	for (size_t t = 0; t < 3; t++) {
		uint64_t at = 1;
		double sum = 0;

		for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
			for (; at <= items[i]; at++)
				sum += pow((double)at, -thetas[t]);
			assert_true(fabs(zipf_zeta(items[i], thetas[t]) / sum - 1) < 1e-9);
		}
	}
}

/* The generator is exact for the first two ranks and an approximation for the others. */
static void
next__theta_of_ycsb__FOLLOWS_THE_LAW(void **state)
{
	enum { ITEMS = 1000, DRAWS = 2000000 };
	struct nam_rng rng = nam_rng_seed(3);
	uint64_t *counts = calloc(ITEMS, sizeof(*counts));
	uint64_t tail = 0;
	struct zipf zipf;
	double tail_exact = 0;

	(void)state;
	assert_non_null(counts);
	zipf_init(&zipf, ITEMS, 0.99);
	assert_int_equal(zipf.alpha_whole, 100);
	for (int i = 0; i < DRAWS; i++) {
		uint64_t rank = zipf_next(&zipf, &rng);

		assert_true(rank < ITEMS);
		counts[rank]++;
	}
	for (uint64_t rank = 0; rank < 2; rank++) {
		double exact = DRAWS * pow((double)(rank + 1), -0.99) / zipf.zeta;

		assert_true(fabs((double)counts[rank] / exact - 1) < 0.02);
	}
	for (uint64_t rank = 100; rank < ITEMS; rank++) {
		tail += counts[rank];
		tail_exact += DRAWS * pow((double)(rank + 1), -0.99) / zipf.zeta;
	}
	/* Here the approximation is 3.4 % short. */
	assert_true(fabs((double)tail / tail_exact - 1) < 0.05);
	free(counts);
}

static void
next__whole_and_fractional_alpha__AGREE(void **state)
{
	struct zipf whole, fractional;

	(void)state;
	zipf_init(&whole, 100000, 0.99);
	fractional = whole;
	fractional.alpha_whole = 0;
	for (uint64_t seed = 0; seed < 10000; seed++) {
		struct nam_rng a = nam_rng_seed(seed), b = a;
		uint64_t x = zipf_next(&whole, &a), y = zipf_next(&fractional, &b);

		/* Rounding may differ where a rank begins. */
		assert_true(x == y || x + 1 == y || y + 1 == x);
	}
}

static void
next__one_or_two_items__STAYS_INSIDE(void **state)
{
	struct nam_rng rng = nam_rng_seed(1);

	(void)state;
	for (uint64_t items = 1; items <= 3; items++) {
		struct zipf zipf;

		zipf_init(&zipf, items, 0.5);
		for (int i = 0; i < 10000; i++)
			assert_true(zipf_next(&zipf, &rng) < items);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(permutation__any_size__BIJECTION),
		cmocka_unit_test(permutation__large_sizes__INVERTS),
		cmocka_unit_test(permutation__neighbours__SCATTERED),
		cmocka_unit_test(zeta__small_and_large__EQUALS_THE_SUM),
		cmocka_unit_test(next__theta_of_ycsb__FOLLOWS_THE_LAW),
		cmocka_unit_test(next__whole_and_fractional_alpha__AGREE),
		cmocka_unit_test(next__one_or_two_items__STAYS_INSIDE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
