/* SPDX-License-Identifier: Apache-2.0 */
/* kv_internal.h -- what an open key-value store is to this room. */
#ifndef NAM_KV_KV_INTERNAL_H
#define NAM_KV_KV_INTERNAL_H

#include "common/rpc/kv_rpc.h"
#include "compute/remote/epoch.h"
#include "compute/remote/reclaim.h"
#include "compute/remote.h"
#include "compute/rpc/call.h"
#include "kv.h"
#include "kv/server/place.h"

struct nam_kv {
	struct nam_client *client;
	char name[NAM_INDEX_NAME_BYTES];
	uint64_t store;
	struct nam_kv_options options;
	uint32_t servers;
	uint16_t slots[NAM_SERVERS_MAX];	/* in the order of the memory servers' ids */
	/* onesided.c: of each partition of each memory server; NULL: not known; or no array */
	_Atomic(struct nam__kv_layout *) *layouts;
	/* onesided.c: in which table READs found keys lately: hints */
	_Atomic(uint16_t) *hot;
};

static inline struct nam__kv_place
nam__kv_place_of(const struct nam_kv *kv, const void *key, uint32_t key_bytes)
{
	return nam__kv_place(kv->store, key, key_bytes, kv->servers, kv->options.partitions);
}

/* onesided.c: -ENOMEM; and without effect for a handle that has none. */
int nam__kv_layouts_init(struct nam_kv *kv) NAM_MUST_CHECK;
void nam__kv_layouts_free(struct nam_kv *kv);

#define NAM__KV_READS_MAX (NAM_BATCH_MAX / 2)	/* keys that one doorbell reads */

enum nam__kv_read_result {
	NAM__KV_READ_FOUND,
	NAM__KV_READ_ASK,		/* the memory server has to be asked */
	NAM__KV_READ_ASK_AND_FORGET,	/* and if it has the pair, the layout was an old one */
};

struct nam__kv_read {
	enum nam__kv_read_result result;
	uint32_t server;		/* the key's: 0 .. nam_kv.servers - 1 */
};

/*
 * Look for keys in their buckets.  In an operation.
 *
 * @items	1 to NAM__KV_READS_MAX; FOUND: rc 0, or -NAM_E_LIMIT, and value_bytes
 *
 * Returns 0, a FABRIC code, -NAM_E_DROPPED or -ENOMEM.
 */
NAM_FIBER_FN int nam__kv_reads(struct nam_worker *worker, struct nam_kv *kv,
	struct nam_kv_item *const *items, uint32_t count,
	struct nam__kv_read *ret_reads) NAM_MUST_CHECK;
/* The next read learns the layout of the key's partition anew. */
void nam__kv_layout_forget(struct nam_kv *kv, const void *key, uint32_t key_bytes);

/* kv.c: 0, or -NAM_E_LIMIT with a diag. */
int nam__kv_key_check(struct nam_worker *worker, const struct nam_kv *kv, uint32_t key_bytes);
/* Returns `rc`.  If it is about the store, with a diag. */
int nam__kv_explain(struct nam_worker *worker, const struct nam_kv *kv, int rc);
/* -NAM_E_REMOTE_CORRUPT: the memory server found damaged pairs where the key belongs. */
int nam__kv_damaged(struct nam_worker *worker, const struct nam_kv *kv, const void *key,
	uint32_t key_bytes);
/* -NAM_E_LIMIT: the caller has less room than a value needs. */

/* kv_large.c: -NAM_E_LIMIT with a diag. */
int nam__kv_too_long(struct nam_worker *worker, const struct nam_kv *kv, uint32_t bytes,
	uint32_t room);
/* nam_kv_get() of a value that is longer than a message. */
NAM_FIBER_FN int nam__kv_get_alone(struct nam_worker *worker, struct nam_kv *kv,
	struct nam_kv_item *item) NAM_MUST_CHECK;

/*
 * kv_large.c: within an operation.  @slot the key's memory server
 *
 * @ret_staged	false: a failure was before the memory server was asked
 */
NAM_FIBER_FN int nam__kv_large_put(struct nam_worker *worker, struct nam_kv *kv, uint32_t slot,
	const void *key, uint32_t key_bytes, const void *value, uint32_t value_bytes,
	bool *ret_staged) NAM_MUST_CHECK;

#endif /* NAM_KV_KV_INTERNAL_H */
