/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c -- nam-bench raw: find the best depth, measure, check, report. */
#include <errno.h>
#include <inttypes.h>

#include "bench/bench.h"
#include "bench.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/text.h"
#include "bench/ticks.h"
#include "common/rpc/rpc.h"
#include "run.h"

#define DEPTHS_COUNT 10u
#define DEPTH_PASSES 2u
#define SEARCH_SECONDS 0.1
#define ROUNDS 15u		/* short ones: moods of a shared machine last longer */

static const uint32_t depths[DEPTHS_COUNT] = { 1, 2, 4, 8, 12, 16, 20, 24, 32, 64 };

struct raw_options {
	struct bench_options run;
	enum raw_op op;
	enum raw_loop loop;
	uint32_t bytes;
	uint32_t depth;		/* 0: find the best */
	uint64_t memory_bytes;		/* 0: not said */
	enum arena_pages pages;	/* of copies */
	bool compare;
};

struct raw_bench {
	struct raw_options options;
	struct blocks blocks;
	struct arena arena;
	uint64_t ops;			/* of all measurements, for raw_verify() */
	double copies_per_s, ratio;	/* --compare: of memcpy, and of READs to that */
	uint32_t depth, copies_depth;
};

/* ---- options ------------------------------------------------------------------------------ */

static const char *const pages[] = { "2M", "thp", "4k", NULL };	/* enum arena_pages */

#define FIELD(field) NAM_OPTION_FIELD(struct raw_options, field)

static const struct nam_option rows[] = {
	BENCH_CLUSTER,
	{ "op", "OP", "The request: read (default), write, cas, faa or send; or memcpy: prefetched "
		"copies out of local memory with the same pages as the servers'.",
		NAM_OPTION_CHOICE, FIELD(op), .choices = raw_op_names },
	{ "bytes", "N", "The size of a request: a multiple of 8 (default 1024; send: 64; cas and "
		"faa: always 8).", NAM_OPTION_COUNT, FIELD(bytes), .min = 8, .max = 1u << 20 },
	{ "depth", "N", "Requests in flight per thread, 1 to 512. The default, 0, tries depths "
		"from 1 to 64, prints the table and takes the best.", NAM_OPTION_COUNT,
		FIELD(depth), .max = RAW_DEPTH_MAX },
	{ "loop", "LOOP", "How they are kept in flight: window (default) replaces each finished "
		"request at once. fibers runs as many fibers with one request each. batch posts "
		"all behind one doorbell per memory server and waits for all.", NAM_OPTION_CHOICE,
		FIELD(loop), .choices = raw_loop_names },
	BENCH_LENGTH("2"),
	{ "memory", "SIZE", "How much remote memory to touch (default 512M, or a quarter of what "
		"is left). Memory that has been cut into blocks of this size serves no other size "
		"until the memory servers are restarted.", NAM_OPTION_BYTES, FIELD(memory_bytes),
		.min = 1 << 20, .max = 1ull << 46 },
	{ "compare", NULL, "Run read and memcpy by turns, and print the ratio of their rates.",
		NAM_OPTION_FLAG, FIELD(compare) },
	{ "pages", "KIND", "For memcpy without a cluster: 2M, thp (default) or 4k.",
		NAM_OPTION_CHOICE, FIELD(pages), .choices = pages },
	BENCH_OUTPUT,
	{ 0 },
};

static const struct nam_options_table options_table = {
	.program = "nam-bench raw",
	.usage = "--cluster CLUSTER",
	.purpose = "Measure the fabric itself: one kind of request on random blocks, closed loop.",
	.after = NAM_EXIT_HELP,
	.rows = rows,
};

