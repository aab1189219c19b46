/* SPDX-License-Identifier: Apache-2.0 */
/*
 * design.h -- the table of functions that each index design fills.  The last two slots belong to
 * designs whose inner nodes are in remote memory; the others leave them NULL.
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
	/* For nodes in remote memory: nam__split_unlock() and nam__separator_add(), or NULL. */
	NAM_FIBER_FN int (*split_unlock)(struct nam_worker *worker, struct nam_index *index,
		struct nam__held *held, const uint64_t *key, uint64_t value);
	NAM_FIBER_FN int (*separator_add)(struct nam_worker *worker, struct nam_index *index,
		const uint64_t *key, struct nam_gaddr child, unsigned level);
};

extern const struct nam__index_ops nam__fine_ops, nam__coarse_ops, nam__hybrid_ops;

#endif /* NAM_INDEX_DESIGN_H */
