/* SPDX-License-Identifier: Apache-2.0 */
/* figure_plan.c -- which experiments there are, and the points of each. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "figure.h"

#define NODE_BYTES 1024.0
#define PAPER_KEYS 100e6	/* figure 3 is table 1's */
#define PAPER_BYTES_PER_S 50e9
#define PAPER_AMPLIFICATION 10.0
#define ROUNDS 3.0		/* scans that each client does at least */

const char *const figure_designs[FIGURE_DESIGNS] = { "coarse", "fine", "hybrid" };
static const char *const transports[FIGURE_DESIGNS] = { "srq", "mailbox", "fetch" };
#define FETCH 2u
#define RFP_CLIENTS 35u		/* of the paper's peak */
#define RAMP_CLIENTS 8u
#define RAMP_MEMSERVERS 4u
#define RAMP_RECORDS_QUICK 1000u
#define REAL_CLIENTS 4u

enum { COARSE, FINE, HYBRID };

#define TREE(w, s, skew)                                                                            \
	{                                                                                           \
		.workload = (w), .selectivity = (s), .skewed = (skew)                               \
	}

/* Workloads A, and B with three selectivities. */
#define CASES_A_B(skewed)                                                                           \
	.cases_count = 4,                                                                           \
	.cases = {                                                                                  \
		TREE("tree-a", 0, skewed),                                                            \
		TREE("tree-b", 0.001, skewed),                                                        \
		TREE("tree-b", 0.01, skewed),                                                         \
		TREE("tree-b", 0.1, skewed),                                                          \
	}
#define ALL .fine = true, .coarse = true, .hybrid = true

