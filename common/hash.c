/* SPDX-License-Identifier: Apache-2.0 */
#include "hash.h"

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

uint64_t
nam_hash64(const void *data, size_t bytes)
{
	/* On x86-64 xxh_x86dispatch.h redirects this to the variant that chooses at run time. */
	return XXH3_64bits(data, bytes);
}
