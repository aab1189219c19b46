/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "tools/namctl/tsv.h"

static const struct key_format u64_keys = { KEY_U64, 8 };

/* Read a text of so many bytes. */
static int
read_bytes(const char *text, size_t bytes, bool unique, struct tsv *tsv, struct nam_diag *diag)
{
	FILE *file = fmemopen((void *)(uintptr_t)text, bytes, "r");
	int rc;

	assert_non_null(file);
	rc = tsv_read(file, "x.tsv", &u64_keys, unique, tsv, diag);
	fclose(file);
	return rc;
}

static int
read_text(const char *text, bool unique, struct tsv *tsv, struct nam_diag *diag)
{
	return read_bytes(text, strlen(text), unique, tsv, diag);
}

/* The next one. */
static void
assert_pair(struct tsv *tsv, uint64_t number, uint64_t payload)
{
	uint64_t key, found;

	assert_int_equal(tsv_next(tsv, (uint8_t *)&key, &found), 0);
	assert_int_equal(be64toh(key), number);
	assert_int_equal(found, payload);
}

static void
read__sorted__ASCENDING(void **state)
{
	struct tsv tsv;

	(void)state;
	assert_int_equal(read_text("1\t10\n2\t20\n300\t5\n", true, &tsv, NULL), 0);
	assert_int_equal(tsv.count, 3);
	assert_true(tsv.ascending);
	assert_pair(&tsv, 1, 10);
	assert_pair(&tsv, 2, 20);
	assert_pair(&tsv, 300, 5);
	tsv_rewind(&tsv);
	assert_pair(&tsv, 1, 10);
	tsv_free(&tsv);
}

static void
read__no_newline_at_the_end__TAKEN(void **state)
{
	struct tsv tsv;

	(void)state;
	assert_int_equal(read_text("1\t10\n2\t20", true, &tsv, NULL), 0);
	assert_int_equal(tsv.count, 2);
	tsv_free(&tsv);
}

static void
read__unsorted__SAYS_WHERE(void **state)
{
	struct tsv tsv;

	(void)state;
	assert_int_equal(read_text("1\t10\n3\t20\n2\t5\n1\t1\n", true, &tsv, NULL), 0);
	assert_false(tsv.ascending);
	tsv_free(&tsv);
}

static void
read__equal_keys__ASCENDING_ONLY_IF_NOT_UNIQUE(void **state)
{
	struct tsv tsv;

	(void)state;
	assert_int_equal(read_text("1\t10\n1\t20\n", true, &tsv, NULL), 0);
	assert_false(tsv.ascending);
	tsv_free(&tsv);
	assert_int_equal(read_text("1\t10\n1\t20\n", false, &tsv, NULL), 0);
	assert_true(tsv.ascending);
	tsv_free(&tsv);
	assert_int_equal(read_text("1\t20\n1\t10\n", false, &tsv, NULL), 0);
	assert_false(tsv.ascending);
	tsv_free(&tsv);
	assert_int_equal(read_text("1\t20\n1\t20\n", false, &tsv, NULL), 0);
	assert_false(tsv.ascending);
	tsv_free(&tsv);
}

static void
read__many_lines__ALL_IN_THEIR_ORDER_and_little_memory(void **state)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);
	struct mallinfo2 before, after;
	struct tsv tsv;

	(void)state;
	assert_non_null(file);
	for (int i = 0; i < 100000; i++)
		fprintf(file, "%d\t%d\n", i, i * 2);
	fclose(file);
	before = mallinfo2();
	assert_int_equal(read_bytes(text, bytes, true, &tsv, NULL), 0);
	after = mallinfo2();
	/* Buffers of the file, and nothing for a line; sanitizers do not count. */
	assert_true(after.uordblks + after.hblkhd < before.uordblks + before.hblkhd + 100000);
	assert_int_equal(tsv.count, 100000);
	assert_true(tsv.ascending);
	for (uint64_t i = 0; i < 100000; i++)
		assert_pair(&tsv, i, i * 2);
	tsv_free(&tsv);
	free(text);
}

static void
read__malformed_line__EINVAL_WITH_FILE_AND_LINE(void **state)
{
	static const char *const texts[] = { "1\t1\nnothing\n", "1\t1\n\n", "1\t1\n\t5\n",
		"1\t1\n2\t\n", "1\t1\n2\tx\n", "1\t1\nx\t2\n", "1\t1\n2\t3\t4\n", "1\t1\n2\t3\r\n",
		"1\t1\n2 3\n", "1\t1\n-2\t3\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct nam_diag diag = { "" };
		struct tsv tsv;

		if (read_text(texts[i], true, &tsv, &diag) != -EINVAL)
			fail_msg("case %zu was taken", i);
		if (strncmp(diag.text, "x.tsv:2: ", 9) != 0)
			fail_msg("case %zu: %s", i, diag.text);
	}
}

static void
read__zero_byte__EINVAL(void **state)
{
	struct nam_diag diag = { "" };
	struct tsv tsv;

	(void)state;
	assert_int_equal(read_bytes("1\t1\n2\0\t3\n", 9, true, &tsv, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "zero byte"));
}

static void
read__no_folder_for_the_temporary_file__NAMES_TMPDIR(void **state)
{
	struct nam_diag diag = { "" };
	struct tsv tsv;

	(void)state;
	assert_int_equal(setenv("TMPDIR", "/nowhere", 1), 0);
	assert_int_equal(read_text("1\t1\n", true, &tsv, &diag), -ENOENT);
	assert_int_equal(unsetenv("TMPDIR"), 0);
	assert_non_null(strstr(diag.text, "/nowhere"));
	assert_non_null(strstr(diag.text, "TMPDIR"));
}

static void
read__temporary_file_full__SAYS_SO(void **state)
{
	const struct rlimit none = { 0, RLIM_INFINITY }, all = { RLIM_INFINITY, RLIM_INFINITY };
	struct nam_diag diag = { "" };
	struct tsv tsv;
	int rc;

	(void)state;
	assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	rc = read_text("1\t1\n", true, &tsv, &diag);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
	assert_int_equal(rc, -EFBIG);
	assert_non_null(strstr(diag.text, "nothing was loaded"));
	assert_non_null(strstr(diag.text, "TMPDIR"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read__sorted__ASCENDING),
		cmocka_unit_test(read__no_newline_at_the_end__TAKEN),
		cmocka_unit_test(read__unsorted__SAYS_WHERE),
		cmocka_unit_test(read__equal_keys__ASCENDING_ONLY_IF_NOT_UNIQUE),
		cmocka_unit_test(read__many_lines__ALL_IN_THEIR_ORDER_and_little_memory),
		cmocka_unit_test(read__malformed_line__EINVAL_WITH_FILE_AND_LINE),
		cmocka_unit_test(read__zero_byte__EINVAL),
		cmocka_unit_test(read__temporary_file_full__SAYS_SO),
		cmocka_unit_test(read__no_folder_for_the_temporary_file__NAMES_TMPDIR),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
