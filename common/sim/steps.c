/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c -- a message on its way: micro-steps, the answer, completions in post order. */
#include <string.h>

#include "sim_internal.h"

#define SECOND_PASS_NS 4000u
#define RNR_NS 20000u

/* ---- completions -------------------------------------------------------------------------- */

void
nam__sim_complete(struct sim_qp *qp)
{
	struct sim_message *message;

	while ((message = STAILQ_FIRST(&qp->messages)) && message->state == SIM_DONE) {
		STAILQ_REMOVE_HEAD(&qp->messages, link);
		qp->outstanding--;
		if (qp->cq)
			qp->cq->outstanding--;
		if (qp->cq && (message->status || (message->flags & NAM_WR_SIGNALED))) {
			struct nam_wc wc = {
				.context = message->context,
				.qp = &qp->pub,
				.status = message->status,
				.bytes = message->bytes,
				.op = message->op,
			};

			SIM_EVENT(SIM_WHAT_COMPLETE, message->id, (uint64_t)-message->status,
				"m%llu q%u completes %s: %s", (unsigned long long)message->id,
				qp->id, nam__sim_op_name(message->op),
				nam_err_name(message->status));
			nam__sim_cq_push(qp->cq, &wc);
		}
		nam__sim_message_free(message);
	}
}

void
nam__sim_flush(struct sim_qp *qp, struct sim_message *first, int error)
{
	qp->flow.blocked = NULL;
	for (struct sim_message *message = first; message; message = STAILQ_NEXT(message, link)) {
		if (message->state == SIM_DONE)
			continue;
		nam__sim_unplan(&message->event);
		nam__sim_rq_forget(message);
		if (message->state == SIM_HELD)
			qp->held--;
		if (message->state < SIM_ANSWER)
			qp->unfinished[message->class]--;
		message->status = error;
		message->state = SIM_DONE;
	}
	nam__sim_complete(qp);
}

/* ---- carried out -------------------------------------------------------------------------- */

static bool
holds(const struct sim_message *earlier, const struct sim_message *later)
{
	return nam__sim.order[earlier->class][later->class] ||
	       ((later->flags & NAM_WR_FENCE) &&
		       (earlier->class == SIM_READ || earlier->class == SIM_ATOMIC));
}

void
nam__sim_polled(const struct sim_qp *qp)
{
	if (qp->cq->polled && qp->cq->waiter)
		nam__sim_wake(qp->cq->waiter, 0);
}

void
nam__sim_carried_out(struct sim_message *message)
{
	struct sim_qp *qp = message->qp;
	uint64_t answered = nam__sim.now + message->answer_ns;

	SIM_EVENT(SIM_WHAT_DONE, message->id, 0, "m%llu is carried out",
		(unsigned long long)message->id);
	if (nam__sim.options.network && message->op == NAM_WR_WRITE && qp->peer)
		nam__sim_polled(qp->peer);
	qp->unfinished[message->class]--;
	message->state = SIM_ANSWER;
	if (qp->held && !nam__sim.options.network) {
		struct sim_message *later = message;

		while ((later = STAILQ_NEXT(later, link))) {
			if (later->state != SIM_HELD || !holds(message, later) || --later->holders)
				continue;
			qp->held--;
			later->state = SIM_STEPS;
			nam__sim_plan(&later->event, later->earliest_ns);
		}
	}
	if (!nam__sim_first(answered)) {
		nam__sim_plan(&message->event, answered);
		return;
	}
	nam__sim.now = answered;
	if (nam__sim.options.network && !nam__sim_receive(message))
		return;
	message->state = SIM_DONE;
	nam__sim_complete(qp);
}

/* ---- steps -------------------------------------------------------------------------------- */

