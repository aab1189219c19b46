/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_call.c -- one request, one reply: over SEND and the worker's shared receive queue, or by way
 * of a postbox (postbox.c).
 *
 * A call lives on its caller's stack until the reply, the deadline or the server's end; a message
 * lives in registered memory until its completion.  Either may end first: each unhooks the other.
 */
#include <errno.h>
#include <string.h>

#include "compute_internal.h"

/* The context of a SEND or of a receive buffer, itself a worker's buffer. */
struct nam__message {
	uint8_t *bytes;			/* NAM_RPC_BYTES_MAX of them, registered */
	uint32_t lkey;
	bool is_receive;
	struct nam__call *call;		/* SEND: NULL once the call has ended */
};

/* ---- messages ----------------------------------------------------------------------------- */

static struct nam__message *
message_new(struct nam_worker *worker)
{
	struct nam__message *message = nam_buffer_take(worker, sizeof(*message));

	if (!message)
		return NULL;
	memset(message, 0, sizeof(*message));
	message->bytes = nam_buffer_take(worker, NAM_RPC_BYTES_MAX);
	if (!message->bytes) {
		nam_buffer_give(worker, message, sizeof(*message));
		return NULL;
	}
	message->lkey = nam__buffer_lkey(worker, message->bytes);
	return message;
}

static void
message_free(struct nam_worker *worker, struct nam__message *message)
{
	nam_buffer_give(worker, message->bytes, NAM_RPC_BYTES_MAX);
	nam_buffer_give(worker, message, sizeof(*message));
}

static int
receive_post(struct nam_worker *worker, struct nam__message *message)
{
	struct nam_recv recv = {
		.buffer = message->bytes,
		.bytes = NAM_RPC_BYTES_MAX,
		.lkey = message->lkey,
		.context = (void *)((uintptr_t)message | NAM__CONTEXT_MESSAGE),
	};

	return worker->rq->ops->rq_post(worker->rq, &recv, 1);
}

int
nam__rpc_post_receives(struct nam_worker *worker)
{
	for (unsigned i = 0; i < NAM__RECV_BUFFERS; i++) {
		struct nam__message *message = message_new(worker);
		int rc;

		if (!message)
			return -ENOMEM;
		message->is_receive = true;
		rc = receive_post(worker, message);
		if (rc) {
			message_free(worker, message);
			return rc;
		}
	}
	return 0;
}

/* ---- the ends of a call ------------------------------------------------------------------- */

void
nam__call_end(struct nam_worker *worker, struct nam__call *call, int rc)
{
	struct nam__call **link = &worker->calls;

	while (*link != call)
		link = &(*link)->next;
	*link = call->next;
	if (call->message)
		call->message->call = NULL;
	if (call->letter)
		call->letter->call = NULL;
	call->rc = rc;
	call->done = true;
	if (!call->task)
		return;
	call->task->pending = 0;
	nam__task_ready(worker, call->task);
}

static struct nam__call *
call_find(const struct nam_worker *worker, uint64_t id)
{
	struct nam__call *call = worker->calls;

	while (call && call->id != id)
		call = call->next;
	return call;
}

/*
 * Late replies to calls that have ended, and messages that answer nothing, are dropped: then the
 * deadline speaks.
 */
void
nam__rpc_reply(struct nam_worker *worker, uint32_t slot, const void *message, uint32_t bytes)
{
	const struct nam_rpc_header *header = message;
	struct nam__call *call;
	int rc;

	if (bytes < sizeof(*header))
		return;
	call = call_find(worker, header->id);
	/* An id is only as good as the connection that it came over. */
	if (!call || call->slot != slot)
		return;
	rc = nam_rpc_check(message, bytes);
	if (!rc && header->type != call->type)
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (!rc)
		rc = header->status;
	if (!rc && header->body_bytes > call->body_size)
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (!rc) {
		call->body_bytes = header->body_bytes;
		if (header->body_bytes)
			memcpy(call->body, header + 1, header->body_bytes);
	}
	nam__call_end(worker, call, rc);
}

