/* SPDX-License-Identifier: Apache-2.0 */
/* maintain.h -- bulk load, counts, verifier and collector.  Errors and costs: index.h. */
#ifndef NAM_INDEX_MAINTAIN_H
#define NAM_INDEX_MAINTAIN_H

#include "index.h"

#ifdef __cplusplus
extern "C" {
#endif

enum nam_index_source { NAM_INDEX_END = 0, NAM_INDEX_PAIR = 1 };

/*
 * The next pair of sorted input: NAM_INDEX_PAIR with *key (key_bytes) and *payload filled,
 * NAM_INDEX_END, or a negative code, which bulk load returns.
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
 * Returns 0 or a negative code.  The index is as empty as before, and nodes are given back, after
 *	-EINVAL			fill_percent
 *	-NAM_E_NOTEMPTY		there is something in the index already
 *	-NAM_E_UNSORTED		input out of order; or equal keys in a unique index, equal pairs in
 *				any; the diag says which
 *	-NAM_E_REMOTE_FULL	the memory servers have no room for all of it.  Memory of dropped
 *				objects may have come back since: load once more
 *	-NAM_E_LOCK_TIMEOUT	others write the root, collect, load or drop, for longer than
 *				lock_timeout_ms
 *	-NAM_E_LOCK_ORPHANED	as in index.h: drop the index
 *	a code of the source's
 * After a FABRIC code the pairs may be there or not, or the index can only be dropped.
 *
 * Suspends:	yes, holding the root's remote lock and the collector's word; `source` may suspend,
 *		too.
 * Cost:	1 round trip per 32 new nodes and 8 besides; every node is written once.  An RPC for
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
 * A moment's figures if others write meanwhile: moved entries may be counted twice or not at all.
 *
 * Returns 0, or a negative code of those that all functions have.
 *
 * Suspends:	yes.  Nothing is held.
 * Cost:	2 round trips, and a walk along each level.  This takes 1 for its first node and 1
 *		for each node of the level above.  It takes 1 for every 16 children that such a node
 *		names, or less at its end.  1 for each head node, behind which the 16 begin anew.
 *		About 1 round trip per 8 nodes of 1 KiB.  Without a cache first nodes and parents
 *		take a way from the root.
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
 * Cost:	3 round trips.  1 for each inner node, and 1 for every 16 children that it names, or
 *		less at its end.  1 for each head node, behind which the 16 begin anew.
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
 * nam_index_collect -- one pass of the garbage collector.
 *
 * It merges sparse neighbours, rebuilds head nodes, and makes memory reusable that no client can be
 * looking at any more.  Other operations go on meanwhile.
 *
 * Returns 0 or a negative code:
 *	-NAM_E_LOCK_TIMEOUT	another collector, a bulk load or a drop is at work, or its client
 *				ended and is FENCING for lock_timeout_ms; the diag names it
 *	-NAM_E_LOCK_ORPHANED	as in index.h, of some nodes; all others were looked after, and
 *				*ret_stat is set even so
 *	-ECANCELED		as nam_worker_stop_when() says; *ret_stat is set even so
 * After any other code the index is whole, but the pass went only as far as it did.
 *
 * Suspends:	yes, holding at most one parent's lock and those of two neighbours and a head node
 *		under it, and the collector's word.
 * Cost:	5 round trips.  Walks as those of nam_index_stat() along all levels but the leaves',
 *		and 1 for every 16 children that a parent names.  With head nodes a walk along the
 *		leaves, too.  About 1 per 5 nodes of 1 KiB, without head nodes per 13.
 *		9 for a merge, 12 through a head node.  3 for a new head node, 2 for one that is
 *		written anew, 5 for one that is taken out.  At the end 1 READ of 32 KiB if anything
 *		waits to be reused.  2 before it if that was retired since the last pass.
 * Source:	Lanin and Shasha, 1986; differs: index/README.md, D4.
 */
NAM_FIBER_FN int nam_index_collect(struct nam_worker *worker, struct nam_index *index,
	struct nam_collect_stat *ret_stat) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_INDEX_MAINTAIN_H */
