/* SPDX-License-Identifier: Apache-2.0 */
#include "memserver/services/runs.h"

struct nam__run *
nam__run_new(uint32_t region, uint64_t offset, uint64_t end, uint32_t stride, bool dirty)
{
	struct nam__run *run = malloc(sizeof(*run));

	if (run)
		*run = (struct nam__run){ .offset = offset, .bytes = end - offset,
			.region = region, .stride = stride, .dirty = dirty,
			.count = stride ? (uint32_t)((end - offset) / stride) : 0 };
	return run;
}

int
nam__runs_init(struct nam__alloc_region *region, uint32_t number, uint64_t from)
{
	struct nam__run *run = nam__run_new(number, from, region->bytes, 0, false);

	region->runs_size = 0;
	region->runs = nam__array_grown(NULL, &region->runs_size, 1, sizeof(region->runs[0]));
	LIST_INIT(&region->vacant);
	if (!run || !region->runs) {
		free(run);
		return -ENOMEM;
	}
	region->runs[0] = run;
	region->runs_count = 1;
	LIST_INSERT_HEAD(&region->vacant, run, link);
	return 0;
}

void
nam__run_free(struct nam__run *run)
{
	free(run->bits);
	free(run->owners);
	free(run);
}

void
nam__runs_free(struct nam__alloc_region *region)
{
	for (uint32_t i = 0; i < region->runs_count; i++)
		nam__run_free(region->runs[i]);
	free(region->runs);
	region->runs = NULL;
	region->runs_count = 0;
	LIST_INIT(&region->vacant);
}

uint32_t
nam__run_find(const struct nam__alloc_region *region, uint64_t offset)
{
	uint32_t low = 0, high = region->runs_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (region->runs[middle]->offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || offset - region->runs[low - 1]->offset >= region->runs[low - 1]->bytes)
		return UINT32_MAX;
	return low - 1;
}

bool
nam__block_find(const struct nam__allocator *allocator, uint64_t raw, enum nam_memory_kind kind,
	struct nam__block *ret)
{
	uint32_t index = nam_gaddr_region(NAM_GADDR(raw)) - allocator->first_region_id, number;
	uint64_t offset = nam_gaddr_offset(NAM_GADDR(raw));
	const struct nam__alloc_region *region;
	struct nam__run *run;

	*ret = (struct nam__block){ .run = NULL };
	if (index >= allocator->regions_count)
		return false;
	region = &allocator->regions[index];
	number = region->kind == kind ? nam__run_find(region, offset) : UINT32_MAX;
	run = number == UINT32_MAX ? NULL : region->runs[number];
	if (run && run->stride)
		*ret = (struct nam__block){ run, (uint32_t)((offset - run->offset) / run->stride),
			(offset - run->offset) % run->stride == 0 };
	return true;
}

int
nam__run_reserve(struct nam__run *run)
{
	uint32_t words = (run->count + 63) / 64, more = words - run->words;
	struct nam__run_bits *bits;
	uint16_t *owners;

	if (!more)
		return 0;
	bits = realloc(run->bits, words * sizeof(bits[0]));
	if (bits)
		run->bits = bits;
	owners = realloc(run->owners, words * 64ul * sizeof(owners[0]));
	if (owners)
		run->owners = owners;
	if (!bits || !owners)
		return -ENOMEM;
	memset(bits + run->words, 0, more * sizeof(bits[0]));
	memset(owners + run->words * 64ul, 0, more * 64ul * sizeof(owners[0]));
	run->words = words;
	return 0;
}

struct nam__stride *
nam__stride_of(struct nam__allocator *allocator, uint32_t stride, enum nam_memory_kind kind,
	bool add)
{
	struct nam__stride *list;

	for (uint32_t i = 0; i < allocator->strides_count; i++) {
		list = &allocator->strides[i];
		if (list->stride == stride && list->kind == kind)
			return list;
	}
	if (!add || allocator->strides_count == NAM__STRIDES_MAX)
		return NULL;
	list = &allocator->strides[allocator->strides_count++];
	*list = (struct nam__stride){ .stride = stride, .kind = kind };
	LIST_INIT(&list->runs);
	return list;
}

