/* SPDX-License-Identifier: Apache-2.0 */
/* report.c -- what the indexes say of the packages, and what came of releasing them. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "packages.h"

/* ---- shares ---------------------------------------------------------------------------------- */

static void
share_name(struct share *share, const struct nam_bytes *name)
{
	snprintf(share->name, sizeof(share->name), "%.*s", (int)name->bytes,
		(const char *)name->data);
}

/* Among the top ones if it has more packages than the last of these. */
static void
share_rank(const struct share *share, struct share *top)
{
	uint32_t at = TOP;

	while (at > 0 && share->packages > top[at - 1].packages)
		at--;
	if (at == TOP)
		return;
	memmove(&top[at + 1], &top[at], (TOP - 1 - at) * sizeof(*top));
	top[at] = *share;
}

/* Check all rows that a scan found, and that they are all there are. */
static int
check_all(struct party *party, const struct nam_table_rows *rows)
{
	const struct catalogue *catalogue = party->catalogue;
	struct checker checker;
	int rc = checker_init(&checker, catalogue, party->counts);

	if (!rc) {
		check_rows(&checker, rows);
		for (uint32_t i = 0; i < catalogue->packages_count; i++)
			if (!is_seen(&checker, &catalogue->packages[i]))
				report(&checker, &checker.wrong, "it is in no index",
					&catalogue->packages[i]);
		answer_end(&checker, READS, nam_table_rows_count(rows));
		rc = checker.wrong || checker.fractured ? -NAM_E_REMOTE_CORRUPT : 0;
	}
	checker_free(&checker);
	return rc;
}

/* A scan of the whole index gives all packages of one value, then those of the next. */
static int
shares_of(struct party *party, enum column column, struct nam_table_rows *rows, struct share *top)
{
	const struct nam_table_range range = { .column = column };
	const struct nam_bytes *value = NULL;
	struct share share = { .packages = 0 };
	int rc = nam_table_scan(party->worker, party->table, &range, rows);

	if (rc)
		return example_failed("scanning", rc, nam_worker_diag(party->worker));
	for (uint32_t i = 0; i < nam_table_rows_count(rows); i++) {
		const struct nam_bytes *columns = nam_table_rows_at(rows, i)->columns;

		if (!value || !same(value, &columns[column])) {
			share_rank(&share, top);
			share = (struct share){ .packages = 0 };
			value = &columns[column];
			share_name(&share, value);
		}
		share.packages++;
		share.size += example_number(&columns[SIZE]);
	}
	share_rank(&share, top);
	return check_all(party, rows);
}

/* The largest: look among ever smaller ones until there are enough. */
static int
largest_of(struct party *party, struct nam_table_rows *rows, struct share *top)
{
	struct nam_table_range range = { .column = SIZE };
	uint32_t count = 0;
	int rc = 0;

	for (uint64_t size = 1ull << 40; !rc && size && count < TOP; size /= 2) {
		uint64_t low = htobe64(size);

		range.low = (struct nam_bytes){ &low, sizeof(low) };
		rc = nam_table_scan(party->worker, party->table, &range, rows);
		count = rc ? 0 : nam_table_rows_count(rows);
	}
	for (uint32_t i = 0; i < TOP && i < count; i++) {
		const struct nam_table_row *row = nam_table_rows_at(rows, count - 1 - i);

		share_name(&top[i], &row->key);
		top[i].size = example_number(&row->columns[SIZE]);
	}
	return rc ? example_failed("scanning", rc, nam_worker_diag(party->worker)) : 0;
}

int
report_shares(struct party *party, struct result *result)
{
	struct nam_table_rows *rows = nam_table_rows_new();
	int rc = rows ? shares_of(party, SECTION, rows, result->sections) : -ENOMEM;

	if (!rc)
		rc = shares_of(party, MAINTAINER, rows, result->maintainers);
	if (!rc)
		rc = largest_of(party, rows, result->largest);
	nam_table_rows_free(rows);
	return rc;
}

/* ---- for people ------------------------------------------------------------------------------ */

/* With commas; good until 8 others have been made. */
static const char *
commas(uint64_t number)
{
	static char texts[8][32];
	static unsigned turn;
	char digits[24], *at = texts[turn++ % 8];
	const char *start = at;
	int count = snprintf(digits, sizeof(digits), "%" PRIu64, number);

	for (int i = 0; i < count; i++) {
		if (i && (count - i) % 3 == 0)
			*at++ = ',';
		*at++ = digits[i];
	}
	*at = '\0';
	return start;
}

NAM_PRINTF(2, 3) static void
print_line(const char *what, const char *format, ...)
{
	va_list arguments;

	printf("  %-13s", what);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
}

static void
print_shares(const char *what, const struct share *shares)
{
	printf("\n  %-45s%12s%16s\n", what, "packages", "installed");
	for (uint32_t i = 0; i < TOP && shares[i].packages; i++)
		/* A maintainer is printed without the address. */
		printf("  %-45.*s%12s%12s MiB\n", (int)strcspn(shares[i].name, "<"),
			shares[i].name, commas(shares[i].packages), commas(shares[i].size >> 10));
}

