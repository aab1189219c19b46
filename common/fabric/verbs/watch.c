/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c -- noticing that a peer is gone, or that the device is in trouble.
 *
 * rdma_cm reports the end of a process.  Requests to a host that is gone run out of retries.  On a
 * connection without requests in flight the watcher sends a WRITE of no bytes now and then.  It
 * sends no other until the owner has taken the completion.
 *
 * The mutex keeps a queue pair alive while the watcher looks at it.  Events hold it, too:
 * destroying an id or a queue pair waits until they are acknowledged.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/fabric/wait/wake.h"
#include "verbs_internal.h"

#define TICK_NS 250000000ull
#define CLIENT_IDLE_NS 500000000ull	/* a client may be waiting for an answer */
#define SERVER_IDLE_NS 5000000000ull	/* only what a dead client holds is at stake */

int
nam__verbs_watch_init(struct verbs_domain *domain, struct nam_diag *diag)
{
	struct verbs_watch *watch = &domain->watch;
	int rc;

	rc = nam__verbs_channel_create(&watch->channel, diag);
	if (rc)
		return rc;
	watch->stop_fd = nam__wake_open();
	if (watch->stop_fd < 0) {
		rdma_destroy_event_channel(watch->channel);
		return nam_diag_set(diag, watch->stop_fd, "verbs: %s",
			nam_err_text(watch->stop_fd));
	}
	(void)pthread_mutex_init(&watch->mutex, NULL);
	return 0;
}

void
nam__verbs_watch_free(struct verbs_domain *domain)
{
	struct verbs_watch *watch = &domain->watch;

	if (watch->thread) {
		nam__wake_post(watch->stop_fd);
		nam_thread_join(watch->thread);
	}
	(void)pthread_mutex_destroy(&watch->mutex);
	close(watch->stop_fd);
	rdma_destroy_event_channel(watch->channel);
}

/* ---- events -------------------------------------------------------------------------------- */

/* True if it was not known before. */
static bool
closed(struct verbs_qp *qp, int status)
{
	struct verbs_watch *watch = &qp->domain->watch;
	bool first = false;

	pthread_mutex_lock(&watch->mutex);
	if (qp->unreliable_qp && qp->watched)
		qp = qp->beside;
	if (qp->watched)
		first = nam__verbs_cq_closed(qp->cq, qp, status);
	pthread_mutex_unlock(&watch->mutex);
	return first;
}

static void NAM_PRINTF(2, 3)
notice(const struct verbs_domain *domain, const char *format, ...)
{
	char text[256];
	va_list args;

	if (!domain->notice)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	domain->notice(text);
}

/* Whether it is made of a completion queue or a receive queue; of anything, if both are NULL. */
static bool
stands_on(const struct ibv_qp *qp, const struct ibv_cq *cq, const struct ibv_srq *srq)
{
	return cq ? qp->send_cq == cq || qp->recv_cq == cq : !srq || qp->srq == srq;
}

/* All connections that use a queue, also by the unreliable queue pair beside them; NULL: all. */
static void
close_all(struct verbs_domain *domain, const struct ibv_cq *cq, const struct ibv_srq *srq)
{
	struct verbs_qp *qp;

	pthread_mutex_lock(&domain->watch.mutex);
	LIST_FOREACH(qp, &domain->watch.qps, watch_link) {
		if (stands_on(qp->qp, cq, srq))
			(void)nam__verbs_cq_closed(qp->cq, qp, -NAM_E_FABRIC_PEER_DEAD);
	}
	LIST_FOREACH(qp, &domain->watch.unreliable_qps, watch_link) {
		if (stands_on(qp->qp, cq, srq) || stands_on(qp->companion->qp, cq, srq))
			(void)nam__verbs_cq_closed(qp->beside->cq, qp->beside,
				-NAM_E_FABRIC_PEER_DEAD);
	}
	pthread_mutex_unlock(&domain->watch.mutex);
}

void
nam__verbs_watch_gone(struct verbs_domain *domain)
{
	/* The flag alone goes from one thread to another, to those that listen. */
	if (atomic_exchange_explicit(&domain->watch.gone, true, memory_order_relaxed))
		return;
	notice(domain, "verbs: %s: the device is gone; all connections are closed", domain->device);
	close_all(domain, NULL, NULL);
}

