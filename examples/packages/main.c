/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c -- a table on real data: Debian's packages, found by section, size and maintainer.
 *
 *	nam-memserver --id 0 --listen shm:/tmp/nam0 --memory 512M &
 *	nam-memserver --id 1 --listen shm:/tmp/nam1 --memory 512M &
 *	apt-cache dumpavail >/tmp/packages
 *	example_packages shm:/tmp/nam0,shm:/tmp/nam1 --catalogue /tmp/packages
 *
 * Writers of two processes release source packages: one transaction stamps all packages of a
 * source, changes their sizes, and moves them to the section "proposed", or back.  Readers get them
 * by their keys and scan the indexes meanwhile.  An answer with half of a release is a fractured
 * read, and there is none.  With --unsafe each row is a transaction of its own, and there are many.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int
failed(const char *what, int rc, const char *diag)
{
	fprintf(stderr, "%s: %s\n", what, *diag ? diag : nam_err_text(rc));
	return rc;
}

double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* ---- a member of the cluster ----------------------------------------------------------------- */

static int
join(const char *cluster, struct nam_client **ret_client, struct nam_worker **ret_worker)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	int rc;

	nam_client_options_init(&options);
	options.cluster = cluster;
	options.name = "packages";
	rc = nam_client_connect(&options, ret_client, &diag);
	if (rc)
		return failed("connecting", rc, diag.text);
	rc = nam_worker_open(*ret_client, ret_worker, &diag);
	if (rc) {
		nam_client_close(*ret_client);
		return failed("opening a worker", rc, diag.text);
	}
	return 0;
}

static void
leave(struct nam_client *client, struct nam_worker *worker)
{
	nam_worker_close(worker);
	nam_client_close(client);
}

static int
open_table(struct party *party)
{
	int rc = nam_table_open(party->worker, NAME, CACHE_BYTES, &party->table);

	return rc ? failed("opening " NAME, rc, nam_worker_diag(party->worker)) : 0;
}

/* Write and read with all fibers of this process. */
static int
take_part(struct party *party)
{
	int rc;

	party->until = now() + party->options->seconds;
	rc = work(party);
	return rc ? failed("working", rc, nam_worker_diag(party->worker)) : 0;
}

/* ---- the other processes --------------------------------------------------------------------- */

/* They begin when they are sent a byte, and send back what they counted. */
struct other {
	pid_t pid;
	int to, from;
};

struct thread_pool {
	struct other others[PROCESSES_MAX];
	uint32_t count;
	bool begun;
};

static int
other_run(struct party *party)
{
	struct nam_client *client;
	int rc = join(party->options->cluster, &client, &party->worker);

	if (rc)
		return rc;
	rc = open_table(party);
	if (!rc) {
		rc = take_part(party);
		nam_table_close(party->worker, party->table);
	}
	leave(client, party->worker);
	return rc;
}

static _Noreturn void
other_main(struct party *party, int from, int to)
{
	char begin;

	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (read(from, &begin, 1) != 1)
		_exit(0); /* the first process has failed, and said so */
	if (other_run(party) != 0)
		_exit(1);
	_exit(write(to, party->counts, sizeof(party->counts)) != sizeof(party->counts));
}

/* Before the first process has threads. */
static int
other_start(struct thread_pool *pool, struct party *party)
{
	struct other *other = &pool->others[pool->count];
	int to[2], from[2], rc;

	if (pipe(to))
		return -errno;
	if (pipe(from)) {
		rc = -errno;
		goto close_to;
	}
	party->process = pool->count + 1;
	other->pid = fork();
	if (other->pid < 0) {
		rc = -errno;
		goto close_from;
	}
	if (other->pid == 0) {
		for (uint32_t i = 0; i < pool->count; i++)
			close(pool->others[i].to); /* they are to see it closed */
		close(to[1]);
		other_main(party, to[0], from[1]);
	}
	party->process = 0;
	other->to = to[1];
	other->from = from[0];
	close(to[0]);
	close(from[1]);
	pool->count++;
	return 0;
close_from:
	close(from[0]);
	close(from[1]);
close_to:
	close(to[0]);
	close(to[1]);
	return rc;
}

static int
thread_pool_begin(struct thread_pool *pool)
{
	for (uint32_t i = 0; i < pool->count; i++)
		if (write(pool->others[i].to, "!", 1) != 1)
			return failed("starting a process", -errno, "");
	pool->begun = true;
	return 0;
}

