/* SPDX-License-Identifier: Apache-2.0 */
/* inline.h -- all of XXH3 as static functions, for the vector unit of the file at hand. */
#ifndef NAM_COMMON_HASH_INLINE_H
#define NAM_COMMON_HASH_INLINE_H

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <xxhash.h>
#pragma GCC diagnostic pop

#include "hash.h"

/* nam_hash64(), without a call if there are as many bytes as a constant says, 128 at most. */
static inline __attribute__((always_inline)) uint64_t
nam_hash64_inline(const void *data, size_t bytes, size_t constant)
{
	return bytes == constant ? XXH3_64bits(data, constant) : nam_hash64(data, bytes);
}

#endif /* NAM_COMMON_HASH_INLINE_H */
