/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mailbox.c -- requests by WRITE into a memory server's mailbox (common/rpc/frame.h).
 *
 * The memory server either WRITEs replies into the client's share, without a notice, so nam__poll()
 * looks for them.  Or the client fetches them: one READ of the state and the first fetch_bytes, and
 * a second one for the rest.  If a memory server is slow a few times in a row, the client asks it
 * to reply by WRITE, until it is quick again.  Within one machine the processor copies both ways.
 *
 * A caller has a timeout, so it spins for a while and then naps, longer the longer it has waited.
 * A memory server may wait for ever, so the client wakes it, and it wakes the client.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "compute/rpc/mailbox.h"

#define SPIN_NS 8000u
#define NAP_NS_MAX 500000u
#define WOKEN_NAP_NS 2000000u		/* the memory server's wake may have found no room */
#define LATE_NS 200000u			/* it may be asleep all the same */
#define FETCHES_AT_ONCE 3u		/* without a pause between them */
#define SLOW_NS 10000u			/* a reply that was not there by then is slow */
#define QUICK_NS 5000u
#define SLOW_IN_A_ROW 3u
#define QUICK_IN_A_ROW 8u

/* ---- the client's share ------------------------------------------------------------------- */

static inline struct nam_frame *
reply_of(const struct nam__request_slot *req)
{
	return (struct nam_frame *)(void *)nam__ring_at(req->box, 0, req->number);
}

static inline uint8_t *
fetched_of(const struct nam__request_slot *req)
{
	return nam__ring_at(req->box, 2, req->number);
}

static void
append(struct nam_hello *hello, const void *what, uint32_t bytes)
{
	memcpy(hello->data + hello->bytes, what, bytes);
	hello->bytes += bytes;
}

int
nam__client_mailbox_new(struct nam_worker *worker, uint32_t slot, enum nam_transport transport,
	struct nam_hello *hello, uint32_t *ret_flags, struct nam__client_mailbox **ret_box)
{
	const struct nam_client_options *options = &worker->client->options;
	struct nam_domain *domain = worker->client->servers[slot].domain;
	struct nam__client_mailbox *box;
	struct nam_wire_mailbox_hello mailbox = { .frame_bytes = options->frame_bytes };
	uint64_t bytes = NAM_SHARE_WORD_BYTES + (uint64_t)3 * NAM_FRAMES * options->frame_bytes;
	bool unreliable_qp = transport == NAM_TRANSPORT_DATAGRAM;
	int rc = unreliable_qp ? nam__datagrams_open(worker, &worker->diag) : 0;

	if (rc)
		return rc;
	if (!worker->frame)
		worker->frame = malloc(NAM_FRAME_BYTES_MAX);
	box = calloc(1, sizeof(*box));
	if (!box || !worker->frame) {
		free(box);
		return -ENOMEM;
	}
	rc = domain->ops->share_alloc(domain, bytes, &box->mr, &worker->diag);
	if (rc) {
		free(box);
		return rc;
	}
	box->worker = worker;
	box->domain = domain;
	box->slot = slot;
	box->server.frame_bytes = options->frame_bytes;
	box->fetch_bytes = transport == NAM_TRANSPORT_FETCH ? options->fetch_bytes : 0;
	for (unsigned i = 0; i < NAM_FRAMES; i++) {
		box->slots[i].box = box;
		box->slots[i].completion.completed = nam__request_slot_completed;
	}
	box->wake.box = box;
	box->wake.completion.completed = nam__request_slot_completed;
	worker->bytes += bytes;
	mailbox.remote = box->mr.remote;
	mailbox.rkey = box->mr.rkey;
	append(hello, &mailbox, sizeof(mailbox));
	if (unreliable_qp) {
		const struct nam_qp_options qp_options = {
			.cq = worker->cq,
			.rq = worker->datagram_rq,
			.user = &worker->answering[slot],
		};
		uint64_t name;

		rc = domain->ops->unreliable_qp_create(domain, &qp_options, &name,
			&box->unreliable_qp);
		if (rc) {
			box->unreliable_qp = NULL;
			nam__client_mailbox_free(box);
			return rc;
		}
		append(hello, &name, sizeof(name));
	}
	*ret_flags = NAM_HELLO_MAILBOX | (unreliable_qp ? NAM_HELLO_UNRELIABLE : 0);
	*ret_box = box;
	return 0;
}

