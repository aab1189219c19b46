/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h -- the view store that --view-store names, for programs.
 */
#ifndef NAM_STEWARD_STORE_H
#define NAM_STEWARD_STORE_H

#include <stdatomic.h>

#include "compute/admin.h"

struct nam__view_store;

struct nam__store_options {
	const char *store;		/* NULL or "embedded"; "etcd:http://HOST:PORT,.../NAME" */
	const char *cacert, *cert, *key;	/* files, for https; NULL: the system's, none */
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

/* nam_server_add() with that store.  It leads meanwhile, unless a steward does. */
int nam__store_server_add(const struct nam_client_options *options,
	const struct nam__store_options *store, const char *address, nam_server_add_fn fn,
	void *arg, struct nam_server_added *ret_added, struct nam_diag *diag) NAM_MUST_CHECK;

/* nam_server_move() with that store.  -NAM_E_TERM: a steward leads. */
int nam__store_server_move(const struct nam_client_options *options,
	const struct nam__store_options *store, const char *address, nam_server_move_fn fn,
	void *arg, struct nam_server_moved *ret_moved, struct nam_diag *diag) NAM_MUST_CHECK;

/* nam_server_back(), nam_server_promote() and nam_server_unback() with that store, likewise. */
int nam__store_server_back(const struct nam_client_options *options,
	const struct nam__store_options *store, const char *address, nam_server_move_fn fn,
	void *arg, struct nam_server_moved *ret_moved, struct nam_diag *diag) NAM_MUST_CHECK;

int nam__store_server_promote(const struct nam_client_options *options,
	const struct nam__store_options *store, uint32_t id,
	struct nam_diag *diag) NAM_MUST_CHECK;

int nam__store_server_unback(const struct nam_client_options *options,
	const struct nam__store_options *store, uint32_t id,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* nam_cluster_replicas() with that store. */
int nam__store_cluster_replicas(const struct nam_client_options *options,
	const struct nam__store_options *store, uint32_t replicas,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* nam_server_drain() and nam_rebalance() with that store, likewise. */
int nam__store_server_drain(const struct nam_client_options *options,
	const struct nam__store_options *store, const char *server, nam_server_drain_fn fn,
	void *arg, uint32_t *ret_moved, struct nam_diag *diag) NAM_MUST_CHECK;

int nam__store_rebalance(const struct nam_client_options *options,
	const struct nam__store_options *store, bool dry, nam_server_drain_fn fn, void *arg,
	uint32_t *ret_moved, struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_STEWARD_STORE_H */
