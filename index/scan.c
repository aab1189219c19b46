/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.c -- range scans: a cursor that READs windows of leaves.
 *
 * The cursor's place is a full key, the bound, never a node: everything below it (above it, in
 * reverse) has been delivered.  Addresses of leaves, wherever they come from, are hints.  A leaf's
 * image counts only if its own fences enclose the bound; then its entries beyond the bound are
 * delivered and the bound moves to its far fence.  So results never depend on a hint, and what a
 * split or a merge moved between two READs is neither missed nor delivered twice.
 *
 * Where addresses come from, cheapest first:
 *	1. children of the cached level-1 node
 *	2. forward: the head node that the last leaf's sibling pointer leads to
 *	3. a level-1 node read for the purpose
 */
#include <errno.h>
#include <stdlib.h>

#include "index_internal.h"
#include "pairs.h"

#define WINDOW_MAX NAM__FLIGHTS_MAX
#define WINDOW_BYTES_MAX (64u << 10)

struct nam_cursor {
	struct nam_worker *worker;
	struct nam_index *index;
	struct nam__key bound;		/* delivered up to here */
	struct nam__key stop;		/* the far end; exclusive forward, inclusive in reverse */
	bool unbounded;			/* forward: no far end.  reverse: `bound` is infinite */
	bool reverse;
	bool done;
	bool limited;
	uint64_t remaining;		/* of the limit */

	uint64_t *images;		/* window_max nodes */
	uint32_t window_max;
	uint32_t window_next;		/* how many leaves the next window will ask for */
	uint32_t window_count;
	uint32_t window_at;		/* image being looked at */
	uint32_t arrived;		/* bit i: image i is there; the others are on their way */
	struct nam__flights flights;
	nam__pairs_copy_fn copy_pairs;
	struct nam_gaddr addresses[WINDOW_MAX];
	struct nam_gaddr chain;		/* sibling of the last leaf that counted; forward only */

	uint64_t *leaf;			/* the image whose entries are being delivered, or NULL */
	uint32_t leaf_at, leaf_end;	/* entries [at, end), in the order of delivery */
};

static uint64_t *
image_of(const struct nam_cursor *cursor, uint32_t number)
{
	return cursor->images + (size_t)number * cursor->index->g.node_words;
}

/* ---- the range ---------------------------------------------------------------------------- */

/* The smallest full key above every pair of this key; false if there is none. */
static bool
successor(const struct nam__geometry *g, struct nam__key *key)
{
	for (unsigned i = g->full_words; i-- > 0;)
		if (++key->w[i])
			return true;
	return false;
}

static void
range_set(struct nam_cursor *cursor, const struct nam_range *range)
{
	const struct nam__geometry *g = &cursor->index->g;
	struct nam__key low = { { 0 } }, high = { { 0 } };
	bool has_high = range->high != NULL;

	if (range->low)
		nam__key_encode(g, range->low, 0, &low);
	if (has_high) {
		nam__key_encode(g, range->high, range->high_inclusive ? UINT64_MAX : 0, &high);
		if (range->high_inclusive && !successor(g, &high))
			has_high = false;
	}
	cursor->reverse = range->reverse;
	cursor->unbounded = !has_high;
	cursor->bound = range->reverse ? high : low;
	cursor->stop = range->reverse ? low : high;
	cursor->limited = range->limit > 0;
	cursor->remaining = range->limit;
	if (has_high && nam__key_compare(low.w, high.w, g->full_words) >= 0)
		cursor->done = true;
}

static uint32_t
first_window(const struct nam_cursor *cursor)
{
	/* Leaves are rarely full: count on two thirds, and on starting in the middle of one. */
	uint64_t expect = cursor->index->g.leaf_capacity * 2 / 3;
	uint64_t leaves = cursor->limited ? cursor->remaining / (expect ? expect : 1) + 2 : 4;

	return leaves < cursor->window_max ? (uint32_t)leaves : cursor->window_max;
}

