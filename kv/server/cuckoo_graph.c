/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuckoo_graph.c -- which inserts would loop: union-find over subgraphs, and closed sets.
 *
 * The paper's buckets have one slot, so a subgraph with a free slot has room for any insert.  With
 * four slots a part of a subgraph can be closed.  All its slots are then occupied, and both buckets
 * of each of its pairs lie in it.  A search that finds no free slot has seen a closed set.  Its
 * buckets keep the number of a generation, until a pair of the set goes, or the tables change their
 * size.
 */
#include "cuckoo.h"

#include "common/race.h"

/* Buckets that a search of either kind looks at, on the stack. */
#define NEAR_MAX 256u
#define NEARER_MAX 32u

static struct nam__cuckoo_vertex *
vertex_at(const struct nam__kv_partition *p, uint32_t bucket)
{
	return &nam__cuckoo_bucket_at(p, bucket)->vertex;
}

/* ---- subgraphs ----------------------------------------------------------------------------- */

/*
 * The bucket above; NONE above a root, and where a link does not lead upwards.  Links lead to lower
 * numbers: they form no circle, and none leads to the bucket that goes when tables shrink.
 */
static inline uint32_t
above(const struct nam__kv_partition *p, uint32_t bucket)
{
	uint32_t up = __atomic_load_n(&vertex_at(p, bucket)->up, __ATOMIC_RELAXED);

	return up < bucket ? up : NAM__CUCKOO_NONE;
}

uint32_t
nam__cuckoo_root(const struct nam__kv_partition *p, uint32_t bucket)
{
	for (uint32_t up; (up = above(p, bucket)) != NAM__CUCKOO_NONE; bucket = up) {
		uint32_t next = above(p, up);

		/* Halve the path. */
		if (next != NAM__CUCKOO_NONE)
			vertex_at(p, bucket)->up = next;
	}
	return bucket;
}

void
nam__cuckoo_vertex_init(struct nam__cuckoo_vertex *vertex)
{
	*vertex = (struct nam__cuckoo_vertex){
		.up = NAM__CUCKOO_ROOT | NAM__CUCKOO_LONE | NAM__CUCKOO_SLOTS,
		.tag = NAM__CUCKOO_TAG,
	};
}

void
nam__cuckoo_edge_add(struct nam__kv_partition *p, const uint32_t buckets[2])
{
	uint32_t root = nam__cuckoo_root(p, buckets[0]), other = nam__cuckoo_root(p, buckets[1]);

	if (root > other) {
		uint32_t swap = root;

		root = other;
		other = swap;
	}
	vertex_at(p, root)->up &= ~NAM__CUCKOO_LONE;
	if (root != other) {
		vertex_at(p, root)->up += vertex_at(p, other)->up & NAM__CUCKOO_FREE_MASK;
		vertex_at(p, other)->up = root;
	}
	vertex_at(p, root)->up--;
}

/* The closed sets of before are none any more. */
static void
open_all(struct nam__kv_partition *p)
{
	struct nam__kv_cuckoo *cuckoo = &p->cuckoo;
	uint32_t end = nam__cuckoo_end(p);

	if (!cuckoo->any_closed)
		return;
	cuckoo->any_closed = false;
	if (++cuckoo->generation < NAM__CUCKOO_VISITED)
		return;
	for (uint32_t bucket = NAM__CUCKOO_STASH_BUCKETS; bucket < end; bucket++)
		vertex_at(p, bucket)->mark = NAM__CUCKOO_UNMARKED;
	cuckoo->generation = NAM__CUCKOO_UNMARKED + 1;
}

static inline bool
closed(const struct nam__kv_partition *p, const struct nam__cuckoo_vertex *vertex)
{
	return vertex->mark == p->cuckoo.generation;
}

void
nam__cuckoo_edge_remove(struct nam__kv_partition *p, uint32_t bucket)
{
	vertex_at(p, nam__cuckoo_root(p, bucket))->up++;
	if (closed(p, vertex_at(p, bucket)))
		open_all(p);
}

void
nam__cuckoo_vertex_split(struct nam__kv_partition *p, uint32_t bucket, uint32_t fresh)
{
	open_all(p);
	if (vertex_at(p, bucket)->up & NAM__CUCKOO_LONE)
		return;
	/* Union-find knows no division: the two stay one subgraph. */
	nam__cuckoo_edge_add(p, (const uint32_t[2]){ bucket, fresh });
	vertex_at(p, nam__cuckoo_root(p, bucket))->up++;
}

