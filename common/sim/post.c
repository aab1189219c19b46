/* SPDX-License-Identifier: Apache-2.0 */
/* post.c -- from a work request to a message: its time, its faults. */
#include <errno.h>
#include <string.h>

#include "sim_internal.h"

#define WAY_NS 300u		/* to the memory server */
#define WAY_SPREAD_NS 512u	/* powers of two: bits of one random word */
#define SLOW_ONE_IN 16u
#define SLOW_SPREAD_NS 8192u
#define STEP_SPREAD_NS 16u
#define CRAWL_ONE_IN 32u
#define CRAWL_STEP_NS 500u
#define ANSWER_NS 200u
#define ANSWER_SPREAD_NS 256u

#define POST_NS 60u
#define REQUEST_NS 15u

/* ---- cost --------------------------------------------------------------------------------- */

/*
 * The time of a message without a network profile (with one: nic.c).  Times are drawn so that all
 * operations meet: mostly a network's microseconds, sometimes long enough for many other
 * operations.
 */
static void
cost(struct sim_message *message, const struct nam_sim_process *process,
	uint32_t slowness)
{
	struct sim *sim = &nam__sim;
	uint64_t dice, way, late_ns = 0;

	message->step_ns = 0;
	if (sim->options.network)
		return;
	dice = nam_rng_next(&sim->chance);
	way = WAY_NS + dice % WAY_SPREAD_NS;
	dice >>= 9;
	if (dice % SLOW_ONE_IN == 0)
		way += (dice >> 4) % SLOW_SPREAD_NS;
	dice >>= 17;
	message->step_ns = (uint32_t)(dice % STEP_SPREAD_NS);
	dice >>= 4;
	if (dice % CRAWL_ONE_IN == 0)
		message->step_ns = CRAWL_STEP_NS;
	dice >>= 5;
	message->answer_ns = ANSWER_NS + (uint32_t)(dice % ANSWER_SPREAD_NS);
	slowness *= sim->options.slowness;
	way *= slowness;
	message->step_ns *= slowness;
	message->answer_ns *= slowness;
	if (nam__sim_drawn(process, sim->options.faults.late)) {
		late_ns = nam_rng_below(&sim->faults, sim->options.faults.late_ns + 1);
		SIM_EVENT(SIM_WHAT_FAULT, message->id, late_ns,
			"fault late: m%llu %s sets out %llu ns late",
			(unsigned long long)message->id, nam__sim_op_name(message->op),
			(unsigned long long)late_ns);
	}
	message->earliest_ns = nam__sim_here() + way + late_ns;
}

/* ---- the doorbell ------------------------------------------------------------------------- */

static enum sim_class
class_of(uint8_t op)
{
	static const uint8_t classes[] = { [NAM_WR_READ] = SIM_READ, [NAM_WR_WRITE] = SIM_WRITE,
		[NAM_WR_CAS] = SIM_ATOMIC, [NAM_WR_FETCH_ADD] = SIM_ATOMIC,
		[NAM_WR_SEND] = SIM_SEND };

	return classes[op];
}

void
nam_sim_delay_next(uint8_t op, uint32_t before_step, uint64_t delay_ns)
{
	nam__sim.directed = (struct sim_directed){ nam__sim.current, delay_ns, before_step, 0, op };
}

void
nam_sim_delay_after(uint8_t op, uint32_t passing, uint64_t delay_ns)
{
	nam__sim.directed = (struct sim_directed){ nam__sim.current, delay_ns, 0, passing, op };
}

static void
direct(struct sim_message *message)
{
	struct sim *sim = &nam__sim;

	if (!sim->directed.thread || sim->directed.thread != sim->current ||
		(sim->directed.op && sim->directed.op != message->op))
		return;
	if (sim->directed.passing) {
		sim->directed.passing--;
		return;
	}
	SIM_EVENT(SIM_WHAT_FAULT, message->id, sim->directed.delay_ns,
		"fault directed: m%llu %s waits %llu ns before step %u",
		(unsigned long long)message->id, nam__sim_op_name(message->op),
		(unsigned long long)sim->directed.delay_ns, sim->directed.before_step);
	if (sim->directed.before_step) {
		message->pause_step = sim->directed.before_step;
		message->pause_ns = sim->directed.delay_ns;
	} else {
		message->earliest_ns += sim->directed.delay_ns;
	}
	sim->directed.thread = NULL;
}

