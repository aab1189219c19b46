/* SPDX-License-Identifier: Apache-2.0 */
#include "tsv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 1024u

static int
grow(struct tsv *tsv)
{
	uint64_t room = tsv->room ? 2 * tsv->room : ROOM_FIRST;
	uint8_t *keys = realloc(tsv->keys, room * tsv->format.bytes);
	uint64_t *payloads;

	if (!keys)
		return -ENOMEM;
	tsv->keys = keys;
	payloads = realloc(tsv->payloads, room * sizeof(uint64_t));
	if (!payloads)
		return -ENOMEM;
	tsv->payloads = payloads;
	tsv->room = room;
	return 0;
}

/* Below 0, 0 or above: the order of pair number i and of the one before it. */
static int
compare_with_previous(const struct tsv *tsv, uint64_t i, bool unique)
{
	int order = memcmp(tsv_key(tsv, i - 1), tsv_key(tsv, i), tsv->format.bytes);

	if (order || unique || tsv->payloads[i - 1] == tsv->payloads[i])
		return order;
	return tsv->payloads[i - 1] < tsv->payloads[i] ? -1 : 1;
}

/* The error of the line goes to *why. */
static int
take_line(struct tsv *tsv, char *line, size_t length, struct nam_diag *why)
{
	char *tab;
	int rc;

	if (strlen(line) != length)
		return nam_diag_set(why, -EINVAL, "it holds a zero byte; is this a text file?");
	if (length && line[length - 1] == '\r')
		return nam_diag_set(why, -EINVAL, "it ends with a carriage return; convert the "
			"file to Unix line ends, for example with tr -d '\\r'");
	tab = strchr(line, '\t');
	if (!tab)
		return nam_diag_set(why, -EINVAL, "there is no tab; expected KEY<TAB>PAYLOAD");
	*tab = '\0';
	if (tab == line)
		return nam_diag_set(why, -EINVAL, "the key is empty; expected KEY<TAB>PAYLOAD");
	if (tsv->count == tsv->room) {
		rc = grow(tsv);
		if (rc)
			return nam_diag_set(why, rc, "no memory for so many lines");
	}
	rc = key_parse(&tsv->format, line, tsv->keys + tsv->count * tsv->format.bytes, why);
	if (rc)
		return rc;
	return payload_parse(tab + 1, &tsv->payloads[tsv->count], why);
}

static int
read_lines(FILE *file, struct tsv *tsv, bool unique, struct nam_diag *why)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t length;
	int rc = 0;

	while (!rc && (length = getline(&line, &size, file)) >= 0) {
		if (length && line[length - 1] == '\n')
			line[--length] = '\0';
		rc = take_line(tsv, line, (size_t)length, why);
		if (rc)
			break;
		if (tsv->ascending && tsv->count &&
			compare_with_previous(tsv, tsv->count, unique) >= 0) {
			tsv->ascending = false;
			tsv->disorder_at = tsv->count;
		}
		tsv->count++;
	}
	free(line);
	return rc;
}

int
tsv_read(FILE *file, const char *name, const struct key_format *format, bool unique,
	struct tsv *ret_tsv, struct nam_diag *diag)
{
	struct tsv tsv = { .format = *format, .ascending = true };
	struct nam_diag why = { "" };
	int rc = read_lines(file, &tsv, unique, &why);

	if (!rc && ferror(file))
		rc = nam_diag_set(diag, errno ? -errno : -EIO, "%s: it cannot be read: %s", name,
			strerror(errno ? errno : EIO));
	else if (rc)
		nam_diag_set(diag, rc, "%s:%" PRIu64 ": %s; nothing was loaded", name,
			tsv.count + 1, why.text);
	if (rc) {
		tsv_free(&tsv);
		return rc;
	}
	*ret_tsv = tsv;
	return 0;
}

void
tsv_free(struct tsv *tsv)
{
	free(tsv->keys);
	free(tsv->payloads);
	*tsv = (struct tsv){ .count = 0 };
}
