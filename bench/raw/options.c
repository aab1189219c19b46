/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdio.h>
#include <string.h>

#include "common/rpc/rpc.h"
#include "bench/bench.h"
#include "bench/options.h"
#include "bench/report.h"

static const char help[] =
	"Usage: nam-bench raw --cluster CLUSTER [OPTION]...\n"
	"What the fabric itself can do: one kind of request on random blocks, closed loop.\n"
	"\n"
	"  --cluster CLUSTER   shm:PATH,shm:PATH or @FILE (or the environment's NAM_CLUSTER)\n"
	"  --op OP             read (default), write, cas, faa, send, or memcpy: prefetched\n"
	"                      copies out of local memory with the same pages as the servers'\n"
	"  --bytes N           of a request: multiple of 8 (default 1024; cas and faa: 8)\n"
	"  --depth N           requests in flight per thread, 1 to 512 (default 0: try 1 to 64,\n"
	"                      print the table, take the best)\n"
	"  --loop LOOP         window (default), fibers or batch: how they are kept in flight\n"
	"  --ops N             how many in all, or\n"
	"  --seconds S         how long (default 2)\n"
	"  --threads N         (default 1)\n"
	"  --memory SIZE       of remote memory to touch (default 512M, or a quarter of\n"
	"                      what is left: blocks of one size serve no other later\n"
	"  --compare           --op read and memcpy by turns, and the ratio of their rates\n"
	"  --pages KIND        memcpy without a cluster: 2M, thp or 4k (default thp)\n"
	"  --seed N            of the random blocks (default 1)\n"
	"  --json FILE         results as JSON; - for standard output\n"
	"  --quiet             no progress, no table\n"
	"  --help              this text\n"
	"\n"
	NAM_EXIT_HELP;

enum {
	OPT_CLUSTER = 256,
	OPT_OP,
	OPT_BYTES,
	OPT_DEPTH,
	OPT_LOOP,
	OPT_OPS,
	OPT_SECONDS,
	OPT_THREADS,
	OPT_MEMORY,
	OPT_COMPARE,
	OPT_PAGES,
	OPT_SEED,
	OPT_JSON,
	OPT_QUIET,
	OPT_HELP,
};

static const struct option options_known[] = {
	{ "cluster", required_argument, NULL, OPT_CLUSTER },
	{ "op", required_argument, NULL, OPT_OP },
	{ "bytes", required_argument, NULL, OPT_BYTES },
	{ "depth", required_argument, NULL, OPT_DEPTH },
	{ "loop", required_argument, NULL, OPT_LOOP },
	{ "ops", required_argument, NULL, OPT_OPS },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "compare", no_argument, NULL, OPT_COMPARE },
	{ "pages", required_argument, NULL, OPT_PAGES },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "json", required_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

/* The number of a name, or -EINVAL. */
static int
choose(const char *option, const char *text, const char *const *names, int count,
	const char *choices)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(names[i], text))
			return i;
	return option_bad_choice(option, text, choices);
}

static int
take(void *options, int option, const char *value)
{
	struct raw_options *o = options;
	int chosen;

	switch (option) {
	case OPT_CLUSTER:
		o->cluster = value;
		return 0;
	case OPT_OP:
		chosen = choose("--op", value, raw_op_names, RAW_OPS_COUNT,
			"read, write, cas, faa, send or memcpy");
		o->op = chosen < 0 ? RAW_READ : (enum raw_op)chosen;
		return chosen < 0 ? chosen : 0;
	case OPT_LOOP:
		chosen = choose("--loop", value, raw_loop_names, RAW_LOOPS_COUNT,
			"window, fibers or batch");
		o->loop = chosen < 0 ? RAW_WINDOW : (enum raw_loop)chosen;
		return chosen < 0 ? chosen : 0;
	case OPT_BYTES:
		return option_count32("--bytes", value, 8, 1u << 20, &o->bytes);
	case OPT_DEPTH:
		return option_count32("--depth", value, 0, RAW_DEPTH_MAX, &o->depth);
	case OPT_OPS:
		return option_count("--ops", value, 1, UINT64_MAX / 2, &o->ops);
	case OPT_SECONDS:
		return option_number("--seconds", value, 0.001, 1e6, &o->seconds);
	case OPT_THREADS:
		return option_count32("--threads", value, 1, 1024, &o->threads);
	case OPT_MEMORY:
		return option_bytes("--memory", value, 1 << 20, 1ull << 46, &o->memory_bytes);
	case OPT_COMPARE:
		o->compare = true;
		return 0;
	case OPT_PAGES:
		o->pages = value;
		if (strcmp(value, "2M") && strcmp(value, "thp") && strcmp(value, "4k"))
			return option_bad_choice("--pages", value, "2M, thp or 4k");
		return 0;
	case OPT_SEED:
		return option_count("--seed", value, 0, UINT64_MAX, &o->seed);
	case OPT_JSON:
		o->json = value;
		return 0;
	default:
		o->quiet = true;
		return 0;
	}
}

/* Checks of options against each other. */
static int
settle(struct raw_options *o)
{
	if (!o->bytes)
		o->bytes = o->op == RAW_CAS || o->op == RAW_FAA ? 8 : o->op == RAW_SEND ? 64 : 1024;
	if (o->bytes % 8) {
		bench_complain("--bytes: %u is not a multiple of 8", o->bytes);
		return -1;
	}
	if ((o->op == RAW_CAS || o->op == RAW_FAA) && o->bytes != 8) {
		bench_complain("--bytes: atomics are 8 bytes long; leave --bytes away");
		return -1;
	}
	if (o->op == RAW_SEND && o->bytes > NAM_RPC_BODY_MAX) {
		bench_complain("--bytes: a message has room for %u bytes", NAM_RPC_BODY_MAX & ~7u);
		return -1;
	}
	if (o->loop == RAW_BATCH && o->depth > NAM_BATCH_MAX) {
		bench_complain("--depth: a batch has room for %u requests", NAM_BATCH_MAX);
		return -1;
	}
	if (o->compare && o->op != RAW_READ && o->op != RAW_MEMCPY) {
		bench_complain("--compare compares read with memcpy; leave --op away");
		return -1;
	}
	if (o->compare)
		o->op = RAW_READ;
	if (o->ops && o->seconds > 0) {
		bench_complain("--ops and --seconds: say one of them");
		return -1;
	}
	if (!(o->seconds > 0))
		o->seconds = 2;
	if (o->op != RAW_MEMCPY || o->cluster) {
		o->cluster = bench_cluster(o->cluster, "raw");
		if (!o->cluster)
			return -1;
	}
	if (o->json && report_check(o->json))
		return -1;
	if (o->json && !strcmp(o->json, "-"))
		o->quiet = true;
	return 0;
}

int
raw_options_parse(int argc, char **argv, struct raw_options *ret_options, int *ret_exit)
{
	static const struct option_set set = { options_known, help, OPT_HELP, take };
	struct raw_options options = { .threads = 1, .seed = 1, .pages = "thp" };

	if (options_take(argc, argv, &set, &options, ret_exit))
		return 1;
	if (settle(&options))
		return 1;
	*ret_options = options;
	return 0;
}
