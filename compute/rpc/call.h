/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h -- RPCs of a worker that are under way, and one-way requests.
 */
#ifndef NAM_COMPUTE_RPC_CALL_H
#define NAM_COMPUTE_RPC_CALL_H

#include "compute/worker/worker.h"

struct nam__request_slot;

/* The context of a SEND or of a receive buffer, itself a worker's buffer. */
struct nam__message {
	struct nam__completion completion;
	uint8_t *bytes;			/* NAM_RPC_BYTES_MAX of them, registered */
	uint32_t lkey;
	bool is_receive;
	struct nam__call *call;		/* SEND: NULL once the call has ended */
	bool *sent;			/* or NULL; to be set once it has completed */
};

/*
 * rpc/call.c: a request under way.  It belongs to the caller and keeps its address until it has
 * been awaited.
 */
struct nam__call {
	SLIST_ENTRY(nam__call) link;	/* worker->calls */
	uint64_t id;
	uint64_t deadline_ns;
	struct nam__task *task;		/* that awaits it, until the deadline; or NULL */
	struct nam_op_counters *counters;
	struct nam__message *message;	/* NULL once the SEND has completed */
	/* NULL unless it went by a client mailbox, which still waits */
	struct nam__request_slot *req;
	void *body;			/* where the reply's body goes */
	uint32_t body_size;		/* room there */
	uint32_t body_bytes;		/* of the reply */
	uint32_t slot;
	uint32_t acknowledged;		/* one-way requests, when it began */
	uint32_t replies;		/* of this memory server to any call, when it began */
	int rc;
	uint16_t type;
	bool by_send;			/* whatever the RPC transport */
	bool colocated;			/* it left without the network */
	bool done;
};

/*
 * As nam_rpc_call(), in two steps, so that several can be under way: 0, or it has not begun.  The
 * caller counts the wait, for one or several, as a round trip, unless all are local.
 */
int nam__rpc_begin(struct nam_worker *worker, struct nam__call *call, uint32_t slot, uint16_t type,
	const void *body, uint32_t body_bytes, void *ret_body, uint32_t ret_size) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__rpc_await(struct nam_worker *worker, struct nam__call *call,
	uint32_t *ret_bytes) NAM_MUST_CHECK;

int nam__rpc_post_receives(struct nam_worker *worker) NAM_MUST_CHECK;

/* Begin a PING that follows all requests by SEND so far, whatever the RPC transport. */
int nam__rpc_ping_begin(struct nam_worker *worker, struct nam__call *call, uint32_t slot)
	NAM_MUST_CHECK;
/* rpc/drain.c; see struct nam__worker_ops */
bool nam__rpc_drain(struct nam_worker *worker, uint32_t slot);

/* A call that follows all one-way requests so far, so that its reply acknowledges them. */
NAM_FIBER_FN int nam__rpc_ping_by_send(struct nam_worker *worker, uint32_t slot) NAM_MUST_CHECK;
/* Send a one-way request.  0, with its id, or as nam_rpc_call(). */
int nam__rpc_post_one_way(struct nam_worker *worker, uint32_t slot, uint16_t type, const void *body,
	uint32_t body_bytes, uint64_t *ret_id) NAM_MUST_CHECK;

/*
 * rpc/one_way.c: the one-way requests of a connection, by number.  Requests up to `acknowledged`
 * were carried out, failed or not; the others may have been.
 */
struct nam__one_way {
	uint32_t sent, acknowledged;
	uint32_t failed;		/* of those acknowledged */
	uint32_t before, failed_before;	/* of these, over earlier connections */
	int rc;				/* the first failure not reported yet */
	struct {
		uint64_t id;
		bool failed;		/* its own reply has said so */
	} each[NAM_ONE_WAY_MAX];
};

static inline uint32_t
nam__one_way_under_way(const struct nam__one_way *one_way)
{
	return one_way->sent - one_way->acknowledged;
}

/* The connection has ended. */
void nam__one_way_closed(struct nam_worker *worker, uint32_t slot);

/* rpc/reply.c; see struct nam__worker_ops */
void nam__rpc_server_closed(struct nam_worker *worker, uint32_t slot);
void nam__rpc_check_deadlines(struct nam_worker *worker, uint64_t then_ns);

/* A message of that server's, wherever it was found: it ends the call that it answers, if any. */
void nam__rpc_reply(struct nam_worker *worker, uint32_t slot, const void *message, uint32_t bytes);
/* NULL: it has ended. */
struct nam__call *nam__call_find(const struct nam_worker *worker, uint64_t id);
/* Take the call off the list and let its task go on: all calls end here (C3). */
void nam__call_end(struct nam_worker *worker, struct nam__call *call, int rc);

/* Whether a slot has a server.  Until it is published, only the thread that appended it asks. */
static inline bool
nam__slot_has_server(const struct nam_client *client, uint32_t slot)
{
	return slot < NAM_SERVERS_MAX && client->servers[slot].ops;
}

#endif /* NAM_COMPUTE_RPC_CALL_H */