/* If the memory server's share is a file of this host, requests need no network. */
static void
share_map(struct nam__client_mailbox *box, struct nam_qp *qp)
{
	const struct nam_colocated *colocated =
		box->worker->client->servers[box->slot].colocated;
	uint64_t bytes = nam_mailbox_bytes(box->server.frame_bytes);

	/* The connection lives, so the process is the one that has proved itself. */
	if (!box->domain->limits.regions_are_files || !colocated || box->server.file < 0)
		return;
	box->share.base = nam__colocated_map(colocated->pid, box->server.file, bytes, true);
	if (!box->share.base)
		return;
	box->share.remote = box->server.remote;
	box->share.rkey = box->server.rkey;
	box->share.bytes = bytes;
	qp->ops->qp_share_near(qp, &box->share);
	box->near = true;
}

int
nam__client_mailbox_welcome(struct nam__client_mailbox *box, struct nam_qp *qp,
	const struct nam_hello *reply)
{
	struct nam_wire_mailbox_welcome welcome;
	struct nam_wire_unreliable_welcome unreliable;
	uint32_t offset = (uint32_t)sizeof(struct nam_wire_welcome);

	if (reply->bytes != offset + sizeof(welcome))
		return -NAM_E_FABRIC_PROTOCOL;
	memcpy(&welcome, reply->data + offset, sizeof(welcome));
	if (welcome.frame_bytes != box->server.frame_bytes || welcome.remote % 8)
		return -NAM_E_FABRIC_PROTOCOL;
	box->server = welcome;
	if (box->unreliable_qp) {
		/* An unreliable queue pair's name stands in the place of a share's file. */
		memcpy(&unreliable, reply->data + offset, sizeof(unreliable));
		return box->domain->ops->unreliable_qp_join(box->unreliable_qp, qp,
			unreliable.unreliable_qp);
	}
	box->near = !box->domain->limits.regions_are_files &&
		box->worker->client->servers[box->slot].near;
	share_map(box, qp);
	return 0;
}

void
nam__client_mailbox_free(struct nam__client_mailbox *box)
{
	if (!box)
		return;
	if (box->unreliable_qp)
		box->unreliable_qp->ops->qp_destroy(box->unreliable_qp);
	box->worker->slots_waiting -= box->waiting;
	box->worker->bytes -= box->mr.bytes;
	box->domain->ops->mr_release(box->domain, &box->mr);
	if (box->share.base)
		(void)munmap(box->share.base, box->share.bytes);
	free(box);
}

/* ---- ends of a request slot ---------------------------------------------------------------- */

void
nam__request_slot_fail(struct nam__request_slot *req, int rc)
{
	struct nam__call *call = req->call;

	nam__request_slot_free(req);
	if (call)
		nam__call_end(req->box->worker, call, rc);
}

/* The reply is in worker->frame.  None: it comes by SEND. */
static void
req_answered(struct nam__request_slot *req, uint32_t bytes)
{
	struct nam__client_mailbox *box = req->box;

	/* Half of it was a copy. */
	if (!bytes && req->call && req->call->colocated) {
		req->counters->colocated_calls--;
		req->counters->round_trips++;
	}
	nam__request_slot_free(req);
	if (bytes)
		nam__rpc_reply(box->worker, box->slot, box->worker->frame->message, bytes);
}

/* ---- fetching ----------------------------------------------------------------------------- */

