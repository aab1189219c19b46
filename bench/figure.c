/* SPDX-License-Identifier: Apache-2.0 */
/* figure.c -- nam-bench figure: command line, and one figure after the other. */
#include "figure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench.h"
#include "options.h"
#include "progress.h"
#include "simulation.h"

#define KEYS_DEFAULT 1000000u
#define KEYS_QUICK 20000u
#define SECONDS_SIMULATED 0.002
#define SECONDS_QUICK 0.001
/* Transactions: sockets are slow, and what caches know takes as long to be out of date. */
#define SECONDS_RAMP 0.05
#define SECONDS_RAMP_QUICK 0.004
#define SECONDS_REAL 1.0
#define JOBS_MAX 64u
#define CLUSTER_DEFAULT "sim:connect-ib"
#define CLUSTER_RFP "sim:connectx3"
#define CLUSTER_RAMP "sim:connectx2"
#define OUT_DEFAULT "figures"

static const char help_head[] =
	"Usage: nam-bench figure FIGURE... [OPTION]...\n"
	"Experiments of Ziegler et al. (SIGMOD 2019) with the designs of an index (tree-*), of\n"
	"Su et al. (RFP, EuroSys 2017) with a key-value store by each RPC transport (rfp-*), and "
	"of\n"
	"RAMP over RDMA with transactions by each RPC transport and over sockets (ramp-*), on\n"
	"simulated clusters: a CSV file for each, plots by gnuplot, and tables.\n"
	"\n";

static const char help_options[] =
	"  all            all of them\n"
	"\n"
	"  --out DIR           where files go (default figures); it is made if need be\n"
	"  --designs LIST      of coarse, fine, hybrid (default: all that the library knows)\n"
	"  --keys N            pairs to load (default 1M; the paper: 100M)\n"
	"  --seconds S         of each point, at least (default 0.002; of ramp-* 0.05; real\n"
	"                      clusters: 1); scans take as long as it takes for some of each\n"
	"                      client\n"
	"  --clients LIST      for example 20,40,80 (default 20 to 240); where clients are not on\n"
	"                      the x axis, the last\n"
	"  --memservers LIST   likewise (default 1,2,4,8; elsewhere 4)\n"
	"  --rpc-threads N     handler threads of a memory server, 1 to 64 (default: the\n"
	"                      profile's)\n"
	"  --cluster CLUSTER   sim:PROFILE (default sim:connect-ib; of rfp-*: sim:connectx3; of\n"
	"                      ramp-*: sim:connectx2, sockets always sim:connectx2-ipoib); or a\n"
	"                      real one: clients are threads of one process then, 1, 2 and 4 by\n"
	"                      default\n"
	"  --jobs N            points at a time (default 2; real clusters: 1)\n"
	"  --seed N            (default 1)\n"
	"  --quick             few small points: to see that it works\n"
	"  --plot              it is an error if there is no gnuplot\n"
	"  --quiet             no progress, no tables\n"
	"  --help              this text\n"
	"\n"
	NAM_EXIT_HELP;

static void
print_help(void)
{
	fputs(help_head, stdout);
	for (size_t i = 0; i < figures_count; i++)
		printf("  %-14s %s: %s\n", figures[i].name, figures[i].paper, figures[i].title);
	fputs(help_options, stdout);
}

enum {
	OPT_OUT = 256,
	OPT_DESIGNS,
	OPT_KEYS,
	OPT_SECONDS,
	OPT_CLIENTS,
	OPT_MEMSERVERS,
	OPT_RPC_THREADS,
	OPT_CLUSTER,
	OPT_JOBS,
	OPT_SEED,
	OPT_QUICK,
	OPT_PLOT,
	OPT_QUIET,
	OPT_HELP,
};

static const struct option options_known[] = {
	{ "out", required_argument, NULL, OPT_OUT },
	{ "designs", required_argument, NULL, OPT_DESIGNS },
	{ "keys", required_argument, NULL, OPT_KEYS },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "clients", required_argument, NULL, OPT_CLIENTS },
	{ "memservers", required_argument, NULL, OPT_MEMSERVERS },
	{ "rpc-threads", required_argument, NULL, OPT_RPC_THREADS },
	{ "cluster", required_argument, NULL, OPT_CLUSTER },
	{ "jobs", required_argument, NULL, OPT_JOBS },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "quick", no_argument, NULL, OPT_QUICK },
	{ "plot", no_argument, NULL, OPT_PLOT },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

/* ---- command line -------------------------------------------------------------------------- */

