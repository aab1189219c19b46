/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.h -- read, write, compare-and-swap and fetch-and-add on remote memory.
 *
 * A batch collects requests, rings one doorbell per memory server that it touches, and waits once.
 * Requests of one batch to one server take effect under the ordering rules of the fabric
 * (fabric.h); between servers there is no order.
 *
 * `local` must lie in memory from nam_buffer_take(): providers with real NICs have only that
 * registered.
 */
#ifndef NAM_COMPUTE_REMOTE_H
#define NAM_COMPUTE_REMOTE_H

#include <stdint.h>

#include "../common/fabric/fabric.h"
#include "../common/gaddr.h"
#include "client.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NAM_BATCH_MAX 40u	/* requests */

/* Lives on the caller's stack. */
struct nam_batch {
	struct nam_worker *worker;
	uint32_t count;
	int rc;				/* the first error while collecting */
	bool posted, sent;		/* some already; some of these over the network */
	uint16_t servers[NAM_BATCH_MAX];
	struct nam_wr wrs[NAM_BATCH_MAX];
};

static inline void
nam_batch_init(struct nam_batch *batch, struct nam_worker *worker)
{
	batch->worker = worker;
	batch->count = 0;
	batch->rc = 0;
	batch->posted = batch->sent = false;
}

/*
 * Each adds one request; errors (an unknown region, a full batch) surface in nam_batch_await().
 * `local` and `local_old` must stay until that returns.  A READ begins at the block's first byte,
 * the others offset_bytes behind it; atomics are on 8-byte aligned words, and local_old is told
 * what the word was.
 *
 * Cost:	nothing yet; READ: `bytes` in.  WRITE: `bytes` out.  Atomics: 16 out, 8 in.
 */
void nam_batch_read(struct nam_batch *batch, struct nam_gaddr at, void *local, uint32_t bytes);
void nam_batch_write(struct nam_batch *batch, struct nam_gaddr at, uint32_t offset_bytes,
	const void *local, uint32_t bytes);
void nam_batch_cas(struct nam_batch *batch, struct nam_gaddr at, uint32_t offset_bytes,
	uint64_t compare, uint64_t swap, uint64_t *local_old);
void nam_batch_fetch_add(struct nam_batch *batch, struct nam_gaddr at, uint32_t offset_bytes,
	uint64_t add, uint64_t *local_old);

/**
 * nam_batch_await -- post what was collected, wait for all of it, and empty the batch.
 *
 * Returns 0, or the first failure:
 *	-NAM_E_NOREGION			an address names no known region; nothing was posted
 *	-NAM_E_LIMIT			more than NAM_BATCH_MAX requests; nothing was posted
 *	-NAM_E_FABRIC_ACCESS		beyond the end of a region; that connection is broken now
 *	-NAM_E_FABRIC_*			the server is gone, or the connection broke
 * After a FABRIC code it is unknown which of this batch's writes were done, and what was READ means
 * nothing.
 * Suspends:	yes, once.
 * Cost:	1 round trip, one doorbell per memory server touched; nothing if the batch is empty.
 */
NAM_FIBER_FN int nam_batch_await(struct nam_batch *batch) NAM_MUST_CHECK;

/**
 * nam_read_await, nam_write_await, nam_cas_await, nam_fetch_add_await -- batches of one.
 *
 * @local	from nam_buffer_take(); untouched by others until the call returns
 * @ret_old	what the word was, anywhere in memory; the CAS took effect if it equals `compare`.
 *		Set on success only
 *
 * Returns 0 or a negative code, as nam_batch_await(); the atomics also -ENOMEM.  After a FABRIC
 * code it is unknown whether a write or an atomic took effect, and `local` means nothing.
 *
 * Suspends:	yes, once.
 * Cost:	1 round trip, 1 doorbell, 1 request; bytes as those of the batch.
 */
NAM_FIBER_FN int nam_read_await(struct nam_worker *worker, struct nam_gaddr at, void *local,
	uint32_t bytes) NAM_MUST_CHECK;
NAM_FIBER_FN int nam_write_await(struct nam_worker *worker, struct nam_gaddr at, const void *local,
	uint32_t bytes) NAM_MUST_CHECK;
NAM_FIBER_FN int nam_cas_await(struct nam_worker *worker, struct nam_gaddr at, uint64_t compare,
	uint64_t swap, uint64_t *ret_old) NAM_MUST_CHECK;
NAM_FIBER_FN int nam_fetch_add_await(struct nam_worker *worker, struct nam_gaddr at, uint64_t add,
	uint64_t *ret_old) NAM_MUST_CHECK;

