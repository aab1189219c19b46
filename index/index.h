/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h -- distributed B-link trees over the memory servers, used by any number of compute nodes.
 *
 * An index holds pairs (key, payload): keys of a fixed size between 8 and 64 bytes, compared as
 * unsigned big-endian byte strings, payloads of 8 bytes.  In a unique index a key occurs once; in a
 * non-unique one a pair occurs once, and pairs are ordered by key, then by payload.
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
 *	-NAM_E_FENCED		this client was declared dead: close it and connect anew
 *	-NAM_E_FABRIC_*		a memory server is gone or does not answer
 * and, given an index,
 *	-NAM_E_DROPPED		it was dropped: close the handle
 *	-NAM_E_LOCK_ORPHANED	a node was being written by a client that died; the diag names it
 *	-NAM_E_RESTART_*	a bounded number of attempts met something else under way each time
 *	-NAM_E_PARTITION	its parts are not those of when it was opened: close the handle
 * What is not repeated below.  Outputs are untouched on failure unless a comment says otherwise.
 *
 * COST is in round trips, one wait for the fabric each, and bytes as counters.h counts them, with a
 * cache that knows all inner nodes, while nobody else is at work, unless a line says otherwise.
 * Without a cache, and in a tree of one leaf, a change begins with a lookup: that takes as many
 * round trips more as the tree is high.  A fabric without NAM_CAP_ORDER_ATOMIC_READ needs one more
 * for each lock that is taken, one without NAM_CAP_ORDER_WRITE_ATOMIC one more for each that is
 * released after WRITEs.  tests/sim/cost_*_test.c assert all of it.
 *
 * Costs are those of the fine-grained design.  Coarse: 1 RPC for each point operation; a scan 1 for
 * each page of a part, 4,072 bytes, the next one on its way while one is delivered; stat and verify
 * 1 for 256 nodes.  Hybrid: as fine, but all that is above leaves is an RPC: 1 where the cache does
 * not know the leaf, 1 to report a split and 1 READ, 1 for a merge.
 */
#ifndef NAM_INDEX_INDEX_H
#define NAM_INDEX_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../compute/client.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_index;
struct nam_cursor;

/* Where the work is done; index/README.md compares them. */
enum nam_index_design {
	NAM_DESIGN_FINE = 1,		/* one tree over all memory servers; compute does it all */
	NAM_DESIGN_COARSE = 2,		/* a tree on each memory server, which does it all */
	NAM_DESIGN_HYBRID = 3,		/* leaves as fine; each memory server says where those of
					 * its part of the keys are */
};

/* Coarse and hybrid: which memory server keeps a key. */
enum nam_partitioning {
	NAM_PARTITION_RANGE = 1,	/* each a range of keys */
	NAM_PARTITION_HASH = 2,
	NAM_PARTITION_ROUND_ROBIN = 3,	/* successive numbers (the key's last 8 bytes) in turn */
};

#define NAM_KEY_BYTES_MIN 8u
#define NAM_KEY_BYTES_MAX 64u
#define NAM_NODE_BYTES_MIN 256u
#define NAM_NODE_BYTES_MAX 16384u

struct nam_index_options {
	enum nam_index_design design;	/* default fine */
	enum nam_partitioning partitioning;	/* default hash; of fine nothing else */
	/*
	 * By range: where the parts of the second, third, ... memory server begin, in the order of
	 * their ids: one key less than there are servers, ascending, the first above the lowest
	 * key there is.  Else, and of fine, NULL.
	 */
	const void *bounds;
	uint32_t key_bytes;		/* default 8 */
	bool unique;			/* default true */
	uint32_t node_bytes;		/* default 1024; a power of two that holds 4 entries */
	uint32_t head_interval;		/* leaves per head node, or as many as it can name; default
					 * 32; 0: no head nodes; of coarse one of these */
};

/* The defaults above. */
void nam_index_options_init(struct nam_index_options *options);

/* Integers as 8-byte keys whose byte order is their numeric order. */
static inline void
nam_key_from_u64(uint64_t value, void *ret_key)
{
	uint64_t big = __builtin_bswap64(value);

	__builtin_memcpy(ret_key, &big, 8);
}

static inline uint64_t
nam_key_to_u64(const void *key)
{
	uint64_t big;

	__builtin_memcpy(&big, key, 8);
	return __builtin_bswap64(big);
}

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
 *		when there are none in stock, and 1 READ if that of the root was used before.
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

/* What the index was created with.  Of coarse the head interval is 0, of fine the partitioning. */
const struct nam_index_options *nam_index_properties(const struct nam_index *index);

