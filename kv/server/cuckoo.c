/* SPDX-License-Identifier: Apache-2.0 */
/* cuckoo.c -- the engine of RHKV: pairs in two tables, their stash, growth, eviction. */
#include "cuckoo.h"

#include <stdlib.h>
#include <string.h>

#include "common/race.h"

#define STASH_SLOTS (NAM__CUCKOO_STASH_BUCKETS * NAM__CUCKOO_SLOTS)
/* The table begins with 32 to 63 buckets. */
#define BASE_BITS 5
/* Buckets of each table that a step of growth divides. */
#define SPLITS_PER_STEP 64u
/* After so many cells, and some for each that a new pair needs, pairs are evicted in any case. */
#define CLOCK_LOOKS_MAX 512u
#define LOOKS_PER_CELL 4u

/* ---- a pair -------------------------------------------------------------------------------- */

/* @first	its first cell, if it has any */
static inline struct nam__kv_stream
stream_of(const struct nam__kv_partition *p, uint32_t position, uint32_t cells, uint32_t first)
{
	return (struct nam__kv_stream){
		.cells = &p->cells,
		.more = first,
		.skip = NAM__CUCKOO_CELL_SKIP,
		.data = nam__cuckoo_data_at(p, position),
		.left = cells ? NAM__CUCKOO_HEAD_BYTES : NAM__CUCKOO_DATA_BYTES,
	};
}

/* The pair there, from its first byte; false: it has cells, and they are not to be found. */
static bool
pair_open(const struct nam__kv_partition *p, uint32_t position, const struct nam__cuckoo_slot *slot,
	struct nam__kv_stream *ret_stream)
{
	uint32_t cells = nam__cuckoo_cells(slot);
	uint32_t first = cells ? nam__cuckoo_first_cell(p, position) : NAM__KV_CELL_NONE;

	*ret_stream = stream_of(p, position, cells, first);
	return !cells || first != NAM__KV_CELL_NONE;
}

static bool
key_is(const struct nam__kv_partition *p, uint32_t position, const void *key, uint32_t key_bytes)
{
	struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, position));
	struct nam__kv_stream stream;

	if (nam__cuckoo_key_bytes(&slot) != key_bytes)
		return false;
	if (!nam__cuckoo_cells(&slot))
		return memcmp(nam__cuckoo_data_at(p, position), key, key_bytes <
			NAM__CUCKOO_DATA_BYTES ? key_bytes : NAM__CUCKOO_DATA_BYTES) == 0;
	return pair_open(p, position, &slot, &stream) &&
	       nam__kv_stream_equals(&stream, key, key_bytes);
}

static inline uint32_t
find_in(const struct nam__kv_partition *p, uint32_t bucket, uint32_t hash, const void *key,
	uint32_t key_bytes)
{
	const struct nam__cuckoo_slot *slots = nam__cuckoo_bucket_at(p, bucket)->slots;

	for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++)
		if (slots[i].hash == hash &&
			key_is(p, bucket * NAM__CUCKOO_SLOTS + i, key, key_bytes))
			return bucket * NAM__CUCKOO_SLOTS + i;
	return NAM__CUCKOO_NONE;
}

/* The position of a key; NAM__CUCKOO_NONE: it is not there. */
static uint32_t
find(const struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes)
{
	uint32_t buckets[2], at;

	nam__cuckoo_buckets_of(&p->cuckoo.shape, hash, buckets);
	/* All at once: the line of a pair's data is known only once the heads are there. */
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t line = 0; line < NAM__CUCKOO_BUCKET_BYTES; line += 64)
			__builtin_prefetch((const uint8_t *)nam__cuckoo_bucket_at(p, buckets[i]) +
				line);
	at = find_in(p, buckets[0], hash, key, key_bytes);
	if (at == NAM__CUCKOO_NONE)
		at = find_in(p, buckets[1], hash, key, key_bytes);
	if (at == NAM__CUCKOO_NONE && nam__cuckoo_bucket_at(p, buckets[0])->vertex.spilled)
		for (uint32_t i = 0; i < NAM__CUCKOO_STASH_BUCKETS && at == NAM__CUCKOO_NONE; i++)
			at = find_in(p, i, hash, key, key_bytes);
	return at;
}

