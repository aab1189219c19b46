/* SPDX-License-Identifier: Apache-2.0 */
#include "serial_ballast.h"

#include <stdio.h>

#include "common/error.h"
#include "common/sim/sim.h"
#include "compute/worker/worker.h"
#include "random_clients.h"

#define BALLAST 120u			/* of two leaves and more */
#define BALLAST_AT_A_TIME 24u
#define ROUNDS 24u

static int
ballast_move(struct nam_worker *worker, struct nam_txn_store *store)
{
	uint32_t first = (uint32_t)(nam_sim_random() % BALLAST);
	bool deletes = nam_sim_random() % 2;
	struct nam_txn *txn = NULL;
	int rc = nam_txn_begin(worker, store, &txn);

	for (uint32_t i = 0; i < BALLAST_AT_A_TIME && !rc; i++) {
		uint64_t value = nam_sim_random();
		char name[24];
		uint32_t bytes = (uint32_t)snprintf(name, sizeof(name), "fill%u",
			(first + i) % BALLAST);

		rc = deletes ? nam_txn_delete(txn, name, bytes) :
			nam_txn_write(txn, name, bytes, &value, sizeof(value));
		rc = rc == -NAM_E_NOTFOUND ? 0 : rc;
	}
	if (!rc)
		return nam_txn_commit(txn, NULL);
	nam_txn_abort(txn);
	return rc;
}

uint64_t
sim_ballast_run(struct nam_worker *worker, struct nam_txn_store *store, struct nam_index *index)
{
	uint64_t failed = 0;

	for (uint32_t i = 0; i < ROUNDS && !random_failure() && !nam_sim_zombie(); i++) {
		struct nam_collect_stat stat;
		int rc = ballast_move(worker, store);

		failed += rc && rc != -NAM_E_CONFLICT && rc != -NAM_E_REMOTE_FULL;
		if (nam_sim_random() % 4 == 0)
			(void)!nam_index_collect(worker, index, &stat);
		nam__pause_await(worker, nam_sim_random() % RANDOM_POLL_NS);
	}
	return failed;
}

bool
sim_ballast_locked(int rc, bool slow)
{
	struct nam_sim_counts counts = nam_sim_counted();

	if (rc == -NAM_E_LOCK_ORPHANED)
		return counts.kills && counts.full;
	return (rc == -NAM_E_LOCK_TIMEOUT || rc == -NAM_E_RESTART_TORN) && (counts.broken || slow);
}
