/* SPDX-License-Identifier: Apache-2.0 */
#include "txns.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"

void
sim_txns_init(struct sim_txns *txns)
{
	memset(txns, 0, sizeof(*txns));
	txns->txns = sim_grow(NULL, 0, &txns->room, sizeof(*txns->txns));
	txns->txns[txns->count++] = (struct sim_txn){ .outcome = SIM_TXN_COMMITTED };
}

void
sim_txns_free(struct sim_txns *txns)
{
	free(txns->txns);
	free(txns->accesses);
	memset(txns, 0, sizeof(*txns));
}

static void
add_access(struct sim_txns *txns, uint32_t txn, bool write, uint64_t key, uint64_t value)
{
	assert(txn < txns->count && txns->accesses_count < UINT32_MAX);
	txns->accesses = sim_grow(txns->accesses, txns->accesses_count, &txns->accesses_room,
		sizeof(*txns->accesses));
	txns->accesses[txns->accesses_count++] = (struct sim_access){ key, value, txn, write };
}

void
sim_txns_load(struct sim_txns *txns, uint64_t key, uint64_t value)
{
	add_access(txns, 0, true, key, value);
}

uint32_t
sim_txns_begin(struct sim_txns *txns, uint32_t session, uint64_t now_ns)
{
	uint32_t txn = (uint32_t)txns->count;

	assert(txns->count > 0 && txns->count < UINT32_MAX - 1);
	txns->txns = sim_grow(txns->txns, txns->count, &txns->room, sizeof(*txns->txns));
	txns->txns[txns->count++] = (struct sim_txn){
		.name = txn,
		.begin_ns = now_ns,
		.session = session,
		.outcome = SIM_TXN_UNKNOWN,
	};
	return txn;
}

void
sim_txns_read(struct sim_txns *txns, uint32_t txn, uint64_t key, uint64_t value)
{
	add_access(txns, txn, false, key, value);
}

void
sim_txns_write(struct sim_txns *txns, uint32_t txn, uint64_t key, uint64_t value)
{
	add_access(txns, txn, true, key, value);
}

void
sim_txns_end(struct sim_txns *txns, uint32_t number, enum sim_txn_outcome outcome,
	uint64_t timestamp, uint64_t now_ns)
{
	struct sim_txn *txn = &txns->txns[number];

	assert(number > 0 && number < txns->count && txn->outcome == SIM_TXN_UNKNOWN);
	txn->outcome = outcome;
	txn->timestamp = timestamp;
	txn->end_ns = now_ns;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void
number_or(char text[24], uint64_t number, const char *unknown)
{
	if (number != 0)
		snprintf(text, 24, "%" PRIu64, number);
	else
		snprintf(text, 24, "%s", unknown);
}

const char *
sim_txn_text(const struct sim_txns *txns, uint32_t number, char text[SIM_TXN_TEXT_BYTES])
{
	static const char *const outcomes[] = {
		[SIM_TXN_UNKNOWN] = ", outcome unknown",
		[SIM_TXN_COMMITTED] = "",
		[SIM_TXN_ABORTED] = ", aborted",
	};
	const struct sim_txn *txn = &txns->txns[number];
	char begin[24], end[24], timestamp[48] = "", when[64] = "";

	if (number == 0) {
		snprintf(text, SIM_TXN_TEXT_BYTES, "the loader");
		return text;
	}
	number_or(begin, txn->begin_ns, "?");
	number_or(end, txn->end_ns, "?");
	if (txn->timestamp != 0)
		snprintf(timestamp, sizeof(timestamp), ", timestamp %" PRIu64, txn->timestamp);
	if (txn->begin_ns != 0 || txn->end_ns != 0)
		snprintf(when, sizeof(when), ", %s..%s ns", begin, end);
	snprintf(text, SIM_TXN_TEXT_BYTES, "transaction %" PRIu64 " (session %" PRIu32 "%s%s%s)",
		txn->name, txn->session, timestamp, when, outcomes[txn->outcome]);
	return text;
}

/* ---- JSON lines ------------------------------------------------------------------------------ */

struct member {
	uint32_t session;
	uint32_t txn;
};

static int
compare_members(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->session != y->session)
		return x->session < y->session ? -1 : 1;
	return x->txn < y->txn ? -1 : x->txn > y->txn;
}

/* By transaction: the how many-th of its session it is, from 1; the loader is 0. */
static uint32_t *
number_in_sessions(const struct sim_txns *txns)
{
	struct member *members = sim_alloc(txns->count, sizeof(*members));
	uint32_t *numbers = sim_alloc(txns->count, sizeof(*numbers));
	uint32_t number = 0;

	for (uint32_t i = 1; i < txns->count; i++)
		members[i - 1] = (struct member){ txns->txns[i].session, i };
	qsort(members, txns->count - 1, sizeof(*members), compare_members);
	for (size_t i = 0; i + 1 < txns->count; i++) {
		number = i == 0 || members[i].session != members[i - 1].session ? 1 : number + 1;
		numbers[members[i].txn] = number;
	}
	free(members);
	return numbers;
}

/* Accesses by transaction; *ret_first: those of transaction i are first[i] ... first[i + 1] - 1. */
static uint32_t *
group_accesses(const struct sim_txns *txns, size_t **ret_first)
{
	size_t *first = sim_alloc(txns->count + 2, sizeof(*first));
	uint32_t *group = sim_alloc(txns->accesses_count, sizeof(*group));

	for (size_t i = 0; i < txns->accesses_count; i++)
		first[txns->accesses[i].txn + 2]++;
	for (size_t i = 2; i < txns->count + 2; i++)
		first[i] += first[i - 1];
	for (uint32_t i = 0; i < txns->accesses_count; i++)
		group[first[txns->accesses[i].txn + 1]++] = i;
	*ret_first = first;
	return group;
}

void
sim_txns_write_json(const struct sim_txns *txns, FILE *file)
{
	static const char *const outcomes[] = {
		[SIM_TXN_UNKNOWN] = "unknown",
		[SIM_TXN_COMMITTED] = "committed",
		[SIM_TXN_ABORTED] = "aborted",
	};
	uint32_t *numbers = number_in_sessions(txns);
	size_t *first;
	uint32_t *group = group_accesses(txns, &first);

	for (uint32_t i = 0; i < txns->count; i++) {
		const struct sim_txn *txn = &txns->txns[i];
		char begin[24], end[24], timestamp[24];

		number_or(begin, txn->begin_ns, "null");
		number_or(end, txn->end_ns, "null");
		number_or(timestamp, txn->timestamp, "null");
		fprintf(file, "{\"txn\":%" PRIu64, txn->name);
		if (i == 0)
			fputs(",\"session\":\"loader\"", file);
		else
			fprintf(file, ",\"session\":%" PRIu32, txn->session);
		fprintf(file, ",\"number\":%" PRIu32 ",\"begin_ns\":%s,\"end_ns\":%s,"
			"\"outcome\":\"%s\",\"timestamp\":%s,\"ops\":[", numbers[i], begin, end,
			outcomes[txn->outcome], timestamp);
		for (size_t at = first[i]; at < first[i + 1]; at++) {
			const struct sim_access *access = &txns->accesses[group[at]];

			fprintf(file, "%s[\"%c\",%" PRIu64 ",%" PRIu64 "]",
				at > first[i] ? "," : "", access->write ? 'w' : 'r', access->key,
				access->value);
		}
		fputs("]}\n", file);
	}
	free(group);
	free(first);
	free(numbers);
}