/* A message has arrived: for whom, says its id. */
static void
reply_take(struct nam_worker *worker, const struct nam_wc *wc, const uint8_t *bytes)
{
	const struct nam_rpc_header *header = (const void *)bytes;
	struct nam__call *call = wc->bytes < sizeof(*header) ? NULL : call_find(worker, header->id);

	if (wc->qp && wc->bytes == NAM_RING_BYTES)
		nam__postbox_rung(worker->postboxes[(uintptr_t)wc->qp->user]);
	if (!call || !wc->qp)
		return;
	if (call->slot == (uint32_t)(uintptr_t)wc->qp->user)
		call->counters->bytes_in += wc->bytes;
	nam__rpc_reply(worker, (uint32_t)(uintptr_t)wc->qp->user, bytes, wc->bytes);
}

void
nam__rpc_completed(struct nam_worker *worker, const struct nam_wc *wc)
{
	struct nam__message *message = (struct nam__message *)((uintptr_t)wc->context &
						     ~(uintptr_t)NAM__CONTEXT_MASK);

	if (message->is_receive) {
		if (!wc->status)
			reply_take(worker, wc, message->bytes);
		/*
		 * There is room: this buffer has just left the queue.  Should a provider fail all
		 * the same, the buffer is lost; at worst a reply finds none and its call times
		 * out.
		 */
		if (receive_post(worker, message))
			message_free(worker, message);
		return;
	}
	if (message->call) {
		message->call->message = NULL;
		if (wc->status)
			nam__call_end(worker, message->call, wc->status);
	}
	message_free(worker, message);
}

void
nam__rpc_server_closed(struct nam_worker *worker, uint32_t slot)
{
	struct nam__call *call, *next;

	for (call = worker->calls; call; call = next) {
		next = call->next;
		if (call->slot == slot)
			nam__call_end(worker, call, -NAM_E_FABRIC_PEER_DEAD);
	}
}

void
nam__rpc_check_deadlines(struct nam_worker *worker)
{
	struct nam__call *call, *next;
	uint64_t now = nam_now_ns();

	for (call = worker->calls; call; call = next) {
		next = call->next;
		if (call->task && call->deadline_ns <= now)
			nam__call_end(worker, call, -NAM_E_FABRIC_TIMEOUT);
	}
}

/* ---- the call ----------------------------------------------------------------------------- */

static bool
server_dead(const struct nam_worker *worker, uint32_t slot)
{
	/* Acquire: pairs with the worker that saw the connection close. */
	return !worker->qps[slot] ||
	       atomic_load_explicit(&worker->client->servers[slot].dead, memory_order_acquire);
}

static uint64_t
timeout_at(const struct nam_worker *worker)
{
	return nam_now_ns() + worker->client->options.rpc_timeout_ms * 1000000ull;
}

static int
message_post(struct nam_worker *worker, struct nam__call *call, uint32_t bytes)
{
	struct nam_domain *domain = worker->client->servers[call->slot].domain;
	struct nam_wr wr = {
		.op = NAM_WR_SEND,
		.flags = NAM_WR_SIGNALED,
		.bytes = bytes,
		.lkey = call->message->lkey,
		.local = call->message->bytes,
		.context = (void *)((uintptr_t)call->message | NAM__CONTEXT_MESSAGE),
	};
	int rc;

	if (bytes <= domain->limits.inline_bytes)
		wr.flags |= NAM_WR_INLINE;
	/* A full queue pair empties as its requests complete, which needs no other task to run. */
	while ((rc = worker->qp_post(worker->qps[call->slot], &wr, 1)) == -NAM_E_FABRIC_FULL) {
		nam__poll(worker);
		if (nam_now_ns() >= call->deadline_ns)
			return -NAM_E_FABRIC_TIMEOUT;
		if (server_dead(worker, call->slot))
			return -NAM_E_FABRIC_PEER_DEAD;
	}
	if (rc)
		return rc;
	call->counters->doorbells++;
	call->counters->work_requests++;
	call->counters->bytes_out += bytes;
	return 0;
}

