/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_internal.h -- what the cache of inner nodes is made of: search.c reads it, inner_cache.c
 * changes it.
 *
 * A lookup needs separators and children of an inner node, so the cache keeps these.  It keeps them
 * densely: those of ten million keys should stay in the processor's own caches.
 *
 *	level -> top -> chunk -> cached node
 *
 * Cached nodes of a level are ordered by low fence in chunks of at most NAM__CHUNK_MAX, and chunks
 * in one array, the top.  Cached nodes and chunks are searched by truncated keys (search.h): keys
 * cut down to 16 bits.  The keys themselves are read only when truncated keys tie.  The top is
 * searched from a hint in a small table, indexed by the key's leading bits.
 *
 * A stale cached node is harmless: fences and generations of the node that it leads to tell.  So
 * readers take no lock.  Tops, chunks and cached nodes never change once published, but for the
 * pointers in them to lower levels.  A writer that replaces one hands the old one to
 * nam__garbage_add(), and it lives until no operation that may have seen it is under way.
 */
#ifndef NAM_INDEX_CACHE_CACHE_INTERNAL_H
#define NAM_INDEX_CACHE_CACHE_INTERNAL_H

#include "index/index_internal.h"
#include "cached_node.h"

#define NAM__CHUNK_MAX NAM__TRUNCATED_GROUP
#define NAM__HINTS 1024u

struct nam__chunk {
	struct nam__truncation truncation;
	uint32_t count;
	_Alignas(64) uint16_t truncated[NAM__CHUNK_MAX];
	struct nam__cached_node *_Atomic nodes[NAM__CHUNK_MAX];
	uint64_t lows[];		/* full words each */
};

struct nam__top {
	uint32_t count;
	uint32_t bytes;
	struct nam__chunk *_Atomic *chunks;	/* behind the lows */
	uint64_t hint_base;
	uint32_t hint_shift;
	uint32_t hints[NAM__HINTS + 1];	/* a chunk at or before the one for keys of that bucket */
	uint64_t lows[];
};

typedef void (*nam__leaf_group_fn)(struct nam__cache *cache, const uint64_t *keys, unsigned count,
	struct nam_gaddr *ret_leaves);

/* search.c: nam__cache_leaf_group() with the best vectors of this processor. */
nam__leaf_group_fn nam__leaf_group_choose(void);

struct nam__cache {
	const struct nam__geometry *g;
	struct nam_client *client;
	struct nam__top *_Atomic levels[NAM__LEVELS_MAX];	/* [0] unused */
	uint64_t budget_bytes;
	uint32_t prefetch_bytes;	/* of a cached node, for a search */
	uint32_t truncated_bytes;		/* of those, up to the children */
	nam__truncated_floor_fn truncated_floor;
	nam__leaf_group_fn leaf_group;
	pthread_mutex_t mutex;		/* changes; what follows, too */
	uint64_t bytes;
	uint64_t nodes;
	uint64_t evictions;
	uint32_t hand_chunk, hand_slot;
	bool cleared;			/* since it was made */
};

/* Number of the chunk with the greatest low at or below the key, or -1. */
static inline __attribute__((always_inline)) int
nam__top_floor(const struct nam__geometry *g, const struct nam__top *top, const uint64_t *key)
{
	uint64_t distance = key[0] - top->hint_base;
	uint64_t bucket = key[0] < top->hint_base ? 0 : distance >> top->hint_shift;
	uint32_t number, end;

	if (bucket >= NAM__HINTS)
		bucket = NAM__HINTS - 1;
	number = top->hints[bucket];
	end = top->hints[bucket + 1] + 1;	/* chunks that begin in this bucket end here */
	if (g->full_words == 1 && end - number <= 8) {
		while (number < end && top->lows[number] <= key[0])
			number++;
		return (int)number - 1;
	}
	if (end - number > 8) {
		number += nam__count_below(top->lows + (size_t)number * g->full_words, end - number,
			g->full_words, key, g->full_words, true);
		return (int)number - 1;
	}
	while (number < end && nam__key_compare(top->lows + (size_t)number * g->full_words, key,
				       g->full_words) <= 0)
		number++;
	return (int)number - 1;
}

/* Number of the cached node with the greatest low at or below the key, or -1. */
static inline int
nam__chunk_floor(const struct nam__cache *cache, const struct nam__chunk *chunk,
	const uint64_t *key)
{
	return cache->truncated_floor(&chunk->truncation, chunk->truncated, chunk->lows,
		chunk->count, cache->g->full_words, key);
}

#endif /* NAM_INDEX_CACHE_CACHE_INTERNAL_H */