void
nam__cuckoo_vertex_merge(struct nam__kv_partition *p, uint32_t bucket, uint32_t gone)
{
	open_all(p);
	if (vertex_at(p, gone)->up & NAM__CUCKOO_LONE)
		return;
	nam__cuckoo_edge_add(p, (const uint32_t[2]){ bucket, gone });
	vertex_at(p, nam__cuckoo_root(p, bucket))->up++;
}

void
nam__cuckoo_vertex_remove(struct nam__kv_partition *p, uint32_t gone)
{
	const struct nam__cuckoo_slot *slots = nam__cuckoo_bucket_at(p, gone)->slots;

	for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++)
		if (!slots[i].lengths)
			vertex_at(p, nam__cuckoo_root(p, gone))->up--;
}

void
nam__cuckoo_graph_rebuild(struct nam__kv_partition *p)
{
	uint32_t end = nam__cuckoo_end(p);

	for (uint32_t bucket = NAM__CUCKOO_STASH_BUCKETS; bucket < end; bucket++)
		vertex_at(p, bucket)->up = NAM__CUCKOO_ROOT | NAM__CUCKOO_LONE | NAM__CUCKOO_SLOTS;
	for (uint32_t at = NAM__CUCKOO_STASH_SLOTS; at < end * NAM__CUCKOO_SLOTS; at++) {
		struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, at));
		uint32_t buckets[2];

		nam__cuckoo_buckets_of(&p->cuckoo.shape, slot.hash, buckets);
		if (slot.lengths)
			nam__cuckoo_edge_add(p, buckets);
	}
}

enum nam__cuckoo_case
nam__cuckoo_predict(const struct nam__kv_partition *p, const uint32_t buckets[2])
{
	uint32_t lone = 0, maximal = 0;

	for (uint32_t i = 0; i < 2; i++) {
		uint32_t up = vertex_at(p, nam__cuckoo_root(p, buckets[i]))->up;

		lone += (up & NAM__CUCKOO_LONE) != 0;
		maximal += (up & NAM__CUCKOO_FREE_MASK) == 0 || closed(p, vertex_at(p, buckets[i]));
	}
	if (lone)
		return lone == 2 ? NAM__CUCKOO_A : NAM__CUCKOO_B;
	return maximal == 2 ? NAM__CUCKOO_C3 : maximal ? NAM__CUCKOO_C2 : NAM__CUCKOO_C1;
}

/* ---- kick-outs ----------------------------------------------------------------------------- */

/* Another bucket has a copy before this one loses its own. */
void
nam__cuckoo_kick(struct nam__kv_partition *p, uint32_t from, uint32_t to)
{
	struct nam__cuckoo_slot slot = nam__cuckoo_slot_load(nam__cuckoo_slot_at(p, from));
	uint32_t first = nam__cuckoo_cells(&slot) ? nam__cuckoo_first_cell(p, from) :
						    NAM__KV_CELL_NONE;

	memcpy(nam__cuckoo_data_at(p, to), nam__cuckoo_data_at(p, from), NAM__CUCKOO_DATA_BYTES);
	*nam__cuckoo_slot_at(p, to) = slot;
	if (first != NAM__KV_CELL_NONE)
		nam__cuckoo_cell_at(p, first)->owner = NAM__CUCKOO_FIRST | to;
	nam_race_point("kv.kicked");
	nam__cuckoo_slot_clear(nam__cuckoo_slot_at(p, from));
}

struct visit {
	uint32_t bucket;
	uint32_t before;		/* the visit from which this one comes, or NONE, */
	uint32_t from;			/* and there the position of the pair that could come */
};

/* From the free slot backwards: each pair is in its new bucket before its slot is used. */
static uint32_t
kick_near(struct nam__kv_partition *p, const struct visit *visits, uint32_t at, uint32_t from,
	uint32_t to, uint32_t *ret_kicks)
{
	for (*ret_kicks = 1;; ++*ret_kicks) {
		nam__cuckoo_kick(p, from, to);
		if (visits[at].before == NAM__CUCKOO_NONE)
			return from;
		to = from;
		from = visits[at].from;
		at = visits[at].before;
	}
}

