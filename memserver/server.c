/* SPDX-License-Identifier: Apache-2.0 */
/* server.c -- a memory server: its parts put together, and the door where clients come in. */
#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fabric/register.h"
#include "common/guard.h"
#include "mailbox.h"
#include "stores.h"
#include "trees.h"

#define POLL_NS 1000000000ull
#define STARTING_POLL_NS 200000000ull

static void connection_closed(struct nam__connection *connection);

void
nam_server_options_init(struct nam_server_options *options)
{
	*options = (struct nam_server_options){
		.memory_bytes = 1ull << 30,
		.pages = NAM_PAGES_AUTO,
		.numa_node = -1,
		.rpc_threads = 1,
		.log_level = NAM_LOG_INFO,
	};
}

/* ---- starting -------------------------------------------------------------------------------- */

static int
check_options(const struct nam_server_options *options, struct nam_diag *diag)
{
	const struct nam_fabric_ops *ops;

	if (!options->listen || !*options->listen)
		return nam_diag_set(diag, -EINVAL, "listen: the address is missing; write "
			"for example shm:/run/nam/server0");
	if (strlen(options->listen) >= sizeof(((struct nam_server *)NULL)->listen))
		return nam_diag_set(diag, -EINVAL, "listen: the address is too long: %s",
			nam_cluster_address_limit(options->listen));
	ops = nam_fabric_find(options->listen, NULL);
	if (!ops && nam__fabric_absence(options->listen))
		return nam_diag_set(diag, -EINVAL, "listen: %s: %s", options->listen,
			nam__fabric_absence(options->listen));
	if (!ops)
		return nam_diag_set(diag, -EINVAL, "listen: '%s' names no fabric; known are: %s; "
			"write for example shm:/run/nam/server0", options->listen,
			nam_fabric_names());
	if (options->id >= NAM_SERVERS_MAX)
		return nam_diag_set(diag, -EINVAL, "id: %u is not between 0 and %u", options->id,
			NAM_SERVERS_MAX - 1);
	if (options->rpc_threads < 1 || options->rpc_threads > NAM__HANDLERS_MAX)
		return nam_diag_set(diag, -EINVAL, "rpc_threads: %u is not between 1 and %u",
			options->rpc_threads, NAM__HANDLERS_MAX);
	if (options->htm == NAM_HTM_ON && nam__htm_available() == NAM__HTM_NONE)
		return nam_diag_set(diag, -EINVAL, "htm: this processor has neither RTM nor HLE, "
			"or its microcode has disabled them; choose auto or off");
	if (options->numa_node < -1 || options->numa_node > 1023)
		return nam_diag_set(diag, -EINVAL, "numa_node: %d is not a node's number, or -1 "
			"for any", options->numa_node);
	return 0;
}

int
nam_server_check(const struct nam_server_options *options, struct nam_diag *diag)
{
	int rc = check_options(options, diag);

	return rc ? rc : nam__memory_check(options, diag);
}

static uint8_t *
region_base(void *arg, uint32_t region)
{
	struct nam_server *server = arg;

	/* Acquire: pairs with nam__memory_withdraw(). */
	return atomic_load_explicit(&server->memory.bases[region], memory_order_acquire);
}

static int
withdraw(void *arg, uint32_t region)
{
	struct nam_server *server = arg;

	nam__log(server, NAM_LOG_INFO, "region_private", "region=%u bytes=%llu", region,
		(unsigned long long)server->memory.mrs[region].bytes);
	return nam__memory_withdraw(&server->memory, server->domain, region);
}

static int
restore(void *arg, uint32_t region, enum nam_memory_kind kind)
{
	struct nam_server *server = arg;
	struct nam_diag diag = { "" };
	char cause[600];
	int rc = nam__memory_restore(&server->memory, server->domain, region, kind, &diag);

	if (rc)
		nam__log(server, NAM_LOG_WARN, "region_private", "region=%u cause=%s", region,
			nam_log_quote(diag.text, cause, sizeof(cause)));
	else
		nam__log(server, NAM_LOG_INFO, kind == NAM_MEMORY_PUBLIC ? "region_public" :
			"region_read_only", "region=%u bytes=%llu", region,
			(unsigned long long)server->memory.mrs[region].bytes);
	return rc;
}

