/* SPDX-License-Identifier: Apache-2.0 */
#include "tsv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "index/options.h"

#define BUFFER_BYTES (1u << 16)

/* The key, of as many bytes as the format says, and the payload: as in the temporary file. */
struct pair {
	uint8_t bytes[NAM_KEY_BYTES_MAX + sizeof(uint64_t)];
};

/* The file has no name from the start, so none stays behind. */
static int
temporary_open(FILE **ret, struct nam_diag *diag)
{
	const char *folder = getenv("TMPDIR");
	char path[4096];
	int fd;

	if (!folder || !folder[0])
		folder = "/var/tmp";
	(void)snprintf(path, sizeof(path), "%s/namctl-load-XXXXXX", folder);
	fd = mkstemp(path);
	if (fd < 0)
		return nam_diag_set(diag, -errno, "no temporary file in %s: %s; name another "
			"folder by TMPDIR", folder, strerror(errno));
	(void)unlink(path);
	*ret = fdopen(fd, "w+");
	if (*ret) {
		(void)setvbuf(*ret, NULL, _IOFBF, BUFFER_BYTES);
		return 0;
	}
	close(fd);
	return nam_diag_set(diag, -ENOMEM, "no memory");
}

static int
temporary_failed(struct nam_diag *diag)
{
	int error = errno ? errno : EIO;

	return nam_diag_set(diag, -error, "the temporary file of its pairs, in TMPDIR or /var/tmp: "
		"%s; nothing was loaded", strerror(error));
}

static uint64_t
payload_of(const struct tsv *tsv, const struct pair *pair)
{
	uint64_t payload;

	memcpy(&payload, pair->bytes + tsv->format.bytes, sizeof(payload));
	return payload;
}

/* Below 0, 0 or above: the order of two pairs. */
static int
compare(const struct tsv *tsv, const struct pair *a, const struct pair *b, bool unique)
{
	int order = memcmp(a->bytes, b->bytes, tsv->format.bytes);
	uint64_t first = payload_of(tsv, a), second = payload_of(tsv, b);

	return order || unique || first == second ? order : first < second ? -1 : 1;
}

/* The error of the line goes to *why. */
static int
parse_line(const struct tsv *tsv, char *line, size_t length, struct pair *ret, struct nam_diag *why)
{
	uint64_t payload = 0;
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
	rc = key_parse(&tsv->format, line, ret->bytes, why);
	if (!rc)
		rc = payload_parse(tab + 1, &payload, why);
	if (!rc)
		memcpy(ret->bytes + tsv->format.bytes, &payload, sizeof(payload));
	return rc;
}

static int
read_lines(FILE *file, const char *name, struct tsv *tsv, bool unique, struct nam_diag *diag)
{
	size_t pair_bytes = tsv->format.bytes + sizeof(uint64_t);
	struct pair pairs[2];
	struct nam_diag why = { "" };
	char *line = NULL;
	size_t size = 0;
	ssize_t length;
	int rc = 0;

	errno = 0;
	while (!rc && (length = getline(&line, &size, file)) >= 0) {
		struct pair *pair = &pairs[tsv->count % 2], *previous = &pairs[1 - tsv->count % 2];

		if (length && line[length - 1] == '\n')
			line[--length] = '\0';
		rc = parse_line(tsv, line, (size_t)length, pair, &why);
		if (rc) {
			rc = nam_diag_set(diag, rc, "%s:%" PRIu64 ": %s; nothing was loaded", name,
				tsv->count + 1, why.text);
			break;
		}
		if (tsv->ascending && tsv->count && compare(tsv, previous, pair, unique) >= 0)
			tsv->ascending = false;
		if (fwrite(pair->bytes, pair_bytes, 1, tsv->pairs) != 1)
			rc = temporary_failed(diag);
		tsv->count++;
	}
	if (!rc && ferror(file))
		rc = nam_diag_set(diag, errno ? -errno : -EIO, "%s: it cannot be read: %s", name,
			strerror(errno ? errno : EIO));
	free(line);
	return rc;
}

int
tsv_read(FILE *file, const char *name, const struct key_format *format, bool unique,
	struct tsv *ret_tsv, struct nam_diag *diag)
{
	struct tsv tsv = { .format = *format, .ascending = true };
	int rc = temporary_open(&tsv.pairs, diag);

	if (rc)
		return rc;
	rc = read_lines(file, name, &tsv, unique, diag);
	if (!rc && fflush(tsv.pairs))
		rc = temporary_failed(diag);
	if (rc) {
		tsv_free(&tsv);
		return rc;
	}
	tsv_rewind(&tsv);
	*ret_tsv = tsv;
	return 0;
}

int
tsv_next(struct tsv *tsv, uint8_t *key, uint64_t *ret_payload)
{
	struct pair pair;

	errno = 0;
	if (fread(pair.bytes, tsv->format.bytes + sizeof(*ret_payload), 1, tsv->pairs) != 1)
		return errno ? -errno : -EIO;
	memcpy(key, pair.bytes, tsv->format.bytes);
	*ret_payload = payload_of(tsv, &pair);
	tsv->left--;
	return 0;
}

void
tsv_rewind(struct tsv *tsv)
{
	rewind(tsv->pairs);
	tsv->left = tsv->count;
}

void
tsv_free(struct tsv *tsv)
{
	(void)fclose(tsv->pairs);
	*tsv = (struct tsv){ .count = 0 };
}
