/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer.c -- answers to posted requests, and how requests fail.
 *
 * Answers come in post order, so each belongs to the oldest request, with which its frame is
 * compared.  stream.c reads the rest of a long READ straight to its place.
 */
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "tcp_internal.h"

#define MASK (TCP_QP_DEPTH - 1)

static inline void
complete(struct tcp_qp *qp, const struct tcp_request *request, int status)
{
	nam__tcp_done_push(qp->cq)->wc = (struct nam_wc){
		.context = request->context,
		.qp = &qp->pub,
		.status = status,
		.bytes = request->bytes,
		.op = request->op,
	};
}

void
nam__tcp_report(struct tcp_qp *qp, struct tcp_request *request)
{
	request->reported = true;
	qp->unreported--;
	if (NAM__UNLIKELY(!(request->flags & NAM_WR_SIGNALED)))
		qp->cq->outstanding--;
	else
		complete(qp, request, 0);
}

void
nam__tcp_fault_due(struct tcp_qp *qp)
{
	const struct tcp_request *request = &qp->requests[qp->head & MASK];

	if (qp->head != qp->tail && qp->head == qp->written && request->fault)
		nam__tcp_qp_fail(qp, -(int)request->fault);
}

/* The oldest request is done. */
static inline void
answered(struct tcp_qp *qp)
{
	struct tcp_request *request = &qp->requests[qp->head & MASK];

	if (NAM__LIKELY(!request->reported))
		nam__tcp_report(qp, request);
	qp->head++;
	qp->window_count -= request->op == NAM_WR_READ || request->op == NAM_WR_SEND;
	/* Start over at the front while nothing is pending: those lines are still cached. */
	if (qp->head == qp->tail)
		qp->head = qp->written = qp->tail = 0;
	else if (NAM__UNLIKELY(qp->head == qp->written))
		nam__tcp_fault_due(qp);
}

void
nam__tcp_qp_fail(struct tcp_qp *qp, int status)
{
	if (qp->error)
		return;
	qp->error = status;
	for (uint32_t i = qp->head; i != qp->tail; i++) {
		if (!qp->requests[i & MASK].reported)
			complete(qp, &qp->requests[i & MASK], status);
	}
	qp->head = qp->written = qp->tail = qp->unreported = 0;
	/* Nothing of the callers' is looked at any more. */
	qp->answer.left = 0;
	qp->out.begin = qp->out.end = qp->out.frames = 0;
	qp->out.bodies_begin = qp->out.bodies_end = 0;
	/* The peer hears of it, and nothing is read or sent any more. */
	(void)shutdown(qp->fd, SHUT_RDWR);
	if (qp->arrived)
		(void)epoll_ctl(qp->cq->epoll_fd, EPOLL_CTL_DEL, qp->fd, NULL);
	qp->blocked = true;
	/* A client's may have failed for what it asked; a server's is of no more use. */
	if (qp->accepted)
		nam__tcp_qp_close(qp, status);
}

void
nam__tcp_qp_close(struct tcp_qp *qp, int status)
{
	if (qp->closing || qp->closed)
		return;
	/* The reason may be in there. */
	if (qp->out.end && !qp->blocked)
		(void)nam__tcp_output_send(qp);
	qp->closing = true;
	qp->reason = status;
	SLIST_INSERT_HEAD(&qp->cq->closing, qp, closing_link);
	qp->reading.left = qp->writing.left = qp->park_left = 0;
	nam__tcp_qp_fail(qp, status);
}

static inline uint32_t
answer_bytes(const struct tcp_request *request)
{
	if (request->op == NAM_WR_READ)
		return request->bytes;
	return request->op == NAM_WR_CAS || request->op == NAM_WR_FETCH_ADD ? 8 : 0;
}

/* The peer has refused the oldest request, and with it all others. */
static bool
refused(struct tcp_qp *qp, struct tcp_frame frame)
{
	if (frame.bytes || (frame.status != TCP_ACCESS && frame.status != TCP_TOO_LONG))
		return false;
	nam__tcp_qp_fail(qp, frame.status == TCP_ACCESS ? -NAM_E_FABRIC_ACCESS :
		-NAM_E_FABRIC_PROTOCOL);
	return true;
}

bool
nam__tcp_take_answer(struct tcp_qp *qp, struct tcp_frame frame)
{
	const struct tcp_request *request = &qp->requests[qp->head & MASK];
	struct tcp_stream *in = &qp->in;
	uint32_t there;

	if (NAM__UNLIKELY(qp->head == qp->written || frame.sequence != qp->answer_sequence))
		return false;
	/* No answer counts for a request that has not left: its body is still in its buffer. */
	if (NAM__UNLIKELY(request->ends > qp->out.left))
		return false;
	qp->answer_sequence++;
	in->begin += (uint32_t)sizeof(frame);
	if (NAM__UNLIKELY(frame.status != TCP_OK))
		return refused(qp, frame);
	if (NAM__UNLIKELY(frame.bytes != answer_bytes(request)))
		return false;
	there = in->end - in->begin;
	if (NAM__UNLIKELY(there < frame.bytes)) {
		memcpy(request->local, in->data + in->begin, there);
		in->begin += there;
		qp->answer = (struct tcp_partial){ (uint8_t *)request->local + there,
			frame.bytes - there };
		return true;
	}
	memcpy(request->local, in->data + in->begin, frame.bytes);
	in->begin += frame.bytes;
	answered(qp);
	return true;
}

void
nam__tcp_answer_arrived(struct tcp_qp *qp, uint64_t bytes)
{
	qp->answer.at += bytes;
	qp->answer.left -= bytes;
	if (!qp->answer.left)
		answered(qp);
}
