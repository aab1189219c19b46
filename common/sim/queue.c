/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c -- completion queues and receive queues, and how a thread waits for them. */
#include <errno.h>
#include <stdlib.h>

#include "sim_internal.h"

#define POLL_NS 40u
#define SLOW_POLL_NS 100u	/* what a look at its queue takes a process, times its slowness */
#define COMPLETION_NS 30u
#define IDLE_POLL_NS 100u
#define IDLE_POLLS_MAX 2u
#define NETWORK_IDLE_POLLS_MAX 4u	/* a local copier polls in between */
#define WAKE_NS 50u
#define SPIN_NS 1000u		/* with a network: what completes, or is written to us, ends it */
#define RNR_RETRY_NS 1000u

/* ---- completion queues -------------------------------------------------------------------- */

int
nam__sim_cq_create(struct nam_domain *domain, uint32_t depth, struct nam_cq **ret)
{
	struct sim_cq *cq;

	if (!depth)
		return -EINVAL;
	cq = nam__sim_alloc(sizeof(*cq));
	cq->pub.ops = domain->ops;
	cq->depth = depth;
	cq->id = ++nam__sim.ids;
	*ret = &cq->pub;
	return 0;
}

void
nam__sim_cq_destroy(struct nam_cq *pub)
{
	struct sim_cq *cq = (struct sim_cq *)pub;

	if (!cq)
		return;
	free(cq->ring);
	free(cq);
}

static void
ring_grow(struct sim_cq *cq)
{
	uint32_t size = cq->ring ? 2 * (cq->mask + 1) : 64, count = cq->tail - cq->head;
	struct nam_wc *ring = nam__sim_alloc(size * sizeof(*ring));

	for (uint32_t i = 0; i < count; i++)
		ring[i] = cq->ring[(cq->head + i) & cq->mask];
	free(cq->ring);
	cq->ring = ring;
	cq->mask = size - 1;
	cq->head = 0;
	cq->tail = count;
}

void
nam__sim_cq_push(struct sim_cq *cq, const struct nam_wc *wc)
{
	if (!cq->ring || cq->tail - cq->head > cq->mask)
		ring_grow(cq);
	cq->ring[cq->tail++ & cq->mask] = *wc;
	if (cq->waiter)
		nam__sim_wake(cq->waiter, nam__sim.options.network ? 0 : WAKE_NS);
}

/* A shared receive queue gets back the buffers of messages from `qp` that no poll has returned. */
void
nam__sim_cq_forget(struct sim_cq *cq, struct sim_qp *qp)
{
	uint32_t kept = cq->head;

	for (uint32_t i = cq->head; i != cq->tail; i++) {
		const struct nam_wc *wc = &cq->ring[i & cq->mask];

		if (wc->qp != &qp->pub)
			cq->ring[kept++ & cq->mask] = *wc;
	}
	cq->tail = kept;
}

/* Requests posted between the notice of the end and the report to the owner come first. */
static bool
is_last(const struct sim_cq *cq, const struct nam_wc *closed)
{
	for (uint32_t i = cq->head; i != cq->tail; i++)
		if (cq->ring[i & cq->mask].qp == closed->qp)
			return false;
	return true;
}

static uint64_t
poll_cost(const struct sim_thread *self, const struct nam_wc *wcs, unsigned count)
{
	const struct nam_sim_network *network = nam__sim.options.network;
	unsigned received = 0;

	if (!network)
		return POLL_NS + COMPLETION_NS * count;
	if (!self->process->serves)
		return (uint64_t)(count ? network->completion_ns * count : network->poll_ns);
	for (unsigned i = 0; i < count; i++)
		received += wcs[i].op == NAM_WC_RECV;
	return nam__sim_serve_ns((uint64_t)(network->rpc_ns * received));
}

