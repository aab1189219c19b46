/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h -- nam_buffer_take() in line, for sizes that the compiler knows. */
#ifndef NAM_COMPUTE_WORKER_BUFFER_H
#define NAM_COMPUTE_WORKER_BUFFER_H

#include "compute/worker/worker.h"

static inline unsigned
nam__buffer_class(uint32_t bytes)
{
	/* 64 bytes at the least: a buffer never shares a cache line with another. */
	return bytes <= 64 ? 6 : 32 - (unsigned)__builtin_clz(bytes - 1);
}

static inline void *
nam__buffer_take(struct nam_worker *worker, uint32_t bytes)
{
	void **list = &worker->buffers[nam__buffer_class(bytes)], *buffer = *list;

	if (__builtin_expect(!buffer, 0))
		return nam_buffer_take(worker, bytes);
	*list = *(void **)buffer;
	return buffer;
}

static inline void
nam__buffer_give(struct nam_worker *worker, void *buffer, uint32_t bytes)
{
	void **list = &worker->buffers[nam__buffer_class(bytes)];

	*(void **)buffer = *list;
	*list = buffer;
}

#endif /* NAM_COMPUTE_WORKER_BUFFER_H */
