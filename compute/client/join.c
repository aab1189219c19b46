/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.c -- from seeds to the members of the view.
 *
 * The list names seeds, and one is enough: the lead, memory server 0, has the view.  Without one,
 * the first client forms it of its list, and of members' copies if the lead was restarted.  All
 * clients use that view, whatever they list, so all use the same memory servers (C20).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compute/backup/backups.h"
#include "cluster_view.h"
#include "compute/auth/credentials.h"
#include "compute/view/lead.h"
#include "compute/worker/worker.h"

#define TRIES_MAX 16u		/* views that change while the client joins */
#define PAUSE_NS 5000000u	/* between two looks at a member that moves */

/* ---- seeds --------------------------------------------------------------------------------- */

/* Whether it is the address of a member, or of a member's backup. */
static bool
has_address(const struct nam__cluster_view *view, const char *address, bool of_backup)
{
	for (uint32_t i = 0; i < view->head.count; i++)
		for (uint32_t place = 0; place < (of_backup ? NAM_BACKUPS_MAX : 1); place++)
			if (!strcmp(of_backup ? view->members[i].backups[place].address :
					view->members[i].address, address))
				return true;
	return false;
}

/*
 * A seed has ended, or has passed its memory on.  Or it was started anew: it leads by its id alone,
 * and the backup leads (C33).
 */
static bool
seed_ended(const struct nam_client_options *options, const char *address, bool succeeded)
{
	struct nam__cluster_view *view = NULL;
	struct nam_client *prober = NULL;
	struct nam_diag diag;
	int rc = nam__prober_connect(options, address, 0, false, &prober, &diag);
	bool ended = rc && (nam__probed_ended(prober, rc) || nam_err_is(rc, NAM_E_FABRIC_MOVED));

	if (!rc && succeeded && !prober->servers[0].id &&
		!nam__cluster_view_get(prober->epoch_worker, 0, &view)) /* SUSPENDS */
		ended = !view->head.number;
	free(view);
	nam__client_free(prober);
	return ended;
}

bool
nam__seeds_leave_out(const struct nam_client_options *options, struct nam_cluster *cluster)
{
	uint32_t count = cluster->count, kept = 0;
	struct nam__cluster_view *view = NULL;
	struct nam_client *lead = NULL;
	struct nam_diag diag;
	int rc = nam__lead_find(options, cluster, NULL, &lead, &diag); /* SUSPENDS */

	if (!rc)
		rc = nam__cluster_view_get(lead->epoch_worker, 0, &view); /* SUSPENDS */
	for (uint32_t i = 0; !rc && view->head.number && i < count; i++) {
		const char *address = cluster->servers[i].listen;

		if (has_address(view, address, false) || (!has_address(view, address, true) &&
				!seed_ended(options, address, view->members[0].memory !=
					view->members[0].boot)))
			cluster->servers[kept++] = cluster->servers[i];
	}
	if (kept)
		cluster->count = kept;
	nam__client_free(lead);
	free(view);
	return kept && kept < count;
}

/* ---- slots --------------------------------------------------------------------------------- */

/* A connected memory server takes the slot of its id, unless another one has it. */
static int
id_take(struct nam_client *client, uint32_t slot, struct nam_diag *diag)
{
	struct nam__server *server = &client->servers[slot], *other;

	if (client->slot_of_id[server->id] == NAM__NO_SLOT) {
		client->slot_of_id[server->id] = (uint16_t)slot;
		return 0;
	}
	other = &client->servers[client->slot_of_id[server->id]];
	if (other->boot == server->boot)
		return nam_diag_set(diag, -NAM_E_CLUSTER,
			"%s and %s are one memory server (id %u); name it once",
			other->address, server->address, server->id);
	return nam_diag_set(diag, -NAM_E_CLUSTER,
		"the memory servers at %s and %s both have the id %u; start one nam-memserver "
		"with another --id",
		other->address, server->address, server->id);
}

/* The ids and regions of the list's memory servers.  @text "@FILE" where the cluster says ids */
NAM_FIBER_FN static int
seeds_learn(struct nam_client *client, const struct nam_cluster *cluster, const char *text,
	struct nam_diag *diag)
{
	int rc = 0;