int
nam_cursor_open(struct nam_worker *worker, struct nam_index *index, const struct nam_range *range,
	struct nam_cursor **ret_cursor)
{
	const struct nam__geometry *g = &index->g;
	struct nam_cursor *cursor;

	if (range->low && range->high && memcmp(range->low, range->high, g->key_bytes) > 0)
		return nam_diag_set(&worker->diag, -EINVAL,
			"the range's low key is above its high key");
	cursor = nam_buffer_take(worker, sizeof(*cursor));
	if (!cursor)
		return -ENOMEM;
	memset(cursor, 0, sizeof(*cursor));
	cursor->worker = worker;
	cursor->index = index;
	cursor->window_max = WINDOW_BYTES_MAX / g->node_bytes;
	if (cursor->window_max > WINDOW_MAX)
		cursor->window_max = WINDOW_MAX;
	range_set(cursor, range);
	cursor->window_next = first_window(cursor);
	nam__flights_init(&cursor->flights, worker);
	cursor->copy_pairs = nam__pairs_copy_choose();
	cursor->images = nam_buffer_take(worker, cursor->window_max * g->node_bytes);
	if (!cursor->images) {
		nam_buffer_give(worker, cursor, sizeof(*cursor));
		return -ENOMEM;
	}
	worker->counters[NAM_OP_SCAN].ops++;
	*ret_cursor = cursor;
	return 0;
}

/* ---- addresses ---------------------------------------------------------------------------- */

/* The full key whose leaf comes next: the bound, or in reverse what lies just below it. */
static bool
next_key(const struct nam_cursor *cursor, struct nam__key *ret_key)
{
	const struct nam__geometry *g = &cursor->index->g;
	unsigned i = g->full_words;

	*ret_key = cursor->bound;
	if (!cursor->reverse)
		return true;
	if (cursor->unbounded) {
		memset(ret_key->w, 0xff, sizeof(ret_key->w));
		return true;
	}
	while (i && ret_key->w[i - 1] == 0)
		ret_key->w[--i] = UINT64_MAX;
	if (!i)
		return false;
	ret_key->w[i - 1]--;
	return true;
}

static uint32_t
children_of(const struct nam_cursor *cursor, const uint64_t *parent, const uint64_t *key,
	struct nam_gaddr *ret_addresses, uint32_t max)
{
	const struct nam__geometry *g = &cursor->index->g;
	unsigned count = nam__node_count(parent), in = 0;
	int number = (int)nam__inner_search(g, parent, key), step = cursor->reverse ? -1 : 1;

	for (; number >= 0 && number < (int)count && in < max; number += step)
		ret_addresses[in++] = nam__inner_child(g, parent, (unsigned)number);
	return in;
}

/* Addresses from a level-1 node that is read for the purpose; a tree of one leaf has none. */
NAM_FIBER_FN static int
addresses_from_parent(struct nam_cursor *cursor, const uint64_t *key)
{
	struct nam_worker *worker = cursor->worker;
	struct nam_index *index = cursor->index;
	uint64_t *image = image_of(cursor, 0);
	struct nam_gaddr at;
	int rc;

	rc = nam__read_covering(worker, index, key, 1, image, &at); /* SUSPENDS */
	if (rc == -NAM_E_RESTART_PARENT) {
		cursor->addresses[0].raw = atomic_load_explicit(&index->root, memory_order_relaxed);
		cursor->window_count = 1;
		return 0;
	}
	if (rc)
		return rc;
	if (index->cache)
		nam__cache_put(index->cache, image, at);
	cursor->window_count = children_of(cursor, image, key, cursor->addresses,
		cursor->window_next);
	return 0;
}

