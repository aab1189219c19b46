/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuckoo_chunks.c -- chunks go to tables and to cells, and from the one to the other.
 *
 * Tables have the first chunks of a partition, cells the last ones, and those between are free.  If
 * none is free, tables take the chunk of cells that is next to them, and cells the last one of the
 * tables.  The side that gives one first moves its pairs.
 */
#include "cuckoo.h"

/* Buckets of each table that a step of growth divides: about a chunk. */
#define SPLITS_PER_STEP 64u
/* Cells at which an eviction from the tables looks; slots, for each cell that became free. */
#define SWEEP_CELLS 64u
#define SWEEP_SLOTS 8u

/* ---- a chunk of cells goes ----------------------------------------------------------------- */

static inline uint32_t
owner_of(const struct nam__kv_partition *p, uint32_t cell)
{
	return __atomic_load_n(&nam__cuckoo_cell_at(p, cell)->owner, __ATOMIC_RELAXED);
}

/* A free cell leaves the list of free ones. */
static void
cell_unlink(struct nam__kv_partition *p, uint32_t at)
{
	uint32_t next = nam__kv_cell_next(&p->cells, at);
	uint32_t before = __atomic_load_n(&nam__cuckoo_cell_at(p, at)->before, __ATOMIC_RELAXED);

	if (p->cells.free_first == at)
		p->cells.free_first = next;
	else if (before < p->cells.carved && nam__kv_cell_next(&p->cells, before) == at)
		nam__cuckoo_cell_at(p, before)->next = next;
	if (next != NAM__KV_CELL_NONE && owner_of(p, next) == NAM__KV_CELL_NONE)
		nam__cuckoo_cell_at(p, next)->before = before;
}

/* K9: what leads to the cell, its slot or the cell before it, is to lead there. */
static bool
cell_led_to(struct nam__kv_partition *p, uint32_t from, uint32_t to)
{
	uint32_t owner = owner_of(p, from), position = owner & ~NAM__CUCKOO_FIRST;

	if (!(owner & NAM__CUCKOO_FIRST)) {
		if (owner >= p->cells.carved || nam__kv_cell_next(&p->cells, owner) != from)
			return false;
		nam__cuckoo_cell_at(p, owner)->next = to;
		return true;
	}
	if (position >= nam__cuckoo_end(p) * NAM__CUCKOO_SLOTS ||
		nam__cuckoo_first_cell(p, position) != from)
		return false;
	memcpy(nam__cuckoo_data_at(p, position) + NAM__CUCKOO_HEAD_BYTES, &to, sizeof(to));
	return true;
}

/* A cell of a pair goes to a free one below `limit`. */
static void
cell_move(struct nam__kv_partition *p, uint32_t from, uint32_t limit)
{
	uint32_t to = p->cells.free_first, next = nam__kv_cell_next(&p->cells, from);

	if (to >= limit || !cell_led_to(p, from, to))
		return;
	(void)nam__kv_cell_take(&p->cells);
	memcpy(nam__cuckoo_cell_at(p, to), nam__cuckoo_cell_at(p, from), NAM__KV_CELL_BYTES);
	if (next != NAM__KV_CELL_NONE && owner_of(p, next) == from)
		nam__cuckoo_cell_at(p, next)->owner = to;
}

/* The chunk of cells next to the tables becomes free, if `keep` cells stay free. */
static bool
cells_shrink(struct nam__kv_partition *p, uint32_t keep)
{
	struct nam__kv_cells *cells = &p->cells;
	uint32_t limit = cells->count - NAM__KV_CELLS_PER_CHUNK;
	uint32_t left = cells->free_count - NAM__KV_CELLS_PER_CHUNK;

	if (cells->free_count < (uint64_t)NAM__KV_CELLS_PER_CHUNK + keep)
		return false;
	for (uint32_t at = limit; at < cells->carved; at++)
		if (owner_of(p, at) == NAM__KV_CELL_NONE)
			cell_unlink(p, at);
	for (uint32_t at = limit; at < cells->carved; at++)
		if (owner_of(p, at) != NAM__KV_CELL_NONE)
			cell_move(p, at, limit);
	cells->count = limit;
	cells->carved = cells->carved < limit ? cells->carved : limit;
	/* In a partition whose cells have been damaged: the list ends before such a one. */
	if (cells->free_first != NAM__KV_CELL_NONE && cells->free_first >= cells->carved)
		cells->free_first = NAM__KV_CELL_NONE;
	cells->free_count = left;
	if (p->cuckoo.cell_hand >= cells->carved)
		p->cuckoo.cell_hand = 0;
	return true;
}

