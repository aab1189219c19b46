/* SPDX-License-Identifier: Apache-2.0 */
/* session.h -- the run of a subcommand: its cluster, client and threads, and what was found. */
#ifndef NAM_BENCH_SESSION_H
#define NAM_BENCH_SESSION_H

#include "load/check.h"
#include "options.h"
#include "thread_pool.h"

/* A process has one, which simulated clients share. */
extern struct session {
	struct simulation *simulation;	/* NULL: a real cluster */
	struct nam_client *client;	/* NULL: there is no cluster */
	struct thread_pool *pool;
	struct result result;		/* what is reported */
} session;

/* A subcommand: its command line and its steps; each complains itself. */
struct session_steps {
	const struct nam_options_table *table;
	/* Check options against each other, and set defaults that depend on them: 0 or -1. */
	int (*resolve)(void *bench);
	int (*begin)(void *bench);	/* an exit code */
	int (*run)(void *bench);	/* an exit code */
	/* If there is a result: the table, and what JSON has besides the result. */
	void (*print)(void *bench);
	void (*json)(void *bench, cJSON *object);
	void (*end)(void *bench);	/* whatever the others said */
};

/*
 * Read the command line; connect, or simulate a cluster and connect to it; start the threads; take
 * the steps.  The exit code is that of the signal that arrived, else of the steps, else of what was
 * found.
 *
 * @bench	begins with its options, which have their defaults
 */
int session_main(const struct session_steps *steps, int argc, char **argv, void *bench);

/* The worker of the calling thread, for what one thread does. */
static inline struct nam_worker *
session_worker(void)
{
	return thread_pool_member(session.pool, 0)->worker;
}

#endif /* NAM_BENCH_SESSION_H */