/* Say what a person needs to know about failures of the fabric; other codes the caller explains. */
static int
call_explain(struct nam_worker *worker, const struct nam__call *call)
{
	const char *address = worker->client->servers[call->slot].address;
	const char *type = nam_rpc_type_name(call->type);

	if (nam_err_is(call->rc, NAM_E_FABRIC_TIMEOUT))
		return nam_diag_set(&worker->diag, call->rc,
			"the memory server at %s did not answer %s within %u ms; it may be "
			"overloaded or stopped (rpc_timeout_ms sets the wait)",
			address, type, worker->client->options.rpc_timeout_ms);
	if (nam_err_is(call->rc, NAM_E_FABRIC_PEER_DEAD))
		return nam_diag_set(&worker->diag, call->rc,
			"the memory server at %s is gone, so %s was not answered; restart the "
			"memory servers and connect anew",
			address, type);
	if (nam_err_is(call->rc, NAM_E_FABRIC))
		return nam_diag_set(&worker->diag, call->rc, "%s to the memory server at %s: %s",
			type, address, nam_err_text(call->rc));
	return call->rc;
}

int
nam__rpc_begin(struct nam_worker *worker, struct nam__call *call, uint32_t slot, uint16_t type,
	const void *body, uint32_t body_bytes, void *ret_body, uint32_t ret_size)
{
	*call = (struct nam__call){
		.id = ++worker->call_ids,
		.counters = worker->current->counters,
		.body = ret_body,
		.body_size = ret_size,
		.slot = slot,
		.type = type,
	};
	if (slot >= worker->client->servers_count || body_bytes > NAM_RPC_BODY_MAX)
		return -NAM_E_LIMIT;
	if (server_dead(worker, slot)) {
		call->rc = -NAM_E_FABRIC_PEER_DEAD;
		return call_explain(worker, call);
	}
	call->deadline_ns = timeout_at(worker);
	if (worker->postboxes[slot]) {
		int rc = nam__postbox_post(worker->postboxes[slot], call, type, body, body_bytes);

		if (!rc)
			goto begun;
		if (rc != -EAGAIN) {
			call->rc = rc;
			return call_explain(worker, call);
		}
	}
	call->message = message_new(worker);
	if (!call->message)
		return -ENOMEM;
	call->message->call = call;
	nam_rpc_header_fill((struct nam_rpc_header *)(void *)call->message->bytes, type, call->id,
		0, body_bytes);
	if (body_bytes)
		memcpy(call->message->bytes + sizeof(struct nam_rpc_header), body, body_bytes);
	call->rc = message_post(worker, call, (uint32_t)sizeof(struct nam_rpc_header) + body_bytes);
	if (call->rc) {
		message_free(worker, call->message);
		return call_explain(worker, call);
	}
begun:
	call->next = worker->calls;
	worker->calls = call;
	return 0;
}

int
nam__rpc_await(struct nam_worker *worker, struct nam__call *call, uint32_t *ret_bytes)
{
	int rc = 0;

	if (!call->done) {
		/* Who did something else in between has not waited yet, nor perhaps polled. */
		call->deadline_ns = timeout_at(worker);
		call->task = worker->current;
		call->task->pending = 1;
		rc = nam__task_await(worker); /* SUSPENDS */
	}
	if (!call->rc)
		call->rc = rc;
	if (call->rc)
		return call_explain(worker, call);
	if (ret_bytes)
		*ret_bytes = call->body_bytes;
	return 0;
}

int
nam_rpc_call(struct nam_worker *worker, uint32_t slot, uint16_t type, const void *body,
	uint32_t body_bytes, void *ret_body, uint32_t *ret_bytes)
{
	struct nam__call call;
	int rc = nam__rpc_begin(worker, &call, slot, type, body, body_bytes, ret_body,
		ret_bytes ? *ret_bytes : 0);

	if (rc)
		return rc;
	call.counters->round_trips++;
	return nam__rpc_await(worker, &call, ret_bytes); /* SUSPENDS */
}
