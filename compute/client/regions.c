/* SPDX-License-Identifier: Apache-2.0 */
/* regions.c -- the region table, from what memory servers announce, once it is checked (C1). */
#include <errno.h>
#include <stdlib.h>

#include "compute/auth/credentials.h"
#include "compute/worker/worker.h"

/* A region of a block that is not yet published. */
static int
region_add(struct nam_client *client, uint32_t slot, const struct nam_rpc_region *wire,
	struct nam_region_block *block)
{
	struct nam_region region = {
		.bytes = wire->bytes,
		.remote = wire->remote,
		.rkey = wire->rkey,
		.server = slot,
		.kind = wire->kind,
	};

	if (wire->id / NAM_REGIONS_PER_SERVER != client->servers[slot].id ||
		wire->bytes % NAM_GADDR_UNIT_BYTES || wire->remote % sizeof(uint64_t) ||
		wire->remote + wire->bytes < wire->remote || wire->kind >= NAM_MEMORY_KINDS)
		return -NAM_E_FABRIC_PROTOCOL;
	return nam_region_block_add(block, wire->id, &region) ? -NAM_E_FABRIC_PROTOCOL : 0;
}

/* Number `number` of a server, which is known.  Its key may have changed, and its kind. */
static int
region_renew(struct nam_client *client, uint32_t slot, uint32_t number,
	const struct nam_rpc_region *wire)
{
	const struct nam_region *known = nam_region_table_find(&client->regions,
		nam_gaddr_make(wire->id, 0, 0));
	struct nam_colocated *colocated = client->servers[slot].colocated;

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

/* Memory servers that are asked at once. */
#define ANNOUNCED_MAX 16u

struct announced {
	uint32_t slot;
	uint32_t first;			/* region of the next page */
	struct nam_region_block *block;	/* of new regions; NULL: they are renewed */
	int rc;
};

/* Take one page of an announcement. */
static int
page_take(struct nam_client *client, struct announced *from,
	const struct nam_rpc_regions_reply *reply, uint32_t bytes)
{
	int rc = 0;

	if (bytes < sizeof(*reply) || reply->total != client->servers[from->slot].regions_count ||
		!reply->count || reply->count > NAM_RPC_REGIONS_PER_REPLY ||
		reply->count > reply->total - from->first ||
		bytes != sizeof(*reply) + reply->count * sizeof(struct nam_rpc_region))
		return -NAM_E_FABRIC_PROTOCOL;
	/* By distance, because incarnations wrap. */
	if (reply->newest && (!client->newest_seen ||
			(int16_t)(reply->newest - client->newest_seen) > 0))
		client->newest_seen = reply->newest;
	for (uint32_t i = 0; i < reply->count && !rc; i++)
		rc = from->block ?
			region_add(client, from->slot, &reply->regions[i], from->block) :
			region_renew(client, from->slot, from->first + i, &reply->regions[i]);
	from->first += reply->count;
	return rc;
}

/* A page of each that has more.  False: none has. */
NAM_FIBER_FN static bool
pages_query(struct nam_client *client, struct announced *from, uint32_t count, uint8_t *replies)
{
	struct {
		struct nam_rpc_regions_request is;
		uint8_t voucher[NAM_VOUCHER_BYTES];
	} requests[ANNOUNCED_MAX];
	struct nam_call calls[ANNOUNCED_MAX];
	struct announced *whose[ANNOUNCED_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (from[i].rc || from[i].first == client->servers[from[i].slot].regions_count)
			continue;
		/* Once it has an id, a client names the connections that are older (C21). */
		requests[n].is = (struct nam_rpc_regions_request){ from[i].first, client->id,
			client->incarnation };
		calls[n] = (struct nam_call){
			.slot = from[i].slot,
			.type = NAM_RPC_REGIONS,
			.body = &requests[n],
			.body_bytes = (uint32_t)sizeof(requests[n].is) +
				nam__voucher_copy(client, requests[n].voucher),
			.reply = replies + n * NAM_RPC_BODY_MAX,
			.reply_size = NAM_RPC_BODY_MAX,
			.rc = -ENOMEM,
		};
		whose[n++] = &from[i];
	}
	if (n)
		(void)!nam_rpc_call_many(client->epoch_worker, calls, n); /* SUSPENDS */
	for (uint32_t i = 0; i < n; i++)
		whose[i]->rc = calls[i].rc ?: page_take(client, whose[i], calls[i].reply,
			calls[i].reply_bytes);
	return n;
}

/* Each has its own result. */
NAM_FIBER_FN static void
regions_query(struct nam_client *client, struct announced *from, uint32_t count)
{
	uint32_t bytes = count * NAM_RPC_BODY_MAX;
	uint8_t *replies = nam_buffer_take(client->epoch_worker, bytes);

	if (!replies) {
		for (uint32_t i = 0; i < count; i++)
			from[i].rc = -ENOMEM;
		return;
	}
	while (pages_query(client, from, count, replies)) /* SUSPENDS */
		continue;
	nam_buffer_give(client->epoch_worker, replies, bytes);
}

static int
learn_end(struct nam_client *client, const struct announced *from, struct nam_diag *diag)
{
	const struct nam__server *server = &client->servers[from->slot];

	if (!from->rc) {
		nam_region_table_publish(server->standby ?
			&client->backups[server->standby - 1] : &client->regions, server->id,
			from->block);
		return 0;
	}
	free(from->block);
	return nam_diag_set(diag, from->rc, "the regions of the memory server at %s: %s",
		server->address, nam_err_text(from->rc));
}

int
nam__regions_learn(struct nam_client *client, uint32_t first, uint32_t count,
	struct nam_diag *diag)
{
	struct announced from[ANNOUNCED_MAX];
	uint32_t end = first + count, n;
	struct nam_diag other;
	int rc = 0;

	for (uint32_t slot = first; slot < end; slot++) {
		const struct nam__server *server = &client->servers[slot];

		if (!server->regions_count || server->regions_count > NAM_REGIONS_PER_SERVER)
			return nam_diag_set(diag, -NAM_E_FABRIC_PROTOCOL, "the memory server at %s "
				"announces %u regions; 1 .. %u are possible", server->address,
				server->regions_count, NAM_REGIONS_PER_SERVER);
	}
	for (; first < end && !rc; first += n) {
		for (n = 0; n < ANNOUNCED_MAX && first + n < end; n++) {
			from[n] = (struct announced){ .slot = first + n,
				.block = calloc(1, sizeof(*from[n].block)) };
			from[n].rc = from[n].block ? 0 : -ENOMEM;
		}
		regions_query(client, from, n); /* SUSPENDS */
		for (uint32_t i = 0; i < n; i++)
			rc = learn_end(client, &from[i], rc ? &other : diag) ?: rc;
	}
	return rc;
}

/* 0, or the first failure of one that is not lost; then the worker's failed_slot is its slot. */
NAM_FIBER_FN static int
refresh(struct nam_client *client, struct announced *from, uint32_t count)
{
	int rc = 0;

	regions_query(client, from, count); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !rc; i++)
		if (!atomic_load_explicit(&client->servers[from[i].slot].lost,
				memory_order_acquire)) {
			rc = from[i].rc;
			client->epoch_worker->failed_slot = from[i].slot;
		}
	return rc;
}

int
nam__regions_refresh(struct nam_client *client)
{
	struct announced from[ANNOUNCED_MAX];
	uint32_t n = 0;
	int rc = 0;

	for (uint32_t slot = 0; slot < client->servers_count; slot++) {
		if (!atomic_load_explicit(&client->servers[slot].lost, memory_order_acquire))
			from[n++] = (struct announced){ .slot = slot };
		if (n == ANNOUNCED_MAX) {
			rc = refresh(client, from, n) ?: rc; /* SUSPENDS */
			n = 0;
		}
	}
	return n ? refresh(client, from, n) ?: rc : rc; /* SUSPENDS */
}
