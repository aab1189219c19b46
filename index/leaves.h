/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaves.h -- scans that note each leaf, so that transactions can tell whether it has changed.  For
 * fine-grained indexes: clients READ their leaves.
 */
#ifndef NAM_INDEX_LEAVES_H
#define NAM_INDEX_LEAVES_H

#include "common/gaddr.h"
#include "index.h"

/* A leaf as it was READ.  Its block is not reused while an epoch is pinned. */
struct nam__leaf_note {
	struct nam_gaddr at;
	uint64_t stamp[2];		/* its hash and version: words 1 and 2 */
	uint64_t digest;		/* of its fences and entries, in any order */
	uint64_t low, high;		/* the first words of its fences */
};
#define NAM__LEAF_STAMP_WORDS 3u	/* with those before */

/* As nam_cursor_open().  A limit is a hint.  -NAM_E_DESIGN: its leaves cannot be READ. */
int nam__leaves_open(struct nam_worker *worker, struct nam_index *index,
	const struct nam_range *range, struct nam_cursor **ret_cursor) NAM_MUST_CHECK;
/*
 * The next leaf with a part of the range, also without entries in it.  In an operation.
 *
 * @ret_entries	in the range; good until the next call
 * @ret_more	false: the range is exhausted, and there is no leaf
 */
NAM_FIBER_FN int nam__leaves_next(struct nam_cursor *cursor, struct nam__leaf_note *ret_note,
	struct nam_entries *ret_entries, bool *ret_more) NAM_MUST_CHECK;
NAM_FIBER_FN void nam__leaves_close(struct nam_cursor *cursor);

/* Whether a leaf may have the key between its fences. */
bool nam__leaf_may_cover(const struct nam_index *index, const struct nam__leaf_note *note,
	const void *key);
/*
 * READ a leaf once more.  If it is as it was noted, but for the insertions with the rc 0, the note
 * gets its stamp; else -NAM_E_CONFLICT.  In an operation.
 */
NAM_FIBER_FN int nam__leaf_again(struct nam_worker *worker, struct nam_index *index,
	const struct nam_index_change *insertions, uint32_t count,
	struct nam__leaf_note *note) NAM_MUST_CHECK;

#endif /* NAM_INDEX_LEAVES_H */
