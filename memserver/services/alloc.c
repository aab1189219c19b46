/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.c -- blocks of remote memory, in runs that are carved off each region from front to back.
 *
 * A run is blocks of one stride, and stays so for ever: a block that comes back serves the same
 * stride again, so a word that was a lock stays a lock however stale the pointer that leads to it.
 * Regions are public, for blocks of clients, from front to back; the server takes regions without
 * blocks from the back as private ones, for structures that it executes itself.  A list of recycled
 * blocks is of one kind.
 *
 * For each run we keep one bit per block, set while the block is free; so a block that is given
 * back twice, or that never was one, is noticed.  Bits are made when the first block comes back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memserver/memserver_internal.h"

#define NAM__LINK_NONE UINT32_MAX
#define LINK_RUN_BITS 24u		/* a link: region index:8 | run index:24 */
_Static_assert(NAM__RUNS_MAX <= 1u << LINK_RUN_BITS, "a link names any run");
_Static_assert(NAM_REGIONS_PER_SERVER <= 1u << (32 - LINK_RUN_BITS), "a link names any region");

struct nam__run {
	uint64_t offset;
	uint64_t *free_bits;
	uint32_t stride;
	uint32_t count;			/* blocks */
	uint32_t words;			/* of free_bits */
	uint32_t free_count;
	uint32_t first_word;		/* no free block in the words before */
	uint32_t next;			/* link in the stride's list of runs with free blocks */
	bool listed;
};

/* A block, by its address. */
struct block {
	struct nam__run *run;
	uint32_t link;			/* of the run */
	uint32_t number;		/* in the run */
};

int
nam__allocator_init(struct nam__allocator *allocator, uint32_t first_region_id,
	const uint64_t *bytes, uint32_t count, uint64_t reserved,
	int (*withdraw)(void *arg, uint32_t region), void *withdraw_arg)
{
	memset(allocator, 0, sizeof(*allocator));
	allocator->regions = calloc(count, sizeof(allocator->regions[0]));
	if (!allocator->regions)
		return -ENOMEM;
	allocator->first_region_id = first_region_id;
	allocator->regions_count = count;
	allocator->withdraw = withdraw;
	allocator->withdraw_arg = withdraw_arg;
	for (uint32_t i = 0; i < count; i++) {
		/* Offset 0 of region 0 is null; that no region has one is simpler. */
		allocator->regions[i].bytes = bytes[i];
		allocator->memory[NAM_MEMORY_PUBLIC].bytes += bytes[i];
		allocator->regions[i].next = NAM_GADDR_UNIT_BYTES;
	}
	allocator->regions[0].next = (reserved + NAM_GADDR_UNIT_BYTES - 1) /
		NAM_GADDR_UNIT_BYTES * NAM_GADDR_UNIT_BYTES;
	return -pthread_mutex_init(&allocator->mutex, NULL);
}

void
nam__allocator_free(struct nam__allocator *allocator)
{
	for (uint32_t i = 0; i < allocator->regions_count; i++) {
		struct nam__alloc_region *region = &allocator->regions[i];

		for (uint32_t j = 0; j < region->runs_count; j++)
			free(region->runs[j].free_bits);
		free(region->runs);
	}
	free(allocator->regions);
	allocator->regions = NULL;
	allocator->regions_count = 0;
	(void)pthread_mutex_destroy(&allocator->mutex);
}

static struct nam__run *
run_at(struct nam__allocator *allocator, uint32_t link)
{
	return &allocator->regions[link >> LINK_RUN_BITS].runs[link & ((1u << LINK_RUN_BITS) - 1)];
}

/* The list of a stride; NULL if there is none and, with `add`, no room for another. */
static struct nam__stride *
stride_of(struct nam__allocator *allocator, uint32_t stride, bool is_private, bool add)
{
	for (uint32_t i = 0; i < allocator->strides_count; i++) {
		if (allocator->strides[i].stride == stride &&
			allocator->strides[i].is_private == is_private)
			return &allocator->strides[i];
	}
	if (!add || allocator->strides_count == NAM__STRIDES_MAX)
		return NULL;
	allocator->strides[allocator->strides_count] = (struct nam__stride){
		.stride = stride, .is_private = is_private, .first = NAM__LINK_NONE };
	return &allocator->strides[allocator->strides_count++];
}

/* ---- handing out ----------------------------------------------------------------------------- */

static uint64_t
block_raw(const struct nam__allocator *allocator, uint32_t region, const struct nam__run *run,
	uint32_t block)
{
	return nam_gaddr_make((uint16_t)(allocator->first_region_id + region),
		run->offset + (uint64_t)block * run->stride, 0).raw;
}

