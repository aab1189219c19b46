/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unqueued_lock.c -- locks beside the process's queue: second locks, and long locks.
 *
 * Unrelated nodes share the slots of the queue of compute/remote/lock.c.  A task waits there
 * without a bound, because every holder is quick and holds one lock only.  Others try, and then do
 * without.
 */
#include "compute/remote/lock.h"
#include "index/maintain/maintain.h"
#include "index/validate.h"

#define TRIES_MIN 16u
#define PAUSE_NS 1000u
#define PAUSE_MAX_NS 200000u

/* I12: by CAS.  *cas_old: the word that it has found; NAM_LOCK_FREE: the node is locked. */
NAM_FIBER_FN static int
try_once(struct nam_worker *worker, struct nam_index *index, struct nam__held *held,
	uint64_t *cas_old)
{
	return nam__lock_try_await(worker, held->at, NAM_LOCK_FREE, held->lock.word, held->image,
		index->g.node_bytes, cas_old); /* SUSPENDS */
}

/* The word did not come free: its holder is dead, or merely has it.  0: it came free after all. */
NAM_FIBER_FN static int
give_up(struct nam_worker *worker, struct nam_index *index, struct nam__held *held,
	uint64_t *cas_old)
{
	uint64_t seen = *cas_old;
	struct nam__lock_holder holder;
	int rc;

	if (nam__lock_holder_query(worker, seen, &holder) || !holder.dead) /* SUSPENDS */
		return -NAM_E_RESTART_LOCKED;
	rc = try_once(worker, index, held, cas_old); /* SUSPENDS */
	if (rc || *cas_old == NAM_LOCK_FREE)
		return rc;
	if (*cas_old != seen)
		return -NAM_E_RESTART_LOCKED;
	rc = index->recovery.take(worker, index, held->at, seen, held->lock.word,
		held->image); /* SUSPENDS */
	if (!rc)
		*cas_old = NAM_LOCK_FREE;
	/* Another client completes the dead one's merge. */
	if (rc == -NAM_E_LOCK_TIMEOUT)
		rc = -NAM_E_RESTART_LOCKED;
	if (rc != -NAM_E_LOCK_ORPHANED)
		return rc;
	return nam__lock_blame(worker, held->at, &holder);
}

/* CAS until the word is ours, for `timeout_ns` or a few tries, whichever is more. */
NAM_FIBER_FN static int
try_for(struct nam_worker *worker, struct nam_index *index, struct nam__held *held,
	uint64_t timeout_ns, uint64_t *cas_old)
{
	uint64_t start_ns = nam_now_ns(), suspect_ns = NAM__SUSPECT_NS, pause_ns = PAUSE_NS;

	for (unsigned tries = 1;; tries++) {
		uint64_t waited_ns;
		int rc = try_once(worker, index, held, cas_old); /* SUSPENDS */

		if (rc || *cas_old == NAM_LOCK_FREE)
			return rc;
		nam__count_restart(worker, NAM_RESTART_LOCKED);
		waited_ns = nam_now_ns() - start_ns;
		if (tries >= TRIES_MIN && (waited_ns >= timeout_ns || waited_ns >= suspect_ns)) {
			rc = give_up(worker, index, held, cas_old); /* SUSPENDS */
			if (rc != -NAM_E_RESTART_LOCKED || waited_ns >= timeout_ns)
				return rc;
			suspect_ns = waited_ns + NAM__SUSPECT_NS;
		}
		nam__pause_await(worker, pause_ns / 2 +
			nam_rng_below(&worker->rng, pause_ns)); /* SUSPENDS */
		if (pause_ns < PAUSE_MAX_NS)
			pause_ns += pause_ns / 4;
	}
}

int
nam__unqueued_lock(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at,
	int level, uint64_t timeout_ns, struct nam__held *held)
{
	uint64_t cas_old;
	int rc, unlock_rc;

	held->at = at;
	held->lock.at = nam_gaddr_untagged(at);
	rc = try_for(worker, index, held, timeout_ns, &cas_old); /* SUSPENDS */
	if (rc)
		return rc;
	rc = nam__node_validate(index, held->image, at, level, NAM__ANY_TYPE);
	if (!rc)
		return 0;
	/* I9: a lock that is of no use is given back. */
	unlock_rc = nam__unqueued_unlock(worker, held); /* SUSPENDS */
	return unlock_rc ? unlock_rc : rc;
}

/* I12: only the word that this client has set. */
int
nam__unqueued_unlock(struct nam_worker *worker, struct nam__held *held)
{
	uint64_t seen = held->lock.word;
	int rc = 0;

	/* I20: the backup first, or it would keep a word that no client holds. */
	if (held->lock.word & NAM_LOCK_MERGES)
		rc = nam__backed_lock(worker, held->lock.at, held->lock.word,
			NAM_LOCK_FREE); /* SUSPENDS */
	if (!rc)
		rc = nam__lock_word_cas(worker, held->lock.at, held->lock.word, NAM_LOCK_FREE,
			&seen); /* SUSPENDS */
	nam__unqueued_word_forget(worker, held->lock.at, held->lock.word);
	if (rc)
		return rc;
	return seen == held->lock.word ? 0 : -NAM_E_FENCED;
}

int
nam__dead_unlock(struct nam_worker *worker, struct nam_index *index, struct nam__held *held,
	struct nam_gaddr forward)
{
	int rc;

	nam__node_set_type(held->image, nam__node_type_and_flags(held->image) | NAM__NODE_DEAD);
	held->image[NAM__WORD_SIBLING] = forward.raw;
	/* I12: dead before it is unlocked.  Entries and fences stay for readers of old images. */
	rc = nam__write_keep(worker, index, held, (struct nam__dirty){ 0, 0 },
		NAM__HEADER_SIBLING); /* SUSPENDS */
	return rc ? rc : nam__unqueued_unlock(worker, held); /* SUSPENDS */
}