/* Change the way of replies if this one was like the last ones. */
static void
reply_way_adapt(struct nam__request_slot *req, uint64_t waited_ns, uint64_t pace_ns)
{
	struct nam__client_mailbox *box = req->box;

	if (!box->fetch_bytes || box->near || box->worker->client->options.fetch_always)
		return;
	if (req->fetch) {
		box->slow = waited_ns > SLOW_NS && req->fetches > 2 ? box->slow + 1 : 0;
		if (box->slow < SLOW_IN_A_ROW)
			return;
		box->reply = true;
		box->quick = 0;
	} else {
		box->quick = pace_ns < QUICK_NS ? box->quick + 1 : 0;
		if (box->quick < QUICK_IN_A_ROW)
			return;
		box->reply = false;
		box->slow = 0;
	}
}

static void fetch_completed(struct nam__request_slot *req);

/* READ the bytes that are wanted and not yet here. */
static void
fetch_post(struct nam__request_slot *req)
{
	struct nam__client_mailbox *box = req->box;
	struct nam_worker *worker = box->worker;
	struct nam_wr wr = {
		.op = NAM_WR_READ,
		.flags = NAM_WR_SIGNALED,
		.bytes = req->wanted - req->here,
		.remote = box->server.remote + req->here +
			nam_mailbox_reply_at(req->number, box->server.frame_bytes),
		.rkey = box->server.rkey,
		.lkey = box->mr.lkey,
		.local = fetched_of(req) + req->here,
		.context = nam__handler_context(&req->completion),
	};
	struct nam_qp *qp = nam__qp_of(worker, box->slot);
	int rc = qp ? worker->qp_post(qp, &wr, 1) : nam__lost(worker, box->slot);

	if (rc == -NAM_E_FABRIC_FULL) {
		nam__request_slot_wait(req, 0);
		return;
	}
	if (rc < 0) {
		nam__request_slot_fail(req, rc);
		return;
	}
	nam__request_slot_stop_waiting(req);
	req->state = NAM__SLOT_FETCHING;
	if (rc == NAM_POSTED_COLOCATED) {
		fetch_completed(req);
		return;
	}
	req->counters->round_trips++;
	req->counters->doorbells++;
	req->counters->work_requests++;
	req->counters->bytes_in += wr.bytes;
}

static void
fetch_begin(struct nam__request_slot *req)
{
	req->here = 0;
	req->wanted = req->box->fetch_bytes;
	req->fetches++;
	fetch_post(req);
}

static void
fetch_completed(struct nam__request_slot *req)
{
	struct nam__client_mailbox *box = req->box;
	struct nam_frame *frame = box->worker->frame;
	uint64_t waited_ns = nam_now_ns() - req->written_ns;
	uint32_t bytes;
	uint16_t flags;
	int rc;

	req->here = req->wanted;
	memcpy(frame, fetched_of(req), req->here);
	rc = nam_frame_check(frame, req->here, req->number, &bytes, &flags);
	if (!rc) {
		reply_way_adapt(req, waited_ns, 0);
		req_answered(req, bytes);
	} else if (rc == -NAM_E_LIMIT && nam_frame_bytes(bytes) <= box->server.frame_bytes) {
		req->wanted = nam_frame_bytes(bytes);
		fetch_post(req);
	} else if (req->fetches < FETCHES_AT_ONCE && !req->woke && !box->near) {
		fetch_begin(req);
	} else {
		uint64_t nap_ns = box->near && waited_ns < SPIN_NS ? 0 : waited_ns / 4;

		nam__request_slot_wait(req, req->written_ns + waited_ns +
			(nap_ns < NAP_NS_MAX ? nap_ns : NAP_NS_MAX));
	}
}

/* ---- requests ----------------------------------------------------------------------------- */

