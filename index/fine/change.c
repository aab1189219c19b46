/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change.c -- insert, upsert, update, delete: changes of one entry.
 */
#include <errno.h>

#include "batched_lookup.h"
#include "fine.h"
#include "index/node/image_write.h"
#include "index/node/validate.h"
#include "leaf_change.h"

#define SCRATCH_LEAF 0u

/* The change of one entry, which another task may carry out while this one waits for the leaf. */
struct change {
	struct nam__lock_request request;	/* first: see carry_out() */
	const struct nam_index *index;
	enum nam_op_kind kind;
	bool exact;
	struct nam__key key;
	uint64_t payload;
};

/* The sum of several changes of one image. */
struct combined {
	const struct nam_index *index;
	uint64_t *image;
	struct nam__leaf_outcome *outcome;
};

/* I18: only a change of a key that the leaf covers, as it is with the changes before. */
static bool
carry_out(void *arg, struct nam__lock_request *request)
{
	struct combined *combined = arg;
	struct nam__leaf_outcome outcome, *all = combined->outcome;
	const struct nam__geometry *g = &combined->index->g;
	struct change *change = (struct change *)(void *)request;

	if (change->index->g.seed != g->seed || (NAM_GUARD(COMBINE_COVERS) &&
		!nam__node_covers(combined->image, change->key.w, g->full_words)))
		return false;
	nam__leaf_change(g, combined->image, change->kind, change->exact, change->key.w,
		change->payload, &outcome);
	if (outcome.effect == NAM__LEAF_SPLIT)
		return false;
	request->rc = nam__leaf_effect_rc(outcome.effect);
	if (outcome.effect != NAM__LEAF_WRITE)
		return true;
	if (outcome.dirty.first < all->dirty.first)
		all->dirty.first = outcome.dirty.first;
	if (outcome.dirty.end > all->dirty.end)
		all->dirty.end = outcome.dirty.end;
	if (outcome.part > all->part)
		all->part = outcome.part;
	return true;
}

/* The leaf is held; release it with or without the change. */
NAM_FIBER_FN static inline __attribute__((always_inline)) int
change_held(struct nam_worker *worker, struct nam_index *index, struct change *change,
	struct nam__held *held)
{
	struct nam__leaf_outcome outcome;
	int rc;

	nam__leaf_change(&index->g, held->image, change->kind, change->exact, change->key.w,
		change->payload, &outcome);
	if (__builtin_expect(outcome.effect == NAM__LEAF_WRITE, 1)) {
		if (__builtin_expect(nam__lock_asked(worker, &held->lock), 0)) {
			struct combined combined = { index, held->image, &outcome };

			nam__lock_combine(worker, &held->lock, held->at, carry_out, &combined);
		}
		return nam__write_unlock_quickly(worker, index, held, outcome.dirty,
			outcome.part); /* SUSPENDS */
	}
	if (outcome.effect == NAM__LEAF_SPLIT)
		return index->ops->split_unlock(worker, index, held, change->key.w,
			change->payload); /* SUSPENDS */
	rc = nam__unlock(worker, held); /* SUSPENDS */
	return rc ? rc : nam__leaf_effect_rc(outcome.effect);
}

/*
 * The fast path, as lookup_fast() has it: what the batched lookup finds is locked and READ at
 * once.  Taken, *ret_rc says whether the leaf is held.
 */
NAM_FIBER_FN static inline __attribute__((always_inline)) enum nam__fast_path
lock_fast(struct nam_worker *worker, struct nam_index *index, struct change *change,
	struct nam__held *held, int *ret_rc)
{
	const uint64_t *key = change->key.w;
	int rc;

	if (!index->fast_changes)
		return NAM__FAST_DECLINED;
	held->lock.old = nam_buffer_take(worker, 8);
	if (!held->lock.old) {
		*ret_rc = -ENOMEM;
		return NAM__FAST_TAKEN;
	}
	rc = nam__find_batched(worker, index, key[0], held->image, &held->lock,
		&held->at); /* SUSPENDS */
	if (__builtin_expect(nam_gaddr_is_null(held->at), 0)) {
		nam_buffer_give(worker, held->lock.old, 8);
		return NAM__FAST_DECLINED;
	}
	rc = nam__lock_posted(worker, held->image, &held->lock, rc); /* SUSPENDS */
	if (__builtin_expect(!rc && !nam__node_validate(index, held->image, held->at, 0,
			NAM__NODE_LEAF) && nam__node_covers(held->image, key, 1), 1)) {
		worker->current->counters->cache_hits++;
	} else if (rc > 0) {
		return NAM__FAST_DECLINED;	/* another client has the lock */
	} else if (!rc) {
		rc = nam__held_covers(worker, index, key, 0, held); /* SUSPENDS */
		if (nam_err_is(rc, NAM_E_RESTART))
			rc = nam__lock_to_change(worker, index, key, true, &change->request,
				held); /* SUSPENDS */
	}
	*ret_rc = rc;
	return NAM__FAST_TAKEN;
}

NAM_FIBER_FN static inline __attribute__((always_inline)) int
change_one(struct nam_worker *worker, struct nam_index *index, enum nam_op_kind kind, bool exact,
	const void *key, uint64_t payload)
{
	struct nam__held held = {
		.image = nam__scratch(worker, SCRATCH_LEAF, index->g.node_bytes),
	};
	struct change change;
	int rc;

	if (!held.image)
		return -ENOMEM;
	change.index = index;
	change.kind = kind;
	change.exact = exact;
	change.payload = payload;
	nam__key_encode(&index->g, key, payload, &change.key);
	nam__op_begin(worker, kind);
	if (__builtin_expect(lock_fast(worker, index, &change, &held, &rc) !=
		NAM__FAST_TAKEN, 0)) /* SUSPENDS */
		rc = nam__lock_to_change(worker, index, change.key.w, false, &change.request,
			&held); /* SUSPENDS */
	if (__builtin_expect(rc == NAM__LOCK_TAKEN, 1))
		rc = change_held(worker, index, &change, &held); /* SUSPENDS */
	else if (rc == NAM__LOCK_COMBINED)
		rc = change.request.rc;
	nam__op_end(worker);
	return rc;
}

int
nam__fine_change(struct nam_worker *worker, struct nam_index *index, enum nam_op_kind kind,
	const void *key, uint64_t payload)
{
	return change_one(worker, index, kind, false, key, payload); /* SUSPENDS */
}

int
nam__fine_delete_pair(struct nam_worker *worker, struct nam_index *index, const void *key,
	uint64_t payload)
{
	return change_one(worker, index, NAM_OP_DELETE, true, key, payload); /* SUSPENDS */
}
