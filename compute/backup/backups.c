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
forget(struct nam_client *client, uint32_t slot, uint32_t place)
{
	uint32_t at = nam__backup_slot(slot, place);

	atomic_store_explicit(&client->servers[slot].backups[place], 0, memory_order_release);
	client->backed--;
	client->servers[at].boot = 0;
	/* C33: its session. */
	if (slot == client->catalog_slot)
		nam__worker_disconnect(client->epoch_worker, at);
	/* A turn: workers see to what is under way there. */
	if (nam__gate_is_of(client, NAM__GATES_OPEN))
		nam__gates_open(client);
}

/* Nothing of this client is at that slot, as it had no backup in this one before, or forgot it. */
static int
slot_take(struct nam_client *client, uint32_t slot, const struct nam_view_member *member,
	uint32_t place, struct nam_diag *diag)
{
	struct nam__server *primary = &client->servers[slot];
	uint32_t at = nam__backup_slot(slot, place);
	struct nam__server *server = &client->servers[at];
	int rc;

	if (at < client->servers_count || slot * NAM_BACKUPS_MAX + place >= NAM_SERVERS_MAX)
		return nam_diag_set(diag, -NAM_E_LIMIT, "no room for the backup of memory server "
			"%u: a client knows %u memory servers at the most", member->id,
			NAM_SERVERS_MAX);
	/* The slot may be connected to an earlier backup. */
	nam__worker_disconnect(client->epoch_worker, at);
	rc = nam__server_address_set(client, server, member->backups[place].address);
	if (rc)
		return nam_diag_set(diag, rc, "no memory for the address of a memory server");
	server->ops = primary->ops;
	server->domain = primary->domain;
	server->id = member->id;
	server->regions_count = 0;
	server->lost = 0;
	server->boot = member->backups[place].boot;
	server->standby = (uint8_t)(1 + place);
	return 0;
}

NAM_FIBER_FN static int
follow(struct nam_client *client, uint32_t slot, const struct nam_view_member *member,
	uint32_t place, const struct nam__cluster_view *view, struct nam_diag *diag)
{
	struct nam__server *primary = &client->servers[slot];
	uint64_t boot = member->backups[place].boot;
	uint32_t at = nam__backup_slot(slot, place);
	int rc;

	if (primary->backups[place] == boot)
		return 0;
	if (primary->backups[place])
		forget(client, slot, place);
	if (!boot)
		return 0;
	rc = slot_take(client, slot, member, place, diag);
	if (!rc)
		rc = nam__worker_connect(client->epoch_worker, at, diag);
	if (!rc)
		rc = nam__regions_learn(client, at, 1, diag); /* SUSPENDS */
	/* The copy to the backup has lock words of clients, too. */
	if (!rc)
		rc = nam__locks_leave(client, slot, place); /* SUSPENDS */
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
	atomic_store_explicit(&primary->backups[place], boot, memory_order_release);
	client->backed++;
	nam__notes_follow(client->epoch_worker);
	return 0;
}

int
nam__backup_follow(struct nam_client *client, uint32_t slot, const struct nam_view_member *member,
	const struct nam__cluster_view *view, struct nam_diag *diag)
{
	int rc = 0;

	for (uint32_t place = 0; place < NAM_BACKUPS_MAX && !rc; place++)
		rc = follow(client, slot, member, place, view, diag); /* SUSPENDS */
	return rc;
}