/* Addresses from the head node that the chain leads to; 0 of them if it is none or stale. */
NAM_FIBER_FN static int
addresses_from_head(struct nam_cursor *cursor)
{
	struct nam_worker *worker = cursor->worker;
	struct nam_index *index = cursor->index;
	uint64_t *image = image_of(cursor, 0);
	int rc;

	cursor->addresses[0] = cursor->chain;
	rc = nam__node_read(worker, index, cursor->chain, 0, image); /* SUSPENDS */
	if (nam_err_is(rc, NAM_E_RESTART))
		return 0;
	if (rc)
		return rc;
	if (nam__node_type(image) != NAM__NODE_HEAD) {
		/* A leaf: it is the first image of a window of one, already there. */
		cursor->window_count = 1;
		return 1;
	}
	cursor->window_count = nam__node_count(image);
	if (cursor->window_count > cursor->window_next)
		cursor->window_count = cursor->window_next;
	memcpy(cursor->addresses, image + index->g.entries_at, 8 * cursor->window_count);
	return 0;
}

/* Fill `addresses`.  1: the images are there, too. */
NAM_FIBER_FN static int
find_addresses(struct nam_cursor *cursor, const uint64_t *key)
{
	struct nam_index *index = cursor->index;
	int rc;

	cursor->window_count = 0;
	if (index->cache)
		cursor->window_count = nam__cache_leaves(index->cache, key, cursor->reverse,
			cursor->addresses, cursor->window_next);
	if (cursor->window_count)
		return 0;
	if (!nam_gaddr_is_null(cursor->chain)) {
		rc = addresses_from_head(cursor); /* SUSPENDS */
		if (rc || cursor->window_count)
			return rc;
	}
	return addresses_from_parent(cursor, key); /* SUSPENDS */
}

/* ---- windows ------------------------------------------------------------------------------ */

/*
 * One doorbell per memory server and one round trip for the window; but each leaf is taken as soon
 * as it is there, while those behind it are still on their way.
 */
static void
post_window(struct nam_cursor *cursor)
{
	cursor->arrived = 0;
	nam__flights_read_all(cursor->worker, &cursor->flights, cursor->addresses, cursor->images,
		cursor->window_count, cursor->index->g.node_bytes);
}

NAM_FIBER_FN static int
await_image(struct nam_cursor *cursor, uint32_t number)
{
	int rc;

	while (!(cursor->arrived >> number & 1))
		cursor->arrived |= 1u << nam__flights_take(cursor->worker,
					   &cursor->flights); /* SUSPENDS */
	rc = cursor->flights.rc;
	return rc;
}

/* What is on its way must have come before its buffer can be used for something else. */
NAM_FIBER_FN static void
drain_window(struct nam_cursor *cursor)
{
	while (cursor->flights.in_flight)
		nam__flights_take(cursor->worker, &cursor->flights); /* SUSPENDS */
	cursor->flights.rc = 0;
	cursor->window_at = cursor->window_count = 0;
}

/* The next window, from the bound on. */
NAM_FIBER_FN static int
fill_window(struct nam_cursor *cursor)
{
	struct nam__key key;
	int rc;

	drain_window(cursor); /* SUSPENDS */
	if (!next_key(cursor, &key)) {
		cursor->done = true;
		return 0;
	}
	rc = find_addresses(cursor, key.w); /* SUSPENDS */
	if (rc < 0)
		return rc;
	cursor->arrived = ~0u;
	if (rc == 0)
		post_window(cursor);
	cursor->chain = NAM_GADDR_NULL;
	cursor->window_next = 2 * cursor->window_next < cursor->window_max ? 2 * cursor->window_next
									   : cursor->window_max;
	return 0;
}

/* Hints led elsewhere: the leaf at the bound by the safe way, as a window of one. */
NAM_FIBER_FN static int
fill_window_safely(struct nam_cursor *cursor)
{
	struct nam__key key;

	drain_window(cursor); /* SUSPENDS */
	if (!next_key(cursor, &key)) {
		cursor->done = true;
		return 0;
	}
	cursor->window_count = 1;
	cursor->arrived = ~0u;
	return nam__read_covering(cursor->worker, cursor->index, key.w, 0, image_of(cursor, 0),
		&cursor->addresses[0]); /* SUSPENDS */
}

/* ---- leaves ------------------------------------------------------------------------------- */