const struct figure figures[] = {
	{ .name = "tree-3", .paper = "figure 3", .title = "highest throughput by the model",
		.x = X_MEMSERVERS, .y = Y_RATE, .fine = true, .coarse = true, .model_only = true,
		.cases_count = 2,
		.cases = { TREE("tree-b", 0.001, false), TREE("tree-b", 0.001, true) } },
	{ .name = "tree-7", .paper = "figure 7", .title = "throughput, skewed data",
		.x = X_CLIENTS, .y = Y_RATE, ALL, CASES_A_B(true) },
	{ .name = "tree-8", .paper = "figure 8", .title = "throughput, uniform data",
		.x = X_CLIENTS, .y = Y_RATE, ALL, CASES_A_B(false) },
	{ .name = "tree-9", .paper = "figure 9", .title = "network utilisation, skewed data",
		.x = X_CLIENTS, .y = Y_BYTES, ALL, CASES_A_B(true) },
	{ .name = "tree-10", .paper = "figure 10", .title = "data sizes, uniform data",
		.x = X_KEYS, .y = Y_RATE, .clients = 240, ALL, .cases_count = 2,
		.cases = { TREE("tree-a", 0, false), TREE("tree-b", 0.1, false) } },
	{ .name = "tree-11", .paper = "figure 11", .title = "numbers of memory servers",
		.x = X_MEMSERVERS, .y = Y_RATE, .clients = 120, ALL, .cases_count = 4,
		.cases = { TREE("tree-a", 0, true), TREE("tree-b", 0.01, true),
			TREE("tree-a", 0, false), TREE("tree-b", 0.01, false) } },
	{ .name = "tree-12", .paper = "figure 12", .title = "workloads with inserts, uniform data",
		.x = X_CLIENTS, .y = Y_RATE, ALL, .cases_count = 2,
		.cases = { TREE("tree-c", 0, false), TREE("tree-d", 0, false) } },
	{ .name = "tree-13", .paper = "figure 13", .title = "latency, skewed data",
		.x = X_CLIENTS, .y = Y_LATENCY, ALL, CASES_A_B(true) },
	{ .name = "tree-14", .paper = "figure 14", .title = "latency, uniform data",
		.x = X_CLIENTS, .y = Y_LATENCY, ALL, CASES_A_B(false) },
	{ .name = "tree-15", .paper = "figure 15", .title = "co-location, uniform data",
		.x = X_COLOCATED, .y = Y_RATE, .clients = 80, ALL, CASES_A_B(false) },
	{ .name = "tree-cache", .paper = "appendix A.4", .title = "caches of compute nodes",
		.x = X_CACHE, .y = Y_RATE, .clients = 240, .fine = true, .hybrid = true,
		.cases_count = 4,
		.cases = { TREE("tree-a", 0, false), TREE("tree-b", 0.001, false),
			TREE("tree-c", 0, false), TREE("tree-d", 0, false) } },
	{ .name = "rfp-4a", .paper = "figure 4 (a)", .title = "handler threads",
		.x = X_RPC_THREADS, .y = Y_RATE, .clients = RFP_CLIENTS, .kind = FIGURE_REQUESTS,
		.cases_count = 1, .cases = { { .text = "95 % GET, values of 32 bytes" } } },
	{ .name = "rfp-4", .paper = "figure 4 (b)", .title = "clients",
		.x = X_CLIENTS, .y = Y_RATE, .kind = FIGURE_REQUESTS,
		.cases_count = 1, .cases = { { .text = "95 % GET, values of 32 bytes" } } },
	{ .name = "rfp-5", .paper = "figure 5", .title = "latency",
		.x = X_CLIENTS, .y = Y_LATENCY, .kind = FIGURE_REQUESTS,
		.cases_count = 1, .cases = { { .text = "95 % GET, values of 32 bytes" } } },
	{ .name = "rfp-6", .paper = "figure 6", .title = "shares of GET, uniform keys",
		.x = X_GET_PERCENT, .y = Y_RATE, .clients = RFP_CLIENTS, .kind = FIGURE_REQUESTS,
		.cases_count = 1, .cases = { { .text = "values of 32 bytes" } } },
	{ .name = "rfp-7", .paper = "figure 7", .title = "lengths of values",
		.x = X_VALUE_BYTES, .y = Y_RATE, .clients = RFP_CLIENTS, .kind = FIGURE_REQUESTS,
		.cases_count = 1,
		.cases = { { .text = "95 % GET; a fetch holds 32 bytes", .fetch_bytes = 80 } } },
	{ .name = "rfp-8", .paper = "figure 8", .title = "sizes of a fetch",
		.x = X_VALUE_BYTES, .y = Y_RATE, .clients = RFP_CLIENTS, .kind = FIGURE_REQUESTS,
		.fetch_only = true, .cases_count = 3,
		.cases = { { .text = "95 % GET; a fetch holds 32 bytes", .fetch_bytes = 80 },
			{ .text = "95 % GET; a fetch holds 128 bytes", .fetch_bytes = 176 },
			{ .text = "95 % GET; a fetch holds 512 bytes", .fetch_bytes = 560 } } },
	{ .name = "rfp-9", .paper = "figure 9", .title = "shares of GET, skewed keys",
		.x = X_GET_PERCENT, .y = Y_RATE, .clients = RFP_CLIENTS, .kind = FIGURE_REQUESTS,
		.cases_count = 1,
		.cases = { { .text = "values of 32 bytes, zipfian 0.99", .zipfian = true } } },
	{ .name = "rfp-10", .paper = "figure 10",
		.title = "mixed lengths, in the place of the paper's texts",
		.x = X_GET_PERCENT, .y = Y_RATE, .clients = RFP_CLIENTS, .kind = FIGURE_REQUESTS,
		.cases_count = 1,
		.cases = { { .text = "values of 1 to 899 bytes, 43 on average; a fetch holds 512",
			.mixed = true, .fetch_bytes = 560 } } },
	{ .name = "ramp-5", .paper = "figure 5", .title = "RPC transports of transactions",
		.x = X_TRANSPORT, .y = Y_RATE, .clients = RAMP_CLIENTS, .kind = FIGURE_TRANSACTIONS,
		.transaction_size = 8, .cases_count = 1,
		.cases = { { .text = "8 records a transaction, 95 % of these read" } } },
	{ .name = "ramp-6", .paper = "figure 6", .title = "transaction sizes",
		.x = X_TRANSACTION_SIZE, .y = Y_RATE, .clients = RAMP_CLIENTS,
		.kind = FIGURE_TRANSACTIONS, .cases_count = 1,
		.cases = { { .text = "95 % of the transactions read" } } },
	{ .name = "ramp-7", .paper = "figure 7", .title = "shares of transactions that read",
		.x = X_READ_RATIO, .y = Y_RATE, .clients = RAMP_CLIENTS,
		.kind = FIGURE_TRANSACTIONS, .transaction_size = 8, .cases_count = 1,
		.cases = { { .text = "8 records a transaction" } } },
	{ .name = "ramp-8", .paper = "figure 8",
		.title = "shares of transactions that read, YCSB's keys and values",
		.x = X_READ_RATIO, .y = Y_RATE, .clients = RAMP_CLIENTS,
		.kind = FIGURE_TRANSACTIONS, .transaction_size = 4, .cases_count = 1,
		.cases = { { .text = "1,000 records of 1,000 bytes, zipfian; 4 a transaction",
			.zipfian = true, .records = 1000, .value_bytes = 1000 } } },
};

