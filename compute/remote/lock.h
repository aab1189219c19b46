/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.h -- remote lock words: taken and given back by CAS only, queued for inside the process.
 *
 * Threads and fibers of one process that want the same word wait for each other here, not at the
 * memory server.  They hand the remote lock over a bounded number of times.
 */
#ifndef NAM_COMPUTE_REMOTE_LOCK_H
#define NAM_COMPUTE_REMOTE_LOCK_H

#include <stdatomic.h>

#include "compute/remote.h"

/* READs at the most until an image shows the lock word that it has been taken with. */
#define NAM__LOCK_READS_MAX 1000u
/* A lock word that has not moved for so long: ask whether its owner is alive. */
#define NAM__SUSPECT_NS 10000000ull

struct nam__lock_table;
struct nam__doorbell;			/* doorbell.h */

int nam__lock_table_new(struct nam__lock_table **ret_table) NAM_MUST_CHECK;
void nam__lock_table_free(struct nam__lock_table *table);

/*
 * A change for which a task waits, and which the holder of the lock may carry out in its place.
 * A part of a struct of the room above, on the stack of the waiting task.
 */
struct nam__lock_request {
	struct nam__lock_request *next;	/* not of sys/queue.h: slot->asked is a lock-free stack */
	struct nam_gaddr at;	/* of the object, with its tag */
	int rc;			/* its result, as soon as `ended` is set */
	atomic_bool ended;
};

/* A held lock.  Only a lock whose CAS succeeded, or that was handed over, ever gets filled in. */
struct nam__lock {
	struct nam_gaddr at;
	uint64_t word;
	uint64_t *old;		/* where the CAS that releases it will report */
	struct nam__lock_request *combined;	/* carried out under this lock, not ended yet */
	uint32_t slot;
	uint32_t moves;		/* the worker's, as it was posted */
};

enum nam__lock_result {
	NAM__LOCK_TAKEN = 0,
	NAM__LOCK_COMBINED = 1,	/* another task has carried out the change */
};

/* How the owner of a structure takes locks over from clients that are dead (C24). */
struct nam__lock_recovery {
	/*
	 * The holder of `dead` is dead.  Repair the object, if it is half-written, and make `word`
	 * its lock word.  Returns 0, with the image as it is then, or a FABRIC code.
	 * -NAM_E_RESTART_LOCKED: another client was quicker, or this one has released the lock.
	 * -NAM_E_LOCK_TIMEOUT: another client is at it; the diag names it.  -NAM_E_LOCK_ORPHANED:
	 * not possible, and nothing was changed.
	 */
	int (*take)(struct nam_worker *worker, void *arg, struct nam_gaddr at, uint64_t dead,
		uint64_t word, void *image);
	void *arg;
};

/**
 * nam__lock_read_await -- lock the word at `at` and READ the object that it begins.
 *
 * @image	receives `bytes` bytes as they were after the lock was taken
 * @recovery	for a holder that is dead; NULL: such locks stay
 *
 * Returns 0, -NAM_E_LOCK_TIMEOUT (the holder lives), -NAM_E_LOCK_ORPHANED (it died; the worker's
 * diag names it) or -NAM_E_FENCED (another client overwrote the word just taken).  Or a FABRIC
 * code: PROTOCOL if NAM__LOCK_READS_MAX READs did not show it.  Nothing is held on failure.
 *
 * Cost:	1 round trip, 1 doorbell: CAS and READ.
 * Bounded:	lock_timeout_ms of the client with one and the same holder; 8 times that with many.
 */
NAM_FIBER_FN int nam__lock_read_await(struct nam_worker *worker, struct nam_gaddr at, void *image,
	uint32_t bytes, const struct nam__lock_recovery *recovery,
	struct nam__lock *ret_lock) NAM_MUST_CHECK;

/**
 * nam__lock_change_await -- nam__lock_read_await() for a task that wants one change of the object.
 *
 * @request	what the task wants; NULL: the lock itself
 *
 * Returns NAM__LOCK_TAKEN; NAM__LOCK_COMBINED, with the result in request->rc and nothing held; or
 * a negative code as above.
 */
NAM_FIBER_FN int nam__lock_change_await(struct nam_worker *worker, struct nam_gaddr at, void *image,
	uint32_t bytes, struct nam__lock_request *request,
	const struct nam__lock_recovery *recovery, struct nam__lock *ret_lock) NAM_MUST_CHECK;

/**
 * nam__lock_try_await -- try once to CAS a lock word from `old` to `word`, and READ the object.
 *
 * @old		NAM_LOCK_FREE: a reserved word is taken, too; or the word of a client that is dead
 * @ret_seen	the lock word before that: `old`, if the lock is held now
 *
 * Returns 0, or as nam__lock_read_await().
 *
 * Cost:	1 round trip, 1 doorbell; the same again if the word was reserved.
 */
NAM_FIBER_FN int nam__lock_try_await(struct nam_worker *worker, struct nam_gaddr at, uint64_t old,
	uint64_t word, void *image, uint32_t bytes, uint64_t *ret_seen) NAM_MUST_CHECK;

/* Carries out a request on the image of the held object, as request->rc says; false: it cannot. */
typedef bool nam__combine_fn(void *arg, struct nam__lock_request *request);

/**
 * nam__lock_combine -- carry out changes of tasks of this process that wait for a held lock.
 *
 * @at		of the object, with its tag: requests of other tags are left alone
 *
 * They end when the lock is released, with its failure if that fails.
 */
void nam__lock_combine(struct nam_worker *worker, struct nam__lock *lock, struct nam_gaddr at,
	nam__combine_fn *carry_out, void *arg);

