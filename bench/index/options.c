/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <string.h>

#include "bench/bench.h"
#include "design.h"
#include "bench/load/keys.h"
#include "bench/options.h"
#include "bench/simulation.h"

#define SECONDS_DEFAULT 5.0
#define SECONDS_SIMULATED 0.005
#define MEMSERVERS_DEFAULT 2u

/* As given; the checks need all of them. */
struct given {
	struct index_bench_options o;	/* first, for the shared rows */
	const char *workload, *mix;
	enum distribution distribution;
	double selectivity, cache_mb;
	uint32_t scan_length;
	uint32_t duplicates;
	bool non_unique, duplicates_set, distribution_set;
};

static const char *const load_methods[] = { "bulk", "insert", "none", NULL };

static int
take_shares(void *options, const char *text, struct nam_diag *diag)
{
	return index_shares_parse(text, &((struct given *)options)->o, diag);
}

#define FIELD(field) NAM_OPTION_FIELD(struct given, field)
#define SET(field) .set = offsetof(struct given, field)

static const struct nam_option rows[] = {
	{ .help = "The work:" }, { "workload", "W", "ycsb-a to ycsb-f are those of YCSB; nam-a "
		"(default) is point lookups, nam-b scans, nam-c 95 % lookups and 5 % inserts, "
		"nam-d half and half, all uniform, as in the paper on distributed trees. tree-a to "
		"tree-d are other names of the latter.", NAM_OPTION_TEXT, FIELD(workload) },
	{ "mix", "SHARES", "Instead, shares of lookup, insert, update, upsert, delete, scan and "
		"rmw: lookup=95,insert=5.", NAM_OPTION_TEXT, FIELD(mix) },
	{ "distribution", "D", "uniform, zipfian or latest, instead of the workload's own.",
		NAM_OPTION_CHOICE, FIELD(distribution), SET(distribution_set),
		.choices = distribution_names },
	{ "theta", "X", "The skew of zipfian and latest, between 0 and 1 (default 0.99).",
		NAM_OPTION_REAL, FIELD(o.theta), .low = 0.001, .high = 0.999 },
	{ "selectivity", "S", "Scans cover this share of the key space (nam-b: 0.001).",
		NAM_OPTION_REAL, FIELD(selectivity), .low = 1e-12, .high = 1 },
	{ "scan-length", "N", "Scans cover N entries (default 100; ycsb-e: uniform in 1 to N).",
		NAM_OPTION_COUNT, FIELD(scan_length), .min = 1, .max = 1u << 30 },
	{ "reverse", NULL, "Scans go downwards.", NAM_OPTION_FLAG, FIELD(o.reverse) },
	{ "copy", NULL, "Scans copy their entries out, instead of looking at them where they are. "
		"Simulated scans are charged for a copy in any case.", NAM_OPTION_FLAG,
		FIELD(o.copy) },
	BENCH_LENGTH("5; simulated: 0.005"),
	BENCH_FIBERS("Fibers of a thread (default 16). Up to 64 take "
		"less than 4 MiB beyond the cache, or about 8 MiB with nodes of 16 KiB. Each "
		"further one takes up to 64 KiB, or 128 KiB."),
	{ "batch", "N", "Look up N keys with each call of nam_index_lookup_many (default 1: "
		"nam_index_lookup).", NAM_OPTION_COUNT, FIELD(o.batch), .min = 1,
		.max = INDEX_BATCH_MAX },
	{ "warmup", "N", "Lookups before measuring begins (default: enough to fill the cache, for "
		"at most 5 s; none without a cache).",
		NAM_OPTION_COUNT, FIELD(o.warmup), .max = UINT64_MAX / 2 },
	{ "slices", "N", "Divide the time of the run into N slices and print the rate of each.",
		NAM_OPTION_COUNT, FIELD(o.slices), .min = 1, .max = 100000 },
	{ .help = "The cluster:" },
	BENCH_CLUSTER,
	BENCH_TRANSPORT,
	BENCH_SIMULATED("2", 4000),
	{ "colocate", NULL, "Simulated: clients run on the machines of the memory servers, by "
		"turns, and READ the memory there without a network card.", NAM_OPTION_FLAG,
		FIELD(o.run.colocate) },
	{ "grow", "N", "Simulated: add memory servers during the run until there are N. The run "
		"has equal parts; after each, as many are added as there are.", NAM_OPTION_COUNT,
		FIELD(o.grow), .min = 2, .max = SIMULATION_MEMSERVERS_MAX },
	{ .help = "The index:" },
	{ "design", "DESIGN", "fine (default): one tree over all memory servers, which clients "
		"read and write; coarse: a tree on each memory server, which searches it; hybrid: "
		"leaves as fine, the levels above as coarse.", NAM_OPTION_CHOICE,
		FIELD(o.index.design), SET(o.design_set), .min = NAM_DESIGN_FINE,
		.choices = index_designs },
	{ "index", "DESIGN", "The same as --design.", NAM_OPTION_CHOICE, FIELD(o.index.design),
		SET(o.design_set), .min = NAM_DESIGN_FINE, .choices = index_designs },
	{ "partition", "HOW", "Which memory server keeps a key of a coarse or hybrid index: range "
		"(default), hash or round-robin.", NAM_OPTION_CHOICE, FIELD(o.index.partitioning),
		SET(o.partitioning_set), .min = NAM_PARTITION_RANGE,
		.choices = index_partitionings },
	{ "shares", "LIST", "By range: the per cent of the loaded keys that each memory server "
		"keeps, in the order of their ids: 80,12,5,3 (default: all alike).",
		NAM_OPTION_CALL, .take = take_shares },
	{ "keys", "N", "Pairs to load (default 1M).", NAM_OPTION_COUNT, FIELD(o.keys), .min = 1,
		.max = 1ull << 40 },
	{ "load", "METHOD", "bulk (default), insert, or none: use the index that a run with --keep "
		"and the same --keys left behind. An option that contradicts this index is an "
		"error.", NAM_OPTION_CHOICE, FIELD(o.load), .choices = load_methods },
	{ "fill", "PERCENT", "How full bulk load makes the leaves, 50 to 100 (default 92).",
		NAM_OPTION_COUNT, FIELD(o.fill_percent), .min = 50, .max = 100 },
	{ "key-bytes", "N", "The size of keys, 8 (default) to 64.", NAM_OPTION_COUNT,
		FIELD(o.index.key_bytes), .min = NAM_KEY_BYTES_MIN, .max = NAM_KEY_BYTES_MAX },
	{ "non-unique", NULL, "Keys occur more than once.", NAM_OPTION_FLAG, FIELD(non_unique) },
	{ "duplicates", "N", "Keys occur N times; a power of two up to 4096 (default 4).",
		NAM_OPTION_COUNT, FIELD(duplicates), SET(duplicates_set), .min = 1,
		.max = 1u << KEYS_DUP_SHIFT_MAX },
	{ "node-bytes", "N", "The size of a node, a power of two from 256 to 16k (default 1k).",
		NAM_OPTION_BYTES, FIELD(o.index.node_bytes), SET(o.node_bytes_set),
		.min = NAM_NODE_BYTES_MIN, .max = NAM_NODE_BYTES_MAX },
	{ "head-interval", "N", "Leaves per head node; 0: no head nodes (default 32).",
		NAM_OPTION_COUNT, FIELD(o.index.head_interval), SET(o.head_interval_set),
		.max = 1u << 20 },
	{ "cache-mb", "N", "The budget of the cache of inner nodes, in MiB (default 64); 0.25 is "
		"as good. A coarse-grained index has no cache.", NAM_OPTION_REAL, FIELD(cache_mb),
		SET(o.cache_set), .high = 1u << 20 },
	{ "name", "NAME", "The name of the index (default: one of its own).", NAM_OPTION_TEXT,
		FIELD(o.name) },
	{ "keep", NULL, "Do not drop the index at the end.", NAM_OPTION_FLAG, FIELD(o.keep) },
	{ .help = "Checks and output:" },
	{ "verify", NULL, "At the end, check the tree's invariants and its whole content.",
		NAM_OPTION_FLAG, FIELD(o.verify) },
	{ "collect", NULL, "A garbage collector works in the background.", NAM_OPTION_FLAG,
		FIELD(o.collect) },
	{ "raw-ratio", NULL, "By turns with READs of one node; print the ratio of their rates.",
		NAM_OPTION_FLAG, FIELD(o.raw_ratio) },
	BENCH_OUTPUT,
	{ 0 },
};

