/* SPDX-License-Identifier: Apache-2.0 */
#include "histogram.h"

#include <math.h>

void
histogram_merge(struct histogram *sum, const struct histogram *more)
{
	sum->sum += more->sum;
	if (more->max > sum->max)
		sum->max = more->max;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		sum->buckets[i] += more->buckets[i];
}

uint64_t
histogram_count(const struct histogram *histogram)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		count += histogram->buckets[i];
	return count;
}

uint64_t
histogram_bucket_low(unsigned bucket)
{
	unsigned group = bucket / HISTOGRAM_SUB_COUNT;
	uint64_t sub = bucket % HISTOGRAM_SUB_COUNT;

	if (group == 0)
		return sub;
	return (HISTOGRAM_SUB_COUNT + sub) << (group - 1);
}

double
histogram_quantile(const struct histogram *histogram, double quantile)
{
	uint64_t count = histogram_count(histogram);
	uint64_t rank, seen = 0;

	if (!count)
		return 0;
	rank = (uint64_t)ceil(quantile * (double)count);
	if (rank < 1)
		rank = 1;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		double low, width, middle;

		seen += histogram->buckets[i];
		if (seen < rank)
			continue;
		low = (double)histogram_bucket_low(i);
		width = i < HISTOGRAM_SUB_COUNT
				? 1
				: ldexp(1, (int)(i / HISTOGRAM_SUB_COUNT) - 1);
		middle = low + (width - 1) / 2;
		return middle > (double)histogram->max ? (double)histogram->max : middle;
	}
	return (double)histogram->max;
}

double
histogram_mean(const struct histogram *histogram)
{
	uint64_t count = histogram_count(histogram);

	return count ? (double)histogram->sum / (double)count : 0;
}