/* The epoch begins at 1; everything else of fresh memory is zero, as it has to be. */
static int
start_services(struct nam_server *server, struct nam_diag *diag)
{
	struct nam__memory *memory = &server->memory;
	const struct nam__allocator_memory calls = { server, region_base, withdraw, restore };
	uint64_t bytes[NAM_REGIONS_PER_SERVER];
	uint8_t *meta = NULL;
	int rc;

	for (uint32_t i = 0; i < memory->count; i++)
		bytes[i] = memory->mrs[i].bytes;
	if (server->options.id == 0) {
		meta = memory->mrs[0].base;
		__atomic_store_n((uint64_t *)(void *)(meta + NAM_META_EPOCH_OFFSET), 1,
			__ATOMIC_SEQ_CST);
	}
	rc = nam__allocator_init(&server->allocator, nam__first_region_id(server), bytes,
		memory->count, meta ? NAM_META_BYTES : NAM_GADDR_UNIT_BYTES, &calls);
	if (!rc)
		rc = nam__catalog_init(&server->catalog);
	if (!rc)
		rc = nam__membership_init(&server->membership, meta);
	if (!rc)
		rc = nam__objects_init(&server->trees, NAM__CATALOG_MAX, nam__tree_free);
	if (!rc)
		rc = nam__objects_init(&server->stores, NAM__STORES_MAX, nam__store_free);
	if (rc)
		return nam_diag_set(diag, rc, "services: %s", nam_err_text(rc));
	return 0;
}

/* Populates the memory while the calling thread answers connections. */
struct opening {
	struct nam_server *server;
	struct nam_diag *notice, *diag;
	int rc;
	atomic_bool done;
};

static void
opening_main(void *arg)
{
	struct opening *opening = arg;
	struct nam_server *server = opening->server;

	opening->rc = nam__memory_open(&server->memory, server->domain, &server->options,
		opening->notice, opening->diag);
	atomic_store(&opening->done, true);
	server->ops->listener_wake(server->listener);
}

static void
reject_starting(struct nam_server *server, struct nam_cm_request *request)
{
	const struct nam_wire_welcome welcome = {
		.magic_version = NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION,
		.status = -NAM_E_FABRIC_STARTING,
		.server_id = server->options.id,
		.boot = server->options.memory_bytes >> 20 << 32 |
			atomic_load(&server->populate.bytes) >> 20,
	};
	struct nam_hello reply = { .bytes = sizeof(welcome) };

	memcpy(reply.data, &welcome, sizeof(welcome));
	nam__count_refusal(server, welcome.status);
	server->ops->reject(server->listener, request, &reply);
}

static int
open_memory(struct nam_server *server, struct nam_diag *notice, struct nam_diag *diag)
{
	struct opening opening = { .server = server, .notice = notice, .diag = diag };
	const struct nam_server_options *options = &server->options;
	struct nam_thread *thread;
	struct nam_cm_event event;
	int rc;

	server->domain->populate = &server->populate;
	rc = nam_thread_start("nam-memory", opening_main, &opening, &thread);
	if (rc)
		return nam_diag_set(diag, rc, "a thread: %s", nam_err_text(rc));
	while (!atomic_load(&opening.done)) {
		rc = server->ops->listener_poll(server->listener, STARTING_POLL_NS, &event);
		if (rc > 0 && event.kind == NAM_CM_REQUEST)
			reject_starting(server, event.request);
		else if (rc < 0)
			nam_sleep_ns(STARTING_POLL_NS);
		if (options->starting && options->starting(atomic_load(&server->populate.bytes),
				options->memory_bytes))
			atomic_store(&server->populate.cancelled, true);
	}
	nam_thread_join(thread);
	server->domain->populate = NULL;
	return opening.rc;
}

static int
start(struct nam_server *server, struct nam_diag *notice, struct nam_diag *diag)
{
	int rc = check_options(&server->options, diag);
	const struct nam_fabric_options fabric = {
		.address = server->listen,
		.listens = 1,
		.device = server->options.device,
		.gid_index = server->options.gid_index,
		.mtu = server->options.mtu,
		.notice = server->options.notice,
	};

	if (rc)
		return rc;
	(void)snprintf(server->listen, sizeof(server->listen), "%s", server->options.listen);
	server->options.listen = server->listen;
	server->ops = nam_fabric_find(server->listen, NULL);
	rc = server->ops->domain_open(&fabric, &server->domain, diag);
	if (rc)
		return rc;
	/*
	 * The address first: two servers must not both take the host's memory before one of them
	 * learns that it came second.
	 */
	rc = server->ops->listen(server->domain, server->listen, &server->listener, diag);
	if (rc)
		return rc;
	rc = open_memory(server, notice, diag);
	if (rc)
		return rc;
	/* Without it there is no local access; the server serves all the same. */
	if (server->domain->limits.regions_are_files)
		(void)!nam__proof_open(&server->proof);
	server->htm = server->options.htm == NAM_HTM_OFF ? NAM__HTM_NONE :
		server->options.htm == NAM_HTM_STAND_IN ? NAM__HTM_STAND_IN : nam__htm_available();
	nam__log(server, NAM_LOG_INFO, "htm", "kind=%s", nam__htm_name(server->htm));
	rc = start_services(server, diag);
	for (uint32_t i = 0; i < server->options.rpc_threads && !rc; i++)
		rc = nam__handler_start(&server->handlers[i], server, i, connection_closed,
			diag);
	return rc;
}

