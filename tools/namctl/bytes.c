/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.c -- keys and values of any bytes, as people write and read them. */
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
	static const char digits[] = "0123456789abcdef";
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
	for (size_t i = 0; i < length; i++) {
		const char *digit = strchr(digits, from[i] >= 'A' && from[i] <= 'F' ?
			from[i] - 'A' + 'a' : from[i]);

		if (i % 2)
			text[i / 2] = (char)(text[i / 2] | (digit - digits));
		else
			text[i / 2] = (char)((digit - digits) << 4);
	}
	*ret_bytes /= 2;
	return NAM_EXIT_OK;
}

/* ---- what bytes are ------------------------------------------------------------------------ */

/* Whether a string may have them: UTF-8 without a zero, in its shortest form. */
static bool
is_utf8(const uint8_t *bytes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		static const uint32_t least[] = { 1, 0x80, 0x800, 0x10000 };
		uint8_t first = bytes[i];
		unsigned more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
		uint32_t code = more ? first & (0x3fu >> more) : first;

		if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || more > count - 1 - i)
			return false;
		for (unsigned k = 0; k < more; k++) {
			if ((bytes[++i] & 0xc0) != 0x80)
				return false;
			code = code << 6 | (bytes[i] & 0x3f);
		}
		if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
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

/* A string of the digits; NULL: no memory, which cJSON takes for nothing to add. */
static cJSON *
json_hex(const uint8_t *data, uint32_t count)
{
	char *text = malloc((size_t)2 * count + 1);
	cJSON *string;

	if (!text)
		return NULL;
	text[0] = '\0';
	for (uint32_t i = 0; i < count; i++)
		(void)snprintf(text + (size_t)2 * i, 3, "%02x", data[i]);
	string = cJSON_CreateString(text);
	free(text);
	return string;
}

static cJSON *
json_text(const uint8_t *data, uint32_t count)
{
	char *text = malloc((size_t)count + 1);
	cJSON *string;

	if (!text)
		return NULL;
	if (count)
		memcpy(text, data, count);
	text[count] = '\0';
	string = cJSON_CreateString(text);
	free(text);
	return string;
}

void
ctl_json_bytes(cJSON *object, const char *name, const void *data, uint32_t count, bool hex)
{
	char hex_name[32];

	if (hex || !is_utf8(data, count)) {
		(void)snprintf(hex_name, sizeof(hex_name), "%s_hex", name);
		cJSON_AddItemToObject(object, hex_name, json_hex(data, count));
		return;
	}
	cJSON_AddItemToObject(object, name, json_text(data, count));
}

cJSON *
ctl_json_value(const struct nam_bytes *bytes, bool hex)
{
	cJSON *object;

	if (!hex && is_utf8(bytes->data, bytes->bytes))
		return json_text(bytes->data, bytes->bytes);
	object = cJSON_CreateObject();
	cJSON_AddItemToObject(object, "hex", json_hex(bytes->data, bytes->bytes));
	return object;
}
