/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c -- between a connection's socket and its buffers: what arrives is cut into frames,
 * what is to be sent is gathered.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "tcp_internal.h"

/* ---- sending -------------------------------------------------------------------------------- */

void
nam__tcp_dirty(struct tcp_qp *qp)
{
	if (qp->dirty)
		return;
	qp->dirty = true;
	qp->next_dirty = qp->cq->dirty;
	qp->cq->dirty = qp;
}

/* The output as it is to be sent: its own bytes, and the long bodies in between. */
static unsigned
gather(const struct tcp_output *out, struct iovec *iov)
{
	uint32_t at = out->begin;
	unsigned n = 0;

	for (uint32_t i = out->bodies_begin; i < out->bodies_end; i++) {
		const struct tcp_body *body = &out->bodies[i];

		if (body->before != at)
			iov[n++] = (struct iovec){ out->data + at, body->before - at };
		iov[n++] = (struct iovec){ (void *)(uintptr_t)body->at, body->bytes };
		at = body->before;
	}
	if (out->end != at)
		iov[n++] = (struct iovec){ out->data + at, out->end - at };
	return n;
}

/* So many bytes of it have been sent. */
static void
advance(struct tcp_output *out, size_t sent)
{
	while (sent) {
		struct tcp_body *body = out->bodies_begin < out->bodies_end ?
			&out->bodies[out->bodies_begin] : NULL;
		size_t own = (body ? body->before : out->end) - out->begin;
		size_t part = sent < own ? sent : own;

		out->begin += (uint32_t)part;
		sent -= part;
		if (!body || !sent)
			return;
		part = sent < body->bytes ? sent : body->bytes;
		body->at += part;
		body->bytes -= (uint32_t)part;
		sent -= part;
		if (!body->bytes)
			out->bodies_begin++;
	}
}

/* What is left moves to the front. */
static void
compact(struct tcp_output *out)
{
	uint32_t kept = out->bodies_end - out->bodies_begin;

	memmove(out->data, out->data + out->begin, out->end - out->begin);
	memmove(out->bodies, out->bodies + out->bodies_begin, kept * sizeof(out->bodies[0]));
	for (uint32_t i = 0; i < kept; i++)
		out->bodies[i].before -= out->begin;
	out->end -= out->begin;
	out->begin = 0;
	out->bodies_begin = 0;
	out->bodies_end = kept;
}

static void
set_interest(struct tcp_qp *qp, uint32_t events)
{
	struct epoll_event interest = { .events = events, .data.ptr = qp };

	if (qp->arrived)
		(void)epoll_ctl(qp->cq->epoll_fd, EPOLL_CTL_MOD, qp->fd, &interest);
}

