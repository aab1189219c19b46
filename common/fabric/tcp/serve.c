/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c -- requests of peers: they are checked, carried out, and answered into the output.
 *
 * Loads, stores and atomics are those of shm (shm/copy.h) and promise the same.  So a body goes
 * through the buffers of the connection: the kernel's copy promises nothing about words.
 *
 * A request that cannot be carried out now, and its successors, are kept in `parked`.  The
 * connection goes on being read, for answers.
 */
#include <string.h>

#include "tcp_internal.h"

#define AHEAD_LINES 160u
#define AHEAD_BYTES_MAX 4096u
/* In one visit, of a long READ: the others wait meanwhile. */
#define READ_PIECES 4u

/* NULL: the request reaches outside of what this connection may reach. */
static inline uint8_t *
resolve(const struct tcp_qp *qp, const struct tcp_request_frame *request)
{
	uint32_t slot = request->rkey & 0xffff;
	uint64_t bytes = request->frame.bytes, size;
	uint8_t *base;

	if (NAM__LIKELY(slot < TCP_REGIONS_MAX)) {
		const struct tcp_mr *mr = &qp->domain->mrs[slot];
		/* Pairs with the release in memory.c. */
		uint64_t rkey = atomic_load_explicit(&mr->rkey, memory_order_acquire);

		if (NAM__UNLIKELY((rkey | qp->read_only) != request->rkey) &&
			((rkey | TCP_READ_ONLY) != (request->rkey | TCP_READ_ONLY) ||
				request->frame.kind != NAM_WR_READ))
			return NULL;
		base = mr->base;
		size = mr->bytes;
	} else if (request->rkey == TCP_SHARE_KEY && qp->share.base) {
		base = qp->share.base;
		size = qp->share.bytes;
	} else {
		return NULL;
	}
	if (NAM__UNLIKELY(bytes > size || request->remote > size - bytes))
		return NULL;
	return base + request->remote;
}

static inline uint32_t
prefetch(const uint8_t *at, uint32_t bytes, bool write)
{
	const uint8_t *end = at + (bytes < AHEAD_BYTES_MAX ? bytes : AHEAD_BYTES_MAX);
	uint32_t lines = 0;

	at = (const uint8_t *)((uintptr_t)at & ~(uintptr_t)(TCP_CACHE_LINE - 1));
	for (; at < end; at += TCP_CACHE_LINE, lines++) {
		if (write)
			nam__prefetch_to_write(at);
		else
			__builtin_prefetch(at, 0, 3);
	}
	return lines;
}

/* The memory of some requests that are there, from the first one on. */
static void
look_ahead(const struct tcp_qp *qp, struct tcp_stream *from)
{
	uint32_t at = from->begin, lines = 0;

	while (lines < AHEAD_LINES && from->end - at >= sizeof(struct tcp_frame)) {
		struct tcp_request_frame request = { .rkey = 0 };
		uint32_t head, left = from->end - at;
		const uint8_t *target;

		memcpy(&request.frame, from->data + at, sizeof(request.frame));
		head = nam__tcp_head_bytes(request.frame.kind);
		if (!head || left < head)
			break;
		memcpy(&request, from->data + at, head);
		if (request.frame.kind != NAM_WR_SEND) {
			target = resolve(qp, &request);
			if (!target)
				break;
			lines += 1 + prefetch(target, request.frame.bytes,
				request.frame.kind != NAM_WR_READ);
		}
		if (request.frame.kind == NAM_WR_WRITE || request.frame.kind == NAM_WR_SEND) {
			if (request.frame.bytes > left - head)
				break;
			head += request.frame.bytes;
		}
		at += head;
	}
	/* At the least it need not be tried again for this one. */
	from->ahead = at > from->begin ? at : from->begin + 1;
}

/* `bytes` more are in the output. */
static inline void
entered(struct tcp_qp *qp, uint32_t bytes)
{
	qp->out.end += bytes;
	qp->out.entered += bytes;
}

static inline uint8_t *
answer(struct tcp_qp *qp, enum tcp_status status, uint32_t bytes)
{
	struct tcp_frame frame = {
		.kind = TCP_ANSWER,
		.status = (uint8_t)status,
		.sequence = qp->serve_sequence++,
		.bytes = bytes,
	};
	uint8_t *at = qp->out.data + qp->out.end;

	memcpy(at, &frame, sizeof(frame));
	entered(qp, (uint32_t)sizeof(frame));
	qp->out.frames++;
	return at + sizeof(frame);
}

/* Later requests of that peer are not carried out. */
static enum tcp_served
refuse(struct tcp_qp *qp, enum tcp_status status)
{
	(void)answer(qp, status, 0);
	qp->refusing = true;
	return TCP_SERVED;
}