/**
 * nam_async_read, nam_async_write, nam_async_cas, nam_async_fetch_add -- a rolling window, for
 * loops that keep many requests in flight without fibers.
 *
 * @context	a pointer to something 8-byte aligned; nam_async_poll() gives it back, once
 *
 * Not to be mixed with other operations of the same worker while requests are outstanding.
 *
 * Returns 0 or a negative code, and then nothing was posted:
 *	-NAM_E_NOREGION			the address names no known region
 *	-NAM_E_FABRIC_FULL		the queue pair's depth is reached: poll first
 *	-NAM_E_FABRIC_PEER_DEAD		the server is gone
 *	-ENOMEM				to remember one more request
 *
 * Suspends:	no.
 * Cost:	each counts as an operation of 1 round trip, 1 doorbell, 1 request; bytes as above.
 */
int nam_async_read(struct nam_worker *worker, struct nam_gaddr at, void *local, uint32_t bytes,
	void *context) NAM_MUST_CHECK;
int nam_async_write(struct nam_worker *worker, struct nam_gaddr at, const void *local,
	uint32_t bytes, void *context) NAM_MUST_CHECK;
int nam_async_cas(struct nam_worker *worker, struct nam_gaddr at, uint64_t compare, uint64_t swap,
	uint64_t *local_old, void *context) NAM_MUST_CHECK;
int nam_async_fetch_add(struct nam_worker *worker, struct nam_gaddr at, uint64_t add,
	uint64_t *local_old, void *context) NAM_MUST_CHECK;

/**
 * nam_async_poll -- the contexts of up to `max` requests that have finished.
 *
 * Returns their number, 0 if none has; or, once, the FABRIC code of the first request that failed:
 * then stop, for contexts that were to come with the same call are lost, and which request it was
 * is not told.
 *
 * Suspends:	no; runs no other fiber.
 * Cost:	one look at the completion queue, 16 completions at the most.
 */
int nam_async_poll(struct nam_worker *worker, void **contexts, unsigned max);

/**
 * nam_buffer_take -- registered, 64-byte aligned local memory; give it back with nam_buffer_give().
 *
 * @bytes	1 .. 2 MiB; rounded up to a power of two.  Give back with the same figure
 *
 * The worker's own: give it back on the same worker, and before that is closed.  Its contents are
 * undefined at first.
 *
 * Returns NULL when the host has no memory, or for more than 2 MiB; nam_worker_diag() says which.
 * Cost:	a list pop once warm; else from a slab of 128 KiB, or of its own size if larger.
 */
void *nam_buffer_take(struct nam_worker *worker, uint32_t bytes);
void nam_buffer_give(struct nam_worker *worker, void *buffer, uint32_t bytes);

/*
 * The tag of a block that nam_alloc() hands out: whether it is fresh, all zeroes, or used before.
 */
#define NAM_BLOCK_FRESH 0u
#define NAM_BLOCK_RECYCLED 1u

/**
 * nam_alloc -- one block of remote memory on the next server in round-robin order.
 *
 * @stride	bytes, a multiple of 64; the kind of block: freed ones serve the same stride again
 * @ret_at	tagged NAM_BLOCK_FRESH or NAM_BLOCK_RECYCLED
 *
 * Returns 0 or a negative code:
 *	-EINVAL			the stride, or no such slot
 *	-NAM_E_REMOTE_FULL	no living server has room, or that one has none; the diag says more
 *	-NAM_E_LIMIT		a server has blocks of 256 other strides
 *	-NAM_E_FABRIC_*		a server does not answer, or all are gone
 *	-ENOMEM			on this host
 *
 * Suspends:	only when the worker's stock for that server is empty.
 * Cost:	nothing from stock; else one RPC for 16 blocks, then 32, ... 1,024, of each server
 *		and stride; for no more than begin within 1 MiB.
 */
NAM_FIBER_FN int nam_alloc(struct nam_worker *worker, uint32_t stride,
	struct nam_gaddr *ret_at) NAM_MUST_CHECK;
/* The same on that server and no other: slot 0 .. nam_client_servers() - 1. */
NAM_FIBER_FN int nam_alloc_on(struct nam_worker *worker, uint32_t slot, uint32_t stride,
	struct nam_gaddr *ret_at) NAM_MUST_CHECK;

/*
 * Give a block back at once: only for blocks that no one else has ever seen.  It goes to this
 * worker's stock.  Cost: none remote.
 */
void nam_free_unseen(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride);

/*
 * Give a block back once every client has left the current epoch: only after the WRITE or atomic
 * that took it out of everybody's sight has completed.  Cost: none remote, and at first none at
 * all; nam_index_collect() looks what can be used again, and so does nam_alloc() when no server has
 * room.  See compute/README.md, "Retiring, and the two clocks".
 */
void nam_retire(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride);

