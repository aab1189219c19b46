/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.c -- blocks of remote memory, in runs that are carved off each region from front to back.
 *
 * A block that comes back serves the same stride again.  So a word that was a lock stays one for
 * clients that know its address.  When all blocks of a run are free, RECLAIM makes it vacant in two
 * steps, between which clients forget.  Regions are public, for blocks of clients, from the front.
 * The server takes regions without blocks from the back: private ones for structures that it
 * executes, read-only ones for what clients READ.  A list of recycled blocks is of one kind.
 *
 * Two bits per block say whether it is free, or waits for readers.  So a block that is given back
 * twice, or that never was one, is noticed.
 */
#include "memserver/services/runs.h"

#define RESERVE_SHARE 256u
#define RESERVE_BYTES_MAX (4u << 20)
#define RESTORE_NS 500000000ull		/* one HOLD begins no other region after this time */

int
nam__allocator_init(struct nam__allocator *allocator, uint32_t first_region_id,
	const uint64_t *bytes, uint32_t count, uint64_t reserved,
	const struct nam__allocator_memory *calls)
{
	uint64_t total = 0;
	int rc = 0;

	memset(allocator, 0, sizeof(*allocator));
	allocator->regions = calloc(count, sizeof(allocator->regions[0]));
	if (!allocator->regions)
		return -ENOMEM;
	allocator->first_region_id = first_region_id;
	allocator->calls = *calls;
	LIST_INIT(&allocator->held);
	reserved = roundup(reserved, NAM_GADDR_UNIT_BYTES);
	for (uint32_t i = 0; i < count && !rc; i++) {
		struct nam__alloc_region *region = &allocator->regions[i];

		/* Offset 0 of region 0 is null; that no region has one is simpler. */
		region->bytes = bytes[i];
		region->pinned = i == 0 && reserved > NAM_GADDR_UNIT_BYTES;
		rc = nam__runs_init(region, i, i == 0 ? reserved : NAM_GADDR_UNIT_BYTES);
		allocator->regions_count++;
		total += bytes[i];
	}
	allocator->memory[NAM_MEMORY_PUBLIC].bytes = total;
	/* M20.  No block has the first bytes of a region. */
	allocator->reserve_bytes = reserved + (count - 1) * NAM_GADDR_UNIT_BYTES +
		MIN(total / RESERVE_SHARE, RESERVE_BYTES_MAX);
	/* Half of NAM__RUNS_MAX are enough for all memory. */
	allocator->run_bytes = MAX(total / (NAM__RUNS_MAX / 2), NAM__RUN_BYTES_MIN);
	return rc ? rc : -pthread_mutex_init(&allocator->mutex, NULL);
}

void
nam__allocator_free(struct nam__allocator *allocator)
{
	for (uint32_t i = 0; i < allocator->regions_count; i++)
		nam__runs_free(&allocator->regions[i]);
	free(allocator->regions);
	allocator->regions = NULL;
	allocator->regions_count = 0;
	(void)pthread_mutex_destroy(&allocator->mutex);
}

static void
list_add(struct nam__stride *list, struct nam__run *run)
{
	run->listed = true;
	LIST_INSERT_HEAD(&list->runs, run, link);
}

static void
list_remove(struct nam__run *run)
{
	run->listed = false;
	LIST_REMOVE(run, link);
}

static uint64_t
raw_of(const struct nam__allocator *allocator, uint32_t region, uint64_t offset)
{
	return nam_gaddr_make((uint16_t)(allocator->first_region_id + region), offset, 0).raw;
}

static uint32_t
take_recycled(struct nam__allocator *allocator, struct nam__stride *list, uint16_t owner,
	uint64_t *blocks, uint32_t max)
{
	struct nam__run *run;
	uint32_t n = 0;

	while ((run = LIST_FIRST(&list->runs)) != NULL) {
		for (; n < max && run->free_count; run->free_count--) {
			struct nam__run_bits *bits;
			uint64_t bit, number;

			while (!run->bits[run->first_word].free)
				run->first_word++;
			bits = &run->bits[run->first_word];
			bit = bits->free & -bits->free;
			number = run->first_word * 64ull + (uint64_t)__builtin_ctzll(bit);
			run->owners[number] = owner;
			blocks[n++] = nam_gaddr_tagged(NAM_GADDR(raw_of(allocator, run->region,
				run->offset + number * run->stride)),
				bits->swept & bit ? NAM_BLOCK_SWEPT : 0).raw;
			bits->free &= ~bit;
			bits->swept &= ~bit;
			allocator->memory[list->kind].free_bytes -= run->stride;
		}
		if (run->free_count)
			break;
		list_remove(run);
	}
	return n;
}

