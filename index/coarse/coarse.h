/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coarse.h -- the coarse-grained design: a tree on each memory server, which searches and changes
 * it itself; a compute node asks the one that keeps the key.
 *
 * Here is what the functions of index.h do for such an index.
 */
#ifndef NAM_INDEX_COARSE_COARSE_H
#define NAM_INDEX_COARSE_COARSE_H

#include "common/rpc/tree_rpc.h"
#include "index/index_internal.h"

/* ---- parts.c: who keeps what --------------------------------------------------------------- */

struct nam__parts {
	enum nam_partitioning partitioning;
	uint32_t count;
	uint16_t slots[NAM_SERVERS_MAX];	/* of a part: its memory server */
	uint64_t *lows;			/* by range: first key of each part, key_words each */
	uint8_t *bounds;		/* the same but the first, as the creator gave them */
};

/* -EINVAL with a diag: no such partitioning, or bounds that are none. */
int nam__parts_check(struct nam_worker *worker, const struct nam_index_options *options)
	NAM_MUST_CHECK;

/* Each memory server's part of a new index. */
void nam__parts_describe(const struct nam__geometry *g, const struct nam_index_options *options,
	uint32_t number, uint32_t count, struct nam_rpc_tree_part *ret_part);

/*
 * Make the trees of a new index, number `tree`, on all memory servers; or none, and say why.
 *
 * @leaves	NULL, or of a hybrid index the first leaf of each part
 */
NAM_FIBER_FN int nam__parts_create(struct nam_worker *worker, const char *name, uint64_t tree,
	const struct nam_index_options *options, const struct nam_gaddr *leaves) NAM_MUST_CHECK;

/* Drop the first `count` of them again: no name leads to them. */
NAM_FIBER_FN void nam__parts_uncreate(struct nam_worker *worker, uint64_t tree, uint32_t count);

/*
 * Ask all memory servers of an index for their part.  Fills index->parts and options.bounds.
 *
 * @to_drop	the trees may be gone or not: they are not asked for
 */
NAM_FIBER_FN int nam__parts_open(struct nam_worker *worker, struct nam_index *index,
	bool to_drop) NAM_MUST_CHECK;
void nam__parts_free(struct nam__parts *parts);

/* Drop all trees; the first failure is returned, but all are asked. */
NAM_FIBER_FN int nam__parts_drop(struct nam_worker *worker, struct nam_index *index)
	NAM_MUST_CHECK;

/* The number of the part that keeps a key. */
uint32_t nam__part_of(const struct nam_index *index, const uint64_t *key);

/* ---- coarse.c: one key, or many ------------------------------------------------------------ */

NAM_FIBER_FN int nam__coarse_lookup(struct nam_worker *worker, struct nam_index *index,
	const void *key, uint64_t *ret_payload) NAM_MUST_CHECK;

NAM_FIBER_FN int nam__coarse_lookup_many(struct nam_worker *worker, struct nam_index *index,
	const void *keys, uint32_t count, uint64_t *ret_payloads, int *ret_rcs) NAM_MUST_CHECK;

/* @kind counts the operation, @point is what the memory server is to do. */
NAM_FIBER_FN int nam__coarse_change(struct nam_worker *worker, struct nam_index *index,
	enum nam_op_kind kind, enum nam_rpc_tree_point point, const void *key,
	uint64_t payload) NAM_MUST_CHECK;

/* A lookup and a change in the tree of one memory server, whose keys have so many words. */
NAM_FIBER_FN int nam__tree_lookup(struct nam_worker *worker, struct nam_index *index,
	uint32_t slot, const uint64_t *key, unsigned key_words,
	uint64_t *ret_payload) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__tree_change(struct nam_worker *worker, struct nam_index *index,
	uint32_t slot, enum nam_rpc_tree_point kind, const uint64_t *key, unsigned key_words,
	uint64_t payload) NAM_MUST_CHECK;

/* ---- scan.c ------------------------------------------------------------------------- */

/* The pairs of one part, a page at a time: the next is on its way while one is delivered. */
struct nam__stream {
	struct nam__call call;
	bool started, under_way;
	bool more;			/* behind the page that came last */
	uint32_t part;
	uint32_t at;			/* pairs of the page that have been delivered */
	struct nam_rpc_tree_scan_reply *page, *next_page;
	struct nam_rpc_tree_scan_request request;	/* for the next page */
};

/* A scan of the parts that a range touches, in the order of keys. */
struct nam__merge {
	struct nam_cursor head;
	bool reverse;
	bool in_turn;			/* by range: one part after the other */
	bool limited;
	bool empty;
	uint64_t remaining;		/* of the limit */
	uint32_t count;			/* streams */
	uint32_t turn;			/* in turn: the stream being delivered */
	uint8_t *pages;			/* two of each stream */
	struct nam__stream streams[];
};

/* -ENOMEM. */
int nam__merge_open(struct nam_worker *worker, struct nam_index *index,
	const struct nam_range *range, struct nam_cursor **ret_cursor) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__merge_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads,
	uint32_t capacity, uint32_t *ret_count) NAM_MUST_CHECK;
NAM_FIBER_FN void nam__merge_close(struct nam_cursor *cursor);

/* ---- whole.c ------------------------------------------------------------------------ */

/* Within an operation; the other functions are operations of their own. */
NAM_FIBER_FN int nam__coarse_stat(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_stat *ret_stat) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__coarse_verify(struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *ret_violations) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__coarse_collect(struct nam_worker *worker, struct nam_index *index,
	struct nam_collect_stat *ret_stat) NAM_MUST_CHECK;

/* ---- load.c ------------------------------------------------------------------------- */

NAM_FIBER_FN int nam__coarse_bulk_load(struct nam_worker *worker, struct nam_index *index,
	nam_index_source_fn source, void *arg, uint32_t fill_percent,
	uint64_t *ret_count) NAM_MUST_CHECK;

#endif /* NAM_INDEX_COARSE_COARSE_H */