/* The faults that are drawn for a message. */
static void
plan_faults(struct sim_message *message, const struct sim_qp *qp,
	const struct nam_sim_process *process)
{
	struct sim *sim = &nam__sim;
	const struct nam_sim_faults *faults = &sim->options.faults;

	message->passes = 1;
	message->break_step = UINT32_MAX;
	if (message->op == NAM_WR_READ && nam__sim_drawn(process, faults->read_twice))
		message->passes = 2;
	if (qp->unreliable_qp || !nam__sim_drawn(process, faults->break_qp))
		return;
	message->break_step = (uint32_t)nam_rng_below(&sim->faults, message->steps + 1);
	SIM_EVENT(SIM_WHAT_FAULT, message->id, message->break_step,
		"fault break_qp: m%llu %s breaks its queue pair after %u of %u steps",
		(unsigned long long)message->id, nam__sim_op_name(message->op),
		message->break_step, message->steps);
}

static void
kill_due(void *arg)
{
	if (!nam_sim_process_ended(arg))
		nam_sim_process_kill(arg);
}

static void
resume_due(void *arg)
{
	nam_sim_process_resume(arg);
}

static void
stall_due(void *arg)
{
	struct sim *sim = &nam__sim;

	if (nam_sim_process_ended(arg))
		return;
	nam_sim_process_stall(arg);
	nam_sim_call_after(1 + nam_rng_below(&sim->faults, sim->options.faults.stall_ns + 1),
		resume_due, arg);
}

/* By a power of two, or as fast as the others again. */
static void
slow_due(void *arg)
{
	struct nam_sim_process *process = arg;
	bool slow = process->slowness <= 1;

	if (nam_sim_process_ended(process))
		return;
	nam__sim.counts.slowed += slow;
	nam_sim_process_slow(process, slow ? 2u << nam_rng_below(&nam__sim.faults, 7) : 1);
}

/* Between two of the message's steps, before them or after. */
static void
meanwhile(const struct sim_message *message, void (*fn)(void *process), void *process)
{
	struct sim *sim = &nam__sim;
	uint64_t now = nam__sim_here(), way = message->earliest_ns > now ?
		message->earliest_ns - now : 0;
	uint64_t takes = way + (uint64_t)message->steps * message->step_ns + message->answer_ns;

	nam_sim_call_after(nam_rng_below(&sim->faults, takes + takes / 2 + 1), fn, process);
}

/* The faults of the processes at both ends of a message. */
static void
plan_process_faults(const struct sim_qp *qp, const struct sim_message *message,
	const struct nam_sim_process *process)
{
	const struct nam_sim_faults *faults = &nam__sim.options.faults;

	if (qp->domain->process->serves)
		return;
	if (nam__sim_drawn(process, faults->kill))
		meanwhile(message, kill_due, qp->domain->process);
	if (nam__sim_drawn(process, faults->stall))
		meanwhile(message, stall_due, qp->domain->process);
	if (qp->peer && nam__sim_drawn(process, faults->kill_server))
		meanwhile(message, kill_due, qp->peer->domain->process);
	if (qp->peer && nam__sim_drawn(process, faults->slow))
		meanwhile(message, slow_due, qp->peer->domain->process);
}

