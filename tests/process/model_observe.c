/* SPDX-License-Identifier: Apache-2.0 */
/* model_observe.c -- looking at entries whose writers are at work, and checking what was seen. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/cluster.h"
#include "model.h"

#define RANGE_MAX 300u			/* numbers in a scan's range, if it is not a key's pairs */
#define CHUNK_MAX 64u			/* entries taken from a cursor at a time */
#define MANY_MAX 40u			/* keys of one call */

/* ---- checking ------------------------------------------------------------------------------ */

/*
 * A reader saw an entry in this version.  It found `before` in the entry's `done` word and
 * now finds out what `started` says.
 */
static void
check_present(struct observer *self, unsigned t, uint64_t number, uint64_t version,
	uint64_t before, const char *how)
{
	const struct model_table *table = &self->tables[t];
	uint64_t after = atomic_load(&table->started[number]);
	bool wrong = before == after && !model_present(after);

	if (table->unique) {
		wrong |= version < model_version(before) || version > model_version(after) ||
			 version < self->seen[t][number] ||
			 (version == model_version(before) && !model_present(before)) ||
			 (version == model_version(after) && !model_present(after));
		if (self->seen[t][number] < version)
			self->seen[t][number] = version;
	}
	if (wrong)
		model_violation(
			"class %u, op %llu, %s: %s entry %llu in version %llu; before %llu%c, "
			"after %llu%c, seen %llu",
			self->class, (unsigned long long)self->ops_done, how,
			table->unique ? "unique" : "pair", (unsigned long long)number,
			(unsigned long long)version, (unsigned long long)model_version(before),
			model_present(before) ? '+' : '-', (unsigned long long)model_version(after),
			model_present(after) ? '+' : '-',
			(unsigned long long)self->seen[t][number]);
}

static void
check_absent(struct observer *self, unsigned t, uint64_t number, uint64_t before, const char *how)
{
	const struct model_table *table = &self->tables[t];

	if (!model_present(before) || atomic_load(&table->started[number]) != before)
		return;
	model_violation("class %u, op %llu, %s: %s entry %llu in version %llu is missing",
		self->class, (unsigned long long)self->ops_done, how,
		table->unique ? "unique" : "pair", (unsigned long long)number,
		(unsigned long long)model_version(before));
}

void
model_check_code(struct observer *self, int rc, int expect, const char *how)
{
	if (rc == expect)
		return;
	model_violation("class %u, op %llu, %s: %s instead of %s (%s)", self->class,
		(unsigned long long)self->ops_done, how, nam_err_name(rc), nam_err_name(expect),
		nam_worker_diag(self->worker));
}

/* ---- observing ---------------------------------------------------------------------------- */

/* A look-up that is under way: what was known when it began. */
struct look {
	uint64_t number;		/* unique: the entry; pairs: the first of the key's */
	uint64_t smallest;		/* pairs: the first that was there, or the end */
	uint64_t before;		/* word of the entry, or of the smallest pair */
};

static void
look_begin_unique(struct observer *self, struct look *look, uint8_t *ret_key)
{
	const struct model_table *table = &self->tables[0];

	look->number = nam_rng_below(&self->rng, table->numbers);
	if (nam_rng_below(&self->rng, 2))
		look->number = look->number / MODEL_CLASSES * MODEL_CLASSES + self->class;
	model_key(table, look->number, ret_key);
	look->before = atomic_load(&table->done[look->number]);
}

static void
look_end_unique(struct observer *self, const struct look *look, const uint8_t *key, int rc,
	uint64_t payload)
{
	uint64_t found, version;

	if (rc == -NAM_E_NOTFOUND)
		check_absent(self, 0, look->number, look->before, "lookup");
	else if (rc)
		model_check_code(self, rc, 0, "lookup");
	else if (!model_recognise(&self->tables[0], key, payload, &found, &version) ||
		found != look->number)
		model_violation("class %u: lookup of %llu gave payload %llx", self->class,
			(unsigned long long)look->number, (unsigned long long)payload);
	else
		check_present(self, 0, look->number, version, look->before, "lookup");
}

