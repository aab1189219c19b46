/* SPDX-License-Identifier: Apache-2.0 */
#include "distribution.h"

#include <assert.h>

/* The inverse of an odd number modulo 2^64: Newton's steps double the right bits. */
static uint64_t
inverse_of(uint64_t odd)
{
	uint64_t inverse = odd;		/* right in 3 bits */

	for (int i = 0; i < 5; i++)
		inverse *= 2 - odd * inverse;
	return inverse;
}

void
permutation_init(struct permutation *permutation, uint64_t size, uint64_t seed)
{
	struct nam_rng rng = nam_rng_seed(seed);
	unsigned bits = size <= 2 ? 1 : 64 - (unsigned)__builtin_clzll(size - 1);

	assert(size > 0);
	permutation->size = size;
	permutation->mask = bits == 64 ? UINT64_MAX : (1ull << bits) - 1;
	/* At least half the bits, so that xor-and-shift undoes itself. */
	permutation->shift = (bits + 1) / 2;
	permutation->add = nam_rng_next(&rng);
	for (int i = 0; i < 2; i++) {
		permutation->multiply[i] = nam_rng_next(&rng) | 1;
		permutation->inverse[i] = inverse_of(permutation->multiply[i]);
	}
}

/*
 * Terms 1 .. m - 1 one by one.  Then the integral of x^-t over m .. n, half of both ends, and the
 * first two corrections with derivatives.  At m = 1,000 what is left out is below 1e-18.
 */
double
zipf_zeta(uint64_t items, double theta)
{
	const uint64_t head = 1000;
	double sum = 0, m, n;

	for (uint64_t i = 1; i <= items && i < head; i++)
		sum += pow((double)i, -theta);
	if (items < head)
		return sum;
	m = (double)head;
	n = (double)items;
	sum += (pow(n, 1 - theta) - pow(m, 1 - theta)) / (1 - theta);
	sum += (pow(m, -theta) + pow(n, -theta)) / 2;
	sum += theta / 12 * (pow(m, -theta - 1) - pow(n, -theta - 1));
	sum -= theta * (theta + 1) * (theta + 2) / 720 *
	       (pow(m, -theta - 3) - pow(n, -theta - 3));
	return sum;
}

void
zipf_init(struct zipf *zipf, uint64_t items, double theta)
{
	double whole;

	assert(items > 0 && theta > 0 && theta < 1);
	zipf->items = items;
	zipf->theta = theta;
	zipf->zeta = zipf_zeta(items, theta);
	zipf->second = 1 + pow(0.5, theta);
	zipf->alpha = 1 / (1 - theta);
	zipf->eta = (1 - pow(2 / (double)items, 1 - theta)) / (1 - zipf->second / zipf->zeta);
	whole = nearbyint(zipf->alpha);
	zipf->alpha_whole = 0;
	if (whole < 1024 && fabs(zipf->alpha - whole) < 1e-9)
		zipf->alpha_whole = (unsigned)whole;
	if (items <= 2)
		zipf->eta = 0;	/* the first two ranks are drawn without it */
}