static int
resolve(void *options)
{
	struct raw_options *o = options;

	if (!o->bytes)
		o->bytes = o->op == RAW_CAS || o->op == RAW_FAA ? 8 : o->op == RAW_SEND ? 64 : 1024;
	if (o->bytes % 8)
		return bench_complain("--bytes: %u is not a multiple of 8", o->bytes);
	if ((o->op == RAW_CAS || o->op == RAW_FAA) && o->bytes != 8)
		return bench_complain("--bytes: atomics are 8 bytes long; leave --bytes away");
	if (o->op == RAW_SEND && o->bytes > NAM_RPC_BODY_MAX)
		return bench_complain("--bytes: a message has room for %u bytes",
			NAM_RPC_BODY_MAX & ~7u);
	if (o->loop == RAW_BATCH && o->depth > NAM_BATCH_MAX)
		return bench_complain("--depth: a batch has room for %u requests", NAM_BATCH_MAX);
	if (o->compare && o->op != RAW_READ && o->op != RAW_MEMCPY)
		return bench_complain("--compare compares read with memcpy; leave --op away");
	if (o->compare)
		o->op = RAW_READ;
	if (simulation_wanted(o->run.cluster))
		return bench_complain("--cluster %s: raw knows no simulated clusters",
			o->run.cluster);
	return bench_options_resolve(&o->run, o->op == RAW_MEMCPY ? NULL : "raw", 2, 0, 0);
}

static struct result turn;		/* the last one */

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
		.seed = bench->options.run.seed,
	};
}

static int
measure(struct raw_bench *bench, enum raw_op op, uint32_t depth, uint64_t ops, double seconds,
	struct result *result)
{
	struct raw_spec spec = spec_of(bench, op, depth);
	int rc = raw_run(&spec, ops, seconds, result);

	if (op == bench->options.op)
		bench->ops += result->ops;
	if (!rc && bench_signal)
		return -EINTR;
	return rc ? rc : findings.fatal;
}

/* Every depth for a moment, more than once; the best one goes to *ret_depth. */
static int
find_depth(struct raw_bench *bench, enum raw_op op, uint32_t *ret_depth)
{
	uint32_t depth_max = bench->options.loop == RAW_BATCH && op != RAW_MEMCPY ? NAM_BATCH_MAX
										   : 64;
	double rates[DEPTHS_COUNT] = { 0 }, seconds = bench->options.run.seconds / 8;
	unsigned best = 0, count = 0;
	int rc = 0;

	if (seconds > 0.25)
		seconds = 0.25;
	while (count < DEPTHS_COUNT && depths[count] <= depth_max)
		count++;
	/* Passes over all depths; the best rate of each stays. */
	for (unsigned i = 0; i < DEPTH_PASSES * count && !rc; i++) {
		rc = measure(bench, op, depths[i % count], 0, seconds / DEPTH_PASSES, &turn);
		if (!rc && turn.ops_per_s > rates[i % count])
			rates[i % count] = turn.ops_per_s;
	}
	if (rc)
		return rc;
	if (!bench->options.run.quiet)
		printf("%s: requests per second at depth\n", raw_op_names[op]);
	for (unsigned i = 0; i < count; i++) {
		best = rates[i] > rates[best] ? i : best;
		if (!bench->options.run.quiet)
			printf("  %3u  %8s/s\n", depths[i], text_count(rates[i]));
	}
	*ret_depth = depths[best];
	return 0;
}

/* READs and copies by turns, so that both meet the same moods of the machine. */
static int
compare(struct raw_bench *bench)
{
	double reads[ROUNDS], copies[ROUNDS], ratios[ROUNDS];
	double seconds = bench->options.run.seconds / (2 * ROUNDS);
	struct result *sum = &session.result;
	int rc;

	for (unsigned i = 0; i < ROUNDS; i++) {
		rc = measure(bench, RAW_READ, bench->depth, 0, seconds, &turn);
		if (rc)
			return rc;
		reads[i] = turn.ops_per_s;
		sum->ops += turn.ops;
		sum->seconds += turn.seconds;
		sum->cpu_seconds += turn.cpu_seconds;
		histogram_merge(&sum->latency, &turn.latency);
		nam_op_counters_add(&sum->counters, &turn.counters);
		rc = measure(bench, RAW_MEMCPY, bench->copies_depth, 0, seconds, &turn);
		if (rc)
			return rc;
		copies[i] = turn.ops_per_s;
		ratios[i] = reads[i] / copies[i];
	}
	if (!bench->options.run.quiet) {
		report_heading("round     read/s   memcpy/s   ratio");
		for (unsigned i = 0; i < ROUNDS; i++)
			printf("  %3u  %9s  %9s  %6.3f\n", i + 1, text_count(reads[i]),
				text_count(copies[i]), ratios[i]);
	}
	bench->ratio = report_median(ratios, ROUNDS);
	sum->ops_per_s = report_median(reads, ROUNDS);
	bench->copies_per_s = report_median(copies, ROUNDS);
	return 0;
}