/* How many there were. */
static unsigned
take_cm_events(struct verbs_domain *domain)
{
	struct rdma_cm_event *event;
	unsigned count = 0;

	for (; !rdma_get_cm_event(domain->watch.channel, &event); count++) {
		switch (event->event) {
		case RDMA_CM_EVENT_DEVICE_REMOVAL:
			nam__verbs_watch_gone(domain);
			(void)closed(event->id->context, -NAM_E_FABRIC_PEER_DEAD);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
		case RDMA_CM_EVENT_UNREACHABLE:
		case RDMA_CM_EVENT_REJECTED:
		case RDMA_CM_EVENT_CONNECT_ERROR:
		case RDMA_CM_EVENT_ADDR_CHANGE:
			(void)closed(event->id->context, -NAM_E_FABRIC_PEER_DEAD);
			break;
		default:
			break;
		}
		(void)rdma_ack_cm_event(event);
	}
	return count;
}

/* True if that is news: some drivers say it twice. */
static bool
port_changes(struct verbs_domain *domain, int port, bool down)
{
	uint64_t bit = 1ull << (port & 63);

	if (down == !!(domain->watch.ports_down & bit))
		return false;
	domain->watch.ports_down ^= bit;
	return true;
}

void
nam__verbs_watch_event(struct verbs_domain *domain, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		/* A device may have several words for one failure.  An endpoint is mended. */
		if (event->element.qp->qp_context &&
			closed(event->element.qp->qp_context, -NAM_E_FABRIC))
			notice(domain, "verbs: %s: a queue pair failed (%s); its connection is "
				"closed", domain->device, ibv_event_type_str(event->event_type));
		break;
	case IBV_EVENT_CQ_ERR:
		notice(domain, "verbs: %s: a completion queue failed; its connections are closed",
			domain->device);
		close_all(domain, event->element.cq, NULL);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		notice(domain, "verbs: %s: the device failed; all connections are closed",
			domain->device);
		close_all(domain, NULL, NULL);
		break;
	case IBV_EVENT_PORT_ERR:
		/* Each connection is tried, which shows the ones that are cut off. */
		if (port_changes(domain, event->element.port_num, true))
			notice(domain,
				"verbs: %s: port %d is down; connections that it carries end "
				"unless it comes back at once", domain->device,
				event->element.port_num);
		domain->watch.urgent = true;
		break;
	case IBV_EVENT_PORT_ACTIVE:
		if (port_changes(domain, event->element.port_num, false))
			notice(domain, "verbs: %s: port %d is up again", domain->device,
				event->element.port_num);
		break;
	case IBV_EVENT_SRQ_ERR:
		notice(domain, "verbs: %s: a receive queue failed; its connections are closed",
			domain->device);
		close_all(domain, NULL, event->element.srq);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		notice(domain, "verbs: %s: a receive queue has run low: clients send faster than "
			"their messages are answered, and wait. More handler threads may help "
			"(rpc_threads). This is said once", domain->device);
		break;
	default:
		break;
	}
}

/* How many there were. */
static unsigned
take_async_events(struct verbs_domain *domain)
{
	struct ibv_async_event event;
	unsigned count = 0;

	for (; !ibv_get_async_event(domain->verbs, &event); count++) {
		nam__verbs_watch_event(domain, &event);
		ibv_ack_async_event(&event);
	}
	return count;
}

/* ---- idle connections ---------------------------------------------------------------------- */

static void
post_try(struct verbs_qp *qp)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = nam__verbs_wr_id(qp, 0) | VERBS_KEEP_ALIVE,
		.opcode = qp->read_only && !qp->accepted ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};

	/* Pairs with the release in cq_poll: the place in the device's queue is free again. */
	if (atomic_load_explicit(&qp->dead, memory_order_relaxed) ||
		atomic_exchange_explicit(&qp->trying, true, memory_order_acquire))
		return;
	/* Libraries of devices lock their send queues, so the owner may post meanwhile. */
	if (ibv_post_send(qp->qp, &wr, &bad))
		atomic_store_explicit(&qp->trying, false, memory_order_relaxed);
}

