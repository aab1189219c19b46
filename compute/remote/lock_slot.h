/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_slot.h -- the lock table, and its common case in line: no other task of this process wants
 * the same word.  For lock.c, and for operations that lock one node only.
 */
#ifndef NAM_COMPUTE_REMOTE_LOCK_SLOT_H
#define NAM_COMPUTE_REMOTE_LOCK_SLOT_H

#include <stddef.h>

#include "common/hash/hash.h"
#include "compute/backup/again.h"
#include "compute/worker/buffer.h"
#include "compute/worker/doorbell.h"
#include "lock.h"
#include "lock_queue.h"

#define NAM__LOCK_SLOTS 1024u
#define NAM__LOCK_SEQUENCES_TAKEN 256u
#define NAM__LOCK_HANDOVERS_MAX 16u

/* An uncontended change touches the first cache line only. */
struct nam__lock_slot {
	_Alignas(NAM__CACHE_LINE) atomic_uint held;
	atomic_uint waiters;	/* without those whose changes were combined */
	struct nam__lock_request *_Atomic asked;	/* newest first */
	atomic_uint_fast64_t at;	/* what the holder goes for or holds; 0: it is passed on */
	atomic_uint queued;		/* other clients that asked for it: lock_queue.h */
	atomic_bool locked;
	atomic_bool passed;		/* a word was passed to another client lately */
	/* With which word the holder went for an address last; `locked`: it has that (C32). */
	atomic_uint_fast64_t word, word_at;
	/* The rest belongs to the holder of the slot. */
	uint32_t handovers;
	bool handed;		/* `word_at` is locked with `word`, for the next holder */
	struct nam__lock_request *requests;	/* that were asked before */
	uint64_t seen_word;	/* the foreign lock word seen last; each is used once only */
	uint64_t seen_since_ns;	/* it has stayed, or was last found to be of a living client */
	uint64_t looked_ns;	/* when it was seen last */
	uint64_t waited_ns;	/* it has stayed, in time during which tasks of this process ran */
};
_Static_assert(offsetof(struct nam__lock_slot, seen_word) == NAM__CACHE_LINE, "one cache line");

/* A task of a worker that pauses for a slot. */
struct nam__slot_waiter {
	TAILQ_ENTRY(nam__slot_waiter) link;	/* of this worker, in order of arrival */
	struct nam__task *task;
	const struct nam__lock_slot *slot;
	const struct nam__lock_request *request;	/* or NULL */
};

/* A word that a task goes for, or has, without a slot. */
struct nam__unqueued_word {
	uint64_t at;			/* 0: none */
	uint64_t word;
	bool locked;
};
#define NAM__UNQUEUED_WORDS_MAX 64u

struct nam__lock_table {
	pthread_mutex_t mutex;		/* of `unqueued` */
	struct nam__unqueued_word unqueued[NAM__UNQUEUED_WORDS_MAX];
	struct nam__lock_slot slots[NAM__LOCK_SLOTS];
	struct nam__lock_queue queues[NAM__LOCK_SLOTS];
};

/* @word_at: without a tag. */
static inline uint32_t
nam__lock_slot_number(struct nam_gaddr word_at)
{
	return (uint32_t)(nam_mix64(word_at.raw) % NAM__LOCK_SLOTS);
}

static inline bool
nam__lock_slot_try(struct nam__lock_slot *slot)
{
	unsigned free_value = 0;

	/* Acquire: pairs with the release below; the last holder wrote the other fields. */
	return atomic_load_explicit(&slot->held, memory_order_relaxed) == 0 &&
	       atomic_compare_exchange_strong_explicit(&slot->held, &free_value, 1,
		       memory_order_acquire, memory_order_relaxed);
}

/* The first waiter of this worker goes on, and those whose changes were combined. */
void nam__lock_slot_wake(struct nam_worker *worker, const struct nam__lock_slot *slot);

static inline void
nam__lock_slot_leave(struct nam_worker *worker, struct nam__lock_slot *slot)
{
	/* Release: pairs with nam__lock_slot_try. */
	atomic_store_explicit(&slot->held, 0, memory_order_release);
	if (__builtin_expect(!TAILQ_EMPTY(&worker->slot_waiters), 0))
		nam__lock_slot_wake(worker, slot);
}

/*
 * A lock word that this client has never used.  Workers take numbers from the client many at a
 * time, as an atomic increment per lock waits for all stores before it, remote ones included.
 */
