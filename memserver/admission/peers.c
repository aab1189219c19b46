/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.c -- which connections are taken: room of handlers, shares of peers, file descriptors; and
 * which are fenced, so that each handler closes its own.
 *
 * A peer is what the fabric says a connection comes from: a host, or over shm a process.  One peer
 * gets three quarters of the connections.  Connections that ask for figures have a few places and
 * descriptors of their own, so `namctl status` works when all others are taken.
 */
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memserver/admission/admit.h"

#define DESCRIPTORS_RESERVED 40u	/* connections that ask; accepting, which needs some more */

struct nam__peer {
	uint64_t key;			/* hash of its name; peers with the same one share */
	uint32_t connections, probes;	/* both 0: free */
};

/*
 * The next handler in turn that has room, or NULL.  The first connection of a client, which has no
 * id yet and is mostly idle, takes turns apart.  So busy connections go to all handlers.
 */
static struct nam__handler *
choose_handler(struct nam_server *server, const struct nam__connection *connection)
{
	uint32_t most = NAM__HANDLER_CONNECTIONS_MAX + (connection->probes ? NAM__PROBES_MAX : 0);
	uint32_t *next = &server->next_handler[connection->client_id != 0];

	for (uint32_t i = 0; i < server->options.rpc_threads; i++) {
		struct nam__handler *handler = &server->handlers[*next];

		*next = (*next + 1) % server->options.rpc_threads;
		if (atomic_load_explicit(&handler->connections, memory_order_relaxed) < most)
			return handler;
	}
	return NULL;
}

/* -EMFILE: the lowest free one is among those that are reserved.  Clients may have so many. */
static int
descriptors_left(uint32_t *ret_most)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	int fd = eventfd(0, EFD_CLOEXEC);

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	*ret_most = limit.rlim_cur < UINT32_MAX ? (uint32_t)limit.rlim_cur : UINT32_MAX;
	if (fd < 0)
		return -EMFILE;
	close(fd);
	return (uint64_t)fd + DESCRIPTORS_RESERVED < limit.rlim_cur ? 0 : -EMFILE;
}

/* The caller holds the mutex.  NULL: no memory. */
static struct nam__peer *
peer_of(struct nam_server *server, uint64_t key)
{
	struct nam__peer *vacant = NULL, *peer;

	for (uint32_t i = 0; i < server->peers_count; i++) {
		peer = &server->peers[i];
		if (!peer->connections && !peer->probes)
			vacant = peer;
		else if (peer->key == key)
			return peer;
	}
	if (!vacant) {
		peer = nam__array_grown(server->peers, &server->peers_size,
			server->peers_count + 1, sizeof(*peer));
		if (!peer)
			return NULL;
		server->peers = peer;
		vacant = &peer[server->peers_count++];
	}
	*vacant = (struct nam__peer){ .key = key };
	return vacant;
}

/* The caller holds the mutex.  The first one of each reason is a warning. */
static void
log_refusal(const struct nam_server *server, bool *warned, const char *peer, const char *reason,
	const char *remedy)
{
	char quoted[128];

	nam__log(server, *warned ? NAM_LOG_DEBUG : NAM_LOG_WARN, "refused",
		"peer=%s reason=%s remedy=\"%s\"", nam_log_quote(peer, quoted, sizeof(quoted)),
		reason, remedy);
	*warned = true;
}

static int
check_share(struct nam_server *server, const struct nam__connection *connection,
	const struct nam__peer *peer, const char *name)
{
	uint32_t most = server->options.rpc_threads * NAM__HANDLER_CONNECTIONS_MAX, descriptors;
	int rc = descriptors_left(&descriptors);

	if (connection->probes)
		return server->probes < NAM__PROBES_MAX && peer->probes < NAM__PROBES_PEER_MAX ?
			0 : -EDQUOT;
	if (rc) {
		log_refusal(server, &server->warned_descriptors, name, "descriptors",
			"raise the limit: ulimit -n, or LimitNOFILE of the unit");
		return rc;
	}
	if (peer->connections < (descriptors < most ? descriptors : most) / 4 * 3)
		return 0;
	log_refusal(server, &server->warned_peer, name, "peer",
		"it has three quarters of all connections: close some, or raise --rpc-threads of "
		"nam-memserver");
	return -EDQUOT;
}

int
nam__connection_place(struct nam_server *server, struct nam__connection *connection,
	const char *name)
{
	struct nam__peer *peer;
	int rc;

	NAM__SCOPED_LOCK(&server->mutex);
	peer = peer_of(server, nam_hash64(name, strlen(name)));
	rc = peer ? check_share(server, connection, peer, name) : -ENOMEM;
	if (rc)
		return rc;
	connection->handler = choose_handler(server, connection);
	if (!connection->handler) {
		log_refusal(server, &server->warned_handlers, name, "handlers",
			"raise --rpc-threads of nam-memserver");
		return -NAM_E_LIMIT;
	}
	connection->peer = (uint32_t)(peer - server->peers);
	*(connection->probes ? &peer->probes : &peer->connections) += 1;
	server->probes += connection->probes;
	atomic_fetch_add_explicit(&connection->handler->connections, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&server->connections_count, 1, memory_order_relaxed);
	return 0;
}

void
nam__connection_leave(struct nam__connection *connection)
{
	struct nam_server *server = connection->handler->server;
	struct nam__peer *peer;

	atomic_fetch_sub_explicit(&connection->handler->connections, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&server->connections_count, 1, memory_order_relaxed);
	NAM__SCOPED_LOCK(&server->mutex);
	peer = &server->peers[connection->peer];
	*(connection->probes ? &peer->probes : &peer->connections) -= 1;
	server->probes -= connection->probes;
}

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
nam__connections_fence(struct nam_server *server, uint16_t client_id, uint16_t incarnation,
	const struct nam__connection *except)
{
	struct nam__membership *membership = &server->membership;
	struct nam__connection *connection;
	uint32_t left = 0;

	NAM__SCOPED_LOCK(&server->mutex);
	pthread_mutex_lock(&membership->mutex);
	connection = client_id && !membership->present[client_id] ? NULL :
		LIST_FIRST(&server->connections);
	for (; connection; connection = LIST_NEXT(connection, link)) {
		if (connection == except || (client_id && (connection->client_id != client_id ||
				(int16_t)(connection->incarnation - incarnation) > 0)))
			continue;
		left++;
		nam__connection_fence(connection);
	}
	pthread_mutex_unlock(&membership->mutex);
	return left;
}

struct nam__connection *
nam__connection_fenced(struct nam__handler *handler)
{
	struct nam_server *server = handler->server;
	struct nam__connection *connection;

	NAM__SCOPED_LOCK(&server->mutex);
	LIST_FOREACH(connection, &server->connections, link)
		if (connection->fenced && connection->handler == handler)
			break;
	return connection;
}
