/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c -- long passes: when they end, and how fast they are. */
#include "compute/worker/pace.h"

#include <errno.h>

#define NAP_NS 20000000ull		/* a pass is stopped in its pauses, too */

void
nam_worker_stop_when(struct nam_worker *worker, nam_worker_stop_fn stop, void *arg)
{
	worker->stop.fn = stop;
	worker->stop.arg = arg;
}

int
nam__worker_stopped(const struct nam_worker *worker)
{
	return worker->stop.fn && worker->stop.fn(worker->stop.arg) ? -ECANCELED : 0;
}

void
nam_worker_pace(struct nam_worker *worker, uint64_t blocks_per_second)
{
	worker->pace.per_second = blocks_per_second;
	worker->pace.next_ns = nam_now_ns();
}

int
nam__worker_pace(struct nam_worker *worker, uint32_t blocks)
{
	uint64_t now = nam_now_ns(), per_second = worker->pace.per_second;
	int rc;

	if (per_second) {
		worker->pace.next_ns += blocks * 1000000000ull / per_second;
		/* A pass that was slow does not make up for it. */
		if (worker->pace.next_ns < now)
			worker->pace.next_ns = now;
	}
	while (!(rc = nam__worker_stopped(worker)) && per_second && now < worker->pace.next_ns) {
		uint64_t rest = worker->pace.next_ns - now;

		nam__pause_await(worker, rest < NAP_NS ? rest : NAP_NS); /* SUSPENDS */
		now = nam_now_ns();
	}
	return rc;
}
