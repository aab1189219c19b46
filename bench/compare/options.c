/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/compare/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fabric/fabric.h"
#include "bench/bench.h"
#include "protocol.h"
#include "bench/options.h"
#include "bench/simulation.h"

/* ---- lists -------------------------------------------------------------------------------- */

static bool
fabric_known(const char *name)
{
	char address[24];

	/* Simulated ones take no time that could be compared. */
	snprintf(address, sizeof(address), "%s:", name);
	return !simulation_wanted(address) && nam_fabric_find(address, NULL) != NULL;
}

static int
fabric_add(struct compare_options *o, const char *name, size_t bytes,
	struct nam_diag *diag)
{
	char *to = o->fabrics[o->fabrics_count];

	if (o->fabrics_count == COMPARE_FABRICS_MAX || bytes >= sizeof(o->fabrics[0]))
		return nam_diag_set(diag, -EINVAL, "'%.*s' is one too many, or too long",
			(int)bytes, name);
	snprintf(to, sizeof(o->fabrics[0]), "%.*s", (int)bytes, name);
	if (!fabric_known(to))
		return nam_diag_set(diag, -EINVAL, "there is no '%s'; this program has %s", to,
			nam_fabric_names());
	for (unsigned i = 0; i < o->fabrics_count; i++)
		if (!strcmp(o->fabrics[i], to))
			return nam_diag_set(diag, -EINVAL, "'%s' is said twice", to);
	o->fabrics_count++;
	return 0;
}

static int
without_add(struct compare_options *o, const char *name, size_t bytes,
	struct nam_diag *diag)
{
	if (bytes == 9 && !memcmp(name, "memcached", 9))
		o->without_memcached = true;
	else if (bytes == 5 && !memcmp(name, "redis", 5))
		o->without_redis = true;
	else
		return nam_diag_set(diag, -EINVAL, "'%s' is not known; choose memcached, redis or "
			"memcached,redis", name);
	return 0;
}

static int
each(struct compare_options *o, const char *list,
	int (*add)(struct compare_options *o, const char *name, size_t bytes,
		struct nam_diag *diag), struct nam_diag *diag)
{
	int rc;

	do {
		size_t bytes = strcspn(list, ",");

		rc = add(o, list, bytes, diag);
		list += bytes;
	} while (!rc && *list++);
	return rc;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int
take_fabrics(void *options, const char *text, struct nam_diag *diag)
{
	((struct compare_options *)options)->fabrics_count = 0;
	return each(options, text, fabric_add, diag);
}

static int
take_without(void *options, const char *text, struct nam_diag *diag)
{
	return each(options, text, without_add, diag);
}

#define FIELD(field) NAM_OPTION_FIELD(struct compare_options, field)

static const struct nam_option rows[] = {
	{ "fabric", "LIST", "The fabrics of our own memory servers, one server each (default "
		"shm,tcp, as far as this program has them).", NAM_OPTION_CALL,
		.take = take_fabrics },
	{ "cluster", "CLUSTER", "Instead, memory servers that run: shm:PATH,shm:PATH or @FILE.",
		NAM_OPTION_TEXT, FIELD(cluster) },
	{ "keys", "N", "Pairs of each, with keys of 8 bytes (default 1M).", NAM_OPTION_COUNT,
		FIELD(keys), .min = 1, .max = 1ull << 40 },
	{ "bytes", "N", "The size of a value of memcached and redis, 1 to 16384 (default 8, as the "
		"payloads of an index).", NAM_OPTION_COUNT, FIELD(value_bytes), .min = 1,
		.max = PROTOCOL_VALUE_BYTES_MAX },
	{ "seconds", "S", "For each at its best depth, all turns together (default 2).",
		NAM_OPTION_REAL, FIELD(seconds), .low = 0.001, .high = 1e6 },
	{ "without", "LIST", "Leave memcached out, or redis, or both.", NAM_OPTION_CALL,
		.take = take_without },
	BENCH_OUTPUT(struct compare_options),
	{ 0 },
};

static const struct nam_options_table table = {
	.program = "nam-bench compare",
	.usage = "",
	.purpose = "Compare lookups in an index with raw READs and with pipelined GETs of "
		"memcached and redis: one client thread each, each at its best depth, by turns in "
		"one run.  Every answer is checked.  Servers are started here, and end with the "
		"run.",
	.after = NAM_EXIT_HELP,
	.rows = rows,
};

/* Checks of options against each other. */
static int
settle(struct compare_options *o)
{
	if (o->cluster && o->fabrics_count)
		return bench_complain("--cluster and --fabric: say one of them");
	if (o->cluster && simulation_wanted(o->cluster))
		return bench_complain("--cluster: what a simulated cluster does is not measured, "
			"and cannot be compared with what is");
	if (!o->cluster && !o->fabrics_count) {
		struct nam_diag diag = { "" };

		if (fabric_known("shm") && fabric_add(o, "shm", 3, &diag))
			return bench_complain("%s", diag.text);
		if (fabric_known("tcp") && fabric_add(o, "tcp", 3, &diag))
			return bench_complain("%s", diag.text);
	}
	return bench_options_check(o->json, &o->quiet, 0, o->seconds);
}

int
compare_options_parse(int argc, char **argv, struct compare_options *ret_options, int *ret_exit)
{
	struct compare_options options = {
		.keys = 1000000,
		.value_bytes = sizeof(uint64_t),
		.seconds = 2,
		.seed = 1,
	};

	if (nam__options_take(&table, argc, argv, &options, ret_exit))
		return 1;
	*ret_exit = NAM_EXIT_USAGE;
	*ret_options = options;
	return settle(ret_options) ? 1 : 0;
}