static void
look_begin_pairs(struct observer *self, struct look *look, uint8_t *ret_key)
{
	const struct model_table *table = &self->tables[1];
	uint64_t keys = table->numbers / table->per_key, end;

	look->number = nam_rng_below(&self->rng, keys) * table->per_key;
	end = look->number + table->per_key;
	look->before = 0;
	for (look->smallest = look->number; look->smallest < end; look->smallest++) {
		look->before = atomic_load(&table->done[look->smallest]);
		if (model_present(look->before))
			break;
	}
	model_key(table, look->number, ret_key);
}

/* The smallest of a key's pairs: nothing below it may have been there all the time. */
static void
look_end_pairs(struct observer *self, const struct look *look, const uint8_t *key, int rc,
	uint64_t payload)
{
	const struct model_table *table = &self->tables[1];
	uint64_t end = look->number + table->per_key, found, version;

	if (rc == -NAM_E_NOTFOUND) {
		if (look->smallest < end)
			check_absent(self, 1, look->smallest, look->before, "lookup of pairs");
	} else if (rc) {
		model_check_code(self, rc, 0, "lookup of pairs");
	} else if (!model_recognise(table, key, payload, &found, &version) ||
		found < look->number || found >= end) {
		model_violation("class %u: lookup of pairs gave payload %llx", self->class,
			(unsigned long long)payload);
	} else if (look->smallest < found) {
		check_absent(self, 1, look->smallest, look->before, "lookup of pairs, smaller");
	}
}

void
model_lookup_unique(struct observer *self)
{
	uint8_t key[NAM_KEY_BYTES_MAX];
	uint64_t payload = 0;
	struct look look;
	int rc;

	look_begin_unique(self, &look, key);
	rc = nam_index_lookup(self->worker, self->tables[0].index, key, &payload); /* SUSPENDS */
	look_end_unique(self, &look, key, rc, payload);
}

void
model_lookup_pairs(struct observer *self)
{
	uint8_t key[NAM_KEY_BYTES_MAX];
	uint64_t payload = 0;
	struct look look;
	int rc;

	look_begin_pairs(self, &look, key);
	rc = nam_index_lookup(self->worker, self->tables[1].index, key, &payload); /* SUSPENDS */
	look_end_pairs(self, &look, key, rc, payload);
}

void
model_lookup_many(struct observer *self, unsigned t)
{
	uint32_t count = 1 + (uint32_t)nam_rng_below(&self->rng, MANY_MAX);
	uint32_t key_bytes = self->tables[t].key_bytes;
	uint8_t keys[MANY_MAX * NAM_KEY_BYTES_MAX];
	uint64_t payloads[MANY_MAX] = { 0 };
	struct look looks[MANY_MAX];
	int rcs[MANY_MAX], rc;

	for (uint32_t i = 0; i < count; i++)
		(t ? look_begin_pairs : look_begin_unique)(self, &looks[i], keys + i * key_bytes);
	rc = nam_index_lookup_many(self->worker, self->tables[t].index, keys, count, payloads,
		rcs); /* SUSPENDS */
	model_check_code(self, rc, 0, "lookup of many");
	for (uint32_t i = 0; !rc && i < count; i++)
		(t ? look_end_pairs : look_end_unique)(self, &looks[i], keys + i * key_bytes,
			rcs[i], payloads[i]);
}

/* ---- scanning ----------------------------------------------------------------------------- */

struct scan {
	unsigned t;
	uint64_t first, end;		/* numbers of the range */
	uint64_t limit, count;
	bool reverse, high_inclusive;
	uint64_t last;			/* number delivered last */
};

static void
scan_choose(struct observer *self, struct scan *scan)
{
	const struct model_table *table = &self->tables[scan->t];
	uint64_t keys = table->numbers / table->per_key, from, most;

	/* Whole keys: the range of a non-unique index begins and ends between them. */
	most = table->unique ? RANGE_MAX : 2;
	from = nam_rng_below(&self->rng, keys);
	scan->first = from * table->per_key;
	scan->end = (from + 1 + nam_rng_below(&self->rng, most)) * table->per_key;
	if (scan->end > table->numbers)
		scan->end = table->numbers;
	scan->reverse = nam_rng_below(&self->rng, 2);
	scan->high_inclusive = nam_rng_below(&self->rng, 2);
	scan->limit = nam_rng_below(&self->rng, 2) ? 0 : 1 + nam_rng_below(&self->rng, 200);
	scan->count = 0;
}

