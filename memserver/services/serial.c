/* SPDX-License-Identifier: Apache-2.0 */
/* serial.c -- the service that takes steps of serializable transactions (txn/server/serial.h). */
#include "txn/server/serial.h"
#include "memserver/memserver_internal.h"

static void *
find(void *arg, uint64_t at, uint32_t bytes, bool change)
{
	const struct nam__exchange *exchange = arg;

	return change ? nam__memory_public_change(exchange, NAM_GADDR(at), bytes) :
		nam__memory_public_at(exchange->server, NAM_GADDR(at), bytes);
}

/* The step at that place of the request, of which `left` bytes are left; or NULL. */
static const struct nam_rpc_serial_step *
step_at(const struct nam__exchange *exchange, const uint8_t *at, uint32_t left, uint32_t room)
{
	bool reads = exchange->type == NAM_RPC_SERIAL_READ;
	const struct nam_rpc_serial_step *step = (const void *)at;

	return left < sizeof(*step) ||
		(step->offset > (step->step == NAM_SERIAL_LOCK ? left :
			step->step == NAM_SERIAL_LOG ? UINT32_MAX : 0)) ||
		left < nam_serial_step_bytes(step) ||
		(reads && step->step != NAM_SERIAL_READ) ||
		room < nam_serial_reply_bytes(step) ||
		(step->bytes && step->step == NAM_SERIAL_CAS) ? NULL : step;
}

/* Z9: other requests come between two steps, as between those of a client by itself. */
int
nam__service_serial(struct nam__exchange *exchange)
{
	const struct nam_rpc_serial_request *request = exchange->body;
	const struct nam__server_serial serial = { find, exchange, request->store };
	const uint8_t *at = (const uint8_t *)(request + 1);
	uint8_t *reply = exchange->reply;
	uint32_t left = exchange->body_bytes - (uint32_t)sizeof(*request), bytes = 0;

	if (request->reserved || !request->store)
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < request->count; i++) {
		const struct nam_rpc_serial_step *step = step_at(exchange, at, left,
			NAM_RPC_BODY_MAX - bytes);
		int rc = step ? nam__server_serial_step(&serial, step, (const void *)(step + 1),
			(uint64_t *)(void *)(reply + bytes)) : -NAM_E_FABRIC_PROTOCOL;

		if (rc)
			return rc;
		bytes += nam_serial_reply_bytes(step);
		at += nam_serial_step_bytes(step);
		left -= nam_serial_step_bytes(step);
		nam_race_point("serial.served_one");
	}
	exchange->reply_bytes = bytes;
	return left ? -NAM_E_FABRIC_PROTOCOL : 0;
}
