/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks.h -- the memory of the raw benchmarks: many blocks, spread over the memory servers, or the
 * same arrangement in local memory.  Every word of block i is raw_pattern(i).
 *
 * The first line of a block is left alone (B5): there an index node has its lock and generation.
 */
#ifndef NAM_BENCH_RAW_BLOCKS_H
#define NAM_BENCH_RAW_BLOCKS_H

#include <stdint.h>

#include "nam.h"

#define BLOCKS_DEFAULT_BYTES (512ull << 20)

/* Blocks that lie one behind the other, `stride` apart. */
struct block_run {
	struct nam_gaddr at;	/* behind the line that is left alone */
	uint64_t first;		/* number of the first block */
};

struct blocks {
	uint32_t bytes;		/* of a block */
	uint32_t stride;
	uint64_t count;
	/* by number of the first block, padded with UINT64_MAX to a power of two: blocks_at() */
	unsigned half;
	uint64_t *firsts;
	struct block_run *runs;
	struct nam_gaddr *all;	/* every block, for giving them back */
	struct nam_worker *worker;	/* that allocated them */
};

static inline uint64_t
raw_pattern(uint64_t block)
{
	return (block + 1) * 0x9e3779b97f4a7c15ull;
}

/* As far apart as index nodes of that size are. */
static inline uint32_t
raw_stride(uint32_t bytes)
{
	return ((bytes + 63) & ~63u) + 64;
}

/* Where block number `block` is: a search without branches, two steps for two servers. */
static inline struct nam_gaddr
blocks_at(const struct blocks *blocks, uint64_t block)
{
	unsigned run = 0;

	for (unsigned step = blocks->half; step; step >>= 1)
		run += blocks->firsts[run + step] <= block ? step : 0;
	return (struct nam_gaddr){ blocks->runs[run].at.raw +
				   (block - blocks->firsts[run]) *
					   (blocks->stride / NAM_GADDR_UNIT_BYTES) };
}

/*
 * Blocks from every server in equal shares.  0, -NAM_E_REMOTE_FULL with a message in *diag,
 * -ENOMEM, or a FABRIC code.
 *
 * @memory_bytes	of remote memory.  Less if the servers have less, but at least 1,000 blocks.
 *			0: a quarter of what they have left, at the most BLOCKS_DEFAULT_BYTES
 */
int blocks_alloc(struct nam_worker *worker, uint32_t servers, uint32_t bytes,
	uint64_t memory_bytes, struct blocks *ret_blocks, struct nam_diag *diag) NAM_MUST_CHECK;

/* No other client has seen the blocks: they go back at once. */
void blocks_free(struct blocks *blocks);

/* Runs of consecutive addresses out of sorted ones; for blocks_alloc() and its test. */
int blocks_arrange(struct blocks *blocks) NAM_MUST_CHECK;

enum arena_pages { ARENA_2M, ARENA_THP, ARENA_4K };

struct arena {
	void *mapping;
	uint64_t mapping_bytes;
	uint8_t *base;
	uint32_t bytes, stride;
	uint64_t count;
	const char *pages;	/* what it is made of: "2M", "thp", "4k" */
};

/*
 * Blocks filled with their patterns.  If there are too few huge pages, the next best kind is taken,
 * and arena->pages says so.
 */
int arena_map(uint32_t bytes, uint64_t count, enum arena_pages pages,
	struct arena *ret_arena) NAM_MUST_CHECK;
void arena_unmap(struct arena *arena);

#endif /* NAM_BENCH_RAW_BLOCKS_H */
