/* SPDX-License-Identifier: Apache-2.0 */
/* options_test.c -- where the parts of an index begin, and what makes no sense of shares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "bench/index/options.h"

#define PARTS_MAX 64u

/* How many of the loaded keys each part keeps. */
static void
count(uint64_t pairs, unsigned dup_shift, const double *shares, uint32_t parts,
	uint64_t *ret_counts)
{
	uint8_t bounds[PARTS_MAX * 16], key[16];
	struct keys keys;

	assert_int_equal(keys_init(&keys, pairs, dup_shift, 16, 1, false, 1), 0);
	index_bounds(&keys, shares, parts, bounds);
	for (uint32_t i = 1; i + 1 < parts; i++)
		assert_true(memcmp(bounds + (i - 1) * 16, bounds + i * 16, 16) < 0);
	memset(ret_counts, 0, parts * sizeof(*ret_counts));
	for (uint64_t pair = 0; pair < pairs; pair++) {
		uint32_t part = 0;

		keys_prepare(&keys, key);
		keys_write(&keys, keys_loaded(&keys, pair), key);
		while (part + 1 < parts && memcmp(key, bounds + part * 16, 16) >= 0)
			part++;
		ret_counts[part]++;
	}
}

static void
bounds__without_shares__PARTS_ARE_ALIKE(void **state)
{
	uint64_t counts[PARTS_MAX];

	(void)state;
	count(9000, 0, NULL, 3, counts);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(counts[i], 3000);
}

static void
bounds__shares__EACH_PART_KEEPS_ITS_OWN(void **state)
{
	static const double shares[] = { 80, 12, 5, 3 };
	uint64_t counts[PARTS_MAX];

	(void)state;
	count(10000, 0, shares, 4, counts);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(counts[i], 100 * shares[i]);
}

static void
bounds__equal_keys__STAY_TOGETHER(void **state)
{
	static const double shares[] = { 25, 75 };
	uint64_t counts[PARTS_MAX];

	(void)state;
	count(4000, 2, shares, 2, counts);
	assert_int_equal(counts[0], 1000);
}

static void
bounds__more_parts_than_keys__STILL_ASCEND(void **state)
{
	uint64_t counts[PARTS_MAX], sum = 0;

	(void)state;
	count(5, 0, NULL, 64, counts);
	for (unsigned i = 0; i < 64; i++)
		sum += counts[i];
	assert_int_equal(sum, 5);
	count(1, 0, NULL, 64, counts);
	assert_int_equal(counts[0], 1);
}

static void
shares__not_hundred_in_all__REFUSED(void **state)
{
	struct index_bench_options o = { 0 };
	struct nam_diag diag = { "" };

	(void)state;
	assert_int_not_equal(index_shares_take(&o, "80,12,5", &diag), 0);
	assert_int_not_equal(index_shares_take(&o, "100,0", &diag), 0);
	assert_int_not_equal(index_shares_take(&o, "50,50,", &diag), 0);
	assert_int_not_equal(index_shares_take(&o, "fifty,50", &diag), 0);
	assert_int_equal(index_shares_take(&o, "33.3333,33.3333,33.3334", &diag), 0);
	assert_int_equal(o.shares_count, 3);
}

static void
names__each_design_and_partitioning__ARE_IN_ORDER(void **state)
{
	static const char *const names[] = { "fine", "coarse", "hybrid" };
	static const char *const ways[] = { "range", "hash", "round-robin" };
	struct nam_index_options options = { 0 };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_string_equal(index_designs[i], names[i]);
		options.design = (enum nam_index_design)(NAM_DESIGN_FINE + i);
		assert_string_equal(nam_index_traits(options.design)->name, names[i]);
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_string_equal(index_partitionings[i], ways[i]);
		options.partitioning = (enum nam_partitioning)(NAM_PARTITION_RANGE + i);
		assert_string_equal(nam_partitioning_name(&options), ways[i]);
	}
	options.design = NAM_DESIGN_FINE;
	assert_string_equal(nam_partitioning_name(&options), "none");
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds__without_shares__PARTS_ARE_ALIKE),
		cmocka_unit_test(bounds__shares__EACH_PART_KEEPS_ITS_OWN),
		cmocka_unit_test(bounds__equal_keys__STAY_TOGETHER),
		cmocka_unit_test(bounds__more_parts_than_keys__STILL_ASCEND),
		cmocka_unit_test(shares__not_hundred_in_all__REFUSED),
		cmocka_unit_test(names__each_design_and_partitioning__ARE_IN_ORDER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
