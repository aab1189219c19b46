/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuckoo.h -- G-Cuckoo (Wu et al., "RHKV"): two tables of buckets (bucket.h), and the graph over
 * them.
 *
 * In the graph, buckets are vertices, and each pair is an edge between its two buckets.  A subgraph
 * is maximal if all its slots are occupied: an insert into it would kick out pairs without end.
 *
 * ASSUMPTIONS: clients may write to the memory of buckets and cells at any time.  So every number
 * that comes from there is read once and checked, and every loop over it is bounded.
 */
#ifndef NAM_KV_SERVER_CUCKOO_H
#define NAM_KV_SERVER_CUCKOO_H

#include <string.h>

#include "common/guard.h"
#include "bucket.h"
#include "engine.h"

#define NAM__CUCKOO_NONE UINT32_MAX

/* Bits of nam__cuckoo_vertex.up. */
#define NAM__CUCKOO_ROOT (1u << 31)	/* the other bits are of a root, not a bucket's number: */
#define NAM__CUCKOO_LONE (1u << 30)	/* no pair has had this bucket: no vertex, says the paper */
#define NAM__CUCKOO_FREE_MASK (NAM__CUCKOO_LONE - 1)	/* free slots of the subgraph */

#define NAM__CUCKOO_STASH_SLOTS (NAM__CUCKOO_STASH_BUCKETS * NAM__CUCKOO_SLOTS)
_Static_assert((uint64_t)NAM__KV_CHUNKS_MAX * NAM__CUCKOO_BUCKETS_PER_CHUNK * NAM__CUCKOO_SLOTS -
	NAM__CUCKOO_STASH_SLOTS <= NAM__CUCKOO_FREE_MASK, "the slots of tables can be counted");

/* Values of nam__cuckoo_vertex.mark; others are generations of closed sets. */
#define NAM__CUCKOO_UNMARKED 0u
#define NAM__CUCKOO_VISITED 255u

/* A cell of a pair that is longer than 48 bytes. */
struct nam__cuckoo_cell {
	uint32_t next;			/* of the pair, or free; or NAM__KV_CELL_NONE */
	uint32_t owner;			/* FIRST and the position, or the cell before it;
					   NAM__KV_CELL_NONE: a free one */
	union {
		uint8_t data[56];
		uint32_t before;	/* of a free one that is not the first: the one before */
	};
};
_Static_assert(sizeof(struct nam__cuckoo_cell) == NAM__KV_CELL_BYTES, "layout");

#define NAM__CUCKOO_FIRST (1u << 31)
_Static_assert((uint64_t)NAM__KV_CHUNKS_MAX * NAM__KV_CELLS_PER_CHUNK <= NAM__CUCKOO_FIRST,
	"a cell's number is no position");
#define NAM__CUCKOO_CELL_SKIP ((uint32_t)offsetof(struct nam__cuckoo_cell, data))
#define NAM__CUCKOO_CELL_DATA (NAM__KV_CELL_BYTES - NAM__CUCKOO_CELL_SKIP)
/* So much of a longer pair is in its bucket; the number of its first cell follows. */
#define NAM__CUCKOO_HEAD_BYTES (NAM__CUCKOO_DATA_BYTES - (uint32_t)sizeof(uint32_t))

/* ---- buckets ------------------------------------------------------------------------------- */

/* Each number below it is of a bucket of the stash or of the tables. */
static inline uint32_t
nam__cuckoo_end(const struct nam__kv_partition *p)
{
	return NAM__CUCKOO_STASH_BUCKETS + nam__cuckoo_buckets(&p->cuckoo.shape);
}

/* The slots of both tables. */
static inline uint32_t
nam__cuckoo_slots(const struct nam__kv_partition *p)
{
	return nam__cuckoo_buckets(&p->cuckoo.shape) * NAM__CUCKOO_SLOTS;
}

/*
 * A store has room for pairs in 39 of 40 slots.  Two choices of four slots allow 0.977 of full
 * buckets.  Near that, a search for the next free slot would look at most of a partition.
 */
static inline uint64_t
nam__cuckoo_slots_for(uint64_t pairs)
{
	return pairs * 40 / 39 + 1;
}

static inline bool
nam__cuckoo_in_stash(uint32_t position)
{
	return position < NAM__CUCKOO_STASH_SLOTS;
}

static inline struct nam__cuckoo_bucket *
nam__cuckoo_bucket_at(const struct nam__kv_partition *p, uint32_t bucket)
{
	return (struct nam__cuckoo_bucket *)(void *)(
		p->chunks[bucket / NAM__CUCKOO_BUCKETS_PER_CHUNK] +
		bucket % NAM__CUCKOO_BUCKETS_PER_CHUNK * NAM__CUCKOO_BUCKET_BYTES);
}

static inline struct nam__cuckoo_slot *
nam__cuckoo_slot_at(const struct nam__kv_partition *p, uint32_t position)
{
	return &nam__cuckoo_bucket_at(p, position / NAM__CUCKOO_SLOTS)
			->slots[position % NAM__CUCKOO_SLOTS];
}