/* The rate of READs of whole blocks in a rolling window, on every thread. */
static int
read_rate(const struct raw_turns *turns, const struct blocks *blocks, uint32_t depth,
	double seconds, uint64_t seed, double *ret_rate)
{
	struct raw_spec spec = {
		.op = RAW_READ,
		.loop = RAW_WINDOW,
		.bytes = blocks->bytes,
		.depth = depth,
		.blocks = blocks,
		.seed = seed,
	};
	int rc = raw_run(&spec, 0, seconds, &turn);

	if (!rc)
		*ret_rate = (double)turn.ops / (turns->per_cpu ? turn.cpu_seconds : turn.seconds);
	return rc ? rc : findings.fatal;
}

static int
take_turns(struct raw_turns *turns, const struct blocks *blocks)
{
	double rates[RAW_TURNS], raw_rates[RAW_TURNS], ratios[RAW_TURNS], best = 0, rate;
	int rc = raw_blocks_fill(blocks);

	for (uint32_t depth = 4; depth <= 64 && !rc; depth *= 2) {
		rc = read_rate(turns, blocks, depth, SEARCH_SECONDS, turns->seed, &rate);
		if (rc || rate <= best)
			continue;
		best = rate;
		turns->raw_depth = depth;
	}
	for (unsigned i = 0; i < RAW_TURNS && !rc && !bench_signal; i++) {
		rates[i] = turns->turn(turns->arg, i);
		rc = findings.fatal;
		if (!rc)
			rc = read_rate(turns, blocks, turns->raw_depth, turns->seconds,
				turns->seed + i, &raw_rates[i]);
		ratios[i] = rates[i] / raw_rates[i];
	}
	if (rc || bench_signal)
		return rc;
	turns->ratio = report_median(ratios, RAW_TURNS);
	turns->raw_rate = report_median(raw_rates, RAW_TURNS);
	turns->rate = report_median(rates, RAW_TURNS);
	return 0;
}

int
raw_turns_run(struct raw_turns *turns)
{
	struct nam_diag diag = { "" };
	struct blocks blocks;
	int rc = blocks_alloc(session_worker(), nam_client_servers(session.client), turns->bytes,
		turns->memory_bytes, &blocks, &diag);

	if (!rc) {
		rc = take_turns(turns, &blocks);
		blocks_free(&blocks);
	}
	if (rc && rc != findings.fatal)
		(void)bench_failed("--raw-ratio", rc, diag.text);
	return rc;
}

/* ---- setting up --------------------------------------------------------------------------- */

/* Memory like the first server's, so that copies are compared fairly. */
static int
ask_pages(struct raw_bench *bench)
{
	struct nam_server_status status;
	int rc;

	if (!session.client)
		return 0;
	rc = nam_server_status_get(session_worker(), 0, &status);
	if (rc)
		return rc;
	bench->options.pages = status.page_bytes >= 2u << 20 ? ARENA_2M
			       : status.transparent_huge     ? ARENA_THP
							     : ARENA_4K;
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
		rc = blocks_alloc(session_worker(),
			nam_client_servers(session.client), options->bytes, options->memory_bytes,
			&bench->blocks, diag);
		if (rc)
			return rc;
		rc = raw_blocks_fill(&bench->blocks);
		count = bench->blocks.count;
	}
	if (!rc && (options->op == RAW_MEMCPY || options->compare))
		rc = arena_map(options->bytes, count ? count : 1, options->pages, &bench->arena);
	return rc;
}

