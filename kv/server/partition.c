/* SPDX-License-Identifier: Apache-2.0 */
/*
 * partition.c -- buckets and cells; without room, CLOCK picks the pair to evict.
 */
#include "partition.h"

#include <stddef.h>
#include <string.h>

#include "common/env.h"
#include "common/guard.h"
#include "common/race.h"
#include "common/rpc/kv_rpc.h"

#define NONE UINT32_MAX
#define SPINS_BEFORE_YIELD 64u
#define CELLS_PER_CHUNK (NAM__KV_CHUNK_BYTES / NAM__KV_CELL_BYTES)
#define BUCKETS_PER_CHUNK (NAM__KV_CHUNK_BYTES / (uint32_t)sizeof(uint32_t))
#define CELL_CHUNKS_PER_BUCKET_CHUNK (BUCKETS_PER_CHUNK / CELLS_PER_CHUNK)
/* After so many cells the next pair is evicted in any case. */
#define CLOCK_LOOKS_MAX 512u

enum kind {
	KIND_FREE = 0,
	KIND_BODY = 1,
	KIND_HEAD = 2,
	KIND_HEAD_USED = 3,		/* and it has been read since the hand came by */
};

struct cell {
	uint32_t more;			/* the next cell of the pair, or free one; or NONE */
	uint8_t kind;
	uint8_t key_bytes;		/* head */
	uint16_t value_bytes;		/* head */
	union {
		struct {
			uint32_t next;	/* pair of the bucket, or NONE */
			uint32_t hash;
			uint8_t data[48];
		} head;
		struct {
			uint32_t head;	/* the pair's first cell */
			uint8_t data[52];
		} body;
	};
};
_Static_assert(sizeof(struct cell) == NAM__KV_CELL_BYTES, "layout");
_Static_assert(offsetof(struct cell, head.data) == 16, "layout");

#define HEAD_BYTES ((uint32_t)sizeof(((struct cell *)0)->head.data))
#define BODY_BYTES ((uint32_t)sizeof(((struct cell *)0)->body.data))

static inline uint32_t
cells_for(uint32_t bytes)
{
	return bytes <= HEAD_BYTES ? 1 : 1 + (bytes - HEAD_BYTES + BODY_BYTES - 1) / BODY_BYTES;
}
_Static_assert(1 + (NAM_RPC_KV_KEY_BYTES_MAX + NAM_RPC_KV_VALUE_BYTES_MAX) / 52 + 1 <=
	CELLS_PER_CHUNK, "any pair fits into the smallest partition");

static inline struct cell *
cell_at(const struct nam__kv_partition *p, uint32_t at)
{
	uint8_t *chunk = p->chunks[p->bucket_chunks + at / CELLS_PER_CHUNK];

	return (struct cell *)(void *)(chunk + at % CELLS_PER_CHUNK * NAM__KV_CELL_BYTES);
}

static inline uint32_t *
bucket_of(const struct nam__kv_partition *p, uint32_t hash)
{
	uint32_t at = (uint32_t)((uint64_t)hash * p->buckets >> 32);

	return (uint32_t *)(void *)p->chunks[at / BUCKETS_PER_CHUNK] + at % BUCKETS_PER_CHUNK;
}

/* ---- one at a time ------------------------------------------------------------------------- */

static void
lock(struct nam__kv_partition *p)
{
	if (!NAM_GUARD(KV_ALONE))
		return;
	/* Acquire: pairs with unlock(). */
	for (unsigned spins = 1; __atomic_exchange_n(&p->locked, 1, __ATOMIC_ACQUIRE); spins++)
		if (spins % SPINS_BEFORE_YIELD == 0)
			nam_yield();
}

static void
unlock(struct nam__kv_partition *p)
{
	__atomic_store_n(&p->locked, 0, __ATOMIC_RELEASE);
}

/* ---- the bytes of a pair ------------------------------------------------------------------- */

/* A position in the bytes of a pair. */
struct stream {
	const struct nam__kv_partition *p;
	struct cell *cell;
	uint8_t *data;
	uint32_t left;			/* in this cell */
};

static struct stream
stream_of(const struct nam__kv_partition *p, struct cell *head)
{
	return (struct stream){ p, head, head->head.data, HEAD_BYTES };
}

/* As many of `bytes` as are contiguous. */
static uint8_t *
stream_piece(struct stream *stream, uint32_t bytes, uint32_t *ret_bytes)
{
	uint8_t *piece;

	if (!stream->left) {
		stream->cell = cell_at(stream->p, stream->cell->more);
		stream->data = stream->cell->body.data;
		stream->left = BODY_BYTES;
	}
	piece = stream->data;
	*ret_bytes = bytes < stream->left ? bytes : stream->left;
	stream->data += *ret_bytes;
	stream->left -= *ret_bytes;
	return piece;
}

static void
stream_write(struct stream *stream, const void *from, uint32_t bytes)
{
	for (uint32_t n; bytes; bytes -= n) {
		uint8_t *piece = stream_piece(stream, bytes, &n);

		memcpy(piece, from, n);
		from = (const uint8_t *)from + n;
		if (bytes > n)
			nam_race_point("kv.half_written");
	}
}

