/* SPDX-License-Identifier: Apache-2.0 */
/* admit.c -- the door where clients come in. */
#include "admit.h"

#include "memserver/mailbox.h"

/* @ret_mailbox, @ret_unreliable_qp	zeroes unless the client wants one */
static int
check_hello(const struct nam_hello *hello, struct nam_wire_hello *ret,
	struct nam_wire_mailbox_hello *ret_mailbox, uint64_t *ret_unreliable_qp)
{
	uint32_t bytes = sizeof(*ret);

	if (hello->bytes < sizeof(ret->magic_version))
		return -NAM_E_FABRIC_PROTOCOL;
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, hello->data, hello->bytes < sizeof(*ret) ? hello->bytes : sizeof(*ret));
	if (ret->magic_version >> 8 != NAM_RPC_MAGIC)
		return -NAM_E_FABRIC_PROTOCOL;
	if (ret->magic_version != (NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION))
		return -NAM_E_FABRIC_VERSION;
	memset(ret_mailbox, 0, sizeof(*ret_mailbox));
	*ret_unreliable_qp = 0;
	if (ret->flags & NAM_HELLO_MAILBOX)
		bytes += (uint32_t)sizeof(*ret_mailbox);
	if (ret->flags & NAM_HELLO_UNRELIABLE)
		bytes += (uint32_t)sizeof(*ret_unreliable_qp);
	ret->flags &= ~NAM_HELLO_KEY;
	if (hello->bytes != bytes || ret->flags == NAM_HELLO_UNRELIABLE ||
		ret->flags > NAM_HELLO_PROBE || ret->reserved ||
		ret->client_id >= NAM_CLIENTS_MAX || (!ret->client_id && ret->incarnation))
		return -NAM_E_FABRIC_PROTOCOL;
	if (!(ret->flags & NAM_HELLO_MAILBOX))
		return 0;
	memcpy(ret_mailbox, hello->data + sizeof(*ret), sizeof(*ret_mailbox));
	if (ret->flags & NAM_HELLO_UNRELIABLE)
		memcpy(ret_unreliable_qp, hello->data + sizeof(*ret) + sizeof(*ret_mailbox),
			sizeof(*ret_unreliable_qp));
	if (ret_mailbox->frame_bytes < NAM_FRAME_BYTES_MIN || ret_mailbox->frame_bytes % 64 ||
		ret_mailbox->frame_bytes > NAM_FRAME_BYTES_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	return 0;
}

/* @connection	NULL: a rejection */
static void
welcome_fill(const struct nam_server *server, int status, const struct nam__connection *connection,
	struct nam_hello *ret)
{
	struct nam_wire_welcome welcome = {
		.magic_version = NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION,
		.status = status,
		.server_id = status ? 0 : server->options.id,
		.regions_count = status ? 0 : server->memory.count,
		.boot = status ? 0 : server->boot,
	};

	/* A starting server sends its progress, in MiB. */
	if (status == -NAM_E_FABRIC_STARTING)
		welcome.boot = server->options.memory_bytes >> 20 << 32 |
			atomic_load(&server->populate.bytes) >> 20;

	*ret = (struct nam_hello){ .bytes = sizeof(welcome) };
	memcpy(ret->data, &welcome, sizeof(welcome));
	if (connection && connection->mailbox) {
		const struct nam__mailbox *box = connection->mailbox;
		const struct nam_wire_mailbox_welcome mailbox = {
			.remote = box->mr.remote,
			.rkey = box->mr.rkey,
			.frame_bytes = box->client.frame_bytes,
			.file = server->domain->limits.regions_are_files ? box->mr.fd : -1,
		};

		memcpy(ret->data + ret->bytes, &mailbox, sizeof(mailbox));
		ret->bytes += (uint32_t)sizeof(mailbox);
		if (box->unreliable_qp)
			memcpy(ret->data + sizeof(welcome) +
				offsetof(struct nam_wire_unreliable_welcome, unreliable_qp),
				&box->unreliable_qp_name,
				sizeof(box->unreliable_qp_name));
	}
}

/* Everything that accepting needs; on failure nothing is left behind. */
static int
prepare_connection(struct nam_server *server, const struct nam_cm_event *event,
	const struct nam__proven *proven, struct nam__connection **ret, uint64_t *ret_unreliable_qp)
{
	struct nam__connection *connection;
	struct nam_wire_mailbox_hello mailbox;
	struct nam_wire_hello wire;
	int rc = check_hello(&event->hello, &wire, &mailbox, ret_unreliable_qp);

	if (rc)
		return rc;
	connection = calloc(1, sizeof(*connection));
	if (!connection)
		return -ENOMEM;
	connection->client_id = wire.client_id;
	connection->incarnation = wire.incarnation;
	connection->proven = *proven;
	connection->pid = event->pid;
	connection->probes = wire.flags == NAM_HELLO_PROBE;
	rc = nam__connection_place(server, connection, event->peer);
	if (rc)
		goto free_connection;
	rc = nam__membership_attach(&server->membership, connection);
	if (rc)
		goto leave_place;
	/* A reader's WRITEs into a mailbox would be refused. */
	if ((wire.flags & NAM_HELLO_MAILBOX) && !nam__may_change(connection) &&
		!(server->domain->limits.caps & NAM_CAP_READER_SHARE))
		rc = -NAM_E_FABRIC_CAPABILITY;
	else if (wire.flags & NAM_HELLO_MAILBOX)
		rc = nam__mailbox_open(connection, &mailbox, wire.flags & NAM_HELLO_UNRELIABLE);
	if (rc)
		goto detach;
	*ret = connection;
	return 0;

detach:
	nam__membership_detach(&server->membership, connection);
leave_place:
	nam__connection_leave(connection);
free_connection:
	free(connection);
	return rc;
}