/* Wait for their ends, and add what they counted.  Once more is nothing. */
static int
thread_pool_end(struct thread_pool *pool, uint64_t *counts)
{
	uint64_t more[COUNTS];
	int rc = 0, status;

	while (pool->count > 0) {
		const struct other *other = &pool->others[--pool->count];
		bool counted;

		close(other->to);
		counted = read(other->from, more, sizeof(more)) == sizeof(more);
		close(other->from);
		if (waitpid(other->pid, &status, 0) != other->pid || status != 0 ||
			counted != pool->begun)
			rc = failed("another process", -ECHILD, "it did not end well");
		for (uint32_t i = 0; counted && i < COUNTS; i++)
			counts[i] += more[i];
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
		return failed("loading", rc, nam_worker_diag(party->worker));
	result->load_seconds = now() - began;
	rc = report_shares(party, result);
	if (rc)
		return rc;
	print_loaded(party, result);
	memset(party->counts, 0, sizeof(party->counts));
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
	int rc = nam_table_settle(party->worker, party->table);

	if (!rc)
		rc = nam_table_verify(party->worker, party->table, print_violation, NULL,
			&result->stat, &result->violations);
	return rc ? failed("verifying", rc, nam_worker_diag(party->worker)) : 0;
}

/* Whether everything was looked at, and was right. */
static int
judge(const struct party *party, const struct result *result)
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
use(struct party *party, struct thread_pool *pool)
{
	struct result result = { .seconds = party->options->seconds };
	int rc = load_table(party, &result), end_rc;

	if (!rc)
		rc = thread_pool_begin(pool);
	if (!rc)
		rc = take_part(party);
	end_rc = thread_pool_end(pool, party->counts);
	if (!rc)
		rc = end_rc;
	if (!rc)
		rc = verify_table(party, &result);
	if (rc)
		return rc;
	print_worked(party, &result);
	if (party->options->json)
		rc = write_json(party, &result);
	return rc ? rc : judge(party, &result);
}

static int
with_worker(struct party *party, struct thread_pool *pool)
{
	int rc = nam_table_create(party->worker, NAME, &schema), drop_rc;

	if (rc)
		return failed("creating " NAME, rc, nam_worker_diag(party->worker));
	rc = open_table(party);
	if (!rc) {
		rc = use(party, pool);
		nam_table_close(party->worker, party->table);
	}
	drop_rc = nam_table_drop(party->worker, NAME);
	if (drop_rc)
		failed("dropping " NAME, drop_rc, nam_worker_diag(party->worker));
	return rc ? rc : drop_rc;
}

static int
first_run(struct party *party, struct thread_pool *pool)
{
	struct nam_client *client;
	int rc = join(party->options->cluster, &client, &party->worker);

	if (rc)
		return rc;
	rc = with_worker(party, pool);
	leave(client, party->worker);
	return rc;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int
usage(const char *program)
{
	fprintf(stderr, "usage: %s shm:PATH,shm:PATH [OPTION]...\n"
		"  --catalogue FILE  packages, as `apt-cache dumpavail` writes them (default\n"
		"                    /var/lib/dpkg/status)\n"
		"  --rows N          so many packages at the most (default 100000)\n"
		"  --seconds N       how long to write and read (default 3)\n"
		"  --processes N     that do so (default 2)\n"
		"  --writers N       fibers of each that write (default 4)\n"
		"  --readers N       fibers of each that read and check (default 4)\n"
		"  --unsafe          write each row by itself, to see the checks fail\n"
		"  --json FILE       figures for a program\n", program);
	return 2;
}

static bool
parse_count(const char *value, uint32_t max, uint32_t *ret_count)
{
	char *end;
	unsigned long count = strtoul(value, &end, 10);

	if (*end || *value < '0' || *value > '9' || !count || count > max)
		return false;
	*ret_count = (uint32_t)count;
	return true;
}

static bool
parse_option(int option, const char *value, struct options *options)
{
	char *end;

	switch (option) {
	case 'c':
		options->catalogue = value;
		return true;
	case 'j':
		options->json = value;
		return true;
	case 'u':
		options->unsafe = true;
		return true;
	case 'n':
		return parse_count(value, ROWS_MAX, &options->rows);
	case 'p':
		return parse_count(value, PROCESSES_MAX, &options->processes);
	case 'w':
		return parse_count(value, FIBERS_MAX, &options->writers);
	case 'r':
		return parse_count(value, FIBERS_MAX, &options->readers);
	case 's':
		options->seconds = strtod(value, &end);
		return !*end && options->seconds > 0 && options->seconds <= 3600;
	default:
		return false;
	}
}

static bool
parse(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{ "catalogue", required_argument, NULL, 'c' },
		{ "rows", required_argument, NULL, 'n' },
		{ "seconds", required_argument, NULL, 's' },
		{ "processes", required_argument, NULL, 'p' },
		{ "writers", required_argument, NULL, 'w' },
		{ "readers", required_argument, NULL, 'r' },
		{ "unsafe", no_argument, NULL, 'u' },
		{ "json", required_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1)
		if (!parse_option(option, optarg, options))
			return false;
	if (optind != argc - 1)
		return false;
	options->cluster = argv[optind];
	return true;
}

int
main(int argc, char **argv)
{
	struct options options = { .catalogue = "/var/lib/dpkg/status", .seconds = 3,
		.rows = 100000, .processes = 2, .writers = 4, .readers = 4 };
	struct catalogue catalogue;
	struct party party = { .options = &options, .catalogue = &catalogue };
	struct thread_pool pool = { .count = 0 };
	int rc = 0, end_rc;

	if (!parse(argc, argv, &options))
		return usage(argv[0]);
	(void)signal(SIGPIPE, SIG_IGN); /* of a process that was killed before it has begun */
	if (catalogue_read(options.catalogue, options.rows, &catalogue))
		return 1;
	for (uint32_t i = 1; i < options.processes && !rc; i++)
		rc = other_start(&pool, &party);
	rc = rc ? failed("starting a process", rc, "") : first_run(&party, &pool);
	end_rc = thread_pool_end(&pool, party.counts);
	catalogue_free(&catalogue);
	return rc || end_rc ? 1 : 0;
}