static void
try_idle(struct verbs_domain *domain)
{
	uint64_t now = nam_now_ns();
	struct verbs_qp *qp;

	pthread_mutex_lock(&domain->watch.mutex);
	LIST_FOREACH(qp, &domain->watch.qps, watch_link) {
		uint32_t posts = atomic_load_explicit(&qp->posts, memory_order_relaxed);
		uint64_t idle_ns = qp->accepted ? SERVER_IDLE_NS : CLIENT_IDLE_NS;

		if (posts != qp->seen_posts && !domain->watch.urgent) {
			qp->seen_posts = posts;
			qp->tried_ns = now;
		} else if (domain->watch.urgent || now - qp->tried_ns >= idle_ns) {
			qp->tried_ns = now;
			if (!qp->hold.wrs) {
				post_try(qp);
			} else if (!pthread_mutex_trylock(&qp->hold.mutex)) {
				post_try(qp);
				pthread_mutex_unlock(&qp->hold.mutex);
			}	/* else its owner posts now, which tries the peer, too */
		}
	}
	domain->watch.urgent = false;
	pthread_mutex_unlock(&domain->watch.mutex);
}

/* A removed device leaves descriptors that stay ready: to poll one again would be to spin. */
static void
leave_if_gone(struct verbs_domain *domain, struct pollfd *ready, unsigned taken)
{
	if (taken || !(ready->revents & (POLLERR | POLLHUP | POLLNVAL)))
		return;
	ready->fd = -1;
	nam__verbs_watch_gone(domain);
}

static void
watch_main(void *arg)
{
	struct verbs_domain *domain = arg;
	struct pollfd ready[3] = {
		{ .fd = domain->watch.stop_fd, .events = POLLIN },
		{ .fd = domain->watch.channel->fd, .events = POLLIN },
		{ .fd = domain->verbs->async_fd, .events = POLLIN },
	};
	uint64_t next = nam_now_ns() + TICK_NS;

	for (;;) {
		uint64_t now = nam_now_ns();
		int n = poll(ready, 3, now >= next ? 0 : (int)((next - now) / 1000000) + 1);

		if (n > 0 && ready[0].revents)
			return;
		if (n > 0 && ready[1].revents)
			leave_if_gone(domain, &ready[1], take_cm_events(domain));
		if (n > 0 && ready[2].revents)
			leave_if_gone(domain, &ready[2], take_async_events(domain));
		if (nam_now_ns() >= next || domain->watch.urgent) {
			try_idle(domain);
			next = nam_now_ns() + TICK_NS;
		}
	}
}

/* ---- watched queue pairs --------------------------------------------------------------------- */

int
nam__verbs_watch_add(struct verbs_qp *qp)
{
	struct verbs_watch *watch = &qp->domain->watch;
	int rc = 0;

	pthread_mutex_lock(&watch->mutex);
	if (!watch->thread)
		rc = nam_thread_start("nam-verbs", watch_main, qp->domain, &watch->thread);
	if (!rc) {
		qp->tried_ns = nam_now_ns();
		qp->watched = true;
		LIST_INSERT_HEAD(&watch->qps, qp, watch_link);
	}
	pthread_mutex_unlock(&watch->mutex);
	/* Waits for events of the old channel that are still held. */
	if (!rc && rdma_migrate_id(qp->id, watch->channel)) {
		rc = -errno;
		nam__verbs_watch_remove(qp);
	}
	return rc;
}

void
nam__verbs_watch_unreliable_qp(struct verbs_qp *unreliable_qp, struct verbs_qp *beside)
{
	struct verbs_watch *watch = &unreliable_qp->domain->watch;

	pthread_mutex_lock(&watch->mutex);
	unreliable_qp->beside = beside;
	unreliable_qp->watched = true;
	LIST_INSERT_HEAD(&watch->unreliable_qps, unreliable_qp, watch_link);
	pthread_mutex_unlock(&watch->mutex);
}

/* The caller holds the mutex. */
static void
unlink_watched(struct verbs_qp *qp)
{
	if (qp->watched)
		LIST_REMOVE(qp, watch_link);
	qp->watched = false;
}

void
nam__verbs_watch_remove(struct verbs_qp *qp)
{
	struct verbs_watch *watch = &qp->domain->watch;
	struct verbs_qp *unreliable_qp, *next;

	pthread_mutex_lock(&watch->mutex);
	unlink_watched(qp);
	for (unreliable_qp = LIST_FIRST(&watch->unreliable_qps); unreliable_qp;
		unreliable_qp = next) {
		next = LIST_NEXT(unreliable_qp, watch_link);
		if (unreliable_qp->beside == qp)
			unlink_watched(unreliable_qp);
	}
	pthread_mutex_unlock(&watch->mutex);
}