/* ---- pairs come and go --------------------------------------------------------------------- */

static inline bool
in_stash(uint32_t position)
{
	return position < STASH_SLOTS;
}

static void
spilled_add(struct nam__kv_partition *p, uint32_t hash, int by)
{
	uint32_t buckets[2];

	nam__cuckoo_buckets_of(&p->cuckoo.shape, hash, buckets);
	nam__cuckoo_bucket_at(p, buckets[0])->vertex.spilled += (uint8_t)by;
	p->cuckoo.stash_count += (uint32_t)by;
}

static void
cells_give(struct nam__kv_partition *p, uint32_t first, uint32_t count)
{
	for (uint32_t next; first != NAM__KV_CELL_NONE && count; first = next, count--) {
		next = nam__kv_cell_next(&p->cells, first);
		nam__cuckoo_cell_at(p, first)->owner = NAM__KV_CELL_NONE;
		nam__kv_cell_give(&p->cells, first);
	}
}

/* So many are free.  Returns the first, of a chain. */
static uint32_t
cells_take(struct nam__kv_partition *p, uint32_t count, uint32_t position)
{
	uint32_t first = nam__kv_cell_take(&p->cells);
	struct nam__cuckoo_cell *cell = nam__cuckoo_cell_at(p, first);

	cell->owner = NAM__CUCKOO_FIRST | position;
	while (--count) {
		uint32_t next = nam__kv_cell_take(&p->cells);

		cell->next = next;
		cell = nam__cuckoo_cell_at(p, next);
		cell->owner = first;
	}
	cell->next = NAM__KV_CELL_NONE;
	return first;
}

/* The slot's data, and its checksum: of what was to be written, whatever is there now. */
static uint32_t
data_write(struct nam__kv_partition *p, uint32_t position, const void *key, uint32_t key_bytes,
	const void *value, uint32_t value_bytes)
{
	uint32_t count = nam__cuckoo_cells_for(key_bytes + value_bytes), first;
	uint8_t *data = nam__cuckoo_data_at(p, position), pair[NAM__CUCKOO_DATA_BYTES] = { 0 };
	struct nam__kv_stream stream;

	if (!count) {
		memcpy(pair, key, key_bytes);
		if (value_bytes)
			memcpy(pair + key_bytes, value, value_bytes);
		memcpy(data, pair, sizeof(pair));
		return nam__cuckoo_checksum_in_line(p->store, pair, key_bytes, value_bytes);
	}
	first = cells_take(p, count, position);
	memcpy(data + NAM__CUCKOO_HEAD_BYTES, &first, sizeof(first));
	stream = stream_of(p, position, count, first);
	nam__kv_stream_write(&stream, key, key_bytes);
	nam__kv_stream_write(&stream, value, value_bytes);
	return nam__cuckoo_checksum_long(p->store, key, key_bytes, value, value_bytes);
}

/* Key and value go to a slot whose cells, if it has any, have been given back; its head is last. */
static void
pair_write(struct nam__kv_partition *p, uint32_t position, uint32_t hash, const void *key,
	uint32_t key_bytes, const void *value, uint32_t value_bytes, uint32_t flags)
{
	uint32_t checksum = data_write(p, position, key, key_bytes, value, value_bytes);

	nam_race_point("kv.before_head");
	*nam__cuckoo_slot_at(p, position) = (struct nam__cuckoo_slot){
		.checksum = checksum,
		.hash = hash,
		.lengths = flags | value_bytes << NAM__CUCKOO_VALUE_SHIFT | key_bytes,
	};
	p->counts.bytes += key_bytes + value_bytes;
}

static void
pair_remove(struct nam__kv_partition *p, uint32_t position)
{
	struct nam__cuckoo_slot *at = nam__cuckoo_slot_at(p, position);
	struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(at);
	uint32_t cells = nam__cuckoo_cells(&slot);

	if (cells)
		cells_give(p, nam__cuckoo_first_cell(p, position), cells);
	p->counts.keys--;
	p->counts.bytes -= nam__cuckoo_key_bytes(&slot) + nam__cuckoo_value_bytes(&slot);
	nam__cuckoo_slot_clear(at);
	if (in_stash(position))
		spilled_add(p, slot.hash, -1);
	else
		nam__cuckoo_edge_remove(p, position / NAM__CUCKOO_SLOTS);
}