	for (uint32_t i = 0; i < NAM_SERVERS_MAX; i++)
		client->slot_of_id[i] = NAM__NO_SLOT;
	for (uint32_t i = 0; i < cluster->count && !rc; i++) {
		const struct nam__server *server = &client->servers[i];

		if (cluster->servers[i].id >= 0 && (uint32_t)cluster->servers[i].id != server->id)
			return nam_diag_set(diag, -NAM_E_CLUSTER,
				"the memory server at %s says that its id is %u, cluster file '%s' "
				"(line %d) says %d. Start nam-memserver with --id %d, or correct "
				"the file",
				server->address, server->id, text + 1, cluster->servers[i].line,
				cluster->servers[i].id, cluster->servers[i].id);
		rc = id_take(client, i, diag);
	}
	return rc ?: nam__regions_learn(client, 0, cluster->count, diag); /* SUSPENDS */
}

int
nam__member_install(struct nam_client *client, const struct nam_view_member *member,
	struct nam_diag *diag)
{
	struct nam__server *server;
	uint32_t slot;
	int rc = nam__server_append(client, member->address, &slot, diag);

	if (!rc)
		rc = nam__worker_connect(client->epoch_worker, slot, diag);
	if (rc)
		return rc;
	server = &client->servers[slot];
	if (server->id != member->id)
		return nam_diag_set(diag, -NAM_E_CLUSTER,
			"the view of this cluster has memory server %u at %s, and the one there "
			"has the id %u; start nam-memserver with --id %u",
			member->id, member->address, server->id, member->id);
	/* The member's life is over; one that is UP is renewed, by a client that joins. */
	if (server->boot != member->boot && member->state == NAM_VIEW_JOINING)
		return nam_diag_set(diag, -NAM_E_FABRIC_CONNECT, "the memory server at %s was "
			"restarted while it joined", member->address);
	rc = nam__regions_learn(client, slot, 1, diag); /* SUSPENDS */
	if (rc)
		return rc;
	server->memory = member->memory;
	nam__server_publish(client, slot);
	return 0;
}

/* ---- the lead ------------------------------------------------------------------------------ */

/* The lead of a copy, which may be old: one that has ended waits while other seeds are left. */
NAM_FIBER_FN static int
copy_lead_install(struct nam_client *client, const struct nam__cluster_view *copy, bool is_last,
	struct nam_view_member *ret_left, struct nam_diag *diag)
{
	struct nam_view_member lead = copy->members[0];
	struct nam_diag ended;
	int rc = 0;

	if (!copy->head.number)
		return 0;
	nam__member_to_query(&lead);
	if (is_last || nam__member_look(&client->options, lead.address, 0, copy->head.lead_boot,
			&ended) != -ENOENT)
		rc = nam__member_install(client, &lead, diag); /* SUSPENDS */
	if (nam_err_is(rc, NAM_E_FABRIC) && !is_last)
		rc = 0;
	*ret_left = lead;
	return rc;
}

/* The seeds and the lead.  If the list lacks the lead, the seeds' copies of the view name it. */
NAM_FIBER_FN static int
lead_find(struct nam_client *client, const struct nam_cluster *cluster, const char *text,
	struct nam_diag *diag)
{
	uint32_t seeds = cluster->count;
	struct nam_view_member left = { .address = "" };
	int rc = seeds_learn(client, cluster, text, diag); /* SUSPENDS */

	for (uint32_t slot = 0; slot < seeds && client->slot_of_id[0] == NAM__NO_SLOT && !rc;
		slot++) {
		struct nam__cluster_view *copy = NULL;

		rc = nam__cluster_view_get(client->epoch_worker, slot, &copy); /* SUSPENDS */
		if (rc)
			return nam_diag_set(diag, rc, "asking the memory server at %s for its "
				"copy of the view: %s", client->servers[slot].address,
				nam_err_text(rc));
		rc = copy_lead_install(client, copy, slot + 1 == seeds, &left,
			diag); /* SUSPENDS */
		free(copy);
	}
	if (!rc && client->slot_of_id[0] == NAM__NO_SLOT && left.address[0])
		rc = nam__member_install(client, &left, diag); /* SUSPENDS */
	if (!rc && client->slot_of_id[0] == NAM__NO_SLOT)
		return nam_diag_set(diag, -NAM_E_CLUSTER,
			"none of the %u memory servers has the id 0, or knows where that one is. "
			"The catalog lives on the server with id 0. Add it to the cluster", seeds);
	client->catalog_slot = client->lead_slot = client->slot_of_id[0];
	return rc;
}

