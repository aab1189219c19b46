/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c -- blocks that another memory server of the same id and regions has handed out (M24).
 *
 * Where a run has such blocks already, they become used.  Vacant memory becomes a run.  If blocks
 * of other runs are in the way, the other memory server has made these vacant: they are cut out
 * first.
 *
 * A stretch of blocks is placed as a whole or not at all: memory for all new runs is there before
 * anything changes.  All but nam__allocator_place() need the mutex.
 */
#include "memserver/services/runs.h"

#define PARTS_MAX 5u

/* Blocks of one stride that lie one behind the other. */
struct extent {
	struct nam__alloc_region *region;
	uint32_t number;		/* of the region */
	uint32_t stride;
	uint32_t count;
	uint64_t at;
};

/*
 * The new runs replace the runs `first` up to `behind`.  Each may be missing.  In order: blocks
 * left of the first run, vacant memory, the blocks, vacant memory, blocks left of the last run.
 */
struct change {
	uint32_t first, behind;
	uint64_t at, end;		/* the blocks */
	uint64_t before_at;		/* vacant up to `at` */
	uint64_t after_end;		/* vacant from `end` on */
	uint32_t left_count;		/* of blocks of the first run */
	uint32_t right_from;		/* and of the last run: this one and those behind it */
	bool after_dirty;
	struct nam__run *cut, *last;	/* the first and the last run, as they are */
	struct nam__run *grows;		/* the blocks come to this run before it; or NULL */
	struct nam__run *before, *blocks, *after, *right;	/* new ones; NULL: missing */
};

/* Whether the run has blocks of that stride, one of which begins there if it has that byte. */
static bool
run_fits(const struct nam__run *run, uint32_t stride, uint64_t at)
{
	return run->stride == stride && (at > run->offset ? at - run->offset :
		run->offset - at) % stride == 0;
}

/* `count` blocks of a run, from `from` on, are used. */
static void
run_use(struct nam__allocator *allocator, struct nam__run *run, uint32_t from, uint32_t count)
{
	uint32_t end = MIN(from + count, run->words * 64);

	if (from >= end)
		return;
	nam__run_leave(allocator, run);
	for (uint32_t i = from; i < end; i++) {
		struct nam__run_bits *bits = &run->bits[i / 64];
		uint64_t bit = 1ull << i % 64;

		run->free_count -= (bits->free & bit) != 0;
		run->waiting_count -= (bits->waiting & bit) != 0;
		bits->free &= ~bit;
		bits->waiting &= ~bit;
		bits->suspect &= ~bit;
		bits->swept &= ~bit;
		run->owners[i] = 0;
	}
	run->batch = 0;
	nam__run_enter(allocator, run);
}

static void
run_recount(struct nam__run *run)
{
	run->bytes = (uint64_t)run->count * run->stride;
	run->free_count = run->waiting_count = run->first_word = 0;
	for (uint32_t word = 0; word < run->words; word++) {
		run->free_count += (uint32_t)__builtin_popcountll(run->bits[word].free);
		run->waiting_count += (uint32_t)__builtin_popcountll(run->bits[word].waiting);
	}
}

/* Only the first blocks are left, at least one.  Bits behind theirs are zero. */
static void
run_shorten(struct nam__run *run, uint32_t count)
{
	uint32_t words = (count + 63) / 64;

	run->count = count;
	if (run->words >= words) {
		struct nam__run_bits *last = &run->bits[words - 1];
		uint64_t kept = count % 64 ? (1ull << count % 64) - 1 : UINT64_MAX;

		run->words = words;
		last->free &= kept;
		last->waiting &= kept;
		last->suspect &= kept;
		last->named &= kept;
		last->swept &= kept;
		memset(run->owners + count, 0, (words * 64ul - count) * sizeof(run->owners[0]));
	}
	run_recount(run);
}

static uint64_t
shifted(uint64_t low, uint64_t high, uint32_t by)
{
	return by ? low >> by | high << (64 - by) : low;
}

