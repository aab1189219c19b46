/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inner_rpc.h -- the inner nodes of one part of a hybrid index, which a memory server searches: a
 * compute node asks by RPC instead of reading them.
 *
 * A part is a handle of its own.  Its leaves are those of a fine-grained tree, and its inner nodes
 * are here (index->inner_rpc).  Each answer of the memory server is a hint, as an inner node's
 * image is: leaves tell by their fences whether it was right.
 */
#ifndef NAM_INDEX_HYBRID_INNER_RPC_H
#define NAM_INDEX_HYBRID_INNER_RPC_H

#include "index/index_internal.h"

/**
 * nam__inner_rpc_read -- the level-1 node that covers a full key: an image of an inner node (D10).
 *
 * @alone	the child that covers the key, without its neighbours: nothing is cached
 * @ret_at	where the memory server keeps it: not to be read
 *
 * Cost:	1 RPC.
 */
NAM_FIBER_FN int nam__inner_rpc_read(struct nam_worker *worker, struct nam_index *index,
	const uint64_t *key, bool alone, uint64_t *image, struct nam_gaddr *ret_at) NAM_MUST_CHECK;

/**
 * nam__inner_rpc_add -- report a leaf whose range begins at a full key, written already.
 *
 * Does nothing if a leaf is named there already, or if this one has died meanwhile.
 */
NAM_FIBER_FN int nam__inner_rpc_add(struct nam_worker *worker, struct nam_index *index,
	const uint64_t *key, struct nam_gaddr leaf) NAM_MUST_CHECK;

/**
 * nam__inner_rpc_room -- whether a leaf may divide although there was no room for names.
 *
 * A split whose report is refused is legal; but one next to another would leave row upon row of
 * leaves without names, through which every reader walks.  So a leaf may divide only if it is
 * named, and its right neighbour is: both are reported, which helps if there is room by now.
 *
 * @held	the leaf
 * @image	scratch
 *
 * Returns 0, or -NAM_E_REMOTE_FULL: no.  Other failures to find out mean yes.
 * Cost: up to 4 RPCs and 6 READs, while the leaf is locked; only when memory is full.
 */
NAM_FIBER_FN int nam__inner_rpc_room(struct nam_worker *worker, struct nam_index *index,
	const struct nam__held *held, uint64_t *image) NAM_MUST_CHECK;

/* Take exactly this name away, if it is there, of a leaf that is dead. */
NAM_FIBER_FN int nam__inner_rpc_remove(struct nam_worker *worker, struct nam_index *index,
	const uint64_t *key, struct nam_gaddr leaf) NAM_MUST_CHECK;

#endif /* NAM_INDEX_HYBRID_INNER_RPC_H */
