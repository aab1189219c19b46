/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figure.h -- the inside of nam-bench figure: experiments by one command each, of Ziegler et al.
 * (SIGMOD 2019), section 6 and appendix A, with indexes; of Su et al. (RFP, EuroSys 2017), section
 * V, with key-value stores; and of RAMP over RDMA, section V, with transactions.
 *
 *	figure.c	command line; one figure after the other
 *	figure_plan.c	which experiments there are, and the points of each
 *	figure_run.c	points: nam-bench index, kv or ramp for each, some at a time
 *	figure_ramp.c	what is particular to transactions
 *	figure_model.c	the analytic model of section 2.3
 *	figure_csv.c	all that is known of each point, and tables to look at
 *	figure_plot.c	a script for gnuplot, SVG and PNG
 */
#ifndef NAM_BENCH_FIGURE_H
#define NAM_BENCH_FIGURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/sim/network.h"
#include "nam.h"

#define FIGURE_LIST_MAX 16u	/* values of an option that is a list */
#define FIGURE_CASES_MAX 8u
#define FIGURE_DESIGNS 3u	/* of an index */
#define FIGURE_LINES_MAX 6u	/* designs, or RPC transports */
#define FIGURE_TEXT_BYTES 64u

struct figure_list {
	unsigned count;
	double values[FIGURE_LIST_MAX];
};

struct figure_options {
	const char *out;		/* a folder */
	const char *cluster;		/* "sim:PROFILE", or a real one; NULL: each figure's own */
	bool simulated;
	struct nam_sim_network network;	/* simulated */
	struct nam_sim_network sockets;	/* simulated: of transactions over sockets */
	uint64_t keys;
	double seconds;			/* of each point, at least; 0: the figure's own */
	struct figure_list clients, memservers;	/* none: those of the figure */
	uint32_t rpc_threads;		/* 0: the profile's */
	uint32_t jobs;
	uint64_t seed;
	bool designs[FIGURE_DESIGNS];
	bool quick, quiet, plot;	/* plot: gnuplot must be there */
	unsigned real_memservers;	/* of a cluster that is no simulation */
};

/* ---- plan ---------------------------------------------------------------------------------- */

enum figure_x {
	X_CLIENTS, X_KEYS, X_MEMSERVERS, X_CACHE, X_COLOCATED,
	/* of requests */
	X_RPC_THREADS, X_GET_PERCENT, X_VALUE_BYTES,
	/* of transactions */
	X_TRANSPORT, X_TRANSACTION_SIZE, X_READ_RATIO,
};

enum figure_y { Y_RATE, Y_BYTES, Y_LATENCY };

/* What runs: nam-bench index, kv or ramp.  Lines are designs, or RPC transports. */
enum figure_kind { FIGURE_TREES, FIGURE_REQUESTS, FIGURE_TRANSACTIONS };

/* One panel: what runs there. */
struct figure_case {
	const char *workload;		/* "tree-a", ... */
	double selectivity;		/* 0: no scans */
	bool skewed;			/* 80/12/5/3 */
	/* Of requests: */
	const char *text;		/* the panel's title */
	bool zipfian, mixed;
	unsigned fetch_bytes;		/* 0: what a value takes */
	/* Of transactions; 0: what nam-bench ramp takes: */
	unsigned records, value_bytes;
};

struct figure {
	const char *name, *paper, *title;
	enum figure_x x;
	enum figure_y y;
	unsigned clients;		/* where they are not x */
	enum figure_kind kind;
	bool fine, coarse, hybrid;	/* of trees: designs that are compared */
	bool fetch_only;		/* of requests */
	unsigned transaction_size;	/* of transactions, where it is not x */
	bool model_only;
	unsigned cases_count;
	struct figure_case cases[FIGURE_CASES_MAX];
};

extern const struct figure figures[];
extern const size_t figures_count;

struct figure_model {
	bool known;
	double bytes_per_s;		/* that memory servers have to give */
	double bytes_per_op;
	double ops_per_s;
};

struct figure_result {
	double ops_per_s, p50_ns, p99_ns;
	double round_trips, work_requests, bytes_in, bytes_out;
	double memservers, rpc_threads, height;
	double keys, value_bytes;
	bool cached;
	double hits, stale;		/* shares of the leaves that were wanted */
};

