/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys_fuzz.c -- key files: whatever is accepted is a list of whole keys, which is the same once it
 * has been written and read again.
 *
 * input	whether it may be empty, text
 */
#include <string.h>

#include "common/auth/keys.h"
#include "fuzz_input.h"
#include "fuzz_keys.h"

static int
read_text(const void *text, size_t bytes, bool may_be_empty, struct nam__auth_keys **ret)
{
	struct fuzz_key_file file = fuzz_key_file_open(text, bytes);
	struct nam_diag diag = { "" };
	int rc = nam__auth_keys_read(file.path, may_be_empty, ret, &diag);

	if (rc > 0 || (rc && !diag.text[0]))
		abort();
	close(file.fd);
	return rc;
}

static void
check(const struct nam__auth_keys *keys, bool may_be_empty)
{
	if ((!keys->count && !may_be_empty) || keys->count > NAM_AUTH_KEYS_MAX)
		abort();
	for (uint32_t i = 0; i < keys->count; i++) {
		const struct nam__auth_key *key = &keys->keys[i];

		if (!memchr(key->name, '\0', sizeof(key->name)) || !key->name[0] ||
			key->role == NAM_ROLE_NONE || !nam__role_name(key->role) ||
			nam__auth_keys_find(keys, key->print) != key)
			abort();
		for (uint32_t j = 0; j < i; j++)
			if (!strcmp(keys->keys[j].name, key->name))
				abort();
	}
}

/* Lines of a key are at most as long as they may be, so the file has room for all. */
static void
check_again(const struct nam__auth_keys *keys)
{
	char *text = fuzz_memory((size_t)keys->count * NAM_AUTH_LINE_BYTES);
	struct nam__auth_keys *again;
	size_t bytes = 0;

	for (uint32_t i = 0; i < keys->count; i++) {
		char line[NAM_AUTH_LINE_BYTES];

		nam__auth_key_line(&keys->keys[i], line);
		memcpy(text + bytes, line, strlen(line));
		bytes += strlen(line);
	}
	if (read_text(text, bytes, true, &again) || again->count != keys->count ||
		memcmp(again->keys, keys->keys, keys->count * sizeof(keys->keys[0])))
		abort();
	nam__auth_keys_free(again);
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	bool may_be_empty = bytes && data[0] & 1;
	struct nam__auth_keys *keys;

	if (!bytes || read_text(data + 1, bytes - 1, may_be_empty, &keys))
		return 0;
	check(keys, may_be_empty);
	check_again(keys);
	nam__auth_keys_free(keys);
	return 0;
}
