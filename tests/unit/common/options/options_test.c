/* SPDX-License-Identifier: Apache-2.0 */
/* options_test.c -- a table of options as parser, help and list of a man page. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/exit.h"
#include "common/options/options.h"

enum colour { RED = 3, GREEN, BLUE };

struct fields {
	bool loud, count_set;
	uint32_t count;
	int64_t offset;
	uint64_t memory_bytes;
	double ratio;
	const char *name;
	enum colour colour;
	unsigned calls;
	char words[64], taken[64];
};

static int
take_even(void *options, const char *text, struct nam_diag *diag)
{
	struct fields *fields = options;

	fields->calls++;
	return strlen(text) % 2 ? nam_diag_set(diag, -EINVAL, "'%s' is odd", text) : 0;
}

static int
take_word(void *options, char *text)
{
	struct fields *fields = options;

	(void)strcat(fields->words, text);
	return strcmp(text, "bad") ? 0 : -EINVAL;
}

static void
note_taken(void *options, const struct nam_option *row, const char *text)
{
	struct fields *fields = options;
	size_t used = strlen(fields->taken);

	(void)snprintf(fields->taken + used, sizeof(fields->taken) - used, "%s=%s ", row->name,
		text ? text : "");
}

static const char *const colours[] = { "red", "green", "blue", NULL };
static const struct nam_option rows[] = {
	{ .help = "Heading:" },
	{ "loud", NULL, "Say more.", NAM_OPTION_FLAG, NAM_OPTION_FIELD(struct fields, loud),
		.letter = 'l' },
	{ "count", "N", "How many.", NAM_OPTION_COUNT, NAM_OPTION_FIELD(struct fields, count),
		.set = offsetof(struct fields, count_set), .min = 1, .max = 5000 },
	{ "offset", "N", "From where.", NAM_OPTION_COUNT, NAM_OPTION_FIELD(struct fields, offset),
		.min = -10, .max = INT64_MAX },
	{ "memory", "SIZE", "Bytes of memory.", NAM_OPTION_BYTES,
		NAM_OPTION_FIELD(struct fields, memory_bytes), .min = 4096, .max = 1ull << 40 },
	{ "ratio", "R", "A share.", NAM_OPTION_REAL, NAM_OPTION_FIELD(struct fields, ratio),
		.low = 0, .high = 1, .scope = "load" },
	{ "name", "TEXT", "A name. It has no\\meaning.", NAM_OPTION_TEXT,
		NAM_OPTION_FIELD(struct fields, name), .scope = "load,table scan" },
	{ "colour", "WORD", "A colour.", NAM_OPTION_CHOICE,
		NAM_OPTION_FIELD(struct fields, colour), .min = RED, .choices = colours },
	{ "even", "TEXT", "An even text.", NAM_OPTION_CALL, .take = take_even },
	{ 0 },
};

static const struct nam_options_table table = {
	.program = "nam-test part", .usage = "[WORD...]", .purpose = "Tests a table.",
	.after = "It ends with 0.", .rows = rows, .word = take_word, .taken = note_taken,
};

struct printed {
	char out[8192], error[1024];
};

/* The text of the file at fd, from its beginning. */
static void
copy_out(int fd, char *text, size_t bytes)
{
	ssize_t n = pread(fd, text, bytes - 1, 0);

	assert_true(n >= 0);
	text[n] = 0;
}

/* Takes the words of the line; returns the exit status, or -1 if the program goes on. */
static int
take_line(const char *line, struct fields *fields, struct printed *printed)
{
	static char program[] = "prog";
	char words[256], *argv[32] = { program }, *rest = words;
	FILE *out = tmpfile(), *error = tmpfile();
	int saved_out = dup(STDOUT_FILENO), saved_error = dup(STDERR_FILENO);
	int argc = 1, status;
	bool goes_on;

	assert_true(out && error && saved_out >= 0 && saved_error >= 0);
	(void)snprintf(words, sizeof(words), "%s", line);
	while ((argv[argc] = strtok_r(rest, " ", &rest)) != NULL)
		argc++;
	memset(fields, 0, sizeof(*fields));
	(void)fflush(stdout);
	(void)fflush(stderr);
	assert_true(dup2(fileno(out), STDOUT_FILENO) >= 0);
	assert_true(dup2(fileno(error), STDERR_FILENO) >= 0);
	goes_on = nam__options_take(&table, argc, argv, fields, &status);
	(void)fflush(stdout);
	(void)fflush(stderr);
	(void)dup2(saved_out, STDOUT_FILENO);
	(void)dup2(saved_error, STDERR_FILENO);
	close(saved_out);
	close(saved_error);
	copy_out(fileno(out), printed->out, sizeof(printed->out));
	copy_out(fileno(error), printed->error, sizeof(printed->error));
	(void)fclose(out);
	(void)fclose(error);
	assert_ptr_equal(argv[0], program);
	return goes_on ? -1 : status;
}

