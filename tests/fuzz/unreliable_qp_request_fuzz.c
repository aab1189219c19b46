/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unreliable_qp_request_fuzz.c -- requests that come over an unreliable queue pair to a memory
 * server: torn, doubled, out of order, of any numbers.  A request is carried out only if it is
 * whole and new, and once.  A reply is whole, and has the number that was requested last.
 *
 * input	size of frames, whether numbers are about to wrap; steps: what, which place, ...
 */
#include "fuzz_server.h"
#include "memserver/mailbox.h"

#define DATAGRAM_BYTES 1024u

enum step {
	STEP_WRITE,		/* a request arrives: number, try, message */
	STEP_TORN,		/* so much of one does */
	STEP_BYTES,		/* any bytes, anywhere among requests */
	STEP_AGAIN,		/* the last one there arrives again, its try higher */
	STEP_LEFT,		/* our SENDs from that place, and of the spare, have left */
	STEP_FULL,		/* from now on there is room for SENDs, or there is none */
	STEP_LOOK,
	STEPS
};

/* The last request that was sent there. */
struct place {
	struct nam_frame *frame;
	uint32_t bytes;		/* of the message; 0: there was none */
};

struct fixture {
	struct fuzz_server *memory;
	struct nam__handler *handler;
	struct nam_domain domain;
	struct nam__connection connection;
	struct nam__mailbox box;
	struct nam_qp qp, unreliable_qp;
	struct place places[NAM_FRAMES];
	bool full;
};

/* ---- what the handler sends --------------------------------------------------------------- */

static void
reply_sent(const struct fixture *fixture, const struct nam_wr *wr)
{
	const struct nam__mailbox *box = &fixture->box;
	uint64_t at = (uint64_t)((const uint8_t *)wr->local - (const uint8_t *)box->mr.base);
	uint32_t place = (uint32_t)(at / box->client.frame_bytes) - NAM_FRAMES, bytes = 0;
	uint16_t flags;

	if (place >= NAM_FRAMES || at % box->client.frame_bytes || wr->bytes > DATAGRAM_BYTES ||
		wr->bytes > box->client.frame_bytes ||
		wr->context != &box->slots[place].sent || box->slots[place].sent.sending ||
		nam_frame_check(wr->local, wr->bytes, box->slots[place].number, &bytes, &flags) ||
		nam_frame_bytes(bytes) != wr->bytes)
		abort();
}

static int
post(struct nam_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	struct fixture *fixture = qp->user;

	if (count != 1 || wrs->op != NAM_WR_SEND || wrs->bytes > NAM_RPC_BYTES_MAX)
		abort();
	if (fixture->full)
		return -NAM_E_FABRIC_FULL;
	if (qp == &fixture->unreliable_qp)
		reply_sent(fixture, wrs);
	return 0;
}

static const struct nam_fabric_ops ops = { .qp_post = post };

/* ---- the fixture -------------------------------------------------------------------------- */

static struct fixture *
fixture_new(uint32_t frame_bytes, bool wraps)
{
	struct fixture *fixture = fuzz_memory(sizeof(*fixture));
	struct nam__mailbox *box = &fixture->box;
	struct nam__handler *handler;

	fixture->memory = fuzz_server_new(0);
	handler = fixture->handler = &fixture->memory->server.handlers[0];
	fixture->memory->server.domain = &fixture->domain;
	fixture->domain.limits.datagram_bytes = DATAGRAM_BYTES;
	fixture->domain.limits.inline_bytes = 64;
	handler->frame = fuzz_memory(NAM_FRAME_BYTES_MAX);
	handler->reply = fuzz_memory(NAM_RPC_BYTES_MAX);
	fixture->qp = fixture->unreliable_qp = (struct nam_qp){ .ops = &ops, .user = fixture };
	fixture->connection.handler = handler;
	fixture->connection.qp = &fixture->qp;
	fixture->connection.mailbox = box;
	box->connection = &fixture->connection;
	box->client.frame_bytes = frame_bytes;
	box->unreliable_qp = &fixture->unreliable_qp;
	box->mr.bytes = nam_mailbox_bytes(frame_bytes);
	box->mr.base = fuzz_memory(box->mr.bytes);
	box->spare.reply = fuzz_memory(NAM_RPC_BYTES_MAX);
	for (uint32_t i = 0; i < NAM_FRAMES; i++) {
		fixture->places[i].frame = fuzz_memory(NAM_FRAME_BYTES_MAX);
		box->slots[i].box = box;
		box->slots[i].number = wraps ? UINT32_MAX - NAM_FRAMES + 1 + i : 0;
	}
	return fixture;
}

static void
fixture_free(struct fixture *fixture)
{
	struct nam__handler *handler = fixture->handler;

	for (unsigned i = 0; i < NAM_FRAMES; i++)
		free(fixture->places[i].frame);
	free(handler->reply);
	free(fixture->box.spare.reply);
	free(handler->frame);
	free(fixture->box.mr.base);
	nam__membership_detach(&fixture->memory->server.membership, &fixture->connection);
	fuzz_server_free(fixture->memory);
	free(fixture);
}

static uint8_t *
request_at(const struct fixture *fixture, uint32_t place)
{
	return (uint8_t *)fixture->box.mr.base +
		nam_mailbox_request_at(place, fixture->box.client.frame_bytes);
}

/* ---- steps -------------------------------------------------------------------------------- */

