/* SPDX-License-Identifier: Apache-2.0 */
/* model_client.c -- one client process of the model test: fibers that change and observe. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/env.h"
#include "lib/cluster.h"
#include "model.h"

#define RANGE_MAX 300u			/* numbers in a scan's range, if it is not a key's pairs */
#define CHUNK_MAX 64u			/* entries taken from a cursor at a time */
#define LOCK_TIMEOUT_MS 20000u		/* sanitized, on busy processors, holders may be slow */

struct observer {
	struct nam_worker *worker;
	struct model_table *tables;
	struct nam_rng rng;
	unsigned class;
	uint64_t ops, ops_done;
	uint64_t *own[2];		/* this fiber's own words, by number / MODEL_CLASSES */
	uint64_t *seen[2]; /* newest version seen of each number: no observer goes back */
	uint64_t *before;		/* of a scan's range */
	uint8_t *delivered;		/* of a scan's range */
	unsigned *running;		/* fibers of this worker that still work */
};

/* ---- judging ------------------------------------------------------------------------------ */

static uint64_t
version_of(uint64_t word)
{
	return word >> 1;
}

static bool
present_in(uint64_t word)
{
	return word & 1;
}

/*
 * An entry was seen, in this version, by somebody who found `before` in the entry's `done` word and
 * now finds out what `started` says.
 */
static void
judge_present(struct observer *self, unsigned t, uint64_t number, uint64_t version,
	uint64_t before, const char *how)
{
	const struct model_table *table = &self->tables[t];
	uint64_t after = atomic_load(&table->started[number]);
	bool wrong = before == after && !present_in(after);

	if (table->unique) {
		wrong |= version < version_of(before) || version > version_of(after) ||
			 version < self->seen[t][number] ||
			 (version == version_of(before) && !present_in(before)) ||
			 (version == version_of(after) && !present_in(after));
		if (self->seen[t][number] < version)
			self->seen[t][number] = version;
	}
	if (wrong)
		model_violation(
			"class %u, op %llu, %s: %s entry %llu in version %llu; before %llu%c, "
			"after %llu%c, seen %llu",
			self->class, (unsigned long long)self->ops_done, how,
			table->unique ? "unique" : "pair", (unsigned long long)number,
			(unsigned long long)version, (unsigned long long)version_of(before),
			present_in(before) ? '+' : '-', (unsigned long long)version_of(after),
			present_in(after) ? '+' : '-', (unsigned long long)self->seen[t][number]);
}

static void
judge_absent(struct observer *self, unsigned t, uint64_t number, uint64_t before, const char *how)
{
	const struct model_table *table = &self->tables[t];

	if (!present_in(before) || atomic_load(&table->started[number]) != before)
		return;
	model_violation("class %u, op %llu, %s: %s entry %llu in version %llu is missing",
		self->class, (unsigned long long)self->ops_done, how,
		table->unique ? "unique" : "pair", (unsigned long long)number,
		(unsigned long long)version_of(before));
}

static void
judge_code(struct observer *self, int rc, int expect, const char *how)
{
	if (rc == expect)
		return;
	model_violation("class %u, op %llu, %s: %s instead of %s (%s)", self->class,
		(unsigned long long)self->ops_done, how, nam_err_name(rc), nam_err_name(expect),
		nam_worker_diag(self->worker));
}

/* ---- changing ----------------------------------------------------------------------------- */

enum change { INSERT, UPSERT, UPDATE, DELETE, DELETE_WRONG_PAIR };

static const char *const change_names[] = { "insert", "upsert", "update", "delete",
	"delete of another payload" };

static int
change_do(struct observer *self, const struct model_table *table, enum change change,
	const uint8_t *key, uint64_t payload)
{
	struct nam_worker *worker = self->worker;

	switch (change) {
	case INSERT:
		return nam_index_insert(worker, table->index, key, payload); /* SUSPENDS */
	case UPSERT:
		return nam_index_upsert(worker, table->index, key, payload); /* SUSPENDS */
	case UPDATE:
		return nam_index_update(worker, table->index, key, payload); /* SUSPENDS */
	case DELETE:
		if (table->unique)
			return nam_index_delete(worker, table->index, key); /* SUSPENDS */
		/* fallthrough */
	default:
		return nam_index_delete_pair(worker, table->index, key, payload); /* SUSPENDS */
	}
}

/* What the change comes to, given the entry's word: the code, and whether a version follows. */
static int
change_expect(const struct model_table *table, enum change change, bool present, bool *ret_changes)
{
	*ret_changes = true;
	switch (change) {
	case INSERT:
		*ret_changes = !present;
		return present ? -NAM_E_EXISTS : 0;
	case UPSERT:
		*ret_changes = table->unique || !present;
		return 0;
	case UPDATE:
	case DELETE:
		*ret_changes = present;
		return present ? 0 : -NAM_E_NOTFOUND;
	default:
		*ret_changes = false;
		return -NAM_E_NOTFOUND;
	}
}

