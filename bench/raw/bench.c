/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c -- nam-bench raw: find the best depth, measure, check, report. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/progress.h"
#include "bench.h"
#include "options.h"
#include "bench/report.h"
#include "bench/text.h"
#include "bench/ticks.h"

#define DEPTHS_COUNT 10u
#define DEPTH_PASSES 2u
#define SEARCH_SECONDS 0.1
#define ROUNDS 15u		/* short ones: moods of a shared machine last longer */

static const uint32_t depths[DEPTHS_COUNT] = { 1, 2, 4, 8, 12, 16, 20, 24, 32, 64 };

struct raw_bench {
	struct raw_options options;
	struct nam_client *client;	/* NULL: copies without a cluster */
	struct thread_pool *pool;
	struct blocks blocks;
	struct arena arena;
	struct findings findings;
	uint64_t ops;			/* of all measurements, for raw_verify() */
	struct result *result;
	struct result *copies;	/* --compare: of memcpy */
	double ratio;
	uint32_t depth, copies_depth;
	uint64_t page_bytes;
	int transparent_huge;
};

/* ---- measuring ---------------------------------------------------------------------------- */

static struct raw_spec
spec_of(struct raw_bench *bench, enum raw_op op, uint32_t depth)
{
	return (struct raw_spec){
		.op = op,
		.loop = bench->options.loop,
		.bytes = bench->options.bytes,
		.depth = depth,
		.blocks = &bench->blocks,
		.arena = &bench->arena,
		.servers = bench->client ? nam_client_servers(bench->client) : 0,
		.seed = bench->options.seed,
		.findings = &bench->findings,
	};
}

static int
measure(struct raw_bench *bench, enum raw_op op, uint32_t depth, uint64_t ops, double seconds,
	struct result *result)
{
	struct raw_spec spec = spec_of(bench, op, depth);
	int rc = raw_run(bench->pool, &spec, ops, seconds, result);

	if (op == bench->options.op)
		bench->ops += result->ops;
	if (!rc && bench_signal)
		return -EINTR;
	return rc ? rc : bench->findings.fatal;
}

/* Every depth for a moment, more than once; the best one goes to *ret_depth. */
static int
find_depth(struct raw_bench *bench, enum raw_op op, uint32_t *ret_depth)
{
	uint32_t depth_max = bench->options.loop == RAW_BATCH && op != RAW_MEMCPY ? NAM_BATCH_MAX
										   : 64;
	double rates[DEPTHS_COUNT] = { 0 }, seconds = bench->options.seconds / 8;
	struct result *result = malloc(sizeof(*result));
	unsigned best = 0, count = 0;
	int rc = result ? 0 : -ENOMEM;

	if (seconds > 0.25)
		seconds = 0.25;
	while (count < DEPTHS_COUNT && depths[count] <= depth_max)
		count++;
	/* Passes over all depths; the best rate of each stays. */
	for (unsigned i = 0; i < DEPTH_PASSES * count && !rc; i++) {
		rc = measure(bench, op, depths[i % count], 0, seconds / DEPTH_PASSES, result);
		if (!rc && result->ops_per_s > rates[i % count])
			rates[i % count] = result->ops_per_s;
	}
	free(result);
	if (rc)
		return rc;
	if (!bench->options.quiet)
		printf("%s: requests per second at depth\n", raw_op_names[op]);
	for (unsigned i = 0; i < count; i++) {
		best = rates[i] > rates[best] ? i : best;
		if (!bench->options.quiet)
			printf("  %3u  %8s/s\n", depths[i], text_count(rates[i]));
	}
	*ret_depth = depths[best];
	return 0;
}

/* Sums times and counts of one more round; rates are settled at the end. */
static void
result_add(struct result *sum, const struct result *more)
{
	sum->ops += more->ops;
	sum->seconds += more->seconds;
	sum->cpu_seconds += more->cpu_seconds;
	histogram_merge(&sum->latency, &more->latency);
	nam_op_counters_add(&sum->counters, &more->counters);
}

/* READs and copies by turns, so that both meet the same moods of the machine. */
static int
compare(struct raw_bench *bench)
{
	double reads[ROUNDS], copies[ROUNDS], ratios[ROUNDS];
	double seconds = bench->options.seconds / (2 * ROUNDS);
	struct result *round = malloc(sizeof(*round));
	int rc = round ? 0 : -ENOMEM;

	for (unsigned i = 0; i < ROUNDS && !rc; i++) {
		rc = measure(bench, RAW_READ, bench->depth, 0, seconds, round);
		if (rc)
			break;
		reads[i] = round->ops_per_s;
		result_add(bench->result, round);
		rc = measure(bench, RAW_MEMCPY, bench->copies_depth, 0, seconds, round);
		if (rc)
			break;
		copies[i] = round->ops_per_s;
		ratios[i] = reads[i] / copies[i];
		result_add(bench->copies, round);
	}
	free(round);
	if (rc)
		return rc;
	if (!bench->options.quiet) {
		report_heading("round     read/s   memcpy/s   ratio");
		for (unsigned i = 0; i < ROUNDS; i++)
			printf("  %3u  %9s  %9s  %6.3f\n", i + 1, text_count(reads[i]),
				text_count(copies[i]), ratios[i]);
	}
	bench->ratio = report_median(ratios, ROUNDS);
	bench->result->ops_per_s = report_median(reads, ROUNDS);
	bench->copies->ops_per_s = report_median(copies, ROUNDS);
	return 0;
}

