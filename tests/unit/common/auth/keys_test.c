/* SPDX-License-Identifier: Apache-2.0 */
/* Key files: what they have, and what is refused with its place and remedy. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/auth/keys.h"

#define SECRET "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OTHER "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eFF"

static char path[] = "/tmp/nam-keys-XXXXXX";

static int
setup(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	return unlink(path);
}

static void
write_file(const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void
read__keys_and_comments__HAS_THE_KEYS(void **state)
{
	struct nam__auth_keys *keys;

	(void)state;
	write_file("# of the cluster\n\napp write " SECRET "\n  ops\tadmin  " OTHER
		" # until May\r\n#old write " SECRET "\nreport read " SECRET "\n");
	assert_int_equal(nam__auth_keys_read(path, false, &keys, NULL), 0);
	assert_int_equal(keys->count, 3);
	assert_string_equal(keys->keys[2].name, "report");
	assert_int_equal(keys->keys[2].role, NAM_ROLE_READ);
	assert_string_equal(keys->keys[0].name, "app");
	assert_int_equal(keys->keys[0].role, NAM_ROLE_WRITE);
	for (uint8_t i = 0; i < NAM_AUTH_SECRET_BYTES; i++)
		assert_int_equal(keys->keys[0].secret[i], i);
	assert_string_equal(keys->keys[1].name, "ops");
	assert_int_equal(keys->keys[1].role, NAM_ROLE_ADMIN);
	assert_int_equal(keys->keys[1].secret[31], 0xff);
	assert_ptr_equal(nam__auth_keys_find(keys, keys->keys[1].print), &keys->keys[1]);
	assert_null(nam__auth_keys_find(keys, keys->keys[1].print + 1));
	nam__auth_keys_free(keys);
}

static void
make__line_of_it__IS_READ_AS_THE_SAME(void **state)
{
	struct nam__auth_key key, again;
	struct nam__auth_keys *keys;
	char line[NAM_AUTH_LINE_BYTES];

	(void)state;
	assert_int_equal(nam__auth_key_make("a_name-with.31.characters.in.it", NAM_ROLE_ADMIN,
		&key, NULL), 0);
	nam__auth_key_line(&key, line);
	write_file(line);
	assert_int_equal(nam__auth_keys_read(path, false, &keys, NULL), 0);
	assert_int_equal(keys->count, 1);
	assert_memory_equal(&keys->keys[0], &key, sizeof(key));
	nam__auth_keys_free(keys);
	assert_int_equal(nam__auth_key_make(key.name, NAM_ROLE_ADMIN, &again, NULL), 0);
	assert_memory_not_equal(again.secret, key.secret, sizeof(key.secret));
	assert_int_not_equal(again.print, key.print);
}

static void
make__name_that_is_none__IS_INVALID(void **state)
{
	const char *names[] = { "", "a b", "a#", "\xc3\xa4", "a_name-with.32.characters.in.it." };
	struct nam__auth_key key;
	struct nam_diag diag;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(nam__auth_key_make(names[i], NAM_ROLE_WRITE, &key, &diag),
			-EINVAL);
		assert_non_null(strstr(diag.text, "1 to 31"));
	}
}

/* A fingerprint is of the name and the secret, so that neither can be exchanged. */
static void
read__other_name_or_secret__HAS_ANOTHER_FINGERPRINT(void **state)
{
	struct nam__auth_keys *keys;

	(void)state;
	write_file("a write " SECRET "\nb write " SECRET "\nc write " OTHER "\n");
	assert_int_equal(nam__auth_keys_read(path, false, &keys, NULL), 0);
	assert_int_not_equal(keys->keys[0].print, keys->keys[1].print);
	assert_int_not_equal(keys->keys[1].print, keys->keys[2].print);
	nam__auth_keys_free(keys);
}

