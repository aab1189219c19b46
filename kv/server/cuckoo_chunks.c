/* SPDX-License-Identifier: Apache-2.0 */
/* cuckoo_chunks.c -- chunks go to tables and to cells. */
#include "cuckoo.h"

/* Buckets of each table that a step of growth divides. */
#define SPLITS_PER_STEP 64u

/* ---- growth -------------------------------------------------------------------------------- */

void
nam__cuckoo_bucket_init(struct nam__kv_partition *p, uint32_t number)
{
	struct nam__cuckoo_bucket *bucket = nam__cuckoo_bucket_at(p, number);

	memset(bucket->slots, 0, sizeof(bucket->slots));
	nam__cuckoo_vertex_init(&bucket->vertex);
}

/* The pairs whose next bit of the hash is set go to the new bucket. */
static void
bucket_split(struct nam__kv_partition *p, uint32_t table, uint32_t index, uint32_t fresh_index)
{
	uint32_t number = nam__cuckoo_bucket_number(table, index);
	uint32_t fresh = nam__cuckoo_bucket_number(table, fresh_index);

	nam__cuckoo_bucket_init(p, fresh);
	nam__cuckoo_vertex_split(p, number, fresh);
	for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++) {
		uint32_t from = number * NAM__CUCKOO_SLOTS + i;
		struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, from));

		if (slot.lengths && nam__cuckoo_table_hash(slot.hash, table) >>
				p->cuckoo.shape.level & 1)
			nam__cuckoo_kick(p, from, fresh * NAM__CUCKOO_SLOTS + i);
	}
}

/*
 * One bucket more for each table; false: no chunk is left.  The stash is empty, for it takes pairs
 * only if there is none.
 */
static bool
tables_grow_by_one(struct nam__kv_partition *p)
{
	struct nam__kv_cuckoo *cuckoo = &p->cuckoo;
	uint32_t index = cuckoo->shape.split, fresh = nam__cuckoo_table_size(&cuckoo->shape);

	if (nam__cuckoo_bucket_number(1, fresh) / NAM__CUCKOO_BUCKETS_PER_CHUNK >= cuckoo->chunks) {
		if (!nam__cuckoo_chunks_free(p))
			return false;
		cuckoo->chunks++;
	}
	/* First, as the graph knows no bucket from nam__cuckoo_end() on. */
	cuckoo->shape.split++;
	for (uint32_t table = 0; table < 2; table++)
		bucket_split(p, table, index, fresh);
	if (cuckoo->shape.split == cuckoo->shape.base << cuckoo->shape.level) {
		cuckoo->shape.level++;
		cuckoo->shape.split = 0;
	}
	return true;
}

bool
nam__cuckoo_tables_grow(struct nam__kv_partition *p)
{
	uint32_t grown = 0;

	while (grown < SPLITS_PER_STEP && tables_grow_by_one(p))
		grown++;
	return grown > 0;
}

/* ---- cells for a pair ---------------------------------------------------------------------- */

/* The position of the pair that has this cell, or NAM__CUCKOO_NONE. */
static uint32_t
owner_of(const struct nam__kv_partition *p, uint32_t cell, bool *ret_first)
{
	uint32_t owner = __atomic_load_n(&nam__cuckoo_cell_at(p, cell)->owner, __ATOMIC_RELAXED);
	uint32_t end = nam__cuckoo_end(p);

	*ret_first = owner != NAM__KV_CELL_NONE && owner & NAM__CUCKOO_FIRST;
	if (owner == NAM__KV_CELL_NONE || (!*ret_first && owner >= p->cells.carved))
		return NAM__CUCKOO_NONE;
	if (!*ret_first)
		owner = __atomic_load_n(&nam__cuckoo_cell_at(p, owner)->owner, __ATOMIC_RELAXED);
	owner &= ~NAM__CUCKOO_FIRST;
	return owner < end * NAM__CUCKOO_SLOTS && nam__cuckoo_slot_at(p, owner)->lengths ? owner :
		NAM__CUCKOO_NONE;
}

bool
nam__cuckoo_evict_for_cells(struct nam__kv_partition *p, uint32_t *looks)
{
	for (uint32_t left = *looks + p->cells.carved; left; left--, *looks -= *looks > 0) {
		struct nam__cuckoo_slot *slot;
		uint32_t position;
		bool first;

		p->cuckoo.cell_hand = p->cuckoo.cell_hand + 1 < p->cells.carved ?
			p->cuckoo.cell_hand + 1 : 0;
		position = owner_of(p, p->cuckoo.cell_hand, &first);
		if (position == NAM__CUCKOO_NONE || (*looks && !first))
			continue;
		slot = nam__cuckoo_slot_at(p, position);
		if (*looks && slot->lengths & NAM__CUCKOO_USED) {
			slot->lengths &= ~NAM__CUCKOO_USED;
			continue;
		}
		nam__cuckoo_pair_remove(p, position);
		p->counts.evictions++;
		return true;
	}
	return false;
}

void
nam__cuckoo_cells_grow(struct nam__kv_partition *p, uint32_t need)
{
	while (p->cells.free_count < need && nam__cuckoo_chunks_free(p)) {
		p->cells.count += NAM__KV_CELLS_PER_CHUNK;
		p->cells.free_count += NAM__KV_CELLS_PER_CHUNK;
	}
}
