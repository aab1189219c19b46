/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h -- XXH3-64, the hash of node images.  A home-made hash accepts torn images, and 32 bits
 * are too few.
 *
 * xxhash.h is compiled in once for each vector unit, since the archive of libxxhash cannot choose
 * at run time.
 */
#ifndef NAM_COMMON_HASH_HASH_H
#define NAM_COMMON_HASH_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t nam_hash64(const void *data, size_t bytes);

typedef uint64_t (*nam_hash64_fn)(const void *data, size_t bytes);

/* The variant for a vector unit; NULL where this processor, or this build, has none. */
nam_hash64_fn nam__hash64_variant(const char *vector);

/* Only for hash.c: not every processor can run these. */
uint64_t nam__hash64_avx2(const void *data, size_t bytes);
uint64_t nam__hash64_avx512(const void *data, size_t bytes);

/* A bijective mix of one word (the finaliser of MurmurHash3); for tables and for combining. */
static inline uint64_t
nam_mix64(uint64_t x)
{
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
	return x ^ x >> 33;
}

#endif /* NAM_COMMON_HASH_HASH_H */
