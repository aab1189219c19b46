/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.c -- range scans of a hybrid index: those of its parts' leaves, one after the other
 * if the parts are ranges, else merged.
 */
#include <errno.h>
#include <stdlib.h>

#include "hybrid.h"
#include "index/fine/scan_internal.h"

#define PAGE_PAIRS 128u

/* Of one part. */
struct part_scan {
	struct nam_index *leaves;
	struct nam_cursor *scan;	/* NULL: not begun */
	/* Merged: a page of pairs. */
	uint8_t *keys;
	uint64_t payloads[PAGE_PAIRS];
	uint32_t at, count;
	bool done;
};

struct part_scans {
	struct nam_cursor head;
	struct nam_range range;		/* its keys are below */
	uint8_t low[NAM_KEY_BYTES_MAX], high[NAM_KEY_BYTES_MAX];
	bool in_turn;
	uint64_t remaining;		/* of the limit */
	uint32_t count, turn;
	uint8_t *keys;			/* of all pages */
	struct part_scan parts[];
};

static int
part_begin(struct part_scans *scans, struct part_scan *part)
{
	struct nam_range range = scans->range;

	if (range.limit)
		range.limit = scans->remaining;
	return nam__scan_open(scans->head.worker, part->leaves, &range, &part->scan);
}

/* Parts by range: what a part delivers is what the caller gets. */
NAM_FIBER_FN static int
next_in_turn(struct part_scans *scans, uint8_t *keys, uint64_t *payloads, uint32_t capacity,
	uint32_t *ret_count)
{
	uint32_t key_bytes = scans->head.index->g.key_bytes, total = 0;
	int rc = 0;

	while (scans->turn < scans->count && total < capacity) {
		struct part_scan *part = &scans->parts[scans->turn];
		uint32_t count = 0;

		if (scans->range.limit && !scans->remaining)
			break;
		rc = part->scan ? 0 : part_begin(scans, part);
		if (!rc)
			rc = nam__scan_next(part->scan,
				keys ? keys + (size_t)total * key_bytes : NULL,
				payloads ? payloads + total : NULL, capacity - total,
				&count); /* SUSPENDS */
		if (rc)
			break;
		total += count;
		scans->remaining -= count;
		if (!count)
			scans->turn++;
	}
	if (rc && !total)
		return rc;
	*ret_count = total;
	return 0;
}

/* ---- merging ------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
part_fill(struct part_scans *scans, struct part_scan *part)
{
	int rc = part->scan ? 0 : part_begin(scans, part);

	if (rc || part->done || part->at < part->count)
		return rc;
	part->at = part->count = 0;
	rc = nam__scan_next(part->scan, part->keys, part->payloads, PAGE_PAIRS,
		&part->count); /* SUSPENDS */
	part->done = !rc && !part->count;
	return rc;
}

/* Whether a pair comes before another, forward. */
static bool
before(const struct part_scans *scans, const struct part_scan *a, const struct part_scan *b)
{
	uint32_t bytes = scans->head.index->g.key_bytes;
	int order = memcmp(a->keys + (size_t)a->at * bytes, b->keys + (size_t)b->at * bytes, bytes);

	return order ? order < 0 : a->payloads[a->at] < b->payloads[b->at];
}

NAM_FIBER_FN static int
next_of_all(struct part_scans *scans, uint8_t *keys, uint64_t *payloads, uint32_t capacity,
	uint32_t *ret_count)
{
	uint32_t key_bytes = scans->head.index->g.key_bytes, total = 0;
	int rc = 0;

	while (total < capacity && !(scans->range.limit && !scans->remaining)) {
		struct part_scan *first = NULL;

		for (uint32_t i = 0; i < scans->count && !rc; i++) {
			struct part_scan *part = &scans->parts[i];

			rc = part_fill(scans, part); /* SUSPENDS */
			if (!rc && !part->done &&
				(!first || before(scans, part, first) != scans->range.reverse))
				first = part;
		}
		if (rc || !first)
			break;
		if (keys)
			memcpy(keys + (size_t)total * key_bytes,
				first->keys + (size_t)first->at * key_bytes, key_bytes);
		if (payloads)
			payloads[total] = first->payloads[first->at];
		first->at++;
		total++;
		scans->remaining--;
	}
	if (rc && !total)
		return rc;
	*ret_count = total;
	return 0;
}

int
nam__part_scans_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads, uint32_t capacity,
	uint32_t *ret_count)
{
	struct part_scans *scans = (struct part_scans *)cursor;

	return scans->in_turn ? next_in_turn(scans, keys, payloads, capacity, ret_count)
			      : next_of_all(scans, keys, payloads, capacity, ret_count);
}

/* ---- opening and closing ------------------------------------------------------------------- */

/* The part that keeps a key, or the one at the end if there is none. */
static uint32_t
part_at(struct nam_index *index, const void *key, uint32_t end)
{
	struct nam__key full;

	if (!key)
		return end;
	nam__key_encode(&index->g, key, 0, &full);
	return nam__part_of(index, full.w);
}

int
nam__part_scans_open(struct nam_worker *worker, struct nam_index *index,
	const struct nam_range *range, struct nam_cursor **ret_cursor)
{
	uint32_t key_bytes = index->g.key_bytes, first = 0, last = index->parts->count - 1;
	bool in_turn = index->parts->partitioning == NAM_PARTITION_RANGE;
	struct part_scans *scans;

	if (in_turn) {
		first = part_at(index, range->low, first);
		last = part_at(index, range->high, last);
	}
	scans = calloc(1, sizeof(*scans) + (last - first + 1) * sizeof(scans->parts[0]));
	if (!scans)
		return -ENOMEM;
	scans->head = (struct nam_cursor){ .index = index, .worker = worker };
	scans->range = *range;
	if (range->low)
		scans->range.low = memcpy(scans->low, range->low, key_bytes);
	if (range->high)
		scans->range.high = memcpy(scans->high, range->high, key_bytes);
	scans->in_turn = in_turn;
	scans->remaining = range->limit;
	scans->count = last - first + 1;
	if (!in_turn) {
		scans->keys = malloc((size_t)scans->count * PAGE_PAIRS * key_bytes);
		if (!scans->keys) {
			free(scans);
			return -ENOMEM;
		}
	}
	for (uint32_t i = 0; i < scans->count; i++) {
		scans->parts[i].leaves = index->leaves[range->reverse ? last - i : first + i];
		scans->parts[i].keys = scans->keys + (size_t)i * PAGE_PAIRS * key_bytes;
	}
	*ret_cursor = &scans->head;
	return 0;
}

void
nam__part_scans_close(struct nam_cursor *cursor)
{
	struct part_scans *scans = (struct part_scans *)cursor;

	for (uint32_t i = 0; i < scans->count; i++)
		if (scans->parts[i].scan)
			nam__scan_close(scans->parts[i].scan); /* SUSPENDS */
	free(scans->keys);
	free(scans);
}
