/* SPDX-License-Identifier: Apache-2.0 */
/* objects.h -- the objects of the tcp provider: domains, queues, queue pairs, their buffers. */
#ifndef NAM_COMMON_FABRIC_TCP_OBJECTS_H
#define NAM_COMMON_FABRIC_TCP_OBJECTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "common/env.h"
#include "common/fabric/fabric.h"
#include "common/fabric/shm/copy.h"
#include "common/fabric/soft_rq.h"
#include "common/fabric/wait/spin.h"
#include "wire.h"

#define TCP_CACHE_LINE 64
#define TCP_INLINE_BYTES 128u
#define TCP_REGIONS_MAX 256u
#define TCP_CONNECT_NS 5000000000ull
/* A peer that acknowledges nothing for so long, asked so many times, is gone. */
#define TCP_SILENCE_MS 3000u
#define TCP_RETRIES 4			/* takes 3 s, too, or less where an interface is down */
#define TCP_PROBES 3
#define TCP_ANSWER_MS 250u		/* since the last of them was sent */
/*
 * The oldest request, other than a SEND, may wait so long for an answer, and output to leave, while
 * nothing moves.  Its process does not poll then.  A client's domain has its own timeout_ns.
 */
#define TCP_STALL_NS 30000000000ull
#define TCP_LOOK_NS 500000000ull	/* between two looks for either, at the most */

/* Bodies up to this are copied into the output, longer ones sent from where they are. */
#define TCP_COPY_BYTES 2048u
#define TCP_BODIES_MAX 32u		/* of the others, in one system call */
#define TCP_FLUSH_FRAMES 16u
#define TCP_OUT_BYTES (256u << 10)
/* Reserved output, for answers that a peer may always ask for: its depth of old words. */
#define TCP_OUT_RESERVE (TCP_QP_DEPTH * 16u)
#define TCP_IN_BYTES (192u << 10)
/* A request up to this long is carried out when all of it is there. */
#define TCP_WHOLE_BYTES TCP_WINDOW_BYTES

#define TCP_READ_ONLY (1ull << 32)

/* A registration that peers may reach.  Its rkey is published last and withdrawn first. */
struct tcp_mr {
	_Atomic uint64_t rkey;		/* with TCP_READ_ONLY: for READs; UINT64_MAX: none */
	uint8_t *base;
	uint64_t bytes;
	uint16_t generation;
	bool mapped;			/* from region_alloc */
	uint32_t page_bytes_log2;	/* of those */
};

struct tcp_domain {
	struct nam_domain pub;
	pthread_mutex_t mutex;
	struct tcp_mr mrs[TCP_REGIONS_MAX];
};

struct tcp_cq;

/* Bytes that have arrived and were not looked at. */
struct tcp_stream {
	uint8_t *data;
	uint32_t begin, end, capacity;
	uint32_t ahead;			/* what lies before it has been prefetched */
};

/* A copy under way, between memory and a stream that has no more bytes, or room, just now. */
struct tcp_partial {
	uint8_t *at;
	uint64_t left;			/* 0: there is none */
};

/* A long body of the output, where its owner has it. */
struct tcp_body {
	uint32_t before;		/* it follows this much of the output's own bytes */
	uint32_t bytes;
	const uint8_t *at;
};

struct tcp_output {
	uint8_t *data;
	uint32_t begin, end;
	uint32_t bodies_begin, bodies_end;
	struct tcp_body bodies[TCP_BODIES_MAX];
	uint32_t frames;		/* since it was last sent */
	uint64_t entered, left;		/* bytes that ever were in it, and that have been sent */
};

/* A posted request, until it is answered. */
struct tcp_request {
	_Alignas(TCP_CACHE_LINE) uint8_t op;
	uint8_t flags;
	uint16_t fault;			/* a code: it was found faulty when it was posted */
	uint32_t bytes;
	void *local;
	void *context;
	union {
		uint64_t remote;
		uint64_t ends;		/* once it is written: output->entered behind it */
	};
	uint32_t rkey;
	uint32_t reported;		/* its completion is not to come any more */
	uint64_t compare;
	uint64_t swap;
	uint64_t position;		/* of all request bytes of this queue pair, when written */
};
_Static_assert(sizeof(struct tcp_request) == 64, "one cache line");

