/* SPDX-License-Identifier: Apache-2.0 */
/* scan.h -- range scans of an index.  Errors and costs: index.h. */
#ifndef NAM_INDEX_SCAN_H
#define NAM_INDEX_SCAN_H

#include "index.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_range {
	const void *low;		/* inclusive; NULL: from the first key */
	const void *high;		/* exclusive, or see below; NULL: to the last key */
	bool high_inclusive;
	bool reverse;			/* from high to low */
	uint64_t limit;			/* entries at the most; 0: no limit */
};

/**
 * nam_cursor_open -- start a range scan.
 *
 * @range	its keys are copied
 *
 * Returns 0, -ENOMEM, or -EINVAL when low > high.
 *
 * Cost:	nothing remote yet; buffers for 32 leaves, fewer if the limit is small.
 */
int nam_cursor_open(struct nam_worker *worker, struct nam_index *index,
	const struct nam_range *range, struct nam_cursor **ret_cursor) NAM_MUST_CHECK;

/**
 * nam_cursor_next -- the next entries in order.
 *
 * @keys	room for capacity * key_bytes bytes, or NULL
 * @payloads	room for capacity payloads, or NULL
 * @ret_count	entries delivered; 0 means that the range is exhausted
 *
 * Every leaf is seen as one whole image; the scan as a whole is not a snapshot.  Entries in the
 * range throughout are delivered exactly once; no others are.
 *
 * Returns 0 or a negative code.  The cursor keeps its place.  A call that had delivered entries
 * when it failed returns them, and the next one goes on from there.  After a failure a call goes
 * on, too, as far as the place that failed.
 *
 * Suspends:	yes, but READs of the next window are on their way while entries are delivered.
 * Cost:	over the whole scan 1 round trip and one doorbell per server for each window of
 *		leaves, node_bytes in for each leaf.  With a limit the first window has as many
 *		leaves as the limit suggests, at most 32 and 64 KiB.  Without one it has 4, and each
 *		next one up to twice as many.  The next is posted when half of what was asked for is
 *		used up.  So a scan of n > 32 leaves of 1 KiB with a limit takes
 *		1 + ceil((n - 32) / 16), and waits for the first only.  In reverse windows end with
 *		the parent, and the next waits.
 *		Without a cache windows end so, too.  The way down to the first parent is READ, and
 *		in reverse to each.  Forward, leaves behind it are READ one by one up to the first
 *		head node.  Then 1 head node and a window of its leaves are READ by turns.  Near the
 *		far end a way down to each parent is READ again, which shows that end.
 * Source:	Ziegler et al., section 4.3 (head nodes); differs: index/README.md, D7.
 */
NAM_FIBER_FN int nam_cursor_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads,
	uint32_t capacity, uint32_t *ret_count) NAM_MUST_CHECK;

/* Entries where a scan has them: words in this machine's order, not to be changed. */
struct nam_entries {
	const uint64_t *first;		/* of an entry: its key, then its payload, a word */
	int32_t stride_words;		/* from one to the next; may be negative in reverse */
	uint32_t key_bytes;
	uint32_t count;			/* 0: the range is exhausted */
};

static inline const uint64_t *
nam_entries_at(const struct nam_entries *entries, uint32_t number)
{
	return entries->first + (ptrdiff_t)number * entries->stride_words;
}

/* An 8-byte key as nam_key_to_u64() would have it; of longer ones the first 8 bytes so. */
static inline uint64_t
nam_entries_key_u64(const struct nam_entries *entries, uint32_t number)
{
	return nam_entries_at(entries, number)[0];
}

/* The key's bytes; room for key_bytes. */
static inline void
nam_entries_key(const struct nam_entries *entries, uint32_t number, void *ret_key)
{
	const uint64_t *words = nam_entries_at(entries, number);
	uint8_t *out = (uint8_t *)ret_key;

	for (uint32_t at = 0; at < entries->key_bytes; at += 8) {
		uint64_t big = __builtin_bswap64(words[at / 8]);
		uint32_t left = entries->key_bytes - at;

		__builtin_memcpy(out + at, &big, left < 8 ? left : 8);
	}
}

static inline uint64_t
nam_entries_payload(const struct nam_entries *entries, uint32_t number)
{
	return nam_entries_at(entries, number)[(entries->key_bytes + 7) / 8];
}

/**
 * nam_cursor_next_entries -- the next entries in order, where they are instead of copied.
 *
 * @ret_entries	one leaf's at the most, or 256; good until the cursor's next call or its close
 *
 * The rules of nam_cursor_next() hold here, too, and a scan may use both.  Indexes of other designs
 * than fine have what they deliver in many places: it is copied together, 256 entries at a time.
 *
 * Returns 0 or a negative code.
 *
 * Suspends:	yes.
 * Cost:	as nam_cursor_next(), without the copy; of other designs than fine with one more,
 *		and a buffer of 256 entries.
 */
NAM_FIBER_FN int nam_cursor_next_entries(struct nam_cursor *cursor,
	struct nam_entries *ret_entries) NAM_MUST_CHECK;

/* Waits for READs that are still under way. */
NAM_FIBER_FN void nam_cursor_close(struct nam_cursor *cursor);

#ifdef __cplusplus
}
#endif

#endif /* NAM_INDEX_SCAN_H */
