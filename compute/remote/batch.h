/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h -- several requests in one round trip.
 */
#ifndef NAM_COMPUTE_REMOTE_BATCH_H
#define NAM_COMPUTE_REMOTE_BATCH_H

#include "compute/worker/worker.h"

/*
 * remote.c: post what was collected, so that there is room for more; nam_batch_await() awaits it,
 * too, and all is one round trip.  Errors are reported by that.
 */
void nam__batch_post(struct nam_batch *batch);

/*
 * remote.c: READs wherever they lie, of who has them all at hand: what nam_batch_read() and
 * nam_batch_await() do, with each request written once, and in any order.
 */
struct nam__read {
	struct nam_gaddr at;
	void *local;			/* from nam_buffer_take() */
	uint32_t bytes;
};

/*
 * 1 to NAM_BATCH_MAX of them.  0, or -NAM_E_NOREGION: nothing was posted, or -NAM_E_FABRIC_*.
 * Cost: 1 round trip, one doorbell per memory server touched; or one for each, where that is but a
 * call (in_post_order).
 */
NAM_FIBER_FN int nam__reads_await(struct nam_worker *worker, const struct nam__read *reads,
	uint32_t count) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_REMOTE_BATCH_H */
