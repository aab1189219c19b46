/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c -- clients without an id, which lock nothing: they ask one memory server. */
#include <errno.h>
#include <stdio.h>

#include "compute/worker/worker.h"

int
nam__asker_open(const struct nam_client_options *options, const char *address, bool waits,
	struct nam_client **ret_client, struct nam_diag *diag)
{
	struct nam_client *client = nam__client_new(options);
	struct nam_cluster_server at = { .id = -1 };
	int rc;

	if (!client)
		return nam_diag_set(diag, -ENOMEM, "no memory for a client");
	(void)snprintf(at.listen, sizeof(at.listen), "%s", address);
	client->asks_only = !waits;
	rc = nam__servers_open(client, &at, 1, diag);
	if (!rc)
		rc = nam__worker_new(client, &client->epoch_worker, diag);
	*ret_client = client;
	return rc;
}
