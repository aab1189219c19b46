/* SPDX-License-Identifier: Apache-2.0 */
/* presence.h -- which clients there are, and which have connections to memory servers. */
#ifndef NAM_COMPUTE_VIEW_PRESENCE_H
#define NAM_COMPUTE_VIEW_PRESENCE_H

#include "compute/client/client_internal.h"

/*
 * The state of a client, as server 0 knows it and NAM_RPC_CLIENT_STATE says it; the name ends with
 * NUL.  Cost: 1 RPC.
 */
NAM_FIBER_FN int nam__client_state_query(struct nam_worker *worker, uint16_t id,
	uint16_t incarnation,
	struct nam_rpc_client_state_reply *ret_state) NAM_MUST_CHECK;
/* The state with the client's voucher; zeroes, if the lead gives none for this key. */
NAM_FIBER_FN int nam__client_voucher_query(struct nam_worker *worker, uint16_t id,
	uint16_t incarnation, struct nam_rpc_client_state_reply *ret_state,
	uint8_t ret_voucher[NAM_VOUCHER_BYTES]) NAM_MUST_CHECK;

/*
 * Which clients have a queue pair to any of the memory servers.  If a client is not
 * among them, no earlier request of its workers can take effect.  Cost: 1 RPC to each.
 */
struct nam__presence {
	uint64_t ids[NAM_CLIENTS_MAX / 64];
};

/* Adds what the memory server of that slot says. */
NAM_FIBER_FN int nam__presence_add(struct nam_worker *worker, uint32_t slot,
	struct nam__presence *presence) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__presence_query(struct nam_worker *worker, struct nam__presence *ret_presence)
	NAM_MUST_CHECK;

static inline bool
nam__presence_has(const struct nam__presence *presence, uint32_t client_id)
{
	return presence->ids[client_id % NAM_CLIENTS_MAX / 64] >> client_id % 64 & 1;
}

#endif /* NAM_COMPUTE_VIEW_PRESENCE_H */
