/* SPDX-License-Identifier: Apache-2.0 */
/* output.c -- the output of a connection: its own bytes, and the long bodies in between. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "tcp_internal.h"

void
nam__tcp_dirty(struct tcp_qp *qp)
{
	if (qp->dirty)
		return;
	qp->dirty = true;
	SLIST_INSERT_HEAD(&qp->cq->dirty, qp, dirty_link);
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

/* `sent` bytes of the output have been sent. */
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

void
nam__tcp_interest(struct tcp_qp *qp, uint32_t events)
{
	struct epoll_event interest = { .events = events, .data.ptr = qp };

	if (qp->arrived)
		(void)epoll_ctl(qp->cq->epoll_fd, EPOLL_CTL_MOD, qp->fd, &interest);
}

bool
nam__tcp_output_send(struct tcp_qp *qp)
{
	struct tcp_output *out = &qp->out;
	struct iovec iov[2 * TCP_BODIES_MAX + 1];
	uint32_t kept;

	while (out->end != out->begin || out->bodies_begin != out->bodies_end) {
		struct msghdr message = { .msg_iov = iov, .msg_iovlen = gather(out, iov) };
		ssize_t sent = sendmsg(qp->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			qp->blocked = true;
			if (errno == EAGAIN || errno == EWOULDBLOCK)
				nam__tcp_interest(qp, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
			else	/* a reader finds out, behind earlier input */
				(void)shutdown(qp->fd, SHUT_RDWR);
			/* The rest moves to the front. */
			kept = out->bodies_end - out->bodies_begin;
			memmove(out->data, out->data + out->begin, out->end - out->begin);
			memmove(out->bodies, out->bodies + out->bodies_begin,
				kept * sizeof(out->bodies[0]));
			for (uint32_t i = 0; i < kept; i++)
				out->bodies[i].before -= out->begin;
			out->end -= out->begin;
			out->begin = 0;
			out->bodies_begin = 0;
			out->bodies_end = kept;
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
