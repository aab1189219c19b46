/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan_internal.h -- a cursor, shared by scan.c (ranges, leaves, entries) and scan_window.c
 * (addresses and READs).
 */
#ifndef NAM_INDEX_FINE_SCAN_INTERNAL_H
#define NAM_INDEX_FINE_SCAN_INTERNAL_H

#include "compute/worker/outstanding_reads.h"
#include "index/index_internal.h"
#include "index/node/pairs.h"
#include "index/cache/cached_node.h"

#define NAM__SCAN_RING_MAX NAM__OUTSTANDING_MAX
#define NAM__SCAN_HINTS_MAX 64u

struct nam__scan {
	struct nam_cursor head;
	struct nam__key bound;		/* delivered up to here */
	struct nam__key stop;		/* the far end; exclusive forward, inclusive in reverse */
	uint64_t begin;			/* forward: first word of where the range begins */
	bool unbounded;			/* forward: no far end.  reverse: `bound` is infinite */
	bool reverse;
	bool done;
	bool limited;
	uint64_t remaining;		/* of the limit; without one more than there can be */

	uint64_t *leaf;			/* the image whose entries are being delivered, or NULL */
	uint32_t leaf_at, leaf_end;	/* entries [at, end), in the order of delivery */
	struct nam_gaddr chain;		/* sibling of the last leaf that counted; forward only */
	unsigned generation;		/* of the addresses here */
	uint32_t moves;			/* the worker's, when nothing was in flight last */
	bool old_hints;			/* some may lead to blocks of another stride */
	nam__pairs_copy_fn copy_pairs;	/* NULL: keys of several words, or in reverse */

	/*
	 * Leaves [next, posted) have been asked for; leaf n is image n of the ring.  The leaf that
	 * is being delivered is next - 1, and its image is not used again before it is done.
	 */
	uint64_t *images;
	uint32_t ring;			/* images; a power of two */
	uint32_t next, posted;
	uint32_t refill_at;		/* ask for more when so few are left */
	uint32_t window;		/* how many leaves the next window may ask for */
	bool short_scan;		/* its limit is expected to be in the first window */
	bool next_is_here;		/* leaf `next` was READ by itself */
	uint64_t leaves_seen, entries_seen;

	/* Where the leaves behind those may be. */
	uint32_t hints_at, hints_end;
	uint32_t hints_unresolved;	/* so many, from hints_place on: what follows? */
	struct nam__cache_place hints_place;
	bool hints_go_on;		/* the cache may know more, from hints_key on; forward */
	struct nam__key hints_key;
	nam__truncated_floor_fn truncated_floor;

	/* The fields below are not cleared when a cursor is opened. */
	struct nam__outstanding_reads outstanding;
	struct nam_gaddr addresses[NAM__SCAN_RING_MAX];
	struct nam_gaddr hints[NAM__SCAN_HINTS_MAX];
};

static inline uint32_t
nam__scan_slot(const struct nam__scan *cursor, uint32_t leaf)
{
	return leaf & (cursor->ring - 1);
}

static inline uint64_t *
nam__scan_image(const struct nam__scan *cursor, uint32_t slot)
{
	return cursor->images + (size_t)slot * cursor->head.index->g.node_words;
}

/* A full key out of an image; mostly one word, and then not worth a call. */
static inline void
nam__scan_key_copy(const struct nam__geometry *g, const uint64_t *words, struct nam__key *ret_key)
{
	if (__builtin_expect(g->full_words == 1, 1))
		ret_key->w[0] = words[0];
	else
		memcpy(ret_key->w, words, 8 * g->full_words);
}

/* ---- scan.c: cursors on a fine-grained index -------------------------------------------- */

int nam__scan_open(struct nam_worker *worker, struct nam_index *index,
	const struct nam_range *range, struct nam_cursor **ret_cursor) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__scan_next(struct nam_cursor *head, void *keys, uint64_t *payloads,
	uint32_t capacity, uint32_t *ret_count) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__scan_next_entries(struct nam_cursor *head, struct nam_entries *ret)
	NAM_MUST_CHECK;
NAM_FIBER_FN void nam__scan_close(struct nam_cursor *head);
/* Make `leaf` the next leaf with the bound in it; or find that the range is done. */
NAM_FIBER_FN int nam__scan_next_leaf(struct nam__scan *cursor) NAM_MUST_CHECK;

/* ---- scan_window.c ------------------------------------------------------------------------- */

/* Choose the size of the ring, and of the first window. */
void nam__scan_window_init(struct nam__scan *cursor);
/* A READ under way must complete before its buffer can be used for something else. */
NAM_FIBER_FN void nam__scan_drain(struct nam__scan *cursor);
/* Ask for more leaves, if it is known where they are. */
void nam__scan_query(struct nam__scan *cursor);
/*
 * The next window, from the bound on; may find that the range is done.
 *
 * @safely	one leaf, to which a walk leads: hints have led astray
 */
NAM_FIBER_FN int nam__scan_fill(struct nam__scan *cursor, bool safely) NAM_MUST_CHECK;

/* Wait until leaf `next` is there. */
NAM_FIBER_FN static inline int
nam__scan_await(struct nam__scan *cursor)
{
	if (cursor->next_is_here) {
		cursor->next_is_here = false;
		return 0;
	}
	nam__outstanding_await(cursor->head.worker, &cursor->outstanding,
		nam__scan_slot(cursor, cursor->next)); /* SUSPENDS */
	return nam__outstanding_rc(cursor->head.worker, &cursor->outstanding);
}

#endif /* NAM_INDEX_FINE_SCAN_INTERNAL_H */
