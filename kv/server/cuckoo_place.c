/* SPDX-License-Identifier: Apache-2.0 */
/* cuckoo_place.c -- slots for pairs: of tables, of the stash, by eviction; and pairs that go. */
#include "cuckoo.h"

/* ---- pairs go ------------------------------------------------------------------------------ */

void
nam__cuckoo_spill(struct nam__kv_partition *p, uint32_t hash, int by)
{
	uint32_t buckets[2];

	nam__cuckoo_buckets_of(&p->cuckoo.shape, hash, buckets);
	nam__cuckoo_bucket_at(p, buckets[0])->vertex.spilled += (uint8_t)by;
}

static void
stash_leave(struct nam__kv_partition *p, uint32_t hash)
{
	nam__cuckoo_spill(p, hash, -1);
	/* K9: another slot of the stash may have been damaged. */
	p->cuckoo.stash_count -= p->cuckoo.stash_count > 0;
}

void
nam__cuckoo_cells_give(struct nam__kv_partition *p, uint32_t first, uint32_t count)
{
	for (uint32_t next; first != NAM__KV_CELL_NONE && count; first = next, count--) {
		next = nam__kv_cell_next(&p->cells, first);
		nam__cuckoo_cell_at(p, first)->owner = NAM__KV_CELL_NONE;
		if (p->cells.free_first != NAM__KV_CELL_NONE)
			nam__cuckoo_cell_at(p, p->cells.free_first)->before = first;
		nam__kv_cell_give(&p->cells, first);
	}
}

void
nam__cuckoo_pair_remove(struct nam__kv_partition *p, uint32_t position)
{
	struct nam__cuckoo_slot *at = nam__cuckoo_slot_at(p, position);
	struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(at);
	uint32_t cells = nam__cuckoo_cells(&slot);

	if (cells)
		nam__cuckoo_cells_give(p, nam__cuckoo_first_cell(p, position), cells);
	p->counts.keys--;
	p->counts.bytes -= nam__cuckoo_key_bytes(&slot) + nam__cuckoo_value_bytes(&slot);
	nam__cuckoo_slot_clear(at);
	if (nam__cuckoo_in_stash(position))
		stash_leave(p, slot.hash);
	else
		nam__cuckoo_edge_remove(p, position / NAM__CUCKOO_SLOTS);
}

/* ---- a slot -------------------------------------------------------------------------------- */

uint32_t
nam__cuckoo_slot_in_tables(struct nam__kv_partition *p, const uint32_t buckets[2],
	enum nam__cuckoo_search search, uint32_t *ret_kicks)
{
	*ret_kicks = 0;
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t at = nam__cuckoo_free_slot(p, buckets[i]);

		if (at != NAM__CUCKOO_NONE)
			return at;
	}
	return nam__cuckoo_make_room(p, buckets, search, ret_kicks);
}

uint32_t
nam__cuckoo_slot_in_stash(struct nam__kv_partition *p, uint32_t hash)
{
	for (uint32_t i = 0; i < NAM__CUCKOO_STASH_BUCKETS; i++) {
		uint32_t at = nam__cuckoo_free_slot(p, i);

		if (at != NAM__CUCKOO_NONE) {
			nam__cuckoo_spill(p, hash, 1);
			p->cuckoo.stash_count++;
			return at;
		}
	}
	return NAM__CUCKOO_NONE;
}

bool
nam__cuckoo_spared(struct nam__kv_partition *p, uint32_t position)
{
	struct nam__cuckoo_slot *slot = nam__cuckoo_slot_at(p, position);

	if (!(slot->lengths & NAM__CUCKOO_USED))
		return false;
	slot->lengths &= ~NAM__CUCKOO_USED;
	return true;
}

void
nam__cuckoo_evict(struct nam__kv_partition *p, uint32_t position)
{
	nam__cuckoo_pair_remove(p, position);
	p->counts.evictions++;
}

uint32_t
nam__cuckoo_slot_by_eviction(struct nam__kv_partition *p, const uint32_t buckets[2])
{
	uint32_t at = NAM__CUCKOO_NONE;

	/* A second round finds a pair, for the first one clears the marks of reads. */
	for (uint32_t i = 0; i < 4 * NAM__CUCKOO_SLOTS; i++, p->cuckoo.hand++) {
		at = buckets[p->cuckoo.hand / NAM__CUCKOO_SLOTS % 2] * NAM__CUCKOO_SLOTS +
		     p->cuckoo.hand % NAM__CUCKOO_SLOTS;
		if (!nam__cuckoo_spared(p, at))
			break;
	}
	nam__cuckoo_evict(p, at);
	return at;
}

/* ---- a pair that is in neither of its buckets ---------------------------------------------- */

bool
nam__cuckoo_relocate(struct nam__kv_partition *p, uint32_t from, enum nam__cuckoo_search search)
{
	struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, from));
	uint32_t buckets[2], kicks, to;

	nam__cuckoo_buckets_of(&p->cuckoo.shape, slot.hash, buckets);
	to = nam__cuckoo_slot_in_tables(p, buckets, search, &kicks);
	if (to == NAM__CUCKOO_NONE && p->evicts)
		to = nam__cuckoo_slot_by_eviction(p, buckets);
	if (to == NAM__CUCKOO_NONE)
		return false;
	nam__cuckoo_edge_add(p, buckets);
	nam__cuckoo_kick(p, from, to);
	return true;
}

void
nam__cuckoo_unstash(struct nam__kv_partition *p)
{
	uint32_t at = p->cuckoo.stash_hand++ % NAM__CUCKOO_STASH_SLOTS;
	struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, at));

	if (slot.lengths && nam__cuckoo_relocate(p, at, NAM__CUCKOO_NEARER))
		stash_leave(p, slot.hash);
}
