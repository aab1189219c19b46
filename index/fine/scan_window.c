/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan_window.c -- which leaves a cursor asks for, when, and how many at a time.
 *
 * A window is one doorbell per memory server and one round trip.  The next one is posted when half
 * of what was asked for is used up, so a long scan waits for its first window only.
 *
 * Where addresses come from, cheapest first:
 *	1. children of the cached level-1 node, and of the one behind it
 *	2. forward: the head node that the last leaf's sibling pointer leads to, if the far end of
 *	   the range is not near
 *	3. a level-1 node read for the purpose
 * With 1 and 3, separators say where the far end of the range is, so windows end there.  Windows
 * that are posted ahead use 1 only, because that takes no wait.
 */
#include "index/design.h"
#include "index/maintain/maintain.h"
#include "scan_internal.h"

#define RING_BYTES_MAX (64u << 10)
#define WINDOW_FIRST 4u			/* of a scan without a limit; windows double */
#define WINDOW_SMALL 8u

/* ---- how many ----------------------------------------------------------------------------- */

/* Leaves that a limit is expected to take, when nothing is known of them yet. */
static uint32_t
limit_leaves(const struct nam__scan *cursor)
{
	/* Leaves are rarely full: count on two thirds, and on starting in the middle of one. */
	uint64_t capacity = cursor->head.index->g.leaf_capacity;
	uint64_t leaves = cursor->remaining / (capacity * 2 / 3 + 1) + 2;

	/* A second window does no harm to a long scan: count leaves as if they were full. */
	if (leaves > WINDOW_SMALL)
		leaves = cursor->remaining / capacity + 2;
	return leaves < UINT32_MAX ? (uint32_t)leaves : UINT32_MAX;
}

/* Leaves to ask for beyond those in the ring, by what the leaves so far have held. */
static uint32_t
leaves_wanted(const struct nam__scan *cursor)
{
	uint32_t in_ring = cursor->posted - cursor->next;
	uint64_t leaves;

	if (!cursor->limited)
		return UINT32_MAX;
	if (!cursor->entries_seen)
		leaves = limit_leaves(cursor);
	else
		leaves = (cursor->remaining * cursor->leaves_seen + cursor->entries_seen - 1) /
			 cursor->entries_seen;
	if (leaves <= in_ring)
		return in_ring ? 0 : 1;
	return leaves - in_ring < UINT32_MAX ? (uint32_t)leaves - in_ring : UINT32_MAX;
}

void
nam__scan_window_init(struct nam__scan *cursor)
{
	uint32_t ring = RING_BYTES_MAX / cursor->head.index->g.node_bytes, leaves = UINT32_MAX;

	if (ring > NAM__SCAN_RING_MAX)
		ring = NAM__SCAN_RING_MAX;
	cursor->window = WINDOW_FIRST;
	if (cursor->limited) {
		cursor->window = ring;
		leaves = limit_leaves(cursor);
		cursor->short_scan = leaves <= WINDOW_SMALL && leaves <= ring;
	}
	while (ring > 1 && ring / 2 >= leaves)
		ring /= 2;
	cursor->ring = ring;
}

/* ---- addresses ---------------------------------------------------------------------------- */

/* The full key whose leaf comes next: the bound, or in reverse the key right below it. */
static bool
next_key(const struct nam__scan *cursor, struct nam__key *ret_key)
{
	*ret_key = cursor->bound;
	if (cursor->reverse && cursor->unbounded)
		memset(ret_key->w, 0xff, sizeof(ret_key->w));
	return !cursor->reverse || cursor->unbounded ||
	       nam__key_down(&cursor->head.index->g, ret_key->w);
}

/* Find where the hints behind hints_unresolved begin, and whether any are beyond the range. */
static void
hints_resolve(struct nam__scan *cursor)
{
	const struct nam_index *index = cursor->head.index;
	const struct nam__geometry *g = &index->g;
	const struct nam__cached_node *node = cursor->hints_place.node;
	const uint64_t *separators = nam__cached_node_cold(node)->separators;
	uint32_t count = cursor->hints_unresolved;
	unsigned first = cursor->hints_place.number;

	cursor->hints_unresolved = 0;
	if (!cursor->unbounded) {
		/* The first hint is the leaf at the bound, which lies before the end. */
		unsigned before = 1 + nam__count_below(separators + (first + 1) * g->full_words,
					      count - 1, g->full_words, cursor->stop.w,
					      g->full_words, false);

		cursor->hints_end -= count - before;
		if (before < count)
			return;
	}
	if (first + count == node->count && node->last)
		return;
	/* The high fence is behind the separators. */
	nam__scan_key_copy(g, separators + (size_t)(first + count) * g->full_words,
		&cursor->hints_key);
	cursor->hints_go_on = cursor->unbounded || nam__key_compare(cursor->hints_key.w,
		cursor->stop.w, g->full_words) < 0;
	/* The cache lines of the next node are to be there when its turn comes. */
	if (cursor->hints_go_on)
		(void)nam__cache_node(index->cache, cursor->hints_key.w);
}

