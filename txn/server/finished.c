/* SPDX-License-Identifier: Apache-2.0 */
/* finished.c -- which transactions of each client are over, as memory servers are told. */
#include "finished.h"

#include "common/env.h"
#include "common/layout.h"

/* Another client has the id now.  Unreported transactions of the one before are never over. */
static void
client_replaced(struct nam__finished *finished, uint32_t incarnation, uint64_t before_us)
{
	if (finished->incarnation) {
		uint64_t from_us = before_us;

		if (from_us > finished->before_us)
			from_us = finished->before_us;
		if (finished->gap_to_us && from_us > finished->gap_from_us)
			from_us = finished->gap_from_us;
		if (before_us < finished->before_us)
			before_us = finished->before_us;
		__atomic_store_n(&finished->gap_from_us, from_us, __ATOMIC_SEQ_CST);
		__atomic_store_n(&finished->gap_to_us, before_us, __ATOMIC_SEQ_CST);
	}
	finished->incarnation = incarnation;
	/* Release: a reader of this word sees the gap. */
	__atomic_store_n(&finished->before_us, before_us, __ATOMIC_RELEASE);
}

void
nam__finished_add(struct nam__finished *finished, uint32_t incarnation, uint64_t before_us)
{
	/* Acquire: the stores of the handler before are seen. */
	while (__atomic_exchange_n(&finished->lock, 1, __ATOMIC_ACQUIRE))
		nam_yield();
	if (finished->incarnation != incarnation)
		client_replaced(finished, incarnation, before_us);
	else if (finished->before_us < before_us)
		__atomic_store_n(&finished->before_us, before_us, __ATOMIC_RELEASE);
	__atomic_store_n(&finished->lock, 0, __ATOMIC_RELEASE);
}

void
nam__finished_get(struct nam__finished *finished, struct nam__finished *ret)
{
	while (__atomic_exchange_n(&finished->lock, 1, __ATOMIC_ACQUIRE))
		nam_yield();
	*ret = *finished;
	__atomic_store_n(&finished->lock, 0, __ATOMIC_RELEASE);
}

bool
nam__finished_has(const struct nam__finished *clients, uint64_t timestamp)
{
	const struct nam__finished *of = &clients[timestamp % NAM_CLIENTS_MAX];
	uint64_t us = timestamp / NAM_CLIENTS_MAX;

	/* Acquire: the gap is not older. */
	if (us >= __atomic_load_n(&of->before_us, __ATOMIC_ACQUIRE))
		return false;
	return us < __atomic_load_n(&of->gap_from_us, __ATOMIC_SEQ_CST) ||
		us >= __atomic_load_n(&of->gap_to_us, __ATOMIC_SEQ_CST);
}