static int
check(const struct sim_qp *qp, const struct nam_wr *wr, uint8_t *target)
{
	if (class_of(wr->op) == SIM_ATOMIC && (wr->bytes != 8 || wr->remote % 8))
		return -NAM_E_FABRIC_ACCESS;
	if (qp->unreliable_qp && wr->bytes > qp->domain->pub.limits.datagram_bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	if (wr->op == NAM_WR_SEND)
		return wr->bytes > qp->domain->pub.limits.message_bytes ?
			-NAM_E_FABRIC_PROTOCOL : 0;
	if (!nam__sim_local_valid(qp->domain, wr))
		return -NAM_E_FABRIC_ACCESS;
	return target || !qp->peer ? 0 : -NAM_E_FABRIC_ACCESS;
}

static void
post_one(struct sim_qp *qp, const struct nam_wr *wr)
{
	struct sim *sim = &nam__sim;
	const struct nam_sim_process *process = qp->domain->process;
	struct sim_message *message = nam__sim_message_new();
	/* A message is as slow as the slower of its ends. */
	uint32_t slowness = process->slowness, there = qp->peer ?
		qp->peer->domain->process->slowness : 1;

	if (slowness < there)
		slowness = there;
	if (qp->peer && qp->peer->domain->process->spared)
		process = qp->peer->domain->process;
	message->event = (struct sim_event){ .due = nam__sim_message_due };
	message->id = ++sim->message_ids;
	message->op = wr->op;
	message->flags = wr->flags;
	message->class = (uint8_t)class_of(wr->op);
	message->bytes = wr->bytes;
	message->remote = wr->remote;
	message->local = wr->local;
	message->context = wr->context;
	message->compare = wr->compare;
	message->swap = wr->swap;
	message->done = 0;
	message->pause_ns = 0;
	message->target = qp->peer && wr->op != NAM_WR_SEND ?
		nam__sim_resolve(qp->peer, wr) : NULL;
	message->status = check(qp, wr, message->target);
	if ((wr->flags & NAM_WR_INLINE) && wr->bytes <= SIM_INLINE_BYTES &&
		(wr->op == NAM_WR_WRITE || wr->op == NAM_WR_SEND)) {
		memcpy(message->inline_data, wr->local, wr->bytes);
		message->local = message->inline_data;
	}
	sim->counts.messages++;
	SIM_EVENT(SIM_WHAT_POST, message->id << 8 | message->op, wr->remote ^ wr->bytes,
		"m%llu q%u posts %s%s%s of %u bytes at p%u:%llx", (unsigned long long)message->id,
		qp->id, nam__sim_op_name(wr->op), wr->flags & NAM_WR_SIGNALED ? "" : " unsignalled",
		wr->flags & NAM_WR_FENCE ? " fenced" : "", wr->bytes,
		qp->peer && qp->peer->domain ? qp->peer->domain->process->id : 0,
		(unsigned long long)wr->remote);
	nam__sim_shape(message);
	plan_faults(message, qp, process);
	cost(message, process, slowness ? slowness : 1);
	plan_process_faults(qp, message, process);
	direct(message);
	nam__sim_message_add(qp, message);
	if (qp->error)
		nam__sim_flush(qp, message, qp->error);
}

/*
 * Processor time.  A memory server pays for the messages that it sends; it has paid the rest when
 * the request came.
 */
static uint64_t
post_cost(const struct sim_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	const struct nam_sim_options *options = &nam__sim.options;
	const struct nam_sim_network *network = options->network;
	uint64_t ns = 0;

	if (!network)
		return POST_NS + REQUEST_NS * count;
	if (qp->domain->process->serves) {
		for (unsigned i = 0; options->serve_ns && i < count; i++)
			if (wrs[i].op == NAM_WR_SEND)
				ns += options->serve_ns(options->serve_arg, wrs[i].local,
					wrs[i].bytes);
		return nam__sim_serve_ns(ns);
	}
	return (uint64_t)(count == 1 ? network->post_ns :
		network->doorbell_ns + network->batched_post_ns * count);
}

int
nam__sim_qp_post(struct nam_qp *pub, const struct nam_wr *wrs, unsigned count)
{
	struct sim_qp *qp = (struct sim_qp *)pub;

	/* A card takes no request before its side has connected. */
	if (!qp->ready)
		return -EINVAL;
	if (qp->colocated && nam__sim_colocated_copy(qp, wrs, count))
		return NAM_POSTED_COLOCATED;
	nam__sim_work(post_cost(qp, wrs, count));
	/* A server is long busy with one request: its card is not taken from others too early. */
	if (qp->domain->process->serves && nam__sim.options.network && nam__sim.current->debt_ns)
		nam__sim_catch_up(nam__sim.current);
	if (qp->outstanding + count > SIM_QP_DEPTH ||
		qp->cq->outstanding + count > qp->cq->depth)
		return -NAM_E_FABRIC_FULL;
	qp->cq->outstanding += count;
	for (unsigned i = 0; i < count; i++)
		post_one(qp, &wrs[i]);
	return 0;
}
