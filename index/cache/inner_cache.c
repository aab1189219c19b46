/* SPDX-License-Identifier: Apache-2.0 */
/* inner_cache.c -- remembering and forgetting inner nodes.  The layout: cache_internal.h. */
#include <errno.h>
#include <stdlib.h>

#include "cache_internal.h"

#define PREFETCH_BYTES_MAX 512u

static inline const uint64_t *
node_low(const struct nam__cached_node *node)
{
	return nam__cached_node_cold(node)->separators;
}

/* ---- changing (all under the mutex) ------------------------------------------------------- */

static inline struct nam__top *
top_of(struct nam__cache *cache, unsigned level)
{
	return atomic_load_explicit(&cache->levels[level], memory_order_relaxed);
}

static inline struct nam__chunk *
chunk_of(const struct nam__top *top, uint32_t number)
{
	return atomic_load_explicit(&top->chunks[number], memory_order_relaxed);
}

static inline struct nam__cached_node *
node_of(struct nam__chunk *chunk, uint32_t number)
{
	return atomic_load_explicit(&chunk->nodes[number], memory_order_relaxed);
}

static size_t
chunk_bytes(const struct nam__geometry *g)
{
	return (sizeof(struct nam__chunk) + 8ul * g->full_words * NAM__CHUNK_MAX + 63) / 64 * 64;
}

static struct nam__chunk *
chunk_new(struct nam__cache *cache)
{
	struct nam__chunk *chunk = aligned_alloc(64, chunk_bytes(cache->g));

	if (chunk)
		cache->bytes += chunk_bytes(cache->g);
	return chunk;
}

static void
chunk_drop(struct nam__cache *cache, struct nam__chunk *chunk)
{
	cache->bytes -= chunk_bytes(cache->g);
	nam__garbage_add(cache->client, chunk);
}

/* For a chunk that has not been published. */
static void
chunk_discard(struct nam__cache *cache, struct nam__chunk *chunk)
{
	cache->bytes -= chunk ? chunk_bytes(cache->g) : 0;
	free(chunk);
}

static void
node_drop(struct nam__cache *cache, struct nam__cached_node *node)
{
	cache->bytes -= nam__cached_node_cold(node)->bytes;
	cache->nodes--;
	nam__garbage_add(cache->client, node);
}

static struct nam__top *
top_new(struct nam__cache *cache, uint32_t count)
{
	size_t width = cache->g->full_words;
	size_t bytes = sizeof(struct nam__top) + count * (8 * width + sizeof(struct nam__chunk *));
	struct nam__top *top = calloc(1, bytes);

	if (!top)
		return NULL;
	top->count = count;
	top->bytes = (uint32_t)bytes;
	top->chunks = (struct nam__chunk *_Atomic *)(top->lows + count * width);
	cache->bytes += bytes;
	return top;
}

static void
top_drop(struct nam__cache *cache, struct nam__top *top)
{
	if (!top)
		return;
	cache->bytes -= top->bytes;
	nam__garbage_add(cache->client, top);
}

static void
chunk_set(const struct nam__geometry *g, struct nam__chunk *chunk, uint32_t number,
	const uint64_t *low, struct nam__cached_node *node)
{
	memcpy(chunk->lows + (size_t)number * g->full_words, low, 8 * g->full_words);
	atomic_init(&chunk->nodes[number], node);
}

static void
chunk_copy(const struct nam__geometry *g, struct nam__chunk *to, uint32_t to_number,
	struct nam__chunk *from, uint32_t from_number, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		chunk_set(g, to, to_number + i, from->lows + (from_number + i) * g->full_words,
			node_of(from, from_number + i));
}

/*
 * A copy of the entries [first, upto) and [from, end) of `old` with `node`, or NULL, between them.
 * It must have room.
 */
static struct nam__chunk *
chunk_edit(struct nam__cache *cache, struct nam__chunk *old, uint32_t first, uint32_t upto,
	struct nam__cached_node *node, uint32_t from, uint32_t end)
{
	const struct nam__geometry *g = cache->g;
	struct nam__chunk *chunk = chunk_new(cache);
	uint32_t count = upto - first;

	if (!chunk)
		return NULL;
	chunk_copy(g, chunk, 0, old, first, count);
	if (node)
		chunk_set(g, chunk, count++, node_low(node), node);
	chunk_copy(g, chunk, count, old, from, end - from);
	chunk->count = count + end - from;
	if (chunk->count)
		nam__keys_truncate(chunk->lows, chunk->count, g->full_words, &chunk->truncation,
			chunk->truncated);
	return chunk;
}

