/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keepalive.c -- peers that do not acknowledge data.  The kernel reports one after a quarter of an
 * hour, so each connection on which nothing moves is examined.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tcp_internal.h"

/* The peer's kernel does not answer ours.  A peer that answers and has no room is alive. */
static bool
is_gone(const struct tcp_qp *qp)
{
	struct tcp_info info = { 0 };
	socklen_t length = sizeof(info);

	if (getsockopt(qp->fd, IPPROTO_TCP, TCP_INFO, &info, &length))
		return false;
	/* Where an interface is down nothing leaves, and only probes count. */
	return (info.tcpi_retransmits >= TCP_RETRIES || info.tcpi_probes >= TCP_PROBES) &&
		info.tcpi_last_ack_recv >= TCP_SILENCE_MS + TCP_ANSWER_MS &&
		info.tcpi_last_data_sent >= TCP_ANSWER_MS;
}

/* A memory server has replies, or WRITEs, that its client does not answer. */
static inline bool
is_unanswered(const struct tcp_qp *qp)
{
	return qp->unreported || qp->written != qp->tail;
}

/* Something of ours waits for the peer's process. */
static bool
is_overdue(const struct tcp_qp *qp)
{
	if (qp->accepted)
		return qp->blocked || is_unanswered(qp);
	return qp->blocked ||
		(qp->head != qp->written && nam__tcp_oldest_op(qp) != NAM_WR_SEND);
}

/* A count that grows while the peer does its part of is_overdue(). */
static uint64_t
progress_of(const struct tcp_qp *qp)
{
	if (!qp->accepted)
		return qp->moved;
	/* A peer that blocks replies is overdue, even if it is busy otherwise. */
	return is_unanswered(qp) ? qp->answer_sequence : qp->out.left;
}

void
nam__tcp_give_up(struct tcp_cq *cq)
{
	uint64_t now = nam_now_ns(), progress, timeout_ns;
	struct tcp_qp *qp;

	if (now - cq->gave_up_ns < TCP_LOOK_NS / 2)
		return;
	cq->gave_up_ns = now;
	SLIST_FOREACH(qp, &cq->qps, link) {
		if (qp->error)
			continue;
		timeout_ns = qp->domain->pub.timeout_ns ?: TCP_STALL_NS;
		if (qp->moved == qp->moved_before && is_gone(qp)) {
			nam__tcp_qp_close(qp, -NAM_E_FABRIC_PEER_DEAD);
			continue;
		}
		qp->moved_before = qp->moved;
		/* This process may have stood still, and not the peer. */
		if (qp->waited_ns && now - qp->waited_ns > timeout_ns)
			nam__tcp_receive(qp);
		progress = progress_of(qp);
		if (!is_overdue(qp) || progress != qp->progress_before || !qp->waited_ns) {
			qp->progress_before = progress;
			qp->waited_ns = now;
		}
		if (now - qp->waited_ns > timeout_ns)
			nam__tcp_qp_close(qp, -NAM_E_FABRIC_TIMEOUT);
	}
}
