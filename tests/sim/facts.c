/* SPDX-License-Identifier: Apache-2.0 */
#include "facts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash/hash.h"

void *
sim_alloc(size_t count, size_t bytes)
{
	void *memory = calloc(count ? count : 1, bytes);

	if (!memory) {
		fputs("checkers: out of memory\n", stderr);
		abort();
	}
	return memory;
}

void *
sim_grow(void *array, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return array;
	*room = *room ? 2 * *room : 1024;
	array = realloc(array, *room * bytes);
	if (!array) {
		fputs("checkers: out of memory\n", stderr);
		abort();
	}
	return array;
}

/* ---- units ----------------------------------------------------------------------------------- */

static struct sim_entry
unit_of(bool unique, uint64_t key, uint64_t payload)
{
	return (struct sim_entry){ key, unique ? 0 : payload };
}

static int
compare_entries(const void *a, const void *b)
{
	return sim_entry_compare(*(const struct sim_entry *)a, *(const struct sim_entry *)b);
}

/* A set of units by hashing, so that only distinct ones are sorted. */
struct unit_set {
	struct sim_entry *units;
	size_t count;
	size_t *table;		/* 0: free; else the unit's number + 1 */
	size_t mask;
};

static void
unit_set_add(struct unit_set *set, struct sim_entry unit)
{
	size_t i = (size_t)nam_mix64(unit.key ^ nam_mix64(unit.payload)) & set->mask;

	while (set->table[i] != 0) {
		if (sim_entry_compare(set->units[set->table[i] - 1], unit) == 0)
			return;
		i = (i + 1) & set->mask;
	}
	set->units[set->count++] = unit;
	set->table[i] = set->count;
}

static bool
names_unit(const struct sim_facts *facts, const struct sim_op *op)
{
	if (op->kind == SIM_SCAN)
		return false;
	/* In a non-unique index, of a lookup that found nothing only the key is known. */
	return facts->unique || op->kind != SIM_LOOKUP || sim_op_outcome(op) == SIM_DONE;
}

static void
collect_units(struct sim_facts *facts)
{
	const struct sim_history *history = facts->history;
	size_t most = history->ops_count + history->entries_count;
	struct unit_set set = { .mask = 15 };

	while (set.mask < 2 * most)
		set.mask = 2 * set.mask + 1;
	set.units = sim_alloc(most, sizeof(*set.units));
	set.table = sim_alloc(set.mask + 1, sizeof(*set.table));
	for (size_t i = 0; i < history->ops_count; i++) {
		const struct sim_op *op = &history->ops[i];

		if (names_unit(facts, op))
			unit_set_add(&set, unit_of(facts->unique, op->key, op->payload));
	}
	for (size_t i = 0; i < history->entries_count; i++)
		unit_set_add(&set, unit_of(facts->unique, history->entries[i].key,
			history->entries[i].payload));
	qsort(set.units, set.count, sizeof(*set.units), compare_entries);
	free(set.table);
	facts->units = set.units;
	facts->units_count = set.count;
}

