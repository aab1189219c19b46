/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unreliable_qp.c -- unreliable queue pairs: their messages are lost, torn, late, doubled,
 * overtaken.
 *
 * A message leaves: then it completes, and its buffer is its owner's again.  Messages that have
 * left are in-flight effects of the unreliable queue pair (qp.c), in no order.  With a network
 * nothing goes wrong, and a message costs what it costs over a connection.
 */
#include <errno.h>

#include "sim_internal.h"

#define WAY_NS 2000u
#define LATE_ONE_IN 16u

int
nam__sim_unreliable_qp_join(struct nam_qp *pub, struct nam_qp *beside, uint64_t peer_name)
{
	struct sim_qp *unreliable_qp = (struct sim_qp *)pub,
		*there = ((struct sim_qp *)beside)->peer;
	struct sim_qp *peer = there && there->domain ? LIST_FIRST(&there->domain->qps) : NULL;

	while (peer && !(peer->unreliable_qp && peer->id == peer_name))
		peer = LIST_NEXT(peer, link);
	/* The peer has ended already. */
	if (!peer || (peer->peer && peer->peer != unreliable_qp) ||
		nam__sim_is_gone(peer->domain->process) ||
		nam__sim_is_gone(unreliable_qp->domain->process))
		return 0;
	unreliable_qp->peer = peer;
	peer->peer = unreliable_qp;
	unreliable_qp->transit = nam__sim_effects_new(unreliable_qp);
	unreliable_qp->transit->unreliable_qp = true;
	LIST_INSERT_HEAD(&peer->effects, unreliable_qp->transit, link);
	return 0;
}

static void
send_copy(const struct sim_message *message, const struct nam_sim_process *process)
{
	struct sim *sim = &nam__sim;
	struct sim_qp *transit = message->qp->transit;
	uint64_t late_ns = sim->options.faults.late_ns;
	struct sim_message *copy;
	uint32_t steps = message->steps;

	if (nam__sim_drawn(process, sim->options.faults.lose)) {
		sim->counts.lost++;
		/* Packets of a WRITE may arrive before the one that is lost. */
		steps = message->op == NAM_WR_WRITE ?
			(uint32_t)nam_rng_below(&sim->faults, message->steps) : 0;
		SIM_EVENT(SIM_WHAT_FAULT, message->id, steps,
			"fault lose: m%llu %s is lost after %u of %u steps",
			(unsigned long long)message->id, nam__sim_op_name(message->op), steps,
			message->steps);
	}
	if (!steps)
		return;
	if (nam_rng_below(&sim->chance, LATE_ONE_IN))
		late_ns = WAY_NS;
	copy = nam__sim_clone(message, nam_rng_below(&sim->chance, late_ns + 1));
	copy->steps = steps;
	/* In no order with others. */
	copy->qp = transit;
	STAILQ_INSERT_TAIL(&transit->messages, copy, link);
	transit->outstanding++;
	transit->unfinished[copy->class]++;
	copy->holders = 0;
	copy->state = SIM_STEPS;
	nam__sim_plan(&copy->event, copy->earliest_ns);
}

static void
left(struct sim_message *message)
{
	struct sim *sim = &nam__sim;
	const struct sim_qp *unreliable_qp = message->qp;
	const struct nam_sim_process *process = unreliable_qp->domain->process;

	if (unreliable_qp->peer && unreliable_qp->transit && !message->status) {
		if (unreliable_qp->peer->domain->process->spared)
			process = unreliable_qp->peer->domain->process;
		send_copy(message, process);
		if (nam__sim_drawn(process, sim->options.faults.twice)) {
			sim->counts.twice++;
			SIM_EVENT(SIM_WHAT_FAULT, message->id, 2, "fault twice: m%llu %s",
				(unsigned long long)message->id, nam__sim_op_name(message->op));
			send_copy(message, process);
		}
	}
	nam__sim_carried_out(message);
}

int
nam__sim_unreliable_qp_create(struct nam_domain *pub, const struct nam_qp_options *options,
	uint64_t *ret_name, struct nam_qp **ret)
{
	struct sim_qp *qp;

	if (!(pub->limits.caps & NAM_CAP_UD))
		return -NAM_E_FABRIC_CAPABILITY;
	qp = nam__sim_qp_new((struct sim_domain *)pub, options);
	if (!qp)
		return -ENOMEM;
	qp->unreliable_qp = true;
	qp->ready = true;
	qp->left = left;
	*ret_name = qp->id;
	*ret = &qp->pub;
	return 0;
}
