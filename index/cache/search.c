/* SPDX-License-Identifier: Apache-2.0 */
/* search.c -- finding leaves, and inner nodes, in the cache; no lock is taken. */
#include <stddef.h>

#include "cache_internal.h"
#include "index/node/truncated_keys.h"

static inline unsigned
node_search(const struct nam__cache *cache, const struct nam__cached_node *node,
	const uint64_t *key)
{
	return nam__cached_node_search(cache->g, node, cache->truncated_floor, key);
}

/* The cached node with the greatest low fence at or below the key; it may end below the key. */
static inline __attribute__((always_inline)) struct nam__cached_node *
floor_node(struct nam__cache *cache, unsigned level, const uint64_t *key)
{
	const struct nam__geometry *g = cache->g;
	/* Acquire, here and below: pairs with publish_top(). */
	struct nam__top *top = atomic_load_explicit(&cache->levels[level], memory_order_acquire);
	struct nam__chunk *chunk;
	int number;

	if (!top)
		return NULL;
	number = nam__top_floor(g, top, key);
	if (number < 0)
		return NULL;
	chunk = atomic_load_explicit(&top->chunks[number], memory_order_acquire);
	number = nam__chunk_floor(cache, chunk, key);
	if (number < 0)
		return NULL;
	return atomic_load_explicit(&chunk->nodes[number], memory_order_acquire);
}

static inline void
mark_used(const struct nam__cached_node *node)
{
	_Atomic uint8_t *used = (_Atomic uint8_t *)(uintptr_t)&node->used;

	if (!atomic_load_explicit(used, memory_order_relaxed))
		atomic_store_explicit(used, 1, memory_order_relaxed);
}

/* Whether the node covers the key; if so, it has been of use. */
static inline bool
node_use(const struct nam__geometry *g, const struct nam__cached_node *node, const uint64_t *key)
{
	if (!nam__cached_node_covers(g, node, key))
		return false;
	mark_used(node);
	return true;
}

static inline bool
node_use_word(const struct nam__cached_node *node, uint64_t key)
{
	if (!node->last && key >= node->high_first)
		return false;
	mark_used(node);
	return true;
}

static struct nam__cached_node *
find_node(struct nam__cache *cache, unsigned level, const uint64_t *key)
{
	struct nam__cached_node *node = floor_node(cache, level, key);

	return node && node_use(cache->g, node, key) ? node : NULL;
}

/* Four lines a turn: the loop itself would cost as much as what it does.  NULL is harmless. */
static inline void
prefetch_lines(const void *from, size_t bytes)
{
	const uint8_t *line = from, *end = line + bytes;

	for (; end - line > 192; line += 256) {
		__builtin_prefetch(line, 0, 3);
		__builtin_prefetch(line + 64, 0, 3);
		__builtin_prefetch(line + 128, 0, 3);
		__builtin_prefetch(line + 192, 0, 3);
	}
	for (; line < end; line += 64)
		__builtin_prefetch(line, 0, 3);
}

/* ---- one key ------------------------------------------------------------------------------ */

const struct nam__cached_node *
nam__cache_node(struct nam__cache *cache, const uint64_t *key)
{
	struct nam__cached_node *node = floor_node(cache, 1, key);

	if (!node)
		return NULL;
	prefetch_lines(node, cache->prefetch_bytes);
	return node;
}

struct nam_gaddr
nam__cached_node_leaf(const struct nam__cache *cache, const struct nam__cached_node *node,
	const uint64_t *key)
{
	if (!node_use(cache->g, node, key))
		return NAM_GADDR_NULL;
	return nam__cached_node_child(node, node_search(cache, node, key));
}

