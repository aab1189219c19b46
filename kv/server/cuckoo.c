/* SPDX-License-Identifier: Apache-2.0 */
/* cuckoo.c -- the engine of RHKV: pairs in two tables. */
#include "cuckoo.h"

#include <stdlib.h>
#include <string.h>

#include "common/race.h"

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

static inline __attribute__((always_inline)) bool
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

/* A bit for each slot of the two buckets that has the hash.  No branch: it is not predictable. */
static inline uint32_t
slots_of(const struct nam__cuckoo_bucket *const buckets[2], uint32_t hash)
{
	uint32_t slots = 0;

	for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++)
		slots |= (uint32_t)(buckets[0]->slots[i].hash == hash) << i |
			 (uint32_t)(buckets[1]->slots[i].hash == hash) << (i + NAM__CUCKOO_SLOTS);
	return slots;
}

/*
 * The two buckets, with all their lines under way: which of them has the pair's data is known only
 * once the heads are there.  Without the lock: false if the shape is half of an old one.
 */
NAM__KV_HINT_FN static inline __attribute__((always_inline)) bool
buckets_fetch(const struct nam__kv_partition *p, uint32_t hash, const void *ret_at[2])
{
	const struct nam__cuckoo_shape shape = p->cuckoo.shape;
	uint32_t buckets[2];

	nam__cuckoo_buckets_of(&shape, hash, buckets);
	for (uint32_t i = 0; i < 2; i++) {
		if (buckets[i] / NAM__CUCKOO_BUCKETS_PER_CHUNK >= p->chunks_count)
			return false;
		ret_at[i] = nam__cuckoo_bucket_at(p, buckets[i]);
		for (uint32_t line = 0; line < NAM__CUCKOO_BUCKET_BYTES; line += 64)
			__builtin_prefetch((const uint8_t *)ret_at[i] + line);
	}
	return true;
}

NAM__KV_HINT_FN static void
prefetch(const struct nam__kv_partition *p, uint32_t hash)
{
	const void *at[2];

	(void)buckets_fetch(p, hash, at);
}

static __attribute__((noinline)) uint32_t
find_in_stash(const struct nam__kv_partition *p, uint32_t hash, const void *key,
	uint32_t key_bytes)
{
	for (uint32_t at = 0; at < NAM__CUCKOO_STASH_BUCKETS * NAM__CUCKOO_SLOTS; at++)
		if (nam__cuckoo_slot_at(p, at)->hash == hash && key_is(p, at, key, key_bytes))
			return at;
	return NAM__CUCKOO_NONE;
}

/* The position of a key; NAM__CUCKOO_NONE: it is not there. */
static inline uint32_t
find(const struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes)
{
	const struct nam__cuckoo_bucket *at[2];
	uint32_t buckets[2], position;

	nam__cuckoo_buckets_of(&p->cuckoo.shape, hash, buckets);
	at[0] = nam__cuckoo_bucket_at(p, buckets[0]);
	at[1] = nam__cuckoo_bucket_at(p, buckets[1]);
	for (uint32_t slots = slots_of(at, hash); slots; slots &= slots - 1) {
		uint32_t slot = (uint32_t)__builtin_ctz(slots);

		position = buckets[slot / NAM__CUCKOO_SLOTS] * NAM__CUCKOO_SLOTS +
			slot % NAM__CUCKOO_SLOTS;
		if (key_is(p, position, key, key_bytes))
			return position;
	}
	return at[0]->vertex.spilled ? find_in_stash(p, hash, key, key_bytes) : NAM__CUCKOO_NONE;
}

/* ---- pairs come and go --------------------------------------------------------------------- */

