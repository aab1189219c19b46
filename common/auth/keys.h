/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.h -- key files: the clients that may connect, and what they may do.
 *
 * A key is a line, NAME ROLE SECRET, the secret as 64 hexadecimal digits; '#' starts a comment.  A
 * memory server's file has the keys of all its clients; a client's file has one of these lines.
 */
#ifndef NAM_COMMON_AUTH_KEYS_H
#define NAM_COMMON_AUTH_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define NAM_AUTH_SECRET_BYTES 32u
#define NAM_AUTH_NAME_BYTES 32u		/* with the NUL */
#define NAM_AUTH_LINE_BYTES 128u		/* with the NUL */
#define NAM_AUTH_KEYS_MAX 4096u

/* Each may do what those before it may. */
enum nam_role {
	NAM_ROLE_NONE = 0,
	NAM_ROLE_READ,		/* look up, scan and read; change nothing */
	NAM_ROLE_WRITE,		/* all that an application does */
	NAM_ROLE_ADMIN,		/* change the view, fence living clients: nam-steward, namctl */
	NAM_ROLES_COUNT
};

struct nam__auth_key {
	char name[NAM_AUTH_NAME_BYTES];
	enum nam_role role;
	uint64_t print;		/* fingerprint of name and secret: how a client names its key */
	uint8_t secret[NAM_AUTH_SECRET_BYTES];
};

/* Read from a file; core dumps leave them out. */
struct nam__auth_keys {
	uint32_t count;
	struct nam__auth_key keys[];
};

/* "read", "write", "admin"; NULL for what is none. */
const char *nam__role_name(enum nam_role role);
/* The role of that name, or -EINVAL. */
int nam__role_find(const char *name);

/*
 * Without may_be_empty a file needs a key.  Returns 0; -EINVAL with file, line and remedy in *diag;
 * -errno if it cannot be read.  -EACCES if others than its owner and group may read the file, or
 * others than its owner may change it.  -NAM_E_LIMIT for more than NAM_AUTH_KEYS_MAX keys.
 */
int nam__auth_keys_read(const char *path, bool may_be_empty, struct nam__auth_keys **ret,
	struct nam_diag *diag) NAM_MUST_CHECK;
/* Overwrites the secrets.  NULL is ignored. */
void nam__auth_keys_free(struct nam__auth_keys *keys);
/* NULL: there is none of that fingerprint. */
const struct nam__auth_key *nam__auth_keys_find(const struct nam__auth_keys *keys, uint64_t print);

/* A new key.  -EINVAL: the name is not 1 to 31 letters, digits, '_', '-' and '.'. */
int nam__auth_key_make(const char *name, enum nam_role role, struct nam__auth_key *ret,
	struct nam_diag *diag) NAM_MUST_CHECK;
/* As a line of a key file, with its line feed. */
void nam__auth_key_line(const struct nam__auth_key *key, char line[NAM_AUTH_LINE_BYTES]);

#endif /* NAM_COMMON_AUTH_KEYS_H */
