/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.c -- blocks of remote memory, in runs that are carved off each region from front to back.
 *
 * A run is blocks of one stride, and stays so for ever: a block that comes back serves the same
 * stride again, so a word that was a lock stays a lock however stale the pointer that leads to it.
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

/* A block as a request names it, found in our books. */
struct place {
	struct nam__run *run;
	uint32_t link;
	uint32_t block;
};

int
nam__allocator_init(struct nam__allocator *allocator, uint32_t first_region_id,
	const uint64_t *bytes, uint32_t count, uint64_t reserved)
{
	memset(allocator, 0, sizeof(*allocator));
	allocator->regions = calloc(count, sizeof(allocator->regions[0]));
	if (!allocator->regions)
		return -ENOMEM;
	allocator->first_region_id = first_region_id;
	allocator->regions_count = count;
	for (uint32_t i = 0; i < count; i++) {
		/* Offset 0 of region 0 is null; that no region has one is simpler. */
		allocator->regions[i].bytes = bytes[i];
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
stride_of(struct nam__allocator *allocator, uint32_t stride, bool add)
{
	for (uint32_t i = 0; i < allocator->strides_count; i++) {
		if (allocator->strides[i].stride == stride)
			return &allocator->strides[i];
	}
	if (!add || allocator->strides_count == NAM__STRIDES_MAX)
		return NULL;
	allocator->strides[allocator->strides_count] = (struct nam__stride){
		.stride = stride, .first = NAM__LINK_NONE };
	return &allocator->strides[allocator->strides_count++];
}

/* ---- handing out -------------------------------------------------------------------------- */

static uint64_t
block_raw(const struct nam__allocator *allocator, uint32_t region, const struct nam__run *run,
	uint32_t block)
{
	return nam_gaddr_make((uint16_t)(allocator->first_region_id + region),
		run->offset + (uint64_t)block * run->stride, 0).raw;
}

static uint32_t
take_from_run(struct nam__allocator *allocator, uint32_t link, uint64_t *blocks, uint32_t max)
{
	struct nam__run *run = run_at(allocator, link);
	uint32_t n = 0;

	while (n < max && run->free_count) {
		uint64_t *word;
		uint32_t bit;

		while (!run->free_bits[run->first_word])
			run->first_word++;
		word = &run->free_bits[run->first_word];
		bit = (uint32_t)__builtin_ctzll(*word);
		*word &= *word - 1;
		run->free_count--;
		allocator->free_bytes -= run->stride;
		blocks[n++] = block_raw(allocator, link >> LINK_RUN_BITS, run,
			run->first_word * 64 + bit);
	}
	return n;
}

static uint32_t
take_recycled(struct nam__allocator *allocator, struct nam__stride *list, uint64_t *blocks,
	uint32_t max)
{
	uint32_t n = 0;

	while (n < max && list->first != NAM__LINK_NONE) {
		struct nam__run *run = run_at(allocator, list->first);

		n += take_from_run(allocator, list->first, blocks + n, max - n);
		if (!run->free_count) {
			list->first = run->next;
			run->listed = false;
		}
	}
	return n;
}

/* A run of its own for what is carved next, or the last one if that can grow.  NULL: no room. */
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

/* First fit over the regions; as many blocks as the first region with room for one has. */
static uint32_t
carve(struct nam__allocator *allocator, uint32_t stride, uint32_t count, uint64_t *ret_at)
{
	for (uint32_t i = 0; i < allocator->regions_count; i++) {
		struct nam__alloc_region *region = &allocator->regions[i];
		struct nam__run *run;
		uint64_t fit;

		if (region->next > region->bytes || region->bytes - region->next < stride)
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
		allocator->carved_bytes += fit * stride;
		return (uint32_t)fit;
	}
	return 0;
}

static int
alloc(struct nam__allocator *allocator, const struct nam_rpc_alloc_request *request,
	struct nam_rpc_alloc_reply *reply)
{
	uint32_t most = request->count;
	struct nam__stride *list = stride_of(allocator, request->stride, true);

	if (!list)
		return -NAM_E_LIMIT;
	if (most > NAM_RPC_ALLOC_SCATTERED_MAX)
		most = NAM_RPC_ALLOC_SCATTERED_MAX;
	reply->run_at = 0;
	reply->run_count = 0;
	reply->count = take_recycled(allocator, list, reply->blocks, most);
	/* Less than was asked for, rather than carve while there are blocks that came back. */
	if (reply->count < request->count && list->first == NAM__LINK_NONE)
		reply->run_count = carve(allocator, request->stride, request->count - reply->count,
			&reply->run_at);
	return reply->count || reply->run_count ? 0 : -NAM_E_REMOTE_FULL;
}

uint32_t
nam__allocator_take(struct nam__allocator *allocator, uint32_t stride, uint64_t *ret_blocks,
	uint32_t count)
{
	struct nam__stride *list;
	uint64_t run_at;
	uint32_t n = 0, carved = 0;

	pthread_mutex_lock(&allocator->mutex);
	list = stride_of(allocator, stride, true);
	if (list)
		n = take_recycled(allocator, list, ret_blocks, count);
	if (list && n < count)
		carved = carve(allocator, stride, count - n, &run_at);
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
	int rc;

	if (!stride_valid(request->stride) || request->count == 0 ||
		request->count > NAM__ALLOC_COUNT_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	pthread_mutex_lock(&allocator->mutex);
	rc = alloc(allocator, request, reply);
	pthread_mutex_unlock(&allocator->mutex);
	if (rc)
		return rc;
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) +
		reply->count * sizeof(reply->blocks[0]));
	return 0;
}

/* ---- taking back -------------------------------------------------------------------------- */

/* The last run that begins at or before an offset, or NULL. */
static struct nam__run *
run_before(const struct nam__alloc_region *region, uint64_t offset)
{
	uint32_t low = 0, high = region->runs_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (region->runs[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &region->runs[low - 1] : NULL;
}

static bool
find_block(struct nam__allocator *allocator, uint64_t raw, uint32_t stride, struct place *ret)
{
	struct nam_gaddr at = { raw };
	uint32_t index = (uint32_t)nam_gaddr_region(at) - allocator->first_region_id;
	uint64_t offset = nam_gaddr_offset(at), within;
	struct nam__alloc_region *region;
	struct nam__run *run;

	if (nam_gaddr_tag(at) || index >= allocator->regions_count)
		return false;
	region = &allocator->regions[index];
	run = run_before(region, offset);
	if (!run || run->stride != stride)
		return false;
	within = offset - run->offset;
	if (within % stride || within / stride >= run->count)
		return false;
	*ret = (struct place){
		.run = run,
		.link = index << LINK_RUN_BITS | (uint32_t)(run - region->runs),
		.block = (uint32_t)(within / stride),
	};
	return true;
}

static int
have_bits(struct nam__run *run, uint32_t block)
{
	uint32_t words = (run->count + 63) / 64;
	uint64_t *bits;

	if (block / 64 < run->words)
		return 0;
	bits = realloc(run->free_bits, words * sizeof(bits[0]));
	if (!bits)
		return -ENOMEM;
	memset(bits + run->words, 0, (words - run->words) * sizeof(bits[0]));
	run->free_bits = bits;
	run->words = words;
	return 0;
}

static int
put_back(struct nam__allocator *allocator, uint64_t raw, uint32_t stride)
{
	struct place place;
	uint64_t bit;
	int rc;

	if (!find_block(allocator, raw, stride, &place))
		return -NAM_E_FABRIC_PROTOCOL;
	rc = have_bits(place.run, place.block);
	if (rc)
		return rc;
	bit = 1ull << place.block % 64;
	if (place.run->free_bits[place.block / 64] & bit)
		return -NAM_E_FABRIC_PROTOCOL;	/* it is free already */
	place.run->free_bits[place.block / 64] |= bit;
	place.run->free_count++;
	if (place.block / 64 < place.run->first_word)
		place.run->first_word = place.block / 64;
	allocator->free_bytes += stride;
	return 0;
}

/* Undo put_back for a block that it took. */
static void
take_again(struct nam__allocator *allocator, uint64_t raw, uint32_t stride)
{
	struct place place;

	if (!find_block(allocator, raw, stride, &place))
		return;
	place.run->free_bits[place.block / 64] &= ~(1ull << place.block % 64);
	place.run->free_count--;
	allocator->free_bytes -= stride;
}

static void
list_run_of(struct nam__allocator *allocator, struct nam__stride *list, uint64_t raw)
{
	struct place place;

	if (!find_block(allocator, raw, list->stride, &place) || place.run->listed)
		return;
	place.run->listed = true;
	place.run->next = list->first;
	list->first = place.link;
}

/* All blocks or none. */
static int
take_back(struct nam__allocator *allocator, const struct nam_rpc_free_request *request)
{
	struct nam__stride *list = stride_of(allocator, request->stride, false);
	int rc = 0;

	if (!list)
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < request->count; i++) {
		rc = put_back(allocator, request->blocks[i], request->stride);
		if (rc) {
			while (i-- > 0)
				take_again(allocator, request->blocks[i], request->stride);
			return rc;
		}
	}
	for (uint32_t i = 0; i < request->count; i++)
		list_run_of(allocator, list, request->blocks[i]);
	return 0;
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
	list = stride_of(allocator, stride, false);
	/* Blocks that cannot be noted for want of memory stay allocated. */
	for (uint32_t i = 0; list && i < count; i++)
		if (!put_back(allocator, blocks[i], stride))
			list_run_of(allocator, list, blocks[i]);
	pthread_mutex_unlock(&allocator->mutex);
}