/* The view that the list describes. */
static struct nam__cluster_view *
view_of_list(const struct nam_client *client)
{
	struct nam__cluster_view *view = nam__cluster_view_new();

	if (!view)
		return NULL;
	for (uint32_t id = 0; id < NAM_SERVERS_MAX; id++) {
		const struct nam__server *server;
		struct nam_view_member *member = &view->members[view->head.count];

		if (client->slot_of_id[id] == NAM__NO_SLOT)
			continue;
		server = &client->servers[client->slot_of_id[id]];
		*member = (struct nam_view_member){
			.id = (uint16_t)id,
			.state = NAM_VIEW_UP,
			.boot = server->boot,
			.memory = server->boot,
		};
		(void)snprintf(member->address, sizeof(member->address), "%s", server->address);
		view->head.count++;
	}
	return view;
}

NAM_FIBER_FN static void
others_take(struct nam_client *client, const struct nam__cluster_view *copy)
{
	for (uint32_t i = 1; i < copy->head.count; i++) {
		const struct nam_view_member *member = &copy->members[i];
		struct nam_diag ended;

		if (member->state == NAM_VIEW_UP &&
			client->slot_of_id[member->id] == NAM__NO_SLOT &&
			!nam__member_look(&client->options, member->address, member->id,
				member->boot, &ended))
			(void)!nam__member_install(client, member, &ended); /* SUSPENDS */
	}
}

/*
 * None of the list is a member of another cluster, which has had clients.  C20: if the lead was
 * restarted, the list may name some members of the view before only; their copies have the others.
 */
NAM_FIBER_FN static int
members_gather(struct nam_client *client, struct nam_diag *diag)
{
	const struct nam__server *lead = &client->servers[client->catalog_slot];
	struct nam__cluster_view *copy;
	int rc;

	/* Servers that this client has taken into its slots have copies of the view, too. */
	for (uint32_t slot = 0; client->newest_seen && slot < client->servers_count; slot++) {
		if (slot == client->catalog_slot)
			continue;
		rc = nam__member_ours(client, slot, lead->address, lead->boot, &copy,
			diag); /* SUSPENDS */
		if (rc)
			return rc;
		if (NAM_GUARD(VIEW_BEFORE))
			others_take(client, copy); /* SUSPENDS */
		free(copy);
	}
	return 0;
}

/* The view in force, or the first one.  -NAM_E_VIEW: another client has formed one: ask again. */
NAM_FIBER_FN static int
view_get(struct nam_client *client, struct nam__cluster_view **ret_view, struct nam_diag *diag)
{
	struct nam__cluster_view *view = NULL;
	int rc = nam__cluster_view_get(client->epoch_worker, client->catalog_slot,
		&view); /* SUSPENDS */

	if (!rc && !view->head.number && client->reads_only) {
		free(view);
		return nam_diag_set(diag, -NAM_E_FABRIC_DENIED, "this client's key is for reading, "
			"and the cluster has no view yet; let a client with a key of the role "
			"write connect first");
	}
	if (!rc && !view->head.number) {
		free(view);
		rc = members_gather(client, diag); /* SUSPENDS */
		if (rc)
			return rc;
		view = view_of_list(client);
		rc = view ? nam__cluster_view_form(client->epoch_worker, client->catalog_slot,
			client->newest_seen, view) : -ENOMEM; /* SUSPENDS */
		/* A lost copy is found out about when it is needed. */
		for (uint32_t i = 1; !rc && i < view->head.count; i++)
			(void)!nam__cluster_view_copy(client->epoch_worker,
				client->slot_of_id[view->members[i].id], view); /* SUSPENDS */
	}
	if (!rc)
		*ret_view = view;
	else
		free(view);
	return !rc || rc == -NAM_E_VIEW ? rc : nam_diag_set(diag, rc, "asking the memory server at "
		"%s for the view of the cluster: %s",
		client->servers[client->catalog_slot].address, nam_err_text(rc));
}

/* The view once no member moves: a new client would have requests under way there (C20). */
NAM_FIBER_FN static int
view_stable_get(struct nam_client *client, uint64_t deadline_ns,
	struct nam__cluster_view **ret_view, struct nam_diag *diag)
{
	const struct nam_view_member *moving;
	struct nam__cluster_view *view = NULL;

	for (;;) {
		int rc = view_get(client, &view, diag); /* SUSPENDS */

		if (rc)
			return rc;
		moving = nam_view_in_state(&view->head, view->members, NAM_VIEW_MOVING) ?:
			nam_view_in_state(&view->head, view->members, NAM_VIEW_PROMOTING);
		if (!moving)
			break;
		if (nam_now_ns() >= deadline_ns) {
			rc = nam_diag_set(diag, -NAM_E_FABRIC_TIMEOUT, "the memory of memory "
				"server %u at %s is moving to another one, and clients can join "
				"when it has arrived; try again", moving->id, moving->address);
			free(view);
			return rc;
		}
		free(view);
		nam_sleep_ns(PAUSE_NS);
	}
	*ret_view = view;
	return 0;
}

