/* SPDX-License-Identifier: Apache-2.0 */
/* presence.c -- which clients have connections to memory servers. */
#include "compute/worker/worker.h"

int
nam__presence_ask(struct nam_worker *worker, struct nam__presence *ret_presence)
{
	struct nam_rpc_presence_reply reply;
	int rc = 0;

	*ret_presence = (struct nam__presence){ 0 };
	for (uint32_t slot = 0; slot < worker->client->servers_count && !rc; slot++) {
		uint32_t bytes = sizeof(reply);

		rc = nam_rpc_call(worker, slot, NAM_RPC_PRESENCE, NULL, 0, &reply,
			&bytes); /* SUSPENDS */
		if (!rc && bytes != sizeof(reply))
			rc = -NAM_E_FABRIC_PROTOCOL;
		for (uint32_t i = 0; i < NAM_CLIENTS_MAX / 64 && !rc; i++)
			ret_presence->ids[i] |= reply.ids[i];
	}
	return rc;
}
