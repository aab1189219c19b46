/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/counters.h"

#define WORDS (sizeof(struct nam_op_counters) / sizeof(uint64_t))

static void
op_kind_name__every_kind__ITS_TEXT(void **state)
{
	(void)state;
	assert_string_equal(nam_op_kind_name(NAM_OP_LOOKUP), "lookup");
	assert_string_equal(nam_op_kind_name(NAM_OP_BULK_LOAD), "bulk_load");
	for (int kind = 0; kind < NAM_OP_KINDS_COUNT; kind++)
		assert_true(strlen(nam_op_kind_name((enum nam_op_kind)kind)) > 0);
}

static void
op_kind_name__no_kind__UNKNOWN(void **state)
{
	(void)state;
	assert_string_equal(nam_op_kind_name(NAM_OP_KINDS_COUNT), "unknown");
	assert_string_equal(nam_op_kind_name((enum nam_op_kind)-1), "unknown");
}

static void
restart_cause_name__causes__THEIR_TEXT(void **state)
{
	(void)state;
	assert_string_equal(nam_restart_cause_name(NAM_RESTART_TORN), "torn");
	assert_string_equal(nam_restart_cause_name(NAM_RESTART_HINT), "hint");
	assert_string_equal(nam_restart_cause_name(NAM_RESTART_CAUSES_COUNT), "unknown");
}

static void
op_counters_add__every_field__SUMMED(void **state)
{
	struct nam_op_counters sum;
	struct nam_op_counters more;
	uint64_t words[WORDS];

	(void)state;
	for (size_t i = 0; i < WORDS; i++)
		words[i] = i + 1;
	memcpy(&sum, words, sizeof(sum));
	for (size_t i = 0; i < WORDS; i++)
		words[i] = 100 * (i + 1);
	memcpy(&more, words, sizeof(more));

	nam_op_counters_add(&sum, &more);

	memcpy(words, &sum, sizeof(sum));
	for (size_t i = 0; i < WORDS; i++)
		assert_int_equal(words[i], 101 * (i + 1));
}

static void
op_counters_restarts__all_causes__SUM(void **state)
{
	struct nam_op_counters counters = { .ops = 1000 };

	(void)state;
	assert_int_equal(nam_op_counters_restarts(&counters), 0);
	for (unsigned i = 0; i < NAM_RESTART_CAUSES_COUNT; i++)
		counters.restarts[i] = i + 1;
	assert_int_equal(nam_op_counters_restarts(&counters),
		NAM_RESTART_CAUSES_COUNT * (NAM_RESTART_CAUSES_COUNT + 1) / 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(op_kind_name__every_kind__ITS_TEXT),
		cmocka_unit_test(op_kind_name__no_kind__UNKNOWN),
		cmocka_unit_test(restart_cause_name__causes__THEIR_TEXT),
		cmocka_unit_test(op_counters_add__every_field__SUMMED),
		cmocka_unit_test(op_counters_restarts__all_causes__SUM),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
