/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane_reply_fuzz.c -- a client's side of two lanes: requests leave, are written again and given
 * up, and datagrams arrive meanwhile: late, doubled, wrong, ones that nobody asked for.  A call
 * ends with a whole reply over its own lane to a request that waits for one, and with no other.
 *
 * input	size of frames; then steps: what, of which lane, ...
 */
#include "compute/compute_internal.h"
#include "fuzz_input.h"

#define LANES 2u
#define CALLS 12u
#define ROOM 48u
#define DATAGRAM_BYTES 1024u

enum step {
	STEP_CALL,		/* a call begins */
	STEP_LEFT,		/* a request has left, or failed to */
	STEP_DUE,		/* a letter's time is over */
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
	FLAG_NOBODY = 8,	/* it came over no lane of ours */
};

struct fixture {
	struct nam_worker worker;
	struct nam_client client;
	struct nam_domain domain;
	struct nam_rq rq;
	struct nam_qp lanes[LANES];
	struct nam__postbox boxes[LANES], *postboxes[LANES];
	struct nam__passives *passives[LANES];
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
	const struct nam__postbox *box = &fixture->boxes[(uintptr_t)qp->user];
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
	fixture->client.servers_count = LANES;
	fixture->client.domains[0] = &fixture->domain;
	fixture->worker.client = &fixture->client;
	fixture->worker.qp_post = post;
	fixture->worker.datagram_rq = &fixture->rq;
	fixture->worker.postboxes = fixture->postboxes;
	fixture->worker.passives = fixture->passives;
	for (uint32_t i = 0; i < LANES; i++) {
		struct nam__postbox *box = &fixture->boxes[i];

		fixture->lanes[i] = (struct nam_qp){ .ops = &ops, .user = (void *)(uintptr_t)i };
		fixture->postboxes[i] = box;
		box->worker = &fixture->worker;
		box->domain = &fixture->domain;
		box->slot = i;
		box->lane = &fixture->lanes[i];
		box->server.frame_bytes = frame_bytes;
		box->mr.bytes = NAM_SHARE_WORD_BYTES + (uint64_t)3 * NAM_FRAMES * frame_bytes;
		box->mr.base = fuzz_memory(box->mr.bytes);
		/* The other one is about to begin anew. */
		box->sent = box->taken = i ? UINT32_MAX - NAM_FRAMES : 0;
		for (unsigned j = 0; j < NAM_FRAMES; j++)
			box->letters[j].box = box;
	}
	for (uint32_t i = 0; i < CALLS; i++) {
		fixture->rooms[i] = fuzz_memory(i * ROOM);
		fixture->calls[i].done = true;
	}
}

static void
fixture_free(void)
{
	for (unsigned i = 0; i < LANES; i++)
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

	for (unsigned i = 0; i < LANES; i++) {
		const struct nam__postbox *box = &fixture->boxes[i];
		uint32_t each = 0;

		for (unsigned j = 0; j < NAM_FRAMES; j++) {
			const struct nam__letter *letter = &box->letters[j];

			each += letter->state == NAM__LETTER_WAITING;
			if (letter->call && (letter->call->done || letter->call->letter != letter ||
				letter->state == NAM__LETTER_FREE))
				abort();
		}
		if (box->waiting != each || box->sent - box->taken > NAM_FRAMES)
			abort();
		waiting += each;
	}
	if (fixture->worker.letters_waiting != waiting)
		abort();
	for (unsigned i = 0; i < CALLS; i++)
		if (fixture->calls[i].rc > 0 ||
			fixture->calls[i].body_bytes > fixture->calls[i].body_size)
			abort();
}

/* ---- steps -------------------------------------------------------------------------------- */

static struct nam__letter *
letter_of(struct fuzz_input *input, uint32_t lane)
{
	return &fixture->boxes[lane].letters[fuzz_u8(input) % NAM_FRAMES];
}

static void
call(struct fuzz_input *input, uint32_t lane)
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
		.slot = lane,
		.type = NAM_RPC_PING,
	};
	if (!nam__postbox_write(&fixture->boxes[lane], one, body, bytes, &wr)) {
		one->done = true;
	} else if (post(&fixture->lanes[lane], &wr, 1)) {
		nam__postbox_unwrite(one->letter);
		one->letter = NULL;
		one->done = true;
	} else {
		one->next = fixture->worker.calls;
		fixture->worker.calls = one;
	}
}