static void
do_change(struct observer *self, unsigned t, enum change change)
{
	struct model_table *table = &self->tables[t];
	uint64_t which = nam_rng_below(&self->rng, table->numbers / MODEL_CLASSES);
	uint64_t number = which * MODEL_CLASSES + self->class, *own = &self->own[t][which];
	uint64_t version = version_of(*own) + 1, word, payload;
	uint8_t key[NAM_KEY_BYTES_MAX];
	bool changes;
	int expect;

	/* A non-unique index has no updates, and any payload there makes another pair. */
	if (!table->unique && (change == UPDATE || change == DELETE_WRONG_PAIR))
		change = DELETE;
	expect = change_expect(table, change, present_in(*own), &changes);
	word = version << 1 | (change != DELETE);
	payload = model_payload(table, number, version);
	if (change == DELETE_WRONG_PAIR)
		payload += 1ull << 60;
	model_key(table, number, key);
	if (changes)
		atomic_store(&table->started[number], word);
	judge_code(self, change_do(self, table, change, key, payload), expect,
		change_names[change]); /* SUSPENDS */
	if (!changes)
		return;
	*own = word;
	atomic_store(&table->done[number], word);
}

/* ---- observing ---------------------------------------------------------------------------- */

static void
do_lookup_unique(struct observer *self)
{
	struct model_table *table = &self->tables[0];
	uint64_t number = nam_rng_below(&self->rng, table->numbers), found, version;
	uint64_t payload = 0, before;
	uint8_t key[NAM_KEY_BYTES_MAX];
	int rc;

	if (nam_rng_below(&self->rng, 2))
		number = number / MODEL_CLASSES * MODEL_CLASSES + self->class;
	model_key(table, number, key);
	before = atomic_load(&table->done[number]);
	rc = nam_index_lookup(self->worker, table->index, key, &payload); /* SUSPENDS */
	if (rc == -NAM_E_NOTFOUND)
		judge_absent(self, 0, number, before, "lookup");
	else if (rc)
		judge_code(self, rc, 0, "lookup");
	else if (!model_recognise(table, key, payload, &found, &version) || found != number)
		model_violation("class %u: lookup of %llu gave payload %llx", self->class,
			(unsigned long long)number, (unsigned long long)payload);
	else
		judge_present(self, 0, number, version, before, "lookup");
}

/* The smallest of a key's pairs: nothing below it may have been there all the time. */
static void
do_lookup_pairs(struct observer *self)
{
	struct model_table *table = &self->tables[1];
	uint64_t keys = table->numbers / table->per_key;
	uint64_t first = nam_rng_below(&self->rng, keys) * table->per_key;
	uint64_t end = first + table->per_key, smallest = first, payload = 0, found, version;
	uint64_t before = 0;
	uint8_t key[NAM_KEY_BYTES_MAX];
	int rc;

	for (; smallest < end; smallest++) {
		before = atomic_load(&table->done[smallest]);
		if (present_in(before))
			break;
	}
	model_key(table, first, key);
	rc = nam_index_lookup(self->worker, table->index, key, &payload); /* SUSPENDS */
	if (rc == -NAM_E_NOTFOUND) {
		if (smallest < end)
			judge_absent(self, 1, smallest, before, "lookup of pairs");
		return;
	}
	if (rc) {
		judge_code(self, rc, 0, "lookup of pairs");
	} else if (!model_recognise(table, key, payload, &found, &version) || found < first ||
		found >= end) {
		model_violation("class %u: lookup of pairs gave payload %llx", self->class,
			(unsigned long long)payload);
	} else if (smallest < found) {
		judge_absent(self, 1, smallest, before, "lookup of pairs, smaller");
	}
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
	judge_present(self, scan->t, number, version, self->before[number - scan->first], how);
}

/* What was in the range throughout, and not beyond where a limit ended the scan, was delivered. */
static void
scan_judge_rest(struct observer *self, const struct scan *scan)
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
			judge_absent(self, scan->t, number, self->before[number - scan->first],
				scan->reverse ? "reverse scan" : "scan");
}

static void
do_scan(struct observer *self, unsigned t)
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
		judge_code(self, rc, 0, "opening a cursor");
		return;
	}
	do {
		count = 0;
		rc = nam_cursor_next(cursor, keys, payloads, room, &count); /* SUSPENDS */
		for (uint32_t i = 0; !rc && i < count; i++)
			scan_entry(self, &scan, keys + (size_t)i * table->key_bytes, payloads[i]);
	} while (!rc && count);
	nam_cursor_close(cursor);
	judge_code(self, rc, 0, "scan");
	if (!rc)
		scan_judge_rest(self, &scan);
}

