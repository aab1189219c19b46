/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- options of several subcommands, whose own begin with them; and rows of tables. */
#ifndef NAM_BENCH_OPTIONS_H
#define NAM_BENCH_OPTIONS_H

#include "common/options/options.h"
#include "common/rpc/transport.h"

struct bench_options {
	const char *cluster, *key;		/* NULL: none */
	const char *json;		/* NULL: none */
	bool quiet;
	uint64_t ops;			/* 0: by time */
	double seconds;
	uint64_t seed;
	uint32_t threads;		/* of a client */
	uint32_t fibers;		/* of a thread */
	enum nam_transport transport;	/* of requests */
	uint32_t fetch_bytes;		/* 0: what a reply takes */
	uint32_t frame_bytes;		/* 0: the default */
	bool fetch_always;
	/* Simulated. */
	uint32_t memservers, clients;
	uint32_t memservers_most;	/* that simulation_grow() may add up to; 0: none */
	uint32_t rpc_threads;		/* of each memory server; 0: the profile's */
	bool colocate;			/* clients run on the memory servers' machines, by turns */
	bool symmetric;			/* ... and their threads do the memory servers' work */
};

#define BENCH_FIELD(field) NAM_OPTION_FIELD(struct bench_options, field)

#define BENCH_CLUSTER                                                                               \
	{ "cluster", "CLUSTER", "The memory servers: addresses with commas between them, as in "    \
		"shm:PATH,shm:PATH, or @FILE. Without this option, NAM_CLUSTER in the environment " \
		"names them. sim:PROFILE is a simulated cluster.",                                  \
		NAM_OPTION_TEXT, BENCH_FIELD(cluster) },                                            \
	{ "key", "FILE", "The file with this client's key, for memory servers with key files. "     \
		"Without this option, NAM_KEY in the environment names it.",                        \
		NAM_OPTION_TEXT, BENCH_FIELD(key) }

#define BENCH_TRANSPORT                                                                             \
	{ "transport", "TRANSPORT", "How requests travel: srq (SEND there and back), mailbox "      \
		"(WRITE there and back), fetch (WRITE there, and a READ of the reply) or "          \
		"datagram. With datagram it is WRITE there and SEND back over unreliable queue "    \
		"pairs, where the fabric has them. Without this option, NAM_TRANSPORT in the "      \
		"environment decides. The default is fetch if the memory server is on this host "   \
		"and the fabric allows it, else srq.", NAM_OPTION_CHOICE, BENCH_FIELD(transport),                             \
		.min = NAM_TRANSPORT_SRQ, .choices = bench_transports }

#define BENCH_LENGTH(default_seconds)                                                               \
	{ "ops", "N", "Stop after N operations.", NAM_OPTION_COUNT,                                 \
		BENCH_FIELD(ops), .min = 1, .max = UINT64_MAX / 2 },                                \
	{ "seconds", "S", "Stop after S seconds (default " default_seconds ").", NAM_OPTION_REAL,   \
		BENCH_FIELD(seconds), .low = 0.00001, .high = 1e6 },                                \
	{ "threads", "N", "Threads of a client (default 1).", NAM_OPTION_COUNT,                     \
		BENCH_FIELD(threads), .min = 1, .max = 1024 }

#define BENCH_FIBERS(help)                                                                          \
	{ "fibers", "N", help, NAM_OPTION_COUNT, BENCH_FIELD(fibers), .min = 1,                     \
		.max = 1024 }

#define BENCH_SIMULATED(default_memservers, clients_max)                                            \
	{ "memservers", "N", "Simulated: memory servers, 1 to 64 (default " default_memservers      \
		").", NAM_OPTION_COUNT, BENCH_FIELD(memservers), .min = 1,                          \
		.max = SIMULATION_MEMSERVERS_MAX },                                                 \
	{ "clients", "N", "Simulated: client processes, each with its own threads, connections "    \
		"and caches, 1 to " #clients_max " (default 1).", NAM_OPTION_COUNT,                 \
		BENCH_FIELD(clients), .min = 1, .max = clients_max },                               \
	{ "rpc-threads", "N", "Simulated: handler threads of a memory server, 1 to 64 (default: "   \
		"the profile's).", NAM_OPTION_COUNT, BENCH_FIELD(rpc_threads),                      \
		.min = 1, .max = 64 }

#define BENCH_OUTPUT                                                                                \
	{ "seed", "N", "Seed of everything random (default 1).", NAM_OPTION_COUNT,                  \
		BENCH_FIELD(seed), .max = UINT64_MAX },                                             \
	{ "json", "FILE", "Write the results as JSON; - is standard output.", NAM_OPTION_TEXT,      \
		BENCH_FIELD(json) },                                                                \
	{ "quiet", NULL, "No progress, no table.", NAM_OPTION_FLAG,                                 \
		BENCH_FIELD(quiet) }

extern const char *const bench_transports[];

/*
 * Checks of these options against each other, and their defaults.  0, or -1 after a message.
 *
 * @subcommand	that needs a cluster; NULL: only if one is named
 * @seconds	without --ops and --seconds; of a real and of a simulated cluster
 */
int bench_options_resolve(struct bench_options *o, const char *subcommand, double seconds,
	double seconds_simulated, uint32_t memservers) NAM_MUST_CHECK;

#endif /* NAM_BENCH_OPTIONS_H */
