/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c -- see memory.h. */
#include "memory.h"

#include <stdlib.h>

#include "common/layout.h"
#include "compute/remote/block_cache.h"
#include "index/index_internal.h"
#include "memserver/memserver_internal.h"

uint32_t
sim_memory_stride(const struct nam_index *index)
{
	return index->options.design == NAM_DESIGN_COARSE ? index->g.node_bytes : index->g.stride;
}

int
sim_memory_count(struct nam_worker *worker, struct nam_index *index, struct sim_memory *ret_memory)
{
	struct sim_memory memory = { 0 };
	struct nam_server_status status;
	struct nam_index_stat stat;
	int rc = nam_index_stat(worker, index, &stat); /* SUSPENDS */

	for (uint32_t slot = 0; !rc && slot < worker->client->servers_count; slot++) {
		rc = nam_server_status_get(worker, slot, &status); /* SUSPENDS */
		memory.out_bytes += status.carved_bytes - status.free_bytes -
			status.waiting_bytes;
	}
	if (rc)
		return rc;
	memory.reached_bytes = stat.remote_bytes + NAM_SUPERBLOCK_STRIDE;
	if (index->options.design != NAM_DESIGN_FINE)
		memory.served_nodes = stat.inner_nodes;
	if (index->options.design == NAM_DESIGN_COARSE)
		memory.served_nodes += stat.leaves;
	memory.stride = sim_memory_stride(index);
	*ret_memory = memory;
	return 0;
}

int64_t
sim_memory_lost(const struct sim_memory *memory, uint64_t given_up)
{
	int64_t bytes = (int64_t)(memory->out_bytes - memory->reached_bytes - given_up);

	/* Part of a block is as wrong as a whole one. */
	if (bytes % memory->stride)
		bytes += bytes < 0 ? -(int64_t)memory->stride : (int64_t)memory->stride;
	return bytes / memory->stride;
}

uint64_t
sim_memory_given_up(struct nam_client *client)
{
	return atomic_load_explicit(&client->bytes_leaked, memory_order_relaxed);
}

void
sim_memory_lose(struct nam_worker *worker, const struct nam_index *index, uint32_t count)
{
	struct nam_gaddr at;

	for (uint32_t i = 0; i < count; i++)
		if (nam_alloc(worker, sim_memory_stride(index), &at)) /* SUSPENDS */
			sim_die("there is no block to lose");
}

static void
take_private(struct sim_cluster *cluster, uint32_t stride, uint32_t spare,
	struct sim_ballast *ballast)
{
	for (uint32_t i = 0; i < cluster->count; i++) {
		struct nam__allocator *allocator = &cluster->servers[i].server->allocator;
		uint32_t size = (uint32_t)(cluster->memory_bytes / stride), *count;
		uint64_t *blocks = calloc(size, sizeof(*blocks));

		if (!blocks)
			abort();
		count = &ballast->private[i].count;
		ballast->private[i].blocks = blocks;
		*count = nam__allocator_take(allocator, stride, NAM_MEMORY_PRIVATE, blocks, size);
		for (uint32_t n = *count; n < size && n; n += *count - n) {
			*count += nam__allocator_take(allocator, stride, NAM_MEMORY_PRIVATE,
				blocks + n, size - n);
			if (*count == n)
				break;
		}
		*count -= spare < *count ? spare : *count;
		nam__allocator_give(allocator, stride, NAM_MEMORY_PRIVATE, blocks + *count, spare);
	}
}

void
sim_memory_take(struct sim_cluster *cluster, struct nam_worker *worker,
	const struct nam_index *index, uint32_t spare, struct sim_ballast *ret_ballast)
{
	struct sim_ballast ballast = { 0 };
	uint32_t size = 0, stride = sim_memory_stride(index), left = spare;
	struct nam_gaddr at;

	while (nam_alloc(worker, stride, &at) == 0) { /* SUSPENDS */
		if (ballast.count == size) {
			size = size ? 2 * size : 64;
			ballast.blocks = realloc(ballast.blocks, size * sizeof(at));
			if (!ballast.blocks)
				abort();
		}
		ballast.blocks[ballast.count++] = at;
	}
	while (spare-- && ballast.count)
		nam_free_unseen(worker, nam_gaddr_untagged(ballast.blocks[--ballast.count]),
			stride);
	/* For callers that ask. */
	nam__block_cache_return(worker, 0); /* SUSPENDS */
	if (index->options.design != NAM_DESIGN_FINE)
		take_private(cluster, index->g.node_bytes, left, &ballast);
	*ret_ballast = ballast;
}

void
sim_memory_give(struct sim_cluster *cluster, struct nam_worker *worker,
	const struct nam_index *index, struct sim_ballast *ballast)
{
	for (uint32_t i = 0; i < cluster->count && index->options.design != NAM_DESIGN_FINE; i++) {
		/* Private memory does not move. */
		if (sim_server_holds(&cluster->servers[i]))
			nam__allocator_give(&cluster->servers[i].server->allocator,
				index->g.node_bytes, NAM_MEMORY_PRIVATE, ballast->private[i].blocks,
				ballast->private[i].count);
		ballast->private[i].count = 0;
	}
	while (ballast->count)
		nam_free_unseen(worker, nam_gaddr_untagged(ballast->blocks[--ballast->count]),
			sim_memory_stride(index));
}
