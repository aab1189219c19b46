/* SPDX-License-Identifier: Apache-2.0 */
/* alloc_rpc.h -- messages about blocks of a memory server's regions. */
#ifndef NAM_COMMON_RPC_ALLOC_RPC_H
#define NAM_COMMON_RPC_ALLOC_RPC_H

#include <stdint.h>

#include "common/rpc/rpc.h"

/*
 * ALLOC, FREE.  A block changes its stride by RECLAIM only.  So a word that was a lock stays a lock
 * for every client that may know its address.
 */
struct nam_rpc_alloc_request {
	uint32_t stride;	/* bytes, a multiple of 64 */
	uint16_t count;		/* blocks wanted; fewer may come, at least one */
	uint16_t reserve;	/* 1: of the memory that is left for passing uses, too; or 0 */
};

#define NAM_RPC_ALLOC_SCATTERED_MAX 480u

struct nam_rpc_alloc_reply {
	uint64_t run_at;	/* gaddr of a run of fresh blocks, or 0 */
	uint32_t run_count;	/* blocks in the run, `stride` apart */
	uint16_t count;		/* recycled blocks that follow */
	uint16_t free;		/* memory that is still free, in 65,535ths of all */
	uint64_t blocks[];	/* gaddrs, tagged NAM_BLOCK_SWEPT if a sweep freed them */
};

/* With a label the blocks wait, and become free in a HOLD whose `oldest` is ahead of it. */
struct nam_rpc_free_request {
	uint64_t label;		/* of the epoch word, when no way led to them any more; or 0 */
	uint32_t stride;
	uint32_t count;
	uint64_t blocks[];	/* tagged as ALLOC did, if this client has made nothing of them */
};

/*
 * RECLAIM.  A run is blocks of one stride that lie one behind the other.  HOLD: blocks that waited
 * and that no reader can see become free.  Runs without used blocks are held, for their own stride
 * only.  REGIONS says of unused regions that they are of the wanted kind, or private, on their way
 * there.  RETURN, once no client knows an address in the runs or holds another opinion of the
 * regions: their memory is carved again, for any stride.
 */
enum nam_rpc_reclaim_step {
	NAM_RPC_RECLAIM_HOLD = 1,
	NAM_RPC_RECLAIM_RETURN = 2,
};

struct nam_rpc_reclaim_request {
	uint32_t step;		/* enum nam_rpc_reclaim_step */
	uint32_t want;		/* HOLD: enum nam_memory_kind: the kind that lacks; else 0 */
	uint64_t batch;		/* RETURN: what was held up to this one; else 0 */
	uint64_t oldest;	/* HOLD: the oldest epoch slot, which server 0 has; else 0 */
	/* HOLD for read-only memory: so many blocks of that stride are needed; else 0. */
	uint32_t stride;
	uint32_t count;
};

struct nam_rpc_reclaim_reply {
	uint64_t batch;		/* HOLD: the newest that is held; 0: none */
	uint64_t bytes;		/* that are held, or were returned */
	uint64_t freed_bytes;	/* HOLD: of blocks that had waited */
	uint64_t waiting_bytes;	/* HOLD: of those that still do */
};

#endif /* NAM_COMMON_RPC_ALLOC_RPC_H */