static uint32_t
take_recycled(struct nam__allocator *allocator, struct nam__stride *list, uint64_t *blocks,
	uint32_t max)
{
	uint32_t n = 0;

	while (list->first != NAM__LINK_NONE) {
		struct nam__run *run = run_at(allocator, list->first);

		for (; n < max && run->free_count; run->free_count--) {
			uint64_t *word;

			while (!run->free_bits[run->first_word])
				run->first_word++;
			word = &run->free_bits[run->first_word];
			blocks[n++] = block_raw(allocator, list->first >> LINK_RUN_BITS, run,
				run->first_word * 64 + (uint32_t)__builtin_ctzll(*word));
			*word &= *word - 1;
			allocator->memory[list->is_private].free_bytes -= run->stride;
		}
		if (run->free_count)
			break;
		list->first = run->next;
		run->listed = false;
	}
	return n;
}

/* A new run for the blocks to be carved, or the last one if that can grow.  NULL: no room. */
static struct nam__run *
run_for(struct nam__allocator *allocator, struct nam__alloc_region *region, uint32_t stride,
	uint32_t count)
{
	struct nam__run *run;

	if (region->runs_count) {
		run = &region->runs[region->runs_count - 1];
		/* It ends where the next one begins, because nothing else is ever carved. */
		if (run->stride == stride && run->count <= INT32_MAX - count)
			return run;
	}
	if (allocator->runs_count == NAM__RUNS_MAX)
		return NULL;
	if (region->runs_count == region->runs_size) {
		uint32_t size = region->runs_size ? region->runs_size * 2 : 16;
		struct nam__run *runs = realloc(region->runs, size * sizeof(runs[0]));

		if (!runs)
			return NULL;
		region->runs = runs;
		region->runs_size = size;
	}
	run = &region->runs[region->runs_count++];
	*run = (struct nam__run){ .offset = region->next, .stride = stride };
	allocator->runs_count++;
	return run;
}

/* Make the last region that has never had a block private.  False: there is none. */
static bool
region_withdraw(struct nam__allocator *allocator)
{
	for (uint32_t i = allocator->regions_count; i-- > 0;) {
		struct nam__alloc_region *region = &allocator->regions[i];

		if (region->is_private || region->next != NAM_GADDR_UNIT_BYTES)
			continue;
		region->is_private = true;
		allocator->memory[NAM_MEMORY_PUBLIC].bytes -= region->bytes;
		allocator->memory[NAM_MEMORY_PRIVATE].bytes += region->bytes;
		if (!allocator->withdraw(allocator->withdraw_arg, i))
			return true;
		region->next = region->bytes;
	}
	return false;
}

/* First fit over the regions; as many blocks as the first region with room for one has. */
static uint32_t
carve(struct nam__allocator *allocator, const struct nam__stride *list, uint32_t count,
	uint64_t *ret_at)
{
	uint32_t stride = list->stride;

	for (uint32_t i = 0; i < allocator->regions_count; i++) {
		struct nam__alloc_region *region = &allocator->regions[i];
		struct nam__run *run;
		uint64_t fit;

		if (region->is_private != list->is_private || region->next > region->bytes ||
			region->bytes - region->next < stride)
			continue;
		fit = (region->bytes - region->next) / stride;
		if (fit > count)
			fit = count;
		run = run_for(allocator, region, stride, (uint32_t)fit);
		if (!run)
			return 0;
		*ret_at = block_raw(allocator, i, run, run->count);
		run->count += (uint32_t)fit;
		region->next += fit * stride;
		allocator->memory[list->is_private].carved_bytes += fit * stride;
		return (uint32_t)fit;
	}
	return list->is_private && region_withdraw(allocator) ?
		carve(allocator, list, count, ret_at) : 0;
}

uint32_t
nam__allocator_take(struct nam__allocator *allocator, uint32_t stride, uint64_t *ret_blocks,
	uint32_t count)
{
	struct nam__stride *list;
	uint64_t run_at;
	uint32_t n = 0, carved = 0;

	pthread_mutex_lock(&allocator->mutex);
	list = stride_of(allocator, stride, true, true);
	if (list)
		n = take_recycled(allocator, list, ret_blocks, count);
	if (list && n < count)
		carved = carve(allocator, list, count - n, &run_at);
	pthread_mutex_unlock(&allocator->mutex);
	for (uint32_t i = 0; i < carved; i++) {
		struct nam_gaddr first = { run_at };

		ret_blocks[n++] = nam_gaddr_make(nam_gaddr_region(first),
			nam_gaddr_offset(first) + (uint64_t)i * stride, 0).raw;
	}
	return n;
}

static bool
stride_valid(uint32_t stride)
{
	return stride && stride % NAM_GADDR_UNIT_BYTES == 0;
}