int
raw_read_rate(struct thread_pool *pool, const struct blocks *blocks, struct findings *findings,
	uint32_t depth, double seconds, uint64_t seed, struct raw_rate *ret)
{
	struct raw_spec spec = {
		.op = RAW_READ,
		.loop = RAW_WINDOW,
		.bytes = blocks->bytes,
		.depth = depth,
		.blocks = blocks,
		.seed = seed,
		.findings = findings,
	};
	struct result *result = malloc(sizeof(*result));
	int rc = result ? raw_run(pool, &spec, 0, seconds, result) : -ENOMEM;

	if (!rc)
		*ret = (struct raw_rate){ result->ops_per_s,
			(double)result->ops / result->cpu_seconds };
	free(result);
	return rc ? rc : findings->fatal;
}

int
raw_find_depth(struct thread_pool *pool, const struct blocks *blocks, struct findings *findings,
	uint64_t seed, bool per_cpu, uint32_t *ret_depth)
{
	double best = 0, rate;
	int rc = 0;

	for (uint32_t depth = 4; depth <= 64 && !rc; depth *= 2) {
		struct raw_rate raw = { 0 };

		rc = raw_read_rate(pool, blocks, findings, depth, SEARCH_SECONDS, seed, &raw);
		rate = per_cpu ? raw.per_cpu_s : raw.per_s;
		if (rc || rate <= best)
			continue;
		best = rate;
		*ret_depth = depth;
	}
	return rc;
}

/* ---- setting up --------------------------------------------------------------------------- */

/* Memory like the first server's, so that copies are compared fairly. */
static int
ask_pages(struct raw_bench *bench)
{
	struct nam_server_status status;
	int rc;

	if (!bench->client) {
		bench->page_bytes = !strcmp(bench->options.pages, "2M") ? 2u << 20 : 4096;
		bench->transparent_huge = !strcmp(bench->options.pages, "thp");
		return 0;
	}
	rc = nam_server_status_get(thread_pool_member(bench->pool, 0)->worker, 0, &status);
	if (rc)
		return rc;
	bench->page_bytes = status.page_bytes;
	bench->transparent_huge = (int)status.transparent_huge;
	return 0;
}

static int
set_up_memory(struct raw_bench *bench, struct nam_diag *diag)
{
	const struct raw_options *options = &bench->options;
	bool remote = options->op != RAW_MEMCPY && options->op != RAW_SEND;
	uint64_t local = options->memory_bytes ? options->memory_bytes : BLOCKS_DEFAULT_BYTES;
	uint64_t count = local / raw_stride(options->bytes);
	int rc = ask_pages(bench);

	if (!rc && remote) {
		rc = blocks_alloc(thread_pool_member(bench->pool, 0)->worker,
			nam_client_servers(bench->client), options->bytes, options->memory_bytes,
			&bench->blocks, diag);
		if (rc)
			return rc;
		rc = raw_blocks_fill(bench->pool, &bench->blocks, &bench->findings);
		count = bench->blocks.count;
	}
	if (!rc && (options->op == RAW_MEMCPY || options->compare))
		rc = arena_map(options->bytes, count ? count : 1, bench->page_bytes,
			bench->transparent_huge, &bench->arena);
	return rc;
}

static int
set_up(struct raw_bench *bench)
{
	struct nam_diag diag = { "" };
	int exit_code, rc;

	if (bench->options.cluster) {
		exit_code = bench_connect(bench->options.cluster, NAM_TRANSPORT_DEFAULT,
			RAW_DEPTH_MAX, &bench->client);
		if (exit_code)
			return exit_code;
	}
	rc = thread_pool_start(bench->client, bench->options.threads, NULL, &bench->pool, &diag);
	if (rc)
		return bench_failed("starting the threads", rc, diag.text);
	rc = set_up_memory(bench, &diag);
	if (rc)
		return bench_failed("preparing the memory", rc, diag.text);
	bench->result = calloc(2, sizeof(struct result));
	if (!bench->result)
		return bench_failed("preparing the results", -ENOMEM, NULL);
	bench->copies = bench->result + 1;
	return NAM_EXIT_OK;
}

static void
tear_down(struct raw_bench *bench)
{
	if (bench->blocks.all)
		blocks_free(&bench->blocks);
	arena_unmap(&bench->arena);
	thread_pool_stop(bench->pool);
	if (bench->client)
		nam_client_close(bench->client);
	free(bench->result);
}

/* ---- reporting ---------------------------------------------------------------------------- */

