/* SPDX-License-Identifier: Apache-2.0 */
/* status.c -- what memory servers say of themselves; they are asked without joining, too. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/worker/worker.h"

#define ASKED_MAX 32u		/* memory servers, at the same time */

NAM_FIBER_FN static int
status_ask(struct nam_worker *worker, uint32_t slot, struct nam_rpc_status_reply *ret_reply)
{
	uint32_t bytes = sizeof(*ret_reply);
	int rc = nam_rpc_call(worker, slot, NAM_RPC_STATUS, NULL, 0, ret_reply,
		&bytes); /* SUSPENDS */

	if (!rc && bytes != sizeof(*ret_reply))
		rc = nam_diag_set(&worker->diag, -NAM_E_FABRIC_PROTOCOL,
			"the memory server at %s sent a malformed STATUS reply",
			worker->client->servers[slot].address);
	return rc;
}

/* @reply	looked at only if there was one: rc is 0 */
static void
status_fill(const struct nam__server *server, int rc, const struct nam_rpc_status_reply *reply,
	struct nam_server_status *status)
{
	memset(status, 0, sizeof(*status));
	(void)snprintf(status->address, sizeof(status->address), "%s", server->address);
	status->rc = rc;
	status->ready_bytes = (uint64_t)server->ready_mib << 20;
	status->memory_bytes = (uint64_t)server->total_mib << 20;
	if (rc)
		return;
	status->ready_bytes = reply->memory_bytes;
	status->id = reply->server_id;
	status->handlers = reply->handlers;
	status->regions = reply->regions;
	status->clients = reply->clients;
	status->connections = reply->connections;
	status->indexes = reply->indexes;
	status->stores = reply->stores;
	status->pid = reply->pid;
	status->uptime_ns = reply->uptime_ns;
	status->memory_bytes = reply->memory_bytes;
	status->figures = reply->figures;
	for (uint32_t i = 0; i < NAM_MEMORY_KINDS; i++) {
		status->carved_bytes += reply->figures.memory[i].carved_bytes;
		status->free_bytes += reply->figures.memory[i].free_bytes;
		status->waiting_bytes += reply->figures.memory[i].waiting_bytes;
	}
	status->page_bytes = reply->page_bytes;
	for (uint32_t i = 0; i < NAM_SERVICES_MAX; i++)
		status->requests += reply->figures.services[i].requests;
	status->transparent_huge = reply->transparent_huge;
	memcpy(status->version, reply->version, sizeof(status->version) - 1);
}

const char *
nam_service_name(uint32_t service)
{
	if (!service)
		return "MALFORMED";
	return service < NAM_RPC_TYPES_COUNT ? nam_rpc_type_name((uint16_t)service) : NULL;
}

int
nam_server_status_get(struct nam_worker *worker, uint32_t slot,
	struct nam_server_status *ret_status)
{
	struct nam_rpc_status_reply reply;
	int rc;

	if (slot >= worker->client->servers_count)
		return nam_diag_set(&worker->diag, -EINVAL, "there is no memory server %u", slot);
	rc = status_ask(worker, slot, &reply); /* SUSPENDS */
	status_fill(&worker->client->servers[slot], rc, &reply, ret_status);
	return rc;
}

/* One memory server, asked by a thread. */
struct asked {
	const struct nam_client_options *options;
	const struct nam_cluster_server *at;
	struct nam_thread *thread;
	struct nam_server_status status;
	struct nam_diag diag;
	int rc;			/* -ENOMEM or -EINVAL; status.rc is the memory server's */
};

static void
server_ask(void *arg)
{
	struct asked *asked = arg;
	struct nam_client *client = NULL;
	struct nam_rpc_status_reply reply;
	int rc = nam__asker_open(asked->options, asked->at->listen, false, &client, &asked->diag);

	if (!rc) {
		rc = status_ask(client->epoch_worker, 0, &reply);
		if (rc)
			(void)nam_diag_set(&asked->diag, rc, "%s", client->epoch_worker->diag.text);
	}
	if (rc == -ENOMEM || rc == -EINVAL)	/* those are not the memory server's */
		asked->rc = rc;
	else
		status_fill(&client->servers[0], rc, &reply, &asked->status);
	if (client)
		nam__client_free(client);
}

/* All at the same time: each by a thread, or by this one if there is none. */
static void
servers_ask(struct asked *asked, uint32_t count)
{
	for (uint32_t i = 0; i + 1 < count; i++) {
		if (nam_thread_start("nam-status", server_ask, &asked[i], &asked[i].thread))
			server_ask(&asked[i]);
	}
	server_ask(&asked[count - 1]);
	for (uint32_t i = 0; i < count; i++) {
		if (asked[i].thread)
			nam_thread_join(asked[i].thread);
	}
}

int
nam_cluster_status(const struct nam_client_options *options, nam_server_status_fn fn, void *arg,
	struct nam_diag *diag)
{
	struct nam_cluster *cluster = NULL;
	struct asked *asked;
	int rc = nam__cluster_read(options, &cluster, diag);

	if (rc)
		return rc;
	asked = malloc(ASKED_MAX * sizeof(*asked));
	if (!asked)
		rc = nam_diag_set(diag, -ENOMEM, "no memory for the memory servers' answers");
	for (uint32_t done = 0, count; done < cluster->count && !rc; done += count) {
		count = cluster->count - done < ASKED_MAX ? cluster->count - done : ASKED_MAX;
		for (uint32_t i = 0; i < count; i++)
			asked[i] = (struct asked){
				.options = options,
				.at = &cluster->servers[done + i],
			};
		servers_ask(asked, count);
		for (uint32_t i = 0; i < count && !rc; i++) {
			if (asked[i].rc)
				rc = nam_diag_set(diag, asked[i].rc, "%s", asked[i].diag.text);
			else
				fn(arg, &asked[i].status, asked[i].diag.text);
		}
	}
	free(asked);
	free(cluster);
	return rc;
}
