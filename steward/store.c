/* SPDX-License-Identifier: Apache-2.0 */
/* store.c -- the view store by its name. */
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/view/view_store.h"
#include "etcd_internal.h"

int
nam__store_open(const struct nam__store_options *options, struct nam__view_store **ret_store,
	struct nam_diag *diag)
{
	const char *name = options->view_store ?: "embedded";
	uint32_t lease_ms = options->lease_ms ?: NAM__STORE_LEASE_MS;
	struct nam__view_store *store = NULL;
	struct nam__backend *backend = NULL;
	int rc = 0;

	if (!strncmp(name, "etcd:", 5))
		rc = nam__etcd_open(name + 5, options, &backend, diag);
	else if (strcmp(name, "embedded") != 0)
		rc = nam_diag_set(diag, -EINVAL, "view_store: '%s' should be embedded, or "
			"etcd:http://HOST:PORT/NAME", name);
	if (rc)
		return rc;
	store = backend ? nam__view_store_recorded(backend, lease_ms) :
		nam__view_store_embedded(lease_ms);
	if (!store) {
		if (backend)
			backend->ops->close(backend);
		return nam_diag_set(diag, -ENOMEM, "no memory for a view store");
	}
	*ret_store = store;
	return 0;
}

int
nam__store_lead(struct nam_client_options *options, const struct nam__store_options *store_options,
	struct nam_diag *diag)
{
	struct nam__store_options own = *store_options;
	struct nam__view_store *store = NULL;
	int rc;

	own.lease_ms = options->timeout_ms + NAM__STORE_LEASE_MS;
	rc = nam__store_open(&own, &store, diag);
	if (rc)
		return rc;
	options->view_store = store;
	diag->text[0] = '\0';
	/* Without a record, the lead takes changes of any process. */
	if (strcmp(store->name, "embedded") != 0)
		rc = store->ops->acquire(store, NULL, diag);
	return rc == -NAM_E_TERM ? 0 : rc;
}

void
nam__store_leave(struct nam_client_options *options)
{
	struct nam__view_store *store = options->view_store;

	if (!store)
		return;
	store->ops->release(store, NULL);
	store->ops->close(store);
	options->view_store = NULL;
}