struct figure_point {
	const struct figure *figure;
	unsigned which;			/* of the cases */
	unsigned design;		/* its line: 0 .. figure_lines() - 1 */
	const char *partitioning;
	double x;
	uint64_t keys;			/* of transactions: records; 0: what nam-bench ramp takes */
	unsigned memservers, clients, rpc_threads;
	double cache_mb, seconds;
	bool colocated;
	struct figure_model model;
	bool done;
	struct figure_result result;
};

struct figure_points {
	size_t count;
	struct figure_point *points;
};

extern const char *const figure_designs[FIGURE_DESIGNS];

/* How many there may be; and a design's name, or an RPC transport's. */
unsigned figure_lines(const struct figure *figure);
const char *figure_line(const struct figure *figure, unsigned design);

const struct figure *figure_find(const char *name);

/* What the case is called in a plot: "A: point, uniform". */
void figure_case_text(const struct figure_case *which, char text[FIGURE_TEXT_BYTES]);

/* "80,12,5,3" for so many memory servers; "" for one. */
#define FIGURE_SHARES_BYTES 1024u
void figure_shares(unsigned memservers, char text[FIGURE_SHARES_BYTES]);

/* The caller frees ret->points.  0 or -ENOMEM. */
int figure_plan(const struct figure *figure, const struct figure_options *o,
	struct figure_points *ret) NAM_MUST_CHECK;

/* ---- transactions -------------------------------------------------------------------------- */

#define FIGURE_SOCKETS 0u		/* what others are compared with */
#define FIGURE_SOCKETS_CLUSTER "sim:connectx2-ipoib"
#define FIGURE_RAMP_LINES 6u

struct figure_ramp_line {
	const char *name, *algorithm, *transport;
	bool sockets;			/* on the network of FIGURE_SOCKETS_CLUSTER */
};

extern const struct figure_ramp_line figure_ramp_lines[FIGURE_RAMP_LINES];

bool figure_over_sockets(const struct figure_point *point);

/* The simulated network of a point. */
const struct nam_sim_network *figure_network(const struct figure_options *o,
	const struct figure_point *point);

unsigned figure_transaction_size(const struct figure_point *point);
double figure_read_ratio(const struct figure_point *point);

/* How many times what messages over sockets do with the same x; 0: that is not known. */
double figure_against_sockets(const struct figure_points *points,
	const struct figure_point *point);

/* ---- run ----------------------------------------------------------------------------------- */

/*
 * Which of the designs the library and the cluster know: a small run each.  Tells of those that are
 * left out.  Returns an exit code; not NAM_EXIT_OK if none is left.
 */
int figure_probe(struct figure_options *o) NAM_MUST_CHECK;

/*
 * Run all points.  What an earlier call has run already is not run again.  Complains of points that
 * fail, and goes on.  Returns an exit code.
 */
int figure_run(const struct figure *figure, const struct figure_options *o,
	struct figure_points *points) NAM_MUST_CHECK;

void figure_run_end(void);

/* ---- model --------------------------------------------------------------------------------- */

struct figure_model_input {
	bool fine, hashed, skewed;
	double memservers, bytes_per_s;	/* that each has to give */
	double node_bytes, keys, selectivity;	/* 0: a point */
	double amplification;		/* z: pages that a skewed query reads for one */
};

void figure_model(const struct figure_model_input *input, struct figure_model *ret);

/* What a memory server's share of its machine's ports carries. */
double figure_port_bytes_per_s(const struct nam_sim_network *network);

/* ---- output -------------------------------------------------------------------------------- */

/* OUT/NAME.csv.  Complain; return an exit code. */
int figure_csv(const struct figure *figure, const struct figure_options *o,
	const struct figure_points *points) NAM_MUST_CHECK;

/* OUT/NAME.gp, and by gnuplot OUT/NAME.svg and OUT/NAME.png. */
int figure_plot(const struct figure *figure, const struct figure_options *o,
	const struct figure_points *points) NAM_MUST_CHECK;

/* What is on the y axis. */
void figure_print(const struct figure *figure, const struct figure_options *o,
	const struct figure_points *points);

double figure_y(const struct figure *figure, const struct figure_point *point);

#endif /* NAM_BENCH_FIGURE_H */
