/* SPDX-License-Identifier: Apache-2.0 */
/* block_cache.c -- size classes of a worker; a block is in one place only (C5). */
#include "compute/remote/block_cache.h"

#include <errno.h>
#include <stdlib.h>

/* ---- size classes ---------------------------------------------------------------------------- */

struct nam__block_class *
nam__class_get(struct nam_worker *worker, uint32_t slot, uint32_t stride)
{
	uint32_t count = worker->block_caches ? worker->block_caches->count : 0;
	struct nam__block_class *classes = nam__class_find(worker, slot, stride);
	struct nam__block_cache *cache;

	if (classes)
		return classes;
	classes = calloc(NAM_SERVERS_MAX, sizeof(*classes));
	if (!classes)
		return NULL;
	cache = realloc(worker->block_caches,
		sizeof(*cache) + (count + 1) * sizeof(struct nam__stride_classes));
	if (!cache) {
		free(classes);
		return NULL;
	}
	for (uint32_t i = 0; i < NAM_SERVERS_MAX; i++)
		classes[i].ask = NAM__ASK_FIRST;
	cache->strides[count] = (struct nam__stride_classes){ stride, classes };
	cache->count = count + 1;
	worker->block_caches = cache;
	worker->bytes += sizeof(struct nam__stride_classes) + NAM_SERVERS_MAX * sizeof(*classes);
	return &classes[slot];
}

int
nam__class_reserve(struct nam_worker *worker, struct nam__block_class *class, uint32_t more)
{
	uint32_t size = class->recycled_size ? class->recycled_size : 64;
	uint64_t *recycled;

	while (size < class->recycled_count + more)
		size *= 2;
	if (size == class->recycled_size)
		return 0;
	recycled = realloc(class->recycled, size * sizeof(*recycled));
	if (!recycled)
		return -ENOMEM;
	worker->bytes += (size - class->recycled_size) * sizeof(*recycled);
	class->recycled = recycled;
	class->recycled_size = size;
	return 0;
}

void
nam_free_unseen(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride)
{
	const struct nam_region *region = nam_region_table_find(&worker->client->regions, at);
	struct nam__block_class *class =
		region ? nam__class_get(worker, region->server, stride) : NULL;

	/* A host without memory cannot even remember the block: then it is lost to the cluster. */
	if (!class || nam__class_reserve(worker, class, 1))
		return;
	class->recycled[class->recycled_count++] = nam_gaddr_untagged(at).raw;
	class->skips = 0;
}

/* ---- giving back -------------------------------------------------------------------------- */

/* Send back recycled blocks, then the run, until at most `keep` are left.  Stops at a failure. */
NAM_FIBER_FN static void
class_return(struct nam_worker *worker, uint32_t slot, uint32_t stride,
	struct nam__block_class *class, uint32_t keep)
{
	struct nam_rpc_free_request *request = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	int rc = request ? 0 : -ENOMEM;

	if (!keep && !nam__class_reserve(worker, class, class->spares_count))
		while (class->spares_count)
			class->recycled[class->recycled_count++] =
				class->spares[--class->spares_count];
	while (!rc && class->recycled_count + class->run_left > keep) {
		uint32_t excess = class->recycled_count + class->run_left - keep;

		request->label = 0;
		request->stride = stride;
		request->count = excess < NAM__BLOCKS_PER_FREE ? excess : NAM__BLOCKS_PER_FREE;
		for (uint32_t i = 0; i < request->count; i++) {
			struct nam_gaddr at = nam__class_pop(class, stride);

			/* As in the reply of ALLOC. */
			request->blocks[i] = nam_gaddr_tag(at) == NAM_BLOCK_SWEPT ? at.raw :
				nam_gaddr_untagged(at).raw;
		}
		class->unsure += request->count;
		rc = nam_rpc_call(worker, slot, NAM_RPC_FREE, request,
			(uint32_t)(sizeof(*request) + request->count * sizeof(uint64_t)), NULL,
			NULL); /* SUSPENDS */
		if (!rc)
			class->unsure -= request->count;
	}
	nam_buffer_give(worker, request, NAM_RPC_BODY_MAX);
}

void
nam__block_cache_return(struct nam_worker *worker, uint32_t keep)
{
	/* Other tasks may add strides during a suspension: read the block cache each time. */
	for (uint32_t i = 0; worker->block_caches && i < worker->block_caches->count; i++) {
		struct nam__stride_classes strides = worker->block_caches->strides[i];

		for (uint32_t slot = 0; slot < worker->client->servers_count; slot++) {
			struct nam__block_class *class = &strides.classes[slot];

			if (class->recycled_count + class->run_left > 2 * keep ||
				(!keep && class->spares_count))
				class_return(worker, slot, strides.stride, class,
					keep); /* SUSPENDS */
		}
	}
}

void
nam__block_cache_bytes(const struct nam_worker *worker, uint64_t *ret_cache, uint64_t *ret_unsure)
{
	const struct nam__block_cache *cache = worker->block_caches;
	uint64_t kept = 0, unsure = 0;

	for (uint32_t i = 0; cache && i < cache->count; i++) {
		uint64_t stride = cache->strides[i].stride;

		for (uint32_t slot = 0; slot < worker->client->servers_count; slot++) {
			const struct nam__block_class *class = &cache->strides[i].classes[slot];

			kept += stride * (class->recycled_count + class->run_left +
				class->spares_count);
			unsure += stride * class->unsure;
		}
	}
	*ret_cache = kept;
	*ret_unsure = unsure;
}

void
nam__block_cache_free(struct nam_worker *worker)
{
	struct nam__block_cache *cache = worker->block_caches;

	for (uint32_t i = 0; cache && i < cache->count; i++) {
		for (uint32_t slot = 0; slot < worker->client->servers_count; slot++)
			free(cache->strides[i].classes[slot].recycled);
		free(cache->strides[i].classes);
	}
	free(cache);
	worker->block_caches = NULL;
}
