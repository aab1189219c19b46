/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll.c -- how the owner of a completion queue makes progress, and how it waits.
 *
 * A poll reports completions.  Only if there are none, it sends the output, reads the sockets, and
 * serves peers.  So a batch that has arrived is used up before the next system call.  Answers leave
 * at the end of a poll, but those of a connection that has just brought a message with the reply.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/fabric/wait/wake.h"
#include "tcp_internal.h"

#define EVENTS_MAX 64
#define POLLS_PER_LOOK 64u		/* for silent peers; and before each sleep */

static const struct nam__spin_limits limits = { .max_ns = 100000, .lost_ns = 30000 };

/* ---- the sockets ---------------------------------------------------------------------------- */

static void
flush_dirty(struct tcp_cq *cq, bool all)
{
	struct tcp_qp *dirty = SLIST_FIRST(&cq->dirty), *next;

	SLIST_INIT(&cq->dirty);
	for (; dirty; dirty = next) {
		next = SLIST_NEXT(dirty, dirty_link);
		dirty->dirty = false;
		if (dirty->replying && !all) {
			nam__tcp_dirty(dirty);
			continue;
		}
		dirty->replying = false;
		nam__tcp_flush(dirty);
	}
}

static bool
any_can_resume(const struct tcp_cq *cq)
{
	const struct tcp_qp *qp;

	SLIST_FOREACH(qp, &cq->stalled, stalled_link) {
		if (nam__tcp_can_resume(qp))
			return true;
	}
	return false;
}

static void
resume_stalled(struct tcp_cq *cq)
{
	struct tcp_qp **at = &SLIST_FIRST(&cq->stalled), *qp;

	while ((qp = *at)) {
		if (nam__tcp_can_resume(qp) && !nam__tcp_resume(qp))
			nam__tcp_qp_close(qp, -NAM_E_FABRIC_PROTOCOL);
		if (qp->stalled && !qp->closing)
			at = &SLIST_NEXT(qp, stalled_link);
		else
			*at = SLIST_NEXT(qp, stalled_link);
	}
}

static int
wait_events(const struct tcp_cq *cq, struct epoll_event *events, uint64_t timeout_ns)
{
	struct timespec timeout = {
		.tv_sec = (time_t)(timeout_ns / 1000000000u),
		.tv_nsec = (long)(timeout_ns % 1000000000u),
	};
	int n;

	if (!timeout_ns)
		return epoll_wait(cq->epoll_fd, events, EVENTS_MAX, 0);
#ifdef SYS_epoll_pwait2
	n = (int)syscall(SYS_epoll_pwait2, cq->epoll_fd, events, EVENTS_MAX, &timeout, NULL, 0);
	if (n >= 0 || errno != ENOSYS)
		return n;
#endif
	/* Kernels before 5.11. */
	return epoll_wait(cq->epoll_fd, events, EVENTS_MAX, (int)(timeout.tv_sec * 1000 +
		(timeout.tv_nsec + 999999) / 1000000));
}

/* Handle events of sockets.  True if anything happened. */
static bool
receive_ready(struct tcp_cq *cq, uint64_t timeout_ns)
{
	struct epoll_event events[EVENTS_MAX];
	int n = wait_events(cq, events, timeout_ns);

	cq->looked = timeout_ns != 0;
	for (int i = 0; i < n; i++) {
		struct tcp_qp *qp = events[i].data.ptr;

		if (!qp) {
			/* The flag cq->woken decides. */
			nam__wake_clear(cq->wake_fd);
			continue;
		}
		if (events[i].events & EPOLLOUT)
			nam__tcp_unblock(qp);
		if (events[i].events & ~(uint32_t)EPOLLOUT)
			nam__tcp_receive(qp);
	}
	return n != 0;
}

static void
progress(struct tcp_cq *cq)
{
	if (NAM__UNLIKELY(atomic_load_explicit(&cq->arrivals_count, memory_order_acquire)))
		nam__tcp_cq_take_arrivals(cq);
	flush_dirty(cq, true);
	/* After that, or a request that was posted a moment ago would count as waited for. */
	if (NAM__UNLIKELY(++cq->polls % POLLS_PER_LOOK == 0))
		nam__tcp_give_up(cq);
	if (NAM__UNLIKELY(!SLIST_EMPTY(&cq->stalled)))
		resume_stalled(cq);
	/* A thread that has just looked in cq_wait, and will again, need not look in between. */
	if (!cq->looked)
		(void)receive_ready(cq, 0);
	cq->looked = false;
	flush_dirty(cq, false);
}

