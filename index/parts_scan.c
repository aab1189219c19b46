/* SPDX-License-Identifier: Apache-2.0 */
#include "parts_scan.h"

#include <errno.h>
#include <stdlib.h>

#include "index/coarse/coarse.h"
#include "index/design.h"

#define NO_LIMIT (UINT64_MAX / 2)
#define COPIED_BYTES 4096u		/* of entries copied at a time: 256 of 8-byte keys */

static int
stream_begin(struct nam__parts_scan *scan, struct nam__part_stream *stream)
{
	int rc = stream->begun ? 0 : scan->head.index->ops->reader->begin(scan, stream);

	stream->begun = !rc;
	return rc;
}

/* Entries that can be delivered; 0 at the stream's end. */
static inline uint32_t
stream_left(const struct nam__part_stream *stream)
{
	return stream->entries.count - stream->at;
}

/* Let the stream have an entry, unless it is at its end. */
NAM_FIBER_FN static int
stream_fill(struct nam__parts_scan *scan, struct nam__part_stream *stream)
{
	int rc = 0;

	while (!rc && !stream_left(stream) && stream->more) {
		rc = stream_begin(scan, stream);
		if (!rc)
			rc = scan->head.index->ops->reader->fill(scan, stream); /* SUSPENDS */
	}
	return rc;
}

/* One part after the other: the next begins when the last entries of this one have come. */
NAM_FIBER_FN static int
next_in_turn(struct nam__parts_scan *scan, struct nam__part_stream **ret_stream)
{
	for (; scan->turn < scan->count; scan->turn++) {
		struct nam__part_stream *stream = &scan->streams[scan->turn];
		int rc = stream_fill(scan, stream); /* SUSPENDS */

		if (!rc && !stream->more && scan->turn + 1 < scan->count &&
			scan->remaining > stream_left(stream))
			rc = stream_begin(scan, stream + 1);
		if (rc)
			return rc;
		if (stream_left(stream)) {
			*ret_stream = stream;
			return 0;
		}
	}
	return 0;
}

NAM_FIBER_FN static int
next_of_all(struct nam__parts_scan *scan, struct nam__part_stream **ret_stream)
{
	unsigned words = scan->head.index->g.full_words;
	const uint64_t *first = NULL;

	for (uint32_t i = 0; i < scan->count; i++) {
		struct nam__part_stream *stream = &scan->streams[i];
		const uint64_t *entry;
		int rc = stream_fill(scan, stream); /* SUSPENDS */

		if (rc)
			return rc;
		if (!stream_left(stream))
			continue;
		entry = nam_entries_at(&stream->entries, stream->at);
		if (first && (nam__key_compare(entry, first, words) > 0) != scan->range.reverse)
			continue;
		first = entry;
		*ret_stream = stream;
	}
	return 0;
}

/* Where a caller wants keys, payloads or both apart; or entries. */
struct wanted {
	uint8_t *keys;
	uint64_t *payloads;
	uint64_t *entries;
	uint32_t capacity;
};

static void
deliver(struct nam__parts_scan *scan, struct nam__part_stream *stream, uint32_t count,
	const struct wanted *wanted, uint32_t at)
{
	const struct nam__geometry *g = &scan->head.index->g;
	const uint64_t *entry = nam_entries_at(&stream->entries, stream->at);

	stream->at += count;
	scan->remaining -= count;
	if (count > 1 && scan->copy_pairs && wanted->keys && wanted->payloads) {
		scan->copy_pairs(entry, count, wanted->keys + 8ul * at, wanted->payloads + at);
		return;
	}
	for (; count--; at++, entry += stream->entries.stride_words) {
		if (wanted->keys)
			nam__key_decode(g, entry, wanted->keys + (size_t)at * g->key_bytes);
		if (wanted->payloads)
			wanted->payloads[at] = entry[g->key_words];
		if (wanted->entries)
			memcpy(wanted->entries + (size_t)at * g->leaf_words, entry,
				8 * g->leaf_words);
	}
}

NAM_FIBER_FN static int
next(struct nam__parts_scan *scan, const struct wanted *wanted, uint32_t *ret_count)
{
	uint32_t total = 0;
	int rc = 0;

	/* Merged: the first entries of all at once. */
	for (uint32_t i = 0; i < scan->count && !scan->in_turn && !rc; i++)
		rc = stream_begin(scan, &scan->streams[i]);
	while (!rc && total < wanted->capacity && scan->remaining) {
		struct nam__part_stream *stream = NULL;
		uint32_t count = 1;

		rc = scan->in_turn ? next_in_turn(scan, &stream) /* SUSPENDS */
				   : next_of_all(scan, &stream); /* SUSPENDS */
		if (rc || !stream)
			break;
		if (scan->in_turn)
			count = stream_left(stream);
		if (count > wanted->capacity - total)
			count = wanted->capacity - total;
		if (count > scan->remaining)
			count = (uint32_t)scan->remaining;
		deliver(scan, stream, count, wanted, total);
		total += count;
	}
	/* Entries in hand are good, and the next call meets the failure again. */
	if (rc && !total)
		return rc;
	*ret_count = total;
	return 0;
}

