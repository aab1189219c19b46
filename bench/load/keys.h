/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.h -- which pairs exist, so that every answer can be checked without remembering any (B1).
 *
 * Integers, big-endian in the last 8 bytes of a key.  Longer keys begin with "user000...", as
 * YCSB's do, so that comparisons have to go to the end.  Three kinds of pairs:
 *
 *	loaded	  pair i of 0 .. pairs - 1.  Its key is a multiple of the stride, so loaded keys are
 *		  spread evenly, are sorted like their numbers, and leave gaps
 *	inserted  the number of an inserted pair goes through a permutation to a gap.  A few low
 *		  bits of the key are not zero and tell the process (its client id) and the round
 *	victim	  every fourth loaded pair, if the workload deletes.  Nothing but a delete uses it,
 *		  and one fiber may delete it, in an order that a permutation gives
 *
 * So deletes never take what lookups and scans must find (B2).  In a non-unique index 2^dup_shift
 * successive pairs share a key.  A payload is 16 bits and 48 bits:
 *
 *	unique index		version (0, or what an update wrote) | hash of the key
 *	non-unique index	ordinal among the key's pairs	     | hash of the key
 */
#ifndef NAM_BENCH_LOAD_KEYS_H
#define NAM_BENCH_LOAD_KEYS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "index/index.h"
#include "distribution.h"

#define KEYS_HASH_BITS 48u
#define KEYS_HASH_MASK ((1ull << KEYS_HASH_BITS) - 1)
#define KEYS_VICTIMS_EVERY 4u
#define KEYS_DUP_SHIFT_MAX 12u

struct keys {
	uint64_t pairs;			/* loaded */
	uint64_t bases;			/* loaded keys */
	uint64_t victims_count;		/* 0: there are no victims */
	unsigned dup_shift;
	unsigned stride_shift;
	uint32_t key_bytes;
	uint16_t writer;		/* this process */
	bool versions;			/* updates happen: the upper 16 bits may be anything */
	uint8_t prefix[NAM_KEY_BYTES_MAX];	/* of every key */
	struct permutation gaps;	/* of bases */
	struct permutation order;	/* of victims */
};

/*
 * Lay out the key space.  0, or -EINVAL if so many keys leave no gaps.
 *
 * @writer	this process's client id, below 4,096
 */
int keys_init(struct keys *keys, uint64_t pairs, unsigned dup_shift, uint32_t key_bytes,
	uint16_t writer, bool victims, uint64_t seed) NAM_MUST_CHECK;

/* ---- integers and pairs ------------------------------------------------------------------- */

static inline uint64_t
keys_loaded(const struct keys *keys, uint64_t pair)
{
	return (pair >> keys->dup_shift) << keys->stride_shift;
}

#define KEYS_HASH_FACTOR 0x9e3779b97f4a7c15ull
#define KEYS_HASH_SALT 0x5a5a5a5a00000000ull

static inline uint64_t
keys_hash(uint64_t key)
{
	return (key * KEYS_HASH_FACTOR ^ KEYS_HASH_SALT) >> (64 - KEYS_HASH_BITS);
}

static inline uint64_t
keys_payload(uint64_t key, uint64_t version_or_ordinal)
{
	return version_or_ordinal << KEYS_HASH_BITS | keys_hash(key);
}

static inline uint64_t
keys_loaded_payload(const struct keys *keys, uint64_t pair)
{
	return keys_payload(keys_loaded(keys, pair), pair & ((1ull << keys->dup_shift) - 1));
}

static inline bool
keys_is_victim(const struct keys *keys, uint64_t pair)
{
	return keys->victims_count && pair % KEYS_VICTIMS_EVERY == KEYS_VICTIMS_EVERY - 1;
}

/* Victims among the loaded pairs 0 .. pair - 1. */
static inline uint64_t
keys_victims_below(const struct keys *keys, uint64_t pair)
{
	return keys->victims_count ? pair / KEYS_VICTIMS_EVERY : 0;
}

/* The loaded pair that a lookup uses instead of a victim. */
static inline uint64_t
keys_lasting(const struct keys *keys, uint64_t pair)
{
	return pair - (keys_is_victim(keys, pair) && pair > 0);
}

static inline uint64_t
keys_victim(const struct keys *keys, uint64_t number)
{
	return permutation_apply(&keys->order, number) * KEYS_VICTIMS_EVERY +
	       KEYS_VICTIMS_EVERY - 1;
}

/* In which place of the deletes' order a victim is. */
static inline uint64_t
keys_victim_number(const struct keys *keys, uint64_t pair)
{
	return permutation_invert(&keys->order, pair / KEYS_VICTIMS_EVERY);
}

/* The key and the payload of inserted pair number `number`, dense per process (B3). */
static inline uint64_t
keys_inserted(const struct keys *keys, uint64_t number, uint64_t *ret_payload)
{
	uint64_t q = number >> keys->dup_shift;
	uint64_t base = permutation_apply(&keys->gaps, q % keys->bases);
	uint64_t round = q / keys->bases;
	uint64_t key = base << keys->stride_shift | round << 13 | (uint64_t)keys->writer << 1 | 1;

	*ret_payload = keys_payload(key, number & ((1ull << keys->dup_shift) - 1));
	return key;
}

/* Whether a key was inserted, and not a loaded one. */
static inline bool
keys_is_inserted(const struct keys *keys, uint64_t key)
{
	return key & ((1ull << keys->stride_shift) - 1);
}

static inline uint16_t
keys_inserted_writer(uint64_t key)
{
	return key >> 1 & 0xfff;
}

/* The reverse of keys_inserted(), for a key of this process. */
static inline uint64_t
keys_inserted_number(const struct keys *keys, uint64_t key, uint64_t ordinal)
{
	uint64_t low = key & ((1ull << keys->stride_shift) - 1);
	uint64_t base = key >> keys->stride_shift;
	uint64_t q = (low >> 13) * keys->bases + permutation_invert(&keys->gaps, base);

	return q << keys->dup_shift | ordinal;
}

/* ---- bytes -------------------------------------------------------------------------------- */

/* Everything but the integer; once per buffer. */
static inline void
keys_prepare(const struct keys *keys, uint8_t *buffer)
{
	memcpy(buffer, keys->prefix, keys->key_bytes - 8);
}

static inline void
keys_write(const struct keys *keys, uint64_t key, uint8_t *buffer)
{
	nam_key_from_u64(key, buffer + keys->key_bytes - 8);
}

static inline uint64_t
keys_read(const struct keys *keys, const uint8_t *buffer)
{
	return nam_key_to_u64(buffer + keys->key_bytes - 8);
}

/* Whether the bytes before the integer are what they were written as. */
static inline bool
keys_prefix_right(const struct keys *keys, const uint8_t *buffer)
{
	return keys->key_bytes == 8 || !memcmp(keys->prefix, buffer, keys->key_bytes - 8);
}

#endif /* NAM_BENCH_LOAD_KEYS_H */
