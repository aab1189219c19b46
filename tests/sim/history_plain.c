/* SPDX-License-Identifier: Apache-2.0 */
/* The text that public checkers of transactions read; see history.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "facts.h"

#define ABSENT (1ull << 63)

struct plain {
	struct sim_facts facts;
	FILE *file;
	bool *seen;		/* by operation: of unknown outcome, but seen by a reader */
	uint64_t *absent;	/* by operation: what stands for the nothing it saw; 0: unclear */
	uint32_t *sessions;	/* by operation */
	uint64_t transaction;
	size_t unsaid;
};

/* ---- sessions -------------------------------------------------------------------------------- */

struct fiber {
	uint32_t client;
	uint32_t session;
	uint32_t number;
};

static int
compare_fibers(const void *a, const void *b)
{
	const struct fiber *x = a, *y = b;

	if (x->client != y->client)
		return x->client < y->client ? -1 : 1;
	return x->session < y->session ? -1 : x->session > y->session;
}

/* Sessions of all clients are numbered from 1; the loader's is 0. */
static void
number_sessions(struct plain *plain)
{
	const struct sim_history *history = plain->facts.history;
	struct fiber *fibers = sim_alloc(history->ops_count, sizeof(*fibers));
	uint32_t session = 0;

	for (uint32_t i = 0; i < history->ops_count; i++)
		fibers[i] = (struct fiber){ history->ops[i].client, history->ops[i].session, i };
	qsort(fibers, history->ops_count, sizeof(*fibers), compare_fibers);
	for (size_t i = 0; i < history->ops_count; i++) {
		if (i == 0 || compare_fibers(&fibers[i - 1], &fibers[i]) != 0)
			session++;
		plain->sessions[fibers[i].number] =
			fibers[i].client == SIM_LOADER ? 0 : session;
	}
	free(fibers);
}

/* ---- what was seen --------------------------------------------------------------------------- */

/* A unit's changes in the order of their calls; ended is the latest end of all before this one. */
struct changed {
	const struct sim_fact *fact;
	uint64_t ended;
};

/*
 * The value for an observation of absence: that of the last delete, if it is clear which change was
 * the last.  It is that of the beginning, if there was none; else 0.
 */
static uint64_t
absence_seen(const struct plain *plain, size_t unit, const struct changed *changes, size_t count,
	const struct sim_fact *observation)
{
	const struct changed *last;
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (changes[middle].fact->call < observation->end)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return ABSENT + plain->facts.history->ops_count + unit;
	last = &changes[low - 1];
	if (last->ended > last->fact->call || last->fact->end > observation->call ||
			(last->fact->what != SIM_REMOVE && last->fact->what != SIM_REMOVE_VALUE))
		return 0;
	return ABSENT + last->fact->op;
}

/* A value that was seen was written, even if its writer never heard so. */
static void
mark_seen(struct plain *plain, const struct changed *changes, size_t count, uint64_t value)
{
	for (size_t i = 0; i < count; i++)
		if (changes[i].fact->end == SIM_NEVER && changes[i].fact->value == value)
			plain->seen[changes[i].fact->op] = true;
}

