/* SPDX-License-Identifier: Apache-2.0 */
/* model_client.c -- one client process of the model test: fibers that change and observe. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/env.h"
#include "tests/lib/cluster.h"
#include "model.h"

#define LOCK_TIMEOUT_MS 20000u		/* sanitized, on busy processors, holders may be slow */

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

/* The result of the change, given the entry's word: the code, and whether a version follows. */
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
	uint64_t version = model_version(*own) + 1, word, payload;
	uint8_t key[NAM_KEY_BYTES_MAX];
	bool changes;
	int expect;

	/* A non-unique index has no updates, and any payload there makes another pair. */
	if (!table->unique && (change == UPDATE || change == DELETE_WRONG_PAIR))
		change = DELETE;
	expect = change_expect(table, change, model_present(*own), &changes);
	word = version << 1 | (change != DELETE);
	payload = model_payload(table, number, version);
	if (change == DELETE_WRONG_PAIR)
		payload += 1ull << 60;
	model_key(table, number, key);
	if (changes)
		atomic_store(&table->started[number], word);
	model_check_code(self, change_do(self, table, change, key, payload), expect,
		change_names[change]); /* SUSPENDS */
	if (!changes)
		return;
	*own = word;
	atomic_store(&table->done[number], word);
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
		else if (roll < 65)
			model_lookup_many(self, t); /* SUSPENDS */
		else if (roll < 80 && t == 0)
			model_lookup_unique(self); /* SUSPENDS */
		else if (roll < 80)
			model_lookup_pairs(self); /* SUSPENDS */
		else if (roll < 90)
			model_scan(self, t); /* SUSPENDS */
		else
			nam_worker_yield(self->worker); /* SUSPENDS */
	}
	--*self->running;
}

/* The operator's part: collect without pause, and look at the figures. */
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

/* Each fiber's model of its own entries: one line per entry and table. */
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