/* ---- growth -------------------------------------------------------------------------------- */

static inline uint32_t
chunks_free(const struct nam__kv_partition *p)
{
	return p->chunks_count - p->cuckoo.chunks - p->cells.count / NAM__KV_CELLS_PER_CHUNK;
}

static void
bucket_init(struct nam__kv_partition *p, uint32_t number)
{
	struct nam__cuckoo_bucket *bucket = nam__cuckoo_bucket_at(p, number);

	memset(bucket->slots, 0, sizeof(bucket->slots));
	nam__cuckoo_vertex_init(&bucket->vertex);
}

/* The pairs whose next bit of the hash is set go to the new bucket. */
static void
bucket_split(struct nam__kv_partition *p, uint32_t table, uint32_t index, uint32_t fresh_index)
{
	uint32_t number = nam__cuckoo_bucket_number(table, index);
	uint32_t fresh = nam__cuckoo_bucket_number(table, fresh_index);

	bucket_init(p, fresh);
	nam__cuckoo_vertex_split(p, number, fresh);
	for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++) {
		uint32_t from = number * NAM__CUCKOO_SLOTS + i;
		struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, from));

		if (slot.lengths && nam__cuckoo_table_hash(slot.hash, table) >>
				p->cuckoo.shape.level & 1)
			nam__cuckoo_kick(p, from, fresh * NAM__CUCKOO_SLOTS + i);
	}
}

/*
 * One bucket more for each table; false: no chunk is left.  The stash is empty, for it takes pairs
 * only if there is none.
 */
static bool
tables_grow_by_one(struct nam__kv_partition *p)
{
	struct nam__kv_cuckoo *cuckoo = &p->cuckoo;
	uint32_t index = cuckoo->shape.split, fresh = nam__cuckoo_table_size(&cuckoo->shape);

	if (nam__cuckoo_bucket_number(1, fresh) / NAM__CUCKOO_BUCKETS_PER_CHUNK >= cuckoo->chunks) {
		if (!chunks_free(p))
			return false;
		cuckoo->chunks++;
	}
	/* First, as the graph knows no bucket from nam__cuckoo_end() on. */
	cuckoo->shape.split++;
	for (uint32_t table = 0; table < 2; table++)
		bucket_split(p, table, index, fresh);
	if (cuckoo->shape.split == cuckoo->shape.base << cuckoo->shape.level) {
		cuckoo->shape.level++;
		cuckoo->shape.split = 0;
	}
	return true;
}

static bool
tables_grow(struct nam__kv_partition *p)
{
	uint32_t grown = 0;

	while (grown < SPLITS_PER_STEP && tables_grow_by_one(p))
		grown++;
	return grown > 0;
}

/* ---- a place for a new pair ---------------------------------------------------------------- */

static void
kicks_count(struct nam__kv_partition *p, uint32_t kicks)
{
	uint32_t at = kicks ? 32 - (uint32_t)__builtin_clz(kicks) : 0;
	uint32_t last = sizeof(p->counts.kicked) / sizeof(p->counts.kicked[0]) - 1;

	p->counts.kicked[at < last ? at : last]++;
}

/* A free slot of one of its buckets, if need be after kick-outs; or NAM__CUCKOO_NONE. */
static uint32_t
place_in_tables(struct nam__kv_partition *p, const uint32_t buckets[2],
	enum nam__cuckoo_search search, uint32_t *ret_kicks)
{
	*ret_kicks = 0;
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t at = nam__cuckoo_free_slot(p, buckets[i]);

		if (at != NAM__CUCKOO_NONE)
			return at;
	}
	return nam__cuckoo_make_room(p, buckets, search, ret_kicks);
}

/*
 * A store has room for pairs in 39 of 40 slots.  Two choices of four slots allow 0.977 of full
 * buckets.  Near that, a search for the next free slot would look at most of a partition.
 */