/* Which bytes step number `done` is about. */
static void
piece(const struct sim_message *message, uint32_t *ret_offset, uint32_t *ret_bytes)
{
	const uint32_t step = nam__sim.options.step_bytes;
	uint32_t number = message->done, lead_piece, lead_bytes, index;

	lead_piece = message->middle ? step : SIM_TAIL_BYTES;
	lead_bytes = message->lead * lead_piece;
	if (number < message->lead) {
		*ret_offset = number * lead_piece;
		*ret_bytes = lead_piece;
		return;
	}
	number -= message->lead;
	if (number >= message->middle) {
		uint32_t tail = message->middle ? SIM_TAIL_BYTES : message->bytes - lead_bytes;

		*ret_offset = message->bytes - tail;
		*ret_bytes = tail;
		return;
	}
	index = (uint32_t)(((uint64_t)message->factor * number + message->shift) % message->middle);
	if (index == 0) {
		*ret_offset = lead_bytes;
		*ret_bytes = message->first_bytes;
	} else {
		uint32_t end = message->bytes;

		/* With a lead there is a last word, too. */
		if (message->lead)
			end -= SIM_TAIL_BYTES;
		*ret_offset = lead_bytes + message->first_bytes + (index - 1) * step;
		*ret_bytes = end - *ret_offset < step ? end - *ret_offset : step;
	}
}

static inline void
copy(void *to, const void *from, uint32_t bytes)
{
	if (bytes == 64)
		memcpy(to, from, 64);
	else
		memcpy(to, from, bytes);
}

void
nam__sim_step(struct sim_message *message)
{
	uint32_t offset, bytes;

	piece(message, &offset, &bytes);
	if (message->op == NAM_WR_READ)
		copy(message->local + offset, message->target + offset, bytes);
	else
		copy(message->target + offset, message->local + offset, bytes);
	nam__sim.counts.steps++;
	SIM_EVENT(SIM_WHAT_STEP, message->id, (uint64_t)offset << 32 | bytes,
		"m%llu %s %llx +%u, %u bytes", (unsigned long long)message->id,
		nam__sim_op_name(message->op), (unsigned long long)message->remote, offset, bytes);
}

/* A pause, or another event's turn: then the message has been planned anew. */
static bool
step_later(struct sim_message *message)
{
	uint64_t next;

	if (message->done == message->steps) {
		if (!--message->passes)
			return false;
		/* A retried READ is carried out again, and its answer is the one that counts. */
		message->done = 0;
		next = nam__sim.now + nam_rng_below(&nam__sim.faults, SECOND_PASS_NS);
		SIM_EVENT(SIM_WHAT_FAULT, message->id, next,
			"fault read_twice: m%llu READ is carried out again in %llu ns",
			(unsigned long long)message->id,
			(unsigned long long)(next - nam__sim.now));
		nam__sim_plan(&message->event, next);
		return true;
	}
	next = nam__sim.now + message->step_ns;
	if (!nam__sim_first(next)) {
		nam__sim_plan(&message->event, next);
		return true;
	}
	nam__sim.now = next;
	return false;
}

static void
steps_due(struct sim_message *message)
{
	do {
		if (message->pause_ns && message->done == message->pause_step) {
			uint64_t until = nam__sim.now + message->pause_ns;

			message->pause_ns = 0;
			nam__sim_plan(&message->event, until);
			return;
		}
		if (message->done == message->break_step) {
			message->qp->broken(message->qp);
			return;
		}
		if (message->bytes)
			nam__sim_step(message);
		message->done++;
		if (step_later(message))
			return;
	} while (message->done < message->steps);
	if (message->break_step == message->steps)
		message->qp->broken(message->qp);
	else
		nam__sim_carried_out(message);
}

static void
atomic_due(struct sim_message *message)
{
	uint64_t old, fresh;

	if (message->break_step == 0) {
		message->qp->broken(message->qp);
		return;
	}
	memcpy(&old, message->target, 8);
	fresh = old + message->compare;
	if (message->op == NAM_WR_CAS)
		fresh = old == message->compare ? message->swap : old;
	memcpy(message->target, &fresh, 8);
	message->done = 1;
	if (message->local)
		memcpy(message->local, &old, 8);
	nam__sim.counts.steps++;
	SIM_EVENT(SIM_WHAT_ATOMIC, message->id, old ^ fresh, "m%llu %s %llx: %llx becomes %llx",
		(unsigned long long)message->id, nam__sim_op_name(message->op),
		(unsigned long long)message->remote, (unsigned long long)old,
		(unsigned long long)fresh);
	if (message->break_step == 1)
		message->qp->broken(message->qp);
	else
		nam__sim_carried_out(message);
}

