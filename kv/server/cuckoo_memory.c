/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuckoo_memory.c -- memory goes to tables and to cells, and from the one to the other.
 *
 * Tables grow from the front of a partition's chunks, cells from the end, and the memory between is
 * free.  If there is none, tables take the last cells, and cells the last bucket.  The side that
 * gives first moves its pairs.
 */
#include "cuckoo.h"

/* Buckets that come at once: a chunk. */
#define BUCKETS_PER_GROWTH 128u
/* A cache keeps one of so many cells free for long pairs that come back. */
#define CELLS_PER_SPARE 16u
/* Cells at which an eviction from the tables looks; slots, for each cell that became free. */
#define SWEEP_CELLS 64u
#define SWEEP_SLOTS 8u

/* ---- the last cells go --------------------------------------------------------------------- */

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

/* The last cells, which are next to the tables, become free memory, if `keep` cells stay free. */
static bool
cells_shrink(struct nam__kv_partition *p, uint32_t keep)
{
	struct nam__kv_cells *cells = &p->cells;
	uint32_t limit = cells->count - NAM__CUCKOO_BUCKET_CELLS;
	uint32_t left = cells->free_count - NAM__CUCKOO_BUCKET_CELLS;

	if (p->evicts)
		keep += cells->count / CELLS_PER_SPARE;
	if (cells->free_count < (uint64_t)NAM__CUCKOO_BUCKET_CELLS + keep)
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

/* ---- the stash ----------------------------------------------------------------------------- */

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

/* ---- tables grow --------------------------------------------------------------------------- */

void
nam__cuckoo_bucket_init(struct nam__kv_partition *p, uint32_t number)
{
	struct nam__cuckoo_bucket *bucket = nam__cuckoo_bucket_at(p, number);

	memset(bucket->slots, 0, sizeof(bucket->slots));
	nam__cuckoo_vertex_init(&bucket->vertex);
}

/* The buckets of its group whose pairs the next bucket shares. */
struct sharers {
	uint32_t next, count, buckets[3];
};

static struct sharers
sharers_of(const struct nam__cuckoo_shape *shape)
{
	uint32_t groups = 1u << shape->level, table = shape->split % 2;
	uint32_t split = shape->split / 2;
	struct sharers sharers = { .next = nam__cuckoo_bucket_number(table, 2 * groups + split),
		.count = 2 + split / groups };

	for (uint32_t i = 0; i < sharers.count; i++)
		sharers.buckets[i] = nam__cuckoo_bucket_number(table, split % groups + i * groups);
	return sharers;
}

static inline uint32_t
position_at(const struct sharers *sharers, uint32_t i)
{
	return sharers->buckets[i / NAM__CUCKOO_SLOTS] * NAM__CUCKOO_SLOTS + i % NAM__CUCKOO_SLOTS;
}

/* Pairs of the others that in tables of this shape have the next bucket; bit i: position_at(i). */
static uint32_t
pairs_for_next(const struct nam__kv_partition *p, const struct sharers *sharers,
	const struct nam__cuckoo_shape *shape)
{
	uint32_t table = sharers->next % 2, pairs = 0;

	for (uint32_t i = 0; i < sharers->count * NAM__CUCKOO_SLOTS; i++) {
		struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p,
			position_at(sharers, i)));
		uint32_t buckets[2];

		nam__cuckoo_buckets_of(shape, slot.hash, buckets);
		pairs |= (uint32_t)(slot.lengths && buckets[table] == sharers->next) << i;
	}
	return pairs;
}

/* A pair goes to its bucket in the other table, if that has a slot, or can have. */
static bool
pair_cross(struct nam__kv_partition *p, uint32_t from)
{
	struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, from));
	uint32_t other = nam__cuckoo_other(&p->cuckoo.shape, from / NAM__CUCKOO_SLOTS, slot.hash);
	uint32_t kicks, to = nam__cuckoo_slot_in_tables(p, (const uint32_t[2]){ other, other },
		NAM__CUCKOO_NEAR, &kicks);

	if (to != NAM__CUCKOO_NONE)
		nam__cuckoo_kick(p, from, to);
	return to != NAM__CUCKOO_NONE;
}

/* The same; or to the stash of a store. */
static bool
pair_leave(struct nam__kv_partition *p, uint32_t from)
{
	struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, from));
	uint32_t to;

	if (pair_cross(p, from))
		return true;
	to = p->evicts ? NAM__CUCKOO_NONE : nam__cuckoo_slot_in_stash(p, slot.hash);
	if (to == NAM__CUCKOO_NONE)
		return false;
	nam__cuckoo_edge_remove(p, from / NAM__CUCKOO_SLOTS);
	nam__cuckoo_kick(p, from, to);
	return true;
}

/* pairs_for_next(), after some have left: the next bucket has a slot for each, or false. */
static bool
pairs_spread(struct nam__kv_partition *p, const struct sharers *sharers,
	const struct nam__cuckoo_shape *shape, uint32_t *ret_pairs)
{
	*ret_pairs = pairs_for_next(p, sharers, shape);
	for (uint32_t i = 0; (uint32_t)__builtin_popcount(*ret_pairs) > NAM__CUCKOO_SLOTS; i++) {
		if (i == sharers->count * NAM__CUCKOO_SLOTS)
			return false;
		if (*ret_pairs >> i & 1 && pair_leave(p, position_at(sharers, i)))
			*ret_pairs = pairs_for_next(p, sharers, shape);
	}
	return true;
}

