/* SPDX-License-Identifier: Apache-2.0 */
/* messages.c -- messages: their memory, their steps, their place in a queue pair's order. */
#include <stdlib.h>

#include "sim_internal.h"

#define CHUNK_MESSAGES 64u
#define LEAD_BYTES 64u		/* of NAM_CAP_ORDERED_LOADS */

struct sim_chunk {
	SLIST_ENTRY(sim_chunk) link;
	struct sim_message messages[CHUNK_MESSAGES];
};

struct sim_message *
nam__sim_message_new(void)
{
	struct sim *sim = &nam__sim;
	struct sim_message *message;

	if (STAILQ_EMPTY(&sim->free_messages)) {
		struct sim_chunk *chunk = nam__sim_alloc(sizeof(*chunk));

		SLIST_INSERT_HEAD(&sim->chunks, chunk, link);
		for (unsigned i = 0; i < CHUNK_MESSAGES; i++)
			STAILQ_INSERT_HEAD(&sim->free_messages, &chunk->messages[i], link);
	}
	message = STAILQ_FIRST(&sim->free_messages);
	STAILQ_REMOVE_HEAD(&sim->free_messages, link);
	return message;
}

void
nam__sim_message_free(struct sim_message *message)
{
	nam__sim_unplan(&message->event);
	if (message->in_flight)
		nam__sim_flight_end(message);
	free(message->owned);
	message->owned = NULL;
	STAILQ_INSERT_HEAD(&nam__sim.free_messages, message, link);
}

void
nam__sim_messages_end(void)
{
	struct sim_chunk *chunk;

	while ((chunk = SLIST_FIRST(&nam__sim.chunks))) {
		SLIST_REMOVE_HEAD(&nam__sim.chunks, link);
		for (unsigned i = 0; i < CHUNK_MESSAGES; i++)
			free(chunk->messages[i].owned);
		free(chunk);
	}
}

/* ---- shape -------------------------------------------------------------------------------- */

static uint32_t
common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Upwards, downwards, from somewhere round to there, or all over the place. */
static void
shuffle(struct sim_message *message)
{
	uint32_t n = message->middle;
	uint64_t dice;

	message->factor = 1;
	message->shift = 0;
	if (n < 2)
		return;
	dice = nam_rng_next(&nam__sim.chance);
	switch (dice % 8) {
	case 0:
		break;
	case 1:
		message->factor = n - 1;
		message->shift = n - 1;
		break;
	case 2:
		message->shift = (uint32_t)(dice >> 8) % n;
		break;
	default:
		message->shift = (uint32_t)(dice >> 8) % n;
		message->factor = 1 + (uint32_t)(dice >> 40) % n;
		while (common_divisor(message->factor, n) != 1)
			message->factor++;
	}
}

void
nam__sim_shape(struct sim_message *message)
{
	const uint32_t step = nam__sim.options.step_bytes;
	bool ordered = message->op == NAM_WR_READ && (nam__sim.caps & NAM_CAP_ORDERED_LOADS);
	uint32_t lead = 0, tail = 0, rest;

	message->lead = 0;
	message->middle = 0;
	message->first_bytes = 0;
	if (message->class == SIM_ATOMIC || message->class == SIM_SEND || !message->bytes) {
		message->steps = 1;
		return;
	}
	if (nam__sim.options.network) {
		message->first_bytes = message->bytes;
		message->middle = 1;
		message->steps = 1;
		message->factor = 1;
		message->shift = 0;
		return;
	}
	if (ordered && message->bytes > LEAD_BYTES + SIM_TAIL_BYTES) {
		lead = LEAD_BYTES;
		tail = SIM_TAIL_BYTES;
		message->lead = lead / step;
	} else if (ordered) {
		/* Word by word; the rest of a word comes last. */
		message->lead = message->bytes / SIM_TAIL_BYTES;
		lead = message->lead * SIM_TAIL_BYTES;
		tail = message->bytes - lead;
	}
	rest = message->bytes - lead - tail;
	if (rest) {
		uint32_t first = step - (uint32_t)((message->remote + lead) % step);

		message->first_bytes = first < rest ? first : rest;
		message->middle = 1 + (rest - message->first_bytes + step - 1) / step;
	}
	message->steps = message->lead + message->middle + (tail ? 1 : 0);
	shuffle(message);
}

/* ---- order -------------------------------------------------------------------------------- */

void
nam__sim_message_add(struct sim_qp *qp, struct sim_message *message)
{
	const struct sim *sim = &nam__sim;
	bool fence = message->flags & NAM_WR_FENCE;

	message->qp = qp;
	STAILQ_INSERT_TAIL(&qp->messages, message, link);
	qp->outstanding++;
	message->holders = 0;
	if (sim->options.network) {
		qp->unfinished[message->class]++;
		nam__sim_send(qp, message);
		return;
	}
	for (unsigned earlier = 0; earlier < SIM_CLASSES; earlier++)
		if (sim->order[earlier][message->class] ||
			(fence && (earlier == SIM_READ || earlier == SIM_ATOMIC)))
			message->holders += qp->unfinished[earlier];
	qp->unfinished[message->class]++;
	if (message->holders) {
		message->state = SIM_HELD;
		qp->held++;
		return;
	}
	message->state = SIM_STEPS;
	nam__sim_plan(&message->event, message->earliest_ns);
}
