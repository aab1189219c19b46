/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuckoo.c -- nam-bench cuckoo: the kick-outs of inserts at a load factor, by the engine cuckoo
 * (G-Cuckoo) and by a conventional table.  With --get-percent it takes times instead (mix.h).
 *
 * Tables have the size of a grown partition of 8 chunks.  Each is filled to the load factor, and
 * then takes new pairs for one slot in a hundred.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/options.h"
#include "kv/server/cuckoo.h"
#include "bench/bench.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/ticks.h"
#include "mix.h"
#include "plain.h"

#define CHUNKS TABLES_CHUNKS
#define SLOTS TABLES_SLOTS
#define COUNTED TABLES_COUNTED
#define CLASSES 12u			/* of kick-outs: 0, 1, 2-3 ... */
#define KICKS_MAX 1000u
#define TIMED_LOAD_FACTOR_MAX 0.93

enum scheme { SCHEME_GRAPH, SCHEME_PLAIN };

static const char *const schemes[] = { "graph", "plain", NULL };

static struct options {
	struct bench_options run;
	enum scheme scheme;
	double load_factor;
	uint32_t tables, bucket_slots, kicks_max;
	double get_percent, update_percent;
	bool timed;			/* get_percent was said */
} options;

static struct mix mix;			/* timed */

static struct {
	uint8_t *chunks[CHUNKS];
	struct nam__kv_partition partition;
	struct plain plain;
	uint32_t slots[SLOTS];		/* of plain; of graph the hashes before an insert */
	uint64_t pairs;
	uint32_t number;		/* of the next pair */
} table;

static struct {
	uint64_t pairs_before, pairs_after;	/* in the slots of all tables */
	uint64_t inserts, loops, stashed, kicks;
	uint64_t kicked[CLASSES];	/* inserts that found a slot */
} counts;

/* ---- G-Cuckoo ------------------------------------------------------------------------------ */

/* The slots whose pair is another one than before. */
static uint32_t
slots_changed(void)
{
	uint32_t changed = 0;

	for (uint32_t i = 0; i < SLOTS; i++) {
		const struct nam__cuckoo_slot *slot = nam__cuckoo_slot_at(&table.partition,
			NAM__CUCKOO_STASH_BUCKETS * NAM__CUCKOO_SLOTS + i);
		uint32_t hash = slot->lengths ? slot->hash : 0;

		changed += hash != table.slots[i];
		table.slots[i] = hash;
	}
	return changed;
}

/* @ret_kicks	NULL: they are not wanted, for to count them takes longer than the insert */
static bool
graph_insert(uint32_t hash, uint32_t *ret_kicks)
{
	uint32_t key[4] = { hash, table.number++ };
	uint32_t stashed = table.partition.cuckoo.stash_count;
	int rc = nam__kv_partition_put(&table.partition, hash, key, sizeof(key), NULL, 0);

	if (ret_kicks) {
		uint32_t changed = slots_changed();

		/* One of the changed slots is the new pair's. */
		*ret_kicks = changed ? changed - 1 : 0;
	}
	return !rc && table.partition.cuckoo.stash_count == stashed;
}

/* ---- both ---------------------------------------------------------------------------------- */

static void
table_begin(uint32_t number)
{
	memset(table.slots, 0, sizeof(table.slots));
	table.pairs = 0;
	table.plain = (struct plain){
		.slots = table.slots,
		.buckets = SLOTS / 2 / options.bucket_slots,
		.bucket_slots = options.bucket_slots,
		.kicks_max = options.kicks_max,
		.rng = nam_rng_seed(~(options.run.seed * 1000003 + number)),
	};
	if (options.scheme == SCHEME_GRAPH)
		tables_begin(&table.partition, table.chunks, NAM__HTM_NONE);
}

/* False: the pair has no slot. */
static bool
insert(struct nam_rng *rng, uint32_t *ret_kicks)
{
	uint32_t hash, unused;
	bool placed;

	do
		hash = (uint32_t)nam_rng_next(rng);
	while (!hash);
	placed = options.scheme == SCHEME_GRAPH ? graph_insert(hash, ret_kicks)
						: plain_insert(&table.plain, hash,
							  ret_kicks ? ret_kicks : &unused);
	table.pairs += placed;
	return placed;
}

static void
table_run(uint32_t number)
{
	struct nam_rng rng = nam_rng_seed(options.run.seed * 1000003 + number);
	double most = options.load_factor * SLOTS;
	uint64_t loops;
	uint32_t stashed, kicks;

	table_begin(number);
	/* Near the threshold inserts fail: then it stays below. */
	for (uint32_t i = 0; i < 2 * SLOTS && (double)table.pairs < most; i++)
		(void)insert(&rng, NULL);
	if (options.scheme == SCHEME_GRAPH)
		(void)slots_changed();
	counts.pairs_before += table.pairs;
	loops = table.partition.counts.loops;
	stashed = table.partition.cuckoo.stash_count;
	for (uint32_t i = 0; i < COUNTED; i++) {
		bool placed = insert(&rng, &kicks);
		uint32_t class = kicks ? 32 - (uint32_t)__builtin_clz(kicks) : 0;

		counts.inserts++;
		counts.kicks += kicks;
		counts.loops += !placed && options.scheme == SCHEME_PLAIN;
		counts.kicked[class] += placed;
	}
	counts.pairs_after += table.pairs;
	if (options.scheme == SCHEME_GRAPH) {
		counts.loops += table.partition.counts.loops - loops;
		counts.stashed += table.partition.cuckoo.stash_count - stashed;
	}
}

