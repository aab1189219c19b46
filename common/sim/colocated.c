/* SPDX-License-Identifier: Apache-2.0 */
/*
 * colocated.c -- READs of the memory of one's own machine, and WRITEs into a share there.  The
 * processor copies, without a card or a port.
 *
 * Without a network, a copy is cut into steps like a sent request.  Others run between some of
 * them, so the copy may be as torn.  With a network it takes the time of the profile and is whole.
 */
#include "sim_internal.h"

#include "common/guard.h"

#define STEP_NS 2u
#define PAUSE_ONE_IN 8u		/* steps */
#define PAUSE_SPREAD_NS 1024u
#define KIB 1024u

/* Whether what is posted now may be a copy. */
static bool
is_near(const struct sim_qp *qp)
{
	const struct nam_sim_process *process = qp->domain->process;

	return !qp->error && !qp->closed && qp->peer && process->machine &&
	       qp->peer->domain->process->machine == process->machine &&
	       !nam__sim_is_gone(process);
}

static uint8_t *
target_of(const struct sim_qp *qp, const struct nam_wr *wr)
{
	if ((wr->op != NAM_WR_READ && wr->op != NAM_WR_WRITE) ||
		!nam__sim_local_valid(qp->domain, wr))
		return NULL;
	/* E3: a READ overtakes no earlier request.  Frames in a share have numbers. */
	if (!nam__sim_is_share(qp->peer->domain, wr->rkey) && (wr->op == NAM_WR_WRITE ||
		(NAM_GUARD(COLOCATED_ORDER) && qp->outstanding)))
		return NULL;
	return nam__sim_resolve(qp->peer, wr);
}

/* Other threads may run for a while.  Returns whether the memory is still there. */
static bool
step_pause(const struct sim_qp *qp, const struct nam_wr *wr)
{
	uint64_t dice;

	nam__sim_work(STEP_NS);
	if (nam__sim.options.network)
		return true;
	dice = nam_rng_next(&nam__sim.chance);
	if (dice % PAUSE_ONE_IN)
		return true;
	(void)nam__sim_wait(nam__sim_here() + (dice >> 8) % PAUSE_SPREAD_NS);
	return qp->peer && !qp->error && !nam__sim_is_gone(qp->domain->process) &&
		target_of(qp, wr);
}

static bool
copy(const struct sim_qp *qp, const struct nam_wr *wr)
{
	struct sim_message *message = nam__sim_message_new();
	bool there = true;

	message->event = (struct sim_event){ .due = nam__sim_message_due };
	message->id = ++nam__sim.message_ids;
	message->op = wr->op;
	message->class = wr->op == NAM_WR_READ ? SIM_READ : SIM_WRITE;
	message->bytes = wr->bytes;
	message->remote = wr->remote;
	message->local = wr->local;
	message->target = target_of(qp, wr);
	message->done = 0;
	message->in_flight = false;
	SIM_EVENT(SIM_WHAT_COLOCATED, message->id, wr->remote ^ wr->bytes,
		"m%llu q%u %s %u bytes of its own machine at p%u:%llx",
		(unsigned long long)message->id, qp->id, nam__sim_op_name(wr->op), wr->bytes,
		qp->peer->domain->process->id, (unsigned long long)wr->remote);
	nam__sim_shape(message);
	for (; there && wr->bytes && message->done < message->steps; message->done++) {
		nam__sim_step(message);
		there = step_pause(qp, wr);
	}
	nam__sim_message_free(message);
	if (there && nam__sim.options.network && wr->op == NAM_WR_WRITE)
		nam__sim_polled(qp->peer);
	return there;
}

bool
nam__sim_colocated_copy(struct sim_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	const struct nam_sim_network *network = nam__sim.options.network;
	uint64_t kib = 0;

	if (!is_near(qp))
		return false;
	for (unsigned i = 0; i < count; i++) {
		if (!target_of(qp, &wrs[i]))
			return false;
		kib += (wrs[i].bytes + KIB - 1) / KIB;
	}
	if (network) {
		nam__sim_work((uint64_t)(network->copy_ns_per_kib * (double)kib));
		nam__sim_catch_up(nam__sim.current);
		/* Another process may have ended meanwhile. */
		if (!is_near(qp))
			return false;
	}
	for (unsigned i = 0; i < count; i++) {
		if (!copy(qp, &wrs[i]))
			return false;
	}
	/* A thread that copies does not spin. */
	if (network)
		nam__sim.current->idle_polls = 0;
	return true;
}
