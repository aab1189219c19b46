/* SPDX-License-Identifier: Apache-2.0 */
#include "move_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash/hash.h"

/* The run of a vacant region; no block has the first bytes of a region. */
static struct nam_move_run
vacant(const struct nam_move_region *region, uint32_t number)
{
	return (struct nam_move_run){
		.offset = NAM_GADDR_UNIT_BYTES,
		.bytes = region->bytes - NAM_GADDR_UNIT_BYTES,
		.region = number,
		.dirty = 1,
	};
}

static void
regions_copy(const struct nam_move_head *head, const struct nam__books_parts *from,
	const struct nam__books_parts *to)
{
	const struct nam_move_run *run = from->runs;
	struct nam_move_run *next = to->runs;

	for (uint32_t i = 0; i < head->regions; i++) {
		struct nam_move_region *region = &to->regions[i];

		*region = from->regions[i];
		region->kind = region->announced = NAM_MEMORY_PUBLIC;
		region->turning = 0;
		region->runs = region->runs ?: 1;
		if (!from->regions[i].runs)
			*next++ = vacant(region, i);
		for (uint32_t k = 0; k < from->regions[i].runs; k++) {
			*next = *run++;
			next->words = 0;
			next->batch = next->label = 0;
			next++;
		}
	}
}

int
nam__backup_books(const uint8_t *books, uint8_t **ret_books, uint64_t *ret_bytes)
{
	struct nam_move_head head = *(const struct nam_move_head *)(const void *)books;
	struct nam__books_parts from = nam__books_parts((const void *)books), to;
	uint8_t *copy;

	/* A region that clients do not reach at the member has no runs there. */
	for (uint32_t i = 0; i < head.regions; i++)
		head.runs += !from.regions[i].runs;
	head.words = head.trees = head.stores = head.partitions = 0;
	head.bytes = nam__books_bytes(&head);
	copy = malloc(head.bytes);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, &head, sizeof(head));
	to = nam__books_parts((const void *)copy);
	regions_copy(&head, &from, &to);
	memcpy(to.clients, from.clients, head.clients * sizeof(to.clients[0]));
	memcpy(to.members, from.members, head.members * sizeof(to.members[0]));
	*to.hash = nam_hash64(copy, head.bytes - sizeof(*to.hash));
	*ret_books = copy;
	*ret_bytes = head.bytes;
	return 0;
}
