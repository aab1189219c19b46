/* SPDX-License-Identifier: Apache-2.0 */
/* in_doubt.h -- in-doubt recovery: transactions of dead clients, and their end. */
#ifndef NAM_TXN_COLLECT_IN_DOUBT_H
#define NAM_TXN_COLLECT_IN_DOUBT_H

#include "compute/view/presence.h"
#include "txn/records/walk.h"

#define NAM__IN_DOUBT_MAX 256u		/* versions at a time */

/* A version whose transaction may be of a dead client. */
struct nam__in_doubt {
	struct nam_gaddr head;
	struct nam_gaddr at;		/* null: the record is locked for it */
	uint64_t timestamp;
	bool ended;			/* recovery has processed it, */
	bool undecided;			/* and it stays; */
	bool whole;			/* the result holds for all of its transaction */
	bool seen;			/* it is committed at one of its records */
	bool later;			/* it is committed when current readers are done (G2) */
};

/* Lies in a buffer of the worker's. */
struct nam__recovery {
	struct nam_worker *worker;
	struct nam_records *records;
	struct nam_records_collected done;
	struct nam__presence presence;
	struct nam__walked records_of[NAM_RECORDS_MAX];	/* of a transaction */
	uint64_t word;			/* of the keys' collector: this client decides alone */
	bool refused;			/* another one decides */
	uint32_t waiting;		/* the first so many are `later`; */
	uint64_t epoch;			/* then this is pinned, so that no head is forgotten */
	uint32_t count;			/* 0 at first */
	struct nam__in_doubt all[NAM__IN_DOUBT_MAX];
};

/* Add a version.  If there is no room, those before it are processed first. */
NAM_FIBER_FN int nam__recovery_add(struct nam__recovery *recovery, struct nam_gaddr head,
	struct nam_gaddr at, uint64_t timestamp) NAM_MUST_CHECK;
/*
 * Process all, and forget them except those that are `later`.  *done counts committed, aborted and
 * undecided ones.
 */
NAM_FIBER_FN int nam__recovery_run(struct nam__recovery *recovery) NAM_MUST_CHECK;
/* Afterwards: those that are `later`, in an operation of its own, after NAM_RECORDS_KEEP_NS. */
NAM_FIBER_FN int nam__recovery_run_later(struct nam__recovery *recovery) NAM_MUST_CHECK;
/* Leave all as they are: after a failure. */
void nam__recovery_forget(struct nam__recovery *recovery);
/*
 * Other clients may decide, unless `rc` says that requests may be carried out later.  Returns rc,
 * or its own failure.
 */
NAM_FIBER_FN int nam__recovery_leave(struct nam__recovery *recovery, int rc) NAM_MUST_CHECK;

/* Slots of struct nam__records_ops (ops.h). */
NAM_FIBER_FN int nam__in_doubt_add_latest(struct nam__recovery *recovery,
	const struct nam__walked *seen) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__in_doubt_add_prepared(struct nam__recovery *recovery,
	const struct nam__walked *seen) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__in_doubt_add_locked(struct nam__recovery *recovery,
	const struct nam__walked *seen) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__in_doubt_end_onesided(struct nam__recovery *recovery,
	struct nam__in_doubt *one, struct nam__txn *txn,
	const struct nam_version *version) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__in_doubt_end_served(struct nam__recovery *recovery,
	struct nam__in_doubt *one, struct nam__txn *txn,
	const struct nam_version *version) NAM_MUST_CHECK;

static inline void
nam__collected_retired(struct nam_records_collected *done, const struct nam__txn *txn)
{
	done->versions += txn->retired;
	done->bytes += txn->retired_bytes;
}

#endif /* NAM_TXN_COLLECT_IN_DOUBT_H */
