/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/load/keys.h"
#include "bench/options.h"
#include "bench/simulation.h"

#define SECONDS_DEFAULT 5.0
#define SECONDS_SIMULATED 0.005
#define MEMSERVERS_DEFAULT 2u
#define SHARES_SUM 100.0
#define SHARES_SLACK 0.001

static const char *const load_methods[] = { "bulk", "insert", "none", NULL };
const char *const index_designs[] = { "fine", "coarse", "hybrid", NULL };
const char *const index_partitionings[] = { "range", "hash", "round-robin", NULL };

int
index_shares_take(void *options, const char *text, struct nam_diag *diag)
{
	struct index_bench_options *o = options;
	const char *at = text;
	double sum = 0;

	o->shares_count = 0;
	do {
		char *end;
		double share = strtod(at, &end);

		if (end == at || (*end && *end != ',') || !(share > 0 && share <= SHARES_SUM))
			return nam_diag_set(diag, -EINVAL, "'%.*s' in '%s' is not a number above "
				"0, up to 100: say per cents, one for each memory server",
				(int)strcspn(at, ","), at, text);
		if (o->shares_count == NAM_SERVERS_MAX)
			return nam_diag_set(diag, -EINVAL, "more than %u memory servers",
				(unsigned)NAM_SERVERS_MAX);
		o->shares[o->shares_count++] = share;
		sum += share;
		at = *end ? end + 1 : NULL;
	} while (at);
	if (fabs(sum - SHARES_SUM) > SHARES_SLACK)
		return nam_diag_set(diag, -EINVAL, "'%s' is %g per cent in all, not 100", text,
			sum);
	return 0;
}

#define FIELD(field) NAM_OPTION_FIELD(struct index_bench_options, field)
#define SET(field) .set = offsetof(struct index_bench_options, field)

