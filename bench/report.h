/* SPDX-License-Identifier: Apache-2.0 */
/* report.h -- results as a table for people and as JSON for programs. */
#ifndef NAM_BENCH_REPORT_H
#define NAM_BENCH_REPORT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/counters.h"
#include "common/error.h"
#include "histogram.h"

struct result {
	uint64_t ops;
	double seconds, cpu_seconds;	/* no processor time: of a simulation */
	double ops_per_s;
	struct histogram latency;	/* in ticks */
	struct nam_op_counters counters;
};

#define LATENCY_FIELDS(X) X(mean) X(p50) X(p90) X(p99) X(p999) X(max)

struct latency_ns {
#define LATENCY_FIELD(name) double name;
	LATENCY_FIELDS(LATENCY_FIELD)
#undef LATENCY_FIELD
};

/* @histogram	of ticks (ticks.h) */
struct latency_ns latency_of(const struct histogram *histogram);

/* The line of a table, and {mean p50 p90 p99 p999 max}, in nanoseconds. */
void report_print_latency(const struct histogram *histogram);
void report_latency(cJSON *object, const struct histogram *histogram);

/* The rest of a line: the per cent of 0, 1, 2 to 3, 4 to 7 ... of something; and an array. */
void report_print_powers(const uint64_t *counts, unsigned classes);
void report_powers(cJSON *object, const char *name, const uint64_t *counts, unsigned classes);

#define PER_OP_FIELDS(X)                                                                            \
	X(round_trips) X(doorbells) X(work_requests) X(bytes_in) X(bytes_out) X(restarts)           \
	X(colocated_reads) X(colocated_calls)

struct per_op {
#define PER_OP_FIELD(name) double name;
	PER_OP_FIELDS(PER_OP_FIELD)
#undef PER_OP_FIELD
};

/* @ops	what to divide by; 0 gives zeroes */
struct per_op per_op_of(const struct nam_op_counters *counters, double ops);
struct per_op per_op_sum(const struct per_op *a, const struct per_op *b);
void report_per_op(cJSON *object, const struct per_op *per_op);

/* All of a result; how many errors there were, and blocks that clients lost, or gave for later. */
void report_result(cJSON *object, const struct result *result, uint64_t errors,
	uint64_t blocks_lost, uint64_t blocks_waiting);

/* Add a number, rounded to what is worth reading (six significant digits). */
void report_number(cJSON *object, const char *name, double value);

/* Before a run: can report_write() write the file?  0, or a negative code after a message. */
int report_check(const char *path) NAM_MUST_CHECK;

/* Write the object to a file; "-" is standard output.  0, or a negative code after a message. */
int report_write(const cJSON *object, const char *path) NAM_MUST_CHECK;

/* The one in the middle; sorts them. */
double report_median(double *values, unsigned count);

/* Text after a heading: bold on a terminal. */
void report_heading(const char *text);

#endif /* NAM_BENCH_REPORT_H */
