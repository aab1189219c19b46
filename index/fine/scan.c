/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.c -- range scans: a cursor that READs windows of leaves, which scan_window.c finds.
 *
 * The cursor's place is a full key, the bound, never a node: everything below it (above it, in
 * reverse) has been delivered.  Addresses of leaves are hints.  A leaf's image counts only if its
 * own fences enclose the bound.  Then its entries beyond the bound are delivered and the bound
 * moves to its far fence.  So entries that a split or a merge moved between two READs are neither
 * missed nor delivered twice (I16).
 */
#include <errno.h>

#include "compute/backup/again.h"
#include "index/validate.h"
#include "scan_internal.h"

/* ---- the range ---------------------------------------------------------------------------- */

static void
range_set(struct nam__scan *cursor, const struct nam_range *range)
{
	const struct nam__geometry *g = &cursor->head.index->g;
	struct nam__key low = { { 0 } }, high = { { 0 } };
	bool has_high = range->high != NULL;

	if (range->low)
		nam__key_encode(g, range->low, 0, &low);
	if (has_high) {
		nam__key_encode(g, range->high, range->high_inclusive ? UINT64_MAX : 0, &high);
		/* The far end is exclusive: behind every pair of the high key. */
		if (range->high_inclusive && !nam__key_up(g, high.w))
			has_high = false;
	}
	cursor->reverse = range->reverse;
	cursor->unbounded = !has_high;
	cursor->bound = range->reverse ? high : low;
	cursor->stop = range->reverse ? low : high;
	cursor->begin = low.w[0];
	cursor->limited = range->limit > 0;
	cursor->remaining = range->limit ? range->limit : UINT64_MAX;
	if (has_high && nam__key_compare(low.w, high.w, g->full_words) >= 0)
		cursor->done = true;
}

int
nam__scan_open(struct nam_worker *worker, struct nam_index *index, const struct nam_range *range,
	struct nam_cursor **ret_cursor)
{
	const struct nam__geometry *g = &index->g;
	struct nam__scan *cursor;

	cursor = nam_buffer_take(worker, sizeof(*cursor));
	if (!cursor)
		return -ENOMEM;
	memset(cursor, 0, offsetof(struct nam__scan, outstanding));
	cursor->head.worker = worker;
	cursor->head.index = index;
	cursor->generation = nam__generation(worker->client);
	range_set(cursor, range);
	nam__scan_window_init(cursor);
	nam__outstanding_init(&cursor->outstanding, worker);
	if (g->key_bytes == 8 && !range->reverse)
		cursor->copy_pairs = nam__pairs_copy_choose();
	cursor->truncated_floor = nam__truncated_floor_choose();
	cursor->images = nam_buffer_take(worker, cursor->ring * g->node_bytes);
	if (!cursor->images) {
		nam_buffer_give(worker, cursor, sizeof(*cursor));
		return -ENOMEM;
	}
	*ret_cursor = &cursor->head;
	return 0;
}

/* ---- leaves ------------------------------------------------------------------------------- */

enum fit {
	FIT_COUNTS,	/* the leaf is the next one */
	FIT_PASSED,	/* everything in it has been delivered */
	FIT_GAP,	/* not the next one, or not a leaf's image */
};

static enum fit
fit_of(const struct nam__scan *cursor, const uint64_t *image, struct nam_gaddr at)
{
	const struct nam__geometry *g = &cursor->head.index->g;
	const uint64_t *bound = cursor->bound.w;

	if (nam__node_validate(cursor->head.index, image, at, 0, NAM__NODE_LEAF))
		return FIT_GAP;
	/* I17: a block that is no node any more can look like a leaf, but for its hash. */
	if (__builtin_expect(cursor->old_hints, 0) && NAM_GUARD(HINT_HASH) &&
		!nam__node_is_whole(cursor->head.index, image, at))
		return FIT_GAP;
	/* I16: the leaf that has the bound between its fences is the next one. */
	if (!cursor->reverse) {
		if (nam__node_beyond(image, g, bound))
			return NAM_GUARD(SCAN_PASSED) ? FIT_PASSED : FIT_COUNTS;
		return NAM_GUARD(SCAN_GAP) && nam__node_below(image, g, bound) ? FIT_GAP :
			FIT_COUNTS;
	}
	/* In reverse the bound is the exclusive upper end: low < bound <= high. */
	if (cursor->unbounded)
		return nam__node_last(image) || !NAM_GUARD(SCAN_GAP) ? FIT_COUNTS : FIT_GAP;
	if (nam__key_compare(nam__node_low(image), bound, g->full_words) >= 0)
		return NAM_GUARD(SCAN_PASSED) ? FIT_PASSED : FIT_COUNTS;
	if (NAM_GUARD(SCAN_GAP) && !nam__node_last(image) &&
		nam__key_compare(nam__node_high(g, image), bound, g->full_words) < 0)
		return FIT_GAP;
	return FIT_COUNTS;
}

