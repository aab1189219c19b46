/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.c -- one request, one reply: by SEND and the worker's receive queue, or by a mailbox.
 *
 * A call lies on its caller's stack until the reply, the deadline or the server's end.  A message
 * lies in registered memory until its completion (C4).  Either may end first and unhooks the other.
 */
#include <errno.h>
#include <string.h>

#include "compute/backup/backups.h"
#include "compute/remote/epoch.h"
#include "compute/rpc/mailbox.h"

/* A memory server that was silent for timeout_ms gets this share of it, until it is heard again. */
#define SILENT_SHARE 16u

/* ---- messages ----------------------------------------------------------------------------- */

static void message_completed(struct nam_worker *worker, struct nam__completion *completion,
	const struct nam_wc *wc);

static struct nam__message *
message_new(struct nam_worker *worker)
{
	struct nam__message *message = nam_buffer_take(worker, sizeof(*message));

	if (!message)
		return NULL;
	memset(message, 0, sizeof(*message));
	message->completion.completed = message_completed;
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
		.context = nam__handler_context(&message->completion),
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

/* ---- completions -------------------------------------------------------------------------- */

static void
reply_take(struct nam_worker *worker, const struct nam_wc *wc, const uint8_t *bytes)
{
	const struct nam_rpc_header *header = (const void *)bytes;
	struct nam__call *call =
		wc->bytes < sizeof(*header) ? NULL : nam__call_find(worker, header->id);
	uint32_t slot;

	if (!wc->qp)
		return;
	slot = nam__slot_of(wc->qp);
	if (wc->bytes == NAM_WAKE_BYTES)
		nam__client_mailbox_wake_came(worker->mailboxes[slot]);
	if (call && call->slot == slot)
		call->counters->bytes_in += wc->bytes;
	nam__rpc_reply(worker, slot, bytes, wc->bytes);
}

static void
message_completed(struct nam_worker *worker, struct nam__completion *completion,
	const struct nam_wc *wc)
{
	struct nam__message *message = (struct nam__message *)completion;

	if (message->is_receive) {
		if (!wc->status)
			reply_take(worker, wc, message->bytes);
		/* There is room: this buffer has just left the queue.  Otherwise it is lost. */
		if (receive_post(worker, message))
			message_free(worker, message);
		return;
	}
	if (message->sent)
		*message->sent = true;
	if (message->call) {
		message->call->message = NULL;
		if (wc->status)
			nam__call_end(worker, message->call, wc->status);
	}
	message_free(worker, message);
}

/* ---- the call ----------------------------------------------------------------------------- */

static bool
server_dead(const struct nam_worker *worker, uint32_t slot)
{
	/* Acquire: pairs with the worker that saw the connection close. */
	return !worker->qps[slot] ||
	       atomic_load_explicit(&worker->client->servers[slot].lost, memory_order_acquire);
}

/* Tasks may wait for one another's calls in turn, so only the first waits long for a silent one. */
static uint64_t
timeout_ns(const struct nam_worker *worker, uint32_t slot)
{
	return worker->client->options.timeout_ms * 1000000ull /
		(worker->answering[slot].silent ? SILENT_SHARE : 1);
}

/* A SEND; its message is freed by the completion, or by a caller that does not post it. */
static int
send_make(struct nam_worker *worker, uint32_t slot, const struct nam_rpc_header *header,
	const void *body, struct nam__message **ret_message, struct nam_wr *ret_wr)
{
	struct nam__message *message = message_new(worker);

	if (!message)
		return -ENOMEM;
	memcpy(message->bytes, header, sizeof(*header));
	if (header->body_bytes)
		memcpy(message->bytes + sizeof(*header), body, header->body_bytes);
	*ret_wr = (struct nam_wr){
		.op = NAM_WR_SEND,
		.flags = NAM_WR_SIGNALED,
		.bytes = (uint32_t)sizeof(*header) + header->body_bytes,
		.lkey = message->lkey,
		.local = message->bytes,
		.context = nam__handler_context(&message->completion),
	};
	if (ret_wr->bytes <= worker->client->servers[slot].domain->limits.inline_bytes)
		ret_wr->flags |= NAM_WR_INLINE;
	*ret_message = message;
	return 0;
}

/* Post requests to one memory server: 0, NAM_POSTED_COLOCATED, or a failure. */
static int
requests_post(struct nam_worker *worker, uint32_t slot, bool unreliable_qp,
	const struct nam_wr *wrs, unsigned count)
{
	struct nam_op_counters *counters = worker->current->counters;
	uint64_t deadline_ns = nam_now_ns() + timeout_ns(worker, slot);
	int rc;

	/* A full queue pair empties as its requests complete, which needs no other task to run. */
	while ((rc = worker->qp_post(unreliable_qp ? worker->mailboxes[slot]->unreliable_qp :
		worker->qps[slot], wrs, count)) == -NAM_E_FABRIC_FULL) {
		worker->posting = true;
		nam__poll(worker);
		worker->posting = false;
		if (nam_now_ns() >= deadline_ns)
			return -NAM_E_FABRIC_TIMEOUT;
		if (server_dead(worker, slot))
			return nam__lost(worker, slot);
	}
	if (rc)
		return rc;
	counters->doorbells++;
	counters->work_requests += count;
	for (unsigned i = 0; i < count; i++)
		counters->bytes_out += wrs[i].bytes;
	return 0;
}

/* The diag of failures of the fabric; callers explain other codes. */
static int
call_explain(struct nam_worker *worker, const struct nam__call *call)
{
	const char *address = worker->client->servers[call->slot].address;
	const char *type = nam_rpc_type_name(call->type);

	if (call->rc == -NAM_E_FABRIC_FENCED)
		return nam__failure_explain(worker, call->slot, call->rc);
	if (nam_err_is(call->rc, NAM_E_FABRIC_TIMEOUT))
		return nam_diag_set(&worker->diag, call->rc,
			"the memory server at %s does not answer (%s; timeout_ms is %u): it is "
			"stopped or overloaded; try again once it runs%s",
			address, type, worker->client->options.timeout_ms,
			server_dead(worker, call->slot) ? ", by a new connection" : "");
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

/* The server has a queue pair, or the call fails.  A PING needs this worker's only (C28). */
static int
connection_check(struct nam_worker *worker, struct nam__call *call)
{
	/* C31: a backup would not have such a change.  C34: replies have no lease. */
	if (__builtin_expect(nam__is_backed(worker->client, call->slot), 0) &&
		(call->type == NAM_RPC_RECORDS_PREPARE || call->type == NAM_RPC_RECORDS_COMMIT ||
		call->type == NAM_RPC_LOCKING_READ || call->type == NAM_RPC_LOCKING_PREPARE ||
		call->type == NAM_RPC_SERIAL_READ || call->type == NAM_RPC_SERIAL_CHANGE))
		return nam_diag_set(&worker->diag, -NAM_E_FABRIC_CAPABILITY, "memory server %u has "
			"a backup, which has no copy of records yet; take the backup away (namctl "
			"server unback %u), or keep records elsewhere",
			worker->client->servers[call->slot].id,
			worker->client->servers[call->slot].id);
	if (!server_dead(worker, call->slot) || (call->by_send && worker->qps[call->slot]))
		return 0;
	call->rc = nam__qp_open(worker, call->slot);
	/* Where connecting failed, the diag says why. */
	return atomic_load_explicit(&worker->client->servers[call->slot].lost,
		memory_order_relaxed) ? call_explain(worker, call) : call->rc;
}

/* Make the request of a call: for its memory server's mailbox, or else a SEND. */
static int
call_make(struct nam_worker *worker, struct nam__call *call, const void *body, uint32_t body_bytes,
	struct nam_wr *ret_wr)
{
	struct nam__client_mailbox *box;
	struct nam_rpc_header header;
	int rc;

	if (!nam__slot_has_server(worker->client, call->slot) || body_bytes > NAM_RPC_BODY_MAX)
		return -NAM_E_LIMIT;
	call->id = ++worker->call_ids;
	call->counters = worker->current->counters;
	call->replies = worker->answering[call->slot].replies;
	rc = connection_check(worker, call);
	if (rc)
		return rc;
	if (worker->one_way[call->slot])
		call->acknowledged = worker->one_way[call->slot]->acknowledged;
	box = worker->mailboxes[call->slot];
	if (box && !call->by_send && nam__client_mailbox_write(box, call, body, body_bytes, ret_wr))
		return 0;
	nam_rpc_header_fill(&header, call->type, call->id, 0, body_bytes);
	rc = send_make(worker, call->slot, &header, body, &call->message, ret_wr);
	if (!rc)
		call->message->call = call;
	return rc;
}

static inline bool
by_unreliable_qp(const struct nam__call *call)
{
	return call->req && call->req->box->unreliable_qp;
}

/* Post what was made for calls[0 .. count - 1], to one memory server and in one way. */
static int
calls_post(struct nam_worker *worker, struct nam__call *const *calls, const struct nam_wr *wrs,
	unsigned count)
{
	int rc = requests_post(worker, calls[0]->slot, by_unreliable_qp(calls[0]), wrs, count);

	if (rc < 0) {
		for (unsigned i = count; i-- > 0;) {
			/* With a connection its client mailbox has ended. */
			if (calls[i]->req && worker->mailboxes[calls[i]->slot])
				nam__client_mailbox_unwrite(calls[i]->req);
			calls[i]->req = NULL;
			if (calls[i]->message)
				message_free(worker, calls[i]->message);
			calls[i]->message = NULL;
			calls[i]->rc = rc;
		}
		return call_explain(worker, calls[0]);
	}
	for (unsigned i = 0; i < count; i++) {
		calls[i]->deadline_ns = nam_now_ns() + timeout_ns(worker, calls[i]->slot);
		SLIST_INSERT_HEAD(&worker->calls, calls[i], link);
		if (rc == NAM_POSTED_COLOCATED)
			nam__client_mailbox_written_colocated(calls[i]->req);
	}
	return 0;
}

static int
begin(struct nam_worker *worker, struct nam__call *call, const void *body, uint32_t body_bytes)
{
	struct nam_wr wr;
	int rc = call_make(worker, call, body, body_bytes, &wr);

	return rc ? rc : calls_post(worker, &call, &wr, 1);
}

int
nam__rpc_begin(struct nam_worker *worker, struct nam__call *call, uint32_t slot, uint16_t type,
	const void *body, uint32_t body_bytes, void *ret_body, uint32_t ret_size)
{
	*call = (struct nam__call){
		.body = ret_body,
		.body_size = ret_size,
		.slot = slot,
		.type = type,
	};
	return begin(worker, call, body, body_bytes);
}

int
nam__rpc_ping_begin(struct nam_worker *worker, struct nam__call *call, uint32_t slot)
{
	*call = (struct nam__call){ .slot = slot, .type = NAM_RPC_PING, .by_send = true };
	return begin(worker, call, NULL, 0);
}

int
nam__rpc_ping_by_send(struct nam_worker *worker, uint32_t slot)
{
	struct nam__call call;
	int rc = nam__rpc_ping_begin(worker, &call, slot);

	if (rc)
		return rc;
	call.counters->round_trips++;
	return nam__rpc_await(worker, &call, NULL); /* SUSPENDS */
}

int
nam__rpc_post_one_way(struct nam_worker *worker, uint32_t slot, uint16_t type, const void *body,
	uint32_t body_bytes, uint64_t *ret_id)
{
	struct nam__call named = { .slot = slot, .type = type };
	struct nam__message *message;
	struct nam_rpc_header header;
	struct nam_wr wr;
	int rc;

	nam_rpc_header_fill(&header, type, worker->call_ids + 1, 0, body_bytes);
	header.one_way = NAM_RPC_ONE_WAY;
	rc = connection_check(worker, &named);
	if (rc)
		return rc;
	rc = send_make(worker, slot, &header, body, &message, &wr);
	if (rc)
		return rc;
	*ret_id = ++worker->call_ids;
	named.rc = requests_post(worker, slot, false, &wr, 1);
	if (named.rc) {
		message_free(worker, message);
		return call_explain(worker, &named);
	}
	return 0;
}

NAM_FIBER_FN static int
await_until(struct nam_worker *worker, struct nam__call *call, uint64_t deadline_ns)
{
	int rc = 0;

	if (!call->done) {
		call->deadline_ns = deadline_ns;
		call->task = worker->current;
		call->task->pending = 1;
		rc = nam__task_await(worker); /* SUSPENDS */
	}
	if (!call->rc)
		call->rc = rc;
	if (!call->rc)
		return 0;
	call->rc = nam__failure_why(worker, call->rc);
	return call_explain(worker, call);
}

int
nam__rpc_await(struct nam_worker *worker, struct nam__call *call, uint32_t *ret_bytes)
{
	/* The time begins now, as other work may have come in between. */
	int rc = await_until(worker, call,
		nam_now_ns() + timeout_ns(worker, call->slot)); /* SUSPENDS */

	if (!rc && ret_bytes)
		*ret_bytes = call->body_bytes;
	return rc;
}

int
nam_rpc_call(struct nam_worker *worker, uint32_t slot, uint16_t type, const void *body,
	uint32_t body_bytes, void *ret_body, uint32_t *ret_bytes)
{
	uint64_t pin = nam__request_pin(worker);
	struct nam__call call;
	int rc = nam__rpc_begin(worker, &call, slot, type, body, body_bytes, ret_body,
		ret_bytes ? *ret_bytes : 0);

	if (!rc) {
		if (!call.colocated)
			call.counters->round_trips++;
		rc = nam__rpc_await(worker, &call, ret_bytes); /* SUSPENDS */
	}
	nam__request_unpin(worker, pin);
	return rc;
}

/* ---- several ------------------------------------------------------------------------------ */

struct many {
	struct nam__call calls[NAM_CALLS_MAX];
	struct nam__call *together[NAM_CALLS_MAX];
	struct nam_wr wrs[NAM_CALLS_MAX];
};

/* Post some that were made; true if that takes a round trip. */
static bool
many_post(struct nam_worker *worker, struct many *many, unsigned first, unsigned count)
{
	if (!count)
		return false;
	if (!calls_post(worker, many->together + first, many->wrs + first, count))
		return !many->together[first]->colocated;
	for (unsigned i = first; i < first + count; i++)
		many->together[i]->done = true;
	return false;
}

/*
 * Post calls[first] and others to its memory server, by one doorbell, and one for an unreliable
 * queue pair.  True if that takes a round trip.
 */
static bool
many_begin(struct nam_worker *worker, struct many *many, struct nam_call *calls, unsigned first,
	unsigned count)
{
	unsigned made = 0, others = NAM_CALLS_MAX, at;
	struct nam_wr wr;
	bool waits;

	for (unsigned i = first; i < count; i++) {
		struct nam__call *call = &many->calls[i];

		if (calls[i].slot != calls[first].slot || call->type)
			continue;
		*call = (struct nam__call){
			.body = calls[i].reply,
			.body_size = calls[i].reply_size,
			.slot = calls[i].slot,
			.type = calls[i].type,
		};
		call->rc = call_make(worker, call, calls[i].body, calls[i].body_bytes, &wr);
		call->done = call->rc != 0;
		if (call->done)
			continue;
		at = by_unreliable_qp(call) ? --others : made++;
		many->wrs[at] = wr;
		many->together[at] = call;
	}
	waits = many_post(worker, many, 0, made);
	return many_post(worker, many, others, NAM_CALLS_MAX - others) || waits;
}

int
nam_rpc_call_many(struct nam_worker *worker, struct nam_call *calls, unsigned count)
{
	struct many *many;
	bool waits = false;
	uint64_t begin_ns, pin;
	int rc = 0;

	if (count > NAM_CALLS_MAX)
		return -NAM_E_LIMIT;
	for (unsigned i = 0; i < count; i++)
		if (!calls[i].type || !nam__slot_has_server(worker->client, calls[i].slot))
			return -NAM_E_LIMIT;
	many = nam_buffer_take(worker, sizeof(*many));
	if (!many)
		return -ENOMEM;
	pin = nam__request_pin(worker);
	for (unsigned i = 0; i < count; i++)
		many->calls[i].type = 0;
	for (unsigned i = 0; i < count; i++)
		if (!many->calls[i].type)
			waits |= many_begin(worker, many, calls, i, count);
	worker->current->counters->round_trips += waits;
	begin_ns = nam_now_ns();
	for (unsigned i = 0; i < count; i++) {
		calls[i].rc = await_until(worker, &many->calls[i],
			begin_ns + timeout_ns(worker, calls[i].slot)); /* SUSPENDS */
		if (!calls[i].rc)
			calls[i].reply_bytes = many->calls[i].body_bytes;
		else if (!rc)
			rc = calls[i].rc;
	}
	nam__request_unpin(worker, pin);
	nam_buffer_give(worker, many, sizeof(*many));
	return rc;
}