/**
 * nam_index_expect -- whether an index is what its user takes it for: nam_index_open() opens any.
 *
 * @expected	design, partitioning and key_bytes, of which those that are 0 do not matter, nor
 *		partitioning where the index has no parts; nothing else of it is looked at
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
 * node that is gone; from then on they fail with -NAM_E_DROPPED.  What they changed is gone, too.
 * Nodes that others keep locked, dead clients above all, are left as they are, and their memory is
 * lost until the servers end.
 *
 * Returns 0 or a negative code:
 *	-EINVAL, -NAM_E_NOINDEX, -NAM_E_CLUSTER		as nam_index_open()
 *	-NAM_E_LOCK_TIMEOUT	a collector or a bulk load is at work; nothing was changed
 *	-NAM_E_LOST		the name is gone; a memory server was restarted since the index was
 *				made, so its nodes could not be found and stay allocated
 *	-NAM_E_FABRIC_*		the name may be gone; nodes that were not given back stay allocated
 *
 * Suspends:	yes, for as long as it takes to visit all nodes.
 * Cost:	10 round trips, 3 for each node, and a walk along each level, without a cache:
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
 *	-NAM_E_LOCK_ORPHANED	the node was being written by a client that died
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
 *	-NAM_E_LOCK_TIMEOUT	somebody else's lock was not released within lock_timeout_ms
 *	-NAM_E_LOCK_ORPHANED	the lock's owner is dead; in both cases the diag says who it is
 *	-NAM_E_RESTART_*	a bounded number of attempts did not come to the leaf
 * After any other code, FABRIC above all, it is unknown whether the pair was added.
 *
 * Suspends:	yes, holding the leaf's remote lock.
 * Cost:	2 round trips, 2 doorbells with a warm cache and no split; node_bytes + 16 in, 80
 *		out for keys of 8 bytes.  2 round trips as well when the pair is there.
 *		With a split 6; 4 more for each full node above the leaf, which is split, too; and
 *		1 more where the last parent is the root, 8 more where the root is split and the
 *		tree grows.  Each new node takes 1 more if its block was used before, and an RPC
 *		if there is none in stock.
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
 * Cost:	2 round trips, 2 doorbells; node_bytes + 16 in, 64 out.  Also without such a key.
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
 * Cost:	2 round trips, 2 doorbells; node_bytes + 16 in; 64 out, and the entries from this
 *		one to the end of the leaf, for those behind it move up.  2 round trips also
 *		without such a key.
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

struct nam_range {
	const void *low;		/* inclusive; NULL: from the first key */
	const void *high;		/* exclusive, or see below; NULL: to the last key */
	bool high_inclusive;
	bool reverse;			/* from high to low */
	uint64_t limit;			/* entries at the most; 0: no limit */
};

/**
 * nam_cursor_open -- start a range scan.
 *
 * @range	its keys are copied
 *
 * Returns 0, -ENOMEM, or -EINVAL when low > high.
 *
 * Cost:	nothing remote yet; buffers for 32 leaves, fewer if the limit is small.
 */
int nam_cursor_open(struct nam_worker *worker, struct nam_index *index,
	const struct nam_range *range, struct nam_cursor **ret_cursor) NAM_MUST_CHECK;

/**
 * nam_cursor_next -- the next entries in order.
 *
 * @keys	room for capacity * key_bytes bytes, or NULL
 * @payloads	room for capacity payloads, or NULL
 * @ret_count	entries delivered; 0 means that the range is exhausted
 *
 * Every leaf is seen as one whole image; the scan as a whole is not a snapshot.  What was in the
 * range throughout is delivered exactly once; what never was is not.
 *
 * Returns 0 or a negative code.  The cursor keeps its place: a call that had delivered entries when
 * it failed returns them, and the next one goes on from there.  So does one after a failure, up to
 * where it is met again.
 *
 * Suspends:	yes, but READs of the next window are on their way while entries are delivered.
 * Cost:	over the whole scan 1 round trip and one doorbell per server for each window of
 *		leaves, node_bytes in for each leaf.  With a limit the first window has as many
 *		leaves as the limit suggests, at most 32 and 64 KiB; without one it has 4, and each
 *		next one up to twice as many.  The next is posted when half of what was asked for is
 *		used up.  So a scan of n > 32 leaves of 1 KiB with a limit takes
 *		1 + ceil((n - 32) / 16), and waits for the first only.  In reverse windows end with
 *		the parent, and the next waits.
 *		Without a cache windows end so, too.  The way down to the first parent is READ, and
 *		in reverse to each; forward, leaves behind it are READ one by one up to the first
 *		head node, and then 1 head node and a window of its leaves by turns; and near the
 *		far end a way down to each parent again, which says where that is.
 * Source:	Ziegler et al., section 4.3 (head nodes); differs: index/README.md, D7.
 */
