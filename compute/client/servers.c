/* SPDX-License-Identifier: Apache-2.0 */
/*
 * servers.c -- memory servers, in slots that are never reused and do not move.  One thread appends:
 * the caller of nam_client_connect(), and then the epoch thread.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fabric/register.h"
#include "common/rpc/view_rpc.h"
#include "compute/auth/credentials.h"
#include "compute/worker/notes.h"
#include "compute/worker/worker.h"

/* Capabilities that layers above rely on. */
#define CAPS_NEEDED (NAM_CAP_WORD8_ATOMIC | NAM_CAP_RPC_SRQ)

int
nam__caps_check(uint32_t caps, const char *fabric, struct nam_diag *diag)
{
	if ((caps & CAPS_NEEDED) == CAPS_NEEDED)
		return 0;
	return nam_diag_set(diag, -NAM_E_FABRIC_CAPABILITY,
		"the fabric %s lacks %s, which every protocol here stands on", fabric,
		caps & NAM_CAP_RPC_SRQ ? "whole words of 8 bytes" : "shared receive queues");
}

/* The first server decides the fabric. */
static int
domain_open(struct nam_client *client, const struct nam__server *server, struct nam_diag *diag)
{
	const struct nam_fabric_options fabric = { .address = server->address };
	int rc = server->ops->domain_open(&fabric, &client->domains[0], diag);

	if (rc)
		return rc;
	client->domains_count = 1;
	client->domains[0]->timeout_ns = client->options.timeout_ms * 1000000ull;
	client->caps = client->domains[0]->limits.caps;
	rc = nam__caps_check(client->caps, server->ops->name, diag);
	if (rc)
		return rc;
	if (client->options.transport == NAM_TRANSPORT_DATAGRAM && !(client->caps & NAM_CAP_UD))
		return nam_diag_set(diag, -NAM_E_FABRIC_CAPABILITY,
			"the fabric %s has no datagrams, so requests cannot travel by the RPC "
			"transport datagram; there are srq, mailbox and fetch", server->ops->name);
	return 0;
}

static int
fabric_find(const struct nam_client *client, struct nam__server *server, struct nam_diag *diag)
{
	const struct nam__server *first = &client->servers[0];

	server->ops = nam_fabric_find(server->address, NULL);
	if (!server->ops && nam__fabric_absence(server->address))
		return nam_diag_set(diag, -EINVAL, "%s: %s", server->address,
			nam__fabric_absence(server->address));
	if (!server->ops)
		return nam_diag_set(diag, -EINVAL,
			"\"%s\" is not an address: it begins with none of the fabrics that "
			"this program knows (%s) and a colon",
			server->address, nam_fabric_names());
	/* A worker has one completion queue, and atomics of two fabrics may tear. */
	if (server->ops != first->ops)
		return nam_diag_set(diag, -NAM_E_CLUSTER,
			"the memory servers at %s and %s are on different fabrics (%s, "
			"%s); a cluster needs one",
			first->address, server->address, first->ops->name, server->ops->name);
	return 0;
}

int
nam__server_address_set(struct nam_client *client, struct nam__server *server,
	const char *address)
{
	struct nam__server_address *new = calloc(1, sizeof(*new));

	if (!new)
		return -ENOMEM;
	(void)strncpy(new->text, address, sizeof(new->text) - 1);
	SLIST_INSERT_HEAD(&client->addresses, new, link);
	server->address = new->text;
	return 0;
}

int
nam__server_append(struct nam_client *client, const char *address, uint32_t *ret_slot,
	struct nam_diag *diag)
{
	uint32_t slot = client->servers_count;
	struct nam__server *server;
	int rc;

	if (slot == NAM_SERVERS_MAX || client->servers[slot].standby)
		return nam_diag_set(diag, -NAM_E_LIMIT,
			"no room for the memory server at %s: a client knows %u at the most",
			address, NAM_SERVERS_MAX);
	server = &client->servers[slot];
	/* The slot may have been that of a server which was never published. */
	if (client->epoch_worker)
		nam__worker_disconnect(client->epoch_worker, slot);
	nam__colocated_forget(server);
	memset(server, 0, sizeof(*server));
	rc = nam__server_address_set(client, server, address);
	if (rc)
		return nam_diag_set(diag, rc, "no memory for the address of a memory server");
	rc = fabric_find(client, server, diag);
	if (!rc && !client->domains_count)
		rc = domain_open(client, server, diag);
	if (rc) {
		server->ops = NULL;
		return rc;
	}
	server->domain = client->domains[0];
	atomic_store_explicit(&server->free, UINT16_MAX, memory_order_relaxed);
	*ret_slot = slot;
	return 0;
}

void
nam__server_publish(struct nam_client *client, uint32_t slot)
{
	assert(slot == client->servers_count && client->servers[slot].ops);
	if (client->servers[slot].boot)
		atomic_store_explicit(&client->slot_of_id[client->servers[slot].id],
			(uint16_t)slot, memory_order_release);
	/* C19.  Release: threads that see the count see the slot as it is here. */
	atomic_store_explicit(&client->servers_count, slot + 1, memory_order_release);
}

/* Nothing is allocated at a member that is JOINING: some clients do not know it yet (C20). */
static void
state_note(struct nam__server *server, const struct nam_view_member *member)
{
	server->memory = member->memory;
	server->view_since = member->since;
	server->view_renewed = member->renewed;
	atomic_store_explicit(&server->usable, member->state == NAM_VIEW_UP ||
		member->state == NAM_VIEW_COPYING || !NAM_GUARD(VIEW_USABLE),
		memory_order_release);
	/* Otherwise an object that is made now would have no part there for good (C28). */
	atomic_store_explicit(&server->joined, member->state != NAM_VIEW_JOINING ||
		!NAM_GUARD(VIEW_USABLE), memory_order_release);
}

int
nam__member_note(struct nam_client *client, const struct nam_view_member *member)
{
	uint32_t slot = client->slot_of_id[member->id];
	int none = 0, ended = 0;

	if (member->state == NAM_VIEW_UP || member->state == NAM_VIEW_COPYING)
		ended = atomic_exchange(&client->servers[slot].ended_behind_gate, 0);
	if (ended && !nam_view_backup(member))
		atomic_compare_exchange_strong(&client->servers[slot].lost, &none, ended);
	if (!atomic_load_explicit(&client->servers[slot].lost, memory_order_relaxed))
		state_note(&client->servers[slot], member);
	/* C30 */
	if (member->state == NAM_VIEW_COPYING)
		return nam__notes_begin(client, slot);
	if (member->state == NAM_VIEW_UP && (nam__notes_end(client, slot) ||
			nam__gate_is_of(client, slot)))
		nam__gates_open(client);
	return 0;
}

int
nam__servers_open(struct nam_client *client, const struct nam_cluster_server *servers,
	uint32_t count, struct nam_diag *diag)
{
	uint32_t slot;
	int rc = nam__client_key_open(client, diag);

	for (uint32_t i = 0; !rc && i < count; i++) {
		rc = nam__server_append(client, servers[i].listen, &slot, diag);
		if (rc)
			return rc;
		atomic_store_explicit(&client->servers[slot].usable, true, memory_order_relaxed);
		atomic_store_explicit(&client->servers[slot].joined, true, memory_order_relaxed);
		nam__server_publish(client, slot);
	}
	return rc ?: nam__worker_new(client, &client->epoch_worker, diag);
}
