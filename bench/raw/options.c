/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "common/rpc/rpc.h"
#include "bench/bench.h"
#include "bench/options.h"

static const char *const pages[] = { "2M", "thp", "4k", NULL };	/* enum raw_pages */

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
		"request at once; fibers runs as many fibers with one request each; batch posts "
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

static const struct nam_options_table table = {
	.program = "nam-bench raw",
	.usage = "--cluster CLUSTER",
	.purpose = "Measure the fabric itself: one kind of request on random blocks, closed loop.",
	.after = NAM_EXIT_HELP,
	.rows = rows,
};

/* Checks of options against each other. */
static int
settle(struct raw_options *o)
{
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
	return bench_options_settle(&o->run, o->op == RAW_MEMCPY ? NULL : "raw", 2, 0, 0);
}

int
raw_options_parse(int argc, char **argv, struct raw_options *ret_options, int *ret_exit)
{
	struct raw_options options = {
		.run = { .threads = 1, .fibers = RAW_DEPTH_MAX, .seed = 1 },
		.pages = RAW_PAGES_THP,
	};

	if (nam__options_take(&table, argc, argv, &options, ret_exit))
		return 1;
	*ret_exit = NAM_EXIT_USAGE;
	*ret_options = options;
	return settle(ret_options) ? 1 : 0;
}
