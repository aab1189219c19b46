/* SPDX-License-Identifier: Apache-2.0 */
#include "design.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

#define SHARES_SUM 100.0
#define SHARES_SLACK 0.001

const char *const index_designs[] = { "fine", "coarse", "hybrid", NULL };
const char *const index_partitionings[] = { "range", "hash", "round-robin", NULL };

int
index_shares_parse(const char *text, struct index_bench_options *o, struct nam_diag *diag)
{
	const char *at = text;
	double sum = 0;

	o->shares_count = 0;
	do {
		char *end;
		double share = strtod(at, &end);

		if (end == at || (*end && *end != ',') || !(share > 0 && share <= SHARES_SUM))
			return nam_diag_set(diag, -EINVAL, "'%.*s' in '%s' is not a number above "
				"0, up to 100: say per cents, one for each memory server",
				(int)strcspn(at, ","), at, text);
		if (o->shares_count == NAM_SERVERS_MAX)
			return nam_diag_set(diag, -EINVAL, "more than %u memory servers",
				(unsigned)NAM_SERVERS_MAX);
		o->shares[o->shares_count++] = share;
		sum += share;
		at = *end ? end + 1 : NULL;
	} while (at);
	if (fabs(sum - SHARES_SUM) > SHARES_SLACK)
		return nam_diag_set(diag, -EINVAL, "'%s' is %g per cent in all, not 100", text,
			sum);
	return 0;
}

int
index_design_settle(struct index_bench_options *o)
{
	const struct nam_index_traits *traits = nam_index_traits(o->index.design);
	bool fine = !traits->partitioned, coarse = !traits->client_levels;

	if (o->load == LOAD_NONE) {
		if (o->shares_count)
			return bench_complain("--shares: only of an index that is loaded; this one "
				"is there already");
		return 0;
	}
	if (fine && o->partitioning_set)
		return bench_complain("--partition: a fine-grained index has no parts; say "
			"--design coarse or hybrid");
	if (fine && o->shares_count)
		return bench_complain("--shares: a fine-grained index has no parts: its nodes lie "
			"evenly on all memory servers; say --design coarse or hybrid");
	if (coarse && o->head_interval_set)
		return bench_complain("--head-interval: a coarse-grained index has no head nodes");
	if (coarse && o->cache_set && o->cache_bytes)
		return bench_complain("--cache-mb: a coarse-grained index caches nothing: memory "
			"servers search it");
	if (coarse)
		o->cache_bytes = 0;
	if (!fine && !o->partitioning_set)
		o->index.partitioning = NAM_PARTITION_RANGE;
	if (o->shares_count && o->index.partitioning != NAM_PARTITION_RANGE)
		return bench_complain("--shares: only with --partition range: the others deal keys "
			"out evenly");
	return 0;
}

void
index_bounds(const struct keys *keys, const double *shares, uint32_t parts, uint8_t *ret_bounds)
{
	uint64_t last = 0;
	double sum = 0;

	for (uint32_t i = 0; i + 1 < parts; i++) {
		double share;
		uint64_t base, key;

		sum += shares ? shares[i] : 0;
		share = shares ? sum / SHARES_SUM : (double)(i + 1) / parts;
		base = (uint64_t)(share * (double)keys->bases + 0.5);
		key = base >= keys->bases ? last + 1 : base << keys->stride_shift;
		if (key <= last)
			key = last + 1;
		last = key;
		keys_prepare(keys, ret_bounds + (size_t)i * keys->key_bytes);
		keys_write(keys, key, ret_bounds + (size_t)i * keys->key_bytes);
	}
}
