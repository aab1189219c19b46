/* SPDX-License-Identifier: Apache-2.0 */
/* torn.h -- nodes that dead clients have left half-written. */
#ifndef NAM_INDEX_WRITE_TORN_H
#define NAM_INDEX_WRITE_TORN_H

#include "index/validate.h"

/**
 * nam__torn_complete -- complete a torn node by its redo record, here and in remote memory (I20).
 *
 * @dead	its lock word
 * @word	replaces it, before the node is written; or `dead`, if this client alone may write
 *
 * Returns 0; -NAM_E_RESTART_LOCKED: `dead` is not its lock word any more; -NAM_E_LOCK_ORPHANED: no
 * record completes it, and nothing was written; -ENOMEM; or a FABRIC code.
 */
NAM_FIBER_FN int nam__torn_complete(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr at, uint64_t dead, uint64_t word, uint64_t *image) NAM_MUST_CHECK;

/**
 * nam__torn_free_complete -- complete a torn node whose lock is free (I20).
 *
 * Its memory server has ended together with the client that wrote the node.  The backup that got
 * its place has a part of the change, and no lock.
 *
 * Returns 0: look again; or a FABRIC code.
 */
NAM_FIBER_FN int nam__torn_free_complete(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr at, uint64_t *image) NAM_MUST_CHECK;

/**
 * nam__node_copy_whole -- write all of a node, whose lock this client took over from a dead one, if
 * it has a backup (I20).
 *
 * The dead client may have written a part of its last change to the backup, and nothing of it to
 * the member.  Later writers would write only what they change.
 *
 * Returns 0, or a FABRIC code.
 */
NAM_FIBER_FN int nam__node_copy_whole(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr at, uint64_t *image) NAM_MUST_CHECK;

#endif /* NAM_INDEX_WRITE_TORN_H */