/* The bits of 64 blocks from that one on. */
static struct nam__run_bits
bits_from(const struct nam__run *run, uint32_t number)
{
	static const struct nam__run_bits none;
	uint32_t word = number / 64, by = number % 64;
	const struct nam__run_bits *low = word < run->words ? &run->bits[word] : &none;
	const struct nam__run_bits *high = word + 1 < run->words ? low + 1 : &none;

	return (struct nam__run_bits){
		.free = shifted(low->free, high->free, by),
		.waiting = shifted(low->waiting, high->waiting, by),
		.suspect = shifted(low->suspect, high->suspect, by),
		.named = shifted(low->named, high->named, by),
		.swept = shifted(low->swept, high->swept, by),
	};
}

/* A copy of a run, from that block on.  NULL: no memory. */
static struct nam__run *
run_rear(const struct nam__run *run, uint32_t from)
{
	struct nam__run *rear = nam__run_new(run->region, run->offset +
		(uint64_t)from * run->stride, run->offset + run->bytes, run->stride, false);
	uint32_t known = run->words * 64;	/* so many owners */

	if (!rear)
		return NULL;
	rear->batch = run->batch;
	rear->label = run->label;
	if (run->words && nam__run_reserve(rear)) {
		nam__run_free(rear);
		return NULL;
	}
	for (uint32_t word = 0; word < rear->words; word++)
		rear->bits[word] = bits_from(run, from + 64 * word);
	if (rear->words && from < known)
		memcpy(rear->owners, run->owners + from,
			MIN(known - from, rear->count) * sizeof(rear->owners[0]));
	run_recount(rear);
	return rear;
}

/* The run before `number` takes more blocks, which begin where it ends. */
static bool
run_grows(const struct nam__allocator *allocator, const struct extent *extent, uint32_t number)
{
	const struct nam__run *run = number ? extent->region->runs[number - 1] : NULL;

	return run && run->stride == extent->stride && !run->batch &&
	       run->offset + run->bytes == extent->at &&
	       run->count < nam__run_most(allocator, extent->stride);
}

/*
 * The change for as many of the first blocks of the extent as fit into one run.  It ends before a
 * run that has the next ones.  The run `number` does not have the first one.
 */
static struct change
change_plan(const struct nam__allocator *allocator, const struct extent *extent, uint32_t number)
{
	struct nam__run *const *runs = extent->region->runs;
	struct change change = { .first = number, .behind = number, .at = extent->at,
		.before_at = extent->at, .cut = runs[number] };
	uint32_t most = nam__run_most(allocator, extent->stride);

	if (run_grows(allocator, extent, number)) {
		change.grows = runs[number - 1];
		most -= change.grows->count;
	}
	change.end = change.at + MIN(most, extent->count) * (uint64_t)extent->stride;
	while (change.behind < extent->region->runs_count &&
		runs[change.behind]->offset < change.end) {
		if (run_fits(runs[change.behind], extent->stride, change.at))
			change.end = runs[change.behind]->offset;
		else
			change.last = runs[change.behind++];
	}
	return change;
}

/* The rest of runs before the blocks, and behind them.  Vacant neighbours become one run. */
static void
change_bound(struct change *change, const struct nam__alloc_region *region)
{
	const struct nam__run *cut = change->cut, *last = change->last, *next;
	uint64_t rear = change->end - last->offset;

	change->left_count = cut->stride ? (uint32_t)((change->at - cut->offset) / cut->stride) : 0;
	change->before_at = cut->offset + (uint64_t)change->left_count * cut->stride;
	if (change->before_at < change->at && !change->left_count && change->first) {
		next = region->runs[change->first - 1];
		if (!next->stride && next->dirty) {
			change->before_at = next->offset;
			change->first--;
		}
	}
	change->right_from = last->stride ?
		(uint32_t)((rear + last->stride - 1) / last->stride) : 0;
	change->after_end = last->offset + (last->stride ?
		(uint64_t)change->right_from * last->stride : last->bytes);
	change->after_dirty = last->stride || last->dirty;
	if (change->end < change->after_end && change->right_from == last->count &&
		change->behind < region->runs_count) {
		next = region->runs[change->behind];
		if (!next->stride && next->dirty == change->after_dirty) {
			change->after_end += next->bytes;
			change->behind++;
		}
	}
}