/* A slot as it is now: each word is read once. */
static inline struct nam__cuckoo_slot
nam__cuckoo_slot_load(const struct nam__cuckoo_slot *slot)
{
	return (struct nam__cuckoo_slot){
		.checksum = __atomic_load_n(&slot->checksum, __ATOMIC_RELAXED),
		.hash = __atomic_load_n(&slot->hash, __ATOMIC_RELAXED),
		.lengths = __atomic_load_n(&slot->lengths, __ATOMIC_RELAXED),
	};
}

/*
 * The pair there has gone.  A READ takes words in any order.  So it may have the data of a pair
 * that was there before and the lengths of the next one.  Then no checksum may fit (K8).
 */
static inline void
nam__cuckoo_slot_clear(struct nam__cuckoo_slot *slot)
{
	if (NAM_GUARD(KV_GONE))
		slot->checksum = 0;
	slot->lengths = 0;
}

/* A free slot's position, or NAM__CUCKOO_NONE. */
static inline uint32_t
nam__cuckoo_free_slot(const struct nam__kv_partition *p, uint32_t bucket)
{
	const struct nam__cuckoo_slot *slots = nam__cuckoo_bucket_at(p, bucket)->slots;

	for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++)
		if (!slots[i].lengths)
			return bucket * NAM__CUCKOO_SLOTS + i;
	return NAM__CUCKOO_NONE;
}

/* ---- a pair -------------------------------------------------------------------------------- */

static inline uint32_t
nam__cuckoo_cells_for(uint32_t bytes)
{
	return bytes <= NAM__CUCKOO_DATA_BYTES ? 0 :
		(bytes - NAM__CUCKOO_HEAD_BYTES - 1) / NAM__CUCKOO_CELL_DATA + 1;
}

static inline uint32_t
nam__cuckoo_cells(const struct nam__cuckoo_slot *slot)
{
	return nam__cuckoo_cells_for(nam__cuckoo_key_bytes(slot) + nam__cuckoo_value_bytes(slot));
}

static inline struct nam__cuckoo_cell *
nam__cuckoo_cell_at(const struct nam__kv_partition *p, uint32_t at)
{
	return nam__kv_cell_at(&p->cells, at);
}

static inline uint8_t *
nam__cuckoo_data_at(const struct nam__kv_partition *p, uint32_t position)
{
	return nam__cuckoo_bucket_at(p, position / NAM__CUCKOO_SLOTS)
		->data[position % NAM__CUCKOO_SLOTS];
}

/* The first cell of the pair there, if it is that pair's; or NAM__KV_CELL_NONE. */
static inline uint32_t
nam__cuckoo_first_cell(const struct nam__kv_partition *p, uint32_t position)
{
	const uint32_t *word = (const uint32_t *)(void *)(nam__cuckoo_data_at(p, position) +
		NAM__CUCKOO_HEAD_BYTES);
	uint32_t first = __atomic_load_n(word, __ATOMIC_RELAXED);

	if (first >= p->cells.carved || __atomic_load_n(&nam__cuckoo_cell_at(p, first)->owner,
			__ATOMIC_RELAXED) != (NAM__CUCKOO_FIRST | position))
		return NAM__KV_CELL_NONE;
	return first;
}

/* ---- cuckoo_graph.c ------------------------------------------------------------------------ */

/* The effect of an insert on the graph: section 4.7 and table 2 of the paper. */
enum nam__cuckoo_case {
	NAM__CUCKOO_A,			/* both become vertices, of a new subgraph */
	NAM__CUCKOO_B,			/* one becomes a vertex of the other's subgraph */
	NAM__CUCKOO_C1,			/* neither subgraph is maximal */
	NAM__CUCKOO_C2,			/* one is */
	NAM__CUCKOO_C3,			/* both are: the insert would loop */
};

/* Exact for loops that the numbers of free slots show; a search finds the others. */
enum nam__cuckoo_case nam__cuckoo_predict(const struct nam__kv_partition *partition,
	const uint32_t buckets[2]);

/* A bucket that no pair has had yet. */
void nam__cuckoo_vertex_init(struct nam__cuckoo_vertex *vertex);
/* A pair of these two buckets has come, */
void nam__cuckoo_edge_add(struct nam__kv_partition *partition, const uint32_t buckets[2]);
/* and one in this bucket has gone. */
void nam__cuckoo_edge_remove(struct nam__kv_partition *partition, uint32_t bucket);
/* Some pairs of a bucket may go to a new one. */
void nam__cuckoo_vertex_split(struct nam__kv_partition *partition, uint32_t bucket, uint32_t fresh);
/* The pairs of the last bucket of a table may go to this one, */
void nam__cuckoo_vertex_merge(struct nam__kv_partition *partition, uint32_t bucket, uint32_t gone);
/* and its free slots are none of a subgraph any more. */
void nam__cuckoo_vertex_remove(struct nam__kv_partition *partition, uint32_t gone);
/* Subgraphs as the pairs make them now. */
void nam__cuckoo_graph_rebuild(struct nam__kv_partition *partition);
/* The root of a subgraph. */
uint32_t nam__cuckoo_root(const struct nam__kv_partition *partition, uint32_t bucket);

