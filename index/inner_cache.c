/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inner_cache.c -- inner nodes kept by the compute node, in a form made for searching.
 *
 * What a lookup needs of an inner node is separators and children, so that is what is kept, and
 * densely, because ten million keys' worth of it should stay in the processor's own caches:
 *
 *	level -> top -> chunk -> segment
 *
 * A segment is one inner node.  Segments of a level are ordered by low fence in chunks of at most
 * CHUNK_MAX, and chunks in one array, the top.  Segments and chunks are searched by slices
 * (search.h): keys cut down to 16 bits; the keys themselves are read only when slices tie.  The top
 * is searched from a place that a small table of hints, indexed by the key's leading bits,
 * suggests.
 *
 * A stale segment is harmless: fences and generations in what it leads to tell.  So readers take no
 * lock.  Tops, chunks and segments never change once published, but for the pointers in them to
 * what lies below; whoever replaces one hands the old one to nam__garbage_add(), and it lives until
 * no operation that may have seen it is under way.
 */
#include <errno.h>
#include <stdlib.h>

#include "index_internal.h"
#include "segment.h"

#define CHUNK_MAX NAM__SLICES_GROUP
#define HINTS 1024u
#define PREFETCH_BYTES_MAX 512u

struct chunk {
	struct nam__slicing slicing;
	uint32_t count;
	_Alignas(64) uint16_t slices[CHUNK_MAX];
	struct nam__segment *_Atomic segments[CHUNK_MAX];
	uint64_t lows[];		/* full words each */
};

struct top {
	uint32_t count;
	uint32_t bytes;
	struct chunk *_Atomic *chunks;	/* behind the lows */
	uint64_t hint_base;
	uint32_t hint_shift;
	uint32_t hints[HINTS + 1];	/* a chunk at or before the one for keys of that bucket */
	uint64_t lows[];
};

struct nam__cache {
	const struct nam__geometry *g;
	struct nam_client *client;
	struct top *_Atomic levels[NAM__LEVELS_MAX];	/* [0] unused */
	uint64_t budget_bytes;
	uint32_t prefetch_bytes;	/* of a segment, for a search */
	nam__sliced_floor_fn sliced_floor;
	pthread_mutex_t mutex;		/* changes; what follows, too */
	uint64_t bytes;
	uint64_t nodes;
	uint64_t evictions;
	uint32_t hand_chunk, hand_slot;
};

/* ---- searching ---------------------------------------------------------------------------- */

static inline unsigned
segment_search(const struct nam__cache *cache, const struct nam__segment *segment,
	const uint64_t *key)
{
	return nam__segment_search(cache->g, segment, cache->sliced_floor, key);
}

static inline const uint64_t *
segment_low(const struct nam__segment *segment)
{
	return nam__segment_cold(segment)->separators;
}