/*
 * All new runs: 0, -ENOMEM or -NAM_E_LIMIT.  The vacant part before the blocks counts as dirty, so
 * clean ones stay within the number of the runs (M8).
 */
static int
change_reserve(const struct nam__allocator *allocator, const struct extent *extent,
	struct change *change)
{
	bool has_right = change->right_from < change->last->count, ok = true;
	struct nam__alloc_region *region = extent->region;
	struct nam__run **list;
	uint32_t number = extent->number, runs = allocator->runs_count +
		(change->left_count != 0) + has_right + !change->grows;

	for (uint32_t i = change->first; i < change->behind; i++)
		runs -= region->runs[i]->stride != 0;
	if (runs > NAM__RUNS_MAX)
		return -NAM_E_LIMIT;
	if (change->before_at < change->at)
		ok &= (change->before = nam__run_new(number, change->before_at, change->at, 0,
			true)) != NULL;
	if (!change->grows)
		ok &= (change->blocks = nam__run_new(number, change->at, change->end,
			extent->stride, false)) != NULL;
	if (change->end < change->after_end)
		ok &= (change->after = nam__run_new(number, change->end, change->after_end, 0,
			change->after_dirty)) != NULL;
	if (has_right)
		ok &= (change->right = run_rear(change->last, change->right_from)) != NULL;
	list = nam__array_grown(region->runs, &region->runs_size, region->runs_count + PARTS_MAX,
		sizeof(list[0]));
	region->runs = list ?: region->runs;
	if (list && ok)
		return 0;
	free(change->before);
	free(change->blocks);
	free(change->after);
	if (change->right)
		nam__run_free(change->right);
	return -ENOMEM;
}

static void
change_do(struct nam__allocator *allocator, struct nam__alloc_region *region,
	const struct change *change)
{
	struct nam__run *parts[PARTS_MAX] = { change->left_count ? change->cut : NULL,
		change->before, change->blocks, change->after, change->right };
	uint32_t at = change->first, behind = change->behind, count = 0;

	for (uint32_t i = at; i < behind; i++) {
		struct nam__run *run = region->runs[i];

		nam__run_leave(allocator, run);
		if (run != parts[0])
			nam__run_free(run);
	}
	if (change->left_count)
		run_shorten(change->cut, change->left_count);
	for (uint32_t i = 0; i < PARTS_MAX; i++)
		count += parts[i] != NULL;
	memmove(&region->runs[at + count], &region->runs[behind],
		(region->runs_count - behind) * sizeof(region->runs[0]));
	region->runs_count += count - (behind - at);
	for (uint32_t i = 0; i < PARTS_MAX; i++) {
		if (!parts[i])
			continue;
		region->runs[at++] = parts[i];
		nam__run_enter(allocator, parts[i]);
	}
	if (change->grows) {
		uint64_t bytes = change->end - change->at;

		change->grows->bytes += bytes;
		change->grows->count += (uint32_t)(bytes / change->grows->stride);
		region->carved_bytes += bytes;
		allocator->memory[region->kind].carved_bytes += bytes;
	}
}

/* Two runs that have no bits, and so are in no list, become one if that is not too long. */
static void
runs_join(struct nam__allocator *allocator, struct nam__alloc_region *region, uint64_t at)
{
	uint32_t number = nam__run_find(region, at);
	struct nam__run *run = region->runs[number], *next = number + 1 < region->runs_count ?
		region->runs[number + 1] : NULL;

	if (!next || next->stride != run->stride || run->words || next->words ||
		run->count + next->count > nam__run_most(allocator, run->stride))
		return;
	run->bytes += next->bytes;
	run->count += next->count;
	nam__run_free(next);
	allocator->runs_count--;
	region->runs_count--;
	memmove(&region->runs[number + 1], &region->runs[number + 2],
		(region->runs_count - number - 1) * sizeof(region->runs[0]));
}

