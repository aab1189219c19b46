/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "text.h"
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

void
report_print_latency(const struct histogram *histogram)
{
	struct latency_ns latency = latency_of(histogram);

	printf("  latency     mean %s  p50 %s  p90 %s  p99 %s  p99.9 %s  max %s\n",
		text_ns(latency.mean), text_ns(latency.p50), text_ns(latency.p90),
		text_ns(latency.p99), text_ns(latency.p999), text_ns(latency.max));
}

void
report_latency(cJSON *object, const struct histogram *histogram)
{
	struct latency_ns latency = latency_of(histogram);
	cJSON *inside = cJSON_AddObjectToObject(object, "latency_ns");

#define REPORT_FIELD(name) report_number(inside, #name, latency.name);
	LATENCY_FIELDS(REPORT_FIELD)
#undef REPORT_FIELD
}

void
report_print_powers(const uint64_t *counts, unsigned classes)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < classes; i++)
		sum += counts[i];
	for (unsigned i = 0; i < classes; i++)
		if (counts[i])
			printf(" %u%s: %.4g %% ", i ? 1u << (i - 1) : 0, i > 1 ? "+" : "",
				100 * (double)counts[i] / (double)sum);
	putchar('\n');
}

void
report_powers(cJSON *object, const char *name, const uint64_t *counts, unsigned classes)
{
	cJSON *array = cJSON_AddArrayToObject(object, name);

	for (unsigned i = 0; i < classes; i++)
		cJSON_AddItemToArray(array, cJSON_CreateNumber((double)counts[i]));
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
		.colocated_reads = (double)counters->colocated_reads / ops,
		.colocated_calls = (double)counters->colocated_calls / ops,
	};
}

struct per_op
per_op_sum(const struct per_op *a, const struct per_op *b)
{
#define SUM_FIELD(name) .name = a->name + b->name,
	return (struct per_op){ PER_OP_FIELDS(SUM_FIELD) };
#undef SUM_FIELD
}

void
report_per_op(cJSON *object, const struct per_op *per_op)
{
	cJSON *inside = cJSON_AddObjectToObject(object, "per_op");

#define REPORT_FIELD(name) report_number(inside, #name, per_op->name);
	PER_OP_FIELDS(REPORT_FIELD)
#undef REPORT_FIELD
}

void
report_result(cJSON *object, const struct result *result, uint64_t errors, uint64_t blocks_lost,
	uint64_t blocks_waiting)
{
	struct per_op per_op = per_op_of(&result->counters, (double)result->ops);

	report_number(object, "ops", (double)result->ops);
	report_number(object, "seconds", result->seconds);
	if (result->cpu_seconds > 0)
		report_number(object, "cpu_seconds", result->cpu_seconds);
	report_number(object, "ops_per_s", result->ops_per_s);
	report_number(object, "errors", (double)errors);
	report_number(object, "blocks_lost", (double)blocks_lost);
	report_number(object, "blocks_waiting", (double)blocks_waiting);
	report_latency(object, &result->latency);
	report_per_op(object, &per_op);
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
