/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mailbox.c -- requests that clients WRITE into our memory, and their replies (common/rpc/frame.h).
 *
 * The handler looks at the place of each connection where the next request is due, and answers a
 * copy.  The reply is put into its place, and WRITTEN to the client unless that wants to fetch it.
 *
 * The handler is not notified of a WRITE.  When spinning no longer pays, it arms the wake-up: each
 * client learns by a WRITE that it has to wake the handler.  The handler waits until these WRITEs
 * have completed, looks once more, and only then sleeps.  A client that wakes it is armed again.
 */
#include "mailbox.h"

#define ARM_NS 100000000u		/* the most until they are polled again */
#define TURN NAM_FRAMES			/* of box->slots: the word in the client's share */

/* Replies may queue in a card for 100 us. */
static const struct nam__spin_limits limits = { .max_ns = 100000, .lost_ns = 30000 };

static uint64_t *
turn_of(const struct nam__mailbox *box)
{
	return (uint64_t *)(void *)((uint8_t *)box->mr.base +
		(size_t)2 * NAM_FRAMES * box->client.frame_bytes);
}

int
nam__mailbox_open(struct nam__connection *connection, const struct nam_wire_mailbox_hello *client,
	bool unreliable_qp)
{
	struct nam_server *server = connection->handler->server;
	uint64_t bytes = nam_mailbox_bytes(client->frame_bytes) + NAM_RPC_BYTES_MAX;
	struct nam__mailbox *box = calloc(1, sizeof(*box));
	struct nam_diag diag;
	int rc;

	if (!box)
		return -ENOMEM;
	rc = server->ops->share_alloc(server->domain, bytes, &box->mr, &diag);
	if (rc) {
		free(box);
		return rc;
	}
	box->connection = connection;
	box->client = *client;
	box->spare.reply = (uint8_t *)box->mr.base + nam_mailbox_bytes(client->frame_bytes);
	for (unsigned i = 0; i <= TURN; i++)
		box->slots[i].box = box;
	connection->mailbox = box;
	if (unreliable_qp) {
		const struct nam_qp_options options = {
			.cq = connection->handler->cq,
			.user = connection,
			.share = &box->mr,
		};

		rc = server->ops->unreliable_qp_create(server->domain, &options,
			&box->unreliable_qp_name, &box->unreliable_qp);
	}
	if (rc) {
		box->unreliable_qp = NULL;
		nam__mailbox_free(connection);
	}
	return rc;
}

void
nam__mailbox_start(struct nam__connection *connection)
{
	struct nam__handler *handler = connection->handler;
	struct nam__mailbox *box = connection->mailbox;

	if (!box)
		return;
	box->next = atomic_load_explicit(&handler->arrivals, memory_order_relaxed);
	/* Release: pairs with the handler, which takes them all. */
	while (!atomic_compare_exchange_weak_explicit(&handler->arrivals, &box->next, box,
		memory_order_release, memory_order_relaxed))
		continue;
	/* The handler may be asleep, and this client is not armed. */
	handler->cq->ops->cq_wake(handler->cq);
}

static void
take_arrivals(struct nam__handler *handler)
{
	struct nam__mailbox *box, *next;

	if (!atomic_load_explicit(&handler->arrivals, memory_order_relaxed))
		return;
	for (box = atomic_exchange_explicit(&handler->arrivals, NULL, memory_order_acquire); box;
		box = next) {
		next = box->next;
		LIST_INSERT_HEAD(&handler->mailboxes, box, link);
		handler->armed = false;
		handler->spin.ns = handler->spin.shy ? 0 : limits.max_ns;
	}
}

static void
unreliable_qp_close(struct nam__mailbox *box)
{
	if (box->unreliable_qp)
		box->unreliable_qp->ops->qp_destroy(box->unreliable_qp);
	box->unreliable_qp = NULL;
}

void
nam__mailbox_stop(struct nam__connection *connection)
{
	if (!connection->mailbox)
		return;
	take_arrivals(connection->handler);
	LIST_REMOVE(connection->mailbox, link);
	unreliable_qp_close(connection->mailbox);
}

void
nam__mailbox_free(struct nam__connection *connection)
{
	struct nam_server *server = connection->handler->server;

	if (!connection->mailbox)
		return;
	unreliable_qp_close(connection->mailbox);
	server->ops->mr_release(server->domain, &connection->mailbox->mr);
	free(connection->mailbox);
	connection->mailbox = NULL;
}

/* WRITE a reply frame, or the word, into the client's share. */
static void
slot_post(struct nam__mailbox_slot *slot)
{
	struct nam__mailbox *box = slot->box;
	struct nam_qp *qp = box->connection->qp;
	uint32_t place = (uint32_t)(slot - box->slots), frame_bytes = box->client.frame_bytes;
	struct nam_wr wr = {
		.op = NAM_WR_WRITE,
		.flags = NAM_WR_SIGNALED,
		.bytes = slot->bytes,
		.rkey = box->client.rkey,
		.lkey = box->mr.lkey,
		.context = slot,
	};

	if (place == TURN) {
		wr.local = turn_of(box);
		wr.remote = box->client.remote;
	} else {
		wr.local = (uint8_t *)box->mr.base + nam_mailbox_reply_at(place, frame_bytes);
		wr.remote = box->client.remote + nam_share_reply_at(place, frame_bytes);
	}
	if (wr.bytes <= box->connection->handler->server->domain->limits.inline_bytes)
		wr.flags |= NAM_WR_INLINE;
	if (slot->state == NAM__SLOT_WAITS)
		box->waiting--;
	if (qp->ops->qp_post(qp, &wr, 1)) {
		slot->state = NAM__SLOT_WAITS;
		box->waiting++;
	} else {
		slot->state = NAM__SLOT_WRITING;
	}
}