/**
 * nam_rpc_call -- one request to the memory server in `slot`, one reply.
 *
 * @type	enum nam_rpc_type
 * @ret_body	room for the reply's body; @ret_bytes in: its size, out: bytes received
 *
 * Returns the reply's status, and outputs are set if that is 0; or
 *	-NAM_E_LIMIT			no such slot, or body_bytes is more than a message takes
 *	-NAM_E_FABRIC_TIMEOUT		no reply within rpc_timeout_ms; the request may yet be done
 *	-NAM_E_FABRIC_PEER_DEAD		the server is gone; the request may have been done
 *	-NAM_E_FABRIC_PROTOCOL		the reply is malformed, or larger than there is room for
 *	-ENOMEM				for the message
 *
 * Suspends:	yes.  Bounded by rpc_timeout_ms.
 * Cost:	1 round trip, 1 SEND each way; 24 bytes of header and the body out, and in.
 */
NAM_FIBER_FN int nam_rpc_call(struct nam_worker *worker, uint32_t slot, uint16_t type,
	const void *body, uint32_t body_bytes, void *ret_body, uint32_t *ret_bytes) NAM_MUST_CHECK;

#define NAM_CALLS_MAX 32u	/* in one nam_rpc_call_many() */

/* A request, and what comes of it. */
struct nam_call {
	uint32_t slot;		/* the memory server */
	uint16_t type;		/* enum nam_rpc_type */
	uint32_t body_bytes;
	const void *body;
	void *reply;		/* room for the reply's body */
	uint32_t reply_size;	/* of that room */
	uint32_t reply_bytes;	/* out, if rc is 0: received */
	int rc;			/* out: as of nam_rpc_call() */
};

/**
 * nam_rpc_call_many -- several requests, to one or more memory servers, and wait for all replies.
 *
 * Nothing is promised of the order in which they are carried out.
 *
 * Returns 0 if each was answered with status 0; else the first rc in the order of `calls` that is
 * not 0, and each call's own says what came of it; or, and then none was sent:
 *	-NAM_E_LIMIT	more than NAM_CALLS_MAX, no such slot, or a type 0
 *	-ENOMEM
 *
 * Suspends:	yes.  Bounded by rpc_timeout_ms, for all of them together.
 * Cost:	1 round trip, 1 doorbell for each memory server, 1 message each way for each
 *		request.  With the transport `fetch`, also the READs of nam_rpc_call() for each.
 */
NAM_FIBER_FN int nam_rpc_call_many(struct nam_worker *worker, struct nam_call *calls,
	unsigned count) NAM_MUST_CHECK;

#define NAM_ONE_WAY_MAX 32u	/* not acknowledged, of a worker and a memory server */

/**
 * nam_rpc_send_one_way -- a request without a reply of its own: do not wait until it is carried
 * out.
 *
 * Those to one memory server are carried out in their order, each once.  Requests that are waited
 * for may overtake them.  That they have been carried out is said by whatever reply comes next; a
 * failure is kept until nam_rpc_flush() returns it.  When the connection ends, those without an
 * acknowledgement may or may not have been carried out.
 *
 * @type, @body	as for nam_rpc_call(); what a reply would have said beyond a status is lost
 *
 * Returns 0 once it has been sent, whatever came of earlier ones; or, and then it never will be:
 *	-NAM_E_LIMIT, -ENOMEM, -NAM_E_FABRIC_PEER_DEAD	as nam_rpc_call()
 *	-NAM_E_FABRIC_TIMEOUT	there was no room for it within rpc_timeout_ms, or no answer
 *	-NAM_E_FABRIC_PROTOCOL	the memory server does not acknowledge what it answers
 *
 * Suspends:	only if NAM_ONE_WAY_MAX are not acknowledged.
 * Cost:	1 doorbell, 1 SEND of 24 bytes and the body; no round trip, nothing comes back.  If
 *		as many as there may be are not acknowledged, nam_rpc_flush()'s on top.
 */
NAM_FIBER_FN int nam_rpc_send_one_way(struct nam_worker *worker, uint32_t slot, uint16_t type,
	const void *body, uint32_t body_bytes) NAM_MUST_CHECK;

/**
 * nam_rpc_flush -- wait until all that this worker has told the memory server is carried out.
 *
 * Returns 0 if all that was told since the last time went well; or
 *	the status of the first that failed
 *	-NAM_E_LIMIT		no such slot
 *	-NAM_E_FABRIC_*		as nam_rpc_send_one_way(); it is unknown what was carried out
 *
 * Suspends:	yes, unless all is acknowledged.
 * Cost:	nothing if all is acknowledged; else 1 round trip, 1 SEND of 24 bytes each way.
 */
NAM_FIBER_FN int nam_rpc_flush(struct nam_worker *worker, uint32_t slot) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMPUTE_REMOTE_H */