/* ---- members ------------------------------------------------------------------------------- */

/* A memory server of the list has a member's id, and is not at its address. */
static int
seed_elsewhere(const struct nam__server *seed, const struct nam_view_member *member,
	const struct nam_client_options *options, struct nam_diag *diag)
{
	struct nam_diag ended;

	if (seed->boot == member->memory)
		return nam_diag_set(diag, -NAM_E_CLUSTER,
			"the memory of the memory server at %s (id %u) has moved to the one at %s; "
			"name that one instead", seed->address, member->id, member->address);
	if (!nam__member_look(options, member->address, member->id, member->boot, &ended))
		return nam_diag_set(diag, -NAM_E_CLUSTER,
			"the memory server at %s has the id %u, and that of this cluster answers "
			"at %s. Name this address instead, or start nam-memserver at %s with "
			"another --id", seed->address, member->id, member->address, seed->address);
	return nam_diag_set(diag, -NAM_E_CLUSTER,
		"the memory server at %s has the id %u, which the view of this cluster has at %s. "
		"If that one was restarted, name it by this address, else start nam-memserver at "
		"%s with another --id", seed->address, member->id, member->address, seed->address);
}

/* The memory server at a member's address has been restarted: its new life becomes the member's. */
NAM_FIBER_FN static int
member_renew(struct nam_client *client, struct nam__cluster_view *view,
	struct nam_view_member *member, struct nam_diag *diag)
{
	uint16_t slot = client->slot_of_id[member->id];
	const struct nam__server *server = &client->servers[slot];
	int rc;

	if (strcmp(server->address, member->address) != 0)
		return seed_elsewhere(server, member, &client->options, diag);
	if (client->reads_only)
		return nam_diag_set(diag, -NAM_E_FABRIC_DENIED, "the memory server at %s was "
			"restarted, which the view does not say yet, and this client's key is for "
			"reading. Let a client with a key of the role write connect first",
			server->address);
	rc = nam__member_ours(client, slot, view->members[0].address, view->head.lead_boot, NULL,
		diag); /* SUSPENDS */
	if (nam_err_is(rc, NAM_E_CLUSTER))
		return rc;
	if (!rc)
		rc = nam__cluster_view_renew(client->epoch_worker, client->catalog_slot, view,
			member, server->boot); /* SUSPENDS */
	/* The copy went with the seed's memory: now it is a seed again. */
	if (!rc) {
		(void)!nam__cluster_view_copy(client->epoch_worker, slot, view); /* SUSPENDS */
		(void)!nam__lead_copy_send(&client->options, view); /* SUSPENDS */
	}
	return !rc || rc == -NAM_E_VIEW ? -NAM_E_VIEW : nam_diag_set(diag, rc,
		"renewing memory server %u in the view: %s", member->id, nam_err_text(rc));
}

/* A member's memory has moved since an earlier view; this client has used none of it yet. */
NAM_FIBER_FN static int
member_moved(struct nam_client *client, uint16_t slot, const struct nam_view_member *member,
	struct nam_diag *diag)
{
	struct nam__server *server = &client->servers[slot];
	int rc = nam__server_address_set(client, server, member->address);

	if (rc)
		return nam_diag_set(diag, rc, "no memory for the address of a memory server");
	nam__worker_disconnect(client->epoch_worker, slot);
	nam__colocated_leave(server);
	server->boot = member->boot;
	atomic_store_explicit(&server->lost, 0, memory_order_relaxed);
	rc = nam__worker_connect(client->epoch_worker, slot, diag);
	return rc ?: nam__regions_learn(client, slot, 1, diag); /* SUSPENDS */
}

/*
 * Connect to it, unless the list has.  -NAM_E_VIEW: the view has to be asked for again.  A member
 * that joins and does not answer is left out: the client acknowledges that view later.
 */
NAM_FIBER_FN static int
member_take(struct nam_client *client, uint32_t seeds, struct nam__cluster_view *view,
	struct nam_view_member *member, struct nam_diag *diag)
{
	uint16_t slot = client->slot_of_id[member->id];
	struct nam__server *server;
	int rc = 0;

