/* SPDX-License-Identifier: Apache-2.0 */
/* store.c -- the view store by its name. */
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/view/lead.h"
#include "compute/view/server_add.h"
#include "compute/view/move/promote.h"
#include "compute/view/move/replicas.h"
#include "compute/view/move/server_drain.h"
#include "compute/view/move/server_move.h"
#include "etcd_internal.h"

static bool
is_recorded(const struct nam__store_options *options)
{
	return options->store && strcmp(options->store, "embedded") != 0;
}

int
nam__store_open(const struct nam__store_options *options, struct nam__view_store **ret_store,
	struct nam_diag *diag)
{
	const char *name = options->store ?: "embedded";
	uint32_t lease_ms = options->lease_ms ?: NAM__STORE_LEASE_MS;
	struct nam__view_store *store = NULL;
	struct nam__keeper *keeper = NULL;
	int rc = 0;

	if (!strncmp(name, "etcd:", 5))
		rc = nam__etcd_open(name + 5, options, &keeper, diag);
	else if (strcmp(name, "embedded") != 0)
		rc = nam_diag_set(diag, -EINVAL, "--view-store: '%s' should be embedded, or "
			"etcd:http://HOST:PORT/NAME", name);
	if (rc)
		return rc;
	store = keeper ? nam__view_store_recorded(keeper, lease_ms) :
		nam__view_store_embedded(lease_ms);
	if (!store) {
		if (keeper)
			keeper->ops->close(keeper);
		return nam_diag_set(diag, -ENOMEM, "no memory for a view store");
	}
	*ret_store = store;
	return 0;
}

/*
 * If no steward leads, this process installs its own changes, as long as it may wait.  0, or
 * -NAM_E_TERM: a steward leads.
 */
static int
store_lead(const struct nam_client_options *options, const struct nam__store_options *store_options,
	struct nam__view_store **ret_store, struct nam_diag *diag)
{
	struct nam__store_options own = *store_options;
	int rc;

	own.lease_ms = options->timeout_ms + NAM__STORE_LEASE_MS;
	rc = nam__store_open(&own, ret_store, diag);
	if (rc)
		return rc;
	diag->text[0] = '\0';
	return is_recorded(store_options) ? (*ret_store)->ops->acquire(*ret_store, NULL, diag) : 0;
}

static void
store_leave(const struct nam__store_options *store_options, struct nam__view_store *store)
{
	if (store && is_recorded(store_options))
		store->ops->release(store, NULL);
	if (store)
		store->ops->close(store);
}

int
nam__store_server_add(const struct nam_client_options *options,
	const struct nam__store_options *store_options, const char *address, nam_server_add_fn fn,
	void *arg, struct nam_server_added *ret_added, struct nam_diag *diag)
{
	struct nam__view_store *store = NULL;
	int rc = store_lead(options, store_options, &store, diag);

	if (!rc || rc == -NAM_E_TERM)
		rc = nam__server_add(options, store, address, fn, arg, ret_added,
			diag); /* SUSPENDS */
	store_leave(store_options, store);
	return rc;
}

static int
fill_successor(const struct nam_client_options *options,
	const struct nam__store_options *store_options, enum nam__successor what,
	const char *address, nam_server_move_fn fn, void *arg, struct nam_server_moved *ret_moved,
	struct nam_diag *diag)
{
	struct nam__move_teller teller = { fn, arg };
	struct nam__view_store *store = NULL;
	int rc = store_lead(options, store_options, &store, diag);

	if (!rc || rc == -NAM_E_TERM)
		rc = nam__server_move(options, store, what, address, nam__move_tell, &teller,
			ret_moved, diag); /* SUSPENDS */
	store_leave(store_options, store);
	return rc;
}

int
nam__store_server_move(const struct nam_client_options *options,
	const struct nam__store_options *store_options, const char *address, nam_server_move_fn fn,
	void *arg, struct nam_server_moved *ret_moved, struct nam_diag *diag)
{
	return fill_successor(options, store_options, NAM__SUCCESSOR_MOVES, address, fn, arg,
		ret_moved, diag); /* SUSPENDS */
}

int
nam__store_server_back(const struct nam_client_options *options,
	const struct nam__store_options *store_options, const char *address, nam_server_move_fn fn,
	void *arg, struct nam_server_moved *ret_moved, struct nam_diag *diag)
{
	return fill_successor(options, store_options, NAM__SUCCESSOR_BACKS, address, fn, arg,
		ret_moved, diag); /* SUSPENDS */
}

int
nam__store_server_promote(const struct nam_client_options *options,
	const struct nam__store_options *store_options, uint32_t id, struct nam_diag *diag)
{
	struct nam__view_store *store = NULL;
	int rc = store_lead(options, store_options, &store, diag);

	if (!rc || rc == -NAM_E_TERM)
		rc = nam__server_promote(options, store, id, diag); /* SUSPENDS */
	store_leave(store_options, store);
	return rc;
}

int
nam__store_server_unback(const struct nam_client_options *options,
	const struct nam__store_options *store_options, uint32_t id, struct nam_diag *diag)
{
	struct nam__view_store *store = NULL;
	int rc = store_lead(options, store_options, &store, diag);

	if (!rc || rc == -NAM_E_TERM)
		rc = nam__server_unback(options, store, id, diag); /* SUSPENDS */
	store_leave(store_options, store);
	return rc;
}

int
nam__store_cluster_replicas(const struct nam_client_options *options,
	const struct nam__store_options *store_options, uint32_t replicas, struct nam_diag *diag)
{
	struct nam__view_store *store = NULL;
	int rc = store_lead(options, store_options, &store, diag);

	if (!rc || rc == -NAM_E_TERM)
		rc = nam__cluster_replicas(options, store, replicas, diag); /* SUSPENDS */
	store_leave(store_options, store);
	return rc;
}

int
nam__store_server_drain(const struct nam_client_options *options,
	const struct nam__store_options *store_options, const char *server, nam_server_drain_fn fn,
	void *arg, uint32_t *ret_moved, struct nam_diag *diag)
{
	struct nam__view_store *store = NULL;
	int rc = store_lead(options, store_options, &store, diag);

	if (!rc || rc == -NAM_E_TERM)
		rc = nam__server_drain(options, store, server, fn, arg, ret_moved,
			diag); /* SUSPENDS */
	store_leave(store_options, store);
	return rc;
}

int
nam__store_rebalance(const struct nam_client_options *options,
	const struct nam__store_options *store_options, bool dry, nam_server_drain_fn fn, void *arg,
	uint32_t *ret_moved, struct nam_diag *diag)
{
	struct nam__view_store *store = NULL;
	int rc = store_lead(options, store_options, &store, diag);

	if (!rc || rc == -NAM_E_TERM)
		rc = nam__rebalance(options, store, dry, fn, arg, ret_moved, diag); /* SUSPENDS */
	store_leave(store_options, store);
	return rc;
}