/* After its lows are set: for each bucket of leading bits the last chunk that begins before it. */
static void
top_finish(const struct nam__geometry *g, struct nam__top *top)
{
	size_t width = g->full_words;
	uint64_t span;
	uint32_t number = 0;

	top->hint_base = top->lows[0];
	span = top->lows[(top->count - 1) * width] - top->hint_base;
	while (span >> top->hint_shift >= NAM__HINTS)
		top->hint_shift++;
	for (uint32_t bucket = 0; bucket <= NAM__HINTS; bucket++) {
		while (number + 1 < top->count &&
			(top->lows[(number + 1) * width] - top->hint_base) >> top->hint_shift <
				bucket)
			number++;
		top->hints[bucket] = number;
	}
	top->hints[NAM__HINTS] = top->count - 1;
}

static void
publish_top(struct nam__cache *cache, unsigned level, struct nam__top *top)
{
	struct nam__top *old = top_of(cache, level);

	/* Release, here and wherever a pointer is replaced: pairs with floor_node(). */
	atomic_store_explicit(&cache->levels[level], top, memory_order_release);
	top_drop(cache, old);
}

/* The level's top with entry `number` replaced by up to two chunks (none: removed). */
static int
top_replace(struct nam__cache *cache, unsigned level, uint32_t number, struct nam__chunk *first,
	struct nam__chunk *second)
{
	struct nam__top *old = top_of(cache, level);
	size_t width = cache->g->full_words;
	struct nam__chunk *with[2] = { first, second };
	uint32_t in = 0, count = (old ? old->count - 1 : 0) + !!first + !!second;
	struct nam__top *top;

	if (!count) {
		publish_top(cache, level, NULL);	/* no reader searches in an empty one */
		return 0;
	}
	top = top_new(cache, count);
	if (!top)
		return -ENOMEM;
	for (uint32_t i = 0; i < (old ? old->count : 1); i++) {
		if (i != number) {
			memcpy(top->lows + in * width, old->lows + i * width, 8 * width);
			atomic_init(&top->chunks[in++], chunk_of(old, i));
			continue;
		}
		for (unsigned k = 0; k < 2; k++) {
			if (!with[k])
				continue;
			memcpy(top->lows + in * width, with[k]->lows, 8 * width);
			atomic_init(&top->chunks[in++], with[k]);
		}
	}
	top_finish(cache->g, top);
	publish_top(cache, level, top);
	return 0;
}

/* The chunk is full: publish it as two halves, so that the insertion can be tried again. */
static int
chunk_halve(struct nam__cache *cache, unsigned level, uint32_t number, struct nam__chunk *chunk)
{
	uint32_t half = chunk->count / 2;
	struct nam__chunk *left = chunk_edit(cache, chunk, 0, half, NULL, half, half);
	struct nam__chunk *right = chunk_edit(cache, chunk, half, chunk->count, NULL, 0, 0);
	int rc = left && right ? top_replace(cache, level, number, left, right) : -ENOMEM;

	if (!rc) {
		chunk_drop(cache, chunk);
		return 0;
	}
	chunk_discard(cache, left);
	chunk_discard(cache, right);
	return rc;
}

/* Replace one chunk by a changed copy. */
static int
chunk_replace(struct nam__cache *cache, unsigned level, uint32_t number, struct nam__chunk *old,
	struct nam__chunk *chunk)
{
	struct nam__top *top = top_of(cache, level);
	size_t width = cache->g->full_words;

	if (chunk->count && !nam__key_compare(chunk->lows, top->lows + number * width,
				    cache->g->full_words)) {
		atomic_store_explicit(&top->chunks[number], chunk, memory_order_release);
	} else {
		/* The chunk's lowest key changed, or it is empty: the top must say so, too. */
		int rc = top_replace(cache, level, number, chunk->count ? chunk : NULL, NULL);

		if (rc)
			return rc;
		if (!chunk->count)
			chunk_drop(cache, chunk);
	}
	chunk_drop(cache, old);
	return 0;
}