/* Number of the chunk with the greatest low at or below the key, or -1. */
static inline __attribute__((always_inline)) int
top_floor(const struct nam__geometry *g, const struct top *top, const uint64_t *key)
{
	uint64_t distance = key[0] - top->hint_base;
	uint64_t bucket = key[0] < top->hint_base ? 0 : distance >> top->hint_shift;
	uint32_t number, end;

	if (bucket >= HINTS)
		bucket = HINTS - 1;
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

/* Number of the segment with the greatest low at or below the key, or -1. */
static inline int
chunk_floor(const struct nam__cache *cache, const struct chunk *chunk, const uint64_t *key)
{
	return cache->sliced_floor(&chunk->slicing, chunk->slices, chunk->lows, chunk->count,
		cache->g->full_words, key);
}

/* The segment with the greatest low fence at or below the key; whether it covers it is open. */
static inline __attribute__((always_inline)) struct nam__segment *
floor_segment(struct nam__cache *cache, unsigned level, const uint64_t *key)
{
	const struct nam__geometry *g = cache->g;
	/*
	 * Acquire, here and below: pairs with publish_top(); contents are older than the pointer.
	 */
	struct top *top = atomic_load_explicit(&cache->levels[level], memory_order_acquire);
	struct chunk *chunk;
	int number;

	if (!top)
		return NULL;
	number = top_floor(g, top, key);
	if (number < 0)
		return NULL;
	chunk = atomic_load_explicit(&top->chunks[number], memory_order_acquire);
	number = chunk_floor(cache, chunk, key);
	if (number < 0)
		return NULL;
	return atomic_load_explicit(&chunk->segments[number], memory_order_acquire);
}

/* Whether the segment covers the key; if so, it has been of use. */
static inline bool
segment_use(const struct nam__geometry *g, const struct nam__segment *segment, const uint64_t *key)
{
	_Atomic uint8_t *used = (_Atomic uint8_t *)(uintptr_t)&segment->used;

	if (!nam__segment_covers(g, segment, key))
		return false;
	if (!atomic_load_explicit(used, memory_order_relaxed))
		atomic_store_explicit(used, 1, memory_order_relaxed);
	return true;
}

static struct nam__segment *
find_segment(struct nam__cache *cache, unsigned level, const uint64_t *key)
{
	struct nam__segment *segment = floor_segment(cache, level, key);

	return segment && segment_use(cache->g, segment, key) ? segment : NULL;
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

const struct nam__segment *
nam__cache_segment(struct nam__cache *cache, const uint64_t *key)
{
	struct nam__segment *segment = floor_segment(cache, 1, key);

	if (!segment)
		return NULL;
	prefetch_lines(segment, cache->prefetch_bytes);
	return segment;
}

struct nam_gaddr
nam__segment_leaf(const struct nam__cache *cache, const struct nam__segment *segment,
	const uint64_t *key)
{
	if (!segment_use(cache->g, segment, key))
		return NAM_GADDR_NULL;
	return nam__segment_child(segment, segment_search(cache, segment, key));
}

/*
 * One pass over the group for each thing that has to be fetched before the next can be looked for:
 * chunks, places in them, segments, children.  The misses of a pass overlap with one another.
 */
void
nam__cache_leaf_group(struct nam__cache *cache, const uint64_t *keys, unsigned count,
	struct nam_gaddr *ret_leaves)
{
	const struct nam__geometry *g = cache->g;
	struct top *top = atomic_load_explicit(&cache->levels[1], memory_order_acquire);
	const struct chunk *chunks[NAM__CACHE_GROUP_MAX];
	struct nam__segment *const _Atomic *places[NAM__CACHE_GROUP_MAX];
	const struct nam__segment *segments[NAM__CACHE_GROUP_MAX];

	for (unsigned i = 0; i < count; i++) {
		int number = top ? top_floor(g, top, &keys[i]) : -1;

		chunks[i] = number < 0 ? NULL : atomic_load_explicit(&top->chunks[number],
						       memory_order_acquire);
		prefetch_lines(chunks[i], sizeof(struct nam__slicing) + sizeof(uint32_t) +
						  sizeof(chunks[i]->slices));
	}
	for (unsigned i = 0; i < count; i++) {
		int number = chunks[i] ? chunk_floor(cache, chunks[i], &keys[i]) : -1;

		places[i] = number < 0 ? NULL : &chunks[i]->segments[number];
		prefetch_lines(places[i], 1);
	}
	for (unsigned i = 0; i < count; i++) {
		segments[i] = places[i] ? atomic_load_explicit(places[i], memory_order_acquire)
					: NULL;
		prefetch_lines(segments[i], cache->prefetch_bytes);
	}
	for (unsigned i = 0; i < count; i++)
		ret_leaves[i] = segments[i] ? nam__segment_leaf(cache, segments[i], &keys[i])
					    : NAM_GADDR_NULL;
}

bool
nam__cache_find(struct nam__cache *cache, const uint64_t *key, unsigned level,
	struct nam__cache_hop *ret_hop)
{
	for (unsigned above = level + 1; above < NAM__LEVELS_MAX; above++) {
		struct nam__segment *segment = find_segment(cache, above, key);

		if (!segment)
			continue;
		ret_hop->child = nam__segment_child(segment, segment_search(cache, segment, key));
		ret_hop->level = above - 1;
		return true;
	}
	return false;
}

unsigned
nam__cache_leaves(struct nam__cache *cache, const uint64_t *key, bool backward,
	struct nam_gaddr *ret_leaves, unsigned max)
{
	struct nam__segment *segment;
	int number, step = backward ? -1 : 1;
	unsigned count = 0;

	segment = find_segment(cache, 1, key);
	if (!segment)
		return 0;
	number = (int)segment_search(cache, segment, key);
	for (; number >= 0 && number < (int)segment->count && count < max; number += step)
		ret_leaves[count++] = nam__segment_child(segment, (unsigned)number);
	return count;
}

/* ---- changing (all under the mutex) ------------------------------------------------------- */

static size_t
chunk_bytes(const struct nam__geometry *g)
{
	return (sizeof(struct chunk) + 8ul * g->full_words * CHUNK_MAX + 63) / 64 * 64;
}

static struct chunk *
chunk_new(struct nam__cache *cache)
{
	struct chunk *chunk = aligned_alloc(64, chunk_bytes(cache->g));

	if (chunk) {
		chunk->count = 0;
		cache->bytes += chunk_bytes(cache->g);
	}
	return chunk;
}

static void
chunk_drop(struct nam__cache *cache, struct chunk *chunk)
{
	cache->bytes -= chunk_bytes(cache->g);
	nam__garbage_add(cache->client, chunk);
}

static void
segment_drop(struct nam__cache *cache, struct nam__segment *segment)
{
	cache->bytes -= nam__segment_cold(segment)->bytes;
	cache->nodes--;
	nam__garbage_add(cache->client, segment);
}

static struct top *
top_new(struct nam__cache *cache, uint32_t count)
{
	size_t width = cache->g->full_words;
	size_t bytes = sizeof(struct top) + count * (8 * width + sizeof(struct chunk *));
	struct top *top = calloc(1, bytes);

	if (!top)
		return NULL;
	top->count = count;
	top->bytes = (uint32_t)bytes;
	top->chunks = (struct chunk *_Atomic *)(top->lows + count * width);
	cache->bytes += bytes;
	return top;
}

static void
top_drop(struct nam__cache *cache, struct top *top)
{
	if (!top)
		return;
	cache->bytes -= top->bytes;
	nam__garbage_add(cache->client, top);
}

static void
chunk_set(const struct nam__geometry *g, struct chunk *chunk, uint32_t number, const uint64_t *low,
	struct nam__segment *segment)
{
	memcpy(chunk->lows + (size_t)number * g->full_words, low, 8 * g->full_words);
	atomic_init(&chunk->segments[number], segment);
}

static void
chunk_copy(const struct nam__geometry *g, struct chunk *to, uint32_t to_number,
	struct chunk *from, uint32_t from_number, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		chunk_set(g, to, to_number + i, from->lows + (from_number + i) * g->full_words,
			atomic_load_explicit(&from->segments[from_number + i],
				memory_order_relaxed));
}

/* After its last entry is set. */
static void
chunk_finish(const struct nam__geometry *g, struct chunk *chunk, uint32_t count)
{
	chunk->count = count;
	if (count)
		nam__slice(chunk->lows, count, g->full_words, &chunk->slicing, chunk->slices);
}

/* A copy of `old` with `segment` inserted before entry `number`; it must have room. */
static struct chunk *
chunk_with(struct nam__cache *cache, struct chunk *old, uint32_t number,
	struct nam__segment *segment)
{
	const struct nam__geometry *g = cache->g;
	struct chunk *chunk = chunk_new(cache);

	if (!chunk)
		return NULL;
	chunk_copy(g, chunk, 0, old, 0, number);
	chunk_set(g, chunk, number, segment_low(segment), segment);
	chunk_copy(g, chunk, number + 1, old, number, old->count - number);
	chunk_finish(g, chunk, old->count + 1);
	return chunk;
}

/* After its lows are set: for each bucket of leading bits the last chunk that begins before it. */
static void
top_finish(const struct nam__geometry *g, struct top *top)
{
	size_t width = g->full_words;
	uint64_t span;
	uint32_t number = 0;

	if (!top->count)
		return;
	top->hint_base = top->lows[0];
	span = top->lows[(top->count - 1) * width] - top->hint_base;
	while (span >> top->hint_shift >= HINTS)
		top->hint_shift++;
	for (uint32_t bucket = 0; bucket <= HINTS; bucket++) {
		while (number + 1 < top->count &&
			(top->lows[(number + 1) * width] - top->hint_base) >> top->hint_shift <
				bucket)
			number++;
		top->hints[bucket] = number;
	}
	top->hints[HINTS] = top->count - 1;
}

static void
publish_top(struct nam__cache *cache, unsigned level, struct top *top)
{
	struct top *old = atomic_load_explicit(&cache->levels[level], memory_order_relaxed);

	/* Release, here and wherever a pointer is replaced: pairs with find_segment(). */
	atomic_store_explicit(&cache->levels[level], top, memory_order_release);
	top_drop(cache, old);
}

/* The level's top with entry `number` replaced by up to two chunks (none: removed). */
static int
top_replace(struct nam__cache *cache, unsigned level, uint32_t number, struct chunk *first,
	struct chunk *second)
{
	struct top *old = atomic_load_explicit(&cache->levels[level], memory_order_relaxed);
	size_t width = cache->g->full_words;
	struct chunk *with[2] = { first, second };
	uint32_t in = 0, count = (old ? old->count - 1 : 0) + !!first + !!second;
	struct top *top;

	if (!count) {
		publish_top(cache, level, NULL);	/* nobody searches in an empty one */
		return 0;
	}
	top = top_new(cache, count);
	if (!top)
		return -ENOMEM;
	for (uint32_t i = 0; i < (old ? old->count : 1); i++) {
		if (i != number) {
			memcpy(top->lows + in * width, old->lows + i * width, 8 * width);
			atomic_init(&top->chunks[in++], atomic_load_explicit(&old->chunks[i],
								memory_order_relaxed));
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
chunk_halve(struct nam__cache *cache, unsigned level, uint32_t number, struct chunk *chunk)
{
	struct chunk *left = chunk_new(cache), *right = chunk_new(cache);
	uint32_t half = chunk->count / 2;
	int rc = -ENOMEM;

	if (!left || !right)
		goto free_halves;
	chunk_copy(cache->g, left, 0, chunk, 0, half);
	chunk_copy(cache->g, right, 0, chunk, half, chunk->count - half);
	chunk_finish(cache->g, left, half);
	chunk_finish(cache->g, right, chunk->count - half);
	rc = top_replace(cache, level, number, left, right);
	if (rc)
		goto free_halves;
	chunk_drop(cache, chunk);
	return 0;

free_halves:
	cache->bytes -= (!!left + !!right) * chunk_bytes(cache->g);
	free(left);
	free(right);
	return rc;
}

/* Replace one chunk by a changed copy. */
static int
chunk_replace(struct nam__cache *cache, unsigned level, uint32_t number, struct chunk *old,
	struct chunk *chunk)
{
	struct top *top = atomic_load_explicit(&cache->levels[level], memory_order_relaxed);
	size_t width = cache->g->full_words;

	if (chunk->count && !nam__key_compare(chunk->lows, top->lows + number * width,
				    cache->g->full_words)) {
		atomic_store_explicit(&top->chunks[number], chunk, memory_order_release);
	} else {
		/* Its lowest key changed, or nothing is left in it: the top must say so, too. */
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
insert_segment(struct nam__cache *cache, unsigned level, struct nam__segment *segment)
{
	const struct nam__geometry *g = cache->g;

	for (;;) {
		struct top *top = atomic_load_explicit(&cache->levels[level], memory_order_relaxed);
		struct chunk *chunk, *copy;
		int in_top, in_chunk, rc;

		if (!top || !top->count) {
			chunk = chunk_new(cache);
			if (!chunk)
				return -ENOMEM;
			chunk_set(g, chunk, 0, segment_low(segment), segment);
			chunk_finish(g, chunk, 1);
			if (top) {
				atomic_store_explicit(&cache->levels[level], NULL,
					memory_order_release);
				top_drop(cache, top);
			}
			rc = top_replace(cache, level, 0, chunk, NULL);
			if (rc) {
				cache->bytes -= chunk_bytes(g);
				free(chunk);
			}
			return rc;
		}
		in_top = top_floor(g, top, segment_low(segment));
		if (in_top < 0)
			in_top = 0;
		chunk = atomic_load_explicit(&top->chunks[in_top], memory_order_relaxed);
		in_chunk = chunk_floor(cache, chunk, segment_low(segment));
		if (chunk->count == CHUNK_MAX) {
			rc = chunk_halve(cache, level, (uint32_t)in_top, chunk);
			if (rc)
				return rc;
			continue;
		}
		copy = chunk_with(cache, chunk, (uint32_t)(in_chunk + 1), segment);
		if (!copy)
			return -ENOMEM;
		rc = chunk_replace(cache, level, (uint32_t)in_top, chunk, copy);
		if (rc) {
			cache->bytes -= chunk_bytes(g);
			free(copy);
		}
		return rc;
	}
}

static int
remove_segment(struct nam__cache *cache, unsigned level, uint32_t in_top, uint32_t in_chunk)
{
	struct top *top = atomic_load_explicit(&cache->levels[level], memory_order_relaxed);
	struct chunk *chunk = atomic_load_explicit(&top->chunks[in_top], memory_order_relaxed);
	struct nam__segment *segment =
		atomic_load_explicit(&chunk->segments[in_chunk], memory_order_relaxed);
	struct chunk *copy = chunk_new(cache);
	int rc;

	if (!copy)
		return -ENOMEM;
	chunk_copy(cache->g, copy, 0, chunk, 0, in_chunk);
	chunk_copy(cache->g, copy, in_chunk, chunk, in_chunk + 1, chunk->count - in_chunk - 1);
	chunk_finish(cache->g, copy, chunk->count - 1);
	rc = chunk_replace(cache, level, in_top, chunk, copy);
	if (rc) {
		cache->bytes -= chunk_bytes(cache->g);
		free(copy);
		return rc;
	}
	segment_drop(cache, segment);
	return 0;
}

/* Second chance among the nodes right above the leaves.  False: nothing left to evict. */
static bool
evict_one(struct nam__cache *cache)
{
	struct top *top = atomic_load_explicit(&cache->levels[1], memory_order_relaxed);
	uint64_t looks = 2 * cache->nodes + 2;

	if (!top || !top->count)
		return false;
	while (looks) {
		struct chunk *chunk;
		struct nam__segment *segment;

		if (cache->hand_chunk >= top->count)
			cache->hand_chunk = cache->hand_slot = 0;
		chunk = atomic_load_explicit(&top->chunks[cache->hand_chunk], memory_order_relaxed);
		if (cache->hand_slot >= chunk->count) {
			cache->hand_chunk++;
			cache->hand_slot = 0;
			continue;
		}
		segment = atomic_load_explicit(&chunk->segments[cache->hand_slot],
			memory_order_relaxed);
		looks--;
		if (!atomic_exchange_explicit(&segment->used, 0, memory_order_relaxed)) {
			if (remove_segment(cache, 1, cache->hand_chunk, cache->hand_slot))
				return false;
			cache->evictions++;
			return true;
		}
		cache->hand_slot++;
	}
	return false;
}

/* The segment published under exactly this low fence, and where it is. */
static struct nam__segment *
find_exact(struct nam__cache *cache, unsigned level, const uint64_t *low, uint32_t *ret_in_top,
	uint32_t *ret_in_chunk)
{
	const struct nam__geometry *g = cache->g;
	struct top *top = atomic_load_explicit(&cache->levels[level], memory_order_relaxed);
	struct chunk *chunk;
	int in_top, in_chunk;

	in_top = top && top->count ? top_floor(g, top, low) : -1;
	if (in_top < 0)
		return NULL;
	chunk = atomic_load_explicit(&top->chunks[in_top], memory_order_relaxed);
	in_chunk = chunk_floor(cache, chunk, low);
	if (in_chunk < 0)
		return NULL;
	*ret_in_top = (uint32_t)in_top;
	*ret_in_chunk = (uint32_t)in_chunk;
	return atomic_load_explicit(&chunk->segments[in_chunk], memory_order_relaxed);
}

void
nam__cache_put(struct nam__cache *cache, const uint64_t *image, struct nam_gaddr at)
{
	const struct nam__geometry *g = cache->g;
	unsigned level = nam__node_level(image);
	struct nam__segment *segment, *old;
	uint32_t in_top, in_chunk;

	if (level == 0 || level >= NAM__LEVELS_MAX || !nam__node_count(image))
		return;
	pthread_mutex_lock(&cache->mutex);
	old = find_exact(cache, level, nam__inner_entry(g, (uint64_t *)(uintptr_t)image, 0),
		&in_top, &in_chunk);
	if (old && nam__key_compare(segment_low(old),
			   nam__inner_entry(g, (uint64_t *)(uintptr_t)image, 0), g->full_words))
		old = NULL;
	/* Images of one node may arrive out of order, by way of different threads. */
	if (old && nam_gaddr_same(nam__segment_cold(old)->at, at) &&
		nam__segment_cold(old)->version >= nam__node_version(image))
		goto unlock;
	segment = nam__segment_new(g, image, at);
	if (!segment)
		goto unlock;
	if (old) {
		struct top *top = atomic_load_explicit(&cache->levels[level], memory_order_relaxed);
		struct chunk *chunk =
			atomic_load_explicit(&top->chunks[in_top], memory_order_relaxed);

		atomic_store_explicit(&chunk->segments[in_chunk], segment, memory_order_release);
		segment_drop(cache, old);
	} else if (insert_segment(cache, level, segment)) {
		free(segment);
		goto unlock;
	}
	cache->bytes += nam__segment_cold(segment)->bytes;
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
	/* On -ENOMEM the stale node stays; who stumbles over it again will ask again. */
	if (find_exact(cache, level, key, &in_top, &in_chunk))
		remove_segment(cache, level, in_top, in_chunk);
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
	cache->sliced_floor = nam__sliced_floor_choose();
	/* Header, slices and narrow children of a node as full as bulk load leaves it. */
	cache->prefetch_bytes = (uint32_t)sizeof(struct nam__segment) +
				2 * nam__slices_padded(g->inner_capacity) + 4 * g->inner_capacity;
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
		struct top *top = atomic_load_explicit(&cache->levels[level], memory_order_relaxed);

		for (uint32_t i = 0; top && i < top->count; i++) {
			struct chunk *chunk =
				atomic_load_explicit(&top->chunks[i], memory_order_relaxed);

			for (uint32_t k = 0; k < chunk->count; k++)
				free(atomic_load_explicit(&chunk->segments[k],
					memory_order_relaxed));
			free(chunk);
		}
		free(top);
	}
	pthread_mutex_destroy(&cache->mutex);
	free(cache);
}

void
nam__cache_stat(const struct nam__cache *cache, struct nam_index_stat *ret_stat)
{
	struct nam__cache *mutable = (struct nam__cache *)(uintptr_t)cache;

	pthread_mutex_lock(&mutable->mutex);
	ret_stat->cache_bytes = cache->bytes;
	ret_stat->cache_nodes = cache->nodes;
	ret_stat->cache_budget_bytes = cache->budget_bytes;
	ret_stat->cache_evictions = cache->evictions;
	pthread_mutex_unlock(&mutable->mutex);
}