static bool
stream_equals(struct stream *stream, const void *with, uint32_t bytes)
{
	for (uint32_t n; bytes; bytes -= n) {
		const uint8_t *piece = stream_piece(stream, bytes, &n);

		if (memcmp(piece, with, n) != 0)
			return false;
		with = (const uint8_t *)with + n;
	}
	return true;
}

/* ---- pairs --------------------------------------------------------------------------------- */

static inline uint32_t
pair_bytes(const struct cell *head)
{
	return (uint32_t)head->key_bytes + head->value_bytes;
}

/* The word that leads to a key's pair, or is NONE. */
static uint32_t *
find(const struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes)
{
	uint32_t *link = bucket_of(p, hash);

	while (*link != NONE) {
		struct cell *head = cell_at(p, *link);
		struct stream stream = stream_of(p, head);

		if (head->head.hash == hash && head->key_bytes == key_bytes &&
			stream_equals(&stream, key, key_bytes))
			return link;
		link = &head->head.next;
	}
	return link;
}

static uint32_t
cell_take(struct nam__kv_partition *p)
{
	uint32_t at = p->free_first;

	p->free_count--;
	if (at == NONE)
		return p->carved++;
	p->free_first = cell_at(p, at)->more;
	return at;
}

/* Remove the pair that a word leads to and free its cells. */
static void
pair_remove(struct nam__kv_partition *p, uint32_t *link)
{
	uint32_t at = *link;
	struct cell *head = cell_at(p, at);

	p->counts.keys--;
	p->counts.bytes -= pair_bytes(head);
	*link = head->head.next;
	for (uint32_t more; at != NONE; at = more) {
		struct cell *cell = cell_at(p, at);

		more = cell->more;
		cell->kind = KIND_FREE;
		cell->more = p->free_first;
		p->free_first = at;
		p->free_count++;
	}
}

/* Enough cells are free.  Returns the first cell. */
static struct cell *
pair_add(struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes,
	const void *value, uint32_t value_bytes)
{
	uint32_t first = cell_take(p), *bucket = bucket_of(p, hash);
	struct cell *head = cell_at(p, first), *last = head;
	struct stream stream;

	head->kind = KIND_HEAD;
	head->key_bytes = (uint8_t)key_bytes;
	head->value_bytes = (uint16_t)value_bytes;
	head->head.hash = hash;
	for (uint32_t n = cells_for(key_bytes + value_bytes); n > 1; n--) {
		last->more = cell_take(p);
		last = cell_at(p, last->more);
		last->kind = KIND_BODY;
		last->body.head = first;
	}
	last->more = NONE;
	stream = stream_of(p, head);
	stream_write(&stream, key, key_bytes);
	stream_write(&stream, value, value_bytes);
	head->head.next = *bucket;
	*bucket = first;
	p->counts.keys++;
	p->counts.bytes += key_bytes + value_bytes;
	return head;
}

/* ---- making room --------------------------------------------------------------------------- */

/* Remove a pair that has not been read since the hand last passed; bounded by CLOCK_LOOKS_MAX. */
static void
evict(struct nam__kv_partition *p)
{
	for (uint32_t looks = 0;; looks++) {
		uint32_t at = p->hand;
		struct cell *cell = cell_at(p, at);
		uint32_t *link;

		p->hand = at + 1 < p->carved ? at + 1 : 0;
		if (cell->kind == KIND_FREE)
			continue;
		if (looks < CLOCK_LOOKS_MAX && cell->kind != KIND_HEAD) {
			if (cell->kind == KIND_HEAD_USED)
				cell->kind = KIND_HEAD;
			continue;
		}
		if (cell->kind == KIND_BODY)
			at = cell->body.head;
		link = bucket_of(p, cell_at(p, at)->head.hash);
		while (*link != at)
			link = &cell_at(p, *link)->head.next;
		pair_remove(p, link);
		p->counts.evictions++;
		return;
	}
}

/* ---- the interface ------------------------------------------------------------------------- */

void
nam__kv_partition_init(struct nam__kv_partition *p, uint8_t *const *chunks, uint32_t count,
	bool evicts)
{
	uint32_t bucket_chunks = (count + CELL_CHUNKS_PER_BUCKET_CHUNK) /
				 (CELL_CHUNKS_PER_BUCKET_CHUNK + 1);

	*p = (struct nam__kv_partition){
		.evicts = evicts,
		.chunks = chunks,
		.bucket_chunks = bucket_chunks,
		.buckets = bucket_chunks * BUCKETS_PER_CHUNK,
		.cells = (count - bucket_chunks) * CELLS_PER_CHUNK,
		.free_first = NONE,
	};
	p->free_count = p->cells;
	for (uint32_t i = 0; i < bucket_chunks; i++)
		memset(chunks[i], 0xff, NAM__KV_CHUNK_BYTES);
}

