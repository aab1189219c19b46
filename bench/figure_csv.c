/* SPDX-License-Identifier: Apache-2.0 */
/* figure_csv.c -- all that is known of each point, and tables to look at. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "figure.h"
#include "report.h"
#include "text.h"

double
figure_y(const struct figure *figure, const struct figure_point *point)
{
	const struct figure_result *result = &point->result;

	if (figure->model_only)
		return point->model.ops_per_s;
	switch (figure->y) {
	case Y_RATE:
		return result->ops_per_s;
	case Y_BYTES:
		return result->ops_per_s * (result->bytes_in + result->bytes_out);
	default:
		return result->p50_ns;
	}
}

/* ---- CSV ----------------------------------------------------------------------------------- */

static void
write_result(FILE *file, const struct figure_point *point)
{
	const struct figure_result *result = &point->result;

	if (!point->done) {
		fputs(",,,,,,,,,,", file);
		return;
	}
	fprintf(file, ",%.0f,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g", result->height,
		result->ops_per_s, result->p50_ns, result->p99_ns, result->round_trips,
		result->bytes_in, result->bytes_out,
		result->ops_per_s * (result->bytes_in + result->bytes_out));
	if (result->cached)
		fprintf(file, ",%.6g,%.6g", result->hits, result->stale);
	else
		fputs(",,", file);
}

static void
write_model(FILE *file, const struct figure_model *model)
{
	if (model->known)
		fprintf(file, ",%.6g,%.6g,%.6g", model->bytes_per_s, model->bytes_per_op,
			model->ops_per_s);
	else
		fputs(",,,", file);
}

static void
write_point(FILE *file, const struct figure_options *o, const struct figure_point *point)
{
	const struct figure *figure = point->figure;
	const struct figure_case *which = &figure->cases[point->which];
	char skew[FIGURE_SHARES_BYTES] = "";
	double threads = point->done ? point->result.rpc_threads : 0;

	if (which->skewed)
		figure_shares(point->memservers, skew);
	for (char *comma = strchr(skew, ','); comma; comma = strchr(comma, ','))
		*comma = '/';
	fprintf(file, "%s,%s,%s,%s,", figure->name, figure_designs[point->design],
		point->partitioning, which->workload);
	if (which->selectivity > 0)
		fprintf(file, "%g", which->selectivity);
	fprintf(file, ",%s,%" PRIu64 ",%u,", skew[0] ? skew : "uniform",
		figure->model_only ? (uint64_t)100000000 : point->keys, point->memservers);
	if (threads > 0)
		fprintf(file, "%.0f", threads);
	fputc(',', file);
	if (!figure->model_only)
		fprintf(file, "%u,%.6g,%s", point->clients, point->cache_mb,
			point->colocated ? "yes" : "no");
	else
		fputs(",,", file);
	write_result(file, point);
	write_model(file, &point->model);
	fprintf(file, ",%s,%s,%" PRIu64 "\n",
		figure->model_only ? "model" : o->simulated ? "simulated" : "measured",
		o->simulated && !figure->model_only ? o->network.name : "", o->seed);
}

static void
write_request_point(FILE *file, const struct figure_options *o, const struct figure_point *point)
{
	const struct figure *figure = point->figure;
	const struct figure_case *which = &figure->cases[point->which];
	const struct figure_result *result = &point->result;

	fprintf(file, "%s,%s,%g,%s,", figure->name, figure_line(figure, point->design),
		figure->x == X_GET_PERCENT ? point->x : 95,
		which->zipfian ? "zipfian" : "uniform");
	if (which->mixed)
		fputs("mixed", file);
	else
		fprintf(file, "%g", figure->x == X_VALUE_BYTES ? point->x : 32);
	if (which->fetch_bytes)
		fprintf(file, ",%u", which->fetch_bytes);
	else
		fputc(',', file);
	fprintf(file, ",%u,", point->memservers);
	if (o->simulated)
		fprintf(file, "%u", point->rpc_threads ? point->rpc_threads : o->rpc_threads ?
			o->rpc_threads : (unsigned)o->network.rpc_threads);
	fprintf(file, ",%u", point->clients);
	if (point->done)
		fprintf(file, ",%.6g,%.6g,%.6g,%.6g,%.6g,%.6g", result->ops_per_s, result->p50_ns,
			result->p99_ns, result->round_trips, result->bytes_in, result->bytes_out);
	else
		fputs(",,,,,,", file);
	fprintf(file, ",%s,%s,%" PRIu64 "\n", o->simulated ? "simulated" : "measured",
		o->simulated ? o->network.name : "", o->seed);
}

