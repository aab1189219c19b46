/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts_scan.h -- range scans of an index in parts.  The parts are streams of entries, which come
 * one after the other if the parts are ranges, else are merged.
 */
#ifndef NAM_INDEX_PARTS_SCAN_H
#define NAM_INDEX_PARTS_SCAN_H

#include "common/rpc/tree_rpc.h"
#include "index/index_internal.h"
#include "index/node/pairs.h"

/* The entries of one part. */
struct nam__part_stream {
	uint32_t part;
	struct nam_entries entries;	/* that came last, in the order of delivery */
	uint32_t at;			/* so many of them have been delivered */
	bool begun;
	bool more;			/* behind them */

	/* Coarse: two pages; the next is on its way while one is delivered. */
	struct nam__call call;
	bool under_way;
	struct nam_rpc_tree_scan_reply *page, *next_page;
	struct nam_rpc_tree_scan_request request;	/* for the next page */

	struct nam_cursor *leaves;	/* hybrid: the scan of the part's leaves */
};

struct nam__parts_scan {
	struct nam_cursor head;
	struct nam_range range;		/* its keys are below */
	uint8_t low[NAM_KEY_BYTES_MAX], high[NAM_KEY_BYTES_MAX];
	bool in_turn;			/* by range: one part after the other */
	uint64_t remaining;		/* of the limit; without one more than there can be */
	nam__pairs_copy_fn copy_pairs;	/* NULL: keys of several words, or in reverse */
	uint64_t *copied;		/* the entries last delivered as such; NULL: none yet */
	uint32_t count;			/* streams */
	uint32_t turn;			/* in turn: the stream being delivered */
	struct nam__part_stream streams[];
};

/* How a design reads a part: a slot of its table. */
struct nam__part_reader {
	/* Ask for the first entries, if that can be done without waiting; again after a failure. */
	int (*begin)(struct nam__parts_scan *scan, struct nam__part_stream *stream);
	/* Set the next `entries`, `at` and `more`. */
	NAM_FIBER_FN int (*fill)(struct nam__parts_scan *scan, struct nam__part_stream *stream);
	/*
	 * If parts are read one after the other: deliver from this one as nam_cursor_next() does,
	 * without a look at `entries`.  NULL: fill() does it.
	 */
	NAM_FIBER_FN int (*next)(struct nam__part_stream *stream, void *keys, uint64_t *payloads,
		uint32_t capacity, uint32_t *ret_count);
	/* Free what begin() made, if it was called. */
	NAM_FIBER_FN void (*end)(struct nam__parts_scan *scan, struct nam__part_stream *stream);
};

/* The full keys at both ends of a range, included; false: there is none between them. */
bool nam__range_ends(const struct nam__geometry *g, const struct nam_range *range, uint64_t *low,
	uint64_t *high);

/* -ENOMEM. */
int nam__parts_scan_open(struct nam_worker *worker, struct nam_index *index,
	const struct nam_range *range, struct nam_cursor **ret_cursor) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__parts_scan_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads,
	uint32_t capacity, uint32_t *ret_count) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__parts_scan_next_entries(struct nam_cursor *cursor,
	struct nam_entries *ret_entries) NAM_MUST_CHECK;
NAM_FIBER_FN void nam__parts_scan_close(struct nam_cursor *cursor);

#endif /* NAM_INDEX_PARTS_SCAN_H */
