/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h -- several requests in one round trip.
 */
#ifndef NAM_COMPUTE_REMOTE_BATCH_H
#define NAM_COMPUTE_REMOTE_BATCH_H

#include "common/guard.h"
#include "compute/worker/worker.h"

/* Post what was collected, to make room for more; nam_batch_await() awaits all of it. */
void nam__batch_post(struct nam_batch *batch);

/* nam_batch_cas() of a lock word (C31). */
void nam__batch_lock_cas(struct nam_batch *batch, struct nam_gaddr at, uint64_t compare,
	uint64_t swap, uint64_t *local_old);

/* The last request skips the mirror: its backup gets its effect in another way, or not (C33). */
static inline void
nam__batch_alone(struct nam_batch *batch)
{
	if (batch->count)
		batch->wrs[batch->count - 1].hint = NAM_WR_LOCK;
}

/*
 * nam_batch_cas() of a word that means something (C31), of which a backup decides.
 *
 * @seen	of a registered buffer: what nam__word_now() needs
 */
void nam__batch_word_cas(struct nam_batch *batch, struct nam_gaddr at, uint32_t offset_bytes,
	uint64_t compare, uint64_t swap, uint64_t seen[2]);

/* nam_batch_write() of what no other client can see yet: both copies at once (C31). */
static inline void
nam__batch_unseen_write(struct nam_batch *batch, struct nam_gaddr at, const void *local,
	uint32_t bytes)
{
	uint32_t count = batch->count;

	nam_batch_write(batch, at, 0, local, bytes);
	if (batch->count > count)
		batch->wrs[count].hint = NAM_WR_UNSEEN;
}

/*
 * The word at the member after that CAS.  With a backup, seen[0] is as the backup had it, and
 * seen[1] as the member had it.
 *
 * C31: the member counts.  If the backup ends after it decided, another client may have changed the
 * word at the member before.
 */
static inline uint64_t
nam__word_now(const uint64_t seen[2], uint64_t compare, uint64_t swap)
{
	if (__builtin_expect(seen[1] != compare, 0) && NAM_GUARD(BACKUP_OUTCOME))
		return seen[1];
	return seen[0] == compare ? swap : seen[0];
}

/* A READ; where all are known at once, nam__reads_await() writes each request once. */
struct nam__read {
	struct nam_gaddr at;
	void *local;			/* from nam_buffer_take() */
	uint32_t bytes;
};

/*
 * 1 to NAM_BATCH_MAX READs, in any order.  0, -NAM_E_NOREGION (none was posted), or a FABRIC code.
 * Cost: 1 round trip, one doorbell per memory server touched; or one for each READ, where that is
 * only a call (in_post_order).
 */
NAM_FIBER_FN int nam__reads_await(struct nam_worker *worker, const struct nam__read *reads,
	uint32_t count) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_REMOTE_BATCH_H */