/* Sorted entries of the current leaf that lie below a full key. */
static uint32_t
entries_below(const struct nam__scan *cursor, const uint64_t *image, const uint64_t *key)
{
	const struct nam__geometry *g = &cursor->head.index->g;

	/* From leaf to leaf the bound is the low fence. */
	if (!nam__key_compare(key, nam__node_low(image), g->full_words))
		return 0;
	return nam__leaf_lower_bound(g, image, key);
}

/* Begin to deliver from an image that counts, and move the bound past it. */
static void
take_leaf(struct nam__scan *cursor, uint64_t *image)
{
	const struct nam__geometry *g = &cursor->head.index->g;
	bool ends;

	if (nam__node_sorted(image) != nam__node_count(image))
		nam__leaf_sort(g, image);
	cursor->leaf = image;
	cursor->leaves_seen++;
	cursor->entries_seen += nam__node_count(image);
	if (!cursor->reverse) {
		bool cut = !cursor->unbounded && (nam__node_last(image) ||
			nam__key_compare(nam__node_high(g, image), cursor->stop.w,
				g->full_words) > 0);

		cursor->leaf_at = entries_below(cursor, image, cursor->bound.w);
		cursor->leaf_end = cut ? entries_below(cursor, image, cursor->stop.w)
				       : nam__node_count(image);
		ends = cut || nam__node_last(image) ||
		       (!cursor->unbounded && !nam__key_compare(nam__node_high(g, image),
						      cursor->stop.w, g->full_words));
		nam__scan_key_copy(g, nam__node_high(g, image), &cursor->bound);
		cursor->chain = nam__node_sibling(image);
	} else {
		cursor->leaf_end = cursor->unbounded ? nam__node_count(image)
			: entries_below(cursor, image, cursor->bound.w);
		cursor->leaf_at = entries_below(cursor, image, cursor->stop.w);
		ends = nam__key_compare(nam__node_low(image), cursor->stop.w, g->full_words) <= 0;
		nam__scan_key_copy(g, nam__node_low(image), &cursor->bound);
		cursor->unbounded = false;
	}
	cursor->done = ends;
}

/* I17 */
int
nam__scan_next_leaf(struct nam__scan *cursor)
{
	struct nam_worker *worker = cursor->head.worker;
	unsigned gaps = 0, fills = 0;
	int rc;

	cursor->leaf = NULL;
	/* Addresses from before this operation may be forgotten ones. */
	if (__builtin_expect(cursor->generation != nam__generation(worker->client), 0) &&
		NAM_GUARD(FORGET_CURSOR)) {
		nam__scan_drain(cursor); /* SUSPENDS */
		cursor->chain = NAM_GADDR_NULL;
		cursor->generation = nam__generation(worker->client);
	}
	if (!cursor->done && cursor->posted - cursor->next <= cursor->refill_at)
		nam__scan_query(cursor);
	while (!cursor->done) {
		struct nam_gaddr at;
		uint64_t *image;
		uint32_t slot;

		if (cursor->next == cursor->posted) {
			/* A window without the next leaf came from stale hints. */
			rc = nam__scan_fill(cursor, gaps || fills++); /* SUSPENDS */
			if (rc)
				return rc;
			continue;
		}
		rc = nam__scan_await(cursor); /* SUSPENDS */
		slot = nam__scan_slot(cursor, cursor->next++);
		if (__builtin_expect(rc, 0)) {
			uint32_t moves = cursor->moves;

			nam__scan_drain(cursor); /* SUSPENDS */
			if (!nam__any_in_vain(worker, rc, moves))
				return rc;
			/* The window that is asked for anew is of the backup. */
			gaps++;
			continue;
		}
		at = cursor->addresses[slot];
		image = nam__scan_image(cursor, slot);
		switch (fit_of(cursor, image, at)) {
		case FIT_COUNTS:
			take_leaf(cursor, image);
			return 0;
		case FIT_PASSED:
			break;
		case FIT_GAP:
			/* Leaves after the gap are read again: a gap is rare. */
			nam__count_restart(cursor->head.worker, NAM_RESTART_HINT);
			nam__scan_drain(cursor); /* SUSPENDS */
			if (++gaps > NAM__RESTARTS_MAX)
				return -NAM_E_RESTART;
			break;
		}
	}
	return 0;
}

