/* SPDX-License-Identifier: Apache-2.0 */
/* work.c -- fibers that release packages, and fibers that check what they see of it. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "packages.h"

#define LOADERS 16u

/* Input and state of a fiber. */
struct job {
	struct party *party;
	uint32_t number;
	uint64_t random;
	struct nam_table_rows *rows;
	struct checker checker;
};

static uint32_t
draw_group(struct job *job)
{
	const struct catalogue *catalogue = job->party->catalogue;

	return catalogue->hot[example_random(&job->random, catalogue->hot_count)];
}

/* Whether to go on after that; what fails ends all fibers. */
static bool
goes_on(struct party *party, int rc)
{
	if (nam_err_is(rc, NAM_E_RESTART)) /* rows were replaced quicker than they could be read */
		party->counts[GAVE_UP]++;
	else if (rc && !party->rc)
		party->rc = rc;
	return !party->rc;
}

/* ---- writers --------------------------------------------------------------------------------- */

/* All packages of a group at once; or, unsafe, one after the other. */
NAM_FIBER_FN static int
release(struct party *party, uint32_t number, uint64_t stamp)
{
	const struct group *group = &party->catalogue->groups[number];
	struct nam_table_write writes[GROUP_MAX];
	struct row rows[GROUP_MAX];
	uint32_t each = party->options->unsafe ? 1 : group->count;
	int rc = 0;

	for (uint32_t i = 0; i < group->count; i++) {
		const struct package *package = &party->catalogue->packages[group->first + i];

		row_make(package, stamp, &rows[i]);
		writes[i] = (struct nam_table_write){ party->table, example_text(package->key),
			rows[i].columns };
	}
	for (uint32_t i = 0; i < group->count && !rc; i += each)
		rc = nam_table_write(party->worker, writes + i, each, NULL); /* SUSPENDS */
	party->counts[RELEASES] += !rc;
	party->counts[ROWS_WRITTEN] += rc ? 0 : group->count;
	return rc;
}

static void
run_loader(void *arg)
{
	struct job *job = arg;
	struct party *party = job->party;
	int rc = 0;

	while (goes_on(party, rc) && party->loaded < party->catalogue->groups_count)
		rc = release(party, party->loaded++, 0); /* SUSPENDS */
}

static void
run_writer(void *arg)
{
	struct job *job = arg;
	struct party *party = job->party;
	uint64_t stamp = ((uint64_t)party->process * FIBERS_MAX + job->number) << 40;
	int rc;

	do {
		stamp += 2;
		rc = release(party, draw_group(job),
			stamp + example_random(&job->random, 2)); /* SUSPENDS */
	} while (goes_on(party, rc) && now() < party->until);
}

/* ---- readers --------------------------------------------------------------------------------- */

static void
gets_make(const struct party *party, const struct group *group, struct nam_table_get *gets)
{
	for (uint32_t i = 0; i < group->count; i++)
		gets[i] = (struct nam_table_get){ party->table,
			example_text(party->catalogue->packages[group->first + i].key), NULL, 0 };
}

NAM_FIBER_FN static int
read_group(struct job *job, uint32_t number)
{
	const struct catalogue *catalogue = job->party->catalogue;
	const struct group *group = &catalogue->groups[number];
	struct nam_table_get gets[GROUP_MAX];
	struct checker *checker = &job->checker;
	int rc;

	gets_make(job->party, group, gets);
	rc = nam_table_read(job->party->worker, gets, group->count, job->rows); /* SUSPENDS */
	if (rc)
		return rc;
	answer_begin(checker);
	for (uint32_t i = 0; i < group->count; i++)
		if (gets[i].columns)
			check_row(checker, &gets[i].key, gets[i].columns);
		else
			report(checker, &checker->wrong, "it is lost",
				&catalogue->packages[group->first + i]);
	answer_end(checker, READS, group->count);
	return 0;
}

NAM_FIBER_FN static int
scan(struct job *job, const struct nam_table_range *range)
{
	int rc = nam_table_scan(job->party->worker, job->party->table, range,
		job->rows); /* SUSPENDS */

	if (rc)
		return rc;
	check_rows(&job->checker, job->rows);
	for (uint32_t i = 0; range->column != SIZE && i < nam_table_rows_count(job->rows); i++)
		if (!same(&nam_table_rows_at(job->rows, i)->columns[range->column], &range->low))
			report(&job->checker, &job->checker.wrong, "it was found by another value "
				"than it has", NULL);
	return 0;
}

/* A row that was read beside a scan of "proposed": both say whether it is there. */
static void
check_beside(struct checker *checker, const struct nam_table_get *get,
	const struct package *package)
{
	uint64_t stamp;

	if (!get->columns) {
		report(checker, &checker->wrong, "it is lost", package);
		return;
	}
	stamp = example_number(&get->columns[STAMP]);
	if (is_seen(checker, package) != stamp % 2 ||
		(stamp % 2 && checker->groups[package->group].stamp != stamp))
		report(checker, &checker->fractured, "its row and the index do not agree", package);
}