enum fit {
	FIT_COUNTS,	/* the leaf is the next one */
	FIT_PASSED,	/* everything in it has been delivered */
	FIT_GAP,	/* not the next one, or not a leaf's image */
};

static enum fit
fit_of(const struct nam_cursor *cursor, const uint64_t *image, struct nam_gaddr at)
{
	const struct nam__geometry *g = &cursor->index->g;
	const uint64_t *bound = cursor->bound.w;

	if (nam__node_judge(cursor->index, image, at, 0) ||
		nam__node_type(image) != NAM__NODE_LEAF)
		return FIT_GAP;
	if (!cursor->reverse) {
		if (nam__node_beyond(image, g, bound))
			return FIT_PASSED;
		return nam__node_below(image, g, bound) ? FIT_GAP : FIT_COUNTS;
	}
	/* In reverse the bound is the exclusive upper end: low < bound <= high. */
	if (cursor->unbounded)
		return nam__node_last(image) ? FIT_COUNTS : FIT_GAP;
	if (nam__key_compare(nam__node_low(image), bound, g->full_words) >= 0)
		return FIT_PASSED;
	if (!nam__node_last(image) &&
		nam__key_compare(nam__node_high(g, image), bound, g->full_words) < 0)
		return FIT_GAP;
	return FIT_COUNTS;
}

/* Sorted entries of the current leaf that lie below a full key. */
static uint32_t
entries_below(const struct nam_cursor *cursor, const uint64_t *image, const uint64_t *key)
{
	const struct nam__geometry *g = &cursor->index->g;

	/* From leaf to leaf the bound is the low fence. */
	if (!nam__key_compare(key, nam__node_low(image), g->full_words))
		return 0;
	return nam__leaf_lower_bound(g, image, key);
}

/* Begin to deliver from an image that counts, and move the bound past it. */
static void
take_leaf(struct nam_cursor *cursor, uint64_t *image)
{
	const struct nam__geometry *g = &cursor->index->g;
	bool ends;

	if (nam__node_sorted(image) != nam__node_count(image))
		nam__leaf_sort(g, image);
	cursor->leaf = image;
	if (!cursor->reverse) {
		cursor->leaf_at = entries_below(cursor, image, cursor->bound.w);
		cursor->leaf_end = cursor->unbounded ? nam__node_count(image)
			: entries_below(cursor, image, cursor->stop.w);
		ends = nam__node_last(image) ||
		       (!cursor->unbounded && nam__key_compare(nam__node_high(g, image),
						      cursor->stop.w, g->full_words) >= 0);
		memcpy(cursor->bound.w, nam__node_high(g, image), 8 * g->full_words);
		cursor->chain = nam__node_sibling(image);
	} else {
		cursor->leaf_end = cursor->unbounded ? nam__node_count(image)
			: entries_below(cursor, image, cursor->bound.w);
		cursor->leaf_at = entries_below(cursor, image, cursor->stop.w);
		ends = nam__key_compare(nam__node_low(image), cursor->stop.w, g->full_words) <= 0;
		memcpy(cursor->bound.w, nam__node_low(image), 8 * g->full_words);
		cursor->unbounded = false;
	}
	cursor->done = ends;
}

/* Make `leaf` the next leaf with the bound in it; or find that the range is done. */
NAM_FIBER_FN static int
next_leaf(struct nam_cursor *cursor)
{
	unsigned gaps = 0, fills = 0;
	int rc;

	while (!cursor->done) {
		struct nam_gaddr at;
		uint64_t *image;

		if (cursor->window_at == cursor->window_count) {
			/*
			 * A window without the next leaf came from stale hints: do not ask again.
			 */
			if (gaps || fills++)
				rc = fill_window_safely(cursor); /* SUSPENDS */
			else
				rc = fill_window(cursor); /* SUSPENDS */
			if (rc)
				return rc;
			continue;
		}
		rc = await_image(cursor, cursor->window_at); /* SUSPENDS */
		if (rc) {
			drain_window(cursor); /* SUSPENDS */
			return rc;
		}
		at = cursor->addresses[cursor->window_at];
		image = image_of(cursor, cursor->window_at);
		switch (fit_of(cursor, image, at)) {
		case FIT_COUNTS:
			cursor->window_at++;
			take_leaf(cursor, image);
			return 0;
		case FIT_PASSED:
			cursor->window_at++;
			break;
		case FIT_GAP:
			/* What comes after the gap is read again: a gap is rare. */
			nam__count_restart(cursor->worker, NAM_RESTART_HINT);
			drain_window(cursor); /* SUSPENDS */
			if (++gaps > NAM__RESTARTS_MAX)
				return -NAM_E_RESTART;
			break;
		}
	}
	cursor->leaf = NULL;
	return 0;
}

