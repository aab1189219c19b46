/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c -- see cluster.h. */
#include "cluster.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "memserver/memserver_internal.h"

#define AWAIT_NS 100000u
#define RUN_BYTES 4096u
#define LOCK_TIMEOUT_MS 50u
#define LOCK_TIMEOUT_DATAGRAM_MS 1000u	/* a request that is lost is sent again after 100 ms */

void
sim_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fputc('\n', stderr);
	exit(2);
}

static void
server_main(void *arg)
{
	struct sim_server *self = arg;
	struct nam_server_options options;
	struct nam_server *server;
	struct nam_diag diag = { "" };
	int rc;

	nam_server_options_init(&options);
	options.listen = self->address;
	options.keys = self->cluster->keys;
	options.id = self->id;
	options.memory_bytes = (self->cluster->regions + self->more_regions) *
		self->cluster->memory_bytes;
	options.region_bytes = self->cluster->memory_bytes;
	options.successor = self->successor;
	options.pages = NAM_PAGES_4K;
	options.rpc_threads = self->cluster->handlers;
	/* Real transactions would make runs differ between processors. */
	options.htm = self->cluster->locks ? NAM_HTM_OFF : NAM_HTM_STAND_IN;
	rc = nam_server_start(&options, &server, NULL, &diag);
	if (rc)
		sim_die("%s: %s", self->address, diag.text);
	/* Runs of a few nodes: all blocks of one are free now and then. */
	server->allocator.run_bytes = RUN_BYTES;
	self->server = server;
	rc = nam_server_run(server);
	/* It may have been killed, and another one been started. */
	if (self->server == server)
		self->server = NULL;
	if (rc && !nam_sim_zombie())
		sim_die("%s: %s", self->address, nam_err_text(rc));
	nam_server_destroy(server);
}

static void
process_start(struct sim_server *server)
{
	if (nam_sim_process_start(server->address + 4, server_main, server, &server->process))
		sim_die("cannot start %s", server->address);
}

static struct sim_server *
server_start(struct sim_cluster *cluster, uint32_t id)
{
	struct sim_server *server = &cluster->servers[cluster->count];

	if (cluster->count == SIM_SERVERS_MAX)
		sim_die("there are %u memory servers already", SIM_SERVERS_MAX);
	server->cluster = cluster;
	server->id = id;
	(void)snprintf(server->address, sizeof(server->address), "sim:server%u",
		cluster->count);
	cluster->count++;
	process_start(server);
	return server;
}

void
sim_cluster_start(struct sim_cluster *cluster, uint32_t servers, uint32_t handlers,
	uint64_t memory_bytes)
{
	memset(cluster, 0, sizeof(*cluster));
	cluster->handlers = handlers;
	cluster->memory_bytes = memory_bytes;
	cluster->regions = 2;
	while (cluster->count < servers) {
		const struct sim_server *server = server_start(cluster, cluster->count);
		size_t length = strlen(cluster->list);

		(void)snprintf(cluster->list + length, sizeof(cluster->list) - length, "%s%s",
			length ? "," : "", server->address);
	}
}

void
sim_cluster_htm(struct sim_cluster *cluster, uint64_t seed)
{
	cluster->locks = seed % 2;
	nam__htm_stand_in_seed = seed;
}

void
sim_cluster_begin(const struct nam_sim_options *options, struct sim_cluster *cluster,
	uint32_t servers, uint32_t handlers, uint64_t memory_bytes)
{
	if (nam_sim_begin(options))
		sim_die("the simulation cannot begin");
	sim_cluster_start(cluster, servers, handlers, memory_bytes);
}

static void
server_await(const struct sim_server *server)
{
	/* A zombie may come when the server has ended as well. */
	while (!server->server && nam_sim_process_alive(server->process) &&
		!nam_sim_process_ended(server->process))
		nam_sleep_ns(AWAIT_NS);
}

struct sim_server *
sim_cluster_add(struct sim_cluster *cluster, uint32_t id)
{
	struct sim_server *server = server_start(cluster, id);

	/* A region that becomes public again is no private one yet, and no index keeps one here. */
	server->more_regions = 1;
	server_await(server);
	return server;
}

struct sim_server *
sim_cluster_successor(struct sim_cluster *cluster, uint32_t id)
{
	struct sim_server *server = server_start(cluster, id);

	server->successor = true;
	server_await(server);
	return server;
}

/* The last one.  The memory of a process that was killed stays as it was. */
static const struct nam_server *
lead_of(const struct sim_cluster *cluster)
{
	for (uint32_t i = cluster->count; i-- > 0;) {
		const struct sim_server *one = &cluster->servers[i];

		if (!one->id && one->server && nam__leads(one->server))
			return one->server;
	}
	return NULL;
}

