/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c -- rows of packages, and what must hold of rows that are read together. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packages.h"

/* ---- rows ------------------------------------------------------------------------------------ */

bool
same(const struct nam_bytes *a, const struct nam_bytes *b)
{
	return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

void
row_make(const struct package *package, uint64_t stamp, struct row *row)
{
	row->size = htobe64(package->size + stamp / 2 % (SIZE_GROWS_MAX + 1));
	row->stamp = htobe64(stamp);
	row->columns[SECTION] = example_text(stamp % 2 ? PROPOSED : package->section);
	row->columns[SIZE] = (struct nam_bytes){ &row->size, 8 };
	row->columns[MAINTAINER] = example_text(package->maintainer);
	row->columns[SOURCE] = example_text(package->source);
	row->columns[STAMP] = (struct nam_bytes){ &row->stamp, 8 };
}

/* ---- checks ---------------------------------------------------------------------------------- */

int
checker_init(struct checker *checker, const struct catalogue *catalogue, uint64_t *counts)
{
	*checker = (struct checker){ .catalogue = catalogue, .counts = counts };
	checker->seen = calloc(catalogue->packages_count, sizeof(*checker->seen));
	checker->groups = calloc(catalogue->groups_count, sizeof(*checker->groups));
	return checker->seen && checker->groups ? 0 : -ENOMEM;
}

void
checker_free(struct checker *checker)
{
	free(checker->seen);
	free(checker->groups);
}

void
answer_begin(struct checker *checker)
{
	checker->answer++;
	checker->fractured = checker->wrong = false;
}

void
answer_end(struct checker *checker, enum count what, uint32_t rows)
{
	checker->counts[what]++;
	checker->counts[ROWS_READ] += rows;
	checker->counts[FRACTURED] += checker->fractured;
	checker->counts[WRONG] += checker->wrong;
}

void
report(struct checker *checker, bool *what, const char *why, const struct package *package)
{
	if (!checker->fractured && !checker->wrong && !checker->counts[FRACTURED] &&
		!checker->counts[WRONG])
		fprintf(stderr, "%s: %s\n", package ? package->key : "a row", why);
	*what = true;
}

bool
is_seen(const struct checker *checker, const struct package *package)
{
	return checker->seen[package - checker->catalogue->packages] == checker->answer;
}

void
check_row(struct checker *checker, const struct nam_bytes *key, const struct nam_bytes *columns)
{
	const struct package *package = catalogue_find(checker->catalogue, &columns[SOURCE], key);
	uint64_t stamp = example_number(&columns[STAMP]);
	struct group_seen *group;
	struct row row;

	if (!package) {
		report(checker, &checker->wrong, "no writer put one of that key and source", NULL);
		return;
	}
	row_make(package, stamp, &row);
	for (uint32_t i = 0; i < COLUMNS; i++)
		if (!same(&row.columns[i], &columns[i]))
			report(checker, &checker->wrong, "its columns are not of one release",
				package);
	if (is_seen(checker, package))
		report(checker, &checker->wrong, "it is there twice", package);
	checker->seen[package - checker->catalogue->packages] = checker->answer;
	group = &checker->groups[package->group];
	if (group->answer != checker->answer)
		*group = (struct group_seen){ checker->answer, 0, stamp };
	else if (group->stamp != stamp)
		report(checker, &checker->fractured,
			"it is of another release than the rest of its "
			"source", package);
	group->rows++;
}

void
check_rows(struct checker *checker, const struct nam_table_rows *rows)
{
	answer_begin(checker);
	for (uint32_t i = 0; i < nam_table_rows_count(rows); i++)
		check_row(checker, &nam_table_rows_at(rows, i)->key,
			nam_table_rows_at(rows, i)->columns);
}

void
check_whole(struct checker *checker, uint32_t group)
{
	const struct group_seen *seen = &checker->groups[group];
	const struct group *wanted = &checker->catalogue->groups[group];

	if (seen->answer == checker->answer && seen->rows != wanted->count)
		report(checker, &checker->fractured, "packages of its source are missing",
			&checker->catalogue->packages[wanted->first]);
}
