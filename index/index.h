/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h -- distributed B-link trees over the memory servers, used by any number of compute nodes.
 *
 * An index holds pairs (key, payload).  Keys have a fixed size of 8 to 64 bytes, compared as
 * unsigned big-endian byte strings; payloads have 8 bytes.  In a unique index a key occurs once.
 * In a non-unique one a pair occurs once, and pairs are ordered by key, then by payload.
 *
 * Every function takes the calling thread's worker and may be called from its fibers.  An index
 * handle may be shared by all workers of the client that opened it.
 *
 * Designs: fine-grained, coarse-grained and hybrid (Ziegler et al., SIGMOD 2019, sections 3 to 5);
 * see index/README.md for what differs and for the invariants.
 *
 * ERRORS: every function that may suspend may also return
 *	-ENOMEM			this host has no memory left
 *	-NAM_E_NOREGION, -NAM_E_REMOTE_CORRUPT
 *				remote memory is damaged: nam_index_verify() says how
 *	-NAM_E_FABRIC_FENCED, -NAM_E_FENCED
 *				this client was declared dead: close it and connect anew
 *	-NAM_E_FABRIC_*		a memory server is gone or does not answer
 * and, given an index,
 *	-NAM_E_DROPPED		it was dropped: close the handle
 *	-NAM_E_LOCK_ORPHANED	a client died as it wrote a node, and no redo record completes the
 *				node.  The client had no memory for the record, the record's block
 *				is gone, or WRITEs were reordered.  The diag names the client
 *	-NAM_E_RESTART_*	a bounded number of attempts met something else under way each time
 *	-NAM_E_PARTITION	its parts are not those of when it was opened: close the handle
 * Common to all functions below.  Outputs are untouched on failure unless a comment says otherwise.
 *
 * COST is in round trips, one wait for the fabric each, and bytes as counters.h counts them.
 * Unless a line says otherwise, the cache knows all inner nodes and no other client is at work.
 * Without a cache, and in a tree of one leaf, a change begins with a lookup.  This takes one
 * round trip more for each level.  A fabric without NAM_CAP_ORDER_ATOMIC_READ needs one more for
 * each lock that is taken.  Without NAM_CAP_ORDER_WRITE_ATOMIC it needs one more for each lock that
 * is released after WRITEs.  Without NAM_CAP_ORDER_WRITES it needs one more for each node written
 * under its lock.  tests/sim/cost_*_test.c assert all of it.
 *
 * Costs are those of the fine-grained design.  Coarse: 1 RPC for each point operation.  A scan
 * takes 1 for each page of a part, 4,072 bytes; the next one is on its way while one is delivered.
 * Statistics and verification take 1 for 256 nodes.  Hybrid: as fine, but all that is above leaves
 * is an RPC.  It takes 1 where the cache does not know the leaf, 1 to report a split and 1 READ, 1
 * for a merge.
 */
#ifndef NAM_INDEX_INDEX_H
#define NAM_INDEX_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../compute/client.h"
#include "options.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_index;
struct nam_cursor;

/**
 * nam_index_create -- make an empty index and enter it into the catalog.
 *
 * @name	1 to 63 printable bytes without blanks
 *
 * Returns 0 or a negative code, and then nothing is left behind:
 *	-EINVAL			the name or an option; the diag says which
 *	-NAM_E_INDEX_EXISTS	an index of that name exists already
 *	-NAM_E_REMOTE_FULL	no memory server has room
 *	-NAM_E_LIMIT		the catalog is full: 4,096 names
 *	-NAM_E_FABRIC_*		it is unknown whether the index was made
 *
 * Suspends:	yes.
 * Cost:	2 round trips: one batch of WRITEs, one RPC.  1 RPC more for each of two blocks
 *		when the block cache has none, and 1 READ if that of the root was used before.
 */
NAM_FIBER_FN int nam_index_create(struct nam_worker *worker, const char *name,
	const struct nam_index_options *options) NAM_MUST_CHECK;

/**
 * nam_index_open -- a handle on an existing index.
 *
 * @cache_bytes	budget for inner nodes kept in this process; 0 keeps none, and every operation
 *		reads its way down from the root
 *
 * Returns 0 or a negative code:
 *	-EINVAL			not a name
 *	-NAM_E_NOINDEX		no index of that name, or it is being dropped
 *	-NAM_E_REMOTE_CORRUPT	what the catalog names is not a superblock
 *	-NAM_E_CLUSTER		the index has nodes on a server that this client does not know; or
 *				what the servers keep of it does not fit together
 *	-NAM_E_LOST		a memory server was restarted since the index was made
 *	-NAM_E_FABRIC_VERSION	the index was made by a library with another format
 *
 * Suspends:	yes.
 * Cost:	2 round trips: one RPC, one READ of 2,176 bytes.  The cache fills as it is used.
 */
