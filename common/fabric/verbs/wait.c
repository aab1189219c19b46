/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.c -- how a thread waits: it spins a little, and then sleeps on the completion channel.
 *
 * After some microseconds it offers the processor to others, perhaps a software NIC.
 *
 * A completion that came before its ibv_cq was armed raises no event, so each is polled once more
 * between arming and sleeping.  Completions found then are kept for cq_poll.
 */
#include <errno.h>
#include <poll.h>

#include "common/fabric/wait/wake.h"
#include "verbs_internal.h"

#define BROKEN_NS 10000000ull		/* with queue pairs that wait for their requests */

static const struct nam__spin_limits limits = { .max_ns = 1000000 };

static bool
has_work(void *arg)
{
	struct verbs_cq *cq = arg;
	struct verbs_done *done;

	if (atomic_load_explicit(&cq->news, memory_order_acquire) ||
		atomic_load_explicit(&cq->woken, memory_order_acquire))
		return true;
	LIST_FOREACH(done, &cq->dones, link) {
		if (!done->stashed)
			done->stashed = ibv_poll_cq(done->cq, 1, &done->stash) > 0;
		if (done->stashed)
			return true;
	}
	return false;
}

static void
arm(struct verbs_cq *cq)
{
	struct verbs_done *done;

	LIST_FOREACH(done, &cq->dones, link) {
		if (!done->armed)
			done->armed = !ibv_req_notify_cq(done->cq, 0);
	}
}

/* Take the events of the channel.  Which ibv_cq rang does not matter: all are polled. */
static void
take_events(struct verbs_cq *cq)
{
	struct ibv_cq *rang;
	void *armed;

	while (!ibv_get_cq_event(cq->channel, &rang, &armed)) {
		ibv_ack_cq_events(rang, 1);
		*(bool *)armed = false;
	}
}

static int
sleep_for(struct verbs_cq *cq, uint64_t timeout_ns)
{
	struct pollfd ready[2] = {
		{ .fd = cq->channel->fd, .events = POLLIN },
		{ .fd = cq->wake_fd, .events = POLLIN },
	};
	uint64_t begin = nam_now_ns();
	struct timespec timeout;
	int n;

	if (!SLIST_EMPTY(&cq->broken) && timeout_ns > BROKEN_NS)
		timeout_ns = BROKEN_NS;
	if (timeout_ns > 3600000000000ull)
		timeout_ns = 3600000000000ull;
	timeout.tv_sec = (time_t)(timeout_ns / 1000000000u);
	timeout.tv_nsec = (long)(timeout_ns % 1000000000u);
	n = ppoll(ready, 2, &timeout, NULL);
	nam__spin_slept(&cq->spin, &limits, n > 0 ? nam_now_ns() - begin : UINT64_MAX);
	if (n == 0)
		return -ETIMEDOUT;
	if (n > 0 && ready[0].revents)
		take_events(cq);
	if (n > 0 && ready[1].revents)
		nam__wake_clear(cq->wake_fd);
	return 0;
}

int
nam__verbs_cq_wait(struct nam_cq *pub, uint64_t timeout_ns)
{
	struct verbs_cq *cq = (struct verbs_cq *)pub;
	int rc = 0;

	if (has_work(cq) || nam__spin(&cq->spin, &limits, &timeout_ns, has_work, cq))
		goto out;
	rc = -ETIMEDOUT;
	if (timeout_ns == 0)
		goto out;
	arm(cq);
	rc = has_work(cq) ? 0 : sleep_for(cq, timeout_ns);
out:
	/* Pairs with the release in nam__verbs_cq_wake: all that came before it is seen now. */
	if (atomic_exchange_explicit(&cq->woken, 0, memory_order_acquire))
		nam__wake_clear(cq->wake_fd);
	return rc;
}

void
nam__verbs_cq_wake(struct nam_cq *pub)
{
	struct verbs_cq *cq = (struct verbs_cq *)pub;

	if (!atomic_exchange_explicit(&cq->woken, 1, memory_order_acq_rel))
		nam__wake_post(cq->wake_fd);
}
