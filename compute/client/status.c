/* SPDX-License-Identifier: Apache-2.0 */
/* status.c -- what memory servers say of themselves; they are asked without joining, too. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_view.h"
#include "common/rpc/status_rpc.h"
#include "compute/view/fence.h"
#include "compute/view/presence.h"
#include "compute/worker/worker.h"

#define ASKED_MAX 32u		/* memory servers, at the same time */

/* The services of a message: false if it is malformed, or does not go on. */
static bool
services_take(const uint8_t *message, uint32_t bytes, uint32_t first,
	struct nam_rpc_status_reply *status)
{
	struct nam_rpc_status_service one;

	if (bytes < NAM_RPC_STATUS_HEAD_BYTES ||
		(bytes - NAM_RPC_STATUS_HEAD_BYTES) % sizeof(one))
		return false;
	memcpy(status, message, NAM_RPC_STATUS_HEAD_BYTES);
	for (uint32_t at = NAM_RPC_STATUS_HEAD_BYTES; at < bytes; at += (uint32_t)sizeof(one)) {
		memcpy(&one, message + at, sizeof(one));
		if (one.service < first || one.service >= NAM_SERVICES_MAX)
			return false;
		status->figures.services[one.service] = one.figures;
	}
	return !status->next || (status->next > first && status->next < NAM_SERVICES_MAX);
}

/* One message is enough, unless a memory server has had requests of almost all types. */
NAM_FIBER_FN static int
status_query(struct nam_worker *worker, uint32_t slot, struct nam_rpc_status_reply *ret_reply)
{
	struct nam_rpc_status_request request = { .first = 0 };
	uint8_t *message = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	int rc = message ? 0 : -ENOMEM;

	memset(ret_reply, 0, sizeof(*ret_reply));
	do {
		uint32_t bytes = NAM_RPC_BODY_MAX;

		if (!rc)
			rc = nam_rpc_call(worker, slot, NAM_RPC_STATUS, &request, sizeof(request),
				message, &bytes); /* SUSPENDS */
		if (!rc && !services_take(message, bytes, request.first, ret_reply))
			rc = nam_diag_set(&worker->diag, -NAM_E_FABRIC_PROTOCOL,
				"the memory server at %s sent a malformed STATUS reply",
				worker->client->servers[slot].address);
		request.first = ret_reply->next;
	} while (!rc && request.first);
	nam_buffer_give(worker, message, NAM_RPC_BODY_MAX);
	return rc;
}

/* @reply	looked at only if there was one: rc is 0 */
static void
status_fill(const struct nam__server *server, int rc, const struct nam_rpc_status_reply *reply,
	struct nam_server_status *status)
{
	memset(status, 0, sizeof(*status));
	(void)snprintf(status->address, sizeof(status->address), "%s", server->address ?: "");
	status->rc = rc;
	status->ready_bytes = (uint64_t)server->ready_mib << 20;
	status->memory_bytes = (uint64_t)server->total_mib << 20;
	if (rc)
		return;
	status->ready_bytes = reply->memory_bytes;
	status->id = reply->server_id;
	status->handlers = reply->handlers;
	status->regions = reply->regions;
	status->clients = reply->clients;
	status->connections = reply->connections;
	status->indexes = reply->indexes;
	status->stores = reply->stores;
	status->pid = reply->pid;
	status->boot = reply->boot;
	status->host = reply->host;
	status->spare_bytes = reply->spare_bytes;
	status->uptime_ns = reply->uptime_ns;
	status->memory_bytes = reply->memory_bytes;
	status->figures = reply->figures;
	for (uint32_t i = 0; i < NAM_MEMORY_KINDS; i++) {
		status->carved_bytes += reply->figures.memory[i].carved_bytes;
		status->free_bytes += reply->figures.memory[i].free_bytes;
		status->waiting_bytes += reply->figures.memory[i].waiting_bytes;
	}
	status->page_bytes = reply->page_bytes;
	for (uint32_t i = 0; i < NAM_SERVICES_MAX; i++)
		status->requests += reply->figures.services[i].requests;
	status->transparent_huge = reply->transparent_huge;
	if (reply->phase == NAM_SERVER_SUCCESSOR || reply->phase == NAM_SERVER_FILLING)
		status->member = NAM_MEMBER_SUCCESSOR;
	memcpy(status->version, reply->version, sizeof(status->version) - 1);
}

const char *
nam_service_name(uint32_t service)
{
	if (!service)
		return "MALFORMED";
	return service < NAM_RPC_TYPES_COUNT ? nam_rpc_type_name((uint16_t)service) : NULL;
}