/* A package in "proposed" is there together with all packages of its source. */
NAM_FIBER_FN static int
scan_proposed(struct job *job, uint32_t number)
{
	const struct catalogue *catalogue = job->party->catalogue;
	const struct group *group = &catalogue->groups[number];
	struct nam_table_get gets[GROUP_MAX];
	const struct nam_table_range range = { .column = SECTION, .low = example_text(PROPOSED),
		.high = example_text(PROPOSED), .gets = gets, .gets_count = group->count };
	int rc;

	gets_make(job->party, group, gets);
	rc = scan(job, &range); /* SUSPENDS */
	if (rc)
		return rc;
	for (uint32_t i = 0; i < catalogue->hot_count; i++)
		check_whole(&job->checker, catalogue->hot[i]);
	for (uint32_t i = 0; i < group->count; i++)
		check_beside(&job->checker, &gets[i], &catalogue->packages[group->first + i]);
	answer_end(&job->checker, SCANS_SECTION, nam_table_rows_count(job->rows) + group->count);
	return 0;
}

/* Packages of about that size; releases make some of them a little larger meanwhile. */
NAM_FIBER_FN static int
scan_size(struct job *job, uint64_t size)
{
	const uint64_t most = size + 2 * SIZE_GROWS_MAX;
	const uint64_t low = htobe64(size), high = htobe64(most);
	const struct nam_table_range range = { .column = SIZE, .low = { &low, 8 },
		.high = { &high, 8 } };
	const struct catalogue *catalogue = job->party->catalogue;
	struct checker *checker = &job->checker;
	int rc = scan(job, &range); /* SUSPENDS */

	if (rc)
		return rc;
	for (uint32_t i = 0; i < catalogue->packages_count; i++) {
		const struct package *package = &catalogue->packages[i];
		bool found = is_seen(checker, package);

		if (!found && package->size >= size && package->size + SIZE_GROWS_MAX <= most)
			report(checker, &checker->wrong, "it is not found by its size", package);
		if (found && (package->size + SIZE_GROWS_MAX < size || package->size > most))
			report(checker, &checker->wrong, "it is found by another size", package);
	}
	answer_end(checker, SCANS_SIZE, nam_table_rows_count(job->rows));
	return 0;
}

/* All that a maintainer has: always there, wherever releases move it. */
NAM_FIBER_FN static int
scan_maintainer(struct job *job, const char *maintainer)
{
	const struct nam_bytes value = example_text(maintainer);
	const struct nam_table_range range = { .column = MAINTAINER, .low = value, .high = value };
	const struct catalogue *catalogue = job->party->catalogue;
	struct checker *checker = &job->checker;
	int rc = scan(job, &range); /* SUSPENDS */

	if (rc)
		return rc;
	for (uint32_t i = 0; i < catalogue->packages_count; i++) {
		const struct package *package = &catalogue->packages[i];

		if (!is_seen(checker, package) && strcmp(package->maintainer, maintainer) == 0)
			report(checker, &checker->wrong, "it is not found by its maintainer",
				package);
	}
	answer_end(checker, SCANS_MAINTAINER, nam_table_rows_count(job->rows));
	return 0;
}

/* Mostly by keys; scans take longer.  Four readers begin with one of each. */
static void
run_reader(void *arg)
{
	struct job *job = arg;
	struct party *party = job->party;
	uint32_t turn = job->number - party->options->writers;
	int rc;

	do {
		uint32_t group = draw_group(job);
		const struct package *package =
			&party->catalogue->packages[party->catalogue->groups[group].first];

		switch (turn++ % 16) {
		case 0:
			rc = scan_proposed(job, group); /* SUSPENDS */
			break;
		case 1:
			rc = scan_size(job, package->size); /* SUSPENDS */
			break;
		case 2:
			rc = scan_maintainer(job, package->maintainer); /* SUSPENDS */
			break;
		default:
			rc = read_group(job, group); /* SUSPENDS */
		}
	} while (goes_on(party, rc) && now() < party->until);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int
start(struct job *job, struct party *party, uint32_t number, nam_fiber_fn fn)
{
	int rc = 0;

	job->party = party;
	job->number = number;
	job->random = (uint64_t)party->process * 1000003 + number;
	if (fn == run_reader) {
		job->rows = nam_table_rows_new();
		rc = job->rows ? checker_init(&job->checker, party->catalogue, party->counts) :
			-ENOMEM;
	}
	return rc ? rc : nam_worker_spawn(party->worker, fn, job);
}

static int
run(struct party *party, uint32_t loaders, uint32_t writers, uint32_t readers)
{
	const uint32_t count = loaders + writers + readers;
	struct job *jobs = calloc(count, sizeof(*jobs));
	int rc = jobs ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < count && !rc; i++)
		rc = start(&jobs[i], party, i, i < loaders ? run_loader :
			i < loaders + writers ? run_writer : run_reader);
	if (rc && !party->rc)
		party->rc = rc; /* those that have begun end at once */
	nam_worker_run(party->worker);
	for (uint32_t i = 0; jobs && i < count; i++) {
		nam_table_rows_free(jobs[i].rows);
		checker_free(&jobs[i].checker);
	}
	free(jobs);
	return party->rc;
}

int
load(struct party *party)
{
	return run(party, LOADERS, 0, 0);
}

int
work(struct party *party)
{
	return run(party, 0, party->options->writers, party->options->readers);
}
