/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_internal.h -- the inside of an index handle, and the steps of every operation: read a node,
 * lock it, write it, unlock it.  The invariants are in index/README.md.
 */
#ifndef NAM_INDEX_INDEX_INTERNAL_H
#define NAM_INDEX_INDEX_INTERNAL_H

#include <stdatomic.h>

#include "compute/remote/epoch.h"
#include "compute/remote/forget.h"
#include "compute/rpc/call.h"
#include "compute/remote/lock.h"
#include "index/index.h"
#include "index/fine/leaf_change.h"
#include "index/node/node.h"

struct nam__cache;
struct nam__index_ops;
struct nam__inner_ops;
struct nam__parts;
struct nam__sorted;

struct nam_index {
	struct nam_client *client;
	const struct nam__index_ops *ops;	/* NULL: the superblock is not known yet */
	struct nam__geometry g;
	struct nam__cache *cache;	/* NULL: no budget */
	bool ordered_loads;		/* of every server's fabric */
	bool fast_lookups;		/* see lookup_fast() */
	bool fast_changes;		/* see lock_fast() */
	atomic_bool dropped;
	_Atomic uint64_t root;		/* tagged gaddr; may lag: all lies right of it; 0: none */
	struct nam_gaddr superblock;
	struct nam_index_options options;
	struct nam__parts *parts;	/* coarse, hybrid: the server of each; else NULL */
	uint64_t tree;			/* coarse, hybrid: the trees' number on memory servers */
	struct nam_index **leaves;	/* hybrid: the handle of each part's leaves; else NULL */
	struct nam_index *whole;	/* such a handle: that of the index; else NULL */
	const struct nam__inner_ops *inner;	/* fine, and such a handle: the levels above */
	bool names;			/* such a handle: these are names of a memory server; */
	uint32_t names_slot;		/* that memory server; */
	uint32_t part;			/* the number of the part */
	atomic_bool unnamed;		/* many leaves in a row had no separator */
	uint8_t servers[NAM_SERVERS_MAX / 8];	/* memory servers when it was made, by their ids */
	char name[NAM_INDEX_NAME_BYTES];
	struct nam__lock_recovery recovery;	/* of the locks of nodes */
	struct nam__holder holder;	/* fine, and the leaves of hybrid: of root and cache */
};

/* The first members of a cursor of any design. */
struct nam_cursor {
	struct nam_index *index;
	struct nam_worker *worker;
};

/* An operation looks again at the most so often before it gives up with its last RESTART code. */
#define NAM__RESTARTS_MAX 1000u
/* The level of a pointer that promises none: the root's. */
#define NAM__ANY_LEVEL (-1)
/* Leaves behind a head node, by default. */
#define NAM__HEAD_INTERVAL 32u
/* Nodes visited in one go to the right. */
#define NAM__HOPS_MAX 4096u
/* If so many leaves in a row have no name, a memory server has had no room for names (hybrid). */
#define NAM__HOPS_MANY 8u

/* Codes with which a node is left alone until another operation: it is late, and legal (I7). */
static inline bool
nam__node_busy(int rc)
{
	return nam_err_is(rc, NAM_E_RESTART) || rc == -NAM_E_LOCK_TIMEOUT ||
	       rc == -NAM_E_LOCK_ORPHANED || rc == -NAM_E_REMOTE_FULL;
}

/*
 * I17: whether other bytes may lie where a leaf entry leads.  It may be of a leaf that died before
 * the generation, if a client died or did not reach the memory server (H3).
 */
static inline bool
nam__names_old(const struct nam_index *index)
{
	return __builtin_expect(index->names && nam__generation(index->client), 0) &&
	       NAM_GUARD(NAME_HASH);
}

/* index.c: -EINVAL with a diag, for an operation that does not say which pair it is about. */
int nam__refuse_non_unique(struct nam_worker *worker, const struct nam_index *index,
	const char *what) NAM_MUST_CHECK;

/* ---- protocol.c: nodes --------------------------------------------------------------------- */

/* An image, where it came from, and what is held. */
struct nam__held {
	struct nam_gaddr at;		/* tagged */
	uint64_t *image;
	struct nam__lock lock;
};

/**
 * nam__node_read -- READ one node until its image verifies.
 *
 * @at		tagged with the low 16 bits of the generation that the pointer promises
 * @level	the level promised, or NAM__ANY_LEVEL
 *
 * Returns 0; -NAM_E_RESTART_DEAD (dead or another generation, type or level: the pointer is stale);
 * -NAM_E_RESTART_TORN or -NAM_E_LOCK_ORPHANED after lock_timeout_ms; or a FABRIC code.
 * An image of a head node is accepted at level 0.
 */
