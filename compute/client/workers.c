/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.c -- start and end of workers, and their queue pairs; what memory servers say is checked
 * (C1).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/auth/credentials.h"
#include "compute/remote/block_cache.h"
#include "compute/remote/epoch.h"
#include "compute/remote/lock_queue.h"
#include "compute/rpc/mailbox.h"
#include "compute/worker/notes.h"

#define STARTING_PAUSE_NS 20000000ull
#define WIRE_MAGIC_VERSION (NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION)

/* ---- queue pairs -------------------------------------------------------------------------- */

/* No connection: the reason, in the error codes of connect. */
static int
explain_refusal(const struct nam_client *client, struct nam__server *server, int rc,
	const struct nam_hello *reply, struct nam_diag *diag)
{
	struct nam_wire_welcome welcome;
	const char *why;

	server->absent = reply->absent;
	if (rc == -ECONNREFUSED && reply->bytes >= sizeof(welcome)) {
		memcpy(&welcome, reply->data, sizeof(welcome));
		if (welcome.magic_version != WIRE_MAGIC_VERSION)
			return nam_diag_set(diag, -NAM_E_FABRIC_VERSION,
				"the memory server at %s speaks version %u of the protocol, this "
				"program version %u; install the same release on both sides",
				server->address, welcome.magic_version & 0xffu, NAM_WIRE_VERSION);
		rc = welcome.status < 0 ? welcome.status : -NAM_E_FABRIC_PROTOCOL;
		if (nam_err_is(rc, NAM_E_FABRIC_DENIED))
			return nam__denial_explain(client, server, diag);
		if (rc == -NAM_E_FENCED)
			return nam__fenced_explain(client, diag);
		if (nam_err_is(rc, NAM_E_FABRIC_STARTING)) {
			if ((uint32_t)welcome.boot > server->ready_mib)
				server->ready_mib = (uint32_t)welcome.boot;
			if (!server->total_mib)
				server->total_mib = (uint32_t)(welcome.boot >> 32);
			return nam_diag_set(diag, rc, "the memory server at %s is starting: %u of "
				"%u MiB are populated; try again", server->address,
				server->ready_mib, server->total_mib);
		}
		why = rc == -EMFILE ? "it has no file descriptors left for clients; raise its "
			"limit (ulimit -n, or LimitNOFILE of its unit)" :
			rc == -EDQUOT ? "this peer has three quarters of all that it takes, or too "
			"many ask at once; try again, raise --rpc-threads of nam-memserver, or "
			"close some" :
			nam_err_is(rc, NAM_E_LIMIT) ? "it has as many as it takes; raise "
			"--rpc-threads of nam-memserver, or let fewer threads share it" : NULL;
		return nam_diag_set(diag, why ? -NAM_E_FABRIC_REFUSED : rc, "the memory server at "
			"%s refused the connection: %s", server->address, why ?: nam_err_text(rc));
	}
	if (rc == -ECONNREFUSED || rc == -ENOENT || rc == -ETIMEDOUT)
		rc = -NAM_E_FABRIC_CONNECT;
	/* If the provider has explained it, it knows the address best. */
	if (diag->text[0])
		return rc;
	return nam_diag_set(diag, rc,
		"cannot connect to the memory server at %s: %s; is it running (nam-memserver "
		"--listen %s)?",
		server->address, nam_err_text(rc), server->address);
}

/* The first welcome identifies a server; later ones must agree with it. */
static int
welcome_take(const struct nam_client *client, struct nam__server *server,
	const struct nam_hello *reply, struct nam_diag *diag)
{
	struct nam_wire_welcome welcome;

	if (reply->bytes < sizeof(welcome))
		return nam_diag_set(diag, -NAM_E_FABRIC_PROTOCOL,
			"the peer at %s is not a memory server: its handshake has %u bytes",
			server->address, reply->bytes);
	memcpy(&welcome, reply->data, sizeof(welcome));
	if (welcome.magic_version != WIRE_MAGIC_VERSION)
		return explain_refusal(client, server, -ECONNREFUSED, reply, diag);
	if (welcome.status || welcome.server_id >= NAM_SERVERS_MAX)
		return nam_diag_set(diag, -NAM_E_FABRIC_PROTOCOL,
			"the memory server at %s announces id %u, status %d; ids are 0 .. %u",
			server->address, welcome.server_id, welcome.status, NAM_SERVERS_MAX - 1);
	if (server->standby && !server->boot)
		return nam_diag_set(diag, -NAM_E_FABRIC_PEER_DEAD, "the memory server at %s is "
			"no backup any more", server->address);
	/* Before the slot is published: only one thread knows it. */
	if (!server->regions_count)
		server->regions_count = welcome.regions_count;
	if (!server->boot) {
		server->id = welcome.server_id;
		server->boot = welcome.boot;
		return 0;
	}
	if (welcome.boot != server->boot || welcome.server_id != server->id)
		return nam_diag_set(diag, -NAM_E_FABRIC_PEER_DEAD,
			"the memory server at %s was restarted since this client connected, and "
			"its memory is gone; connect anew",
			server->address);
	return 0;
}