static void
read__bad_line__NAMES_PLACE_AND_REMEDY(void **state)
{
	static const struct {
		const char *text, *said;
	} files[] = {
		{ "", "it has no key" },
		{ "# nothing\n", "it has no key" },
		{ "a write\n", ":1: a line is NAME ROLE SECRET" },
		{ "\n\na write " SECRET " more\n", ":3: a line is NAME ROLE SECRET" },
		{ "a,b write " SECRET "\n", ":1: a name has" },
		{ "a root " SECRET "\n", ":1: the second word is no role" },
		{ "a " SECRET " write\n", ":1: the second word is no role" },
		{ "a write 00\n", ":1: a secret has 64" },
		{ "a write " SECRET "00\n", ":1: a secret has 64" },
		{ "a write x" "00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
			":1: a secret has 64" },
		{ "a write " SECRET "\na admin " OTHER "\n", ":2: the name a is there twice" },
	};
	struct nam__auth_keys *keys = NULL;
	struct nam_diag diag;

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		write_file(files[i].text);
		assert_int_equal(nam__auth_keys_read(path, false, &keys, &diag), -EINVAL);
		if (!strstr(diag.text, files[i].said))
			fail_msg("%s: %s", files[i].said, diag.text);
		/* No message has a secret. */
		assert_null(strstr(diag.text, "0405060708"));
	}
	assert_null(keys);
}

static void
read__many_keys__HAS_ALL_OR_IS_LIMIT(void **state)
{
	struct nam__auth_keys *keys;
	FILE *file = fopen(path, "w");

	(void)state;
	assert_non_null(file);
	for (unsigned i = 0; i < NAM_AUTH_KEYS_MAX; i++)
		(void)fprintf(file, "k%u write %064x\n", i, i);
	assert_int_equal(fflush(file), 0);
	assert_int_equal(nam__auth_keys_read(path, false, &keys, NULL), 0);
	assert_int_equal(keys->count, NAM_AUTH_KEYS_MAX);
	assert_string_equal(keys->keys[NAM_AUTH_KEYS_MAX - 1].name, "k4095");
	nam__auth_keys_free(keys);
	(void)fprintf(file, "more write %064x\n", NAM_AUTH_KEYS_MAX);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(nam__auth_keys_read(path, false, &keys, NULL), -NAM_E_LIMIT);
}

static void
read__others_may_too__IS_ACCESS(void **state)
{
	static const struct {
		mode_t mode;
		int rc;
	} modes[] = { { 0600, 0 }, { 0400, 0 }, { 0640, 0 }, { 0644, -EACCES }, { 0660, -EACCES },
		{ 0602, -EACCES } };
	struct nam__auth_keys *keys;
	struct nam_diag diag;

	(void)state;
	write_file("a write " SECRET "\n");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		assert_int_equal(chmod(path, modes[i].mode), 0);
		assert_int_equal(nam__auth_keys_read(path, false, &keys, &diag), modes[i].rc);
		if (modes[i].rc)
			assert_non_null(strstr(diag.text, "chmod 600"));
		else
			nam__auth_keys_free(keys);
	}
	assert_int_equal(chmod(path, 0600), 0);
}

static void
read__no_file__SAYS_SO(void **state)
{
	struct nam__auth_keys *keys;
	struct nam_diag diag;

	(void)state;
	assert_int_equal(nam__auth_keys_read("/tmp/nam-no-such-keys", false, &keys, &diag),
		-ENOENT);
	assert_non_null(strstr(diag.text, "namctl key new"));
	assert_int_equal(nam__auth_keys_read("/tmp", false, &keys, &diag), -EINVAL);
	/* It does not wait for a writer. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(nam__auth_keys_read(path, false, &keys, &diag), -EINVAL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read__keys_and_comments__HAS_THE_KEYS),
		cmocka_unit_test(make__line_of_it__IS_READ_AS_THE_SAME),
		cmocka_unit_test(make__name_that_is_none__IS_INVALID),
		cmocka_unit_test(read__other_name_or_secret__HAS_ANOTHER_FINGERPRINT),
		cmocka_unit_test(read__bad_line__NAMES_PLACE_AND_REMEDY),
		cmocka_unit_test(read__many_keys__HAS_ALL_OR_IS_LIMIT),
		cmocka_unit_test(read__others_may_too__IS_ACCESS),
		cmocka_unit_test(read__no_file__SAYS_SO),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
