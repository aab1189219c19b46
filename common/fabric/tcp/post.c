/* SPDX-License-Identifier: Apache-2.0 */
/*
 * post.c -- from requests to frames: at once, or when the output is sent.  Short bodies are copied,
 * long ones are sent from the caller's buffer, which stays unchanged until the request completes.
 */
#include <string.h>
#include <sys/epoll.h>

#include "tcp_internal.h"

#define MASK (TCP_QP_DEPTH - 1)
_Static_assert(!(TCP_QP_DEPTH & MASK), "a power of two");

static inline bool
has_body(uint8_t op)
{
	return op == NAM_WR_WRITE || op == NAM_WR_SEND;
}

/* Whether the window of wire.h leaves room for a request of so many bytes. */
static inline bool
window_open(const struct tcp_qp *qp, uint64_t bytes)
{
	return !qp->window_count || qp->position + bytes -
		qp->requests[qp->head & MASK].position <= TCP_WINDOW_BYTES;
}

static inline void
write_head(struct tcp_qp *qp, const struct tcp_request *request, uint32_t head)
{
	struct tcp_request_frame frame = {
		.frame = {
			.kind = request->op,
			.sequence = qp->write_sequence++,
			.bytes = request->bytes,
		},
		.rkey = request->rkey,
		.remote = request->remote,
		.compare = request->compare,
		.swap = request->swap,
	};

	memcpy(qp->out.data + qp->out.end, &frame, head);
	qp->out.end += head;
}

/* The next request that was posted.  False: it has to wait. */
static inline bool
write_one(struct tcp_qp *qp, struct tcp_request *request)
{
	uint32_t head = nam__tcp_head_bytes(request->op);
	uint32_t body = has_body(request->op) ? request->bytes : 0;
	bool copies = body <= TCP_COPY_BYTES || request->op == NAM_WR_SEND;
	uint32_t copied = copies ? body : 0;
	struct tcp_output *out = &qp->out;

	if (NAM__UNLIKELY(!window_open(qp, (uint64_t)head + body) ||
		nam__tcp_out_room(qp) < head + copied + TCP_OUT_RESERVE ||
		(body != copied && out->bodies_end == TCP_BODIES_MAX)))
		return false;
	request->position = qp->position;
	qp->position += (uint64_t)head + body;
	write_head(qp, request, head);
	if (copied) {
		memcpy(out->data + out->end, request->local, copied);
		out->end += copied;
	} else if (body) {
		out->bodies[out->bodies_end++] = (struct tcp_body){
			.before = out->end, .bytes = body, .at = request->local };
	}
	qp->window_count += request->op == NAM_WR_READ || request->op == NAM_WR_SEND;
	out->frames++;
	out->entered += (uint64_t)head + body;
	request->ends = out->entered;
	return true;
}

void
nam__tcp_write_requests(struct tcp_qp *qp)
{
	/* Not in the middle of what a peer reads. */
	while (qp->written != qp->tail && !qp->reading.left) {
		struct tcp_request *request = &qp->requests[qp->written & MASK];

		/* Requests behind one that will fail are not sent. */
		if (NAM__UNLIKELY(request->fault) || !write_one(qp, request))
			return;
		qp->written++;
	}
}

void
nam__tcp_flush(struct tcp_qp *qp)
{
	if (qp->blocked)
		return;
	if (!nam__tcp_output_send(qp))
		return;
	/* Requests without room before. */
	while (qp->written != qp->tail) {
		uint32_t written = qp->written;

		nam__tcp_write_requests(qp);
		if (qp->written == written || !nam__tcp_output_send(qp))
			return;
	}
}

void
nam__tcp_unblock(struct tcp_qp *qp)
{
	if (!qp->blocked || qp->error)
		return;
	qp->blocked = false;
	nam__tcp_interest(qp, EPOLLIN | EPOLLRDHUP);
	nam__tcp_flush(qp);
}

/* The frame is not written yet, and the caller may use its buffer again. */
static void
keep_body(struct tcp_qp *qp, uint32_t number)
{
	struct tcp_request *request = &qp->requests[number & MASK];
	uint8_t *kept = qp->kept + (size_t)qp->kept_bytes * (number & MASK);

	if (request->fault || !has_body(request->op))
		return;
	if (!(request->flags & NAM_WR_INLINE) && !(qp->accepted && request->op == NAM_WR_SEND))
		return;
	memcpy(kept, request->local, request->bytes);
	request->local = kept;
}

/* A queue pair that has failed: new requests complete with the reason. */
static int
post_failed(struct tcp_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	qp->cq->outstanding += count;
	for (unsigned i = 0; i < count; i++)
		nam__tcp_done_push(qp->cq)->wc = (struct nam_wc){
			.context = wrs[i].context,
			.qp = &qp->pub,
			.status = qp->error,
			.bytes = wrs[i].bytes,
			.op = wrs[i].op,
		};
	return 0;
}

int
nam__tcp_qp_post(struct nam_qp *pub, const struct nam_wr *wrs, unsigned count)
{
	struct tcp_qp *qp = (struct tcp_qp *)pub;
	struct tcp_cq *cq = qp->cq;
	uint32_t first = qp->tail;

	if (NAM__UNLIKELY(qp->tail - qp->head + (uint64_t)count > TCP_QP_DEPTH ||
		cq->outstanding + (uint64_t)count > cq->depth))
		return -NAM_E_FABRIC_FULL;
	if (NAM__UNLIKELY(qp->error))
		return post_failed(qp, wrs, count);
	cq->outstanding += count;
	qp->unreported += count;
	for (unsigned i = 0; i < count; i++)
		qp->requests[qp->tail++ & MASK] = (struct tcp_request){
			.op = wrs[i].op,
			.flags = wrs[i].flags,
			.fault = (uint16_t)-nam__wr_check(&wrs[i], UINT32_MAX,
				TCP_MESSAGE_BYTES, TCP_INLINE_BYTES),
			.bytes = wrs[i].bytes,
			.local = wrs[i].local,
			.context = wrs[i].context,
			.remote = wrs[i].remote,
			.rkey = wrs[i].rkey,
			.compare = wrs[i].compare,
			.swap = wrs[i].swap,
		};
	nam__tcp_write_requests(qp);
	if (NAM__UNLIKELY(qp->written != qp->tail)) {
		for (uint32_t i = qp->written - first > count ? first : qp->written; i != qp->tail;
			i++)
			keep_body(qp, i);
		/* With nothing before it, what is faulty fails now. */
		nam__tcp_fault_due(qp);
	}
	/* A memory server's reply is copied, so that a silent client keeps none of its buffers. */
	for (uint32_t i = qp->tail - count; qp->accepted && !qp->error && i != qp->tail; i++) {
		struct tcp_request *request = &qp->requests[i & MASK];

		if (request->op == NAM_WR_SEND && !request->fault)
			nam__tcp_report(qp, request);
	}
	if (qp->out.frames >= TCP_FLUSH_FRAMES && !qp->blocked)
		nam__tcp_flush(qp);
	else
		nam__tcp_dirty(qp);
	return 0;
}
