/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qp.c -- queue pairs, and what becomes of them when one side ends.
 *
 * When a process dies, or destroys a queue pair, some of its requests may still be on their way.
 * These in-flight effects become a queue pair without an owner.  Its messages go on until all have
 * arrived or the other side destroys its own queue pair.  Nothing else stops them, not even that
 * the other side knows of the death.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

#define NOTICE_NS 1000u

static void close_due(struct sim_event *event);

struct sim_qp *
nam__sim_qp_new(struct sim_domain *domain, const struct nam_qp_options *options)
{
	struct sim_qp *qp;

	if (!options->cq)
		return NULL;
	qp = nam__sim_alloc(sizeof(*qp));
	qp->pub.ops = domain->pub.ops;
	qp->pub.user = options->user;
	qp->event.due = close_due;
	qp->broken = nam__sim_qp_broken;
	qp->domain = domain;
	qp->cq = (struct sim_cq *)options->cq;
	qp->rq = (struct sim_rq *)options->rq;
	qp->colocated = options->colocated != NULL;
	qp->peer_reads = options->rights == NAM_MR_REMOTE_READ;
	qp->id = ++nam__sim.ids;
	nam__sim_flow_begin(&qp->flow, domain->process);
	STAILQ_INIT(&qp->messages);
	LIST_INSERT_HEAD(&domain->qps, qp, link);
	return qp;
}

/* ---- in-flight effects -------------------------------------------------------------------- */

struct sim_qp *
nam__sim_effects_new(const struct sim_qp *qp)
{
	struct sim_qp *effects = nam__sim_alloc(sizeof(*effects));

	STAILQ_INIT(&effects->messages);
	effects->peer = qp->peer;
	effects->id = ++nam__sim.ids;
	effects->broken = qp->broken;
	return effects;
}

static void
messages_free(struct sim_qp *qp)
{
	struct sim_message *message;

	while ((message = STAILQ_FIRST(&qp->messages))) {
		STAILQ_REMOVE_HEAD(&qp->messages, link);
		nam__sim_rq_forget(message);
		if (qp->cq)
			qp->cq->outstanding--;
		nam__sim_message_free(message);
	}
}

static void
effects_free(struct sim_qp *qp)
{
	struct sim_qp *effects;

	if (qp->peer)
		qp->peer->transit = NULL;
	while ((effects = LIST_FIRST(&qp->effects))) {
		LIST_REMOVE(effects, link);
		messages_free(effects);
		free(effects);
	}
}

struct sim_message *
nam__sim_clone(const struct sim_message *message, uint64_t delay_ns)
{
	struct sim_message *copy = nam__sim_message_new();

	*copy = *message;
	copy->event = (struct sim_event){ .due = message->event.due };
	copy->flags &= (uint8_t)~NAM_WR_SIGNALED;
	copy->owned = NULL;
	copy->context = NULL;
	copy->break_step = UINT32_MAX;	/* what breaks is broken */
	copy->earliest_ns = nam__sim_here() + delay_ns;
	if (copy->class == SIM_ATOMIC) {
		copy->local = NULL;
	} else if (message->local == message->inline_data) {
		copy->local = copy->inline_data;
	} else if (copy->bytes) {
		copy->owned = nam__sim_alloc(copy->bytes);
		memcpy(copy->owned, message->local, copy->bytes);
		copy->local = copy->owned;
	}
	return copy;
}

/* Draw the zombies.  Returns up to which message at least all go on, counted from 1, or 0. */
static uint64_t
draw_zombies(const struct sim_qp *qp)
{
	const struct nam_sim_process *process = qp->domain ? qp->domain->process : NULL;
	struct sim_message *message;
	uint64_t number = 0, last = 0;

	STAILQ_FOREACH(message, &qp->messages, link) {
		number++;
		message->zombie = process && message->op == NAM_WR_WRITE &&
			message->state <= SIM_STEPS && !message->status &&
			!((message->flags & NAM_WR_FENCE) && message->state == SIM_HELD) &&
			nam__sim_drawn(process, nam__sim.options.faults.zombie);
		if (message->zombie)
			last = number;
	}
	return last;
}

