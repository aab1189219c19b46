/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_test.c -- two memory servers, three client processes, two indexes, everything at once.
 *
 * Each of the clients' fibers owns a class of entries, and knows exactly its changes of them.  It
 * checks everything that it sees of the others' (model.h).  Afterwards the tree must verify, and a
 * scan in each direction must deliver the union of what all fibers know.
 *
 *	process_model				every shape, with the seed below
 *	process_model --shape N --seed S	one of them, as a failure says
 *	process_model --seeds N			every shape with N seeds
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/env.h"
#include "tests/lib/cluster.h"
#include "model.h"

#define CLIENT_MS 240000u
#define SCAN_ROOM 1000u

struct run {
	struct cluster cluster;
	struct nam_client *client;
	struct nam_worker *worker;
	unsigned shape;
	uint64_t seed;
	struct model_table tables[2];
	uint64_t *expect[2];		/* the union of the models: words by number */
};

/* ---- before ------------------------------------------------------------------------------- */

static void
create_indexes(struct run *run)
{
	const struct model_shape *shape = &model_shapes[run->shape];

	for (unsigned t = 0; t < 2; t++) {
		struct nam_index_options options;
		char name[64];
		int rc;

		nam_index_options_init(&options);
		options.key_bytes = shape->key_bytes;
		options.node_bytes = shape->node_bytes;
		options.unique = t == 0;
		options.head_interval = 4 + 4 * t;
		model_index_name(run->shape, t == 0, name, sizeof(name));
		rc = nam_index_create(run->worker, name, &options);
		if (rc)
			test_die("creating %s: %s (%s)", name, nam_err_name(rc),
				nam_worker_diag(run->worker));
	}
}

static void
shared_path(const struct run *run, char *path, size_t size)
{
	(void)snprintf(path, size, "%s/shared", run->cluster.folder);
}

static void
dump_path(const struct run *run, unsigned process, char *path, size_t size)
{
	(void)snprintf(path, size, "%s/dump-%u", run->cluster.folder, process);
}

static void
create_shared(struct run *run)
{
	const struct model_shape *shape = &model_shapes[run->shape];
	char path[128];
	int fd;

	shared_path(run, path, sizeof(path));
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)model_tables_bytes(shape)))
		test_die("%s: %s", path, strerror(errno));
	close(fd);
	model_tables_map(path, shape, run->tables);
}

/* ---- the clients -------------------------------------------------------------------------- */

static void
run_clients(struct run *run)
{
	uint64_t ops = test_scaled(model_shapes[run->shape].ops);
	char shape[12], process[12], seed[24], ops_text[24], shared[128], path[128], line[512];
	struct child children[MODEL_PROCESSES];
	unsigned failed = 0;

	(void)snprintf(shape, sizeof(shape), "%u", run->shape);
	(void)snprintf(seed, sizeof(seed), "%llu", (unsigned long long)run->seed);
	(void)snprintf(ops_text, sizeof(ops_text), "%llu", (unsigned long long)ops);
	shared_path(run, shared, sizeof(shared));
	for (unsigned i = 0; i < MODEL_PROCESSES; i++) {
		const char *const args[] = { run->cluster.list, shape, process, seed, ops_text,
			shared, path, NULL };

		(void)snprintf(process, sizeof(process), "%u", i);
		dump_path(run, i, path, sizeof(path));
		child_start_self(&children[i], "client", args);
	}
	for (unsigned i = 0; i < MODEL_PROCESSES; i++) {
		int status;

		while (child_line(&children[i], line, sizeof(line), CLIENT_MS))
			printf("  client %u: %s\n", i, line);
		status = child_wait(&children[i], 10000);
		if (status)
			(void)fprintf(stderr, "client %u: exit status %d\n", i, status);
		failed += status != 0;
		if (status < 0)
			child_kill(&children[i]);
	}
	if (failed)
		test_die("%u clients failed", failed);
}

/* ---- after -------------------------------------------------------------------------------- */