bool
nam__client_mailbox_wake_server(struct nam__client_mailbox *box, struct nam_op_counters *counters)
{
	struct nam_worker *worker = box->worker;
	uint64_t *word = box->mr.base;
	uint32_t turn = (uint32_t)__atomic_load_n(word, __ATOMIC_ACQUIRE);
	struct nam_wr wr = {
		.op = NAM_WR_SEND,
		.bytes = NAM_WAKE_BYTES,
		.lkey = box->mr.lkey,
		.local = word,
		.context = nam__handler_context(&box->wake.completion),
	};
	struct nam_qp *qp;
	bool pending;

	if (turn == box->woken_turn)
		return false;
	qp = nam__qp_of(worker, box->slot);
	if (NAM_WAKE_BYTES <= box->domain->limits.inline_bytes)
		wr.flags |= NAM_WR_INLINE;
	pending = qp && worker->qp_post(qp, &wr, 1) == -NAM_E_FABRIC_FULL;
	if (pending != box->wake_pending)
		nam__slots_waiting_add(box, pending ? 1 : UINT32_MAX);
	box->wake_pending = pending;
	if (pending)
		return false;
	box->woken_turn = turn;
	counters->doorbells++;
	counters->work_requests++;
	counters->bytes_out += NAM_WAKE_BYTES;
	return true;
}

void
nam__client_mailbox_wake_came(struct nam__client_mailbox *box)
{
	for (unsigned i = 0; box && !box->unreliable_qp && i < NAM_FRAMES; i++) {
		box->slots[i].woke = false;
		box->slots[i].due_ns = 0;
	}
}

/*
 * The longest frame of a request.  Over an unreliable queue pair it is one packet: some devices
 * take nothing more after a message of which a packet was lost.
 */
static inline uint32_t
longest(const struct nam__client_mailbox *box)
{
	uint32_t datagram_bytes = box->domain->limits.datagram_bytes;

	return box->unreliable_qp && datagram_bytes < box->server.frame_bytes ? datagram_bytes :
		box->server.frame_bytes;
}

bool
nam__client_mailbox_write(struct nam__client_mailbox *box, struct nam__call *call, const void *body,
	uint32_t body_bytes, struct nam_wr *ret_wr)
{
	uint32_t bytes = (uint32_t)sizeof(struct nam_rpc_header) + body_bytes;
	struct nam__request_slot *req = &box->slots[nam_frame_place(box->sent + 1)];
	bool fetch = box->fetch_bytes && !box->reply;
	struct nam_frame *frame;
	uint32_t turn;

	/* C4: a frame is written over only after the request in it was answered. */
	if (nam_frame_bytes(bytes) > longest(box) ||
		(NAM_GUARD(FRAME_FREE) && box->sent - box->taken == NAM_FRAMES))
		return false;
	/* A request by SEND also wakes a memory server in this machine, with fewer messages. */
	turn = (uint32_t)__atomic_load_n((uint64_t *)box->mr.base, __ATOMIC_ACQUIRE);
	if (box->near && turn != box->woken_turn) {
		box->woken_turn = turn;
		return false;
	}
	req->number = ++box->sent;
	frame = nam__request_slot_request(req);
	nam_rpc_header_fill((struct nam_rpc_header *)(void *)frame->message, call->type, call->id,
		0, body_bytes);
	if (body_bytes)
		memcpy(frame->message + sizeof(struct nam_rpc_header), body, body_bytes);
	nam_frame_seal(frame, req->number, bytes, fetch ? NAM_FRAME_FETCH : 0, 0);
	req->bytes = bytes;
	nam__request_slot_write(req, ret_wr);
	req->state = NAM__SLOT_WRITING;
	req->fetch = fetch;
	req->fetches = 0;
	req->here = req->wanted = 0;
	req->answered = false;
	req->tries = 0;
	req->call = call;
	req->counters = call->counters;
	call->req = req;
	return true;
}

void
nam__client_mailbox_unwrite(struct nam__request_slot *req)
{
	req->box->sent--;
	req->state = NAM__SLOT_FREE;
	req->call = NULL;
}

static void
request_written(struct nam__request_slot *req)
{
	req->written_ns = nam_now_ns();
	/* Pairs with a memory server's on this host: it sees the request, or this the word. */
	atomic_thread_fence(memory_order_seq_cst);
	req->woke = nam__client_mailbox_wake_server(req->box, req->counters);
	if (req->fetch && !req->box->near)
		fetch_begin(req);
	else if (req->box->unreliable_qp)
		nam__datagram_left(req);
	else
		nam__request_slot_wait(req, 0);
}

