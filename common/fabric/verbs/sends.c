/* SPDX-License-Identifier: Apache-2.0 */
/* sends.c -- the send queue's accounts: what is not on the path of every request. */
#include "sends.h"

#include <errno.h>
#include <stdlib.h>

#include "common/fabric/soft_rq.h"

int
nam__sends_init(struct verbs_sends *sends, uint32_t depth)
{
	uint32_t capacity = nam__round_up_power2(depth);

	*sends = (struct verbs_sends){ .depth = depth, .mask = capacity - 1 };
	sends->sent = calloc(capacity, sizeof(sends->sent[0]));
	return sends->sent ? 0 : -ENOMEM;
}

void
nam__sends_free(struct verbs_sends *sends)
{
	free(sends->sent);
	sends->sent = NULL;
}

unsigned
nam__sends_may_go(const struct verbs_sends *sends, const struct nam_wr *wrs, unsigned count,
	bool plain)
{
	uint32_t before = nam__sends_count(sends);

	/* On a broken queue pair all requests fail. */
	if (!nam__sends_open(sends))
		return count;
	plain |= sends->plain - sends->head - 1 < before;
	for (unsigned i = 0; i < count; i++) {
		if (plain && (wrs[i].op == NAM_WR_CAS || wrs[i].op == NAM_WR_FETCH_ADD))
			return i;
		if ((wrs[i].flags & NAM_WR_FENCE) && before + i)
			return i;
		plain |= wrs[i].op == NAM_WR_WRITE || wrs[i].op == NAM_WR_SEND;
	}
	return count;
}

void
nam__sends_refuse(struct verbs_sends *sends, int status)
{
	nam__sends_take_back(sends, sends->tail - 1, status);
}

void
nam__sends_take_back(struct verbs_sends *sends, uint32_t position, int status)
{
	if (!nam__sends_open(sends))
		return;
	sends->given = position;
	sends->refused = status;
}

void
nam__sends_break(struct verbs_sends *sends, int status)
{
	if (sends->error)
		return;
	sends->error = status;
	sends->done = sends->head;
}

void
nam__sends_failed(struct verbs_sends *sends, uint32_t position, int status)
{
	if (position - sends->head >= sends->given - sends->head)
		return;
	if (!sends->error) {
		/* Requests before it were carried out, or they would have been reported first. */
		sends->head = position;
		nam__sends_break(sends, status);
	}
	if (position + 1 - sends->head > sends->done - sends->head)
		sends->done = position + 1;
}

void
nam__sends_give_up(struct verbs_sends *sends)
{
	if (sends->error)
		sends->done = sends->given;
}

const struct verbs_sent *
nam__sends_next_failed(struct verbs_sends *sends)
{
	/* Everything before the refused request has been carried out: its turn. */
	if (!sends->error && sends->refused && sends->head == sends->given)
		nam__sends_break(sends, sends->refused);
	if (!sends->error)
		return NULL;
	/* Once the device has reported all that it had, the rest follows by itself. */
	if (sends->done == sends->given)
		sends->done = sends->given = sends->tail;
	if (sends->head == sends->done)
		return NULL;
	return &sends->sent[sends->head++ & sends->mask];
}
