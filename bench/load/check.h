/* SPDX-License-Identifier: Apache-2.0 */
/* check.h -- whether answers are right: findings, and the check of scans (bench/README.md). */
#ifndef NAM_BENCH_LOAD_CHECK_H
#define NAM_BENCH_LOAD_CHECK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "check_dense.h"
#include "keys.h"

#define FINDINGS_PRINTED_MAX 10u

/* The findings of all threads, touched only when something is wrong. */
extern struct findings {
	atomic_uint_fast64_t wrong;	/* an answer that no client could have written */
	atomic_uint_fast64_t missing;	/* something that must be there was not found */
	atomic_uint_fast64_t failed;	/* the operation gave up: fabric, locks, full memory */
	atomic_int fatal;		/* a return code after which going on is pointless, or 0 */
	atomic_int failure;		/* the first return code of `failed`, or 0 */
	atomic_uint printed;
	/* Reasons of failures that were printed: fibers that fail for one get one message. */
	pthread_mutex_t mutex;
	unsigned reported_count;
	struct nam_diag reported[FINDINGS_PRINTED_MAX];
} findings;

uint64_t findings_total(void);

/* NAM_EXIT_NO for a wrong or missing answer, else that of the first failure, else NAM_EXIT_OK. */
int findings_exit_code(void);

/* Add to a counter of `findings`, and print a message, if it is among the first ten. */
void findings_add(atomic_uint_fast64_t *counter, uint64_t count, const char *format, ...)
	NAM_PRINTF(3, 4);

#define findings_wrong(...) findings_add(&findings.wrong, 1, __VA_ARGS__)
#define findings_missing(count, ...) findings_add(&findings.missing, count, __VA_ARGS__)

/* Count a failure, and print a new reason.  @diag	the worker's message; may be "" */
void findings_failed(int rc, const char *what, const char *diag);

/* As findings_failed(), and going on is pointless. */
void findings_fatal(int rc, const char *what, const char *diag);

/* ---- scans -------------------------------------------------------------------------------- */

struct scan_check {
	const struct keys *keys;
	uint64_t mask;		/* bits of a payload that its key determines */
	bool reverse;
	bool dense;		/* so far, nothing but loaded pairs: the quick way */
	struct dense_check quick;
	uint64_t low, high;	/* the range, as integers: low <= key < high */
	bool unbounded;		/* ... or without the upper end */
	uint64_t begin, end;	/* loaded pairs in the range that have not been passed yet */
	uint64_t count;		/* entries so far */
	uint64_t last_key, last_payload;
};

/* @unbounded	the range has no upper end; `high` is ignored */
void scan_check_begin(struct scan_check *check, const struct keys *keys, uint64_t low,
	uint64_t high, bool unbounded, bool reverse);

/* The next entries, as nam_cursor_next() or nam_cursor_next_entries() delivered them. */
void scan_check_feed(struct scan_check *check, const uint8_t *entry_keys, const uint64_t *payloads,
	uint32_t count);
void scan_check_feed_entries(struct scan_check *check, const struct nam_entries *entries);

/* @exhausted	the scan came to the end of its range, not to its limit; @limit 0: none */
void scan_check_end(struct scan_check *check, bool exhausted, uint64_t limit);

#endif /* NAM_BENCH_LOAD_CHECK_H */
