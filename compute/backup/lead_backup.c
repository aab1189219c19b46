/* SPDX-License-Identifier: Apache-2.0 */
#include "backups.h"
#include "lease.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/guard.h"
#include "common/race.h"
#include "compute/client/cluster_view.h"
#include "compute/client/peers.h"
#include "compute/rpc/call.h"

#define GIVE_UP_FACTOR 4u		/* times timeout_ms, without a lead and a backup */

/* ---- being registered ------------------------------------------------------------------------ */

/* The latest epoch that an operation of this client may know, or its slot may get. */
static uint64_t
epoch_known(const struct nam_client *client)
{
	uint64_t local = atomic_load_explicit(&client->local_epoch, memory_order_relaxed);

	return client->remote_epoch_of[local % NAM__EPOCHS_NOTED];
}

NAM_FIBER_FN static int
enter(struct nam_client *client, uint32_t slot, uint64_t number, struct nam_diag *diag)
{
	struct nam_worker *worker = client->epoch_worker;
	struct nam_rpc_register_request request = {
		.pid = (uint64_t)getpid(),
		.view = number,
		.acknowledged = number,
		.client_id = client->id,
		.incarnation = client->incarnation,
		.slot = client->published_epoch,
	};
	struct {
		struct nam_rpc_register_reply is;
		uint8_t voucher[NAM_VOUCHER_BYTES];
	} reply;
	uint32_t bytes = sizeof(reply);
	int rc = worker->qps[slot] ? 0 : nam__worker_connect(worker, slot, diag);

	/* C33: slots and labels are compared with each other. */
	if (NAM_GUARD(LEAD_EPOCH))
		request.epoch = epoch_known(client);
	memcpy(request.name, client->name, sizeof(request.name));
	if (!rc)
		rc = nam_rpc_call(worker, slot, NAM_RPC_REGISTER, &request, sizeof(request),
			&reply, &bytes); /* SUSPENDS */
	if (!rc && (bytes < sizeof(reply.is) || reply.is.client_id != client->id ||
			reply.is.epoch_word != client->epoch_word.raw))
		rc = -NAM_E_FABRIC_PROTOCOL;
	worker->answering[slot].entered = !rc;
	return rc;
}

int
nam__lead_backup_enter(struct nam_client *client, uint32_t slot, uint64_t number,
	const struct nam__cluster_view *view, struct nam_diag *diag)
{
	int rc = enter(client, slot, number, diag); /* SUSPENDS */

	if (rc == -NAM_E_VIEW && view && !nam__cluster_view_copy(client->epoch_worker, slot,
			view)) /* SUSPENDS */
		rc = enter(client, slot, number, diag); /* SUSPENDS */
	if (rc && rc != -NAM_E_VIEW && !diag->text[0])
		return nam_diag_set(diag, rc, "registering with the backup of the lead at %s: %s",
			client->servers[slot].address, nam_err_text(rc));
	return rc;
}

int
nam__lead_backup_has(struct nam_client *client, const struct nam__cluster_view *view)
{
	const struct nam__server *server = &client->servers[client->catalog_slot];
	uint32_t at = nam__backup_slot(client->catalog_slot, 0);
	struct nam_worker *worker = client->epoch_worker;
	int rc;

	/* C33.  The first one is entered before anything of this view is installed. */
	if (client->lead_slot != client->catalog_slot || !server->backups[0] ||
		server->backups[0] != view->members[0].backups[0].boot || !NAM_GUARD(LEAD_VIEW))
		return 0;
	if (!worker->qps[at] || !worker->answering[at].entered)
		return -NAM_E_VIEW;
	rc = nam__cluster_view_ack(worker, at, view->head.number); /* SUSPENDS */
	/* The view's author sends it, unless that has ended.  With keys, only an admin may send. */
	if (rc == -NAM_E_VIEW && !nam__cluster_view_copy(worker, at, view)) /* SUSPENDS */
		rc = nam__cluster_view_ack(worker, at, view->head.number); /* SUSPENDS */
	/* If the backup has ended, a view without it comes soon. */
	return nam_err_is(rc, NAM_E_FABRIC_PEER_DEAD) ? -NAM_E_VIEW : rc;
}

