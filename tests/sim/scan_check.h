/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan_check.h -- what scans delivered against what was certainly there, certainly not there, and
 * possibly there.
 *
 * This looks at times alone and says plainly what is wrong with one scan.  sim_check_linearizable()
 * with scans is sharper: it finds one order that explains all operations and all scans together.
 */
#ifndef NAM_TESTS_SIM_SCAN_CHECK_H
#define NAM_TESTS_SIM_SCAN_CHECK_H

#include <stdbool.h>

#include "findings.h"
#include "history.h"

/*
 * For every scan that returned, one violation for each entry that
 *
 *	is missing	it was present from the scan's call to its return, in the range and before
 *			the limit
 *	is invented	nothing ever wrote it, or it was overwritten or gone before the call, or
 *			written after the return
 *	comes twice, comes out of order, lies outside the range, or exceeds the limit
 */
void sim_check_scans(const struct sim_history *history, bool unique,
	struct sim_findings *findings);

/**
 * sim_check_contents -- the same for what is in the index after the last operation.
 *
 * @entries	[count], ascending: all of them, read when nothing was under way any more
 *
 * To have contents checked as sharply as lookups, enter them into the history as one more scan.
 */
void sim_check_contents(const struct sim_history *history, bool unique,
	const struct sim_entry *entries, size_t count, struct sim_findings *findings);

#endif /* NAM_TESTS_SIM_SCAN_CHECK_H */
