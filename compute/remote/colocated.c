/* SPDX-License-Identifier: Apache-2.0 */
/*
 * colocated.c -- which memory servers' memory this host's processor can read by itself.  Without an
 * answer, or the right to look, READs go through the network as ever.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "compute/client/client_internal.h"

#define TRIES 4u

_Static_assert(sizeof(((struct nam_rpc_colocated_reply *)0)->boot_id) == NAM__BOOT_ID_BYTES,
	"one text");

static void
unmap(struct nam_colocated *colocated)
{
	for (uint32_t i = 0; i < colocated->count; i++)
		(void)munmap((void *)(uintptr_t)colocated->regions[i].base,
			colocated->regions[i].bytes);
	free(colocated);
}

/* Map one region of a server, if it is there.  map_server() checks the process later. */
static void
map_region(const struct nam_client *client, const struct nam__server *server, uint32_t number,
	const struct nam_rpc_colocated_reply *reply, struct nam_colocated *colocated)
{
	uint32_t id = server->id * NAM_REGIONS_PER_SERVER + number;
	const struct nam_region *region = nam_region_table_find(&client->regions,
		nam_gaddr_make((uint16_t)id, 0, 0));
	struct nam_colocated_region *to = &colocated->regions[colocated->count];

	if (!region || reply->files[number] < 0)
		return;
	to->base = nam__colocated_map(reply->pid, reply->files[number], region->bytes, false);
	if (!to->base)
		return;
	colocated->pid = reply->pid;
	to->remote = region->remote;
	to->bytes = region->bytes;
	to->rkey = nam_region_rkey(region);
	colocated->count++;
}

/* Map a process's regions, if it proves to be the server: -ESTALE if the number is not there. */
static int
map_server(struct nam_client *client, struct nam__server *server,
	const struct nam_rpc_colocated_reply *reply, uint64_t nonce)
{
	struct nam_colocated *colocated = calloc(1,
		sizeof(*colocated) + reply->count * sizeof(colocated->regions[0]));
	int rc;

	if (!colocated)
		return -ENOMEM;
	for (uint32_t i = 0; i < reply->count; i++)
		map_region(client, server, i, reply, colocated);
	rc = colocated->count ? nam__colocated_prove(reply->pid, reply->proof, nonce) : -EACCES;
	if (rc)
		unmap(colocated);
	else
		server->colocated = colocated;
	return rc;
}

/* Ask a server whose regions are files, once: as map_server(). */
NAM_FIBER_FN static int
ask_server(struct nam_client *client, uint32_t slot, struct nam_rpc_colocated_reply *reply)
{
	const struct nam_rpc_colocated_request request = { .nonce = nam_entropy() | 1 };
	struct nam__server *server = &client->servers[slot];
	uint32_t bytes = NAM_RPC_BODY_MAX;
	char own[NAM__BOOT_ID_BYTES];
	int rc = nam_rpc_call(client->epoch_worker, slot, NAM_RPC_COLOCATED, &request,
		sizeof(request), reply, &bytes); /* SUSPENDS */

	if (rc)
		return rc;
	if (bytes < sizeof(*reply) || reply->proof < 0 || reply->count != server->regions_count ||
		bytes != sizeof(*reply) + reply->count * sizeof(reply->files[0]))
		return -EACCES;
	/* The host must be the same, and the card, behind which others' WRITEs come. */
	nam__boot_id(own);
	if (!own[0] || memcmp(own, reply->boot_id, sizeof(own)) != 0 ||
		reply->device != server->domain->limits.device)
		return -EACCES;
	return map_server(client, server, reply, request.nonce);
}

void
nam__colocated_open(struct nam_client *client, uint32_t slot)
{
	struct nam__server *server = &client->servers[slot];
	const char *text = getenv("NAM_COLOCATED_ACCESS");

	if (client->options.no_colocated || (text && !strcmp(text, "0")))
		return;
	/* A mapping by way of the server's process is for clients that may change its memory. */
	if (server->domain->limits.regions_are_files && client->reads_only)
		return;
	if (server->domain->limits.regions_are_files) {
		struct nam_rpc_colocated_reply *reply = nam_buffer_take(client->epoch_worker,
			NAM_RPC_BODY_MAX);
		int rc = reply ? -ESTALE : -ENOMEM;

		/* Another client may have received a number for the same word. */
		for (unsigned i = 0; i < TRIES && rc == -ESTALE; i++)
			rc = ask_server(client, slot, reply); /* SUSPENDS */
		nam_buffer_give(client->epoch_worker, reply, NAM_RPC_BODY_MAX);
		server->near = server->colocated != NULL;
		return;
	}
	/* Otherwise the provider knows what is near. */
	server->colocated = calloc(1, sizeof(*server->colocated));
	server->near = server->colocated &&
		server->ops->is_near(server->domain, server->address);
}

void
nam__colocated_leave(struct nam__server *server)
{
	struct nam_colocated *colocated = server->colocated;

	if (colocated)
		SLIST_INSERT_HEAD(&server->colocated_before, colocated, before);
	server->colocated = NULL;
	server->near = false;
}

void
nam__colocated_forget(struct nam__server *server)
{
	struct nam_colocated *colocated;

	nam__colocated_leave(server);
	while ((colocated = SLIST_FIRST(&server->colocated_before))) {
		SLIST_REMOVE_HEAD(&server->colocated_before, before);
		unmap(colocated);
	}
}
