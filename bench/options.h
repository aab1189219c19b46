/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h -- rows of the option tables that several subcommands have.
 *
 * Each macro takes the type of the subcommand's options; its field has the name of the option.
 */
#ifndef NAM_BENCH_OPTIONS_H
#define NAM_BENCH_OPTIONS_H

#include "common/options/options.h"
#include "common/rpc/transport.h"

#define BENCH_CLUSTER(type)                                                                         \
	{ "cluster", "CLUSTER", "The memory servers: addresses with commas between them, as in "    \
		"shm:PATH,shm:PATH, or @FILE. Without this option, NAM_CLUSTER in the environment " \
		"names them. sim:PROFILE is a simulated cluster.",                                  \
		NAM_OPTION_TEXT, NAM_OPTION_FIELD(type, cluster) }

#define BENCH_TRANSPORT(type)                                                                       \
	{ "transport", "TRANSPORT", "How requests travel: srq (SEND there and back), mailbox "      \
		"(WRITE there and back), fetch (WRITE there, and a READ of the reply) or datagram " \
		"(WRITE there and SEND back over unreliable queue pairs, where the fabric has "     \
		"them). Without this option, NAM_TRANSPORT in the environment decides. The "        \
		"default is fetch if the memory server is on this host and the fabric allows it, "  \
		"else srq.", NAM_OPTION_CHOICE, NAM_OPTION_FIELD(type, transport),                  \
		.min = NAM_TRANSPORT_SRQ, .choices = bench_transports }

#define BENCH_LENGTH(type, default_seconds)                                                         \
	{ "ops", "N", "Stop after N operations.", NAM_OPTION_COUNT,                              \
		NAM_OPTION_FIELD(type, ops), .min = 1, .max = UINT64_MAX / 2 },                     \
	{ "seconds", "S", "Stop after S seconds (default " default_seconds ").", NAM_OPTION_REAL,            \
		NAM_OPTION_FIELD(type, seconds), .low = 0.00001, .high = 1e6 },                     \
	{ "threads", "N", "Threads of a client (default 1).", NAM_OPTION_COUNT,                     \
		NAM_OPTION_FIELD(type, threads), .min = 1, .max = 1024 }

#define BENCH_FIBERS(type, help)                                                                    \
	{ "fibers", "N", help, NAM_OPTION_COUNT, NAM_OPTION_FIELD(type, fibers), .min = 1,          \
		.max = 1024 }

#define BENCH_SIMULATED(type, default_memservers, clients_max)                                      \
	{ "memservers", "N", "Simulated: memory servers, 1 to 64 (default " default_memservers      \
		").", NAM_OPTION_COUNT, NAM_OPTION_FIELD(type, memservers), .min = 1,               \
		.max = SIMULATION_MEMSERVERS_MAX },                                                 \
	{ "clients", "N", "Simulated: client processes, each with its own threads, connections "    \
		"and caches, 1 to " #clients_max " (default 1).", NAM_OPTION_COUNT,                 \
		NAM_OPTION_FIELD(type, clients), .min = 1, .max = clients_max },                    \
	{ "rpc-threads", "N", "Simulated: handler threads of a memory server, 1 to 64 (default: "   \
		"the profile's).", NAM_OPTION_COUNT, NAM_OPTION_FIELD(type, rpc_threads),           \
		.min = 1, .max = 64 }

#define BENCH_OUTPUT(type)                                                                          \
	{ "seed", "N", "Seed of everything random (default 1).", NAM_OPTION_COUNT,                  \
		NAM_OPTION_FIELD(type, seed), .max = UINT64_MAX },                                  \
	{ "json", "FILE", "Write the results as JSON; - is standard output.", NAM_OPTION_TEXT,      \
		NAM_OPTION_FIELD(type, json) },                                                     \
	{ "quiet", NULL, "No progress, no table.", NAM_OPTION_FLAG,                                 \
		NAM_OPTION_FIELD(type, quiet) }

extern const char *const bench_transports[];

/*
 * Checks that all subcommands share: --json can be written, and not both of --ops and --seconds.
 * 0, or -1 after a message.
 */
int bench_options_check(const char *json, bool *quiet, uint64_t ops, double seconds) NAM_MUST_CHECK;

#endif /* NAM_BENCH_OPTIONS_H */
