/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "design.h"
#include "bench/load/keys.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/simulation.h"

#define SECONDS_DEFAULT 5.0
#define SECONDS_SIMULATED 0.005
#define MEMSERVERS_DEFAULT 2u
#define CLIENTS_MAX 4000u
#define RPC_THREADS_MAX 64u

static const char help[] =
	"Usage: nam-bench index --cluster CLUSTER [OPTION]...\n"
	"An index under load.  Every answer is checked against what was loaded.\n"
	"\n"
	"What runs:\n"
	"  --workload W        ycsb-a to ycsb-f, nam-a to nam-d (default nam-a, point lookups);\n"
	"                      tree-a to tree-d are other names of the latter\n"
	"  --mix SHARES        or shares of lookup, insert, update, upsert, delete, scan and\n"
	"                      rmw: lookup=95,insert=5\n"
	"  --distribution D    uniform, zipfian or latest, instead of the workload's own\n"
	"  --theta X           of zipfian and latest, 0 < X < 1 (default 0.99)\n"
	"  --selectivity S     scans cover this share of the key space (nam-b: 0.001)\n"
	"  --scan-length N     or N entries (default 100; ycsb-e: uniform in 1 to N)\n"
	"  --reverse           scans go downwards\n"
	"  --copy              scans copy their entries out, instead of looking at them where\n"
	"                      they are\n"
	"  --ops N             operations in all, or\n"
	"  --seconds S         how long (default 5; simulated: 0.005)\n"
	"  --threads N         (default 1)\n"
	"  --fibers N          per thread (default 16); up to 64 take less than 4 MiB, beyond the\n"
	"                      cache, or about 8 where nodes are of 16 KiB; each further one\n"
	"                      up to 64 KiB, or 128\n"
	"  --batch N           lookups by nam_index_lookup_many() with N keys a call (default 1:\n"
	"                      nam_index_lookup())\n"
	"  --warmup N          lookups before measuring (default: enough to fill the cache)\n"
	"  --seed N            (default 1)\n"
	"On what:\n"
	"  --cluster CLUSTER   shm:PATH,shm:PATH or @FILE (or the environment's NAM_CLUSTER);\n"
	"                      sim:PROFILE: a simulated cluster, on the network cards and\n"
	"                      processors of connectx2, connectx2-ipoib (sockets), connectx3,\n"
	"                      connect-ib, connectx4, connectx5, connectx6, shm, or of a file\n"
	"  --transport TRANSPORT  of requests: srq, mailbox, fetch or datagram (default: the\n"
	"                      environment's NAM_TRANSPORT, else fetch within the own host if the\n"
	"                      fabric allows it, srq otherwise)\n"
	"  --memservers N      of it, 1 to 64 (default 2)\n"
	"  --clients N         of it: processes of --threads each, 1 to 4000 (default 1)\n"
	"  --rpc-threads N     of it: handler threads of a memory server, 1 to 64 (default: the\n"
	"                      profile's)\n"
	"  --colocate          of it: clients on the machines of the memory servers, by turns\n"
	"  --design DESIGN     fine: one tree over all memory servers, one-sided (default);\n"
	"                      coarse: a tree on each memory server, which searches it; hybrid:\n"
	"                      leaves as fine, what is above them as coarse\n"
	"  --index DESIGN      the same\n"
	"  --partition HOW     of coarse and hybrid: range (default), hash or round-robin\n"
	"  --shares LIST       by range: per cent of the loaded keys that each memory server\n"
	"                      keeps: 80,12,5,3 (default: all alike)\n"
	"  --keys N            pairs to load (default 1M)\n"
	"  --load METHOD       bulk (default), insert, or none: use the index that a run with\n"
	"                      --keep and the same --keys left behind; an option that\n"
	"                      contradicts what it has is an error\n"
	"  --fill PERCENT      of leaves, by bulk load, 50 to 100 (default 92)\n"
	"  --key-bytes N       8 (default) to 64\n"
	"  --non-unique        keys occur more than once:\n"
	"  --duplicates N      so many times; a power of two up to 4096 (default 4)\n"
	"  --node-bytes N      power of two, 256 to 16k (default 1k)\n"
	"  --head-interval N   leaves per head node, 0: none (default 32)\n"
	"  --cache-mb N        for inner nodes, in MiB (default 64); 0.25 is as good\n"
	"  --name NAME         of the index (default: one of its own)\n"
	"  --keep              do not drop the index at the end\n"
	"Besides:\n"
	"  --verify            at the end check the tree's invariants and its whole content\n"
	"  --collect           a garbage collector works in the background\n"
	"  --raw-ratio         by turns with READs of one node, and the ratio of their rates\n"
	"  --json FILE         results as JSON; - for standard output\n"
	"  --quiet             no progress, no table\n"
	"  --help              this text\n"
	"\n"
	NAM_EXIT_HELP;

