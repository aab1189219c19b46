/* SPDX-License-Identifier: Apache-2.0 */
/* store.c -- the view store by its name. */
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/view/lead.h"
#include "compute/view/server_add.h"
#include "etcd.h"

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

/* If no steward leads, this process installs its own changes, as long as it may wait. */
int
nam__store_server_add(const struct nam_client_options *options,
	const struct nam__store_options *store_options, const char *address, nam_server_add_fn fn,
	void *arg, struct nam_server_added *ret_added, struct nam_diag *diag)
{
	struct nam__store_options own = *store_options;
	struct nam__view_store *store = NULL;
	bool recorded = own.store && strcmp(own.store, "embedded") != 0;
	int rc;

	own.lease_ms = options->timeout_ms + NAM__STORE_LEASE_MS;
	rc = nam__store_open(&own, &store, diag);
	if (rc)
		return rc;
	diag->text[0] = '\0';
	if (recorded)
		rc = store->ops->acquire(store, NULL, diag);
	if (!rc || rc == -NAM_E_TERM)
		rc = nam__server_add(options, store, address, fn, arg, ret_added,
			diag); /* SUSPENDS */
	if (recorded)
		store->ops->release(store, NULL);
	store->ops->close(store);
	return rc;
}