/* M1: a held run may serve its own stride at any time.  False: there is none. */
static bool
held_again(struct nam__allocator *allocator, struct nam__stride *list)
{
	struct nam__run *run;

	LIST_FOREACH(run, &allocator->held, link) {
		if (run->stride != list->stride || allocator->regions[run->region].turning ||
			allocator->regions[run->region].kind != list->kind)
			continue;
		run->batch = 0;
		LIST_REMOVE(run, link);
		list_add(list, run);
		return true;
	}
	return false;
}

/* M3: memory that was used before is zeroed, after the mutex was released. */
static void
carved_clear(const struct nam__allocator *allocator, const struct nam__carved *carved,
	uint32_t stride)
{
	if (carved->dirty && carved->count)
		memset(allocator->calls.base(allocator->calls.arg, carved->region) + carved->offset,
			0, (uint64_t)carved->count * stride);
}

uint32_t
nam__allocator_take(struct nam__allocator *allocator, uint32_t stride, enum nam_memory_kind kind,
	uint64_t *ret_blocks, uint32_t count)
{
	struct nam__carved carved = { .count = 0 };
	struct nam__stride *list;
	uint32_t n = 0;

	pthread_mutex_lock(&allocator->mutex);
	list = nam__stride_of(allocator, stride, kind, true);
	if (list)
		n = take_recycled(allocator, list, 0, ret_blocks, count);
	if (list && n < count)
		carved = nam__runs_carve(allocator, stride, kind, count - n, 0);
	if (list && kind != NAM_MEMORY_PRIVATE && !n && !carved.count &&
		held_again(allocator, list))
		n = take_recycled(allocator, list, 0, ret_blocks, count);
	pthread_mutex_unlock(&allocator->mutex);
	carved_clear(allocator, &carved, stride);
	for (uint32_t i = 0; i < carved.count; i++)
		ret_blocks[n++] = raw_of(allocator, carved.region,
			carved.offset + (uint64_t)i * stride);
	return n;
}

/* Memory for clients that is vacant, or in blocks that were given back: in 65,535ths of all. */
static uint16_t
free_share(const struct nam__allocator *allocator)
{
	uint64_t all = 0, free;

	for (uint32_t kind = 0; kind < NAM_MEMORY_KINDS; kind++)
		all += allocator->memory[kind].bytes;
	free = allocator->memory[NAM_MEMORY_PUBLIC].bytes -
		allocator->memory[NAM_MEMORY_PUBLIC].carved_bytes +
		allocator->memory[NAM_MEMORY_PUBLIC].free_bytes;
	return (uint16_t)(free * UINT16_MAX / all);
}

int
nam__service_alloc(struct nam__exchange *exchange)
{
	const struct nam_rpc_alloc_request *request = exchange->body;
	struct nam_rpc_alloc_reply *reply = exchange->reply;
	struct nam__allocator *allocator = &exchange->server->allocator;
	uint32_t most = MIN(request->count, NAM_RPC_ALLOC_SCATTERED_MAX);
	uint16_t owner = exchange->connection->client_id;
	struct nam__carved carved = { .count = 0 };
	struct nam__stride *list;

	if (!nam__stride_valid(request->stride) || request->count == 0 ||
		request->count > NAM__ALLOC_COUNT_MAX || request->reserve > 1)
		return -NAM_E_FABRIC_PROTOCOL;
	pthread_mutex_lock(&allocator->mutex);
	list = nam__stride_of(allocator, request->stride, NAM_MEMORY_PUBLIC, true);
	reply->count = list ? (uint16_t)take_recycled(allocator, list, owner, reply->blocks,
		most) : 0;
	/* Less than was asked for, rather than carve while there are blocks that came back. */
	if (list && reply->count < request->count && LIST_EMPTY(&list->runs))
		carved = nam__runs_carve(allocator, request->stride, NAM_MEMORY_PUBLIC,
			request->count - reply->count,
			request->reserve ? 0 : allocator->reserve_bytes);
	if (list && !reply->count && !carved.count && held_again(allocator, list))
		reply->count = (uint16_t)take_recycled(allocator, list, owner, reply->blocks,
		most);
	if (carved.count)
		nam__carved_own(allocator, &carved, request->stride, owner);
	reply->free = free_share(allocator);
	pthread_mutex_unlock(&allocator->mutex);
	if (!list)
		return -NAM_E_LIMIT;
	if (!reply->count && !carved.count)
		return -NAM_E_REMOTE_FULL;
	carved_clear(allocator, &carved, request->stride);
	if (carved.dirty && carved.count)
		nam__noted_add(exchange, carved.region, carved.offset,
			(uint64_t)carved.count * request->stride);
	reply->run_count = carved.count;
	reply->run_at = carved.count ? raw_of(allocator, carved.region, carved.offset) : 0;
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) +
		reply->count * sizeof(reply->blocks[0]));
	return 0;
}

