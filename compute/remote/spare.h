/* SPDX-License-Identifier: Apache-2.0 */
/* spare.h -- blocks that operations use in passing, one after the other. */
#ifndef NAM_COMPUTE_REMOTE_SPARE_H
#define NAM_COMPUTE_REMOTE_SPARE_H

#include "compute/remote.h"

/*
 * nam__spare_take -- a block on that memory server for a passing use.  It is the one before, if
 * that has come back: tagged as fresh, as the caller has left it.  Between two uses nodes do not
 * get it, which would have to READ its generation.  A full memory server has a reserve for them.
 *
 * Returns 0, or as nam_alloc_on().
 */
NAM_FIBER_FN int nam__spare_take(struct nam_worker *worker, uint32_t slot, uint32_t stride,
	struct nam_gaddr *ret_at) NAM_MUST_CHECK;
/* No other client has seen it. */
void nam__spare_give(struct nam_worker *worker, uint32_t slot, struct nam_gaddr at,
	uint32_t stride);

#endif /* NAM_COMPUTE_REMOTE_SPARE_H */
