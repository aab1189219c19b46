/* SPDX-License-Identifier: Apache-2.0 */
/* log.c -- events of a memory server, for whatever its owner writes logs with. */
#include <stdarg.h>
#include <stdio.h>

#include "memserver_internal.h"

#define FIELDS_BYTES 768u

const char *
nam_log_level_name(enum nam_log_level level)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };

	return (unsigned)level < sizeof(names) / sizeof(names[0]) ? names[level] : "unknown";
}

const char *
nam_log_quote(const char *value, char *text, size_t size)
{
	size_t used = 0;
	char one[8];
	int n;

	text[used++] = '"';
	for (; *value; value++, used += (size_t)n) {
		unsigned char c = (unsigned char)*value;

		if (c < ' ' || c > '~')
			n = snprintf(one, sizeof(one), "\\x%02x", c);
		else
			n = snprintf(one, sizeof(one), c == '"' || c == '\\' ? "\\%c" : "%c", c);
		if (used + (size_t)n + sizeof("\"") > size)
			break;
		memcpy(text + used, one, (size_t)n);
	}
	memcpy(text + used, "\"", sizeof("\""));
	return text;
}

void
nam__log(const struct nam_server *server, enum nam_log_level level, const char *event,
	const char *format, ...)
{
	char fields[FIELDS_BYTES];
	va_list args;

	if (!server->options.log || level > server->options.log_level)
		return;
	va_start(args, format);
	(void)vsnprintf(fields, sizeof(fields), format, args);
	va_end(args);
	server->options.log(level, event, fields);
}
