/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stores.h -- this server's parts of key-value stores.
 *
 * A part is so many partitions, each with memory of its own that it is given at the beginning
 * (kv/server/partition.h).  Any handler serves any partition, one handler at a time.  The table is
 * read without a lock; what was dropped waits until every handler that was at work then has
 * answered, by the clock of trees.h.
 */
#ifndef NAM_MEMSERVER_STORES_H
#define NAM_MEMSERVER_STORES_H

#include "common/rpc/kv_rpc.h"
#include "kv/server/partition.h"
#include "memserver_internal.h"

struct nam__store {
	uint64_t id;
	struct nam_server *server;
	uint64_t memory_bytes;
	uint32_t mode;
	uint32_t servers, number;
	uint32_t partitions_count;
	struct nam__kv_partition *partitions;
	uint32_t chunks_count;
	uint64_t *blocks;		/* addresses of the chunks */
	uint8_t **chunks;
	struct nam__store *next;	/* dropped later */
	uint64_t clock;			/* free once every handler has begun later */
};

/* -NAM_E_FABRIC_PROTOCOL, -NAM_E_REMOTE_FULL, -ENOMEM. */
int nam__store_new(struct nam_server *server, const struct nam_rpc_kv_create_request *request,
	struct nam__store **ret_store) NAM_MUST_CHECK;
/* No handler may be at work on it; NULL is allowed. */
void nam__store_free(struct nam__store *store);

/* -NAM_E_INDEX_EXISTS, -NAM_E_LIMIT. */
int nam__stores_enter(struct nam__stores *stores, struct nam__store *store) NAM_MUST_CHECK;
/* Between nam__trees_work_begin() and end; NULL if there is none. */
struct nam__store *nam__stores_find(struct nam__stores *stores, uint64_t id);
/* Out of everybody's sight: 0 or -NAM_E_DROPPED. */
int nam__stores_drop(struct nam_server *server, uint64_t id) NAM_MUST_CHECK;

#endif /* NAM_MEMSERVER_STORES_H */
