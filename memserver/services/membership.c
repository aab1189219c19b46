/* SPDX-License-Identifier: Apache-2.0 */
/*
 * membership.c -- server 0 gives out client ids, and knows which clients are alive; every server
 * knows which have queue pairs to it.
 *
 * A client lives as long as the connection that its REGISTER came over.  Ids go round, so that one
 * that belonged to a dead client comes again as late as possible, and then with the next
 * incarnation: a lock word of the dead one is never taken for one of the living.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "memserver/memserver_internal.h"

int
nam__membership_init(struct nam__membership *membership, uint8_t *meta)
{
	int rc;

	memset(membership, 0, sizeof(*membership));
	rc = -pthread_mutex_init(&membership->mutex, NULL);
	if (rc || !meta)
		return rc;
	membership->epoch_slots = (uint64_t *)(void *)(meta + NAM_META_SLOTS_OFFSET);
	membership->view.word = (uint64_t *)(void *)(meta + NAM_META_VIEW_OFFSET);
	membership->members = calloc(NAM_CLIENTS_MAX, sizeof(membership->members[0]));
	return membership->members ? 0 : -ENOMEM;
}

void
nam__membership_free(struct nam__membership *membership)
{
	free(membership->members);
	membership->members = NULL;
	(void)pthread_mutex_destroy(&membership->mutex);
}

/* The member that a connection stands for, or NULL. */
static struct nam__member *
member_of(struct nam__membership *membership, const struct nam__connection *connection)
{
	struct nam__member *member;

	if (!membership->members || !connection->client_id)
		return NULL;
	member = &membership->members[connection->client_id];
	return member->incarnation == connection->incarnation ? member : NULL;
}

static void
appear(struct nam__membership *membership, struct nam__connection *connection)
{
	membership->present[connection->client_id]++;
	connection->present = true;
}

int
nam__membership_attach(struct nam__membership *membership, struct nam__connection *connection)
{
	struct nam__member *member;
	int rc = 0;

	if (!connection->client_id)
		return 0;
	pthread_mutex_lock(&membership->mutex);
	member = member_of(membership, connection);
	/* Only server 0 knows the clients. */
	if (membership->members && (!member || !member->alive))
		rc = -NAM_E_FENCED;
	else
		appear(membership, connection);
	if (!rc && member)
		member->connections++;
	pthread_mutex_unlock(&membership->mutex);
	return rc;
}

void
nam__membership_detach(struct nam__membership *membership, struct nam__connection *connection)
{
	struct nam__member *member;

	pthread_mutex_lock(&membership->mutex);
	if (connection->present)
		membership->present[connection->client_id]--;
	connection->present = false;
	member = member_of(membership, connection);
	if (member) {
		if (connection->session && member->alive) {
			member->alive = false;
			membership->alive_count--;
		}
		member->connections--;
		/*
		 * It can neither read nor write any more, so no client needs to wait for its epoch.
		 * Not before: another of its queue pairs might still publish one.
		 */
		if (!member->alive && member->connections == 0)
			__atomic_store_n(&membership->epoch_slots[connection->client_id], 0,
				__ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&membership->mutex);
	nam__view_stage_drop(connection);
	connection->client_id = 0;
}

/* A client that joins knows the view in force (M15), or there is none. */
static int
give_id(struct nam__membership *membership, const struct nam_rpc_register_request *request,
	struct nam__connection *connection)
{
	if (NAM_GUARD(VIEW_REGISTER) && request->view != membership->view.head.number)
		return -NAM_E_VIEW;
	for (uint32_t tries = 1; tries < NAM_CLIENTS_MAX; tries++) {
		uint32_t id = membership->last_id % (NAM_CLIENTS_MAX - 1) + 1;
		struct nam__member *member = &membership->members[id];

		membership->last_id = id;
		if (member->alive || member->connections)
			continue;
		if (++member->incarnation == 0)
			member->incarnation = 1;
		member->alive = true;
		member->connections = 1;
		member->pid = request->pid;
		member->acknowledged = request->acknowledged;
		memcpy(member->name, request->name, sizeof(member->name));
		membership->alive_count++;
		connection->client_id = (uint16_t)id;
		connection->incarnation = member->incarnation;
		connection->session = true;
		appear(membership, connection);
		return 0;
	}
	return -NAM_E_LIMIT;
}

int
nam__service_register(struct nam__exchange *exchange)
{
	const struct nam_rpc_register_request *request = exchange->body;
	struct nam_rpc_register_reply *reply = exchange->reply;
	struct nam__membership *membership = &exchange->server->membership;
	uint16_t region = (uint16_t)nam__first_region_id(exchange->server);
	int rc;

	/* Once over one connection, and not over one that has a client already. */
	if (exchange->connection->client_id ||
		!memchr(request->name, '\0', sizeof(request->name)) ||
		(request->acknowledged && request->acknowledged != request->view))
		return -NAM_E_FABRIC_PROTOCOL;
	pthread_mutex_lock(&membership->mutex);
	rc = give_id(membership, request, exchange->connection);
	pthread_mutex_unlock(&membership->mutex);
	if (rc)
		return rc;
	*reply = (struct nam_rpc_register_reply){
		.client_id = exchange->connection->client_id,
		.incarnation = exchange->connection->incarnation,
		.epoch_word = nam_gaddr_make(region, NAM_META_EPOCH_OFFSET, 0).raw,
		.epoch_slots = nam_gaddr_make(region, NAM_META_SLOTS_OFFSET, 0).raw,
	};
	exchange->reply_bytes = sizeof(*reply);
	return 0;
}

int
nam__service_client_state(struct nam__exchange *exchange)
{
	const struct nam_rpc_client_state_request *request = exchange->body;
	struct nam_rpc_client_state_reply *reply = exchange->reply;
	struct nam__membership *membership = &exchange->server->membership;
	const struct nam__member *member;
	uint16_t incarnation;

	if (request->reserved || request->client_id == 0 ||
		request->client_id >= NAM_CLIENTS_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	memset(reply, 0, sizeof(*reply));
	pthread_mutex_lock(&membership->mutex);
	member = &membership->members[request->client_id];
	incarnation = request->incarnation ?: member->incarnation;
	/* As a distance, because incarnations wrap. */
	if (!member->incarnation || (int16_t)(incarnation - member->incarnation) > 0) {
		reply->state = NAM_CLIENT_UNKNOWN;
	} else if (incarnation != member->incarnation) {
		reply->state = NAM_CLIENT_DEAD;	/* and forgotten: its id belongs to another now */
	} else {
		reply->state = member->alive ? NAM_CLIENT_ALIVE : NAM_CLIENT_DEAD;
		reply->pid = member->pid;
		memcpy(reply->name, member->name, sizeof(reply->name));
	}
	pthread_mutex_unlock(&membership->mutex);
	exchange->reply_bytes = sizeof(*reply);
	return 0;
}

int
nam__service_presence(struct nam__exchange *exchange)
{
	struct nam_rpc_presence_reply *reply = exchange->reply;
	struct nam__membership *membership = &exchange->server->membership;

	memset(reply, 0, sizeof(*reply));
	pthread_mutex_lock(&membership->mutex);
	for (uint32_t id = 0; id < NAM_CLIENTS_MAX; id++)
		reply->ids[id / 64] |= (uint64_t)(membership->present[id] != 0) << id % 64;
	pthread_mutex_unlock(&membership->mutex);
	exchange->reply_bytes = sizeof(*reply);
	return 0;
}
