/* SPDX-License-Identifier: Apache-2.0 */
#include "linearizable.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "tests/sim/facts.h"

#define SLOTS 128u		/* operations under way on one key at a time */
#define WORDS (SLOTS / 64)
#define NO_STATE UINT32_MAX
#define TOLD_OPS 24u		/* lines of a violation */

struct bits {
	uint64_t words[WORDS];
};

/* One state that the key may be in. */
struct state {
	uint64_t value;		/* 0 if absent */
	bool present;
	struct bits done;	/* of those that will return, which took effect */
	struct bits used;	/* of those that may never have happened, which did */
	uint32_t next;		/* in the same bucket */
};

/* States without duplicates, and without one that another is better than. */
struct states {
	struct state *states;
	uint32_t count;
	uint32_t room;
	uint32_t *buckets;
	uint32_t mask;
};

/* The facts of one key that are under way, by slot. */
struct slots {
	const struct sim_fact *facts[SLOTS];
	struct bits taken;
	uint32_t end;		/* no slot at or above it is taken */
};

struct search {
	const struct sim_facts *facts;
	size_t unit;
	size_t states_max;
	struct slots sure;
	struct slots maybe;
	struct states now;
	struct states next;
	struct states seen;
	const struct sim_fact **ends;	/* facts in the order of their ends */
	size_t ends_room;
	const struct sim_fact *quiet;	/* the first called since nothing was under way */
};

enum verdict {
	EXPLAINED,
	UNEXPLAINED,
	UNDECIDED,
};

/* ---- bits ------------------------------------------------------------------------------------ */

static bool
bits_have(const struct bits *bits, uint32_t bit)
{
	return bits->words[bit / 64] >> bit % 64 & 1;
}

static void
bits_set(struct bits *bits, uint32_t bit)
{
	bits->words[bit / 64] |= 1ull << bit % 64;
}

static void
bits_clear(struct bits *bits, uint32_t bit)
{
	bits->words[bit / 64] &= ~(1ull << bit % 64);
}

