/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.c -- the ends of calls: by a reply, the deadline, or the end of the memory server; and the
 * acknowledgement of one-way requests by replies (one_way.c).
 */
#include <string.h>

#include "compute/rpc/mailbox.h"

/* ---- one-way requests --------------------------------------------------------------------- */

/* Numbers `acknowledged` + 1 .. `done` were carried out, and `failed` of all of them not well. */
static void
acknowledge(struct nam__one_way *one_way, uint32_t done, uint8_t failed)
{
	uint32_t heard = one_way->failed;

	for (uint32_t n = one_way->acknowledged + 1; n != done + 1; n++)
		heard += one_way->each[n % NAM_ONE_WAY_MAX].failed;
	/* Else one has yet to say so; that message will be another acknowledgement. */
	if (NAM_GUARD(ONE_WAY_FAILED) && (uint8_t)heard != failed)
		return;
	one_way->acknowledged = done;
	one_way->failed = heard;
}

/* The number of the one that this reply to no call is about; false: none. */
static bool
number_of(const struct nam__one_way *one_way, uint64_t id, uint32_t *ret_number)
{
	for (uint32_t n = one_way->acknowledged + 1; n != one_way->sent + 1; n++) {
		if (one_way->each[n % NAM_ONE_WAY_MAX].id != id)
			continue;
		*ret_number = n;
		return true;
	}
	return false;
}

static void
one_way_hear(struct nam__one_way *one_way, const struct nam_rpc_header *header,
	const struct nam__call *call)
{
	uint32_t least, done;

	if (!nam__one_way_under_way(one_way))
		return;
	if (call) {
		least = call->acknowledged;
		if (one_way->sent - least > UINT8_MAX)
			return;
	} else {
		if (!number_of(one_way, header->id, &least) || !header->status)
			return;
		one_way->each[least % NAM_ONE_WAY_MAX].failed = true;
		if (!one_way->rc)
			one_way->rc = header->status;
	}
	done = least + (uint8_t)((uint8_t)header->one_way - (uint8_t)least);
	/* Less than is known is an old reply, and more than was told is nonsense. */
	if (done - one_way->acknowledged <= nam__one_way_under_way(one_way))
		acknowledge(one_way, done, (uint8_t)(header->one_way >> 8));
}

void
nam__one_way_closed(struct nam__one_way *one_way)
{
	if (!one_way || !nam__one_way_under_way(one_way))
		return;
	one_way->acknowledged = one_way->sent;
	if (!one_way->rc)
		one_way->rc = -NAM_E_FABRIC_PEER_DEAD;
}

/* ---- calls -------------------------------------------------------------------------------- */

void
nam__call_end(struct nam_worker *worker, struct nam__call *call, int rc)
{
	struct nam__call **link = &worker->calls;

	while (*link != call)
		link = &(*link)->next;
	*link = call->next;
	if (call->message)
		call->message->call = NULL;
	if (call->req)
		call->req->call = NULL;
	call->rc = rc;
	call->done = true;
	if (!call->task)
		return;
	call->task->pending = 0;
	nam__task_ready(worker, call->task);
}

struct nam__call *
nam__call_find(const struct nam_worker *worker, uint64_t id)
{
	struct nam__call *call = worker->calls;

	while (call && call->id != id)
		call = call->next;
	return call;
}

/*
 * Late replies to calls that have ended, and messages that answer nothing, are dropped: then the
 * deadline speaks.
 */
void
nam__rpc_reply(struct nam_worker *worker, uint32_t slot, const void *message, uint32_t bytes)
{
	const struct nam_rpc_header *header = message;
	struct nam__call *call;
	int rc;

	if (bytes < sizeof(*header))
		return;
	call = nam__call_find(worker, header->id);
	/* An id is only as good as the connection that it came over (C2). */
	if (call && call->slot != slot)
		return;
	rc = nam_rpc_check(message, bytes);
	if (!rc && worker->one_way[slot])
		one_way_hear(worker->one_way[slot], header, call);
	if (!call)
		return;
	if (!rc && header->type != call->type)
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (!rc)
		rc = header->status;
	if (!rc && header->body_bytes > call->body_size)
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (!rc) {
		call->body_bytes = header->body_bytes;
		if (header->body_bytes)
			memcpy(call->body, header + 1, header->body_bytes);
	}
	nam__call_end(worker, call, rc);
}

void
nam__rpc_server_closed(struct nam_worker *worker, uint32_t slot)
{
	struct nam__call *call, *next;

	for (call = worker->calls; call; call = next) {
		next = call->next;
		if (call->slot == slot)
			nam__call_end(worker, call, -NAM_E_FABRIC_PEER_DEAD);
	}
}

void
nam__rpc_check_deadlines(struct nam_worker *worker)
{
	struct nam__call *call, *next;
	uint64_t now = nam_now_ns();

	for (call = worker->calls; call; call = next) {
		next = call->next;
		if (call->task && call->deadline_ns <= now)
			nam__call_end(worker, call, -NAM_E_FABRIC_TIMEOUT);
	}
}
