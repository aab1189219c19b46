/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions.c -- the region table, from what memory servers announce.
 *
 * All that a server announces is checked before it is used (C1).
 */
#include <errno.h>
#include <stdlib.h>

#include "compute/client/client_internal.h"
#include "compute/rpc/call.h"
#include "compute/worker/worker.h"

/* Takes a server's announcement of its region number `number`.  @block: not yet published */
typedef int region_fn(struct nam_client *client, uint32_t slot, uint32_t number,
	const struct nam_rpc_region *wire, struct nam_region_block *block);

static int
region_add(struct nam_client *client, uint32_t slot, uint32_t number,
	const struct nam_rpc_region *wire, struct nam_region_block *block)
{
	struct nam_region region = {
		.bytes = wire->bytes,
		.remote = wire->remote,
		.rkey = wire->rkey,
		.server = slot,
		.kind = wire->kind,
	};

	(void)number;
	if (wire->id / NAM_REGIONS_PER_SERVER != client->servers[slot].id ||
		wire->bytes % NAM_GADDR_UNIT_BYTES || wire->remote % sizeof(uint64_t) ||
		wire->remote + wire->bytes < wire->remote || wire->kind >= NAM_MEMORY_KINDS)
		return -NAM_E_FABRIC_PROTOCOL;
	return nam_region_block_add(block, wire->id, &region) ? -NAM_E_FABRIC_PROTOCOL : 0;
}

/* A region that is known.  Its key may have changed, and its kind. */
static int
region_renew(struct nam_client *client, uint32_t slot, uint32_t number,
	const struct nam_rpc_region *wire, struct nam_region_block *block)
{
	const struct nam_region *known = nam_region_table_find(&client->regions,
		nam_gaddr_make(wire->id, 0, 0));
	struct nam_colocated *colocated = client->servers[slot].colocated;

	(void)block;
	if (!known || wire->id != client->servers[slot].id * NAM_REGIONS_PER_SERVER + number ||
		known->bytes != wire->bytes || known->remote != wire->remote ||
		wire->kind >= NAM_MEMORY_KINDS)
		return -NAM_E_FABRIC_PROTOCOL;
	/* Where keys change, `remote` is an address in the server's process: no two are alike. */
	for (uint32_t i = 0; colocated && i < colocated->count &&
		nam_region_rkey(known) != wire->rkey; i++) {
		if (colocated->regions[i].remote == wire->remote)
			atomic_store_explicit(&colocated->regions[i].rkey, wire->rkey,
				memory_order_relaxed);
	}
	return nam_region_table_renew(&client->regions, wire->id, wire->rkey, wire->kind);
}

/* One page of the announcement.  *first moves on; `reply` has room for a whole message. */
NAM_FIBER_FN static int
regions_page(struct nam_client *client, uint32_t slot, region_fn *take,
	struct nam_region_block *block, struct nam_rpc_regions_reply *reply, uint32_t *first)
{
	/* Once it has an id, a client names the connections that are older (C21). */
	struct nam_rpc_regions_request request = { *first, client->id, client->incarnation };
	uint32_t bytes = NAM_RPC_BODY_MAX;
	int rc;

	rc = nam_rpc_call(client->epoch_worker, slot, NAM_RPC_REGIONS, &request, sizeof(request),
		reply, &bytes); /* SUSPENDS */
	if (rc)
		return rc;
	if (bytes < sizeof(*reply) || reply->total != client->servers[slot].regions_count ||
		!reply->count || reply->count > NAM_RPC_REGIONS_PER_REPLY ||
		reply->count > reply->total - *first ||
		bytes != sizeof(*reply) + reply->count * sizeof(struct nam_rpc_region))
		return -NAM_E_FABRIC_PROTOCOL;
	/* By distance, because incarnations wrap. */
	if (reply->newest && (!client->newest_seen ||
			(int16_t)(reply->newest - client->newest_seen) > 0))
		client->newest_seen = reply->newest;
	for (uint32_t i = 0; i < reply->count; i++) {
		rc = take(client, slot, *first + i, &reply->regions[i], block);
		if (rc)
			return rc;
	}
	*first += reply->count;
	return 0;
}

NAM_FIBER_FN static int
regions_ask(struct nam_client *client, uint32_t slot, region_fn *take,
	struct nam_region_block *block)
{
	struct nam_worker *worker = client->epoch_worker;
	struct nam_rpc_regions_reply *reply = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	uint32_t first = 0;
	int rc = 0;

	if (!reply)
		return -ENOMEM;
	while (!rc && first < client->servers[slot].regions_count)
		rc = regions_page(client, slot, take, block, reply, &first); /* SUSPENDS */
	nam_buffer_give(worker, reply, NAM_RPC_BODY_MAX);
	return rc;
}

int
nam__regions_learn(struct nam_client *client, uint32_t slot, struct nam_diag *diag)
{
	struct nam__server *server = &client->servers[slot];
	struct nam_region_block *block;
	int rc;

	if (!server->regions_count || server->regions_count > NAM_REGIONS_PER_SERVER)
		return nam_diag_set(diag, -NAM_E_FABRIC_PROTOCOL,
			"the memory server at %s announces %u regions; 1 .. %u are possible",
			server->address, server->regions_count, NAM_REGIONS_PER_SERVER);
	block = calloc(1, sizeof(*block));
	rc = block ? regions_ask(client, slot, region_add, block) : -ENOMEM; /* SUSPENDS */
	if (rc) {
		free(block);
		return nam_diag_set(diag, rc, "the regions of the memory server at %s: %s",
			server->address, nam_err_text(rc));
	}
	nam_region_table_publish(&client->regions, server->id, block);
	return 0;
}

int
nam__regions_refresh(struct nam_client *client)
{
	int rc = 0;

	for (uint32_t slot = 0; slot < client->servers_count; slot++) {
		atomic_int *lost = &client->servers[slot].lost;
		int one;

		if (atomic_load_explicit(lost, memory_order_acquire))
			continue;
		one = regions_ask(client, slot, region_renew, NULL); /* SUSPENDS */
		if (!rc && !atomic_load_explicit(lost, memory_order_acquire))
			rc = one;
	}
	return rc;
}