/* Connect; a client that joins waits for a server that is starting, while that makes progress. */
static int
connect_ready(struct nam_worker *worker, uint32_t slot, const struct nam_hello *hello,
	const struct nam_qp_options *options, struct nam_hello *reply, struct nam_diag *diag)
{
	const struct nam_client *client = worker->client;
	struct nam__server *server = &client->servers[slot];
	uint64_t timeout_ns = client->options.timeout_ms * 1000000ull;
	uint64_t deadline = nam_now_ns() + timeout_ns;
	uint32_t ready_mib;
	int rc;

	for (;;) {
		ready_mib = server->ready_mib;
		rc = server->ops->connect(server->domain, server->address, hello, options, reply,
			&worker->qps[slot], diag);
		if (!rc)
			return 0;
		worker->qps[slot] = NULL;
		rc = explain_refusal(client, server, rc, reply, diag);
		/* ready_mib only grows, so the wait ends (C14). */
		if (server->ready_mib > ready_mib && server->ready_mib <= server->total_mib)
			deadline = nam_now_ns() + timeout_ns;
		if (!nam_err_is(rc, NAM_E_FABRIC_STARTING) || client->id || client->is_prober ||
			nam_now_ns() >= deadline)
			return rc;
		diag->text[0] = '\0';
		nam_sleep_ns(STARTING_PAUSE_NS);
	}
}

int
nam__worker_connect(struct nam_worker *worker, uint32_t slot, struct nam_diag *diag)
{
	struct nam_client *client = worker->client;
	struct nam__server *server = &client->servers[slot];
	/* By default messages within a machine do without its network card. */
	enum nam_transport transport = client->options.transport != NAM_TRANSPORT_DEFAULT ?
		client->options.transport :
		server->near ? NAM_TRANSPORT_FETCH : NAM_TRANSPORT_SRQ;
	struct nam_wire_hello wire = {
		.magic_version = WIRE_MAGIC_VERSION,
		.client_id = client->id,
		.incarnation = client->incarnation,
		.flags = client->is_prober ? NAM_HELLO_PROBE : 0,
	};
	struct nam_qp_options options = {
		.cq = worker->cq,
		.rq = worker->rq,
		.user = &worker->answering[slot],
		.colocated = server->colocated,
		.rights = client->reads_only ? NAM_MR_REMOTE_READ : NAM_MR_REMOTE,
	};
	struct nam_hello hello = { .bytes = sizeof(wire) }, reply = { .bytes = 0 };
	struct nam__shake shake = { .client = client, .server = server, .hello = &hello };
	struct nam_diag own = { "" };
	int rc;

	if (!diag)
		diag = &own;
	diag->text[0] = '\0';
	if (client->reads_only && !(client->caps & NAM_CAP_READER_SHARE))
		transport = NAM_TRANSPORT_SRQ;
	/* The epoch thread's worker, and a client without an id, needs only a few requests. */
	if (client->id && worker != client->epoch_worker && transport > NAM_TRANSPORT_SRQ &&
		!server->standby) {
		rc = nam__client_mailbox_new(worker, slot, transport, &hello, &wire.flags,
			&worker->mailboxes[slot]);
		if (rc)
			return nam_diag_set(diag, rc, "no memory that the memory server at %s may "
				"write to: %s", server->address, nam_err_text(rc));
		options.share = &worker->mailboxes[slot]->mr;
	}
	if (client->key) {
		wire.flags |= NAM_HELLO_KEY;
		options.answer = nam__shake_answer;
		options.welcome = nam__shake_finish;
		options.answer_arg = &shake;
	}
	memcpy(hello.data, &wire, sizeof(wire));
	rc = connect_ready(worker, slot, &hello, &options, &reply, diag);
	if (nam_err_is(rc, NAM_E_FABRIC_DENIED) && client->voucher_renew &&
		client->voucher_renew(client)) { /* SUSPENDS */
		diag->text[0] = '\0';
		rc = connect_ready(worker, slot, &hello, &options, &reply, diag);
	}
	if (!rc)
		rc = welcome_take(client, server, &reply, diag);
	worker->answering[slot].boot = server->boot;
	worker->answering[slot].entered = false;
	if (!rc && (wire.flags & NAM_HELLO_MAILBOX) &&
		nam__client_mailbox_welcome(worker->mailboxes[slot], worker->qps[slot], &reply))
		rc = nam_diag_set(diag, -NAM_E_FABRIC_PROTOCOL, "the memory server at %s has no "
			"mailbox for us; use the RPC transport srq", server->address);
	if (rc)
		nam__worker_disconnect(worker, slot);
	return rc;
}