/* ---- fibers ------------------------------------------------------------------------------- */

/* Grow, shrink, grow, shrink: so that nodes are split and merged, and memory is used again. */
static void
do_some_change(struct observer *self, unsigned t)
{
	bool growing = self->ops_done * 5 / self->ops % 2 == 0;
	uint64_t roll = nam_rng_below(&self->rng, 100);

	if (roll < 15)
		do_change(self, t, UPDATE); /* SUSPENDS */
	else if (roll < 20)
		do_change(self, t, DELETE_WRONG_PAIR); /* SUSPENDS */
	else if (roll < (growing ? 92 : 27))
		do_change(self, t, nam_rng_below(&self->rng, 3) ? INSERT : UPSERT); /* SUSPENDS */
	else
		do_change(self, t, DELETE); /* SUSPENDS */
}

static void
observe(void *arg)
{
	struct observer *self = arg;

	for (; self->ops_done < self->ops; self->ops_done++) {
		unsigned t = nam_rng_below(&self->rng, 10) < 4;
		uint64_t roll = nam_rng_below(&self->rng, 100);

		if (roll < 60)
			do_some_change(self, t); /* SUSPENDS */
		else if (roll < 80 && t == 0)
			do_lookup_unique(self); /* SUSPENDS */
		else if (roll < 80)
			do_lookup_pairs(self); /* SUSPENDS */
		else if (roll < 90)
			do_scan(self, t); /* SUSPENDS */
		else
			nam_worker_yield(self->worker); /* SUSPENDS */
	}
	--*self->running;
}

/* What an operator would do meanwhile: collect without pause, and look at the figures. */
struct collector {
	struct nam_worker *worker;
	struct model_table *tables;
	unsigned *running;
	uint64_t passes, merges, heads, retired, reusable;
};

static void
collect(void *arg)
{
	struct collector *self = arg;

	while (*self->running) {
		for (unsigned t = 0; t < 2; t++) {
			struct nam_collect_stat stat = { 0 };
			struct nam_index_stat figures;
			int rc;

			rc = nam_index_collect(self->worker, self->tables[t].index,
				&stat); /* SUSPENDS */
			if (rc)
				model_violation("collect: %s (%s)", nam_err_name(rc),
					nam_worker_diag(self->worker));
			self->merges += stat.merges;
			self->heads += stat.heads_written;
			self->retired += stat.nodes_retired;
			self->reusable += stat.nodes_reusable;
			rc = self->passes % 16 ? 0 :
				nam_index_stat(self->worker, self->tables[t].index,
					&figures); /* SUSPENDS */
			if (rc)
				model_violation("stat: %s (%s)", nam_err_name(rc),
					nam_worker_diag(self->worker));
		}
		self->passes++;
		nam_worker_yield(self->worker); /* SUSPENDS */
	}
}

/* ---- threads ------------------------------------------------------------------------------ */

struct job {
	struct nam_client *client;
	struct model_table *tables;
	unsigned process, thread;
	uint64_t seed, ops;
	struct observer observers[MODEL_FIBERS];
	struct collector collector;
	struct nam_op_counters counters;
};

static void *
zeroes(size_t bytes)
{
	void *memory = calloc(1, bytes);

	if (!memory)
		test_die("no memory");
	return memory;
}

static void
observer_prepare(struct observer *self, struct job *job, struct nam_worker *worker, unsigned fiber,
	unsigned *running)
{
	self->worker = worker;
	self->tables = job->tables;
	self->class = (job->process * MODEL_THREADS + job->thread) * MODEL_FIBERS + fiber;
	self->rng = nam_rng_seed(job->seed * 1000003 + self->class);
	self->ops = job->ops;
	self->running = running;
	self->before = zeroes((job->tables[0].numbers + job->tables[1].numbers) * 8);
	self->delivered = zeroes(job->tables[0].numbers + job->tables[1].numbers);
	for (unsigned t = 0; t < 2; t++) {
		self->own[t] = zeroes(job->tables[t].numbers / MODEL_CLASSES * 8);
		self->seen[t] = zeroes(job->tables[t].numbers * 8);
	}
}

static void
run_thread(void *arg)
{
	struct job *job = arg;
	struct nam_worker *worker = test_worker(job->client);
	bool collects = job->process == 0 && job->thread == 0;
	unsigned running = MODEL_FIBERS;
	int rc = 0;

	model_gate_pass(job->tables);
	for (unsigned i = 0; i < MODEL_FIBERS; i++) {
		observer_prepare(&job->observers[i], job, worker, i, &running);
		rc |= nam_worker_spawn(worker, observe, &job->observers[i]);
	}
	job->collector = (struct collector){ worker, job->tables, &running, 0, 0, 0, 0, 0 };
	if (collects)
		rc |= nam_worker_spawn(worker, collect, &job->collector);
	if (rc)
		test_die("cannot start fibers");
	nam_worker_run(worker); /* SUSPENDS */
	for (unsigned kind = 0; kind < NAM_OP_KINDS_COUNT; kind++)
		nam_op_counters_add(&job->counters, nam_worker_counters(worker, kind));
	nam_worker_close(worker);
}

