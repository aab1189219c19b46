/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_load.h -- filling an empty tree of a memory server from sorted pairs.
 *
 *	begin	the memory server refuses other changes of the tree from now on, and starts one
 *		aside, if there is nothing yet
 *	add	a message when so many pairs have gathered; one is under way at a time
 *	end	the pairs appear, all at once
 *
 * A loader that dies leaves nothing: the memory server sees its connection close.
 */
#ifndef NAM_INDEX_TREE_LOAD_H
#define NAM_INDEX_TREE_LOAD_H

#include "common/rpc/tree_rpc.h"
#include "index_internal.h"

struct nam__tree_load {
	struct nam_worker *worker;
	struct nam_index *index;
	uint32_t slot;			/* the memory server */
	uint32_t key_words;		/* of the tree's keys */
	uint64_t load;
	bool begun, under_way;
	uint32_t count, most;		/* pairs gathered; that a message holds */
	struct nam_rpc_tree_load_request *request;
	struct nam__call call;
};

/* 0 or -ENOMEM.  nam__tree_load_done() frees what there is, and cancels what has not ended. */
int nam__tree_load_init(struct nam__tree_load *load, struct nam_worker *worker,
	struct nam_index *index, uint32_t slot, uint32_t key_words) NAM_MUST_CHECK;
NAM_FIBER_FN void nam__tree_load_done(struct nam__tree_load *load);

/* -NAM_E_NOTEMPTY; -NAM_E_LOCK_TIMEOUT: others load; ... */
NAM_FIBER_FN int nam__tree_load_begin(struct nam__tree_load *load,
	uint32_t fill_percent) NAM_MUST_CHECK;
/* Room for the next pair: key_words of key, and a payload. */
NAM_FIBER_FN int nam__tree_load_add(struct nam__tree_load *load, const uint64_t *key,
	uint64_t payload) NAM_MUST_CHECK;
/* The second tree has all pairs. */
NAM_FIBER_FN int nam__tree_load_flush(struct nam__tree_load *load) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__tree_load_end(struct nam__tree_load *load) NAM_MUST_CHECK;

/* Say which pair of sorted input, from 0 on, is not above (`order` 0: equals) the one before it. */
int nam__load_unsorted(struct nam_worker *worker, const struct nam__geometry *g, uint64_t pair,
	int order);

/* How far sorted input has been read. */
struct nam__sorted_load {
	uint64_t count;			/* pairs */
	struct nam__key last;
};

typedef int (*nam__pair_add_fn)(void *arg, const struct nam__key *full, uint64_t payload);

/* Read the source to its end and give each pair to @add; -NAM_E_UNSORTED with a diag. */
NAM_FIBER_FN int nam__load_sorted(struct nam_worker *worker, const struct nam__geometry *g,
	nam_index_source_fn source, void *source_arg, struct nam__sorted_load *sorted,
	nam__pair_add_fn add, void *arg) NAM_MUST_CHECK;

#endif /* NAM_INDEX_TREE_LOAD_H */
