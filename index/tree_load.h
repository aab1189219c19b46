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
/*
 * Another client fills the tree: wait a moment before the next try.  -NAM_E_LOCK_TIMEOUT with a
 * diag when it has taken too long since *since_ns, which is 0 at first.
 */
NAM_FIBER_FN int nam__tree_load_wait(struct nam_worker *worker, const struct nam_index *index,
	unsigned tries, uint64_t *since_ns) NAM_MUST_CHECK;
/* Room for the next pair: key_words of key, and a payload. */
NAM_FIBER_FN int nam__tree_load_add(struct nam__tree_load *load, const uint64_t *key,
	uint64_t payload) NAM_MUST_CHECK;
/* The second tree has all pairs. */
NAM_FIBER_FN int nam__tree_load_flush(struct nam__tree_load *load) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__tree_load_end(struct nam__tree_load *load) NAM_MUST_CHECK;

/* Say which pair of sorted input, from 0 on, is not above (`order` 0: equals) the one before it. */
int nam__load_unsorted(struct nam_worker *worker, const struct nam__geometry *g, uint64_t pair,
	int order);

typedef int (*nam__pair_add_fn)(void *arg, const struct nam__key *full, uint64_t payload);

/*
 * Read the source to its end and give each pair to @add; -NAM_E_UNSORTED with a diag.  In line: the
 * call of @add would be felt.
 */
NAM_FIBER_FN static inline __attribute__((always_inline)) int
nam__load_sorted(struct nam_worker *worker, const struct nam__geometry *g,
	nam_index_source_fn source, void *source_arg, nam__pair_add_fn add, void *arg,
	uint64_t *ret_count)
{
	struct nam__key keys[2] = { 0 };	/* of the last pair and of this one, by turns */
	uint8_t bytes[NAM_KEY_BYTES_MAX];
	uint64_t payload = 0, count = 0;
	int rc;

	while ((rc = source(source_arg, bytes, &payload)) > NAM_INDEX_END) { /* MAY SUSPEND */
		struct nam__key *key = &keys[count & 1], *last = &keys[~count & 1];
		int order = -1;

		nam__key_encode(g, bytes, payload, key);
		if (count)
			order = nam__key_compare(last->w, key->w, g->full_words);
		if (order >= 0)
			return nam__load_unsorted(worker, g, count, order);
		count++;
		rc = add(arg, key, payload); /* SUSPENDS */
		if (rc)
			return rc;
	}
	*ret_count = count;
	return rc;
}

#endif /* NAM_INDEX_TREE_LOAD_H */