static bool
bits_subset(const struct bits *a, const struct bits *b)
{
	for (uint32_t i = 0; i < WORDS; i++)
		if (a->words[i] & ~b->words[i])
			return false;
	return true;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* SLOTS if all are taken. */
static uint32_t
slots_take(struct slots *slots, const struct sim_fact *fact)
{
	uint32_t slot = 0;

	while (slot < SLOTS && bits_have(&slots->taken, slot))
		slot++;
	if (slot < SLOTS) {
		bits_set(&slots->taken, slot);
		slots->facts[slot] = fact;
		if (slot >= slots->end)
			slots->end = slot + 1;
	}
	return slot;
}

static void
slots_free(struct slots *slots, uint32_t slot)
{
	bits_clear(&slots->taken, slot);
	while (slots->end > 0 && !bits_have(&slots->taken, slots->end - 1))
		slots->end--;
}

static uint32_t
slots_find(const struct slots *slots, const struct sim_fact *fact)
{
	uint32_t slot = 0;

	while (!bits_have(&slots->taken, slot) || slots->facts[slot] != fact)
		slot++;
	return slot;
}

/* ---- sets of states -------------------------------------------------------------------------- */

static void
states_rehash(struct states *set)
{
	free(set->buckets);
	set->mask = 2 * set->room - 1;
	set->buckets = sim_alloc(2 * set->room, sizeof(*set->buckets));
	memset(set->buckets, 0xff, 2 * set->room * sizeof(*set->buckets));
}

static uint32_t
state_bucket(const struct states *set, const struct state *state)
{
	uint64_t hash = nam_mix64(state->value + state->present);

	for (uint32_t i = 0; i < WORDS; i++)
		hash = nam_mix64(hash ^ state->done.words[i]);
	return (uint32_t)hash & set->mask;
}

static void
states_grow(struct states *set)
{
	set->room = set->room ? 2 * set->room : 16;
	set->states = realloc(set->states, set->room * sizeof(*set->states));
	if (!set->states)
		abort();
	states_rehash(set);
	for (uint32_t i = 0; i < set->count; i++) {
		uint32_t bucket = state_bucket(set, &set->states[i]);

		set->states[i].next = set->buckets[bucket];
		set->buckets[bucket] = i;
	}
}

static void
states_clear(struct states *set)
{
	for (uint32_t i = 0; i < set->count; i++)
		set->buckets[state_bucket(set, &set->states[i])] = NO_STATE;
	set->count = 0;
}

static void
states_free(struct states *set)
{
	free(set->states);
	free(set->buckets);
}

/* Whether it is new and no better one was there. */
static bool
states_add(struct states *set, const struct state *state)
{
	uint32_t bucket;

	if (set->count == set->room)
		states_grow(set);
	bucket = state_bucket(set, state);
	for (uint32_t i = set->buckets[bucket]; i != NO_STATE; i = set->states[i].next) {
		const struct state *other = &set->states[i];

		if (other->value == state->value && other->present == state->present &&
				memcmp(&other->done, &state->done, sizeof(state->done)) == 0 &&
				bits_subset(&other->used, &state->used))
			return false;
	}
	set->states[set->count] = *state;
	set->states[set->count].next = set->buckets[bucket];
	set->buckets[bucket] = set->count++;
	return true;
}

/* ---- what a key does ------------------------------------------------------------------------- */

/* Whether a fact may happen in this state. */
static bool
may_happen(const struct state *state, const struct sim_fact *fact)
{
	bool equal = state->present && state->value == fact->value;

	switch (fact->what) {
	case SIM_ADD:
	case SIM_SEE_ABSENT:
		return !state->present;
	case SIM_PUT:
		return true;
	case SIM_REPLACE:
	case SIM_REMOVE:
	case SIM_SEE_PRESENT:
		return state->present;
	case SIM_REMOVE_VALUE:
	case SIM_SEE_VALUE:
		return equal;
	case SIM_SEE_OTHER:
		return !equal;
	}
	return false;
}

static void
change(struct state *state, const struct sim_fact *fact)
{
	state->present = fact->what == SIM_ADD || fact->what == SIM_PUT ||
		fact->what == SIM_REPLACE;
	state->value = state->present ? fact->value : 0;
}

/* All observations under way that this state explains are done with. */
static void
observe(const struct search *search, struct state *state)
{
	for (uint32_t slot = 0; slot < search->sure.end; slot++) {
		const struct sim_fact *fact = search->sure.facts[slot];

		if (bits_have(&search->sure.taken, slot) && !sim_what_changes(fact->what) &&
				!bits_have(&state->done, slot) && may_happen(state, fact))
			bits_set(&state->done, slot);
	}
}

/* ---- the search ------------------------------------------------------------------------------ */

/* A state in which wanted took effect goes on to the next return; others are looked at further. */
static void
reach(struct search *search, struct state *state, uint32_t wanted)
{
	observe(search, state);
	if (bits_have(&state->done, wanted)) {
		bits_clear(&state->done, wanted);
		states_add(&search->next, state);
	} else {
		states_add(&search->seen, state);
	}
}

/* Every change under way that may come next in this state. */
static void
step(struct search *search, const struct state *from, uint32_t wanted)
{
	struct state before = *from;	/* the array moves */

	for (uint32_t slot = 0; slot < search->sure.end; slot++) {
		const struct sim_fact *fact = search->sure.facts[slot];
		struct state after = before;

		if (!bits_have(&search->sure.taken, slot) || bits_have(&before.done, slot) ||
				!sim_what_changes(fact->what) || !may_happen(&before, fact))
			continue;
		change(&after, fact);
		bits_set(&after.done, slot);
		reach(search, &after, wanted);
	}
	for (uint32_t slot = 0; slot < search->maybe.end; slot++) {
		const struct sim_fact *fact = search->maybe.facts[slot];
		struct state after = before;

		if (bits_have(&before.used, slot) || !may_happen(&before, fact))
			continue;
		change(&after, fact);
		bits_set(&after.used, slot);
		reach(search, &after, wanted);
	}
}

static void
states_swap(struct states *a, struct states *b)
{
	struct states other = *a;

	*a = *b;
	*b = other;
}

/* False if too many are under way. */
static bool
begin(struct search *search, const struct sim_fact *fact)
{
	bool sure = fact->end != SIM_NEVER;

	if (search->sure.end == 0)
		search->quiet = fact;
	if (slots_take(sure ? &search->sure : &search->maybe, fact) == SLOTS)
		return false;
	if (sim_what_changes(fact->what))
		return true;
	states_clear(&search->next);
	for (uint32_t i = 0; i < search->now.count; i++) {
		struct state state = search->now.states[i];

		observe(search, &state);
		states_add(&search->next, &state);
	}
	states_swap(&search->now, &search->next);
	return true;
}

/* What returned took effect before now. */
static enum verdict
finish(struct search *search, const struct sim_fact *fact)
{
	uint32_t slot = slots_find(&search->sure, fact);

	states_clear(&search->next);
	states_clear(&search->seen);
	for (uint32_t i = 0; i < search->now.count; i++) {
		struct state state = search->now.states[i];

		reach(search, &state, slot);
	}
	for (uint32_t i = 0; i < search->seen.count; i++) {
		if (search->seen.count + search->next.count > search->states_max)
			return UNDECIDED;
		step(search, &search->seen.states[i], slot);
	}
	slots_free(&search->sure, slot);
	states_swap(&search->now, &search->next);
	return search->now.count == 0 ? UNEXPLAINED : EXPLAINED;
}

static int
compare_ends(const void *a, const void *b)
{
	const struct sim_fact *x = *(const struct sim_fact *const *)a;
	const struct sim_fact *y = *(const struct sim_fact *const *)b;

	return x->end < y->end ? -1 : x->end > y->end;
}

static size_t
sort_ends(struct search *search, const struct sim_fact *facts, size_t count)
{
	size_t ends = 0;
	bool sorted = true;

	if (count > search->ends_room) {
		free(search->ends);
		search->ends_room = 2 * count;
		search->ends = sim_alloc(search->ends_room, sizeof(search->ends[0]));
	}
	for (size_t i = 0; i < count; i++) {
		if (facts[i].end == SIM_NEVER)
			continue;
		sorted = sorted && (ends == 0 || search->ends[ends - 1]->end < facts[i].end);
		search->ends[ends++] = &facts[i];
	}
	if (!sorted)
		qsort(search->ends, ends, sizeof(search->ends[0]), compare_ends);
	return ends;
}

/* *ret_fact: what could not be explained, or where the search was given up. */
static enum verdict
search_unit(struct search *search, size_t unit, const struct sim_fact **ret_fact)
{
	const struct sim_fact *facts = search->facts->facts + search->facts->first[unit];
	size_t count = search->facts->first[unit + 1] - search->facts->first[unit];
	size_t ends = sort_ends(search, facts, count), called = 0;
	struct state absent = { .present = false };

	search->unit = unit;
	search->sure.taken = search->maybe.taken = (struct bits){ { 0 } };
	search->sure.end = search->maybe.end = 0;
	states_clear(&search->now);
	states_add(&search->now, &absent);
	for (size_t ended = 0; ended < ends; ended++) {
		enum verdict verdict;

		for (; called < count && facts[called].call < search->ends[ended]->end; called++) {
			*ret_fact = &facts[called];
			if (!begin(search, &facts[called]))
				return UNDECIDED;
		}
		*ret_fact = search->ends[ended];
		verdict = finish(search, search->ends[ended]);
		if (verdict != EXPLAINED)
			return verdict;
	}
	return EXPLAINED;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void
tell_unit(const struct search *search, FILE *file)
{
	const struct sim_entry *unit = &search->facts->units[search->unit];

	if (search->facts->unique)
		fprintf(file, "key %" PRIu64, unit->key);
	else
		fprintf(file, "pair (%" PRIu64 ", %" PRIu64 ")", unit->key, unit->payload);
}

/* After a failed finish() the states before it are in search->next. */
static void
tell_states(const struct search *search, FILE *file)
{
	const struct states *before = &search->next;

	fputs("  it could be", file);
	for (uint32_t i = 0; i < before->count && i < 8; i++) {
		const struct state *state = &before->states[i];

		fputs(i ? ", or " : " ", file);
		if (state->present)
			fprintf(file, "%" PRIu64, state->value);
		else
			fputs("absent", file);
	}
	fputs(before->count > 8 ? ", or ...\n" : "\n", file);
}

/* Where a value that was seen came from. */
static void
tell_writers(const struct search *search, const struct sim_fact *bad, FILE *file)
{
	const struct sim_facts *facts = search->facts;
	char text[SIM_OP_TEXT_BYTES];
	bool written = false;

	if (bad->what != SIM_SEE_VALUE && bad->what != SIM_REMOVE_VALUE)
		return;
	for (size_t i = facts->first[search->unit]; i < facts->first[search->unit + 1]; i++) {
		const struct sim_fact *fact = &facts->facts[i];

		if (fact->value != bad->value || (fact->what != SIM_ADD && fact->what != SIM_PUT &&
				fact->what != SIM_REPLACE))
			continue;
		fprintf(file, "  %" PRIu64 " was written by %s\n", bad->value,
			sim_op_text(facts->history, fact->op, text));
		written = true;
	}
	if (!written)
		fprintf(file, "  nothing ever wrote %" PRIu64 " there\n", bad->value);
}

/* What was called since nothing was under way, and the last change before that. */
static void
tell_window(const struct search *search, const struct sim_fact *bad, FILE *file)
{
	const struct sim_facts *facts = search->facts;
	const struct sim_fact *first = facts->facts + facts->first[search->unit];
	const struct sim_fact *end = facts->facts + facts->first[search->unit + 1];
	const struct sim_fact *from = search->quiet, *last = from;
	char text[SIM_OP_TEXT_BYTES];

	while (last < end && last->call < bad->end)
		last++;
	if (last - from > TOLD_OPS)
		from = last - TOLD_OPS;
	while (from > first && last - from < TOLD_OPS && !(sim_what_changes((--from)->what) &&
			from->end != SIM_NEVER))
		;
	for (; from < last; from++)
		fprintf(file, "  %c %s\n", from->op == bad->op ? '>' : ' ',
			sim_op_text(facts->history, from->op, text));
}

static void
tell(const struct search *search, const struct sim_fact *bad, FILE *file)
{
	char text[SIM_OP_TEXT_BYTES];

	if (!file)
		return;
	tell_unit(search, file);
	fprintf(file, ": no order of operations explains %s\n",
		sim_op_text(search->facts->history, bad->op, text));
	tell_states(search, file);
	tell_writers(search, bad, file);
	tell_window(search, bad, file);
}

static void
tell_undecided(const struct search *search, const struct sim_fact *fact, FILE *file)
{
	char text[SIM_OP_TEXT_BYTES];

	if (!file)
		return;
	tell_unit(search, file);
	fprintf(file, ": undecided, too much was under way at %s\n",
		sim_op_text(search->facts->history, fact->op, text));
}

void
sim_linearizable_options_init(struct sim_linearizable_options *options)
{
	*options = (struct sim_linearizable_options){
		.unique = true,
		.scans = true,
		.states_max = 65536,
	};
}

void
sim_check_linearizable(const struct sim_history *history,
	const struct sim_linearizable_options *options, struct sim_findings *findings)
{
	struct sim_facts facts;
	struct search search = { .facts = &facts, .states_max = options->states_max };

	sim_facts_init(&facts, history, options->unique, options->scans);
	for (size_t unit = 0; unit < facts.units_count; unit++) {
		const struct sim_fact *fact = NULL;

		switch (search_unit(&search, unit, &fact)) {
		case EXPLAINED:
			break;
		case UNEXPLAINED:
			tell(&search, fact, sim_findings_violation(findings));
			break;
		case UNDECIDED:
			tell_undecided(&search, fact, sim_findings_undecided(findings));
			break;
		}
	}
	states_free(&search.now);
	states_free(&search.next);
	states_free(&search.seen);
	free(search.ends);
	sim_facts_free(&facts);
}
