/* SPDX-License-Identifier: Apache-2.0 */
/* rpc.c -- the envelope of every message. */
#include "rpc.h"

#include <string.h>

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
		[NAM_RPC_PING] = "PING",
		[NAM_RPC_REGISTER] = "REGISTER",
		[NAM_RPC_REGIONS] = "REGIONS",
		[NAM_RPC_CLIENT_STATE] = "CLIENT_STATE",
		[NAM_RPC_ALLOC] = "ALLOC",
		[NAM_RPC_FREE] = "FREE",
		[NAM_RPC_CATALOG_PUT] = "CATALOG_PUT",
		[NAM_RPC_CATALOG_GET] = "CATALOG_GET",
		[NAM_RPC_CATALOG_LIST] = "CATALOG_LIST",
		[NAM_RPC_CATALOG_DROP] = "CATALOG_DROP",
		[NAM_RPC_STATUS] = "STATUS",
		[NAM_RPC_TREE_CREATE] = "TREE_CREATE",
		[NAM_RPC_TREE_DESCRIBE] = "TREE_DESCRIBE",
		[NAM_RPC_TREE_DROP] = "TREE_DROP",
		[NAM_RPC_TREE_POINT] = "TREE_POINT",
		[NAM_RPC_TREE_SCAN] = "TREE_SCAN",
		[NAM_RPC_TREE_LOAD] = "TREE_LOAD",
		[NAM_RPC_TREE_WALK] = "TREE_WALK",
		[NAM_RPC_TREE_COLLECT] = "TREE_COLLECT",
		[NAM_RPC_TREE_FLOOR] = "TREE_FLOOR",
		[NAM_RPC_ECHO] = "ECHO",
		[NAM_RPC_LOCAL] = "LOCAL",
		[NAM_RPC_KV_CREATE] = "KV_CREATE",
		[NAM_RPC_KV_DESCRIBE] = "KV_DESCRIBE",
		[NAM_RPC_KV_DROP] = "KV_DROP",
		[NAM_RPC_KV_GET] = "KV_GET",
		[NAM_RPC_KV_PUT] = "KV_PUT",
		[NAM_RPC_KV_DELETE] = "KV_DELETE",
		[NAM_RPC_KV_GET_MANY] = "KV_GET_MANY",
		[NAM_RPC_RECORDS_GET] = "RECORDS_GET",
		[NAM_RPC_RECORDS_PREPARE] = "RECORDS_PREPARE",
		[NAM_RPC_RECORDS_COMMIT] = "RECORDS_COMMIT",
		[NAM_RPC_LOCKING_READ] = "LOCKING_READ",
		[NAM_RPC_LOCKING_RELEASE] = "LOCKING_RELEASE",
		[NAM_RPC_LOCKING_PREPARE] = "LOCKING_PREPARE",
		[NAM_RPC_LOCKING_END] = "LOCKING_END",
		[NAM_RPC_LOCKING_SEAL] = "LOCKING_SEAL",
		[NAM_RPC_PRESENCE] = "PRESENCE",
	};

	if (type >= NAM_RPC_TYPES_COUNT || !names[type])
		return "unknown";
	return names[type];
}
