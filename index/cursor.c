/* SPDX-License-Identifier: Apache-2.0 */
/* cursor.c -- range scans, whatever the index's design: others do the work. */
#include <errno.h>

#include "hybrid.h"
#include "scan_internal.h"

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

int
nam_cursor_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads, uint32_t capacity,
	uint32_t *ret_count)
{
	struct nam_worker *worker = cursor->worker;
	int rc;

	nam__op_begin(worker, NAM_OP_SCAN);
	worker->counters[NAM_OP_SCAN].ops--;	/* counted when the cursor was opened */
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

void
nam_cursor_close(struct nam_cursor *cursor)
{
	if (!cursor)
		return;
	if (cursor->index->options.design == NAM_DESIGN_COARSE)
		nam__merge_close((struct nam__merge *)cursor); /* SUSPENDS */
	else if (cursor->index->leaves)
		nam__part_scans_close((struct nam__part_scans *)cursor); /* SUSPENDS */
	else
		nam__scan_close((struct nam__scan *)cursor); /* SUSPENDS */
}
