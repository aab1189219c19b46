/* SPDX-License-Identifier: Apache-2.0 */
/* change.c -- insert, upsert, update, delete: changes of one entry, or of several in one leaf. */
#include <errno.h>

#include "batched_lookup.h"
#include "compute/remote/reclaim.h"
#include "fine.h"
#include "index/write/image_write.h"
#include "index/validate.h"
#include "leaf_change.h"

/* Carried out under one lock.  More would keep other clients waiting. */
#define COMBINED_MAX 64u

/* Changes of one call: the first names the leaf, those behind it may be of the same one. */
struct group {
	struct nam_index_change *changes;
	const struct nam__sorted *sorted;
	uint32_t count;
	uint32_t done;			/* those that have their rc, the first ones */
};

/* The change of one entry, which another task may carry out while this one waits for the leaf. */
struct change {
	struct nam__lock_request request;	/* first: see carry_out() */
	const struct nam_index *index;
	enum nam_op_kind kind;
	bool exact;
	struct nam__key key;
	uint64_t payload;
	struct group *group;		/* NULL, or it is the first of these */
};

/* The sum of several changes of one image. */
struct combined {
	const struct nam_index *index;
	uint64_t *image;
	struct nam__leaf_outcome *outcome;
	unsigned left;			/* so many may come yet */
};

/* I18: only a change of a key that the leaf covers, as it is with the changes before. */
static bool
carry_out_one(struct combined *combined, const struct change *change, int *ret_rc)
{
	struct nam__leaf_outcome outcome, *all = combined->outcome;
	const struct nam__geometry *g = &combined->index->g;

	if (!combined->left || (NAM_GUARD(COMBINE_COVERS) &&
		!nam__node_covers(combined->image, change->key.w, g->full_words)))
		return false;
	nam__leaf_change(g, combined->image, change->kind, change->exact, change->key.w,
		change->payload, &outcome);
	if (outcome.effect == NAM__LEAF_SPLIT)
		return false;
	combined->left--;
	*ret_rc = nam__leaf_effect_rc(outcome.effect);
	if (outcome.effect != NAM__LEAF_WRITE)
		return true;
	all->effect = NAM__LEAF_WRITE;
	if (outcome.dirty.first < all->dirty.first)
		all->dirty.first = outcome.dirty.first;
	if (outcome.dirty.end > all->dirty.end)
		all->dirty.end = outcome.dirty.end;
	if (outcome.part > all->part)
		all->part = outcome.part;
	return true;
}

static inline struct nam_index_change *
group_at(const struct group *group, uint32_t at)
{
	return &group->changes[group->sorted[at].number];
}

static void
change_of_group(const struct group *group, const struct nam_index *index, uint32_t at,
	struct change *change)
{
	const struct nam_index_change *one = group_at(group, at);

	change->index = index;
	change->kind = nam__change_op(one->kind);
	change->exact = one->kind == NAM_CHANGE_DELETE_PAIR && index->g.unique;
	change->payload = one->payload;
	nam__key_encode(&index->g, one->key, one->payload, &change->key);
}

/* As many as the leaf covers and has room for, in their order; false: not even the first. */
static bool
carry_out_group(struct combined *combined, struct group *group)
{
	for (group->done = 0; group->done < group->count; group->done++) {
		struct change change;

		change_of_group(group, combined->index, group->done, &change);
		if (!carry_out_one(combined, &change, &group_at(group, group->done)->rc))
			break;
	}
	return group->done > 0;
}

/* I18: for nam__lock_combine(). */
static bool
carry_out(void *arg, struct nam__lock_request *request)
{
	struct combined *combined = arg;
	struct change *change = (struct change *)(void *)request;

	if (change->index->g.seed != combined->index->g.seed)
		return false;
	if (!change->group)
		return carry_out_one(combined, change, &request->rc);
	request->rc = 0;
	return carry_out_group(combined, change->group);
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
		/* I18: changes of this leaf that wait in the process go with it. */
		if (__builtin_expect(nam__lock_asked(worker, &held->lock), 0)) {
			struct combined combined = { index, held->image, &outcome,
				COMBINED_MAX - 1 };

			nam__lock_combine(worker, &held->lock, held->at, carry_out, &combined);
		}
		return nam__write_unlock_quickly(worker, index, held, outcome.dirty,
			outcome.part); /* SUSPENDS */
	}
	if (outcome.effect == NAM__LEAF_SPLIT)
		return index->inner->split_unlock(worker, index, held, change->key.w,
			change->payload); /* SUSPENDS */
	rc = nam__unlock(worker, held); /* SUSPENDS */
	return rc ? rc : nam__leaf_effect_rc(outcome.effect);
}

