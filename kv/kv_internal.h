/* SPDX-License-Identifier: Apache-2.0 */
/* kv_internal.h -- what an open key-value store is to this room. */
#ifndef NAM_KV_KV_INTERNAL_H
#define NAM_KV_KV_INTERNAL_H

#include "common/rpc/kv_rpc.h"
#include "compute/remote/epoch.h"
#include "compute/remote/reclaim.h"
#include "compute/rpc/call.h"
#include "kv.h"

struct nam_kv {
	struct nam_client *client;
	char name[NAM_INDEX_NAME_BYTES];
	uint64_t store;
	struct nam_kv_options options;
	uint32_t servers;
	uint16_t slots[NAM_SERVERS_MAX];	/* in the order of the memory servers' ids */
};

/* kv.c: 0, or -NAM_E_LIMIT with a diag. */
int nam__kv_key_check(struct nam_worker *worker, const struct nam_kv *kv, uint32_t key_bytes);
/* The same code, with a diag for those that are of the store. */
int nam__kv_explain(struct nam_worker *worker, const struct nam_kv *kv, int rc);

#endif /* NAM_KV_KV_INTERNAL_H */
