/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c -- input of a socket is cut into frames, each frame goes to its module. */
#include <errno.h>
#include <string.h>

#include "tcp_internal.h"

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

/* Take one step through the bytes that have arrived.  TCP_SERVED: there may be another. */
static inline enum tcp_served
take_next(struct tcp_qp *qp)
{
	struct tcp_stream *in = &qp->in, *parked = &qp->parked;
	uint32_t begin = in->begin, bytes = in->end - begin;
	enum tcp_served served;
	struct tcp_frame frame;

	if (NAM__UNLIKELY(qp->park_left)) {
		if (bytes > qp->park_left)
			bytes = (uint32_t)qp->park_left;
		memcpy(parked->data + parked->end, in->data + begin, bytes);
		parked->end += bytes;
		in->begin += bytes;
		qp->park_left -= bytes;
		return TCP_SERVED;
	}
	if (NAM__UNLIKELY(qp->writing.left)) {
		nam__tcp_write_more(qp);
		return in->begin == begin ? TCP_SHORT : TCP_SERVED;
	}
	if (bytes < sizeof(frame))
		return TCP_SHORT;
	memcpy(&frame, in->data + begin, sizeof(frame));
	if (frame.kind == TCP_ANSWER)
		return nam__tcp_take_answer(qp, frame) ? TCP_SERVED : TCP_MALFORMED;
	if (NAM__UNLIKELY(qp->stalled))
		return park_begin(qp, frame) ? TCP_SERVED : TCP_MALFORMED;
	served = nam__tcp_serve(qp, in, frame);
	if (NAM__UNLIKELY(served == TCP_STALLED || qp->reading.left)) {
		qp->stalled = true;
		SLIST_INSERT_HEAD(&qp->cq->stalled, qp, stalled_link);
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

void
nam__tcp_receive(struct tcp_qp *qp)
{
	struct tcp_stream *in = &qp->in;
	struct iovec iov[2];
	uint64_t wanted = qp->answer.left;
	unsigned n = 0;
	ssize_t got;

	/* Room for more, behind the beginning of a frame that is not complete. */
	if (in->capacity - in->end < TCP_WHOLE_BYTES) {
		memmove(in->data, in->data + in->begin, in->end - in->begin);
		in->end -= in->begin;
		in->begin = in->ahead = 0;
	}
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
