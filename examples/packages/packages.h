/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packages.h -- what the files of this example share.
 *
 * main.c runs processes; catalogue.c reads packages; work.c has the fibers that write and read.
 * rows.c makes rows and checks them; report.c prints the result.
 */
#ifndef EXAMPLES_PACKAGES_H
#define EXAMPLES_PACKAGES_H

#include "../lib/example.h"

#define PROPOSED "proposed"
#define GROUP_MAX 16u			/* packages that are released together, at the most */
#define HOT_MAX 64u			/* so many groups are written */
#define FIBERS_MAX 32u			/* writers of a process; readers, too */

struct options {
	const char *cluster, *catalogue, *json;
	double seconds;
	uint32_t rows, writers, readers, processes;
	bool unsafe;
};

/* Seconds. */
double now(void);

/* ---- catalogue.c ----------------------------------------------------------------------------- */

struct package {
	char *key;			/* name and version, allocated */
	char *section, *maintainer, *source;	/* in the text of the catalogue */
	uint64_t size;			/* KiB */
	uint32_t group;
};

/* The packages of one source, or so many of them as are released together. */
struct group {
	uint32_t first, count;
};

struct catalogue {
	char *text;			/* the file, cut at the ends of its lines */
	struct package *packages;	/* by source, then by key */
	uint32_t packages_count;
	uint32_t sources_count;
	struct group *groups;
	uint32_t groups_count;
	uint32_t hot[HOT_MAX];		/* those that are written, each of several packages */
	uint32_t hot_count;
};

/* A failure is printed. */
int catalogue_read(const char *path, uint32_t rows_max, struct catalogue *ret_catalogue);
void catalogue_free(struct catalogue *catalogue);

/* Without the key NULL. */
const struct package *catalogue_find(const struct catalogue *catalogue,
	const struct nam_bytes *source, const struct nam_bytes *key);

/* ---- rows.c ---------------------------------------------------------------------------------- */

enum column { SECTION, SIZE, MAINTAINER, SOURCE, STAMP, COLUMNS };

/*
 * A release's stamp is its number, and in the lowest bit whether it is to "proposed".  All other
 * columns follow from it, so a row that is not of one release shows.
 */
struct row {
	uint64_t size, stamp;		/* big-endian */
	struct nam_bytes columns[COLUMNS];
};

#define SIZE_GROWS_MAX 15u		/* KiB, by a release */

bool same(const struct nam_bytes *a, const struct nam_bytes *b);
void row_make(const struct package *package, uint64_t stamp, struct row *row);

enum count {
	RELEASES, ROWS_WRITTEN,
	READS, SCANS_SECTION, SCANS_SIZE, SCANS_MAINTAINER, ROWS_READ, GAVE_UP, FRACTURED, WRONG,
	COUNTS
};

struct group_seen {
	uint32_t answer, rows;
	uint64_t stamp;
};

/* Checks answers, one after the other, and counts them. */
struct checker {
	const struct catalogue *catalogue;
	uint64_t *counts;
	uint32_t answer;		/* its number: what was seen in another was not in this */
	uint32_t *seen;			/* of each package: in which answer */
	struct group_seen *groups;
	bool fractured, wrong;
};

int checker_init(struct checker *checker, const struct catalogue *catalogue, uint64_t *counts);
void checker_free(struct checker *checker);
void answer_begin(struct checker *checker);
/* A row: it is of one release, here once, and of the same release as the rest of its source. */
void check_row(struct checker *checker, const struct nam_bytes *key,
	const struct nam_bytes *columns);
/* Begin an answer and check all its rows. */
void check_rows(struct checker *checker, const struct nam_table_rows *rows);
/* If one of the group is here, all are. */
void check_whole(struct checker *checker, uint32_t group);
bool is_seen(const struct checker *checker, const struct package *package);
/* @what	&checker->wrong or &checker->fractured; of the first answer it is printed why */
void report(struct checker *checker, bool *what, const char *why, const struct package *package);
void answer_end(struct checker *checker, enum count what, uint32_t rows);

/* ---- work.c ---------------------------------------------------------------------------------- */

/* Shared by all fibers of a process. */
struct party {
	const struct options *options;
	const struct catalogue *catalogue;
	struct nam_worker *worker;
	struct nam_table *table;
	uint32_t process;
	double until;
	uint64_t *counts;		/* [COUNTS] */
	uint32_t loaded;		/* groups */
	int rc;
};

/* Put all packages. */
int load(struct party *party);
/* Write and read until it is time. */
int work(struct party *party);

/* ---- report.c -------------------------------------------------------------------------------- */

#define TOP 5u

/* Packages whose column has one value. */
struct share {
	char name[128];
	uint64_t packages;
	uint64_t size;			/* KiB */
};

struct result {
	double load_seconds, seconds;
	struct share sections[TOP], maintainers[TOP], largest[TOP];
	struct nam_table_stat stat;
	uint64_t violations;
};

/* Scan each index from end to end for the largest.  -NAM_E_REMOTE_CORRUPT: packages are missing. */
int report_shares(struct party *party, struct result *result);

void print_loaded(const struct party *party, const struct result *result);
void print_worked(const struct party *party, const struct result *result);
int write_json(const struct party *party, const struct result *result);

#endif /* EXAMPLES_PACKAGES_H */
