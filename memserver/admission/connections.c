/* SPDX-License-Identifier: Apache-2.0 */
/* connections.c -- connections of a client that is fenced: each handler closes its own. */
#include "memserver/memserver_internal.h"

void
nam__connection_fence(struct nam__connection *connection)
{
	struct nam__handler *handler = connection->handler;

	if (connection->fenced)
		return;
	connection->fenced = true;
	/* Release: pairs with fenced_close(). */
	atomic_store_explicit(&handler->fencing, true, memory_order_release);
	handler->cq->ops->cq_wake(handler->cq);
}

/* The lists of connections and of clients agree while both mutexes are held. */
uint32_t
nam__connections_fence(struct nam_server *server, uint16_t client_id, uint16_t incarnation)
{
	struct nam__membership *membership = &server->membership;
	struct nam__connection *connection;
	uint32_t left = 0;

	pthread_mutex_lock(&server->mutex);
	pthread_mutex_lock(&membership->mutex);
	connection = membership->present[client_id] ? LIST_FIRST(&server->connections) : NULL;
	for (; connection; connection = LIST_NEXT(connection, link)) {
		if (connection->client_id != client_id ||
			(int16_t)(connection->incarnation - incarnation) > 0)
			continue;
		left++;
		nam__connection_fence(connection);
	}
	pthread_mutex_unlock(&membership->mutex);
	pthread_mutex_unlock(&server->mutex);
	return left;
}

uint32_t
nam__connections_close(struct nam_server *server, const struct nam__connection *except)
{
	struct nam__connection *connection;
	uint32_t left = 0;

	NAM__HOLD(&server->mutex);
	LIST_FOREACH(connection, &server->connections, link) {
		if (connection == except)
			continue;
		left++;
		nam__connection_fence(connection);
	}
	return left;
}

struct nam__connection *
nam__connection_fenced(struct nam__handler *handler)
{
	struct nam_server *server = handler->server;
	struct nam__connection *connection;

	NAM__HOLD(&server->mutex);
	LIST_FOREACH(connection, &server->connections, link)
		if (connection->fenced && connection->handler == handler)
			break;
	return connection;
}
