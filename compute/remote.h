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

#define NAM_BATCH_MAX 40u

/* Lives on the caller's stack. */
struct nam_batch {
	struct nam_worker *worker;
	uint32_t count;
	int rc;				/* the first error while collecting */
	uint16_t servers[NAM_BATCH_MAX];
	struct nam_wr wrs[NAM_BATCH_MAX];
};

static inline void
nam_batch_init(struct nam_batch *batch, struct nam_worker *worker)
{
	batch->worker = worker;
	batch->count = 0;
	batch->rc = 0;
}

/* Each adds one request; errors (an unknown region, a full batch) surface in nam_batch_await(). */
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
 *	-NAM_E_NOREGION			an address names no known region
 *	-NAM_E_FABRIC_*			it is unknown which of this batch's writes were done
 * Suspends:	yes, once.
 * Cost:	1 round trip, one doorbell per memory server touched.
 */
NAM_FIBER_FN int nam_batch_await(struct nam_batch *batch) NAM_MUST_CHECK;

/* Batches of one. */
NAM_FIBER_FN int nam_read_await(struct nam_worker *worker, struct nam_gaddr at, void *local,
	uint32_t bytes) NAM_MUST_CHECK;
NAM_FIBER_FN int nam_write_await(struct nam_worker *worker, struct nam_gaddr at, const void *local,
	uint32_t bytes) NAM_MUST_CHECK;
NAM_FIBER_FN int nam_cas_await(struct nam_worker *worker, struct nam_gaddr at, uint64_t compare,
	uint64_t swap, uint64_t *ret_old) NAM_MUST_CHECK;
NAM_FIBER_FN int nam_fetch_add_await(struct nam_worker *worker, struct nam_gaddr at, uint64_t add,
	uint64_t *ret_old) NAM_MUST_CHECK;

/*
 * A rolling window, for loops that keep many requests in flight without fibers.  Each request
 * comes back once, with its context (a pointer to something 8-byte aligned), from nam_async_poll().
 * Not to be mixed with other operations of the same worker while requests are outstanding.
 *
 * Returns 0, -NAM_E_NOREGION, or -NAM_E_FABRIC_FULL when the queue pair's depth is reached.
 */
int nam_async_read(struct nam_worker *worker, struct nam_gaddr at, void *local, uint32_t bytes,
	void *context) NAM_MUST_CHECK;
int nam_async_write(struct nam_worker *worker, struct nam_gaddr at, const void *local,
	uint32_t bytes, void *context) NAM_MUST_CHECK;
int nam_async_cas(struct nam_worker *worker, struct nam_gaddr at, uint64_t compare, uint64_t swap,
	uint64_t *local_old, void *context) NAM_MUST_CHECK;
int nam_async_fetch_add(struct nam_worker *worker, struct nam_gaddr at, uint64_t add,
	uint64_t *local_old, void *context) NAM_MUST_CHECK;

/* The contexts of up to `max` finished requests; returns their number, or the first failure. */
int nam_async_poll(struct nam_worker *worker, void **contexts, unsigned max);

/**
 * nam_buffer_take -- registered, 64-byte aligned local memory; give it back with nam_buffer_give().
 *
 * @bytes	1 .. 1 MiB; rounded up to a power of two
 *
 * Returns NULL when the host has no memory.  Cost: a list pop once warm.
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
 * Returns 0, -NAM_E_REMOTE_FULL when no server has room, or a FABRIC code.
 * Suspends:	only when the worker's stock for that server is empty: one RPC.
 */
NAM_FIBER_FN int nam_alloc(struct nam_worker *worker, uint32_t stride,
	struct nam_gaddr *ret_at) NAM_MUST_CHECK;
/* The same on a chosen server: slot 0 .. nam_client_servers() - 1. */
NAM_FIBER_FN int nam_alloc_on(struct nam_worker *worker, uint32_t slot, uint32_t stride,
	struct nam_gaddr *ret_at) NAM_MUST_CHECK;

/* Give a block back at once: only for blocks that no one else has ever seen. */
void nam_free_unseen(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride);

/* Give a block back once every client has left the current epoch (epoch.h). */
void nam_retire(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride);

/**
 * nam_rpc_call -- one request to the memory server in `slot`, one reply.
 *
 * @type	enum nam_rpc_type
 * @ret_body	room for the reply's body; @ret_bytes in: its size, out: bytes received
 *
 * Returns the reply's status, or -NAM_E_FABRIC_{TIMEOUT,PEER_DEAD,PROTOCOL}.
 * Suspends:	yes.  Bounded by rpc_timeout_ms.
 * Cost:	1 round trip, 1 SEND each way.
 */
NAM_FIBER_FN int nam_rpc_call(struct nam_worker *worker, uint32_t slot, uint16_t type,
	const void *body, uint32_t body_bytes, void *ret_body, uint32_t *ret_bytes) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMPUTE_REMOTE_H */
