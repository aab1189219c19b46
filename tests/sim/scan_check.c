/* SPDX-License-Identifier: Apache-2.0 */
#include "scan_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"

/*
 * Facts of one unit as points (at, best), ascending in at, where best is the largest y of all
 * points so far.  Two kinds:
 *
 *	(return, call)	of what is certain: of all that returned before a moment, the latest call
 *	(call, end)	of what is possible: of all that were called before a moment, the latest end
 *
 * So each question about a scan is one binary search.
 */
struct point {
	uint64_t at;
	uint64_t best;
};

struct curve {
	struct point *points;
	size_t count;
};

struct writer {
	uint64_t payload;
	uint64_t call;
	uint64_t end;
};

/* All orders are counted from 1 here, so that 0 is before everything. */
struct unit_times {
	struct curve seen_present;	/* (return, call) */
	struct curve seen_absent;	/* (return, call) */
	struct curve changed;		/* (return, call) */
	struct curve may_add;		/* (call, end) */
	struct curve may_remove;	/* (call, end) */
	struct writer *writers;		/* ascending by payload */
	size_t writers_count;
};

struct check {
	struct sim_facts facts;
	struct unit_times *times;	/* by unit */
	struct point *points;		/* of all curves */
	struct writer *writers;
	struct sim_findings *findings;
};

/* The subject of the check: a scan, or the final contents. */
struct view {
	const struct sim_entry *entries;
	size_t count;
	struct sim_cover cover;
	uint64_t call;
	uint64_t end;
	bool reverse;
	uint64_t limit;
	size_t op;	/* SIZE_MAX: the final contents */
};

/* ---- curves ---------------------------------------------------------------------------------- */

static uint64_t
order(uint64_t moment)
{
	return moment == SIM_NEVER ? SIM_NEVER : moment + 1;
}

static int
compare_points(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static void
curve_add(struct curve *curve, uint64_t at, uint64_t y)
{
	curve->points[curve->count++] = (struct point){ at, y };
}

static void
curve_finish(struct curve *curve)
{
	qsort(curve->points, curve->count, sizeof(*curve->points), compare_points);
	for (size_t i = 1; i < curve->count; i++)
		if (curve->points[i].best < curve->points[i - 1].best)
			curve->points[i].best = curve->points[i - 1].best;
}

/* The largest y of all points before a moment; 0 if there is none. */
static uint64_t
curve_before(const struct curve *curve, uint64_t moment)
{
	size_t low = 0, high = curve->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (curve->points[middle].at < moment)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? curve->points[low - 1].best : 0;
}

/* ---- what is known of a unit ----------------------------------------------------------------- */

static bool
leaves_present(enum sim_what what)
{
	return what == SIM_ADD || what == SIM_PUT || what == SIM_REPLACE ||
		what == SIM_SEE_VALUE || what == SIM_SEE_PRESENT;
}

static bool
leaves_absent(enum sim_what what)
{
	return what == SIM_REMOVE || what == SIM_REMOVE_VALUE || what == SIM_SEE_ABSENT;
}

static int
compare_writers(const void *a, const void *b)
{
	const struct writer *x = a, *y = b;

	if (x->payload != y->payload)
		return x->payload < y->payload ? -1 : 1;
	return x->call < y->call ? -1 : x->call > y->call;
}

static void
times_add(struct unit_times *times, const struct sim_fact *fact)
{
	uint64_t call = order(fact->call), end = order(fact->end);
	bool present = leaves_present(fact->what), absent = leaves_absent(fact->what);

	if (end != SIM_NEVER && present)
		curve_add(&times->seen_present, end, call);
	if (end != SIM_NEVER && absent)
		curve_add(&times->seen_absent, end, call);
	if (!sim_what_changes(fact->what))
		return;
	if (end != SIM_NEVER)
		curve_add(&times->changed, end, call);
	if (present) {
		if (fact->what != SIM_REPLACE)
			curve_add(&times->may_add, call, end);
		times->writers[times->writers_count++] =
			(struct writer){ fact->value, call, end };
	} else {
		curve_add(&times->may_remove, call, end);
	}
}

/* A unit's curves lie one after another, each with room for all its facts. */
static void
times_init(struct check *check, size_t unit)
{
	struct unit_times *times = &check->times[unit];
	struct curve *curves[] = { &times->seen_present, &times->seen_absent, &times->changed,
		&times->may_add, &times->may_remove };
	size_t first = check->facts.first[unit], count = check->facts.first[unit + 1] - first;

	for (size_t i = 0; i < 5; i++)
		curves[i]->points = check->points + 5 * first + i * count;
	times->writers = check->writers + first;
	for (size_t i = 0; i < count; i++)
		times_add(times, &check->facts.facts[first + i]);
	for (size_t i = 0; i < 5; i++)
		curve_finish(curves[i]);
	qsort(times->writers, times->writers_count, sizeof(*times->writers), compare_writers);
}

static void
check_init(struct check *check, const struct sim_history *history, bool unique,
	struct sim_findings *findings)
{
	check->findings = findings;
	sim_facts_init(&check->facts, history, unique, false);
	check->times = sim_alloc(check->facts.units_count, sizeof(*check->times));
	check->points = sim_alloc(check->facts.count, 5 * sizeof(*check->points));
	check->writers = sim_alloc(check->facts.count, sizeof(*check->writers));
	for (size_t unit = 0; unit < check->facts.units_count; unit++)
		times_init(check, unit);
}

static void
check_free(struct check *check)
{
	sim_facts_free(&check->facts);
	free(check->times);
	free(check->points);
	free(check->writers);
}

/* Present from call to end: once seen so before, and nothing since then can have removed it. */
static bool
certainly_present(const struct unit_times *times, uint64_t call, uint64_t end)
{
	uint64_t seen = curve_before(&times->seen_present, call);

	return seen != 0 && curve_before(&times->may_remove, end) < seen;
}

/* Absent: as seen last, or as in the beginning, and nothing since then can have added it. */
static bool
certainly_absent(const struct unit_times *times, uint64_t call, uint64_t end)
{
	return curve_before(&times->may_add, end) <= curve_before(&times->seen_absent, call);
}

/* Whether the unit may have had this payload at some moment between call and end. */
static bool
possibly_had(const struct unit_times *times, uint64_t payload, uint64_t call, uint64_t end)
{
	uint64_t changed = curve_before(&times->changed, call);
	size_t low = 0, high = times->writers_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (times->writers[middle].payload < payload)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < times->writers_count && times->writers[low].payload == payload; low++)
		if (times->writers[low].call < end && times->writers[low].end >= changed)
			return true;
	return false;
}

