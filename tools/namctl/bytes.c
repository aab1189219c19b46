/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.c -- keys and values of any bytes, as people write and read them. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "namctl.h"

/* ---- from the command line ----------------------------------------------------------------- */

bool
ctl_is_hex(const struct ctl *ctl)
{
	return ctl->key_type && !strcmp(ctl->key_type, "hex");
}

int
ctl_bytes_type(const struct ctl *ctl, const char *of)
{
	if (!ctl->key_type || ctl_is_hex(ctl) || !strcmp(ctl->key_type, "text"))
		return NAM_EXIT_OK;
	ctl_complain("--key-type: '%s' is not text or hex, as keys of %s are written",
		ctl->key_type, of);
	return NAM_EXIT_USAGE;
}

int
ctl_bytes_take(const struct ctl *ctl, char *text, uint32_t *ret_bytes)
{
	const char *from = text;
	size_t length;

	if (ctl_is_hex(ctl) && from[0] == '0' && from[1] == 'x')
		from += 2;
	length = strlen(from);
	*ret_bytes = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
	if (!ctl_is_hex(ctl))
		return NAM_EXIT_OK;
	/* Before any of it is overwritten. */
	if (length % 2 || strspn(from, "0123456789abcdefABCDEF") != length) {
		ctl_complain("'%s' is not two hexadecimal digits for each byte", text);
		return NAM_EXIT_USAGE;
	}
	(void)!key_hex_take(from, length / 2, text);
	*ret_bytes /= 2;
	return NAM_EXIT_OK;
}

/* ---- what bytes are ------------------------------------------------------------------------ */

/* Whether a string may have them: UTF-8 without a zero, in its shortest form. */
static bool
is_utf8(const uint8_t *bytes, uint32_t count)
{
	size_t length;

	for (uint32_t i = 0; i < count; i += (uint32_t)length) {
		length = bytes[i] ? key_utf8_length(bytes + i, count - i) : 0;
		if (!length)
			return false;
	}
	return true;
}

/* Whether a terminal shows them as they are: UTF-8 without control characters, C1 among them. */
static bool
is_printable(const uint8_t *bytes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (bytes[i] < 0x20 || bytes[i] == 0x7f ||
			(bytes[i] == 0xc2 && i + 1 < count && bytes[i + 1] < 0xa0))
			return false;
	return is_utf8(bytes, count);
}

/* ---- to a person --------------------------------------------------------------------------- */

static const char empty_text[] = "\"\"";

uint32_t
ctl_bytes_width(const struct nam_bytes *bytes, bool hex)
{
	const uint8_t *data = bytes->data;
	uint32_t width = 0;

	if (!bytes->bytes)
		return sizeof(empty_text) - 1;
	if (hex || !is_printable(data, bytes->bytes))
		return 2 + 2 * bytes->bytes;
	for (uint32_t i = 0; i < bytes->bytes; i++)
		width += (data[i] & 0xc0) != 0x80;
	return width;
}

void
ctl_bytes_hex(const void *data, uint32_t count)
{
	const uint8_t *bytes = data;

	for (uint32_t i = 0; i < count; i++)
		printf("%02x", bytes[i]);
}

void
ctl_bytes_show(const struct nam_bytes *bytes, bool hex)
{
	const uint8_t *data = bytes->data;

	if (!bytes->bytes) {
		fputs(empty_text, stdout);
	} else if (!hex && is_printable(data, bytes->bytes)) {
		(void)fwrite(data, 1, bytes->bytes, stdout);
	} else {
		fputs("0x", stdout);
		ctl_bytes_hex(data, bytes->bytes);
	}
}

/* ---- JSON ---------------------------------------------------------------------------------- */

/* A string of them, or of their digits; NULL: no memory, which cJSON takes for nothing to add. */
static cJSON *
json_string(const void *data, uint32_t count, bool hex)
{
	char *text = malloc((size_t)2 * count + 1);
	cJSON *string;

	if (!text)
		return NULL;
	if (hex)
		sodium_bin2hex(text, (size_t)2 * count + 1, data, count);
	else
		(void)snprintf(text, (size_t)count + 1, "%.*s", (int)count,
			count ? (const char *)data : "");
	string = cJSON_CreateString(text);
	free(text);
	return string;
}

void
ctl_json_bytes(cJSON *object, const char *name, const void *data, uint32_t count, bool hex)
{
	char member[32];

	if (!object)
		return;
	hex |= !is_utf8(data, count);
	(void)snprintf(member, sizeof(member), "%s%s", name, hex ? "_hex" : "");
	cJSON_AddItemToObject(object, member, json_string(data, count, hex));
}

cJSON *
ctl_json_value(const struct nam_bytes *bytes, bool hex)
{
	cJSON *object;

	if (!hex && is_utf8(bytes->data, bytes->bytes))
		return json_string(bytes->data, bytes->bytes, false);
	object = cJSON_CreateObject();
	cJSON_AddItemToObject(object, "hex", json_string(bytes->data, bytes->bytes, true));
	return object;
}