/* A pair goes to a free slot of another bucket. */
void nam__cuckoo_kick(struct nam__kv_partition *partition, uint32_t from, uint32_t to);

enum nam__cuckoo_search {
	NAM__CUCKOO_NEARER,		/* look at 32 buckets: the tables can grow instead */
	NAM__CUCKOO_NEAR,		/* 256 */
	NAM__CUCKOO_ALL,		/* every bucket that can be reached */
};

/*
 * Make a slot of one of two full buckets free by kick-outs, the fewest that do.  Nothing is kicked
 * out unless a slot becomes free.
 *
 * @ret_kicks		how many pairs went to another bucket
 *
 * Returns the position, or NAM__CUCKOO_NONE: after a search of all, an insert would loop.
 */
uint32_t nam__cuckoo_make_room(struct nam__kv_partition *partition, const uint32_t buckets[2],
	enum nam__cuckoo_search search, uint32_t *ret_kicks);

/* ---- cuckoo_place.c ------------------------------------------------------------------------ */

/* The bucket in table 0 counts pairs of this hash in the stash. */
void nam__cuckoo_spill(struct nam__kv_partition *partition, uint32_t hash, int by);
/* Free at most `count` cells of a chain. */
void nam__cuckoo_cells_give(struct nam__kv_partition *partition, uint32_t first, uint32_t count);
void nam__cuckoo_pair_remove(struct nam__kv_partition *partition, uint32_t position);
/* Remove a pair, which counts as evicted. */
void nam__cuckoo_evict(struct nam__kv_partition *partition, uint32_t position);
/* Whether the pair there was read since the hand of CLOCK last passed; the hand passes. */
bool nam__cuckoo_spared(struct nam__kv_partition *partition, uint32_t position);

/* A free slot of one of two buckets, if need be after kick-outs; or NAM__CUCKOO_NONE. */
uint32_t nam__cuckoo_slot_in_tables(struct nam__kv_partition *partition, const uint32_t buckets[2],
	enum nam__cuckoo_search search, uint32_t *ret_kicks);
/* A free slot of the stash, which counts it; or NAM__CUCKOO_NONE. */
uint32_t nam__cuckoo_slot_in_stash(struct nam__kv_partition *partition, uint32_t hash);
/* The slot of a pair in two full buckets that was not read lately. */
uint32_t nam__cuckoo_slot_by_eviction(struct nam__kv_partition *partition,
	const uint32_t buckets[2]);

/* A pair that is in neither of its buckets goes to one of them.  False: a store has no slot. */
bool nam__cuckoo_relocate(struct nam__kv_partition *partition, uint32_t from,
	enum nam__cuckoo_search search);
/* A pair of the stash goes to the tables, if one has room by now. */
void nam__cuckoo_unstash(struct nam__kv_partition *partition);

/* ---- cuckoo_memory.c ----------------------------------------------------------------------- */

/* Memory goes from tables to cells, and back, by buckets. */
#define NAM__CUCKOO_BUCKET_CELLS (NAM__CUCKOO_BUCKET_BYTES / NAM__KV_CELL_BYTES)

/* How many buckets the memory has room for that neither tables nor cells have. */
static inline uint32_t
nam__cuckoo_buckets_free(const struct nam__kv_partition *p)
{
	return p->chunks_count * NAM__CUCKOO_BUCKETS_PER_CHUNK - nam__cuckoo_end(p) -
		p->cells.count / NAM__CUCKOO_BUCKET_CELLS;
}

void nam__cuckoo_bucket_init(struct nam__kv_partition *partition, uint32_t bucket);

/* More buckets, if there is memory.  @keep	so many free cells stay free */
bool nam__cuckoo_tables_grow(struct nam__kv_partition *partition, uint32_t keep);

/* Free cells, if all that a store can move, or a cache can evict, has gone. */
uint32_t nam__cuckoo_cells_most(const struct nam__kv_partition *partition);
/*
 * Towards `need` free cells: as many more as there is memory for; if for none, in a cache a pair
 * less.  Pairs may go to other positions.
 *
 * @looks	at cells, which are left before pairs go although they were read
 * @evictions	that are left
 *
 * 0; -NAM_E_REMOTE_FULL; or -NAM_E_REMOTE_CORRUPT: a cache has no pair to evict.
 */
int nam__cuckoo_cells_grow(struct nam__kv_partition *partition, uint32_t need, uint32_t *looks,
	uint32_t *evictions) NAM_MUST_CHECK;
/* A pair of a cache was evicted for its slot: pairs with cells that were not read go as well. */
void nam__cuckoo_sweep_cells(struct nam__kv_partition *partition);

#endif /* NAM_KV_SERVER_CUCKOO_H */
