/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_stream_fuzz.c -- a connection of the tcp provider whose peer sends arbitrary bytes, in
 * pieces.  They are requests to either side, and answers to requests, posted or not.
 *
 * input	which side, then steps: what the peer does, or what we do
 *
 * For any input nothing outside of registered memory is touched, and each request completes once
 * and in order.  Each receive buffer comes back at most once.  Once the peer has hung up, all of
 * them have, and CLOSED is last.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "common/fabric/provider.h"
#include "common/fabric/tcp/tcp_internal.h"
#include "fuzz_input.h"

#define DEPTH 24u
#define RECVS 4u
#define RECV_BYTES 512u
#define REGION_BYTES 8192u
#define LOCAL_BYTES 4096u
#define LONG_BYTES (300u << 10)		/* does not fit into the output */

enum step {
	STEP_REQUEST, STEP_ANSWER, STEP_BYTES, STEP_TAKE, STEP_BODY,		/* theirs */
	STEP_POLL, STEP_RECV, STEP_POST, STEP_POST_LONG, STEP_WAIT,		/* ours */
	STEPS_COUNT
};

enum fix {
	FIX_SEQUENCE = 1, FIX_KIND = 2, FIX_KEY = 4, FIX_ADDRESS = 8, FIX_LENGTH = 16,
};

#define STEPS_MAX 300u

struct fixture {
	struct nam_cq *cq;
	struct nam_rq *rq;
	struct tcp_qp *qp;
	int peer;
	uint16_t sequence;		/* of the peer's next request, if all before made sense */
	uint8_t *local, *recvs[RECVS];
	bool posted[RECVS];
	uint64_t asked, completed;
	uint64_t due[2];		/* the least number to complete; of a server's SENDs */
	bool done[STEPS_MAX];		/* by number */
	bool closed;
};

static struct nam_domain *domain;
static struct nam_mr region, share, longs;

static void
open_once(void)
{
	if (domain)
		return;
	if (nam__tcp_ops.domain_open(NULL, &domain, NULL) ||
		nam__tcp_mr_register(domain, fuzz_memory(REGION_BYTES), REGION_BYTES,
			NAM_MR_REMOTE, &region, NULL) ||
		nam__tcp_mr_register(domain, fuzz_memory(LONG_BYTES), LONG_BYTES, NAM_MR_REMOTE,
			&longs, NULL) ||
		nam__tcp_share_alloc(domain, 4096, &share, NULL))
		abort();
}