/* ---- polling -------------------------------------------------------------------------------- */

static inline unsigned
report_done(struct tcp_cq *cq, struct nam_wc *wcs, unsigned max)
{
	unsigned n = 0;

	while (n < max && cq->done_head != cq->done_tail) {
		const struct tcp_done *done = &cq->done[cq->done_head++ & cq->done_mask];

		nam__tcp_done_taken(cq, done);
		wcs[n++] = done->wc;
	}
	/* Start over at the front: those lines are still cached. */
	if (cq->done_head == cq->done_tail)
		cq->done_head = cq->done_tail = 0;
	return n;
}

/* Behind everything else of theirs. */
static unsigned
report_closed(struct tcp_cq *cq, struct nam_wc *wcs, unsigned max)
{
	unsigned n = 0;

	while (n < max && !SLIST_EMPTY(&cq->closing) && cq->done_head == cq->done_tail) {
		struct tcp_qp *qp = SLIST_FIRST(&cq->closing);

		SLIST_REMOVE_HEAD(&cq->closing, closing_link);
		qp->closing = false;
		qp->closed = true;
		wcs[n++] = nam__wc_closed(&qp->pub, qp->reason);
	}
	return n;
}

int
nam__tcp_cq_poll(struct nam_cq *pub, struct nam_wc *wcs, unsigned max)
{
	struct tcp_cq *cq = (struct tcp_cq *)pub;
	unsigned n = report_done(cq, wcs, max);

	if (!n) {
		progress(cq);
		n = report_done(cq, wcs, max);
	}
	if (NAM__UNLIKELY(!SLIST_EMPTY(&cq->closing)))
		n += report_closed(cq, wcs + n, max - n);
	return (int)n;
}

/* ---- waiting -------------------------------------------------------------------------------- */

static bool
has_work(const struct tcp_cq *cq)
{
	return cq->done_head != cq->done_tail || !SLIST_EMPTY(&cq->closing) ||
		atomic_load_explicit(&cq->woken, memory_order_acquire) || any_can_resume(cq);
}

static bool
has_come(void *arg)
{
	struct tcp_cq *cq = arg;

	return receive_ready(cq, 0) || atomic_load_explicit(&cq->woken, memory_order_acquire);
}

/* In the kernel, until a socket or cq_wake has something.  0 or -ETIMEDOUT. */
static int
sleep_for(struct tcp_cq *cq, uint64_t timeout_ns)
{
	uint64_t begin = nam_now_ns();
	bool any;

	nam__tcp_give_up(cq);
	if (has_work(cq))
		return 0;
	/* Not for long, so that this is done again in time. */
	any = receive_ready(cq, timeout_ns < TCP_LOOK_NS ? timeout_ns : TCP_LOOK_NS);
	nam__spin_slept(&cq->spin, &limits, any ? nam_now_ns() - begin : UINT64_MAX);
	return any || timeout_ns > TCP_LOOK_NS ? 0 : -ETIMEDOUT;
}

int
nam__tcp_cq_wait(struct nam_cq *pub, uint64_t timeout_ns)
{
	struct tcp_cq *cq = (struct tcp_cq *)pub;
	int rc = 0;

	if (atomic_load_explicit(&cq->arrivals_count, memory_order_acquire))
		nam__tcp_cq_take_arrivals(cq);
	flush_dirty(cq, true);
	if (timeout_ns == 0) {
		/* Peers' requests are carried out even so, and even if something has completed. */
		cq->looked = false;
		progress(cq);
		rc = has_work(cq) ? 0 : -ETIMEDOUT;
	} else if (!has_work(cq) && !nam__spin(&cq->spin, &limits, &timeout_ns, has_come, cq)) {
		rc = timeout_ns ? sleep_for(cq, timeout_ns) : -ETIMEDOUT;
	}
	flush_dirty(cq, false);
	/* Pairs with the release in nam__tcp_cq_wake: all that came before it is seen now. */
	return atomic_exchange_explicit(&cq->woken, 0, memory_order_acquire) ? 0 : rc;
}
