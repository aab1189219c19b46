/* SPDX-License-Identifier: Apache-2.0 */
/*
 * one_way.c -- requests that nobody waits for, and what later replies say of them.
 *
 * They go by SEND, whatever the connection's carrier: then they are carried out in their order, and
 * before any other request that is SENT later, so that its reply says it of all of them.  A memory
 * server sends nothing for them, unless they fail.
 *
 * A reply has eight bits for the number of those carried out.  It answers a call, so it was written
 * after what had been acknowledged when the call began, and before now: if less than 256 were told
 * meanwhile there is one number that it can mean.  It has eight more for those that failed: only if
 * these have all said so by themselves is it known of the others that they went well.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute_internal.h"

#define SETTLE_TRIES 3u

static inline uint32_t
under_way(const struct nam__passives *passives)
{
	return passives->sent - passives->acknowledged;
}

/* Numbers `acknowledged` + 1 .. `done` were carried out, and `failed` of all of them not well. */
static void
acknowledge(struct nam__passives *passives, uint32_t done, uint8_t failed)
{
	uint32_t heard = passives->failed;

	for (uint32_t n = passives->acknowledged + 1; n != done + 1; n++)
		heard += passives->each[n % NAM_PASSIVES_MAX].failed;
	/* Else one has yet to say so; that message will be another acknowledgement. */
	if (NAM_GUARD(PASSIVE_FAILED) && (uint8_t)heard != failed)
		return;
	passives->acknowledged = done;
	passives->failed = heard;
}

/* The number of the one that this reply to no call is about; false: none. */
static bool
number_of(const struct nam__passives *passives, uint64_t id, uint32_t *ret_number)
{
	for (uint32_t n = passives->acknowledged + 1; n != passives->sent + 1; n++) {
		if (passives->each[n % NAM_PASSIVES_MAX].id != id)
			continue;
		*ret_number = n;
		return true;
	}
	return false;
}

void
nam__passives_hear(struct nam__passives *passives, const struct nam_rpc_header *header,
	const struct nam__call *call)
{
	uint32_t least, done;

	if (!under_way(passives))
		return;
	if (call) {
		least = call->acknowledged;
		if (passives->sent - least > UINT8_MAX)
			return;
	} else {
		if (!number_of(passives, header->id, &least) || !header->status)
			return;
		passives->each[least % NAM_PASSIVES_MAX].failed = true;
		if (!passives->rc)
			passives->rc = header->status;
	}
	done = least + (uint8_t)((uint8_t)header->passive - (uint8_t)least);
	/* Less than is known is an old reply, and more than was told is nonsense. */
	if (done - passives->acknowledged <= under_way(passives))
		acknowledge(passives, done, (uint8_t)(header->passive >> 8));
}

void
nam__passives_closed(struct nam__passives *passives)
{
	if (!passives || !under_way(passives))
		return;
	passives->acknowledged = passives->sent;
	if (!passives->rc)
		passives->rc = -NAM_E_FABRIC_PEER_DEAD;
}

/* Until number `number` is acknowledged. */
NAM_FIBER_FN static int
settle(struct nam_worker *worker, uint32_t slot, uint32_t number)
{
	const struct nam__passives *passives = worker->passives[slot];

	for (unsigned i = 0; i < SETTLE_TRIES; i++) {
		int rc;

		if ((int32_t)(passives->acknowledged - number) >= 0)
			return 0;
		rc = nam__rpc_ping_by_send(worker, slot); /* SUSPENDS */
		if (rc)
			return rc;
	}
	if ((int32_t)(passives->acknowledged - number) >= 0)
		return 0;
	return nam_diag_set(&worker->diag, -NAM_E_FABRIC_PROTOCOL,
		"the memory server at %s answers, but does not say what has become of requests "
		"that nobody waits for", worker->client->servers[slot].address);
}

int
nam_rpc_tell(struct nam_worker *worker, uint32_t slot, uint16_t type, const void *body,
	uint32_t body_bytes)
{
	struct nam__passives *passives;
	uint64_t id;
	int rc;

	if (slot >= worker->client->servers_count || body_bytes > NAM_RPC_BODY_MAX)
		return -NAM_E_LIMIT;
	if (!worker->passives[slot]) {
		worker->passives[slot] = calloc(1, sizeof(*passives));
		if (!worker->passives[slot])
			return -ENOMEM;
		worker->bytes += sizeof(*passives);
	}
	passives = worker->passives[slot];
	while (under_way(passives) == NAM_PASSIVES_MAX) {
		rc = settle(worker, slot, passives->sent); /* SUSPENDS */
		if (rc)
			return rc;
	}
	rc = nam__rpc_send_passive(worker, slot, type, body, body_bytes, &id);
	if (rc)
		return rc;
	passives->sent++;
	passives->each[passives->sent % NAM_PASSIVES_MAX].id = id;
	passives->each[passives->sent % NAM_PASSIVES_MAX].failed = false;
	return 0;
}

int
nam_rpc_settle(struct nam_worker *worker, uint32_t slot)
{
	struct nam__passives *passives;
	int rc = 0;

	if (slot >= worker->client->servers_count)
		return -NAM_E_LIMIT;
	passives = worker->passives[slot];
	if (!passives)
		return 0;
	if (under_way(passives))
		rc = settle(worker, slot, passives->sent); /* SUSPENDS */
	if (rc)
		return rc;
	rc = passives->rc;
	passives->rc = 0;
	return rc;
}
