/* SPDX-License-Identifier: Apache-2.0 */
#include "linearizable.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "states.h"

#define TOLD_OPS 24u		/* lines of a violation */

/* The facts of one key that are under way, by slot. */
struct slots {
	const struct sim_fact *facts[SIM_SLOTS];
	struct sim_bits taken;
	uint32_t end;		/* no slot at or above it is taken */
};

struct search {
	const struct sim_facts *facts;
	size_t unit;
	size_t states_max;
	struct slots sure;
	struct slots maybe;
	struct sim_states now;
	struct sim_states next;
	struct sim_states seen;
	const struct sim_fact **ends;	/* facts in the order of their ends */
	struct sight *sights;		/* ascending by value */
	size_t sights_count;
	uint64_t *seen_until;		/* by fact of the unit, of the value that it leaves */
	size_t room;			/* of these three */
	const struct sim_fact *base;	/* the unit's first fact */
	uint64_t moment;		/* the end that is being explained */
	const struct sim_fact *quiet;	/* the first called since nothing was under way */
};

/* The last time at which a reader looks for a value. */
struct sight {
	uint64_t value;
	uint64_t until;
};

enum verdict {
	EXPLAINED,
	UNEXPLAINED,
	UNDECIDED,
};

/* ---- slots ----------------------------------------------------------------------------------- */

/* SIM_SLOTS if all are taken. */
static uint32_t
slots_take(struct slots *slots, const struct sim_fact *fact)
{
	uint32_t slot = 0;

	while (slot < SIM_SLOTS && sim_bits_have(&slots->taken, slot))
		slot++;
	if (slot < SIM_SLOTS) {
		sim_bits_set(&slots->taken, slot);
		slots->facts[slot] = fact;
		if (slot >= slots->end)
			slots->end = slot + 1;
	}
	return slot;
}

static void
slots_free(struct slots *slots, uint32_t slot)
{
	sim_bits_clear(&slots->taken, slot);
	while (slots->end > 0 && !sim_bits_have(&slots->taken, slots->end - 1))
		slots->end--;
}

static uint32_t
slots_find(const struct slots *slots, const struct sim_fact *fact)
{
	uint32_t slot = 0;

	while (!sim_bits_have(&slots->taken, slot) || slots->facts[slot] != fact)
		slot++;
	return slot;
}

/* ---- what a key does ------------------------------------------------------------------------- */