/* Takes `count` cells, which are free, as a chain.  Returns the first. */
static uint32_t
cells_take(struct nam__kv_partition *p, uint32_t count, uint32_t position)
{
	uint32_t first = nam__kv_cell_take(&p->cells), last = first;
	struct nam__cuckoo_cell *cell = nam__cuckoo_cell_at(p, first);

	cell->owner = NAM__CUCKOO_FIRST | position;
	while (--count) {
		uint32_t next = nam__kv_cell_take(&p->cells);

		cell->next = next;
		cell = nam__cuckoo_cell_at(p, next);
		cell->owner = last;
		last = next;
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

/* ---- a place for a new pair ---------------------------------------------------------------- */

static inline bool
tables_full(const struct nam__kv_partition *p)
{
	return nam__cuckoo_slots(p) < nam__cuckoo_slots_for(p->counts.keys);
}

/*
 * Growth before a long search, as it costs less.  And before tables are too full: then no pair can
 * make room for the pairs of a new bucket.
 *
 * @keep	free cells
 */
static uint32_t
place_or_grow(struct nam__kv_partition *p, uint32_t hash, uint32_t keep, uint32_t buckets[2],
	uint32_t *ret_kicks)
{
	if (p->counts.keys * 15 > nam__cuckoo_slots(p) * 14ull)
		(void)nam__cuckoo_tables_grow(p, keep);
	for (;;) {
		uint32_t at;

		nam__cuckoo_buckets_of(&p->cuckoo.shape, hash, buckets);
		at = nam__cuckoo_slot_in_tables(p, buckets, NAM__CUCKOO_NEARER, ret_kicks);
		if (at != NAM__CUCKOO_NONE)
			return at;
		if (nam__cuckoo_tables_grow(p, keep))
			continue;
		return tables_full(p) ? NAM__CUCKOO_NONE :
			nam__cuckoo_slot_in_tables(p, buckets, NAM__CUCKOO_NEAR, ret_kicks);
	}
}

/*
 * A slot for a new pair, in the tables or in the stash; NAM__CUCKOO_NONE: refuse it.
 *
 * @keep	free cells, which are for this pair
 */
static uint32_t
place(struct nam__kv_partition *p, uint32_t hash, uint32_t keep)
{
	const uint32_t last = sizeof(p->counts.kicked) / sizeof(p->counts.kicked[0]) - 1;
	uint32_t buckets[2], kicks, at = place_or_grow(p, hash, keep, buckets, &kicks), class;

	if (at == NAM__CUCKOO_NONE && p->evicts) {
		at = nam__cuckoo_slot_by_eviction(p, buckets);
		nam__cuckoo_sweep_cells(p);
	} else if (at == NAM__CUCKOO_NONE) {
		at = nam__cuckoo_slot_in_stash(p, hash);
		if (at != NAM__CUCKOO_NONE)
			return at;
		/* A store refuses only an insert that would loop. */
		at = nam__cuckoo_slot_in_tables(p, buckets, NAM__CUCKOO_ALL, &kicks);
		if (at == NAM__CUCKOO_NONE) {
			p->counts.loops++;
			return at;
		}
	}
	nam__cuckoo_edge_add(p, buckets);
	class = kicks ? 32 - (uint32_t)__builtin_clz(kicks) : 0;
	p->counts.kicked[class < last ? class : last]++;
	return at;
}

/* ---- the engine ---------------------------------------------------------------------------- */

static void
init(struct nam__kv_partition *p)
{
	p->cuckoo = (struct nam__kv_cuckoo){ .shape.level = NAM__CUCKOO_LEVEL_MIN,
		.generation = 1 };
	for (uint32_t i = 0; i < nam__cuckoo_end(p); i++)
		nam__cuckoo_bucket_init(p, i);
	nam__kv_cells_init(&p->cells, p->chunks + p->chunks_count - 1, -1, 0);
}

static void
image(const struct nam__kv_partition *p, struct nam_rpc_kv_image *ret)
{
	const struct nam__kv_cuckoo *cuckoo = &p->cuckoo;

	ret->hand = cuckoo->hand;
	ret->level = cuckoo->shape.level;
	ret->split = cuckoo->shape.split;
	ret->merged = cuckoo->merged;
	ret->stash_count = cuckoo->stash_count;
	ret->stash_hand = cuckoo->stash_hand;
	ret->cell_hand = cuckoo->cell_hand;
	ret->slot_hand = cuckoo->slot_hand;
	ret->generation = cuckoo->generation;
	ret->any_closed = cuckoo->any_closed;
}

static bool
take(struct nam__kv_partition *p, const struct nam_rpc_kv_image *from)
{
	uint64_t size = 4ull << (from->level & 31);
	uint64_t end = NAM__CUCKOO_STASH_BUCKETS + size + from->split;

	if (from->level < NAM__CUCKOO_LEVEL_MIN || from->level >= 32 || size > UINT32_MAX / 4 ||
		from->split >= size || from->stash_count > NAM__CUCKOO_STASH_SLOTS ||
		(from->cell_hand && from->cell_hand >= from->carved) || !from->generation ||
		from->generation >= NAM__CUCKOO_VISITED || from->any_closed > 1)
		return false;
	/* Tables and cells have memory of their own. */
	if (from->cells % NAM__CUCKOO_BUCKET_CELLS || end + from->cells / NAM__CUCKOO_BUCKET_CELLS >
			(uint64_t)p->chunks_count * NAM__CUCKOO_BUCKETS_PER_CHUNK)
		return false;
	p->cuckoo = (struct nam__kv_cuckoo){
		.shape = { from->level, from->split },
		.merged = from->merged,
		.stash_count = from->stash_count,
		.stash_hand = from->stash_hand,
		.hand = from->hand,
		.cell_hand = from->cell_hand,
		.slot_hand = from->slot_hand,
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

	if (nam__cuckoo_key_bytes(slot) != key_bytes)
		return -NAM_E_REMOTE_CORRUPT;
	if (!nam__cuckoo_cells(slot)) {
		memcpy(pair, nam__cuckoo_data_at(p, at), sizeof(pair));
		checksum = nam__cuckoo_checksum_in_line(p->store, pair, key_bytes, bytes);
		if (bytes)
			memcpy(value, pair + key_bytes, bytes);
	} else {
		if (!pair_open(p, at, slot, &stream))
			return -NAM_E_REMOTE_CORRUPT;
		nam__kv_stream_read(&stream, NULL, key_bytes);
		nam__kv_stream_read(&stream, value, bytes);
		checksum = nam__cuckoo_checksum_long(p->store, key, key_bytes, value, bytes);
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

/* Head and data of the first slot that has the hash; no head: there is none. */
NAM__KV_HINT_FN static void
seek(struct nam__kv_sought *sought, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!buckets_fetch(sought[i].partition, sought[i].hash, sought[i].at))
			sought[i].at[0] = NULL;
	for (uint32_t i = 0; i < count; i++) {
		const struct nam__cuckoo_bucket *at[2] = { sought[i].at[0], sought[i].at[1] };
		uint32_t slots = at[0] ? slots_of(at, sought[i].hash) : 0, slot;

		sought[i].at[0] = NULL;
		if (!slots)
			continue;
		slot = (uint32_t)__builtin_ctz(slots);
		at[0] = at[slot / NAM__CUCKOO_SLOTS];
		sought[i].at[0] = &at[0]->slots[slot % NAM__CUCKOO_SLOTS];
		sought[i].at[1] = at[0]->data[slot % NAM__CUCKOO_SLOTS];
	}
}

/* Each byte is read once.  False: it is not the key's pair, or is being written (K8). */
NAM__KV_HINT_FN static inline __attribute__((always_inline)) bool
pair_take(uint64_t store, uint32_t checksum, const void *data, const void *key, uint32_t key_bytes,
	void *value, uint32_t bytes)
{
	uint8_t pair[NAM__CUCKOO_DATA_BYTES];

	__builtin_memcpy(pair, data, sizeof(pair));
	/* So that the compiler reads the copy, and not the slot, from here on. */
	__asm__ volatile("" : : "r"(pair) : "memory");
	if (memcmp(pair, key, key_bytes) != 0 || (NAM_GUARD(KV_CHECKSUM) && checksum !=
			nam__cuckoo_checksum_in_line(store, pair, key_bytes, bytes)))
		return false;
	if (bytes)
		memcpy(value, pair + key_bytes, bytes);
	return true;
}

/* K8: as a READ.  Under the lock is what it does not find, and the first read in a cache. */
NAM__KV_HINT_FN static bool
look(const struct nam__kv_sought *sought, void *value, uint32_t room, uint32_t *ret_bytes)
{
	const struct nam__kv_partition *p = sought->partition;
	uint32_t key_bytes = sought->key_bytes, bytes;
	const void *data = sought->at[1];
	struct nam__cuckoo_slot slot;

	if (!sought->at[0])
		return false;
	slot = nam__cuckoo_slot_load(sought->at[0]);
	bytes = nam__cuckoo_value_bytes(&slot);
	if (nam__cuckoo_key_bytes(&slot) != key_bytes || bytes > room ||
		key_bytes + bytes > NAM__CUCKOO_DATA_BYTES ||
		(p->evicts && !(slot.lengths & NAM__CUCKOO_USED)))
		return false;
	nam_race_point("kv.looked");
	*ret_bytes = bytes;
	/* With constant lengths nothing is called. */
	return key_bytes == 16 && bytes == 32 ?
		pair_take(p->store, slot.checksum, data, sought->key, 16, value, 32) :
		pair_take(p->store, slot.checksum, data, sought->key, key_bytes, value, bytes);
}

/* A new value for the key there: the old one's cells go last, if both fit. */
static void
replace(struct nam__kv_partition *p, uint32_t at, uint32_t hash, const void *key,
	uint32_t key_bytes, const void *value, uint32_t value_bytes)
{
	struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, at));
	uint32_t have = nam__cuckoo_cells(&slot);
	uint32_t old = have ? nam__cuckoo_first_cell(p, at) : NAM__KV_CELL_NONE;
	bool together = p->cells.free_count >= nam__cuckoo_cells_for(key_bytes + value_bytes);

	if (!together)
		nam__cuckoo_cells_give(p, old, have);
	p->counts.bytes -= key_bytes + nam__cuckoo_value_bytes(&slot);
	pair_write(p, at, hash, key, key_bytes, value, value_bytes,
		slot.lengths & NAM__CUCKOO_USED);
	if (together)
		nam__cuckoo_cells_give(p, old, have);
}

static int
put(struct nam__kv_partition *p, uint32_t hash, const void *key, uint32_t key_bytes,
	const void *value, uint32_t value_bytes)
{
	uint32_t need = nam__cuckoo_cells_for(key_bytes + value_bytes), at;
	uint32_t looks = NAM__KV_LOOKS(need);
	/* Each evicted pair has had a cell, unless clients have damaged it or its owner. */
	uint32_t evictions = need;

	for (;;) {
		struct nam__cuckoo_slot slot = { 0 };
		uint32_t have, used;
		int rc;

		at = find(p, hash, key, key_bytes);
		if (p->cells.free_count >= need)
			break;
		if (at != NAM__CUCKOO_NONE)
			slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, at));
		/* K9: at most as many as there are. */
		have = nam__cuckoo_cells(&slot);
		used = nam__kv_cells_used(&p->cells);
		have = have < used ? have : used;
		/* A pair that cannot fit takes nothing from the tables. */
		if (need > nam__cuckoo_cells_most(p) + (p->evicts ? 0 : have))
			return -NAM_E_REMOTE_FULL;
		if (p->cells.free_count + have >= need && !nam__cuckoo_buckets_free(p))
			break;
		rc = nam__cuckoo_cells_grow(p, need, &looks, &evictions);
		if (rc)
			return rc;
	}
	if (at != NAM__CUCKOO_NONE) {
		replace(p, at, hash, key, key_bytes, value, value_bytes);
		return 0;
	}
	at = place(p, hash, need);
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
	nam__cuckoo_pair_remove(p, at);
	if (p->cuckoo.stash_count)
		nam__cuckoo_unstash(p);
	return 0;
}

