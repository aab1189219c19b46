/* SPDX-License-Identifier: Apache-2.0 */
/* embedded.c -- the view store that needs no other service: the lead itself. */
#include <stdlib.h>

#include "common/guard.h"
#include "compute/worker/worker.h"
#include "view_store.h"

/* The other store's address is not known here. */
static int
explain(int rc, struct nam_diag *diag)
{
	if (rc != -NAM_E_VIEW_STORE)
		return rc;
	return nam_diag_set(diag, rc, "another store than the embedded one decides the view of "
		"this cluster; name it with --view-store of namctl or nam-steward");
}

static uint64_t
boot_of(const struct nam_worker *lead)
{
	return lead->client->servers[0].boot;
}

/* C29: the terms of each life of the lead begin anew. */
static bool
is_of_another_life(const struct nam__view_store *store, const struct nam_worker *lead)
{
	return NAM_GUARD(TERM_LIFE) && store->term && store->lead_boot != boot_of(lead);
}

NAM_FIBER_FN static int
get(struct nam__view_store *store, struct nam_worker *lead, struct nam__cluster_view **ret_view,
	struct nam_diag *diag)
{
	(void)store;
	(void)diag;
	return nam__cluster_view_get(lead, 0, ret_view); /* SUSPENDS */
}

NAM_FIBER_FN static int
change(struct nam__view_store *store, struct nam_worker *lead, const struct nam__cluster_view *view,
	enum nam_rpc_view_change what, const struct nam_view_member *member, struct nam_diag *diag)
{
	struct nam_view_head head;

	if (is_of_another_life(store, lead))
		return -NAM_E_TERM;
	return explain(nam__cluster_view_change(lead, 0, view->head.number, store->term, what,
		member,
		&head), diag); /* SUSPENDS */
}

/* The backup decides: it takes one view only that is next to its own. */
static int
succeed(struct nam__view_store *store, struct nam__cluster_view *view, struct nam_diag *diag)
{
	const struct nam_view_member lead = view->members[0];

	(void)store;
	(void)diag;
	return nam_view_change(&view->head, view->members, NAM_RPC_VIEW_PROMOTE, &lead);
}

NAM_FIBER_FN static int
acquire(struct nam__view_store *store, struct nam_worker *lead, struct nam_diag *diag)
{
	store->lead_boot = boot_of(lead);
	return explain(nam__cluster_view_steward(lead, 0, NAM_RPC_STEWARD_ACQUIRE, 0,
		store->lease_ms,
		&store->term), diag); /* SUSPENDS */
}

NAM_FIBER_FN static int
renew(struct nam__view_store *store, struct nam_worker *lead, struct nam_diag *diag)
{
	/* A steward that leads asks by itself, with the lead. */
	int rc = !lead ? 0 : is_of_another_life(store, lead) ? -NAM_E_TERM :
		nam__cluster_view_steward(lead, 0, NAM_RPC_STEWARD_RENEW, store->term,
			store->lease_ms, &store->term); /* SUSPENDS */

	(void)diag;
	if (rc == -NAM_E_TERM)
		store->term = 0;
	return rc;
}

NAM_FIBER_FN static void
release(struct nam__view_store *store, struct nam_worker *lead)
{
	uint64_t term;

	if (store->term && !is_of_another_life(store, lead))
		(void)!nam__cluster_view_steward(lead, 0, NAM_RPC_STEWARD_RELEASE, store->term, 0,
			&term); /* SUSPENDS */
	store->term = 0;
}

static void
close(struct nam__view_store *store)
{
	free(store);
}

static const struct nam__view_store_ops ops = {
	.get = get,
	.change = change,
	.succeed = succeed,
	.acquire = acquire,
	.renew = renew,
	.release = release,
	.close = close,
};

struct nam__view_store *
nam__view_store_embedded(uint32_t lease_ms)
{
	struct nam__view_store *store = calloc(1, sizeof(*store));

	if (store)
		*store = (struct nam__view_store){ .ops = &ops, .name = "embedded",
			.lease_ms = lease_ms };
	return store;
}
