/* SPDX-License-Identifier: Apache-2.0 */
/* changes.h -- many changes of an index in one call.  Errors and costs: index.h. */
#ifndef NAM_INDEX_CHANGES_H
#define NAM_INDEX_CHANGES_H

#include "index.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Each stands for the function of index.h with its name. */
enum nam_change_kind {
	NAM_CHANGE_INSERT = 1,
	NAM_CHANGE_UPSERT,
	NAM_CHANGE_UPDATE,
	NAM_CHANGE_DELETE,
	NAM_CHANGE_DELETE_PAIR,
};

/* A change and its result. */
struct nam_index_change {
	const void *key;		/* of the index's key size */
	uint64_t payload;		/* of a DELETE: not looked at */
	enum nam_change_kind kind;
	int rc;				/* out: as of the kind's function; -EINVAL: no such kind */
};

/**
 * nam_index_change_many -- insert, upsert, update, delete: many changes, those of a leaf at once.
 *
 * @changes	[count]; of each, rc is set, whatever the others return
 *
 * Returns 0 if each change returned 0; else the first rc in the order of `changes` that is not 0.
 * After one of them has failed, the others are carried out all the same.  The rc of each says
 * what its function's does: which codes leave the index as it was, and after which this is unknown.
 * The diag is that of a change that failed last.
 *
 * Each change is atomic by itself, and takes effect at one moment of the call.  Changes of one key
 * (in a non-unique index, of one pair) do so in the order of `changes`, others in any order.
 * Together they are no transaction: other clients may see some of them and not yet the others.
 *
 * Suspends:	yes, holding one leaf's remote lock.
 * Cost:	for all changes of a leaf, up to 64, one lock, one READ, one set of WRITEs and one
 *		release.  This is the cost of one change: 2 round trips and 2 doorbells with a warm
 *		cache; node_bytes + 16 in.  Out are 88 bytes, 8 if entries came or went, and twice
 *		all from the first to the last word of entries that changed.  16 more if these
 *		exceed 32 bytes; 32 in all if none did.
 *		A change that divides the leaf is carried out alone, and costs what it costs
 *		alone.  For several leaves the sum of these: they are not changed side by side.
 *		The call looks at 1,024 changes at a time, so order more than these by key.
 *		Coarse: 1 round trip for all of different keys, with up to 32 messages.  A message
 *		is for one kind and memory server, and has up to 253 changes of 8-byte keys.  A key
 *		that occurs n times takes n round trips.  Hybrid: as fine.
 *		Each counts as an operation of its kind.  Round trips and bytes of several count for
 *		the kind of the first in the order of keys.
 * Bounded:	a leaf whose lock is not released costs each of its changes lock_timeout_ms.
 *		Full memory: of 1,024 changes at most nine wait for some to come back.
 * Progress:	a lock is held for one round trip, three in a split, and while 64 changes are
 *		carried out in local memory.
 */
NAM_FIBER_FN int nam_index_change_many(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_change *changes, uint32_t count) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_INDEX_CHANGES_H */