/* Parts by range, whose reader delivers by itself; none of their entries is left in a stream. */
NAM_FIBER_FN static int
next_straight(struct nam__parts_scan *scan, uint8_t *keys, uint64_t *payloads, uint32_t capacity,
	uint32_t *ret_count)
{
	uint32_t key_bytes = scan->head.index->g.key_bytes, total = 0;
	int rc = 0;

	while (scan->turn < scan->count && total < capacity && scan->remaining) {
		struct nam__part_stream *stream = &scan->streams[scan->turn];
		uint32_t count = 0;

		rc = stream_begin(scan, stream);
		if (!rc)
			rc = scan->head.index->ops->reader->next(stream,
				keys ? keys + (size_t)total * key_bytes : NULL,
				payloads ? payloads + total : NULL, capacity - total,
				&count); /* SUSPENDS */
		if (rc)
			break;
		total += count;
		scan->remaining -= count;
		scan->turn += !count;
	}
	if (rc && !total)
		return rc;
	*ret_count = total;
	return 0;
}

int
nam__parts_scan_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads, uint32_t capacity,
	uint32_t *ret_count)
{
	const struct wanted wanted = { .keys = keys, .payloads = payloads, .capacity = capacity };

	struct nam__parts_scan *scan = (struct nam__parts_scan *)cursor;

	if (scan->in_turn && !scan->copied && cursor->index->ops->reader->next)
		return next_straight(scan, keys, payloads, capacity, ret_count); /* SUSPENDS */
	return next(scan, &wanted, ret_count); /* SUSPENDS */
}

int
nam__parts_scan_next_entries(struct nam_cursor *cursor, struct nam_entries *ret_entries)
{
	struct nam__parts_scan *scan = (struct nam__parts_scan *)cursor;
	uint32_t width = cursor->index->g.leaf_words;
	struct wanted wanted = { .capacity = COPIED_BYTES / (8 * width) };

	if (!scan->copied)
		scan->copied = malloc(COPIED_BYTES);
	if (!scan->copied)
		return -ENOMEM;
	wanted.entries = scan->copied;
	ret_entries->first = scan->copied;
	ret_entries->stride_words = (int32_t)width;
	return next(scan, &wanted, &ret_entries->count); /* SUSPENDS */
}

bool
nam__range_ends(const struct nam__geometry *g, const struct nam_range *range, uint64_t *low,
	uint64_t *high)
{
	struct nam__key key;

	memset(low, 0, 8 * NAM_RPC_TREE_KEY_WORDS_MAX);
	memset(high, 0, 8 * NAM_RPC_TREE_KEY_WORDS_MAX);
	memset(high, 0xff, 8 * g->full_words);
	if (range->low) {
		nam__key_encode(g, range->low, 0, &key);
		memcpy(low, key.w, 8 * g->full_words);
	}
	if (range->high) {
		nam__key_encode(g, range->high, range->high_inclusive ? UINT64_MAX : 0, &key);
		memcpy(high, key.w, 8 * g->full_words);
		if (!range->high_inclusive && !nam__key_down(g, high))
			return false;
	}
	return nam__key_compare(low, high, g->full_words) <= 0;
}

/* The parts that the range touches, in the order in which they are delivered. */
static void
choose_parts(struct nam__parts_scan *scan)
{
	uint64_t low[NAM_RPC_TREE_KEY_WORDS_MAX], high[NAM_RPC_TREE_KEY_WORDS_MAX];
	const struct nam_index *index = scan->head.index;
	uint32_t first = 0, last = index->parts->count - 1;

	if (!nam__range_ends(&index->g, &scan->range, low, high))
		return;
	if (scan->in_turn) {
		first = nam__part_of(index, low);
		last = nam__part_of(index, high);
	}
	scan->count = last - first + 1;
	for (uint32_t i = 0; i < scan->count; i++) {
		scan->streams[i].part = scan->range.reverse ? last - i : first + i;
		scan->streams[i].more = true;
	}
}

int
nam__parts_scan_open(struct nam_worker *worker, struct nam_index *index,
	const struct nam_range *range, struct nam_cursor **ret_cursor)
{
	uint32_t key_bytes = index->g.key_bytes;
	struct nam__parts_scan *scan = calloc(1,
		sizeof(*scan) + index->parts->count * sizeof(scan->streams[0]));

	if (!scan)
		return -ENOMEM;
	scan->head = (struct nam_cursor){ .index = index, .worker = worker };
	scan->range = *range;
	if (range->low)
		scan->range.low = memcpy(scan->low, range->low, key_bytes);
	if (range->high)
		scan->range.high = memcpy(scan->high, range->high, key_bytes);
	scan->in_turn = index->parts->partitioning == NAM_PARTITION_RANGE;
	scan->remaining = range->limit && range->limit < NO_LIMIT ? range->limit : NO_LIMIT;
	if (key_bytes == 8 && !range->reverse)
		scan->copy_pairs = nam__pairs_copy_choose();
	choose_parts(scan);
	*ret_cursor = &scan->head;
	return 0;
}

void
nam__parts_scan_close(struct nam_cursor *cursor)
{
	struct nam__parts_scan *scan = (struct nam__parts_scan *)cursor;

	for (uint32_t i = 0; i < scan->count; i++)
		cursor->index->ops->reader->end(scan, &scan->streams[i]); /* SUSPENDS */
	free(scan->copied);
	free(scan);
}