/* ---- the lead has ended ---------------------------------------------------------------------- */

/* This client's only connection to the lead's process has ended. */
static bool
has_ended(const struct nam_client *client)
{
	const struct nam_worker *worker = client->epoch_worker;
	uint32_t slot = client->catalog_slot;

	return !worker->qps[slot] &&
		worker->answering[slot].ended_boot == client->servers[slot].boot;
}

/* Neither leads for long: what the lead had is lost for this client. */
static void
give_up(struct nam_client *client, uint64_t now)
{
	int none = 0;

	if (now - client->lead_gone_ns > GIVE_UP_FACTOR * client->options.timeout_ms * 1000000ull)
		atomic_compare_exchange_strong(&client->servers[client->catalog_slot].lost, &none,
			-NAM_E_FABRIC_PEER_DEAD);
}

/* C21: or the memory servers have fenced this client. */
NAM_FIBER_FN static int
enter_again(struct nam_client *client, uint32_t slot, uint64_t number)
{
	struct nam_diag diag = { "" };
	int none = 0, rc = nam__lead_backup_enter(client, slot, number, NULL, &diag); /* SUSPENDS */

	if (rc == -NAM_E_FENCED || rc == -NAM_E_FABRIC_FENCED) {
		atomic_store_explicit(&client->fenced, true, memory_order_relaxed);
		atomic_compare_exchange_strong(&client->servers[client->catalog_slot].lost, &none,
			-NAM_E_FABRIC_FENCED);
	}
	return rc;
}

/* The session there is as good as the one at the lead: without it the backup fences the client. */
NAM_FIBER_FN static void
session_keep(struct nam_client *client, uint32_t at, uint64_t now)
{
	const struct nam_worker *worker = client->epoch_worker;

	if ((worker->qps[at] && worker->answering[at].entered) || now < client->lead_retry_ns)
		return;
	if (enter_again(client, at, client->view_seen)) /* SUSPENDS */
		client->lead_retry_ns = nam__retry_at_ns(now);
}

uint64_t
nam__lead_look(struct nam_client *client, uint64_t number)
{
	uint32_t at = nam__backup_slot(client->catalog_slot, 0);
	uint64_t now = nam_now_ns();
	struct nam__cluster_view *view;
	int rc;

	if (!nam__is_backed(client, client->catalog_slot))
		return number;
	session_keep(client, at, now); /* SUSPENDS */
	if (client->lead_slot == client->catalog_slot && !has_ended(client)) {
		client->lead_gone_ns = 0;
		return number;
	}
	client->lead_gone_ns = client->lead_gone_ns ?: now;
	rc = client->epoch_worker->qps[at] ? nam__cluster_view_get(client->epoch_worker, at,
		&view) : -NAM_E_FABRIC_PEER_DEAD; /* SUSPENDS */
	if (rc) {
		give_up(client, nam_now_ns());
		return number;
	}
	if (view->head.lead_boot == client->servers[at].boot) {
		/* C34: now that one decides, and answers this client. */
		nam__lease_renew(client, now);
		client->lead_slot = at;
		client->lead_gone_ns = now;
		number = view->head.number;
	} else {
		give_up(client, now);
	}
	free(view);
	return number;
}

int
nam__lead_return(struct nam_client *client, const struct nam_view_member *lead, uint64_t number)
{
	int rc;

	if (client->lead_slot == client->catalog_slot || lead->state == NAM_VIEW_PROMOTING ||
		lead->boot != client->servers[client->catalog_slot].boot)
		return 0;
	/* C33: the new session is there before the earlier one ends. */
	rc = enter_again(client, client->catalog_slot, number); /* SUSPENDS */
	if (rc)
		return rc;
	nam_race_point("lead.returned");
	nam__worker_disconnect(client->epoch_worker, client->lead_slot);
	client->lead_slot = client->catalog_slot;
	client->lead_gone_ns = 0;
	nam__name_publish_again(client); /* SUSPENDS */
	return 0;
}