/* For the release of a lock: its combined changes end. */
void nam__lock_combined_end(struct nam__lock *lock, int rc);

/* For nam__lock_posted(): leave the slot of a lock that was not taken. */
NAM_FIBER_FN int nam__lock_missed(struct nam_worker *worker, const struct nam__lock *lock,
	int rc) NAM_MUST_CHECK;

/**
 * nam__unlock_await -- await writes under the lock and release it with the same doorbell.
 *
 * @doorbell	of the lock's own object; with the writes, or empty; room for one request more
 *
 * The lock is gone afterwards, whatever is returned: 0, -NAM_E_FENCED or a FABRIC code.  FENCED:
 * the word was not ours any more, so nothing that this client wrote since can be trusted.
 */
NAM_FIBER_FN int nam__unlock_await(struct nam__doorbell *doorbell,
	struct nam__lock *lock) NAM_MUST_CHECK;

/**
 * nam__lock_unseen -- give back a lock that was taken and that no image has shown since.
 *
 * Nothing has been written under it.  Returns -NAM_E_FENCED (the word was not ours any more) or a
 * FABRIC code, with a diag.  -NAM_E_FABRIC_PROTOCOL: it was ours, so READs after a CAS do not show
 * its effect.
 */
NAM_FIBER_FN int nam__lock_unseen(struct nam_worker *worker, struct nam_gaddr at,
	uint64_t word) NAM_MUST_CHECK;

/* C32: a word that is gone for without a slot; then that it is held; and its end. */
void nam__unqueued_word_note(struct nam_worker *worker, struct nam_gaddr at, uint64_t word,
	bool locked);
void nam__unqueued_word_forget(struct nam_worker *worker, struct nam_gaddr at, uint64_t word);

/*
 * C32: the lock word of a merge is at the backup, too, from before its first WRITE until all is
 * written.  So it stays if collector and member end together.
 *
 * @to	the lock word, whatever the backup has; or NAM_LOCK_FREE, if the backup has `from`
 *
 * 0, also without a backup; or a FABRIC code.  Cost: nothing without a backup, else 1 round trip.
 */
NAM_FIBER_FN int nam__backed_lock(struct nam_worker *worker, struct nam_gaddr at, uint64_t from,
	uint64_t to) NAM_MUST_CHECK;

/* The client that a lock word names, as the first memory server knows it. */
struct nam__lock_holder {
	uint64_t word;
	uint64_t pid;
	bool dead;
	bool unknown;	/* to that memory server: not dead, for it may act */
	bool fencing;	/* not dead yet, for the same reason */
	char name[48];
};

/* Cost: 1 RPC. */
NAM_FIBER_FN int nam__lock_holder_query(struct nam_worker *worker, uint64_t word,
	struct nam__lock_holder *ret_holder) NAM_MUST_CHECK;

/*
 * For an operation that gives up on a lock: fills the worker's diag and returns
 * -NAM_E_LOCK_ORPHANED if the holder is dead, otherwise -NAM_E_LOCK_TIMEOUT.
 */
int nam__lock_blame(struct nam_worker *worker, struct nam_gaddr at,
	const struct nam__lock_holder *holder) NAM_MUST_CHECK;

/* ---- a word that one client at a time has, for work that may take long: there is no queue ---- */

/**
 * nam__owner_word_enter -- become the owner, if there is none or it is dead.
 *
 * @offset	of the word, in the object at `at`
 * @timeout_ns	how long to wait for one that lives to leave.  For one that is FENCING this waits
 *		at least until lock_timeout_ms after the call
 * @ret_word	for nam__owner_word_leave()
 * @ret_dead	the word of the dead owner that this client succeeds; else NAM_LOCK_FREE
 *
 * Returns 0, -NAM_E_LOCK_TIMEOUT (the owner is not dead; the diag names it), or a FABRIC code.
 *
 * Cost:	1 round trip; with an owner 1 RPC, and 1 round trip more; again every 200 us.
 */
NAM_FIBER_FN int nam__owner_word_enter(struct nam_worker *worker, struct nam_gaddr at,
	uint32_t offset, uint64_t timeout_ns, uint64_t *ret_word,
	uint64_t *ret_dead) NAM_MUST_CHECK;
/* Returns 0, -NAM_E_FENCED (another client has it), or a FABRIC code.  Cost: 1 round trip. */
NAM_FIBER_FN int nam__owner_word_leave(struct nam_worker *worker, struct nam_gaddr at,
	uint32_t offset, uint64_t word) NAM_MUST_CHECK;

/* remote.c: a CAS of a lock word, at the member only: its backup has none (C31). */
NAM_FIBER_FN int nam__lock_word_cas(struct nam_worker *worker, struct nam_gaddr at,
	uint64_t compare, uint64_t swap, uint64_t *ret_old) NAM_MUST_CHECK;
/*
 * nam__lock_word_cas() of the word at `offset`.
 *
 * @hint	NAM_WR_LOCK; 0: refused if the member has a backup, with -NAM_E_FABRIC_CAPABILITY
 */
NAM_FIBER_FN int nam__member_word_cas(struct nam_worker *worker, uint16_t hint,
	struct nam_gaddr at, uint32_t offset, uint64_t compare, uint64_t swap,
	uint64_t *ret_old) NAM_MUST_CHECK;
/* backup/backed.c: nam_cas_await() of the word at `offset`, which may begin no unit of 64 bytes. */
NAM_FIBER_FN int nam__word_cas(struct nam_worker *worker, struct nam_gaddr at, uint32_t offset,
	uint64_t compare, uint64_t swap, uint64_t *ret_seen) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_REMOTE_LOCK_H */
