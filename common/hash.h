/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h -- XXH3-64, the vetted hash that node images carry (PROTOCOLS: a home-made one accepts
 * torn images, and 32 bits are too few).  The widest vector unit is chosen at run time.
 */
#ifndef NAM_COMMON_HASH_H
#define NAM_COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t nam_hash64(const void *data, size_t bytes);

/* A bijective mix of one word (the finaliser of MurmurHash3); for tables and for combining. */
static inline uint64_t
nam_mix64(uint64_t x)
{
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
	return x ^ x >> 33;
}

#endif /* NAM_COMMON_HASH_H */
