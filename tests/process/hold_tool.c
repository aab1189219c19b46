/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold_tool.c -- a client that has memory, and leads no name there.
 *
 *	hold_tool CLUSTER BLOCKS
 *
 * Prints how many blocks it has, with those that it has asked for and not handed out, and how many
 * bytes these are.  When its standard input ends, it gives all back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "compute/remote/block_cache.h"
#include "tests/lib/cluster.h"

#define STRIDE 1024u

int
main(int argc, char **argv)
{
	unsigned long count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	struct nam_gaddr *blocks = calloc(count + 1, sizeof(*blocks));
	struct nam_client *client;
	struct nam_worker *worker;
	uint64_t bytes, unsure;
	char byte;

	if (!count || !blocks)
		test_die("usage: hold_tool CLUSTER BLOCKS");
	client = test_connect(argv[1], "hold", 0);
	worker = test_worker(client);
	for (unsigned long i = 0; i < count; i++)
		if (nam_alloc(worker, STRIDE, &blocks[i]))
			test_die("no block: %s", nam_worker_diag(worker));
	nam__block_cache_bytes(worker, &bytes, &unsure);
	bytes += count * STRIDE;
	if (bytes % STRIDE || unsure)
		test_die("it has blocks of other sizes");
	printf("%llu %llu\n", (unsigned long long)bytes / STRIDE, (unsigned long long)bytes);
	(void)fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	for (unsigned long i = 0; i < count; i++)
		nam_free_unseen(worker, blocks[i], STRIDE);
	free(blocks);
	nam_worker_close(worker);
	nam_client_close(client);
	return 0;
}