/* ---- options and results ------------------------------------------------------------------- */

#define FIELD(field) NAM_OPTION_FIELD(struct options, field)

static const struct nam_option rows[] = {
	{ "scheme", "S", "graph (default): the engine cuckoo, which predicts loops; or plain: "
		"kick-outs at random until one finds a free slot.", NAM_OPTION_CHOICE,
		FIELD(scheme), .choices = schemes },
	{ "load-factor", "F", "Count inserts from this share of occupied slots on (default 0.9).",
		NAM_OPTION_REAL, FIELD(load_factor), .high = 1 },
	{ "tables", "N", "Pairs of tables, of 4088 slots each (default 100).", NAM_OPTION_COUNT,
		FIELD(tables), .min = 1, .max = 1000000 },
	{ "bucket-slots", "N", "Slots of a bucket of plain, 1 to 8 (default 4, as graph has).",
		NAM_OPTION_COUNT, FIELD(bucket_slots), .min = 1, .max = 8 },
	{ "kicks-max", "N", "Kick-outs after which an insert of plain fails, 1 to 1000 (default "
		"500).", NAM_OPTION_COUNT, FIELD(kicks_max), .min = 1, .max = KICKS_MAX },
	{ "get-percent", "P", "Instead of counts: times of operations of which so many per cent "
		"read, by turns of graph, plain, and graph with hardware transactions. The others "
		"insert.", NAM_OPTION_REAL, FIELD(get_percent),
		.set = offsetof(struct options, timed), .high = 100 },
	{ "update-percent", "P", "With --get-percent: so many per cent update (default 0).",
		NAM_OPTION_REAL, FIELD(update_percent), .high = 100 },
	BENCH_OUTPUT,
	{ 0 },
};

static const struct nam_options_table options_table = {
	.program = "nam-bench cuckoo", .usage = "", .rows = rows,
	.purpose = "Count kick-outs and loops of inserts into cuckoo tables, in this process.",
	.after = NAM_EXIT_HELP,
};

static double
per_insert(uint64_t count)
{
	return (double)count / (double)counts.inserts;
}

static double
load_factor(uint64_t pairs)
{
	return (double)pairs / (double)options.tables / SLOTS;
}

static void
print(void)
{
	report_heading("cuckoo");
	printf("  tables      %s, %u of %u slots, %u a bucket\n", schemes[options.scheme],
		options.tables, SLOTS, options.bucket_slots);
	printf("  load factor %.4f at the beginning, %.4f at the end\n",
		load_factor(counts.pairs_before), load_factor(counts.pairs_after));
	printf("  inserts     %" PRIu64 ", %.4g %% %s", counts.inserts,
		100 * per_insert(counts.loops), options.scheme == SCHEME_PLAIN ?
		"gave up" : "predicted to loop");
	if (options.scheme == SCHEME_GRAPH)
		printf(", %.4g %% in the stash", 100 * per_insert(counts.stashed));
	printf("\n  kick-outs   %.4g per insert; of those with a slot", per_insert(counts.kicks));
	report_print_powers(counts.kicked, CLASSES);
}

static void
print_times(void)
{
	report_heading("cuckoo");
	printf("  tables      %u of %u slots, 4 a bucket, filled to %g\n", options.tables, SLOTS,
		options.load_factor);
	printf("  operations  %g %% GET, %g %% UPDATE; the rest INSERT; one thread\n",
		options.get_percent, options.update_percent);
	printf("  graph       %.1f ns\n  plain       %.1f ns, %.3f times\n", mix.ns[MIX_GRAPH],
		mix.ns[MIX_PLAIN], mix.plain_ratio);
	if (mix.ns[MIX_HTM] > 0)
		printf("  graph, HTM  %.1f ns, %.3f times; %" PRIu64 " transactions committed, and "
			"%" PRIu64 " times the lock was taken\n", mix.ns[MIX_HTM], mix.htm_ratio,
			mix.htm_counts.commits, mix.htm_counts.fallbacks);
	printf("  errors      %" PRIu64 "\n", mix.failed);
}