size_t
sim_facts_lower(const struct sim_facts *facts, struct sim_entry unit)
{
	size_t low = 0, high = facts->units_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sim_entry_compare(facts->units[middle], unit) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ---- facts of one operation ------------------------------------------------------------------ */

/* Where facts go: counted first, then put in their places. */
struct sink {
	struct sim_facts *facts;
	size_t *counts;		/* by unit; NULL in the second pass */
	size_t *next;		/* by unit; NULL in the first */
};

static void
emit(struct sink *sink, size_t unit, size_t number, enum sim_what what, uint64_t value)
{
	const struct sim_op *op = &sink->facts->history->ops[number];

	if (sink->counts) {
		sink->counts[unit]++;
		return;
	}
	sink->facts->facts[sink->next[unit]++] = (struct sim_fact){
		.call = op->call_order,
		.end = sim_what_changes(what) ? sim_op_end(op) : op->return_order,
		.value = value,
		.op = (uint32_t)number,
		.what = what,
	};
}

/* The fact that a point operation's result states about its unit. */
static bool
point_what(const struct sim_op *op, bool unique, enum sim_what *ret_what)
{
	static const enum sim_what changes[] = {
		[SIM_INSERT] = SIM_ADD,
		[SIM_UPSERT] = SIM_PUT,
		[SIM_UPDATE] = SIM_REPLACE,
		[SIM_DELETE] = SIM_REMOVE,
		[SIM_DELETE_PAIR] = SIM_REMOVE_VALUE,
		[SIM_LOOKUP] = SIM_SEE_VALUE,
	};
	enum sim_outcome outcome = sim_op_outcome(op);

	switch (outcome) {
	case SIM_DONE:
		*ret_what = changes[op->kind];
		return true;
	case SIM_UNKNOWN:
		*ret_what = changes[op->kind];
		return op->kind != SIM_LOOKUP;
	case SIM_EXISTS:
		*ret_what = SIM_SEE_PRESENT;
		return true;
	case SIM_NOTFOUND:
		*ret_what = op->kind == SIM_DELETE_PAIR && unique ? SIM_SEE_OTHER : SIM_SEE_ABSENT;
		return true;
	default:
		return false;
	}
}

/* A non-unique lookup says which of the key's pairs is the first: those before it are absent. */
static void
emit_lookup_pairs(struct sink *sink, size_t number)
{
	const struct sim_facts *facts = sink->facts;
	const struct sim_op *op = &facts->history->ops[number];
	enum sim_outcome outcome = sim_op_outcome(op);
	size_t unit = sim_facts_lower(facts, (struct sim_entry){ op->key, 0 });

	if (outcome != SIM_DONE && outcome != SIM_NOTFOUND)
		return;
	for (; unit < facts->units_count && facts->units[unit].key == op->key; unit++) {
		uint64_t payload = facts->units[unit].payload;

		if (outcome == SIM_DONE && payload == op->payload) {
			emit(sink, unit, number, SIM_SEE_PRESENT, payload);
			return;
		}
		emit(sink, unit, number, SIM_SEE_ABSENT, payload);
	}
}

static void
emit_point(struct sink *sink, size_t number)
{
	const struct sim_facts *facts = sink->facts;
	const struct sim_op *op = &facts->history->ops[number];
	enum sim_what what;

	if (op->kind == SIM_LOOKUP && !facts->unique)
		emit_lookup_pairs(sink, number);
	else if (point_what(op, facts->unique, &what))
		emit(sink, sim_facts_lower(facts, unit_of(facts->unique, op->key, op->payload)),
			number, what, op->payload);
}

/* ---- facts of scans -------------------------------------------------------------------------- */

struct sim_cover
sim_scan_cover(const struct sim_history *history, const struct sim_op *op, bool unique)
{
	const struct sim_scan *scan = &history->scans[op->scan];
	const struct sim_range *range = &scan->range;
	struct sim_cover cover = { .last = { UINT64_MAX, UINT64_MAX } };
	bool stopped = op->rc != 0 || (range->limit != 0 && scan->count >= range->limit);

	if (range->has_low)
		cover.first.key = range->low;
	if (range->has_high) {
		cover.empty = range->high == 0 && !range->high_inclusive;
		cover.last.key = range->high - !range->high_inclusive;
	}
	if (op->return_order == SIM_NEVER || (stopped && scan->count == 0))
		cover.empty = true;
	else if (stopped) {
		struct sim_entry end = history->entries[scan->first + scan->count - 1];

		if (range->reverse && end.key >= cover.first.key)
			cover.first = unit_of(unique, end.key, end.payload);
		if (!range->reverse && end.key <= cover.last.key)
			cover.last = (struct sim_entry){ end.key, unique ? UINT64_MAX :
				end.payload };
	}
	if (sim_entry_compare(cover.first, cover.last) > 0)
		cover.empty = true;
	return cover;
}

static void
emit_delivered(struct sink *sink, size_t number, size_t unit, uint64_t payload)
{
	enum sim_what what = sink->facts->unique ? SIM_SEE_VALUE : SIM_SEE_PRESENT;

	emit(sink, unit, number, what, payload);
}

/* Entries are sorted here, so that a misordered scan is still taken at its word. */
static void
emit_scan(struct sink *sink, size_t number)
{
	const struct sim_facts *facts = sink->facts;
	const struct sim_history *history = facts->history;
	const struct sim_op *op = &history->ops[number];
	const struct sim_scan *scan = &history->scans[op->scan];
	struct sim_cover cover = sim_scan_cover(history, op, facts->unique);
	struct sim_entry *sorted;
	size_t entry = 0, unit;

	if (op->return_order == SIM_NEVER || cover.empty)
		return;
	sorted = sim_alloc(scan->count, sizeof(*sorted));
	if (scan->count > 0)
		memcpy(sorted, history->entries + scan->first, scan->count * sizeof(*sorted));
	qsort(sorted, scan->count, sizeof(*sorted), compare_entries);
	for (unit = sim_facts_lower(facts, cover.first); unit < facts->units_count &&
			sim_entry_compare(facts->units[unit], cover.last) <= 0; unit++) {
		bool delivered = false;

		while (entry < scan->count && sim_entry_compare(unit_of(facts->unique,
				sorted[entry].key, sorted[entry].payload), facts->units[unit]) < 0)
			entry++;
		for (; entry < scan->count && sim_entry_compare(unit_of(facts->unique,
				sorted[entry].key, sorted[entry].payload), facts->units[unit]) == 0;
				entry++) {
			emit_delivered(sink, number, unit, sorted[entry].payload);
			delivered = true;
		}
		if (!delivered)
			emit(sink, unit, number, SIM_SEE_ABSENT, 0);
	}
	free(sorted);
}

static void
emit_all(struct sink *sink, bool scans)
{
	const struct sim_history *history = sink->facts->history;

	for (size_t i = 0; i < history->ops_count; i++) {
		if (history->ops[i].kind != SIM_SCAN)
			emit_point(sink, i);
		else if (scans)
			emit_scan(sink, i);
	}
}

void
sim_facts_init(struct sim_facts *facts, const struct sim_history *history, bool unique,
	bool scans)
{
	struct sink sink = { .facts = facts };

	assert(history->ops_count < UINT32_MAX);
	*facts = (struct sim_facts){ .history = history, .unique = unique };
	collect_units(facts);
	facts->first = sim_alloc(facts->units_count + 1, sizeof(*facts->first));
	sink.counts = facts->first + 1;
	emit_all(&sink, scans);
	for (size_t i = 0; i < facts->units_count; i++)
		facts->first[i + 1] += facts->first[i];
	facts->count = facts->first[facts->units_count];
	facts->facts = sim_alloc(facts->count, sizeof(*facts->facts));
	sink.counts = NULL;
	sink.next = sim_alloc(facts->units_count, sizeof(*sink.next));
	memcpy(sink.next, facts->first, facts->units_count * sizeof(*sink.next));
	emit_all(&sink, scans);
	free(sink.next);
}

void
sim_facts_free(struct sim_facts *facts)
{
	free(facts->units);
	free(facts->first);
	free(facts->facts);
	memset(facts, 0, sizeof(*facts));
}