int
nam__service_alloc(struct nam__exchange *exchange)
{
	const struct nam_rpc_alloc_request *request = exchange->body;
	struct nam_rpc_alloc_reply *reply = exchange->reply;
	struct nam__allocator *allocator = &exchange->server->allocator;
	struct nam__stride *list;

	if (!stride_valid(request->stride) || request->count == 0 ||
		request->count > NAM__ALLOC_COUNT_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	pthread_mutex_lock(&allocator->mutex);
	list = stride_of(allocator, request->stride, false, true);
	reply->count = !list ? 0 : take_recycled(allocator, list, reply->blocks,
		request->count < NAM_RPC_ALLOC_SCATTERED_MAX ? request->count :
		NAM_RPC_ALLOC_SCATTERED_MAX);
	reply->run_at = 0;
	reply->run_count = 0;
	/* Less than was asked for, rather than carve while there are blocks that came back. */
	if (list && reply->count < request->count && list->first == NAM__LINK_NONE)
		reply->run_count = carve(allocator, list, request->count - reply->count,
			&reply->run_at);
	pthread_mutex_unlock(&allocator->mutex);
	if (!list)
		return -NAM_E_LIMIT;
	if (!reply->count && !reply->run_count)
		return -NAM_E_REMOTE_FULL;
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) +
		reply->count * sizeof(reply->blocks[0]));
	return 0;
}

/* ---- taking back ----------------------------------------------------------------------------- */

static bool
find_block(struct nam__allocator *allocator, uint64_t raw, const struct nam__stride *list,
	struct block *ret)
{
	struct nam_gaddr at = { raw };
	uint32_t index = (uint32_t)nam_gaddr_region(at) - allocator->first_region_id;
	uint64_t offset = nam_gaddr_offset(at);
	uint32_t low = 0, high, stride = list->stride;
	const struct nam__alloc_region *region;
	struct nam__run *run;

	if (nam_gaddr_tag(at) || index >= allocator->regions_count)
		return false;
	region = &allocator->regions[index];
	if (region->is_private != list->is_private)
		return false;
	/* The last run that begins at or before the offset. */
	for (high = region->runs_count; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (region->runs[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	run = &region->runs[low - 1];
	offset -= run->offset;
	if (run->stride != stride || offset % stride || offset / stride >= run->count)
		return false;
	*ret = (struct block){
		.run = run,
		.link = index << LINK_RUN_BITS | (low - 1),
		.number = (uint32_t)(offset / stride),
	};
	return true;
}

/* A block is free, and its run is listed. */
static int
put_back(struct nam__allocator *allocator, struct nam__stride *list, uint64_t raw)
{
	struct block block;
	struct nam__run *run;
	uint32_t word, words;
	uint64_t *bits, bit;

	if (!find_block(allocator, raw, list, &block))
		return -NAM_E_FABRIC_PROTOCOL;
	run = block.run;
	word = block.number / 64;
	bit = 1ull << block.number % 64;
	if (word >= run->words) {
		words = (run->count + 63) / 64;
		bits = realloc(run->free_bits, words * sizeof(bits[0]));
		if (!bits)
			return -ENOMEM;
		memset(bits + run->words, 0, (words - run->words) * sizeof(bits[0]));
		run->free_bits = bits;
		run->words = words;
	}
	if (run->free_bits[word] & bit)
		return -NAM_E_FABRIC_PROTOCOL;	/* it is free already */
	run->free_bits[word] |= bit;
	run->free_count++;
	if (word < run->first_word)
		run->first_word = word;
	if (!run->listed) {
		run->listed = true;
		run->next = list->first;
		list->first = block.link;
	}
	allocator->memory[list->is_private].free_bytes += list->stride;
	return 0;
}

/* All blocks or none.  A run whose blocks are taken again stays in the list, without free ones. */
static int
take_back(struct nam__allocator *allocator, const struct nam_rpc_free_request *request)
{
	struct nam__stride *list = stride_of(allocator, request->stride, false, false);
	int rc = list ? 0 : -NAM_E_FABRIC_PROTOCOL;
	uint32_t done = 0;
	struct block block;

	while (!rc && done < request->count) {
		rc = put_back(allocator, list, request->blocks[done]);
		done += !rc;
	}
	while (rc && done-- > 0) {
		if (!find_block(allocator, request->blocks[done], list, &block))
			continue;
		block.run->free_bits[block.number / 64] &= ~(1ull << block.number % 64);
		block.run->free_count--;
		allocator->memory[list->is_private].free_bytes -= request->stride;
	}
	return rc;
}

int
nam__service_free(struct nam__exchange *exchange)
{
	const struct nam_rpc_free_request *request = exchange->body;
	struct nam__allocator *allocator = &exchange->server->allocator;
	int rc;

	if (!stride_valid(request->stride) || request->count == 0 ||
		exchange->body_bytes - sizeof(*request) !=
			(uint64_t)request->count * sizeof(request->blocks[0]))
		return -NAM_E_FABRIC_PROTOCOL;
	pthread_mutex_lock(&allocator->mutex);
	rc = take_back(allocator, request);
	pthread_mutex_unlock(&allocator->mutex);
	return rc;
}

void
nam__allocator_give(struct nam__allocator *allocator, uint32_t stride, const uint64_t *blocks,
	uint32_t count)
{
	struct nam__stride *list;

	pthread_mutex_lock(&allocator->mutex);
	list = stride_of(allocator, stride, true, false);
	/* Blocks that cannot be noted for want of memory stay allocated. */
	for (uint32_t i = 0; list && i < count; i++)
		(void)put_back(allocator, list, blocks[i]);
	pthread_mutex_unlock(&allocator->mutex);
}