static const struct nam_option rows[] = {
	{ .help = "The work:" }, { "workload", "W", "ycsb-a to ycsb-f are those of YCSB. nam-a "
		"(default) is point lookups, nam-b scans, nam-c 95 % lookups and 5 % inserts, "
		"nam-d half and half. They are uniform, as in the paper on distributed trees. "
		"tree-a to tree-d are other names of them.", NAM_OPTION_TEXT,
		FIELD(workload_name) },
	{ "mix", "SHARES", "Instead, shares of lookup, insert, update, upsert, delete, scan and "
		"rmw: lookup=95,insert=5.", NAM_OPTION_TEXT, FIELD(mix) },
	{ "distribution", "D", "uniform, zipfian or latest, instead of the workload's own.",
		NAM_OPTION_CHOICE, FIELD(distribution), SET(distribution_set),
		.choices = distribution_names },
	{ "theta", "X", "The skew of zipfian and latest, between 0 and 1 (default 0.99).",
		NAM_OPTION_REAL, FIELD(theta), .low = 0.001, .high = 0.999 },
	{ "selectivity", "S", "Scans cover this share of the key space (nam-b: 0.001).",
		NAM_OPTION_REAL, FIELD(selectivity), .low = 1e-12, .high = 1 },
	{ "scan-length", "N", "Scans cover N entries (default 100; ycsb-e: uniform in 1 to N).",
		NAM_OPTION_COUNT, FIELD(scan_length), .min = 1, .max = 1u << 30 },
	{ "reverse", NULL, "Scans go downwards.", NAM_OPTION_FLAG, FIELD(reverse) },
	{ "copy", NULL, "Scans copy their entries out, instead of looking at them where they are. "
		"Simulated scans are charged for a copy in any case.", NAM_OPTION_FLAG,
		FIELD(copy) },
	BENCH_LENGTH("5; simulated: 0.005"),
	BENCH_FIBERS("Fibers of a thread (default 16). Up to 64 take "
		"less than 4 MiB beyond the cache, or about 8 MiB with nodes of 16 KiB. Each "
		"further one takes up to 64 KiB, or 128 KiB."),
	{ "batch", "N", "Look up N keys with each call of nam_index_lookup_many (default 1: "
		"nam_index_lookup).", NAM_OPTION_COUNT, FIELD(batch), .min = 1,
		.max = INDEX_BATCH_MAX },
	{ "warmup", "N", "Lookups before measuring begins (default: enough to fill the cache, for "
		"at most 5 s; none without a cache).",
		NAM_OPTION_COUNT, FIELD(warmup), .max = UINT64_MAX / 2 },
	{ "slices", "N", "Divide the time of the run into N slices and print the rate of each.",
		NAM_OPTION_COUNT, FIELD(slices), .min = 1, .max = 100000 },
	{ .help = "The cluster:" },
	BENCH_CLUSTER,
	BENCH_TRANSPORT,
	BENCH_SIMULATED("2", 4000),
	{ "colocate", NULL, "Simulated: clients run on the machines of the memory servers, by "
		"turns, and READ the memory there without a network card.", NAM_OPTION_FLAG,
		FIELD(run.colocate) },
	{ "grow", "N", "Simulated: add memory servers during the run until there are N. The run "
		"has equal parts; after each, as many are added as there are.", NAM_OPTION_COUNT,
		FIELD(grow), .min = 2, .max = SIMULATION_MEMSERVERS_MAX },
	{ "failover", NULL, "Simulated: each memory server has a backup. After a quarter of the "
		"run one is killed. Its backup gets its place, and then another backup is filled.",
		NAM_OPTION_FLAG, FIELD(failover) },
	{ .help = "The index:" },
	{ "design", "DESIGN", "With fine (default) clients read and write one tree, which lies on "
		"all memory servers. With coarse each memory server has a tree, and searches it. "
		"hybrid has leaves as fine, and the levels above as coarse.", NAM_OPTION_CHOICE,
		FIELD(index.design), SET(design_set), .min = NAM_DESIGN_FINE,
		.choices = index_designs },
	{ "index", "DESIGN", "The same as --design.", NAM_OPTION_CHOICE, FIELD(index.design),
		SET(design_set), .min = NAM_DESIGN_FINE, .choices = index_designs },
	{ "partition", "HOW", "Which memory server keeps a key of a coarse or hybrid index: range "
		"(default), hash or round-robin.", NAM_OPTION_CHOICE, FIELD(index.partitioning),
		SET(partitioning_set), .min = NAM_PARTITION_RANGE,
		.choices = index_partitionings },
	{ "shares", "LIST", "By range: the per cent of the loaded keys that each memory server "
		"keeps, in the order of their ids: 80,12,5,3 (default: all alike).",
		NAM_OPTION_CALL, .take = index_shares_take },
	{ "keys", "N", "Pairs to load (default 1M).", NAM_OPTION_COUNT, FIELD(keys), .min = 1,
		.max = 1ull << 40 },
	{ "load", "METHOD", "bulk (default), insert, or none: use the index that a run with --keep "
		"and the same --keys left behind. An option that contradicts this index is an "
		"error.", NAM_OPTION_CHOICE, FIELD(load), .choices = load_methods },
	{ "fill", "PERCENT", "How full bulk load makes the leaves, 50 to 100 (default 92).",
		NAM_OPTION_COUNT, FIELD(fill_percent), .min = 50, .max = 100 },
	{ "key-bytes", "N", "The size of keys, 8 (default) to 64.", NAM_OPTION_COUNT,
		FIELD(index.key_bytes), .min = NAM_KEY_BYTES_MIN, .max = NAM_KEY_BYTES_MAX },
	{ "non-unique", NULL, "Keys occur more than once.", NAM_OPTION_FLAG, FIELD(non_unique) },
	{ "duplicates", "N", "Keys occur N times; a power of two up to 4096 (default 4).",
		NAM_OPTION_COUNT, FIELD(duplicates), SET(duplicates_set), .min = 1,
		.max = 1u << KEYS_DUP_SHIFT_MAX },
	{ "node-bytes", "N", "The size of a node, a power of two from 256 to 16k (default 1k).",
		NAM_OPTION_BYTES, FIELD(index.node_bytes), SET(node_bytes_set),
		.min = NAM_NODE_BYTES_MIN, .max = NAM_NODE_BYTES_MAX },
	{ "head-interval", "N", "Leaves per head node; 0: no head nodes (default 32).",
		NAM_OPTION_COUNT, FIELD(index.head_interval), SET(head_interval_set),
		.max = 1u << 20 },
	{ "cache-mb", "N", "The budget of the cache of inner nodes, in MiB (default 64); 0.25 is "
		"as good. A coarse-grained index has no cache.", NAM_OPTION_REAL, FIELD(cache_mb),
		SET(cache_set), .high = 1u << 20 },
	{ "name", "NAME", "The name of the index (default: one of its own).", NAM_OPTION_TEXT,
		FIELD(name) },
	{ "keep", NULL, "Do not drop the index at the end.", NAM_OPTION_FLAG, FIELD(keep) },
	{ .help = "Checks and output:" },
	{ "verify", NULL, "At the end, check the tree's invariants and its whole content.",
		NAM_OPTION_FLAG, FIELD(verify) },
	{ "collect", NULL, "A garbage collector works in the background.", NAM_OPTION_FLAG,
		FIELD(collect) },
	{ "raw-ratio", NULL, "By turns with READs of one node; print the ratio of their rates.",
		NAM_OPTION_FLAG, FIELD(raw_ratio) },
	BENCH_OUTPUT,
	{ 0 },
};