int
nam__sim_cq_poll(struct nam_cq *pub, struct nam_wc *wcs, unsigned max)
{
	struct sim *sim = &nam__sim;
	struct sim_cq *cq = (struct sim_cq *)pub;
	struct sim_thread *self = sim->current;
	unsigned count = 0;

	if (nam__sim_drawn(self->process, sim->options.faults.preempt))
		nam__sim_pause("preempt", "cq_poll");
	if (self->process->slowness > 1)
		(void)nam__sim_wait(nam__sim_here() + SLOW_POLL_NS * self->process->slowness);
	if (sim->options.network && self->debt_ns)
		nam__sim_catch_up(self);
	while (count < max && cq->head != cq->tail) {
		struct nam_wc *wc = &wcs[count];

		*wc = cq->ring[cq->head++ & cq->mask];
		if (wc->op == NAM_WC_CLOSED && !is_last(cq, wc))
			cq->ring[cq->tail++ & cq->mask] = *wc;
		else
			count++;
	}
	self->polls = true;
	self->debt_ns += poll_cost(self, wcs, count);
	if (count) {
		self->idle_polls = 0;
	} else if (++self->idle_polls >=
		(sim->options.network ? NETWORK_IDLE_POLLS_MAX : IDLE_POLLS_MAX)) {
		/* A thread that spins lets the others come so far. */
		cq->waiter = self;
		cq->polled = true;
		(void)nam__sim_wait(nam__sim_here() +
			(sim->options.network ? SPIN_NS : IDLE_POLL_NS));
		cq->polled = false;
		cq->waiter = NULL;
	}
	return (int)count;
}

int
nam__sim_cq_wait(struct nam_cq *pub, uint64_t timeout_ns)
{
	struct sim_cq *cq = (struct sim_cq *)pub;
	struct sim_thread *self = nam__sim.current;
	bool woken;

	self->idle_polls = 0;
	self->polls = false;
	if (cq->head != cq->tail || cq->woken) {
		cq->woken = false;
		return 0;
	}
	cq->waiter = self;
	woken = nam__sim_wait(nam__sim_after(timeout_ns));
	cq->waiter = NULL;
	cq->woken = false;
	return woken ? 0 : -ETIMEDOUT;
}

void
nam__sim_cq_wake(struct nam_cq *pub)
{
	struct sim_cq *cq = (struct sim_cq *)pub;

	cq->woken = true;
	nam__sim_wake(cq->waiter, WAKE_NS);
}

/* ---- receive queues ----------------------------------------------------------------------- */

int
nam__sim_rq_create(struct nam_domain *domain, struct nam_cq *cq, uint32_t depth,
	struct nam_rq **ret)
{
	struct sim_rq *rq;

	(void)cq;
	if (!depth)
		return -EINVAL;
	rq = nam__sim_alloc(sizeof(*rq));
	rq->recvs = nam__sim_alloc(depth * sizeof(*rq->recvs));
	rq->pub.ops = domain->ops;
	rq->depth = depth;
	TAILQ_INIT(&rq->waiting);
	*ret = &rq->pub;
	return 0;
}

void
nam__sim_rq_destroy(struct nam_rq *pub)
{
	struct sim_rq *rq = (struct sim_rq *)pub;

	if (!rq)
		return;
	free(rq->recvs);
	free(rq);
}

int
nam__sim_rq_post(struct nam_rq *pub, const struct nam_recv *recvs, unsigned count)
{
	struct sim_rq *rq = (struct sim_rq *)pub;

	if (rq->tail - rq->head + count > rq->depth)
		return -NAM_E_FABRIC_FULL;
	for (unsigned i = 0; i < count; i++)
		rq->recvs[rq->tail++ % rq->depth] = recvs[i];
	for (unsigned i = 0; i < count && !TAILQ_EMPTY(&rq->waiting); i++) {
		struct sim_message *message = TAILQ_FIRST(&rq->waiting);

		nam__sim_rq_forget(message);
		message->state = SIM_STEPS;
		nam__sim_plan(&message->event, nam__sim_here() +
			nam_rng_below(&nam__sim.chance, RNR_RETRY_NS));
	}
	return 0;
}

bool
nam__sim_rq_take(struct sim_rq *rq, struct nam_recv *ret)
{
	if (rq->head == rq->tail)
		return false;
	*ret = rq->recvs[rq->head++ % rq->depth];
	if (rq->head == rq->tail)
		rq->head = rq->tail = 0;
	return true;
}

void
nam__sim_rq_forget(struct sim_message *message)
{
	struct sim_qp *peer = message->qp->peer;

	if (message->state == SIM_RNR && peer && peer->rq)
		TAILQ_REMOVE(&peer->rq->waiting, message, waiting_link);
}