static bool
find_block(const struct nam__allocator *allocator, uint64_t raw, const struct nam__stride *list,
	struct nam__block *ret)
{
	uint16_t tag = nam_gaddr_tag(NAM_GADDR(raw));

	return (!tag || tag == NAM_BLOCK_SWEPT) &&
	       nam__block_find(allocator, raw, list->kind, ret) && ret->begins &&
	       ret->run->stride == list->stride;
}

/* `blocks` of that word are free, and their run is listed. */
static void
word_free(struct nam__allocator *allocator, struct nam__stride *list, struct nam__run *run,
	uint32_t word, uint64_t blocks)
{
	uint32_t count = (uint32_t)__builtin_popcountll(blocks);

	run->bits[word].free |= blocks;
	run->free_count += count;
	if (word < run->first_word)
		run->first_word = word;
	if (!run->listed)
		list_add(list, run);
	allocator->memory[list->kind].free_bytes += (uint64_t)count * list->stride;
}

/* A block is free; or, with a label, it waits. */
static int
put_back(struct nam__allocator *allocator, struct nam__stride *list, uint64_t raw, uint64_t label,
	struct nam__run **ret_run)
{
	struct nam__block block;
	struct nam__run *run;
	uint32_t word;
	uint64_t bit;
	int rc;

	if (!find_block(allocator, raw, list, &block))
		return -NAM_E_FABRIC_PROTOCOL;
	*ret_run = run = block.run;
	word = block.number / 64;
	bit = 1ull << block.number % 64;
	rc = nam__run_reserve(run);
	if (rc)
		return rc;
	if ((run->bits[word].free | run->bits[word].waiting) & bit)
		return -NAM_E_FABRIC_PROTOCOL;	/* it came back already */
	run->bits[word].suspect &= ~bit;
	if (nam_gaddr_tag(NAM_GADDR(raw)) == NAM_BLOCK_SWEPT)
		run->bits[word].swept |= bit;
	if (label)
		nam__run_wait(allocator, run, word, bit, label);
	else
		word_free(allocator, list, run, word, bit);
	return 0;
}

/* The block was put back just now. */
static void
take_again(struct nam__allocator *allocator, const struct nam__stride *list, uint64_t raw,
	bool waits)
{
	struct nam_memory_figures *figures = &allocator->memory[list->kind];
	struct nam__block block;
	uint64_t bit;

	if (!find_block(allocator, raw, list, &block))
		return;
	bit = 1ull << block.number % 64;
	if (waits) {
		block.run->bits[block.number / 64].waiting &= ~bit;
		block.run->waiting_count--;
		figures->waiting_bytes -= list->stride;
	} else {
		block.run->bits[block.number / 64].free &= ~bit;
		block.run->free_count--;
		figures->free_bytes -= list->stride;
	}
}

