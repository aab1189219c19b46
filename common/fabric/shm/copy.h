/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h -- copies of memory that others change meanwhile, in an order to rely on. */
#ifndef NAM_COMMON_FABRIC_SHM_COPY_H
#define NAM_COMMON_FABRIC_SHM_COPY_H

#include <stdint.h>

#include "common/fabric/request.h"

/* The capabilities of providers whose processors carry requests out, with these copies. */
#if defined(__x86_64__)
#define SHM_ORDERED NAM_CAP_ORDERED_LOADS
#else
#define SHM_ORDERED 0u
#endif
#define SHM_COPY_CAPS                                                                               \
	(NAM_CAP_ORDER_WRITE_ATOMIC | NAM_CAP_ORDER_ATOMIC_READ | NAM_CAP_WORD8_ATOMIC |            \
		NAM_CAP_ATOMIC_VS_CPU | NAM_CAP_RPC_SRQ | NAM_CAP_READER_SHARE |                    \
		NAM_CAP_ORDER_WRITES | SHM_ORDERED)

/* `ahead` is prefetched meanwhile, `bytes` of it. */
typedef void (*shm_read_fn)(void *to, const void *from, uint32_t bytes, const void *ahead);
typedef void (*shm_write_fn)(void *to, const void *from, uint32_t bytes);

/* The fastest copies that keep NAM_CAP_ORDERED_LOADS and NAM_CAP_WORD8_ATOMIC on this CPU. */
void nam__shm_copy_choose(shm_read_fn *ret_read, shm_write_fn *ret_write);

#endif /* NAM_COMMON_FABRIC_SHM_COPY_H */
