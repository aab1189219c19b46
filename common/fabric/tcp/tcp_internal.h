/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_internal.h -- the inside of the tcp provider: memory servers and clients over sockets.
 *
 * Without a card, the memory server's processor carries requests out.  It does so in the thread
 * that polls the completion queue of the queue pair, and in no other.  cq_poll and cq_wait read the
 * sockets, serve the requests of each connection in order, and take answers.  A queue pair, its
 * socket and its buffers belong to one thread, and no lock is on the data path.
 *
 * Several requests are one system call.  qp_post writes frames into the output of the queue pair.
 * A poll without other results sends it, or TCP_FLUSH_FRAMES frames do.
 *
 * TRUST: whatever arrives may be anything.  Lengths, keys, addresses and alignment are checked
 * before a request is carried out, an answer is compared with the request that is due.  A malformed
 * frame ends its connection only.
 *
 * LOCKS: cq mutex: `arrivals`; domain mutex: the making of registrations.
 */
#ifndef NAM_COMMON_FABRIC_TCP_TCP_INTERNAL_H
#define NAM_COMMON_FABRIC_TCP_TCP_INTERNAL_H

#include "common/fabric/provider.h"
#include "objects.h"

/* The functions of the provider's table. */
NAM__PROVIDER_FUNCTIONS(NAM__PROVIDER_FUNCTION, tcp)

/* ---- cq.c ----------------------------------------------------------------------------- */

/* A place for a completion; there is always one. */
static inline struct tcp_done *
nam__tcp_done_push(struct tcp_cq *cq)
{
	return &cq->done[cq->done_tail++ & cq->done_mask];
}
/* The completion of `done` has been reported, or never will be. */
static inline void
nam__tcp_done_taken(struct tcp_cq *cq, const struct tcp_done *done)
{
	if (done->wc.op == NAM_WC_RECV)
		cq->received--;
	else
		cq->outstanding--;
}

/* From any thread: a queue pair for the owner to find. */
void nam__tcp_cq_arrive(struct tcp_cq *cq, struct tcp_qp *qp);
/* Owner. */
void nam__tcp_cq_take_arrivals(struct tcp_cq *cq);
void nam__tcp_cq_forget(struct tcp_cq *cq, struct tcp_qp *qp);

/* ---- keepalive.c ------------------------------------------------------------------------ */

/* End the connections of peers that are gone, or that do nothing any more. */
void nam__tcp_give_up(struct tcp_cq *cq);

/* ---- post.c --------------------------------------------------------------------------- */

/* Write requests that were posted into the output, as far as they may be sent now. */
void nam__tcp_write_requests(struct tcp_qp *qp);

/* Send the output, as much as the socket takes. */
void nam__tcp_flush(struct tcp_qp *qp);
/* The socket takes more again. */
void nam__tcp_unblock(struct tcp_qp *qp);

/* The operation of the oldest request that was written. */
static inline uint8_t
nam__tcp_oldest_op(const struct tcp_qp *qp)
{
	return qp->requests[qp->head & (TCP_QP_DEPTH - 1)].op;
}

/* ---- answer.c ------------------------------------------------------------------------- */

/* An answer with a complete frame, at the beginning of qp->in.  False: it is malformed. */
bool nam__tcp_take_answer(struct tcp_qp *qp, struct tcp_frame frame);
/* `bytes` have arrived for qp->answer, and are where they belong. */
void nam__tcp_answer_arrived(struct tcp_qp *qp, uint64_t bytes);
/* A request whose completion is to come is done. */
void nam__tcp_report(struct tcp_qp *qp, struct tcp_request *request);
/* If the oldest request was found faulty when it was posted: it fails now. */
void nam__tcp_fault_due(struct tcp_qp *qp);
/* The posted requests have failed from the first one on. */
void nam__tcp_qp_fail(struct tcp_qp *qp, int status);
/* The peer is gone, or is to be dropped: requests under way fail, and CLOSED follows. */
void nam__tcp_qp_close(struct tcp_qp *qp, int status);

/* ---- serve.c -------------------------------------------------------------------------- */

enum tcp_served {
	TCP_SERVED,			/* that request is done */
	TCP_SHORT,			/* not all of it is there */
	TCP_STALLED,			/* it cannot be carried out now */
	TCP_MALFORMED,
};

/* The request at the beginning of `from`, of which at least the frame is there. */
enum tcp_served nam__tcp_serve(struct tcp_qp *qp, struct tcp_stream *from, struct tcp_frame frame);
/* Bytes that have arrived for qp->writing. */
void nam__tcp_write_more(struct tcp_qp *qp);
/* Carries out parked requests, as far as possible now.  False: it makes no sense. */
bool nam__tcp_resume(struct tcp_qp *qp);
/* Whether that would do anything. */
bool nam__tcp_can_resume(const struct tcp_qp *qp);

/* ---- stream.c ------------------------------------------------------------------------- */

/* Read the socket, and handle its frames. */
void nam__tcp_receive(struct tcp_qp *qp);

/* ---- output.c ------------------------------------------------------------------------- */

/* To be sent before long. */
void nam__tcp_dirty(struct tcp_qp *qp);
/* Send until the socket takes no more; true if the output is empty. */
bool nam__tcp_output_send(struct tcp_qp *qp);
/* The events of the socket that wake the owner. */
void nam__tcp_interest(struct tcp_qp *qp, uint32_t events);
/* Bytes of the output that are free, and stay in one piece. */
static inline uint32_t
nam__tcp_out_room(const struct tcp_qp *qp)
{
	return TCP_OUT_BYTES - qp->out.end;
}

/* ---- qp.c ----------------------------------------------------------------------------- */

/* @accepted	it is a memory server's */
int nam__tcp_qp_create(struct tcp_domain *domain, const struct nam_qp_options *options,
	bool accepted, struct tcp_qp **ret) NAM_MUST_CHECK;

/* ---- connect.c, listen.c ---------------------------------------------------------- */

/* Options of each connection: no delay, and probes while nothing is under way. */
int nam__tcp_socket_prepare(int fd) NAM_MUST_CHECK;

#endif /* NAM_COMMON_FABRIC_TCP_TCP_INTERNAL_H */