struct tcp_qp {
	struct nam_qp pub;
	struct tcp_cq *cq;
	struct tcp_domain *domain;
	struct nam__soft_rq *rq;
	int fd;
	/* what we ask */
	struct tcp_request *requests;	/* TCP_QP_DEPTH */
	uint8_t *kept;			/* kept_bytes for each, of those not yet written */
	uint32_t kept_bytes;
	uint32_t head, written, tail;	/* answered, written to the output, posted */
	uint32_t unreported;		/* those whose completion is to come */
	uint16_t write_sequence, answer_sequence;
	uint32_t window_count;		/* READs and SENDs among those written */
	uint64_t position;		/* request bytes written */
	struct tcp_partial answer;	/* the rest of what is being read */
	int error;			/* what every further request completes with */
	uint64_t moved, moved_before;	/* bytes sent and received; when looked at last */
	uint64_t progress_before;	/* of what is waited for, when looked at last; */
	uint64_t waited_ns;		/* since when there is none, or nothing to wait for */
	/* what we are asked */
	uint16_t serve_sequence;
	bool refusing;			/* one has failed: nothing is carried out any more */
	bool stalled;			/* requests go to `parked` */
	struct tcp_partial writing;	/* the rest of a long WRITE */
	struct tcp_partial reading;	/* the rest of a long READ */
	struct tcp_stream parked;	/* TCP_WINDOW_BYTES, once it is needed */
	uint64_t park_left;		/* the next bytes of `in` belong to what is parked */
	struct nam_mr share;		/* base is NULL if there is none */
	uint64_t read_only;		/* TCP_READ_ONLY if the peer may only READ regions, or 0 */
	/* the socket */
	struct tcp_stream in;
	struct tcp_output out;
	bool accepted;
	bool known;			/* was handed to the owner of cq */
	bool arrived;			/* in cq->qps, and its socket in the epoll */
	bool closing;			/* the peer is gone or was dropped: in cq->closing */
	int reason;			/* why it closes: the status of CLOSED */
	bool closed;			/* CLOSED has been delivered */
	bool replying;			/* its owner is about to answer a message */
	bool dirty;			/* in cq->dirty: there is output to be sent */
	bool blocked;			/* the socket takes no more; epoll says when it does */
	SLIST_ENTRY(tcp_qp) link;	/* cq->qps, or cq->arrivals */
	SLIST_ENTRY(tcp_qp) dirty_link, stalled_link, closing_link;
};

struct tcp_done {
	struct nam_wc wc;
	struct nam_recv recv;		/* of a message: the buffer it is in */
};

SLIST_HEAD(tcp_qps, tcp_qp);

struct tcp_cq {
	struct nam_cq pub;
	/* owner thread only */
	struct tcp_done *done;		/* completions not polled yet */
	uint32_t done_head, done_tail, done_mask;
	uint32_t depth, outstanding;	/* requests posted and not reported */
	uint32_t receives;		/* depths of the receive queues */
	uint32_t received;		/* messages in `done` */
	struct tcp_qps qps, dirty, stalled, closing;
	shm_read_fn copy_read;
	shm_write_fn copy_write;
	struct nam__spin spin;		/* of cq_wait */
	uint32_t polls;
	uint64_t gave_up_ns;		/* the last look for silent peers */
	bool looked;			/* cq_wait has read the sockets since the last poll */
	int epoll_fd, wake_fd;
	/* any thread */
	_Atomic uint32_t woken;
	_Atomic uint32_t arrivals_count;
	pthread_mutex_t mutex;
	struct tcp_qps arrivals;
};

#endif /* NAM_COMMON_FABRIC_TCP_OBJECTS_H */
