/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd_tool.c -- a client with as many workers, and so connections, as the memory server takes.
 *
 *	crowd_tool CLUSTER MOST
 *
 * Prints their number, and on a second line why there is not one more.  Holds them until its
 * standard input ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "compute/client.h"

int
main(int argc, char **argv)
{
	uint32_t most = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0, opened = 0;
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	struct nam_client *client;
	struct nam_worker *worker;
	char byte;

	if (!most)
		return 2;
	nam_client_options_init(&options);
	options.cluster = argv[1];
	if (nam_client_connect(&options, &client, &diag)) {
		(void)printf("none\n%s\n", diag.text);
		return 1;
	}
	while (opened < most && !nam_worker_open(client, &worker, &diag))
		opened++;
	(void)printf("%u\n%s\n", opened, opened < most ? diag.text : "all");
	(void)fflush(stdout);
	(void)!read(STDIN_FILENO, &byte, 1);
	return 0;
}
