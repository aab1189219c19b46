/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster.h -- simulated memory servers, and what simulated clients need to find them.
 *
 * An error in here ends the program with a message.
 */
#ifndef NAM_TESTS_SIM_CLUSTER_H
#define NAM_TESTS_SIM_CLUSTER_H

#include "common/sim/sim.h"
#include "compute/client.h"
#include "index/index.h"
#include "memserver/server.h"

#define SIM_SERVERS_MAX 20u

struct sim_server {
	struct sim_cluster *cluster;
	struct nam_sim_process *process;
	struct nam_server *server;	/* NULL before it is ready and after it has ended */
	char address[32];
	uint32_t id;
	uint32_t more_regions;		/* than others */
	bool successor;			/* it waited for memory at first, */
	bool had_memory;		/* and has got it, as a mover knows */
	bool succeeded;			/* its backup has its place */
};

struct sim_cluster {
	struct sim_server servers[SIM_SERVERS_MAX];
	uint32_t count;
	uint32_t handlers;
	uint64_t memory_bytes;		/* of a region */
	/* Of each server; set before the run.  By default one is public, and one private. */
	uint32_t regions;
	bool locks;			/* in stores; default: the stand-in of transactions */
	char list[SIM_SERVERS_MAX * 32];	/* for nam_client_options.cluster */
	/* Of clients that come from now on; as in struct nam_client_options. */
	enum nam_transport transport;
	uint32_t frame_bytes, fetch_bytes;
	const char *key;		/* NULL: they have none */
	const char *keys;		/* of servers that start from now on; or NULL */
};

/* Print a message and end the program. */
void sim_die(const char *format, ...) NAM_PRINTF(1, 2) __attribute__((noreturn));

/* Between nam_sim_begin() and nam_sim_run().  The struct must live until then. */
void sim_cluster_start(struct sim_cluster *cluster, uint32_t servers, uint32_t handlers,
	uint64_t memory_bytes);
/* By the seed, before the run: stores have locks, or the stand-in with aborts of its own. */
void sim_cluster_htm(struct sim_cluster *cluster, uint64_t seed);
/* nam_sim_begin(), and then that. */
void sim_cluster_begin(const struct nam_sim_options *options, struct sim_cluster *cluster,
	uint32_t servers, uint32_t handlers, uint64_t memory_bytes);
/*
 * From a simulated thread: a memory server more, at an address of its own that the list does not
 * name.  Returns once it listens.
 */
struct sim_server *sim_cluster_add(struct sim_cluster *cluster, uint32_t id);
/* The same, of a memory server that waits for the memory of the one with that id. */
struct sim_server *sim_cluster_successor(struct sim_cluster *cluster, uint32_t id);
/*
 * Whether it has the memory of the member with its id, as the lead's view says.  One that is no
 * member has its own, unless it is a successor.
 */
bool sim_server_holds(const struct sim_server *server);
/* It is a backup of the member with its id, as the lead's view says. */
bool sim_server_backs(const struct sim_server *server);
/* From a simulated thread: it ends by itself, if it lives. */
void sim_server_stop(struct sim_server *server);
/*
 * Processes that were killed while memory of the cluster was there.  A successor that has got none
 * is none of these, and neither is a process that has passed it on and was retired.
 */
uint32_t sim_servers_dead(const struct sim_cluster *cluster);
/* From a simulated thread: its process ends, and another one begins at its address. */
void sim_server_restart(struct sim_server *server);
/* From a simulated thread: until all of them listen. */
void sim_cluster_await(const struct sim_cluster *cluster);
/* From a simulated thread, once all clients have left. */
void sim_cluster_stop(struct sim_cluster *cluster);

/* From a simulated thread.  A zombie thread gets NULL, and so does one that finds a server dead. */
struct nam_client *sim_client(const struct sim_cluster *cluster, const char *name);
struct nam_worker *sim_worker(struct nam_client *client);
/* Both; NULL if one is missing. */
struct nam_worker *sim_come(const struct sim_cluster *cluster, const char *name,
	struct nam_client **ret_client);
/* Close what there is of both, which are NULL afterwards. */
void sim_leave(struct nam_client **client, struct nam_worker **worker);
/* A client with a list of its own; a failure is the caller's. */
int sim_client_try(const struct sim_cluster *cluster, const char *list, const char *name,
	struct nam_client **ret_client, struct nam_diag *diag);
/* mutants.c: if a guard of an order is off, a client takes a wrong one from now on. */
void sim_client_mutate(struct nam_client *client);

/* Bytes that are allocated on all memory servers. */
uint64_t sim_cluster_used(const struct sim_cluster *cluster, struct nam_worker *worker);

#endif /* NAM_TESTS_SIM_CLUSTER_H */