/* ---- tables grow --------------------------------------------------------------------------- */

void
nam__cuckoo_bucket_init(struct nam__kv_partition *p, uint32_t number)
{
	struct nam__cuckoo_bucket *bucket = nam__cuckoo_bucket_at(p, number);

	memset(bucket->slots, 0, sizeof(bucket->slots));
	nam__cuckoo_vertex_init(&bucket->vertex);
}

/* The buckets of pairs in the stash change with the shape of the tables. */
static void
stash_spill(struct nam__kv_partition *p, int by)
{
	for (uint32_t at = 0; p->cuckoo.stash_count && at < NAM__CUCKOO_STASH_SLOTS; at++) {
		struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, at));

		if (slot.lengths)
			nam__cuckoo_spill(p, slot.hash, by);
	}
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

/* One bucket more for each table; false: there is no chunk for them. */
static bool
tables_grow_by_one(struct nam__kv_partition *p, uint32_t keep)
{
	struct nam__kv_cuckoo *cuckoo = &p->cuckoo;
	uint32_t index = cuckoo->shape.split, fresh = nam__cuckoo_table_size(&cuckoo->shape);

	if (nam__cuckoo_bucket_number(1, fresh) / NAM__CUCKOO_BUCKETS_PER_CHUNK >= cuckoo->chunks) {
		if (!nam__cuckoo_chunks_free(p) && !cells_shrink(p, keep))
			return false;
		cuckoo->chunks++;
	}
	stash_spill(p, -1);
	/* First, as the graph knows no bucket from nam__cuckoo_end() on. */
	cuckoo->shape.split++;
	for (uint32_t table = 0; table < 2; table++)
		bucket_split(p, table, index, fresh);
	if (cuckoo->shape.split == cuckoo->shape.base << cuckoo->shape.level) {
		cuckoo->shape.level++;
		cuckoo->shape.split = 0;
	}
	stash_spill(p, 1);
	return true;
}

bool
nam__cuckoo_tables_grow(struct nam__kv_partition *p, uint32_t keep)
{
	uint32_t grown = 0;

	while (grown < SPLITS_PER_STEP && tables_grow_by_one(p, keep))
		grown++;
	return grown > 0;
}

/* ---- tables shrink ------------------------------------------------------------------------- */

/* How many chunks the tables need.  @evicting	in a cache, whatever its pairs need */
static uint32_t
tables_least(const struct nam__kv_partition *p, bool evicting)
{
	uint64_t slots = evicting ? 0 : nam__cuckoo_slots_for(p->counts.keys + 1);
	uint64_t size = slots / (2 * NAM__CUCKOO_SLOTS) + 1;

	if (size >= nam__cuckoo_table_size(&p->cuckoo.shape))
		return p->cuckoo.chunks;
	if (size < p->cuckoo.shape.base)
		size = p->cuckoo.shape.base;
	return nam__cuckoo_bucket_number(1, (uint32_t)size - 1) / NAM__CUCKOO_BUCKETS_PER_CHUNK + 1;
}

/* The pairs go to the bucket from which this one was divided, or to others, or to the stash. */
static void
bucket_remove(struct nam__kv_partition *p, uint32_t number)
{
	struct nam__cuckoo_bucket *bucket = nam__cuckoo_bucket_at(p, number);

	for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++) {
		struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(&bucket->slots[i]);
		uint32_t from = number * NAM__CUCKOO_SLOTS + i, to;

		if (!slot.lengths || nam__cuckoo_relocate(p, from, NAM__CUCKOO_NEAR))
			continue;
		to = nam__cuckoo_slot_in_stash(p, slot.hash);
		if (to != NAM__CUCKOO_NONE)
			nam__cuckoo_kick(p, from, to);
	}
	/* K8: a READ by an old layout finds no pair, and no bucket. */
	memset(bucket->slots, 0, sizeof(bucket->slots));
	memset(&bucket->vertex, 0, sizeof(bucket->vertex));
}

