/* SPDX-License-Identifier: Apache-2.0 */
/* log_test.c -- log lines of programs: one line each, also if a text is too long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log/log.h"

/* The text that goes to standard error. */
static void
log_to(char *ret_text, size_t size, const char *event, const char *fields)
{
	int old = dup(STDERR_FILENO), ends[2];
	ssize_t bytes;

	assert_int_equal(pipe(ends), 0);
	(void)dup2(ends[1], STDERR_FILENO);
	(void)close(ends[1]);
	nam__log_line("info", event, fields);
	(void)dup2(old, STDERR_FILENO);
	(void)close(old);
	bytes = read(ends[0], ret_text, size - 1);
	(void)close(ends[0]);
	assert_true(bytes > 0);
	ret_text[bytes] = '\0';
}

static void
log_line__any_event__IS_A_LINE_OF_FIELDS(void **state)
{
	char text[200];

	(void)state;
	log_to(text, sizeof(text), "started", "id=3 port=1");
	assert_int_equal(strncmp(text, "time=2", 6), 0);
	assert_string_equal(strchr(text, ' '), " level=info event=started id=3 port=1\n");
	log_to(text, sizeof(text), "stopped", "");
	assert_string_equal(strchr(text, ' '), " level=info event=stopped\n");
}

static void
log_line__too_long__IS_CUT_AND_ENDS(void **state)
{
	char fields[3000], text[4000];

	(void)state;
	memset(fields, 'x', sizeof(fields));
	fields[sizeof(fields) - 1] = '\0';
	log_to(text, sizeof(text), "started", fields);
	assert_in_range(strlen(text), 1000, 1100);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log_line__any_event__IS_A_LINE_OF_FIELDS),
		cmocka_unit_test(log_line__too_long__IS_CUT_AND_ENDS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