static void
read_models(struct run *run)
{
	for (unsigned t = 0; t < 2; t++) {
		run->expect[t] = calloc(run->tables[t].numbers, 8);
		if (!run->expect[t])
			test_die("no memory");
	}
	for (unsigned i = 0; i < MODEL_PROCESSES; i++) {
		unsigned long long number, word;
		char path[128];
		unsigned t;
		FILE *file;

		dump_path(run, i, path, sizeof(path));
		file = fopen(path, "r");
		if (!file)
			test_die("%s: %s", path, strerror(errno));
		while (fscanf(file, "%u %llu %llu", &t, &number, &word) == 3)
			run->expect[t][number] = word;
		(void)fclose(file);
		(void)unlink(path);
	}
}

static void
complain(void *arg, unsigned invariant, const char *text)
{
	const struct model_table *table = arg;

	model_violation("I%u of the %s index: %s", invariant, table->unique ? "unique" : "other",
		text);
}

static void
verify(struct run *run, struct model_table *table)
{
	uint64_t violations = 0;
	int rc = nam_index_verify(run->worker, table->index, complain, table, &violations);

	if (rc)
		model_violation("verify: %s (%s)", nam_err_name(rc), nam_worker_diag(run->worker));
	if (violations)
		model_violation("verify: %llu violations", (unsigned long long)violations);
}

/* The next number in the direction that the models have, or `numbers`. */
static uint64_t
next_expected(const struct run *run, unsigned t, uint64_t number, bool reverse)
{
	uint64_t numbers = run->tables[t].numbers;

	while (number < numbers && !(run->expect[t][number] & 1))
		number += reverse ? -1ull : 1ull;
	return number < numbers ? number : numbers;
}

static void
compare_scan(struct run *run, unsigned t, bool reverse)
{
	struct model_table *table = &run->tables[t];
	struct nam_range range = { .reverse = reverse };
	uint64_t number = reverse ? table->numbers - 1 : 0, step = reverse ? -1ull : 1ull,
		 entries = 0;
	uint8_t *keys = malloc((size_t)SCAN_ROOM * table->key_bytes);
	uint64_t payloads[SCAN_ROOM];
	struct nam_cursor *cursor;
	uint32_t count = 0;
	int rc = nam_cursor_open(run->worker, table->index, &range, &cursor);

	if (rc || !keys)
		test_die("opening a cursor: %s", nam_err_name(rc));
	number = next_expected(run, t, number, reverse);
	while (!(rc = nam_cursor_next(cursor, keys, payloads, SCAN_ROOM, &count)) && count) {
		for (uint32_t i = 0; i < count; i++) {
			uint64_t got, version = 0, expect_version;

			if (!model_recognise(table, keys + (size_t)i * table->key_bytes,
				    payloads[i], &got, &version))
				got = table->numbers;
			expect_version = number < table->numbers ? run->expect[t][number] >> 1 : 0;
			if (got != number || (table->unique && version != expect_version))
				model_violation(
					"%s %s: %llu in version %llu instead of %llu in %llu",
					table->unique ? "unique" : "pairs",
					reverse ? "reverse scan" : "scan", (unsigned long long)got,
					(unsigned long long)version, (unsigned long long)number,
					(unsigned long long)expect_version);
			number = next_expected(run, t, number + step, reverse);
			entries++;
		}
	}
	if (rc)
		model_violation("scan: %s (%s)", nam_err_name(rc), nam_worker_diag(run->worker));
	if (number < table->numbers)
		model_violation("%s %s: ended before %llu, after %llu entries",
			table->unique ? "unique" : "pairs", reverse ? "reverse scan" : "scan",
			(unsigned long long)number, (unsigned long long)entries);
	nam_cursor_close(cursor);
	free(keys);
}

