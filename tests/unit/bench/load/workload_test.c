/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/load/workload.h"

static void
find__every_known_name__SHARES_SUM_TO_ONE(void **state)
{
	static const char *const names[] = { "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e",
		"ycsb-f", "nam-a", "nam-b", "nam-c", "nam-d", "tree-a", "tree-b",
		"tree-c", "tree-d" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct workload workload;
		double sum = 0;

		assert_int_equal(workload_find(names[i], &workload, NULL), 0);
		assert_string_equal(workload.name, names[i]);
		for (int op = 0; op < OPS_COUNT; op++)
			sum += workload.share[op];
		assert_true(sum > 0.999999 && sum < 1.000001);
	}
}

static void
find__ycsb_definitions__AS_PUBLISHED(void **state)
{
	struct workload w;

	(void)state;
	assert_int_equal(workload_find("ycsb-d", &w, NULL), 0);
	assert_int_equal(w.distribution, DISTRIBUTION_LATEST);
	assert_true(w.share[OP_INSERT] > 0.049 && w.share[OP_INSERT] < 0.051);
	assert_int_equal(workload_find("ycsb-e", &w, NULL), 0);
	assert_int_equal(w.distribution, DISTRIBUTION_ZIPFIAN);
	assert_int_equal(w.scan_length, 100);
	assert_true(w.scan_uniform);
	assert_true(w.share[OP_SCAN] > 0.949 && w.share[OP_SCAN] < 0.951);
	assert_int_equal(workload_find("ycsb-f", &w, NULL), 0);
	assert_true(w.share[OP_RMW] > 0.499 && w.share[OP_RMW] < 0.501);
	assert_int_equal(workload_find("nam-b", &w, NULL), 0);
	assert_true(w.selectivity > 0);
}

static void
find__unknown_name__EINVAL_AND_NAMES_IT(void **state)
{
	struct nam_diag diag = { "" };
	struct workload w;

	(void)state;
	assert_int_equal(workload_find("ycsb-z", &w, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "ycsb-z"));
}

static void
parse_mix__any_unit__NORMALISED(void **state)
{
	struct workload w;

	(void)state;
	assert_int_equal(workload_parse_mix("lookup=3,insert=1", &w, NULL), 0);
	assert_true(w.share[OP_LOOKUP] > 0.7499 && w.share[OP_LOOKUP] < 0.7501);
	assert_true(w.share[OP_INSERT] > 0.2499 && w.share[OP_INSERT] < 0.2501);
	assert_string_equal(w.name, "mix");
}

static void
parse_mix__malformed__EINVAL(void **state)
{
	static const char *const texts[] = { "", "lookup", "lookup=", "lookup=x", "lookup=5x",
		"look=5", "lookup=-5", "lookup=5,,", "lookup=5;insert=5", "lookup=0", "lookup=nan",
		"=5", "lookup=inf", "lookup=50,insert=1,lookup=50", "scan=0,scan=1" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct nam_diag diag = { "" };
		struct workload w;

		if (workload_parse_mix(texts[i], &w, &diag) != -EINVAL)
			fail_msg("'%s' was taken", texts[i]);
		assert_true(diag.text[0]);
	}
}

static void
draw__mix__FOLLOWS_THE_SHARES(void **state)
{
	enum { DRAWS = 1000000 };
	struct nam_rng rng = nam_rng_seed(11);
	uint64_t counts[OPS_COUNT] = { 0 };
	struct workload w;
	struct op_mix mix;

	(void)state;
	assert_int_equal(workload_parse_mix("lookup=90,insert=5,delete=4,scan=1", &w, NULL), 0);
	op_mix_init(&mix, &w);
	assert_int_equal(mix.op[0], OP_LOOKUP);
	for (int i = 0; i < DRAWS; i++)
		counts[op_mix_draw(&mix, (uint32_t)nam_rng_next(&rng))]++;
	assert_in_range(counts[OP_LOOKUP], 895000, 905000);
	assert_in_range(counts[OP_INSERT], 48000, 52000);
	assert_in_range(counts[OP_DELETE], 38000, 42000);
	assert_in_range(counts[OP_SCAN], 9000, 11000);
	assert_int_equal(counts[OP_UPDATE] + counts[OP_UPSERT] + counts[OP_RMW], 0);
}

static void
draw__one_operation_only__ALWAYS_THAT_ONE(void **state)
{
	struct workload w;
	struct op_mix mix;

	(void)state;
	for (int op = 0; op < OPS_COUNT; op++) {
		char text[32];

		strcpy(text, workload_op_names[op]);
		strcat(text, "=1");
		assert_int_equal(workload_parse_mix(text, &w, NULL), 0);
		op_mix_init(&mix, &w);
		assert_int_equal(op_mix_draw(&mix, 0), op);
		assert_int_equal(op_mix_draw(&mix, UINT32_MAX), op);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find__every_known_name__SHARES_SUM_TO_ONE),
		cmocka_unit_test(find__ycsb_definitions__AS_PUBLISHED),
		cmocka_unit_test(find__unknown_name__EINVAL_AND_NAMES_IT),
		cmocka_unit_test(parse_mix__any_unit__NORMALISED),
		cmocka_unit_test(parse_mix__malformed__EINVAL),
		cmocka_unit_test(draw__mix__FOLLOWS_THE_SHARES),
		cmocka_unit_test(draw__one_operation_only__ALWAYS_THAT_ONE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
