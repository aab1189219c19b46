/* SPDX-License-Identifier: Apache-2.0 */
/* log_test.c -- texts as values of events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "memserver/server.h"

static void
log_quote__any_text__IS_ONE_VALUE(void **state)
{
	static const struct {
		const char *value, *text;
	} cases[] = {
		{ "", "\"\"" },
		{ "10.0.0.1", "\"10.0.0.1\"" },
		{ "a b=c", "\"a b=c\"" },
		{ "a\" level=error", "\"a\\\" level=error\"" },
		{ "a\\", "\"a\\\\\"" },
		{ "a\nb\r\t", "\"a\\x0ab\\x0d\\x09\"" },
		{ "\x1b[31m\x7f\x9b", "\"\\x1b[31m\\x7f\\x9b\"" },
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(nam_log_quote(cases[i].value, text, sizeof(text)),
			cases[i].text);
}

static void
log_quote__too_long__ENDS_EARLY_AND_IS_CLOSED(void **state)
{
	char text[8];

	(void)state;
	assert_string_equal(nam_log_quote("abcdef", text, 8), "\"abcde\"");
	assert_string_equal(nam_log_quote("abcd\"", text, 8), "\"abcd\"");
	assert_string_equal(nam_log_quote("ab\n", text, 8), "\"ab\"");
	assert_string_equal(nam_log_quote("a", text, 3), "\"\"");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log_quote__any_text__IS_ONE_VALUE),
		cmocka_unit_test(log_quote__too_long__ENDS_EARLY_AND_IS_CLOSED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
