/* SPDX-License-Identifier: Apache-2.0 */
/* run.c -- transactions that begin again after conflicts. */
#include "serial.h"

NAM_FIBER_FN static int
run_once(struct nam_worker *worker, struct nam_txn_store *store, nam_txn_fn fn, void *arg,
	uint64_t *ret_sequence)
{
	struct nam_txn *txn;
	int rc = nam_txn_begin(worker, store, &txn);

	if (rc)
		return rc;
	rc = fn(txn, arg); /* SUSPENDS */
	if (!rc)
		return nam_txn_commit(txn, ret_sequence); /* SUSPENDS */
	nam_txn_abort(txn);
	return rc;
}

int
nam_txn_run(struct nam_worker *worker, struct nam_txn_store *store, nam_txn_fn fn, void *arg,
	uint64_t *ret_sequence, uint32_t *ret_tries)
{
	uint64_t pause_ns = NAM_TXN_PAUSE_NS_MIN;
	uint32_t tries = 0;
	int rc;

	for (;;) {
		rc = run_once(worker, store, fn, arg, ret_sequence); /* SUSPENDS */
		if (++tries == NAM_TXN_TRIES_MAX || rc != -NAM_E_CONFLICT)
			break;
		nam__pause_await(worker, pause_ns / 2 +
			nam_rng_below(&worker->rng, pause_ns / 2)); /* SUSPENDS */
		if (pause_ns < NAM_TXN_PAUSE_NS_MAX)
			pause_ns *= 2;
	}
	if (ret_tries)
		*ret_tries = tries;
	return rc;
}
