/* SPDX-License-Identifier: Apache-2.0 */
/*
 * datagram.c -- requests over an unreliable queue pair, which may lose them or their replies
 * (common/rpc/frame.h).
 *
 * Without a reply, a request is written again after four times as long as calls take, then after
 * twice that, until its call ends.  The memory server knows it by its number and carries it out
 * once.  A reply with another number than its request slot is of an earlier call, or comes twice.
 * If a memory server goes to sleep while a request is on its way, the next try wakes it.
 */
#include <errno.h>
#include <stdlib.h>

#include "compute/rpc/mailbox.h"

#define RETRY_NS 100000u		/* at the least */
#define RETRY_NS_MAX 100000000u
#define BUFFERS 128u			/* of all memory servers: a reply without one is lost */

static uint32_t
buffer_bytes(const struct nam_worker *worker)
{
	uint32_t bytes = worker->client->domains[0]->limits.datagram_bytes;

	return (bytes + NAM_DATAGRAM_HEADROOM + 63) / 64 * 64;
}

static int
receive_post(struct nam_worker *worker, struct nam__datagram *datagram)
{
	const struct nam_recv recv = {
		.buffer = datagram->bytes,
		.bytes = buffer_bytes(worker),
		.lkey = worker->datagrams_mr.lkey,
		.context = nam__handler_context(&datagram->completion),
	};

	return worker->datagram_rq->ops->rq_post(worker->datagram_rq, &recv, 1);
}

int
nam__datagrams_open(struct nam_worker *worker, struct nam_diag *diag)
{
	struct nam_domain *domain = worker->client->domains[0];
	uint32_t bytes = (uint32_t)sizeof(struct nam__datagram) + buffer_bytes(worker);
	uint32_t count = BUFFERS;
	int rc;

	if (worker->datagram_rq)
		return 0;
	worker->datagrams = aligned_alloc(4096, ((size_t)count * bytes + 4095) / 4096 * 4096);
	if (!worker->datagrams)
		return nam_diag_set(diag, -ENOMEM, "no memory for datagrams");
	rc = domain->ops->mr_register(domain, worker->datagrams, (uint64_t)count * bytes,
		NAM_MR_LOCAL, &worker->datagrams_mr, diag);
	if (rc) {
		free(worker->datagrams);
		worker->datagrams = NULL;
		return rc;
	}
	worker->bytes += (size_t)count * bytes;
	rc = domain->ops->rq_create(domain, worker->cq, count, &worker->datagram_rq);
	for (uint32_t i = 0; i < count && !rc; i++) {
		struct nam__datagram *datagram =
			(struct nam__datagram *)(worker->datagrams + (size_t)i * bytes);

		datagram->completion.completed = nam__datagram_completed;
		rc = receive_post(worker, datagram);
	}
	return rc;
}

void
nam__datagrams_close(struct nam_worker *worker)
{
	struct nam_domain *domain = worker->client->domains[0];

	if (worker->datagram_rq)
		worker->datagram_rq->ops->rq_destroy(worker->datagram_rq);
	if (worker->datagrams)
		domain->ops->mr_release(domain, &worker->datagrams_mr);
	free(worker->datagrams);
}

/* ---- requests ----------------------------------------------------------------------------- */

void
nam__datagram_left(struct nam__request_slot *req)
{
	uint64_t wait_ns = 4 * req->box->takes_ns;

	if (!req->tries)
		req->first_ns = req->written_ns;
	wait_ns = (wait_ns < RETRY_NS ? RETRY_NS : wait_ns)
		<< (req->tries < 10 ? req->tries : 10);
	if (req->answered || !req->call)
		nam__request_slot_free(req);
	else
		nam__request_slot_wait(req, req->written_ns +
			(wait_ns < RETRY_NS_MAX ? wait_ns : RETRY_NS_MAX));
}

void
nam__datagram_look(struct nam__request_slot *req)
{
	struct nam__client_mailbox *box = req->box;
	struct nam_wr wr;

	if (!req->call) {
		nam__request_slot_free(req);
		return;
	}
	if (nam_now_ns() < req->due_ns)
		return;
	/* Once more, if there is room for it. */
	if (req->tries < NAM_FRAME_TRIES_MAX)
		req->tries++;
	nam_frame_seal(nam__request_slot_request(req), req->number, req->bytes,
		(uint16_t)(req->tries * NAM_FRAME_TRY), 0);
	nam__request_slot_write(req, &wr);
	if (box->worker->qp_post(box->unreliable_qp, &wr, 1)) {
		req->due_ns = nam_now_ns() + RETRY_NS;
		return;
	}
	nam__request_slot_stop_waiting(req);
	req->state = NAM__SLOT_WRITING;
	req->counters->doorbells++;
	req->counters->work_requests++;
	req->counters->bytes_out += wr.bytes;
}

/* ---- replies ------------------------------------------------------------------------------ */

static void
reply_take(struct nam_worker *worker, uint32_t slot, const struct nam_frame *reply, uint32_t size)
{
	struct nam__client_mailbox *box = worker->mailboxes[slot];
	uint32_t number, bytes;
	struct nam__request_slot *req;
	uint16_t flags;

	if (!box || size < NAM_FRAME_OVERHEAD)
		return;
	number = (uint32_t)reply->front;
	req = &box->slots[nam_frame_place(number)];
	/* C2: a late reply has the number of an earlier request in this slot. */
	if (req->state == NAM__SLOT_FREE || req->answered ||
		(NAM_GUARD(DATAGRAM_NUMBER) && req->number != number) ||
		nam_frame_check(reply, size, number, &bytes, &flags) || !bytes)
		return;
	if (req->call)
		req->counters->bytes_in += size;
	/* An average of about eight calls, lost messages included. */
	if (req->state == NAM__SLOT_WAITING)
		box->takes_ns += (nam_now_ns() - req->first_ns) / 8 - box->takes_ns / 8;
	/* The provider may read the request until it has left. */
	req->answered = true;
	if (req->call)
		req->call->req = NULL;
	req->call = NULL;
	if (req->state == NAM__SLOT_WAITING)
		nam__request_slot_free(req);
	nam__rpc_reply(worker, slot, reply->message, bytes);
}

void
nam__datagram_completed(struct nam_worker *worker, struct nam__completion *completion,
	const struct nam_wc *wc)
{
	struct nam__datagram *datagram = (struct nam__datagram *)completion;

	if (!wc->status && wc->qp)
		reply_take(worker, nam__slot_of(wc->qp),
			(const void *)(datagram->bytes + NAM_DATAGRAM_HEADROOM), wc->bytes);
	/* There is room: it has just left the queue. */
	(void)!receive_post(worker, datagram);
}
