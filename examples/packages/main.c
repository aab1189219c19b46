/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c -- a table on real data: Debian's packages, found by section, size and maintainer.
 *
 *	nam-memserver --id 0 --listen shm:/tmp/nam0 --memory 512M &
 *	nam-memserver --id 1 --listen shm:/tmp/nam1 --memory 512M &
 *	apt-cache dumpavail >/tmp/packages
 *	example_packages shm:/tmp/nam0,shm:/tmp/nam1 --catalogue /tmp/packages
 *
 * Writers of two processes release source packages.  One transaction stamps all packages of a
 * source, changes their sizes, and moves them to the section "proposed", or back.  Readers get them
 * by their keys and scan the indexes meanwhile.  An answer with half of a release is a fractured
 * read, and there is none.  With --unsafe each row is a transaction of its own, and there are many.
 */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "packages.h"

#define NAME "catalogue"
#define PROCESSES_MAX 8u
#define ROWS_MAX 1000000u
#define CACHE_BYTES (16u << 20)

static const struct nam_table_schema schema = {
	.columns = { "section", "size", "maintainer", "source", "stamp" },
	.columns_count = COLUMNS,
	.indexes = { { SECTION, 24 }, { SIZE, 8 }, { MAINTAINER, 32 } },
	.indexes_count = 3,
};

/* The processes beside the first one. */
struct processes {
	pid_t pids[PROCESSES_MAX];
	uint32_t count;
	int begin[2];			/* a pipe: each process waits for a byte */
	uint64_t (*counts)[COUNTS];	/* of all processes, in memory that they share */
};

struct program {
	struct options options;
	struct catalogue catalogue;
	struct party party;
	struct processes processes;
};

double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* ---- all processes --------------------------------------------------------------------------- */

static int
open_table(struct party *party, struct nam_worker *worker)
{
	int rc = nam_table_open(worker, NAME, CACHE_BYTES, &party->table);

	party->worker = worker;
	return rc ? example_failed("opening " NAME, rc, nam_worker_diag(worker)) : 0;
}

/* Write and read with all fibers of this process. */
static int
take_part(struct party *party)
{
	int rc;

	party->until = now() + party->options->seconds;
	rc = work(party);
	return rc ? example_failed("working", rc, nam_worker_diag(party->worker)) : 0;
}

/* ---- the other processes --------------------------------------------------------------------- */

static int
other_run(struct nam_worker *worker, void *arg)
{
	struct party *party = arg;
	int rc = open_table(party, worker);

	if (rc)
		return rc;
	rc = take_part(party);
	nam_table_close(worker, party->table);
	return rc;
}

