/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h -- what a worker needs from the layers above, which have requests under way. */
#ifndef NAM_COMPUTE_WORKER_OPS_H
#define NAM_COMPUTE_WORKER_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct nam_worker;

struct nam__worker_ops {
	/* Fill qps[slot], and all that belongs to it; waits for the server. */
	int (*connect)(struct nam_worker *worker, uint32_t slot, struct nam_diag *diag);
	/*
	 * Whether no request to that server is under way.  Otherwise one goes out behind them, and
	 * this is to be called again.
	 */
	bool (*drain)(struct nam_worker *worker, uint32_t slot);
	/* The connection of a slot has ended. */
	void (*server_closed)(struct nam_worker *worker, uint32_t slot);
	/* Take replies that memory servers WROTE; returns how many. */
	int (*poll)(struct nam_worker *worker);
	/* How long the worker may sleep: at most wait_ns, 0 to poll. */
	uint64_t (*patience)(const struct nam_worker *worker, uint64_t wait_ns);
	/* End calls whose deadline had passed by then. */
	void (*check_deadlines)(struct nam_worker *worker, uint64_t then_ns);
};

#endif /* NAM_COMPUTE_WORKER_OPS_H */
