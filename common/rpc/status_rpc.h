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
	uint32_t first;			/* services from that one on */
	uint32_t reserved;
};

/*
 * As it is put together.  In place of figures.services a message has, for services that have had
 * requests, as many of the following as there is room for.
 */
struct nam_rpc_status_reply {
	uint32_t server_id;
	uint32_t handlers;
	uint64_t boot;
	uint64_t pid;
	uint64_t uptime_ns;
	uint64_t memory_bytes;		/* all regions */
	uint64_t spare_bytes;		/* more, for memory that moves to its process */
	uint64_t host;			/* boot of the memory server whose process it is in */
	uint64_t page_bytes;
	uint32_t transparent_huge;
	uint32_t regions;
	uint32_t clients;		/* connected client ids (server 0), else 0 */
	uint32_t connections;
	uint32_t indexes;
	uint32_t stores;		/* key-value ones; both in the catalog (server 0), else 0 */
	uint32_t phase;			/* enum nam_server_phase */
	uint32_t next;			/* services from that one on have no room; 0: all have */
	char version[32];
	struct nam_server_figures figures;
};

#define NAM_RPC_STATUS_HEAD_BYTES                                                                   \
	((uint32_t)offsetof(struct nam_rpc_status_reply, figures.services))

struct nam_rpc_status_service {
	uint32_t service;		/* in ascending order */
	uint32_t reserved;
	struct nam_service_figures figures;
};

#endif /* NAM_COMMON_RPC_STATUS_RPC_H */
