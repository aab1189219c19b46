/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runs.h -- the books of the allocator: each region is a row of runs without gaps.  A run has
 * blocks of one stride, or is vacant.  All functions need the allocator's mutex.
 */
#ifndef NAM_MEMSERVER_SERVICES_RUNS_H
#define NAM_MEMSERVER_SERVICES_RUNS_H

#include "memserver/memserver_internal.h"

/* In place of the batch after which a region turns: it does not have its pages yet. */
#define NAM__RESTORING UINT64_MAX

struct nam__run {
	LIST_ENTRY(nam__run) link;	/* of its stride, of vacant ones, or of held ones */
	uint64_t offset;
	uint64_t bytes;
	uint64_t batch;			/* with which it is held; 0: it is not */
	struct nam__run_bits {
		uint64_t free;		/* set while a block is free */
		uint64_t waiting;	/* set while one waits for readers, as a used one */
		/* sweep.c: */
		uint64_t suspect;	/* nothing has been found that leads to it */
		uint64_t named;		/* a name leads to it */
		uint64_t swept;		/* a sweep freed it, and no client has it since */
	} *bits;			/* NULL until there is one */
	uint16_t *owners;		/* of each block: a client's id; 0: not known */
	uint64_t label;			/* of the last block that came to wait */
	uint32_t region;
	uint32_t stride;		/* 0: vacant */
	uint32_t count;			/* blocks */
	uint32_t words;			/* of bits; owners for 64 blocks each */
	uint32_t free_count;
	uint32_t waiting_count;
	uint32_t first_word;		/* no free block in the words before */
	bool listed;			/* with those of its stride that have free blocks */
	bool dirty;			/* vacant: it has had blocks, so it is not zero */
};

/* The list of a stride; NULL if there is none and, with `add`, no room for another. */
struct nam__stride *nam__stride_of(struct nam__allocator *allocator, uint32_t stride,
	enum nam_memory_kind kind, bool add);

static inline bool
nam__stride_valid(uint32_t stride)
{
	return stride && stride % NAM_GADDR_UNIT_BYTES == 0;
}

/* Make one vacant run from `from` to the end: 0 or -ENOMEM. */
int nam__runs_init(struct nam__alloc_region *region, uint32_t number, uint64_t from) NAM_MUST_CHECK;
void nam__runs_free(struct nam__alloc_region *region);

/* The longest one of that stride, in blocks. */
static inline uint32_t
nam__run_most(const struct nam__allocator *allocator, uint32_t stride)
{
	return (uint32_t)(allocator->run_bytes / stride) ?: 1;
}

/* From `offset` up to `end`, without bits, in no list.  NULL: no memory. */
struct nam__run *nam__run_new(uint32_t region, uint64_t offset, uint64_t end, uint32_t stride,
	bool dirty);
void nam__run_free(struct nam__run *run);
/* A vacant run, or a public one whose counts are right, comes into its list and the figures. */
void nam__run_enter(struct nam__allocator *allocator, struct nam__run *run);
/* The run leaves its list and the figures. */
void nam__run_leave(struct nam__allocator *allocator, struct nam__run *run);

/* Number of the run that has the byte at `offset`, or UINT32_MAX. */
uint32_t nam__run_find(const struct nam__alloc_region *region, uint64_t offset);

/* A block by the address of one of its bytes. */
struct nam__block {
	struct nam__run *run;		/* of that kind of memory; NULL: there is no block */
	uint32_t number;		/* in the run */
	bool begins;			/* that byte is its first one */
};

/* False: the address is of no region of ours. */
bool nam__block_find(const struct nam__allocator *allocator, uint64_t raw,
	enum nam_memory_kind kind, struct nam__block *ret) NAM_MUST_CHECK;

/* Bits and owners for all blocks of the run: 0 or -ENOMEM. */
int nam__run_reserve(struct nam__run *run) NAM_MUST_CHECK;

/* Blocks of that word wait until the oldest slot is ahead of the label (M14). */
void nam__run_wait(struct nam__allocator *allocator, struct nam__run *run, uint32_t word,
	uint64_t blocks, uint64_t label);

/* Blocks that lie one behind the other. */
struct nam__carved {
	uint32_t region;
	uint32_t count;
	uint64_t offset;
	bool dirty;			/* they are not zero yet */
};

/* Up to `count` fresh blocks; at least `keep` bytes of all regions of the kind stay vacant. */
struct nam__carved nam__runs_carve(struct nam__allocator *allocator, uint32_t stride,
	enum nam_memory_kind kind, uint32_t count, uint64_t keep);

/* Blocks that were carved just now belong to a client.  Without memory they belong to none. */
void nam__carved_own(struct nam__allocator *allocator, const struct nam__carved *carved,
	uint32_t stride, uint16_t owner);

static inline enum nam_memory_kind
nam__region_announced(const struct nam__alloc_region *region)
{
	return atomic_load_explicit(&region->announced, memory_order_relaxed);
}

void nam__region_set_kind(struct nam__allocator *allocator, struct nam__alloc_region *region,
	enum nam_memory_kind kind);
/* A region of clients never had blocks, so no address leads there. */
bool nam__region_unseen(const struct nam__alloc_region *region);
/* Withdraw a region without blocks.  False: that failed, and its memory is lost. */
bool nam__region_make_private(struct nam__allocator *allocator, uint32_t number);

/* A run whose blocks are all free, and in no list, becomes vacant. */
void nam__run_vacate(struct nam__allocator *allocator, struct nam__run *run);
/* Afterwards: vacant neighbours become one run. */
void nam__runs_merge(struct nam__alloc_region *region);

/* RUNS (common/rpc/move_rpc.h, M24), without the mutex: blocks handed out elsewhere are used. */
int nam__allocator_place(struct nam__allocator *allocator, uint32_t stride, uint64_t run_at,
	uint32_t run_count, const uint64_t *blocks, uint32_t count) NAM_MUST_CHECK;

#endif /* NAM_MEMSERVER_SERVICES_RUNS_H */