NAM_FIBER_FN int nam__node_read(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr at, int level, uint64_t *image) NAM_MUST_CHECK;

/**
 * nam__read_covering -- the image of the node at `level` that covers a full key.
 *
 * Starts from the deepest cached ancestor, else from the root, and moves right where it must.
 * -NAM_E_RESTART_PARENT when the tree has no such level.
 */
NAM_FIBER_FN int nam__read_covering(struct nam_worker *worker, struct nam_index *index,
	const uint64_t *key, unsigned level, uint64_t *image,
	struct nam_gaddr *ret_at) NAM_MUST_CHECK;

/* lookup.c: the leaf pointer that the cache has for a key, or null. */
NAM_FIBER_FN struct nam_gaddr nam__cached_leaf(struct nam_worker *worker, struct nam_index *index,
	const uint64_t *key);

/**
 * nam__lock_covering -- the same, locked: held->image (the caller's buffer) is as it was after the
 * lock.
 */
NAM_FIBER_FN int nam__lock_covering(struct nam_worker *worker, struct nam_index *index,
	const uint64_t *key, unsigned level, struct nam__held *held) NAM_MUST_CHECK;

/*
 * The same for a task that wants one change: nam__lock_change_await().
 *
 * @walk	the cached pointer is no good: walk to the node first
 */
NAM_FIBER_FN int nam__lock_to_change(struct nam_worker *worker, struct nam_index *index,
	const uint64_t *key, bool walk, struct nam__lock_request *request,
	struct nam__held *held) NAM_MUST_CHECK;

/*
 * Whether what is held is the node at `level` that covers the key.  Returns 0, still held; or
 * -NAM_E_RESTART_FENCE, -NAM_E_RESTART_DEAD or another code, released.
 */
NAM_FIBER_FN int nam__held_covers(struct nam_worker *worker, struct nam_index *index,
	const uint64_t *key, unsigned level, struct nam__held *held) NAM_MUST_CHECK;

/**
 * nam__lock_node -- lock and read one node by its address; the image is validated.
 */
NAM_FIBER_FN int nam__lock_node(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr at, int level, struct nam__held *held) NAM_MUST_CHECK;

/**
 * nam__write_unlock -- seal a changed image, WRITE it, release the lock: one doorbell.
 *
 * @dirty	entry words that changed; empty: none
 */
NAM_FIBER_FN int nam__write_unlock(struct nam_worker *worker, struct nam_index *index,
	struct nam__held *held, struct nam__dirty dirty, enum nam__header_part part) NAM_MUST_CHECK;

/* As nam__write_unlock() without the release: the lock stays held. */
NAM_FIBER_FN int nam__write_keep(struct nam_worker *worker, struct nam_index *index,
	struct nam__held *held, struct nam__dirty dirty, enum nam__header_part part) NAM_MUST_CHECK;

/* Release without a change. */
NAM_FIBER_FN int nam__unlock(struct nam_worker *worker, struct nam__held *held) NAM_MUST_CHECK;

/*
 * Add the WRITE of a whole new node (words 1 ..) to a batch; seals it.  No reader can see it yet.
 */
void nam__batch_new_node(struct nam_batch *batch, const struct nam_index *index,
	struct nam_gaddr at, uint64_t *image);
/* WRITE a new node at once, without a batch on the caller's stack: splits are nested. */
NAM_FIBER_FN int nam__new_node_await(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr at, uint64_t *image) NAM_MUST_CHECK;

/**
 * nam__node_alloc -- memory for a new node, and the generation it must have.
 *
 * @evenly	by turns on all servers, whatever memory they have free: levels of a load
 * @ret_at	tagged with that generation
 *
 * As nam_alloc(); or -NAM_E_RESTART_LOCKED: other clients have locked what a sweep freed.
 */
NAM_FIBER_FN int nam__node_alloc(struct nam_worker *worker, struct nam_index *index, bool evenly,
	struct nam_gaddr *ret_at, uint32_t *ret_generation) NAM_MUST_CHECK;

/*
 * Whether a restarting operation has made no progress for lock_timeout_ms.  @since_ns is 0 at first
 * and after each progress; the clock starts with the next call.
 */
bool nam__timeout_over(const struct nam_worker *worker, uint64_t *since_ns);