/* A datagram that finds no buffer is lost. */
static void
datagram_due(struct sim_message *message, struct sim_qp *to)
{
	struct nam_wc wc = { .qp = &to->pub, .bytes = message->bytes, .op = NAM_WC_RECV };
	struct nam_recv recv;

	if (to->rq && nam__sim_rq_take(to->rq, &recv)) {
		SIM_EVENT(SIM_WHAT_RECV, message->id, to->id,
			"m%llu arrives at unreliable queue pair q%u",
			(unsigned long long)message->id, to->id);
		wc.context = recv.context;
		if (message->bytes + NAM_DATAGRAM_HEADROOM > recv.bytes)
			wc.status = -NAM_E_FABRIC_PROTOCOL;
		else
			memcpy((uint8_t *)recv.buffer + NAM_DATAGRAM_HEADROOM, message->local,
				message->bytes);
		nam__sim_cq_push(to->cq, &wc);
	}
	nam__sim_carried_out(message);
}

static void
send_due(struct sim_message *message)
{
	struct sim_qp *to = message->qp->peer;
	struct nam_wc wc = { .qp = &to->pub, .bytes = message->bytes, .op = NAM_WC_RECV };
	struct nam_recv recv;

	if (message->break_step <= 1) {
		message->qp->broken(message->qp);
		return;
	}
	if (message->qp->unreliable_qp) {
		datagram_due(message, to);
		return;
	}
	if (nam__sim_drawn(to->domain->process, nam__sim.options.faults.rnr)) {
		uint64_t retry = nam__sim.now + nam_rng_below(&nam__sim.faults, RNR_NS);

		SIM_EVENT(SIM_WHAT_FAULT, message->id, retry,
			"fault rnr: m%llu SEND finds q%u not ready and comes again in %llu ns",
			(unsigned long long)message->id, to->id,
			(unsigned long long)(retry - nam__sim.now));
		nam__sim_plan(&message->event, retry);
		return;
	}
	if (!to->rq || !nam__sim_rq_take(to->rq, &recv)) {
		SIM_EVENT(SIM_WHAT_RECV, message->id, 0, "m%llu SEND waits for a buffer at q%u",
			(unsigned long long)message->id, to->id);
		message->state = SIM_RNR;
		if (to->rq)
			TAILQ_INSERT_TAIL(&to->rq->waiting, message, waiting_link);
		return;
	}
	if (message->bytes > recv.bytes) {
		wc.bytes = 0;
		wc.status = -NAM_E_FABRIC_PROTOCOL;
	} else {
		memcpy(recv.buffer, message->local, message->bytes);
	}
	wc.context = recv.context;
	SIM_EVENT(SIM_WHAT_RECV, message->id, to->id, "m%llu arrives at q%u",
		(unsigned long long)message->id, to->id);
	nam__sim_cq_push(to->cq, &wc);
	if (wc.status) {
		message->qp->error = wc.status;
		nam__sim_flush(message->qp, message, wc.status);
	} else {
		nam__sim_carried_out(message);
	}
}

void
nam__sim_message_due(struct sim_event *event)
{
	struct sim_message *message = (struct sim_message *)event;
	struct sim_qp *qp = message->qp;

	if (message->state == SIM_ANSWER) {
		if (nam__sim.options.network && !nam__sim_receive(message))
			return;
		message->state = SIM_DONE;
		nam__sim_complete(qp);
		return;
	}
	if (qp->unreliable_qp && qp->domain && !qp->cut &&
		(!nam__sim.options.network || message->status || !qp->peer)) {
		qp->left(message);
		return;
	}
	/* The peer has gone: the message stays until that is noticed. */
	if (qp->cut || !qp->peer)
		return;
	message->state = SIM_STEPS;
	if (nam__sim.options.network && !nam__sim_serve(message))
		return;
	if (message->status) {
		qp->error = message->status;
		nam__sim_flush(qp, message, message->status);
	} else if (message->class == SIM_SEND) {
		send_due(message);
	} else if (message->class == SIM_ATOMIC) {
		atomic_due(message);
	} else {
		steps_due(message);
	}
}