static void
write_transactions_point(FILE *file, const struct figure_options *o,
	const struct figure_points *points, const struct figure_point *point)
{
	const struct figure *figure = point->figure;
	const struct figure_case *which = &figure->cases[point->which];
	const struct figure_result *result = &point->result;
	const struct nam_sim_network *network = figure_network(o, point);
	double times = figure_against_sockets(points, point);

	fprintf(file, "%s,%s,%u,%g,%s,", figure->name, figure_line(figure, point->design),
		figure_transaction_size(point), figure_read_ratio(point),
		which->zipfian ? "zipfian" : "uniform");
	if (point->done)
		fprintf(file, "%.0f,%.0f", result->value_bytes, result->keys);
	else
		fputc(',', file);
	fprintf(file, ",%u,", point->memservers);
	if (o->simulated)
		fprintf(file, "%u", o->rpc_threads ? o->rpc_threads :
			(unsigned)network->rpc_threads);
	fprintf(file, ",%u", point->clients);
	if (point->done)
		fprintf(file, ",%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g", result->ops_per_s,
			result->p50_ns, result->p99_ns, result->round_trips, result->work_requests,
			result->bytes_in, result->bytes_out);
	else
		fputs(",,,,,,,", file);
	if (point->done && times > 0)
		fprintf(file, ",%.4g", times);
	else
		fputc(',', file);
	fprintf(file, ",%s,%s,%" PRIu64 "\n", o->simulated ? "simulated" : "measured",
		o->simulated ? network->name : "", o->seed);
}

static void
write_heading(FILE *file, const struct figure *figure)
{
	static const char *const headings[] = {
		[FIGURE_TREES] = "figure,design,partitioning,workload,selectivity,skew,keys,"
			"memservers,handler_threads,clients,cache_mb,colocated,height,ops_per_s,"
			"p50_ns,p99_ns,round_trips_per_op,bytes_in_per_op,bytes_out_per_op,"
			"bytes_per_s,cache_hit_rate,cache_stale_rate,model_bytes_per_s,"
			"model_bytes_per_op,model_ops_per_s,source,profile,seed\n",
		[FIGURE_REQUESTS] = "figure,transport,get_percent,distribution,value_bytes,"
			"fetch_bytes,memservers,handler_threads,clients,ops_per_s,p50_ns,p99_ns,"
			"round_trips_per_op,bytes_in_per_op,bytes_out_per_op,source,profile,seed\n",
		[FIGURE_TRANSACTIONS] =
		"figure,transport,transaction_size,read_ratio,distribution,"
			"value_bytes,records,memservers,handler_threads,clients,ops_per_s,p50_ns,"
			"p99_ns,round_trips_per_op,work_requests_per_op,bytes_in_per_op,"
			"bytes_out_per_op,against_sockets,source,profile,seed\n",
	};

	fputs(headings[figure->kind], file);
}

static void
write_any_point(FILE *file, const struct figure_options *o, const struct figure_points *points,
	const struct figure_point *point)
{
	switch (point->figure->kind) {
	case FIGURE_TREES:
		write_point(file, o, point);
		break;
	case FIGURE_REQUESTS:
		write_request_point(file, o, point);
		break;
	case FIGURE_TRANSACTIONS:
		write_transactions_point(file, o, points, point);
		break;
	}
}

int
figure_csv(const struct figure *figure, const struct figure_options *o,
	const struct figure_points *points)
{
	char path[PATH_MAX];
	FILE *file;
	bool lost;

	snprintf(path, sizeof(path), "%s/%s.csv", o->out, figure->name);
	file = fopen(path, "we");
	if (!file) {
		bench_complain("%s: %s", path, strerror(errno));
		return NAM_EXIT_USAGE;
	}
	write_heading(file, figure);
	for (size_t i = 0; i < points->count; i++)
		write_any_point(file, o, points, &points->points[i]);
	lost = ferror(file) != 0;
	if (fclose(file) || lost) {
		bench_complain("%s: it could not be written", path);
		return NAM_EXIT_NO;
	}
	return NAM_EXIT_OK;
}

/* ---- tables -------------------------------------------------------------------------------- */