const struct nam_options_table index_options_table = {
	.program = "nam-bench index",
	.usage = "--cluster CLUSTER",
	.purpose = "Measure an index under load.  Every answer is checked against what was loaded.",
	.after = NAM_EXIT_HELP,
	.rows = rows,
};

static int
resolve_workload(struct index_bench_options *o)
{
	struct workload *workload = &o->workload;
	struct nam_diag diag = { "" };
	int rc;

	if (o->workload_name && o->mix)
		return bench_complain("--workload and --mix: say one of them");
	if (o->mix)
		rc = workload_parse_mix(o->mix, workload, &diag);
	else
		rc = workload_find(o->workload_name ? o->workload_name : "nam-a", workload, &diag);
	if (rc)
		return bench_complain("--%s: %s", o->mix ? "mix" : "workload", diag.text);
	if (o->distribution_set)
		workload->distribution = o->distribution;
	if (o->selectivity > 0 && o->scan_length)
		return bench_complain("--selectivity and --scan-length: say one of them");
	if (o->scan_length) {
		workload->scan_length = o->scan_length;
		workload->selectivity = 0;
	}
	if (o->selectivity > 0)
		workload->selectivity = o->selectivity;
	return 0;
}

static int
resolve_design(struct index_bench_options *o)
{
	const struct nam_index_traits *traits = nam_index_traits(o->index.design);
	bool fine = !traits->partitioned, coarse = !traits->client_levels;

	if (o->load == LOAD_NONE) {
		if (o->shares_count)
			return bench_complain("--shares: only of an index that is loaded; this one "
				"is there already");
		return 0;
	}
	if (fine && o->partitioning_set)
		return bench_complain("--partition: a fine-grained index has no parts; say "
			"--design coarse or hybrid");
	if (fine && o->shares_count)
		return bench_complain("--shares: a fine-grained index has no parts: its nodes lie "
			"evenly on all memory servers; say --design coarse or hybrid");
	if (coarse && o->head_interval_set)
		return bench_complain("--head-interval: a coarse-grained index has no head nodes");
	if (coarse && o->cache_set && o->cache_bytes)
		return bench_complain("--cache-mb: a coarse-grained index caches nothing: memory "
			"servers search it");
	if (coarse)
		o->cache_bytes = 0;
	if (!fine && !o->partitioning_set)
		o->index.partitioning = NAM_PARTITION_RANGE;
	if (o->shares_count && o->index.partitioning != NAM_PARTITION_RANGE)
		return bench_complain("--shares: only with --partition range: the others deal keys "
			"out evenly");
	return 0;
}

