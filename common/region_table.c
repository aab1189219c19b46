/* SPDX-License-Identifier: Apache-2.0 */
/* region_table.c -- where each region lives now. */
#include "region_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REGION_BYTES_MAX (256ull << 30)		/* what 32 bits of 64-byte units can address */

void
nam_region_table_init(struct nam_region_table *table)
{
	memset(table, 0, sizeof(*table));
}

void
nam_region_table_free(struct nam_region_table *table)
{
	for (uint32_t i = 0; i < NAM_SERVERS_MAX; i++) {
		struct nam_region_block *block = table->blocks[i], *replaced;

		for (; block; block = replaced) {
			replaced = block->replaced;
			free(block);
		}
	}
	nam_region_table_init(table);
}

int
nam_region_block_add(struct nam_region_block *block, uint16_t region_id,
	const struct nam_region *region)
{
	struct nam_region *at = &block->regions[region_id % NAM_REGIONS_PER_SERVER];

	if (region->bytes == 0 || region->bytes > REGION_BYTES_MAX)
		return -EINVAL;
	if (at->bytes)
		return -EEXIST;
	*at = *region;
	return 0;
}

void
nam_region_table_publish(struct nam_region_table *table, uint32_t server_id,
	struct nam_region_block *block)
{
	block->replaced = atomic_load_explicit(&table->blocks[server_id], memory_order_relaxed);
	/* C19.  Release: pairs with nam_region_table_block(). */
	atomic_store_explicit(&table->blocks[server_id], block, memory_order_release);
}

int
nam_region_table_renew(struct nam_region_table *table, uint16_t region_id, uint32_t rkey,
	uint32_t kind)
{
	struct nam_region_block *block = table->blocks[region_id / NAM_REGIONS_PER_SERVER];
	struct nam_region *region =
		block ? &block->regions[region_id % NAM_REGIONS_PER_SERVER] : NULL;

	if (!region || !region->bytes)
		return -ENOENT;
	atomic_store_explicit(&region->rkey, rkey, memory_order_relaxed);
	atomic_store_explicit(&region->kind, kind, memory_order_relaxed);
	return 0;
}
