/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cached_node.h -- one inner node as the cache keeps it: made for finding one child, quickly.
 *
 *	header		one cache line: does the segment cover the key, and how keys are cut down
 *	slices		of the separators, whole groups (search.h)
 *	children	4 bytes each where that is possible, else 8
 *	cold		where the node is, its version, the separators whole, the high fence
 *
 * A search reads header, slices and children, which lie together and are prefetched together; the
 * cold part only when slices tie.
 *
 * Narrow children: 24 bits of offset, in units of 64 bytes, and the number of an upper half (tag
 * and region) in the header.  Regions of up to 1 GiB, and a node's children have few upper halves.
 */
#ifndef NAM_INDEX_CACHE_CACHED_NODE_H
#define NAM_INDEX_CACHE_CACHED_NODE_H

#include <stdatomic.h>

#include "index/node/search.h"

#define NAM__SEGMENT_UPPERS 8u
#define NAM__NARROW_OFFSET_BITS 24u

struct nam__segment {
	struct nam__slicing slicing;
	uint64_t high_first;		/* first word of the high fence */
	uint16_t count;
	bool last;			/* no upper bound */
	bool narrow;
	_Atomic uint8_t used;		/* since the clock's hand passed */
	uint8_t reserved[3];
	uint32_t uppers[NAM__SEGMENT_UPPERS];	/* of narrow children: tag:16 | region:16 */
	uint16_t slices[];
};
_Static_assert(sizeof(struct nam__segment) == 64, "the header is one cache line");

struct nam__segment_cold {
	uint64_t version;
	struct nam_gaddr at;
	uint64_t bytes;			/* of the whole segment */
	uint64_t separators[];		/* full words each, then the high fence */
};

/* NULL when there is no memory.  free() it. */
struct nam__segment *nam__segment_new(const struct nam__geometry *g, const uint64_t *image,
	struct nam_gaddr at);

/* Bytes from the segment's beginning to its cold part. */
static inline size_t
nam__segment_hot_bytes(const struct nam__segment *segment)
{
	return (sizeof(*segment) + 2ul * nam__slices_padded(segment->count) +
		       (segment->narrow ? 4ul : 8ul) * segment->count + 7) /
	       8 * 8;
}

static inline struct nam__segment_cold *
nam__segment_cold(const struct nam__segment *segment)
{
	return (struct nam__segment_cold *)((uintptr_t)segment + nam__segment_hot_bytes(segment));
}

static inline const uint64_t *
nam__segment_high(const struct nam__geometry *g, const struct nam__segment *segment)
{
	return nam__segment_cold(segment)->separators + (size_t)segment->count * g->full_words;
}

static inline const void *
nam__segment_child_place(const struct nam__segment *segment, unsigned number)
{
	return (const uint8_t *)(segment->slices + nam__slices_padded(segment->count)) +
	       (segment->narrow ? 4ul : 8ul) * number;
}

/* The child whose place that is. */
static inline struct nam_gaddr
nam__segment_child_at(const struct nam__segment *segment, const void *place)
{
	uint32_t child;

	if (!segment->narrow)
		return (struct nam_gaddr){ *(const uint64_t *)place };
	child = *(const uint32_t *)place;
	return (struct nam_gaddr){
		(uint64_t)segment->uppers[child >> NAM__NARROW_OFFSET_BITS] << 32 |
		(child & ((1u << NAM__NARROW_OFFSET_BITS) - 1))
	};
}

static inline struct nam_gaddr
nam__segment_child(const struct nam__segment *segment, unsigned number)
{
	return nam__segment_child_at(segment, nam__segment_child_place(segment, number));
}

static inline bool
nam__segment_covers(const struct nam__geometry *g, const struct nam__segment *segment,
	const uint64_t *key)
{
	if (segment->last || key[0] < segment->high_first)
		return true;
	return g->full_words > 1 && nam__key_compare(key, nam__segment_high(g, segment),
					    g->full_words) < 0;
}

/* Number of the child that covers the key; the segment must. */
static inline unsigned
nam__segment_search(const struct nam__geometry *g, const struct nam__segment *segment,
	nam__sliced_floor_fn sliced_floor, const uint64_t *key)
{
	int number = sliced_floor(&segment->slicing, segment->slices,
		nam__segment_cold(segment)->separators, segment->count, g->full_words, key);

	return number < 0 ? 0 : (unsigned)number;
}

#endif /* NAM_INDEX_CACHE_CACHED_NODE_H */