static void
options_take__each_type__SETS_ITS_FIELD(void **state)
{
	struct printed printed;
	struct fields fields;

	(void)state;
	assert_int_equal(take_line("one -l --count 2k --offset=-10 --memory 8G --ratio 0.25 "
		"--name x two --colour GREEN --even ab", &fields, &printed), -1);
	assert_true(fields.loud && fields.count_set);
	assert_int_equal(fields.count, 2000);
	assert_true(fields.offset == -10);
	assert_int_equal(fields.memory_bytes, 8ull << 30);
	assert_true(fields.ratio == 0.25);
	assert_string_equal(fields.name, "x");
	assert_int_equal(fields.colour, GREEN);
	assert_int_equal(fields.calls, 1);
	assert_string_equal(fields.words, "onetwo");
	assert_memory_equal(fields.taken, "loud= count=2k offset=-10 ", 26);
	assert_string_equal(printed.out, "");
	assert_string_equal(printed.error, "");
	assert_int_equal(take_line("", &fields, &printed), -1);
	assert_false(fields.loud || fields.count_set);
}

static void
options_take__bad_argument__NAMES_THE_FLAG_AND_THE_BOUNDS(void **state)
{
	static const char *const cases[][2] = {
		{ "--count 0", "--count: '0' is not a whole number from 1 to 5000" },
		{ "--count 6k", "--count: '6k' is not a whole number" },
		{ "--count 1x", "--count: '1x' is not a whole number" },
		{ "--count -1", "--count: '-1' is not a whole number" },
		{ "--count 99999999999999999999", "is not a whole number" },
		{ "--count 99999999999999999G", "is not a whole number" },
		{ "--offset -11", "is not a whole number from -10 to" },
		{ "--memory 1", "--memory: '1' is not a size from 4 KiB to 1 TiB" },
		{ "--memory 2T", "--memory: '2T' is not a size from" },
		{ "--memory much", "--memory: 'much' is not a size; write" },
		{ "--ratio 1.5", "--ratio: '1.5' is not a number from 0 to 1" },
		{ "--ratio nan", "--ratio: 'nan' is not a number" },
		{ "--ratio 1a", "--ratio: '1a' is not a number" },
		{ "--colour pink", "--colour: 'pink' is not known; choose red, green or blue" },
		{ "--even abc", "--even: 'abc' is odd" },
		{ "--no-such", "--no-such" },
		{ "--name", "--name" },
		{ "--loud=1", "--loud" },
		{ "bad", "" },
	};
	struct printed printed;
	struct fields fields;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(take_line(cases[i][0], &fields, &printed), NAM_EXIT_USAGE);
		assert_string_equal(printed.out, "");
		if (!strstr(printed.error, cases[i][1]))
			fail_msg("%s: %s", cases[i][0], printed.error);
		if (strcmp(cases[i][0], "bad") != 0)
			assert_non_null(strstr(printed.error, "nam-test part: "));
	}
}

static void
options_take__help_and_its_like__PRINT_AND_END(void **state)
{
	struct printed printed;
	struct fields fields;

	(void)state;
	assert_int_equal(take_line("--help --count 0", &fields, &printed), NAM_EXIT_OK);
	assert_non_null(strstr(printed.out, "nam-test part [OPTION...] [WORD...]"));
	assert_non_null(strstr(printed.out, "Tests a table."));
	assert_non_null(strstr(printed.out, "Heading:"));
	assert_non_null(strstr(printed.out, "--memory=SIZE"));
	assert_non_null(strstr(printed.out, "It ends with 0."));
	assert_null(strstr(printed.out, "mdoc"));
	assert_int_equal(take_line("--version", &fields, &printed), NAM_EXIT_OK);
	assert_memory_equal(printed.out, "nam-test ", 9);
	assert_int_equal(take_line("--usage", &fields, &printed), NAM_EXIT_OK);
	assert_non_null(strstr(printed.out, "[--colour=WORD]"));
}

