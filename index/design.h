/* SPDX-License-Identifier: Apache-2.0 */
/*
 * design.h -- the table of functions that each index design fills.  Each way to keep the inner
 * nodes above leaves in remote memory fills another one.
 *
 * index.c and catalog.c check arguments and dispatch.  A design never calls them.
 */
#ifndef NAM_INDEX_DESIGN_H
#define NAM_INDEX_DESIGN_H

#include "index/index_internal.h"

struct nam__part_reader;

/*
 * A change of a call of nam_index_change_many(), in the order of parts, then of full keys, then of
 * the call.
 */
struct nam__sorted {
	uint64_t word;			/* the key's first */
	uint32_t part;			/* 0 in an index without parts */
	uint32_t number;		/* in the call's array */
};

/* The kind of operation as which a change counts. */
static inline enum nam_op_kind
nam__change_op(enum nam_change_kind kind)
{
	static const enum nam_op_kind op_kinds[] = {
		[NAM_CHANGE_INSERT] = NAM_OP_INSERT,
		[NAM_CHANGE_UPSERT] = NAM_OP_UPSERT,
		[NAM_CHANGE_UPDATE] = NAM_OP_UPDATE,
		[NAM_CHANGE_DELETE] = NAM_OP_DELETE,
		[NAM_CHANGE_DELETE_PAIR] = NAM_OP_DELETE,
	};

	return op_kinds[kind];
}

/* The changes of one full key are neighbours. */
static inline bool
nam__change_same_key(const struct nam__geometry *g, const struct nam_index_change *a,
	const struct nam_index_change *b)
{
	return !memcmp(a->key, b->key, g->key_bytes) && (g->unique || a->payload == b->payload);
}

/* Gets addresses of nodes, tagged, some of them more than once; a failure ends the walk. */
struct nam__seen {
	NAM_FIBER_FN int (*fn)(void *arg, struct nam_gaddr at);
	NAM_FIBER_FN int (*rest)(void *arg);	/* after a slice, between two operations */
	uint32_t slice;			/* so many nodes */
	void *arg;
};

struct nam__index_ops {
	/*
	 * Complete a handle whose superblock is known.
	 *
	 * @to_drop	parts of the index may be gone
	 */
	NAM_FIBER_FN int (*open)(struct nam_worker *worker, struct nam_index *index,
		uint64_t cache_bytes, bool to_drop);
	/* Free what open() made, also after it failed. */
	void (*close)(struct nam_index *index);
	/*
	 * Free all remote memory but the superblock.  The caller is the collector, for ever.
	 *
	 * @lost	a memory server was restarted: no pointer may be followed
	 */
	NAM_FIBER_FN int (*free)(struct nam_worker *worker, struct nam_index *index, bool lost);

	NAM_FIBER_FN int (*lookup)(struct nam_worker *worker, struct nam_index *index,
		const void *key, uint64_t *ret_payload);
	NAM_FIBER_FN int (*lookup_many)(struct nam_worker *worker, struct nam_index *index,
		const void *keys, uint32_t count, uint64_t *ret_payloads, int *ret_rcs);
	/* NAM_OP_INSERT, _UPSERT, _UPDATE or _DELETE. */
	NAM_FIBER_FN int (*change)(struct nam_worker *worker, struct nam_index *index,
		enum nam_op_kind kind, const void *key, uint64_t payload);
	/* Unique indexes only: delete the key if it carries this payload. */
	NAM_FIBER_FN int (*delete_pair)(struct nam_worker *worker, struct nam_index *index,
		const void *key, uint64_t payload);
	/*
	 * The changes that `sorted` names.  Each gets its rc; -NAM_E_REMOTE_FULL only if no memory
	 * came back.
	 */
	NAM_FIBER_FN void (*change_many)(struct nam_worker *worker, struct nam_index *index,
		struct nam_index_change *changes, const struct nam__sorted *sorted, uint32_t count);

	int (*cursor_open)(struct nam_worker *worker, struct nam_index *index,
		const struct nam_range *range, struct nam_cursor **ret_cursor);
	NAM_FIBER_FN int (*cursor_next)(struct nam_cursor *cursor, void *keys, uint64_t *payloads,
		uint32_t capacity, uint32_t *ret_count);
	NAM_FIBER_FN int (*cursor_next_entries)(struct nam_cursor *cursor,
		struct nam_entries *ret_entries);
	NAM_FIBER_FN void (*cursor_close)(struct nam_cursor *cursor);
	/* Designs in parts: how nam__parts_scan_next() reads a part.  Others: NULL. */
	const struct nam__part_reader *reader;