/* ---- one scan -------------------------------------------------------------------------------- */

static void
print(const struct check *check, const struct view *view, struct sim_entry entry,
	const char *what)
{
	FILE *file = sim_findings_violation(check->findings);
	char text[SIM_OP_TEXT_BYTES];

	if (!file)
		return;
	if (view->op == SIZE_MAX)
		fputs("the final contents: ", file);
	else
		fprintf(file, "%s: ", sim_op_text(check->facts.history, view->op, text));
	fprintf(file, "(%" PRIu64 ", %" PRIu64 ") %s\n", entry.key, entry.payload, what);
}

/* The unit's last changes that were called before the scan returned, as the evidence. */
static void
print_changes(const struct check *check, const struct view *view, size_t unit)
{
	const struct sim_facts *facts = &check->facts;
	FILE *file = check->findings->file;
	size_t end = facts->first[unit + 1], first = facts->first[unit], told = 0;
	char text[SIM_OP_TEXT_BYTES];

	if (!file || check->findings->violations > check->findings->printed_max)
		return;
	for (size_t i = end; i > first && told < 12; i--) {
		const struct sim_fact *fact = &facts->facts[i - 1];

		if (!sim_what_changes(fact->what) || order(fact->call) >= view->end)
			continue;
		fprintf(file, "    %s\n", sim_op_text(facts->history, fact->op, text));
		told++;
	}
}

static struct sim_entry
unit_of_entry(const struct check *check, struct sim_entry entry)
{
	return (struct sim_entry){ entry.key, check->facts.unique ? 0 : entry.payload };
}

/* Order, range and limit: what can be said without knowing what was there. */
static void
check_shape(const struct check *check, const struct view *view)
{
	for (size_t i = 0; i < view->count; i++) {
		struct sim_entry unit = unit_of_entry(check, view->entries[i]);
		int after;

		if (view->cover.empty || sim_entry_compare(unit, view->cover.first) < 0 ||
				sim_entry_compare(unit, view->cover.last) > 0)
			print(check, view, view->entries[i], "lies outside the range");
		if (view->limit != 0 && i >= view->limit)
			print(check, view, view->entries[i], "is beyond the limit");
		if (i == 0)
			continue;
		after = sim_entry_compare(unit, unit_of_entry(check, view->entries[i - 1]));
		if (after == 0)
			print(check, view, view->entries[i], "comes twice");
		else if ((after < 0) != view->reverse)
			print(check, view, view->entries[i], "comes out of order");
	}
}