static int
take_list(const char *option, const char *text, uint64_t max, struct figure_list *ret)
{
	char copy[256], *next = copy, *item;

	if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy)) {
		bench_complain("%s: the list is too long", option);
		return -1;
	}
	ret->count = 0;
	while ((item = strsep(&next, ","))) {
		uint64_t value;

		if (ret->count == FIGURE_LIST_MAX) {
			bench_complain("%s: more than %u values", option, FIGURE_LIST_MAX);
			return -1;
		}
		if (option_count(option, item, 1, max, &value))
			return -1;
		ret->values[ret->count++] = (double)value;
	}
	return 0;
}

static int
take_designs(const char *text, struct figure_options *o)
{
	char copy[64], *next = copy, *item;

	memset(o->designs, 0, sizeof(o->designs));
	snprintf(copy, sizeof(copy), "%s", text);
	while ((item = strsep(&next, ","))) {
		unsigned design = 0;

		while (design < FIGURE_DESIGNS && strcmp(figure_designs[design], item) != 0)
			design++;
		if (design == FIGURE_DESIGNS)
			return option_bad_choice("--designs", item, "of coarse, fine and hybrid");
		o->designs[design] = true;
	}
	return 0;
}

static int
take(struct figure_options *o, int option, const char *value)
{
	switch (option) {
	case OPT_OUT:
		o->out = value;
		return 0;
	case OPT_DESIGNS:
		return take_designs(value, o);
	case OPT_KEYS:
		return option_count("--keys", value, 100, 1ull << 32, &o->keys);
	case OPT_SECONDS:
		return option_number("--seconds", value, 0.001, 1000, &o->seconds);
	case OPT_CLIENTS:
		return take_list("--clients", value, 4000, &o->clients);
	case OPT_MEMSERVERS:
		return take_list("--memservers", value, SIMULATION_MEMSERVERS_MAX, &o->memservers);
	case OPT_RPC_THREADS:
		return option_count32("--rpc-threads", value, 1, 64, &o->rpc_threads);
	case OPT_CLUSTER:
		o->cluster = value;
		return 0;
	case OPT_JOBS:
		return option_count32("--jobs", value, 1, JOBS_MAX, &o->jobs);
	case OPT_SEED:
		return option_count("--seed", value, 0, UINT64_MAX, &o->seed);
	case OPT_QUICK:
		o->quick = true;
		return 0;
	case OPT_PLOT:
		o->plot = true;
		return 0;
	default:
		o->quiet = true;
		return 0;
	}
}

static int
network_read(const char *cluster, struct nam_sim_network *ret)
{
	struct nam_diag diag = { "" };

	if (!nam_sim_network_read(cluster + strlen("sim:"), ret, &diag))
		return 0;
	bench_complain("--cluster %s: %s", cluster, diag.text);
	return -1;
}

static int
settle(struct figure_options *o)
{
	if (o->cluster && !o->cluster[0]) {
		bench_complain("--cluster: it is empty; say sim:PROFILE, or who serves memory");
		return -1;
	}
	o->simulated = !o->cluster || simulation_wanted(o->cluster);
	if (o->cluster && o->simulated && network_read(o->cluster, &o->network))
		return -1;
	if (!o->simulated && (o->memservers.count || o->rpc_threads)) {
		bench_complain("%s: only with --cluster sim:PROFILE; real ones are started by "
			"themselves", o->memservers.count ? "--memservers" : "--rpc-threads");
		return -1;
	}
	if (!o->keys)
		o->keys = o->quick ? KEYS_QUICK : KEYS_DEFAULT;
	if (!o->jobs)
		o->jobs = o->simulated ? 2 : 1;
	return 0;
}

static bool
needs_simulation(const struct figure *figure)
{
	return !figure->model_only && (figure->x == X_MEMSERVERS || figure->x == X_COLOCATED ||
		figure->x == X_RPC_THREADS);
}

/* The names come first in argv[optind]; "all" stands for all of them. */
static int
check_names(int count, char **names, const struct figure_options *o)
{
	if (!count) {
		bench_complain("which figure?  nam-bench figure --help lists them");
		return -1;
	}
	for (int i = 0; i < count; i++) {
		const struct figure *figure = figure_find(names[i]);

		if (!strcmp(names[i], "all"))
			continue;
		if (!figure) {
			bench_complain("there is no figure '%s': nam-bench figure --help lists "
				"them", names[i]);
			return -1;
		}
		if (!o->simulated && needs_simulation(figure)) {
			bench_complain("%s: only with --cluster sim:PROFILE", figure->name);
			return -1;
		}
	}
	return 0;
}

static bool
is_named(const struct figure *figure, int count, char **names, const struct figure_options *o)
{
	for (int i = 0; i < count; i++) {
		if (!strcmp(names[i], figure->name))
			return true;
		if (!strcmp(names[i], "all") && (o->simulated || !needs_simulation(figure)))
			return true;
	}
	return false;
}