unsigned
figure_lines(const struct figure *figure)
{
	return figure->kind == FIGURE_TRANSACTIONS ? FIGURE_RAMP_LINES : FIGURE_DESIGNS;
}

const char *
figure_line(const struct figure *figure, unsigned design)
{
	switch (figure->kind) {
	case FIGURE_REQUESTS:
		return transports[design];
	case FIGURE_TRANSACTIONS:
		return figure_ramp_lines[design].name;
	default:
		return figure_designs[design];
	}
}

const size_t figures_count = sizeof(figures) / sizeof(figures[0]);

const struct figure *
figure_find(const char *name)
{
	for (size_t i = 0; i < figures_count; i++)
		if (!strcmp(figures[i].name, name))
			return &figures[i];
	return NULL;
}

void
figure_case_text(const struct figure_case *which, char text[FIGURE_TEXT_BYTES])
{
	const char *data = which->skewed ? "skewed" : "uniform";

	if (which->text) {
		snprintf(text, FIGURE_TEXT_BYTES, "%s", which->text);
		return;
	}

	switch (which->workload[strlen(which->workload) - 1]) {
	case 'a':
		snprintf(text, FIGURE_TEXT_BYTES, "A: point queries, %s data", data);
		break;
	case 'b':
		snprintf(text, FIGURE_TEXT_BYTES, "B: range queries of %g %%, %s data",
			which->selectivity * 100, data);
		break;
	case 'c':
		snprintf(text, FIGURE_TEXT_BYTES, "C: 95 %% point queries, 5 %% inserts");
		break;
	default:
		snprintf(text, FIGURE_TEXT_BYTES, "D: 50 %% point queries, 50 %% inserts");
	}
}

/*
 * The paper's for four memory servers and for two.  Otherwise as there the first has 80 per cent,
 * and the others less and less.
 */
void
figure_shares(unsigned memservers, char text[FIGURE_SHARES_BYTES])
{
	double sum = 0;
	int at = 0;

	text[0] = '\0';
	if (memservers == 2)
		strcpy(text, "80,20");
	if (memservers == 4)
		strcpy(text, "80,12,5,3");
	if (memservers < 2 || text[0])
		return;
	for (unsigned i = 1; i < memservers; i++)
		sum += 1.0 / (i * i);
	at = sprintf(text, "80");
	for (unsigned i = 1; i < memservers; i++)
		at += sprintf(text + at, ",%.5g", 20 / sum / (i * i));
}

/* ---- points -------------------------------------------------------------------------------- */

