/* SPDX-License-Identifier: Apache-2.0 */
/* server.c -- a memory server: its parts put together. */
#include "server.h"

#include <stdio.h>

#include "common/cluster.h"
#include "common/fabric/register.h"
#include "admission/admit.h"
#include "mailbox.h"
#include "move/host.h"
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
	if (!options->keys && !options->insecure && nam__address_is_reached(options->listen))
		return nam_diag_set(diag, -EINVAL, "keys: other hosts reach '%s', and without keys "
			"each of them may read and change all memory. Make a key file with `namctl "
			"key new`, or, where every host is trusted, set insecure",
			options->listen);
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
	return check_options(options, diag) ?: nam__memory_check(options, diag);
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

	if (rc) {
		nam__log(server, NAM_LOG_WARN, "region_private", "region=%u cause=%s", region,
			nam_log_quote(diag.text, cause, sizeof(cause)));
		return rc;
	}
	nam__log(server, NAM_LOG_INFO, kind == NAM_MEMORY_PUBLIC ? "region_public" :
		"region_read_only", "region=%u bytes=%llu", region,
		(unsigned long long)server->memory.mrs[region].bytes);
	nam__noted_region(server, region);
	return 0;
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
	rc = rc ?: nam__catalog_init(&server->catalog);
	rc = rc ?: nam__membership_init(&server->membership, meta);
	server->membership.notes_lost = &server->noted.lost;
	atomic_init(&server->membership.view.is_standby, server->options.successor && meta);
	rc = rc ?: nam__objects_init(&server->trees, NAM__CATALOG_MAX, nam__tree_free);
	rc = rc ?: nam__objects_init(&server->stores, NAM__STORES_MAX, nam__store_free);
	return rc ? nam_diag_set(diag, rc, "services: %s", nam_err_text(rc)) : 0;
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
		if (rc == NAM_LISTENER_EVENT)
			nam__refuse_starting(server, &event);
		else if (rc < 0)
			nam_sleep_ns(STARTING_POLL_NS);
		if (atomic_load(&server->stopping) || (options->starting &&
				options->starting(atomic_load(&server->populate.bytes),
				options->memory_bytes)))
			atomic_store(&server->populate.cancelled, true);
	}
	nam_thread_join(thread);
	server->domain->populate = NULL;
	return opening.rc;
}

static int
server_open(struct nam_server *server, struct nam_diag *notice, struct nam_diag *diag)
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

	if (notice)
		notice->text[0] = '\0';
	if (rc)
		return rc;
	(void)snprintf(server->listen, sizeof(server->listen), "%s", server->options.listen);
	server->options.listen = server->listen;
	server->ops = nam_fabric_find(server->listen, NULL);
	/* The address first: of two servers, the second one must not take the host's memory. */
	rc = nam__auth_open(server, diag) ?:
		server->ops->domain_open(&fabric, &server->domain, diag) ?:
		server->ops->listen(server->domain, server->listen, &server->listener, diag);
	if (rc)
		return rc;
	server->listener->dropped = nam__auth_dropped;
	server->listener->owner = server;
	rc = open_memory(server, notice, diag);
	if (rc)
		return rc;
	/* Without it there is no local access; the server serves all the same. */
	if (server->domain->limits.regions_are_files)
		(void)!nam__proof_open(&server->proof);
	/* A lock costs less to the only thread that takes it. */
	if (server->options.htm == NAM_HTM_STAND_IN)
		server->htm = NAM__HTM_STAND_IN;
	else if (server->options.htm == NAM_HTM_ON ||
		(server->options.htm == NAM_HTM_AUTO && server->options.rpc_threads > 1))
		server->htm = nam__htm_available();
	nam__log(server, NAM_LOG_INFO, "htm", "kind=%s", nam__htm_name(server->htm));
	rc = start_services(server, diag);
	for (uint32_t i = 0; i < server->options.rpc_threads && !rc; i++)
		rc = nam__handler_start(&server->handlers[i], server, i, connection_closed,
			diag);
	return rc;
}

static const struct nam__life life;

static int
server_new(const struct nam_server_options *options, struct nam_server **ret_server,
	struct nam_diag *diag)
{
	struct nam_server *server = calloc(1, sizeof(*server));
	int rc;

	if (!server)
		return nam_diag_set(diag, -ENOMEM, "no memory");
	server->options = *options;
	server->life = &life;
	server->proof.fd = -1;
	server->boot = nam_entropy() | 1;
	server->started_ns = nam_now_ns();
	atomic_init(&server->phase, options->successor ? NAM_SERVER_SUCCESSOR : NAM_SERVER_SERVES);
	atomic_init(&server->work_clock, 1);
	rc = -pthread_mutex_init(&server->mutex, NULL);
	if (!rc) {
		rc = nam__noted_init(&server->noted);
		if (rc)
			(void)pthread_mutex_destroy(&server->mutex);
	}
	if (rc) {
		free(server);
		return nam_diag_set(diag, rc, "mutex: %s", nam_err_text(rc));
	}
	*ret_server = server;
	return 0;
}

int
nam_server_start(const struct nam_server_options *options, struct nam_server **ret_server,
	struct nam_diag *notice, struct nam_diag *diag)
{
	struct nam_server *server;
	int rc = server_new(options, &server, diag);

	if (rc)
		return rc;
	rc = server_open(server, notice, diag);
	if (rc)
		nam_server_destroy(server);
	else
		*ret_server = server;
	return rc;
}

static void
connection_closed(struct nam__connection *connection)
{
	struct nam_server *server = connection->handler->server;
	uint16_t client_id = connection->client_id, incarnation = connection->incarnation;
	bool session = connection->session;

	/* The connection is complete once this thread has had the mutex: see nam__admit(). */
	pthread_mutex_lock(&server->mutex);
	pthread_mutex_unlock(&server->mutex);
	nam__log(server, NAM_LOG_DEBUG, "disconnected", "client=%u", client_id);
	nam__mailbox_stop(connection);
	/* The queue pair first: after it, nothing of the client's is under way. */
	server->ops->qp_destroy(connection->qp);
	nam__trees_connection_closed(&server->trees, connection);
	nam__noted_connection_closed(connection);
	pthread_mutex_lock(&server->mutex);
	LIST_REMOVE(connection, link);
	pthread_mutex_unlock(&server->mutex);
	nam__connection_free(connection);
	/* The client's other connections go, too: it is not alive any more (M5). */
	if (session)
		(void)nam__connections_fence(server, client_id, incarnation, NULL);
}

int
nam_server_run(struct nam_server *server)
{
	while (!atomic_load_explicit(&server->stopping, memory_order_acquire) &&
		!nam__hosted_is_over(server)) {
		struct nam_cm_event event;
		int n = server->ops->listener_poll(server->listener, POLL_NS, &event);

		if (n < 0)
			return n;
		if (n == NAM_LISTENER_EVENT)
			nam__admit(server, &event);
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
	nam__hosted_end_all(server);
	while (!LIST_EMPTY(&server->connections))
		connection_closed(LIST_FIRST(&server->connections));
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
	nam__auth_close(server);
	nam__noted_free(&server->noted);
	(void)pthread_mutex_destroy(&server->mutex);
	free(server);
}

static const struct nam__life life = {
	.check = nam_server_check,
	.make = server_new,
	.open = server_open,
	.run = nam_server_run,
	.stop = nam_server_stop,
	.destroy = nam_server_destroy,
};

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
