/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "namctl.h"

void
ctl_complain(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("namctl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

/* Whether the text has the name in quotes. */
static bool
names(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = strstr(text, name); at; at = strstr(at + 1, name))
		if (at > text && at[-1] == '\'' && at[length] == '\'')
			return true;
	return false;
}

static const struct nam_options_table *options_table;

void
ctl_options_name(const struct nam_options_table *table)
{
	options_table = table;
}

int
ctl_failed(const char *what, int rc, const char *diag)
{
	struct nam_diag flags = nam__options_flags(options_table, "--", diag ? diag : "");
	const char *text = *flags.text ? flags.text : nam_err_text(rc);

	if (!what || names(text, what))
		ctl_complain("%s (%s)", text, nam_err_name(rc));
	else
		ctl_complain("%s: %s (%s)", what, text, nam_err_name(rc));
	return nam_exit_code(rc);
}

int
ctl_worker_failed(const struct ctl *ctl, const char *what, int rc)
{
	return ctl_failed(what, rc, rc == -ECANCELED && ctl_signal ?
		"ended by a signal; what was done until then stays done" :
		nam_worker_diag(ctl->worker));
}

void
ctl_print(const struct ctl *ctl, const char *format, ...)
{
	va_list args;

	if (ctl->quiet || ctl->json)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

cJSON *
ctl_json(const struct ctl *ctl)
{
	return ctl->json ? cJSON_CreateObject() : NULL;
}

void
ctl_json_u64(cJSON *object, const char *name, uint64_t value)
{
	char text[24];

	if (!object)
		return;
	snprintf(text, sizeof(text), "%" PRIu64, value);
	cJSON_AddItemToObject(object, name, cJSON_CreateRaw(text));
}

cJSON *
ctl_json_key(const struct key_format *format, const void *key)
{
	char text[KEY_TEXT_BYTES];

	key_print(format, key, text);
	return format->type == KEY_U64 ? cJSON_CreateRaw(text) : cJSON_CreateString(text);
}

void
ctl_json_print(cJSON *object)
{
	char *text = cJSON_Print(object);

	if (text)
		puts(text);
	free(text);
	cJSON_Delete(object);
}

int
ctl_flush(int exit_code)
{
	bool lost = ferror(stdout) != 0;	/* earlier: the reason is not known any more */

	if (fflush(stdout) == 0 && !lost)
		return exit_code;
	fprintf(stderr, "namctl: standard output cannot be written%s%s\n", lost ? "" : ": ",
		lost ? "" : strerror(errno));
	return exit_code ? exit_code : NAM_EXIT_NO;
}

int
ctl_number_take(const char *text, uint32_t max, const char *of, uint32_t *ret_number)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(text, &end, 10);
	if (errno || end == text || *end || number > max) {
		ctl_complain("'%s' is no %s", text, of);
		return NAM_EXIT_USAGE;
	}
	*ret_number = (uint32_t)number;
	return NAM_EXIT_OK;
}

struct ctl_text
ctl_bytes(uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	struct ctl_text ret;
	unsigned unit = 0;

	for (; value >= 1024 && unit < 4; unit++)
		value /= 1024;
	snprintf(ret.text, sizeof(ret.text), "%.*f %s", unit && value < 100 ? 1 : 0, value,
		units[unit]);
	return ret;
}
