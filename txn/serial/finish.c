/* SPDX-License-Identifier: Apache-2.0 */
/*
 * finish.c -- the last phase of commits whose callers do not wait for it.
 *
 * A transaction is committed once its log is complete.  Its records stay locked until they are
 * written, so no transaction reads what it replaces (Z14).  A task of its own waits for that.
 */
#include "indexed.h"

static void
failure_note(struct nam_txn_store *store, int rc)
{
	int none = 0;

	if (rc)
		atomic_compare_exchange_strong_explicit(&store->failed, &none, rc,
			memory_order_relaxed, memory_order_relaxed);
}

NAM_FIBER_FN static void
finish_main(void *arg)
{
	struct nam_txn *txn = arg;
	struct nam_worker *worker = txn->worker;
	struct nam_txn_store *store = txn->store;

	nam__op_begin(worker, NAM_OP_TXN_FINISH);
	failure_note(store, nam__serial_finish(txn)); /* SUSPENDS */
	nam__op_end(worker);
	nam__serial_end(txn);
	/* Release: pairs with the acquire of the last one. */
	nam__serial_unref(store);
}

int
nam__serial_finish_later(struct nam_txn *txn)
{
	struct nam_txn_store *store = txn->store;
	int rc;

	atomic_fetch_add_explicit(&store->users, 1, memory_order_relaxed);
	rc = nam__task_leave(txn->worker, finish_main, txn);
	if (rc)
		nam__serial_unref(store);
	return rc;
}

int
nam__serial_failed(struct nam_worker *worker, struct nam_txn_store *store)
{
	int rc = 0;

	/* One of the callers gets it. */
	if (__builtin_expect(atomic_load_explicit(&store->failed, memory_order_relaxed), 0))
		rc = atomic_exchange_explicit(&store->failed, 0, memory_order_relaxed);
	return !rc ? 0 : nam_diag_set(&worker->diag, rc, "store '%s': a transaction was committed "
		"earlier, and writing its records failed: %s", store->name, nam_err_text(rc));
}

int
nam_txn_flush(struct nam_worker *worker, struct nam_txn_store *store)
{
	nam__left_await(worker); /* SUSPENDS */
	return nam__serial_failed(worker, store);
}
