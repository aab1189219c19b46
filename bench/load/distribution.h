/* SPDX-License-Identifier: Apache-2.0 */
/*
 * distribution.h -- which item comes next: a permutation of [0, n) and Zipf's law.  Threads may
 * share both; the caller has the random state.
 */
#ifndef NAM_BENCH_LOAD_DISTRIBUTION_H
#define NAM_BENCH_LOAD_DISTRIBUTION_H

#include <math.h>
#include <stdint.h>

#include "common/env.h"

/*
 * A pseudo-random bijection of [0, size): two rounds of multiply and shift on the next power of
 * two, repeated while the result lies outside.  Scatters hot items and orders inserts at random.
 * It can be inverted, so that a key leads to its inserter and to the time of its insert.
 */
struct permutation {
	uint64_t size;
	uint64_t mask;
	uint64_t add;
	uint64_t multiply[2];
	uint64_t inverse[2];
	unsigned shift;
};

/* @size	at least 1 */
void permutation_init(struct permutation *permutation, uint64_t size, uint64_t seed);

static inline uint64_t
permutation_apply(const struct permutation *p, uint64_t x)
{
	do {
		x = (x * p->multiply[0] + p->add) & p->mask;
		x ^= x >> p->shift;
		x = (x * p->multiply[1]) & p->mask;
		x ^= x >> p->shift;
	} while (__builtin_expect(x >= p->size, 0));
	return x;
}

static inline uint64_t
permutation_invert(const struct permutation *p, uint64_t x)
{
	do {
		x ^= x >> p->shift;
		x = (x * p->inverse[1]) & p->mask;
		x ^= x >> p->shift;
		x = ((x - p->add) * p->inverse[0]) & p->mask;
	} while (__builtin_expect(x >= p->size, 0));
	return x;
}

/*
 * Ranks 0 .. items - 1 with probabilities proportional to 1 / (rank + 1)^theta.  The generator is
 * that of Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994, as in
 * YCSB.  At YCSB's theta of 0.99, alpha is 100, and a power costs eight multiplications.
 */
struct zipf {
	uint64_t items;
	double theta;
	double zeta;		/* sum of i^-theta over 1 .. items */
	double alpha;
	double eta;
	double second;		/* 1 + 2^-theta */
	unsigned alpha_whole;	/* alpha if it is a whole number below 1024, else 0 */
};

/* @theta	0 < theta < 1 */
void zipf_init(struct zipf *zipf, uint64_t items, double theta);

/* The exact sum, by Euler and Maclaurin's formula once the terms are smooth: a microsecond. */
double zipf_zeta(uint64_t items, double theta);

static inline double
zipf_power(double base, unsigned exponent)
{
	double result = 1;

	for (; exponent; exponent >>= 1, base *= base)
		if (exponent & 1)
			result *= base;
	return result;
}

static inline uint64_t
zipf_next(const struct zipf *zipf, struct nam_rng *rng)
{
	double u = (double)(nam_rng_next(rng) >> 11) * 0x1p-53;
	double uz = u * zipf->zeta, base;
	uint64_t rank;

	if (uz < 1)
		return 0;
	if (uz < zipf->second)
		return zipf->items > 1;
	base = zipf->eta * u - zipf->eta + 1;
	rank = (uint64_t)((double)zipf->items *
			  (zipf->alpha_whole ? zipf_power(base, zipf->alpha_whole)
					     : pow(base, zipf->alpha)));
	return rank < zipf->items ? rank : zipf->items - 1;
}

#endif /* NAM_BENCH_LOAD_DISTRIBUTION_H */