int
nam_server_status_get(struct nam_worker *worker, uint32_t slot,
	struct nam_server_status *ret_status)
{
	struct nam_rpc_status_reply reply;
	int rc;

	if (slot >= worker->client->servers_count)
		return nam_diag_set(&worker->diag, -EINVAL, "there is no memory server %u", slot);
	rc = status_query(worker, slot, &reply); /* SUSPENDS */
	status_fill(&worker->client->servers[slot], rc, &reply, ret_status);
	return rc;
}

/* ---- without joining ---------------------------------------------------------------------- */

/* A memory server that a thread of its own asks. */
struct asked {
	const struct nam_client_options *options;
	const char *address;
	struct nam_thread *thread;
	struct nam_server_status status;
	uint64_t boot;				/* if there was an answer */
	struct nam__cluster_view *view;		/* of it, or its copy; NULL */
	struct nam_diag diag;
	int rc;			/* -ENOMEM or -EINVAL; status.rc is the memory server's */
};

/* The lead knows a client that ended, and that not all memory servers have closed yet. */
NAM_FIBER_FN static void
name_query(struct nam_client *lead, uint16_t id, uint16_t incarnation,
	struct nam_client_named *ret_client)
{
	struct nam_rpc_client_state_reply state;

	if (!id || nam__client_state_query(lead->epoch_worker, id, incarnation,
			&state)) /* SUSPENDS */
		return;
	ret_client->id = id;
	ret_client->pid = state.pid;
	memcpy(ret_client->name, state.name, sizeof(ret_client->name));
}

/* The view as the lead has it, or a copy.  A memory server that does not say has none. */
NAM_FIBER_FN static void
view_query(struct asked *asked, struct nam_client *client)
{
	struct nam_server_status *status = &asked->status;
	struct nam_rpc_fence_reply found;

	if (!status->id && !nam__fence_next(client->epoch_worker, 0, &found)) /* SUSPENDS */
		name_query(client, found.client_id, found.incarnation,
			&status->fencing); /* SUSPENDS */
	if (nam__cluster_view_get(client->epoch_worker, 0, &asked->view)) /* SUSPENDS */
		return;
	status->view = asked->view->head.number;
	status->view_acknowledged = asked->view->acknowledged;
	status->silent_ms = asked->view->silent_ms;
	name_query(client, asked->view->delaying, asked->view->delaying_incarnation,
		&status->delaying); /* SUSPENDS */
	name_query(client, asked->view->silent, asked->view->silent_incarnation,
		&status->silent); /* SUSPENDS */
}

static void
server_query(void *arg)
{
	struct asked *asked = arg;
	struct nam_client *client = NULL;
	struct nam_rpc_status_reply reply;
	int rc = nam__prober_connect(asked->options, asked->address, 0, false, &client,
		&asked->diag);

	if (!rc) {
		rc = status_query(client->epoch_worker, 0, &reply);
		if (rc)
			(void)nam_diag_set(&asked->diag, rc, "%s", client->epoch_worker->diag.text);
	}
	if (rc == -ENOMEM || rc == -EINVAL)	/* those are not the memory server's */
		asked->rc = rc;
	else
		status_fill(&client->servers[0], rc, &reply, &asked->status);
	/* A client whose key cannot be read knows none. */
	(void)snprintf(asked->status.address, sizeof(asked->status.address), "%s", asked->address);
	if (!rc) {
		asked->boot = client->servers[0].boot;
		view_query(asked, client);
	}
	nam__client_free(client);
}

struct all {
	struct asked *asked;		/* the list's first */
	uint32_t count, size;
	const struct nam__cluster_view *view;	/* the lead's, or a copy; NULL: none */
};

static int
all_note(struct all *all, const struct nam_client_options *options, const char *address)
{
	struct asked *asked;

	if (all->count == all->size) {
		asked = realloc(all->asked, (all->size + ASKED_MAX) * sizeof(*asked));
		if (!asked)
			return -ENOMEM;
		all->asked = asked;
		all->size += ASKED_MAX;
	}
	all->asked[all->count++] = (struct asked){ .options = options, .address = address };
	return 0;
}

/* Ask all behind the first `done`, each by a thread, or by this one if there is none. */
static void
all_query(struct all *all, uint32_t done)
{
	for (uint32_t count; done < all->count; done += count) {
		struct asked *asked = &all->asked[done];

		count = all->count - done < ASKED_MAX ? all->count - done : ASKED_MAX;
		for (uint32_t i = 0; i < count; i++)
			if (i + 1 == count || nam_thread_start("nam-status", server_query,
				&asked[i],
					&asked[i].thread))
				server_query(&asked[i]);
		for (uint32_t i = 0; i < count; i++)
			if (asked[i].thread)
				nam_thread_join(asked[i].thread);
	}
	/* The lead's is in force; of the copies a later one. */
	for (uint32_t i = 0; i < all->count; i++) {
		const struct asked *asked = &all->asked[i];

		if (!asked->view || !asked->view->head.number)
			continue;
		if (!all->view || !asked->status.id ||
			asked->view->head.number > all->view->head.number)
			all->view = asked->view;
		if (!asked->status.id)
			break;
	}
}