	if (slot == NAM__NO_SLOT)
		rc = nam__member_install(client, member, diag); /* SUSPENDS */
	if (rc)
		return rc;
	slot = client->slot_of_id[member->id];
	server = &client->servers[slot];
	if (slot >= seeds && strcmp(server->address, member->address) != 0)
		rc = member_moved(client, slot, member, diag); /* SUSPENDS */
	if (rc)
		return rc;
	if (server->boot != member->boot && member->state == NAM_VIEW_UP)
		return member_renew(client, view, member, diag); /* SUSPENDS */
	if (server->boot != member->boot)
		return -NAM_E_FABRIC_CONNECT;
	rc = nam__backup_follow(client, slot, member, view, diag); /* SUSPENDS */
	return rc ?: nam__member_note(client, member);
}

/* Each memory server of the list is a member: others do not know its regions (C20). */
static int
seeds_are_members(const struct nam_client *client, uint32_t seeds,
	const struct nam__cluster_view *view, struct nam_diag *diag)
{
	for (uint32_t slot = 0; slot < seeds && view->head.number && NAM_GUARD(VIEW_OUTSIDE);
		slot++) {
		const struct nam__server *server = &client->servers[slot];

		if (!nam__cluster_view_find(view, server->id))
			return nam_diag_set(diag, -NAM_E_CLUSTER,
				"the memory server at %s (id %u) is not in the view of this "
				"cluster. Add it (if it was in one before server 0 was restarted, "
				"restart it first): namctl server add %s",
				server->address, server->id, server->address);
	}
	return 0;
}

/* ---- becoming a client --------------------------------------------------------------------- */

/* Become a client.  The lead's regions are known already. */
NAM_FIBER_FN static int
register_client(struct nam_client *client, uint64_t view, uint64_t acknowledged,
	struct nam_diag *diag)
{
	const char *address = client->servers[client->catalog_slot].address;
	struct nam_rpc_register_request request = {
		.pid = (uint64_t)getpid(),
		.view = view,
		.acknowledged = acknowledged,
	};
	struct {
		struct nam_rpc_register_reply is;
		uint8_t voucher[NAM_VOUCHER_BYTES];
	} reply;
	uint32_t bytes = sizeof(reply);
	int rc;

	memcpy(request.name, client->name, sizeof(request.name));
	rc = nam_rpc_call(client->epoch_worker, client->catalog_slot, NAM_RPC_REGISTER, &request,
		sizeof(request), &reply, &bytes); /* SUSPENDS */
	if (nam_err_is(rc, NAM_E_LIMIT))
		return nam_diag_set(diag, rc,
			"the memory server at %s has no client id left: %u clients are the most; "
			"close some",
			address, NAM_CLIENTS_MAX - 1);
	if (rc == -NAM_E_VIEW)
		return rc;
	if (rc)
		return nam_diag_set(diag, rc, "registering with the memory server at %s: %s",
			address, nam_err_text(rc));
	if (bytes < sizeof(reply.is) || !reply.is.client_id ||
		reply.is.client_id >= NAM_CLIENTS_MAX ||
		!nam__server_has(client, client->catalog_slot, reply.is.epoch_word, 8) ||
		!nam__server_has(client, client->catalog_slot, reply.is.epoch_slots,
			NAM_META_BYTES - NAM_META_SLOTS_OFFSET) ||
		nam__voucher_take(client, reply.voucher, bytes - (uint32_t)sizeof(reply.is)))
		return nam_diag_set(diag, -NAM_E_FABRIC_PROTOCOL,
			"the memory server at %s sent a malformed REGISTER reply", address);
	client->id = reply.is.client_id;
	client->incarnation = reply.is.incarnation;
	client->is_over = nam__client_is_over;
	client->voucher_renew = nam__voucher_renew;
	client->epoch_word.raw = reply.is.epoch_word;
	client->epoch_slots.raw = reply.is.epoch_slots;
	return 0;
}

/* C33: a client registers at the lead's backup, too, which may lack the view, or be none now. */
NAM_FIBER_FN static int
backup_enter(struct nam_client *client, uint64_t number, uint64_t deadline_ns,
	struct nam_diag *diag)
{
	uint32_t slot = client->catalog_slot, at = nam__backup_slot(slot, 0);
	struct nam__cluster_view *view = NULL;
	int rc = 0;