/* What each fiber believes of its own entries: one line per entry and table. */
static void
dump(const struct job *jobs, const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file)
		test_die("%s: %s", path, strerror(errno));
	for (unsigned i = 0; i < MODEL_THREADS * MODEL_FIBERS; i++) {
		const struct observer *self =
			&jobs[i / MODEL_FIBERS].observers[i % MODEL_FIBERS];

		for (unsigned t = 0; t < 2; t++)
			for (uint64_t k = 0; k < self->tables[t].numbers / MODEL_CLASSES; k++)
				(void)fprintf(file, "%u %llu %llu\n", t,
					(unsigned long long)(k * MODEL_CLASSES + self->class),
					(unsigned long long)self->own[t][k]);
	}
	if (fclose(file))
		test_die("%s: %s", path, strerror(errno));
}

static void
free_observers(struct job *job)
{
	for (unsigned i = 0; i < MODEL_FIBERS; i++) {
		struct observer *self = &job->observers[i];

		for (unsigned t = 0; t < 2; t++) {
			free(self->own[t]);
			free(self->seen[t]);
		}
		free(self->before);
		free(self->delivered);
	}
}

static void
report(const struct job *jobs)
{
	struct nam_op_counters sum = { 0 };

	for (unsigned i = 0; i < MODEL_THREADS; i++)
		nam_op_counters_add(&sum, &jobs[i].counters);
	printf("%llu operations, %llu splits, restarts:", (unsigned long long)sum.ops,
		(unsigned long long)sum.splits);
	for (unsigned i = 0; i < NAM_RESTART_CAUSES_COUNT; i++)
		printf(" %s %llu", nam_restart_cause_name(i), (unsigned long long)sum.restarts[i]);
	if (jobs[0].process == 0)
		printf("; %llu collections, %llu merges, %llu heads, %llu retired, %llu reusable",
			(unsigned long long)jobs[0].collector.passes,
			(unsigned long long)jobs[0].collector.merges,
			(unsigned long long)jobs[0].collector.heads,
			(unsigned long long)jobs[0].collector.retired,
			(unsigned long long)jobs[0].collector.reusable);
	printf("\n");
}

static void
open_tables(struct nam_client *client, unsigned shape, struct model_table tables[2])
{
	struct nam_worker *worker = test_worker(client);

	for (unsigned t = 0; t < 2; t++) {
		char name[NAM_KEY_BYTES_MAX];
		int rc;

		model_index_name(shape, t == 0, name, sizeof(name));
		rc = nam_index_open(worker, name, model_shapes[shape].cache_bytes,
			&tables[t].index);
		if (rc)
			test_die("opening %s: %s (%s)", name, nam_err_name(rc),
				nam_worker_diag(worker));
	}
	nam_worker_close(worker);
}

/* Arguments: cluster, shape, process, seed, operations per fiber, shared file, dump file. */
int
model_client(int argc, char **argv)
{
	unsigned shape, process;
	struct model_table tables[2];
	struct nam_thread *threads[MODEL_THREADS];
	struct job *jobs = zeroes(MODEL_THREADS * sizeof(*jobs));
	struct nam_client *client;

	if (argc != 7)
		test_die("model client: %d arguments", argc);
	shape = (unsigned)atoi(argv[1]);
	process = (unsigned)atoi(argv[2]);
	model_tables_map(argv[5], &model_shapes[shape], tables);
	client = test_connect(argv[0], "model-client", LOCK_TIMEOUT_MS);
	open_tables(client, shape, tables);
	for (unsigned i = 0; i < MODEL_THREADS; i++) {
		jobs[i].client = client;
		jobs[i].tables = tables;
		jobs[i].process = process;
		jobs[i].thread = i;
		jobs[i].seed = strtoull(argv[3], NULL, 10);
		jobs[i].ops = strtoull(argv[4], NULL, 10);
		if (nam_thread_start("model", run_thread, &jobs[i], &threads[i]))
			test_die("cannot start a thread");
	}
	for (unsigned i = 0; i < MODEL_THREADS; i++)
		nam_thread_join(threads[i]);
	dump(jobs, argv[6]);
	report(jobs);
	for (unsigned i = 0; i < MODEL_THREADS; i++)
		free_observers(&jobs[i]);
	for (unsigned t = 0; t < 2; t++)
		nam_index_close(tables[t].index);
	nam_client_close(client);
	free(jobs);
	return model_violations() ? 1 : 0;
}
