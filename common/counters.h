/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counters.h -- the cost of operations, counted where it is spent.
 *
 * A round trip is one wait for the fabric, for any number of requests.  A doorbell is one post to
 * one queue pair.  Bytes out are the payload of WRITE and SEND, and 16 for each atomic.  Bytes in
 * are the payload of READ and of received messages, and 8 for each atomic.  Headers do not count,
 * so the figures are the same on every fabric.  A copy within one machine is a local read only.
 */
#ifndef NAM_COMMON_COUNTERS_H
#define NAM_COMMON_COUNTERS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, text): kinds of operation that a worker keeps apart */
#define NAM_OP_KINDS(X)                                                                             \
	X(OTHER, "other")                                                                           \
	X(LOOKUP, "lookup")                                                                         \
	X(INSERT, "insert")                                                                         \
	X(UPSERT, "upsert")                                                                         \
	X(UPDATE, "update")                                                                         \
	X(DELETE, "delete")                                                                         \
	X(SCAN, "scan")                                                                             \
	X(BULK_LOAD, "bulk_load")                                                                   \
	X(COLLECT, "collect")                                                                       \
	X(VERIFY, "verify")                                                                         \
	X(GET_ALL, "get_all")                                                                       \
	X(PUT_ALL, "put_all")                                                                       \
	X(TABLE_SCAN, "table_scan")                                                                 \
	X(TXN_READ, "txn_read")                                                                     \
	X(TXN_COMMIT, "txn_commit")                                                                 \
	X(TXN_FINISH, "txn_finish")	/* of a commit, what its caller does not wait for */

enum nam_op_kind {
#define NAM_OP_KIND_ENUM(name, text) NAM_OP_##name,
	NAM_OP_KINDS(NAM_OP_KIND_ENUM)
#undef NAM_OP_KIND_ENUM
	NAM_OP_KINDS_COUNT
};

/* X(name, text): why an operation had to look again */
#define NAM_RESTART_CAUSES(X)                                                                       \
	X(TORN, "torn")			/* the image did not verify */                              \
	X(FENCE, "fence")		/* key below the node's low fence: the parent was stale */  \
	X(SIBLING, "sibling")		/* moved right: the parent was stale or a split is young */ \
	X(DEAD, "dead")			/* dead or reused node */                                   \
	X(LOCKED, "locked")		/* the lock was taken */                                    \
	X(ORDER, "order")		/* a READ overtook its CAS */                               \
	X(HINT, "hint")			/* a scan's address hint was stale */                       \
	X(SUPERSEDED, "superseded")	/* a cached version is not the latest */                    \
	X(FRACTURED, "fractured")	/* another record's version asks for a newer one */         \
	X(OUTRUN, "outrun")		/* another client's commit came first */

enum nam_restart_cause {
#define NAM_RESTART_ENUM(name, text) NAM_RESTART_##name,
	NAM_RESTART_CAUSES(NAM_RESTART_ENUM)
#undef NAM_RESTART_ENUM
	NAM_RESTART_CAUSES_COUNT
};

struct nam_op_counters {
	uint64_t ops;
	uint64_t round_trips;
	uint64_t doorbells;
	uint64_t work_requests;
	uint64_t bytes_in;
	uint64_t bytes_out;
	uint64_t splits;
	uint64_t late_separators;	/* splits whose new node was left for a collector to name */
	uint64_t colocated_reads;	/* of memory of the own machine: none of the above */
	uint64_t colocated_calls;	/* requests to a memory server there: none, either */
	uint64_t cache_hits;		/* leaves that were where the cache said */
	uint64_t cache_misses;		/* leaves that were wanted and not in the cache */
	uint64_t cache_stale;		/* leaves that were no longer where the cache said */
	uint64_t restarts[NAM_RESTART_CAUSES_COUNT];
};

const char *nam_op_kind_name(enum nam_op_kind kind);
const char *nam_restart_cause_name(enum nam_restart_cause cause);
/* *sum += *more, field by field. */
void nam_op_counters_add(struct nam_op_counters *sum, const struct nam_op_counters *more);

/* The sum over causes. */
uint64_t nam_op_counters_restarts(const struct nam_op_counters *counters);

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMMON_COUNTERS_H */
