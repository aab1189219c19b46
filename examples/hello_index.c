/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello_index.c -- join a cluster, make an index, add pairs, find them, delete one, leave.
 *
 *	nam-memserver --id 0 --listen shm:/tmp/nam0 --memory 64M &
 *	nam-memserver --id 1 --listen shm:/tmp/nam1 --memory 64M &
 *	example_hello_index shm:/tmp/nam0,shm:/tmp/nam1
 *
 * Run it twice: the second time the index is there already, with what the first run left in it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <nam/nam.h>

/* Functions return 0 or a negative code; a diag, where there is one, says more than the code. */
static int
failed(const char *what, int rc, const char *diag)
{
	fprintf(stderr, "%s: %s\n", what, *diag ? diag : nam_err_text(rc));
	return rc;
}

static int
use(struct nam_worker *worker, struct nam_index *index)
{
	unsigned char key[8];
	uint64_t payload;
	int rc;

	for (uint64_t number = 1; number <= 3; number++) {
		nam_key_from_u64(number, key);
		rc = nam_index_insert(worker, index, key, number * 100);
		if (nam_err_is(rc, NAM_E_EXISTS))
			printf("key %" PRIu64 " was there already\n", number);
		else if (rc)
			return failed("insert", rc, nam_worker_diag(worker));
	}

	nam_key_from_u64(2, key);
	rc = nam_index_lookup(worker, index, key, &payload);
	if (rc)
		return failed("lookup", rc, nam_worker_diag(worker));
	printf("key 2 has payload %" PRIu64 "\n", payload);

	rc = nam_index_delete(worker, index, key);
	if (rc)
		return failed("delete", rc, nam_worker_diag(worker));
	rc = nam_index_lookup(worker, index, key, &payload);
	if (!nam_err_is(rc, NAM_E_NOTFOUND))
		return failed("lookup of a deleted key", rc ? rc : -NAM_E_EXISTS, "");
	printf("key 2 is gone: %s\n", nam_err_text(rc));
	return 0;
}

/* The first program creates the index; later ones open it by its name. */
static int
open_index(struct nam_worker *worker, const char *name, struct nam_index **ret_index)
{
	struct nam_index_options options;
	int rc;

	nam_index_options_init(&options); /* unique keys of 8 bytes, nodes of 1 KiB */
	rc = nam_index_create(worker, name, &options);
	if (rc && !nam_err_is(rc, NAM_E_INDEX_EXISTS))
		return failed("creating the index", rc, nam_worker_diag(worker));
	rc = nam_index_open(worker, name, 1 << 20, ret_index); /* 1 MiB for inner nodes */
	return rc ? failed("opening the index", rc, nam_worker_diag(worker)) : 0;
}

int
main(int argc, char **argv)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
	int rc;

	if (argc != 2 || *argv[1] == '-') {
		rc = argc == 2 && !strcmp(argv[1], "--help");
		fprintf(rc ? stdout : stderr, "Usage: %s shm:PATH,shm:PATH\n", argv[0]);
		return rc ? 0 : 2;
	}
	nam_client_options_init(&options);
	options.cluster = argv[1];
	options.name = "hello_index";
	rc = nam_client_connect(&options, &client, &diag);
	if (rc) {
		failed("connecting", rc, diag.text);
		return 1;
	}
	rc = nam_worker_open(client, &worker, &diag); /* one for each thread */
	if (rc) {
		failed("opening a worker", rc, diag.text);
		goto close_client;
	}
	rc = open_index(worker, "hello", &index);
	if (rc)
		goto close_worker;
	rc = use(worker, index);
	nam_index_close(index); /* the index stays where it is: in the memory servers */
close_worker:
	nam_worker_close(worker);
close_client:
	nam_client_close(client);
	return rc ? 1 : 0;
}
