/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unreliable_qp_reply_fuzz.c -- a client's side of two unreliable queue pairs.  Requests leave, are
 * written again and given up.  Datagrams arrive meanwhile: late, doubled, wrong, ones without a
 * request.  A call ends with a whole reply over its own unreliable queue pair to a request that
 * waits for one, and with no other.
 *
 * input	size of frames; then steps: what, of which unreliable queue pair, ...
 */
#include "compute/rpc/mailbox.h"
#include "fuzz_input.h"

#define UNRELIABLE_QPS 2u
#define CALLS 12u
#define ROOM 48u
#define DATAGRAM_BYTES 1024u

enum step {
	STEP_CALL,		/* a call begins */
	STEP_LEFT,		/* a request has left, or failed to */
	STEP_DUE,		/* a request slot's time is over */
	STEP_GIVE_UP,		/* a call is out of time */
	STEP_REPLY,		/* a datagram with a frame of any number */
	STEP_BYTES,		/* one with any bytes */
	STEP_FULL,		/* from now on there is room for requests, or there is none */
	STEPS
};

enum flag {
	FLAG_BIT = 1,		/* one of the frame's is wrong */
	FLAG_SHORT = 2,		/* its end is missing */
	FLAG_STATUS = 4,	/* the receive failed */
	FLAG_NOBODY = 8,	/* it came over no unreliable queue pair of ours */
};

struct fixture {
	struct nam_worker worker;
	struct nam_client client;
	struct nam_domain domain;
	struct nam_rq rq;
	struct nam_qp unreliable_qps[UNRELIABLE_QPS];
	struct nam__client_mailbox boxes[UNRELIABLE_QPS], *mailboxes[UNRELIABLE_QPS];
	struct nam__one_way *one_way[UNRELIABLE_QPS];
	struct nam__answering answering[UNRELIABLE_QPS];
	struct nam__call calls[CALLS];
	uint8_t *rooms[CALLS];
	struct nam_op_counters counters;
	const uint8_t *buffer;	/* the one that has been taken from the queue */
	bool full;
};

static struct fixture *fixture;

/* ---- the fabric --------------------------------------------------------------------------- */

static int
post(struct nam_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	const struct nam__client_mailbox *box = &fixture->boxes[nam__slot_of(qp)];
	const uint8_t *share = box->mr.base;

	if (count != 1 || wrs->op != NAM_WR_WRITE || wrs->bytes > box->server.frame_bytes ||
		wrs->bytes > DATAGRAM_BYTES ||
		(const uint8_t *)wrs->local < share ||
		(const uint8_t *)wrs->local + wrs->bytes > share + box->mr.bytes ||
		wrs->remote + wrs->bytes > NAM_FRAMES * (uint64_t)box->server.frame_bytes)
		abort();
	return fixture->full ? -NAM_E_FABRIC_FULL : 0;
}

static int
receive(struct nam_rq *rq, const struct nam_recv *recv, unsigned count)
{
	if (rq != &fixture->rq || count != 1 || recv->buffer != fixture->buffer)
		abort();
	fixture->buffer = NULL;
	return 0;
}

static const struct nam_fabric_ops ops = { .qp_post = post, .rq_post = receive };

static void
fixture_new(uint32_t frame_bytes)
{
	fixture = aligned_alloc(_Alignof(struct fixture), sizeof(*fixture));
	if (!fixture)
		abort();
	memset(fixture, 0, sizeof(*fixture));
	fixture->domain.limits.datagram_bytes = DATAGRAM_BYTES;
	fixture->domain.limits.inline_bytes = 64;
	fixture->rq.ops = &ops;
	fixture->client.servers_count = UNRELIABLE_QPS;
	fixture->client.domains[0] = &fixture->domain;
	fixture->worker.client = &fixture->client;
	fixture->worker.qp_post = post;
	fixture->worker.datagram_rq = &fixture->rq;
	fixture->worker.mailboxes = fixture->mailboxes;
	fixture->worker.one_way = fixture->one_way;
	fixture->worker.answering = fixture->answering;
	for (uint32_t i = 0; i < UNRELIABLE_QPS; i++) {
		struct nam__client_mailbox *box = &fixture->boxes[i];

		fixture->unreliable_qps[i] = (struct nam_qp){ .ops = &ops,
			.user = &fixture->answering[i] };
		fixture->answering[i].slot = i;
		fixture->mailboxes[i] = box;
		box->worker = &fixture->worker;
		box->domain = &fixture->domain;
		box->slot = i;
		box->unreliable_qp = &fixture->unreliable_qps[i];
		box->server.frame_bytes = frame_bytes;
		box->mr.bytes = NAM_SHARE_WORD_BYTES + (uint64_t)3 * NAM_FRAMES * frame_bytes;
		box->mr.base = fuzz_memory(box->mr.bytes);
		/* The other one is about to begin anew. */
		box->sent = box->taken = i ? UINT32_MAX - NAM_FRAMES : 0;
		for (unsigned j = 0; j < NAM_FRAMES; j++)
			box->slots[j].box = box;
	}
	for (uint32_t i = 0; i < CALLS; i++) {
		fixture->rooms[i] = fuzz_memory(i * ROOM);
		fixture->calls[i].done = true;
	}
}

