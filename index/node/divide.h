/* SPDX-License-Identifier: Apache-2.0 */
/* divide.h -- a full node becomes two, and two sparse ones become one. */
#ifndef NAM_INDEX_NODE_DIVIDE_H
#define NAM_INDEX_NODE_DIVIDE_H

#include "index/node/node.h"

/* Words of an entry of a leaf or an inner node. */
static inline unsigned
nam__node_entry_words(const struct nam__geometry *g, const uint64_t *node)
{
	return nam__node_type(node) == NAM__NODE_LEAF ? g->leaf_words : g->inner_words;
}

/*
 * Divide a leaf, sorted or not, or an inner node.  `right` becomes a node of generation
 * `generation`.  It gets the entries from number `at` (> 0) of the order on, and high fence and
 * sibling of `node`.  `node` keeps the rest, sorted, and ends where `right` begins.  The link
 * from `node` to `right` is the caller's.  Words behind the last entry of `node` stay as they were.
 * So no more than *ret_dirty and the header has to be written.
 */
void nam__node_divide(const struct nam__geometry *g, uint64_t *node, unsigned at, uint64_t *right,
	uint32_t generation, struct nam__dirty *ret_dirty);

/*
 * Where to divide: in the middle.  If the last node of its level grows at its end, it keeps all but
 * one entry, so ascending loads leave full nodes behind.
 */
unsigned nam__division_point(const struct nam__geometry *g, uint64_t *node, const uint64_t *key);

/*
 * Add an entry to the half that covers it, once a node is divided.  If that is the left half, its
 * *dirty grows.  The right half is written whole.
 */
void nam__add_to_half(const struct nam__geometry *g, uint64_t *left, uint64_t *right,
	const uint64_t *key, uint64_t value, struct nam__dirty *dirty);

/*
 * `left` takes over entries, high fence, sibling and flags of its right neighbour.  That image
 * stays as it is: where only words of its header are WRITTEN afterwards, the hash covers all of it.
 */
void nam__node_join(const struct nam__geometry *g, uint64_t *left, const uint64_t *right);

#endif /* NAM_INDEX_NODE_DIVIDE_H */