static void
print_x(const struct figure *figure, double x)
{
	char text[TEXT_BYTES];

	switch (figure->x) {
	case X_CLIENTS:
		printf("  %6.0f clients      ", x);
		break;
	case X_MEMSERVERS:
		printf("  %6.0f mem. servers ", x);
		break;
	case X_KEYS:
		printf("  %8s keys       ", text_count(text, x));
		break;
	case X_CACHE:
		printf("  %6.3g MiB of cache ", x);
		break;
	case X_RPC_THREADS:
		printf("  %6.0f handlers     ", x);
		break;
	case X_GET_PERCENT:
		printf("  %6.0f %% GET        ", x);
		break;
	case X_VALUE_BYTES:
		printf("  %6.0f bytes        ", x);
		break;
	case X_TRANSACTION_SIZE:
		printf("  %6.0f records      ", x);
		break;
	case X_READ_RATIO:
		printf("  %6.0f %% read       ", x);
		break;
	case X_TRANSPORT:
		printf("%21s", "");
		break;
	default:
		printf("  %-19s", x > 0 ? "co-located" : "apart");
	}
}

/* Transactions: also how many times as many as over sockets. */
static void
print_y(const struct figure *figure, const struct figure_points *points,
	const struct figure_point *point)
{
	char p50[TEXT_BYTES], p99[TEXT_BYTES];

	if (!point || (!point->done && !figure->model_only))
		printf("%22s", "-");
	else if (figure->y == Y_LATENCY)
		printf("%12s%10s", text_ns(p50, point->result.p50_ns),
			text_ns(p99, point->result.p99_ns));
	else if (figure->y == Y_BYTES)
		printf("%17.2f GB/s", figure_y(figure, point) * 1e-9);
	else if (figure_against_sockets(points, point) > 0)
		printf("%11s/s%7.2f x", text_count(p50, figure_y(figure, point)),
			figure_against_sockets(points, point));
	else
		printf("%20s/s", text_count(p50, figure_y(figure, point)));
}

static const struct figure_point *
point_find(const struct figure_points *points, unsigned which, unsigned design,
	const char *partitioning, double x)
{
	for (size_t i = 0; i < points->count; i++) {
		const struct figure_point *point = &points->points[i];

		if (point->which == which && point->design == design && point->x == x &&
			(!partitioning || !strcmp(point->partitioning, partitioning)))
			return point;
	}
	return NULL;
}

/* Is it the first of its panel with its x?  Then a row begins. */
static bool
is_new(const struct figure_points *points, size_t at)
{
	const struct figure_point *point = &points->points[at];

	for (size_t i = 0; i < at; i++)
		if (points->points[i].which == point->which && points->points[i].x == point->x)
			return false;
	return true;
}

static void
print_case(const struct figure *figure, const struct figure_points *points, unsigned which)
{
	char text[FIGURE_TEXT_BYTES];

	figure_case_text(&figure->cases[which], text);
	printf("\n  %s\n%21s", text, "");
	for (unsigned design = 0; design < figure_lines(figure); design++)
		printf("%22s", figure_line(figure, design));
	if (figure->model_only)
		printf("%22s", "coarse by hash");
	putchar('\n');
	for (size_t i = 0; i < points->count; i++) {
		double x = points->points[i].x;

		if (points->points[i].which != which || !is_new(points, i))
			continue;
		print_x(figure, x);
		for (unsigned design = 0; design < figure_lines(figure); design++)
			print_y(figure, points, point_find(points, which, design, NULL, x));
		if (figure->model_only)
			print_y(figure, points, point_find(points, which, 0, "hash", x));
		putchar('\n');
	}
}

void
figure_print(const struct figure *figure, const struct figure_options *o,
	const struct figure_points *points)
{
	char heading[160];

	if (figure->model_only)
		snprintf(heading, sizeof(heading), "%s (%s): %s", figure->name, figure->paper,
			figure->title);
	else
		snprintf(heading, sizeof(heading), "%s (%s), %s%s: %s%s", figure->name,
			figure->paper, o->simulated ? "simulated: " : "measured",
			o->simulated ? o->network.name : "", figure->title,
			figure->y == Y_LATENCY ? ", p50 and p99" : "");
	report_heading(heading);
	for (unsigned which = 0; which < figure->cases_count; which++)
		print_case(figure, points, which);
}
