/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coarse.h -- the coarse-grained design: what the functions of index.h do for such an index.
 *
 * Each memory server has a tree, which it searches and changes itself.  A compute node asks the
 * memory server that keeps the key.
 */
#ifndef NAM_INDEX_COARSE_COARSE_H
#define NAM_INDEX_COARSE_COARSE_H

#include "common/rpc/tree_rpc.h"
#include "compute/client/members.h"
#include "index/index_internal.h"

/* ---- parts.c: the server of each part ------------------------------------------------------ */

struct nam__parts {
	enum nam_partitioning partitioning;
	uint32_t count;
	uint16_t slots[NAM_SERVERS_MAX];	/* of a part: its memory server */
	uint64_t *lows;			/* by range: first key of each part, key_words each */
	uint8_t *bounds;		/* the same but the first, as the creator gave them */
};

/* -EINVAL with a diag: no such partitioning, or bounds that are none, of so many parts. */
int nam__parts_check(struct nam_worker *worker, const struct nam_index_options *options,
	uint32_t count) NAM_MUST_CHECK;

/*
 * Make the trees of a new index on its memory servers; or none, and say why.
 *
 * @index	client, options and geometry are known; the seed is the trees' number
 * @leaves	NULL, or of a hybrid index the first leaf of each part
 */
NAM_FIBER_FN int nam__parts_create(struct nam_worker *worker, const struct nam_index *index,
	const char *name, const struct nam__members *members,
	const struct nam_gaddr *leaves) NAM_MUST_CHECK;

/* Drop the first `count` of them again: no name leads to them. */
NAM_FIBER_FN void nam__parts_uncreate(struct nam_worker *worker, uint64_t tree,
	const struct nam__members *members, uint32_t count);

/*
 * Slots of nam__index_ops.  open() asks all memory servers of an index for their part, unless
 * @to_drop: then the trees may be gone or not.  It fills index->parts and options.bounds.
 */
NAM_FIBER_FN int nam__parts_open(struct nam_worker *worker, struct nam_index *index,
	uint64_t cache_bytes, bool to_drop) NAM_MUST_CHECK;
void nam__parts_close(struct nam_index *index);
/* Drop all trees; the first failure is returned, but all are asked. */
NAM_FIBER_FN int nam__parts_free(struct nam_worker *worker, struct nam_index *index, bool lost)
	NAM_MUST_CHECK;

/* A change of that part found no memory: the worker's diag says where.  -NAM_E_REMOTE_FULL. */
int nam__part_full(struct nam_worker *worker, const struct nam_index *index, uint32_t part);

/* The number of the part that keeps a key. */
uint32_t nam__part_of(const struct nam_index *index, const uint64_t *key);

/* ---- coarse.c: one key ---------------------------------------------------------------------- */

/*
 * An operation on one pair in the tree of one memory server, whose keys have so many words.
 *
 * @ret_payload	of a lookup; else NULL
 */
NAM_FIBER_FN int nam__tree_point(struct nam_worker *worker, struct nam_index *index, uint32_t slot,
	enum nam_rpc_tree_point kind, const uint64_t *key, unsigned key_words, uint64_t payload,
	uint64_t *ret_payload) NAM_MUST_CHECK;

/* ---- change_many.c -------------------------------------------------------------------------- */

/* As nam__index_ops says. */
NAM_FIBER_FN void nam__coarse_change_many(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_change *changes, const struct nam__sorted *sorted, uint32_t count);

/* ---- scan.c -------------------------------------------------------------------------------- */

extern const struct nam__part_reader nam__page_reader;

/* ---- whole.c ------------------------------------------------------------------------ */

/* As nam__index_ops says. */
NAM_FIBER_FN int nam__coarse_stat(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_stat *stat, const struct nam__seen *seen) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__coarse_verify(struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *violations) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__coarse_collect(struct nam_worker *worker, struct nam_index *index,
	struct nam_collect_stat *stat) NAM_MUST_CHECK;

/* ---- load.c ------------------------------------------------------------------------- */

NAM_FIBER_FN int nam__coarse_bulk_load(struct nam_worker *worker, struct nam_index *index,
	nam_index_source_fn source, void *arg, uint32_t fill_percent,
	uint64_t *ret_count) NAM_MUST_CHECK;

#endif /* NAM_INDEX_COARSE_COARSE_H */