static int
scan_open(struct observer *self, const struct scan *scan, struct nam_cursor **ret_cursor)
{
	const struct model_table *table = &self->tables[scan->t];
	uint8_t low[NAM_KEY_BYTES_MAX], high[NAM_KEY_BYTES_MAX];
	struct nam_range range = {
		.low = low,
		.high = high,
		.high_inclusive = scan->high_inclusive,
		.reverse = scan->reverse,
		.limit = scan->limit,
	};

	model_key(table, scan->first, low);
	if (scan->high_inclusive)
		model_key(table, scan->end - 1, high);
	else if (scan->end < table->numbers)
		model_key(table, scan->end, high);
	else
		range.high = NULL;
	if (!scan->first && scan->reverse)
		range.low = NULL;
	return nam_cursor_open(self->worker, table->index, &range, ret_cursor);
}

/* One entry as a cursor delivered it. */
static void
scan_entry(struct observer *self, struct scan *scan, const uint8_t *key, uint64_t payload)
{
	struct model_table *table = &self->tables[scan->t];
	const char *how = scan->reverse ? "reverse scan" : "scan";
	uint64_t number, version;

	if (!model_recognise(table, key, payload, &number, &version) || number < scan->first ||
		number >= scan->end) {
		model_violation("class %u: a %s of %llu .. %llu delivered payload %llx",
			self->class, how, (unsigned long long)scan->first,
			(unsigned long long)scan->end, (unsigned long long)payload);
		return;
	}
	if (scan->count && (scan->reverse ? number >= scan->last : number <= scan->last))
		model_violation("class %u: a %s delivered %llu after %llu", self->class, how,
			(unsigned long long)number, (unsigned long long)scan->last);
	scan->last = number;
	scan->count++;
	self->delivered[number - scan->first] = 1;
	check_present(self, scan->t, number, version, self->before[number - scan->first], how);
}

/* Entries in the range throughout, and not beyond a limit, were delivered. */
static void
scan_check_rest(struct observer *self, const struct scan *scan)
{
	uint64_t first = scan->first, end = scan->end;
	bool limited = scan->limit && scan->count == scan->limit;

	if (scan->limit && scan->count > scan->limit)
		model_violation("class %u: %llu entries despite a limit of %llu", self->class,
			(unsigned long long)scan->count, (unsigned long long)scan->limit);
	if (limited && scan->reverse)
		first = scan->last;
	else if (limited)
		end = scan->last;
	for (uint64_t number = first; number < end; number++)
		if (!self->delivered[number - scan->first])
			check_absent(self, scan->t, number, self->before[number - scan->first],
				scan->reverse ? "reverse scan" : "scan");
}

void
model_scan(struct observer *self, unsigned t)
{
	struct model_table *table = &self->tables[t];
	uint32_t count, room = 1 + (uint32_t)nam_rng_below(&self->rng, CHUNK_MAX);
	struct scan scan = { .t = t };
	uint8_t keys[CHUNK_MAX * NAM_KEY_BYTES_MAX];
	uint64_t payloads[CHUNK_MAX];
	struct nam_cursor *cursor;
	int rc;

	scan_choose(self, &scan);
	for (uint64_t i = 0; i < scan.end - scan.first; i++) {
		self->before[i] = atomic_load(&table->done[scan.first + i]);
		self->delivered[i] = 0;
	}
	rc = scan_open(self, &scan, &cursor);
	if (rc) {
		model_check_code(self, rc, 0, "opening a cursor");
		return;
	}
	do {
		count = 0;
		rc = nam_cursor_next(cursor, keys, payloads, room, &count); /* SUSPENDS */
		for (uint32_t i = 0; !rc && i < count; i++)
			scan_entry(self, &scan, keys + (size_t)i * table->key_bytes, payloads[i]);
	} while (!rc && count);
	nam_cursor_close(cursor);
	model_check_code(self, rc, 0, "scan");
	if (!rc)
		scan_check_rest(self, &scan);
}
