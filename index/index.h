/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h -- a distributed B-link tree over the memory servers, used by any number of compute
 * nodes.
 *
 * An index holds pairs (key, payload): keys of a fixed size between 8 and 64 bytes, compared as
 * unsigned big-endian byte strings, payloads of 8 bytes.  In a unique index a key occurs once; in a
 * non-unique one a pair occurs once, and pairs are ordered by key, then by payload.
 *
 * Every function takes the calling thread's worker and may be called from its fibers.  An index
 * handle may be shared by all workers of the client that opened it.
 *
 * Design: fine-grained / one-sided (Ziegler et al., SIGMOD 2019, section 4); see index/README.md
 * for what differs and for the invariants.
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

enum nam_index_design {
	NAM_DESIGN_FINE = 1,
};

#define NAM_KEY_BYTES_MIN 8u
#define NAM_KEY_BYTES_MAX 64u
#define NAM_NODE_BYTES_MIN 256u
#define NAM_NODE_BYTES_MAX 16384u

struct nam_index_options {
	enum nam_index_design design;	/* default fine */
	uint32_t key_bytes;		/* default 8 */
	bool unique;			/* default true */
	uint32_t node_bytes;		/* default 1024; a power of two that holds 4 entries */
	uint32_t head_interval;		/* leaves per head node, or as many as it can name; default
					 * 32; 0: no head nodes */
};

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
 * Returns 0, -EINVAL (an option; see the worker's diag), -NAM_E_INDEX_EXISTS, -NAM_E_REMOTE_FULL,
 * or a FABRIC code.  Nothing is left behind on failure.
 */
NAM_FIBER_FN int nam_index_create(struct nam_worker *worker, const char *name,
	const struct nam_index_options *options) NAM_MUST_CHECK;

/**
 * nam_index_open -- a handle on an existing index.
 *
 * @cache_bytes	budget for inner nodes kept in this process; 0 keeps none, and every operation
 *		reads its way down from the root
 *
 * Returns 0, -NAM_E_NOINDEX, -NAM_E_REMOTE_CORRUPT (not a superblock), -NAM_E_CLUSTER (the index
 * spans a memory server that this client is not connected to), -ENOMEM, or a FABRIC code.
 */
NAM_FIBER_FN int nam_index_open(struct nam_worker *worker, const char *name, uint64_t cache_bytes,
	struct nam_index **ret_index) NAM_MUST_CHECK;

/* No operation may be under way. */
void nam_index_close(struct nam_index *index);

/* What the index was created with. */
const struct nam_index_options *nam_index_properties(const struct nam_index *index);

/**
 * nam_index_drop -- take the name out of the catalog and give the nodes back.
 *
 * Operations through handles that are still open fail with -NAM_E_DROPPED soon after.
 */
NAM_FIBER_FN int nam_index_drop(struct nam_worker *worker, const char *name) NAM_MUST_CHECK;

/* Calls fn for every index in the order of names; stops at its first non-zero return. */
typedef int (*nam_index_list_fn)(void *arg, const char *name);
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
 *	-NAM_E_FABRIC_*		the fabric failed; the index is unchanged
 *
 * Suspends:	yes, once per node.  Nothing is held across a suspension.
 * Cost:	1 round trip, node_bytes in, with a warm cache; height round trips without.
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
 * Cost:	1 round trip and node_bytes in for each key, up to 16 of them under way at a time,
 *		with a warm cache.  The quickest way to look up more than one key.
 */
NAM_FIBER_FN int nam_index_lookup_many(struct nam_worker *worker, struct nam_index *index,
	const void *keys, uint32_t count, uint64_t *ret_payloads, int *ret_rcs) NAM_MUST_CHECK;

/**
 * nam_index_insert -- add a pair.
 *
 * Returns 0, -NAM_E_EXISTS (unique: the key; non-unique: the pair), -NAM_E_REMOTE_FULL,
 * -NAM_E_LOCK_TIMEOUT, -NAM_E_LOCK_ORPHANED (the diag says who), or a RESTART or FABRIC code.
 * After a FABRIC code it is unknown whether the pair was added.
 *
 * Cost:	2 round trips, 2 doorbells with a warm cache and no split.
 */
NAM_FIBER_FN int nam_index_insert(struct nam_worker *worker, struct nam_index *index,
	const void *key, uint64_t payload) NAM_MUST_CHECK;

/* Unique: add the pair or replace the key's payload.  Non-unique: add the pair unless it exists. */
NAM_FIBER_FN int nam_index_upsert(struct nam_worker *worker, struct nam_index *index,
	const void *key, uint64_t payload) NAM_MUST_CHECK;

/* Unique only (-EINVAL): replace the payload of an existing key, or -NAM_E_NOTFOUND. */
NAM_FIBER_FN int nam_index_update(struct nam_worker *worker, struct nam_index *index,
	const void *key, uint64_t payload) NAM_MUST_CHECK;

/* Unique only (-EINVAL): remove a key, or -NAM_E_NOTFOUND. */
NAM_FIBER_FN int nam_index_delete(struct nam_worker *worker, struct nam_index *index,
	const void *key) NAM_MUST_CHECK;

/* Remove exactly this pair, or -NAM_E_NOTFOUND. */
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
 * Returns 0, -ENOMEM; or -EINVAL when low > high.  Reads nothing yet.
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
 * Cost:	1 + ceil(leaves / window) round trips over the whole scan.
 */
NAM_FIBER_FN int nam_cursor_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads,
	uint32_t capacity, uint32_t *ret_count) NAM_MUST_CHECK;

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
 * @fill_percent	of each leaf, 50 .. 100; 0 means 92
 * @ret_count		pairs loaded; may be NULL
 *
 * Returns 0, -NAM_E_NOTEMPTY, -NAM_E_UNSORTED (equal keys count as unsorted in a unique index,
 * equal pairs in any; the diag says which), -NAM_E_REMOTE_FULL, or a FABRIC code; on failure the
 * index stays empty and what was written is given back.
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

