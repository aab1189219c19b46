/* SPDX-License-Identifier: Apache-2.0 */
/* changer.c -- rounds of a program that changes the view. */
#include "changer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "fence.h"
#include "lead.h"
#include "presence.h"

#define FENCE_NS 1000000000ull
#define RENEW_NS 1000000000ull		/* a lease lasts ten times as long or more */

int
nam__changer_open(struct nam__changer *changer, const struct nam_client_options *options,
	struct nam_diag *diag)
{
	*changer = (struct nam__changer){ .options = options, .store = options->view_store,
		.diag = diag };
	if (!changer->store)
		changer->store = changer->own = nam__view_store_embedded(0);
	return changer->store ? nam__cluster_read(options, &changer->seeds, diag) :
		nam_diag_set(diag, -ENOMEM, "no memory for a view store");
}

void
nam__changer_close(struct nam__changer *changer)
{
	nam__client_free(changer->lead);
	free(changer->view);
	free(changer->seeds);
	if (changer->own)
		changer->own->ops->close(changer->own);
}

int
nam__changer_query(struct nam__changer *changer)
{
	free(changer->view);
	changer->view = NULL;
	changer->diag->text[0] = '\0';
	return changer->store->ops->get(changer->store, changer->lead->epoch_worker,
		&changer->view, changer->diag); /* SUSPENDS */
}

int
nam__changer_take(struct nam__changer *changer)
{
	struct nam_client *client;
	int rc = nam__changer_query(changer); /* SUSPENDS */

	if (!rc && !changer->view->head.number) {
		rc = nam_client_connect(changer->options, &client, changer->diag); /* SUSPENDS */
		if (rc)
			return rc;
		nam_client_close(client);
		rc = nam__changer_query(changer); /* SUSPENDS */
	}
	if (rc)
		return changer->diag->text[0] ? rc : nam_diag_set(changer->diag, rc,
			"asking the memory server at %s for the view of the cluster: %s",
			changer->lead->servers[0].address, nam_err_text(rc));
	if (changer->changed)
		nam__copies_send(changer->options, changer->view); /* SUSPENDS */
	else if (changer->changed_for_lead)
		(void)!nam__lead_copy_send(changer->options, changer->view); /* SUSPENDS */
	changer->changed = changer->changed_for_lead = false;
	return 0;
}

int
nam__changer_change(struct nam__changer *changer, enum nam_rpc_view_change what,
	const struct nam_view_member *member)
{
	int rc;

	changer->diag->text[0] = '\0';
	rc = changer->store->ops->change(changer->store, changer->lead->epoch_worker,
		changer->view, what, member, changer->diag); /* SUSPENDS */
	if (rc == -NAM_E_VIEW) {
		nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
		return 0;
	}
	if (rc)
		return changer->diag->text[0] ? rc : nam_diag_set(changer->diag, rc,
			"changing the view at the memory server at %s: %s",
			changer->lead->servers[0].address, nam_err_text(rc));
	changer->changed = true;
	return 0;
}

int
nam__changer_lease_keep(struct nam__view_store *store, struct nam_diag *diag)
{
	uint64_t now_ns = nam_now_ns();
	int rc;

	if (!store || !store->term || now_ns - store->renewed_ns < RENEW_NS)
		return 0;
	rc = store->ops->renew(store, NULL, diag);
	if (rc == -NAM_E_TERM)
		return nam_diag_set(diag, rc, "the lease of this process in the view store has "
			"ended, and only a process that leads moves memory. Give the command again "
			"while no steward runs");
	store->renewed_ns = now_ns;
	return rc;
}

void
nam__changer_delay(const struct nam__changer *changer, char *text, size_t size)
{
	const struct nam__cluster_view *view = changer->view;
	struct nam_rpc_client_state_reply client = { .name = "" };
	int rc = nam__client_state_query(changer->lead->epoch_worker, view->delaying,
		view->delaying_incarnation, &client); /* SUSPENDS */

	if (rc)
		(void)snprintf(text, size, "client %u", view->delaying);
	else
		(void)snprintf(text, size, "client %u (%s, pid %llu)", view->delaying, client.name,
			(unsigned long long)client.pid);
}

void
nam__changer_ended_fence(const struct nam__changer *changer, uint64_t deadline_ns)
{
	struct nam_worker *lead = changer->lead->epoch_worker;
	struct nam_rpc_fence_reply next;
	struct nam_diag diag;
	uint32_t state;

	while (!nam__fence_next(lead, 0, &next) && next.client_id && /* SUSPENDS */
		nam_now_ns() < deadline_ns)
		if (nam__client_fence(lead, changer->view, next.client_id, next.incarnation, 0,
				FENCE_NS, &state, &diag)) /* SUSPENDS */
			break;
}