static inline bool
tables_full(const struct nam__kv_partition *p)
{
	uint64_t slots = 2ull * nam__cuckoo_table_size(&p->cuckoo.shape) * NAM__CUCKOO_SLOTS;

	return p->counts.keys * 40 >= slots * 39;
}

/* Near first, then growth, for it costs less than a long search. */
static uint32_t
place_or_grow(struct nam__kv_partition *p, uint32_t hash, uint32_t buckets[2], uint32_t *ret_kicks)
{
	for (;;) {
		uint32_t at;

		nam__cuckoo_buckets_of(&p->cuckoo.shape, hash, buckets);
		at = place_in_tables(p, buckets, NAM__CUCKOO_NEARER, ret_kicks);
		if (at != NAM__CUCKOO_NONE)
			return at;
		if (tables_grow(p))
			continue;
		return tables_full(p) ? NAM__CUCKOO_NONE :
			place_in_tables(p, buckets, NAM__CUCKOO_NEAR, ret_kicks);
	}
}

/* A slot of the stash, or NAM__CUCKOO_NONE. */
static uint32_t
place_in_stash(struct nam__kv_partition *p, uint32_t hash)
{
	for (uint32_t i = 0; i < NAM__CUCKOO_STASH_BUCKETS; i++) {
		uint32_t at = nam__cuckoo_free_slot(p, i);

		if (at != NAM__CUCKOO_NONE) {
			spilled_add(p, hash, 1);
			return at;
		}
	}
	return NAM__CUCKOO_NONE;
}

/* The slot of a pair in its buckets that was not read lately. */
static uint32_t
evict_for(struct nam__kv_partition *p, const uint32_t buckets[2])
{
	uint32_t at = NAM__CUCKOO_NONE;

	/* A second round finds a pair, for the first one clears the marks of reads. */
	for (uint32_t i = 0; i < 4 * NAM__CUCKOO_SLOTS; i++, p->cuckoo.hand++) {
		struct nam__cuckoo_slot *slot;

		at = buckets[p->cuckoo.hand / NAM__CUCKOO_SLOTS % 2] * NAM__CUCKOO_SLOTS +
		     p->cuckoo.hand % NAM__CUCKOO_SLOTS;
		slot = nam__cuckoo_slot_at(p, at);
		if (!(slot->lengths & NAM__CUCKOO_USED))
			break;
		slot->lengths &= ~NAM__CUCKOO_USED;
	}
	pair_remove(p, at);
	p->counts.evictions++;
	return at;
}

/* A slot for a new pair, in the tables or in the stash; NAM__CUCKOO_NONE: refuse it. */
static uint32_t
place(struct nam__kv_partition *p, uint32_t hash)
{
	uint32_t buckets[2], kicks, at = place_or_grow(p, hash, buckets, &kicks);

	if (at == NAM__CUCKOO_NONE && p->evicts) {
		at = evict_for(p, buckets);
	} else if (at == NAM__CUCKOO_NONE) {
		at = place_in_stash(p, hash);
		if (at != NAM__CUCKOO_NONE)
			return at;
		/* A store refuses only an insert that would loop. */
		if (!tables_full(p))
			at = place_in_tables(p, buckets, NAM__CUCKOO_ALL, &kicks);
		if (at == NAM__CUCKOO_NONE) {
			p->counts.loops++;
			return at;
		}
	}
	nam__cuckoo_edge_add(p, buckets);
	kicks_count(p, kicks);
	return at;
}

/* A pair of the stash goes to the tables, if one has room by now. */
static void
unstash(struct nam__kv_partition *p)
{
	uint32_t at = p->cuckoo.stash_hand++ % STASH_SLOTS, kicks, buckets[2], to;
	struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, at));

	if (!slot.lengths)
		return;
	nam__cuckoo_buckets_of(&p->cuckoo.shape, slot.hash, buckets);
	to = place_in_tables(p, buckets, NAM__CUCKOO_NEARER, &kicks);
	if (to == NAM__CUCKOO_NONE)
		return;
	nam__cuckoo_edge_add(p, buckets);
	nam__cuckoo_kick(p, at, to);
	spilled_add(p, slot.hash, -1);
}

