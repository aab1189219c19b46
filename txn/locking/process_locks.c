/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_locks.c -- transactions of one process that want the same records wait for each other
 * here, not at the memory server.
 *
 * A record's id picks its lock: a ticket lock of readers and writers, granted in the order of
 * arrival.  A transaction takes its locks in ascending order, so there is no deadlock.  Its wait is
 * bounded because the work of each transaction is.
 */
#include <errno.h>
#include <stdlib.h>

#include "txn/records/protocols.h"

#define LOCKS 1024u
#define PAUSE_NS 500u

/* Tickets wrap around. */
struct ticket_lock {
	atomic_uint next;		/* ticket */
	atomic_uint reads, writes;	/* the ticket that may go on, of each kind */
};

struct nam__process_locks {
	struct ticket_lock each[LOCKS];
};

int
nam__process_locks_new(struct nam__process_locks **ret_locks)
{
	*ret_locks = calloc(1, sizeof(**ret_locks));
	return *ret_locks ? 0 : -ENOMEM;
}

/* The locks of the transaction's records, each once, in ascending order. */
static void
find(const struct nam__txn *txn, struct nam__process_locks_held *held)
{
	uint32_t at;

	held->count = 0;
	for (uint32_t i = 0; i < txn->count; i++) {
		uint16_t number = (uint16_t)(txn->items[i].id.word[0] % LOCKS);

		for (at = held->count; at > 0 && held->numbers[at - 1] > number; at--)
			continue;
		if (at > 0 && held->numbers[at - 1] == number)
			continue;
		memmove(held->numbers + at + 1, held->numbers + at,
			(held->count - at) * sizeof(held->numbers[0]));
		held->numbers[at] = number;
		held->count++;
	}
}

void
nam__process_locks_take(struct nam__txn *txn, bool writes, struct nam__process_locks_held *ret_held)
{
	find(txn, ret_held);
	for (uint32_t i = 0; i < ret_held->count; i++) {
		struct ticket_lock *lock = &txn->records->process_locks->each[ret_held->numbers[i]];
		const atomic_uint *current = writes ? &lock->writes : &lock->reads;
		unsigned ticket = atomic_fetch_add_explicit(&lock->next, 1, memory_order_relaxed);

		/* Acquire: pairs with the release below. */
		while (atomic_load_explicit(current, memory_order_acquire) != ticket)
			nam__pause_await(txn->worker, PAUSE_NS); /* SUSPENDS */
		/* The next one may read, too. */
		if (!writes)
			atomic_store_explicit(&lock->reads, ticket + 1, memory_order_release);
	}
}

void
nam__process_locks_give(struct nam__txn *txn, bool writes,
	const struct nam__process_locks_held *held)
{
	for (uint32_t i = 0; i < held->count; i++) {
		struct ticket_lock *lock = &txn->records->process_locks->each[held->numbers[i]];

		/* Release: pairs with the acquire above. */
		if (writes)
			atomic_fetch_add_explicit(&lock->reads, 1, memory_order_release);
		atomic_fetch_add_explicit(&lock->writes, 1, memory_order_release);
	}
}
