/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sends.h -- the send queue's accounts: requests that are posted and not yet reported.
 *
 * Devices report signalled requests and failures only.  So every request is remembered at a
 * position, which is its wr_id.  A completion accounts for all before it; after a failure each
 * request is reported with the first reason.
 *
 *	head <= done <= given <= tail		(positions; they wrap around)
 *
 * Requests before `given` are the device's.  Requests behind it never will be, because a request
 * before them was refused or the queue pair is broken.  Requests before `done` have failed and wait
 * to be reported.
 */
#ifndef NAM_COMMON_FABRIC_VERBS_SENDS_H
#define NAM_COMMON_FABRIC_VERBS_SENDS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/fabric/fabric.h"

struct verbs_sent {
	void *context;
	uint32_t bytes;
	uint8_t op;		/* enum nam_wr_op */
	bool wanted;		/* the poster asked for a completion */
	uint16_t reserved;
};

struct verbs_sends {
	struct verbs_sent *sent;
	uint32_t depth;		/* most requests at a time */
	uint32_t mask;		/* of the positions in `sent` */
	uint32_t head;
	uint32_t done;		/* meaningful once error is set */
	uint32_t given;
	uint32_t tail;
	uint32_t plain;		/* behind the newest WRITE or SEND */
	int error;		/* the status of requests not reported yet */
	int refused;		/* what the request at `given` will complete with, if not 0 */
};

int nam__sends_init(struct verbs_sends *sends, uint32_t depth) NAM_MUST_CHECK;
void nam__sends_free(struct verbs_sends *sends);

/* Requests posted and not reported. */
static inline uint32_t
nam__sends_count(const struct verbs_sends *sends)
{
	return sends->tail - sends->head;
}

/* Whether what is posted now may still go to the device. */
static inline bool
nam__sends_open(const struct verbs_sends *sends)
{
	return !sends->error && !sends->refused;
}

/* Remember a request; there must be room.  It goes to the device if the queue pair is open. */
static inline uint32_t
nam__sends_add(struct verbs_sends *sends, const struct nam_wr *wr)
{
	uint32_t position = sends->tail++;

	sends->sent[position & sends->mask] = (struct verbs_sent){
		.context = wr->context,
		.bytes = wr->bytes,
		.op = wr->op,
		.wanted = wr->flags & NAM_WR_SIGNALED,
	};
	if (nam__sends_open(sends))
		sends->given = sends->tail;
	if (wr->op == NAM_WR_WRITE || wr->op == NAM_WR_SEND)
		sends->plain = sends->tail;
	return position;
}

/*
 * The device has carried out the request at `position`, and so all before it.  The request, if
 * the poster is to be told; NULL if not, or if the completion comes late.
 */
static inline const struct verbs_sent *
nam__sends_succeeded(struct verbs_sends *sends, uint32_t position)
{
	const struct verbs_sent *sent = &sends->sent[position & sends->mask];

	if (position - sends->head >= sends->given - sends->head || sends->error)
		return NULL;
	sends->head = position + 1;
	return sent->wanted ? sent : NULL;
}

/*
 * The number of requests that may be added now if no ATOMIC may be in flight behind a WRITE or
 * SEND.  Nothing may precede a fenced request.  `plain`: the watcher's WRITE is in flight.
 */
unsigned nam__sends_may_go(const struct verbs_sends *sends, const struct nam_wr *wrs,
	unsigned count, bool plain);

/* The newest request, never given to the device, fails with `status`; so do all later ones. */
void nam__sends_refuse(struct verbs_sends *sends, int status);

/* Requests from `position` on did not reach the device after all. */
void nam__sends_take_back(struct verbs_sends *sends, uint32_t position, int status);

/* The device reports a failure.  Only the first status counts. */
void nam__sends_failed(struct verbs_sends *sends, uint32_t position, int status);

/* The queue pair breaks; the device will report what it had. */
void nam__sends_break(struct verbs_sends *sends, int status);

/* The device will report nothing more. */
void nam__sends_give_up(struct verbs_sends *sends);

/* The next failed request, to be reported with sends->error; NULL if there is none now. */
const struct verbs_sent *nam__sends_next_failed(struct verbs_sends *sends);

#endif /* NAM_COMMON_FABRIC_VERBS_SENDS_H */
