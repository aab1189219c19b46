/* SPDX-License-Identifier: Apache-2.0 */
/* status_rpc.h -- STATUS: the state and the figures of a memory server. */
#ifndef NAM_COMMON_RPC_STATUS_RPC_H
#define NAM_COMMON_RPC_STATUS_RPC_H

#include "rpc.h"

/* The memory of one process passes to another one of that id (move_rpc.h). */
enum nam_server_phase {
	NAM_SERVER_SERVES = 0,
	NAM_SERVER_SUCCESSOR,		/* it waits for the memory of another one */
	NAM_SERVER_FILLING,		/* likewise; it has the books, and waits for trees */
	NAM_SERVER_MOVED,		/* another one has its memory */
};

struct nam_rpc_status_request {
	uint32_t at;			/* the first byte that is wanted, a multiple of 8 */
	uint32_t reserved;
};

/* Longer than a message: from that byte on, as much as is left or as there is room for. */
struct nam_rpc_status_reply {
	uint32_t server_id;
	uint32_t handlers;
	uint64_t boot;
	uint64_t pid;
	uint64_t uptime_ns;
	uint64_t memory_bytes;		/* all regions */
	uint64_t page_bytes;
	uint32_t transparent_huge;
	uint32_t regions;
	uint32_t clients;		/* connected client ids (server 0), else 0 */
	uint32_t connections;
	uint32_t indexes;
	uint32_t stores;		/* key-value ones; both in the catalog (server 0), else 0 */
	uint32_t phase;			/* enum nam_server_phase */
	uint32_t reserved;
	char version[32];
	struct nam_server_figures figures;
};
_Static_assert(NAM_RPC_BODY_MAX % 8 == 0, "no message ends within a figure");

#endif /* NAM_COMMON_RPC_STATUS_RPC_H */
