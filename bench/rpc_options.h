/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_options.h -- the command line of nam-bench rpc. */
#ifndef NAM_BENCH_RPC_OPTIONS_H
#define NAM_BENCH_RPC_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "../common/rpc/carrier.h"
#include "../common/error.h"

struct rpc_options {
	const char *cluster;
	const char *json;		/* NULL: none */
	enum nam_carrier carrier;
	uint32_t bytes, reply_bytes;	/* of bodies */
	uint32_t fetch_bytes;		/* 0: what a reply takes */
	uint32_t frame_bytes;		/* 0: the default */
	bool fetch_always;
	uint32_t threads, fibers;
	uint32_t clients, memservers;	/* simulated; 0: 1 */
	uint32_t rpc_threads;		/* simulated; 0: the profile's */
	uint64_t ops;			/* of all; 0: by time */
	double seconds;
	uint64_t seed;
	bool quiet;
};

/* 0, or 1 with what the program exits with. */
int rpc_options_parse(int argc, char **argv, struct rpc_options *ret_options,
	int *ret_exit) NAM_MUST_CHECK;

#endif /* NAM_BENCH_RPC_OPTIONS_H */
