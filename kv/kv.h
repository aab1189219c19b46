/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv.h -- key-value stores on the memory servers: any bytes under any bytes, found by name.
 *
 * A store has a fixed amount of memory, divided evenly over the memory servers and there over
 * partitions.  Memory servers read and change it themselves, as if one request at a time were in
 * each partition.  (Su et al., "RFP", section 4; see kv/README.md.)  If a pair finds no room,
 *
 *	a cache		evicts pairs that have not been read lately
 *	a store		refuses the pair
 *
 * Every function takes the calling thread's worker and may be called from its fibers.  A handle may
 * be shared by all workers of the client that opened it.  Operations on one key are linearizable.
 *
 * ERRORS: every function that suspends may also return
 *	-ENOMEM			this host has no memory left
 *	-NAM_E_FABRIC_*		a memory server is gone or does not answer; it may have carried the
 *				request out
 *	-NAM_E_REMOTE_CORRUPT	engine cuckoo: pairs in a memory server's memory are damaged
 * and, given a handle,
 *	-NAM_E_DROPPED		the store was dropped: close the handle
 *	-NAM_E_PARTITION	it is not what it was when it was opened: close the handle
 * Common to all functions below.  Outputs are untouched on failure unless a comment says otherwise.
 *
 * COST is in requests (RPC).  By the RPC transports srq and mailbox one takes 1 round trip.  By
 * fetch it takes 2, or 3 if the reply is longer than fetch_bytes; by datagram 1, and 1 more for
 * each loss.
 *
 * A LONG VALUE has more than NAM_KV_MESSAGE_BYTES_MAX bytes.  It passes through blocks of 33,792
 * bytes of public memory on the key's memory server, which the worker keeps for later ones until it
 * closes.  Sometimes an operation also takes RPCs to allocate them.  An error may be
 *	-NAM_E_REMOTE_FULL	that memory server has no public memory left
 *	-NAM_E_REMOTE_CORRUPT	a client wrote there that should not: the value is as it was
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
 * Returns 0 or a negative code, and then leaves nothing behind, except perhaps after a FABRIC one:
 *	-EINVAL			the name or an option; the diag says which
 *	-NAM_E_INDEX_EXISTS	there is a store, or an index, of that name
 *	-NAM_E_REMOTE_FULL	a memory server has not that much memory left
 *	-NAM_E_LIMIT		the catalog is full, or a memory server has 256 stores
 *
 * Suspends:	yes.
 * Cost:	1 RPC to each memory server, one after the other, and 2 to the catalog's.  If memory
 *		servers must turn regions first: again, and 2 RPCs to each, in 20 to 50 ms.
 */
NAM_FIBER_FN int nam_kv_create(struct nam_worker *worker, const char *name,
	const struct nam_kv_options *options) NAM_MUST_CHECK;

/**
 * nam_kv_open -- find a store by its name.
 *
 * Returns 0 or a negative code:
 *	-EINVAL			the name
 *	-NAM_E_NOINDEX		nothing has that name
 *	-NAM_E_KIND		it is the name of an index
 *	-NAM_E_CLUSTER		what memory servers have of it does not fit together: drop it
 *	-NAM_E_LOST		a memory server was restarted since it was made: drop it
 *
 * Suspends:	yes.
 * Cost:	1 RPC to the catalog's memory server and 1 to each.  Memory servers that were added
 *		after the store was made are not asked if their ids are higher.
 */
NAM_FIBER_FN int nam_kv_open(struct nam_worker *worker, const char *name,
	struct nam_kv **ret_kv) NAM_MUST_CHECK;

/* No operation may be under way.  NULL is nothing. */
void nam_kv_close(struct nam_kv *kv);

/* A store's options at creation; memory_bytes may be a little less, partitions is never 0. */
const struct nam_kv_options *nam_kv_properties(const struct nam_kv *kv);

