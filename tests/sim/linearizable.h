/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linearizable.h -- is there, for each key, an order of the operations on it that explains their
 * results?  In it no operation comes before one that had returned when it was called.
 *
 * Operations on different keys do not see each other, so keys are searched one by one.  A history
 * is linearizable exactly if each object's part is (Herlihy and Wing, 1990).  The search goes
 * through a key's calls and returns in order and keeps all states that the key may be in.  A state
 * is its value, and which of the operations under way have taken effect.  The search lets one take
 * effect only when an operation that returns needs that (Wing and Gong, 1993; Lowe, 2017).
 * Observations take effect as soon as they can: they change nothing.  Changes that may never
 * have happened do so only if nothing else explains an observation.  Of two states that differ in
 * that alone, the one that used fewer is kept.  Values without later readers count as one.  Where
 * nothing is under way a state is a value, so work is linear in the usual case.  It is exponential
 * only in the changes of one key that overlap.
 *
 * In a cache a key may go at any time.  An operation that does not find its key counts as the
 * change that removed it.  No operation between an eviction and the first of these saw the key.
 */
#ifndef NAM_TESTS_SIM_LINEARIZABLE_H
#define NAM_TESTS_SIM_LINEARIZABLE_H

#include <stdbool.h>

#include "findings.h"
#include "history.h"

struct sim_linearizable_options {
	bool unique;		/* or pairs, in a non-unique index; default true */
	bool scans;		/* what scans saw and did not see, too; default true */
	bool evicts;		/* a cache of upserts, deletes and lookups; default false */
	size_t states_max;	/* per return; beyond it the key is undecided; default 65536 */
};

void sim_linearizable_options_init(struct sim_linearizable_options *options);

/* One violation for each key that no order explains, with the operations that it is about. */
void sim_check_linearizable(const struct sim_history *history,
	const struct sim_linearizable_options *options, struct sim_findings *findings);

#endif /* NAM_TESTS_SIM_LINEARIZABLE_H */