static void
check_delivered(const struct check *check, const struct view *view, struct sim_entry entry)
{
	struct sim_entry wanted = unit_of_entry(check, entry);
	const struct sim_facts *facts = &check->facts;
	size_t unit = sim_facts_lower(facts, wanted);
	const struct unit_times *times = &check->times[unit];

	if (unit == facts->units_count || sim_entry_compare(facts->units[unit], wanted) != 0 ||
			times->writers_count == 0) {
		print(check, view, entry, "was invented: nothing ever wrote this key");
	} else if (!possibly_had(times, entry.payload, view->call, view->end)) {
		print(check, view, entry, "was invented: that payload was not there at the time");
		print_changes(check, view, unit);
	} else if (certainly_absent(times, view->call, view->end)) {
		print(check, view, entry, "was invented: the key was absent at the time");
		print_changes(check, view, unit);
	}
}

static int
compare_entries(const void *a, const void *b)
{
	return sim_entry_compare(*(const struct sim_entry *)a, *(const struct sim_entry *)b);
}

static bool
delivered(const struct check *check, const struct sim_entry *sorted, size_t count, size_t *next,
	struct sim_entry unit)
{
	while (*next < count && sim_entry_compare(unit_of_entry(check, sorted[*next]), unit) < 0)
		++*next;
	return *next < count &&
		sim_entry_compare(unit_of_entry(check, sorted[*next]), unit) == 0;
}

static void
check_missing(const struct check *check, const struct view *view, const struct sim_entry *sorted)
{
	const struct sim_facts *facts = &check->facts;
	size_t next = 0;

	if (view->cover.empty)
		return;
	for (size_t unit = sim_facts_lower(facts, view->cover.first); unit < facts->units_count &&
			sim_entry_compare(facts->units[unit], view->cover.last) <= 0; unit++) {
		if (delivered(check, sorted, view->count, &next, facts->units[unit]) ||
				!certainly_present(&check->times[unit], view->call, view->end))
			continue;
		print(check, view, facts->units[unit], "is missing: it was there throughout");
		print_changes(check, view, unit);
	}
}

static void
check_view(const struct check *check, const struct view *view)
{
	struct sim_entry *sorted = sim_alloc(view->count, sizeof(*sorted));

	if (view->count > 0)
		memcpy(sorted, view->entries, view->count * sizeof(*sorted));
	qsort(sorted, view->count, sizeof(*sorted), compare_entries);
	check_shape(check, view);
	for (size_t i = 0; i < view->count; i++)
		check_delivered(check, view, view->entries[i]);
	check_missing(check, view, sorted);
	free(sorted);
}

void
sim_check_scans(const struct sim_history *history, bool unique, struct sim_findings *findings)
{
	struct check check;

	check_init(&check, history, unique, findings);
	for (size_t i = 0; i < history->ops_count; i++) {
		const struct sim_op *op = &history->ops[i];
		const struct sim_scan *scan;
		struct view view;

		if (op->kind != SIM_SCAN || op->return_order == SIM_NEVER)
			continue;
		scan = &history->scans[op->scan];
		view = (struct view){
			.entries = history->entries + scan->first,
			.count = scan->count,
			.cover = sim_scan_cover(history, op, unique),
			.call = order(op->call_order),
			.end = order(op->return_order),
			.reverse = scan->range.reverse,
			.limit = scan->range.limit,
			.op = i,
		};
		check_view(&check, &view);
	}
	check_free(&check);
}

void
sim_check_contents(const struct sim_history *history, bool unique,
	const struct sim_entry *entries, size_t count, struct sim_findings *findings)
{
	struct view view = {
		.entries = entries,
		.count = count,
		.cover.last = { UINT64_MAX, UINT64_MAX },
		.call = order(history->order),
		.end = order(history->order + 1),
		.op = SIZE_MAX,
	};
	struct check check;

	check_init(&check, history, unique, findings);
	check_view(&check, &view);
	check_free(&check);
}