static void
count(const struct nam__kv_partition *p, struct nam_rpc_kv_counts *sum)
{
	sum->used_bytes += p->counts.keys * (NAM__CUCKOO_BUCKET_BYTES / NAM__CUCKOO_SLOTS) +
		(uint64_t)nam__kv_cells_used(&p->cells) * NAM__KV_CELL_BYTES;
	sum->room_bytes += (uint64_t)p->chunks_count * NAM__KV_CHUNK_BYTES;
	sum->slots += nam__cuckoo_slots(p);
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
	uint32_t cells = nam__cuckoo_cells(slot), at, owner = NAM__CUCKOO_FIRST | position;

	nam__cuckoo_buckets_of(&p->cuckoo.shape, slot->hash, buckets);
	if (!nam__cuckoo_in_stash(position) && bucket != buckets[0] && bucket != buckets[1])
		audit->fault = "a pair is in a bucket that is not its own";
	if (!nam__cuckoo_in_stash(position) && nam__cuckoo_root(p, buckets[0]) !=
			nam__cuckoo_root(p, buckets[1]))
		audit->fault = "the buckets of a pair are in two subgraphs";
	if (nam__cuckoo_in_stash(position) && !nam__cuckoo_bucket_at(p, buckets[0])->vertex.spilled)
		audit->fault = "no bucket leads to a pair of the stash";
	at = cells ? nam__cuckoo_first_cell(p, position) : NAM__KV_CELL_NONE;
	for (uint32_t i = 0; i < cells && at < p->cells.carved; i++) {
		if (nam__cuckoo_cell_at(p, at)->owner != owner)
			audit->fault = "a cell has another owner";
		owner = at;
		at = nam__cuckoo_cell_at(p, at)->next;
	}
	if (at != NAM__KV_CELL_NONE || (cells && owner & NAM__CUCKOO_FIRST))
		audit->fault = "a pair has more cells than it needs, or fewer";
	audit->keys++;
	audit->bytes += nam__cuckoo_key_bytes(slot) + nam__cuckoo_value_bytes(slot);
	audit->cells += cells;
	audit->stashed += nam__cuckoo_in_stash(position);
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
			else if (!nam__cuckoo_in_stash(position))
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
	.prefetch = prefetch,
	.seek = seek,
	.look = look,
	.put = put,
	.remove = remove_key,
	.count = count,
	.image = image,
	.take = take,
	.sound = sound,
};
