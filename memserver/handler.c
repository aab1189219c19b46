/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handler.c -- one thread that answers requests: its own completion queue and receive queue.  A
 * receive buffer is posted again only when the reply has been sent.  So there is always a reply
 * buffer.
 */
#include <stdio.h>

#include "common/rpc/kv_rpc.h"
#include "mailbox.h"
#include "trees.h"

#define POLL_MAX 32
#define WAIT_NS 1000000000ull
#define BUFFER_BYTES ((size_t)2 * NAM_RPC_BYTES_MAX)
#define BUFFERS_BYTES (BUFFER_BYTES * NAM__HANDLER_BUFFERS)

static void
post_receive(struct nam__handler *handler, struct nam__buffer *buffer)
{
	struct nam_recv recv = {
		.buffer = buffer->request,
		.bytes = NAM_RPC_BYTES_MAX,
		.lkey = handler->mr.lkey,
		.context = buffer,
	};

	buffer->sending = NULL;
	/* The queue has room for every buffer. */
	(void)handler->rq->ops->rq_post(handler->rq, &recv, 1);
}

void
nam__handler_buffer_done(struct nam__handler *handler, struct nam__buffer *buffer)
{
	if (buffer->request)
		post_receive(handler, buffer);
	else
		buffer->sending = NULL;
}

static void
answer(struct nam__handler *handler, const struct nam_wc *wc)
{
	struct nam__buffer *buffer = wc->context;
	struct nam__connection *connection = wc->qp->user;
	struct nam_wr wr = {
		.op = NAM_WR_SEND,
		.flags = NAM_WR_SIGNALED,
		.lkey = handler->mr.lkey,
		.local = buffer->reply,
		.context = buffer,
	};

	/* A message may stand for a wake. */
	if (connection->mailbox)
		connection->mailbox->armed = false;
	if (connection->mailbox && wc->bytes == NAM_WAKE_BYTES) {
		connection->mailbox->wake_due = true;
		post_receive(handler, buffer);
		return;
	}
	wr.bytes = nam__dispatch(handler->server, connection, buffer->request, wc->bytes,
		buffer->reply);
	buffer->sending = connection;
	if (wr.bytes == 0 || wc->qp->ops->qp_post(wc->qp, &wr, 1))
		post_receive(handler, buffer);
}

static void
closed(struct nam__handler *handler, struct nam__connection *connection)
{
	/* Replies that were on their way to it will never complete. */
	for (uint32_t i = 0; i < NAM__HANDLER_BUFFERS; i++) {
		if (handler->buffers[i].sending == connection)
			nam__handler_buffer_done(handler, &handler->buffers[i]);
	}
	handler->closed(connection);
}

static void
fenced_close(struct nam__handler *handler)
{
	struct nam__connection *connection;

	/* Acquire: pairs with nam__connections_fence(). */
	if (!atomic_exchange_explicit(&handler->fencing, false, memory_order_acquire))
		return;
	while ((connection = nam__connection_fenced(handler)))
		closed(handler, connection);
}

static void
handler_main(void *arg)
{
	struct nam__handler *handler = arg;
	struct nam_wc wcs[POLL_MAX];

	while (!atomic_load_explicit(&handler->server->stopping, memory_order_acquire)) {
		int n = handler->cq->ops->cq_poll(handler->cq, wcs, POLL_MAX);
		bool busy = false;

		for (int i = 0; i < n; i++) {
			busy |= wcs[i].op != NAM_WR_WRITE;
			switch (wcs[i].op) {
			case NAM_WC_RECV:
				answer(handler, &wcs[i]);
				break;
			case NAM_WR_SEND:
				nam__handler_buffer_done(handler, wcs[i].context);
				break;
			case NAM_WR_WRITE:
				/* A reply's; if it failed, the connection will close. */
				((struct nam__mailbox_slot *)wcs[i].context)->state =
					NAM__SLOT_IDLE;
				break;
			default:
				break;
			}
		}
		/* Last: others may be of an unreliable queue pair that ends with its connection. */
		for (int i = 0; i < n; i++)
			if (wcs[i].op == NAM_WC_CLOSED)
				closed(handler, wcs[i].qp->user);
		busy |= nam__mailboxes_poll(handler);
		if (__builtin_expect(atomic_load_explicit(&handler->fencing,
				memory_order_relaxed), 0))
			fenced_close(handler);
		nam__objects_idle(&handler->server->trees, handler->server);
		nam__objects_idle(&handler->server->stores, handler->server);
		if (busy)
			nam__mailboxes_busy(handler);
		else if (nam__mailboxes_may_sleep(handler) && n == 0)
			(void)handler->cq->ops->cq_wait(handler->cq, WAIT_NS);
	}
}

