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

struct latency_ns {
	double mean, p50, p90, p99, p999, max;
};

/* @histogram	of ticks (ticks.h) */
struct latency_ns latency_of(const struct histogram *histogram);

/* {mean p50 p90 p99 p999 max}, in nanoseconds */
cJSON *report_latency(const struct histogram *histogram);

/* The average cost of one operation. */
struct per_op {
	double round_trips, doorbells, work_requests, bytes_in, bytes_out, restarts, local_reads;
	double local_calls;
};

/* @ops	what to divide by; 0 gives zeroes */
struct per_op per_op_of(const struct nam_op_counters *counters, double ops);
struct per_op per_op_sum(const struct per_op *a, const struct per_op *b);

/* {round_trips doorbells work_requests bytes_in bytes_out restarts local_reads local_calls} */
cJSON *report_per_op(const struct per_op *per_op);

/* *sum -= *less, field by field. */
void counters_subtract(struct nam_op_counters *sum, const struct nam_op_counters *less);

/* Add a number, rounded to what is worth reading (six significant digits). */
void report_number(cJSON *object, const char *name, double value);

/**
 * report_check -- see before a run whether report_write() will be able to write the file.
 *
 * Changes nothing that is in it.  Complains itself.  Returns 0 or a negative code.
 */
int report_check(const char *path) NAM_MUST_CHECK;

/**
 * report_write -- write the object to a file, or to standard output if it is called "-".
 *
 * Complains itself.  Returns 0 or a negative code.
 */
int report_write(const cJSON *object, const char *path) NAM_MUST_CHECK;

/* The one in the middle; sorts them. */
double report_median(double *values, unsigned count);

/* Text after a heading: bold on a terminal. */
void report_heading(const char *text);

#endif /* NAM_BENCH_REPORT_H */
