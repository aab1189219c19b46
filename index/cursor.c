/* SPDX-License-Identifier: Apache-2.0 */
/* cursor.c -- range scans, whatever the index's design: others do the work. */
#include <errno.h>

#include "index/hybrid/hybrid.h"
#include "index/fine/scan_internal.h"

#define TOGETHER_BYTES 8192u		/* of entries copied together: 256 of 8-byte keys */

int
nam_cursor_open(struct nam_worker *worker, struct nam_index *index, const struct nam_range *range,
	struct nam_cursor **ret_cursor)
{
	struct nam__part_scans *scans;
	struct nam__merge *merge;
	struct nam__scan *scan;
	int rc;

	if (range->low && range->high &&
		memcmp(range->low, range->high, index->g.key_bytes) > 0)
		return nam_diag_set(&worker->diag, -EINVAL,
			"the range's low key is above its high key");
	if (index->options.design == NAM_DESIGN_COARSE) {
		rc = nam__merge_open(worker, index, range, &merge);
		if (!rc)
			*ret_cursor = &merge->head;
	} else if (index->leaves) {
		rc = nam__part_scans_open(worker, index, range, &scans);
		if (!rc)
			*ret_cursor = (struct nam_cursor *)scans;
	} else {
		rc = nam__scan_open(worker, index, range, &scan);
		if (!rc)
			*ret_cursor = &scan->head;
	}
	if (!rc)
		worker->counters[NAM_OP_SCAN].ops++;
	return rc;
}

/* Counted when the cursor was opened. */
static inline void
resume(struct nam_worker *worker)
{
	nam__op_begin(worker, NAM_OP_SCAN);
	worker->counters[NAM_OP_SCAN].ops--;
}

int
nam_cursor_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads, uint32_t capacity,
	uint32_t *ret_count)
{
	struct nam_worker *worker = cursor->worker;
	int rc;

	resume(worker);
	if (cursor->index->options.design == NAM_DESIGN_COARSE)
		rc = nam__merge_next((struct nam__merge *)cursor, keys, payloads, capacity,
			ret_count); /* SUSPENDS */
	else if (cursor->index->leaves)
		rc = nam__part_scans_next((struct nam__part_scans *)cursor, keys, payloads,
			capacity, ret_count); /* SUSPENDS */
	else
		rc = nam__scan_next((struct nam__scan *)cursor, keys, payloads, capacity,
			ret_count); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

/* ---- entries where they are ---------------------------------------------------------------- */

/* An entry as it is delivered, and the payload and the key that it is made of. */
static uint32_t
together_count(const struct nam__geometry *g)
{
	return TOGETHER_BYTES / (8 * g->leaf_words + 8 + g->key_bytes);
}

/* The entries, then the payloads and the keys that they are made of. */
NAM_FIBER_FN static __attribute__((noinline)) int
next_together(struct nam_cursor *cursor, struct nam_entries *ret)
{
	const struct nam__geometry *g = &cursor->index->g;
	const uint32_t most = together_count(g);
	uint64_t *entries, *payloads;
	uint8_t *keys;
	int rc;

	if (!cursor->together)
		cursor->together = nam_buffer_take(cursor->worker, TOGETHER_BYTES);
	entries = cursor->together;
	if (!entries)
		return -ENOMEM;
	payloads = entries + most * g->leaf_words;
	keys = (uint8_t *)(payloads + most);
	rc = nam_cursor_next(cursor, keys, payloads, most, &ret->count); /* SUSPENDS */
	if (rc)
		return rc;
	for (uint32_t i = 0; i < ret->count; i++) {
		struct nam__key key;

		nam__key_encode(g, keys + (size_t)i * g->key_bytes, 0, &key);
		memcpy(entries + i * g->leaf_words, key.w, 8 * g->key_words);
		entries[i * g->leaf_words + g->key_words] = payloads[i];
	}
	ret->first = entries;
	ret->stride_words = (int32_t)g->leaf_words;
	return 0;
}

int
nam_cursor_next_entries(struct nam_cursor *cursor, struct nam_entries *ret_entries)
{
	struct nam_index *index = cursor->index;
	int rc;

	ret_entries->key_bytes = index->g.key_bytes;
	if (index->options.design == NAM_DESIGN_COARSE || index->leaves)
		return next_together(cursor, ret_entries); /* SUSPENDS */
	resume(cursor->worker);
	rc = nam__scan_next_entries((struct nam__scan *)cursor, ret_entries); /* SUSPENDS */
	nam__op_end(cursor->worker);
	return rc;
}

/* ---- the end -------------------------------------------------------------------------------- */

void
nam_cursor_close(struct nam_cursor *cursor)
{
	if (!cursor)
		return;
	if (cursor->together)
		nam_buffer_give(cursor->worker, cursor->together, TOGETHER_BYTES);
	if (cursor->index->options.design == NAM_DESIGN_COARSE)
		nam__merge_close((struct nam__merge *)cursor); /* SUSPENDS */
	else if (cursor->index->leaves)
		nam__part_scans_close((struct nam__part_scans *)cursor); /* SUSPENDS */
	else
		nam__scan_close((struct nam__scan *)cursor); /* SUSPENDS */
}