/* Walks every node.  A moment's figures if others write meanwhile. */
NAM_FIBER_FN int nam_index_stat(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_stat *ret_stat) NAM_MUST_CHECK;

/* The cache's figures alone; reads nothing remote. */
void nam_index_cache_stat(const struct nam_index *index, struct nam_index_stat *ret_stat);

/* Called for each violated invariant: its number in index/README.md and a sentence. */
typedef void (*nam_index_violation_fn)(void *arg, unsigned invariant, const char *text);

/**
 * nam_index_verify -- walk the whole tree and check the invariants I1 .. In of index/README.md.
 *
 * Writers must be quiet: a change under way may be reported as a violation.
 *
 * Returns 0 when the walk was completed, whatever it found.
 */
NAM_FIBER_FN int nam_index_verify(struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *ret_violations) NAM_MUST_CHECK;

struct nam_collect_stat {
	uint64_t nodes_visited;
	uint64_t merges;
	uint64_t heads_written;		/* new or rewritten */
	uint64_t nodes_retired;		/* handed to limbo */
	uint64_t nodes_reusable;	/* left limbo during this pass */
};

/**
 * nam_index_collect -- one pass of the garbage collector: merge sparse neighbours, rebuild head
 * nodes, and make memory reusable that no client can be looking at any more.
 *
 * One collector per index at a time: -NAM_E_LOCK_TIMEOUT when another one is at work.
 * -NAM_E_LOCK_ORPHANED when locks of a client that died kept some nodes from being looked after;
 * all others were, and *ret_stat is set even so.  Other operations go on meanwhile.
 */
NAM_FIBER_FN int nam_index_collect(struct nam_worker *worker, struct nam_index *index,
	struct nam_collect_stat *ret_stat) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_INDEX_INDEX_H */