/* The superblock as it is now, unchecked. */
NAM_FIBER_FN int nam__superblock_read(struct nam_worker *worker, const struct nam_index *index,
	struct nam_superblock *ret_superblock) NAM_MUST_CHECK;

/* -NAM_E_DROPPED, also from later operations. */
int nam__index_dropped(struct nam_worker *worker, struct nam_index *index);
/* Read the root pointer from the superblock, and keep it. */
NAM_FIBER_FN int nam__root_refresh(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr *ret_root) NAM_MUST_CHECK;
/* The one that was kept; the superblock's if that was forgotten. */
NAM_FIBER_FN int nam__root_get(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr *ret_root) NAM_MUST_CHECK;

/*
 * The root and its level, which belong together: index->root may name another one by the time that
 * this returns.
 */
NAM_FIBER_FN int nam__root_find(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr *ret_root, unsigned *ret_level) NAM_MUST_CHECK;
/* As nam__root_find(), with the whole image. */
NAM_FIBER_FN int nam__root_read(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr *ret_root, uint64_t *image) NAM_MUST_CHECK;
/*
 * The superblock names a root that is dead.  If a loader died before the superblock named its new
 * root, let it do so (I20).  0, also if there is nothing to do; or a negative code.
 */
NAM_FIBER_FN int nam__root_follow(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr root, const uint64_t *image) NAM_MUST_CHECK;

/* Whether a node is alive and of the generation that its pointer promises; one READ of 64 bytes. */
NAM_FIBER_FN int nam__child_alive(struct nam_worker *worker, struct nam_gaddr child,
	bool *ret_alive) NAM_MUST_CHECK;

/* ---- cache/search.c, inner_cache.c --------------------------------------------------------- */

struct nam__cache_hop {
	struct nam_gaddr child;		/* covers the key, as far as the cache knows */
	unsigned level;			/* of that child */
};

int nam__cache_new(const struct nam__geometry *g, struct nam_client *client, uint64_t budget_bytes,
	struct nam__cache **ret_cache) NAM_MUST_CHECK;
void nam__cache_free(struct nam__cache *cache);
/* Forget all nodes, beside operations; NULL is nothing. */
void nam__cache_clear(struct nam__cache *cache);

/*
 * The hot path, in two steps, so that the caller can do something else while the cache lines that
 * the first asks for arrive.  The node may be kept across suspensions within one operation.
 */
struct nam__cached_node;
const struct nam__cached_node *nam__cache_node(struct nam__cache *cache, const uint64_t *key);
/* The leaf pointer for the key, or null. */
struct nam_gaddr nam__cached_node_leaf(const struct nam__cache *cache,
	const struct nam__cached_node *node, const uint64_t *key);

/* Leaf pointers for up to NAM__CACHE_GROUP_MAX one-word keys; null where the cache knows none. */
#define NAM__CACHE_GROUP_MAX 16u
void nam__cache_leaf_group(struct nam__cache *cache, const uint64_t *keys, unsigned count,
	struct nam_gaddr *ret_leaves);

/* The deepest cached inner node above `level` that covers the key.  False: nothing cached. */
bool nam__cache_find(struct nam__cache *cache, const uint64_t *key, unsigned level,
	struct nam__cache_hop *ret_hop);

/*
 * Remember an inner node's image; replaces an older version of the same node.
 *
 * @names	leaf entries whose leaves were not READ: not once a generation has begun
 */
void nam__cache_put(struct nam__cache *cache, const uint64_t *image, struct nam_gaddr at,
	bool names);

/* Forget the node at `level` (1 ..) that covers the key. */
void nam__cache_drop(struct nam__cache *cache, const uint64_t *key, unsigned level);

/* A child in a cached node; good until the operation ends. */
struct nam__cache_place {
	const struct nam__cached_node *node;
	unsigned number;
};

/*
 * Children of the cached level-1 node that covers `key`, at most `max`: the one that covers it, and
 * those after it (backward: before it).  The place of the first may be asked for.  Returns how
 * many; 0 if not cached.
 */
unsigned nam__cache_leaves(struct nam__cache *cache, const uint64_t *key, bool backward,
	struct nam_gaddr *ret_leaves, unsigned max, struct nam__cache_place *ret_place);

/* Adds the figures of this cache. */
void nam__cache_stat(const struct nam__cache *cache, struct nam_index_stat *stat);

struct nam__seen;			/* design.h: gets the nodes of an index */

#endif /* NAM_INDEX_INDEX_INTERNAL_H */
