/* SPDX-License-Identifier: Apache-2.0 */
/* mailbox.h -- requests that clients WRITE into rings, and the answers to all requests. */
#ifndef NAM_MEMSERVER_MAILBOX_H
#define NAM_MEMSERVER_MAILBOX_H

#include "common/rpc/frame.h"
#include "memserver_internal.h"

/*
 * nam__dispatch -- answer one message.
 *
 * @message, @bytes	as received
 * @reply		NAM_RPC_BYTES_MAX bytes
 *
 * Returns the length of the reply, or 0 when the message is too broken to be answered, or needs no
 * answer.
 */
uint32_t nam__dispatch(struct nam_server *server, struct nam__connection *connection,
	const void *message, uint32_t bytes, void *reply);

/*
 * Answer the request that is in handler->frame into a frame of up to `most` bytes.  Returns the
 * length of the reply; 0: there is none, or it is too long, and goes by SEND.
 */
uint32_t nam__frame_answer(struct nam__handler *handler, struct nam__mailbox *box,
	uint32_t request_bytes, struct nam_frame *frame, uint32_t most);

/* The state of a place in the rings; and one more, for the word in the client's share. */
struct nam__mailbox_slot {
	struct nam__mailbox *box;
	enum { NAM__SLOT_IDLE, NAM__SLOT_WAITS, NAM__SLOT_WRITING } state;
	uint32_t bytes;			/* of the reply's frame */
	/*
	 * With an unreliable queue pair, of the last request from here: its front word, its number,
	 * our SEND.
	 */
	uint64_t front;
	uint32_t number;
	struct nam__buffer sent;
};

struct nam__mailbox {
	struct nam__mailbox *next;	/* handler->arrivals, a lock-free stack */
	LIST_ENTRY(nam__mailbox) link;	/* handler->mailboxes */
	struct nam__connection *connection;
	struct nam_mr mr;		/* our share: requests, replies, the word's next value */
	struct nam_wire_mailbox_hello client;
	uint32_t number;		/* of the last request taken */
	uint32_t waiting;		/* replies that the queue pair had no room for */
	struct nam_qp *unreliable_qp;		/* NULL: requests come over the queue pair */
	uint64_t unreliable_qp_name;
	bool armed;			/* the client knows that it must wake us */
	bool wake_due;			/* it did, and wants to hear that it was answered */
	struct nam__buffer wake;	/* stands for our SEND of that */
	struct nam__buffer spare;	/* a reply that fits in no frame; one at a time */
	struct nam__mailbox_slot slots[NAM_FRAMES + 1];
};

int nam__mailbox_open(struct nam__connection *connection,
	const struct nam_wire_mailbox_hello *client, bool unreliable_qp) NAM_MUST_CHECK;
/* Once the connection is complete: its handler will look at it. */
void nam__mailbox_start(struct nam__connection *connection);
/* By the handler, before the queue pair is destroyed; and the memory, after that. */
void nam__mailbox_stop(struct nam__connection *connection);
void nam__mailbox_free(struct nam__connection *connection);

/* Answer the requests that have come; whether there were any. */
bool nam__mailboxes_poll(struct nam__handler *handler);
/* There was something to do. */
void nam__mailboxes_busy(struct nam__handler *handler);
/* There was nothing to do: whether the handler may sleep now. */
bool nam__mailboxes_may_sleep(struct nam__handler *handler);

/*
 * datagram.c: answer the requests that came over the unreliable queue pair; whether there were any.
 */
bool nam__unreliable_qp_poll(struct nam__handler *handler, struct nam__mailbox *box);

#endif /* NAM_MEMSERVER_MAILBOX_H */