/* If there is no room for it, the client will find out by itself. */
static void
wake_back(struct nam__mailbox *box)
{
	struct nam_qp *qp = box->connection->qp;
	struct nam_wr wr = {
		.op = NAM_WR_SEND,
		.bytes = NAM_WAKE_BYTES,
		.lkey = box->mr.lkey,
		.local = turn_of(box),
		.context = &box->wake,
	};

	if (wr.bytes <= box->connection->handler->server->domain->limits.inline_bytes)
		wr.flags |= NAM_WR_INLINE;
	box->wake_due = false;
	(void)qp->ops->qp_post(qp, &wr, 1);
}

static bool
look(struct nam__handler *handler, struct nam__mailbox *box)
{
	uint32_t next = box->number + 1, frame_bytes = box->client.frame_bytes, bytes;
	struct nam__mailbox_slot *slot = &box->slots[nam_frame_place(next)];
	struct nam_frame *reply = (void *)((uint8_t *)box->mr.base +
		nam_mailbox_reply_at(next, frame_bytes));
	const struct nam_frame *frame = (const void *)((const uint8_t *)box->mr.base +
		nam_mailbox_request_at(next, frame_bytes));
	uint16_t flags;

	for (unsigned i = 0; i <= TURN && box->waiting; i++)
		if (box->slots[i].state == NAM__SLOT_WAITS)
			slot_post(&box->slots[i]);
	if (box->unreliable_qp)
		return nam__unreliable_qp_poll(handler, box);
	/* The reply before the last from this place must have left it, and one too long for it. */
	if (!nam_frame_is_new(frame, next) || slot->state || box->spare.sending)
		return false;
	if (nam_frame_take(frame, frame_bytes, next, handler->frame, &bytes, &flags))
		return false;
	box->number = next;
	bytes = nam__frame_answer(handler, box, bytes, reply, frame_bytes);
	nam_frame_seal(reply, next, bytes, 0, nam_now_ns() - handler->polled_ns);
	slot->bytes = nam_frame_bytes(bytes);
	if (!(flags & NAM_FRAME_FETCH))
		slot_post(slot);
	return true;
}

bool
nam__mailboxes_poll(struct nam__handler *handler)
{
	struct nam__mailbox *box;
	bool any = false;
	uint64_t now;

	take_arrivals(handler);
	if (LIST_EMPTY(&handler->mailboxes))
		return false;
	now = nam_now_ns();
	LIST_FOREACH(box, &handler->mailboxes, link) {
		any |= look(handler, box);
		/* The request was there before the wake, and has been answered. */
		if (box->wake_due)
			wake_back(box);
	}
	handler->polled_ns = now;
	return any;
}

static bool
arm(struct nam__handler *handler)
{
	struct nam__mailbox *box;
	bool all = true;

	LIST_FOREACH(box, &handler->mailboxes, link) {
		struct nam__mailbox_slot *slot = &box->slots[TURN];

		if (!box->armed && !slot->state) {
			box->armed = true;
			++*turn_of(box);
			slot->bytes = sizeof(uint64_t);
			slot_post(slot);
		}
		all &= slot->state == NAM__SLOT_IDLE && !box->waiting;
	}
	return all;
}

void
nam__mailboxes_busy(struct nam__handler *handler)
{
	if (handler->asleep_ns)
		nam__spin_slept(&handler->spin, &limits, nam_now_ns() - handler->asleep_ns);
	else if (handler->idle_ns && !handler->spin.shy)
		nam__spin_paid(&handler->spin, &limits);
	handler->idle_ns = handler->asleep_ns = 0;
	handler->armed = false;
}

bool
nam__mailboxes_may_sleep(struct nam__handler *handler)
{
	uint64_t now;

	if (LIST_EMPTY(&handler->mailboxes))
		return true;
	now = nam_now_ns();
	if (handler->armed) {
		/* ... and has found nothing since. */
		handler->armed = false;
		handler->idle_ns = 0;
		handler->asleep_ns = now;
		nam__spin_in_vain(&handler->spin);
		return true;
	}
	if (!handler->idle_ns) {
		handler->idle_ns = now;
		handler->asleep_ns = 0;
		(void)nam__spin_length(&handler->spin, &limits);
	}
	if (now - handler->idle_ns < handler->spin.ns) {
		(void)nam__spin_pause(&handler->spin, &limits, handler->idle_ns, &now);
		return false;
	}
	handler->armed = arm(handler);
	/* Pairs with that of a client on this host: it sees the word, or we see its request. */
	atomic_thread_fence(memory_order_seq_cst);
	/* The last of those WRITEs wakes us; if it takes its time, spinning would, too. */
	if (!handler->armed)
		(void)handler->cq->ops->cq_wait(handler->cq, ARM_NS);
	return false;
}