/* The most of so many bytes that ends with a whole word: no word is cut in two. */
static inline uint32_t
whole_words(const uint8_t *at, uint32_t bytes)
{
	uintptr_t end = ((uintptr_t)at + bytes) & ~(uintptr_t)7;

	return end > (uintptr_t)at ? (uint32_t)(end - (uintptr_t)at) : 0;
}

/* More of a READ that was longer than the output has room for. */
static void
read_more(struct tcp_qp *qp)
{
	for (unsigned i = 0; i < READ_PIECES && qp->reading.left; i++) {
		uint32_t room = nam__tcp_out_room(qp), bytes;

		if (room <= TCP_OUT_RESERVE || qp->blocked)
			break;
		room -= TCP_OUT_RESERVE;
		bytes = qp->reading.left <= room ? (uint32_t)qp->reading.left :
			whole_words(qp->reading.at, room);
		qp->cq->copy_read(qp->out.data + qp->out.end, qp->reading.at, bytes,
			qp->reading.at);
		entered(qp, bytes);
		qp->reading.at += bytes;
		qp->reading.left -= bytes;
		if (qp->reading.left)
			nam__tcp_flush(qp);
	}
	nam__tcp_dirty(qp);
}

static inline enum tcp_served
serve_read(struct tcp_qp *qp, const uint8_t *target, uint32_t bytes)
{
	uint32_t room = nam__tcp_out_room(qp);

	if (NAM__LIKELY(room >= bytes + sizeof(struct tcp_frame) + TCP_OUT_RESERVE &&
		    bytes <= TCP_OUT_BYTES / 2)) {
		qp->cq->copy_read(answer(qp, TCP_OK, bytes), target, bytes, target);
		entered(qp, bytes);
		return TCP_SERVED;
	}
	/* An answer that fits into an empty output waits for one; a longer one goes in pieces. */
	if (qp->out.end && (qp->blocked || bytes <= TCP_OUT_BYTES / 2)) {
		if (!qp->blocked)
			nam__tcp_flush(qp);
		if (qp->out.end)
			return TCP_STALLED;
		return serve_read(qp, target, bytes);
	}
	(void)answer(qp, TCP_OK, bytes);
	qp->reading = (struct tcp_partial){ (uint8_t *)(uintptr_t)target, bytes };
	read_more(qp);
	return TCP_SERVED;
}

static inline enum tcp_served
serve_write(struct tcp_qp *qp, struct tcp_stream *from, uint8_t *target, uint32_t bytes)
{
	if (NAM__UNLIKELY(bytes > from->end - from->begin)) {
		qp->writing = (struct tcp_partial){ target, bytes };
		return TCP_SERVED;
	}
	qp->cq->copy_write(target, from->data + from->begin, bytes);
	from->begin += bytes;
	(void)answer(qp, TCP_OK, 0);
	return TCP_SERVED;
}

void
nam__tcp_write_more(struct tcp_qp *qp)
{
	struct tcp_stream *in = &qp->in;
	uint32_t there = in->end - in->begin;

	if (there < qp->writing.left)
		there = whole_words(qp->writing.at, there);
	else
		there = (uint32_t)qp->writing.left;
	qp->cq->copy_write(qp->writing.at, in->data + in->begin, there);
	in->begin += there;
	qp->writing.at += there;
	qp->writing.left -= there;
	if (!qp->writing.left)
		(void)answer(qp, TCP_OK, 0);
}

static inline enum tcp_served
serve_atomic(struct tcp_qp *qp, const struct tcp_request_frame *request, uint8_t *target)
{
	uint64_t *word = (uint64_t *)(void *)target, old = request->compare;

	if (request->frame.bytes != 8)
		return TCP_MALFORMED;
	if ((uintptr_t)target & 7)
		return refuse(qp, TCP_ACCESS);
	if (request->frame.kind == NAM_WR_CAS)
		(void)__atomic_compare_exchange_n(word, &old, request->swap, 0, __ATOMIC_SEQ_CST,
			__ATOMIC_SEQ_CST);
	else
		old = __atomic_fetch_add(word, request->compare, __ATOMIC_SEQ_CST);
	memcpy(answer(qp, TCP_OK, 8), &old, 8);
	entered(qp, 8);
	return TCP_SERVED;
}

static inline bool
can_receive(const struct tcp_qp *qp)
{
	const struct nam__soft_rq *rq = qp->rq;

	return rq && rq->head != rq->tail && qp->cq->received < qp->cq->receives;
}