static void
json_times(cJSON *object)
{
	report_number(object, "get_percent", options.get_percent);
	report_number(object, "update_percent", options.update_percent);
	report_number(object, "ops", (double)mix.ops);
	report_number(object, "errors", (double)mix.failed);
	report_number(object, "graph_ns", mix.ns[MIX_GRAPH]);
	report_number(object, "plain_ns", mix.ns[MIX_PLAIN]);
	report_number(object, "plain_ratio", mix.plain_ratio);
	cJSON_AddStringToObject(object, "htm", nam__htm_name(mix.htm));
	if (mix.htm == NAM__HTM_NONE)
		return;
	report_number(object, "htm_ns", mix.ns[MIX_HTM]);
	report_number(object, "htm_ratio", mix.htm_ratio);
	report_number(object, "htm_commits", (double)mix.htm_counts.commits);
	report_number(object, "htm_fallbacks", (double)mix.htm_counts.fallbacks);
}

static void
json_counts(cJSON *object)
{
	cJSON_AddStringToObject(object, "scheme", schemes[options.scheme]);
	report_number(object, "bucket_slots", options.bucket_slots);
	report_number(object, "load_factor", load_factor(counts.pairs_before));
	report_number(object, "load_factor_end", load_factor(counts.pairs_after));
	report_number(object, "ops", (double)counts.inserts);
	report_number(object, "loops", (double)counts.loops);
	report_number(object, "loops_share", per_insert(counts.loops));
	report_number(object, "stashed", (double)counts.stashed);
	report_number(object, "kicks_per_op", per_insert(counts.kicks));
	report_powers(object, "kicked", counts.kicked, CLASSES);
}

static int
json(void)
{
	cJSON *object = cJSON_CreateObject();
	int rc;

	cJSON_AddStringToObject(object, "workload", "cuckoo");
	report_number(object, "tables", options.tables);
	report_number(object, "slots", SLOTS);
	report_number(object, "kicks_max", options.kicks_max);
	if (options.timed)
		json_times(object);
	else
		json_counts(object);
	rc = report_write(object, options.run.json);
	cJSON_Delete(object);
	return rc ? NAM_EXIT_NO : NAM_EXIT_OK;
}

static int
run_times(void)
{
	int rc;

	mix = (struct mix){ .load_factor = options.load_factor, .seed = options.run.seed,
		.get_percent = options.get_percent, .update_percent = options.update_percent,
		.tables = options.tables, .kicks_max = options.kicks_max };
	rc = mix_run(&mix, table.chunks);
	if (rc == -ENOMEM)
		return bench_failed("making tables", rc, NULL);
	if (rc)
		return NAM_EXIT_SIGNAL + bench_signal;
	if (mix.failed)
		bench_complain("%" PRIu64 " operations failed", mix.failed);
	return mix.failed ? NAM_EXIT_NO : NAM_EXIT_OK;
}

static int
tables_run(void)
{
	int exit_code = NAM_EXIT_OK;
	uint32_t i = 0;

	while (i < CHUNKS && (table.chunks[i] = aligned_alloc(64, NAM__KV_CHUNK_BYTES)) != NULL)
		i++;
	if (i < CHUNKS)
		exit_code = bench_failed("making tables", -ENOMEM, NULL);
	else if (options.timed)
		exit_code = run_times();
	for (i = 0; i < options.tables && !exit_code && !options.timed; i++) {
		table_run(i);
		if (bench_signal)
			exit_code = NAM_EXIT_SIGNAL + bench_signal;
	}
	for (i = 0; i < CHUNKS; i++)
		free(table.chunks[i]);
	return exit_code;
}

static int
resolve(void)
{
	if (options.scheme == SCHEME_GRAPH && options.bucket_slots != NAM__CUCKOO_SLOTS)
		return bench_complain("--bucket-slots: buckets of --scheme graph have %u slots",
			NAM__CUCKOO_SLOTS);
	if (options.timed && options.load_factor > TIMED_LOAD_FACTOR_MAX)
		return bench_complain("--get-percent: with --load-factor %g at most, for every "
			"pair has to find a slot", TIMED_LOAD_FACTOR_MAX);
	if (options.get_percent + options.update_percent > 100)
		return bench_complain("--get-percent %g and --update-percent %g: together they are "
			"more than 100", options.get_percent, options.update_percent);
	return 0;
}

int
cuckoo_main(int argc, char **argv)
{
	int exit_code;

	options = (struct options){ .run = { .seed = 1 }, .load_factor = 0.9, .tables = 100,
		.bucket_slots = 4, .kicks_max = 500 };
	if (!nam__options_take(&options_table, argc, argv, &options, &exit_code))
		return exit_code;
	if (bench_options_resolve(&options.run, NULL, 0, 0, 0))
		return NAM_EXIT_USAGE;
	if (resolve())
		return NAM_EXIT_USAGE;
	bench_catch_signals();
	if (options.timed)
		ticks_init();
	exit_code = tables_run();
	if (exit_code)
		return exit_code;
	if (!options.run.quiet && options.timed)
		print_times();
	else if (!options.run.quiet)
		print();
	return options.run.json ? json() : NAM_EXIT_OK;
}