/* As the lead's view has it now; NULL: there is none, or no lead. */
static const struct nam_view_member *
member_of(const struct sim_server *server)
{
	const struct nam_server *lead = lead_of(server->cluster);

	return lead ? nam_view_find(&lead->membership.view.head, lead->membership.view.members,
		server->id) : NULL;
}

bool
sim_server_holds(const struct sim_server *server)
{
	const struct nam_view_member *member = member_of(server);

	if (!server->server)
		return false;
	return member ? member->boot == server->server->boot : !server->successor;
}

bool
sim_server_backs(const struct sim_server *server)
{
	const struct nam_view_member *member = member_of(server);

	return member && server->server && nam_view_backup_find(member, server->server->boot);
}

uint32_t
sim_servers_dead(const struct sim_cluster *cluster)
{
	uint32_t dead = 0;

	for (uint32_t i = 0; i < cluster->count; i++) {
		const struct sim_server *server = &cluster->servers[i];

		if (nam_sim_process_alive(server->process) || server->succeeded)
			continue;
		/* The memory of a process that was killed stays as it was. */
		if (server->server && atomic_load(&server->server->phase) == NAM_SERVER_MOVED)
			continue;
		dead += !server->successor || server->had_memory || sim_server_holds(server);
	}
	return dead;
}

void
sim_server_stop(struct sim_server *server)
{
	if (server->server && nam_sim_process_alive(server->process))
		nam_server_stop(server->server);
}

void
sim_server_restart(struct sim_server *server)
{
	nam_sim_process_kill(server->process);
	while (!nam_sim_process_ended(server->process))
		nam_sleep_ns(AWAIT_NS);
	server->server = NULL;
	process_start(server);
	server_await(server);
}

void
sim_cluster_await(const struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->count; i++)
		server_await(&cluster->servers[i]);
}

void
sim_cluster_stop(struct sim_cluster *cluster)
{
	/* The one that has started it may have ended since. */
	sim_cluster_await(cluster);
	for (uint32_t i = 0; i < cluster->count; i++)
		sim_server_stop(&cluster->servers[i]);
}

int
sim_client_try(const struct sim_cluster *cluster, const char *list, const char *name,
	struct nam_client **ret_client, struct nam_diag *diag)
{
	struct nam_client_options options;
	int rc;

	nam_client_options_init(&options);
	options.cluster = list;
	options.name = name;
	options.lock_timeout_ms = cluster->transport == NAM_TRANSPORT_DATAGRAM ?
		LOCK_TIMEOUT_DATAGRAM_MS : LOCK_TIMEOUT_MS;
	options.stack_bytes = 0;
	options.key = cluster->key;
	options.transport = cluster->transport;
	options.frame_bytes = cluster->frame_bytes;
	options.fetch_bytes = cluster->fetch_bytes;
	rc = nam_client_connect(&options, ret_client, diag);
	if (!rc)
		sim_client_mutate(*ret_client);
	return rc;
}

struct nam_client *
sim_client(const struct sim_cluster *cluster, const char *name)
{
	struct nam_client *client = NULL;
	struct nam_diag diag = { "" };
	int rc = sim_client_try(cluster, cluster->list, name, &client, &diag);

	if (!rc)
		return client;
	if (!nam_sim_zombie() && !nam_err_is(rc, NAM_E_FABRIC))
		sim_die("%s: %s", name, diag.text);
	return NULL;
}

struct nam_worker *
sim_worker(struct nam_client *client)
{
	struct nam_worker *worker = NULL;
	struct nam_diag diag = { "" };
	int rc = nam_worker_open(client, &worker, &diag);

	if (!rc)
		return worker;
	/* A client is fenced once its session connection has broken. */
	if (!nam_sim_zombie() && !nam_err_is(rc, NAM_E_FABRIC) && rc != -NAM_E_FENCED)
		sim_die("worker: %s", diag.text);
	return NULL;
}

struct nam_worker *
sim_come(const struct sim_cluster *cluster, const char *name, struct nam_client **ret_client)
{
	*ret_client = sim_client(cluster, name);
	return *ret_client ? sim_worker(*ret_client) : NULL;
}

void
sim_leave(struct nam_client **client, struct nam_worker **worker)
{
	if (*worker)
		nam_worker_close(*worker);
	*worker = NULL;
	if (*client)
		nam_client_close(*client);
	*client = NULL;
}

uint64_t
sim_cluster_used(const struct sim_cluster *cluster, struct nam_worker *worker)
{
	uint64_t used = 0;

	/* A worker may know the memory servers in another order, and not all of them. */
	for (uint32_t i = 0; i < cluster->count; i++) {
		struct nam_server_status status;
		int rc = nam_server_status_get(worker, i, &status);

		if (rc == -EINVAL)
			break;
		if (rc)
			sim_die("no status: %s", nam_worker_diag(worker));
		used += status.carved_bytes - status.free_bytes - status.waiting_bytes;
	}
	return used;
}