void
nam__connection_free(struct nam__connection *connection)
{
	nam__mailbox_free(connection);
	nam__move_connection_closed(connection->handler->server, connection);
	nam__membership_detach(&connection->handler->server->membership, connection);
	nam__connection_leave(connection);
	free(connection);
}

static void
reject(struct nam_server *server, struct nam_cm_request *request, int status)
{
	struct nam_hello reply;

	welcome_fill(server, status, NULL, &reply);
	server->ops->reject(server->listener, request, &reply);
}

static void
refuse(struct nam_server *server, struct nam_cm_request *request, int status)
{
	nam__count_refusal(server, status);
	reject(server, request, status);
}

void
nam__refuse_starting(struct nam_server *server, const struct nam_cm_event *event)
{
	struct nam_wire_mailbox_hello mailbox;
	struct nam__proven proven;
	struct nam_wire_hello wire;
	uint64_t unreliable_qp;
	int rc = nam__auth_pass(server, event, &proven);

	if (!rc)
		rc = check_hello(&event->hello, &wire, &mailbox, &unreliable_qp);
	if (rc != NAM__AUTH_CHALLENGED)
		refuse(server, event->request, rc ?: -NAM_E_FABRIC_STARTING);
}

/* The caller holds server->mutex. */
static int
accept_locked(struct nam_server *server, const struct nam_cm_event *event,
	struct nam__connection *connection, uint64_t unreliable_qp)
{
	const struct nam_qp_options options = {
		.cq = connection->handler->cq,
		.rq = connection->handler->rq,
		.user = connection,
		.share = connection->mailbox ? &connection->mailbox->mr : NULL,
		.rights = nam__may_change(connection) ? NAM_MR_REMOTE : NAM_MR_REMOTE_READ,
	};
	struct nam_hello reply;
	int rc;

	welcome_fill(server, 0, connection, &reply);
	/* M5: a FENCE since it came has not seen it in the list, or sees it there; M22 likewise. */
	rc = nam__phase_admits(server, connection);
	if (!rc && nam__membership_fenced(&server->membership, connection))
		rc = -NAM_E_FENCED;
	else if (!rc && !nam__auth_sign(server, event, &connection->proven, &reply))
		rc = -NAM_E_FABRIC_DENIED;
	if (rc) {
		reject(server, event->request, rc);
		return rc;
	}
	rc = server->ops->accept(server->listener, event->request, &options, &reply,
		&connection->qp);
	if (rc)
		return rc;
	LIST_INSERT_HEAD(&server->connections, connection, link);
	/* If it cannot, the client hears nothing over it until its time is out. */
	if (connection->mailbox && connection->mailbox->unreliable_qp)
		(void)server->ops->unreliable_qp_join(connection->mailbox->unreliable_qp,
			connection->qp, unreliable_qp);
	nam__mailbox_start(connection);
	return 0;
}

void
nam__admit(struct nam_server *server, const struct nam_cm_event *event)
{
	struct nam__connection *connection = NULL;
	struct nam__proven proven;
	uint64_t unreliable_qp = 0;
	uint16_t client_id;
	char peer[128];
	int rc = nam__auth_pass(server, event, &proven);

	if (rc == NAM__AUTH_CHALLENGED)
		return;
	if (!rc)
		rc = prepare_connection(server, event, &proven, &connection, &unreliable_qp);
	if (rc) {
		refuse(server, event->request, rc);
		return;
	}
	client_id = connection->client_id;
	/* The handler may hear of the client's end before accept returns: the mutex holds it. */
	pthread_mutex_lock(&server->mutex);
	rc = accept_locked(server, event, connection, unreliable_qp);
	pthread_mutex_unlock(&server->mutex);
	if (rc)
		nam__count_refusal(server, rc);
	else
		nam__count(&server->accepted, 1);
	nam__log(server, NAM_LOG_DEBUG, rc ? "refused" : "connected",
		"peer=%s client=%u connections=%u",
		nam_log_quote(event->peer, peer, sizeof(peer)), client_id,
		atomic_load_explicit(&server->connections_count, memory_order_relaxed));
	if (rc)
		nam__connection_free(connection);
}
