/* SPDX-License-Identifier: Apache-2.0 */
/* inline.h -- all of XXH3 as static functions, for the vector unit of the file at hand. */
#ifndef NAM_COMMON_HASH_INLINE_H
#define NAM_COMMON_HASH_INLINE_H

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <xxhash.h>
#pragma GCC diagnostic pop

#endif /* NAM_COMMON_HASH_INLINE_H */
