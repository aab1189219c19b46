/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_cache.h -- blocks that a worker has allocated and not handed out.
 */
#ifndef NAM_COMPUTE_REMOTE_BLOCK_CACHE_H
#define NAM_COMPUTE_REMOTE_BLOCK_CACHE_H

#include "common/rpc/alloc_rpc.h"
#include "compute/worker/worker.h"

#define NAM__ASK_FIRST 16u
#define NAM__SPARES 16u			/* as many as fibers that use one at the same time */
#define NAM__BLOCKS_KEPT 1024u		/* of a size class, when its worker trims it */

/* Blocks of one stride on one memory server. */
struct nam__block_class {
	uint64_t run_at;		/* gaddr of the first fresh block */
	uint32_t run_left;
	uint32_t ask;			/* blocks to ask for next time */
	uint64_t *recycled;		/* a stack of gaddrs */
	uint32_t recycled_count, recycled_size;
	uint32_t spares_count;
	uint64_t spares[NAM__SPARES];	/* gaddrs of blocks for passing uses */
	uint32_t skips;			/* the server was full: how often yet to pass it by */
	uint32_t passes;		/* as it was fuller than others */
	uint32_t unsure;		/* blocks of RPCs without an answer, so far or for good */
	bool refilling;			/* one task asks, the others wait */
	struct nam__tasks waiters;
};

struct nam__stride_classes {
	uint32_t stride;
	struct nam__block_class *classes;		/* by server slot, for NAM_SERVERS_MAX */
};

struct nam__block_cache {
	uint32_t count;
	struct nam__stride_classes strides[];
};

/* NULL: there is none. */
static inline struct nam__block_class *
nam__class_find(const struct nam_worker *worker, uint32_t slot, uint32_t stride)
{
	const struct nam__block_cache *cache = worker->block_caches;

	for (uint32_t i = 0; cache && i < cache->count; i++)
		if (cache->strides[i].stride == stride)
			return &cache->strides[i].classes[slot];
	return NULL;
}

/* A class keeps its address: waiting tasks point to it.  NULL: no memory. */
struct nam__block_class *nam__class_get(struct nam_worker *worker, uint32_t slot, uint32_t stride);
/* Room for `more` recycled blocks: 0 or -ENOMEM. */
int nam__class_reserve(struct nam_worker *worker, struct nam__block_class *class,
	uint32_t more) NAM_MUST_CHECK;

static inline bool
nam__class_empty(const struct nam__block_class *class)
{
	return !class->recycled_count && !class->run_left;
}

static inline struct nam_gaddr
nam__class_pop(struct nam__block_class *class, uint32_t stride)
{
	struct nam_gaddr at;

	if (class->recycled_count) {
		at.raw = class->recycled[--class->recycled_count];
		return nam_gaddr_tag(at) ? at : nam_gaddr_tagged(at, NAM_BLOCK_RECYCLED);
	}
	at.raw = class->run_at;
	class->run_at += stride / NAM_GADDR_UNIT_BYTES;
	class->run_left--;
	return nam_gaddr_tagged(at, NAM_BLOCK_FRESH);
}

/* Blocks in one FREE. */
#define NAM__BLOCKS_PER_FREE ((uint32_t)((NAM_RPC_BODY_MAX -                                       \
	sizeof(struct nam_rpc_free_request)) / sizeof(uint64_t)))

/* Each size class with more than twice `keep` blocks returns all but `keep` to its server. */
NAM_FIBER_FN void nam__block_cache_return(struct nam_worker *worker, uint32_t keep);
void nam__block_cache_free(struct nam_worker *worker);
/* Bytes in the cache; and bytes that RPCs without an answer, yet or for good, may have moved. */
void nam__block_cache_bytes(const struct nam_worker *worker, uint64_t *ret_cache,
	uint64_t *ret_unsure);

#endif /* NAM_COMPUTE_REMOTE_BLOCK_CACHE_H */