static struct figure_list
x_values(const struct figure *figure, const struct figure_options *o)
{
	static const struct figure_list clients = { 7, { 20, 40, 80, 120, 160, 200, 240 } };
	static const struct figure_list few_clients = { 2, { 4, 8 } };
	static const struct figure_list real_clients = { 3, { 1, 2, 4 } };
	static const struct figure_list memservers = { 4, { 1, 2, 4, 8 } };
	static const struct figure_list few_memservers = { 2, { 1, 2 } };
	static const struct figure_list model_memservers = { 6, { 2, 4, 8, 16, 32, 64 } };
	static const struct figure_list caches = { 7, { 0, 0.03, 0.06, 0.12, 0.25, 0.5, 1 } };
	static const struct figure_list rfp_clients = { 8, { 1, 7, 14, 21, 28, 35, 70, 112 } };
	static const struct figure_list few_rfp_clients = { 2, { 4, 35 } };
	static const struct figure_list threads = { 7, { 1, 2, 4, 6, 8, 10, 16 } };
	static const struct figure_list few_threads = { 2, { 1, 4 } };
	static const struct figure_list shares = { 5, { 5, 25, 50, 75, 95 } };
	static const struct figure_list few_shares = { 2, { 5, 95 } };
	static const struct figure_list values = { 6, { 32, 64, 128, 256, 512, 1024 } };
	static const struct figure_list few_values = { 2, { 32, 64 } };
	static const struct figure_list colocated = { 2, { 0, 1 } };
	static const struct figure_list one = { 1, { 0 } };
	static const struct figure_list sizes = { 6, { 1, 2, 4, 8, 16, 32 } };
	static const struct figure_list few_sizes = { 2, { 1, 4 } };
	static const struct figure_list ratios = { 6, { 0, 25, 50, 75, 95, 100 } };
	static const struct figure_list few_ratios = { 2, { 0, 100 } };
	struct figure_list keys = { 3, { (double)(o->keys / 10), (double)o->keys,
		(double)o->keys * 10 } };
	struct figure_list list;

	switch (figure->x) {
	case X_RPC_THREADS:
		return o->quick ? few_threads : threads;
	case X_GET_PERCENT:
		return o->quick ? few_shares : shares;
	case X_VALUE_BYTES:
		return o->quick ? few_values : values;
	case X_TRANSPORT:
		return one;
	case X_TRANSACTION_SIZE:
		return o->quick ? few_sizes : sizes;
	case X_READ_RATIO:
		return o->quick ? few_ratios : ratios;
	case X_CLIENTS:
		if (figure->kind == FIGURE_REQUESTS && o->simulated && !o->clients.count)
			return o->quick ? few_rfp_clients : rfp_clients;
		return o->clients.count ? o->clients : !o->simulated ? real_clients :
			o->quick ? few_clients : clients;
	case X_MEMSERVERS:
		return figure->model_only ? model_memservers : o->memservers.count ? o->memservers :
			o->quick ? few_memservers : memservers;
	case X_KEYS:
		keys.count = o->quick ? 2 : 3;
		return keys;
	case X_CACHE:
		/* Inner nodes take a third of a byte a key. */
		list = caches;
		for (unsigned i = 0; i < list.count; i++)
			list.values[i] *= (double)o->keys / 1e6;
		if (o->quick) {
			list.values[1] = list.values[list.count - 1];
			list.count = 2;
		}
		return list;
	default:
		return colocated;
	}
}

static unsigned
last_of(const struct figure_list *list, unsigned otherwise)
{
	return list->count ? (unsigned)list->values[list->count - 1] : otherwise;
}

static void
set_model(const struct figure_options *o, struct figure_point *point)
{
	const struct figure_case *which = &point->figure->cases[point->which];
	bool paper = point->figure->model_only;
	struct figure_model_input input = {
		.fine = point->design == FINE,
		.hashed = !strcmp(point->partitioning, "hash"),
		.skewed = which->skewed && point->memservers > 1,
		.memservers = point->memservers,
		.bytes_per_s = paper ? PAPER_BYTES_PER_S : figure_port_bytes_per_s(&o->network),
		.node_bytes = NODE_BYTES,
		.keys = paper ? PAPER_KEYS : (double)point->keys,
		.selectivity = which->selectivity,
		.amplification = paper ? PAPER_AMPLIFICATION : 1,
	};
	struct figure_model model = { 0 };

	if (o->simulated || paper)
		figure_model(&input, &model);
	/* Long enough for some scans of each client. */
	point->seconds = o->seconds;
	if (model.known && which->selectivity > 0 &&
		point->seconds < ROUNDS * point->clients / model.ops_per_s)
		point->seconds = ROUNDS * point->clients / model.ops_per_s;
	model.known = model.known && point->design != HYBRID && !point->colocated &&
		!(point->cache_mb > 0) &&
		(which->selectivity > 0 || !strcmp(which->workload, "tree-a"));
	point->model = model;
}

