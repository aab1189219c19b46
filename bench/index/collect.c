/* SPDX-License-Identifier: Apache-2.0 */
/* collect.c -- a thread that runs the garbage collector over and over. */
#include "bench/bench.h"
#include "bench.h"

#define PAUSE_NS 20000000ull

static void
collect(struct index_collector *collector, struct nam_worker *worker)
{
	struct index_bench *bench = collector->bench;
	struct nam_collect_stat stat;
	int rc = nam_index_collect(worker, bench->index, &stat); /* SUSPENDS */

	/* Another client's collector is at work: it does our job. */
	if (rc == -NAM_E_LOCK_TIMEOUT)
		return;
	if (rc) {
		findings_failed(rc, "collect", nam_worker_diag(worker));
		collector->stop = true;
		return;
	}
	bench->collected.passes++;
	bench->collected.merges += stat.merges;
	bench->collected.nodes_retired += stat.nodes_retired;
	bench->collected.nodes_reusable += stat.nodes_reusable;
}

static void
collector_main(void *arg)
{
	struct index_collector *collector = arg;
	struct nam_worker *worker;
	struct nam_diag diag = { "" };
	int rc = nam_worker_open(session.client, &worker, &diag);

	if (rc) {
		findings_failed(rc, "a worker for the collector", diag.text);
		return;
	}
	while (!collector->stop) {
		collect(collector, worker);
		nam_sleep_ns(PAUSE_NS);
	}
	nam_worker_close(worker);
}

int
index_collector_start(struct index_collector *collector)
{
	return nam_thread_start("bench-collect", collector_main, collector, &collector->thread);
}

void
index_collector_stop(struct index_collector *collector)
{
	if (!collector->thread)
		return;
	collector->stop = true;
	nam_thread_join(collector->thread);
}
