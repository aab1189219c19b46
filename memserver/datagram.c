/* SPDX-License-Identifier: Apache-2.0 */
/*
 * datagram.c -- requests and replies over an unreliable queue pair.  Either may be lost, late,
 * doubled or overtaken (common/rpc/frame.h).
 *
 * The last request from a place decides.  A higher number is carried out, and its reply kept.  If
 * the number is the same and the try higher, that reply goes out once more.  All else is of the
 * past.  A reply is not overwritten before it has left.  A reply that is too long goes over the
 * connection.
 */
#include "mailbox.h"

static struct nam_frame *
reply_of(const struct nam__mailbox *box, uint32_t place)
{
	return (void *)((uint8_t *)box->mr.base +
		nam_mailbox_reply_at(place, box->client.frame_bytes));
}

/* If there is no room for it, the client will ask again. */
static void
reply_send(struct nam__mailbox *box, struct nam__mailbox_slot *slot, uint32_t place)
{
	struct nam_wr wr = {
		.op = NAM_WR_SEND,
		.flags = NAM_WR_SIGNALED,
		.bytes = slot->bytes,
		.lkey = box->mr.lkey,
		.local = reply_of(box, place),
		.context = &slot->sent,
	};

	if (wr.bytes <= box->connection->handler->server->domain->limits.inline_bytes)
		wr.flags |= NAM_WR_INLINE;
	if (!box->unreliable_qp->ops->qp_post(box->unreliable_qp, &wr, 1))
		slot->sent.sending = box->connection;
}

static void
carry_out(struct nam__handler *handler, struct nam__mailbox *box, uint32_t place,
	uint32_t request_bytes)
{
	uint32_t most = MIN(handler->server->domain->limits.datagram_bytes,
		box->client.frame_bytes), bytes;
	struct nam__mailbox_slot *slot = &box->slots[place];
	struct nam_frame *frame = reply_of(box, place);

	slot->bytes = 0;
	bytes = nam__frame_answer(handler, box, request_bytes, frame, most);
	if (!bytes)
		return;
	nam_frame_seal(frame, slot->number, bytes, 0, 0);
	slot->bytes = nam_frame_bytes(bytes);
	reply_send(box, slot, place);
}

/* M12 */
static bool
place_look(struct nam__handler *handler, struct nam__mailbox *box, uint32_t place)
{
	const struct nam_frame *frame = (const void *)((const uint8_t *)box->mr.base +
		nam_mailbox_request_at(place, box->client.frame_bytes));
	uint64_t front = __atomic_load_n(&frame->front, __ATOMIC_ACQUIRE);
	struct nam__mailbox_slot *slot = &box->slots[place];
	uint32_t number = (uint32_t)front, bytes;
	int32_t ahead = (int32_t)(number - slot->number);
	uint16_t flags;

	if (front == slot->front || !front || nam_frame_place(number) != place ||
		slot->sent.sending || box->spare.sending || (NAM_GUARD(DATAGRAM_ONCE) &&
		ahead < 0))
		return false;
	if (nam_frame_take(frame, box->client.frame_bytes, number, handler->frame,
		&bytes, &flags))
		return false;
	if (NAM_GUARD(DATAGRAM_ONCE) && !ahead) {
		if (nam_frame_try(flags) <= nam_frame_try((uint16_t)(slot->front >> 48)))
			return false;
		slot->front = handler->frame->front;
		if (slot->bytes)
			reply_send(box, slot, place);
		return true;
	}
	slot->front = handler->frame->front;
	slot->number = number;
	carry_out(handler, box, place, bytes);
	return true;
}

bool
nam__unreliable_qp_poll(struct nam__handler *handler, struct nam__mailbox *box)
{
	bool any = false;

	for (uint32_t place = 0; place < NAM_FRAMES; place++)
		any |= place_look(handler, box, place);
	return any;
}