NAM_FIBER_FN int nam_index_open(struct nam_worker *worker, const char *name, uint64_t cache_bytes,
	struct nam_index **ret_index) NAM_MUST_CHECK;

/* No operation may be under way and no cursor open.  Frees the cache; touches nothing remote. */
void nam_index_close(struct nam_index *index);

/* The options at creation.  For coarse the head interval is 0, for fine the partitioning. */
const struct nam_index_options *nam_index_properties(const struct nam_index *index);

/**
 * nam_index_expect -- whether an index is what its user takes it for: nam_index_open() opens any.
 *
 * @expected	design, partitioning and key_bytes; those that are 0 do not matter, nor does
 *		partitioning where the index has no parts.  Nothing else of it is looked at
 *
 * Returns 0 or a negative code; the diag says what the index is:
 *	-NAM_E_DESIGN		it is of another design or partitioning
 *	-NAM_E_KEY_BYTES	its keys have another size
 *
 * Cost:	nothing remote.
 */
int nam_index_expect(struct nam_worker *worker, const struct nam_index *index,
	const struct nam_index_options *expected) NAM_MUST_CHECK;

/**
 * nam_index_drop -- take the name out of the catalog and give the nodes back.
 *
 * Close other handles first.  Through one that is still open operations go on until they meet a
 * node that is gone; from then on they fail with -NAM_E_DROPPED.  Their changes are gone, too.
 * Nodes that other clients keep locked are left as they are, and stay allocated until a sweep.
 *
 * Returns 0 or a negative code:
 *	-EINVAL, -NAM_E_NOINDEX, -NAM_E_CLUSTER		as nam_index_open()
 *	-NAM_E_LOCK_TIMEOUT	a collector or a bulk load is at work; nothing was changed
 *	-NAM_E_LOST		the name is gone.  A memory server was restarted since the index was
 *				made, or a node cannot be read; nodes that were not found stay
 *				allocated
 *	-NAM_E_FABRIC_*		the name may be gone; nodes that were not given back stay allocated
 *
 * Suspends:	yes, for as long as it takes to visit all nodes.
 * Cost:	12 round trips, 3 for each node, and a walk along each level, without a cache:
 *		nam_index_stat() says what those are.  About 3.2 for each node of 1 KiB.
 */
NAM_FIBER_FN int nam_index_drop(struct nam_worker *worker, const char *name) NAM_MUST_CHECK;

typedef int (*nam_index_list_fn)(void *arg, const char *name);

/**
 * nam_index_list -- call fn for every index, in the order of names.
 *
 * Returns 0, or the first non-zero value that fn returned, which ends the list; or a negative code.
 * Names that come or go meanwhile may be told or not.
 *
 * Suspends:	yes, between pages; fn is not called then.
 * Cost:	1 RPC per page of 56 names, and 1 to see that there are no more.
 */
NAM_FIBER_FN int nam_index_list(struct nam_worker *worker, nam_index_list_fn fn,
	void *arg) NAM_MUST_CHECK;

/**
 * nam_index_lookup -- find the payload stored under a key.
 *
 * @key		of the index's key size
 * @ret_payload	set on success only; in a non-unique index the smallest of the key's payloads
 *
 * Returns 0 or a negative code; outputs are untouched on failure:
 *	-NAM_E_NOTFOUND		no such key
 *	-NAM_E_RESTART_*	a bounded number of attempts gave no answer
 *	-NAM_E_LOCK_ORPHANED	as above; a client that may only read completes no node
 *	-NAM_E_FABRIC_*		the fabric failed
 *
 * Suspends:	yes, once per node.  Nothing is held across a suspension.
 * Cost:	1 round trip, node_bytes in, with a warm cache; height round trips without.  In a
 *		non-unique index one more for each leaf over which the search has to go on.
 * Progress:	readers never wait for writers, but on a torn image they look again.
 * Source:	Ziegler et al., section 4.2, listing 2; differs: index/README.md, D1 to D3.
 */
NAM_FIBER_FN int nam_index_lookup(struct nam_worker *worker, struct nam_index *index,
	const void *key, uint64_t *ret_payload) NAM_MUST_CHECK;

/**
 * nam_index_lookup_many -- look up many keys in a pipeline.
 *
 * @keys	count * key_bytes bytes
 * @ret_payloads	[count]; element i is set where ret_rcs[i] is 0
 * @ret_rcs	[count]; what nam_index_lookup() would have returned for each key
 *
 * Returns 0, -ENOMEM, or a FABRIC code, after which no element means anything.
 *
 * Suspends:	yes.
 * Cost:	1 round trip and node_bytes in for each key, up to 16 of them under way at a time,
 *		with a warm cache.  The quickest way to look up more than one key: in a unique index
 *		of 8-byte keys, with a cache, on a fabric with NAM_CAP_ORDERED_LOADS.  Elsewhere it
 *		is nam_index_lookup() for one key after the other.
 */
