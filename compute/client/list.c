/* SPDX-License-Identifier: Apache-2.0 */
/* list.c -- the clients of the cluster. */
#include <string.h>

#include "compute/admin.h"
#include "compute/view/fence.h"
#include "compute/view/presence.h"
#include "compute/worker/worker.h"

int
nam_client_list(struct nam_worker *worker, nam_client_list_fn fn, void *arg)
{
	struct nam_rpc_client_state_reply state;
	struct nam__presence presence = { 0 };
	struct nam_rpc_fence_reply next;
	struct nam_client_info info;
	int rc = nam__presence_add(worker, worker->client->catalog_slot, &presence); /* SUSPENDS */

	/* Clients that have ended may have no connection to the lead. */
	for (uint16_t last = 0; !rc && last < NAM_CLIENTS_MAX - 1; last = next.client_id) {
		rc = nam__fence_next(worker, last, &next); /* SUSPENDS */
		if (rc || next.client_id <= last)
			break;
		presence.ids[next.client_id / 64] |= 1ull << next.client_id % 64;
	}
	for (uint16_t id = 1; id < NAM_CLIENTS_MAX && !rc; id++) {
		if (!nam__presence_has(&presence, id))
			continue;
		rc = nam__client_state_query(worker, id, 0, &state); /* SUSPENDS */
		if (rc || (state.state != NAM_CLIENT_ALIVE && state.state != NAM_CLIENT_FENCING))
			continue;
		info = (struct nam_client_info){
			.id = id,
			.incarnation = state.incarnation,
			.alive = state.state == NAM_CLIENT_ALIVE,
			.pid = state.pid,
		};
		memcpy(info.name, state.name, sizeof(info.name));
		rc = fn(arg, &info);
	}
	return rc;
}
