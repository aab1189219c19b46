/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread_pool.h -- the threads of a benchmark: each opens a worker, waits, and runs jobs when all
 * do.
 *
 * Threads live as long as the crew, so their workers stay warm from one job to the next.  They
 * belong to one client, which is this process's, or, simulated, to many, each of which is a
 * simulated process.
 */
#ifndef NAM_BENCH_THREAD_POOL_H
#define NAM_BENCH_THREAD_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "nam.h"
#include "simulation.h"

struct crew;

struct crew_member {
	struct crew *crew;
	unsigned number;		/* 0 .. threads - 1, then those of the next client */
	struct nam_worker *worker;	/* NULL in a crew without a client */
	/* Units done in this job: written by this thread, shown by the progress bar. */
	_Alignas(64) atomic_uint_fast64_t done;
};

typedef void (*crew_job_fn)(struct crew_member *member, void *arg);

/* Called every 100 ms while a job runs, in the thread that called crew_run(); may be NULL. */
typedef void (*crew_tick_fn)(void *arg, uint64_t done, double seconds);

/**
 * crew_start -- threads with a worker each.
 *
 * @client	NULL: no workers, for work that needs no cluster
 *
 * Returns 0, or what nam_worker_open() or the host said, with a message in *diag.
 */
int crew_start(struct nam_client *client, unsigned threads, struct crew **ret_crew,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* Other clients of a simulated cluster. */
struct crew_others {
	struct simulation *simulation;
	unsigned clients;		/* the first, which the caller is, included */
	/* 0, or an exit code; complains itself. */
	int (*connect)(void *arg, struct nam_client **ret_client);
	void *arg;
};

/**
 * crew_start_simulated -- so many threads for each of many clients.
 *
 * From the first client's thread.  The others connect, and close in crew_stop().
 */
int crew_start_simulated(struct nam_client *client, unsigned threads,
	const struct crew_others *others, struct crew **ret_crew,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* Closes the workers and joins the threads. */
void crew_stop(struct crew *crew);

/* Run fn on every member at once and wait for the last.  Returns the seconds that it took. */
double crew_run(struct crew *crew, crew_job_fn fn, void *arg, crew_tick_fn tick, void *tick_arg);

/* Members: the threads of all clients. */
unsigned crew_size(const struct crew *crew);
struct crew_member *crew_member(struct crew *crew, unsigned number);

/* The sum of one operation kind's counters over all workers. */
void crew_counters(const struct crew *crew, enum nam_op_kind kind, struct nam_op_counters *ret_sum);

#endif /* NAM_BENCH_THREAD_POOL_H */
