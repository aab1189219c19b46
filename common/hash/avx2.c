/* SPDX-License-Identifier: Apache-2.0 */
/* avx2.c -- XXH3-64 for processors with AVX2: common/CMakeLists.txt has the flag. */
#ifdef __AVX2__
#include "hash.h"
#include "inline.h"

uint64_t
nam__hash64_avx2(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}
#endif
