/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_txn.h -- what scenes about serializable transactions share.
 */
#ifndef NAM_TESTS_SIM_LITMUS_TXN_H
#define NAM_TESTS_SIM_LITMUS_TXN_H

#include "txn/serializable.h"
#include "litmus.h"

#define STORE_BYTES (1u << 16)	/* of the address cache */

/* NULL if this client dies meanwhile. */
static inline struct nam_txn_store *
litmus_txn_open(struct actor *self, const char *name)
{
	struct nam_txn_store *store = NULL;

	if (nam_txn_store_open(self->worker, name, STORE_BYTES, &store) && !nam_sim_zombie())
		sim_die("the store: %s", nam_worker_diag(self->worker));
	return store;
}

static inline struct nam_txn *
begin(struct actor *self, struct nam_txn_store *store)
{
	struct nam_txn *txn;

	if (nam_txn_begin(self->worker, store, &txn))
		sim_die("no memory");
	return txn;
}

static inline void
expect_rc(const char *what, int rc, int expected)
{
	if (rc != expected && !nam_sim_zombie())
		litmus_fail("%s: %s", what, nam_err_name(rc));
}

#endif /* NAM_TESTS_SIM_LITMUS_TXN_H */