enum {
	OPT_WORKLOAD = 256,
	OPT_MIX,
	OPT_DISTRIBUTION,
	OPT_THETA,
	OPT_SELECTIVITY,
	OPT_SCAN_LENGTH,
	OPT_REVERSE,
	OPT_COPY,
	OPT_OPS,
	OPT_SECONDS,
	OPT_THREADS,
	OPT_FIBERS,
	OPT_BATCH,
	OPT_WARMUP,
	OPT_SEED,
	OPT_CLUSTER,
	OPT_TRANSPORT,
	OPT_MEMSERVERS,
	OPT_CLIENTS,
	OPT_RPC_THREADS,
	OPT_DESIGN,
	OPT_PARTITION,
	OPT_SHARES,
	OPT_KEYS,
	OPT_LOAD,
	OPT_FILL,
	OPT_KEY_BYTES,
	OPT_NON_UNIQUE,
	OPT_DUPLICATES,
	OPT_NODE_BYTES,
	OPT_HEAD_INTERVAL,
	OPT_CACHE_MB,
	OPT_NAME,
	OPT_COLOCATE,
	OPT_KEEP,
	OPT_VERIFY,
	OPT_COLLECT,
	OPT_RAW_RATIO,
	OPT_JSON,
	OPT_QUIET,
	OPT_HELP,
};

