/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bucket.h -- a bucket of the engine cuckoo, and which buckets a key has.  Memory servers change
 * them, and clients may READ them.
 *
 * A bucket has four slots and lies in 256 bytes.  A cache line of heads comes first, then 48 bytes
 * of key and value for each slot.  A longer pair has 44 bytes there, and the rest in cells.
 *
 *	heads	4 x { checksum, hash, lengths }, and the bucket's vertex
 *	data	4 x 48 bytes
 *
 * A key has one bucket in each of two tables.  Buckets 0 and 1 are the stash; others alternate
 * between the tables.
 */
#ifndef NAM_KV_SERVER_BUCKET_H
#define NAM_KV_SERVER_BUCKET_H

#include <stddef.h>
#include <stdint.h>

#include "common/guard.h"
#include "common/hash/inline.h"

#define NAM__CUCKOO_SLOTS 4u
#define NAM__CUCKOO_DATA_BYTES 48u
#define NAM__CUCKOO_BUCKET_BYTES 256u
#define NAM__CUCKOO_BUCKETS_PER_CHUNK 128u
#define NAM__CUCKOO_STASH_BUCKETS 2u

/* Fields of nam__cuckoo_slot.lengths; 0: the slot is free. */
#define NAM__CUCKOO_KEY_MASK 0xffu
#define NAM__CUCKOO_VALUE_SHIFT 8
#define NAM__CUCKOO_VALUE_MASK 0x1fffffu
#define NAM__CUCKOO_USED (1u << 31)	/* read since an eviction looked */

struct nam__cuckoo_slot {
	uint32_t checksum;		/* of key, value and their lengths */
	uint32_t hash;
	uint32_t lengths;
};

#define NAM__CUCKOO_TAG 0xb0c4u

struct nam__cuckoo_vertex {
	uint32_t up;			/* towards the root of the subgraph (union-find) */
	uint32_t from, next;		/* of a search: position that leads here; the queue */
	uint8_t mark;
	uint8_t spilled;		/* pairs of the stash whose bucket of table 0 is this */
	uint16_t tag;			/* NAM__CUCKOO_TAG: of a bucket, not of a cell */
};

struct nam__cuckoo_bucket {
	struct nam__cuckoo_slot slots[NAM__CUCKOO_SLOTS];
	struct nam__cuckoo_vertex vertex;
	uint8_t data[NAM__CUCKOO_SLOTS][NAM__CUCKOO_DATA_BYTES];
};
_Static_assert(sizeof(struct nam__cuckoo_bucket) == NAM__CUCKOO_BUCKET_BYTES, "layout");
_Static_assert(offsetof(struct nam__cuckoo_bucket, data) == 64, "heads are a cache line");

/*
 * How large the tables are: each has 2 << `level` buckets, and a part of as many more.  Buckets
 * come one by one, and to each table by turns.
 *
 * A table has 1 << `level` groups of buckets.  Before the tables are doubled, each group of two
 * gets a third bucket, and then each one a fourth.  So a bucket has at most 1.6 times as many pairs
 * as another.  If each bucket was divided in two, it would have twice as many.
 */
struct nam__cuckoo_shape {
	uint32_t level;			/* from NAM__CUCKOO_LEVEL_MIN */
	uint32_t split;			/* buckets of both tables that have come since */
};

#define NAM__CUCKOO_LEVEL_MIN 4u

/* Buckets of both tables. */
static inline uint32_t
nam__cuckoo_buckets(const struct nam__cuckoo_shape *shape)
{
	return (4u << shape->level) + shape->split;
}

static inline uint32_t
nam__cuckoo_bucket_number(uint32_t table, uint32_t index)
{
	return NAM__CUCKOO_STASH_BUCKETS + 2 * index + table;
}

/* The tables are in so many chunks, the first ones; cells may have a part of the last. */
static inline uint32_t
nam__cuckoo_chunks(const struct nam__cuckoo_shape *shape)
{
	return (NAM__CUCKOO_STASH_BUCKETS + nam__cuckoo_buckets(shape) - 1) /
		NAM__CUCKOO_BUCKETS_PER_CHUNK + 1;
}

/* A hash of its own for each table. */
static inline uint32_t
nam__cuckoo_table_hash(uint32_t hash, uint32_t table)
{
	return table ? (uint32_t)(hash * 0x9e3779b97f4a7c15ull >> 32) : hash;
}