void
nam__client_mailbox_written_colocated(struct nam__request_slot *req)
{
	/* Else the reply comes by the card: a round trip. */
	req->call->colocated = req->fetch;
	req->counters->colocated_calls += req->fetch;
	request_written(req);
}

void
nam__request_slot_completed(struct nam_worker *worker, struct nam__completion *completion,
	const struct nam_wc *wc)
{
	struct nam__request_slot *req = (struct nam__request_slot *)completion;

	(void)worker;
	if (req == &req->box->wake)
		return;
	if (wc->status)
		nam__request_slot_fail(req, wc->status);
	else if (wc->op == NAM_WR_WRITE)
		request_written(req);
	else
		fetch_completed(req);
}

/* ---- waiting ------------------------------------------------------------------------------ */

/* Whether it has come to its end. */
static bool
req_look(struct nam__request_slot *req)
{
	struct nam__client_mailbox *box = req->box;
	struct nam_frame *copy = box->worker->frame;
	uint32_t bytes;
	uint16_t flags;

	if (box->unreliable_qp) {
		nam__datagram_look(req);
		return req->state == NAM__SLOT_FREE;
	}
	/* The memory server's word may be visible later than the completion. */
	if (!req->woke && nam_now_ns() - req->written_ns >= LATE_NS)
		req->woke = nam__client_mailbox_wake_server(box, req->counters);
	if (req->fetch) {
		if (!req->due_ns || nam_now_ns() >= req->due_ns) {
			if (req->here == req->wanted)
				fetch_begin(req);
			else
				fetch_post(req);
		}
		/* Replies within this machine have been fetched by now. */
		return req->state == NAM__SLOT_FREE;
	}
	if (!nam_frame_is_new(reply_of(req), req->number) ||
		nam_frame_take(reply_of(req), box->server.frame_bytes, req->number, copy,
			&bytes, &flags))
		return false;
	req->counters->bytes_in += nam_frame_bytes(bytes);
	reply_way_adapt(req, 0, copy->pace);
	req_answered(req, bytes);
	return true;
}

int
nam__client_mailboxes_poll(struct nam_worker *worker)
{
	int count = 0;

	for (uint32_t slot = 0; slot < worker->client->servers_count; slot++) {
		struct nam__client_mailbox *box = worker->mailboxes[slot];

		if (!box || !box->waiting)
			continue;
		if (box->wake_pending)
			(void)nam__client_mailbox_wake_server(box, worker->current->counters);
		for (uint32_t number = box->taken + 1; number != box->sent + 1; number++) {
			struct nam__request_slot *req = &box->slots[nam_frame_place(number)];

			if (req->state == NAM__SLOT_WAITING)
				count += req_look(req);
		}
	}
	return count;
}

/* For how long a request that waits needs no look. */
static uint64_t
slot_wait_max(const struct nam__request_slot *req, uint64_t now)
{
	uint64_t waited_ns = now - req->written_ns;

	if (req->woke && !req->box->unreliable_qp)
		return WOKEN_NAP_NS;
	if (req->fetch || req->box->unreliable_qp)
		return req->due_ns > now ? req->due_ns - now : 0;
	if (waited_ns < SPIN_NS)
		return 0;
	return waited_ns / 4 < NAP_NS_MAX ? waited_ns / 4 : NAP_NS_MAX;
}

uint64_t
nam__client_mailboxes_wait_max(const struct nam_worker *worker, uint64_t wait_ns)
{
	uint64_t now = nam_now_ns();

	for (uint32_t slot = 0; slot < worker->client->servers_count; slot++) {
		const struct nam__client_mailbox *box = worker->mailboxes[slot];

		if (!box || !box->waiting)
			continue;
		if (box->wake_pending)
			return 0;
		for (unsigned i = 0; i < NAM_FRAMES; i++)
			if (box->slots[i].state == NAM__SLOT_WAITING &&
				slot_wait_max(&box->slots[i], now) < wait_ns)
				wait_ns = slot_wait_max(&box->slots[i], now);
	}
	return wait_ns;
}
