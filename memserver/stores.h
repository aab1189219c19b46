/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stores.h -- this server's parts of key-value stores.  A part is so many partitions, each with
 * memory of its own (kv/server/partition.h).  Any handler serves any partition, one at a time.
 */
#ifndef NAM_MEMSERVER_STORES_H
#define NAM_MEMSERVER_STORES_H

#include "common/rpc/kv_rpc.h"
#include "kv/server/partition.h"
#include "memserver_internal.h"

#define NAM__STORES_MAX 256u

struct nam__store {
	struct nam__object object;
	struct nam_server *server;
	struct nam_rpc_kv_create_request shape;	/* onesided: chunks are read-only memory */
	struct nam__kv_partition *partitions;
	uint32_t chunks_count;
	uint64_t *blocks;		/* addresses of the chunks */
	uint8_t **chunks;
};

/* -NAM_E_FABRIC_PROTOCOL, -NAM_E_REMOTE_FULL, -ENOMEM. */
int nam__store_new(struct nam_server *server, const struct nam_rpc_kv_create_request *request,
	struct nam__store **ret_store) NAM_MUST_CHECK;
/* No handler may be at work on it. */
void nam__store_free(struct nam__object *store);

#endif /* NAM_MEMSERVER_STORES_H */
