/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_clients.h -- what runs of random clients share: the first failure, the director and a
 * failover.  random_runs.h has their command line.
 */
#ifndef NAM_TESTS_SIM_RANDOM_CLIENTS_H
#define NAM_TESTS_SIM_RANDOM_CLIENTS_H

#include "cluster.h"

#define RANDOM_POLL_NS 50000u
#define RANDOM_TICK_NS 15000000u	/* epoch threads look at their clocks every 10 ms */
#define RANDOM_SETTLE_NS 200000000u	/* for all ends to be known */

/* The first failure of a run counts.  A dead client has none. */
void random_failed(const char *format, ...) NAM_PRINTF(1, 2);
/* NULL, or the failure of the last run. */
const char *random_failure(void);

/* Errors of a connection that ended, or of a slow wire. */
bool random_explained(int rc);

/* The time for histories, in which 0 is none. */
uint64_t random_now(void);
uint32_t random_between(struct nam_rng *rng, uint32_t least, uint32_t most);

/* Run the simulation that has begun: `director` in a process that is never killed. */
void random_run(void (*director)(void *arg));
void random_await(const struct nam_sim_process *process);

/* By a process of its own: a memory server gets a backup, and one of both dies. */
struct random_failover {
	struct sim_cluster *cluster;
	uint32_t servers;		/* at first */
	uint64_t death_ns;		/* comes at most so long after the backup is there */
	bool backup_dies, backup_stays;	/* instead of the other; none of both dies */
	/* Set on the way.  Blocks that were freed at a backup stay allocated. */
	bool backed, failed_over;
	struct nam_sim_process *process;
};

void random_failover_begin(struct random_failover *failover);
/* Returns at once if it has not begun. */
void random_failover_await(const struct random_failover *failover);

#endif /* NAM_TESTS_SIM_RANDOM_CLIENTS_H */
