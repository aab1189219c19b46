/* SPDX-License-Identifier: Apache-2.0 */
/* host.c -- see host.h. */
#include "host.h"

#include "common/cluster.h"

#define IDLE_NS 60000000000ull		/* without a connection: nothing moves to it any more */
/* UNHOST: a mover that is done has let its client go, and others come.  A late UNHOST ends none. */
#define LEFT_NS 5000000000ull

/* With the mutex of its host, but for what its thread alone uses. */
struct nam__hosted {
	LIST_ENTRY(nam__hosted) link;
	struct nam_server *host;
	struct nam_server_options options;
	struct nam_thread *thread;
	struct nam_server *server;	/* NULL: it is not made yet, or has ended */
	_Atomic uint64_t idle_ns;	/* since when; its thread sets it */
	uint32_t number;		/* of its address; 0: it has none yet */
	int rc;				/* why it did not start; the next HOST says so */
	bool ready;
	bool ending;			/* it is told to end */
	bool ended;			/* its thread is about to end */
};

static bool
number_is_free(const struct nam__hosted *hosted, uint32_t number)
{
	const struct nam__hosted *other;

	LIST_FOREACH(other, &hosted->host->hosted, link)
		if (other != hosted && other->number == number)
			return false;
	return true;
}

/* The next address that none of this process has; 0: none is left. */
static uint32_t
number_take(struct nam__hosted *hosted, uint32_t after)
{
	uint32_t number = after + 1;

	NAM__SCOPED_LOCK(&hosted->host->mutex);
	while (number < NAM_MOVE_HOSTED_MAX && !number_is_free(hosted, number))
		number++;
	hosted->number = number < NAM_MOVE_HOSTED_MAX ? number : 0;
	return hosted->number;
}

/* The hosted server's thread is about to end: 0, or why it did not start. */
static void
ended_set(struct nam__hosted *hosted, int rc)
{
	NAM__SCOPED_LOCK(&hosted->host->mutex);
	hosted->rc = rc;
	hosted->ended = true;
}

/* False: it is to end. */
static bool
server_set(struct nam__hosted *hosted, struct nam_server *server, bool ready)
{
	NAM__SCOPED_LOCK(&hosted->host->mutex);
	hosted->server = server;
	hosted->ready = ready;
	return !hosted->ending;
}

/* At the first address that is free. */
static int
open_at_free(struct nam__hosted *hosted, struct nam_server **ret, struct nam_diag *diag)
{
	struct nam_diag notice;
	char listen[128];
	int rc = -NAM_E_FABRIC_ADDRESS_IN_USE;

	for (uint32_t number = 0; nam_err_is(rc, NAM_E_FABRIC_ADDRESS_IN_USE);) {
		struct nam_server *server;

		number = number_take(hosted, number);
		if (!number)
			return rc;
		rc = nam__cluster_address_beside(hosted->host->listen, number, listen,
			sizeof(listen));
		if (rc)
			return nam_diag_set(diag, rc, "no address is left beside %s",
				hosted->host->listen);
		hosted->options.listen = listen;
		rc = hosted->host->life->make(&hosted->options, &server, diag);
		if (rc)
			return rc;
		server->host = hosted;
		rc = server_set(hosted, server, false) ?
			server->life->open(server, &notice, diag) : -ECANCELED;
		if (!rc) {
			*ret = server;
			return 0;
		}
		(void)server_set(hosted, NULL, false);
		server->life->destroy(server);
	}
	return rc;
}

static void
hosted_main(void *arg)
{
	struct nam__hosted *hosted = arg;
	struct nam_diag diag = { "" };
	struct nam_server *server = NULL;
	char text[600];
	int rc = open_at_free(hosted, &server, &diag);

	if (rc) {
		nam__log(hosted->host, NAM_LOG_WARN, "hosting", "server=%u cause=%s",
			hosted->options.id, nam_log_quote(diag.text, text, sizeof(text)));
		ended_set(hosted, rc);
		return;
	}
	nam__log(server, NAM_LOG_INFO, "hosting", "server=%u listen=%s", server->options.id,
		nam_log_quote(server->listen, text, sizeof(text)));
	atomic_store(&hosted->idle_ns, nam_now_ns());
	if (server_set(hosted, server, true))
		rc = server->life->run(server);
	(void)server_set(hosted, NULL, false);
	nam__log(server, NAM_LOG_INFO, "hosted", "server=%u end=%s", server->options.id,
		rc ? nam_err_text(rc) : "expected");
	server->life->destroy(server);
	ended_set(hosted, 0);
}

bool
nam__hosted_is_over(struct nam_server *server)
{
	struct nam__hosted *hosted = server->host;
	uint64_t now = nam_now_ns();

	if (!hosted)
		return false;
	if (atomic_load(&server->connections_count))
		atomic_store(&hosted->idle_ns, now);
	else if (atomic_load(&server->phase) == NAM_SERVER_MOVED)
		return true;
	else if (atomic_load(&server->phase) != NAM_SERVER_SERVES)
		return now - atomic_load(&hosted->idle_ns) > IDLE_NS;
	return false;
}

/* With the mutex, which its thread needs to end. */
static void
join(struct nam_server *server, struct nam__hosted *hosted)
{
	pthread_mutex_unlock(&server->mutex);
	nam_thread_join(hosted->thread);
	pthread_mutex_lock(&server->mutex);
}