NAM_FIBER_FN int nam_cursor_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads,
	uint32_t capacity, uint32_t *ret_count) NAM_MUST_CHECK;

/* Entries where a scan has them: words in this machine's order, not to be changed. */
struct nam_entries {
	const uint64_t *first;		/* of an entry: its key, then its payload, a word */
	int32_t stride_words;		/* from one to the next; may be negative in reverse */
	uint32_t key_bytes;
	uint32_t count;			/* 0: the range is exhausted */
};

static inline const uint64_t *
nam_entries_at(const struct nam_entries *entries, uint32_t number)
{
	return entries->first + (ptrdiff_t)number * entries->stride_words;
}

/* An 8-byte key as nam_key_to_u64() would have it; of longer ones the first 8 bytes so. */
static inline uint64_t
nam_entries_key_u64(const struct nam_entries *entries, uint32_t number)
{
	return nam_entries_at(entries, number)[0];
}

/* The key's bytes; room for key_bytes. */
static inline void
nam_entries_key(const struct nam_entries *entries, uint32_t number, void *ret_key)
{
	const uint64_t *words = nam_entries_at(entries, number);
	uint8_t *out = (uint8_t *)ret_key;

	for (uint32_t at = 0; at < entries->key_bytes; at += 8) {
		uint64_t big = __builtin_bswap64(words[at / 8]);
		uint32_t left = entries->key_bytes - at;

		__builtin_memcpy(out + at, &big, left < 8 ? left : 8);
	}
}

static inline uint64_t
nam_entries_payload(const struct nam_entries *entries, uint32_t number)
{
	return nam_entries_at(entries, number)[(entries->key_bytes + 7) / 8];
}

/**
 * nam_cursor_next_entries -- the next entries in order, where they are instead of copied.
 *
 * @ret_entries	one leaf's at the most, or 256; good until the cursor's next call or its close
 *
 * What nam_cursor_next() says holds here, too, and a scan may use both.  Indexes of other designs
 * than fine have what they deliver in many places: it is copied together, 256 entries at a time.
 *
 * Returns 0 or a negative code.
 *
 * Suspends:	yes.
 * Cost:	as nam_cursor_next(), without the copy; of other designs than fine with one more,
 *		and a buffer of 256 entries.
 */
NAM_FIBER_FN int nam_cursor_next_entries(struct nam_cursor *cursor,
	struct nam_entries *ret_entries) NAM_MUST_CHECK;

/* Waits for READs that are still under way. */
NAM_FIBER_FN void nam_cursor_close(struct nam_cursor *cursor);

/*
 * The next pair of sorted input: 1 with *key (key_bytes) and *payload filled, 0 at the end, or a
 * negative code, which bulk load returns.
 */
typedef int (*nam_index_source_fn)(void *arg, void *key, uint64_t *payload);

/**
 * nam_index_bulk_load -- fill an empty index from sorted input.
 *
 * @fill_percent	of each node, 50 .. 100; 0 means 92
 * @ret_count		pairs loaded; may be NULL
 *
 * The pairs appear all at once, at the end; in parts, each part's at once, one shortly after the
 * other.
 *
 * Returns 0 or a negative code.  The index is as empty as before, and what was written is given
 * back, after
 *	-EINVAL			fill_percent
 *	-NAM_E_NOTEMPTY		there is something in the index already
 *	-NAM_E_UNSORTED		input out of order; or equal keys in a unique index, equal pairs in
 *				any; the diag says which
 *	-NAM_E_REMOTE_FULL	the memory servers have no room for all of it
 *	-NAM_E_LOCK_TIMEOUT	others write the root, collect, load or drop, for longer than
 *				lock_timeout_ms
 *	-NAM_E_LOCK_ORPHANED	a client died as it wrote the empty root: drop the index
 *	a code of the source's
 * After a FABRIC code the pairs may be there or not, or the index can only be dropped.
 *
 * Suspends:	yes, holding the root's remote lock and the collector's word; `source` may suspend,
 *		too.
 * Cost:	1 round trip per 32 new nodes and 7 besides; every node is written once.  An RPC for
 *		16, 32, ... 1,024 blocks: see nam_alloc().  Blocks that were used before take 1 more
 *		each, and go 13 at a time where the fabric has NAM_CAP_ORDERED_LOADS.
 */