/* As there: requests are to one memory server, records lie on four. */
static void
set_papers(const struct figure_options *o, struct figure_point *point)
{
	const struct figure *figure = point->figure;
	unsigned memservers = figure->kind == FIGURE_REQUESTS ? 1 : RAMP_MEMSERVERS;

	point->memservers = o->simulated ? last_of(&o->memservers, memservers) :
		o->real_memservers;
	if (figure->x != X_CLIENTS)
		point->clients = last_of(&o->clients, o->simulated ? figure->clients :
			REAL_CLIENTS);
	point->seconds = o->seconds;
	if (figure->kind != FIGURE_TRANSACTIONS)
		return;
	point->keys = figure->cases[point->which].records;
	if (!point->keys && o->quick)
		point->keys = RAMP_RECORDS_QUICK;
}

static void
add(struct figure_points *points, const struct figure *figure, const struct figure_options *o,
	unsigned which, unsigned design, const char *partitioning, double x)
{
	struct figure_point *point = &points->points[points->count++];
	unsigned clients = o->simulated ? figure->clients : 2;

	if (o->quick)
		clients = 8;
	*point = (struct figure_point){
		.figure = figure,
		.which = which,
		.design = design,
		.partitioning = partitioning,
		.x = x,
		.keys = o->keys,
		.memservers = o->simulated ? last_of(&o->memservers, o->quick ? 2 : 4) :
					     o->real_memservers,
		.clients = last_of(&o->clients, clients),
	};
	switch (figure->x) {
	case X_CLIENTS:
		point->clients = (unsigned)x;
		break;
	case X_KEYS:
		point->keys = (uint64_t)x;
		break;
	case X_MEMSERVERS:
		point->memservers = (unsigned)x;
		break;
	case X_CACHE:
		point->cache_mb = x;
		break;
	case X_COLOCATED:
		point->colocated = x > 0;
		break;
	case X_RPC_THREADS:
		point->rpc_threads = (unsigned)x;
		break;
	case X_GET_PERCENT:
	case X_VALUE_BYTES:
	case X_TRANSPORT:
	case X_TRANSACTION_SIZE:
	case X_READ_RATIO:
		break;
	}
	if (figure->kind == FIGURE_TREES)
		set_model(o, point);
	else
		set_papers(o, point);
}

/* Nobody knows what sockets would do on real memory servers; the paper's figure 5 is RAMP's. */
static bool
is_transport(const struct figure *figure, const struct figure_options *o, unsigned transport)
{
	if (figure->kind == FIGURE_TRANSACTIONS)
		return figure_ramp_lines[transport].sockets ? o->simulated &&
			(transport == FIGURE_SOCKETS || figure->x != X_TRANSPORT) : true;
	return !figure->fetch_only || transport == FETCH;
}

static void
plan_transports(const struct figure *figure, const struct figure_options *o,
	const struct figure_list *xs, struct figure_points *ret)
{
	for (unsigned which = 0; which < figure->cases_count; which++)
		for (unsigned transport = 0; transport < figure_lines(figure); transport++)
			for (unsigned i = 0; i < xs->count &&
			is_transport(figure, o, transport); i++)
				add(ret, figure, o, which, transport, "none", xs->values[i]);
}

int
figure_plan(const struct figure *figure, const struct figure_options *o, struct figure_points *ret)
{
	const bool wanted[FIGURE_DESIGNS] = { figure->coarse, figure->fine, figure->hybrid };
	struct figure_list xs = x_values(figure, o);

	ret->count = 0;
	ret->points = calloc((size_t)figure->cases_count * (FIGURE_LINES_MAX + 1) * xs.count,
		sizeof(*ret->points));
	if (!ret->points)
		return -ENOMEM;
	if (figure->kind != FIGURE_TREES) {
		plan_transports(figure, o, &xs, ret);
		return 0;
	}
	for (unsigned which = 0; which < figure->cases_count; which++) {
		for (unsigned design = 0; design < FIGURE_DESIGNS; design++) {
			if (!wanted[design] || (!o->designs[design] && !figure->model_only))
				continue;
			for (unsigned i = 0; i < xs.count; i++)
				add(ret, figure, o, which, design,
					design == FINE ? "none" : "range", xs.values[i]);
			if (!figure->model_only || design != COARSE)
				continue;
			for (unsigned i = 0; i < xs.count; i++)
				add(ret, figure, o, which, design, "hash", xs.values[i]);
		}
	}
	return 0;
}
