/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_atomic.h -- does each transaction see all of another, or nothing?  And may a session rely on
 * what it saw and wrote before?
 *
 * Read atomic is the isolation level of RAMP transactions (Bailis et al., SIGMOD 2014).  Versions
 * of a key are ordered by the timestamps of their transactions.  Loaded values are older than all
 * of them, and 0, which is never written, is older than that.  A read is of the transaction that
 * wrote its value.  A transaction's read of a key is its first read of it that comes before its own
 * writes.
 *
 * Where timestamps are unknown, as in a text, it is enough that there is one order of all
 * transactions that explains the history.  Every demand has the form "this one is older than that
 * one".  So an order exists exactly if these sentences, with the order of the known timestamps,
 * make no circle.
 *
 * Reads of transactions that aborted, or of which the outcome is unknown, are not looked at.  A
 * transaction of unknown outcome that a reader saw did commit, and must be seen as a whole.
 *
 * Work is n log n in the number n of reads and writes, but for fractured reads.  There it is, for
 * each transaction and each one that it read from, the smaller of the first one's reads and the
 * second one's writes.  That is never more than n^1.5, and n times the size of a transaction where
 * all are small.  Memory is linear.
 */
#ifndef NAM_TESTS_SIM_READ_ATOMIC_H
#define NAM_TESTS_SIM_READ_ATOMIC_H

#include <stdbool.h>

#include "findings.h"
#include "txns.h"

enum sim_read_atomic_kind {
	SIM_RA_UNUSABLE,	/* the history says nothing: two writes of one value, or one of 0 */
	SIM_RA_THIN_AIR,	/* a value that was never written to that key */
	SIM_RA_ABORTED,		/* a value of a transaction that aborted */
	SIM_RA_INTERMEDIATE,	/* a value that its own transaction overwrote */
	SIM_RA_OWN,		/* after an own write of the key, something else; before, that */
	SIM_RA_NON_REPEATABLE,	/* two reads of one key, two values */
	SIM_RA_FUTURE,		/* a value of a transaction that began after the reader had ended */
	SIM_RA_FRACTURED,	/* x of W, and of y, which W wrote as well, something older */
	SIM_RA_NOT_MINE,	/* something older than what its session had committed */
	SIM_RA_NOT_MONOTONE,	/* something older than what its session had read */
	SIM_RA_STALE,		/* read only, and older than what was committed before it began */
	SIM_RA_BACKWARDS,	/* a session's timestamp below an earlier one */
	SIM_RA_TWICE,		/* two transactions, one timestamp */
	SIM_RA_NO_ORDER,	/* timestamps are unknown, and no order explains the history */
	SIM_RA_KINDS,
};

struct sim_read_atomic_options {
	bool real_time;		/* SIM_RA_STALE and SIM_RA_FUTURE, where times are known */
	bool monotone_reads;	/* SIM_RA_NOT_MONOTONE: plain RAMP does not promise it */
};

/* All on. */
void sim_read_atomic_options_init(struct sim_read_atomic_options *options);

/* "fractured" and so on. */
const char *sim_read_atomic_name(enum sim_read_atomic_kind kind);

/**
 * sim_check_read_atomic -- look at a whole history.
 *
 * @ret_counts	[SIM_RA_KINDS] violations of each kind; may be NULL
 *
 * One violation for each read that is wrong in one way, for each pair of reads that is fractured,
 * and for each timestamp.  One SIM_RA_NO_ORDER at the most, which is told as a circle.
 */
void sim_check_read_atomic(const struct sim_txns *txns,
	const struct sim_read_atomic_options *options, struct sim_findings *findings,
	uint64_t *ret_counts);

#endif /* NAM_TESTS_SIM_READ_ATOMIC_H */
