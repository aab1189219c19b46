/* SPDX-License-Identifier: Apache-2.0 */
/* clients.c -- simulated clients beside the first: each opens the index for itself. */
#include <errno.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench.h"

static void
open_main(struct thread_pool_member *member, void *arg)
{
	struct index_bench *bench = arg;
	uint32_t client = member->number / bench->options.run.threads;
	int rc;

	if (!client || member->number % bench->options.run.threads)
		return;
	rc = nam_index_open(member->worker, bench->name, bench->options.cache_bytes,
		&bench->others[client]);
	if (rc) {
		findings_failed(&session.findings, rc, "opening the index",
			nam_worker_diag(member->worker));
		session.findings.fatal = rc;
	}
}

int
index_others_open(struct index_bench *bench)
{
	if (bench->others || bench->options.run.clients < 2)
		return 0;
	bench->others = calloc(bench->options.run.clients, sizeof(struct nam_index *));
	if (!bench->others)
		return -ENOMEM;
	thread_pool_run(session.pool, open_main, bench, NULL, NULL);
	return session.findings.fatal;
}

void
index_others_close(struct index_bench *bench)
{
	for (uint32_t i = 1; bench->others && i < bench->options.run.clients; i++)
		if (bench->others[i])
			nam_index_close(bench->others[i]);
	free(bench->others);
}
