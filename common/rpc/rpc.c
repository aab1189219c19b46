/* SPDX-License-Identifier: Apache-2.0 */
/* rpc.c -- the envelope of every message, and the names of types and transports. */
#include "rpc.h"

#include <errno.h>
#include <string.h>

#include "transport.h"

#define MAGIC_VERSION (NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION)

int
nam_rpc_check(const void *message, size_t bytes)
{
	struct nam_rpc_header header;

	if (bytes < sizeof(header))
		return -NAM_E_FABRIC_PROTOCOL;
	memcpy(&header, message, sizeof(header));
	if (header.magic_version >> 8 != NAM_RPC_MAGIC)
		return -NAM_E_FABRIC_PROTOCOL;
	if (header.magic_version != MAGIC_VERSION)
		return -NAM_E_FABRIC_VERSION;
	if (header.body_bytes > NAM_RPC_BODY_MAX || header.body_bytes != bytes - sizeof(header))
		return -NAM_E_FABRIC_PROTOCOL;
	if (header.type == 0 || header.type >= NAM_RPC_TYPES_COUNT || header.status > 0)
		return -NAM_E_FABRIC_PROTOCOL;
	return 0;
}

void
nam_rpc_header_fill(struct nam_rpc_header *header, uint16_t type, uint64_t id, int32_t status,
	uint32_t body_bytes)
{
	*header = (struct nam_rpc_header){
		.magic_version = MAGIC_VERSION,
		.type = type,
		.body_bytes = body_bytes,
		.status = status,
		.id = id,
	};
}

const char *
nam_rpc_type_name(uint16_t type)
{
	static const char *const names[NAM_RPC_TYPES_COUNT] = {
#define NAM_RPC_TYPE_NAME(name) [NAM_RPC_##name] = #name,
		NAM_RPC_TYPES(NAM_RPC_TYPE_NAME)
#undef NAM_RPC_TYPE_NAME
	};

	if (type >= NAM_RPC_TYPES_COUNT || !names[type])
		return "unknown";
	return names[type];
}

static const char *const transports[NAM_TRANSPORTS_COUNT] = {
	[NAM_TRANSPORT_SRQ] = "srq",
	[NAM_TRANSPORT_MAILBOX] = "mailbox",
	[NAM_TRANSPORT_FETCH] = "fetch",
	[NAM_TRANSPORT_DATAGRAM] = "datagram",
};

const char *
nam_transport_name(enum nam_transport transport)
{
	return transport < NAM_TRANSPORTS_COUNT ? transports[transport] : NULL;
}

int
nam_transport_find(const char *name)
{
	for (int i = NAM_TRANSPORT_SRQ; i < NAM_TRANSPORTS_COUNT; i++)
		if (!strcmp(transports[i], name))
			return i;
	return -EINVAL;
}