/**
 * nam_kv_drop -- remove the name, then the store.
 *
 * Returns 0 or a negative code: as nam_kv_open(), but a lost store is dropped; or
 *	-NAM_E_NOINDEX		another client has dropped it meanwhile, too
 *
 * Suspends:	yes.
 * Cost:	2 RPCs to the catalog's memory server, 1 to each.
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
 * Cost:	1 RPC; 40 bytes and the key out, 24 and the value in.  In a store with `onesided`: 1
 *		round trip of 2 READs, 512 bytes in, if key and value have 48 bytes together at
 *		most.  If this handle found the key lately, 1 READ, 256 bytes; but over shm always
 *		2.  If the pair has moved since, 1 round trip and these 2 READs more.
 *		This takes no work of the memory server's processor.  That RPC follows if
 *		they have more, if the key is not there, or if it has just moved.  1 RPC more for
 *		the first GET of each partition, and after its tables have grown or shrunk.
 *		A long value takes that RPC, without the value, then 1 RPC more and 1 doorbell of
 *		READs, 1 for each block.  This is 56 bytes and the key out, 40 and the value in.  If
 *		it is in several blocks, it takes another RPC: 48 bytes, 8 for each block, and the
 *		key out, 40 in.
 */
NAM_FIBER_FN int nam_kv_get(struct nam_worker *worker, struct nam_kv *kv, const void *key,
	uint32_t key_bytes, void *value, uint32_t size, uint32_t *ret_bytes) NAM_MUST_CHECK;

/**
 * nam_kv_put -- add a pair, or give a key another value.
 *
 * Returns 0 or a negative code:
 *	-NAM_E_LIMIT		the key is empty or too long, or the value too long
 *	-NAM_E_REMOTE_FULL	mode store: the key's partition has no room; mode cache: the pair is
 *				larger than the partition beside its smallest tables.  A value that
 *				the key has is still there
 *
 * Suspends:	yes.
 * Cost:	1 RPC; 40 bytes, key and value out, 24 in.  For a long value, 1 doorbell of WRITEs,
 *		1 for each block, and then 1 RPC.  This is 48 bytes, 8 for each block, key and value
 *		out, 24 in.
 */
NAM_FIBER_FN int nam_kv_put(struct nam_worker *worker, struct nam_kv *kv, const void *key,
	uint32_t key_bytes, const void *value, uint32_t value_bytes) NAM_MUST_CHECK;

/**
 * nam_kv_delete -- remove a pair.
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

struct nam_kv_item {
	const void *key;
	uint32_t key_bytes;
	uint32_t size;			/* room at value */
	void *value;
	uint32_t value_bytes;		/* out, if rc is 0 */
	int rc;				/* out: as of nam_kv_get() */
};

/**
 * nam_kv_get_many -- the values of many keys.
 *
 * @items	`count`, in any order, with or without duplicates
 *
 * Each is as of a nam_kv_get(), so they are not of one moment.  Returns 0, and then every item has
 * its answer; or a negative code, and then none has.
 *
 * Suspends:	yes.
 * Cost:	1 RPC to each memory server that keeps some of the keys, up to 8 at a time.  More if
 *		keys or values of one memory server exceed a message of 4,096 bytes, or for more
 *		than 1,024 keys.  Out are 17 bytes and the lengths of the keys; in are 32, and for
 *		each key 8 and its value.  In a store with `onesided`, at first 1 round trip for
 *		each 20 keys: 1 or 2 READs, as of nam_kv_get().  Requests are for those that
 *		nam_kv_get() would ask for.  Long values are got one after the other, each without
 *		the first RPC of nam_kv_get().
 */
NAM_FIBER_FN int nam_kv_get_many(struct nam_worker *worker, struct nam_kv *kv,
	struct nam_kv_item *items, uint32_t count) NAM_MUST_CHECK;

/* Since its creation. */
struct nam_kv_stat {
	uint64_t keys;
	uint64_t bytes;			/* of keys and values */
	uint64_t used_bytes;		/* of their cells, and of slots of cuckoo; */
	uint64_t room_bytes;		/* of all; of cuckoo with its tables */
	uint64_t hits, misses;		/* of gets; not of those that READs answered */
	uint64_t puts, deletes;		/* that succeeded */
	uint64_t evictions;		/* of pairs */
	uint64_t refusals;		/* of pairs without room */
	/* Engine cuckoo: */
	uint64_t slots;			/* of the tables */
	uint64_t stashed;		/* pairs in the stash */
	uint64_t loops;			/* inserts refused because they would loop */
	/* Hardware transactions; and critical sections that took the lock in the end. */
	uint64_t htm_commits, htm_aborts, htm_fallbacks;
	uint64_t kicked[NAM_KV_KICKED];	/* new pairs after 0, 1, 2-3, 4-7 ... kick-outs */
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
