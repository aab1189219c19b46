/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h -- transactions as a history for Elle's checker of read-write registers (K. Kingsbury
 * and P. Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 2020).
 *
 * EDN as Jepsen writes it, one map a line: an invocation and a completion for each transaction, in
 * the order of time.  A value is the sequence of the transaction that wrote it.
 */
#ifndef NAM_BENCH_TXN_HISTORY_H
#define NAM_BENCH_TXN_HISTORY_H

#include <stdio.h>

#include "txn.h"

/* A moment: its place in the history, and its ticks. */
struct history_time {
	uint64_t place, ticks;
};

struct history_time history_now(void);

/*
 * The transaction that began then has ended.  0 or -ENOMEM.
 *
 * @sequence	of what it wrote
 * @committed	false: that is not known
 */
int history_add(struct txn_room *room, struct history_time began, uint64_t sequence,
	bool committed) NAM_MUST_CHECK;

/* Write and forget the transactions of all parts, and close the file.  0 or a negative code. */
int history_write(struct requests *bench, FILE *file) NAM_MUST_CHECK;

#endif /* NAM_BENCH_TXN_HISTORY_H */
