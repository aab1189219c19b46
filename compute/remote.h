/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.h -- read, write, compare-and-swap and fetch-and-add on remote memory.
 *
 * A batch collects requests, posts them with one doorbell per memory server, and waits once.
 * Requests of one batch to one server take effect in the order that the fabric defines (fabric.h);
 * between servers there is no order.  `local` must lie in memory from nam_buffer_take(), which is
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
	uint32_t moves;			/* of memory, when the first one was added */
	uint64_t late;			/* bits of those that have waited for a connection */
	int rc;				/* the first error while collecting */
	bool posted, sent;		/* some already; some of these over the network */
	uint16_t servers[NAM_BATCH_MAX];
	struct nam_wr wrs[NAM_BATCH_MAX];
	uint32_t late_moves[NAM_BATCH_MAX];	/* of those: the same, when they were posted */
};

static inline void
nam_batch_init(struct nam_batch *batch, struct nam_worker *worker)
{
	batch->worker = worker;
	batch->count = 0;
	batch->rc = 0;
	batch->late = 0;
	batch->posted = batch->sent = false;
}

/*
 * Each adds one request; nam_batch_await() returns errors (an unknown region, a full batch).
 * `local` and `local_old` must stay until then.  A READ begins at the block's first byte, the
 * others offset_bytes behind it.  Atomics are on 8-byte aligned words and store the old word in
 * local_old.
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
 *	-NAM_E_NOREGION			an address lies in no known region; nothing was posted
 *	-NAM_E_LIMIT			more than NAM_BATCH_MAX requests; nothing was posted
 *	-NAM_E_FABRIC_ACCESS		a region that is private by now; that connection is broken
 *	-NAM_E_FABRIC_*			the server is gone, or the connection broke
 *	-NAM_E_FABRIC_CAPABILITY	the memory server has a backup, which follows no atomics of
 *					batches; there is nam_cas_await()
 * After a FABRIC code it is unknown which writes were done, and READ data is invalid.
 * Suspends:	yes, once.
 * Cost:	1 round trip, one doorbell per memory server touched; nothing if the batch is empty.
 *		With WRITEs to memory servers that have a backup 1 round trip more.
 */
NAM_FIBER_FN int nam_batch_await(struct nam_batch *batch) NAM_MUST_CHECK;

/**
 * nam_read_await, nam_write_await, nam_cas_await, nam_fetch_add_await -- batches of one.
 *
 * @ret_old	the old word, anywhere in memory, on success; the CAS took effect if it equals
 *		`compare`
 *
 * Returns 0 or a negative code, as nam_batch_await(); the atomics also -ENOMEM.
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
 * @context	an 8-byte aligned pointer; nam_async_poll() gives it back, once
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
 * Returns their number, 0 if none has.  Once, it returns the FABRIC code of the first request that
 * failed: then stop, as contexts of this call are lost.
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
 * Give it back to the same worker, before that is closed.  Its contents are undefined at first.
 *
 * Returns NULL when the host has no memory, or for more than 2 MiB; nam_worker_diag() says which.
 * Cost:	a list pop, or at first a part of a slab of 128 KiB, or a slab of its own size.
 */
void *nam_buffer_take(struct nam_worker *worker, uint32_t bytes);
void nam_buffer_give(struct nam_worker *worker, void *buffer, uint32_t bytes);

/**
 * nam_alloc -- one block of remote memory, by turns on the servers with most free memory.
 *
 * These servers have at most an eighth of their memory less free than the one with most.  Once this
 * client has ended, nam_sweep() frees the block, unless a name leads to it or nam_keep() keeps it.
 *
 * @stride	bytes, a multiple of 64; the kind of block: freed ones serve the same stride again
 * @ret_at	tagged NAM_BLOCK_FRESH, NAM_BLOCK_RECYCLED or NAM_BLOCK_SWEPT
 *
 * Returns 0 or a negative code:
 *	-EINVAL			the stride, or no such slot
 *	-NAM_E_REMOTE_FULL	no living server has room, or that one has none
 *	-NAM_E_LIMIT		a server has blocks of 256 other strides
 *	-NAM_E_FABRIC_*		a server does not answer, or all are gone
 *	-ENOMEM			on this host
 *
 * Suspends:	only when the worker has no cached block of that server and stride.
 * Cost:	nothing from the cache.  Else one RPC for 16 blocks, then 32, ... 1,024, of each
 *		server and stride; for no more than begin within 1 MiB.
 */
NAM_FIBER_FN int nam_alloc(struct nam_worker *worker, uint32_t stride,
	struct nam_gaddr *ret_at) NAM_MUST_CHECK;
/* As nam_alloc(), by turns on all servers, as far as they have room. */
NAM_FIBER_FN int nam_alloc_evenly(struct nam_worker *worker, uint32_t stride,
	struct nam_gaddr *ret_at) NAM_MUST_CHECK;