	while (nam__is_backed(client, slot)) {
		diag->text[0] = '\0';
		rc = nam__lead_backup_enter(client, at, number, view, diag); /* SUSPENDS */
		free(view);
		view = NULL;
		if (!rc || (rc != -NAM_E_VIEW && !nam_err_is(rc, NAM_E_FABRIC)))
			break;
		if (nam_now_ns() >= deadline_ns)
			return nam_diag_set(diag, -NAM_E_FABRIC_TIMEOUT, "the backup of the lead, "
				"at %s, does not take this client: %s", client->servers[at].address,
				rc == -NAM_E_VIEW ? "it has an older view; a steward sends it" :
				nam_err_text(rc));
		nam_sleep_ns(PAUSE_NS);
		rc = nam__cluster_view_get(client->epoch_worker, slot, &view); /* SUSPENDS */
		if (rc)
			return rc;
		(void)!nam__backup_follow(client, slot, &view->members[0], view,
			diag); /* SUSPENDS */
	}
	free(view);
	return rc;
}

/* Whether the lead has another view by now. */
NAM_FIBER_FN static bool
has_changed(struct nam_client *client, const struct nam__cluster_view *view)
{
	struct nam__cluster_view *now = NULL;
	struct nam_diag diag;
	bool changed = !view_get(client, &now, &diag) && /* SUSPENDS */
		now->head.number != view->head.number;

	free(now);
	return changed;
}

/* All members of one view, and then its number.  -NAM_E_VIEW: it has changed meanwhile. */
NAM_FIBER_FN static int
view_join(struct nam_client *client, uint32_t seeds, uint64_t deadline_ns, struct nam_diag *diag)
{
	struct nam__cluster_view *view = NULL;
	uint64_t acknowledged;
	int rc = view_stable_get(client, deadline_ns, &view, diag); /* SUSPENDS */

	if (rc)
		return rc;
	acknowledged = view->head.number;
	rc = seeds_are_members(client, seeds, view, diag);
	for (uint32_t i = 0; i < view->head.count && !rc; i++) {
		struct nam_view_member *member = &view->members[i];

		rc = member_take(client, seeds, view, member, diag); /* SUSPENDS */
		if (nam_err_is(rc, NAM_E_FABRIC) && member->state == NAM_VIEW_JOINING) {
			acknowledged = 0;
			rc = 0;
		}
	}
	/* The process that does not answer may have passed its memory on. */
	if (nam_err_is(rc, NAM_E_FABRIC) && has_changed(client, view)) /* SUSPENDS */
		rc = -NAM_E_VIEW;
	nam_race_point("view.registering");
	/* C20: the client knows all members of this view.  The lead refuses an earlier view. */
	if (!rc)
		rc = register_client(client, view->head.number, acknowledged, diag); /* SUSPENDS */
	if (!rc)
		rc = backup_enter(client, view->head.number, deadline_ns, diag); /* SUSPENDS */
	if (!rc) {
		client->view_seen = acknowledged;
		atomic_store_explicit(&client->view_whole, acknowledged, memory_order_release);
		atomic_store_explicit(&client->view_number, view->head.number,
			memory_order_relaxed);
	}
	free(view);
	return rc;
}

int
nam__cluster_join(struct nam_client *client, const struct nam_cluster *cluster, const char *text,
	struct nam_diag *diag)
{
	uint64_t deadline_ns = nam_now_ns() + client->options.timeout_ms * 1000000ull;
	int rc = lead_find(client, cluster, text, diag); /* SUSPENDS */

	for (unsigned tries = 0; !rc && tries < TRIES_MAX; tries++) {
		rc = view_join(client, cluster->count, deadline_ns, diag); /* SUSPENDS */
		if (rc != -NAM_E_VIEW)
			return rc;
		rc = 0;
	}
	return rc ?: nam_diag_set(diag, -NAM_E_VIEW, "the view of the cluster has changed %u times "
		"while this client joined; try again", TRIES_MAX);
}

int
nam__cluster_check(struct nam_client *client, const struct nam_cluster *cluster, const char *text,
	struct nam_diag *diag)
{
	struct nam__cluster_view *view = NULL;
	int rc = lead_find(client, cluster, text, diag); /* SUSPENDS */

	if (rc)
		return rc;
	rc = nam__cluster_view_get(client->epoch_worker, client->catalog_slot,
		&view); /* SUSPENDS */
	if (rc)
		return nam_diag_set(diag, rc, "asking the memory server at %s for the view of the "
			"cluster: %s", client->servers[client->catalog_slot].address,
			nam_err_text(rc));
	rc = seeds_are_members(client, cluster->count, view, diag);
	free(view);
	return rc;
}
