/* SPDX-License-Identifier: Apache-2.0 */
#include "ini.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

struct reader {
	struct nam__ini ini;
	FILE *file;
	nam__ini_key_fn take;
	void *arg;
	int rc;
};

/* For ini_parse_stream: 1 to go on. */
static int
handle_key(void *arg, const char *section, const char *name, const char *value)
{
	struct reader *reader = arg;

	if (!reader->rc)
		reader->rc = reader->take(reader->arg, &reader->ini, section, name, value);
	return reader->rc == 0;
}

/*
 * For ini_parse_stream, which does not tell the line: lines are counted here.  Leading blanks go,
 * because inih takes an indented line for more of the value before it.
 */
static char *
read_line(char *text, int size, void *arg)
{
	struct reader *reader = arg;
	size_t blanks;

	if (reader->rc || !fgets(text, size, reader->file))
		return NULL;
	reader->ini.line++;
	if (!strchr(text, '\n') && !feof(reader->file)) {
		reader->rc = nam_diag_set(reader->ini.diag, -EINVAL, "%s:%d: the line is longer "
			"than %d bytes", reader->ini.path, reader->ini.line, size - 2);
		return NULL;
	}
	blanks = strspn(text, " \t");
	memmove(text, text + blanks, strlen(text + blanks) + 1);
	return text;
}

int
nam__ini_read(const char *path, const char *kind, const char *section, nam__ini_key_fn take,
	void *arg, struct nam_diag *diag)
{
	struct reader reader = { .ini = { .path = path, .diag = diag }, .take = take, .arg = arg };
	int malformed;

	reader.file = fopen(path, "re");
	if (!reader.file)
		return nam_diag_set(diag, -errno, "%s '%s': %s", kind, path, strerror(errno));
	errno = 0;
	malformed = ini_parse_stream(read_line, &reader, handle_key, &reader);
	if (!reader.rc && ferror(reader.file))		/* a folder, for example */
		reader.rc = nam_diag_set(diag, errno ? -errno : -EIO, "%s '%s': %s", kind, path,
			strerror(errno ? errno : EIO));
	if (!reader.rc && malformed)
		reader.rc = nam_diag_set(diag, malformed < 0 ? -ENOMEM : -EINVAL,
			"%s:%d: neither %s nor KEY = VALUE", path, malformed, section);
	(void)fclose(reader.file);
	return reader.rc;
}
