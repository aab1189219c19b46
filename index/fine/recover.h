/* SPDX-License-Identifier: Apache-2.0 */
/* recover.h -- locks of nodes whose holders are dead. */
#ifndef NAM_INDEX_FINE_RECOVER_H
#define NAM_INDEX_FINE_RECOVER_H

#include "index/index_internal.h"

/**
 * nam__node_take -- take the lock of a node over from a client that is dead.
 *
 * @dead	its lock word
 * @word	the lock word that replaces it
 *
 * As struct nam__lock_recovery says of `take`.
 */
NAM_FIBER_FN int nam__node_take(struct nam_worker *worker, struct nam_index *index,
	struct nam_gaddr at, uint64_t dead, uint64_t word, uint64_t *image) NAM_MUST_CHECK;

#endif /* NAM_INDEX_FINE_RECOVER_H */