/* Whether a fact may happen in this state. */
static bool
may_happen(const struct sim_state *state, const struct sim_fact *fact)
{
	bool equal = state->present && state->value == fact->value;

	switch (fact->what) {
	case SIM_ADD:
	case SIM_SEE_ABSENT:
		return !state->present;
	case SIM_PUT:
	case SIM_GO:
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
change(const struct search *search, struct sim_state *state, const struct sim_fact *fact)
{
	state->present = fact->what == SIM_ADD || fact->what == SIM_PUT ||
		fact->what == SIM_REPLACE;
	state->value = state->present ? fact->value : 0;
	state->seen_until = search->seen_until[fact - search->base];
}

/* All observations under way that this state explains are done with. */
static void
observe(const struct search *search, struct sim_state *state)
{
	for (uint32_t slot = 0; slot < search->sure.end; slot++) {
		const struct sim_fact *fact = search->sure.facts[slot];

		if (sim_bits_have(&search->sure.taken, slot) && !sim_what_changes(fact->what) &&
				!sim_bits_have(&state->done, slot) && may_happen(state, fact))
			sim_bits_set(&state->done, slot);
	}
}

/* ---- the search ------------------------------------------------------------------------------ */

/* A state in which wanted took effect goes on to the next return; others are looked at further. */
static void
reach(struct search *search, struct sim_state *state, uint32_t wanted)
{
	state->dull = state->present && state->seen_until < search->moment;
	observe(search, state);
	if (sim_bits_have(&state->done, wanted)) {
		sim_bits_clear(&state->done, wanted);
		sim_states_add(&search->next, state);
	} else {
		sim_states_add(&search->seen, state);
	}
}

/*
 * Some changes may never have happened, and so never must.  One is as good as another if they are
 * of one kind and no reader looks for their values any more.
 */
static bool
is_like_others(const struct search *search, const struct sim_fact *fact)
{
	return fact->what == SIM_REMOVE || (fact->what != SIM_REMOVE_VALUE &&
		search->seen_until[fact - search->base] < search->moment);
}

/* Whether one like it was tried before. */
static bool
was_tried(const struct search *search, const struct sim_fact *fact, uint32_t *tried)
{
	bool was = is_like_others(search, fact) && *tried >> fact->what & 1;

	if (is_like_others(search, fact))
		*tried |= 1u << fact->what;
	return was;
}

/* Every change under way that may come next in this state. */
static void
step(struct search *search, const struct sim_state *from, uint32_t wanted)
{
	struct sim_state before = *from;	/* the array moves */
	uint32_t tried = 0;

	for (uint32_t slot = 0; slot < search->sure.end; slot++) {
		const struct sim_fact *fact = search->sure.facts[slot];
		struct sim_state after = before;

		if (!sim_bits_have(&search->sure.taken, slot) ||
				sim_bits_have(&before.done, slot) ||
				!sim_what_changes(fact->what) || !may_happen(&before, fact))
			continue;
		change(search, &after, fact);
		sim_bits_set(&after.done, slot);
		reach(search, &after, wanted);
	}
	for (uint32_t slot = 0; slot < search->maybe.end; slot++) {
		const struct sim_fact *fact = search->maybe.facts[slot];
		struct sim_state after = before;

		if (sim_bits_have(&before.used, slot) || !may_happen(&before, fact) ||
				was_tried(search, fact, &tried))
			continue;
		change(search, &after, fact);
		sim_bits_set(&after.used, slot);
		reach(search, &after, wanted);
	}
}

/* False if too many are under way. */
static bool
begin(struct search *search, const struct sim_fact *fact)
{
	bool sure = fact->end != SIM_NEVER;

	if (search->sure.end == 0)
		search->quiet = fact;
	if (slots_take(sure ? &search->sure : &search->maybe, fact) == SIM_SLOTS)
		return false;
	if (sim_what_changes(fact->what))
		return true;
	sim_states_clear(&search->next);
	for (uint32_t i = 0; i < search->now.count; i++) {
		struct sim_state state = search->now.states[i];

		observe(search, &state);
		sim_states_add(&search->next, &state);
	}
	sim_states_swap(&search->now, &search->next);
	return true;
}

/* The search goes on with these; those that turned out worse are left behind. */
static void
go_on(struct search *search)
{
	if (search->next.worse > 0) {
		sim_states_clear(&search->seen);
		for (uint32_t i = 0; i < search->next.count; i++)
			if (!search->next.states[i].worse)
				sim_states_add(&search->seen, &search->next.states[i]);
		sim_states_swap(&search->next, &search->seen);
	}
	sim_states_swap(&search->now, &search->next);
}

/* Returned operations took effect before now. */
static enum verdict
finish(struct search *search, const struct sim_fact *fact)
{
	uint32_t slot = slots_find(&search->sure, fact);

	search->moment = fact->end;
	sim_states_clear(&search->next);
	sim_states_clear(&search->seen);
	for (uint32_t i = 0; i < search->now.count; i++) {
		struct sim_state state = search->now.states[i];

		reach(search, &state, slot);
	}
	for (uint32_t i = 0; i < search->seen.count; i++) {
		if (search->seen.count + search->next.count > search->states_max)
			return UNDECIDED;
		if (!search->seen.states[i].worse)
			step(search, &search->seen.states[i], slot);
	}
	slots_free(&search->sure, slot);
	go_on(search);
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

static int
compare_sights(const void *a, const void *b)
{
	const struct sight *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return x->until < y->until ? -1 : x->until > y->until;
}

/* 0: no reader ever looks for that value. */
static uint64_t
sight_until(const struct search *search, uint64_t value)
{
	size_t low = 0, high = search->sights_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (search->sights[middle].value <= value)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && search->sights[low - 1].value == value ?
		search->sights[low - 1].until : 0;
}

/* For each change, the last time at which a reader looks for its value. */
static void
look_ahead(struct search *search, const struct sim_fact *facts, size_t count)
{
	search->sights_count = 0;
	for (size_t i = 0; i < count; i++)
		if (facts[i].what == SIM_SEE_VALUE || facts[i].what == SIM_SEE_OTHER ||
				facts[i].what == SIM_REMOVE_VALUE)
			search->sights[search->sights_count++] =
				(struct sight){ facts[i].value, facts[i].end };
	qsort(search->sights, search->sights_count, sizeof(search->sights[0]), compare_sights);
	for (size_t i = 0; i < count; i++)
		search->seen_until[i] = sight_until(search, facts[i].value);
}

static void
make_room(struct search *search, size_t count)
{
	if (count < search->room)
		return;
	free(search->ends);
	free(search->sights);
	free(search->seen_until);
	search->room = 2 * count + 1;
	search->ends = sim_alloc(search->room, sizeof(search->ends[0]));
	search->sights = sim_alloc(search->room, sizeof(search->sights[0]));
	search->seen_until = sim_alloc(search->room, sizeof(search->seen_until[0]));
}

/* *ret_fact: what could not be explained, or where the search was given up. */
static enum verdict
search_unit(struct search *search, size_t unit, const struct sim_fact **ret_fact)
{
	const struct sim_fact *facts = search->facts->facts + search->facts->first[unit];
	size_t count = search->facts->first[unit + 1] - search->facts->first[unit];
	struct sim_state absent = { .present = false };
	size_t ends, called = 0;

	make_room(search, count);
	ends = sort_ends(search, facts, count);
	look_ahead(search, facts, count);
	search->unit = unit;
	search->base = facts;
	search->sure.taken = search->maybe.taken = (struct sim_bits){ { 0 } };
	search->sure.end = search->maybe.end = 0;
	sim_states_clear(&search->now);
	sim_states_add(&search->now, &absent);
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
print_unit(const struct search *search, FILE *file)
{
	const struct sim_entry *unit = &search->facts->units[search->unit];

	if (search->facts->unique)
		fprintf(file, "key %" PRIu64, unit->key);
	else
		fprintf(file, "pair (%" PRIu64 ", %" PRIu64 ")", unit->key, unit->payload);
}

/* After a failed finish() the states before it are in search->next. */
static void
print_states(const struct search *search, FILE *file)
{
	const struct sim_states *before = &search->next;

	fputs("  it could be", file);
	for (uint32_t i = 0; i < before->count && i < 8; i++) {
		const struct sim_state *state = &before->states[i];

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
print_writers(const struct search *search, const struct sim_fact *bad, FILE *file)
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

/* Calls since the last quiet moment, and the last change before it. */
static void
print_window(const struct search *search, const struct sim_fact *bad, FILE *file)
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
print(const struct search *search, const struct sim_fact *bad, FILE *file)
{
	char text[SIM_OP_TEXT_BYTES];

	if (!file)
		return;
	print_unit(search, file);
	fprintf(file, ": no order of operations explains %s\n",
		sim_op_text(search->facts->history, bad->op, text));
	print_states(search, file);
	print_writers(search, bad, file);
	print_window(search, bad, file);
}

static void
print_undecided(const struct search *search, const struct sim_fact *fact, FILE *file)
{
	char text[SIM_OP_TEXT_BYTES];

	if (!file)
		return;
	print_unit(search, file);
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
	for (size_t i = 0; options->evicts && i < facts.count; i++)
		if (facts.facts[i].what == SIM_SEE_ABSENT)
			facts.facts[i].what = SIM_GO;
	for (size_t unit = 0; unit < facts.units_count; unit++) {
		const struct sim_fact *fact = NULL;

		switch (search_unit(&search, unit, &fact)) {
		case EXPLAINED:
			break;
		case UNEXPLAINED:
			print(&search, fact, sim_findings_violation(findings));
			break;
		case UNDECIDED:
			print_undecided(&search, fact, sim_findings_undecided(findings));
			break;
		}
	}
	sim_states_free(&search.now);
	sim_states_free(&search.next);
	sim_states_free(&search.seen);
	free(search.ends);
	free(search.sights);
	free(search.seen_until);
	sim_facts_free(&facts);
}
