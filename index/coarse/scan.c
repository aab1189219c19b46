/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.c -- range scans over the parts of a coarse-grained index.
 *
 * A memory server answers with a page of pairs.  Each part is a stream of pages, in order;
 * partitioned by range the streams come one after the other, else all at a time and are merged.  As
 * soon as a page has come the next one is asked for.
 *
 * A stream's place is the full key behind the last of its pairs, so whatever splits or merges
 * between two pages, nothing is missed or delivered twice.
 */
#include <errno.h>
#include <stdlib.h>

#include "coarse.h"

#define PAGE_SPARE 16u			/* pairs asked for beyond an even share of a limit */

/* ---- keys ---------------------------------------------------------------------------------- */

/* The full keys at both ends, included; false: there is none between them. */
static bool
ends_of(const struct nam__geometry *g, const struct nam_range *range, uint64_t *low, uint64_t *high)
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

/* ---- pages --------------------------------------------------------------------------------- */

static uint32_t
page_size(const struct nam__merge *merge)
{
	uint32_t most = NAM_RPC_TREE_SCAN_MAX(merge->head.index->g.key_words);
	uint64_t share;

	if (!merge->limited)
		return most;
	share = merge->in_turn ? merge->remaining :
		merge->remaining / merge->count + PAGE_SPARE;
	if (share > merge->remaining)
		share = merge->remaining;
	return share < most ? (uint32_t)share : most;
}

static int
page_ask(struct nam__merge *merge, struct nam__stream *stream)
{
	struct nam_index *index = merge->head.index;
	int rc;

	stream->request.max = page_size(merge);
	rc = nam__rpc_begin(merge->head.worker, &stream->call, index->parts->slots[stream->part],
		NAM_RPC_TREE_SCAN, &stream->request, sizeof(stream->request), stream->next_page,
		NAM_RPC_BODY_MAX);
	stream->started = stream->under_way = !rc;
	return rc;
}

/* Every byte comes from elsewhere: pairs ascend (in reverse descend) within what was asked for. */
static bool
page_valid(const struct nam__merge *merge, const struct nam__stream *stream, uint32_t bytes)
{
	const struct nam__geometry *g = &merge->head.index->g;
	const struct nam_rpc_tree_scan_reply *page = stream->next_page;
	const uint64_t *first, *last;

	if (bytes < sizeof(*page) || page->count > stream->request.max ||
		bytes != sizeof(*page) + 8ull * g->leaf_words * page->count ||
		(page->more && !page->count))
		return false;
	if (!page->count)
		return true;
	first = page->pairs;
	last = page->pairs + (size_t)(page->count - 1) * g->leaf_words;
	if (merge->reverse) {
		const uint64_t *swap = first;

		first = last;
		last = swap;
	}
	return nam__key_compare(first, last, g->full_words) <= 0 &&
	       nam__key_compare(first, stream->request.low, g->full_words) >= 0 &&
	       nam__key_compare(last, stream->request.high, g->full_words) <= 0;
}

/* The page on its way becomes the one to be delivered, and the one behind it is asked for. */
NAM_FIBER_FN static int
page_take(struct nam__merge *merge, struct nam__stream *stream)
{
	const struct nam__geometry *g = &merge->head.index->g;
	struct nam_rpc_tree_scan_reply *page = stream->next_page;
	const uint64_t *last;
	uint32_t bytes = 0;
	int rc = 0;

	if (!stream->under_way)
		rc = page_ask(merge, stream);
	if (rc)
		return rc;
	if (!stream->call.done && !stream->call.local)
		merge->head.worker->current->counters->round_trips++;
	stream->under_way = false;
	rc = nam__rpc_await(merge->head.worker, &stream->call, &bytes); /* SUSPENDS */
	if (!rc && !page_valid(merge, stream, bytes))
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (rc)
		return rc;
	stream->next_page = stream->page;
	stream->page = page;
	stream->at = 0;
	stream->more = page->more;
	if (!stream->more)
		return 0;
	last = page->pairs + (size_t)(page->count - 1) * g->leaf_words;
	if (merge->reverse) {
		memcpy(stream->request.high, last, 8 * g->full_words);
		stream->more = nam__key_down(g, stream->request.high);
	} else {
		memcpy(stream->request.low, last, 8 * g->full_words);
		stream->more = nam__key_up(g, stream->request.low);
	}
	if (stream->more && (!merge->limited || merge->remaining > page->count))
		return page_ask(merge, stream);
	return 0;
}

/* The next pair of a stream, or NULL at its end. */
NAM_FIBER_FN static int
stream_peek(struct nam__merge *merge, struct nam__stream *stream, const uint64_t **ret_pair)
{
	const struct nam__geometry *g = &merge->head.index->g;

	while (stream->at == stream->page->count) {
		int rc;

		*ret_pair = NULL;
		if (!stream->more)
			return 0;
		rc = page_take(merge, stream); /* SUSPENDS */
		if (rc)
			return rc;
	}
	*ret_pair = stream->page->pairs + (size_t)stream->at * g->leaf_words;
	return 0;
}

/* ---- merging ------------------------------------------------------------------------------- */