/* True if the output is empty. */
static bool
send_output(struct tcp_qp *qp)
{
	struct tcp_output *out = &qp->out;
	struct iovec iov[2 * TCP_BODIES_MAX + 1];

	while (out->end != out->begin || out->bodies_begin != out->bodies_end) {
		struct msghdr message = { .msg_iov = iov, .msg_iovlen = gather(out, iov) };
		ssize_t sent = sendmsg(qp->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			qp->blocked = true;
			if (errno == EAGAIN || errno == EWOULDBLOCK)
				set_interest(qp, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
			else	/* who reads finds out, behind what came before */
				(void)shutdown(qp->fd, SHUT_RDWR);
			compact(out);
			return false;
		}
		qp->moved += (size_t)sent;
		out->left += (size_t)sent;
		advance(out, (size_t)sent);
	}
	out->begin = out->end = out->frames = 0;
	out->bodies_begin = out->bodies_end = 0;
	return true;
}

void
nam__tcp_flush(struct tcp_qp *qp)
{
	if (qp->blocked)
		return;
	if (!send_output(qp))
		return;
	/* What there was no room for before. */
	while (qp->written != qp->tail) {
		uint32_t written = qp->written;

		nam__tcp_write_requests(qp);
		if (qp->written == written || !send_output(qp))
			return;
	}
}

void
nam__tcp_unblock(struct tcp_qp *qp)
{
	if (!qp->blocked || qp->error)
		return;
	qp->blocked = false;
	set_interest(qp, EPOLLIN | EPOLLRDHUP);
	nam__tcp_flush(qp);
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void
stall(struct tcp_qp *qp)
{
	struct tcp_cq *cq = qp->cq;

	if (qp->stalled)
		return;
	qp->stalled = true;
	qp->next_stalled = cq->stalled;
	cq->stalled = qp;
}

/* The next frame of `in` is to be kept.  False: it makes no sense, or is more than may be asked. */
static bool
park_begin(struct tcp_qp *qp, struct tcp_frame frame)
{
	struct tcp_stream *parked = &qp->parked;
	uint64_t bytes = nam__tcp_frame_bytes(frame);

	if (!bytes || (frame.kind == NAM_WR_SEND && frame.bytes > TCP_MESSAGE_BYTES))
		return false;
	memmove(parked->data, parked->data + parked->begin, parked->end - parked->begin);
	parked->end -= parked->begin;
	parked->begin = parked->ahead = 0;
	if (bytes > parked->capacity - parked->end)
		return false;
	qp->park_left = bytes;
	return true;
}

static void
park_more(struct tcp_qp *qp)
{
	struct tcp_stream *in = &qp->in, *parked = &qp->parked;
	uint32_t bytes = in->end - in->begin;

	if (bytes > qp->park_left)
		bytes = (uint32_t)qp->park_left;
	memcpy(parked->data + parked->end, in->data + in->begin, bytes);
	parked->end += bytes;
	in->begin += bytes;
	qp->park_left -= bytes;
}

/* One step through what has arrived.  TCP_SERVED: there may be another. */
static inline enum tcp_served
take_next(struct tcp_qp *qp)
{
	struct tcp_stream *in = &qp->in;
	uint32_t begin = in->begin;
	enum tcp_served served;
	struct tcp_frame frame;

	if (TCP_UNLIKELY(qp->park_left)) {
		park_more(qp);
		return TCP_SERVED;
	}
	if (TCP_UNLIKELY(qp->writing.left)) {
		nam__tcp_write_more(qp);
		return in->begin == begin ? TCP_SHORT : TCP_SERVED;
	}
	if (in->end - begin < sizeof(frame))
		return TCP_SHORT;
	memcpy(&frame, in->data + begin, sizeof(frame));
	if (frame.kind == TCP_ANSWER)
		return nam__tcp_take_answer(qp, frame) ? TCP_SERVED : TCP_MALFORMED;
	if (TCP_UNLIKELY(qp->stalled))
		return park_begin(qp, frame) ? TCP_SERVED : TCP_MALFORMED;
	served = nam__tcp_serve(qp, in, frame);
	if (TCP_UNLIKELY(served == TCP_STALLED || qp->reading.left)) {
		stall(qp);
		return TCP_SERVED;
	}
	return served;
}

static void
take_all(struct tcp_qp *qp)
{
	struct tcp_stream *in = &qp->in;
	enum tcp_served served = TCP_SERVED;

	while (in->begin != in->end && served == TCP_SERVED && !qp->refusing && !qp->error)
		served = take_next(qp);
	if (qp->refusing || qp->error)
		in->begin = in->end;
	if (in->begin == in->end)
		in->begin = in->end = in->ahead = 0;
	if (served == TCP_MALFORMED)
		nam__tcp_qp_close(qp, -NAM_E_FABRIC_PROTOCOL);
	else if (qp->out.end || qp->written != qp->tail)
		nam__tcp_dirty(qp);
}

/* Room for more, behind the beginning of a frame that is not complete. */
static void
make_room(struct tcp_stream *in)
{
	if (in->capacity - in->end >= TCP_WHOLE_BYTES)
		return;
	memmove(in->data, in->data + in->begin, in->end - in->begin);
	in->end -= in->begin;
	in->begin = in->ahead = 0;
}

void
nam__tcp_receive(struct tcp_qp *qp)
{
	struct tcp_stream *in = &qp->in;
	struct iovec iov[2];
	uint64_t wanted = qp->answer.left;
	unsigned n = 0;
	ssize_t got;

	make_room(in);
	/* The rest of what is being read goes straight to its place. */
	if (wanted)
		iov[n++] = (struct iovec){ qp->answer.at, wanted };
	iov[n++] = (struct iovec){ in->data + in->end, in->capacity - in->end };
	do {
		got = readv(qp->fd, iov, (int)n);
	} while (got < 0 && errno == EINTR);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (got <= 0) {
		nam__tcp_qp_close(qp, -NAM_E_FABRIC_PEER_DEAD);
		return;
	}
	qp->moved += (uint64_t)got;
	if (wanted) {
		if (wanted > (uint64_t)got)
			wanted = (uint64_t)got;
		nam__tcp_answer_arrived(qp, wanted);
	}
	in->end += (uint32_t)((uint64_t)got - wanted);
	take_all(qp);
}
