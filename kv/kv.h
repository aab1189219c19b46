/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv.h -- key-value stores on the memory servers: any bytes under any bytes, found by name.
 *
 * A store has a fixed amount of memory, divided evenly over the memory servers and there over
 * partitions; memory servers read and change it themselves, one request at a time in each partition
 * (Su et al., "RFP", section 4; see kv/README.md).  A store is either
 *
 *	a cache		a pair that finds no room takes that of pairs that have not been read lately
 *	a store		a pair that finds no room is refused, and nothing is lost
 *
 * Every function takes the calling thread's worker and may be called from its fibers.  A handle may
 * be shared by all workers of the client that opened it.  Operations on one key are linearizable.
 *
 * ERRORS: every function that suspends may also return
 *	-ENOMEM			this host has no memory left
 *	-NAM_E_FABRIC_*		a memory server is gone or does not answer; whether it has done what
 *				it was asked is unknown
 * and, given a handle,
 *	-NAM_E_DROPPED		the store was dropped: close the handle
 *	-NAM_E_PARTITION	it is not what it was when it was opened: close the handle
 * Common to all functions below.  Outputs are untouched on failure unless a comment says otherwise.
 *
 * COST is in requests (RPC).  One takes 1 round trip by the RPC transports srq and mailbox, 2 by
 * fetch, and 3 by fetch if the reply is longer than it fetches at once; by datagram 1, and 1 more
 * for each loss: client.h.
 */
#ifndef NAM_KV_KV_H
#define NAM_KV_KV_H

#include <stdint.h>

#include "../compute/client.h"
#include "options.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_kv;

/**
 * nam_kv_create -- make an empty store and enter it into the catalog, which indexes share.
 *
 * @name	1 to 63 printable bytes without blanks
 *
 * It outlives its creator and ends with nam_kv_drop(), or with the memory servers.
 *
 * Returns 0 or a negative code, and then nothing is left behind, except perhaps after a FABRIC one:
 *	-EINVAL			the name or an option; the diag says which
 *	-NAM_E_INDEX_EXISTS	there is a store, or an index, of that name
 *	-NAM_E_REMOTE_FULL	a memory server has not that much memory left
 *	-NAM_E_LIMIT		the catalog is full, or a memory server has 256 stores
 *
 * Suspends:	yes.
 * Cost:	1 RPC to each memory server, one after the other, and 2 to the catalog's.
 */
NAM_FIBER_FN int nam_kv_create(struct nam_worker *worker, const char *name,
	const struct nam_kv_options *options) NAM_MUST_CHECK;

/**
 * nam_kv_open -- find a store by its name.
 *
 * Returns 0 or a negative code:
 *	-EINVAL			the name
 *	-NAM_E_NOINDEX		nothing has that name
 *	-NAM_E_KIND		that is the name of an index
 *	-NAM_E_CLUSTER		it lies on other memory servers than those of the cluster text
 *	-NAM_E_LOST		a memory server was restarted since it was made: drop it
 *
 * Suspends:	yes.
 * Cost:	1 RPC to the catalog's memory server and 1 to each.
 */
NAM_FIBER_FN int nam_kv_open(struct nam_worker *worker, const char *name,
	struct nam_kv **ret_kv) NAM_MUST_CHECK;

/* No operation may be under way.  NULL is nothing. */
void nam_kv_close(struct nam_kv *kv);

/* Its options at creation; memory_bytes may be a little less, partitions is never 0. */
const struct nam_kv_options *nam_kv_properties(const struct nam_kv *kv);

/**
 * nam_kv_drop -- take the name away, then the store.
 *
 * Returns 0 or a negative code: as nam_kv_open(), but what is lost is dropped; or
 *	-NAM_E_NOINDEX		another client has dropped it meanwhile, too
 *
 * Suspends:	yes.
 * Cost:	2 RPCs to the catalog's memory server, 2 to each.
 */
NAM_FIBER_FN int nam_kv_drop(struct nam_worker *worker, const char *name) NAM_MUST_CHECK;

/* A result other than 0 ends the list; nam_kv_list() returns it. */
typedef int (*nam_kv_list_fn)(void *arg, const char *name);

/**
 * nam_kv_list -- the names of all stores, in their order, and of no index.
 *
 * Suspends:	yes.
 * Cost:	1 RPC for each 56 names of the catalog, and 1.
 */
