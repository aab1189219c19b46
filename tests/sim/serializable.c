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

/* ---- absences -------------------------------------------------------------------------------- */

/* The sentences, and all that follows from them: a row of bits for each transaction. */
struct closure {
	struct sim_txn_order *order;
	uint64_t *newer;
	size_t txns, words;
};

static bool
is_older(const struct closure *closure, uint32_t older, uint32_t newer)
{
	return closure->newer[older * closure->words + newer / 64] >> newer % 64 & 1;
}

static void
take_over(struct closure *closure, uint32_t of, uint32_t from)
{
	for (size_t i = 0; i < closure->words; i++)
		closure->newer[of * closure->words + i] |=
			closure->newer[from * closure->words + i];
}

static void
closure_begin(struct closure *closure, struct sim_txn_order *order, size_t txns)
{
	*closure = (struct closure){ order, NULL, txns, txns / 64 + 1 };
	closure->newer = calloc(txns * closure->words + 1, sizeof(uint64_t));
	if (!closure->newer)
		abort();
	for (size_t i = 0; i < order->count; i++)
		closure->newer[order->sentences[i].older * closure->words +
			order->sentences[i].newer / 64] |= 1ull << order->sentences[i].newer % 64;
	for (uint32_t by = 0; by < txns; by++)
		for (uint32_t of = 0; of < txns; of++)
			if (is_older(closure, of, by))
				take_over(closure, of, by);
}

/* Returns whether it was not known. */
static bool
add(struct closure *closure, uint32_t older, uint32_t newer, uint64_t key)
{
	if (is_older(closure, older, newer))
		return false;
	say(closure->order, older, newer, key);
	closure->newer[older * closure->words + newer / 64] |= 1ull << newer % 64;
	take_over(closure, older, newer);
	for (uint32_t of = 0; of < closure->txns; of++)
		if (is_older(closure, of, older)) {
			closure->newer[of * closure->words + newer / 64] |= 1ull << newer % 64;
			take_over(closure, of, newer);
		}
	return true;
}

/* The transaction that ends the run of matching versions from `write` on; 0: none does. */
static uint32_t
end_of(const struct sim_txns *txns, const struct sim_absences *absences,
	const struct sim_absence *absence, const struct sim_access *write, const bool *seen)
{
	uint64_t first = UINT64_MAX;
	uint32_t end = 0;

	for (size_t i = 0; i < txns->accesses_count; i++) {
		const struct sim_access *later = &txns->accesses[i];
		uint64_t timestamp = txns->txns[later->txn].timestamp;

		if (!later->write || later->key != write->key ||
			!took_place(txns, later->txn, seen) || timestamp >= first ||
			timestamp <= txns->txns[write->txn].timestamp ||
			absences->matches(absence, later->value))
			continue;
		first = timestamp;
		end = later->txn;
	}
	return end;
}

/*
 * A scan is not between a version that it should have returned, and the end of such versions.  If
 * one of the two is known, so is the other.  Returns whether there is a new sentence.
 */
static bool
say_of_absence(struct closure *closure, const struct sim_txns *txns,
	const struct sim_absences *absences, const struct sim_absence *absence, const bool *seen)
{
	bool news = false;

	for (size_t i = 0; i < txns->accesses_count; i++) {
		const struct sim_access *write = &txns->accesses[i];
		uint32_t end;

		if (!write->write || write->key != absence->key || write->txn == absence->txn ||
			!took_place(txns, write->txn, seen) ||
			!absences->matches(absence, write->value))
			continue;
		end = end_of(txns, absences, absence, write, seen);
		if (!end || end == absence->txn || is_older(closure, absence->txn, end))
			news |= add(closure, absence->txn, write->txn, write->key);
		else if (is_older(closure, write->txn, absence->txn))
			news |= add(closure, end, absence->txn, write->key);
	}
	return news;
}

static void
say_of_absences(struct sim_txn_order *order, const struct sim_txns *txns,
	const struct sim_absences *absences, const bool *seen)
{
	struct closure closure;
	bool news = absences->count > 0;

	closure_begin(&closure, order, txns->count);
	while (news) {
		news = false;
		for (size_t i = 0; i < absences->count; i++)
			if (took_place(txns, absences->list[i].txn, seen))
				news |= say_of_absence(&closure, txns, absences,
					&absences->list[i], seen);
	}
	free(closure.newer);
}

size_t
sim_check_serializable(const struct sim_txns *txns, const struct sim_absences *absences)
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
	if (absences)
		say_of_absences(&order, txns, absences, seen);
	sim_txn_order_circle(&order, txns->count, &circle, &count);
	count = circle ? count : 0;
	free(circle);
	free(from);
	free(seen);
	sim_txn_order_free(&order);
	return count;
}
