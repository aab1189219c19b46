/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h -- copies of memory that others change meanwhile, in an order to rely on. */
#ifndef NAM_COMMON_FABRIC_SHM_COPY_H
#define NAM_COMMON_FABRIC_SHM_COPY_H

#include <stdint.h>

/* `ahead` is prefetched meanwhile, `bytes` of it. */
typedef void (*shm_read_fn)(void *to, const void *from, uint32_t bytes, const void *ahead);
typedef void (*shm_write_fn)(void *to, const void *from, uint32_t bytes);

/* The fastest copies that keep NAM_CAP_ORDERED_LOADS and NAM_CAP_WORD8_ATOMIC on this CPU. */
void nam__shm_copy_choose(shm_read_fn *ret_read, shm_write_fn *ret_write);

#endif /* NAM_COMMON_FABRIC_SHM_COPY_H */
