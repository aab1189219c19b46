/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_queue.h -- the queue of clients at a lock word, kept by datagrams between them.
 *
 * A client whose CAS found a word locked asks the holder, which the word names, for a turn.  The
 * holder keeps a list of those that asked.  When it frees the word, it tells the first of the list
 * to go, and gives it the rest of the list.  A client that has passed the word on forwards later
 * requests to the last client of the list, and asks there itself.
 *
 * All of this is a hint (C18).  Only the CAS on the word takes the lock.  Every wait for a datagram
 * is bounded, so lost datagrams and dead clients cost a time-out.
 */
#ifndef NAM_COMPUTE_REMOTE_LOCK_QUEUE_H
#define NAM_COMPUTE_REMOTE_LOCK_QUEUE_H

#include "compute/client/peers.h"
#include "lock.h"

#define NAM__QUEUE_MAX 32u

/* The queue of one lock slot.  Under `busy`, but for the fields of the slot's holder. */
struct nam__lock_queue {
	atomic_flag busy;
	bool go;			/* a turn came while the task was not waiting */
	uint16_t count;
	struct nam_gaddr at;		/* the word that is held or waited for */
	struct nam_worker *worker;	/* ... by a task of this worker, */
	struct nam__task *task;		/* ... or NULL: no task waits for a datagram */
	uint32_t place;			/* of that task in a list, from 1 */
	struct nam__peer_id asked;	/* the client that was asked */
	struct nam__peer_id list[NAM__QUEUE_MAX];
	/* the word that was passed on last, and the last client of its list then */
	struct nam_gaddr passed_at;
	uint64_t passed_ns;
	struct nam__peer_id passed_to;
	/* the holder's: */
	uint64_t go_word;		/* the word that the sender of the turn frees */
	uint64_t missed_word;		/* found by a CAS outside of this file */
	uint64_t missed_ns;
	uint32_t looks;			/* at a word that is about to be freed */
};

/* worker->peers: takes the datagrams. */
void nam__lock_queue_arrived(struct nam_worker *worker, struct nam__completion *completion,
	const struct nam_wc *wc);

/*
 * For the holder of a slot that begins to go for the word `at`.  Whether its turn has to be asked
 * for first, because another client is known to have the word; then wait with word 0.
 */
bool nam__lock_queue_begin(struct nam_worker *worker, uint32_t slot, struct nam_gaddr at);

/**
 * nam__lock_queue_wait -- ask for a turn, and wait for it or for the time-out.
 *
 * @word	what the CAS found; 0: ask where the word was passed on to
 * @trip_ns	the time of that CAS, or 0
 *
 * False: no client could be asked, and nothing was waited for.
 * Bounded:	50 ms.
 */
NAM_FIBER_FN bool nam__lock_queue_wait(struct nam_worker *worker, uint32_t slot,
	struct nam_gaddr at, uint64_t word, uint64_t trip_ns);

/*
 * The word is taken: learn the names of clients in the list that are unknown, to pass the word on.
 * Cost: a round trip if there is such a client.
 */
NAM_FIBER_FN void nam__lock_queue_taken(struct nam_worker *worker, uint32_t slot);

/* After nam__lock_queue_wait(), a CAS expects this: reserved for this client, or `word`. */
uint64_t nam__lock_queue_turn(const struct nam_worker *worker, uint32_t slot, uint64_t word);

/* A CAS outside of nam__lock_read_await(), which comes next, has found another client's word. */
void nam__lock_queue_missed(struct nam_worker *worker, uint32_t slot, uint64_t word);

/*
 * The first client that asked has its turn at a word that is being freed; 0: that is free, or given
 * up.  Returns what the word has to become: NAM_LOCK_FREE, or reserved for that client.
 */
uint64_t nam__lock_queue_pass(struct nam_worker *worker, uint32_t slot, uint64_t word);

#endif /* NAM_COMPUTE_REMOTE_LOCK_QUEUE_H */