void
print_loaded(const struct party *party, const struct result *result)
{
	print_line("table", "%s packages of %s sources, by section, size and maintainer",
		commas(party->catalogue->packages_count), commas(party->catalogue->sources_count));
	print_line("load", "%.2f s: %s rows/s, with an entry in each of 3 indexes",
		result->load_seconds,
		commas((uint64_t)(party->catalogue->packages_count / result->load_seconds)));
	print_shares("by section", result->sections);
	print_shares("by maintainer", result->maintainers);
	printf("\n  %-57s%16s\n", "by size", "installed");
	for (uint32_t i = 0; i < TOP && result->largest[i].size; i++)
		printf("  %-57.56s%12s MiB\n", result->largest[i].name,
			commas(result->largest[i].size >> 10));
	printf("\n");
	(void)fflush(stdout);
}

void
print_worked(const struct party *party, const struct result *result)
{
	const struct options *options = party->options;
	const uint64_t *counts = party->counts;
	uint64_t scans = counts[SCANS_SECTION] + counts[SCANS_SIZE] + counts[SCANS_MAINTAINER];

	print_line("at work", "%u process%s with %u writers and %u readers each, for %g s",
		options->processes, options->processes == 1 ? "" : "es", options->writers,
		options->readers, result->seconds);
	print_line("released", "%s sources: %s rows, %s", commas(counts[RELEASES]),
		commas(counts[ROWS_WRITTEN]), options->unsafe ? "each written by itself" :
		"all of a source by one transaction");
	print_line("read", "%s sources by their keys", commas(counts[READS]));
	print_line("scanned", "%s times: %s by section, %s by size, %s by maintainer",
		commas(scans),
		commas(counts[SCANS_SECTION]), commas(counts[SCANS_SIZE]),
		commas(counts[SCANS_MAINTAINER]));
	print_line("checked", "%s rows", commas(counts[ROWS_READ]));
	if (counts[GAVE_UP])
		print_line("gave up", "%s times, for rows were replaced too quickly",
			commas(counts[GAVE_UP]));
	print_line("fractured", "%s answers with half of a release", commas(counts[FRACTURED]));
	print_line("wrong", "%s answers without a row, with one twice, or with what was not asked "
		"for", commas(counts[WRONG]));
	print_line("at the end", "%s rows, %s entries, %s violations", commas(result->stat.rows),
		commas(result->stat.entries), commas(result->violations));
}

/* ---- for programs ---------------------------------------------------------------------------- */

/* Names in a catalogue may have any character. */
static void
json_shares(FILE *file, const char *what, const struct share *shares)
{
	fprintf(file, "  \"%s\": [", what);
	for (uint32_t i = 0; i < TOP && (shares[i].packages || shares[i].size); i++) {
		fprintf(file, "%s\n    {\"name\": \"", i ? "," : "");
		for (const char *name = shares[i].name; *name; name++)
			if (*name == '"' || *name == '\\' || (unsigned char)*name < ' ')
				fprintf(file, "\\u%04x", (unsigned)*name);
			else
				fputc(*name, file);
		fprintf(file, "\"");
		if (shares[i].packages)
			fprintf(file, ", \"packages\": %" PRIu64, shares[i].packages);
		fprintf(file, ", \"size_kib\": %" PRIu64 "}", shares[i].size);
	}
	fprintf(file, "],\n");
}

int
write_json(const struct party *party, const struct result *result)
{
	static const char *const names[COUNTS] = { "releases", "rows_written", "reads",
		"scans_section", "scans_size", "scans_maintainer", "rows_read", "gave_up",
		"fractured", "wrong" };
	const struct options *options = party->options;
	FILE *file = fopen(options->json, "w");
	int rc = 0;

	if (!file)
		return example_failed(options->json, -errno, "");
	fprintf(file, "{\n  \"packages\": %u,\n  \"sources\": %u,\n  \"processes\": %u,\n"
		"  \"writers\": %u,\n  \"readers\": %u,\n  \"unsafe\": %s,\n"
		"  \"load_seconds\": %.3f,\n  \"seconds\": %.3f,\n",
		party->catalogue->packages_count, party->catalogue->sources_count,
		options->processes, options->writers, options->readers,
		options->unsafe ? "true" : "false", result->load_seconds, result->seconds);
	json_shares(file, "sections", result->sections);
	json_shares(file, "maintainers", result->maintainers);
	json_shares(file, "largest", result->largest);
	for (uint32_t i = 0; i < COUNTS; i++)
		fprintf(file, "  \"%s\": %" PRIu64 ",\n", names[i], party->counts[i]);
	fprintf(file, "  \"rows\": %" PRIu64 ",\n  \"entries\": %" PRIu64 ",\n"
		"  \"stale_entries\": %" PRIu64 ",\n  \"violations\": %" PRIu64 "\n}\n",
		result->stat.rows, result->stat.entries, result->stat.stale, result->violations);
	if (ferror(file))
		rc = -EIO;
	if (fclose(file) && !rc)
		rc = -errno;
	return rc ? example_failed(options->json, rc, "") : 0;
}