bool
nam__cache_find(struct nam__cache *cache, const uint64_t *key, unsigned level,
	struct nam__cache_hop *ret_hop)
{
	for (unsigned above = level + 1; above < NAM__LEVELS_MAX; above++) {
		struct nam__cached_node *node = find_node(cache, above, key);

		if (!node)
			continue;
		ret_hop->child = nam__cached_node_child(node, node_search(cache, node, key));
		ret_hop->level = above - 1;
		return true;
	}
	return false;
}

unsigned
nam__cache_leaves(struct nam__cache *cache, const uint64_t *key, bool backward,
	struct nam_gaddr *ret_leaves, unsigned max, struct nam__cache_place *ret_place)
{
	/* The node's cache lines come at once, and not one after the other as they are met. */
	const struct nam__cached_node *node = nam__cache_node(cache, key);
	int number, step = backward ? -1 : 1;
	unsigned count = 0;

	if (!node || !node_use(cache->g, node, key))
		return 0;
	number = (int)node_search(cache, node, key);
	if (ret_place)
		*ret_place = (struct nam__cache_place){ node, (unsigned)number };
	for (; number >= 0 && number < (int)node->count && count < max; number += step)
		ret_leaves[count++] = nam__cached_node_child(node, (unsigned)number);
	/* A scan soon needs the beginning of the next leaf. */
	if (!backward)
		__builtin_prefetch(nam__cached_node_cold(node)->separators +
			(size_t)number * cache->g->full_words);
	return count;
}

/* ---- groups ------------------------------------------------------------------------------- */

typedef unsigned (*count_fn)(const uint16_t *truncated, unsigned count, uint16_t truncated_key);

/* Number of the chunk with the greatest low at or below a one-word key, or -1. */
static inline __attribute__((always_inline)) int
top_floor_word(const struct nam__geometry *g, const struct nam__top *top, uint64_t key)
{
	uint64_t bucket = (key - top->hint_base) >> top->hint_shift;
	uint32_t number, last;

	if (__builtin_expect(key < top->hint_base, 0))
		return -1;
	if (bucket >= NAM__HINTS)
		bucket = NAM__HINTS - 1;
	number = top->hints[bucket];
	last = top->hints[bucket + 1];
	if (__builtin_expect(last - number >= 8, 0))
		return nam__top_floor(g, top, &key);
	while (number < last && top->lows[number + 1] <= key)
		number++;
	return (int)number;
}

/*
 * Number of the last one-word key at or below `key`.  -1: there is none, or truncated keys do not
 * decide.
 */
static inline __attribute__((always_inline)) int
floor_by_truncated(const struct nam__truncation *truncation, const uint16_t *truncated,
	unsigned count, uint64_t key, count_fn count_at_or_below)
{
	uint64_t distance = (key - truncation->base) >> truncation->shift;
	uint16_t truncated_key = distance > NAM__TRUNCATED_MAX ? NAM__TRUNCATED_MAX
							       : (uint16_t)distance;
	int number;

	/* The padding of the last group does not count. */
	if (__builtin_expect(count <= NAM__TRUNCATED_GROUP, 1))
		count = NAM__TRUNCATED_GROUP;
	number = (int)count_at_or_below(truncated, count, truncated_key) - 1;
	if (__builtin_expect(key < truncation->base || number < 0, 0))
		return -1;
	if (__builtin_expect(truncated[number] == truncated_key && !truncation->exact, 0))
		return -1;
	return number;
}

/* Where the pointer to the node that begins at or below the key is; NULL: nowhere. */
static inline __attribute__((always_inline)) struct nam__cached_node *const _Atomic *
node_place(const struct nam__cache *cache, const struct nam__chunk *chunk, uint64_t key,
	count_fn count)
{
	int number;

	if (!chunk)
		return NULL;
	number = floor_by_truncated(&chunk->truncation, chunk->truncated, NAM__CHUNK_MAX, key,
		count);
	if (__builtin_expect(number < 0, 0))
		number = nam__chunk_floor(cache, chunk, &key);
	return number < 0 ? NULL : &chunk->nodes[number];
}

