/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region_table.h -- region id -> memory server, address, key.
 *
 * Filled from RPC message REGIONS, and read on every access to remote memory.  A region's key and
 * kind may change later, while others read the table.
 */
#ifndef NAM_COMMON_REGION_TABLE_H
#define NAM_COMMON_REGION_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "gaddr.h"
#include "rpc/figures.h"

struct nam_region {
	uint64_t bytes;		/* 0: no such region */
	uint64_t remote;	/* nam_wr.remote of byte 0 */
	_Atomic uint32_t rkey;	/* read it by nam_region_rkey() */
	uint32_t server;	/* slot in the client's list of servers */
	_Atomic uint32_t kind;	/* enum nam_memory_kind; private: only old addresses lead there */
};

/* The regions of one memory server; from calloc(). */
struct nam_region_block {
	struct nam_region regions[NAM_REGIONS_PER_SERVER];
	struct nam_region_block *replaced;	/* others may still read it */
};

/* Two levels, so that an empty table is small: one block per server id, or NULL. */
struct nam_region_table {
	struct nam_region_block *_Atomic blocks[NAM_SERVERS_MAX];
};

void nam_region_table_init(struct nam_region_table *table);
/* Frees all blocks that were published, too. */
void nam_region_table_free(struct nam_region_table *table);

/* 0, -EEXIST (the id is taken), -EINVAL (region of 0 bytes or beyond 256 GiB). */
int nam_region_block_add(struct nam_region_block *block, uint16_t region_id,
	const struct nam_region *region) NAM_MUST_CHECK;

/* The table takes the block, while others read.  One thread publishes and renews. */
void nam_region_table_publish(struct nam_region_table *table, uint32_t server_id,
	struct nam_region_block *block);

/* A region has changed, while others read the table.  0, or -ENOENT: there is no such region. */
int nam_region_table_renew(struct nam_region_table *table, uint16_t region_id, uint32_t rkey,
	uint32_t kind) NAM_MUST_CHECK;

/* Relaxed: how a client learns a new key in time is the business of the layers above. */
static inline uint32_t
nam_region_rkey(const struct nam_region *region)
{
	return atomic_load_explicit(&region->rkey, memory_order_relaxed);
}

/* The region that has a remote address by that key, or NULL.  Regions follow one another. */
static inline const struct nam_region *
nam_region_block_at(const struct nam_region_block *block, uint32_t rkey, uint64_t remote)
{
	for (uint32_t i = 0; i < NAM_REGIONS_PER_SERVER && block->regions[i].bytes; i++) {
		const struct nam_region *region = &block->regions[i];

		if (nam_region_rkey(region) == rkey && remote - region->remote < region->bytes)
			return region;
	}
	return NULL;
}

/* Acquire: pairs with nam_region_table_publish(). */
static inline const struct nam_region_block *
nam_region_table_block(const struct nam_region_table *table, uint32_t server_id)
{
	return atomic_load_explicit(&table->blocks[server_id], memory_order_acquire);
}

/* The place of a region, with 0 bytes if there is none; NULL: its server has announced none. */
static inline const struct nam_region *
nam__region_place(const struct nam_region_table *table, struct nam_gaddr at)
{
	uint16_t id = nam_gaddr_region(at);
	const struct nam_region_block *block = nam_region_table_block(table,
		id / NAM_REGIONS_PER_SERVER);

	return block ? &block->regions[id % NAM_REGIONS_PER_SERVER] : NULL;
}

/* NULL when no connected server has announced that region. */
static inline const struct nam_region *
nam_region_table_find(const struct nam_region_table *table, struct nam_gaddr at)
{
	const struct nam_region *region = nam__region_place(table, at);

	return region && region->bytes ? region : NULL;
}

/* The region of `bytes` from `at` on, at least 1; NULL: they reach beyond its end. */
static inline const struct nam_region *
nam_region_table_range(const struct nam_region_table *table, struct nam_gaddr at, uint64_t bytes)
{
	const struct nam_region *region = nam__region_place(table, at);

	/* Offsets are far below 2^64. */
	return region && nam_gaddr_offset(at) + bytes <= region->bytes ? region : NULL;
}

/*
 * Whether an address is one of blocks of clients.  For addresses that may be older than the last
 * generation; others lead to public regions.
 */
static inline bool
nam_region_table_public(const struct nam_region_table *table, struct nam_gaddr at)
{
	const struct nam_region *region = nam_region_table_find(table, at);

	return !region ||
	       atomic_load_explicit(&region->kind, memory_order_relaxed) == NAM_MEMORY_PUBLIC;
}

#endif /* NAM_COMMON_REGION_TABLE_H */
