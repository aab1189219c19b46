/* SPDX-License-Identifier: Apache-2.0 */
/* server.c -- the memory server as a library, outside this tree: links, and refuses bad options. */
#include <stdio.h>

#include <nam/common/error.h>
#include <nam/memserver/server.h>

int
main(void)
{
	struct nam_server_options options;

	nam_server_options_init(&options);
	printf("pages: %d\n", (int)options.pages);
	return 0;
}
