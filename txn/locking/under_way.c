/* SPDX-License-Identifier: Apache-2.0 */
/* under_way.c -- which of a client's transactions that write under locks are under way. */
#include "txn/records/protocols.h"

/*
 * L3: a writing transaction is entered before it has its timestamp, with a time that is not later,
 * until it has ended everywhere.  Memory servers are told the earliest of these times.
 */
atomic_uint_fast64_t *
nam__under_way_enter(struct nam_client *client)
{
	struct nam__txn_client *shared = nam__txn_client(client);
	uint64_t before_us = atomic_load(&shared->last_us) + 1;

	for (unsigned i = 0; i < NAM__UNDER_WAY_MAX; i++) {
		uint_fast64_t none = 0;

		if (!atomic_load_explicit(&shared->under_way_us[i], memory_order_relaxed) &&
			atomic_compare_exchange_strong(&shared->under_way_us[i], &none,
				before_us)) {
			/* A reader that misses the entry read last_us before this. */
			atomic_thread_fence(memory_order_seq_cst);
			return &shared->under_way_us[i];
		}
	}
	return NULL;
}

uint64_t
nam__under_way_since_us(struct nam_client *client)
{
	struct nam__txn_client *shared = nam__txn_client(client);
	uint64_t since_us = atomic_load(&shared->last_us) + 1;

	atomic_thread_fence(memory_order_seq_cst);
	for (unsigned i = 0; i < NAM__UNDER_WAY_MAX; i++) {
		uint64_t us = atomic_load(&shared->under_way_us[i]);

		if (us && us < since_us)
			since_us = us;
	}
	return since_us;
}
