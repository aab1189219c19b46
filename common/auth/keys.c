/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c -- see keys.h. */
#include "keys.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(NAM_AUTH_SECRET_BYTES == crypto_auth_hmacsha512256_KEYBYTES, "it is used as one");

#define READ_STACK_BYTES 8192u	/* where reading, hashing and the dynamic linker leave copies */

static const char *const roles[] = {
	[NAM_ROLE_READ] = "read",
	[NAM_ROLE_WRITE] = "write",
	[NAM_ROLE_ADMIN] = "admin",
};

const char *
nam__role_name(enum nam_role role)
{
	return role < NAM_ROLES_COUNT ? roles[role] : NULL;
}

int
nam__role_find(const char *name)
{
	for (int role = NAM_ROLE_NONE + 1; role < NAM_ROLES_COUNT; role++) {
		if (!strcmp(roles[role], name))
			return role;
	}
	return -EINVAL;
}

static bool
name_ok(const char *name)
{
	size_t length = strlen(name);

	return length && length < NAM_AUTH_NAME_BYTES &&
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			"0123456789_-.") == length;
}

static uint64_t
fingerprint(const struct nam__auth_key *key)
{
	uint8_t hash[crypto_generichash_BYTES_MIN];
	uint64_t print;

	(void)crypto_generichash(hash, sizeof(hash), (const uint8_t *)key->name, strlen(key->name),
		key->secret, sizeof(key->secret));
	memcpy(&print, hash, sizeof(print));
	return print;
}

int
nam__auth_key_make(const char *name, enum nam_role role, struct nam__auth_key *ret,
	struct nam_diag *diag)
{
	if (!name_ok(name))
		return nam_diag_set(diag, -EINVAL, "'%s': the name of a key has 1 to %u letters, "
			"digits, '_', '-' and '.'", name, NAM_AUTH_NAME_BYTES - 1);
	if (sodium_init() < 0)
		return nam_diag_set(diag, -EIO, "libsodium cannot be initialized");
	*ret = (struct nam__auth_key){ .role = role };
	memcpy(ret->name, name, strlen(name));
	randombytes_buf(ret->secret, sizeof(ret->secret));
	ret->print = fingerprint(ret);
	return 0;
}

void
nam__auth_key_line(const struct nam__auth_key *key, char line[NAM_AUTH_LINE_BYTES])
{
	char text[2 * NAM_AUTH_SECRET_BYTES + 1];

	(void)sodium_bin2hex(text, sizeof(text), key->secret, sizeof(key->secret));
	(void)snprintf(line, NAM_AUTH_LINE_BYTES, "%s %s %s\n", key->name,
		nam__role_name(key->role), text);
	sodium_memzero(text, sizeof(text));
}

/* The key of a line that is not empty.  0, or -EINVAL with the cause. */
static int
take_line(char *line, struct nam__auth_key *ret, struct nam_diag *diag)
{
	char *rest = line, *words[4];
	unsigned count = 0;
	size_t bytes;
	int role;

	while (count < 4) {
		words[count] = strtok_r(count ? NULL : line, " \t", &rest);
		if (!words[count])
			break;
		count++;
	}
	if (count != 3)
		return nam_diag_set(diag, -EINVAL, "a line is NAME ROLE SECRET, and here are %s "
			"words", count < 3 ? "fewer" : "more");
	if (!name_ok(words[0]))
		return nam_diag_set(diag, -EINVAL, "a name has 1 to %u letters, digits, '_', '-' "
			"and '.'", NAM_AUTH_NAME_BYTES - 1);
	role = nam__role_find(words[1]);
	if (role < 0)
		return nam_diag_set(diag, -EINVAL, "the second word is no role; known are read, "
			"write and admin");
	*ret = (struct nam__auth_key){ .role = (enum nam_role)role };
	memcpy(ret->name, words[0], strlen(words[0]));
	if (strlen(words[2]) != 2 * (size_t)NAM_AUTH_SECRET_BYTES ||
		sodium_hex2bin(ret->secret, sizeof(ret->secret), words[2],
			2 * (size_t)NAM_AUTH_SECRET_BYTES, NULL, &bytes, NULL) ||
		bytes != sizeof(ret->secret))
		return nam_diag_set(diag, -EINVAL, "a secret has %u hexadecimal digits; `namctl "
			"key new` makes one", 2 * NAM_AUTH_SECRET_BYTES);
	ret->print = fingerprint(ret);
	return 0;
}

/*
 * Outside of core dumps, and of swap space as far as the limit of locked memory allows.  NULL: no
 * memory.
 */
