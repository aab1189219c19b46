/* SPDX-License-Identifier: Apache-2.0 */
/* pace.h -- long passes ask whether they go on: nam_worker_stop_when(), nam_worker_pace(). */
#ifndef NAM_COMPUTE_WORKER_PACE_H
#define NAM_COMPUTE_WORKER_PACE_H

#include "compute/worker/worker.h"

/* Where a pass holds nothing.  0, or -ECANCELED. */
int nam__worker_stopped(const struct nam_worker *worker);

/* Outside of operations: a pass has looked at `blocks`; pause, if it is too fast. */
NAM_FIBER_FN int nam__worker_pace(struct nam_worker *worker, uint32_t blocks) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_WORKER_PACE_H */
