/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chained.c -- the engine of Jakiro: buckets lead to chains of pairs, and a pair is a chain of
 * cells.  Without room, CLOCK picks the pair to evict.
 *
 *	first cell	16 bytes of its own, then 48 of key and value
 *	others		12 bytes of their own, then 52
 */
#include <stddef.h>
#include <string.h>

#include "common/race.h"
#include "engine.h"

#define NONE NAM__KV_CELL_NONE
#define CELLS_PER_CHUNK NAM__KV_CELLS_PER_CHUNK
#define BUCKETS_PER_CHUNK (NAM__KV_CHUNK_BYTES / (uint32_t)sizeof(uint32_t))
#define CELL_CHUNKS_PER_BUCKET_CHUNK (BUCKETS_PER_CHUNK / CELLS_PER_CHUNK)

enum kind {
	KIND_FREE = 0,
	KIND_BODY = 1,
	KIND_HEAD = 2,
	KIND_HEAD_USED = 3,		/* and it has been read since the hand came by */
};

/* Fields of cell.what. */
#define KIND_SHIFT 29
#define VALUE_SHIFT 8
#define VALUE_MASK 0x1fffffu
#define KEY_MASK 0xffu

struct cell {
	uint32_t more;			/* the next cell of the pair, or free one; or NONE */
	uint32_t what;			/* its kind; of a head, the lengths of value and key, too */
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
_Static_assert(NAM_RPC_KV_VALUE_BYTES_MAX <= VALUE_MASK &&
	NAM_RPC_KV_KEY_BYTES_MAX <= KEY_MASK, "lengths fit");

static inline enum kind
kind_of(const struct cell *cell)
{
	return cell->what >> KIND_SHIFT;
}

static inline void
kind_set(struct cell *cell, enum kind kind)
{
	cell->what = (cell->what & ~(UINT32_MAX << KIND_SHIFT)) | (uint32_t)kind << KIND_SHIFT;
}

static inline uint32_t
key_bytes_of(const struct cell *head)
{
	return head->what & KEY_MASK;
}

static inline uint32_t
value_bytes_of(const struct cell *head)
{
	return head->what >> VALUE_SHIFT & VALUE_MASK;
}

static inline struct cell *
cell_at(const struct nam__kv_partition *p, uint32_t at)
{
	return nam__kv_cell_at(&p->cells, at);
}

static inline uint32_t *
bucket_of(const struct nam__kv_partition *p, uint32_t hash)
{
	uint32_t at = (uint32_t)((uint64_t)hash * p->chained.buckets >> 32);

	return (uint32_t *)(void *)p->chunks[at / BUCKETS_PER_CHUNK] + at % BUCKETS_PER_CHUNK;
}

static struct nam__kv_stream
stream_of(const struct nam__kv_partition *p, struct cell *head)
{
	return (struct nam__kv_stream){
		.cells = &p->cells,
		.more = head->more,
		.skip = (uint32_t)offsetof(struct cell, body.data),
		.data = head->head.data,
		.left = HEAD_BYTES,
	};
}

/* ---- pairs --------------------------------------------------------------------------------- */

static inline uint32_t
pair_bytes(const struct cell *head)
{
	return key_bytes_of(head) + value_bytes_of(head);
}

/* The word that leads to a key's pair, or is NONE. */
static uint32_t *
find(const struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes)
{
	uint32_t *link = bucket_of(p, hash);

	while (*link != NONE) {
		struct cell *head = cell_at(p, *link);
		struct nam__kv_stream stream = stream_of(p, head);

		if (head->head.hash == hash && key_bytes_of(head) == key_bytes &&
			nam__kv_stream_equals(&stream, key, key_bytes))
			return link;
		link = &head->head.next;
	}
	return link;
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
		kind_set(cell, KIND_FREE);
		nam__kv_cell_give(&p->cells, at);
	}
}

