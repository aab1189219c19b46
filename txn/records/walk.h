/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h -- all records of a store, in batches, and the versions of their heads. */
#ifndef NAM_TXN_RECORDS_WALK_H
#define NAM_TXN_RECORDS_WALK_H

#include "protocols.h"
#include "txn/server/records.h"

#define NAM__WALK_MAX 32u		/* records of one batch */

/*
 * A record: its head, and the header of its latest version; zeroes: there can be none.
 * Registered.
 */
struct nam__walked {
	struct nam_gaddr at;		/* of the head */
	struct nam__server_head head;
	struct nam_version latest;
};

typedef int (*nam__some_fn)(struct nam_worker *worker, struct nam_records *records,
	const struct nam__walked *seen, uint32_t count, void *arg);

/*
 * Call fn, in an operation, for all records that are in the index throughout; until it fails.
 *
 * @paced	as nam_worker_pace() and nam_worker_stop_when() say; the caller pins no epoch
 */
NAM_FIBER_FN int nam__records_walk(struct nam_worker *worker, struct nam_records *records,
	bool paced, nam__some_fn fn, void *arg) NAM_MUST_CHECK;
/*
 * Call fn for all entries of an index, so many at a time, until it fails.
 *
 * @keys	room for those of a call, and fn gets it; or NULL
 * @paced	as above
 */
#define NAM__ENTRIES_MAX 64u

typedef int (*nam__entries_fn)(void *arg, const uint8_t *keys, const uint64_t *heads,
	uint32_t count);

NAM_FIBER_FN int nam__entries_walk(struct nam_worker *worker, struct nam_index *index,
	uint8_t *keys, bool paced, nam__entries_fn fn, void *arg) NAM_MUST_CHECK;
/* READ the heads at `at` and the latest versions' headers. */
NAM_FIBER_FN int nam__walked_read(struct nam_worker *worker, struct nam__walked *seen,
	uint32_t count) NAM_MUST_CHECK;

/* Whether a version is of that record, by its header. */
bool nam__version_is_of(const struct nam_records *records, const struct nam_version *version,
	struct nam_gaddr head);

/*
 * Versions that a memory server keeps beside the latest, within one operation.  Best effort: finds
 * up to some thousands, and may miss or meet those that come or go meanwhile.
 */
struct nam__chain {
	struct nam_gaddr head;
	uint64_t next;
	uint32_t hops;
	struct nam_gaddr at;		/* of the version, */
	struct nam_version version;	/* and its header */
};

void nam__chain_begin(struct nam__chain *chain, const struct nam__walked *seen);
/* NAM__STEP_MORE: one more; NAM__STEP_DONE: there is none, or it cannot be followed. */
NAM_FIBER_FN enum nam__step nam__chain_next(struct nam_worker *worker,
	const struct nam_records *records, struct nam__chain *chain, int *ret_rc) NAM_MUST_CHECK;

#endif /* NAM_TXN_RECORDS_WALK_H */