static void
run_figure(struct nam__allocator *allocator, const struct nam__run *run, bool in)
{
	struct nam__alloc_region *region = &allocator->regions[run->region];
	struct nam_memory_figures *figures = &allocator->memory[region->kind];
	uint64_t sign = in ? 1 : UINT64_MAX;	/* -1 */

	region->carved_bytes += sign * run->bytes;
	figures->carved_bytes += sign * run->bytes;
	figures->free_bytes += sign * run->free_count * run->stride;
	figures->waiting_bytes += sign * run->waiting_count * run->stride;
	allocator->runs_count += (uint32_t)sign;
}

void
nam__run_enter(struct nam__allocator *allocator, struct nam__run *run)
{
	struct nam__stride *list;

	if (!run->stride) {
		LIST_INSERT_HEAD(&allocator->regions[run->region].vacant, run, link);
		return;
	}
	run_figure(allocator, run, true);
	list = nam__stride_of(allocator, run->stride, NAM_MEMORY_PUBLIC, true);
	run->listed = !run->batch && run->free_count && list;
	if (run->batch)
		LIST_INSERT_HEAD(&allocator->held, run, link);
	else if (run->listed)
		LIST_INSERT_HEAD(&list->runs, run, link);
}

void
nam__run_leave(struct nam__allocator *allocator, struct nam__run *run)
{
	if (!run->stride || run->listed || run->batch)
		LIST_REMOVE(run, link);
	run->listed = false;
	if (run->stride)
		run_figure(allocator, run, false);
}

/* A new run of `stride` without blocks, before run `number`; NULL: no room, or no memory. */
static struct nam__run *
run_insert(struct nam__allocator *allocator, struct nam__alloc_region *region, uint32_t number,
	uint32_t stride)
{
	const struct nam__run *next = region->runs[number];
	struct nam__run *run, **runs;

	if (allocator->runs_count == NAM__RUNS_MAX)
		return NULL;
	runs = nam__array_grown(region->runs, &region->runs_size, region->runs_count + 1,
		sizeof(runs[0]));
	if (!runs)
		return NULL;
	region->runs = runs;
	run = nam__run_new(next->region, next->offset, next->offset, stride, false);
	if (!run)
		return NULL;
	memmove(&region->runs[number + 1], &region->runs[number],
		(region->runs_count - number) * sizeof(region->runs[0]));
	region->runs[number] = run;
	region->runs_count++;
	allocator->runs_count++;
	return run;
}

/* Up to `count` blocks from the front of a vacant run; the last run before it grows first. */
static uint32_t
carve_from(struct nam__allocator *allocator, struct nam__alloc_region *region,
	struct nam__run *vacant, uint32_t stride, uint32_t count)
{
	uint32_t most = nam__run_most(allocator, stride);
	uint32_t number = nam__run_find(region, vacant->offset), done = 0;
	struct nam__run *run = number ? region->runs[number - 1] : NULL;

	while (done < count) {
		uint32_t more;

		if (!run || run->stride != stride || run->batch || run->count >= most) {
			run = run_insert(allocator, region, number, stride);
			if (!run)
				break;
			number++;
		}
		more = MIN(most - run->count, count - done);
		run->count += more;
		run->bytes += (uint64_t)more * stride;
		vacant->offset += (uint64_t)more * stride;
		vacant->bytes -= (uint64_t)more * stride;
		done += more;
	}
	region->carved_bytes += (uint64_t)done * stride;
	region->had_blocks |= region->kind != NAM_MEMORY_PRIVATE;
	allocator->memory[region->kind].carved_bytes += (uint64_t)done * stride;
	if (!vacant->bytes) {
		LIST_REMOVE(vacant, link);
		free(vacant);
		region->runs_count--;
		memmove(&region->runs[number], &region->runs[number + 1],
			(region->runs_count - number) * sizeof(region->runs[0]));
	}
	return done;
}

void
nam__region_set_kind(struct nam__allocator *allocator, struct nam__alloc_region *region,
	enum nam_memory_kind kind)
{
	allocator->memory[region->kind].bytes -= region->bytes;
	allocator->memory[kind].bytes += region->bytes;
	region->kind = kind;
}

bool
nam__region_make_private(struct nam__allocator *allocator, uint32_t number)
{
	struct nam__alloc_region *region = &allocator->regions[number];
	struct nam__run *run;

	nam__region_set_kind(allocator, region, NAM_MEMORY_PRIVATE);
	atomic_store_explicit(&region->announced, NAM_MEMORY_PRIVATE, memory_order_relaxed);
	if (allocator->calls.withdraw(allocator->calls.arg, number)) {
		nam__runs_free(region);
		return false;
	}
	LIST_FOREACH(run, &region->vacant, link)
		run->dirty = false;
	nam__runs_merge(region);
	return true;
}