/* Enough cells are free.  Returns the first cell. */
static struct cell *
pair_add(struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes,
	const void *value, uint32_t value_bytes)
{
	uint32_t first = nam__kv_cell_take(&p->cells), *bucket = bucket_of(p, hash);
	struct cell *head = cell_at(p, first), *last = head;
	struct nam__kv_stream stream;

	head->what = (uint32_t)KIND_HEAD << KIND_SHIFT | value_bytes << VALUE_SHIFT | key_bytes;
	head->head.hash = hash;
	for (uint32_t n = cells_for(key_bytes + value_bytes); n > 1; n--) {
		last->more = nam__kv_cell_take(&p->cells);
		last = cell_at(p, last->more);
		kind_set(last, KIND_BODY);
		last->body.head = first;
	}
	last->more = NONE;
	stream = stream_of(p, head);
	nam__kv_stream_write(&stream, key, key_bytes);
	nam__kv_stream_write(&stream, value, value_bytes);
	head->head.next = *bucket;
	*bucket = first;
	p->counts.keys++;
	p->counts.bytes += key_bytes + value_bytes;
	return head;
}

/* ---- making room --------------------------------------------------------------------------- */

/*
 * Remove a pair that has not been read since the hand last passed.
 *
 * @looks	at cells, which are left before the next pair goes in any case; free cells are fewer
 *		than a new pair needs
 */
static void
evict(struct nam__kv_partition *p, uint32_t *looks)
{
	for (;; *looks -= *looks > 0) {
		uint32_t at = p->chained.hand;
		struct cell *cell = cell_at(p, at);
		uint32_t *link;

		p->chained.hand = at + 1 < p->cells.carved ? at + 1 : 0;
		if (kind_of(cell) == KIND_FREE)
			continue;
		if (*looks && kind_of(cell) != KIND_HEAD) {
			if (kind_of(cell) == KIND_HEAD_USED)
				kind_set(cell, KIND_HEAD);
			continue;
		}
		if (kind_of(cell) == KIND_BODY)
			at = cell->body.head;
		link = bucket_of(p, cell_at(p, at)->head.hash);
		while (*link != at)
			link = &cell_at(p, *link)->head.next;
		pair_remove(p, link);
		p->counts.evictions++;
		return;
	}
}

/* ---- the engine ---------------------------------------------------------------------------- */

static void
init(struct nam__kv_partition *p)
{
	uint32_t chunks = (p->chunks_count + CELL_CHUNKS_PER_BUCKET_CHUNK) /
			  (CELL_CHUNKS_PER_BUCKET_CHUNK + 1);

	p->chained = (struct nam__kv_chained){ .buckets = chunks * BUCKETS_PER_CHUNK };
	nam__kv_cells_init(&p->cells, p->chunks + chunks, 1,
		(p->chunks_count - chunks) * CELLS_PER_CHUNK);
	for (uint32_t i = 0; i < chunks; i++)
		memset(p->chunks[i], 0xff, NAM__KV_CHUNK_BYTES);
}

static void
image(const struct nam__kv_partition *p, struct nam_rpc_kv_image *ret)
{
	ret->hand = p->chained.hand;
}

static bool
take(struct nam__kv_partition *p, const struct nam_rpc_kv_image *from)
{
	if (from->cells != p->cells.count || (from->hand && from->hand >= from->carved))
		return false;
	p->chained.hand = from->hand;
	return true;
}

static void
prefetch(const struct nam__kv_partition *p, uint32_t hash)
{
	__builtin_prefetch(bucket_of(p, hash));
}

/* Without a lock: a word of a bucket is NONE or a cell's number at any time. */
NAM__KV_HINT_FN static void
seek(struct nam__kv_sought *sought, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		sought[i].at[0] = bucket_of(sought[i].partition, sought[i].hash);
		__builtin_prefetch(sought[i].at[0]);
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = __atomic_load_n((const uint32_t *)sought[i].at[0], __ATOMIC_RELAXED);

		if (at != NONE)
			__builtin_prefetch(cell_at(sought[i].partition, at));
	}
}

