/* SPDX-License-Identifier: Apache-2.0 */
/* consumer.c -- a program outside this tree: uses each room of the library a little. */
#include <stdio.h>
#include <string.h>

#include <nam/nam.h>

int
main(void)
{
	struct nam_client_options client_options;
	struct nam_index_options index_options;
	struct nam_client *client;
	struct nam_diag diag = { "" };
	int rc;

	nam_client_options_init(&client_options);
	nam_index_options_init(&index_options);
	client_options.cluster = "shm:/nonexistent/nam-consumer";
	rc = nam_client_connect(&client_options, &client, &diag);
	printf("nam %s, keys of %u bytes; as expected: %s: %s\n", NAM_VERSION,
		index_options.key_bytes, nam_err_name(rc), diag.text);
	return nam_err_is(rc, NAM_E_FABRIC_CONNECT) && diag.text[0] ? 0 : 1;
}