/* All blocks of it are used; or, with -ENOMEM and -NAM_E_LIMIT, some from the front. */
static int
extent_place(struct nam__allocator *allocator, struct extent extent)
{
	struct nam__alloc_region *region = extent.region;

	while (extent.count) {
		uint32_t number = nam__run_find(region, extent.at), count;
		struct nam__run *run = region->runs[number];
		struct change change;
		int rc;

		if (run_fits(run, extent.stride, extent.at)) {
			uint32_t from = (uint32_t)((extent.at - run->offset) / extent.stride);

			count = MIN(run->count - from, extent.count);
			run_use(allocator, run, from, count);
		} else {
			change = change_plan(allocator, &extent, number);
			change_bound(&change, region);
			rc = change_reserve(allocator, &extent, &change);
			if (rc)
				return rc;
			change_do(allocator, region, &change);
			runs_join(allocator, region, change.at);
			count = (uint32_t)((change.end - change.at) / extent.stride);
		}
		extent.at += (uint64_t)count * extent.stride;
		extent.count -= count;
	}
	return 0;
}

static int
extent_find(struct nam__allocator *allocator, uint64_t raw, uint32_t stride, uint32_t count,
	struct extent *ret)
{
	struct nam_gaddr at = { raw };
	uint32_t number = (uint32_t)nam_gaddr_region(at) - allocator->first_region_id;
	uint64_t offset = nam_gaddr_offset(at);
	struct nam__alloc_region *region;

	if (number >= allocator->regions_count)
		return -NAM_E_FABRIC_PROTOCOL;
	region = &allocator->regions[number];
	if (region->kind != NAM_MEMORY_PUBLIC)
		return -NAM_E_REGIONS;
	if (offset < region->runs[0]->offset || offset > region->bytes ||
		(uint64_t)count * stride > region->bytes - offset)
		return -NAM_E_FABRIC_PROTOCOL;
	*ret = (struct extent){ region, number, stride, count, offset };
	return 0;
}

/* The run of fresh blocks, or one of the others. */
static int
extent_at(struct nam__allocator *allocator, uint32_t stride, uint64_t raw, uint32_t count,
	bool places)
{
	struct extent extent;
	int rc = extent_find(allocator, raw, stride, count, &extent);

	if (rc || !places)
		return rc;
	/* If it was about to leave, the other memory server has it public again. */
	extent.region->turning = 0;
	atomic_store_explicit(&extent.region->announced, NAM_MEMORY_PUBLIC, memory_order_relaxed);
	extent.region->had_blocks = true;
	return extent_place(allocator, extent);
}

/* Looks at all, or places all. */
static int
blocks_each(struct nam__allocator *allocator, uint32_t stride, uint64_t run_at, uint32_t run_count,
	const uint64_t *blocks, uint32_t count, bool places)
{
	int rc = run_count ? extent_at(allocator, stride, run_at, run_count, places) : 0;

	for (uint32_t i = 0; i < count && !rc; i++) {
		uint16_t tag = nam_gaddr_tag(NAM_GADDR(blocks[i]));

		rc = tag && tag != NAM_BLOCK_SWEPT ? -NAM_E_FABRIC_PROTOCOL :
			extent_at(allocator, stride, blocks[i], 1, places);
	}
	return rc;
}

int
nam__allocator_place(struct nam__allocator *allocator, uint32_t stride, uint64_t run_at,
	uint32_t run_count, const uint64_t *blocks, uint32_t count)
{
	int rc;

	if (!nam__stride_valid(stride) || !run_at != !run_count || (!run_count && !count) ||
		run_count > NAM__ALLOC_COUNT_MAX || nam_gaddr_tag(NAM_GADDR(run_at)))
		return -NAM_E_FABRIC_PROTOCOL;
	NAM__SCOPED_LOCK(&allocator->mutex);
	rc = blocks_each(allocator, stride, run_at, run_count, blocks, count, false);
	if (rc)
		return rc;
	/* FREE looks for the list. */
	if (!nam__stride_of(allocator, stride, NAM_MEMORY_PUBLIC, true))
		return -NAM_E_LIMIT;
	return blocks_each(allocator, stride, run_at, run_count, blocks, count, true);
}
