/* SPDX-License-Identifier: Apache-2.0 */
/* key.h -- keys and payloads as people write them. */
#ifndef NAMCTL_KEY_H
#define NAMCTL_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum key_type {
	KEY_U64,	/* decimal; big-endian in the last 8 bytes, zeroes before them */
	KEY_TEXT,	/* the bytes themselves, or \\ and \xNN, then zeroes */
	KEY_HEX,	/* two digits for each of its bytes */
};

struct key_format {
	enum key_type type;
	uint32_t bytes;		/* of a key: 8 .. 64 */
};

/* Room for any key as text: each byte may become \xNN. */
#define KEY_TEXT_BYTES (4 * 64 + 1)

/*
 * How keys of that size are written.  0, or -EINVAL with a message.
 *
 * @type	"u64", "text", "hex", or NULL: u64 for keys of 8 bytes, else text
 */
int key_format_choose(const char *type, uint32_t key_bytes, struct key_format *ret_format,
	struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * Text to key.  0, or with a message -EINVAL: it is not written as the format says;
 * -NAM_E_KEY_BYTES: it is longer than the index's keys, or, in hex, shorter.
 *
 * @ret_key	format->bytes; may be written to on failure
 */
int key_parse(const struct key_format *format, const char *text, void *ret_key,
	struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * Key to text, UTF-8 whatever the key is: key_parse() makes the same key of it, if key_fits().
 * Returns its length.
 */
size_t key_print(const struct key_format *format, const void *key, char text[KEY_TEXT_BYTES]);

/* Whether the key can be written so: not with KEY_U64 if it is above 64 bits. */
bool key_fits(const struct key_format *format, const void *key);

/* Two digits for each byte.  False: there are others. */
bool key_hex_take(const char *digits, size_t bytes, void *ret) NAM_MUST_CHECK;

/*
 * How many bytes the character of UTF-8 at the beginning has, 0 if there is none.  Overlong forms,
 * surrogates and codes beyond Unicode are none: readers of JSON refuse these.
 */
size_t key_utf8_length(const uint8_t *bytes, size_t room);

/* A decimal number of 64 bits, nothing else.  0, or -EINVAL with a message. */
int payload_parse(const char *text, uint64_t *ret_payload, struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAMCTL_KEY_H */