/* A message whose envelope is right, of any type and with any body. */
static uint32_t
message_make(struct fuzz_input *input, uint32_t frame_bytes, struct nam_frame *frame)
{
	uint32_t most = frame_bytes - NAM_FRAME_OVERHEAD, head = sizeof(struct nam_rpc_header);
	uint16_t type = (uint16_t)(1 + fuzz_u8(input) % (NAM_RPC_TYPES_COUNT - 1));
	uint32_t body;

	if (most > NAM_RPC_BYTES_MAX)
		most = NAM_RPC_BYTES_MAX;
	body = fuzz_u16(input) % (most - head + 1);
	nam_rpc_header_fill((void *)frame->message, type, fuzz_u8(input), 0, body);
	fuzz_take(input, frame->message + head, body);
	return head + body;
}

static void
arrive(struct fixture *fixture, uint32_t place, struct fuzz_input *input, bool torn)
{
	struct nam_frame *frame = fixture->places[place].frame;
	uint32_t number = fixture->box.slots[place].number +
		(uint32_t)(int32_t)(int8_t)fuzz_u8(input);
	uint16_t flags = (uint16_t)(fuzz_u8(input) * NAM_FRAME_TRY);
	uint32_t bytes = message_make(input, fixture->box.client.frame_bytes, frame);
	uint32_t arrived = nam_frame_bytes(bytes);

	nam_frame_seal(frame, number, bytes, flags, 0);
	if (torn)
		arrived = fuzz_u16(input) % (arrived + 1) / 8 * 8;
	memcpy(request_at(fixture, place), frame, arrived);
	fixture->places[place].bytes = bytes;
}

static void
arrive_again(struct fixture *fixture, uint32_t place)
{
	struct place *last = &fixture->places[place];
	uint16_t flags = (uint16_t)((last->frame->front >> 48) + NAM_FRAME_TRY);

	if (!last->bytes)
		return;
	nam_frame_seal(last->frame, (uint32_t)last->frame->front, last->bytes, flags, 0);
	memcpy(request_at(fixture, place), last->frame, nam_frame_bytes(last->bytes));
}

/* Whether what lies there is what sealing its message anew makes of it; its number in any case. */
static bool
is_whole(const struct fixture *fixture, uint32_t place, uint32_t *ret_number)
{
	const struct nam_frame *frame = (const void *)request_at(fixture, place);
	uint32_t bytes = frame->front >> 32 & 0xffff, all = nam_frame_bytes(bytes);
	struct nam_frame *again;
	bool whole;

	*ret_number = (uint32_t)frame->front;
	if (all > fixture->box.client.frame_bytes)
		return false;
	again = fuzz_memory(all);
	memcpy(again->message, frame->message, bytes);
	nam_frame_seal(again, *ret_number, bytes, (uint16_t)(frame->front >> 48), frame->pace);
	whole = !memcmp(again, frame, all);
	free(again);
	return whole;
}

static uint64_t
answered(const struct fixture *fixture)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < NAM_SERVICES_MAX; i++)
		sum += atomic_load(&fixture->handler->services[i].requests);
	return sum;
}

static void
look(struct fixture *fixture)
{
	uint64_t requests = answered(fixture);
	uint32_t numbers[NAM_FRAMES], asked[NAM_FRAMES];
	bool whole[NAM_FRAMES];

	for (uint32_t i = 0; i < NAM_FRAMES; i++) {
		numbers[i] = fixture->box.slots[i].number;
		whole[i] = is_whole(fixture, i, &asked[i]);
	}
	(void)nam__unreliable_qp_poll(fixture->handler, &fixture->box);
	for (uint32_t i = 0; i < NAM_FRAMES; i++) {
		uint32_t number = fixture->box.slots[i].number;

		if (number == numbers[i])
			continue;
		requests++;
		if (!whole[i] || (int32_t)(number - numbers[i]) <= 0 ||
			number != asked[i])
			abort();
	}
	if (answered(fixture) != requests)
		abort();
}

static void
sends_left(struct fixture *fixture, uint32_t place)
{
	fixture->box.slots[place].sent.sending = NULL;
	fixture->box.spare.sending = NULL;
}

static void
bytes_arrive(struct fixture *fixture, struct fuzz_input *input)
{
	uint32_t all = NAM_FRAMES * fixture->box.client.frame_bytes, at = fuzz_u16(input) % all;
	uint32_t bytes = fuzz_u8(input);

	if (bytes > all - at)
		bytes = all - at;
	fuzz_take(input, (uint8_t *)fixture->box.mr.base + at, bytes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };
	uint32_t frame_bytes = NAM_FRAME_BYTES_MIN + fuzz_u8(&input) % 32 * 64;
	struct fixture *fixture = fixture_new(frame_bytes, fuzz_u8(&input) & 1);
	struct nam_server *server = &fixture->memory->server;

	for (unsigned steps = 0; input.left && steps < 300; steps++) {
		uint8_t what = fuzz_u8(&input);
		uint32_t place = what / STEPS % NAM_FRAMES;

		switch (what % STEPS) {
		case STEP_WRITE:
			arrive(fixture, place, &input, false);
			break;
		case STEP_TORN:
			arrive(fixture, place, &input, true);
			break;
		case STEP_BYTES:
			bytes_arrive(fixture, &input);
			break;
		case STEP_AGAIN:
			arrive_again(fixture, place);
			break;
		case STEP_LEFT:
			sends_left(fixture, place);
			break;
		case STEP_FULL:
			fixture->full = !fixture->full;
			break;
		default:
			look(fixture);
			nam__objects_idle(&server->trees, server);
			nam__objects_idle(&server->stores, server);
		}
	}
	fixture_free(fixture);
	return 0;
}
