/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batched_lookup.h -- look a key's leaf up in the cache, several tasks' keys at a time.
 */
#ifndef NAM_INDEX_FINE_BATCHED_LOOKUP_H
#define NAM_INDEX_FINE_BATCHED_LOOKUP_H

#include "compute/remote/lock_slot.h"
#include "index/index_internal.h"

struct nam__batched_lookup {
	struct nam__task *task;
	void *image;			/* where the READ goes; NULL: none is wanted */
	struct nam__lock *lock;		/* NULL, or lock what is READ: see nam__lock_post() */
	struct nam_gaddr *ret_at;	/* null: unknown, and nothing was posted */
};

/* Lookups of a worker's tasks that one search answers: the state of worker->deferred. */
struct nam__batched_lookups {
	struct nam_index *index;
	uint64_t keys[NAM__DEFERRED_MAX];
	struct nam__batched_lookup each[NAM__DEFERRED_MAX];
};
_Static_assert(sizeof(struct nam__batched_lookups) <= NAM__DEFERRED_BYTES, "room for it");

static inline struct nam__batched_lookups *
nam__batched_lookups(struct nam_worker *worker)
{
	return (struct nam__batched_lookups *)(void *)worker->deferred.state;
}

/* Search the leaves of all these keys; READ them, or lock and READ them. */
void nam__batched_lookups_run(struct nam_worker *worker);

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
nam__find_batched(struct nam_worker *worker, struct nam_index *index, uint64_t key,
	uint64_t *image, struct nam__lock *lock, struct nam_gaddr *ret_at)
{
	struct nam__task *self = worker->current;
	struct nam__deferred *deferred = &worker->deferred;
	struct nam__batched_lookups *lookups = nam__batched_lookups(worker);
	int rc;

	if (deferred->count == NAM__DEFERRED_MAX || (deferred->count && lookups->index != index))
		deferred->run(worker);
	deferred->run = nam__batched_lookups_run;
	lookups->index = index;
	lookups->keys[deferred->count] = key;
	lookups->each[deferred->count++] =
		(struct nam__batched_lookup){ self, image, lock, ret_at };
	nam__suspend(worker); /* SUSPENDS */
	rc = self->rc;
	self->rc = 0;
	return __builtin_expect(rc, 0) ? nam__failure_why(worker, rc) : 0;
}

#endif /* NAM_INDEX_FINE_BATCHED_LOOKUP_H */
