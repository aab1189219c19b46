/* SPDX-License-Identifier: Apache-2.0 */
/* presence.c -- which clients there are, and which have connections to memory servers. */
#include "presence.h"

#include <string.h>

#include "compute/backup/backed.h"
#include "compute/worker/worker.h"

int
nam__client_voucher_query(struct nam_worker *worker, uint16_t id, uint16_t incarnation,
	struct nam_rpc_client_state_reply *ret_state, uint8_t ret_voucher[NAM_VOUCHER_BYTES])
{
	const struct nam_rpc_client_state_request request = { id, incarnation, 0 };
	struct {
		struct nam_rpc_client_state_reply state;
		uint8_t voucher[NAM_VOUCHER_BYTES];
	} reply = { .voucher = { 0 } };
	uint32_t bytes = sizeof(reply);
	int rc = nam__lead_call(worker, NAM_RPC_CLIENT_STATE, &request, sizeof(request), &reply,
		&bytes, NULL); /* SUSPENDS */

	if (rc)
		return rc;
	if (bytes != sizeof(reply.state) && bytes != sizeof(reply))
		return -NAM_E_FABRIC_PROTOCOL;
	reply.state.name[sizeof(reply.state.name) - 1] = '\0';
	*ret_state = reply.state;
	memcpy(ret_voucher, reply.voucher, sizeof(reply.voucher));
	return 0;
}

int
nam__client_state_query(struct nam_worker *worker, uint16_t id, uint16_t incarnation,
	struct nam_rpc_client_state_reply *ret_state)
{
	uint8_t voucher[NAM_VOUCHER_BYTES];

	return nam__client_voucher_query(worker, id, incarnation, ret_state,
		voucher); /* SUSPENDS */
}

int
nam__presence_add(struct nam_worker *worker, uint32_t slot, struct nam__presence *presence)
{
	struct nam_rpc_presence_reply reply;
	uint32_t bytes = sizeof(reply);
	int rc = nam__backed_call(worker, slot, NAM_RPC_PRESENCE, NULL, 0, &reply, &bytes,
		NULL); /* SUSPENDS */

	if (!rc && bytes != sizeof(reply))
		rc = -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < NAM_CLIENTS_MAX / 64 && !rc; i++)
		presence->ids[i] |= reply.ids[i];
	return rc;
}

int
nam__presence_query(struct nam_worker *worker, struct nam__presence *ret_presence)
{
	int rc = 0;

	*ret_presence = (struct nam__presence){ 0 };
	for (uint32_t slot = 0; slot < worker->client->servers_count && !rc; slot++)
		rc = nam__presence_add(worker, slot, ret_presence); /* SUSPENDS */
	return rc;
}
