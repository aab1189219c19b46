/* SPDX-License-Identifier: Apache-2.0 */
/* server.c -- the memory server as a library, outside this tree, and a client beside it. */
#include <pthread.h>
#include <stdio.h>

#include <nam/memserver/server.h>
#include <nam/nam.h>

static void *
run(void *server)
{
	return nam_server_run(server) ? server : NULL;
}

/* Its argument is an address to listen at, "shm:PATH". */
int
main(int argc, char **argv)
{
	struct nam_server_options options;
	struct nam_client_options client_options;
	struct nam_server *server;
	struct nam_client *client;
	struct nam_diag notice = { "" }, diag = { "" };
	pthread_t thread;
	void *failed;
	int rc;

	nam_server_options_init(&options);
	nam_client_options_init(&client_options);
	options.listen = client_options.cluster = argc > 1 ? argv[1] : "";
	options.memory_bytes = options.region_bytes = 4 << 20;
	rc = nam_server_start(&options, &server, &notice, &diag);
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", nam_err_name(rc), diag.text);
		return 1;
	}
	if (pthread_create(&thread, NULL, run, server)) {
		return 1;
	}
	rc = nam_client_connect(&client_options, &client, &diag);
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", nam_err_name(rc), diag.text);
	} else {
		printf("%u memory server\n", nam_client_servers(client));
		nam_client_close(client);
	}
	nam_server_stop(server);
	pthread_join(thread, &failed);
	nam_server_destroy(server);
	return rc < 0 || failed;
}