/* ---- cells for a pair ---------------------------------------------------------------------- */

/* The position of the pair that has this cell, or NAM__CUCKOO_NONE. */
static uint32_t
owner_of(const struct nam__kv_partition *p, uint32_t cell, bool *ret_first)
{
	uint32_t owner = __atomic_load_n(&nam__cuckoo_cell_at(p, cell)->owner, __ATOMIC_RELAXED);
	uint32_t end = nam__cuckoo_end(p);

	*ret_first = owner != NAM__KV_CELL_NONE && owner & NAM__CUCKOO_FIRST;
	if (owner == NAM__KV_CELL_NONE || (!*ret_first && owner >= p->cells.carved))
		return NAM__CUCKOO_NONE;
	if (!*ret_first)
		owner = __atomic_load_n(&nam__cuckoo_cell_at(p, owner)->owner, __ATOMIC_RELAXED);
	owner &= ~NAM__CUCKOO_FIRST;
	return owner < end * NAM__CUCKOO_SLOTS && nam__cuckoo_slot_at(p, owner)->lengths ? owner :
		NAM__CUCKOO_NONE;
}

/*
 * Remove a pair that has cells and was not read since the hand last passed.  False: there is none,
 * so the books have been damaged.
 *
 * @looks	at cells, which are left before the next pair goes in any case
 */
static bool
evict_for_cells(struct nam__kv_partition *p, uint32_t *looks)
{
	for (uint32_t left = *looks + p->cells.carved; left; left--, *looks -= *looks > 0) {
		struct nam__cuckoo_slot *slot;
		uint32_t position;
		bool first;

		p->cuckoo.cell_hand = p->cuckoo.cell_hand + 1 < p->cells.carved ?
			p->cuckoo.cell_hand + 1 : 0;
		position = owner_of(p, p->cuckoo.cell_hand, &first);
		if (position == NAM__CUCKOO_NONE || (*looks && !first))
			continue;
		slot = nam__cuckoo_slot_at(p, position);
		if (*looks && slot->lengths & NAM__CUCKOO_USED) {
			slot->lengths &= ~NAM__CUCKOO_USED;
			continue;
		}
		pair_remove(p, position);
		p->counts.evictions++;
		return true;
	}
	return false;
}

/* Chunks that neither tables nor cells have yet become cells. */
static void
cells_grow(struct nam__kv_partition *p, uint32_t need)
{
	while (p->cells.free_count < need && chunks_free(p)) {
		p->cells.count += NAM__KV_CELLS_PER_CHUNK;
		p->cells.free_count += NAM__KV_CELLS_PER_CHUNK;
	}
}

/* ---- the engine ---------------------------------------------------------------------------- */

static void
init(struct nam__kv_partition *p)
{
	uint32_t chunks = p->chunks_count - 1, most, level, end;

	/* After so many doublings the tables have all chunks but one. */
	most = (chunks * NAM__CUCKOO_BUCKETS_PER_CHUNK - NAM__CUCKOO_STASH_BUCKETS) / 2;
	level = 31 - (uint32_t)__builtin_clz(most);
	level = level > BASE_BITS ? level - BASE_BITS : 0;
	p->cuckoo = (struct nam__kv_cuckoo){ .shape.base = most >> level, .generation = 1 };
	end = nam__cuckoo_end(p);
	p->cuckoo.chunks = (end - 1) / NAM__CUCKOO_BUCKETS_PER_CHUNK + 1;
	for (uint32_t i = 0; i < end; i++)
		bucket_init(p, i);
	nam__kv_cells_init(&p->cells, p->chunks + chunks, -1, NAM__KV_CELLS_PER_CHUNK);
}

static void
image(const struct nam__kv_partition *p, struct nam_rpc_kv_image *ret)
{
	const struct nam__kv_cuckoo *cuckoo = &p->cuckoo;

	ret->hand = cuckoo->hand;
	ret->base = cuckoo->shape.base;
	ret->level = cuckoo->shape.level;
	ret->split = cuckoo->shape.split;
	ret->chunks = cuckoo->chunks;
	ret->stash_count = cuckoo->stash_count;
	ret->stash_hand = cuckoo->stash_hand;
	ret->cell_hand = cuckoo->cell_hand;
	ret->generation = cuckoo->generation;
	ret->any_closed = cuckoo->any_closed;
}