/* All blocks or none.  A run whose blocks are taken again stays in the list, without free ones. */
int
nam__service_free(struct nam__exchange *exchange)
{
	const struct nam_rpc_free_request *request = exchange->body;
	struct nam__allocator *allocator = &exchange->server->allocator;
	const uint64_t *blocks = request->blocks;
	struct nam__stride *list;
	struct nam__run *run;
	uint32_t done = 0;
	int rc;

	if (!nam__stride_valid(request->stride) || !request->count ||
		exchange->body_bytes != sizeof(*request) +
			(uint64_t)request->count * sizeof(blocks[0]))
		return -NAM_E_FABRIC_PROTOCOL;
	NAM__SCOPED_LOCK(&allocator->mutex);
	list = nam__stride_of(allocator, request->stride, NAM_MEMORY_PUBLIC, false);
	rc = list ? 0 : -NAM_E_FABRIC_PROTOCOL;
	for (; !rc && done < request->count; done += !rc)
		rc = put_back(allocator, list, blocks[done], request->label, &run);
	while (rc && done-- > 0)
		take_again(allocator, list, blocks[done], request->label != 0);
	return rc;
}

void
nam__allocator_give(struct nam__allocator *allocator, uint32_t stride, enum nam_memory_kind kind,
	const uint64_t *blocks, uint32_t count)
{
	struct nam__stride *list;
	struct nam__run *run;
	bool vacated = false;

	NAM__SCOPED_LOCK(&allocator->mutex);
	list = nam__stride_of(allocator, stride, kind, false);
	/* Blocks that cannot be noted for want of memory stay allocated. */
	for (uint32_t i = 0; list && i < count; i++) {
		if (put_back(allocator, list, blocks[i], 0, &run) || kind != NAM_MEMORY_PRIVATE ||
			run->free_count < run->count)
			continue;
		/* No client knows its address, and handlers are done with it (M10). */
		list_remove(run);
		nam__run_vacate(allocator, run);
		vacated = true;
	}
	for (uint32_t i = 0; vacated && i < allocator->regions_count; i++)
		nam__runs_merge(&allocator->regions[i]);
}

static void
announce(struct nam__alloc_region *region, enum nam_memory_kind kind, uint64_t batch)
{
	region->turning = batch;
	atomic_store_explicit(&region->announced, kind, memory_order_relaxed);
}

/* No block of the region is used, or could be: its runs are held or vacant. */
static bool
region_may_leave(const struct nam__alloc_region *region)
{
	if (region->kind == NAM_MEMORY_PRIVATE || region->pinned || region->turning)
		return false;
	for (uint32_t i = 0; i < region->runs_count; i++)
		if (region->runs[i]->stride && !region->runs[i]->batch)
			return false;
	return region->runs_count > 0;
}

/*
 * Clients are told that regions without used blocks are private.  For private memory these are half
 * of them, from the back, since clients may soon want memory as well.  For public memory they are
 * all those that are read-only.
 */
static void
regions_leave(struct nam__allocator *allocator, enum nam_memory_kind want)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < allocator->regions_count; i++)
		left += region_may_leave(&allocator->regions[i]);
	if (want == NAM_MEMORY_PRIVATE)
		left = (left + 1) / 2;
	for (uint32_t i = allocator->regions_count; i-- > 0 && left;) {
		struct nam__alloc_region *region = &allocator->regions[i];

		if (region->kind == want || !region_may_leave(region))
			continue;
		announce(region, NAM_MEMORY_PRIVATE, allocator->batch);
		left--;
	}
}

/* A region that is private, without blocks; or of that kind, but clients were told otherwise. */
static bool
may_restore(const struct nam__alloc_region *region, enum nam_memory_kind kind)
{
	return nam__region_announced(region) == NAM_MEMORY_PRIVATE && region->runs_count &&
	       region->turning != NAM__RESTORING &&
	       (region->kind == kind ||
		       (region->kind == NAM_MEMORY_PRIVATE && !region->carved_bytes));
}

/*
 * Clients are told that such a region is of that kind.  A private one gets all its pages, a second
 * per GiB, without the mutex.  False: there is no memory.
 */
static bool
region_restore(struct nam__allocator *allocator, uint32_t number, enum nam_memory_kind kind)
{
	struct nam__alloc_region *region = &allocator->regions[number];
	int rc = 0;

	if (!may_restore(region, kind))
		return false;
	if (region->kind == NAM_MEMORY_PRIVATE) {
		region->turning = NAM__RESTORING;
		pthread_mutex_unlock(&allocator->mutex);
		rc = allocator->calls.restore(allocator->calls.arg, number, kind);
		pthread_mutex_lock(&allocator->mutex);
	}
	region->turning = 0;
	/* Other HOLDs may have been answered meanwhile: a batch that none of them has. */
	if (!rc)
		announce(region, kind, ++allocator->batch);
	return !rc;
}

