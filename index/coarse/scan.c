/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.c -- one part of a coarse-grained index as a stream of entries.  They come in pages, of
 * which the next one is always on its way.  A stream's place is the full key behind the last of its
 * pairs.  So if nodes split or merge between two pages, nothing is missed or delivered twice.
 */
#include <errno.h>
#include <stdlib.h>

#include "coarse.h"
#include "index/parts_scan.h"

#define PAGE_SPARE 16u			/* pairs asked for beyond an even share of a limit */

static uint32_t
page_size(const struct nam__parts_scan *scan)
{
	uint32_t most = NAM_RPC_TREE_SCAN_MAX(scan->head.index->g.key_words);
	uint64_t share = scan->in_turn ? scan->remaining : scan->remaining / scan->count +
		PAGE_SPARE;

	if (share > scan->remaining)
		share = scan->remaining;
	return share < most ? (uint32_t)share : most;
}

static int
page_query(struct nam__parts_scan *scan, struct nam__part_stream *stream)
{
	int rc;

	stream->request.max = page_size(scan);
	rc = nam__rpc_begin(scan->head.worker, &stream->call,
		scan->head.index->parts->slots[stream->part], NAM_RPC_TREE_SCAN, &stream->request,
		sizeof(stream->request), stream->next_page, NAM_RPC_BODY_MAX);
	stream->under_way = !rc;
	return rc;
}

static int
pages_begin(struct nam__parts_scan *scan, struct nam__part_stream *stream)
{
	if (!stream->page) {
		stream->page = malloc(NAM_RPC_BYTES_MAX);
		stream->next_page = malloc(NAM_RPC_BYTES_MAX);
		stream->request.tree = scan->head.index->tree;
		stream->request.flags = scan->range.reverse ? NAM_RPC_TREE_REVERSE : 0;
		(void)nam__range_ends(&scan->head.index->g, &scan->range, stream->request.low,
			stream->request.high);
	}
	return stream->page && stream->next_page ? page_query(scan, stream) : -ENOMEM;
}

/* Every byte comes from elsewhere: pairs ascend (in reverse descend) within what was asked for. */
static bool
page_valid(const struct nam__parts_scan *scan, const struct nam__part_stream *stream,
	uint32_t bytes)
{
	const struct nam__geometry *g = &scan->head.index->g;
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
	if (scan->range.reverse) {
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
page_take(struct nam__parts_scan *scan, struct nam__part_stream *stream)
{
	const struct nam__geometry *g = &scan->head.index->g;
	struct nam_rpc_tree_scan_reply *page = stream->next_page;
	const uint64_t *last;
	uint32_t bytes = 0;
	int rc = 0;

	if (!stream->under_way)
		rc = page_query(scan, stream);
	if (rc)
		return rc;
	if (!stream->call.done && !stream->call.colocated)
		scan->head.worker->current->counters->round_trips++;
	stream->under_way = false;
	rc = nam__rpc_await(scan->head.worker, &stream->call, &bytes); /* SUSPENDS */
	if (!rc && !page_valid(scan, stream, bytes))
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (rc)
		return rc;
	stream->next_page = stream->page;
	stream->page = page;
	stream->at = 0;
	stream->entries.first = page->pairs;
	stream->entries.stride_words = (int32_t)g->leaf_words;
	stream->entries.count = page->count;
	stream->more = page->more;
	if (!stream->more)
		return 0;
	last = page->pairs + (size_t)(page->count - 1) * g->leaf_words;
	if (scan->range.reverse) {
		memcpy(stream->request.high, last, 8 * g->full_words);
		stream->more = nam__key_down(g, stream->request.high);
	} else {
		memcpy(stream->request.low, last, 8 * g->full_words);
		stream->more = nam__key_up(g, stream->request.low);
	}
	if (stream->more && scan->remaining > page->count)
		return page_query(scan, stream);
	return 0;
}

NAM_FIBER_FN static void
pages_end(struct nam__parts_scan *scan, struct nam__part_stream *stream)
{
	int rc = stream->under_way ? nam__rpc_await(scan->head.worker, &stream->call,
					     NULL) : 0; /* SUSPENDS */

	(void)rc;	/* its result is not wanted any more */
	free(stream->page);
	free(stream->next_page);
}

const struct nam__part_reader nam__page_reader = {
	.begin = pages_begin,
	.fill = page_take,
	.end = pages_end,
};
