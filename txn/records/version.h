/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version.h -- versions of records as blocks of memory (common/layout.h): made, checked, taken
 * apart.  Knows no fabric.
 */
#ifndef NAM_TXN_RECORDS_VERSION_H
#define NAM_TXN_RECORDS_VERSION_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/counters.h"
#include "common/error.h"
#include "common/gaddr.h"
#include "common/guard.h"
#include "common/hash/hash.h"
#include "common/layout.h"

#define NAM__VERSION_BYTES_MAX (2u << 20)	/* of any; the size of a buffer */

/* The key of a head in the index: the two halves of XXH3-128 of the record's key. */
struct nam__record_id {
	uint64_t word[2];
};

struct nam__record_id nam__record_id(const void *key, uint32_t key_bytes);

/* R10: in the heads of that store; never 0. */
static inline uint32_t
nam__record_tag(uint64_t store)
{
	return (uint32_t)nam_mix64(store) | 1;
}

static inline uint32_t
nam__version_length(uint32_t metadata_bytes, uint32_t key_bytes, uint32_t value_bytes)
{
	return (uint32_t)sizeof(struct nam_version) + metadata_bytes + key_bytes + value_bytes;
}

static inline uint32_t
nam__version_length_of(const struct nam_version *version)
{
	return nam__version_length(version->metadata_bytes, version->key_bytes,
		version->value_bytes);
}

/* The bytes of a READ or WRITE: its length in whole units. */
static inline uint32_t
nam__version_bytes(uint32_t length)
{
	return (length + NAM_GADDR_UNIT_BYTES - 1) / NAM_GADDR_UNIT_BYTES * NAM_GADDR_UNIT_BYTES;
}

/*
 * The stride of the block for so many bytes: 16 sizes in steps of 64, then 8 for each doubling.
 * So there are few strides, and blocks are nearly full.  None is a stride of nodes.
 */
uint32_t nam__version_stride(uint32_t bytes);

/* An address of a version says how long it is. */
static inline struct nam_gaddr
nam__version_at(struct nam_gaddr block, uint32_t bytes)
{
	return nam_gaddr_tagged(block, (uint16_t)(bytes / NAM_GADDR_UNIT_BYTES));
}

static inline uint32_t
nam__version_at_bytes(struct nam_gaddr at)
{
	return nam_gaddr_tag(at) * NAM_GADDR_UNIT_BYTES;
}

/* Whether an answer may carry so many bytes of the version at `at`, with `left` bytes of reply. */
static inline bool
nam__image_bytes_fit(uint32_t bytes, uint64_t at, uint32_t left)
{
	return !bytes || (bytes <= left && bytes == nam__version_at_bytes(NAM_GADDR(at)));
}

/* A version describes its transaction (common/layout.h): siblings, a filter, or the leader. */
static inline void *
nam__version_metadata(const struct nam_version *version)
{
	return (void *)(version + 1);
}

/* The siblings that it names; how many. */
static inline uint32_t
nam__version_siblings(const struct nam_version *version,
	const struct nam_version_sibling **ret_siblings)
{
	*ret_siblings = nam__version_metadata(version);
	return version->metadata_bytes / (uint32_t)sizeof(**ret_siblings);
}

static inline const uint8_t *
nam__version_key(const struct nam_version *version)
{
	return (const uint8_t *)(version + 1) + version->metadata_bytes;
}

static inline const uint8_t *
nam__version_value(const struct nam_version *version)
{
	return nam__version_key(version) + version->key_bytes;
}

static inline bool
nam__version_key_is(const struct nam_version *version, const void *key, uint32_t key_bytes)
{
	if (version->key_bytes != key_bytes)
		return false;
	/* Keys of a word are common, and need no call. */
	if (key_bytes == 8)
		return memcmp(nam__version_key(version), key, 8) == 0;
	return memcmp(nam__version_key(version), key, key_bytes) == 0;
}

void nam__filter_add(struct nam_version_filter *filter, uint64_t key_id);
bool nam__filter_has(const struct nam_version_filter *filter, uint64_t key_id);

/* All is filled in but `current`, which is set to the timestamp, and the hash. */
void nam__version_seal(struct nam_version *version, struct nam_gaddr at);

/* The hash that belongs into a version of that length at that address. */
uint64_t nam__version_hash(const struct nam_version *version, uint32_t length, struct nam_gaddr at);

/*
 * R1: whether the bytes READ at `at` are a whole version of the store.  `untorn`: no client wrote
 * there meanwhile, so the hash is not checked.
 */
static inline bool
nam__version_whole(const struct nam_version *version, struct nam_gaddr at, uint64_t store,
	bool untorn)
{
	uint32_t bytes = nam__version_at_bytes(at), length;

	/* Lengths first: they say how much the hash is of. */
	if (bytes < sizeof(*version) || version->value_bytes > bytes)
		return false;
	length = nam__version_length_of(version);
	if (nam__version_bytes(length) != bytes)
		return false;
	if (NAM_GUARD(VERSION_HASH) && !untorn &&
		version->hash != nam__version_hash(version, length, at))
		return false;
	return version->store == store;
}

/* The version that a reader expects. */
struct nam__version_wanted {
	struct nam_gaddr at;
	uint64_t store;
	uint64_t head;
	uint64_t timestamp;		/* 0: any will do */
	bool latest;			/* it must not have been claimed */
	bool untorn;			/* no client writes there during this operation */
};

/* Why it is not that one, by R1, R2 and R6; or NAM_RESTART_CAUSES_COUNT: it is. */
static inline enum nam_restart_cause
nam__version_mismatch(const struct nam_version *version, const struct nam__version_wanted *wanted)
{
	if (!nam__version_whole(version, wanted->at, wanted->store, wanted->untorn))
		return NAM_RESTART_TORN;
	if (NAM_GUARD(VERSION_SELF) && (version->head != wanted->head ||
		(wanted->timestamp && version->timestamp != wanted->timestamp)))
		return NAM_RESTART_DEAD;
	if (NAM_GUARD(SUPERSEDED) && wanted->latest && version->current != version->timestamp)
		return NAM_RESTART_SUPERSEDED;
	return NAM_RESTART_CAUSES_COUNT;
}

#endif /* NAM_TXN_RECORDS_VERSION_H */