/* The end is noticed after a zombie has arrived: else its queue pair would be gone. */
static uint64_t
zombie_delay(const struct sim_qp *qp)
{
	const struct nam_sim_faults *faults = &nam__sim.options.faults;
	uint64_t delay_ns = nam_rng_below(&nam__sim.faults, 2 * faults->detect_ns +
		faults->late_ns + 1);
	uint64_t arrives_ns = nam__sim_here() + delay_ns;

	nam__sim.counts.zombies++;
	if (arrives_ns > qp->peer->zombies_ns)
		qp->peer->zombies_ns = arrives_ns;
	return delay_ns;
}

/*
 * Leave the effects of requests in flight.  Where requests are kept in order they arrive up to some
 * point and no further; elsewhere each of them arrives or does not.
 */
static void
leave_effects(struct sim_qp *qp)
{
	struct sim *sim = &nam__sim;
	bool in_order = sim->options.profile != NAM_SIM_WEAK;
	const struct sim_message *message;
	struct sim_qp *effects;
	uint64_t kept, delay_ns, zombies;

	if (qp->unreliable_qp || STAILQ_EMPTY(&qp->messages) || !qp->peer || qp->cut ||
		sim->options.network)
		return;
	kept = nam_rng_below(&sim->faults, qp->outstanding + 1);
	zombies = draw_zombies(qp);
	if (kept < zombies)
		kept = zombies;
	delay_ns = nam_rng_below(&sim->faults, nam_rng_below(&sim->faults, 2) ? 2000 :
		2 * sim->options.faults.detect_ns + 1);
	effects = nam__sim_effects_new(qp);
	STAILQ_FOREACH(message, &qp->messages, link) {
		uint64_t late_ns;

		/* A request that waited for an answer has not set out. */
		if ((in_order && !kept--) ||
			((message->flags & NAM_WR_FENCE) && message->state == SIM_HELD))
			break;
		/* An atomic that has been carried out is not carried out again. */
		if (message->op == NAM_WR_READ || message->state > SIM_STEPS || message->status ||
			(message->class == SIM_ATOMIC && message->done) ||
			(!in_order && !message->zombie && nam_rng_below(&sim->faults, 2)))
			continue;
		late_ns = message->zombie ? zombie_delay(qp) : delay_ns;
		SIM_EVENT(SIM_WHAT_FAULT, message->id, effects->id,
			"fault zombie: m%llu %s goes on as q%u in %llu ns, from step %u of %u",
			(unsigned long long)message->id, nam__sim_op_name(message->op), effects->id,
			(unsigned long long)late_ns, message->done, message->steps);
		nam__sim_message_add(effects, nam__sim_clone(message, late_ns));
	}
	if (STAILQ_EMPTY(&effects->messages))
		free(effects);
	else
		LIST_INSERT_HEAD(&qp->peer->effects, effects, link);
}

/* ---- ends --------------------------------------------------------------------------------- */

void
nam__sim_qp_close_later(struct sim_qp *qp)
{
	struct sim *sim = &nam__sim;
	uint64_t spread = sim->options.faults.detect_ns, noticed_ns;

	/* The owner of an unreliable queue pair is not told. */
	if (qp->unreliable_qp || qp->closed || qp->event.place)
		return;
	/* Mostly at once, as when the peer's system tells; sometimes by silence. */
	if (nam_rng_below(&sim->chance, 4))
		spread = spread < 20000 ? spread : 20000;
	noticed_ns = nam__sim_here() + NOTICE_NS + nam_rng_below(&sim->chance, spread + 1);
	if (noticed_ns < qp->zombies_ns + NOTICE_NS)
		noticed_ns = qp->zombies_ns + NOTICE_NS;
	nam__sim_plan(&qp->event, noticed_ns);
}