/* One bucket more; false: there is no memory for it, or no slot for a pair. */
static bool
tables_grow_by_one(struct nam__kv_partition *p, uint32_t keep)
{
	struct nam__cuckoo_shape shape = p->cuckoo.shape;
	struct sharers sharers;
	uint32_t pairs;

	if (!nam__cuckoo_buckets_free(p) && !cells_shrink(p, keep))
		return false;
	sharers = sharers_of(&shape);
	if (++shape.split == 4u << shape.level) {
		shape.level++;
		shape.split = 0;
	}
	if (!pairs_spread(p, &sharers, &shape, &pairs))
		return false;
	stash_spill(p, -1);
	/* First, as the graph knows no bucket from nam__cuckoo_end() on. */
	p->cuckoo.shape = shape;
	nam__cuckoo_bucket_init(p, sharers.next);
	for (uint32_t i = 0; i < sharers.count; i++)
		nam__cuckoo_vertex_split(p, sharers.buckets[i], sharers.next);
	stash_spill(p, 1);
	for (; pairs; pairs &= pairs - 1) {
		uint32_t to = nam__cuckoo_free_slot(p, sharers.next);

		/* K9: there is none if clients have written to the new bucket meanwhile. */
		if (to != NAM__CUCKOO_NONE)
			nam__cuckoo_kick(p, position_at(&sharers, (uint32_t)__builtin_ctz(pairs)),
				to);
	}
	return true;
}

bool
nam__cuckoo_tables_grow(struct nam__kv_partition *p, uint32_t keep)
{
	uint32_t grown = 0;

	while (grown < BUCKETS_PER_GROWTH && tables_grow_by_one(p, keep))
		grown++;
	return grown > 0;
}

/* ---- tables shrink ------------------------------------------------------------------------- */

/* How many buckets the tables need.  @evicting	in a cache, whatever its pairs need */
static uint32_t
buckets_least(const struct nam__kv_partition *p, bool evicting)
{
	uint64_t slots = evicting ? 0 : nam__cuckoo_slots_for(p->counts.keys + 1);
	uint64_t need = slots / NAM__CUCKOO_SLOTS + 1;
	uint32_t most = nam__cuckoo_buckets(&p->cuckoo.shape), least = 4u << NAM__CUCKOO_LEVEL_MIN;

	return need >= most ? most : need < least ? least : (uint32_t)need;
}

/* Its pairs have another bucket in its table now; or they go to the stash. */
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

static void
tables_shrink_by_one(struct nam__kv_partition *p)
{
	struct nam__cuckoo_shape shape = p->cuckoo.shape;
	struct sharers sharers;

	if (!shape.split)
		shape.split = 4u << --shape.level;
	shape.split--;
	sharers = sharers_of(&shape);
	stash_spill(p, -1);
	for (uint32_t i = 0; i < sharers.count; i++)
		nam__cuckoo_vertex_merge(p, sharers.buckets[i], sharers.next);
	nam__cuckoo_vertex_remove(p, sharers.next);
	p->cuckoo.shape = shape;
	stash_spill(p, 1);
	bucket_remove(p, sharers.next);
	p->cuckoo.merged++;
}

/* Whether the last bucket's pairs have room in the stash, if need be once its own have gone. */
static bool
stash_has_room(struct nam__kv_partition *p)
{
	const struct nam__cuckoo_slot *slots = nam__cuckoo_bucket_at(p, nam__cuckoo_end(p) - 1)
		->slots;

	for (uint32_t i = 0; i <= NAM__CUCKOO_STASH_SLOTS; i++) {
		uint32_t pairs = p->cuckoo.stash_count;

		for (uint32_t k = 0; k < NAM__CUCKOO_SLOTS; k++)
			pairs += slots[k].lengths != 0;
		if (pairs <= NAM__CUCKOO_STASH_SLOTS)
			return true;
		nam__cuckoo_unstash(p);
	}
	return false;
}

/* The tables become smaller by a bucket, if their slots suffice. */
static bool
tables_shrink(struct nam__kv_partition *p, bool evicting)
{
	if (nam__cuckoo_buckets(&p->cuckoo.shape) <= buckets_least(p, evicting) ||
		!stash_has_room(p))
		return false;
	tables_shrink_by_one(p);
	if (p->cuckoo.merged >= nam__cuckoo_buckets(&p->cuckoo.shape)) {
		nam__cuckoo_graph_rebuild(p);
		p->cuckoo.merged = 0;
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
	uint32_t buckets = p->chunks_count * NAM__CUCKOO_BUCKETS_PER_CHUNK -
		NAM__CUCKOO_STASH_BUCKETS - buckets_least(p, p->evicts);

	return buckets * NAM__CUCKOO_BUCKET_CELLS - (p->evicts ? 0 : nam__kv_cells_used(&p->cells));
}

int
nam__cuckoo_cells_grow(struct nam__kv_partition *p, uint32_t need, uint32_t *looks,
	uint32_t *evictions)
{
	uint32_t count = p->cells.count, free_count = p->cells.free_count;

	/* A cache evicts short pairs only if long ones do not suffice. */
	while (p->cells.free_count < need && (nam__cuckoo_buckets_free(p) ||
			tables_shrink(p, p->evicts && need > p->cells.count))) {
		p->cells.count += NAM__CUCKOO_BUCKET_CELLS;
		p->cells.free_count += NAM__CUCKOO_BUCKET_CELLS;
	}
	if (p->cells.count > count)
		return 0;
	if (!p->evicts)
		return -NAM_E_REMOTE_FULL;
	if (!*evictions || !evict_for_cells(p, looks))
		return -NAM_E_REMOTE_CORRUPT;
	--*evictions;
	sweep_slots(p, p->cells.free_count - free_count);
	return 0;
}