/* Tables and cells have chunks of their own. */
static bool
shape_ok(const struct nam__kv_partition *p, const struct nam_rpc_kv_image *from)
{
	uint64_t size = (uint64_t)from->base << (from->level & 31), buckets;

	buckets = NAM__CUCKOO_STASH_BUCKETS + 2 * (size + from->split);
	return from->base == p->cuckoo.shape.base && from->level < 32 && size <= UINT32_MAX / 8 &&
		from->split < size && from->chunks < p->chunks_count &&
		buckets <= (uint64_t)from->chunks * NAM__CUCKOO_BUCKETS_PER_CHUNK &&
		from->cells && from->cells % NAM__KV_CELLS_PER_CHUNK == 0 &&
		from->cells / NAM__KV_CELLS_PER_CHUNK <= p->chunks_count - from->chunks;
}

static bool
take(struct nam__kv_partition *p, const struct nam_rpc_kv_image *from)
{
	if (!shape_ok(p, from) || from->stash_count > STASH_SLOTS ||
		(from->cell_hand && from->cell_hand >= from->carved) || !from->generation ||
		from->generation >= NAM__CUCKOO_VISITED || from->any_closed > 1)
		return false;
	p->cuckoo = (struct nam__kv_cuckoo){
		.shape = { from->base, from->level, from->split },
		.chunks = from->chunks,
		.stash_count = from->stash_count,
		.stash_hand = from->stash_hand,
		.hand = from->hand,
		.cell_hand = from->cell_hand,
		.generation = (uint8_t)from->generation,
		.any_closed = from->any_closed,
	};
	return true;
}

/* K8.  0 or -NAM_E_REMOTE_CORRUPT.  Looks at each byte once, for clients may write there. */
static int
value_read(const struct nam__kv_partition *p, uint32_t at, const struct nam__cuckoo_slot *slot,
	const void *key, uint32_t key_bytes, void *value)
{
	uint32_t bytes = nam__cuckoo_value_bytes(slot), checksum;
	uint8_t pair[NAM__CUCKOO_DATA_BYTES];
	struct nam__kv_stream stream;

	if (nam__cuckoo_key_bytes(slot) != key_bytes || !pair_open(p, at, slot, &stream))
		return -NAM_E_REMOTE_CORRUPT;
	if (nam__cuckoo_cells(slot)) {
		nam__kv_stream_read(&stream, NULL, key_bytes);
		nam__kv_stream_read(&stream, value, bytes);
		checksum = nam__cuckoo_checksum_long(p->store, key, key_bytes, value, bytes);
	} else {
		memcpy(pair, nam__cuckoo_data_at(p, at), sizeof(pair));
		checksum = nam__cuckoo_checksum_in_line(p->store, pair, key_bytes, bytes);
		if (bytes)
			memcpy(value, pair + key_bytes, bytes);
	}
	return checksum == slot->checksum || !NAM_GUARD(KV_CHECKSUM) ? 0 : -NAM_E_REMOTE_CORRUPT;
}

static int
get(struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes, void *value,
	uint32_t room, uint32_t *ret_bytes)
{
	uint32_t at = find(p, hash, key, key_bytes);
	struct nam__cuckoo_slot slot;
	int rc;

	if (at == NAM__CUCKOO_NONE)
		return -NAM_E_NOTFOUND;
	slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, at));
	*ret_bytes = nam__cuckoo_value_bytes(&slot);
	if (*ret_bytes > NAM_RPC_KV_VALUE_BYTES_MAX)
		return -NAM_E_REMOTE_CORRUPT;
	if (*ret_bytes > room)
		return -NAM_E_LIMIT;
	rc = value_read(p, at, &slot, key, key_bytes, value);
	if (rc)
		return rc;
	/* A store only if it changes the slot: other processors share the cache line. */
	if (!(slot.lengths & NAM__CUCKOO_USED))
		nam__cuckoo_slot_at(p, at)->lengths = slot.lengths | NAM__CUCKOO_USED;
	return 0;
}