/* In reverse: how many of `count` hints are not beyond the low end of the range. */
static uint32_t
hints_in_reverse(const struct nam__scan *cursor, uint32_t count)
{
	const struct nam__cache_place *place = &cursor->hints_place;
	unsigned last;

	if (count < 2)
		return count;
	/* The end lies at or below the key, so it is covered unless it lies below all children. */
	last = nam__cached_node_search(&cursor->head.index->g, place->node, cursor->truncated_floor,
		cursor->stop.w);
	return place->number - last < count - 1 ? place->number - last + 1 : count;
}

/* More hints from the cache, for leaves from `key` on; at most `wanted`. */
static void
hints_from_cache(struct nam__scan *cursor, const uint64_t *key, uint32_t wanted)
{
	uint32_t left = cursor->hints_end - cursor->hints_at, count;

	if (left)
		memmove(cursor->hints, cursor->hints + cursor->hints_at,
			left * sizeof(cursor->hints[0]));
	cursor->hints_at = 0;
	cursor->hints_end = left;
	if (wanted > NAM__SCAN_HINTS_MAX - left)
		wanted = NAM__SCAN_HINTS_MAX - left;
	count = nam__cache_leaves(cursor->head.index->cache, key, cursor->reverse,
		cursor->hints + left, wanted, &cursor->hints_place);
	if (cursor->reverse)
		count = hints_in_reverse(cursor, count);
	cursor->hints_end += count;
	cursor->hints_go_on = false;
	cursor->head.worker->current->counters->cache_hits += count != 0;
	/* A short scan with a limit has what it needs; others want to know how to go on. */
	if (!count || cursor->reverse || (cursor->unbounded && cursor->short_scan))
		return;
	cursor->hints_unresolved = count;
	/* Hints beyond the end of the range must not be followed; else it can wait. */
	if (!cursor->unbounded)
		hints_resolve(cursor);
}

/* Whether the range does not go on beyond the fence that a cursor comes to next. */
static bool
ends_at_fence(const struct nam__scan *cursor, const uint64_t *fence)
{
	int order;

	if (!cursor->reverse && cursor->unbounded)
		return false;
	order = nam__key_compare(fence, cursor->stop.w, cursor->head.index->g.full_words);
	return cursor->reverse ? order <= 0 : order >= 0;
}

/* Addresses from a level-1 node that is read for the purpose; a tree of one leaf has none. */
NAM_FIBER_FN static int
hints_from_parent(struct nam__scan *cursor, const uint64_t *key)
{
	struct nam_index *index = cursor->head.index;
	const struct nam__geometry *g = &index->g;
	uint64_t *image = nam__scan_image(cursor, 0);
	int number, step = cursor->reverse ? -1 : 1;
	struct nam_gaddr at;
	int rc;

	cursor->head.worker->current->counters->cache_misses += index->cache != NULL;
	rc = index->inner->read_covering(cursor->head.worker, index, key, 1, image,
		&at); /* SUSPENDS */
	if (rc == -NAM_E_RESTART_PARENT) {
		rc = nam__root_get(cursor->head.worker, index, &cursor->hints[0]); /* SUSPENDS */
		cursor->hints_end = !rc;
		return rc;
	}
	if (rc)
		return rc;
	if (index->cache)
		nam__cache_put(index->cache, image, at, index->names);
	/* I17: a memory server may name such leaves as well. */
	cursor->old_hints |= nam__names_old(index);
	number = (int)nam__inner_search(g, image, key);
	while (cursor->hints_end < NAM__SCAN_HINTS_MAX) {
		int fence = cursor->reverse ? number : number + 1;

		cursor->hints[cursor->hints_end++] = nam__inner_child(g, image, (unsigned)number);
		number += step;
		if (number < 0 || number >= (int)nam__node_count(image) ||
			ends_at_fence(cursor, nam__inner_entry(g, image, (unsigned)fence)))
			break;
	}
	return 0;
}

/* The next leaf was READ already, into image 0. */
static void
leaf_is_here(struct nam__scan *cursor)
{
	cursor->posted = 1;
	cursor->next_is_here = true;
}

/* I17: only the hints before the first that leads to a private region, where READs would fail. */
static void
public_hints(struct nam__scan *cursor)
{
	const struct nam_client *client = cursor->head.index->client;

	for (uint32_t i = 0; cursor->old_hints && i < cursor->hints_end; i++)
		if (NAM_GUARD(HINT_PUBLIC) &&
			!nam_region_table_public(&client->regions, cursor->hints[i]))
			cursor->hints_end = i;
}

/* Addresses from the head node that the chain leads to, if it does; a leaf there has been READ. */
NAM_FIBER_FN static int
hints_from_head(struct nam__scan *cursor)
{
	struct nam_index *index = cursor->head.index;
	uint64_t *image = nam__scan_image(cursor, 0);
	uint32_t count;
	int rc = nam__node_read(cursor->head.worker, index, cursor->chain, 0, image); /* SUSPENDS */

	if (nam_err_is(rc, NAM_E_RESTART))
		return 0;
	if (rc)
		return rc;
	if (nam__node_type(image) != NAM__NODE_HEAD) {
		cursor->addresses[0] = cursor->chain;
		leaf_is_here(cursor);
		return 0;
	}
	count = nam__node_count(image);
	if (count > NAM__SCAN_HINTS_MAX)
		count = NAM__SCAN_HINTS_MAX;
	memcpy(cursor->hints, image + index->g.entries_at, 8 * count);
	/* I17: head nodes name leaves that may have died long ago. */
	cursor->old_hints |= nam__generation(index->client) != 0;
	cursor->hints_end = count;
	return 0;
}

