/* SPDX-License-Identifier: Apache-2.0 */
/* example.c -- what all examples but hello_index share. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "example.h"

int
example_failed(const char *what, int rc, const char *diag)
{
	fprintf(stderr, "%s: %s\n", what, *diag ? diag : nam_err_text(rc));
	return rc;
}

int
example_run(const char *cluster, int (*use)(struct nam_worker *worker, void *arg), void *arg)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	struct nam_client *client;
	struct nam_worker *worker;
	int rc;

	nam_client_options_init(&options);
	options.cluster = cluster;
	options.name = program_invocation_short_name;
	rc = nam_client_connect(&options, &client, &diag);
	if (rc) {
		example_failed("connecting", rc, diag.text);
		return 1;
	}
	rc = nam_worker_open(client, &worker, &diag);
	if (rc) {
		example_failed("opening a worker", rc, diag.text);
	} else {
		rc = use(worker, arg);
		nam_worker_close(worker);
	}
	nam_client_close(client);
	return rc ? 1 : 0;
}

int
example_main(int argc, char **argv, const char *more,
	int (*use)(struct nam_worker *worker, void *arg), void *arg)
{
	bool help = argc == 2 && !strcmp(argv[1], "--help");

	if (argc == 2 && *argv[1] != '-')
		return example_run(argv[1], use, arg);
	fprintf(help ? stdout : stderr, "Usage: %s shm:PATH,shm:PATH %s\n", argv[0], more);
	return help ? 0 : 2;
}

static int
with_index(struct nam_worker *worker, void *arg)
{
	const struct example_index *wanted = arg;
	struct nam_index_options options;
	struct nam_index *index;
	int rc, drop_rc;

	nam_index_options_init(&options);
	options.unique = wanted->unique;
	rc = nam_index_create(worker, wanted->name, &options);
	if (rc)
		return example_failed("creating the index", rc, nam_worker_diag(worker));
	rc = nam_index_open(worker, wanted->name, 16 << 20, &index); /* 16 MiB for inner nodes */
	if (rc) {
		example_failed("opening the index", rc, nam_worker_diag(worker));
	} else {
		rc = wanted->use(worker, index);
		nam_index_close(index);
	}
	drop_rc = nam_index_drop(worker, wanted->name);
	if (drop_rc)
		example_failed("dropping the index", drop_rc, nam_worker_diag(worker));
	return rc ? rc : drop_rc;
}

int
example_index_main(int argc, char **argv, struct example_index index)
{
	return example_main(argc, argv, "", with_index, &index);
}

uint32_t
example_random(uint64_t *state, uint32_t end)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((*state >> 33) % end);
}

struct nam_bytes
example_text(const char *text)
{
	return (struct nam_bytes){ text, (uint32_t)strlen(text) };
}

uint64_t
example_number(const struct nam_bytes *column)
{
	return column->bytes == 8 ? nam_key_to_u64(column->data) : UINT64_MAX;
}
