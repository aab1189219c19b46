/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.h -- a steward's passes of the collectors of indexes and record stores, and its sweeps.
 * README.md says when they are made.
 */
#ifndef NAM_STEWARD_COLLECT_H
#define NAM_STEWARD_COLLECT_H

#include "compute/client.h"
#include "pass.h"

#define NAM__COLLECT_EVERY_S 3600u
#define NAM__COLLECT_PERCENT 5u

struct nam__collected;			/* what is known of an index, or of a record store */

struct nam__collecting {
	const struct nam_client_options *options;	/* of the client that collects */
	uint64_t every_ns;		/* between two passes of one of them, at most */
	uint64_t pace;			/* of sweeps, collectors of records: nam_worker_pace() */
	uint32_t percent;		/* of the free memory: so much garbage is worth a pass */
	nam__steward_event_fn event;
	void *arg;
	nam_worker_stop_fn stop;	/* ends a pass half-way; or NULL */
	void *stop_arg;
	struct nam__collected *all;	/* zeroes at first */
	uint32_t count;
	uint64_t sweep_due_ns;		/* when the next sweep is due; 0: now */
};

/*
 * The passes that are due now; new names have one; and then a sweep, if that is due.  It connects
 * as a client, which the cluster has until the end of the round.
 *
 * 0; -ECANCELED: `stop` has held; or, with *diag, why the memory servers cannot be asked.  If one
 * structure cannot be collected, that is an event.
 */
NAM_FIBER_FN int nam__collect_round(struct nam__collecting *collecting, struct nam_diag *diag)
	NAM_MUST_CHECK;

void nam__collect_free(struct nam__collecting *collecting);

/*
 * Whether a pass is due.
 *
 * @elapsed_ns	since the last one
 * @freed_bytes	by that one, of garbage that had come together in @over_ns
 * @worth_bytes	so much is worth a pass
 */
bool nam__collect_due(uint64_t elapsed_ns, uint64_t every_ns, uint64_t freed_bytes,
	uint64_t over_ns, uint64_t worth_bytes);

#endif /* NAM_STEWARD_COLLECT_H */
