/* SPDX-License-Identifier: Apache-2.0 */
#include "key.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nam.h"

int
key_format_choose(const char *type, uint32_t key_bytes, struct key_format *ret_format,
	struct nam_diag *diag)
{
	struct key_format format = { .bytes = key_bytes };

	if (!type)
		format.type = key_bytes == 8 ? KEY_U64 : KEY_TEXT;
	else if (!strcmp(type, "u64"))
		format.type = KEY_U64;
	else if (!strcmp(type, "text"))
		format.type = KEY_TEXT;
	else if (!strcmp(type, "hex"))
		format.type = KEY_HEX;
	else
		return nam_diag_set(diag, -EINVAL, "--key-type: '%s' is not u64, text or hex",
			type);
	*ret_format = format;
	return 0;
}

/* Digits only: no sign, no blanks, no more than 64 bits. */
static bool
parse_u64(const char *text, uint64_t *ret_value)
{
	uint64_t value;

	if (!*text || text[strspn(text, "0123456789")])
		return false;
	errno = 0;
	value = strtoull(text, NULL, 10);
	if (errno)
		return false;
	*ret_value = value;
	return true;
}

bool
key_hex_take(const char *digits, size_t bytes, void *ret)
{
	size_t count;

	return !sodium_hex2bin(ret, bytes, digits, 2 * bytes, NULL, &count, NULL) && count == bytes;
}

static int
parse_hex(const struct key_format *format, const char *text, uint8_t *key, struct nam_diag *diag)
{
	size_t digits = strlen(text);

	if (!digits || digits % 2)
		return nam_diag_set(diag, -EINVAL, "key '%s' has %zu hexadecimal digits, which is "
			"not a whole number of bytes", text, digits);
	/* All of them: the end of missing ones is unknown. */
	if (digits / 2 != format->bytes)
		return nam_diag_set(diag, -NAM_E_KEY_BYTES, "key '%s' has %zu bytes and the "
			"index's keys have %u: write %u hexadecimal digits", text, digits / 2,
			format->bytes, 2 * format->bytes);
	return key_hex_take(text, digits / 2, key) ? 0 : nam_diag_set(diag, -EINVAL, "key '%s' has "
		"characters that are not hexadecimal digits", text);
}

/*
 * As print_text() writes: a backslash stands before another one, or before x and two digits.
 */
static int
parse_text(const struct key_format *format, const char *text, uint8_t *key, struct nam_diag *diag)
{
	const char *from = text;
	size_t length = 0;

	for (; *from; length++) {
		uint8_t byte = (uint8_t)*from++;

		if (byte == '\\' && from[0] == '\\') {
			from++;
		} else if (byte == '\\') {
			if (from[0] != 'x' || !key_hex_take(from + 1, 1, &byte))
				return nam_diag_set(diag, -EINVAL, "key '%s': after a backslash "
					"comes another one, or x and two hexadecimal digits", text);
			from += 3;
		}
		if (length < format->bytes)
			key[length] = byte;
	}
	if (length > format->bytes)
		return nam_diag_set(diag, -NAM_E_KEY_BYTES,
			"key '%s' has %zu bytes and the index's keys have %u", text, length,
			format->bytes);
	return 0;
}

int
key_parse(const struct key_format *format, const char *text, void *ret_key, struct nam_diag *diag)
{
	uint8_t *key = ret_key;
	uint64_t value;

	memset(key, 0, format->bytes);
	switch (format->type) {
	case KEY_U64:
		if (!parse_u64(text, &value))
			return nam_diag_set(diag, -EINVAL, "key '%s' is not a whole number from 0 "
				"to %" PRIu64 "; other keys need --key-type text or hex", text,
				UINT64_MAX);
		nam_key_from_u64(value, key + format->bytes - 8);
		return 0;
	case KEY_TEXT:
		return parse_text(format, text, key, diag);
	default:
		return parse_hex(format, text, key, diag);
	}
}

size_t
key_utf8_length(const uint8_t *bytes, size_t room)
{
	uint8_t first = bytes[0], low = 0x80, high = 0xbf;
	size_t length;

	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	if (length > room)
		return 0;
	if (first == 0xe0)
		low = 0xa0;
	else if (first == 0xed)
		high = 0x9f;
	else if (first == 0xf0)
		low = 0x90;
	else if (first == 0xf4)
		high = 0x8f;
	for (size_t i = 1; i < length; i++, low = 0x80, high = 0xbf) {
		if (bytes[i] < low || bytes[i] > high)
			return 0;
	}
	return length;
}

/* Zero bytes at the end are not written, but for one when there is nothing else. */
static size_t
print_text(const struct key_format *format, const uint8_t *key, char *text)
{
	size_t length = format->bytes, at = 0, taken;

	while (length > 1 && !key[length - 1])
		length--;
	for (size_t i = 0; i < length; i += taken) {
		taken = key_utf8_length(key + i, length - i);
		if (key[i] == '\\') {
			at += (size_t)sprintf(text + at, "\\\\");
		} else if (!taken || key[i] < 0x20 || key[i] == 0x7f) {
			at += (size_t)sprintf(text + at, "\\x%02x", key[i]);
			taken = 1;
		} else {
			memcpy(text + at, key + i, taken);
			at += taken;
		}
	}
	text[at] = '\0';
	return at;
}

size_t
key_print(const struct key_format *format, const void *key, char text[KEY_TEXT_BYTES])
{
	const uint8_t *bytes = key;

	switch (format->type) {
	case KEY_U64:
		return (size_t)snprintf(text, KEY_TEXT_BYTES, "%" PRIu64,
			nam_key_to_u64(bytes + format->bytes - 8));
	case KEY_TEXT:
		return print_text(format, bytes, text);
	default:
		sodium_bin2hex(text, KEY_TEXT_BYTES, bytes, format->bytes);
		return 2 * format->bytes;
	}
}

bool
key_fits(const struct key_format *format, const void *key)
{
	const uint8_t *bytes = key;

	for (uint32_t i = 0; format->type == KEY_U64 && i + 8 < format->bytes; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

int
payload_parse(const char *text, uint64_t *ret_payload, struct nam_diag *diag)
{
	if (!parse_u64(text, ret_payload))
		return nam_diag_set(diag, -EINVAL,
			"payload '%s' is not a whole number from 0 to %" PRIu64, text, UINT64_MAX);
	return 0;
}