static int
set_up(void *bench)
{
	struct nam_diag diag = { "" };
	int rc = set_up_memory(bench, &diag);

	return rc ? bench_failed("preparing the memory", rc, diag.text) : NAM_EXIT_OK;
}

static void
tear_down(void *arg)
{
	struct raw_bench *bench = arg;

	if (bench->blocks.all)
		blocks_free(&bench->blocks);
	arena_unmap(&bench->arena);
}

/* ---- reporting ---------------------------------------------------------------------------- */

static void
print(void *arg)
{
	const struct raw_bench *bench = arg;
	const struct raw_options *options = &bench->options;
	const struct result *result = &session.result;
	struct per_op per_op = per_op_of(&result->counters, (double)result->ops);

	report_heading("raw");
	printf("  operation   %s of %u bytes, %s, depth %u, %u thread%s\n",
		raw_op_names[options->op], options->bytes,
		options->op == RAW_MEMCPY ? "loop" : raw_loop_names[options->loop], bench->depth,
		options->run.threads, options->run.threads == 1 ? "" : "s");
	if (bench->blocks.count)
		printf("  memory      %s in %" PRIu64 " blocks on %u memory servers\n",
			text_bytes((double)(bench->blocks.count * bench->blocks.stride)),
			bench->blocks.count, nam_client_servers(session.client));
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
			text_count(bench->copies_per_s), bench->copies_depth, bench->ratio,
			ROUNDS);
	printf("  errors      %" PRIu64 "\n", findings_total());
}

static void
json(void *arg, cJSON *object)
{
	const struct raw_bench *bench = arg;
	const struct raw_options *options = &bench->options;

	cJSON_AddStringToObject(object, "workload", "raw");
	cJSON_AddStringToObject(object, "fabric", session.client && options->op != RAW_MEMCPY
			? nam_client_fabric(session.client) : "none");
	cJSON_AddStringToObject(object, "op", raw_op_names[options->op]);
	cJSON_AddStringToObject(object, "loop",
		options->op == RAW_MEMCPY ? "copy" : raw_loop_names[options->loop]);
	report_number(object, "bytes", options->bytes);
	report_number(object, "depth", bench->depth);
	report_number(object, "threads", options->run.threads);
	report_number(object, "memservers",
		session.client ? nam_client_servers(session.client) : 0);
	report_number(object, "memory_bytes", bench->blocks.count
			? (double)(bench->blocks.count * bench->blocks.stride)
			: (double)(bench->arena.count * bench->arena.stride));
	if (bench->arena.count)
		cJSON_AddStringToObject(object, "copied_from_pages", bench->arena.pages);
	if (options->compare) {
		report_number(object, "memcpy_ops_per_s", bench->copies_per_s);
		report_number(object, "memcpy_depth", bench->copies_depth);
		report_number(object, "ratio", bench->ratio);
	}
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int
run_all(struct raw_bench *bench)
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
				      : measure(bench, options->op, bench->depth, options->run.ops,
						options->run.seconds, &session.result);
	if (!rc && (options->op == RAW_WRITE || options->op == RAW_FAA)) {
		struct raw_spec spec = spec_of(bench, options->op, 1);

		rc = raw_verify(&spec, bench->ops);
	}
	return rc;
}

static int
run(void *arg)
{
	int rc = run_all(arg);

	/* A run that was interrupted has no result. */
	if (rc == -EINTR)
		session.result.ops = 0;
	else if (rc && rc != findings.fatal)
		return bench_failed("measuring", rc, NULL);
	return nam_exit_code(rc);	/* printed when it happened */
}

int
raw_main(int argc, char **argv)
{
	static const struct session_steps steps = {
		&options_table, resolve, set_up, run, print, json, tear_down
	};
	static struct raw_bench bench = {
		.options = {
			.run = { .threads = 1, .fibers = RAW_DEPTH_MAX, .seed = 1 },
			.pages = ARENA_THP,
		},
	};

	return session_main(&steps, argc, argv, &bench);
}