	/*
	 * The whole: within an operation that index.c has begun, but for collect(), which is one or
	 * several.
	 */
	NAM_FIBER_FN int (*bulk_load)(struct nam_worker *worker, struct nam_index *index,
		nam_index_source_fn source, void *arg, uint32_t fill_percent, uint64_t *ret_count);
	/*
	 * Add the index's nodes and entries to *stat, and set its height.  If seen->fn is not
	 * NULL, it gets all nodes that are there throughout and that clients allocated.
	 */
	NAM_FIBER_FN int (*stat)(struct nam_worker *worker, struct nam_index *index,
		struct nam_index_stat *stat, const struct nam__seen *seen);
	/* Adds what is found to *violations. */
	NAM_FIBER_FN int (*verify)(struct nam_worker *worker, struct nam_index *index,
		nam_index_violation_fn violation, void *arg, uint64_t *violations);
	/* Adds what was done to *stat, also if it ends with -NAM_E_LOCK_ORPHANED. */
	NAM_FIBER_FN int (*collect)(struct nam_worker *worker, struct nam_index *index,
		struct nam_collect_stat *stat);
};

extern const struct nam__index_ops nam__fine_ops, nam__coarse_ops, nam__hybrid_ops;

/**
 * nam__split_unlock -- divide a held full node, add an entry, release, and name the new node in the
 * parent.
 *
 * @key, @value	the entry that had no room: full key, and payload (leaf) or child (inner node)
 *
 * The held image must not hold the entry.  Nothing is held afterwards.  On -NAM_E_REMOTE_FULL the
 * node is unchanged.
 */
NAM_FIBER_FN int nam__split_unlock(struct nam_worker *worker, struct nam_index *index,
	struct nam__held *held, const uint64_t *key, uint64_t value) NAM_MUST_CHECK;

/**
 * nam__separator_add -- make the parent at `level` name `child`, whose range begins at `key`.
 *
 * Does nothing if the parent does so already, or if the child has died meanwhile.
 */
NAM_FIBER_FN int nam__separator_add(struct nam_worker *worker, struct nam_index *index,
	const uint64_t *key, struct nam_gaddr child, unsigned level) NAM_MUST_CHECK;

/* Where a descent is: a node's image, and how it got there. */
struct nam__descent {
	struct nam_gaddr at;
	uint64_t *image;
	int level;		/* NAM__ANY_LEVEL: the root's, not known before it is read */
	unsigned hops;		/* to the right, on this level */
	bool from_cache;	/* the pointer to this level's first node was a cached one, */
	bool from_start;	/* or start() said it */
	/* Hybrid: the name under which the memory server said it. */
	bool old_name;		/* which may lead to other bytes */
	bool passes;		/* such a name is passed over: `below` is the key to ask for */
	struct nam__key name, below;
};

/* The inner nodes of a handle with leaves: nodes, or a memory server that is asked. */
struct nam__inner_ops {
	/* The pointer with which a descent starts if the cache has none for the key. */
	NAM_FIBER_FN int (*start)(struct nam_worker *worker, struct nam_index *index,
		const uint64_t *key, struct nam__descent *descent);
	/* READ the node that it leads to, as nam__node_read(), and set its level. */
	NAM_FIBER_FN int (*start_read)(struct nam_worker *worker, struct nam_index *index,
		const uint64_t *key, struct nam__descent *descent);
	/* It led nowhere: forget what said so, for the next attempt. */
	NAM_FIBER_FN int (*start_forget)(struct nam_worker *worker, struct nam_index *index,
		struct nam__descent *descent);
	/* As nam__read_covering(), at a level above the leaves. */
	NAM_FIBER_FN int (*read_covering)(struct nam_worker *worker, struct nam_index *index,
		const uint64_t *key, unsigned level, uint64_t *image, struct nam_gaddr *ret_at);
	/* As nam__split_unlock(), nam__separator_add(). */
	NAM_FIBER_FN int (*split_unlock)(struct nam_worker *worker, struct nam_index *index,
		struct nam__held *held, const uint64_t *key, uint64_t value);
	NAM_FIBER_FN int (*separator_add)(struct nam_worker *worker, struct nam_index *index,
		const uint64_t *key, struct nam_gaddr child, unsigned level);
	/* A leaf is dead: take away its entry, if that is in no node that the caller has locked. */
	NAM_FIBER_FN int (*leaf_forget)(struct nam_worker *worker, struct nam_index *index,
		const uint64_t *key, struct nam_gaddr leaf);
};

extern const struct nam__inner_ops nam__inner_nodes, nam__inner_rpc;

#endif /* NAM_INDEX_DESIGN_H */