static inline uint64_t
nam__lock_word_new(struct nam_worker *worker)
{
	struct nam_client *client = worker->client;

	if (worker->lock_sequence == worker->lock_sequence_end) {
		worker->lock_sequence = atomic_fetch_add_explicit(&client->lock_sequence,
			NAM__LOCK_SEQUENCES_TAKEN, memory_order_relaxed) &
			(uint32_t)~NAM_LOCK_RESERVED;
		worker->lock_sequence_end = worker->lock_sequence + NAM__LOCK_SEQUENCES_TAKEN;
	}
	return nam_lock_word(client->id, client->incarnation, worker->lock_sequence++);
}

/* Whether tasks of this process want changes that the holder may carry out. */
static inline bool
nam__lock_asked(const struct nam_worker *worker, const struct nam__lock *lock)
{
	struct nam__lock_slot *slot = &worker->client->locks->slots[lock->slot];

	return slot->requests || atomic_load_explicit(&slot->asked, memory_order_relaxed);
}

/* Before the CAS: the address comes last, so that the epoch thread finds both or none (C32). */
static inline void
nam__lock_word_set(struct nam__lock_slot *slot, struct nam_gaddr at, uint64_t word)
{
	atomic_store_explicit(&slot->locked, false, memory_order_relaxed);
	atomic_store_explicit(&slot->word, word, memory_order_relaxed);
	atomic_store_explicit(&slot->word_at, at.raw, memory_order_relaxed);
}

/**
 * nam__lock_post -- go for a lock and READ the object that it begins, for a suspended task.
 *
 * Does not wait.  Only for fabrics with ORDER_ATOMIC_READ.
 *
 * @lock	`old` is the caller's, a registered word; the rest is filled in
 *
 * True: the task will be made ready, and nam__lock_posted() has the result.  False: the slot is in
 * use by this process, or the address names no known region.  Nothing was done, so call
 * nam__lock_read_await().
 */
static inline bool
nam__lock_post(struct nam_worker *worker, struct nam__task *task, struct nam_gaddr at, void *image,
	uint32_t bytes, struct nam__lock *lock)
{
	struct nam_gaddr word_at = nam_gaddr_untagged(at);
	uint32_t number = nam__lock_slot_number(word_at);
	struct nam__lock_slot *slot = &worker->client->locks->slots[number];
	struct nam__doorbell doorbell;

	nam__doorbell_init_for(&doorbell, worker, task, at);
	if (doorbell.server < 0 || !nam__lock_slot_try(slot))
		return false;
	if (slot->handed || atomic_load_explicit(&slot->passed, memory_order_relaxed)) {
		nam__lock_slot_leave(worker, slot);
		return false;
	}
	atomic_store_explicit(&slot->at, word_at.raw, memory_order_relaxed);
	slot->handovers = 0;
	lock->combined = NULL;
	lock->at = word_at;
	lock->slot = number;
	lock->word = nam__lock_word_new(worker);
	nam__lock_word_set(slot, word_at, lock->word);
	/* C11: the READ follows the CAS. */
	nam__doorbell_cas(&doorbell, 0, NAM_LOCK_FREE, lock->word, lock->old);
	nam__doorbell_read(&doorbell, image, bytes);
	nam__doorbell_post(&doorbell);
	lock->moves = doorbell.moves;
	if (!task->pending)
		nam__task_ready(worker, task);	/* it failed; task->rc says how */
	return true;
}

/* C32: it is held, so the client takes it at a backup that gets the member's place. */
static inline void
nam__lock_is_held(struct nam_worker *worker, const struct nam__lock *lock)
{
	atomic_store_explicit(&worker->client->locks->slots[lock->slot].locked, true,
		memory_order_relaxed);
}

/**
 * nam__lock_posted -- the result of nam__lock_post().
 *
 * @rc		the task's
 *
 * 0: locked, and the image is as it was after that; -NAM_E_RESTART_LOCKED: another client has the
 * lock, or the image does not show ours: call nam__lock_read_await(); or a FABRIC code.  It is held
 * only after 0.
 */
NAM_FIBER_FN static inline int
nam__lock_posted(struct nam_worker *worker, const void *image, const struct nam__lock *lock, int rc)
{
	/*
	 * C10: the lock is held only if the CAS found the word free.  C11: the image counts only if
	 * it shows this lock.
	 */
	if (__builtin_expect(!rc && *lock->old == NAM_LOCK_FREE &&
		    lock->moves == worker->moves &&
		    (*(const uint64_t *)image == lock->word || !NAM_GUARD(READ_PASSED_CAS)), 1)) {
		nam__lock_is_held(worker, lock);
		nam_race_point("lock.taken");
		return 0;
	}
	return nam__lock_missed(worker, lock, rc); /* SUSPENDS */
}