/* Breadth first, so kick-outs are the fewest, and no bucket is met twice on the way. */
static uint32_t
search_near(struct nam__kv_partition *p, const uint32_t buckets[2], uint32_t most,
	uint32_t *ret_kicks)
{
	struct visit visits[NEAR_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < 2; i++)
		visits[count++] = (struct visit){ buckets[i], NAM__CUCKOO_NONE, NAM__CUCKOO_NONE };
	for (uint32_t at = 0; at < count; at++) {
		const struct nam__cuckoo_bucket *bucket =
			nam__cuckoo_bucket_at(p, visits[at].bucket);

		if (closed(p, &bucket->vertex))
			continue;
		for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++) {
			uint32_t other = nam__cuckoo_other(&p->cuckoo.shape, visits[at].bucket,
				bucket->slots[i].hash);
			uint32_t from = visits[at].bucket * NAM__CUCKOO_SLOTS + i;
			uint32_t to = nam__cuckoo_free_slot(p, other);

			if (to != NAM__CUCKOO_NONE)
				return kick_near(p, visits, at, from, to, ret_kicks);
			if (count < most)
				visits[count++] = (struct visit){ other, at, from };
		}
	}
	return NAM__CUCKOO_NONE;
}

/* The queue of an exhaustive search goes through the vertices. */
struct queue {
	uint32_t first, last, count;
};

static void
visit(struct nam__kv_partition *p, struct queue *queue, uint32_t bucket, uint32_t from)
{
	struct nam__cuckoo_vertex *vertex = vertex_at(p, bucket);

	if (vertex->mark == NAM__CUCKOO_VISITED || closed(p, vertex))
		return;
	vertex->mark = NAM__CUCKOO_VISITED;
	vertex->from = from;
	if (queue->count++)
		vertex_at(p, queue->last)->next = bucket;
	else
		queue->first = bucket;
	queue->last = bucket;
}

/* The bucket that follows in the queue, if no client has written there: then 0, of the stash. */
static uint32_t
visited_after(const struct nam__kv_partition *p, uint32_t bucket)
{
	uint32_t next = __atomic_load_n(&vertex_at(p, bucket)->next, __ATOMIC_RELAXED);

	return next < nam__cuckoo_end(p) ? next : 0;
}

static uint32_t
kick_far(struct nam__kv_partition *p, uint32_t from, uint32_t to, uint32_t most,
	uint32_t *ret_kicks)
{
	for (*ret_kicks = 1;; ++*ret_kicks) {
		nam__cuckoo_kick(p, from, to);
		to = from;
		from = __atomic_load_n(&vertex_at(p, to / NAM__CUCKOO_SLOTS)->from,
			__ATOMIC_RELAXED);
		if (from >= nam__cuckoo_end(p) * NAM__CUCKOO_SLOTS || *ret_kicks == most)
			return to;
	}
}

static uint32_t
search_all(struct nam__kv_partition *p, const uint32_t buckets[2], uint32_t *ret_kicks)
{
	struct queue queue = { 0 };
	uint32_t found = NAM__CUCKOO_NONE, at, visited = 0;

	for (uint32_t i = 0; i < 2; i++)
		visit(p, &queue, buckets[i], NAM__CUCKOO_NONE);
	for (at = queue.first; visited < queue.count && found == NAM__CUCKOO_NONE;
		at = visited_after(p, at), visited++) {
		const struct nam__cuckoo_bucket *bucket = nam__cuckoo_bucket_at(p, at);

		for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS && found == NAM__CUCKOO_NONE; i++) {
			uint32_t other = nam__cuckoo_other(&p->cuckoo.shape, at,
				bucket->slots[i].hash);
			uint32_t from = at * NAM__CUCKOO_SLOTS + i;
			uint32_t to = nam__cuckoo_free_slot(p, other);

			if (to != NAM__CUCKOO_NONE)
				found = kick_far(p, from, to, queue.count, ret_kicks);
			else if (queue.count < nam__cuckoo_end(p))
				visit(p, &queue, other, from);
		}
	}
	if (found == NAM__CUCKOO_NONE)
		p->cuckoo.any_closed = true;
	for (at = queue.first; queue.count; at = visited_after(p, at), queue.count--)
		vertex_at(p, at)->mark = found == NAM__CUCKOO_NONE ? p->cuckoo.generation :
								      NAM__CUCKOO_UNMARKED;
	return found;
}

uint32_t
nam__cuckoo_make_room(struct nam__kv_partition *p, const uint32_t buckets[2],
	enum nam__cuckoo_search search, uint32_t *ret_kicks)
{
	if (nam__cuckoo_predict(p, buckets) == NAM__CUCKOO_C3)
		return NAM__CUCKOO_NONE;
	if (search == NAM__CUCKOO_ALL)
		return search_all(p, buckets, ret_kicks);
	return search_near(p, buckets, search == NAM__CUCKOO_NEAR ? NEAR_MAX : NEARER_MAX,
		ret_kicks);
}