/* A new value for the key there: appended, and the old one's cells go last, if both fit. */
static void
replace(struct nam__kv_partition *p, uint32_t at, uint32_t hash, const void *key,
	uint32_t key_bytes, const void *value, uint32_t value_bytes)
{
	struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, at));
	uint32_t have = nam__cuckoo_cells(&slot);
	uint32_t old = have ? nam__cuckoo_first_cell(p, at) : NAM__KV_CELL_NONE;
	uint32_t version = (slot.lengths + NAM__CUCKOO_VERSION) & NAM__CUCKOO_VERSION_MASK;
	bool together = p->cells.free_count >= nam__cuckoo_cells_for(key_bytes + value_bytes);

	if (!together)
		cells_give(p, old, have);
	p->counts.bytes -= key_bytes + nam__cuckoo_value_bytes(&slot);
	pair_write(p, at, hash, key, key_bytes, value, value_bytes,
		(slot.lengths & NAM__CUCKOO_USED) | version);
	if (together)
		cells_give(p, old, have);
}

static int
put(struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes,
	const void *value, uint32_t value_bytes)
{
	uint32_t need = nam__cuckoo_cells_for(key_bytes + value_bytes), have, at;
	uint32_t looks = CLOCK_LOOKS_MAX + LOOKS_PER_CELL * need;

	/* Each evicted pair has had a cell, unless clients have damaged it or its owner. */
	for (uint32_t evicted = 0;; evicted++) {
		struct nam__cuckoo_slot slot = { 0 };

		at = find(p, hash, key, key_bytes);
		if (at != NAM__CUCKOO_NONE)
			slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, at));
		have = nam__cuckoo_cells(&slot);
		/* A pair that is refused takes no chunks from the tables. */
		if (need > chunks_free(p) * NAM__KV_CELLS_PER_CHUNK +
				(p->evicts ? p->cells.count : p->cells.free_count + have))
			return -NAM_E_REMOTE_FULL;
		cells_grow(p, need);
		if (p->cells.free_count + have >= need)
			break;
		if (evicted == need || !evict_for_cells(p, &looks))
			return -NAM_E_REMOTE_CORRUPT;
	}
	if (at != NAM__CUCKOO_NONE) {
		replace(p, at, hash, key, key_bytes, value, value_bytes);
		return 0;
	}
	at = place(p, hash);
	if (at == NAM__CUCKOO_NONE)
		return -NAM_E_REMOTE_FULL;
	p->counts.keys++;
	pair_write(p, at, hash, key, key_bytes, value, value_bytes, 0);
	return 0;
}

static int
remove_key(struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes)
{
	uint32_t at = find(p, hash, key, key_bytes);

	if (at == NAM__CUCKOO_NONE)
		return -NAM_E_NOTFOUND;
	pair_remove(p, at);
	if (p->cuckoo.stash_count)
		unstash(p);
	return 0;
}

static void
count(const struct nam__kv_partition *p, struct nam_rpc_kv_counts *sum)
{
	sum->used_bytes += p->counts.keys * (NAM__CUCKOO_BUCKET_BYTES / NAM__CUCKOO_SLOTS) +
		(uint64_t)nam__kv_cells_used(&p->cells) * NAM__KV_CELL_BYTES;
	sum->room_bytes += (uint64_t)p->chunks_count * NAM__KV_CHUNK_BYTES;
	sum->slots += 2ull * nam__cuckoo_table_size(&p->cuckoo.shape) * NAM__CUCKOO_SLOTS;
	sum->stashed += p->cuckoo.stash_count;
}

/* ---- for tests ----------------------------------------------------------------------------- */

struct audit {
	uint64_t keys, bytes, cells, free_cells;
	uint32_t stashed;
	uint32_t *free_slots;		/* by root: what its count must be */
	const char *fault;
};