static int
insert_node(struct nam__cache *cache, unsigned level, struct nam__cached_node *node)
{
	for (;;) {
		struct nam__top *top = top_of(cache, level);
		struct nam__chunk *chunk, *copy;
		int in_top, in_chunk, rc;

		if (!top) {
			chunk = chunk_edit(cache, NULL, 0, 0, node, 0, 0);
			if (!chunk)
				return -ENOMEM;
			rc = top_replace(cache, level, 0, chunk, NULL);
			if (rc)
				chunk_discard(cache, chunk);
			return rc;
		}
		in_top = nam__top_floor(cache->g, top, node_low(node));
		if (in_top < 0)
			in_top = 0;
		chunk = chunk_of(top, in_top);
		in_chunk = nam__chunk_floor(cache, chunk, node_low(node));
		if (chunk->count == NAM__CHUNK_MAX) {
			rc = chunk_halve(cache, level, (uint32_t)in_top, chunk);
			if (rc)
				return rc;
			continue;
		}
		copy = chunk_edit(cache, chunk, 0, (uint32_t)(in_chunk + 1), node,
			(uint32_t)(in_chunk + 1), chunk->count);
		if (!copy)
			return -ENOMEM;
		rc = chunk_replace(cache, level, (uint32_t)in_top, chunk, copy);
		if (rc)
			chunk_discard(cache, copy);
		return rc;
	}
}

static int
remove_node(struct nam__cache *cache, unsigned level, uint32_t in_top, uint32_t in_chunk)
{
	struct nam__top *top = top_of(cache, level);
	struct nam__chunk *chunk = chunk_of(top, in_top);
	struct nam__cached_node *node = node_of(chunk, in_chunk);
	struct nam__chunk *copy = chunk_edit(cache, chunk, 0, in_chunk, NULL, in_chunk + 1,
		chunk->count);
	int rc;

	if (!copy)
		return -ENOMEM;
	rc = chunk_replace(cache, level, in_top, chunk, copy);
	if (rc) {
		chunk_discard(cache, copy);
		return rc;
	}
	node_drop(cache, node);
	return 0;
}

/* Second chance among the nodes right above the leaves.  False: nothing left to evict. */
static bool
evict_one(struct nam__cache *cache)
{
	struct nam__top *top = top_of(cache, 1);
	uint64_t looks = 2 * cache->nodes + 2;

	if (!top)
		return false;
	while (looks) {
		struct nam__chunk *chunk;
		struct nam__cached_node *node;

		if (cache->hand_chunk >= top->count)
			cache->hand_chunk = cache->hand_slot = 0;
		chunk = chunk_of(top, cache->hand_chunk);
		if (cache->hand_slot >= chunk->count) {
			cache->hand_chunk++;
			cache->hand_slot = 0;
			continue;
		}
		node = node_of(chunk, cache->hand_slot);
		looks--;
		if (!atomic_exchange_explicit(&node->used, 0, memory_order_relaxed)) {
			if (remove_node(cache, 1, cache->hand_chunk, cache->hand_slot))
				return false;
			cache->evictions++;
			return true;
		}
		cache->hand_slot++;
	}
	return false;
}

/* The cached node with the greatest low fence at or below the key, and where it is. */
static struct nam__cached_node *
find_floor(struct nam__cache *cache, unsigned level, const uint64_t *key, uint32_t *ret_in_top,
	uint32_t *ret_in_chunk)
{
	struct nam__top *top = top_of(cache, level);
	int in_top = top ? nam__top_floor(cache->g, top, key) : -1, in_chunk;
	struct nam__chunk *chunk;

	if (in_top < 0)
		return NULL;
	chunk = chunk_of(top, in_top);
	in_chunk = nam__chunk_floor(cache, chunk, key);
	if (in_chunk < 0)
		return NULL;
	*ret_in_top = (uint32_t)in_top;
	*ret_in_chunk = (uint32_t)in_chunk;
	return node_of(chunk, in_chunk);
}

/*
 * I17: an operation from before a generation may bring names after the cache was cleared for it,
 * and before the client follows it.
 */
static bool
names_refused(const struct nam__cache *cache)
{
	return NAM_GUARD(NAME_HASH) && (cache->cleared || nam__generation(cache->client));
}