static uint64_t
room_of(const struct nam__alloc_region *region, uint32_t stride)
{
	return (region->bytes - NAM_GADDR_UNIT_BYTES) / stride;
}

/* Blocks of that stride that there are or could be, once all regions are what they are to be. */
static uint64_t
read_only_room(const struct nam__allocator *allocator, uint32_t stride)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < allocator->regions_count; i++) {
		const struct nam__alloc_region *region = &allocator->regions[i];

		/* Once it is private, it may become read-only. */
		if (region->kind == NAM_MEMORY_PUBLIC &&
			nam__region_announced(region) == NAM_MEMORY_PRIVATE)
			count += room_of(region, stride);
		for (uint32_t k = 0; nam__region_announced(region) == NAM_MEMORY_READ_ONLY &&
			k < region->runs_count; k++) {
			const struct nam__run *run = region->runs[k];

			if (!run->stride || run->stride == stride)
				count += run->stride ? run->free_count : run->bytes / stride;
		}
	}
	return count;
}

static bool
may_be_read_only(const struct nam__alloc_region *region)
{
	return may_restore(region, NAM_MEMORY_READ_ONLY) ||
	       (region->kind == NAM_MEMORY_PUBLIC && region_may_leave(region));
}

/*
 * As many regions become read-only, from the back, as so many blocks need; or none.  If one has had
 * blocks of clients, they are told first that it is private, and the next HOLD finds it so.
 */
static void
regions_read_only(struct nam__allocator *allocator, uint32_t stride, uint64_t count)
{
	uint64_t deadline = nam_now_ns() + RESTORE_NS, room = read_only_room(allocator, stride);
	uint64_t possible = room;

	for (uint32_t i = 0; i < allocator->regions_count; i++)
		if (may_be_read_only(&allocator->regions[i]))
			possible += room_of(&allocator->regions[i], stride);
	if (possible < count)
		return;
	for (uint32_t i = allocator->regions_count;
		i-- > 0 && room < count && nam_now_ns() < deadline;) {
		struct nam__alloc_region *region = &allocator->regions[i];

		if (!may_be_read_only(region))
			continue;
		if (nam__region_unseen(region) && !nam__region_make_private(allocator, i))
			continue;
		if (region->kind == NAM_MEMORY_PUBLIC)
			announce(region, NAM_MEMORY_PRIVATE, allocator->batch);
		else if (!region_restore(allocator, i, NAM_MEMORY_READ_ONLY))
			continue;
		room += room_of(region, stride);
	}
}

static void
run_free_waiting(struct nam__allocator *allocator, struct nam__run *run)
{
	struct nam__stride *list = nam__stride_of(allocator, run->stride, NAM_MEMORY_PUBLIC, false);

	for (uint32_t word = 0; word < run->words; word++) {
		if (run->bits[word].waiting)
			word_free(allocator, list, run, word, run->bits[word].waiting);
		run->bits[word].waiting = 0;
	}
	allocator->memory[NAM_MEMORY_PUBLIC].waiting_bytes -=
		(uint64_t)run->waiting_count * run->stride;
	run->waiting_count = 0;
}

/* C9, M14: blocks that wait become free once no reader can see them.  Returns their bytes. */
static uint64_t
waiting_free(struct nam__allocator *allocator, uint64_t oldest)
{
	uint64_t *waiting = &allocator->memory[NAM_MEMORY_PUBLIC].waiting_bytes, before = *waiting;

	for (uint32_t i = 0; i < allocator->regions_count && *waiting; i++) {
		for (uint32_t k = 0; k < allocator->regions[i].runs_count; k++) {
			struct nam__run *run = allocator->regions[i].runs[k];

			if (!run->waiting_count || (NAM_GUARD(FREE_LATER_WAIT) &&
				nam_epoch_ahead(oldest, run->label) <= 0))
				continue;
			run_free_waiting(allocator, run);
		}
	}
	return before - *waiting;
}

static void
hold(struct nam__allocator *allocator, const struct nam_rpc_reclaim_request *request,
	struct nam_rpc_reclaim_reply *reply)
{
	struct nam__run *run, *next;
	uint64_t deadline;