static void
compare_stat(struct run *run, unsigned t)
{
	struct nam_index_stat stat;
	uint64_t entries = 0;
	int rc = nam_index_stat(run->worker, run->tables[t].index, &stat);

	for (uint64_t i = 0; i < run->tables[t].numbers; i++)
		entries += run->expect[t][i] & 1;
	if (rc || stat.entries != entries)
		model_violation("stat: %s, %llu entries instead of %llu", nam_err_name(rc),
			(unsigned long long)stat.entries, (unsigned long long)entries);
	printf("  %s: %llu entries, %llu leaves, %llu inner nodes, %llu head nodes, height %u\n",
		t == 0 ? "unique" : "pairs", (unsigned long long)stat.entries,
		(unsigned long long)stat.leaves, (unsigned long long)stat.inner_nodes,
		(unsigned long long)stat.head_nodes, stat.height);
}

/* Once as it was left, once after a collection: neither may lose anything. */
static void
check_everything(struct run *run)
{
	for (unsigned t = 0; t < 2; t++) {
		struct model_table *table = &run->tables[t];
		char name[64];
		int rc;

		model_index_name(run->shape, t == 0, name, sizeof(name));
		rc = nam_index_open(run->worker, name, 1u << 20, &table->index);
		if (rc)
			test_die("opening %s: %s", name, nam_err_name(rc));
		for (unsigned pass = 0; pass < 2; pass++) {
			struct nam_collect_stat stat;

			verify(run, table);
			compare_scan(run, t, false);
			compare_scan(run, t, true);
			compare_stat(run, t);
			rc = pass ? 0 : nam_index_collect(run->worker, table->index, &stat);
			if (rc)
				model_violation("collect: %s (%s)", nam_err_name(rc),
					nam_worker_diag(run->worker));
		}
		nam_index_close(table->index);
		rc = nam_index_drop(run->worker, name);
		if (rc)
			model_violation("drop: %s (%s)", nam_err_name(rc),
				nam_worker_diag(run->worker));
	}
}

/* ---- a run -------------------------------------------------------------------------------- */

static void
run_shape(struct run *run)
{
	const struct model_shape *shape = &model_shapes[run->shape];
	uint64_t start_ns = nam_now_ns();
	char path[128];

	printf("shape %u, seed %llu: keys of %u bytes, nodes of %u, a cache of %llu\n", run->shape,
		(unsigned long long)run->seed, shape->key_bytes, shape->node_bytes,
		(unsigned long long)shape->cache_bytes);
	run->client = test_connect(run->cluster.list, "model-checker", 0);
	run->worker = test_worker(run->client);
	create_indexes(run);
	create_shared(run);
	run_clients(run);
	read_models(run);
	check_everything(run);
	nam_worker_close(run->worker);
	nam_client_close(run->client);
	for (unsigned t = 0; t < 2; t++)
		free(run->expect[t]);
	shared_path(run, path, sizeof(path));
	(void)unlink(path);
	if (model_violations())
		test_die("shape %u, seed %llu failed; again: --shape %u --seed %llu", run->shape,
			(unsigned long long)run->seed, run->shape, (unsigned long long)run->seed);
	printf("  %.1f s\n", (double)(nam_now_ns() - start_ns) / 1e9);
}

int
main(int argc, char **argv)
{
	unsigned first = 0, end = model_shapes_count;
	uint64_t seed = 1, seeds = 1;
	struct run run;

	if (argc > 1 && !strcmp(argv[1], "client"))
		return model_client(argc - 2, argv + 2);
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--seeds"))
			seeds = strtoull(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--shape") && (unsigned)atoi(argv[i + 1]) < end)
			end = (first = (unsigned)atoi(argv[i + 1])) + 1;
		else
			test_die("%s %s?", argv[i], argv[i + 1]);
	}
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	memset(&run, 0, sizeof(run));
	cluster_start(&run.cluster, 2, 64, "4M");
	for (run.seed = seed; run.seed < seed + seeds; run.seed++)
		for (run.shape = first; run.shape < end; run.shape++)
			run_shape(&run);
	cluster_stop(&run.cluster);
	return 0;
}