static void
left(struct nam__letter *letter, uint8_t status)
{
	struct nam_wc wc = {
		.op = NAM_WR_WRITE,
		.status = status % 8 == 7 ? -NAM_E_FABRIC_PEER_DEAD : 0,
		.context = (void *)((uintptr_t)letter | NAM__CONTEXT_LETTER),
	};

	if (letter->state == NAM__LETTER_WRITING)
		nam__postbox_completed(&fixture->worker, &wc);
}

static void
due(struct nam__letter *letter)
{
	if (letter->state != NAM__LETTER_WAITING)
		return;
	letter->due_ns = 0;
	nam__datagram_look(letter);
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
 * In memory of exactly its length.  `owner` is the letter of the frame's number, if it is whole.
 */
static void
hear(uint32_t lane, uint8_t flags, const void *frame, uint32_t bytes,
	const struct nam__letter *owner)
{
	uint8_t *buffer = fuzz_memory(NAM_DATAGRAM_HEADROOM + bytes);
	bool waits = owner && owner->state != NAM__LETTER_FREE && !owner->answered &&
		!(flags & (FLAG_STATUS | FLAG_NOBODY));
	uint32_t before = calls_done(), ended;
	struct nam_wc wc = {
		.op = NAM_WC_RECV,
		.status = flags & FLAG_STATUS ? -NAM_E_FABRIC_PEER_DEAD : 0,
		.bytes = bytes,
		.qp = flags & FLAG_NOBODY ? NULL : &fixture->lanes[lane],
		.context = (void *)((uintptr_t)buffer | NAM__CONTEXT_DATAGRAM),
	};

	memcpy(buffer + NAM_DATAGRAM_HEADROOM, frame, bytes);
	fixture->buffer = buffer;
	nam__datagram_completed(&fixture->worker, &wc);
	ended = calls_done() & ~before;
	for (unsigned i = 0; i < CALLS; i++)
		if (ended >> i & 1 && (!waits || fixture->calls[i].slot != lane))
			abort();
	if (fixture->buffer)
		abort();
	free(buffer);
}

/* A reply to some request, perhaps to the one whose number its frame has. */
static void
reply(struct fuzz_input *input, uint32_t lane)
{
	struct nam_frame *frame = fuzz_memory(DATAGRAM_BYTES + 512);
	const struct nam__letter *near = letter_of(input, lane), *owner;
	uint32_t number = near->number + (uint32_t)(int32_t)(int8_t)fuzz_u8(input);
	uint8_t flags = fuzz_u8(input), type = fuzz_u8(input), whom = fuzz_u8(input);
	uint32_t head = sizeof(struct nam_rpc_header), body = fuzz_u8(input) * 4u, all;
	uint64_t id = whom < 128 && near->call ? near->call->id :
		fixture->calls[whom % CALLS].id;

	owner = &fixture->boxes[lane].letters[nam_frame_place(number)];
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
	hear(lane, flags, frame, all, number == owner->number && !(flags & FLAG_BIT) &&
		all == nam_frame_bytes(head + body) ? owner : NULL);
	free(frame);
}

static void
step(struct fuzz_input *input, unsigned what, uint32_t lane)
{
	uint8_t bytes[256];

	switch (what) {
	case STEP_CALL:
		call(input, lane);
		break;
	case STEP_LEFT:
		left(letter_of(input, lane), fuzz_u8(input));
		break;
	case STEP_DUE:
		due(letter_of(input, lane));
		break;
	case STEP_GIVE_UP:
		give_up(&fixture->calls[fuzz_u8(input) % CALLS]);
		break;
	case STEP_REPLY:
		reply(input, lane);
		break;
	case STEP_BYTES:
		hear(lane, 0, bytes, (uint32_t)fuzz_take(input, bytes, fuzz_u8(input)), NULL);
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

		step(&input, what % STEPS, what / STEPS % LANES);
		check();
	}
	fixture_free();
	return 0;
}
