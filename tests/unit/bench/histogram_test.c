/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/histogram.h"

static struct histogram *
new_histogram(void)
{
	struct histogram *histogram = calloc(1, sizeof(*histogram));

	assert_non_null(histogram);
	return histogram;
}

static void
bucket__every_power_of_two_and_its_neighbours__HOLDS_THE_VALUE(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 64; bit++) {
		for (int delta = -1; delta <= 1; delta++) {
			uint64_t value = (1ull << bit) + (uint64_t)delta;
			unsigned bucket = histogram_bucket(value);

			assert_in_range(bucket, 0, HISTOGRAM_BUCKETS - 1);
			assert_true(histogram_bucket_low(bucket) <= value);
			if (bucket + 1 < HISTOGRAM_BUCKETS)
				assert_true(histogram_bucket_low(bucket + 1) > value);
		}
	}
}

static void
bucket__next_bucket__BEGINS_WHERE_THIS_ONE_ENDS(void **state)
{
	(void)state;
	for (unsigned i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
		uint64_t next = histogram_bucket_low(i + 1);

		assert_int_equal(histogram_bucket(next), i + 1);
		assert_int_equal(histogram_bucket(next - 1), i);
	}
}

static void
quantile__nothing_recorded__ZERO(void **state)
{
	struct histogram *histogram = new_histogram();

	(void)state;
	assert_true(histogram_quantile(histogram, 0.5) <= 0);
	assert_true(histogram_mean(histogram) <= 0);
	free(histogram);
}

static void
quantile__one_to_a_million__WITHIN_3_PER_CENT(void **state)
{
	static const double quantiles[] = { 0.01, 0.5, 0.9, 0.99, 0.999, 1 };
	struct histogram *histogram = new_histogram();

	(void)state;
	for (uint64_t value = 1; value <= 1000000; value++)
		histogram_record(histogram, value);
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
		double exact = quantiles[i] * 1e6;
		double found = histogram_quantile(histogram, quantiles[i]);

		assert_true(found > exact * 0.97 && found < exact * 1.03);
	}
	assert_int_equal(histogram->max, 1000000);
	assert_true(histogram_mean(histogram) > 500000 && histogram_mean(histogram) < 500001);
	free(histogram);
}

static void
quantile__top__NEVER_ABOVE_THE_MAXIMUM(void **state)
{
	struct histogram *histogram = new_histogram();

	(void)state;
	histogram_record(histogram, 1024);
	assert_true(histogram_quantile(histogram, 0.999) <= 1024);
	free(histogram);
}

static void
merge__two_halves__EQUALS_THE_WHOLE(void **state)
{
	struct histogram *a = new_histogram(), *b = new_histogram(), *whole = new_histogram();

	(void)state;
	for (uint64_t value = 0; value < 100000; value += 7) {
		histogram_record(value % 2 ? a : b, value * value);
		histogram_record(whole, value * value);
	}
	histogram_merge(a, b);
	assert_memory_equal(a, whole, sizeof(*whole));
	assert_int_equal(histogram_count(a), 100000 / 7 + 1);
	free(a);
	free(b);
	free(whole);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bucket__every_power_of_two_and_its_neighbours__HOLDS_THE_VALUE),
		cmocka_unit_test(bucket__next_bucket__BEGINS_WHERE_THIS_ONE_ENDS),
		cmocka_unit_test(quantile__nothing_recorded__ZERO),
		cmocka_unit_test(quantile__one_to_a_million__WITHIN_3_PER_CENT),
		cmocka_unit_test(quantile__top__NEVER_ABOVE_THE_MAXIMUM),
		cmocka_unit_test(merge__two_halves__EQUALS_THE_WHOLE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
