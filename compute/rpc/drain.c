/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.c -- when no request of a worker to one memory server is under way.  A PING proves those
 * before it on the queue pair; calls by other ways end by themselves.
 */
#include <stdlib.h>

#include "compute/backup/backups.h"
#include "compute/rpc/call.h"

struct nam__drain {
	struct nam__call ping;
	uint32_t turn;			/* of the gates, when it began */
	bool begun;
	bool sent;			/* its SEND has completed, and all before it */
};

static bool
has_calls(const struct nam_worker *worker, uint32_t slot)
{
	const struct nam__call *call;

	SLIST_FOREACH(call, &worker->calls, link)
		if (call->slot == slot)
			return true;
	return false;
}

bool
nam__rpc_drain(struct nam_worker *worker, uint32_t slot)
{
	const struct nam__one_way *one_way = worker->one_way[slot];
	struct nam__drain *drain = worker->drain;

	/* C32: the backup's books are of this client's calls. */
	for (uint32_t place = 0; place < NAM_BACKUPS_MAX; place++)
		if (has_calls(worker, nam__backup_slot(slot, place)))
			return false;
	/* The connection has ended, and so have all requests over it. */
	if (!worker->qps[slot])
		return true;
	if (!drain)
		drain = worker->drain = calloc(1, sizeof(*drain));
	if (!drain || (drain->begun &&
			(!drain->ping.done || (!drain->ping.rc && !drain->sent))))
		return false;
	/* The notice of its end follows, and is taken by a poll. */
	if (drain->begun && drain->turn == worker->gate.turn && drain->ping.slot == slot &&
		nam_err_is(drain->ping.rc, NAM_E_FABRIC_PEER_DEAD))
		return false;
	/* C28: one of an earlier turn proves nothing of requests that were posted since. */
	if (drain->begun && drain->turn == worker->gate.turn && drain->ping.slot == slot &&
		!drain->ping.rc && !has_calls(worker, slot) &&
		(!one_way || !nam__one_way_under_way(one_way))) {
		drain->begun = false;
		return true;
	}
	drain->sent = false;
	drain->turn = worker->gate.turn;
	drain->begun = !has_calls(worker, slot) &&
		!nam__rpc_ping_begin(worker, &drain->ping, slot);
	if (drain->begun)
		drain->ping.message->sent = &drain->sent;
	return false;
}