/* ---- delivering --------------------------------------------------------------------------- */

static void
copy_entries(const struct nam__scan *cursor, uint8_t *keys, uint64_t *payloads, uint32_t at,
	uint32_t count)
{
	const struct nam__geometry *g = &cursor->head.index->g;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = cursor->reverse ? cursor->leaf_end - 1 - i : cursor->leaf_at + i;
		const uint64_t *entry = nam__leaf_entry(g, cursor->leaf, number);

		if (keys)
			nam__key_decode(g, entry, keys + (size_t)(at + i) * g->key_bytes);
		if (payloads)
			payloads[at + i] = entry[g->key_words];
	}
}

/* Deliver entries of the current leaf, behind the first `at` of the caller's; how many. */
static inline uint32_t
deliver(struct nam__scan *cursor, uint8_t *keys, uint64_t *payloads, uint32_t at, uint32_t capacity)
{
	uint32_t first = cursor->leaf_at, end = cursor->leaf_end;
	uint32_t count = end > first ? end - first : 0;

	if (count > capacity - at)
		count = capacity - at;
	if (count > cursor->remaining)
		count = (uint32_t)cursor->remaining;
	cursor->remaining -= count;
	if (__builtin_expect(cursor->copy_pairs && keys && payloads, 1)) {
		cursor->leaf_at = first + count;
		cursor->copy_pairs(nam__leaf_entry(&cursor->head.index->g, cursor->leaf, first),
			count, keys + 8ul * at, payloads + at);
	} else {
		copy_entries(cursor, keys, payloads, at, count);
		cursor->leaf_at += cursor->reverse ? 0 : count;
		cursor->leaf_end -= cursor->reverse ? count : 0;
	}
	return count;
}

int
nam__scan_next(struct nam_cursor *head, void *keys, uint64_t *payloads, uint32_t capacity,
	uint32_t *ret_count)
{
	struct nam__scan *cursor = (struct nam__scan *)head;
	uint32_t count = 0;
	int rc = 0;

	while (count < capacity) {
		if (cursor->leaf) {
			count += deliver(cursor, keys, payloads, count, capacity);
			if (!cursor->remaining) {
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
		rc = nam__scan_next_leaf(cursor); /* SUSPENDS */
		if (rc)
			break;
	}
	if (rc && !count)
		return rc;
	/* After a failure with entries in hand: they are good, and the next call meets it again. */
	*ret_count = count;
	return 0;
}

int
nam__scan_next_entries(struct nam_cursor *head, struct nam_entries *ret)
{
	struct nam__scan *cursor = (struct nam__scan *)head;
	const struct nam__geometry *g = &cursor->head.index->g;
	uint32_t count;

	/* The last delivery is not needed any more. */
	while (!cursor->leaf || cursor->leaf_at >= cursor->leaf_end) {
		int rc;

		if (cursor->done) {
			ret->count = 0;
			return 0;
		}
		rc = nam__scan_next_leaf(cursor); /* SUSPENDS */
		if (rc)
			return rc;
	}
	count = cursor->leaf_end - cursor->leaf_at;
	if (count > cursor->remaining)
		count = (uint32_t)cursor->remaining;
	cursor->remaining -= count;
	cursor->done |= !cursor->remaining;
	ret->count = count;
	ret->stride_words = (int32_t)g->leaf_words;
	if (!cursor->reverse) {
		ret->first = nam__leaf_entry(g, cursor->leaf, cursor->leaf_at);
		cursor->leaf_at += count;
	} else {
		ret->first = nam__leaf_entry(g, cursor->leaf, cursor->leaf_end - 1);
		ret->stride_words = -ret->stride_words;
		cursor->leaf_end -= count;
	}
	/* A limit ends the scan in the middle of a leaf. */
	if (!cursor->remaining)
		cursor->leaf_at = cursor->leaf_end;
	return 0;
}

void
nam__scan_close(struct nam_cursor *head)
{
	struct nam__scan *cursor = (struct nam__scan *)head;
	struct nam_worker *worker = cursor->head.worker;

	nam__scan_drain(cursor); /* SUSPENDS */
	nam_buffer_give(worker, cursor->images, cursor->ring * cursor->head.index->g.node_bytes);
	nam_buffer_give(worker, cursor, sizeof(*cursor));
}
