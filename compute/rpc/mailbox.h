/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mailbox.h -- client mailboxes, and requests over unreliable queue pairs.
 */
#ifndef NAM_COMPUTE_RPC_MAILBOX_H
#define NAM_COMPUTE_RPC_MAILBOX_H

#include "common/fabric/colocated.h"
#include "common/rpc/frame.h"
#include "call.h"

/*
 * rpc/mailbox.c: a connection's side of the memory server's mailbox (common/rpc/frame.h).  A
 * request slot is a request on its way, from its WRITE until the reply has been taken.
 */
struct nam__request_slot {
	struct nam__completion completion;
	struct nam__client_mailbox *box;
	struct nam__call *call;		/* NULL once it has ended */
	struct nam_op_counters *counters;
	enum { NAM__SLOT_FREE, NAM__SLOT_WRITING, NAM__SLOT_WAITING, NAM__SLOT_FETCHING }
		state;
	bool fetch;			/* the reply stays at the memory server */
	bool answered;			/* unreliable queue pair: before the request had left */
	uint16_t tries;			/* ... times that it was written again */
	uint32_t bytes;			/* ... of the message */
	bool woke;			/* a wake went out for it; the server wakes back */
	uint32_t number;
	uint32_t fetches;		/* READs that looked for the reply */
	uint32_t here;			/* bytes of the reply's frame that have been READ */
	uint32_t wanted;		/* ... that shall be */
	uint64_t written_ns;		/* the request was there */
	uint64_t due_ns;		/* when to look again */
	uint64_t first_ns;		/* unreliable queue pair: the first try had left */
};

struct nam__client_mailbox {
	struct nam_worker *worker;
	struct nam_domain *domain;
	struct nam_mr mr;		/* this side's share: word, replies, requests, READs */
	struct nam_wire_mailbox_welcome server;
	uint32_t slot;
	uint32_t fetch_bytes;		/* 0: replies are never fetched */
	struct nam_colocated_share share;	/* the memory server's, if a file of this host */
	bool near;			/* it is in this machine: requests and fetches are copies */
	uint32_t sent, taken;		/* numbers of the last slots posted, and done with */
	uint32_t waiting;		/* request slots in that state, and 1 for a wake_pending */
	struct nam_qp *unreliable_qp;	/* NULL unless the RPC transport is datagram */
	uint64_t takes_ns;		/* ... a call, on average */
	uint32_t woken_turn;		/* the last turn of the memory server that a wake ended */
	bool wake_pending;
	bool reply;			/* the memory server is slow: it is to reply by WRITE */
	uint32_t slow, quick;		/* request slots in a row */
	struct nam__request_slot slots[NAM_FRAMES];
	struct nam__request_slot wake;	/* stands for its SEND */
};

/*
 * A share for a connection about to be made, and an unreliable queue pair if the RPC transport
 * wants one.  Appends both to the hello and sets its flags.
 */
int nam__client_mailbox_new(struct nam_worker *worker, uint32_t slot, enum nam_transport transport,
	struct nam_hello *hello, uint32_t *ret_flags, struct nam__client_mailbox **ret_box)
	NAM_MUST_CHECK;
/* Takes the memory server's welcome over this queue pair: 0 or -NAM_E_FABRIC_PROTOCOL. */
int nam__client_mailbox_welcome(struct nam__client_mailbox *box, struct nam_qp *qp,
	const struct nam_hello *reply) NAM_MUST_CHECK;
/* The queue pair has been destroyed.  Accepts NULL. */
void nam__client_mailbox_free(struct nam__client_mailbox *box);
/* Take a place for a request and fill in its WRITE; false: it must go by SEND. */
bool nam__client_mailbox_write(struct nam__client_mailbox *box, struct nam__call *call,
	const void *body, uint32_t body_bytes, struct nam_wr *ret_wr);
/* The request was not posted after all.  The slot taken last is given back first. */
void nam__client_mailbox_unwrite(struct nam__request_slot *req);
/* The processor has copied the request. */
void nam__client_mailbox_written_colocated(struct nam__request_slot *req);
/* The handler of a request slot: its WRITE, its READ or its SEND has completed. */
void nam__request_slot_completed(struct nam_worker *worker, struct nam__completion *completion,
	const struct nam_wc *wc);
/* The memory server's wake has arrived.  Accepts NULL. */
void nam__client_mailbox_wake_came(struct nam__client_mailbox *box);
/* Look for replies, if worker->slots_waiting.  Returns how many there were. */
int nam__client_mailboxes_poll(struct nam_worker *worker);
/* How long the worker may sleep, at most wait_ns, before it looks again. */
uint64_t nam__client_mailboxes_wait_max(const struct nam_worker *worker, uint64_t wait_ns);

/*
 * The states of a request slot, for rpc/mailbox.c and datagram.c.  It waits until `due_ns`, or for
 * its reply; its place is free; its call, if it still has one, fails.
 */
void nam__request_slot_wait(struct nam__request_slot *req, uint64_t due_ns);
void nam__request_slot_stop_waiting(struct nam__request_slot *req);
void nam__request_slot_free(struct nam__request_slot *req);
void nam__request_slot_fail(struct nam__request_slot *req, int rc);
/* Where its request lies. */
struct nam_frame *nam__request_slot_request(const struct nam__request_slot *req);
/* The request that posts it. */
void nam__request_slot_write(struct nam__request_slot *req, struct nam_wr *ret_wr);
/* Wake the memory server, if it sleeps and no task has woken it since.  Whether this did. */
bool nam__client_mailbox_wake_server(struct nam__client_mailbox *box,
	struct nam_op_counters *counters);

/* datagram.c: buffers for replies, before the first unreliable queue pair is made. */
int nam__datagrams_open(struct nam_worker *worker, struct nam_diag *diag) NAM_MUST_CHECK;
void nam__datagrams_close(struct nam_worker *worker);
/* A request has left. */
void nam__datagram_left(struct nam__request_slot *req);
/* Look at a request that waits: its time may be over. */
void nam__datagram_look(struct nam__request_slot *req);
/* A receive buffer and its handler. */
struct nam__datagram {
	struct nam__completion completion;
	uint8_t reserved[NAM__CACHE_LINE - sizeof(struct nam__completion)];
	uint8_t bytes[];
};

void nam__datagram_completed(struct nam_worker *worker, struct nam__completion *completion,
	const struct nam_wc *wc);

static inline uint8_t *
nam__ring_at(const struct nam__client_mailbox *box, unsigned ring, uint32_t number)
{
	return (uint8_t *)box->mr.base + NAM_SHARE_WORD_BYTES +
		(size_t)(ring * NAM_FRAMES + nam_frame_place(number)) * box->server.frame_bytes;
}

static inline void
nam__slots_waiting_add(struct nam__client_mailbox *box, uint32_t count)
{
	box->waiting += count;
	box->worker->slots_waiting += count;
}

#endif /* NAM_COMPUTE_RPC_MAILBOX_H */