static bool
all_have(const struct all *all, const struct nam_view_member *member)
{
	for (uint32_t i = 0; i < all->count; i++) {
		const struct asked *asked = &all->asked[i];

		if (!strcmp(asked->address, member->address) ||
			(!asked->status.rc && !asked->rc && asked->status.id == member->id &&
				asked->boot == member->boot))
			return true;
	}
	return false;
}

/* Members that were not asked; *ret_found is how many. */
static int
all_note_members(struct all *all, const struct nam_client_options *options, uint32_t *ret_found)
{
	uint32_t found = 0;
	int rc = 0;

	for (uint32_t i = 0; all->view && i < all->view->head.count && !rc; i++) {
		if (all_have(all, &all->view->members[i]))
			continue;
		rc = all_note(all, options, all->view->members[i].address);
		found++;
	}
	if (!rc)
		*ret_found = found;
	return rc;
}

/* By its address if it does not answer.  A process whose memory has moved away is no member. */
static bool
is_member(const struct asked *asked, const struct nam_view_member *member)
{
	bool is_there = !strcmp(asked->address, member->address);

	if (asked->status.rc)
		return is_there;
	return asked->status.id == member->id && (is_there || asked->boot == member->boot);
}

static void
backups_note(const struct nam_view_member *member, struct nam_server_status *status)
{
	const struct nam_view_backup *first = nam_view_backup(member), *other;

	if (!first)
		return;
	other = &member->backups[NAM_BACKUPS_MAX - 1];
	(void)snprintf(status->backup, sizeof(status->backup), "%s", first->address);
	if (other != first)
		(void)snprintf(status->backup_2, sizeof(status->backup_2), "%s", other->address);
}

static void
member_state_fill(struct asked *asked, const struct nam__cluster_view *view)
{
	static const enum nam_member_state states[] = {
		[NAM_VIEW_JOINING] = NAM_MEMBER_JOINING,
		[NAM_VIEW_UP] = NAM_MEMBER_UP,
		[NAM_VIEW_MOVING] = NAM_MEMBER_MOVING,
		[NAM_VIEW_COPYING] = NAM_MEMBER_COPYING,
		[NAM_VIEW_PROMOTING] = NAM_MEMBER_PROMOTING,
	};

	/* A successor has the id of a member. */
	if (asked->status.member == NAM_MEMBER_SUCCESSOR)
		return;
	for (uint32_t i = 0; view && i < view->head.count; i++) {
		const struct nam_view_member *member = &view->members[i];

		if (is_member(asked, member)) {
			asked->status.id = member->id;
			asked->status.member = states[member->state];
			/* C33: until then the lead's does not count. */
			if (member->id != view->head.lead || member->known)
				backups_note(member, &asked->status);
			if (member->id == view->head.lead)
				asked->status.replicas = view->head.backups + 1u;
		}
	}
}

int
nam_cluster_status(const struct nam_client_options *options, nam_server_status_fn fn, void *arg,
	struct nam_diag *diag)
{
	struct all all = { NULL, 0, 0, NULL };
	struct nam_cluster *cluster = NULL;
	uint32_t found;
	int rc = nam__cluster_read(options, &cluster, diag);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < cluster->count && !rc; i++)
		rc = all_note(&all, options, cluster->servers[i].listen);
	found = all.count;
	/* The view of a seed names the lead, and the lead's view all the others. */
	for (unsigned rounds = 0; found && !rc && rounds < 3; rounds++) {
		all_query(&all, all.count - found);
		rc = all_note_members(&all, options, &found);
	}
	all.count -= rc ? 0 : found;
	for (uint32_t i = 0; i < all.count && !rc; i++) {
		struct asked *asked = &all.asked[i];

		rc = asked->rc;
		if (rc) {
			(void)nam_diag_set(diag, rc, "%s", asked->diag.text);
			break;
		}
		member_state_fill(asked, all.view);
		fn(arg, &asked->status, asked->diag.text);
	}
	if (rc == -ENOMEM && !diag->text[0])
		rc = nam_diag_set(diag, rc, "no memory for the memory servers' answers");
	for (uint32_t i = 0; i < all.count; i++)
		free(all.asked[i].view);
	free(all.asked);
	free(cluster);
	return rc;
}