NAM_FIBER_FN int nam_index_bulk_load(struct nam_worker *worker, struct nam_index *index,
	nam_index_source_fn source, void *arg, uint32_t fill_percent,
	uint64_t *ret_count) NAM_MUST_CHECK;

struct nam_index_stat {
	uint32_t height;		/* levels, a single leaf is 1 */
	uint64_t entries;
	uint64_t leaves;
	uint64_t inner_nodes;
	uint64_t head_nodes;
	uint64_t remote_bytes;		/* of all nodes, stagger counted */
	double leaf_fill;		/* entries / capacity of the leaves */
	uint64_t servers_nodes[256];	/* nodes per server id */
	uint64_t cache_bytes;		/* in use by this handle */
	uint64_t cache_nodes;
	uint64_t cache_budget_bytes;
	uint64_t cache_evictions;
};

/**
 * nam_index_stat -- count what an index consists of.
 *
 * A moment's figures if others write meanwhile: what they move may be counted twice or not at all.
 *
 * Returns 0, or a negative code of those that all functions have.
 *
 * Suspends:	yes.  Nothing is held.
 * Cost:	2 round trips, and a walk along each level: 1 for its first node, 1 for each node of
 *		the level above, and 1 for every 16 children that this names, or less at its end;
 *		1 for each head node, behind which the 16 begin anew.  About 1 round trip per 8
 *		nodes of 1 KiB.  Without a cache first nodes and parents take a way from the root.
 */
NAM_FIBER_FN int nam_index_stat(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_stat *ret_stat) NAM_MUST_CHECK;

/* The cache's figures alone; reads nothing remote. */
void nam_index_cache_stat(const struct nam_index *index, struct nam_index_stat *ret_stat);

/* Called for each violated invariant: its number in index/README.md and a sentence. */
typedef void (*nam_index_violation_fn)(void *arg, unsigned invariant, const char *text);

/**
 * nam_index_verify -- walk the whole tree and check the invariants I1 .. In of index/README.md.
 *
 * @violation	may be NULL
 * @ret_violations	how many there are
 *
 * Writers must be quiet: a change under way may be reported as a violation.
 *
 * Returns 0 when the walk was completed, whatever it found, damage included; else -ENOMEM or a
 * FABRIC code.
 *
 * Suspends:	yes.  Nothing is held.
 * Cost:	3 round trips; 1 for each inner node, and 1 for every 16 children that it names, or
 *		less at its end; 1 for each head node, behind which the 16 begin anew.
 */
NAM_FIBER_FN int nam_index_verify(struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *ret_violations) NAM_MUST_CHECK;

struct nam_collect_stat {
	uint64_t nodes_visited;		/* each once: leaves, inner nodes, head nodes */
	uint64_t merges;
	uint64_t heads_written;		/* new or rewritten */
	uint64_t nodes_retired;		/* handed to limbo */
	uint64_t nodes_reusable;	/* left limbo during this pass */
};

/**
 * nam_index_collect -- one pass of the garbage collector: merge sparse neighbours, rebuild head
 * nodes, and make memory reusable that no client can be looking at any more.
 *
 * Other operations go on meanwhile.
 *
 * Returns 0 or a negative code:
 *	-NAM_E_LOCK_TIMEOUT	another collector, a bulk load or a drop is at work; the diag says
 *				whose
 *	-NAM_E_LOCK_ORPHANED	locks of a client that died kept some nodes from being looked after;
 *				all others were, and *ret_stat is set even so
 * After any other code the index is whole, but the pass went only as far as it did.
 *
 * Suspends:	yes, holding at most one parent's lock and those of two neighbours and a head node
 *		under it, and the collector's word.
 * Cost:	4 round trips.  Walks as those of nam_index_stat() along all levels but the leaves',
 *		and 1 for every 16 children that a parent names; with head nodes a walk along the
 *		leaves, too.  About 1 per 5 nodes of 1 KiB, without head nodes per 13.
 *		9 for a merge, 12 through a head node; 3 for a new head node, 2 for one that is
 *		written anew, 5 for one that is taken out.  At the end 1 READ of 32 KiB if anything
 *		waits to be reused, and 1 before it if that was retired since the last pass.
 * Source:	Lanin and Shasha, 1986; differs: index/README.md, D4.
 */
NAM_FIBER_FN int nam_index_collect(struct nam_worker *worker, struct nam_index *index,
	struct nam_collect_stat *ret_stat) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_INDEX_INDEX_H */
