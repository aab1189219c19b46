/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cached_node.h -- one inner node as the cache keeps it: made for finding one child, quickly.
 *
 *	header		one cache line: the upper fence, and how keys are truncated
 *	truncated	separators cut down to 16 bits (search.h), in whole groups
 *	children	4 bytes each where that is possible, else 8
 *	cold		where the node is, its version, the separators whole, the high fence
 *
 * A search reads the first three, which lie together and are prefetched together.  It reads the
 * cold part only when truncated keys tie.
 *
 * Narrow children: 24 bits of offset, in units of 64 bytes, and the number of a high half (tag and
 * region) in the header.  Regions are of up to 1 GiB, and a node's children have few high halves.
 */
#ifndef NAM_INDEX_CACHE_CACHED_NODE_H
#define NAM_INDEX_CACHE_CACHED_NODE_H

#include <stdatomic.h>

#include "index/node/search.h"

#define NAM__HIGH_HALVES 8u
#define NAM__NARROW_OFFSET_BITS 24u

struct nam__cached_node {
	struct nam__truncation truncation;
	uint64_t high_first;		/* first word of the high fence */
	uint16_t count;
	bool last;			/* no upper bound */
	bool narrow;
	_Atomic uint8_t used;		/* since the clock's hand passed */
	uint8_t reserved[3];
	uint32_t high_halves[NAM__HIGH_HALVES];	/* of narrow children: tag:16 | region:16 */
	uint16_t truncated[];
};
_Static_assert(sizeof(struct nam__cached_node) == 64, "the header is one cache line");

struct nam__cached_node_cold {
	uint64_t version;
	struct nam_gaddr at;
	uint64_t bytes;			/* of the whole cached node */
	uint64_t separators[];		/* full words each, then the high fence */
};

/* NULL when there is no memory.  free() it. */
struct nam__cached_node *nam__cached_node_new(const struct nam__geometry *g, const uint64_t *image,
	struct nam_gaddr at);

/* Bytes from the beginning to the cold part. */
static inline size_t
nam__cached_node_hot_bytes(const struct nam__cached_node *node)
{
	return (sizeof(*node) + 2ul * nam__truncated_padded(node->count) +
		       (node->narrow ? 4ul : 8ul) * node->count + 7) /
	       8 * 8;
}

static inline struct nam__cached_node_cold *
nam__cached_node_cold(const struct nam__cached_node *node)
{
	return (struct nam__cached_node_cold *)((uintptr_t)node + nam__cached_node_hot_bytes(node));
}

static inline const uint64_t *
nam__cached_node_high(const struct nam__geometry *g, const struct nam__cached_node *node)
{
	return nam__cached_node_cold(node)->separators + (size_t)node->count * g->full_words;
}

static inline const void *
nam__cached_node_child_place(const struct nam__cached_node *node, unsigned number)
{
	return (const uint8_t *)(node->truncated + nam__truncated_padded(node->count)) +
	       (node->narrow ? 4ul : 8ul) * number;
}

/* The child whose place that is. */
static inline struct nam_gaddr
nam__cached_node_child_at(const struct nam__cached_node *node, const void *place)
{
	uint32_t child;

	if (!node->narrow)
		return (struct nam_gaddr){ *(const uint64_t *)place };
	child = *(const uint32_t *)place;
	return (struct nam_gaddr){
		(uint64_t)node->high_halves[child >> NAM__NARROW_OFFSET_BITS] << 32 |
		(child & ((1u << NAM__NARROW_OFFSET_BITS) - 1))
	};
}

static inline struct nam_gaddr
nam__cached_node_child(const struct nam__cached_node *node, unsigned number)
{
	return nam__cached_node_child_at(node, nam__cached_node_child_place(node, number));
}

static inline bool
nam__cached_node_covers(const struct nam__geometry *g, const struct nam__cached_node *node,
	const uint64_t *key)
{
	if (node->last || key[0] < node->high_first)
		return true;
	return g->full_words > 1 && nam__key_compare(key, nam__cached_node_high(g, node),
					    g->full_words) < 0;
}

/* Number of the child that covers the key; the cached node must. */
static inline unsigned
nam__cached_node_search(const struct nam__geometry *g, const struct nam__cached_node *node,
	nam__truncated_floor_fn truncated_floor, const uint64_t *key)
{
	int number = truncated_floor(&node->truncation, node->truncated,
		nam__cached_node_cold(node)->separators, node->count, g->full_words, key);

	return number < 0 ? 0 : (unsigned)number;
}

#endif /* NAM_INDEX_CACHE_CACHED_NODE_H */