int
nam_server_start(const struct nam_server_options *options, struct nam_server **ret_server,
	struct nam_diag *notice, struct nam_diag *diag)
{
	struct nam_server *server = calloc(1, sizeof(*server));
	int rc;

	if (notice)
		notice->text[0] = '\0';
	if (!server)
		return nam_diag_set(diag, -ENOMEM, "no memory");
	server->options = *options;
	server->proof.fd = -1;
	server->boot = nam_entropy() | 1;
	server->started_ns = nam_now_ns();
	atomic_init(&server->work_clock, 1);
	rc = -pthread_mutex_init(&server->mutex, NULL);
	if (rc) {
		free(server);
		return nam_diag_set(diag, rc, "mutex: %s", nam_err_text(rc));
	}
	rc = start(server, notice, diag);
	if (rc) {
		nam_server_destroy(server);
		return rc;
	}
	*ret_server = server;
	return 0;
}

/* ---- connections ----------------------------------------------------------------------------- */

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
	if (hello->bytes != bytes || ret->flags == NAM_HELLO_UNRELIABLE ||
		ret->flags > NAM_HELLO_ASKS || ret->reserved ||
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
		.server_id = server->options.id,
		.regions_count = server->memory.count,
		.boot = server->boot,
	};

	memset(ret, 0, sizeof(*ret));
	ret->bytes = sizeof(welcome);
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
	struct nam__connection **ret, uint64_t *ret_unreliable_qp)
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
	connection->asks = wire.flags == NAM_HELLO_ASKS;
	rc = nam__connection_place(server, connection, event->peer);
	if (rc)
		goto free_connection;
	rc = nam__membership_attach(&server->membership, connection);
	if (rc)
		goto leave_place;
	if (wire.flags & NAM_HELLO_MAILBOX)
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

/* Its queue pair is gone, or never was. */
static void
connection_free(struct nam__connection *connection)
{
	struct nam_server *server = connection->handler->server;

	nam__mailbox_free(connection);
	nam__membership_detach(&server->membership, connection);
	nam__connection_leave(connection);
	free(connection);
}

static void
reject_fenced(struct nam_server *server, struct nam_cm_request *request)
{
	struct nam_hello reply;

	welcome_fill(server, -NAM_E_FENCED, NULL, &reply);
	server->ops->reject(server->listener, request, &reply);
}

static void
admit(struct nam_server *server, const struct nam_cm_event *event)
{
	struct nam__connection *connection = NULL;
	struct nam_qp_options options;
	struct nam_hello reply;
	char peer[128];
	uint64_t unreliable_qp = 0;
	uint16_t client_id;
	bool fenced;
	int rc = prepare_connection(server, event, &connection, &unreliable_qp);

	welcome_fill(server, rc, connection, &reply);
	if (rc) {
		nam__count_refusal(server, rc);
		server->ops->reject(server->listener, event->request, &reply);
		return;
	}
	client_id = connection->client_id;
	options = (struct nam_qp_options){
		.cq = connection->handler->cq,
		.rq = connection->handler->rq,
		.user = connection,
		.share = connection->mailbox ? &connection->mailbox->mr : NULL,
	};
	/*
	 * The handler may learn that the client is gone again before accept returns: the mutex
	 * makes it wait until the connection is complete.
	 */
	pthread_mutex_lock(&server->mutex);
	/* M5: a FENCE since it came has not seen it in the list, or sees it there. */
	fenced = nam__membership_fenced(&server->membership, connection);
	if (fenced)
		reject_fenced(server, event->request);
	rc = fenced ? -NAM_E_FENCED : server->ops->accept(server->listener, event->request,
		&options, &reply, &connection->qp);
	if (!rc) {
		connection->next = server->connections;
		if (connection->next)
			connection->next->previous = connection;
		server->connections = connection;
		/* If it cannot, the client hears nothing over it until its time is out. */
		if (connection->mailbox && connection->mailbox->unreliable_qp)
			(void)server->ops->unreliable_qp_join(connection->mailbox->unreliable_qp,
			connection->qp,
				unreliable_qp);
		nam__mailbox_start(connection);
	}
	pthread_mutex_unlock(&server->mutex);
	nam__count(rc ? &server->refused[NAM_REFUSED_OTHER] : &server->accepted, 1);
	nam__log(server, NAM_LOG_DEBUG, rc ? "refused" : "connected",
		"peer=%s client=%u connections=%u",
		nam_log_quote(event->peer, peer, sizeof(peer)), client_id,
		atomic_load_explicit(&server->connections_count, memory_order_relaxed));
	if (rc)
		connection_free(connection);
}