static void
fixture_free(void)
{
	for (unsigned i = 0; i < UNRELIABLE_QPS; i++)
		free(fixture->boxes[i].mr.base);
	for (unsigned i = 0; i < CALLS; i++)
		free(fixture->rooms[i]);
	free(fixture);
}

/* ---- what must be so after each step -------------------------------------------------------- */

static void
check(void)
{
	uint32_t waiting = 0;

	for (unsigned i = 0; i < UNRELIABLE_QPS; i++) {
		const struct nam__client_mailbox *box = &fixture->boxes[i];
		uint32_t each = 0;

		for (unsigned j = 0; j < NAM_FRAMES; j++) {
			const struct nam__request_slot *req = &box->slots[j];

			each += req->state == NAM__SLOT_WAITING;
			if (req->call && (req->call->done || req->call->req != req ||
				req->state == NAM__SLOT_FREE))
				abort();
		}
		if (box->waiting != each || box->sent - box->taken > NAM_FRAMES)
			abort();
		waiting += each;
	}
	if (fixture->worker.slots_waiting != waiting)
		abort();
	for (unsigned i = 0; i < CALLS; i++)
		if (fixture->calls[i].rc > 0 ||
			fixture->calls[i].body_bytes > fixture->calls[i].body_size)
			abort();
}

/* ---- steps -------------------------------------------------------------------------------- */

static struct nam__request_slot *
req_of(struct fuzz_input *input, uint32_t unreliable_qp)
{
	return &fixture->boxes[unreliable_qp].slots[fuzz_u8(input) % NAM_FRAMES];
}

static void
call(struct fuzz_input *input, uint32_t unreliable_qp)
{
	uint8_t body[255 * 6] = { 0 };
	uint32_t number = fuzz_u8(input) % CALLS, bytes = fuzz_u8(input) * 6u;
	struct nam__call *one = &fixture->calls[number];
	struct nam_wr wr;

	if (!one->done)
		return;
	*one = (struct nam__call){
		.id = ++fixture->worker.call_ids,
		.counters = &fixture->counters,
		.body = fixture->rooms[number],
		.body_size = number * ROOM,
		.slot = unreliable_qp,
		.type = NAM_RPC_PING,
	};
	if (!nam__client_mailbox_write(&fixture->boxes[unreliable_qp], one, body, bytes, &wr)) {
		one->done = true;
	} else if (post(&fixture->unreliable_qps[unreliable_qp], &wr, 1)) {
		nam__client_mailbox_unwrite(one->req);
		one->req = NULL;
		one->done = true;
	} else {
		SLIST_INSERT_HEAD(&fixture->worker.calls, one, link);
	}
}

static void
left(struct nam__request_slot *req, uint8_t status)
{
	struct nam_wc wc = {
		.op = NAM_WR_WRITE,
		.status = status % 8 == 7 ? -NAM_E_FABRIC_PEER_DEAD : 0,
		.context = nam__handler_context(&req->completion),
	};

	if (req->state == NAM__SLOT_WRITING)
		nam__request_slot_completed(&fixture->worker, &req->completion, &wc);
}

static void
due(struct nam__request_slot *req)
{
	if (req->state != NAM__SLOT_WAITING)
		return;
	req->due_ns = 0;
	nam__datagram_look(req);
}

static void
give_up(struct nam__call *one)
{
	if (!one->done)
		nam__call_end(&fixture->worker, one, -NAM_E_FABRIC_TIMEOUT);
}

/* Which of the calls are done, a bit for each. */
static uint32_t
calls_done(void)
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < CALLS; i++)
		bits |= (uint32_t)fixture->calls[i].done << i;
	return bits;
}

