/* SPDX-License-Identifier: Apache-2.0 */
#include "backups.h"

#include <string.h>

#include "common/fabric/register.h"
#include "common/rpc/view_rpc.h"
#include "compute/client/cluster_view.h"
#include "compute/worker/notes.h"
#include "compute/worker/worker.h"

/* Workers drop their connections to it before they connect to another: nam__backup_fresh(). */
static void
forget(struct nam_client *client, uint32_t slot)
{
	atomic_store_explicit(&client->servers[slot].backup, 0, memory_order_release);
	client->backed--;
	client->servers[nam__backup_slot(slot)].boot = 0;
	/* C33: its session. */
	if (slot == client->catalog_slot)
		nam__worker_disconnect(client->epoch_worker, nam__backup_slot(slot));
	/* A turn: workers see to what is under way there. */
	if (nam__gate_is_of(client, NAM__GATES_OPEN))
		nam__gates_open(client);
}

/* Nothing of this client is at that slot, as it had no backup in this one before, or forgot it. */
static int
slot_take(struct nam_client *client, uint32_t slot, const struct nam_view_member *member,
	struct nam_diag *diag)
{
	struct nam__server *primary = &client->servers[slot];
	uint32_t at = nam__backup_slot(slot);
	struct nam__server *server = &client->servers[at];
	int rc;

	if (at < client->servers_count)
		return nam_diag_set(diag, -NAM_E_LIMIT, "no room for the backup of memory server "
			"%u: a client knows %u memory servers at the most", member->id,
			NAM_SERVERS_MAX);
	/* The slot may be connected to an earlier backup. */
	nam__worker_disconnect(client->epoch_worker, at);
	rc = nam__server_address_set(client, server, member->backup_address);
	if (rc)
		return nam_diag_set(diag, rc, "no memory for the address of a memory server");
	server->ops = primary->ops;
	server->domain = primary->domain;
	server->id = member->id;
	server->regions_count = 0;
	server->lost = 0;
	server->boot = member->backup;
	server->is_standby = true;
	return 0;
}

int
nam__backup_follow(struct nam_client *client, uint32_t slot, const struct nam_view_member *member,
	const struct nam__cluster_view *view, struct nam_diag *diag)
{
	struct nam__server *primary = &client->servers[slot];
	uint32_t at = nam__backup_slot(slot);
	int rc;

	if (primary->backup == member->backup)
		return 0;
	if (primary->backup)
		forget(client, slot);
	if (!member->backup)
		return 0;
	rc = slot_take(client, slot, member, diag);
	if (!rc)
		rc = nam__worker_connect(client->epoch_worker, at, diag);
	if (!rc)
		rc = nam__regions_learn(client, at, 1, diag); /* SUSPENDS */
	/* The copy to the backup has lock words of clients, too. */
	if (!rc)
		rc = nam__locks_leave(client, slot); /* SUSPENDS */
	/* C33 */
	if (!rc && slot == client->catalog_slot && client->id)
		rc = nam__lead_backup_enter(client, at, view->head.number, view,
			diag); /* SUSPENDS */
	/* Once it has an id, the client names its connections as it makes them (C21). */
	if (rc || slot != client->catalog_slot || !client->id)
		nam__worker_disconnect(client->epoch_worker, at);
	if (rc)
		return rc;
	/* Release: workers find its regions. */
	atomic_store_explicit(&primary->backup, member->backup, memory_order_release);
	client->backed++;
	nam__notes_follow(client->epoch_worker);
	return 0;
}
