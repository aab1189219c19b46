/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread_pool.h -- the threads of a benchmark, of one client or, simulated, of many.  Each opens a
 * worker, which stays warm from one job to the next, and runs jobs when all do.
 */
#ifndef NAM_BENCH_THREAD_POOL_H
#define NAM_BENCH_THREAD_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "nam.h"
#include "report.h"
#include "simulation.h"

struct thread_pool;

struct share {
	uint64_t remaining;		/* operations not yet begun */
	uint64_t done;
	uint64_t deadline;		/* ticks; UINT64_MAX: none */
	uint64_t began, ended;		/* ticks */
	uint64_t cpu_ns;		/* 0: simulated */
};

struct thread_pool_member {
	struct thread_pool *pool;
	unsigned number;		/* 0 .. threads - 1, then those of the next client */
	struct nam_worker *worker;	/* NULL in a thread pool without a client */
	struct nam_thread *thread;	/* NULL: it was not started */
	/* Units done in this job: written by this thread, shown by the progress bar. */
	_Alignas(64) atomic_uint_fast64_t done;
	struct share share;		/* the last one that has ended */
};

typedef void (*thread_pool_job_fn)(struct thread_pool_member *member, void *arg);

/* Other clients of a simulated cluster. */
struct thread_pool_others {
	struct simulation *simulation;
	unsigned clients;		/* the first, which the caller is, included */
	/* 0, or an exit code; complains itself. */
	int (*connect)(void *arg, struct nam_client **ret_client);
	void *arg;
};

/*
 * Threads with a worker each.  0, or what nam_worker_open() or the host said, with a message in
 * *diag.
 *
 * @client	NULL: no workers, for work that needs no cluster
 * @threads	of each client
 * @others	they connect here, and close in thread_pool_stop(); NULL: none
 */
int thread_pool_start(struct nam_client *client, unsigned threads,
	const struct thread_pool_others *others, struct thread_pool **ret_pool,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* Remote blocks that the clients could not give back; or only for later, and why. */
struct blocks_left {
	uint64_t lost, waiting;
	struct nam_diag why;
};

/* Closes the workers and joins the threads. */
struct blocks_left thread_pool_stop(struct thread_pool *pool);

/*
 * Run fn on every member at once and wait for the last.  The progress bar shows how many of `ops`
 * are done.  If `ops` is 0, it shows how much of `seconds` is over; if both are 0, nothing.
 */
void thread_pool_run(struct thread_pool *pool, thread_pool_job_fn fn, void *arg, uint64_t ops,
	double seconds);

/* As thread_pool_run().  Returns the counters of all workers, of this job alone, by kind. */
void thread_pool_measure(struct thread_pool *pool, thread_pool_job_fn fn, void *arg, uint64_t ops,
	double seconds, struct nam_op_counters ret_counters[NAM_OP_KINDS_COUNT]);

/*
 * A share of `ops` operations of all members, or, if it is 0, of what `seconds` allow.  At its end
 * the member keeps it for result_add_shares().
 */
void share_begin(struct share *share, const struct thread_pool_member *member, uint64_t ops,
	double seconds);
void share_end(const struct share *share, struct thread_pool_member *member);

/* Add the shares of all members, but for latency and counters. */
void result_add_shares(struct result *sum, const struct thread_pool *pool);

/* The sum of `done` of all members, and 0 for each. */
uint64_t thread_pool_done(const struct thread_pool *pool);
void thread_pool_reset(struct thread_pool *pool);

/* Members: the threads of all clients. */
unsigned thread_pool_size(const struct thread_pool *pool);
struct thread_pool_member *thread_pool_member(struct thread_pool *pool, unsigned number);

#endif /* NAM_BENCH_THREAD_POOL_H */