/*
 * The bucket of a hash in a table.  All others of its group differ in the two highest bits.
 *
 * In a group of two, bit `level` of the hash chooses.  In one of four, bit `level + 1` says whether
 * it is one of the new ones.  If so, a bit of `more` says which, and else the bit of before.  While
 * the fourth is not there, half of its pairs have the third, and the others one of the two.
 */
static inline uint32_t
nam__cuckoo_index(const struct nam__cuckoo_shape *shape, uint32_t hash, uint32_t table)
{
	uint32_t groups = 1u << shape->level, split = (shape->split + 1 - table) / 2;
	uint32_t more = (uint32_t)(hash * 0xd6e8feb86659fd93ull >> 32);
	uint32_t low = hash ^ ((hash ^ more) & hash >> 1), group = low & (groups - 1);
	uint32_t of_four = (low & (2 * groups - 1)) | (hash & 2 * groups);
	/* Masks: whether these are true is random, so branches would be mispredicted. */
	uint32_t absent = (uint32_t)((int32_t)(2 * groups + split - 1 - of_four) >> 31);
	uint32_t third = (uint32_t)((int32_t)(more & (group - split)) >> 31);
	uint32_t of_fewer = group | (hash & (groups + (groups & third)));

	return of_four ^ ((of_four ^ of_fewer) & absent);
}

static inline void
nam__cuckoo_buckets_of(const struct nam__cuckoo_shape *shape, uint32_t hash,
	uint32_t ret_buckets[2])
{
	ret_buckets[0] = nam__cuckoo_bucket_number(0, nam__cuckoo_index(shape, hash, 0));
	ret_buckets[1] = nam__cuckoo_bucket_number(1, nam__cuckoo_index(shape,
		nam__cuckoo_table_hash(hash, 1), 1));
}

/* The other bucket of a pair in this one. */
static inline uint32_t
nam__cuckoo_other(const struct nam__cuckoo_shape *shape, uint32_t bucket, uint32_t hash)
{
	uint32_t table = (bucket - NAM__CUCKOO_STASH_BUCKETS) % 2 ? 0 : 1;

	return nam__cuckoo_bucket_number(table,
		nam__cuckoo_index(shape, nam__cuckoo_table_hash(hash, table), table));
}

static inline uint32_t
nam__cuckoo_key_bytes(const struct nam__cuckoo_slot *slot)
{
	return slot->lengths & NAM__CUCKOO_KEY_MASK;
}

static inline uint32_t
nam__cuckoo_value_bytes(const struct nam__cuckoo_slot *slot)
{
	return slot->lengths >> NAM__CUCKOO_VALUE_SHIFT & NAM__CUCKOO_VALUE_MASK;
}

/* K12: another store's pair has another one, so memory that has changed hands fits no key. */
static inline uint32_t
nam__cuckoo_checksum_mix(uint64_t store, uint64_t hash, uint32_t key_bytes, uint32_t value_bytes)
{
	uint64_t lengths = (uint64_t)value_bytes << NAM__CUCKOO_VALUE_SHIFT | key_bytes;

	if (NAM_GUARD(KV_STORE))
		hash ^= store;
	return (uint32_t)nam_mix64(hash + lengths * 0x9e3779b97f4a7c15ull);
}

/* @pair	key and value, one behind the other: at most 48 bytes */
static inline uint32_t
nam__cuckoo_checksum_in_line(uint64_t store, const void *pair, uint32_t key_bytes,
	uint32_t value_bytes)
{
	uint64_t hash = nam_hash64_inline(pair, key_bytes + value_bytes, NAM__CUCKOO_DATA_BYTES);

	return nam__cuckoo_checksum_mix(store, hash, key_bytes, value_bytes);
}

/* The checksum of a pair that does not fit into its slot. */
static inline uint32_t
nam__cuckoo_checksum_long(uint64_t store, const void *key, uint32_t key_bytes, const void *value,
	uint32_t value_bytes)
{
	return nam__cuckoo_checksum_mix(store, nam_hash64(key, key_bytes) ^
		nam_mix64(nam_hash64(value, value_bytes)), key_bytes, value_bytes);
}

#endif /* NAM_KV_SERVER_BUCKET_H */
