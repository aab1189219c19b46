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
#include "bench/report.h"
#include "bench/simulation.h"

static const char help[] =
	"Usage: nam-bench compare [OPTION]...\n"
	"Lookups in an index beside raw READs, and beside pipelined GETs of memcached and redis:\n"
	"one client thread each, each at its best depth, by turns in one run; every answer is\n"
	"checked.  Servers are started here, and end with the run.\n"
	"\n"
	"  --fabric LIST       of our own memory servers, one each (default shm,tcp, as far as\n"
	"                      this program has them)\n"
	"  --cluster CLUSTER   instead, memory servers that run: shm:PATH,shm:PATH or @FILE\n"
	"  --keys N            pairs of each, with keys of 8 bytes (default 1M)\n"
	"  --bytes N           of a value of memcached and redis, 1 to 16384 (default 8, as the\n"
	"                      payloads of an index)\n"
	"  --seconds S         for each at its best depth, all turns together (default 2)\n"
	"  --without LIST      leave memcached out, or redis, or both\n"
	"  --seed N            of the random keys (default 1)\n"
	"  --json FILE         results as JSON; - for standard output\n"
	"  --quiet             no progress, no table\n"
	"  --help              this text\n"
	"\n"
	NAM_EXIT_HELP;

enum {
	OPT_FABRIC = 256,
	OPT_CLUSTER,
	OPT_KEYS,
	OPT_BYTES,
	OPT_SECONDS,
	OPT_WITHOUT,
	OPT_SEED,
	OPT_JSON,
	OPT_QUIET,
	OPT_HELP,
};

static const struct option options_known[] = {
	{ "fabric", required_argument, NULL, OPT_FABRIC },
	{ "cluster", required_argument, NULL, OPT_CLUSTER },
	{ "keys", required_argument, NULL, OPT_KEYS },
	{ "bytes", required_argument, NULL, OPT_BYTES },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "without", required_argument, NULL, OPT_WITHOUT },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "json", required_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

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
fabric_add(struct compare_options *o, const char *name, size_t bytes)
{
	char *to = o->fabrics[o->fabrics_count];

	if (o->fabrics_count == COMPARE_FABRICS_MAX || bytes >= sizeof(o->fabrics[0])) {
		bench_complain("--fabric: '%.*s' is one too many, or too long", (int)bytes, name);
		return -EINVAL;
	}
	snprintf(to, sizeof(o->fabrics[0]), "%.*s", (int)bytes, name);
	if (!fabric_known(to)) {
		bench_complain("--fabric: there is no '%s'; this program has %s", to,
			nam_fabric_names());
		return -EINVAL;
	}
	for (unsigned i = 0; i < o->fabrics_count; i++)
		if (!strcmp(o->fabrics[i], to)) {
			bench_complain("--fabric: '%s' is said twice", to);
			return -EINVAL;
		}
	o->fabrics_count++;
	return 0;
}

static int
without_add(struct compare_options *o, const char *name, size_t bytes)
{
	if (bytes == 9 && !memcmp(name, "memcached", 9))
		o->without_memcached = true;
	else if (bytes == 5 && !memcmp(name, "redis", 5))
		o->without_redis = true;
	else
		return option_bad_choice("--without", name, "memcached, redis or memcached,redis");
	return 0;
}

static int
each(struct compare_options *o, const char *list,
	int (*add)(struct compare_options *o, const char *name, size_t bytes))
{
	int rc;

	do {
		size_t bytes = strcspn(list, ",");

		rc = add(o, list, bytes);
		list += bytes;
	} while (!rc && *list++);
	return rc;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int
take(void *options, int option, const char *value)
{
	struct compare_options *o = options;

	switch (option) {
	case OPT_FABRIC:
		o->fabrics_count = 0;
		return each(o, value, fabric_add);
	case OPT_CLUSTER:
		o->cluster = value;
		return 0;
	case OPT_KEYS:
		return option_count("--keys", value, 1, 1ull << 40, &o->keys);
	case OPT_BYTES:
		return option_count32("--bytes", value, 1, PROTOCOL_VALUE_BYTES_MAX,
			&o->value_bytes);
	case OPT_SECONDS:
		return option_number("--seconds", value, 0.001, 1e6, &o->seconds);
	case OPT_WITHOUT:
		return each(o, value, without_add);
	case OPT_SEED:
		return option_count("--seed", value, 0, UINT64_MAX, &o->seed);
	case OPT_JSON:
		o->json = value;
		return 0;
	default:
		o->quiet = true;
		return 0;
	}
}

/* Checks of options against each other. */
static int
settle(struct compare_options *o)
{
	if (o->cluster && o->fabrics_count) {
		bench_complain("--cluster and --fabric: say one of them");
		return -1;
	}
	if (o->cluster && simulation_wanted(o->cluster)) {
		bench_complain("--cluster: what a simulated cluster does is not measured, and "
			"cannot be compared with what is");
		return -1;
	}
	if (!o->cluster && !o->fabrics_count) {
		if (fabric_known("shm") && fabric_add(o, "shm", 3))
			return -1;
		if (fabric_known("tcp") && fabric_add(o, "tcp", 3))
			return -1;
	}
	if (o->json && report_check(o->json))
		return -1;
	if (o->json && !strcmp(o->json, "-"))
		o->quiet = true;
	return 0;
}

int
compare_options_parse(int argc, char **argv, struct compare_options *ret_options, int *ret_exit)
{
	static const struct option_set set = { options_known, help, OPT_HELP, take };
	struct compare_options options = {
		.keys = 1000000,
		.value_bytes = sizeof(uint64_t),
		.seconds = 2,
		.seed = 1,
	};

	if (options_take(argc, argv, &set, &options, ret_exit))
		return 1;
	if (settle(&options))
		return 1;
	*ret_options = options;
	return 0;
}
