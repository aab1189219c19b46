/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c -- a client from nam_client_connect() to nam_client_close().
 *
 * The epoch thread's worker connects first.  Its connection to server 0 is the session connection,
 * so it stays until the client is closed.  All that a server says is checked before use (C1).
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "compute/remote/epoch.h"
#include "common/rpc/frame.h"
#include "compute/remote/lock.h"

/* ---- life --------------------------------------------------------------------------------- */

/* From seeds to a member of the cluster.  nam__client_free() frees partial results. */
NAM_FIBER_FN static int
client_join(struct nam_client *client, const struct nam_cluster *cluster, const char *text,
	struct nam_diag *diag)
{
	int rc = nam__cluster_join(client, cluster, text, diag); /* SUSPENDS */

	if (rc)
		return rc;
	for (uint32_t slot = 0; slot < client->servers_count; slot++)
		nam__colocated_open(client, slot); /* SUSPENDS */
	rc = nam__lock_table_new(&client->locks);
	if (rc)
		return nam_diag_set(diag, rc, "no memory for the lock table");
	client->view_follow = nam__view_follow;
	client->view_leave = nam__view_leave;
	return nam__epoch_thread_start(client, diag); /* SUSPENDS */
}

int
nam__cluster_read(const struct nam_client_options *options, struct nam_cluster **ret_cluster,
	struct nam_diag *diag)
{
	struct nam_cluster *cluster = NULL;
	int rc;

	if (!options->cluster || !options->cluster[0])
		return nam_diag_set(diag, -EINVAL,
			"no cluster is named; give the memory servers' addresses "
			"(\"shm:PATH,shm:PATH\") or \"@FILE\"");
	cluster = calloc(1, sizeof(*cluster));
	if (!cluster)
		return nam_diag_set(diag, -ENOMEM, "no memory for the cluster's addresses");
	rc = nam_cluster_parse(options->cluster, cluster, diag);
	if (rc)
		free(cluster);
	else
		*ret_cluster = cluster;
	return rc;
}

/* Check the options of RPC transports; the environment sets what they leave open. */
static int
transport_choose(struct nam_client_options *options, struct nam_diag *diag)
{
	const char *name = getenv("NAM_TRANSPORT");

	if (options->transport >= NAM_TRANSPORTS_COUNT)
		return nam_diag_set(diag, -EINVAL, "there is no RPC transport %d",
			options->transport);
	if (options->frame_bytes && (options->frame_bytes % 64 ||
		options->frame_bytes < NAM_FRAME_BYTES_MIN ||
		options->frame_bytes > NAM_FRAME_BYTES_MAX))
		return nam_diag_set(diag, -EINVAL, "frames of %u bytes: they take a multiple of "
			"64 from %u to %u", options->frame_bytes, NAM_FRAME_BYTES_MIN,
			NAM_FRAME_BYTES_MAX);
	if (options->fetch_bytes && (options->fetch_bytes < NAM_FRAME_OVERHEAD ||
		options->fetch_bytes > NAM_FRAME_BYTES_MAX))
		return nam_diag_set(diag, -EINVAL, "a fetch of %u bytes: it takes %u to %u",
			options->fetch_bytes, NAM_FRAME_OVERHEAD, NAM_FRAME_BYTES_MAX);
	if (options->transport != NAM_TRANSPORT_DEFAULT || !name || !*name)
		return 0;
	if (nam_transport_find(name) < 0)
		return nam_diag_set(diag, -EINVAL, "NAM_TRANSPORT in the environment is '%s'; "
			"known are srq, mailbox, fetch and datagram", name);
	options->transport = (enum nam_transport)nam_transport_find(name);
	return 0;
}

/* To be called once the seeds are connected. */
typedef int (*come_fn)(struct nam_client *client, const struct nam_cluster *cluster,
	const char *text, struct nam_diag *diag);

NAM_FIBER_FN static int
client_make(const struct nam_client_options *asked, come_fn come, struct nam_client **ret_client,
	struct nam_diag *diag)
{
	struct nam_client_options options = *asked;
	struct nam_cluster *cluster = NULL;
	struct nam_client *client;
	int rc = transport_choose(&options, diag);

	if (!rc)
		rc = nam__cluster_read(&options, &cluster, diag);
	if (rc)
		return rc;
	do {
		client = nam__client_new(&options);
		if (!client) {
			rc = nam_diag_set(diag, -ENOMEM, "no memory for a client");
			break;
		}
		nam__epoch_thread_prepare(client);
		rc = nam__servers_open(client, cluster->servers, cluster->count, diag);
		if (!rc)
			rc = come(client, cluster, options.cluster, diag); /* SUSPENDS */
		if (rc)
			nam__client_free(client);
		else
			*ret_client = client;
	} while (rc && (nam_err_is(rc, NAM_E_FABRIC_CONNECT) || nam_err_is(rc, NAM_E_CLUSTER) ||
			nam_err_is(rc, NAM_E_FABRIC_MOVED)) &&
		nam__seeds_leave_out(&options, cluster)); /* SUSPENDS */
	free(cluster);
	return rc;
}

int
nam_client_connect(const struct nam_client_options *options, struct nam_client **ret_client,
	struct nam_diag *diag)
{
	return client_make(options, client_join, ret_client, diag); /* SUSPENDS */
}

int
nam_cluster_check(const struct nam_client_options *options, struct nam_diag *diag)
{
	struct nam_client *client = NULL;
	int rc = client_make(options, nam__cluster_check, &client, diag); /* SUSPENDS */

	nam__client_free(client);
	return rc;
}

void
nam_client_close(struct nam_client *client)
{
	assert(SLIST_EMPTY(&client->workers));
	nam__client_free(client);
}

uint32_t
nam_client_servers(const struct nam_client *client)
{
	return client->servers_count;
}

uint16_t
nam_client_id(const struct nam_client *client)
{
	return client->id;
}

const char *
nam_client_fabric(const struct nam_client *client)
{
	return client->servers[0].ops->name;
}
