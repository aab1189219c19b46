/* SPDX-License-Identifier: Apache-2.0 */
/* request.h -- requests and completions of the fabric, and what a provider promises of them. */
#ifndef NAM_COMMON_FABRIC_REQUEST_H
#define NAM_COMMON_FABRIC_REQUEST_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Promises of a provider beyond the bare minimum. */
enum nam_fabric_cap {
	/* A WRITE is visible before a later ATOMIC of the same queue pair. */
	NAM_CAP_ORDER_WRITE_ATOMIC = 1u << 0,
	/* A READ sees what an earlier ATOMIC of the same queue pair has done. */
	NAM_CAP_ORDER_ATOMIC_READ = 1u << 1,
	/* Aligned 8-byte READs and WRITEs are whole, as is each aligned word of a longer one. */
	NAM_CAP_WORD8_ATOMIC = 1u << 2,
	/* Atomics are atomic against the memory server's CPU. */
	NAM_CAP_ATOMIC_VS_CPU = 1u << 3,
	/*
	 * A READ loads its first 64 bytes in ascending words, then the rest in any order, then the
	 * last word.  WRITEs of one queue pair become visible in post order.  So two version words,
	 * the rear one written first and the front one last, tell a torn image from a whole one.
	 */
	NAM_CAP_ORDERED_LOADS = 1u << 4,
	NAM_CAP_RPC_SRQ = 1u << 5,
	/* there are unreliable queue pairs: see unreliable_qp_create */
	NAM_CAP_UD = 1u << 6,
	/* A connection ends only with a process at one end: no live peer is taken for dead. */
	NAM_CAP_LASTING = 1u << 7,
	/* A peer that may only READ regions WRITEs its share: nam_qp_options.rights. */
	NAM_CAP_READER_SHARE = 1u << 8,
	/* A WRITE is visible before a later WRITE of the same queue pair. */
	NAM_CAP_ORDER_WRITES = 1u << 9,
};

enum nam_wr_op {
	NAM_WR_READ = 1,
	NAM_WR_WRITE,
	NAM_WR_CAS,		/* *local = old; remote = swap if old == compare */
	NAM_WR_FETCH_ADD,	/* *local = old; remote += add (operand in `compare`) */
	NAM_WR_SEND,
	/* completions only: */
	NAM_WC_RECV,		/* a message arrived in a posted receive buffer */
	NAM_WC_CLOSED,		/* its peer is gone (status: why); the last one of `qp` */
	NAM_WC_DATAGRAM,	/* datagrams have arrived at an endpoint */
};

enum nam_wr_flag {
	NAM_WR_SIGNALED = 1u << 0,	/* a completion is wanted; failures complete regardless */
	NAM_WR_INLINE = 1u << 1,	/* WRITE, SEND up to inline_bytes: copied at post time */
	NAM_WR_FENCE = 1u << 2,		/* wait for earlier READs and ATOMICs of this qp */
};

/* See compute/backup/mirror.h. */
#define NAM_WR_LOCK 1u		/* a lock word, or other bytes that only a member has */
#define NAM_WR_DECIDES 2u	/* a CAS of a word that means something; `local` is two words */
#define NAM_WR_UNSEEN 3u	/* a WRITE of what no other client can see yet */

/* A work request.  One cache line. */
struct nam_wr {
	uint8_t op;		/* enum nam_wr_op */
	uint8_t flags;		/* enum nam_wr_flag */
	uint16_t hint;		/* one of those, or 0; not the provider's */
	uint32_t bytes;		/* 8 for atomics */
	uint64_t remote;	/* inside the registration named by rkey; 8-aligned for atomics */
	uint32_t rkey;
	uint32_t lkey;		/* of the registration that holds `local` */
	void *local;
	uint64_t compare;
	uint64_t swap;
	void *context;		/* comes back in the completion */
	uint64_t reserved2;
};
static_assert(sizeof(struct nam_wr) == 64, "a work request is one cache line");

struct nam_qp;

/* A completion. */
struct nam_wc {
	void *context;		/* of the request or of the receive buffer */
	struct nam_qp *qp;
	int status;		/* 0 or a negative FABRIC code */
	uint32_t bytes;		/* READ, RECV: payload */
	uint8_t op;		/* enum nam_wr_op */
};

struct nam_recv {
	void *buffer;
	uint32_t bytes;
	uint32_t lkey;
	void *context;
};

/* A registration: how the local side and the remote side name the same memory. */
struct nam_mr {
	void *base;
	uint64_t bytes;
	uint32_t lkey;
	uint32_t rkey;
	uint64_t remote;	/* what a peer puts into nam_wr.remote for byte 0 */
	void *provider;
	int fd;			/* limits.regions_are_files: its file, open as long; else -1 */
};

enum nam_mr_rights {
	NAM_MR_LOCAL = 0,		/* buffers of our own requests */
	NAM_MR_REMOTE = 1u << 0,	/* peers may READ, WRITE, CAS and FETCH_ADD */
	NAM_MR_REMOTE_READ = 1u << 1,	/* peers may READ: region_restore */
};

struct nam_fabric_limits {
	uint32_t caps;			/* enum nam_fabric_cap */
	uint32_t qp_depth;		/* requests posted and not completed, per qp */
	uint32_t message_bytes;		/* largest SEND */
	uint32_t inline_bytes;
	/* Processes of one host can map each other's regions: see colocated.h. */
	uint32_t regions_are_files;
	uint64_t device;		/* a number that no other device has; 0: there is none */
	/* longest request over an unreliable queue pair; 0: there are none */
	uint32_t datagram_bytes;
	/*
	 * The polling thread carries out the requests of all queue pairs of a cq in post order.  A
	 * doorbell costs no more than a call.
	 */
	uint32_t in_post_order;
};

/* Bytes at the start of a receive buffer that a SEND over an unreliable queue pair leaves free. */
#define NAM_DATAGRAM_HEADROOM 40u

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMMON_FABRIC_REQUEST_H */