/* Free those that have ended, but keep why the one of that id did not start. */
static void
reap(struct nam_server *server, uint32_t id)
{
	struct nam__hosted *hosted = LIST_FIRST(&server->hosted);

	while (hosted) {
		if (!hosted->ended || (hosted->rc && hosted->options.id == id)) {
			hosted = LIST_NEXT(hosted, link);
			continue;
		}
		LIST_REMOVE(hosted, link);
		join(server, hosted);
		free(hosted);
		hosted = LIST_FIRST(&server->hosted);
	}
}

static struct nam__hosted *
find(const struct nam_server *server, uint32_t id)
{
	struct nam__hosted *hosted;

	LIST_FOREACH(hosted, &server->hosted, link)
		if (hosted->options.id == id)
			break;
	return hosted;
}

static uint64_t
spare_left(const struct nam_server *server)
{
	uint64_t taken = 0, all = server->options.spare_bytes;
	const struct nam__hosted *hosted;

	LIST_FOREACH(hosted, &server->hosted, link)
		taken += hosted->ended ? 0 : hosted->options.memory_bytes;
	return taken < all ? all - taken : 0;
}

/* The caller holds the mutex. */
static int
add(struct nam_server *server, const struct nam_rpc_move_host *request)
{
	struct nam__hosted *hosted;
	struct nam_diag diag;
	int rc;

	if (request->memory_bytes > spare_left(server))
		return -EDQUOT;
	hosted = calloc(1, sizeof(*hosted));
	if (!hosted)
		return -ENOMEM;
	hosted->host = server;
	hosted->options = server->options;
	hosted->options.id = request->id;
	hosted->options.successor = true;
	hosted->options.memory_bytes = request->memory_bytes;
	hosted->options.region_bytes = request->region_bytes;
	hosted->options.spare_bytes = 0;
	hosted->options.starting = NULL;
	rc = server->life->check(&hosted->options, &diag) ?:
		nam_thread_start("nam-hosted", hosted_main, hosted, &hosted->thread);
	if (rc) {
		free(hosted);
		return rc;
	}
	LIST_INSERT_HEAD(&server->hosted, hosted, link);
	return 0;
}

static void
describe(const struct nam__hosted *hosted, struct nam_rpc_move_hosted *ret)
{
	struct nam_server *server = hosted->server;

	*ret = (struct nam_rpc_move_hosted){
		.total_bytes = hosted->options.memory_bytes,
		.number = hosted->number,
		.ready = hosted->ready,
	};
	if (server) {
		ret->boot = server->boot;
		ret->ready_bytes = atomic_load(&server->populate.bytes);
		ret->phase = (uint16_t)atomic_load(&server->phase);
	}
}

int
nam__hosted_start(struct nam_server *server, const struct nam_rpc_move_host *request,
	struct nam_rpc_move_hosted *ret)
{
	struct nam__hosted *hosted;
	int rc = 0;

	if (server->host)
		return -EDQUOT;
	if (request->id == server->options.id || request->id >= NAM_SERVERS_MAX)
		return -EEXIST;
	NAM__SCOPED_LOCK(&server->mutex);
	reap(server, request->id);
	hosted = find(server, request->id);
	if (!hosted)
		rc = add(server, request);
	else if (hosted->ended)
		rc = hosted->rc;
	else if (hosted->options.memory_bytes != request->memory_bytes ||
		hosted->options.region_bytes != request->region_bytes)
		rc = -EEXIST;
	/* The next one tries anew. */
	if (hosted && hosted->ended)
		hosted->rc = 0;
	hosted = find(server, request->id);
	if (!rc)
		describe(hosted, ret);
	return rc;
}

/* The caller holds the mutex. */
static void
end(struct nam__hosted *hosted)
{
	hosted->ending = true;
	if (!hosted->server)
		return;
	atomic_store(&hosted->server->stopping, true);
	/* While it starts it looks by itself. */
	if (hosted->ready)
		hosted->server->life->stop(hosted->server);
}

int
nam__hosted_end(struct nam_server *server, const struct nam_rpc_move_host *request)
{
	struct nam__hosted *hosted;

	NAM__SCOPED_LOCK(&server->mutex);
	reap(server, NAM_SERVERS_MAX);
	hosted = find(server, request->id);
	if (!hosted)
		return 0;
	if (hosted->server && hosted->server->boot != request->hosted)
		return -NAM_E_CLUSTER;
	if (!hosted->server || (!atomic_load(&hosted->server->connections_count) &&
			nam_now_ns() - atomic_load(&hosted->idle_ns) >= LEFT_NS))
		end(hosted);
	return -EAGAIN;
}

void
nam__hosted_end_all(struct nam_server *server)
{
	struct nam__hosted *hosted;

	NAM__SCOPED_LOCK(&server->mutex);
	LIST_FOREACH(hosted, &server->hosted, link)
		end(hosted);
	while ((hosted = LIST_FIRST(&server->hosted)) != NULL) {
		join(server, hosted);
		LIST_REMOVE(hosted, link);
		free(hosted);
	}
}

struct nam_server *
nam__hosted_host(struct nam_server *server)
{
	return server->host ? server->host->host : server;
}

uint64_t
nam__hosted_spare(struct nam_server *server)
{
	NAM__SCOPED_LOCK(&server->mutex);
	return spare_left(server);
}

int
nam__hosted_each(struct nam_server *server, int (*fn)(struct nam_server *hosted, void *arg),
	void *arg)
{
	struct nam__hosted *hosted;
	int rc = 0;

	NAM__SCOPED_LOCK(&server->mutex);
	LIST_FOREACH(hosted, &server->hosted, link)
		if (!rc && hosted->ready && hosted->server)
			rc = fn(hosted->server, arg);
	return rc;
}