static const struct option options_known[] = {
	{ "workload", required_argument, NULL, OPT_WORKLOAD },
	{ "mix", required_argument, NULL, OPT_MIX },
	{ "distribution", required_argument, NULL, OPT_DISTRIBUTION },
	{ "theta", required_argument, NULL, OPT_THETA },
	{ "selectivity", required_argument, NULL, OPT_SELECTIVITY },
	{ "scan-length", required_argument, NULL, OPT_SCAN_LENGTH },
	{ "reverse", no_argument, NULL, OPT_REVERSE },
	{ "copy", no_argument, NULL, OPT_COPY },
	{ "ops", required_argument, NULL, OPT_OPS },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "fibers", required_argument, NULL, OPT_FIBERS },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "warmup", required_argument, NULL, OPT_WARMUP },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "cluster", required_argument, NULL, OPT_CLUSTER },
	{ "transport", required_argument, NULL, OPT_TRANSPORT },
	{ "memservers", required_argument, NULL, OPT_MEMSERVERS },
	{ "clients", required_argument, NULL, OPT_CLIENTS },
	{ "rpc-threads", required_argument, NULL, OPT_RPC_THREADS },
	{ "colocate", no_argument, NULL, OPT_COLOCATE },
	{ "design", required_argument, NULL, OPT_DESIGN },
	{ "index", required_argument, NULL, OPT_DESIGN },
	{ "partition", required_argument, NULL, OPT_PARTITION },
	{ "shares", required_argument, NULL, OPT_SHARES },
	{ "keys", required_argument, NULL, OPT_KEYS },
	{ "load", required_argument, NULL, OPT_LOAD },
	{ "fill", required_argument, NULL, OPT_FILL },
	{ "key-bytes", required_argument, NULL, OPT_KEY_BYTES },
	{ "non-unique", no_argument, NULL, OPT_NON_UNIQUE },
	{ "duplicates", required_argument, NULL, OPT_DUPLICATES },
	{ "node-bytes", required_argument, NULL, OPT_NODE_BYTES },
	{ "head-interval", required_argument, NULL, OPT_HEAD_INTERVAL },
	{ "cache-mb", required_argument, NULL, OPT_CACHE_MB },
	{ "name", required_argument, NULL, OPT_NAME },
	{ "keep", no_argument, NULL, OPT_KEEP },
	{ "verify", no_argument, NULL, OPT_VERIFY },
	{ "collect", no_argument, NULL, OPT_COLLECT },
	{ "raw-ratio", no_argument, NULL, OPT_RAW_RATIO },
	{ "json", required_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

/* As given; what depends on other options is settled when all are known. */
struct given {
	struct index_bench_options o;
	const char *workload, *mix, *distribution;
	double selectivity;
	uint32_t scan_length;
	uint32_t duplicates;
	bool non_unique;
};

static int
take_workload(struct given *g, int option, const char *value)
{
	switch (option) {
	case OPT_WORKLOAD:
		g->workload = value;
		return 0;
	case OPT_MIX:
		g->mix = value;
		return 0;
	case OPT_DISTRIBUTION:
		g->distribution = value;
		return 0;
	case OPT_THETA:
		return option_number("--theta", value, 0.001, 0.999, &g->o.theta);
	case OPT_SELECTIVITY:
		return option_number("--selectivity", value, 1e-12, 1, &g->selectivity);
	case OPT_SCAN_LENGTH:
		return option_count32("--scan-length", value, 1, 1u << 30, &g->scan_length);
	case OPT_OPS:
		return option_count("--ops", value, 1, UINT64_MAX / 2, &g->o.ops);
	case OPT_SECONDS:
		return option_number("--seconds", value, 0.001, 1e6, &g->o.seconds);
	case OPT_THREADS:
		return option_count32("--threads", value, 1, 1024, &g->o.threads);
	case OPT_FIBERS:
		return option_count32("--fibers", value, 1, 1024, &g->o.fibers);
	case OPT_BATCH:
		return option_count32("--batch", value, 1, INDEX_BATCH_MAX, &g->o.batch);
	case OPT_WARMUP:
		return option_count("--warmup", value, 0, UINT64_MAX / 2, &g->o.warmup);
	default:
		return option_count("--seed", value, 0, UINT64_MAX, &g->o.seed);
	}
}

static int
take_load(struct given *g, const char *value)
{
	if (!strcmp(value, "bulk"))
		g->o.load = LOAD_BULK;
	else if (!strcmp(value, "insert"))
		g->o.load = LOAD_INSERT;
	else if (!strcmp(value, "none"))
		g->o.load = LOAD_NONE;
	else
		return option_bad_choice("--load", value, "bulk, insert or none");
	return 0;
}

static int
take_index(struct given *g, int option, const char *value)
{
	switch (option) {
	case OPT_CLUSTER:
		g->o.cluster = value;
		return 0;
	case OPT_TRANSPORT:
		return option_transport(value, &g->o.transport);
	case OPT_MEMSERVERS:
		return option_count32("--memservers", value, 1, SIMULATION_MEMSERVERS_MAX,
			&g->o.memservers);
	case OPT_CLIENTS:
		return option_count32("--clients", value, 1, CLIENTS_MAX, &g->o.clients);
	case OPT_RPC_THREADS:
		return option_count32("--rpc-threads", value, 1, RPC_THREADS_MAX,
			&g->o.rpc_threads);
	case OPT_DESIGN:
		g->o.design_said = true;
		return index_design_parse(value, &g->o.index.design);
	case OPT_PARTITION:
		g->o.partitioning_said = true;
		return index_partitioning_parse(value, &g->o.index.partitioning);
	case OPT_SHARES:
		return index_shares_parse(value, &g->o);
	case OPT_KEYS:
		return option_count("--keys", value, 1, 1ull << 40, &g->o.keys);
	case OPT_LOAD:
		return take_load(g, value);
	case OPT_FILL:
		return option_count32("--fill", value, 50, 100, &g->o.fill_percent);
	case OPT_KEY_BYTES:
		return option_count32("--key-bytes", value, NAM_KEY_BYTES_MIN, NAM_KEY_BYTES_MAX,
			&g->o.index.key_bytes);
	case OPT_DUPLICATES:
		g->non_unique = true;
		return option_count32("--duplicates", value, 1, 1u << KEYS_DUP_SHIFT_MAX,
			&g->duplicates);
	case OPT_NODE_BYTES: {
		uint64_t bytes;

		if (option_bytes("--node-bytes", value, NAM_NODE_BYTES_MIN, NAM_NODE_BYTES_MAX,
			    &bytes))
			return -1;
		g->o.index.node_bytes = (uint32_t)bytes;
		g->o.node_bytes_said = true;
		return 0;
	}
	case OPT_HEAD_INTERVAL:
		g->o.head_interval_said = true;
		return option_count32("--head-interval", value, 0, 1u << 20,
			&g->o.index.head_interval);
	case OPT_CACHE_MB: {
		double mb;

		if (option_number("--cache-mb", value, 0, 1u << 20, &mb))
			return -1;
		g->o.cache_bytes = (uint64_t)(mb * (1u << 20) + 0.5);
		g->o.cache_said = true;
		return 0;
	}
	case OPT_NAME:
		g->o.name = value;
		return 0;
	default:
		g->o.json = value;
		return 0;
	}
}

static void
take_flag(struct given *g, int option)
{
	switch (option) {
	case OPT_REVERSE:
		g->o.reverse = true;
		break;
	case OPT_COPY:
		g->o.copy = true;
		break;
	case OPT_NON_UNIQUE:
		g->non_unique = true;
		break;
	case OPT_COLOCATE:
		g->o.colocate = true;
		break;
	case OPT_KEEP:
		g->o.keep = true;
		break;
	case OPT_VERIFY:
		g->o.verify = true;
		break;
	case OPT_COLLECT:
		g->o.collect = true;
		break;
	case OPT_RAW_RATIO:
		g->o.raw_ratio = true;
		break;
	default:
		g->o.quiet = true;
		break;
	}
}

static int
settle_workload(struct given *g)
{
	struct workload *workload = &g->o.workload;
	struct nam_diag diag = { "" };
	int rc;

	if (g->workload && g->mix) {
		bench_complain("--workload and --mix: say one of them");
		return -1;
	}
	if (g->mix)
		rc = workload_parse_mix(g->mix, workload, &diag);
	else
		rc = workload_find(g->workload ? g->workload : "nam-a", workload, &diag);
	if (rc) {
		bench_complain("--%s: %s", g->mix ? "mix" : "workload", diag.text);
		return -1;
	}
	if (g->distribution && distribution_find(g->distribution, &workload->distribution))
		return option_bad_choice("--distribution", g->distribution,
			"uniform, zipfian or latest");
	if (g->selectivity > 0 && g->scan_length) {
		bench_complain("--selectivity and --scan-length: say one of them");
		return -1;
	}
	if (g->scan_length) {
		workload->scan_length = g->scan_length;
		workload->selectivity = 0;
	}
	if (g->selectivity > 0)
		workload->selectivity = g->selectivity;
	return 0;
}

/* Options of simulated clusters only, and of real ones only. */
static int
settle_cluster(struct index_bench_options *o)
{
	bool simulated = simulation_wanted(o->cluster);

	if (!simulated && (o->memservers || o->clients || o->rpc_threads || o->colocate)) {
		bench_complain("%s: only with --cluster sim:PROFILE; real ones are started by "
			"themselves", o->memservers ? "--memservers" :
				      o->clients ? "--clients" :
				      o->rpc_threads ? "--rpc-threads" : "--colocate");
		return -1;
	}
	if (simulated && (o->keep || o->load == LOAD_NONE)) {
		bench_complain("%s: a simulated cluster ends with the run",
			o->keep ? "--keep" : "--load none");
		return -1;
	}
	if (!o->memservers)
		o->memservers = MEMSERVERS_DEFAULT;
	if (simulated && o->shares_count && o->shares_count != o->memservers) {
		bench_complain("--shares: %u shares for %u memory servers", o->shares_count,
			o->memservers);
		return -1;
	}
	if (!o->clients)
		o->clients = 1;
	if (!(o->seconds > 0))
		o->seconds = simulated ? SECONDS_SIMULATED : SECONDS_DEFAULT;
	return 0;
}

static int
settle(struct given *g)
{
	struct index_bench_options *o = &g->o;

	if (settle_workload(g))
		return -1;
	if (o->ops && o->seconds > 0) {
		bench_complain("--ops and --seconds: say one of them");
		return -1;
	}
	if (g->non_unique) {
		if (g->duplicates & (g->duplicates - 1)) {
			bench_complain("--duplicates: %u is not a power of two", g->duplicates);
			return -1;
		}
		o->index.unique = false;
		o->dup_shift = (unsigned)__builtin_ctz(g->duplicates);
		if (o->workload.share[OP_UPDATE] > 0 || o->workload.share[OP_RMW] > 0) {
			bench_complain("--non-unique: update and rmw replace the one payload of a "
				"key, so they need a unique index");
			return -1;
		}
	}
	if (o->load == LOAD_NONE && !o->name) {
		bench_complain("--load none: which index?  Say --name");
		return -1;
	}
	if (o->fill_percent && o->load != LOAD_BULK) {
		bench_complain("--fill: only with --load bulk; %s", o->load == LOAD_NONE ?
			"the index is there already, with leaves as full as they are" :
			"inserts leave leaves as full as splits make them");
		return -1;
	}
	if (index_design_settle(o))
		return -1;
	o->cluster = bench_cluster(o->cluster, "index");
	if (!o->cluster || settle_cluster(o))
		return -1;
	if (o->json && report_check(o->json))
		return -1;
	if (o->json && !strcmp(o->json, "-"))
		o->quiet = true;
	return 0;
}

static int
take(void *options, int option, const char *value)
{
	struct given *given = options;

	if (!value)
		take_flag(given, option);
	else
		return option <= OPT_SEED ? take_workload(given, option, value) :
			take_index(given, option, value);
	return 0;
}

void
index_options_init(struct index_bench_options *options)
{
	*options = (struct index_bench_options){
		.theta = 0.99,
		.keys = 1000000,
		.threads = 1,
		.fibers = 16,
		.batch = 1,
		.cache_bytes = 64u << 20,
		.seed = 1,
		.warmup = UINT64_MAX,
	};
	nam_index_options_init(&options->index);
}

int
index_options_parse(int argc, char **argv, struct index_bench_options *ret_options, int *ret_exit)
{
	static const struct option_set set = { options_known, help, OPT_HELP, take };
	struct given given = { .duplicates = 4 };

	index_options_init(&given.o);
	if (options_take(argc, argv, &set, &given, ret_exit))
		return 1;
	if (settle(&given))
		return 1;
	*ret_options = given.o;
	return 0;
}
