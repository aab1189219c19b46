/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_cache.h -- blocks that a worker has allocated and not handed out.
 */
#ifndef NAM_COMPUTE_REMOTE_BLOCK_CACHE_H
#define NAM_COMPUTE_REMOTE_BLOCK_CACHE_H

#include "compute/worker/worker.h"

void nam__block_cache_put(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride);
/* everything, to the servers */
NAM_FIBER_FN void nam__block_cache_return(struct nam_worker *worker);
/* What the stock holds beyond its own needs goes back to the servers. */
NAM_FIBER_FN void nam__block_cache_trim(struct nam_worker *worker);
void nam__block_cache_free(struct nam_worker *worker);
/* What is in stock; and what RPCs without an answer, yet or for good, move or have moved. */
void nam__block_cache_bytes(const struct nam_worker *worker, uint64_t *ret_cache,
	uint64_t *ret_unsure);

#endif /* NAM_COMPUTE_REMOTE_BLOCK_CACHE_H */
