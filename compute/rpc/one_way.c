/* SPDX-License-Identifier: Apache-2.0 */
/*
 * one_way.c -- one-way requests, and their acknowledgement by later replies.
 *
 * They go by SEND, whatever the connection's RPC transport: then they are carried out in their
 * order, and before any other request that is SENT later, so that its reply says it of all of them.
 *  A memory server sends nothing for them, unless they fail.
 *
 * A reply has eight bits for the number of those carried out.  It answers a call, so it was written
 * after what had been acknowledged when the call began, and before now: if less than 256 were told
 * meanwhile there is one number that it can mean.  It has eight more for those that failed: only if
 * these have all said so by themselves is it known of the others that they went well.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/rpc/call.h"

#define SETTLE_TRIES 3u

/* Until number `number` is acknowledged. */
NAM_FIBER_FN static int
settle(struct nam_worker *worker, uint32_t slot, uint32_t number)
{
	const struct nam__one_way *one_way = worker->one_way[slot];

	for (unsigned i = 0; i < SETTLE_TRIES; i++) {
		int rc;

		if ((int32_t)(one_way->acknowledged - number) >= 0)
			return 0;
		rc = nam__rpc_ping_by_send(worker, slot); /* SUSPENDS */
		if (rc)
			return rc;
	}
	if ((int32_t)(one_way->acknowledged - number) >= 0)
		return 0;
	return nam_diag_set(&worker->diag, -NAM_E_FABRIC_PROTOCOL,
		"the memory server at %s answers, but does not say what has become of requests "
		"that nobody waits for", worker->client->servers[slot].address);
}

int
nam_rpc_send_one_way(struct nam_worker *worker, uint32_t slot, uint16_t type, const void *body,
	uint32_t body_bytes)
{
	struct nam__one_way *one_way;
	uint64_t id;
	int rc;

	if (slot >= worker->client->servers_count || body_bytes > NAM_RPC_BODY_MAX)
		return -NAM_E_LIMIT;
	if (!worker->one_way[slot]) {
		worker->one_way[slot] = calloc(1, sizeof(*one_way));
		if (!worker->one_way[slot])
			return -ENOMEM;
		worker->bytes += sizeof(*one_way);
	}
	one_way = worker->one_way[slot];
	while (nam__one_way_under_way(one_way) == NAM_ONE_WAY_MAX) {
		rc = settle(worker, slot, one_way->sent); /* SUSPENDS */
		if (rc)
			return rc;
	}
	rc = nam__rpc_post_one_way(worker, slot, type, body, body_bytes, &id);
	if (rc)
		return rc;
	one_way->sent++;
	one_way->each[one_way->sent % NAM_ONE_WAY_MAX].id = id;
	one_way->each[one_way->sent % NAM_ONE_WAY_MAX].failed = false;
	return 0;
}

int
nam_rpc_flush(struct nam_worker *worker, uint32_t slot)
{
	struct nam__one_way *one_way;
	int rc = 0;

	if (slot >= worker->client->servers_count)
		return -NAM_E_LIMIT;
	one_way = worker->one_way[slot];
	if (!one_way)
		return 0;
	if (nam__one_way_under_way(one_way))
		rc = settle(worker, slot, one_way->sent); /* SUSPENDS */
	if (rc)
		return rc;
	rc = one_way->rc;
	one_way->rc = 0;
	return rc;
}
