/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim.h -- free memory of one stride serves another after clients have forgotten it. */
#ifndef NAM_COMPUTE_REMOTE_RECLAIM_H
#define NAM_COMPUTE_REMOTE_RECLAIM_H

#include "compute/worker/worker.h"

/* The rest of nam__memory_retry(). */
NAM_FIBER_FN bool nam__memory_reclaim(struct nam_worker *worker, unsigned *tries);

/**
 * nam__memory_retry -- whether an operation that found no memory is worth another try.
 *
 * Makes memory servers return runs without used blocks to their regions, where blocks of any size
 * can be carved.  To be called outside of operations, with the result of one.
 *
 * @rc		0, or a negative code, which stays the worker's diag if this returns false
 * @tries	0 at first
 *
 * True if `rc` says that memory is full and some came back.  True once if a memory server is gone,
 * so that the operation can say so.  Cost: 1 RPC per memory server if none has such a run.  Else 2,
 * a FETCH_ADD, and about 10 READs of 32 KiB in 20 to 50 ms.
 */
NAM_FIBER_FN static inline bool
nam__memory_retry(struct nam_worker *worker, int rc, unsigned *tries)
{
	return __builtin_expect(rc == -NAM_E_REMOTE_FULL, 0) &&
	       nam__memory_reclaim(worker, tries); /* SUSPENDS */
}

#endif /* NAM_COMPUTE_REMOTE_RECLAIM_H */