/*
 * Whether the far end is likely to lie beyond all that a head node names, by the leaves so far.  A
 * head node cannot say which leaf is the last, so near the end a parent is asked.
 */
static bool
end_is_far(const struct nam__scan *cursor)
{
	uint64_t here = cursor->bound.w[0];
	double done = (double)(here - cursor->begin), left = (double)(cursor->stop.w[0] - here);

	return cursor->unbounded || left * (double)cursor->leaves_seen >
		2.0 * done * nam__head_interval(cursor->head.index);
}

/* Fill `hints`, unless the next leaf is there already. */
NAM_FIBER_FN static int
find_hints(struct nam__scan *cursor, const uint64_t *key)
{
	int rc;

	/* Behind old names the cache has single leaves: a parent has more. */
	if (cursor->head.index->cache && !nam__names_old(cursor->head.index))
		hints_from_cache(cursor, key, leaves_wanted(cursor));
	if (cursor->hints_end)
		return 0;
	if (!nam_gaddr_is_null(cursor->chain) && end_is_far(cursor)) {
		rc = hints_from_head(cursor); /* SUSPENDS */
		if (rc || cursor->hints_end || cursor->next_is_here)
			return rc;
	}
	return hints_from_parent(cursor, key); /* SUSPENDS */
}

/* ---- windows ------------------------------------------------------------------------------ */

void
nam__scan_drain(struct nam__scan *cursor)
{
	while (cursor->outstanding.in_flight)
		nam__outstanding_take(cursor->head.worker, &cursor->outstanding); /* SUSPENDS */
	cursor->outstanding.rc = 0;
	cursor->moves = cursor->head.worker->moves;
	cursor->next = cursor->posted = cursor->refill_at = 0;
	cursor->next_is_here = false;
	cursor->hints_at = cursor->hints_end = cursor->hints_unresolved = 0;
	cursor->hints_go_on = false;
}

/* Post a window of hints; there are some, and room for them. */
static void
post_window(struct nam__scan *cursor, uint32_t count)
{
	const struct nam__outstanding_post ring = {
		.at = cursor->addresses,
		.images = cursor->images,
		.bytes = cursor->head.index->g.node_bytes,
		.size = cursor->ring,
	};

	for (uint32_t i = 0; i < count; i++)
		cursor->addresses[nam__scan_slot(cursor, cursor->posted + i)] =
			cursor->hints[cursor->hints_at + i];
	cursor->hints_at += count;
	nam__outstanding_read_many(cursor->head.worker, &cursor->outstanding, &ring,
		nam__scan_slot(cursor, cursor->posted), count);
	cursor->posted += count;
	cursor->refill_at = cursor->short_scan ? 0 : (cursor->posted - cursor->next) / 2;
	if (cursor->window < cursor->ring)
		cursor->window *= 2;
}

void
nam__scan_query(struct nam__scan *cursor)
{
	uint32_t in_ring = cursor->posted - cursor->next, count = cursor->ring - in_ring, wanted;

	wanted = leaves_wanted(cursor);
	if (!wanted) {
		/* The limit seems to be in the ring: look again, but not at every leaf. */
		cursor->refill_at /= 2;
		return;
	}
	if (count > cursor->window)
		count = cursor->window;
	if (count > wanted)
		count = wanted;
	if (cursor->hints_end - cursor->hints_at < count && cursor->hints_unresolved)
		hints_resolve(cursor);
	if (cursor->hints_end - cursor->hints_at < count && cursor->hints_go_on)
		hints_from_cache(cursor, cursor->hints_key.w, wanted);
	if (count > cursor->hints_end - cursor->hints_at)
		count = cursor->hints_end - cursor->hints_at;
	if (count)
		post_window(cursor, count);
	/* Now, while the READs are on their way. */
	if (cursor->hints_unresolved)
		hints_resolve(cursor);
}

int
nam__scan_fill(struct nam__scan *cursor, bool safely)
{
	struct nam__key key;
	int rc;

	nam__scan_drain(cursor); /* SUSPENDS */
	if (!next_key(cursor, &key)) {
		cursor->done = true;
		return 0;
	}
	if (safely) {
		rc = nam__read_covering(cursor->head.worker, cursor->head.index, key.w, 0,
			nam__scan_image(cursor, 0), &cursor->addresses[0]); /* SUSPENDS */
		if (!rc)
			leaf_is_here(cursor);
		return rc;
	}
	rc = find_hints(cursor, key.w); /* SUSPENDS */
	if (rc)
		return rc;
	public_hints(cursor);
	cursor->chain = NAM_GADDR_NULL;
	if (!cursor->next_is_here)
		nam__scan_query(cursor);
	return 0;
}