static struct nam__auth_keys *
keys_new(uint32_t room)
{
	struct nam__auth_keys *keys = sodium_malloc(sizeof(*keys) + room * sizeof(keys->keys[0]));

	if (keys)
		keys->count = 0;
	return keys;
}

static int
add(struct nam__auth_keys **keys, const struct nam__auth_key *key, struct nam_diag *diag)
{
	struct nam__auth_keys *more;
	uint32_t count = (*keys)->count;

	for (uint32_t i = 0; i < count; i++) {
		if (!strcmp((*keys)->keys[i].name, key->name))
			return nam_diag_set(diag, -EINVAL, "the name %s is there twice", key->name);
	}
	if (count == NAM_AUTH_KEYS_MAX)
		return nam_diag_set(diag, -NAM_E_LIMIT, "more than %u keys", NAM_AUTH_KEYS_MAX);
	/* Not by realloc(), which would leave a copy of the secrets. */
	if (count && !(count & (count - 1))) {
		more = keys_new(2 * count);
		if (!more)
			return nam_diag_set(diag, -ENOMEM, "no memory");
		memcpy(more, *keys, sizeof(*more) + count * sizeof(*key));
		nam__auth_keys_free(*keys);
		*keys = more;
	}
	(*keys)->keys[(*keys)->count++] = *key;
	return 0;
}

static int
read_lines(FILE *file, const char *path, struct nam__auth_keys **keys, struct nam_diag *diag)
{
	struct nam_diag cause = { "" };
	struct nam__auth_key key;
	char line[1024];
	int rc = 0;

	for (unsigned number = 1; !rc && fgets(line, sizeof(line), file); number++) {
		if (!strchr(line, '\n') && !feof(file))
			rc = nam_diag_set(&cause, -EINVAL, "a line of over %zu bytes",
				sizeof(line) - 2);
		line[strcspn(line, "#\r\n")] = '\0';
		if (!rc && line[strspn(line, " \t")])
			rc = take_line(line, &key, &cause) ?: add(keys, &key, &cause);
		if (rc)
			(void)nam_diag_set(diag, rc, "%s:%u: %s", path, number, cause.text);
	}
	if (!rc && ferror(file))
		rc = nam_diag_set(diag, -EIO, "%s: it cannot be read", path);
	sodium_memzero(&key, sizeof(key));
	sodium_memzero(line, sizeof(line));
	return rc;
}

/* A secret that others can read is none. */
static int
check_mode(int fd, const char *path, struct nam_diag *diag)
{
	struct stat status;

	if (fstat(fd, &status))
		return nam_diag_set(diag, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(status.st_mode))
		return nam_diag_set(diag, -EINVAL, "%s: it is no file of keys", path);
	if (status.st_mode & 037)
		return nam_diag_set(diag, -EACCES, "%s: others may read or change it (mode %03o); "
			"run `chmod 600 %s`", path, status.st_mode & 0777u, path);
	return 0;
}

int
nam__auth_keys_read(const char *path, bool may_be_empty, struct nam__auth_keys **ret,
	struct nam_diag *diag)
{
	struct nam__auth_keys *keys;
	char buffer[4096];
	FILE *file;
	int fd, rc;

	if (sodium_init() < 0)
		return nam_diag_set(diag, -EIO, "libsodium cannot be initialized");
	/* A pipe without a writer would never open. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return nam_diag_set(diag, -errno, "%s: %s; `namctl key new` makes a key file", path,
			strerror(errno));
	rc = check_mode(fd, path, diag);
	file = rc ? NULL : fdopen(fd, "r");
	if (!file) {
		close(fd);
		return rc ? rc : nam_diag_set(diag, -ENOMEM, "no memory");
	}
	(void)setvbuf(file, buffer, _IOFBF, sizeof(buffer));
	keys = keys_new(1);
	rc = keys ? read_lines(file, path, &keys, diag) : nam_diag_set(diag, -ENOMEM, "no memory");
	(void)fclose(file);
	sodium_memzero(buffer, sizeof(buffer));
	sodium_stackzero(READ_STACK_BYTES);
	if (!rc && !keys->count && !may_be_empty)
		rc = nam_diag_set(diag, -EINVAL, "%s: it has no key; `namctl key new` adds one",
			path);
	if (rc)
		nam__auth_keys_free(keys);
	else
		*ret = keys;
	return rc;
}

void
nam__auth_keys_free(struct nam__auth_keys *keys)
{
	sodium_free(keys);
}

const struct nam__auth_key *
nam__auth_keys_find(const struct nam__auth_keys *keys, uint64_t print)
{
	for (uint32_t i = 0; i < keys->count; i++) {
		if (keys->keys[i].print == print)
			return &keys->keys[i];
	}
	return NULL;
}
