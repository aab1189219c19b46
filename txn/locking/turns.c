/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.c -- transactions of one process that want the same records wait for each other here, not
 * at the memory server.
 *
 * A record's id picks its turnstile: a ticket lock of readers and writers, served in the order of
 * arrival.  A transaction passes its turnstiles in ascending order, so there is no deadlock.  Its
 * wait is bounded because the work of each transaction is.
 */
#include <errno.h>
#include <stdlib.h>

#include "txn/records/protocols.h"

#define TURNSTILES 1024u
#define PAUSE_NS 500u

/* Tickets wrap around. */
struct turnstile {
	atomic_uint next;		/* ticket */
	atomic_uint reads, writes;	/* the ticket that may go on, of each kind */
};

struct nam__turns {
	struct turnstile each[TURNSTILES];
};

int
nam__turns_new(struct nam__turns **ret_turns)
{
	*ret_turns = calloc(1, sizeof(**ret_turns));
	return *ret_turns ? 0 : -ENOMEM;
}

void
nam__turns_free(struct nam__turns *turns)
{
	free(turns);
}

/* The turnstiles of the transaction's records, each once, in ascending order; how many. */
static uint32_t
numbers_of(const struct nam__txn *txn, uint16_t numbers[NAM_RECORDS_MAX])
{
	uint32_t count = 0, at;

	for (uint32_t i = 0; i < txn->count; i++) {
		uint16_t number = (uint16_t)(txn->items[i].id.word[0] % TURNSTILES);

		for (at = count; at > 0 && numbers[at - 1] > number; at--)
			continue;
		if (at > 0 && numbers[at - 1] == number)
			continue;
		memmove(numbers + at + 1, numbers + at, (count - at) * sizeof(*numbers));
		numbers[at] = number;
		count++;
	}
	return count;
}

NAM_FIBER_FN static void
turn_await(struct nam_worker *worker, const atomic_uint *turn, unsigned ticket)
{
	/* Acquire: pairs with the release below. */
	while (atomic_load_explicit(turn, memory_order_acquire) != ticket)
		nam__pause_await(worker, PAUSE_NS); /* SUSPENDS */
}

void
nam__turns_take(struct nam__txn *txn, bool writes)
{
	uint16_t numbers[NAM_RECORDS_MAX];
	uint32_t count = numbers_of(txn, numbers);

	for (uint32_t i = 0; i < count; i++) {
		struct turnstile *turnstile = &txn->records->turns->each[numbers[i]];
		unsigned ticket = atomic_fetch_add_explicit(&turnstile->next, 1,
			memory_order_relaxed);

		turn_await(txn->worker, writes ? &turnstile->writes : &turnstile->reads,
			ticket); /* SUSPENDS */
		/* The next one may read, too. */
		if (!writes)
			atomic_store_explicit(&turnstile->reads, ticket + 1, memory_order_release);
	}
}

void
nam__turns_give(struct nam__txn *txn, bool writes)
{
	uint16_t numbers[NAM_RECORDS_MAX];
	uint32_t count = numbers_of(txn, numbers);

	for (uint32_t i = 0; i < count; i++) {
		struct turnstile *turnstile = &txn->records->turns->each[numbers[i]];

		/* Release: pairs with turn_await(). */
		if (writes)
			atomic_fetch_add_explicit(&turnstile->reads, 1, memory_order_release);
		atomic_fetch_add_explicit(&turnstile->writes, 1, memory_order_release);
	}
}