/* Number of the child for the key in a node that covers it. */
static inline __attribute__((always_inline)) unsigned
child_number(const struct nam__cache *cache, const struct nam__cached_node *node, uint64_t key,
	count_fn count)
{
	int number = floor_by_truncated(&node->truncation, node->truncated, node->count, key,
		count);

	if (__builtin_expect(number < 0, 0))
		return node_search(cache, node, &key);
	return (unsigned)number;
}

/*
 * One pass over the group for each thing that the next search needs: chunks, places in them, nodes,
 * children.  The misses of a pass overlap with one another.
 */
static inline __attribute__((always_inline)) void
leaf_group(struct nam__cache *cache, const uint64_t *keys, unsigned count,
	struct nam_gaddr *ret_leaves, count_fn count_at_or_below)
{
	const struct nam__geometry *g = cache->g;
	const struct nam__top *top = atomic_load_explicit(&cache->levels[1], memory_order_acquire);
	const uint32_t truncated_bytes = cache->truncated_bytes;
	const struct nam__chunk *chunks[NAM__CACHE_GROUP_MAX];
	struct nam__cached_node *const _Atomic *places[NAM__CACHE_GROUP_MAX];
	const struct nam__cached_node *nodes[NAM__CACHE_GROUP_MAX];
	const void *children[NAM__CACHE_GROUP_MAX];

	for (unsigned i = 0; i < count; i++) {
		int number = top ? top_floor_word(g, top, keys[i]) : -1;

		chunks[i] = number < 0 ? NULL : atomic_load_explicit(&top->chunks[number],
						       memory_order_acquire);
		prefetch_lines(chunks[i], offsetof(struct nam__chunk, nodes));
	}
	for (unsigned i = 0; i < count; i++) {
		places[i] = node_place(cache, chunks[i], keys[i], count_at_or_below);
		__builtin_prefetch((const void *)places[i], 0, 3);
	}
	for (unsigned i = 0; i < count; i++) {
		nodes[i] = places[i] ? atomic_load_explicit(places[i], memory_order_acquire)
					: NULL;
		prefetch_lines(nodes[i], truncated_bytes);
	}
	for (unsigned i = 0; i < count; i++) {
		const struct nam__cached_node *node = nodes[i];

		children[i] = NULL;
		if (!node || !node_use_word(node, keys[i]))
			continue;
		children[i] = nam__cached_node_child_place(node,
			child_number(cache, node, keys[i], count_at_or_below));
		__builtin_prefetch(children[i], 0, 3);
	}
	for (unsigned i = 0; i < count; i++)
		ret_leaves[i] = children[i] ? nam__cached_node_child_at(nodes[i], children[i])
					    : NAM_GADDR_NULL;
}

#define DEFINE_LEAF_GROUP(name, isa)								\
	isa static void leaf_group_##name(struct nam__cache *cache, const uint64_t *keys,	\
		unsigned count, struct nam_gaddr *ret_leaves)					\
	{											\
		leaf_group(cache, keys, count, ret_leaves, nam__count_##name);			\
	}

DEFINE_LEAF_GROUP(plain, )
#ifdef NAM__VECTORS
DEFINE_LEAF_GROUP(avx512, NAM__ISA_AVX512)
DEFINE_LEAF_GROUP(avx2, NAM__ISA_AVX2)
#endif

nam__leaf_group_fn
nam__leaf_group_choose(void)
{
#ifdef NAM__VECTORS
	if (__builtin_cpu_supports("avx512bw"))
		return leaf_group_avx512;
	if (__builtin_cpu_supports("avx2"))
		return leaf_group_avx2;
#endif
	return leaf_group_plain;
}

void
nam__cache_leaf_group(struct nam__cache *cache, const uint64_t *keys, unsigned count,
	struct nam_gaddr *ret_leaves)
{
	cache->leaf_group(cache, keys, count, ret_leaves);
}