static void
fixture_open(struct fixture *f, bool accepted)
{
	struct nam_qp_options options = { .share = &share };
	int ends[2];

	memset(f, 0, sizeof(*f));
	if (nam__tcp_cq_create(domain, DEPTH, &f->cq) ||
		nam__tcp_rq_create(domain, f->cq, RECVS, &f->rq))
		abort();
	options.cq = f->cq;
	options.rq = f->rq;
	if (nam__tcp_qp_create((struct tcp_domain *)domain, &options, accepted, &f->qp) ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		abort();
	f->qp->fd = ends[0];
	f->peer = ends[1];
	nam__tcp_cq_arrive(f->qp->cq, f->qp);
	f->local = fuzz_memory(LOCAL_BYTES);
	for (unsigned i = 0; i < RECVS; i++)
		f->recvs[i] = fuzz_memory(RECV_BYTES);
}

static void
fixture_close(struct fixture *f)
{
	nam__tcp_qp_destroy(&f->qp->pub);
	nam__tcp_rq_destroy(f->rq);
	nam__tcp_cq_destroy(f->cq);
	for (unsigned i = 0; i < RECVS; i++)
		free(f->recvs[i]);
	free(f->local);
	close(f->peer);
}

/* ---- theirs ------------------------------------------------------------------------------- */

static void
say(struct fixture *f, const void *data, size_t bytes)
{
	/* Bytes that find no room are lost, so frames are cut in two. */
	(void)!send(f->peer, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void
say_request(struct fixture *f, struct fuzz_input *input)
{
	struct tcp_request_frame request;
	uint8_t fix = fuzz_u8(input);
	uint32_t head;

	fuzz_take(input, &request, sizeof(request));
	if (fix & FIX_KIND) {
		request.frame.kind = (uint8_t)(1 + request.frame.kind % NAM_WR_SEND);
		request.frame.status = 0;
		request.reserved = 0;
	}
	if (fix & FIX_SEQUENCE)
		request.frame.sequence = f->sequence;
	if (fix & FIX_KEY)
		request.rkey = request.rkey % 3 == 0 ? region.rkey :
			request.rkey % 3 == 1 ? longs.rkey : TCP_SHARE_KEY;
	if (fix & FIX_ADDRESS)
		request.remote = request.remote % (REGION_BYTES / 8) * 8;
	if (fix & FIX_LENGTH)
		request.frame.bytes = request.frame.kind == NAM_WR_CAS ||
			request.frame.kind == NAM_WR_FETCH_ADD ? 8 :
			request.frame.bytes % (request.rkey == longs.rkey ? LONG_BYTES : 600);
	f->sequence++;
	head = nam__tcp_head_bytes(request.frame.kind);
	say(f, &request, head ? head : 8);
}

static void
say_body(struct fixture *f, struct fuzz_input *input)
{
	static uint8_t body[65536];
	uint32_t bytes = fuzz_u16(input);

	memset(body, fuzz_u8(input), bytes);
	say(f, body, bytes);
}

static void
say_answer(struct fixture *f, struct fuzz_input *input)
{
	static const uint8_t body[LOCAL_BYTES];
	const struct tcp_request *due = &f->qp->requests[f->qp->head % TCP_QP_DEPTH];
	uint8_t fix = fuzz_u8(input);
	struct tcp_frame frame;
	uint32_t bytes = 0;

	fuzz_take(input, &frame, sizeof(frame));
	frame.kind = TCP_ANSWER;
	if (fix & FIX_SEQUENCE)
		frame.sequence = f->qp->answer_sequence;
	if (fix & FIX_KIND)
		frame.status = TCP_OK;
	if (fix & FIX_LENGTH) {
		if (due->op == NAM_WR_READ)
			bytes = due->bytes;
		else if (due->op == NAM_WR_CAS || due->op == NAM_WR_FETCH_ADD)
			bytes = 8;
		frame.bytes = bytes;
	}
	say(f, &frame, sizeof(frame));
	/* Its body may come late. */
	if ((fix & FIX_ADDRESS) && bytes <= sizeof(body))
		say(f, body, bytes);
}

static void
say_bytes(struct fixture *f, struct fuzz_input *input)
{
	uint8_t bytes[255];
	uint8_t count = fuzz_u8(input);

	fuzz_take(input, bytes, count);
	say(f, bytes, count);
}

static void
take_what_was_said(struct fixture *f)
{
	static uint8_t scratch[65536];

	(void)!recv(f->peer, scratch, sizeof(scratch), MSG_DONTWAIT);
}

/* ---- ours --------------------------------------------------------------------------------- */

/* Once each, in the order of posting; but a memory server's SENDs may be ahead of the others. */
static void
complete(struct fixture *f, const struct nam_wc *wc)
{
	uint64_t number = (uint64_t)(uintptr_t)wc->context;
	uint64_t *due = &f->due[f->qp->accepted && wc->op == NAM_WR_SEND];

	if (number >= f->asked || f->done[number] || (!wc->status && number < *due))
		abort();
	if (!f->qp->accepted && number != f->completed)
		abort();
	f->done[number] = true;
	f->completed++;
	*due = number + 1;
}

static void
poll_some(struct fixture *f, unsigned max)
{
	struct nam_wc wcs[8];
	int n = nam__tcp_cq_poll(f->cq, wcs, max);

	if (n < 0 || (unsigned)n > max || (f->closed && n))
		abort();
	for (int i = 0; i < n; i++) {
		if (wcs[i].op == NAM_WC_CLOSED) {
			if (f->completed != f->asked)
				abort();
			f->closed = true;
		} else if (wcs[i].op == NAM_WC_RECV) {
			uintptr_t slot = (uintptr_t)wcs[i].context;

			if (!f->posted[slot] || wcs[i].bytes > RECV_BYTES)
				abort();
			f->posted[slot] = false;
		} else {
			complete(f, &wcs[i]);
		}
	}
}

static void
post(struct fixture *f, struct fuzz_input *input, bool is_long)
{
	static const uint8_t ops[] = { NAM_WR_READ, NAM_WR_WRITE, NAM_WR_CAS, NAM_WR_FETCH_ADD,
		NAM_WR_SEND, 99 };
	struct nam_wr wr = {
		.op = ops[fuzz_u8(input) % sizeof(ops)],
		.flags = NAM_WR_SIGNALED | (fuzz_u8(input) & NAM_WR_INLINE),
		.bytes = fuzz_u16(input) % LOCAL_BYTES,
		.local = f->local,
		.context = (void *)(uintptr_t)f->asked,
	};

	if (is_long) {
		wr.bytes = LONG_BYTES;
		wr.local = longs.base;
		wr.flags &= (uint8_t)~NAM_WR_INLINE;
	} else if (wr.op == NAM_WR_CAS || wr.op == NAM_WR_FETCH_ADD) {
		wr.bytes = 8;
	}
	/* Of a queue pair that is closed there is nothing to be heard. */
	if (!f->closed && !nam__tcp_qp_post(&f->qp->pub, &wr, 1))
		f->asked++;
}

static void
post_receive(struct fixture *f, struct fuzz_input *input)
{
	uintptr_t slot = fuzz_u8(input) % RECVS;
	struct nam_recv recv = {
		.buffer = f->recvs[slot], .bytes = RECV_BYTES, .context = (void *)slot };

	if (f->posted[slot])
		return;
	if (nam__tcp_rq_post(f->rq, &recv, 1))
		abort();
	f->posted[slot] = true;
}

static void
step(struct fixture *f, struct fuzz_input *input)
{
	switch (fuzz_u8(input) % STEPS_COUNT) {
	case STEP_REQUEST:
		say_request(f, input);
		break;
	case STEP_ANSWER:
		say_answer(f, input);
		break;
	case STEP_BYTES:
		say_bytes(f, input);
		break;
	case STEP_TAKE:
		take_what_was_said(f);
		break;
	case STEP_BODY:
		say_body(f, input);
		break;
	case STEP_POLL:
		poll_some(f, fuzz_u8(input) % 9);
		break;
	case STEP_RECV:
		post_receive(f, input);
		break;
	case STEP_POST:
		post(f, input, false);
		break;
	case STEP_POST_LONG:
		post(f, input, true);
		break;
	default:
		(void)nam__tcp_cq_wait(f->cq, 0);
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct tcp_cq *cq;
	struct fixture f;

	open_once();
	fixture_open(&f, fuzz_u8(&input) & 1);
	for (unsigned i = 0; i < STEPS_MAX && input.left; i++)
		step(&f, &input);
	(void)shutdown(f.peer, SHUT_WR);
	/* 256 KiB of answers may come first, if what is parked goes on with every buffer posted. */
	for (unsigned i = 0; i < 200; i++) {
		take_what_was_said(&f);
		poll_some(&f, 8);
	}
	/* A client whose requests failed for a reason of its own hears of no end. */
	if (f.completed != f.asked || (!f.closed && !f.qp->error))
		abort();
	cq = f.qp->cq;
	if (cq->outstanding || cq->received)
		abort();
	fixture_close(&f);
	return 0;
}