/*
 * In memory of exactly its length.  `owner` is the request slot of the frame's number, if it is
 * whole.
 */
static void
hear(uint32_t unreliable_qp, uint8_t flags, const void *frame, uint32_t bytes,
	const struct nam__request_slot *owner)
{
	struct nam__datagram *datagram =
		fuzz_memory(sizeof(*datagram) + NAM_DATAGRAM_HEADROOM + bytes);
	bool waits = owner && owner->state != NAM__SLOT_FREE && !owner->answered &&
		!(flags & (FLAG_STATUS | FLAG_NOBODY));
	uint32_t before = calls_done(), ended;
	struct nam_wc wc = {
		.op = NAM_WC_RECV,
		.status = flags & FLAG_STATUS ? -NAM_E_FABRIC_PEER_DEAD : 0,
		.bytes = bytes,
		.qp = flags & FLAG_NOBODY ? NULL : &fixture->unreliable_qps[unreliable_qp],
		.context = nam__handler_context(&datagram->completion),
	};

	memcpy(datagram->bytes + NAM_DATAGRAM_HEADROOM, frame, bytes);
	fixture->buffer = datagram->bytes;
	nam__datagram_completed(&fixture->worker, &datagram->completion, &wc);
	ended = calls_done() & ~before;
	for (unsigned i = 0; i < CALLS; i++)
		if (ended >> i & 1 && (!waits || fixture->calls[i].slot != unreliable_qp))
			abort();
	if (fixture->buffer)
		abort();
	free(datagram);
}

/* A reply to some request, perhaps to the one whose number its frame has. */
static void
reply(struct fuzz_input *input, uint32_t unreliable_qp)
{
	struct nam_frame *frame = fuzz_memory(DATAGRAM_BYTES + 512);
	const struct nam__request_slot *near = req_of(input, unreliable_qp), *owner;
	uint32_t number = near->number + (uint32_t)(int32_t)(int8_t)fuzz_u8(input);
	uint8_t flags = fuzz_u8(input), type = fuzz_u8(input), whom = fuzz_u8(input);
	uint32_t head = sizeof(struct nam_rpc_header), body = fuzz_u8(input) * 4u, all;
	uint64_t id = whom < 128 && near->call ? near->call->id :
		fixture->calls[whom % CALLS].id;

	owner = &fixture->boxes[unreliable_qp].slots[nam_frame_place(number)];
	nam_rpc_header_fill((void *)frame->message, type < 240 ? NAM_RPC_PING : type, id, 0, body);
	((struct nam_rpc_header *)(void *)frame->message)->status = type < 200 ? 0 : -type;
	fuzz_take(input, frame->message + head, body);
	nam_frame_seal(frame, number, head + body, 0, 0);
	all = nam_frame_bytes(head + body);
	if (flags & FLAG_BIT)
		((uint8_t *)frame)[fuzz_u16(input) % all] ^= 0x10;
	if (flags & FLAG_SHORT)
		all = fuzz_u16(input) % all;
	if (all > DATAGRAM_BYTES)
		all = DATAGRAM_BYTES;
	hear(unreliable_qp, flags, frame, all, number == owner->number && !(flags & FLAG_BIT) &&
		all == nam_frame_bytes(head + body) ? owner : NULL);
	free(frame);
}

static void
step(struct fuzz_input *input, unsigned what, uint32_t unreliable_qp)
{
	uint8_t bytes[256];

	switch (what) {
	case STEP_CALL:
		call(input, unreliable_qp);
		break;
	case STEP_LEFT:
		left(req_of(input, unreliable_qp), fuzz_u8(input));
		break;
	case STEP_DUE:
		due(req_of(input, unreliable_qp));
		break;
	case STEP_GIVE_UP:
		give_up(&fixture->calls[fuzz_u8(input) % CALLS]);
		break;
	case STEP_REPLY:
		reply(input, unreliable_qp);
		break;
	case STEP_BYTES:
		hear(unreliable_qp, 0, bytes, (uint32_t)fuzz_take(input, bytes, fuzz_u8(input)),
			NULL);
		break;
	default:
		fixture->full = !fixture->full;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };

	fixture_new(NAM_FRAME_BYTES_MIN + fuzz_u8(&input) % 32 * 64);
	for (unsigned steps = 0; input.left && steps < 300; steps++) {
		uint8_t what = fuzz_u8(&input);

		step(&input, what % STEPS, what / STEPS % UNRELIABLE_QPS);
		check();
	}
	fixture_free();
	return 0;
}
