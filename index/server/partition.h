/* SPDX-License-Identifier: Apache-2.0 */
/*
 * partition.h -- which memory server keeps a key: compute nodes go by it, memory servers check it.
 */
#ifndef NAM_INDEX_SERVER_PARTITION_H
#define NAM_INDEX_SERVER_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/hash/hash.h"
#include "common/rpc/tree_rpc.h"
#include "index/options.h"
#include "index/node/node.h"

/* Hash and round robin: the part is a function of the key alone. */
static inline uint32_t
nam__part_of_hash(const uint64_t *key, unsigned key_words, uint32_t parts)
{
	uint64_t hash = 0;

	for (unsigned i = 0; i < key_words; i++)
		hash = nam_mix64(hash ^ key[i]);
	/* The upper bits, scaled: no division. */
	return (uint32_t)((hash >> 32) * parts >> 32);
}

/* Successive numbers go to successive parts. */
static inline uint32_t
nam__part_of_number(const uint64_t *key, unsigned key_words, uint32_t key_bytes, uint32_t parts)
{
	/* The last word is padded to the right. */
	unsigned padding = 8 * (8 * key_words - key_bytes);

	return (uint32_t)((key[key_words - 1] >> padding) % parts);
}

/* Whether a key belongs to a part.  @key is a full key of `g` or only its key words. */
static inline bool
nam__part_has(const struct nam_rpc_tree_part *part, const struct nam__geometry *g,
	const uint64_t *key)
{
	switch (part->partitioning) {
	case NAM_PARTITION_HASH:
		return nam__part_of_hash(key, g->key_words, part->parts) == part->number;
	case NAM_PARTITION_ROUND_ROBIN:	/* by value, so that point operations know it: D9 */
		return nam__part_of_number(key, g->key_words, g->key_bytes, part->parts) ==
		       part->number;
	default:
		return nam__key_compare(key, part->low, g->key_words) >= 0 &&
		       (part->number + 1 == part->parts ||
			       nam__key_compare(key, part->next, g->key_words) < 0);
	}
}

#endif /* NAM_INDEX_SERVER_PARTITION_H */