static void
audit_pair(const struct nam__kv_partition *p, uint32_t position, struct audit *audit)
{
	const struct nam__cuckoo_slot *slot = nam__cuckoo_slot_at(p, position);
	uint32_t bucket = position / NAM__CUCKOO_SLOTS, buckets[2];
	uint32_t cells = nam__cuckoo_cells(slot), at;

	nam__cuckoo_buckets_of(&p->cuckoo.shape, slot->hash, buckets);
	if (!in_stash(position) && bucket != buckets[0] && bucket != buckets[1])
		audit->fault = "a pair is in a bucket that is not its own";
	if (!in_stash(position) && nam__cuckoo_root(p, buckets[0]) !=
			nam__cuckoo_root(p, buckets[1]))
		audit->fault = "the buckets of a pair are in two subgraphs";
	if (in_stash(position) && !nam__cuckoo_bucket_at(p, buckets[0])->vertex.spilled)
		audit->fault = "no bucket leads to a pair of the stash";
	at = cells ? nam__cuckoo_first_cell(p, position) : NAM__KV_CELL_NONE;
	if (cells && nam__cuckoo_cell_at(p, at)->owner != (NAM__CUCKOO_FIRST | position))
		audit->fault = "a cell has another owner";
	for (uint32_t i = 0; i < cells && at != NAM__KV_CELL_NONE; i++)
		at = nam__cuckoo_cell_at(p, at)->next;
	if (at != NAM__KV_CELL_NONE)
		audit->fault = "a pair has more cells than it needs";
	audit->keys++;
	audit->bytes += nam__cuckoo_key_bytes(slot) + nam__cuckoo_value_bytes(slot);
	audit->cells += cells;
	audit->stashed += in_stash(position);
}

static void
audit_all(const struct nam__kv_partition *p, struct audit *audit)
{
	uint32_t end = nam__cuckoo_end(p);

	for (uint32_t bucket = 0; bucket < end; bucket++)
		for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++) {
			uint32_t position = bucket * NAM__CUCKOO_SLOTS + i;

			if (nam__cuckoo_slot_at(p, position)->lengths)
				audit_pair(p, position, audit);
			else if (!in_stash(position))
				audit->free_slots[nam__cuckoo_root(p, bucket)]++;
		}
	for (uint32_t bucket = NAM__CUCKOO_STASH_BUCKETS; bucket < end; bucket++) {
		uint32_t up = nam__cuckoo_bucket_at(p, bucket)->vertex.up;

		if (up & NAM__CUCKOO_ROOT &&
			(up & NAM__CUCKOO_FREE_MASK) != audit->free_slots[bucket])
			audit->fault = "a subgraph has another number of free slots";
	}
	for (uint32_t at = p->cells.free_first; at != NAM__KV_CELL_NONE &&
		audit->free_cells <= p->cells.count; at = nam__cuckoo_cell_at(p, at)->next)
		audit->free_cells += nam__cuckoo_cell_at(p, at)->owner == NAM__KV_CELL_NONE;
	audit->free_cells += p->cells.count - p->cells.carved;
	if (audit->keys != p->counts.keys || audit->bytes != p->counts.bytes ||
		audit->stashed != p->cuckoo.stash_count)
		audit->fault = "the books say another number of pairs or bytes";
	if (audit->free_cells != p->cells.free_count ||
		audit->cells + audit->free_cells != p->cells.count)
		audit->fault = "the books say another number of cells";
}

static bool
sound(const struct nam__kv_partition *p, struct nam_diag *diag)
{
	uint32_t end = nam__cuckoo_end(p);
	struct audit audit = { .free_slots = calloc(end, sizeof(uint32_t)) };

	if (!audit.free_slots)
		audit.fault = "no memory to find out";
	else
		audit_all(p, &audit);
	free(audit.free_slots);
	if (!audit.fault)
		return true;
	(void)nam_diag_set(diag, -NAM_E_REMOTE_CORRUPT, "%s: %llu pairs, %llu cells, %llu free",
		audit.fault, (unsigned long long)audit.keys, (unsigned long long)audit.cells,
		(unsigned long long)audit.free_cells);
	return false;
}

const struct nam__kv_engine nam__kv_cuckoo_engine = {
	.init = init,
	.get = get,
	.put = put,
	.remove = remove_key,
	.count = count,
	.image = image,
	.take = take,
	.sound = sound,
};
