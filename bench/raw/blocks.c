/* SPDX-License-Identifier: Apache-2.0 */
#include "blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "bench/bench.h"

#define BLOCKS_MIN 1000u
#define BLOCK_HEADER_UNITS 1u
#define HUGE_BYTES (2ull << 20)

static int
compare_gaddrs(const void *a, const void *b)
{
	uint64_t x = ((const struct nam_gaddr *)a)->raw, y = ((const struct nam_gaddr *)b)->raw;

	return x < y ? -1 : x > y;
}

int
blocks_arrange(struct blocks *blocks)
{
	uint64_t units = blocks->stride / NAM_GADDR_UNIT_BYTES;
	uint64_t runs = 0, size = 1;

	qsort(blocks->all, blocks->count, sizeof(struct nam_gaddr), compare_gaddrs);
	for (uint64_t i = 0; i < blocks->count; i++)
		runs += !i || blocks->all[i].raw != blocks->all[i - 1].raw + units;
	while (size < runs)
		size *= 2;
	blocks->runs = calloc(size, sizeof(struct block_run));
	blocks->firsts = malloc(size * sizeof(uint64_t));
	if (!blocks->runs || !blocks->firsts)
		return -ENOMEM;
	for (uint64_t i = 0; i < size; i++)
		blocks->firsts[i] = UINT64_MAX;
	runs = 0;
	for (uint64_t i = 0; i < blocks->count; i++) {
		if (i && blocks->all[i].raw == blocks->all[i - 1].raw + units)
			continue;
		blocks->runs[runs].at.raw = blocks->all[i].raw + BLOCK_HEADER_UNITS;
		blocks->runs[runs].first = i;
		blocks->firsts[runs++] = i;
	}
	blocks->half = (unsigned)(size / 2);
	return 0;
}

/* The free bytes of all servers together: not yet carved, or given back. */
static int
room_left(struct nam_worker *worker, uint32_t servers, uint64_t *ret_bytes)
{
	uint64_t bytes = UINT64_MAX;

	for (uint32_t slot = 0; slot < servers; slot++) {
		struct nam_server_status status;
		int rc = nam_server_status_get(worker, slot, &status);
		uint64_t left;

		if (rc)
			return rc;
		/* Returned blocks may be of another stride; then the server says so later. */
		left = status.memory_bytes - status.carved_bytes + status.free_bytes;
		if (left < bytes)
			bytes = left;
	}
	*ret_bytes = bytes == UINT64_MAX ? 0 : bytes * servers;
	return 0;
}

/* In turn from every server; stops early when one of them is full. */
static int
take_blocks(struct blocks *blocks, uint32_t servers, uint64_t wanted)
{
	while (blocks->count < wanted) {
		struct nam_gaddr at;
		int rc = nam_alloc_on(blocks->worker, (uint32_t)(blocks->count % servers),
			blocks->stride, &at);

		if (rc == -NAM_E_REMOTE_FULL)
			return 0;
		if (rc)
			return rc;
		blocks->all[blocks->count++] = nam_gaddr_untagged(at);
	}
	return 0;
}

int
blocks_alloc(struct nam_worker *worker, uint32_t servers, uint32_t bytes, uint64_t memory_bytes,
	struct blocks *ret_blocks, struct nam_diag *diag)
{
	struct blocks blocks = { .bytes = bytes, .stride = raw_stride(bytes), .worker = worker };
	uint64_t asked = memory_bytes ? memory_bytes : BLOCKS_DEFAULT_BYTES, room, wanted;
	int rc = room_left(worker, servers, &room);

	if (rc)
		return nam_diag_set(diag, rc, "%s", nam_worker_diag(worker));
	/* Memory cut into blocks of this size serves no other: most is left to later indexes. */
	if (!memory_bytes)
		memory_bytes = room / 4 < asked ? room / 4 : asked;
	/* Leave some for other clients of the servers. */
	room -= room / 8;
	if (memory_bytes > room)
		memory_bytes = room;
	wanted = memory_bytes / blocks.stride;
	if (wanted < BLOCKS_MIN)
		wanted = BLOCKS_MIN;
	blocks.all = malloc(wanted * sizeof(struct nam_gaddr));
	if (!blocks.all)
		return nam_diag_set(diag, -ENOMEM, "no memory for %llu addresses",
			(unsigned long long)wanted);
	rc = take_blocks(&blocks, servers, wanted);
	if (rc)
		nam_diag_set(diag, rc, "%s", nam_worker_diag(worker));
	else if (blocks.count < BLOCKS_MIN)
		rc = nam_diag_set(diag, -NAM_E_REMOTE_FULL,
			"the memory servers have room for %llu blocks of %u bytes only; this needs "
			"%u: start them with more --memory, or drop an index",
			(unsigned long long)blocks.count, blocks.stride, BLOCKS_MIN);
	if (!rc)
		rc = blocks_arrange(&blocks);
	if (rc) {
		blocks_free(&blocks);
		return rc;
	}
	/* If little memory is used, the processor's caches hold it: another measurement. */
	if (blocks.count * blocks.stride < asked / 2)
		bench_complain("only %llu MiB of remote memory are used, not %llu; --memory says "
			"how much",
			(unsigned long long)(blocks.count * blocks.stride) >> 20,
			(unsigned long long)asked >> 20);
	*ret_blocks = blocks;
	return 0;
}

void
blocks_free(struct blocks *blocks)
{
	for (uint64_t i = 0; i < blocks->count; i++)
		nam_free_unseen(blocks->worker, blocks->all[i], blocks->stride);
	free(blocks->all);
	free(blocks->runs);
	free(blocks->firsts);
	*blocks = (struct blocks){ 0 };
}

/* ---- local memory ------------------------------------------------------------------------- */

static void *
map_pages(uint64_t bytes, enum arena_pages pages, const char **ret_pages)
{
	void *at;

	if (pages == ARENA_2M) {
		at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
		if (at != MAP_FAILED) {
			*ret_pages = "2M";
			return at;
		}
	}
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	*ret_pages = "4k";
	if (pages == ARENA_4K)
		madvise(at, bytes, MADV_NOHUGEPAGE);
	else if (madvise(at, bytes, MADV_HUGEPAGE) == 0)
		*ret_pages = "thp";
	return at;
}

int
arena_map(uint32_t bytes, uint64_t count, enum arena_pages pages, struct arena *ret_arena)
{
	struct arena arena = { .bytes = bytes, .stride = raw_stride(bytes), .count = count };

	arena.mapping_bytes =
		(count * arena.stride + 2 * HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
	arena.mapping = map_pages(arena.mapping_bytes, pages, &arena.pages);
	if (!arena.mapping)
		return -errno;
	/* On a huge page's boundary, or transparent huge pages would leave out both ends. */
	arena.base = (uint8_t *)(((uintptr_t)arena.mapping + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));
	if (arena.base + count * arena.stride > (uint8_t *)arena.mapping + arena.mapping_bytes)
		arena.base = arena.mapping;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t *words = (uint64_t *)(void *)(arena.base + i * arena.stride);

		for (uint32_t w = 0; w < bytes / 8; w++)
			words[w] = raw_pattern(i);
	}
	*ret_arena = arena;
	return 0;
}

void
arena_unmap(struct arena *arena)
{
	if (arena->mapping)
		munmap(arena->mapping, arena->mapping_bytes);
	*arena = (struct arena){ 0 };
}
