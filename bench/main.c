/* SPDX-License-Identifier: Apache-2.0 */
/* main.c -- nam-bench: which benchmark is wanted? */
#include <stdio.h>
#include <string.h>

#include "bench.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *text;
} subcommands[] = {
	{ "raw", raw_main, "what the fabric itself can do: READ, WRITE, CAS, FETCH_ADD, SEND" },
	{ "index", index_main, "an index under YCSB's and other mixes, every answer checked" },
	{ "rpc", requests_main,
		"requests to memory servers, by each of the ways that they can travel" },
	{ "ramp", requests_main,
		"transactions over records, every read checked for halves of some" },
	{ "txn", requests_main,
		"serializable transactions of SmallBank and YCSB-T, sums checked" },
	{ "kv", requests_main, "a key-value store, by each of those ways, every value checked" },
	{ "pilaf", requests_main,
		"GETs of a table of pointers, by READs that depend on each other" },
	{ "connect", connect_main, "clients that join the cluster and leave" },
	{ "cuckoo", cuckoo_main, "kick-outs of cuckoo tables in this process, or their times" },
};

#define SUBCOMMANDS_COUNT (sizeof(subcommands) / sizeof(subcommands[0]))

static void
help(FILE *to)
{
	fputs("Usage: nam-bench SUBCOMMAND [OPTION]...\n"
	      "Measure network-attached memory, and check every answer on the way.\n"
	      "\n",
		to);
	for (size_t i = 0; i < SUBCOMMANDS_COUNT; i++)
		fprintf(to, "  %-8s %s\n", subcommands[i].name, subcommands[i].text);
	fputs("\n"
	      "  --help      this text; with a subcommand, its options\n"
	      "  --version   the version\n"
	      "\n"
	      "Figures of the papers: share/nam/figures/draw --help (sources: bench/figures)\n"
	      "\n"
	      NAM_EXIT_HELP,
		to);
}

int
main(int argc, char **argv)
{
	if (argc < 2) {
		help(stderr);
		return NAM_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		help(stdout);
		return bench_flush(NAM_EXIT_OK);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("nam-bench " NAM_VERSION);
		return bench_flush(NAM_EXIT_OK);
	}
	for (size_t i = 0; i < SUBCOMMANDS_COUNT; i++)
		if (!strcmp(argv[1], subcommands[i].name))
			return bench_flush(subcommands[i].run(argc - 1, argv + 1));
	bench_complain("there is no benchmark '%s': nam-bench --help lists them", argv[1]);
	return NAM_EXIT_USAGE;
}
