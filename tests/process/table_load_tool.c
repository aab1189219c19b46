/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_load_tool.c -- a client that reads, replaces and adds rows of a table.
 *
 *	table_load_tool CLUSTER SECONDS PER_CENT
 *
 * PER_CENT of the operations add a row; of the others half read one and half replace one, by
 * YCSB's zipfian keys.  Ends after SECONDS, or earlier by SIGINT or SIGTERM.  Prints JSON: the
 * operations, those that failed or had a wrong answer, the rows that were added, and the longest
 * operation in ns.  The exit status is 1 if one failed, and 2 if the work could not begin.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/load/distribution.h"
#include "nam.h"

#define NAME "load"
#define ROWS 5000u
#define FIBERS 16u
#define CACHE_BYTES (16u << 20)

enum { NUMBER, TEXT, COLUMNS };

static const struct nam_table_schema schema = {
	.columns = { "number", "text" },
	.columns_count = COLUMNS,
	.indexes = { { NUMBER, 8 } },
	.indexes_count = 1,
};

static struct load {
	struct nam_worker *worker;
	struct nam_table *table;
	struct nam_rng rng;
	struct zipf zipf;
	uint32_t add_percent;
	uint64_t until_ns, rows, ops, failed, max_ns;
} load;

static volatile sig_atomic_t stop;

static void
on_signal(int number)
{
	(void)number;
	stop = 1;
}

static struct nam_bytes
key_of(uint64_t number, char text[24])
{
	return (struct nam_bytes){ text, (uint32_t)snprintf(text, 24, "row%" PRIu64, number) };
}

static void
failed(const char *what, int rc)
{
	load.failed++;
	(void)fprintf(stderr, "%s: %s (%s)\n", what, rc ? nam_err_text(rc) : "wrong answer",
		rc ? nam_worker_diag(load.worker) : "");
}

/* The first column is the row's number for good. */
NAM_FIBER_FN static void
put(uint64_t number)
{
	static const char text[] = "thirty-two bytes of some column.";
	struct nam_bytes columns[COLUMNS] = { { &number, sizeof(number) }, { text, 32 } };
	char key[24];
	int rc = nam_table_put(load.worker, load.table, key_of(number, key),
		columns); /* SUSPENDS */

	if (rc)
		failed("put", rc);
}

NAM_FIBER_FN static void
get(uint64_t number, struct nam_table_rows *rows)
{
	char key[24];
	struct nam_table_get one = { .table = load.table, .key = key_of(number, key) };
	int rc = nam_table_read(load.worker, &one, 1, rows); /* SUSPENDS */

	if (rc || !one.columns || one.columns[NUMBER].bytes != sizeof(number) ||
		memcmp(one.columns[NUMBER].data, &number, sizeof(number)) != 0)
		failed("get", rc);
}

static void
fiber_main(void *arg)
{
	struct nam_table_rows *rows = nam_table_rows_new();
	uint64_t last_ns = nam_now_ns(), now_ns;

	(void)arg;
	while (rows && !stop && last_ns < load.until_ns) {
		if (nam_rng_below(&load.rng, 100) < load.add_percent)
			put(load.rows++); /* SUSPENDS */
		else if (nam_rng_below(&load.rng, 2))
			put(zipf_next(&load.zipf, &load.rng)); /* SUSPENDS */
		else
			get(zipf_next(&load.zipf, &load.rng), rows); /* SUSPENDS */
		now_ns = nam_now_ns();
		if (now_ns - last_ns > load.max_ns)
			load.max_ns = now_ns - last_ns;
		load.ops++;
		last_ns = now_ns;
	}
	nam_table_rows_free(rows);
}

static int
work(void)
{
	int rc = nam_table_create(load.worker, NAME, &schema);

	if (!rc)
		rc = nam_table_open(load.worker, NAME, CACHE_BYTES, &load.table);
	if (rc)
		return rc;
	while (load.rows < ROWS && !load.failed)
		put(load.rows++);
	for (unsigned i = 0; i < FIBERS && !rc; i++)
		rc = nam_worker_spawn(load.worker, fiber_main, NULL);
	nam_worker_run(load.worker);
	nam_table_close(load.worker, load.table);
	return rc;
}

int
main(int argc, char **argv)
{
	struct nam_client_options options;
	struct nam_client *client;
	struct nam_diag diag = { "" };
	int rc;

	if (argc != 4)
		return 2;
	(void)signal(SIGINT, on_signal);
	(void)signal(SIGTERM, on_signal);
	nam_client_options_init(&options);
	options.cluster = argv[1];
	options.name = "table-load";
	load.until_ns = nam_now_ns() + (uint64_t)(strtod(argv[2], NULL) * 1e9);
	load.add_percent = (uint32_t)strtoul(argv[3], NULL, 10);
	load.rng = nam_rng_seed(1);
	zipf_init(&load.zipf, ROWS, 0.99);
	if (nam_client_connect(&options, &client, &diag) ||
		nam_worker_open(client, &load.worker, &diag)) {
		(void)fprintf(stderr, "%s\n", diag.text);
		return 2;
	}
	rc = work();
	if (rc)
		(void)fprintf(stderr, "%s (%s)\n", nam_err_text(rc), nam_worker_diag(load.worker));
	(void)printf("{\"ops\": %" PRIu64 ", \"errors\": %" PRIu64 ", \"added\": %" PRIu64
		     ", \"max_ns\": %" PRIu64 "}\n",
		load.ops, load.failed, load.rows - ROWS, load.max_ns);
	nam_worker_close(load.worker);
	nam_client_close(client);
	return rc ? 2 : load.failed > 0;
}
