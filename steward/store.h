/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h -- the view store that an operator names, for programs.
 */
#ifndef NAM_STEWARD_STORE_H
#define NAM_STEWARD_STORE_H

#include <stdatomic.h>

#include "compute/admin.h"

struct nam__view_store;

struct nam__store_options {
	const char *view_store;		/* NULL or "embedded"; "etcd:http://HOST:PORT,.../NAME" */
	const char *cacert_file, *cert_file, *key_file;	/* https; NULL: the system's, none */
	const char *user;		/* NULL: no authentication */
	const char *password_file;	/* its first line */
	uint32_t lease_ms;		/* 0: NAM__STORE_LEASE_MS */
	uint32_t timeout_ms;		/* of a request to etcd; 0: NAM__STORE_TIMEOUT_MS */
	const atomic_bool *stop;	/* NULL, or: set when waits are to end */
};
#define NAM__STORE_LEASE_MS 10000u
#define NAM__STORE_TIMEOUT_MS 5000u

/* -EINVAL: the text, or a file.  This asks nothing of etcd yet. */
int nam__store_open(const struct nam__store_options *options, struct nam__view_store **ret_store,
	struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * options->view_store becomes that store, where the calls of compute/admin.h then decide the view.
 * If no steward leads, this process does, as long as such a call may wait.  If one leads, calls
 * that move memory fail with -NAM_E_TERM.  -NAM_E_VIEW_STORE: a call finds that another store
 * decides.  nam__store_leave() in any case.
 *
 * @options	their view_store is NULL
 */
int nam__store_lead(struct nam_client_options *options, const struct nam__store_options *store,
	struct nam_diag *diag) NAM_MUST_CHECK;
void nam__store_leave(struct nam_client_options *options);

#endif /* NAM_STEWARD_STORE_H */
