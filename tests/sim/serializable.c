/* SPDX-License-Identifier: Apache-2.0 */
/* serializable.c -- see serializable.h. */
#include "serializable.h"

#include <stdlib.h>

#include "txn_order.h"

/* Those of unknown outcome that a reader saw did commit. */
static bool
took_place(const struct sim_txns *txns, uint32_t txn, const bool *seen)
{
	return txns->txns[txn].outcome == SIM_TXN_COMMITTED || seen[txn];
}

static void
say(struct sim_txn_order *order, uint32_t older, uint32_t newer, uint64_t key)
{
	struct sim_txn_sentence sentence = { .key = key, .older = older, .newer = newer,
		.by = newer, .why = SIM_WHY_TIMESTAMP };

	if (older != newer)
		sim_txn_order_say(order, sentence);
}

/* The transaction that wrote the value; 0: none did. */
static uint32_t
writer_of(const struct sim_txns *txns, const struct sim_access *read)
{
	for (size_t i = 0; i < txns->accesses_count; i++) {
		const struct sim_access *write = &txns->accesses[i];

		if (write->write && write->key == read->key && write->value == read->value)
			return write->txn;
	}
	return 0;
}

static void
say_of_times(struct sim_txn_order *order, const struct sim_txns *txns, const bool *seen)
{
	for (uint32_t i = 1; i < txns->count; i++)
		for (uint32_t k = 1; k < txns->count; k++)
			if (txns->txns[i].end_ns && txns->txns[i].end_ns < txns->txns[k].begin_ns &&
				took_place(txns, i, seen) && took_place(txns, k, seen))
				say(order, i, k, 0);
}

/* Of each write, and each other access of its key: which comes first. */
static void
say_of_versions(struct sim_txn_order *order, const struct sim_txns *txns, const bool *seen,
	const uint32_t *from)
{
	for (size_t i = 0; i < txns->accesses_count; i++) {
		const struct sim_access *write = &txns->accesses[i];
		uint64_t timestamp = txns->txns[write->txn].timestamp;

		if (!write->write || !took_place(txns, write->txn, seen))
			continue;
		for (size_t k = 0; k < txns->accesses_count; k++) {
			const struct sim_access *other = &txns->accesses[k];
			uint32_t of = other->write ? other->txn : from[k];

			if (other->key != write->key || !took_place(txns, other->txn, seen))
				continue;
			if (txns->txns[of].timestamp < timestamp)
				say(order, other->txn, write->txn, write->key);
			else if (!other->write)
				say(order, write->txn, other->txn, write->key);
		}
	}
}

size_t
sim_check_serializable(const struct sim_txns *txns)
{
	struct sim_txn_order order = { 0 };
	struct sim_txn_sentence *circle = NULL;
	uint32_t *from = calloc(txns->accesses_count + 1, sizeof(*from));
	bool *seen = calloc(txns->count + 1, sizeof(*seen));
	size_t count = 0;

	if (!from || !seen)
		abort();
	for (size_t i = 0; i < txns->accesses_count; i++)
		if (!txns->accesses[i].write) {
			from[i] = writer_of(txns, &txns->accesses[i]);
			seen[from[i]] = true;
		}
	say_of_times(&order, txns, seen);
	say_of_versions(&order, txns, seen, from);
	sim_txn_order_circle(&order, txns->count, &circle, &count);
	count = circle ? count : 0;
	free(circle);
	free(from);
	free(seen);
	sim_txn_order_free(&order);
	return count;
}