/* One part after the other: the next begins when the last page of this one has come. */
NAM_FIBER_FN static int
next_in_turn(struct nam__merge *merge, struct nam__stream **ret_stream, const uint64_t **ret_pair)
{
	*ret_pair = NULL;
	while (merge->turn < merge->count) {
		struct nam__stream *stream = &merge->streams[merge->turn], *behind = stream + 1;
		int rc = stream_peek(merge, stream, ret_pair); /* SUSPENDS */

		if (rc)
			return rc;
		if (!stream->more && merge->turn + 1 < merge->count && !behind->started &&
			(!merge->limited || merge->remaining > stream->page->count - stream->at))
			rc = page_ask(merge, behind);
		if (rc)
			return rc;
		*ret_stream = stream;
		if (*ret_pair)
			return 0;
		merge->turn++;
	}
	return 0;
}

NAM_FIBER_FN static int
next_of_all(struct nam__merge *merge, struct nam__stream **ret_stream, const uint64_t **ret_pair)
{
	unsigned words = merge->head.index->g.full_words;

	*ret_pair = NULL;
	for (uint32_t i = 0; i < merge->count; i++) {
		const uint64_t *pair;
		int rc = stream_peek(merge, &merge->streams[i], &pair); /* SUSPENDS */

		if (rc)
			return rc;
		if (!pair || (*ret_pair && (nam__key_compare(pair, *ret_pair, words) > 0) !=
						   merge->reverse))
			continue;
		*ret_stream = &merge->streams[i];
		*ret_pair = pair;
	}
	return 0;
}

int
nam__merge_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads, uint32_t capacity,
	uint32_t *ret_count)
{
	struct nam__merge *merge = (struct nam__merge *)cursor;
	const struct nam__geometry *g = &merge->head.index->g;
	uint32_t count = 0;
	int rc = 0;

	/* Merged: all first pages at once. */
	for (uint32_t i = 0; i < merge->count && !merge->in_turn && !rc; i++)
		rc = merge->streams[i].started ? 0 : page_ask(merge, &merge->streams[i]);
	while (!rc && count < capacity && !(merge->limited && !merge->remaining)) {
		struct nam__stream *stream = NULL;
		const uint64_t *pair;

		rc = merge->in_turn ? next_in_turn(merge, &stream, &pair) /* SUSPENDS */
				    : next_of_all(merge, &stream, &pair); /* SUSPENDS */
		if (rc || !pair)
			break;
		if (keys)
			nam__key_decode(g, pair, (uint8_t *)keys + (size_t)count * g->key_bytes);
		if (payloads)
			payloads[count] = pair[g->key_words];
		count++;
		stream->at++;
		merge->remaining -= merge->limited;
	}
	if (rc && !count)
		return rc;
	*ret_count = count;
	return 0;
}

/* ---- opening and closing ------------------------------------------------------------------- */

/* The parts that the range touches, in the order in which they are delivered. */
static void
choose_parts(struct nam__merge *merge, const uint64_t *low, const uint64_t *high)
{
	struct nam_index *index = merge->head.index;
	uint32_t first = 0, last = index->parts->count - 1;

	if (merge->in_turn) {
		first = nam__part_of(index, low);
		last = nam__part_of(index, high);
	}
	merge->count = last - first + 1;
	for (uint32_t i = 0; i < merge->count; i++)
		merge->streams[i].part = merge->reverse ? last - i : first + i;
}

static size_t
merge_bytes(const struct nam_index *index)
{
	return sizeof(struct nam__merge) + index->parts->count * sizeof(struct nam__stream);
}

int
nam__merge_open(struct nam_worker *worker, struct nam_index *index, const struct nam_range *range,
	struct nam_cursor **ret_cursor)
{
	uint64_t low[NAM_RPC_TREE_KEY_WORDS_MAX], high[NAM_RPC_TREE_KEY_WORDS_MAX];
	struct nam__merge *merge = calloc(1, merge_bytes(index));

	if (!merge)
		return -ENOMEM;
	merge->head = (struct nam_cursor){ .index = index, .worker = worker };
	merge->reverse = range->reverse;
	merge->in_turn = index->parts->partitioning == NAM_PARTITION_RANGE;
	merge->limited = range->limit > 0;
	merge->remaining = range->limit;
	if (ends_of(&index->g, range, low, high))
		choose_parts(merge, low, high);
	merge->pages = malloc((size_t)merge->count * 2 * NAM_RPC_BYTES_MAX);
	if (!merge->pages && merge->count) {
		free(merge);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < merge->count; i++) {
		struct nam__stream *stream = &merge->streams[i];

		stream->page = (void *)(merge->pages + 2 * (size_t)i * NAM_RPC_BYTES_MAX);
		stream->next_page = (void *)((uint8_t *)stream->page + NAM_RPC_BYTES_MAX);
		stream->page->count = 0;
		stream->more = true;
		stream->request.tree = index->tree;
		stream->request.flags = range->reverse ? NAM_RPC_TREE_REVERSE : 0;
		memcpy(stream->request.low, low, sizeof(low));
		memcpy(stream->request.high, high, sizeof(high));
	}
	*ret_cursor = &merge->head;
	return 0;
}

void
nam__merge_close(struct nam_cursor *cursor)
{
	struct nam__merge *merge = (struct nam__merge *)cursor;

	for (uint32_t i = 0; i < merge->count; i++) {
		struct nam__stream *stream = &merge->streams[i];
		int rc = stream->under_way ? nam__rpc_await(merge->head.worker, &stream->call,
						     NULL) : 0; /* SUSPENDS */

		(void)rc;	/* its result is not wanted any more */
	}
	free(merge->pages);
	free(merge);
}
