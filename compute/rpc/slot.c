/* SPDX-License-Identifier: Apache-2.0 */
/* slot.c -- request slots of a client mailbox: states, and the WRITE of a request. */
#include "compute/rpc/mailbox.h"

void
nam__request_slot_wait(struct nam__request_slot *req, uint64_t due_ns)
{
	req->due_ns = due_ns;
	if (req->state != NAM__SLOT_WAITING)
		nam__slots_waiting_add(req->box, 1);
	req->state = NAM__SLOT_WAITING;
}

void
nam__request_slot_stop_waiting(struct nam__request_slot *req)
{
	if (req->state == NAM__SLOT_WAITING)
		nam__slots_waiting_add(req->box, UINT32_MAX);
}

/* The slot is free; the ring's end moves on over all free slots. */
void
nam__request_slot_free(struct nam__request_slot *req)
{
	struct nam__client_mailbox *box = req->box;

	nam__request_slot_stop_waiting(req);
	req->state = NAM__SLOT_FREE;
	if (req->call)
		req->call->req = NULL;
	req->call = NULL;
	while (box->taken != box->sent &&
		box->slots[nam_frame_place(box->taken + 1)].state == NAM__SLOT_FREE)
		box->taken++;
}

struct nam_frame *
nam__request_slot_request(const struct nam__request_slot *req)
{
	return (struct nam_frame *)(void *)nam__ring_at(req->box, 1, req->number);
}

void
nam__request_slot_write(struct nam__request_slot *req, struct nam_wr *ret_wr)
{
	const struct nam__client_mailbox *box = req->box;

	*ret_wr = (struct nam_wr){
		.op = NAM_WR_WRITE,
		.flags = NAM_WR_SIGNALED,
		.bytes = nam_frame_bytes(req->bytes),
		.remote = box->server.remote +
			nam_mailbox_request_at(req->number, box->server.frame_bytes),
		.rkey = box->server.rkey,
		.lkey = box->mr.lkey,
		.local = nam__request_slot_request(req),
		.context = nam__handler_context(&req->completion),
	};
	if (ret_wr->bytes <= box->domain->limits.inline_bytes)
		ret_wr->flags |= NAM_WR_INLINE;
}