bool
nam__region_unseen(const struct nam__alloc_region *region)
{
	return region->kind != NAM_MEMORY_PRIVATE && !region->pinned && !region->carved_bytes &&
	       !region->had_blocks && !region->turning;
}

/* Make the last region private that never had blocks for clients.  False: there is none. */
static bool
region_withdraw(struct nam__allocator *allocator)
{
	for (uint32_t i = allocator->regions_count; i-- > 0;) {
		/* M13: if old addresses lead there, clients must be told first. */
		if (nam__region_unseen(&allocator->regions[i]) &&
			nam__region_make_private(allocator, i))
			return true;
	}
	return false;
}

/* The first vacant run of a region with room for a block. */
static struct nam__run *
vacant_for(const struct nam__alloc_region *region, uint32_t stride)
{
	struct nam__run *run, *first = NULL;

	LIST_FOREACH(run, &region->vacant, link)
		if (run->bytes >= stride && (!first || run->offset < first->offset))
			first = run;
	return first;
}

struct nam__carved
nam__runs_carve(struct nam__allocator *allocator, uint32_t stride, enum nam_memory_kind kind,
	uint32_t count, uint64_t keep)
{
	const struct nam_memory_figures *memory = &allocator->memory[kind];
	uint64_t vacant_bytes = memory->bytes - memory->carved_bytes;
	struct nam__carved carved = { .count = 0 };

	if (keep && vacant_bytes < keep + (uint64_t)count * stride)
		count = vacant_bytes > keep ? (uint32_t)((vacant_bytes - keep) / stride) : 0;
	if (!count)
		return carved;
	do {
		for (uint32_t i = 0; i < allocator->regions_count; i++) {
			struct nam__alloc_region *region = &allocator->regions[i];
			struct nam__run *vacant = region->kind == kind && !region->turning ?
				vacant_for(region, stride) : NULL;

			if (!vacant)
				continue;
			carved = (struct nam__carved){ .region = i, .offset = vacant->offset,
				.dirty = vacant->dirty };
			carved.count = carve_from(allocator, region, vacant, stride,
				(uint32_t)MIN(vacant->bytes / stride, count));
			return carved;
		}
	} while (kind == NAM_MEMORY_PRIVATE && region_withdraw(allocator));
	return carved;
}

void
nam__carved_own(struct nam__allocator *allocator, const struct nam__carved *carved, uint32_t stride,
	uint16_t owner)
{
	struct nam__alloc_region *region = &allocator->regions[carved->region];
	uint64_t at = carved->offset, end = at + (uint64_t)carved->count * stride;

	while (at < end) {
		struct nam__run *run = region->runs[nam__run_find(region, at)];
		bool noted = !nam__run_reserve(run);

		for (; at < end && at < run->offset + run->bytes; at += stride)
			if (noted)
				run->owners[(at - run->offset) / stride] = owner;
	}
}

void
nam__run_wait(struct nam__allocator *allocator, struct nam__run *run, uint32_t word,
	uint64_t blocks, uint64_t label)
{
	uint32_t count = (uint32_t)__builtin_popcountll(blocks);

	/* All of a run wait for the newest label, so that no block is free too early. */
	if (!run->waiting_count || nam_epoch_ahead(label, run->label) > 0)
		run->label = label;
	run->bits[word].waiting |= blocks;
	run->waiting_count += count;
	allocator->memory[allocator->regions[run->region].kind].waiting_bytes +=
		(uint64_t)count * run->stride;
}

void
nam__run_vacate(struct nam__allocator *allocator, struct nam__run *run)
{
	run_figure(allocator, run, false);
	free(run->bits);
	free(run->owners);
	*run = (struct nam__run){ .offset = run->offset, .bytes = run->bytes,
		.region = run->region, .dirty = true };
	nam__run_enter(allocator, run);
}

void
nam__runs_merge(struct nam__alloc_region *region)
{
	uint32_t kept = 0;

	for (uint32_t i = 1; i < region->runs_count; i++) {
		struct nam__run *last = region->runs[kept], *run = region->runs[i];

		if (last->stride || run->stride || last->dirty != run->dirty) {
			region->runs[++kept] = run;
			continue;
		}
		last->bytes += run->bytes;
		LIST_REMOVE(run, link);
		free(run);
	}
	if (region->runs_count)
		region->runs_count = kept + 1;
}