int
nam__kv_partition_get(struct nam__kv_partition *p, uint32_t hash, const void *key,
	uint32_t key_bytes, void *value, uint32_t room, uint32_t *ret_bytes)
{
	struct stream stream;
	struct cell *head;
	uint32_t at, n;
	int rc = 0;

	lock(p);
	at = *find(p, hash, key, key_bytes);
	if (at == NONE) {
		p->counts.misses++;
		rc = -NAM_E_NOTFOUND;
		goto unlock;
	}
	head = cell_at(p, at);
	if (head->value_bytes > room) {
		rc = -NAM_E_LIMIT;
		goto unlock;
	}
	/* Past the key. */
	stream = stream_of(p, head);
	for (uint32_t left = key_bytes; left; left -= n)
		(void)stream_piece(&stream, left, &n);
	for (uint32_t left = head->value_bytes; left; left -= n) {
		const uint8_t *piece = stream_piece(&stream, left, &n);

		memcpy((uint8_t *)value + (head->value_bytes - left), piece, n);
	}
	*ret_bytes = head->value_bytes;
	/* A store only if it changes the cell: other processors share the cache line. */
	if (head->kind != KIND_HEAD_USED)
		head->kind = KIND_HEAD_USED;
	p->counts.hits++;
unlock:
	unlock(p);
	return rc;
}

int
nam__kv_partition_put(struct nam__kv_partition *p, uint32_t hash, const void *key,
	uint32_t key_bytes, const void *value, uint32_t value_bytes)
{
	uint32_t need = cells_for(key_bytes + value_bytes), have = 0, *link;
	uint8_t kind = KIND_HEAD;
	int rc = 0;

	lock(p);
	link = find(p, hash, key, key_bytes);
	if (*link != NONE)
		have = cells_for(pair_bytes(cell_at(p, *link)));
	if (!p->evicts && p->free_count + have < need) {
		p->counts.refusals++;
		rc = -NAM_E_REMOTE_FULL;
		goto unlock;
	}
	if (*link != NONE) {
		kind = cell_at(p, *link)->kind;
		pair_remove(p, link);
	}
	nam_race_point("kv.removed");
	while (p->free_count < need)
		evict(p);
	pair_add(p, hash, key, key_bytes, value, value_bytes)->kind = kind;
	p->counts.puts++;
unlock:
	unlock(p);
	return rc;
}

int
nam__kv_partition_delete(struct nam__kv_partition *p, uint32_t hash, const void *key,
	uint32_t key_bytes)
{
	uint32_t *link;
	int rc = 0;

	lock(p);
	link = find(p, hash, key, key_bytes);
	if (*link == NONE) {
		rc = -NAM_E_NOTFOUND;
	} else {
		pair_remove(p, link);
		p->counts.deletes++;
	}
	unlock(p);
	return rc;
}

void
nam__kv_partition_count(struct nam__kv_partition *p, struct nam_rpc_kv_counts *sum)
{
	lock(p);
	nam_rpc_kv_counts_add(sum, &p->counts);
	sum->used_bytes += (uint64_t)(p->cells - p->free_count) * NAM__KV_CELL_BYTES;
	sum->room_bytes += (uint64_t)p->cells * NAM__KV_CELL_BYTES;
	unlock(p);
}

bool
nam__kv_partition_sound(struct nam__kv_partition *p, struct nam_diag *diag)
{
	uint64_t keys = 0, bytes = 0, used = 0, free_cells = 0;

	lock(p);
	for (uint32_t i = 0; i < p->buckets; i++) {
		const uint32_t *bucket = (uint32_t *)(void *)p->chunks[i / BUCKETS_PER_CHUNK] +
			i % BUCKETS_PER_CHUNK;

		for (uint32_t at = *bucket; at != NONE; at = cell_at(p, at)->head.next) {
			const struct cell *head = cell_at(p, at);

			keys++;
			bytes += pair_bytes(head);
			used += cells_for(pair_bytes(head));
			if (bucket_of(p, head->head.hash) != bucket || head->kind < KIND_HEAD)
				keys += p->cells;	/* no pair, or not this bucket's */
		}
	}
	for (uint32_t at = p->free_first; at != NONE && free_cells <= p->cells;
		at = cell_at(p, at)->more)
		free_cells += cell_at(p, at)->kind == KIND_FREE;
	free_cells += p->cells - p->carved;
	unlock(p);
	if (keys == p->counts.keys && bytes == p->counts.bytes && free_cells == p->free_count &&
		used + free_cells == p->cells)
		return true;
	(void)nam_diag_set(diag, -NAM_E_REMOTE_CORRUPT,
		"%llu pairs with %llu bytes in %llu cells, %llu free of %u; the books say %llu, "
		"%llu and %u free", (unsigned long long)keys, (unsigned long long)bytes,
		(unsigned long long)used, (unsigned long long)free_cells, p->cells,
		(unsigned long long)p->counts.keys, (unsigned long long)p->counts.bytes,
		p->free_count);
	return false;
}