/* ---- delivering --------------------------------------------------------------------------- */

static void
copy_entries(const struct nam_cursor *cursor, uint8_t *keys, uint64_t *payloads, uint32_t count)
{
	const struct nam__geometry *g = &cursor->index->g;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = cursor->reverse ? cursor->leaf_end - 1 - i : cursor->leaf_at + i;
		const uint64_t *entry = nam__leaf_entry(g, cursor->leaf, number);

		if (keys)
			nam__key_decode(g, entry, keys + (size_t)i * g->key_bytes);
		if (payloads)
			payloads[i] = entry[g->key_words];
	}
}

/* Deliver entries of the current leaf; returns how many. */
static uint32_t
deliver(struct nam_cursor *cursor, uint8_t *keys, uint64_t *payloads, uint32_t capacity)
{
	const struct nam__geometry *g = &cursor->index->g;
	uint32_t count = 0;

	if (cursor->leaf_end > cursor->leaf_at)
		count = cursor->leaf_end - cursor->leaf_at;
	if (count > capacity)
		count = capacity;
	if (cursor->limited && count > cursor->remaining)
		count = (uint32_t)cursor->remaining;
	if (g->key_bytes == 8 && !cursor->reverse && keys && payloads)
		cursor->copy_pairs(nam__leaf_entry(g, cursor->leaf, cursor->leaf_at), count, keys,
			payloads);
	else
		copy_entries(cursor, keys, payloads, count);
	cursor->leaf_at += cursor->reverse ? 0 : count;
	cursor->leaf_end -= cursor->reverse ? count : 0;
	cursor->remaining -= cursor->limited ? count : 0;
	return count;
}

int
nam_cursor_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads, uint32_t capacity,
	uint32_t *ret_count)
{
	struct nam_worker *worker = cursor->worker;
	uint32_t key_bytes = cursor->index->g.key_bytes, count = 0;
	int rc = 0;

	nam__op_begin(worker, NAM_OP_SCAN);
	worker->counters[NAM_OP_SCAN].ops--;	/* counted when the cursor was opened */
	while (count < capacity) {
		if (cursor->leaf) {
			count += deliver(cursor, keys ? (uint8_t *)keys + (size_t)count * key_bytes
						      : NULL,
				payloads ? payloads + count : NULL, capacity - count);
			if (cursor->limited && !cursor->remaining) {
				cursor->done = true;
				cursor->leaf = NULL;
				break;
			}
			if (cursor->leaf_at < cursor->leaf_end)
				break;	/* the caller's room is used up */
		}
		if (cursor->done) {
			cursor->leaf = NULL;
			break;
		}
		rc = next_leaf(cursor); /* SUSPENDS */
		if (rc)
			break;
	}
	nam__op_end(worker);
	if (rc && !count)
		return rc;
	/* After a failure with entries in hand: they are good, and the next call meets it again. */
	*ret_count = count;
	return 0;
}

void
nam_cursor_close(struct nam_cursor *cursor)
{
	struct nam_worker *worker;

	if (!cursor)
		return;
	worker = cursor->worker;
	drain_window(cursor); /* SUSPENDS */
	nam_buffer_give(worker, cursor->images, cursor->window_max * cursor->index->g.node_bytes);
	nam_buffer_give(worker, cursor, sizeof(*cursor));
}