static void
server_closed(struct nam_worker *worker, uint32_t slot)
{
	nam__rpc_server_closed(worker, slot);
	nam__one_way_closed(worker, slot);
	nam__client_mailbox_free(worker->mailboxes[slot]);
	worker->mailboxes[slot] = NULL;
}

void
nam__worker_disconnect(struct nam_worker *worker, uint32_t slot)
{
	struct nam_qp *qp = worker->qps[slot];

	worker->qps[slot] = NULL;
	if (qp)
		qp->ops->qp_destroy(qp);
	server_closed(worker, slot);
}

/* ---- life --------------------------------------------------------------------------------- */

static const struct nam__worker_ops ops = {
	.connect = nam__worker_connect,
	.drain = nam__rpc_drain,
	.server_closed = server_closed,
	.poll = nam__client_mailboxes_poll,
	.wait_max = nam__client_mailboxes_wait_max,
	.check_deadlines = nam__rpc_check_deadlines,
};

void
nam__worker_free(struct nam_worker *worker)
{
	struct nam__task *task;

	while ((task = SLIST_FIRST(&worker->tasks_made))) {
		SLIST_REMOVE_HEAD(&worker->tasks_made, made);
		nam_fiber_destroy(task->fiber);
		free(task);
	}
	nam_fiber_destroy(worker->thread_task.fiber);
	for (uint32_t i = 0; worker->qps && i < NAM_SERVERS_MAX; i++)
		if (worker->qps[i])
			worker->qps[i]->ops->qp_destroy(worker->qps[i]);
	if (worker->gate.qp)
		worker->gate.qp->ops->qp_destroy(worker->gate.qp);
	for (uint32_t i = 0; worker->mailboxes && i < NAM_SERVERS_MAX; i++)
		nam__client_mailbox_free(worker->mailboxes[i]);
	for (uint32_t i = 0; worker->one_way && i < NAM_SERVERS_MAX; i++)
		free(worker->one_way[i]);
	nam__block_cache_free(worker);
	nam__datagrams_close(worker);
	nam__peers_close(worker);
	if (worker->rq)
		worker->rq->ops->rq_destroy(worker->rq);
	if (worker->cq)
		worker->cq->ops->cq_destroy(worker->cq);
	nam__mirror_free(worker);
	nam__buffers_free(worker);
	free(worker->async_done);
	free(worker->qps);
	free(worker->mailboxes);
	free(worker->closing);
	free(worker->one_way);
	free(worker->answering);
	free(worker->drain);
	(void)pthread_mutex_destroy(&worker->limbo_mutex);
	free(worker->frame);
	free(worker);
}

static struct nam__answering *
answering_new(struct nam_worker *worker)
{
	struct nam__answering *answering = calloc(NAM_SERVERS_MAX, sizeof(*answering));

	for (uint32_t slot = 0; answering && slot < NAM_SERVERS_MAX; slot++) {
		answering[slot].worker = worker;
		answering[slot].slot = slot;
	}
	return answering;
}

