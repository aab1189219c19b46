/* SPDX-License-Identifier: Apache-2.0 */
#include "design.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/options.h"

#define SHARES_SUM 100.0
#define SHARES_SLACK 0.001

static const struct {
	const char *name;
	enum nam_index_design design;
} designs[] = {
	{ "fine", NAM_DESIGN_FINE },
	{ "coarse", NAM_DESIGN_COARSE },
	{ "hybrid", NAM_DESIGN_HYBRID },
};

static const struct {
	const char *name;
	enum nam_partitioning partitioning;
} partitionings[] = {
	{ "range", NAM_PARTITION_RANGE },
	{ "hash", NAM_PARTITION_HASH },
	{ "round-robin", NAM_PARTITION_ROUND_ROBIN },
};

const char *
index_design_name(enum nam_index_design design)
{
	for (size_t i = 0; i < sizeof(designs) / sizeof(designs[0]); i++)
		if (designs[i].design == design)
			return designs[i].name;
	return "?";
}

const char *
index_partitioning_name(const struct nam_index_options *options)
{
	for (size_t i = 0; i < sizeof(partitionings) / sizeof(partitionings[0]); i++)
		if (options->design != NAM_DESIGN_FINE &&
			partitionings[i].partitioning == options->partitioning)
			return partitionings[i].name;
	return "none";
}

int
index_design_parse(const char *text, enum nam_index_design *ret_design)
{
	for (size_t i = 0; i < sizeof(designs) / sizeof(designs[0]); i++) {
		if (!strcmp(designs[i].name, text)) {
			*ret_design = designs[i].design;
			return 0;
		}
	}
	return option_bad_choice("--design", text, "fine, coarse or hybrid");
}

int
index_partitioning_parse(const char *text, enum nam_partitioning *ret_partitioning)
{
	for (size_t i = 0; i < sizeof(partitionings) / sizeof(partitionings[0]); i++) {
		if (!strcmp(partitionings[i].name, text)) {
			*ret_partitioning = partitionings[i].partitioning;
			return 0;
		}
	}
	return option_bad_choice("--partition", text, "range, hash or round-robin");
}

int
index_shares_parse(const char *text, struct index_bench_options *o)
{
	const char *at = text;
	double sum = 0;

	o->shares_count = 0;
	do {
		char *end;
		double share = strtod(at, &end);

		if (end == at || (*end && *end != ',') || !(share > 0 && share <= SHARES_SUM)) {
			bench_complain("--shares: '%.*s' in '%s' is not a number above 0, up to "
				"100: say per cents, one for each memory server",
				(int)strcspn(at, ","), at, text);
			return -1;
		}
		if (o->shares_count == NAM_SERVERS_MAX) {
			bench_complain("--shares: more than %u memory servers",
				(unsigned)NAM_SERVERS_MAX);
			return -1;
		}
		o->shares[o->shares_count++] = share;
		sum += share;
		at = *end ? end + 1 : NULL;
	} while (at);
	if (fabs(sum - SHARES_SUM) > SHARES_SLACK) {
		bench_complain("--shares: '%s' is %g per cent in all, not 100", text, sum);
		return -1;
	}
	return 0;
}

static int
refuse(const char *option, const char *why)
{
	bench_complain("%s: %s", option, why);
	return -1;
}

int
index_design_settle(struct index_bench_options *o)
{
	bool fine = o->index.design == NAM_DESIGN_FINE;
	bool coarse = o->index.design == NAM_DESIGN_COARSE;

	if (o->load == LOAD_NONE) {
		if (o->shares_count)
			return refuse("--shares", "only of an index that is loaded; this one is "
				"there already");
		return 0;
	}
	if (fine && o->partitioning_said)
		return refuse("--partition", "a fine-grained index has no parts; say --design "
			"coarse or hybrid");
	if (fine && o->shares_count)
		return refuse("--shares", "a fine-grained index has no parts: its nodes lie evenly "
			"on all memory servers; say --design coarse or hybrid");
	if (coarse && o->head_interval_said)
		return refuse("--head-interval", "a coarse-grained index has no head nodes");
	if (coarse && o->cache_said && o->cache_bytes)
		return refuse("--cache-mb", "a coarse-grained index caches nothing: memory servers "
			"search it");
	if (coarse)
		o->cache_bytes = 0;
	if (!fine && !o->partitioning_said)
		o->index.partitioning = NAM_PARTITION_RANGE;
	if (o->shares_count && o->index.partitioning != NAM_PARTITION_RANGE)
		return refuse("--shares", "only with --partition range: the others deal keys out "
			"evenly");
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