static void
print_results(const struct raw_bench *bench)
{
	const struct raw_options *options = &bench->options;
	const struct result *result = bench->result;
	struct per_op per_op = per_op_of(&result->counters, (double)result->ops);

	report_heading("raw");
	printf("  operation   %s of %u bytes, %s, depth %u, %u thread%s\n",
		raw_op_names[options->op], options->bytes,
		options->op == RAW_MEMCPY ? "loop" : raw_loop_names[options->loop], bench->depth,
		options->threads, options->threads == 1 ? "" : "s");
	if (bench->blocks.count)
		printf("  memory      %s in %" PRIu64 " blocks on %u memory servers\n",
			text_bytes((double)(bench->blocks.count * bench->blocks.stride)),
			bench->blocks.count, nam_client_servers(bench->client));
	if (bench->arena.count)
		printf("  copied from %s of local memory, %s pages\n",
			text_bytes((double)(bench->arena.count * bench->arena.stride)),
			bench->arena.pages);
	printf("  rate        %s/s, %s/s\n", text_count(result->ops_per_s),
		text_bytes(result->ops_per_s * options->bytes));
	report_print_latency(&result->latency);
	if (options->op != RAW_MEMCPY)
		printf("  per request round trips %.3f  doorbells %.3f  work requests %.3f  "
		       "bytes in %.1f  out %.1f\n", per_op.round_trips, per_op.doorbells,
			per_op.work_requests, per_op.bytes_in, per_op.bytes_out);
	if (options->compare)
		printf("  memcpy      %s/s at depth %u\n  read/memcpy %.3f (median of %u rounds)\n",
			text_count(bench->copies->ops_per_s), bench->copies_depth, bench->ratio,
			ROUNDS);
	printf("  errors      %" PRIu64 "\n", findings_total(&bench->findings));
}

static cJSON *
json_results(const struct raw_bench *bench)
{
	const struct raw_options *options = &bench->options;
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "workload", "raw");
	cJSON_AddStringToObject(object, "fabric", bench->client && options->op != RAW_MEMCPY
			? nam_client_fabric(bench->client) : "none");
	cJSON_AddStringToObject(object, "op", raw_op_names[options->op]);
	cJSON_AddStringToObject(object, "loop",
		options->op == RAW_MEMCPY ? "copy" : raw_loop_names[options->loop]);
	report_number(object, "bytes", options->bytes);
	report_number(object, "depth", bench->depth);
	report_number(object, "threads", options->threads);
	report_number(object, "memservers", bench->client ? nam_client_servers(bench->client) : 0);
	report_number(object, "memory_bytes", bench->blocks.count
			? (double)(bench->blocks.count * bench->blocks.stride)
			: (double)(bench->arena.count * bench->arena.stride));
	if (bench->arena.count)
		cJSON_AddStringToObject(object, "copied_from_pages", bench->arena.pages);
	report_result(object, bench->result, findings_total(&bench->findings));
	if (options->compare) {
		report_number(object, "memcpy_ops_per_s", bench->copies->ops_per_s);
		report_number(object, "memcpy_depth", bench->copies_depth);
		report_number(object, "ratio", bench->ratio);
	}
	return object;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int
run(struct raw_bench *bench)
{
	const struct raw_options *options = &bench->options;
	int rc = 0;

	bench->depth = bench->copies_depth = options->depth;
	if (!options->depth) {
		rc = find_depth(bench, options->op, &bench->depth);
		if (!rc && options->compare)
			rc = find_depth(bench, RAW_MEMCPY, &bench->copies_depth);
	}
	if (!rc)
		rc = options->compare ? compare(bench)
				      : measure(bench, options->op, bench->depth, options->ops,
						options->seconds, bench->result);
	if (!rc && (options->op == RAW_WRITE || options->op == RAW_FAA)) {
		struct raw_spec spec = spec_of(bench, options->op, 1);

		rc = raw_verify(bench->pool, &spec, bench->ops);
	}
	return rc;
}

static int
report(const struct raw_bench *bench)
{
	int rc = 0;

	if (!bench->options.quiet)
		print_results(bench);
	if (bench->options.json) {
		cJSON *object = json_results(bench);

		rc = report_write(object, bench->options.json);
		cJSON_Delete(object);
	}
	return rc;
}

int
raw_main(int argc, char **argv)
{
	struct raw_bench bench = { 0 };
	int exit_code, rc;

	if (raw_options_parse(argc, argv, &bench.options, &exit_code))
		return exit_code;
	ticks_init();
	progress_init(bench.options.quiet);
	bench_catch_signals();
	exit_code = set_up(&bench);
	if (!exit_code) {
		rc = run(&bench);
		if (rc == -EINTR)
			exit_code = NAM_EXIT_SIGNAL + bench_signal;
		else if (rc && rc == bench.findings.fatal)
			exit_code = nam_exit_code(rc);	/* printed when it happened */
		else if (rc)
			exit_code = bench_failed("measuring", rc, NULL);
		if (rc != -EINTR && report(&bench) && !exit_code)
			exit_code = NAM_EXIT_NO;
		if (!exit_code && findings_total(&bench.findings))
			exit_code = NAM_EXIT_NO;
	}
	tear_down(&bench);
	return exit_code;
}