static int
get(struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes, void *value,
	uint32_t room, uint32_t *ret_bytes)
{
	struct nam__kv_stream stream;
	struct cell *head;
	uint32_t at = *find(p, hash, key, key_bytes);

	if (at == NONE)
		return -NAM_E_NOTFOUND;
	head = cell_at(p, at);
	*ret_bytes = value_bytes_of(head);
	if (*ret_bytes > room)
		return -NAM_E_LIMIT;
	stream = stream_of(p, head);
	nam__kv_stream_read(&stream, NULL, key_bytes);
	nam__kv_stream_read(&stream, value, *ret_bytes);
	/* A store only if it changes the cell: other processors share the cache line. */
	if (kind_of(head) != KIND_HEAD_USED)
		kind_set(head, KIND_HEAD_USED);
	return 0;
}

static int
put(struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes,
	const void *value, uint32_t value_bytes)
{
	uint32_t need = cells_for(key_bytes + value_bytes), have = 0;
	uint32_t *link = find(p, hash, key, key_bytes);
	uint32_t looks = NAM__KV_LOOKS(need);
	enum kind kind = KIND_HEAD;

	if (*link != NONE)
		have = cells_for(pair_bytes(cell_at(p, *link)));
	if (need > (p->evicts ? p->cells.count : p->cells.free_count + have))
		return -NAM_E_REMOTE_FULL;
	if (*link != NONE) {
		kind = kind_of(cell_at(p, *link));
		pair_remove(p, link);
	}
	nam_race_point("kv.removed");
	while (p->cells.free_count < need)
		evict(p, &looks);
	kind_set(pair_add(p, hash, key, key_bytes, value, value_bytes), kind);
	return 0;
}

static int
remove_key(struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes)
{
	uint32_t *link = find(p, hash, key, key_bytes);

	if (*link == NONE)
		return -NAM_E_NOTFOUND;
	pair_remove(p, link);
	return 0;
}

static void
count(const struct nam__kv_partition *p, struct nam_rpc_kv_counts *sum)
{
	sum->used_bytes += (uint64_t)nam__kv_cells_used(&p->cells) * NAM__KV_CELL_BYTES;
	sum->room_bytes += (uint64_t)p->cells.count * NAM__KV_CELL_BYTES;
}

static bool
sound(const struct nam__kv_partition *p, struct nam_diag *diag)
{
	uint64_t keys = 0, bytes = 0, used = 0, free_cells = 0;

	for (uint32_t i = 0; i < p->chained.buckets; i++) {
		const uint32_t *bucket = (uint32_t *)(void *)p->chunks[i / BUCKETS_PER_CHUNK] +
			i % BUCKETS_PER_CHUNK;

		for (uint32_t at = *bucket; at != NONE; at = cell_at(p, at)->head.next) {
			const struct cell *head = cell_at(p, at);

			keys++;
			bytes += pair_bytes(head);
			used += cells_for(pair_bytes(head));
			if (bucket_of(p, head->head.hash) != bucket || kind_of(head) < KIND_HEAD)
				keys += p->cells.count;	/* no pair, or not this bucket's */
		}
	}
	for (uint32_t at = p->cells.free_first; at != NONE && free_cells <= p->cells.count;
		at = cell_at(p, at)->more)
		free_cells += kind_of(cell_at(p, at)) == KIND_FREE;
	free_cells += p->cells.count - p->cells.carved;
	if (keys == p->counts.keys && bytes == p->counts.bytes &&
		free_cells == p->cells.free_count && used + free_cells == p->cells.count)
		return true;
	(void)nam_diag_set(diag, -NAM_E_REMOTE_CORRUPT,
		"%llu pairs with %llu bytes in %llu cells, %llu free of %u; the books say %llu, "
		"%llu and %u free", (unsigned long long)keys, (unsigned long long)bytes,
		(unsigned long long)used, (unsigned long long)free_cells, p->cells.count,
		(unsigned long long)p->counts.keys, (unsigned long long)p->counts.bytes,
		p->cells.free_count);
	return false;
}

const struct nam__kv_engine nam__kv_chained_engine = {
	.init = init,
	.get = get,
	.prefetch = prefetch,
	.seek = seek,
	.put = put,
	.remove = remove_key,
	.count = count,
	.image = image,
	.take = take,
	.sound = sound,
};
