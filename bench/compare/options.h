/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the command line of nam-bench compare. */
#ifndef NAM_BENCH_COMPARE_OPTIONS_H
#define NAM_BENCH_COMPARE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define COMPARE_FABRICS_MAX 4u

struct compare_options {
	const char *cluster;		/* NULL: a memory server of our own for each fabric */
	char fabrics[COMPARE_FABRICS_MAX][16];
	unsigned fabrics_count;
	uint64_t keys;
	uint32_t value_bytes;		/* of memcached and redis */
	double seconds;			/* of each contender, all turns together */
	uint64_t seed;
	bool without_memcached, without_redis;
	const char *json;
	bool quiet;
};

/* Returns 0, or 1 when the program is to exit with *ret_exit. */
int compare_options_parse(int argc, char **argv, struct compare_options *ret_options,
	int *ret_exit) NAM_MUST_CHECK;

#endif /* NAM_BENCH_COMPARE_OPTIONS_H */