NAM_FIBER_FN int nam_kv_list(struct nam_worker *worker, nam_kv_list_fn fn, void *arg)
	NAM_MUST_CHECK;

/**
 * nam_kv_get -- the value of a key.
 *
 * @key, @key_bytes	1 .. NAM_KV_KEY_BYTES_MAX bytes
 * @value, @size	room for it; NAM_KV_VALUE_BYTES_MAX is enough for any
 * @ret_bytes		its length
 *
 * Returns 0 or a negative code:
 *	-NAM_E_NOTFOUND		no such key
 *	-NAM_E_LIMIT		the key is empty or too long, or the value longer than there is
 *				room for; the diag says which, and the lengths
 *
 * Suspends:	yes.
 * Cost:	1 RPC; 40 bytes and the key out, 24 and the value in.
 */
NAM_FIBER_FN int nam_kv_get(struct nam_worker *worker, struct nam_kv *kv, const void *key,
	uint32_t key_bytes, void *value, uint32_t size, uint32_t *ret_bytes) NAM_MUST_CHECK;

/**
 * nam_kv_put -- add a pair, or give a key another value.
 *
 * Returns 0 or a negative code:
 *	-NAM_E_LIMIT		the key is empty or too long, or the value too long
 *	-NAM_E_REMOTE_FULL	mode store: the key's partition has no room; a value that the key
 *				has is still there
 *
 * Suspends:	yes.
 * Cost:	1 RPC; 40 bytes, key and value out, 24 in.
 */
NAM_FIBER_FN int nam_kv_put(struct nam_worker *worker, struct nam_kv *kv, const void *key,
	uint32_t key_bytes, const void *value, uint32_t value_bytes) NAM_MUST_CHECK;

/**
 * nam_kv_delete -- take a pair out.
 *
 * Returns 0 or a negative code:
 *	-NAM_E_NOTFOUND		no such key
 *	-NAM_E_LIMIT		the key is empty or too long
 *
 * Suspends:	yes.
 * Cost:	1 RPC; 40 bytes and the key out, 24 in.
 */
NAM_FIBER_FN int nam_kv_delete(struct nam_worker *worker, struct nam_kv *kv, const void *key,
	uint32_t key_bytes) NAM_MUST_CHECK;

/* One of many: the first four are the caller's. */
struct nam_kv_item {
	const void *key;
	uint32_t key_bytes;
	uint32_t size;			/* room at value */
	void *value;
	uint32_t value_bytes;		/* set where rc is 0 */
	int rc;				/* what nam_kv_get() would have returned */
};

/**
 * nam_kv_get_many -- the values of many keys.
 *
 * @items	`count`; each gets its own answer, whatever their order, however often a key occurs
 *
 * They are not read at one moment: each by itself is as if by nam_kv_get().
 *
 * Returns 0, and then every item has its answer; or a negative code, and then no item means
 * anything.
 *
 * Suspends:	yes.
 * Cost:	1 RPC to each memory server that keeps some of the keys, up to 8 of them at a time;
 *		more where keys or values of one memory server take more than one message of 4,096
 *		bytes: 17 bytes and the lengths of the keys out, 32 and for each key 8 and its value
 *		in; and where there are more than 1,024 keys.
 */
NAM_FIBER_FN int nam_kv_get_many(struct nam_worker *worker, struct nam_kv *kv,
	struct nam_kv_item *items, uint32_t count) NAM_MUST_CHECK;

/* Since it was made. */
struct nam_kv_stat {
	uint64_t keys;
	uint64_t bytes;			/* of keys and values */
	uint64_t used_bytes;		/* what these take, */
	uint64_t room_bytes;		/* and could take at the most */
	uint64_t hits, misses;		/* of keys that were asked for */
	uint64_t puts, deletes;		/* that were done */
	uint64_t evictions;		/* pairs that had to go */
	uint64_t refusals;		/* pairs that found no room */
	uint32_t servers;
};

/**
 * nam_kv_stat -- figures of a store; not of one moment if it is in use.
 *
 * Suspends:	yes.
 * Cost:	1 RPC to each memory server, one after the other.
 */
NAM_FIBER_FN int nam_kv_stat(struct nam_worker *worker, struct nam_kv *kv,
	struct nam_kv_stat *ret_stat) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_KV_KV_H */