NAM_FIBER_FN int nam_index_lookup_many(struct nam_worker *worker, struct nam_index *index,
	const void *keys, uint32_t count, uint64_t *ret_payloads, int *ret_rcs) NAM_MUST_CHECK;

/**
 * nam_index_insert -- add a pair.
 *
 * Returns 0 or a negative code.  Nothing was changed after
 *	-NAM_E_EXISTS		unique: the key is there; non-unique: the pair is
 *	-NAM_E_REMOTE_FULL	the leaf is full and no memory server has room for another
 *	-NAM_E_LOCK_TIMEOUT	another client's lock was not released within lock_timeout_ms
 *	-NAM_E_LOCK_ORPHANED	as above; in both cases the diag names the lock's owner
 *	-NAM_E_RESTART_*	a bounded number of attempts did not come to the leaf
 * After any other code, FABRIC above all, it is unknown whether the pair was added.
 *
 * Suspends:	yes, holding the leaf's remote lock.
 * Cost:	2 round trips, 2 doorbells with a warm cache and no split; node_bytes + 16 in.  Out
 *		are 96, and twice the entries that are written, of 16 bytes for keys of 8; 112 if
 *		these are more than 32 bytes.  2 round trips as well when the pair is there.  With a
 *		split 6, and 4 more for each full node above the leaf, which is split, too.  1 more
 *		where the last parent is the root; 8 more where the root is split and the tree
 *		grows.  Each new node takes 1 more if its block was used before, and an RPC if the
 *		block cache has none.
 * Progress:	writers of one process queue for a leaf; those of several back off.  A lock is held
 *		for one round trip, three in a split.
 * Source:	Ziegler et al., section 4.2; Lehman and Yao for splits; differs: index/README.md, D1
 *		and D5.
 */
NAM_FIBER_FN int nam_index_insert(struct nam_worker *worker, struct nam_index *index,
	const void *key, uint64_t payload) NAM_MUST_CHECK;

/**
 * nam_index_upsert -- unique: add the pair, or replace the key's payload.  Non-unique: add the pair
 * unless it is there.
 *
 * Returns as nam_index_insert(), but never -NAM_E_EXISTS.
 *
 * Suspends:	yes, holding the leaf's remote lock.
 * Cost:	that of nam_index_insert(), or of nam_index_update() where the key is there.
 */
NAM_FIBER_FN int nam_index_upsert(struct nam_worker *worker, struct nam_index *index,
	const void *key, uint64_t payload) NAM_MUST_CHECK;

/**
 * nam_index_update -- replace the payload of a key.  For unique indexes.
 *
 * Returns 0 or a negative code.  Nothing was changed after
 *	-EINVAL			the index is not unique
 *	-NAM_E_NOTFOUND		no such key
 *	-NAM_E_LOCK_TIMEOUT, -NAM_E_LOCK_ORPHANED, -NAM_E_RESTART_*	as nam_index_insert()
 * After any other code it is unknown which payload the key has.
 *
 * Suspends:	yes, holding the leaf's remote lock.
 * Cost:	2 round trips, 2 doorbells; node_bytes + 16 in, 104 out; 2 round trips also without
 *		such a key.
 */
NAM_FIBER_FN int nam_index_update(struct nam_worker *worker, struct nam_index *index,
	const void *key, uint64_t payload) NAM_MUST_CHECK;

/**
 * nam_index_delete -- remove a key.  For unique indexes.
 *
 * The entry is gone at once; a leaf that becomes sparse waits for nam_index_collect().
 *
 * Returns as nam_index_update(); after any other code it is unknown whether the key was removed.
 *
 * Suspends:	yes, holding the leaf's remote lock.
 * Cost:	2 round trips, 2 doorbells; node_bytes + 16 in.  Out are 96, and twice the entries
 *		from this one to the leaf's end, as later ones move up; 112 if these exceed 32
 *		bytes.  2 round trips also without such a key.
 */
NAM_FIBER_FN int nam_index_delete(struct nam_worker *worker, struct nam_index *index,
	const void *key) NAM_MUST_CHECK;

/**
 * nam_index_delete_pair -- remove exactly this pair.
 *
 * Returns as nam_index_delete(), without -EINVAL.  In a unique index -NAM_E_NOTFOUND also says that
 * the key has another payload.
 *
 * Suspends:	yes, holding the leaf's remote lock.
 * Cost:	that of nam_index_delete().
 */
NAM_FIBER_FN int nam_index_delete_pair(struct nam_worker *worker, struct nam_index *index,
	const void *key, uint64_t payload) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#include "changes.h"
#include "maintain.h"
#include "scan.h"

#endif /* NAM_INDEX_INDEX_H */