/* One bucket less for each table: the last split is undone. */
static void
tables_shrink_by_one(struct nam__kv_partition *p)
{
	struct nam__kv_cuckoo *cuckoo = &p->cuckoo;
	struct nam__cuckoo_shape shape = cuckoo->shape;
	uint32_t gone = nam__cuckoo_table_size(&shape) - 1;

	if (!shape.split)
		shape.split = shape.base << --shape.level;
	shape.split--;
	stash_spill(p, -1);
	for (uint32_t table = 0; table < 2; table++)
		nam__cuckoo_vertex_merge(p, nam__cuckoo_bucket_number(table, shape.split),
			nam__cuckoo_bucket_number(table, gone));
	cuckoo->shape = shape;
	stash_spill(p, 1);
	for (uint32_t table = 0; table < 2; table++)
		bucket_remove(p, nam__cuckoo_bucket_number(table, gone));
	cuckoo->chunks = (nam__cuckoo_end(p) - 1) / NAM__CUCKOO_BUCKETS_PER_CHUNK + 1;
	cuckoo->merged++;
}

/* Pairs of the stash and of the last bucket of each table. */
static uint32_t
pairs_for_stash(const struct nam__kv_partition *p)
{
	uint32_t end = nam__cuckoo_end(p) * NAM__CUCKOO_SLOTS, pairs = p->cuckoo.stash_count;

	for (uint32_t at = end - 2 * NAM__CUCKOO_SLOTS; at < end; at++)
		pairs += nam__cuckoo_slot_at(p, at)->lengths != 0;
	return pairs;
}

/* If these buckets go, each of their pairs finds a slot there, or a better one. */
static bool
stash_has_room(struct nam__kv_partition *p)
{
	for (uint32_t i = 0; i < NAM__CUCKOO_STASH_SLOTS; i++) {
		if (pairs_for_stash(p) <= NAM__CUCKOO_STASH_SLOTS)
			return true;
		nam__cuckoo_unstash(p);
	}
	return pairs_for_stash(p) <= NAM__CUCKOO_STASH_SLOTS;
}

/* The last chunk of the tables becomes free, if their slots suffice without it. */
static bool
tables_shrink(struct nam__kv_partition *p, bool evicting)
{
	struct nam__kv_cuckoo *cuckoo = &p->cuckoo;
	uint32_t chunks = cuckoo->chunks;

	if (chunks <= tables_least(p, evicting))
		return false;
	while (cuckoo->chunks == chunks && stash_has_room(p))
		tables_shrink_by_one(p);
	if (cuckoo->chunks == chunks)
		return false;
	if (cuckoo->merged >= nam__cuckoo_table_size(&cuckoo->shape)) {
		nam__cuckoo_graph_rebuild(p);
		cuckoo->merged = 0;
	}
	return true;
}

/* ---- cells for a pair ---------------------------------------------------------------------- */

/*
 * The position of the pair that has this cell, or NAM__CUCKOO_NONE.
 *
 * @steps	back to its first cell, which are left
 */
static uint32_t
position_of(const struct nam__kv_partition *p, uint32_t cell, uint32_t *steps)
{
	uint32_t owner = owner_of(p, cell);

	for (; owner < p->cells.carved && *steps; --*steps)
		owner = owner_of(p, owner);
	if (owner == NAM__KV_CELL_NONE || !(owner & NAM__CUCKOO_FIRST))
		return NAM__CUCKOO_NONE;
	owner &= ~NAM__CUCKOO_FIRST;
	return owner < nam__cuckoo_end(p) * NAM__CUCKOO_SLOTS &&
		nam__cuckoo_slot_at(p, owner)->lengths ? owner : NAM__CUCKOO_NONE;
}

/* The hand of CLOCK goes to the next cell.  There is one. */
static uint32_t
cell_hand_next(struct nam__kv_partition *p)
{
	uint32_t *hand = &p->cuckoo.cell_hand;

	*hand = *hand + 1 < p->cells.carved ? *hand + 1 : 0;
	return *hand;
}

