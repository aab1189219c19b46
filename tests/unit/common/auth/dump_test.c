/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump_test.c -- the secrets of keys are in no memory that a core dump has.
 *
 * The test looks through its own memory, as the kernel would.  The secrets that it looks for lie in
 * memory of its own outside of core dumps.
 */
#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/auth/proof.h"
#include "common/fiber/fiber.h"

#if !defined(NAM_FIBER_ASAN) && !defined(NAM_FIBER_TSAN)

#define KEYS 3u

/* Outside of core dumps. */
struct sought {
	struct nam__auth_key keys[KEYS];
	char lines[KEYS][NAM_AUTH_LINE_BYTES];
};

static struct sought *sought;
static char path[] = "/tmp/nam-dump-XXXXXX";

static int
setup(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	sought = mmap(NULL, sizeof(*sought), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	if (fd < 0 || sought == MAP_FAILED || madvise(sought, sizeof(*sought), MADV_DONTDUMP))
		return -1;
	for (unsigned i = 0; i < KEYS; i++) {
		char name[2] = { (char)('a' + i), '\0' };
		size_t bytes;

		if (nam__auth_key_make(name, NAM_ROLE_WRITE, &sought->keys[i], NULL))
			return -1;
		nam__auth_key_line(&sought->keys[i], sought->lines[i]);
		bytes = strlen(sought->lines[i]);
		if (write(fd, sought->lines[i], bytes) != (ssize_t)bytes)
			return -1;
	}
	/* Their making has left copies there. */
	sodium_stackzero(1u << 16);
	return close(fd);
}

static int
teardown(void **state)
{
	(void)state;
	return munmap(sought, sizeof(*sought)) || unlink(path);
}

/* The kernel's word for memory outside of core dumps is dd. */
static bool
is_in_dump(const void *data, size_t bytes)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	unsigned long first, last, from = 0, to = 0;
	char line[512], rights = '-';
	bool found = false;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %c", &first, &last, &rights) == 3) {
			from = first;
			to = last;
		} else if (!strncmp(line, "VmFlags:", 8) && rights == 'r' && !strstr(line, " dd")) {
			found |= memmem((const void *)from, to - from, data, bytes) != NULL;
		}
	}
	(void)fclose(maps);
	return found;
}

/* As bytes, and as the file has them. */
static void
assert_no_secret_in_dump(void)
{
	for (unsigned i = 0; i < KEYS; i++) {
		const char *text = strrchr(sought->lines[i], ' ');

		assert_false(is_in_dump(sought->keys[i].secret, NAM_AUTH_SECRET_BYTES));
		assert_false(is_in_dump(text + 1, NAM_AUTH_SECRET_BYTES));
	}
}

static void
copy__in_plain_memory__IS_IN_THE_DUMP(void **state)
{
	uint8_t *copy = malloc(NAM_AUTH_SECRET_BYTES);

	(void)state;
	assert_non_null(copy);
	memcpy(copy, sought->keys[0].secret, NAM_AUTH_SECRET_BYTES);
	assert_true(is_in_dump(sought->keys[0].secret, NAM_AUTH_SECRET_BYTES));
	explicit_bzero(copy, NAM_AUTH_SECRET_BYTES);
	free(copy);
}

static void
read__while_keys_are_used__NO_SECRET_IS_IN_THE_DUMP(void **state)
{
	const struct nam_hello hello = { .bytes = 16 };
	const struct nam_hello challenge = { .bytes = sizeof(struct nam_wire_challenge) };
	struct nam_hello answer, reply = { .bytes = 24 };
	const struct nam__auth_key *key;
	struct nam__auth_keys *keys;

	(void)state;
	assert_int_equal(nam__auth_keys_read(path, false, &keys, NULL), 0);
	assert_int_equal(keys->count, KEYS);
	assert_no_secret_in_dump();
	nam__proof_answer(&keys->keys[1], NULL, &hello, &challenge, &answer);
	key = nam__proof_check(keys, (struct nam__auth_name){ 0 }, &hello, &challenge, &answer);
	assert_ptr_equal(key, &keys->keys[1]);
	nam__proof_append(key, &hello, &challenge, &answer, &reply);
	assert_true(nam__proof_take(key, &hello, &challenge, &answer, &reply));
	assert_no_secret_in_dump();
	nam__auth_keys_free(keys);
	assert_no_secret_in_dump();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy__in_plain_memory__IS_IN_THE_DUMP),
		cmocka_unit_test(read__while_keys_are_used__NO_SECRET_IS_IN_THE_DUMP),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

#else

int
main(void)
{
	puts("skip: a sanitizer keeps copies of its own");
	return 77;
}

#endif