static const struct nam_options_table table = {
	.program = "nam-bench index",
	.usage = "--cluster CLUSTER",
	.purpose = "Measure an index under load.  Every answer is checked against what was loaded.",
	.after = NAM_EXIT_HELP,
	.rows = rows,
};

static int
settle_workload(struct given *g)
{
	struct workload *workload = &g->o.workload;
	struct nam_diag diag = { "" };
	int rc;

	if (g->workload && g->mix)
		return bench_complain("--workload and --mix: say one of them");
	if (g->mix)
		rc = workload_parse_mix(g->mix, workload, &diag);
	else
		rc = workload_find(g->workload ? g->workload : "nam-a", workload, &diag);
	if (rc)
		return bench_complain("--%s: %s", g->mix ? "mix" : "workload", diag.text);
	if (g->distribution_set)
		workload->distribution = g->distribution;
	if (g->selectivity > 0 && g->scan_length)
		return bench_complain("--selectivity and --scan-length: say one of them");
	if (g->scan_length) {
		workload->scan_length = g->scan_length;
		workload->selectivity = 0;
	}
	if (g->selectivity > 0)
		workload->selectivity = g->selectivity;
	return 0;
}

static int
settle(struct given *g)
{
	struct index_bench_options *o = &g->o;

	if (settle_workload(g))
		return -1;
	if (g->non_unique || g->duplicates_set) {
		if (g->duplicates & (g->duplicates - 1))
			return bench_complain("--duplicates: %u is not a power of two",
				g->duplicates);
		o->index.unique = false;
		o->dup_shift = (unsigned)__builtin_ctz(g->duplicates);
		if (o->workload.share[OP_UPDATE] > 0 || o->workload.share[OP_RMW] > 0)
			return bench_complain("--non-unique: update and rmw replace the one "
				"payload of a key, so they need a unique index");
	}
	if (o->load == LOAD_NONE && !o->name)
		return bench_complain("--load none: which index?  Say --name");
	if (o->fill_percent && o->load != LOAD_BULK)
		return bench_complain("--fill: only with --load bulk; %s", o->load == LOAD_NONE ?
			"the index is there already, with leaves as full as they are" :
			"inserts leave leaves as full as splits make them");
	if (index_design_settle(o))
		return -1;
	if (bench_options_settle(&o->run, "index", SECONDS_DEFAULT, SECONDS_SIMULATED,
		    MEMSERVERS_DEFAULT))
		return -1;
	if ((o->slices || o->grow) && (o->run.ops || o->raw_ratio))
		return bench_complain("%s: not with %s, for the run's time is divided",
			o->slices ? "--slices" : "--grow", o->run.ops ? "--ops" : "--raw-ratio");
	if (!simulation_wanted(o->run.cluster))
		return !o->grow ? 0 : bench_complain("--grow: only with --cluster sim:PROFILE, a "
			"simulated cluster; to real ones 'namctl server add' adds memory servers");
	if (o->grow && o->grow <= o->run.memservers)
		return bench_complain("--grow: there are %u memory servers from the beginning",
			o->run.memservers);
	o->run.memservers_most = o->grow;
	if (o->keep || o->load == LOAD_NONE)
		return bench_complain("%s: a simulated cluster ends with the run",
			o->keep ? "--keep" : "--load none");
	if (o->shares_count && o->shares_count != o->run.memservers)
		return bench_complain("--shares: %u shares for %u memory servers", o->shares_count,
			o->run.memservers);
	return 0;
}

void
index_options_init(struct index_bench_options *options)
{
	*options = (struct index_bench_options){
		.theta = 0.99,
		.keys = 1000000,
		.run = { .threads = 1, .fibers = 16, .seed = 1 },
		.batch = 1,
		.cache_bytes = 64u << 20,
		.warmup = UINT64_MAX,
	};
	nam_index_options_init(&options->index);
}

int
index_options_parse(int argc, char **argv, struct index_bench_options *ret_options, int *ret_exit)
{
	struct given given = { .duplicates = 4 };

	index_options_init(&given.o);
	if (nam__options_take(&table, argc, argv, &given, ret_exit))
		return 1;
	*ret_exit = NAM_EXIT_USAGE;
	if (given.o.cache_set)
		given.o.cache_bytes = (uint64_t)(given.cache_mb * (1u << 20) + 0.5);
	if (settle(&given))
		return 1;
	*ret_options = given.o;
	return 0;
}