static void
look_at_unit(struct plain *plain, size_t unit, struct changed *changes)
{
	const struct sim_facts *facts = &plain->facts;
	size_t count = 0;
	uint64_t ended = 0;
	bool doubtful = false;

	for (size_t i = facts->first[unit]; i < facts->first[unit + 1]; i++) {
		const struct sim_fact *fact = &facts->facts[i];

		if (!sim_what_changes(fact->what))
			continue;
		changes[count++] = (struct changed){ fact, ended };
		ended = fact->end > ended ? fact->end : ended;
		doubtful = doubtful || fact->end == SIM_NEVER;
	}
	for (size_t i = facts->first[unit]; i < facts->first[unit + 1]; i++) {
		const struct sim_fact *fact = &facts->facts[i];

		if (fact->what == SIM_SEE_ABSENT)
			plain->absent[fact->op] =
				absence_seen(plain, unit, changes, count, fact);
		if (fact->what == SIM_SEE_VALUE && doubtful)
			mark_seen(plain, changes, count, fact->value);
	}
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void
say(struct plain *plain, char what, uint64_t key, uint64_t value, size_t op)
{
	fprintf(plain->file, "%c(%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%" PRIu64 ")\n", what, key,
		value, plain->sessions[op], ++plain->transaction);
}

static void
say_change(struct plain *plain, size_t number)
{
	const struct sim_op *op = &plain->facts.history->ops[number];
	bool removes = op->kind == SIM_DELETE || op->kind == SIM_DELETE_PAIR;
	uint64_t value = removes ? ABSENT + number : op->payload;

	if (sim_op_outcome(op) == SIM_DONE || plain->seen[number])
		say(plain, 'w', op->key, value, number);
	else
		fprintf(plain->file, "w(%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",-1)\n", op->key, value,
			plain->sessions[number]);
}

static void
say_scan(struct plain *plain, size_t number)
{
	const struct sim_history *history = plain->facts.history;
	const struct sim_scan *scan = &history->scans[history->ops[number].scan];

	for (size_t i = 0; i < scan->count; i++) {
		const struct sim_entry *entry = &history->entries[scan->first + i];

		say(plain, 'r', entry->key, entry->payload, number);
	}
}

static void
say_op(struct plain *plain, size_t number)
{
	const struct sim_op *op = &plain->facts.history->ops[number];
	enum sim_outcome outcome = sim_op_outcome(op);

	if (op->client == SIM_LOADER || outcome == SIM_NOTHING)
		return;
	if (op->kind == SIM_SCAN)
		say_scan(plain, number);
	else if (op->kind == SIM_LOOKUP && outcome == SIM_DONE)
		say(plain, 'r', op->key, op->payload, number);
	else if (op->kind != SIM_LOOKUP && (outcome == SIM_DONE || outcome == SIM_UNKNOWN))
		say_change(plain, number);
	else if (outcome == SIM_NOTFOUND && plain->absent[number] != 0)
		say(plain, 'r', op->key, plain->absent[number], number);
	else if (outcome != SIM_UNKNOWN)
		plain->unsaid++;
}

/* Transaction 0: the first value of every key. */
static void
say_loader(const struct plain *plain)
{
	const struct sim_facts *facts = &plain->facts;
	const struct sim_history *history = facts->history;

	for (size_t unit = 0; unit < facts->units_count; unit++) {
		uint64_t value = ABSENT + history->ops_count + unit;

		if (facts->first[unit] < facts->first[unit + 1]) {
			const struct sim_op *op =
				&history->ops[facts->facts[facts->first[unit]].op];

			value = op->client == SIM_LOADER ? op->payload : value;
		}
		fprintf(plain->file, "w(%" PRIu64 ",%" PRIu64 ",0,0)\n", facts->units[unit].key,
			value);
	}
}

size_t
sim_history_write_plain(const struct sim_history *history, FILE *file)
{
	struct plain plain = { .file = file };
	struct changed *changes;

	sim_facts_init(&plain.facts, history, true, true);
	plain.seen = sim_alloc(history->ops_count, sizeof(*plain.seen));
	plain.absent = sim_alloc(history->ops_count, sizeof(*plain.absent));
	plain.sessions = sim_alloc(history->ops_count, sizeof(*plain.sessions));
	changes = sim_alloc(plain.facts.count, sizeof(*changes));
	number_sessions(&plain);
	for (size_t unit = 0; unit < plain.facts.units_count; unit++)
		look_at_unit(&plain, unit, changes);
	say_loader(&plain);
	for (size_t i = 0; i < history->ops_count; i++)
		say_op(&plain, i);
	free(changes);
	free(plain.sessions);
	free(plain.absent);
	free(plain.seen);
	sim_facts_free(&plain.facts);
	return plain.unsaid;
}
