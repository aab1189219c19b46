/* SPDX-License-Identifier: Apache-2.0 */
/* place_fixture.h -- RUNS to a backup, and whether its books are sound afterwards. */
#ifndef NAM_TESTS_UNIT_MEMSERVER_MOVE_PLACE_FIXTURE_H
#define NAM_TESTS_UNIT_MEMSERVER_MOVE_PLACE_FIXTURE_H

#include "memserver/services/runs.h"
#include "move_fixture.h"

#define MEMORY (4ull << 20)
#define REGION (2u << 20)		/* two runs of the longest, and more */
#define STRIDE 1088u
#define SMALL 64u
#define MANY 100u

static inline int
setup(void **state)
{
	*state = server_start(ID, false, MEMORY, REGION);
	return 0;
}

static inline int
teardown(void **state)
{
	server_end(*state);
	return 0;
}

/* ---- requests ------------------------------------------------------------------------------ */

static inline int
place(struct fixture *f, uint32_t stride, uint64_t run_at, uint32_t run_count,
	const uint64_t *blocks, uint32_t count)
{
	uint64_t body[2 + NAM_MOVE_RUNS_MAX] = { 0 };
	struct nam_rpc_move_runs *runs = (void *)body;

	assert_true(count <= NAM_MOVE_RUNS_MAX);
	*runs = (struct nam_rpc_move_runs){ .stride = stride, .run_count = run_count,
		.run_at = run_at };
	if (count)
		memcpy(runs->blocks, blocks, count * sizeof(*blocks));
	return move_step(f, &f->connection, NAM_RPC_MOVE_RUNS, 0, body,
		(uint32_t)(sizeof(*runs) + count * sizeof(*blocks)));
}

static inline uint64_t
address(uint32_t region, uint64_t offset)
{
	return nam_gaddr_make((uint16_t)(ID * NAM_REGIONS_PER_SERVER + region), offset, 0).raw;
}

/* The allocator, which nothing else uses meanwhile. */
static inline struct nam__allocator *
books(struct fixture *f)
{
	return &f->server->allocator;
}

static inline const struct nam_memory_figures *
figures(struct fixture *f)
{
	return &books(f)->memory[NAM_MEMORY_PUBLIC];
}

/* ---- the books are sound ------------------------------------------------------------------- */

static inline bool
listed(const struct nam__run_list *list, const struct nam__run *wanted)
{
	const struct nam__run *run;

	LIST_FOREACH(run, list, link)
		if (run == wanted)
			return true;
	return false;
}

static inline void
check_bits(const struct nam__run *run)
{
	uint32_t free_count = 0, waiting_count = 0;

	assert_true(run->words <= (run->count + 63) / 64);
	for (uint32_t i = 0; i < run->words * 64; i++) {
		const struct nam__run_bits *bits = &run->bits[i / 64];
		uint64_t bit = 1ull << i % 64;

		free_count += (bits->free & bit) != 0;
		waiting_count += (bits->waiting & bit) != 0;
		assert_false(bits->free & bits->waiting & bit);
		assert_true(!(bits->free & bit) || i / 64 >= run->first_word);
		if (i < run->count)
			continue;
		/* More blocks may come here. */
		assert_false((bits->free | bits->waiting | bits->suspect | bits->named |
			bits->swept) & bit);
		assert_int_equal(run->owners[i], 0);
	}
	assert_int_equal(run->free_count, free_count);
	assert_int_equal(run->waiting_count, waiting_count);
}

static inline void
check_run(struct fixture *f, const struct nam__run *run)
{
	struct nam__allocator *allocator = books(f);
	const struct nam__stride *list = nam__stride_of(allocator, run->stride,
		NAM_MEMORY_PUBLIC, false);

	assert_non_null(list);
	assert_int_equal(run->bytes, (uint64_t)run->count * run->stride);
	assert_in_range(run->count, 1, allocator->run_bytes / run->stride ?: 1);
	assert_false(run->dirty);
	check_bits(run);
	if (run->batch) {
		assert_int_equal(run->free_count, run->count);
		assert_false(run->listed);
		assert_true(listed(&allocator->held, run));
	} else {
		assert_true(run->listed || !run->free_count);
		assert_int_equal(run->listed, listed(&list->runs, run));
	}
}

static inline void
check_books(struct fixture *f)
{
	struct nam__allocator *allocator = books(f);
	struct nam_memory_figures sum = { 0 };
	uint32_t with_blocks = 0;

	for (uint32_t i = 0; i < allocator->regions_count; i++) {
		const struct nam__alloc_region *region = &allocator->regions[i];
		uint64_t at = region->runs[0]->offset, carved = 0;

		assert_true(region->runs_count <= region->runs_size);
		for (uint32_t k = 0; k < region->runs_count; at += region->runs[k++]->bytes) {
			const struct nam__run *run = region->runs[k], *last = k ?
				region->runs[k - 1] : NULL;

			assert_int_equal(run->offset, at);
			assert_int_equal(run->region, i);
			assert_true(run->bytes);
			if (!run->stride) {
				assert_true(listed(&region->vacant, run));
				assert_false(last && !last->stride && last->dirty == run->dirty);
				continue;
			}
			check_run(f, run);
			with_blocks++;
			carved += run->bytes;
			sum.free_bytes += (uint64_t)run->free_count * run->stride;
			sum.waiting_bytes += (uint64_t)run->waiting_count * run->stride;
		}
		assert_int_equal(at, region->bytes);
		assert_int_equal(region->carved_bytes, carved);
		assert_true(region->had_blocks || !carved);
		sum.carved_bytes += carved;
	}
	assert_int_equal(allocator->runs_count, with_blocks);
	assert_int_equal(figures(f)->carved_bytes, sum.carved_bytes);
	assert_int_equal(figures(f)->free_bytes, sum.free_bytes);
	assert_int_equal(figures(f)->waiting_bytes, sum.waiting_bytes);
}

#endif /* NAM_TESTS_UNIT_MEMSERVER_MOVE_PLACE_FIXTURE_H */