int
index_options_resolve(void *options)
{
	struct index_bench_options *o = options;

	if (o->cache_set)
		o->cache_bytes = (uint64_t)(o->cache_mb * (1u << 20) + 0.5);
	if (resolve_workload(o))
		return -1;
	if (o->non_unique || o->duplicates_set) {
		if (o->duplicates & (o->duplicates - 1))
			return bench_complain("--duplicates: %u is not a power of two",
				o->duplicates);
		o->index.unique = false;
		o->dup_shift = (unsigned)__builtin_ctz(o->duplicates);
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
	if (resolve_design(o))
		return -1;
	if (bench_options_resolve(&o->run, "index", SECONDS_DEFAULT, SECONDS_SIMULATED,
		    MEMSERVERS_DEFAULT))
		return -1;
	if ((o->slices || o->grow || o->failover) && (o->run.ops || o->raw_ratio))
		return bench_complain("%s: not with %s, for the run's time is divided",
			o->slices ? "--slices" : o->grow ? "--grow" : "--failover",
			o->run.ops ? "--ops" : "--raw-ratio");
	if (!simulation_wanted(o->run.cluster) && o->failover)
		return bench_complain("--failover: only with --cluster sim:PROFILE, a simulated "
			"cluster; real ones have nam-steward and 'namctl cluster replicas'");
	if (!simulation_wanted(o->run.cluster))
		return !o->grow ? 0 : bench_complain("--grow: only with --cluster sim:PROFILE, a "
			"simulated cluster; to real ones 'namctl server add' adds memory servers");
	if (o->grow && o->grow <= o->run.memservers)
		return bench_complain("--grow: there are %u memory servers from the beginning",
			o->run.memservers);
	if (o->failover && (o->grow || o->run.memservers < 2 ||
			2 * o->run.memservers >= SIMULATION_MEMSERVERS_MAX))
		return bench_complain("--failover: with 2 to %u memory servers, and not with "
			"--grow", SIMULATION_MEMSERVERS_MAX / 2 - 1);
	o->run.memservers_most = o->grow;
	if (o->keep || o->load == LOAD_NONE)
		return bench_complain("%s: a simulated cluster ends with the run",
			o->keep ? "--keep" : "--load none");
	return 0;
}

void
index_options_init(struct index_bench_options *options)
{
	*options = (struct index_bench_options){
		.theta = 0.99,
		.keys = 1000000,
		.duplicates = 4,
		.run = { .threads = 1, .fibers = 16, .seed = 1 },
		.batch = 1,
		.cache_bytes = 64u << 20,
		.warmup = UINT64_MAX,
	};
	nam_index_options_init(&options->index);
}

void
index_bounds(const struct keys *keys, const double *shares, uint32_t parts, uint8_t *ret_bounds)
{
	uint64_t last = 0;
	double sum = 0;

	for (uint32_t i = 0; i + 1 < parts; i++) {
		double share;
		uint64_t base, key;

		sum += shares ? shares[i] : 0;
		share = shares ? sum / SHARES_SUM : (double)(i + 1) / parts;
		base = (uint64_t)(share * (double)keys->bases + 0.5);
		key = base >= keys->bases ? last + 1 : base << keys->stride_shift;
		if (key <= last)
			key = last + 1;
		last = key;
		keys_prepare(keys, ret_bounds + (size_t)i * keys->key_bytes);
		keys_write(keys, key, ret_bounds + (size_t)i * keys->key_bytes);
	}
}
