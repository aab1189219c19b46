/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batched_lookup.h -- wait in company for the leaf that the cache has for a key.
 */
#ifndef NAM_INDEX_FINE_BATCHED_LOOKUP_H
#define NAM_INDEX_FINE_BATCHED_LOOKUP_H

#include "compute/remote/lock_slot.h"
#include "index/index_internal.h"

/*
 * nam__gather.run: where the leaves of all these keys are, by one search; and READ them, or lock
 * and READ them.
 */
void nam__gathered_run(struct nam_worker *worker);

/* A fast path has carried an operation out, with success or not; or leaves it to the long way. */
enum nam__fast_path {
	NAM__FAST_TAKEN,
	NAM__FAST_DECLINED,
};

/*
 * Where the leaf for a key is; *ret_at is null if the cache does not know.  With an image to READ
 * it into, wait for that, too.  With a lock besides, go for it as nam__lock_post() does; then
 * *ret_at is null also if nothing was posted.
 *
 * Returns the failure of what was posted.  For indexes with fast_lookups, or without an image.
 */
NAM_FIBER_FN static inline __attribute__((always_inline)) int
nam__find_in_company(struct nam_worker *worker, struct nam_index *index, uint64_t key,
	uint64_t *image, struct nam__lock *lock, struct nam_gaddr *ret_at)
{
	struct nam__task *self = worker->current;
	struct nam__gather *gather = &worker->gather;
	int rc;

	if (gather->count == NAM__GATHER_MAX || (gather->count && gather->subject != index))
		gather->run(worker);
	gather->run = nam__gathered_run;
	gather->subject = index;
	gather->keys[gather->count] = key;
	gather->each[gather->count++] = (struct nam__gathered){ self, image, lock, ret_at };
	nam__suspend(worker); /* SUSPENDS */
	rc = self->rc;
	self->rc = 0;
	return rc;
}

#endif /* NAM_INDEX_FINE_BATCHED_LOOKUP_H */