/* nam_alloc() on that server and no other: slot 0 .. nam_client_servers() - 1. */
NAM_FIBER_FN int nam_alloc_on(struct nam_worker *worker, uint32_t slot, uint32_t stride,
	struct nam_gaddr *ret_at) NAM_MUST_CHECK;
/* A slot for blocks that lie together: by a hash, one of the servers with most free memory. */
uint32_t nam_alloc_slot(const struct nam_client *client, uint32_t hash);

struct nam_blocks {
	uint64_t blocks, bytes;
};

/*
 * The block stays when this client has ended, for others that know its address, until a client
 * retires it.  Returns 0 or as nam_rpc_call().  Cost: 1 RPC.
 */
NAM_FIBER_FN int nam_keep(struct nam_worker *worker, struct nam_gaddr at) NAM_MUST_CHECK;

/* Reuse a block at once that no other task has ever seen.  Cost: none remote. */
void nam_free_unseen(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride);

/*
 * Reuse a block once every client has left the current epoch.  The WRITE or atomic that unlinked it
 * must have completed.  Cost: none remote; nam_index_collect() makes blocks reusable, as does
 * nam_alloc() when no server has room.  See compute/README.md, "Retiring, and the two clocks".
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
 *	-NAM_E_FABRIC_TIMEOUT		no reply within timeout_ms; the request may yet be done
 *	-NAM_E_FABRIC_PEER_DEAD		the server is gone; the request may have been done
 *	-NAM_E_FABRIC_PROTOCOL		the reply is malformed, or larger than there is room for
 *	-ENOMEM				for the message
 *
 * Suspends:	yes.  Bounded by timeout_ms.
 * Cost:	1 round trip, 1 SEND each way; 24 bytes of header and the body out, and in.
 */
NAM_FIBER_FN int nam_rpc_call(struct nam_worker *worker, uint32_t slot, uint16_t type,
	const void *body, uint32_t body_bytes, void *ret_body, uint32_t *ret_bytes) NAM_MUST_CHECK;

#define NAM_CALLS_MAX 32u	/* in one nam_rpc_call_many() */

/* A request and its result. */
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
 * They are carried out in any order, and each call has its own rc.  Returns 0 if each was answered
 * with status 0; else the first rc in the order of `calls` that is not 0.  If none was sent:
 *	-NAM_E_LIMIT	more than NAM_CALLS_MAX, no such slot, or a type 0
 *	-ENOMEM
 *
 * Suspends:	yes.  Bounded by timeout_ms, for all of them together.
 * Cost:	1 round trip, 1 doorbell for each memory server, 1 message each way for each
 *		request.  With the transport `fetch`, also the READs of nam_rpc_call() for each.
 */
NAM_FIBER_FN int nam_rpc_call_many(struct nam_worker *worker, struct nam_call *calls,
	unsigned count) NAM_MUST_CHECK;

#define NAM_ONE_WAY_MAX 32u	/* not acknowledged, of a worker and a memory server */

/**
 * nam_rpc_send_one_way -- a request that the memory server answers only if it fails.
 *
 * One-way requests to one memory server are carried out in their order, each once.  Other requests
 * may overtake them.  Any later reply acknowledges them; a failure is kept until nam_rpc_flush()
 * returns it.  If the connection ends, those without an acknowledgement may have been carried out.
 *
 * @type, @body	as for nam_rpc_call(); the body of a reply would be lost
 *
 * Returns 0 once it has been sent, even if earlier ones failed; or, and then it was not sent:
 *	-NAM_E_LIMIT, -ENOMEM, -NAM_E_FABRIC_PEER_DEAD	as nam_rpc_call()
 *	-NAM_E_FABRIC_TIMEOUT	there was no room for it within timeout_ms, or no answer
 *	-NAM_E_FABRIC_PROTOCOL	the memory server does not acknowledge one-way requests
 *
 * Suspends:	only if NAM_ONE_WAY_MAX are not acknowledged.
 * Cost:	1 doorbell, 1 SEND of 24 bytes and the body; no round trip, nothing comes back.  If
 *		NAM_ONE_WAY_MAX are not acknowledged, nam_rpc_flush()'s on top.
 */
NAM_FIBER_FN int nam_rpc_send_one_way(struct nam_worker *worker, uint32_t slot, uint16_t type,
	const void *body, uint32_t body_bytes) NAM_MUST_CHECK;

/**
 * nam_rpc_flush -- wait until all one-way requests of this worker to the memory server are done.
 *
 * Returns 0 if none has failed since the last time; or
 *	the status of the first that failed
 *	-NAM_E_LIMIT		no such slot
 *	-NAM_E_FABRIC_*		as nam_rpc_send_one_way(); some may have been carried out
 *
 * Suspends:	yes, unless all is acknowledged.
 * Cost:	nothing if all is acknowledged; else 1 round trip, 1 SEND of 24 bytes each way.
 */
NAM_FIBER_FN int nam_rpc_flush(struct nam_worker *worker, uint32_t slot) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMPUTE_REMOTE_H */
