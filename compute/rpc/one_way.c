/* SPDX-License-Identifier: Apache-2.0 */
/*
 * one_way.c -- one-way requests, and their acknowledgement by later replies.
 *
 * They go by SEND over every RPC transport, so they are carried out in their order.  The reply to a
 * later SEND acknowledges them.  They have replies of their own only if they fail.
 *
 * A reply has eight bits for the number of those carried out.  It is not older than what had been
 * acknowledged when its call began.  So if fewer than 256 were sent since, it means one number.
 * Eight more bits count those that failed: once all their replies are here, the others succeeded.
 */
#include <errno.h>
#include <stdlib.h>

#include "compute/remote/epoch.h"
#include "compute/rpc/call.h"

#define PINGS_MAX 3u

/* Until number `number` is acknowledged. */
NAM_FIBER_FN static int
flush_up_to(struct nam_worker *worker, uint32_t slot, uint32_t number)
{
	const struct nam__one_way *one_way = worker->one_way[slot];

	for (unsigned i = 0; (int32_t)(one_way->acknowledged - number) < 0 && i < PINGS_MAX; i++) {
		uint64_t pin = nam__request_pin(worker);
		int rc = nam__rpc_ping_by_send(worker, slot); /* SUSPENDS */

		nam__request_unpin(worker, pin);
		if (rc)
			return rc;
	}
	if ((int32_t)(one_way->acknowledged - number) >= 0)
		return 0;
	return nam_diag_set(&worker->diag, -NAM_E_FABRIC_PROTOCOL,
		"the memory server at %s answers, but does not say what has become of requests "
		"without a waiter", worker->client->servers[slot].address);
}

int
nam_rpc_send_one_way(struct nam_worker *worker, uint32_t slot, uint16_t type, const void *body,
	uint32_t body_bytes)
{
	struct nam__one_way *one_way;
	uint64_t id, pin;
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
		rc = flush_up_to(worker, slot, one_way->sent); /* SUSPENDS */
		if (rc)
			return rc;
	}
	pin = nam__request_pin(worker);
	rc = nam__rpc_post_one_way(worker, slot, type, body, body_bytes, &id);
	nam__unawaited_add(worker, !rc);
	nam__request_unpin(worker, pin);
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
		rc = flush_up_to(worker, slot, one_way->sent); /* SUSPENDS */
	if (rc)
		return rc;
	rc = one_way->rc;
	one_way->rc = 0;
	return rc;
}