static enum tcp_served
serve_send(struct tcp_qp *qp, struct tcp_stream *from, uint32_t bytes)
{
	struct nam__soft_rq *rq = qp->rq;
	struct tcp_done *done;
	struct nam_recv *recv;

	if (!can_receive(qp))
		return TCP_STALLED;
	recv = &rq->recvs[rq->head & rq->mask];
	if (bytes > recv->bytes) {
		from->begin += (uint32_t)sizeof(struct tcp_frame) + bytes;
		(void)refuse(qp, TCP_TOO_LONG);
		return TCP_MALFORMED;
	}
	rq->head++;
	from->begin += (uint32_t)sizeof(struct tcp_frame);
	memcpy(recv->buffer, from->data + from->begin, bytes);
	from->begin += bytes;
	done = nam__tcp_done_push(qp->cq);
	done->recv = *recv;
	done->wc = nam__wc_recv(recv, &qp->pub, bytes);
	qp->cq->received++;
	qp->replying = true;
	(void)answer(qp, TCP_OK, 0);
	return TCP_SERVED;
}

/* Checks of each request, before it is looked at. */
static inline enum tcp_served
examine(const struct tcp_qp *qp, const struct tcp_stream *from, struct tcp_frame frame)
{
	uint32_t there = from->end - from->begin, head = nam__tcp_head_bytes(frame.kind);
	uint64_t whole = head;

	if (NAM__UNLIKELY(!head || frame.status || frame.sequence != qp->serve_sequence))
		return TCP_MALFORMED;
	/* Old words have their room, if no more is asked for than may be. */
	if (NAM__UNLIKELY(nam__tcp_out_room(qp) < sizeof(frame) + 8))
		return TCP_MALFORMED;
	if (frame.kind == NAM_WR_SEND) {
		if (NAM__UNLIKELY(frame.bytes > TCP_MESSAGE_BYTES))
			return TCP_MALFORMED;
		whole += frame.bytes;
	} else if (frame.kind == NAM_WR_WRITE && frame.bytes <= TCP_WHOLE_BYTES - head) {
		whole += frame.bytes;
	}
	return there < whole ? TCP_SHORT : TCP_SERVED;
}

enum tcp_served
nam__tcp_serve(struct tcp_qp *qp, struct tcp_stream *from, struct tcp_frame frame)
{
	enum tcp_served served = examine(qp, from, frame);
	uint32_t head = nam__tcp_head_bytes(frame.kind);
	struct tcp_request_frame request;
	uint8_t *target;

	if (NAM__UNLIKELY(served != TCP_SERVED))
		return served;
	if (from->begin >= from->ahead)
		look_ahead(qp, from);
	if (frame.kind == NAM_WR_SEND)
		return serve_send(qp, from, frame.bytes);
	memcpy(&request, from->data + from->begin, head);
	if (NAM__UNLIKELY(request.reserved))
		return TCP_MALFORMED;
	target = resolve(qp, &request);
	if (NAM__UNLIKELY(!target))
		return refuse(qp, TCP_ACCESS);
	if (frame.kind == NAM_WR_READ) {
		served = serve_read(qp, target, frame.bytes);
		from->begin += served == TCP_SERVED ? head : 0;
		return served;
	}
	from->begin += head;
	return frame.kind == NAM_WR_WRITE ? serve_write(qp, from, target, frame.bytes) :
		serve_atomic(qp, &request, target);
}

bool
nam__tcp_can_resume(const struct tcp_qp *qp)
{
	struct tcp_frame frame = { .kind = 0 };

	if (qp->blocked || qp->closing)
		return false;
	if (qp->reading.left)
		return true;
	if (qp->parked.end - qp->parked.begin < sizeof(frame))
		return false;
	memcpy(&frame, qp->parked.data + qp->parked.begin, sizeof(frame));
	/* All that is parked is whole, but for the last. */
	if (qp->park_left && nam__tcp_frame_bytes(frame) > qp->parked.end - qp->parked.begin)
		return false;
	return frame.kind != NAM_WR_SEND || can_receive(qp);
}

bool
nam__tcp_resume(struct tcp_qp *qp)
{
	struct tcp_stream *parked = &qp->parked;
	enum tcp_served served = TCP_SERVED;
	struct tcp_frame frame;

	if (qp->reading.left)
		read_more(qp);
	while (!qp->reading.left && !qp->refusing &&
		parked->end - parked->begin >= sizeof(frame) && served == TCP_SERVED) {
		memcpy(&frame, parked->data + parked->begin, sizeof(frame));
		served = nam__tcp_serve(qp, parked, frame);
	}
	if (parked->begin == parked->end || qp->refusing)
		parked->begin = parked->end = parked->ahead = 0;
	qp->stalled = qp->reading.left || parked->end || qp->park_left;
	if (qp->out.end)
		nam__tcp_dirty(qp);
	return served != TCP_MALFORMED;
}
