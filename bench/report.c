/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "ticks.h"

struct latency_ns
latency_of(const struct histogram *histogram)
{
	double scale = ticks_ns(1000000) / 1e6;

	return (struct latency_ns){
		.mean = histogram_mean(histogram) * scale,
		.p50 = histogram_quantile(histogram, 0.5) * scale,
		.p90 = histogram_quantile(histogram, 0.9) * scale,
		.p99 = histogram_quantile(histogram, 0.99) * scale,
		.p999 = histogram_quantile(histogram, 0.999) * scale,
		.max = (double)histogram->max * scale,
	};
}

void
report_number(cJSON *object, const char *name, double value)
{
	char text[32];

	/* A rate or a mean has no more than six digits that mean anything. */
	if (value != floor(value) || fabs(value) > 1e15) {
		snprintf(text, sizeof(text), "%.6g", value);
		value = strtod(text, NULL);
	}
	cJSON_AddNumberToObject(object, name, value);
}

cJSON *
report_latency(const struct histogram *histogram)
{
	struct latency_ns latency = latency_of(histogram);
	cJSON *object = cJSON_CreateObject();

	report_number(object, "mean", latency.mean);
	report_number(object, "p50", latency.p50);
	report_number(object, "p90", latency.p90);
	report_number(object, "p99", latency.p99);
	report_number(object, "p999", latency.p999);
	report_number(object, "max", latency.max);
	return object;
}

struct per_op
per_op_of(const struct nam_op_counters *counters, double ops)
{
	if (!(ops > 0))
		return (struct per_op){ 0 };
	return (struct per_op){
		.round_trips = (double)counters->round_trips / ops,
		.doorbells = (double)counters->doorbells / ops,
		.work_requests = (double)counters->work_requests / ops,
		.bytes_in = (double)counters->bytes_in / ops,
		.bytes_out = (double)counters->bytes_out / ops,
		.restarts = (double)nam_op_counters_restarts(counters) / ops,
		.local_reads = (double)counters->local_reads / ops,
		.local_calls = (double)counters->local_calls / ops,
	};
}

struct per_op
per_op_sum(const struct per_op *a, const struct per_op *b)
{
	return (struct per_op){
		.round_trips = a->round_trips + b->round_trips,
		.doorbells = a->doorbells + b->doorbells,
		.work_requests = a->work_requests + b->work_requests,
		.bytes_in = a->bytes_in + b->bytes_in,
		.bytes_out = a->bytes_out + b->bytes_out,
		.restarts = a->restarts + b->restarts,
		.local_reads = a->local_reads + b->local_reads,
		.local_calls = a->local_calls + b->local_calls,
	};
}

cJSON *
report_per_op(const struct per_op *per_op)
{
	cJSON *object = cJSON_CreateObject();

	report_number(object, "round_trips", per_op->round_trips);
	report_number(object, "doorbells", per_op->doorbells);
	report_number(object, "work_requests", per_op->work_requests);
	report_number(object, "bytes_in", per_op->bytes_in);
	report_number(object, "bytes_out", per_op->bytes_out);
	report_number(object, "restarts", per_op->restarts);
	report_number(object, "local_reads", per_op->local_reads);
	report_number(object, "local_calls", per_op->local_calls);
	return object;
}

void
counters_subtract(struct nam_op_counters *sum, const struct nam_op_counters *less)
{
	sum->ops -= less->ops;
	sum->round_trips -= less->round_trips;
	sum->doorbells -= less->doorbells;
	sum->work_requests -= less->work_requests;
	sum->bytes_in -= less->bytes_in;
	sum->bytes_out -= less->bytes_out;
	sum->splits -= less->splits;
	sum->late_separators -= less->late_separators;
	sum->local_reads -= less->local_reads;
	sum->local_calls -= less->local_calls;
	sum->cache_hits -= less->cache_hits;
	sum->cache_misses -= less->cache_misses;
	sum->cache_stale -= less->cache_stale;
	for (int i = 0; i < NAM_RESTART_CAUSES_COUNT; i++)
		sum->restarts[i] -= less->restarts[i];
}

static int
compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double
report_median(double *values, unsigned count)
{
	qsort(values, count, sizeof(*values), compare_doubles);
	return values[count / 2];
}

int
report_check(const char *path)
{
	bool existed;
	FILE *file;
	int rc;

	if (!strcmp(path, "-"))
		return 0;
	existed = access(path, F_OK) == 0;
	file = fopen(path, "ae");
	if (!file) {
		rc = -errno;
		bench_complain("--json: %s cannot be written: %s", path, strerror(-rc));
		return rc;
	}
	fclose(file);
	if (!existed)
		unlink(path);
	return 0;
}

int
report_write(const cJSON *object, const char *path)
{
	char *text = cJSON_Print(object);
	bool to_stdout = !strcmp(path, "-");
	FILE *file = NULL;
	int rc = 0;

	if (!text) {
		bench_complain("no memory to write %s", path);
		return -ENOMEM;
	}
	file = to_stdout ? stdout : fopen(path, "we");
	if (!file || fprintf(file, "%s\n", text) < 0 || fflush(file) != 0) {
		rc = -errno;
		bench_complain("%s cannot be written: %s", path, strerror(-rc));
	}
	if (file && !to_stdout && fclose(file) != 0 && !rc) {
		rc = -errno;
		bench_complain("%s cannot be written: %s", path, strerror(-rc));
	}
	free(text);
	return rc;
}

void
report_heading(const char *text)
{
	bool bold = isatty(STDOUT_FILENO);

	printf("\n%s%s%s\n", bold ? "\033[1m" : "", text, bold ? "\033[0m" : "");
}