static void
close_due(struct sim_event *event)
{
	struct sim_qp *qp = (struct sim_qp *)((char *)event - offsetof(struct sim_qp, event));
	struct nam_wc wc = {
		.qp = &qp->pub,
		.status = -NAM_E_FABRIC_PEER_DEAD,
		.op = NAM_WC_CLOSED,
	};

	SIM_EVENT(SIM_WHAT_CLOSE, qp->id, 0, "q%u notices that its peer is gone", qp->id);
	if (!qp->error)
		qp->error = -NAM_E_FABRIC_PEER_DEAD;
	qp->cut = true;
	nam__sim_flush(qp, STAILQ_FIRST(&qp->messages), qp->error);
	qp->closed = true;
	nam__sim_cq_push(qp->cq, &wc);
}

/* Nothing goes on by itself from here. */
static void
freeze(struct sim_qp *qp)
{
	struct sim_message *message;

	STAILQ_FOREACH(message, &qp->messages, link) {
		nam__sim_unplan(&message->event);
		nam__sim_rq_forget(message);
		if (message->state == SIM_RNR)
			message->state = SIM_STEPS;
	}
	qp->cut = true;
}

/* How far each request has come. */
static void
trace_applied(const struct sim_qp *qp)
{
	const struct sim_message *message;

	STAILQ_FOREACH(message, &qp->messages, link)
		SIM_EVENT(SIM_WHAT_FAULT, message->id, message->done,
			"fault cut: m%llu %s of q%u was carried out for %u of %u steps",
			(unsigned long long)message->id, nam__sim_op_name(message->op), qp->id,
			message->state >= SIM_ANSWER && !message->status ? message->steps :
			message->done, message->steps);
}

void
nam__sim_qp_orphan(struct sim_qp *qp)
{
	trace_applied(qp);
	leave_effects(qp);
	freeze(qp);
	effects_free(qp);	/* the memory that they were on their way to is gone */
	if (!qp->peer || qp->unreliable_qp)
		return;
	freeze(qp->peer);
	if (!nam__sim_is_gone(qp->peer->domain->process))
		nam__sim_qp_close_later(qp->peer);
}

void
nam__sim_qp_broken(struct sim_qp *qp)
{
	SIM_EVENT(SIM_WHAT_FAULT, qp->id, 3, "fault break: q%u breaks", qp->id);
	trace_applied(qp);
	leave_effects(qp);
	freeze(qp);
	/* Effects have no owner to notice. */
	if (!qp->domain)
		return;
	nam__sim.counts.broken++;
	qp->error = -NAM_E_FABRIC_PEER_DEAD;
	nam__sim_qp_close_later(qp);
	if (qp->peer) {
		freeze(qp->peer);
		nam__sim_qp_close_later(qp->peer);
	}
	nam__sim_flush(qp, STAILQ_FIRST(&qp->messages), qp->error);
}

void
nam_sim_qp_break(struct nam_qp *qp)
{
	nam__sim.counts.faults++;
	nam__sim_qp_broken((struct sim_qp *)qp);
}

void
nam__sim_qp_destroy(struct nam_qp *pub)
{
	struct sim_qp *qp = (struct sim_qp *)pub;

	if (!qp)
		return;
	SIM_EVENT(SIM_WHAT_CLOSE, qp->id, 1, "q%u is destroyed", qp->id);
	if (!nam__sim_is_gone(qp->domain->process))
		leave_effects(qp);
	messages_free(qp);
	effects_free(qp);
	if (qp->peer && qp->unreliable_qp) {
		qp->peer->peer = NULL;
	} else if (qp->peer) {
		freeze(qp->peer);
		qp->peer->peer = NULL;
		if (!nam__sim_is_gone(qp->peer->domain->process))
			nam__sim_qp_close_later(qp->peer);
	}
	nam__sim_cq_forget(qp->cq, qp);
	nam__sim_unplan(&qp->event);
	LIST_REMOVE(qp, link);
	free(qp);
}
