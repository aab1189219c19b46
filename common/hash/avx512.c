/* SPDX-License-Identifier: Apache-2.0 */
/* avx512.c -- XXH3-64 for processors with AVX512: common/CMakeLists.txt has the flag. */
#ifdef __AVX512F__
#include "hash.h"
#include "inline.h"

uint64_t
nam__hash64_avx512(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}
#endif
