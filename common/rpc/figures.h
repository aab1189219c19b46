/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figures.h -- what a memory server counts: as it answers STATUS, as clients show it, and as
 * monitoring reads it.  All counts are since its start; bytes and connections are of now.
 */
#ifndef NAM_COMMON_RPC_FIGURES_H
#define NAM_COMMON_RPC_FIGURES_H

#include <stdint.h>

#define NAM_SERVICES_MAX 64u		/* types of requests; see nam_service_name() */
#define NAM_LATENCIES 7u		/* up to 1, 4, 16, 64, 256, 1,024 and 4,096 us */
#define NAM_LATENCY_FIRST_NS 1000u	/* each bound is four times the one before */

/* One type of request.  The time is the service's, without queues and without the network. */
struct nam_service_figures {
	uint64_t requests;		/* answered, failed or not */
	uint64_t failed;		/* answered with an error */
	uint64_t total_ns;
	uint64_t within[NAM_LATENCIES];	/* above the bound before; longer ones are in none */
};

/* Why a connection was refused. */
#define NAM_REFUSALS(X)                                                                             \
	X(STARTING, "starting")		/* memory is being populated */                             \
	X(HANDLERS, "handlers")		/* no handler has room */                                   \
	X(PEER, "peer")			/* the peer has its share */                                \
	X(DESCRIPTORS, "descriptors")	/* file descriptors are short */                            \
	X(HELLO, "hello")		/* another version, or malformed */                         \
	X(CLIENT, "client")		/* declared dead, unknown */                                \
	X(KEY, "key")			/* none, or one that the key file lacks */                  \
	X(UNFINISHED, "unfinished")	/* it left, or was dropped, before its hello or its proof */ \
	X(OTHER, "other")

/* Why a handler looked at a node of a tree again. */
#define NAM_SERVER_RESTARTS(X)                                                                      \
	X(CHANGED, "changed")		/* another handler changed it meanwhile */                  \
	X(LOCKED, "locked")		/* another handler is changing it */                        \
	X(DEAD, "dead")			/* it was merged away: from the root again */

enum nam_refusal {
#define NAM_REFUSAL(name, text) NAM_REFUSED_##name,
	NAM_REFUSALS(NAM_REFUSAL)
#undef NAM_REFUSAL
	NAM_REFUSALS_COUNT
};

enum nam_server_restart {
#define NAM_SERVER_RESTART(name, text) NAM_SERVER_RESTART_##name,
	NAM_SERVER_RESTARTS(NAM_SERVER_RESTART)
#undef NAM_SERVER_RESTART
	NAM_SERVER_RESTARTS_COUNT
};

enum nam_memory_kind {
	NAM_MEMORY_PUBLIC = 0,		/* blocks of clients */
	NAM_MEMORY_PRIVATE = 1,		/* trees and key-value stores; clients do not reach it */
	NAM_MEMORY_READ_ONLY = 2,	/* buckets that clients READ; other requests fail there */
	NAM_MEMORY_KINDS,
};

struct nam_memory_figures {
	uint64_t bytes;			/* of regions of this kind */
	uint64_t carved_bytes;		/* of these, cut into blocks */
	uint64_t free_bytes;		/* of these, given back */
	uint64_t waiting_bytes;		/* of those cut, given back for later */
};

struct nam_server_figures {
	struct nam_memory_figures memory[NAM_MEMORY_KINDS];
	uint64_t accepted;		/* connections */
	uint64_t refused[NAM_REFUSALS_COUNT];
	uint64_t restarts[NAM_SERVER_RESTARTS_COUNT];
	struct nam_service_figures services[NAM_SERVICES_MAX];
};

#endif /* NAM_COMMON_RPC_FIGURES_H */