int
nam__worker_new(struct nam_client *client, struct nam_worker **ret_worker, struct nam_diag *diag)
{
	struct nam_domain *domain = client->domains[0];
	struct nam_worker *worker;
	int rc = -ENOMEM;

	worker = aligned_alloc(_Alignof(struct nam_worker), sizeof(*worker));
	if (!worker)
		return nam_diag_set(diag, rc, "no memory for a worker");
	memset(worker, 0, sizeof(*worker));
	rc = -pthread_mutex_init(&worker->limbo_mutex, NULL);
	if (rc) {
		free(worker);
		return nam_diag_set(diag, rc, "no mutex for a worker");
	}
	worker->client = client;
	worker->ops = &ops;
	worker->gate.slot = NAM__GATES_OPEN;
	worker->rng = nam_rng_seed(nam_entropy());
	worker->alloc_next = (uint32_t)nam_rng_below(&worker->rng, client->servers_count);
	worker->bytes = sizeof(*worker);
	worker->current = &worker->thread_task;
	STAILQ_INIT(&worker->ready);
	TAILQ_INIT(&worker->slot_waiters);
	TAILQ_INIT(&worker->mirror.held);
	worker->thread_task.worker = worker;
	worker->thread_task.is_thread = true;
	worker->thread_task.counters = &worker->counters[NAM_OP_OTHER];

	worker->qps = calloc(NAM_SERVERS_MAX, sizeof(struct nam_qp *));
	worker->mailboxes = calloc(NAM_SERVERS_MAX, sizeof(struct nam__client_mailbox *));
	worker->one_way = calloc(NAM_SERVERS_MAX, sizeof(struct nam__one_way *));
	worker->answering = answering_new(worker);
	worker->closing = calloc(NAM_SERVERS_MAX, sizeof(struct nam_qp *));
	if (!worker->qps || !worker->mailboxes || !worker->one_way || !worker->answering ||
		!worker->closing)
		goto fail;
	rc = nam_fiber_adopt(&worker->thread_task.fiber);
	if (rc)
		goto fail;
	/* The queue may have less room, and less for each of the servers that come later. */
	rc = domain->ops->cq_create(domain, domain->limits.qp_depth * client->servers_count,
		&worker->cq);
	if (rc)
		goto fail;
	rc = domain->ops->rq_create(domain, worker->cq, NAM__RECV_BUFFERS, &worker->rq);
	if (rc)
		goto fail;
	worker->cq->user = worker;
	nam__notes_follow(worker);
	worker->in_post_order = domain->limits.in_post_order;
	worker->reads_only = client->reads_only;
	rc = nam__rpc_post_receives(worker);
	if (rc)
		goto fail;
	/* Other servers are connected on first use. */
	for (uint32_t slot = 0; slot < client->servers_count && !rc; slot++)
		if (client->servers[slot].usable)
			rc = nam__worker_connect(worker, slot, diag);
	if (rc)
		goto free_worker;
	*ret_worker = worker;
	return 0;

fail:
	if (worker->diag.text[0])
		nam_diag_set(diag, rc, "%s", worker->diag.text);
	else
		nam_diag_set(diag, rc, "no memory or no queues for a worker: %s", nam_err_text(rc));
free_worker:
	nam__worker_free(worker);
	return rc;
}

int
nam_worker_open(struct nam_client *client, struct nam_worker **ret_worker, struct nam_diag *diag)
{
	struct nam_worker *worker;
	int rc = nam__worker_new(client, &worker, diag);

	if (rc)
		return rc;
	/* A client without an id locks nothing.  A client that only reads locks nothing, either. */
	if (client->id && !client->is_prober && !client->reads_only)
		rc = nam__peers_open(worker, nam__lock_queue_arrived); /* SUSPENDS */
	if (rc) {
		nam__worker_free(worker);
		return nam_diag_set(diag, rc, "no memory for a worker's endpoint");
	}
	pthread_mutex_lock(&client->mutex);
	SLIST_INSERT_HEAD(&client->workers, worker, link);
	pthread_mutex_unlock(&client->mutex);
	*ret_worker = worker;
	return 0;
}

void
nam_worker_close(struct nam_worker *worker)
{
	struct nam_client *client = worker->client;
	uint64_t kept, unsure;

	/* Tasks that were left to end by themselves. */
	nam_worker_run(worker); /* SUSPENDS */
	nam__limbo_free(worker);
	nam__peers_withdraw(worker); /* SUSPENDS */
	nam__block_cache_return(worker, 0);
	nam__block_cache_bytes(worker, &kept, &unsure);
	atomic_fetch_add_explicit(&client->bytes_unsure, kept + unsure, memory_order_relaxed);
	pthread_mutex_lock(&client->mutex);
	SLIST_REMOVE(&client->workers, worker, nam_worker, link);
	pthread_mutex_unlock(&client->mutex);
	if (worker->async_pending != worker->async_done_count)
		atomic_store_explicit(&client->unfinished, true, memory_order_release);
	nam__worker_free(worker);
}
