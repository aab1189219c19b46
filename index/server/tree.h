/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h -- a B-link tree on plain pointers, in the memory of the process that searches it:
 * what a memory server keeps for a coarse-grained index.  Nothing here knows a fabric.
 *
 * Nodes are those of node.h with three differences.  The first word is a version, odd while the
 * node is being written.  Siblings and children are pointers.  Hash, front's version and rear are
 * not used.  Readers write nothing: they take a version, read, and look whether it still is the
 * same.  Writers lock one node at a time, so there is no order of locks to keep.  A collector needs
 * three, and gives up if it does not get one at once.
 *
 * Any number of threads.  A thread waits for another for as long as that one writes a node, which
 * is bounded by its work.  No thread holds a node across anything else.
 *
 * Full keys are as in node.h.  Functions with @scratch need nam__tree_server_scratch_bytes() of
 * memory that is the calling thread's own.
 *
 * Source: Ziegler et al., SIGMOD 2019, listings 1 and 3; Leis et al., DaMoN 2016, for optimistic
 * locks.  Differs: a reader that comes too late for a split moves right instead of starting again.
 * So no parent's version is looked at twice.  A delete takes the entry out at once.
 */
#ifndef NAM_INDEX_SERVER_TREE_H
#define NAM_INDEX_SERVER_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/counters.h"
#include "common/error.h"
#include "common/rpc/figures.h"
#include "index/node/node.h"

struct nam__tree_server_tree;

/* Restarts in all trees of the process, by enum nam_server_restart. */
extern _Atomic uint64_t nam__tree_server_restarts[NAM_SERVER_RESTARTS_COUNT];

/* Where nodes come from: blocks of at least node_bytes, 8-byte aligned, whatever is in them. */
struct nam__server_memory {
	void *(*take)(void *arg);	/* NULL: no room.  By any thread, a node locked */
	void (*give)(void *arg, void *block);	/* no thread has seen it, or none is at work */
	void (*retire)(void *arg, void *block);	/* give it once all threads at work have ended */
	void *arg;
};

/* Returns 0, -ENOMEM or -NAM_E_REMOTE_FULL. */
int nam__tree_server_tree_new(const struct nam__geometry *geometry,
	const struct nam__server_memory *memory,
	struct nam__tree_server_tree **ret_tree) NAM_MUST_CHECK;

/* Gives all blocks back.  No thread may be at work. */
void nam__tree_server_tree_free(struct nam__tree_server_tree *tree);

size_t nam__tree_server_scratch_bytes(const struct nam__tree_server_tree *tree);

/* The payload under a key, of several the smallest: 0 or -NAM_E_NOTFOUND. */
int nam__tree_server_lookup(struct nam__tree_server_tree *tree, uint64_t *scratch,
	const uint64_t *key, uint64_t *ret_payload) NAM_MUST_CHECK;

/**
 * nam__tree_server_change -- insert, upsert, update or delete one entry.
 *
 * Returns 0; -NAM_E_EXISTS, -NAM_E_NOTFOUND or -NAM_E_REMOTE_FULL, after which nothing was changed.
 *
 * Cost:	the way down, one node copied and the words that changed stored; with a split two.
 */
int nam__tree_server_change(struct nam__tree_server_tree *tree, uint64_t *scratch,
	enum nam_op_kind kind, const uint64_t *key, uint64_t payload) NAM_MUST_CHECK;

/* Delete a key, but only if it has this payload.  Returns 0 or -NAM_E_NOTFOUND. */
int nam__tree_server_delete_pair(struct nam__tree_server_tree *tree, uint64_t *scratch,
	const uint64_t *key, uint64_t payload) NAM_MUST_CHECK;

/**
 * nam__tree_server_scan -- entries in order.
 *
 * @low		lowest full key wanted
 * @high	highest, itself included
 * @reverse	from high to low
 * @ret_entries	max * (key words + 1) words: key and payload
 *
 * Returns how many; fewer than max only where the range ends.  Every leaf is seen as it was at one
 * moment.  Entries in the range throughout are there, and no others.
 */
uint32_t nam__tree_server_scan(struct nam__tree_server_tree *tree, uint64_t *scratch,
	const uint64_t *low,
	const uint64_t *high, bool reverse, uint64_t *ret_entries, uint32_t max);

/* The node in which a floor was found. */
struct nam__tree_server_floor {
	const void *node;
	uint64_t version;		/* of the node: grows */
	uint32_t count;			/* entries */
	bool last;			/* nothing lies behind them; else `next` does */
	struct nam__key next;
};

/**
 * nam__tree_server_floor -- the entry with the largest key that is not above a full key, and those
 * around it: all of its node, or it alone.
 *
 * @alone	no others are wanted
 * @ret_entries	room for a node's entries: in order, the first is not above the key
 *
 * Returns false if there is no such entry.  Other threads may be changing its neighbours.
 */
bool nam__tree_server_floor(struct nam__tree_server_tree *tree, uint64_t *scratch,
	const uint64_t *key,
	bool alone, uint64_t *ret_entries, struct nam__tree_server_floor *ret_floor) NAM_MUST_CHECK;

/* The result of a walk along a level. */
struct nam__tree_server_walk {
	uint32_t height;		/* of the tree */
	bool more;			/* go on from `next`, a full key */
	uint64_t nodes, entries;
	uint64_t violations;
	struct nam__key next;
	struct nam_diag first;		/* of the violations */
};

/**
 * nam__tree_server_walk -- count, and check, up to `max` nodes of a level from the one on that
 * covers a full key.
 *
 * @verify	without writers: fences along the level, order, separators, and that each node
 *		but the root has one.  Then `from` must be a low fence, as `next` is.
 */
void nam__tree_server_walk(struct nam__tree_server_tree *tree, uint64_t *scratch, unsigned level,
	bool verify, const uint64_t *from, uint32_t max, struct nam__tree_server_walk *ret_walk);

/* The result of collecting. */
struct nam__tree_server_collected {
	uint32_t height;
	bool more;			/* go on from `next`, a full key */
	uint64_t nodes, merges;
	struct nam__key next;
};

/**
 * nam__tree_server_collect -- merge sparse neighbours of a level, as far as they have the same
 * parent.
 *
 * @from	full key; up to `max` parents are looked at from the one on that covers it
 *
 * Others may be at work, also other collectors.  Nodes that were merged away are retired.
 */
void nam__tree_server_collect(struct nam__tree_server_tree *tree, uint64_t *scratch, unsigned level,
	const uint64_t *from, uint32_t max, struct nam__tree_server_collected *ret_collected);

/**
 * nam__tree_server_publish -- give an empty tree all that is in another one, at once.
 *
 * @filled	of the same shape and memory; no other thread knows it, and it is gone afterwards
 * @entries	so many may be in the tree, which are then gone
 *
 * Returns 0; or -NAM_E_NOTEMPTY, and then nothing was changed.
 */
int nam__tree_server_publish(struct nam__tree_server_tree *tree, uint64_t *scratch,
	struct nam__tree_server_tree *filled, uint32_t entries) NAM_MUST_CHECK;

/*
 * From now on ascending inserts leave nodes this full, 50 .. 100.  No other thread knows the tree
 * yet.
 */
void nam__tree_server_fill(struct nam__tree_server_tree *tree, unsigned percent);

#endif /* NAM_INDEX_SERVER_TREE_H */
