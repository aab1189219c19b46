/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simulation.h -- --cluster sim:PROFILE: memory servers and clients that run in this process, on
 * the machines and the network of a profile, in virtual time.
 */
#ifndef NAM_BENCH_SIMULATION_H
#define NAM_BENCH_SIMULATION_H

#include <stdbool.h>

#include "common/sim/sim.h"
#include "options.h"

#define SIMULATION_MEMSERVERS_MAX 64u

struct simulation;

/* Whether that is a cluster to be simulated; NULL is none. */
bool simulation_wanted(const char *cluster);

/*
 * Simulate memory servers and a process that runs fn(arg, simulation), the first client; or run
 * fn(arg, NULL) if the cluster is a real one.  Clients of simulation_client() must have ended when
 * fn returns.  From now on signals end a run early.  Returns fn's exit code, or another after a
 * message if the simulation fails.
 */
int simulation_run(const struct bench_options *options,
	int (*fn)(void *arg, struct simulation *simulation), void *arg) NAM_MUST_CHECK;

/* From now on each search of a tree costs a memory server so many node times of the profile. */
void simulation_levels(struct simulation *simulation, uint32_t levels);

/* Add a memory server, up to the most that the options say: nam_server_add(). */
int simulation_grow(struct simulation *simulation, struct nam_diag *ret_diag) NAM_MUST_CHECK;

/* The memory server of that id gets a backup, on another machine: nam_server_back(). */
int simulation_back(struct simulation *simulation, unsigned id,
	struct nam_diag *ret_diag) NAM_MUST_CHECK;
/*
 * The memory server of that id, which is not the lead, is killed.  Its backup gets its place, as a
 * steward sees to it that looks every 50 ms: nam_server_promote().
 */
int simulation_fail(struct simulation *simulation, unsigned id,
	struct nam_diag *ret_diag) NAM_MUST_CHECK;

/* For nam_client_options.cluster. */
const char *simulation_cluster(const struct simulation *simulation);
const struct nam_sim_network *simulation_network(const struct simulation *simulation);

/* Client number 1, 2, ...: a process that runs fn(arg), on the machine that is its turn. */
int simulation_client(struct simulation *simulation, unsigned number, nam_thread_fn fn,
	void *arg) NAM_MUST_CHECK;

/* The calling thread computes, for what the profile says of an operation. */
static inline void
simulation_work(double ns)
{
	nam_sim_work((uint64_t)(ns + 0.5));
}

#endif /* NAM_BENCH_SIMULATION_H */