void
nam__cache_put(struct nam__cache *cache, const uint64_t *image, struct nam_gaddr at, bool names)
{
	const struct nam__geometry *g = cache->g;
	const uint64_t *low = image + g->entries_at;	/* its first separator */
	unsigned level = nam__node_level(image);
	struct nam__cached_node *node, *old;
	uint32_t in_top, in_chunk;

	if (level == 0 || level >= NAM__LEVELS_MAX || !nam__node_count(image))
		return;
	pthread_mutex_lock(&cache->mutex);
	if (names && names_refused(cache))
		goto unlock;
	old = find_floor(cache, level, low, &in_top, &in_chunk);
	if (old && nam__key_compare(node_low(old), low, g->full_words))
		old = NULL;
	/* Images of one node may arrive out of order, by way of different threads. */
	if (old && nam_gaddr_same(nam__cached_node_cold(old)->at, at) &&
		nam__cached_node_cold(old)->version >= nam__node_version(image))
		goto unlock;
	node = nam__cached_node_new(g, image, at);
	if (!node)
		goto unlock;
	if (old) {
		struct nam__chunk *chunk = chunk_of(top_of(cache, level), in_top);

		atomic_store_explicit(&chunk->nodes[in_chunk], node, memory_order_release);
		node_drop(cache, old);
	} else if (insert_node(cache, level, node)) {
		free(node);
		goto unlock;
	}
	cache->bytes += nam__cached_node_cold(node)->bytes;
	cache->nodes++;
	while (cache->bytes > cache->budget_bytes && evict_one(cache))
		continue;
unlock:
	pthread_mutex_unlock(&cache->mutex);
}

void
nam__cache_drop(struct nam__cache *cache, const uint64_t *key, unsigned level)
{
	uint32_t in_top, in_chunk;

	if (!cache || level == 0 || level >= NAM__LEVELS_MAX)
		return;
	pthread_mutex_lock(&cache->mutex);
	/* On -ENOMEM the stale node stays; the next reader that meets it asks again. */
	if (find_floor(cache, level, key, &in_top, &in_chunk))
		remove_node(cache, level, in_top, in_chunk);
	pthread_mutex_unlock(&cache->mutex);
}

void
nam__cache_clear(struct nam__cache *cache)
{
	if (!cache)
		return;
	pthread_mutex_lock(&cache->mutex);
	cache->cleared = true;
	for (unsigned level = 1; level < NAM__LEVELS_MAX; level++) {
		struct nam__top *top = top_of(cache, level);

		publish_top(cache, level, NULL);
		for (uint32_t i = 0; top && i < top->count; i++) {
			struct nam__chunk *chunk = chunk_of(top, i);

			for (uint32_t k = 0; k < chunk->count; k++)
				node_drop(cache, node_of(chunk, k));
			chunk_drop(cache, chunk);
		}
	}
	pthread_mutex_unlock(&cache->mutex);
}

/* ---- life --------------------------------------------------------------------------------- */

int
nam__cache_new(const struct nam__geometry *g, struct nam_client *client, uint64_t budget_bytes,
	struct nam__cache **ret_cache)
{
	struct nam__cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	cache->g = g;
	cache->client = client;
	cache->budget_bytes = budget_bytes;
	cache->truncated_floor = nam__truncated_floor_choose();
	cache->leaf_group = nam__leaf_group_choose();
	cache->truncated_bytes = (uint32_t)sizeof(struct nam__cached_node) +
			      2 * nam__truncated_padded(g->inner_capacity);
	/* Narrow children of a node as full as bulk load leaves it. */
	cache->prefetch_bytes = cache->truncated_bytes + 4 * g->inner_capacity;
	if (cache->truncated_bytes > PREFETCH_BYTES_MAX)
		cache->truncated_bytes = PREFETCH_BYTES_MAX;
	if (cache->prefetch_bytes > PREFETCH_BYTES_MAX)
		cache->prefetch_bytes = PREFETCH_BYTES_MAX;
	pthread_mutex_init(&cache->mutex, NULL);
	*ret_cache = cache;
	return 0;
}

void
nam__cache_free(struct nam__cache *cache)
{
	if (!cache)
		return;
	for (unsigned level = 1; level < NAM__LEVELS_MAX; level++) {
		struct nam__top *top = top_of(cache, level);

		for (uint32_t i = 0; top && i < top->count; i++) {
			struct nam__chunk *chunk = chunk_of(top, i);

			for (uint32_t k = 0; k < chunk->count; k++)
				free(node_of(chunk, k));
			free(chunk);
		}
		free(top);
	}
	pthread_mutex_destroy(&cache->mutex);
	free(cache);
}

void
nam__cache_stat(const struct nam__cache *cache, struct nam_index_stat *stat)
{
	struct nam__cache *mutable = (struct nam__cache *)(uintptr_t)cache;

	pthread_mutex_lock(&mutable->mutex);
	stat->cache_bytes += cache->bytes;
	stat->cache_nodes += cache->nodes;
	stat->cache_budget_bytes += cache->budget_bytes;
	stat->cache_evictions += cache->evictions;
	pthread_mutex_unlock(&mutable->mutex);
}
