/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h -- where a key belongs: compute nodes go by it, memory servers check it.
 */
#ifndef NAM_KV_SERVER_PLACE_H
#define NAM_KV_SERVER_PLACE_H

#include <stdint.h>

#include "common/guard.h"
#include "common/hash/inline.h"

struct nam__kv_place {
	uint32_t server;		/* 0 .. servers - 1, in the order of their ids */
	uint32_t partition;		/* of that one */
	uint32_t hash;			/* what is left for the partition's table */
};

/*
 * The upper half of the hash says the partition, the lower one is the partition's own.  The hash
 * depends on the store (K12).
 */
static inline struct nam__kv_place
nam__kv_place(uint64_t store, const void *key, uint32_t key_bytes, uint32_t servers,
	uint32_t partitions)
{
	uint64_t hash = nam_hash64_inline(key, key_bytes, 16);
	uint32_t among_all;

	if (NAM_GUARD(KV_STORE))
		hash ^= store;
	hash = nam_mix64(hash);
	among_all = (uint32_t)((hash >> 32) * servers * partitions >> 32);
	return (struct nam__kv_place){
		.server = among_all / partitions,
		.partition = among_all % partitions,
		.hash = (uint32_t)hash,
	};
}

#endif /* NAM_KV_SERVER_PLACE_H */