/* Before the first process has threads. */
static int
processes_start(struct processes *processes, struct party *party)
{
	const uint32_t count = party->options->processes;
	char begin;

	processes->counts = mmap(NULL, count * sizeof(*processes->counts), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (processes->counts == MAP_FAILED || pipe(processes->begin))
		return -errno;
	for (uint32_t i = 1; i < count; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (pid > 0) {
			processes->pids[processes->count++] = pid;
			continue;
		}
		(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
		close(processes->begin[1]);
		if (read(processes->begin[0], &begin, 1) != 1)
			_exit(0); /* the first process has failed and has printed why */
		party->process = i;
		party->counts = processes->counts[i];
		_exit(example_run(party->options->cluster, other_run, party));
	}
	party->counts = processes->counts[0];
	return 0;
}

static int
processes_begin(const struct processes *processes)
{
	static const char bytes[PROCESSES_MAX];

	return write(processes->begin[1], bytes, processes->count) != processes->count ?
		example_failed("starting a process", -errno, "") : 0;
}

/* Wait until all have ended, and add their counts.  A second call does nothing. */
static int
processes_end(struct processes *processes, uint64_t *counts)
{
	int rc = 0, status;

	close(processes->begin[1]);
	processes->begin[1] = -1;
	for (; processes->count > 0; processes->count--) {
		pid_t pid = processes->pids[processes->count - 1];

		if (waitpid(pid, &status, 0) != pid || status != 0)
			rc = example_failed("another process", -ECHILD, "it did not end well");
		for (uint32_t i = 0; i < COUNTS; i++)
			counts[i] += processes->counts[processes->count][i];
	}
	return rc;
}

/* ---- the first process ----------------------------------------------------------------------- */

static int
load_table(struct party *party, struct result *result)
{
	double began = now();
	int rc = load(party);

	if (rc)
		return example_failed("loading", rc, nam_worker_diag(party->worker));
	result->load_seconds = now() - began;
	rc = report_shares(party, result);
	if (rc)
		return rc;
	print_loaded(party, result);
	for (uint32_t i = 0; i < COUNTS; i++)
		party->counts[i] = 0;
	return 0;
}

static void
print_violation(void *arg, const char *violation)
{
	(void)arg;
	fprintf(stderr, "%s\n", violation);
}

static int
verify_table(struct party *party, struct result *result)
{
	int rc = nam_table_vacuum(party->worker, party->table);

	if (!rc)
		rc = nam_table_verify(party->worker, party->table, print_violation, NULL,
			&result->stat, &result->violations);
	return rc ? example_failed("verifying", rc, nam_worker_diag(party->worker)) : 0;
}

/* Whether each kind of read has run, and every answer was right. */
static int
verdict(const struct party *party, const struct result *result)
{
	const uint64_t *counts = party->counts;

	for (uint32_t i = 0; i < ROWS_READ; i++)
		if (!counts[i]) {
			fprintf(stderr, "not everything was tried: take more --seconds\n");
			return -EAGAIN;
		}
	return counts[FRACTURED] || counts[WRONG] || result->violations ||
		result->stat.rows != party->catalogue->packages_count ? -NAM_E_REMOTE_CORRUPT : 0;
}

static int
use(struct party *party, struct processes *processes)
{
	struct result result = { .seconds = party->options->seconds };
	int rc = load_table(party, &result), end_rc;

	if (!rc)
		rc = processes_begin(processes);
	if (!rc)
		rc = take_part(party);
	end_rc = processes_end(processes, party->counts);
	if (!rc)
		rc = end_rc;
	if (!rc)
		rc = verify_table(party, &result);
	if (rc)
		return rc;
	print_worked(party, &result);
	if (party->options->json)
		rc = write_json(party, &result);
	return rc ? rc : verdict(party, &result);
}

static int
first_run(struct nam_worker *worker, void *arg)
{
	struct program *program = arg;
	struct party *party = &program->party;
	int rc = nam_table_create(worker, NAME, &schema), drop_rc;

	if (rc)
		return example_failed(rc == -NAM_E_INDEX_EXISTS ? "creating " NAME " (if a run of "
			"this program was killed: namctl table drop " NAME ")" :
			"creating " NAME, rc, nam_worker_diag(worker));
	rc = open_table(party, worker);
	if (!rc) {
		rc = use(party, &program->processes);
		nam_table_close(worker, party->table);
	}
	drop_rc = nam_table_drop(worker, NAME);
	if (drop_rc)
		example_failed("dropping " NAME, drop_rc, nam_worker_diag(worker));
	return rc ? rc : drop_rc;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* In the order of the table. */
enum { ROWS = 1, PROCESSES, WRITERS, READERS, SECONDS, CATALOGUE, UNSAFE, JSON };

static const struct argp_option known[] = {
	{ "rows", ROWS, "N", 0, "at most N packages (default 100000)", 0 },
	{ "processes", PROCESSES, "N", 0, "processes that do so (default 2)", 0 },
	{ "writers", WRITERS, "N", 0, "fibers of each that write (default 4)", 0 },
	{ "readers", READERS, "N", 0, "fibers of each that read and check (default 4)", 0 },
	{ "seconds", SECONDS, "N", 0, "how long to write and read (default 3)", 0 },
	{ "catalogue", CATALOGUE, "FILE", 0, "packages, as `apt-cache dumpavail` writes them "
		"(default /var/lib/dpkg/status)", 0 },
	{ "unsafe", UNSAFE, NULL, 0, "write each row by itself, to see the checks fail", 0 },
	{ "json", JSON, "FILE", 0, "figures for a program", 0 },
	{ 0 },
};

static void
take_count(struct argp_state *state, int key, const char *text, uint32_t max,
	uint32_t *ret_count)
{
	char *end;
	unsigned long count = strtoul(text, &end, 10);

	if (*end || *text < '0' || *text > '9' || !count || count > max)
		argp_error(state, "--%s: '%s' is not a number from 1 to %u", known[key - 1].name,
			text, max);
	*ret_count = (uint32_t)count;
}

static error_t
take(int key, char *text, struct argp_state *state)
{
	static const uint32_t most[] = { [ROWS] = ROWS_MAX, [PROCESSES] = PROCESSES_MAX,
		[WRITERS] = FIBERS_MAX, [READERS] = FIBERS_MAX };
	struct options *options = state->input;
	uint32_t *const counts[] = { [ROWS] = &options->rows, [PROCESSES] = &options->processes,
		[WRITERS] = &options->writers, [READERS] = &options->readers };
	char *end;

	if (key >= ROWS && key <= READERS) {
		take_count(state, key, text, most[key], counts[key]);
	} else if (key == SECONDS) {
		options->seconds = strtod(text, &end);
		if (*end || !(options->seconds > 0 && options->seconds <= 3600))
			argp_error(state, "--seconds: '%s' is not a number above 0, up to 3600",
				text);
	} else if (key == CATALOGUE) {
		options->catalogue = text;
	} else if (key == JSON) {
		options->json = text;
	} else if (key == UNSAFE) {
		options->unsafe = true;
	} else if (key == ARGP_KEY_ARG && !options->cluster) {
		options->cluster = text;
	} else if (key == ARGP_KEY_ARG || key == ARGP_KEY_NO_ARGS) {
		argp_usage(state);
	} else {
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

int
main(int argc, char **argv)
{
	static const struct argp argp = { known, take, "CLUSTER", "Write and check a table of "
		"Debian's packages.", NULL, NULL, NULL };
	struct program program = { .options = { .catalogue = "/var/lib/dpkg/status", .seconds = 3,
		.rows = 100000, .processes = 2, .writers = 4, .readers = 4 },
		.processes = { .begin = { -1, -1 } } };
	struct options *options = &program.options;
	int rc, end_rc;

	argp_err_exit_status = NAM_EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, options);
	if (catalogue_read(options->catalogue, options->rows, &program.catalogue))
		return 1;
	program.party = (struct party){ .options = options, .catalogue = &program.catalogue };
	rc = processes_start(&program.processes, &program.party);
	rc = rc ? example_failed("starting a process", rc, "") :
		example_run(options->cluster, first_run, &program);
	end_rc = processes_end(&program.processes, program.party.counts);
	catalogue_free(&program.catalogue);
	return rc || end_rc ? 1 : 0;
}