static void
connection_closed(struct nam__connection *connection)
{
	struct nam_server *server = connection->handler->server;
	uint16_t client_id = connection->client_id, incarnation = connection->incarnation;
	bool session = connection->session;

	/* It is complete once this thread has had the mutex: see admit(). */
	pthread_mutex_lock(&server->mutex);
	pthread_mutex_unlock(&server->mutex);
	nam__log(server, NAM_LOG_DEBUG, "disconnected", "client=%u", client_id);
	nam__mailbox_stop(connection);
	/* The queue pair first: after it, nothing of the client's is under way. */
	server->ops->qp_destroy(connection->qp);
	nam__trees_connection_closed(&server->trees, connection);
	pthread_mutex_lock(&server->mutex);
	if (connection->previous)
		connection->previous->next = connection->next;
	else
		server->connections = connection->next;
	if (connection->next)
		connection->next->previous = connection->previous;
	pthread_mutex_unlock(&server->mutex);
	connection_free(connection);
	/* Its others go, too: it is not alive any more (M5). */
	if (session && NAM_GUARD(FENCE_FIRST))
		(void)nam__connections_fence(server, client_id, incarnation);
}

/* ---- running and ending ---------------------------------------------------------------------- */

int
nam_server_run(struct nam_server *server)
{
	while (!atomic_load_explicit(&server->stopping, memory_order_acquire)) {
		struct nam_cm_event event;
		int n = server->ops->listener_poll(server->listener, POLL_NS, &event);

		if (n < 0)
			return n;
		if (n > 0 && event.kind == NAM_CM_REQUEST)
			admit(server, &event);
		else
			nam__memory_trim(&server->memory, server->domain);
	}
	return 0;
}

void
nam_server_stop(struct nam_server *server)
{
	atomic_store_explicit(&server->stopping, true, memory_order_release);
	server->ops->listener_wake(server->listener);
}

void
nam_server_destroy(struct nam_server *server)
{
	if (!server)
		return;
	atomic_store_explicit(&server->stopping, true, memory_order_release);
	for (uint32_t i = 0; i < NAM__HANDLERS_MAX; i++)
		nam__handler_stop(&server->handlers[i]);
	while (server->connections)
		connection_closed(server->connections);
	/* Before the memory, which the kernel takes back at some GiB a second. */
	if (server->listener)
		server->ops->listener_close(server->listener);
	for (uint32_t i = 0; i < NAM__HANDLERS_MAX; i++)
		nam__handler_free(&server->handlers[i]);
	nam__objects_free(&server->stores);
	nam__objects_free(&server->trees);
	nam__membership_free(&server->membership);
	nam__catalog_free(&server->catalog);
	nam__allocator_free(&server->allocator);
	if (server->domain)
		nam__memory_close(&server->memory, server->domain);
	nam__proof_close(&server->proof);
	if (server->domain)
		server->ops->domain_close(server->domain);
	free(server->peers);
	(void)pthread_mutex_destroy(&server->mutex);
	free(server);
}

void
nam_server_describe(const struct nam_server *server, char *text, size_t size)
{
	const struct nam__memory *memory = &server->memory;
	char total[32], each[32], page[32];

	if (memory->transparent_huge)
		(void)snprintf(page, sizeof(page), "transparent huge");
	else
		(void)nam__bytes_text(1ull << memory->page_bytes_log2, page, sizeof(page));
	(void)snprintf(text, size, "%s in %u region%s of %s, %s pages, %u handler thread%s",
		nam__bytes_text(memory->bytes, total, sizeof(total)), memory->count,
		memory->count == 1 ? "" : "s",
		nam__bytes_text(memory->region_bytes, each, sizeof(each)), page,
		server->options.rpc_threads, server->options.rpc_threads == 1 ? "" : "s");
}