/* If other clients asked for a word that is being freed, the first has its turn. */
static inline uint64_t
nam__lock_queued_see_to(struct nam_worker *worker, struct nam__lock_slot *slot,
	const struct nam__lock *lock, uint64_t word)
{
	if (__builtin_expect(atomic_load_explicit(&slot->queued, memory_order_relaxed) != 0, 0))
		return nam__lock_queue_pass(worker, lock->slot, word);
	return NAM_LOCK_FREE;
}

/*
 * nam__doorbell_await() of WRITEs and the release behind them.
 *
 * C32: if the member ends, and its backup gets the place, the WRITEs are there, and the lock is
 * free.  The release may have been carried out before, and another client may have locked since.
 * So the lock is not taken again once this is posted, and nothing is posted once more.
 */
NAM_FIBER_FN static inline __attribute__((always_inline)) int
nam__release_await(struct nam__doorbell *doorbell, struct nam__lock_slot *slot,
	const struct nam__lock *lock)
{
	struct nam_worker *worker = doorbell->worker;
	int rc;

	if (__builtin_expect(doorbell->server < 0, 0))
		return doorbell->server;
	nam__doorbell_post(doorbell);
	atomic_store_explicit(&slot->locked, false, memory_order_relaxed);
	rc = nam__task_await(worker); /* SUSPENDS */
	if (__builtin_expect(rc != 0, 0) && nam_err_is(rc, NAM_E_FABRIC_PEER_DEAD) &&
		nam__posted_in_vain(worker, (uint32_t)doorbell->server, doorbell->moves)) {
		*lock->old = lock->word;
		/* Unless the connection was cut: until the backup has the place. */
		rc = nam__qp_open(worker, (uint32_t)doorbell->server);
	}
	return rc;
}

/* nam__unlock_await(), in line. */
NAM_FIBER_FN static inline __attribute__((always_inline)) int
nam__unlock_quickly(struct nam__doorbell *doorbell, struct nam__lock *lock)
{
	struct nam_worker *worker = doorbell->worker;
	struct nam__lock_slot *slot = &worker->client->locks->slots[lock->slot];
	/* C14: after so many hand-overs the lock is released for other processes. */
	bool hand_over = (slot->handovers < NAM__LOCK_HANDOVERS_MAX || !NAM_GUARD(HANDOVERS)) &&
			 atomic_load_explicit(&slot->waiters, memory_order_relaxed) > 0;
	int rc = 0;

	if (__builtin_expect(!hand_over, 1)) {
		/* C12: where a CAS may pass a WRITE, it waits for the WRITEs. */
		if (NAM_GUARD(UNLOCK_ORDER) &&
			!(worker->client->caps & NAM_CAP_ORDER_WRITE_ATOMIC))
			rc = nam__doorbell_await(doorbell); /* SUSPENDS */
		/* C12: fabrics order an ATOMIC behind WRITEs, but no WRITE behind another. */
		nam__doorbell_cas(doorbell, 0, lock->word,
			nam__lock_queued_see_to(worker, slot, lock, lock->word), lock->old);
	}
	if (!rc)
		rc = hand_over ? nam__doorbell_await(doorbell) :
			nam__release_await(doorbell, slot, lock); /* SUSPENDS */
	/* Other clients may have asked meanwhile. */
	if (!hand_over)
		(void)nam__lock_queued_see_to(worker, slot, lock, NAM_LOCK_FREE);
	/* After a failure writes may be missing or under way, so the node stays locked. */
	if (rc)
		atomic_store_explicit(&slot->locked, false, memory_order_relaxed);
	if (hand_over && !rc) {
		slot->handovers++;
		slot->handed = true;
	} else if (!hand_over && !rc && NAM_GUARD(UNLOCK_OWNER) && *lock->old != lock->word) {
		rc = -NAM_E_FENCED;	/* C13: the lock was taken away */
	}
	nam_race_point("lock.released");
	/* C17: before another task can take the slot. */
	if (__builtin_expect(lock->combined != NULL, 0))
		nam__lock_combined_end(lock, rc);
	nam__lock_slot_leave(worker, slot);
	nam__buffer_give(worker, lock->old, 8);
	return rc;
}

#endif /* NAM_COMPUTE_REMOTE_LOCK_SLOT_H */