	reply->freed_bytes = waiting_free(allocator, request->oldest);
	reply->waiting_bytes = allocator->memory[NAM_MEMORY_PUBLIC].waiting_bytes;
	allocator->batch++;
	for (uint32_t i = 0; i < allocator->strides_count; i++) {
		struct nam__stride *list = &allocator->strides[i];

		for (run = list->kind == NAM_MEMORY_PRIVATE ? NULL : LIST_FIRST(&list->runs); run;
			run = next) {
			next = LIST_NEXT(run, link);
			if (run->free_count < run->count)
				continue;
			list_remove(run);
			run->batch = allocator->batch;
			LIST_INSERT_HEAD(&allocator->held, run, link);
		}
	}
	if (request->want == NAM_MEMORY_READ_ONLY)
		regions_read_only(allocator, request->stride, request->count);
	else
		regions_leave(allocator, request->want);
	/* Regions that the server does not need any more; the next HOLD goes on from there. */
	deadline = nam_now_ns() + RESTORE_NS;
	for (uint32_t i = 0; request->want == NAM_MEMORY_PUBLIC && i < allocator->regions_count &&
		nam_now_ns() < deadline; i++)
		(void)region_restore(allocator, i, NAM_MEMORY_PUBLIC);
	LIST_FOREACH(run, &allocator->held, link)
		reply->bytes += run->bytes;
	for (uint32_t i = 0; i < allocator->regions_count; i++)
		if (allocator->regions[i].turning &&
			allocator->regions[i].turning != NAM__RESTORING)
			reply->bytes += allocator->regions[i].bytes;
	reply->batch = reply->bytes ? allocator->batch : 0;
}

/* No client has addresses there, or asks for old ones. */
static void
region_turn(struct nam__allocator *allocator, uint32_t number)
{
	struct nam__alloc_region *region = &allocator->regions[number];
	struct nam__run *run;

	region->turning = 0;
	if (nam__region_announced(region) == region->kind)
		return;
	if (nam__region_announced(region) == NAM_MEMORY_PRIVATE) {
		(void)nam__region_make_private(allocator, number);
	} else {
		nam__region_set_kind(allocator, region, nam__region_announced(region));
		LIST_FOREACH(run, &region->vacant, link)
			run->dirty = false;
	}
}

static void
give_up_held(struct nam__allocator *allocator, uint64_t batch, struct nam_rpc_reclaim_reply *reply)
{
	struct nam__run *run, *next;

	for (run = LIST_FIRST(&allocator->held); run; run = next) {
		next = LIST_NEXT(run, link);
		if (run->batch > batch)
			continue;
		reply->bytes += run->bytes;
		LIST_REMOVE(run, link);
		nam__run_vacate(allocator, run);
	}
	for (uint32_t i = 0; i < allocator->regions_count; i++) {
		struct nam__alloc_region *region = &allocator->regions[i];

		if (region->turning && region->turning <= MIN(batch, NAM__RESTORING - 1)) {
			reply->bytes += region->bytes;
			region_turn(allocator, i);
		}
		nam__runs_merge(region);
	}
}

int
nam__service_reclaim(struct nam__exchange *exchange)
{
	const struct nam_rpc_reclaim_request *request = exchange->body;
	struct nam__allocator *allocator = &exchange->server->allocator;
	struct nam_rpc_reclaim_reply *reply = exchange->reply;
	bool returns = request->step == NAM_RPC_RECLAIM_RETURN;

	if ((!returns && request->step != NAM_RPC_RECLAIM_HOLD) ||
		request->want > (returns ? 0 : NAM_MEMORY_READ_ONLY) ||
		(request->want == NAM_MEMORY_READ_ONLY) != (request->count != 0) ||
		(request->count ? !nam__stride_valid(request->stride) : request->stride != 0) ||
		returns != (request->batch != 0) || returns == (request->oldest != 0))
		return -NAM_E_FABRIC_PROTOCOL;
	memset(reply, 0, sizeof(*reply));
	exchange->reply_bytes = sizeof(*reply);
	NAM__SCOPED_LOCK(&allocator->mutex);
	if (returns)
		give_up_held(allocator, request->batch, reply);
	else
		hold(allocator, request, reply);
	return 0;
}
