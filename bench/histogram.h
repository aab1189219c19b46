/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram.h -- a log-linear histogram: 32 buckets for each power of two, so a value is known to
 * 3 %.  Recording is an addition to three words; one thread writes, others read when it is done.
 */
#ifndef NAM_BENCH_HISTOGRAM_H
#define NAM_BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 5u
#define HISTOGRAM_SUB_COUNT (1u << HISTOGRAM_SUB_BITS)
#define HISTOGRAM_BUCKETS ((64u - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB_COUNT)

struct histogram {
	uint64_t sum;
	uint64_t max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Values below 32 have a bucket each; above, the five bits that follow the leading one choose. */
static inline unsigned
histogram_bucket(uint64_t value)
{
	unsigned exponent;

	if (value < HISTOGRAM_SUB_COUNT)
		return (unsigned)value;
	exponent = 63 - (unsigned)__builtin_clzll(value);
	return (exponent - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB_COUNT +
	       ((unsigned)(value >> (exponent - HISTOGRAM_SUB_BITS)) & (HISTOGRAM_SUB_COUNT - 1));
}

/* Record a value `count` times. */
static inline void
histogram_record_many(struct histogram *histogram, uint64_t value, uint64_t count)
{
	histogram->sum += value * count;
	if (value > histogram->max)
		histogram->max = value;
	histogram->buckets[histogram_bucket(value)] += count;
}

static inline void
histogram_record(struct histogram *histogram, uint64_t value)
{
	histogram_record_many(histogram, value, 1);
}

void histogram_merge(struct histogram *sum, const struct histogram *more);

uint64_t histogram_count(const struct histogram *histogram);

/* The lowest value of a bucket; the last bucket's neighbour would be 2^64. */
uint64_t histogram_bucket_low(unsigned bucket);

/* @quantile	0 .. 1.  Exact to the width of a bucket; 0 if nothing was recorded. */
double histogram_quantile(const struct histogram *histogram, double quantile);

double histogram_mean(const struct histogram *histogram);

#endif /* NAM_BENCH_HISTOGRAM_H */