static void
options_take__mdoc__PRINTS_THE_OPTIONS_OF_A_SCOPE(void **state)
{
	struct printed printed;
	struct fields fields;

	(void)state;
	assert_int_equal(take_line("--mdoc", &fields, &printed), NAM_EXIT_OK);
	assert_non_null(strstr(printed.out, ".It Fl l , Fl -loud\nSay more.\n"));
	assert_non_null(strstr(printed.out, ".It Fl -memory Ar size\n"));
	assert_non_null(strstr(printed.out, ".It Fl V , Fl -version\n"));
	assert_null(strstr(printed.out, "Fl -name"));
	assert_int_equal(take_line("--mdoc=load", &fields, &printed), NAM_EXIT_OK);
	assert_non_null(strstr(printed.out,
		".It Fl -name Ar text\nA name.\nIt has no\\emeaning.\n"));
	assert_non_null(strstr(printed.out, "Fl -ratio"));
	assert_null(strstr(printed.out, "Fl -loud"));
}

static void
option_belongs__scopes_of_commands__ARE_WHOLE_NAMES(void **state)
{
	const struct nam_option none = { 0 }, one = { .scope = "load" };
	const struct nam_option two = { .scope = "load,table scan" };

	(void)state;
	assert_true(nam__option_belongs(&none, "load"));
	assert_true(nam__option_belongs(&one, "load"));
	assert_false(nam__option_belongs(&one, "lo"));
	assert_false(nam__option_belongs(&one, "loads"));
	assert_true(nam__option_belongs(&two, "table scan"));
	assert_false(nam__option_belongs(&two, "table"));
	assert_false(nam__option_belongs(&two, "scan"));
}

static void
option_set__by_its_name__IS_AS_ON_THE_COMMAND_LINE(void **state)
{
	struct fields fields = { 0 };
	struct nam_diag diag = { "" };

	(void)state;
	assert_int_equal(nam__option_set(&table, "memory", "64k", &fields, &diag), 0);
	assert_int_equal(fields.memory_bytes, 65536);
	assert_int_equal(nam__option_set(&table, "memory", "64", &fields, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "'64' is not a size from"));
	assert_int_equal(fields.memory_bytes, 65536);
	assert_int_equal(nam__option_set(&table, "none", "1", &fields, &diag), -EINVAL);
}

static void
options_flags__fields_in_a_diag__BECOME_FLAGS(void **state)
{
	static const char *const cases[][2] = {
		{ "memory_bytes: too small", "--memory: too small" },
		{ "count, memory_bytes: both", "--count, --memory: both" },
		{ "count of memory_bytes", "count of --memory" },
		{ "or set count; offset count", "or set --count; offset count" },
		{ "other_field: is no option", "other_field: is no option" },
		{ "/etc/memory_bytes: is no file", "/etc/memory_bytes: is no file" },
		{ "no file memory_bytes/0", "no file memory_bytes/0" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(nam__options_flags(&table, "--", cases[i][0]).text,
			cases[i][1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_take__each_type__SETS_ITS_FIELD),
		cmocka_unit_test(options_take__bad_argument__NAMES_THE_FLAG_AND_THE_BOUNDS),
		cmocka_unit_test(options_take__help_and_its_like__PRINT_AND_END),
		cmocka_unit_test(options_take__mdoc__PRINTS_THE_OPTIONS_OF_A_SCOPE),
		cmocka_unit_test(option_belongs__scopes_of_commands__ARE_WHOLE_NAMES),
		cmocka_unit_test(option_set__by_its_name__IS_AS_ON_THE_COMMAND_LINE),
		cmocka_unit_test(options_flags__fields_in_a_diag__BECOME_FLAGS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