/*
 * Remove a pair that has cells and was not read since the hand last passed.  False: there is none,
 * so the books have been damaged.
 *
 * @looks	at cells, which are left before the next pair goes in any case
 */
static bool
evict_for_cells(struct nam__kv_partition *p, uint32_t *looks)
{
	uint32_t left = *looks + p->cells.carved;

	while (left && p->cells.carved) {
		uint32_t none = 0, position;
		bool chooses = *looks > 0;

		left--;
		*looks -= chooses;
		position = position_of(p, cell_hand_next(p), chooses ? &none : &left);
		if (position == NAM__CUCKOO_NONE || (chooses && nam__cuckoo_spared(p, position)))
			continue;
		nam__cuckoo_evict(p, position);
		return true;
	}
	return false;
}

/*
 * Both hands go round in the time in which the pairs of one side are replaced once.
 *
 * @rest	what is left to do, times `of`: at most a round
 */
static uint32_t
sweep_looks(uint64_t *rest, uint32_t gone, uint32_t of, uint32_t others, uint32_t most)
{
	uint64_t round = (uint64_t)of * others, sum = *rest + (uint64_t)gone * others;
	uint64_t looks = sum / of < most ? sum / of : most;

	sum -= looks * of;
	*rest = sum < round ? sum : round;
	return (uint32_t)looks;
}

void
nam__cuckoo_sweep_cells(struct nam__kv_partition *p)
{
	uint32_t looks = sweep_looks(&p->cuckoo.cell_rest, 1, nam__cuckoo_slots(p),
		p->cells.carved, SWEEP_CELLS);

	for (uint32_t i = 0; i < looks && p->cells.carved; i++) {
		uint32_t none = 0, position = position_of(p, cell_hand_next(p), &none);

		if (position != NAM__CUCKOO_NONE && !nam__cuckoo_spared(p, position))
			nam__cuckoo_evict(p, position);
	}
}

/* Pairs of the tables without cells that were not read since the hand last passed go. */
static void
sweep_slots(struct nam__kv_partition *p, uint32_t cells)
{
	uint32_t *hand = &p->cuckoo.slot_hand, looks = sweep_looks(&p->cuckoo.slot_rest, cells,
		p->cells.count, nam__cuckoo_slots(p), cells * SWEEP_SLOTS);

	for (uint32_t i = 0; i < looks; i++) {
		struct nam__cuckoo_slot slot;

		++*hand;
		if (nam__cuckoo_in_stash(*hand) || *hand >= nam__cuckoo_end(p) * NAM__CUCKOO_SLOTS)
			*hand = NAM__CUCKOO_STASH_SLOTS;
		slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, *hand));
		if (slot.lengths && !nam__cuckoo_cells(&slot) && !nam__cuckoo_spared(p, *hand))
			nam__cuckoo_evict(p, *hand);
	}
}

uint32_t
nam__cuckoo_cells_most(const struct nam__kv_partition *p)
{
	uint32_t chunks = p->chunks_count - tables_least(p, p->evicts);

	return chunks * NAM__KV_CELLS_PER_CHUNK - (p->evicts ? 0 : nam__kv_cells_used(&p->cells));
}

int
nam__cuckoo_cells_grow(struct nam__kv_partition *p, uint32_t need, uint32_t *looks,
	uint32_t *evictions)
{
	uint32_t free_count = p->cells.free_count;

	/* A cache evicts short pairs only if long ones do not suffice. */
	if (nam__cuckoo_chunks_free(p) || tables_shrink(p, p->evicts && need > p->cells.count)) {
		p->cells.count += NAM__KV_CELLS_PER_CHUNK;
		p->cells.free_count += NAM__KV_CELLS_PER_CHUNK;
		return 0;
	}
	if (!p->evicts)
		return -NAM_E_REMOTE_FULL;
	if (!*evictions || !evict_for_cells(p, looks))
		return -NAM_E_REMOTE_CORRUPT;
	--*evictions;
	sweep_slots(p, p->cells.free_count - free_count);
	return 0;
}