/* Returns 0, or 1 when the program is to exit with *ret_exit. */
static int
parse(int argc, char **argv, struct figure_options *o, int *ret_exit)
{
	int option;

	*o = (struct figure_options){
		.out = OUT_DEFAULT,
		.seed = 1,
		.designs = { true, true, true },
	};
	*ret_exit = NAM_EXIT_USAGE;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", options_known, NULL)) != -1) {
		if (option == OPT_HELP) {
			print_help();
			*ret_exit = NAM_EXIT_OK;
			return 1;
		}
		if (option == '?' || option == ':') {
			option_unknown(argc, argv, option);
			return 1;
		}
		if (take(o, option, optarg))
			return 1;
	}
	return settle(o) || check_names(argc - optind, argv + optind, o);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int
make_folder(const char *path)
{
	struct stat is;

	if (!mkdir(path, 0777) || (errno == EEXIST && !stat(path, &is) && S_ISDIR(is.st_mode)))
		return NAM_EXIT_OK;
	bench_complain("--out %s: %s", path, errno == EEXIST ? "it is no folder" : strerror(errno));
	return NAM_EXIT_USAGE;
}

/* What nobody has said. */
static int
settle_own(const struct figure *figure, struct figure_options *o)
{
	static const char *const clusters[] = {
		[FIGURE_TREES] = CLUSTER_DEFAULT,
		[FIGURE_REQUESTS] = CLUSTER_RFP,
		[FIGURE_TRANSACTIONS] = CLUSTER_RAMP,
	};
	bool transactions = figure->kind == FIGURE_TRANSACTIONS;

	if (!(o->seconds > 0) && !o->simulated)
		o->seconds = SECONDS_REAL;
	else if (!(o->seconds > 0) && transactions)
		o->seconds = o->quick ? SECONDS_RAMP_QUICK : SECONDS_RAMP;
	else if (!(o->seconds > 0))
		o->seconds = o->quick ? SECONDS_QUICK : SECONDS_SIMULATED;
	if (!o->cluster) {
		o->cluster = clusters[figure->kind];
		if (network_read(o->cluster, &o->network))
			return -1;
	}
	return transactions && o->simulated ? network_read(FIGURE_SOCKETS_CLUSTER, &o->sockets) :
		0;
}

static int
do_figure(const struct figure *figure, const struct figure_options *all)
{
	struct figure_options own = *all;
	const struct figure_options *o = &own;
	struct figure_points points;
	int exit_code, other, rc;

	if (settle_own(figure, &own))
		return NAM_EXIT_USAGE;
	rc = figure_plan(figure, o, &points);
	if (rc)
		return bench_failed(figure->name, rc, NULL);
	exit_code = figure_run(figure, o, &points);
	if (exit_code < NAM_EXIT_SIGNAL) {
		other = figure_csv(figure, o, &points);
		if (!other)
			other = figure_plot(figure, o, &points);
		exit_code = exit_code ? exit_code : other;
		if (!o->quiet)
			figure_print(figure, o, &points);
	}
	free(points.points);
	return exit_code;
}

static bool
needs_cluster(int count, char **names, const struct figure_options *o)
{
	for (size_t i = 0; i < figures_count; i++)
		if (is_named(&figures[i], count, names, o) && !figures[i].model_only &&
			!(figures[i].kind != FIGURE_TREES && o->simulated))
			return true;
	return false;
}

/* Which designs there are is asked of the cluster of their figures. */
static int
probe(struct figure_options *o)
{
	const char *said = o->cluster;
	int exit_code;

	if (!said)
		o->cluster = CLUSTER_DEFAULT;
	exit_code = figure_probe(o);
	o->cluster = said;
	return exit_code;
}

int
figure_main(int argc, char **argv)
{
	struct figure_options o;
	int exit_code, count;
	char **names;

	if (parse(argc, argv, &o, &exit_code))
		return exit_code;
	names = argv + optind;
	count = argc - optind;
	exit_code = make_folder(o.out);
	if (exit_code)
		return exit_code;
	bench_catch_signals();
	progress_init(o.quiet);
	if (needs_cluster(count, names, &o))
		exit_code = probe(&o);
	for (size_t i = 0; i < figures_count && (exit_code == NAM_EXIT_OK ||
						 exit_code == NAM_EXIT_NO); i++) {
		int one;

		if (!is_named(&figures[i], count, names, &o))
			continue;
		one = do_figure(&figures[i], &o);
		if (one)
			exit_code = one;
	}
	if (!o.quiet && exit_code < NAM_EXIT_USAGE)
		printf("\nfiles are in %s/\n", o.out);
	figure_run_end();
	return exit_code;
}
