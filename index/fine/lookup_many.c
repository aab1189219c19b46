/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup_many.c -- many lookups at a time, in a pipeline of two stages.
 *
 *	the cache	is searched for a group of keys at a time, so that their misses overlap
 *	the leaves	are READ through a rolling window: each that arrives is searched, and the
 *			next is posted in its place
 *
 * Keys without an answer (unknown to the cache, a leaf that was divided, …) are looked up singly,
 * once nothing is in flight any more.
 */
#include <errno.h>

#include "compute/backup/again.h"
#include "compute/worker/outstanding_reads.h"
#include "fine.h"
#include "leaf_lookup.h"

#define GROUP_MAX NAM__CACHE_GROUP_MAX
/* At most NAM__OUTSTANDING_MAX. */
#define IN_READ_MAX 16u
/* Where READs are copies, their images and what is prefetched share the first-level cache. */
#define IN_READ_CACHED 12u

struct pipeline {
	struct nam_worker *worker;
	struct nam_index *index;
	const uint8_t *keys;		/* the caller's, of all */
	uint64_t *ret_payloads;
	int *ret_rcs;
	uint32_t count;

	uint32_t grouped;		/* keys that the cache has been searched for */
	uint32_t posted;		/* of those, keys that were posted or given up */
	uint64_t group_keys[GROUP_MAX];
	struct nam_gaddr group_at[GROUP_MAX];

	uint64_t *images;		/* IN_READ_MAX nodes; READ i goes into image i */
	struct nam_gaddr at[IN_READ_MAX];
	uint64_t read_keys[IN_READ_MAX];
	uint32_t positions[IN_READ_MAX];	/* in the caller's arrays */
	uint32_t again;			/* keys for the single lookup: NAM__LEAF_UNUSABLE */
	struct nam__outstanding_reads outstanding;
};

static inline uint64_t *
image_of(const struct pipeline *p, unsigned read)
{
	return p->images + (size_t)read * p->index->g.node_words;
}

/* The next group of keys, as far as the cache knows them. */
static __attribute__((noinline)) void
search_cache(struct pipeline *p)
{
	uint32_t count = p->count - p->grouped < GROUP_MAX ? p->count - p->grouped : GROUP_MAX;

	for (uint32_t i = 0; i < count; i++)
		p->group_keys[i] = nam_key_to_u64(p->keys + 8ul * (p->grouped + i));
	nam__outstanding_turn(p->worker, &p->outstanding);
	nam__cache_leaf_group(p->index->cache, p->group_keys, count, p->group_at);
	p->grouped += count;
}

/* Post the READ for the next key that the cache knows; false when there are no more keys. */
static inline __attribute__((always_inline)) bool
post_next(struct pipeline *p, unsigned read)
{
	while (p->posted < p->count) {
		uint32_t in_group = p->posted % GROUP_MAX;

		if (p->posted == p->grouped)
			search_cache(p);
		if (!nam_gaddr_is_null(p->group_at[in_group])) {
			p->at[read] = p->group_at[in_group];
			p->read_keys[read] = p->group_keys[in_group];
			p->positions[read] = p->posted++;
			nam__outstanding_read(p->worker, &p->outstanding, read, p->at[read],
				image_of(p, read), p->index->g.node_bytes);
			return true;
		}
		p->ret_rcs[p->posted++] = NAM__LEAF_UNUSABLE;
		p->again++;
	}
	return false;
}

/* Run the pipeline dry.  After a failure, wait for outstanding requests and post no others. */
NAM_FIBER_FN static int
run(struct pipeline *p)
{
	unsigned most = p->worker->in_post_order ? IN_READ_CACHED : IN_READ_MAX;

	for (unsigned read = 0; read < most; read++)
		if (!post_next(p, read))
			break;
	while (p->outstanding.in_flight) {
		unsigned read = nam__outstanding_take(p->worker, &p->outstanding); /* SUSPENDS */
		uint32_t position = p->positions[read];

		if (p->outstanding.rc)
			continue;
		p->ret_rcs[position] = nam__leaf_lookup(p->index, image_of(p, read),
			p->at[read], p->read_keys[read], &p->ret_payloads[position]);
		p->again += p->ret_rcs[position] == NAM__LEAF_UNUSABLE;
		post_next(p, read);
	}
	return nam__outstanding_rc(p->worker, &p->outstanding);
}

NAM_FIBER_FN static void
look_up_singly(struct nam_worker *worker, struct nam_index *index, const uint8_t *keys,
	uint32_t count, bool all, uint64_t *ret_payloads, int *ret_rcs)
{
	for (uint32_t i = 0; i < count; i++)
		if (all || ret_rcs[i] == NAM__LEAF_UNUSABLE)
			ret_rcs[i] = nam__fine_lookup(worker, index,
				keys + (size_t)i * index->g.key_bytes,
				&ret_payloads[i]); /* SUSPENDS */
}

int
nam__fine_lookup_many(struct nam_worker *worker, struct nam_index *index, const void *keys,
	uint32_t count, uint64_t *ret_payloads, int *ret_rcs)
{
	uint32_t moves = worker->moves;
	struct pipeline p;
	bool in_vain;
	int rc;

	if (!index->fast_lookups) {
		look_up_singly(worker, index, keys, count, true, ret_payloads,
			ret_rcs); /* SUSPENDS */
		return 0;
	}
	p.images = nam_buffer_take(worker, IN_READ_MAX * index->g.node_bytes);
	if (!p.images)
		return -ENOMEM;
	p.worker = worker;
	p.index = index;
	p.keys = keys;
	p.ret_payloads = ret_payloads;
	p.ret_rcs = ret_rcs;
	p.count = count;
	p.grouped = p.posted = p.again = 0;
	nam__outstanding_init(&p.outstanding, worker);

	nam__op_begin(worker, NAM_OP_LOOKUP);
	rc = run(&p); /* SUSPENDS */
	/* A lookup that is repeated counts itself. */
	worker->counters[NAM_OP_LOOKUP].ops += (uint64_t)count - 1 - p.again;
	if (!rc)
		worker->counters[NAM_OP_LOOKUP].cache_hits += (uint64_t)count - p.again;
	nam__op_end(worker);
	nam_buffer_give(worker, p.images, IN_READ_MAX * index->g.node_bytes);
	in_vain = __builtin_expect(rc, 0) && nam__any_in_vain(worker, rc, moves);
	if (in_vain || (!rc && p.again))
		look_up_singly(worker, index, keys, count, in_vain, ret_payloads,
			ret_rcs); /* SUSPENDS */
	return in_vain ? 0 : rc;
}