/* As lookup_fast(): lock and READ a leaf that the batched lookup finds.  *ret_rc 0: it is held. */
NAM_FIBER_FN static inline __attribute__((always_inline)) enum nam__fast_path
lock_fast(struct nam_worker *worker, struct nam_index *index, struct change *change,
	struct nam__held *held, int *ret_rc)
{
	const uint64_t *key = change->key.w;
	int rc;

	if (!index->fast_changes)
		return NAM__FAST_DECLINED;
	held->lock.old = nam__buffer_take(worker, 8);
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
	} else if (rc == -NAM_E_RESTART_LOCKED) {
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

/* NAM__LOCK_TAKEN, NAM__LOCK_COMBINED, or a negative code. */
NAM_FIBER_FN static inline __attribute__((always_inline)) int
lock_leaf(struct nam_worker *worker, struct nam_index *index, struct change *change,
	struct nam__held *held)
{
	int rc;

	if (__builtin_expect(lock_fast(worker, index, change, held, &rc) !=
		NAM__FAST_TAKEN, 0)) /* SUSPENDS */
		rc = nam__lock_to_change(worker, index, change->key.w, false, &change->request,
			held); /* SUSPENDS */
	return rc;
}

NAM_FIBER_FN static inline __attribute__((always_inline)) int
change_one(struct nam_worker *worker, struct nam_index *index, enum nam_op_kind kind, bool exact,
	const void *key, uint64_t payload)
{
	struct nam__held held = {
		.image = nam__scratch(worker, index->g.node_bytes),
	};
	struct change change;
	int rc;

	if (!held.image)
		return -ENOMEM;
	change.index = index;
	change.kind = kind;
	change.exact = exact;
	change.payload = payload;
	change.group = NULL;
	nam__key_encode(&index->g, key, payload, &change.key);
	nam__op_begin(worker, kind);
	rc = lock_leaf(worker, index, &change, &held); /* SUSPENDS */
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

/* I18: if the release fails, so do all. */
static void
group_end(struct group *group, uint32_t done, int rc)
{
	group->done = done;
	for (uint32_t i = 0; rc && i < done; i++)
		if (i == 0 || NAM_GUARD(COMBINE_FAILED))
			group_at(group, i)->rc = rc;
}

/* change_held(), for a group. */
NAM_FIBER_FN static void
group_held(struct nam_worker *worker, struct nam_index *index, struct change *change,
	struct nam__held *held)
{
	struct nam__leaf_outcome outcome = { .effect = NAM__LEAF_SAME, .dirty = { UINT32_MAX, 0 } };
	struct combined combined = { index, held->image, &outcome, COMBINED_MAX };
	struct group *group = change->group;
	int rc;

	if (!carry_out_group(&combined, group)) {
		group_at(group, 0)->rc = 0;
		rc = index->inner->split_unlock(worker, index, held, change->key.w,
			change->payload); /* SUSPENDS */
		group_end(group, 1, rc);
		return;
	}
	/* I18: one version for the group, and for changes that wait in the process. */
	if (nam__lock_asked(worker, &held->lock))
		nam__lock_combine(worker, &held->lock, held->at, carry_out, &combined);
	if (outcome.effect == NAM__LEAF_WRITE)
		rc = nam__write_unlock(worker, index, held, outcome.dirty,
			outcome.part); /* SUSPENDS */
	else
		rc = nam__unlock(worker, held); /* SUSPENDS */
	group_end(group, group->done, rc);
}

/* The first change, and those behind it that go with it.  Returns how many. */
NAM_FIBER_FN static uint32_t
change_group(struct nam_worker *worker, struct nam_index *index, struct group *group)
{
	struct nam__held held = {
		.image = nam__scratch(worker, index->g.node_bytes),
	};
	struct change change;
	int rc = -ENOMEM;

	change_of_group(group, index, 0, &change);
	change.group = group;
	nam__op_begin(worker, change.kind);
	if (held.image)
		rc = lock_leaf(worker, index, &change, &held); /* SUSPENDS */
	if (rc == NAM__LOCK_TAKEN)
		group_held(worker, index, &change, &held); /* SUSPENDS */
	else if (rc == NAM__LOCK_COMBINED)
		group_end(group, group->done, change.request.rc);
	else
		group_end(group, 1, rc);
	for (uint32_t i = 1; i < group->done; i++)
		worker->counters[nam__change_op(group_at(group, i)->kind)].ops++;
	nam__op_end(worker);
	return group->done;
}

void
nam__fine_change_many(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_change *changes, const struct nam__sorted *sorted, uint32_t count)
{
	unsigned tries = 0;

	for (uint32_t at = 0, done; at < count; at += done) {
		struct group group = { changes, sorted + at, count - at, 0 };

		/* A change that memory is too full for is alone. */
		do
			done = change_group(worker, index, &group); /* SUSPENDS */
		while (nam__memory_retry(worker, changes[sorted[at].number].rc,
			&tries)); /* SUSPENDS */
	}
}