static int
make_buffers(struct nam__handler *handler, struct nam_domain *domain, struct nam_diag *diag)
{
	handler->buffers = calloc(NAM__HANDLER_BUFFERS, sizeof(handler->buffers[0]));
	handler->memory = aligned_alloc(4096, BUFFERS_BYTES);
	handler->scratch = malloc(NAM__TREE_SCRATCH_BYTES);
	handler->value = malloc(NAM_RPC_KV_VALUE_BYTES_MAX);
	handler->frame = malloc(NAM_FRAME_BYTES_MAX);
	handler->reply = malloc(NAM_RPC_BYTES_MAX);
	if (!handler->buffers || !handler->memory || !handler->scratch || !handler->value ||
		!handler->frame || !handler->reply)
		return nam_diag_set(diag, -ENOMEM, "no memory for a handler's buffers");
	for (uint32_t i = 0; i < NAM__HANDLER_BUFFERS; i++) {
		handler->buffers[i].request = handler->memory + i * BUFFER_BYTES;
		handler->buffers[i].reply = handler->buffers[i].request + NAM_RPC_BYTES_MAX;
	}
	return domain->ops->mr_register(domain, handler->memory, BUFFERS_BYTES, NAM_MR_LOCAL,
		&handler->mr, diag);
}

/* On failure the caller frees the rest. */
int
nam__handler_start(struct nam__handler *handler, struct nam_server *server, unsigned number,
	void (*closed_fn)(struct nam__connection *connection), struct nam_diag *diag)
{
	const struct nam_fabric_ops *ops = server->ops;
	char name[16];
	int rc;

	handler->server = server;
	handler->closed = closed_fn;
	rc = make_buffers(handler, server->domain, diag);
	if (rc)
		return rc;
	/* Room for all replies, even if some clients do not take theirs. */
	rc = ops->cq_create(server->domain, 2 * NAM__HANDLER_BUFFERS +
		NAM__CONNECTION_REQUESTS *
			(NAM__HANDLER_CONNECTIONS_MAX + NAM__PROBES_MAX), &handler->cq);
	if (rc)
		return nam_diag_set(diag, rc, "completion queue: %s", nam_err_text(rc));
	rc = ops->rq_create(server->domain, handler->cq, NAM__HANDLER_BUFFERS, &handler->rq);
	if (rc)
		return nam_diag_set(diag, rc, "receive queue: %s", nam_err_text(rc));
	for (uint32_t i = 0; i < NAM__HANDLER_BUFFERS; i++)
		post_receive(handler, &handler->buffers[i]);
	(void)snprintf(name, sizeof(name), "nam-handler-%u", number % 100);
	rc = nam_thread_start(name, handler_main, handler, &handler->thread);
	return rc ? nam_diag_set(diag, rc, "handler thread: %s", nam_err_text(rc)) : 0;
}

void
nam__handler_stop(struct nam__handler *handler)
{
	if (!handler->thread)
		return;
	handler->cq->ops->cq_wake(handler->cq);
	nam_thread_join(handler->thread);
	handler->thread = NULL;
}

void
nam__handler_free(struct nam__handler *handler)
{
	if (handler->rq)
		handler->rq->ops->rq_destroy(handler->rq);
	if (handler->cq)
		handler->cq->ops->cq_destroy(handler->cq);
	if (handler->mr.base)
		handler->server->ops->mr_release(handler->server->domain, &handler->mr);
	free(handler->memory);
	free(handler->frame);
	free(handler->reply);
	free(handler->scratch);
	free(handler->value);
	free(handler->buffers);
}
