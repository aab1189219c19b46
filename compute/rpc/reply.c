/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c -- the ends of calls, and the acknowledgement of one-way requests (one_way.c). */
#include <string.h>

#include "compute/rpc/mailbox.h"

/* ---- one-way requests --------------------------------------------------------------------- */

/* Take the acknowledgement in a reply to `call`, or to a failed one-way request. */
static void
one_way_acknowledge(struct nam_worker *worker, struct nam__one_way *one_way,
	const struct nam_rpc_header *header, const struct nam__call *call)
{
	uint8_t said = (uint8_t)(header->one_way + one_way->before);
	uint8_t said_failed = (uint8_t)((header->one_way >> 8) + one_way->failed_before);
	uint32_t least, done, failed = one_way->failed;

	if (!nam__one_way_under_way(one_way))
		return;
	if (call) {
		least = call->acknowledged;
		if (one_way->sent - least > UINT8_MAX)
			return;
	} else {
		least = one_way->acknowledged + 1;
		while (least != one_way->sent + 1 &&
			one_way->each[least % NAM_ONE_WAY_MAX].id != header->id)
			least++;
		if (least == one_way->sent + 1 || !header->status)
			return;
		one_way->each[least % NAM_ONE_WAY_MAX].failed = true;
		if (!one_way->rc)
			one_way->rc = header->status;
	}
	done = least + (uint8_t)(said - (uint8_t)least);
	/* A smaller number is of an old reply, and a greater one than was sent is nonsense. */
	if (done - one_way->acknowledged > nam__one_way_under_way(one_way))
		return;
	for (uint32_t n = one_way->acknowledged + 1; n != done + 1; n++)
		failed += one_way->each[n % NAM_ONE_WAY_MAX].failed;
	/* C15: otherwise a failure is yet to come; its reply is another acknowledgement. */
	if (NAM_GUARD(ONE_WAY_FAILED) && (uint8_t)failed != said_failed)
		return;
	nam__unawaited_add(worker, one_way->acknowledged - done);
	one_way->acknowledged = done;
	one_way->failed = failed;
}

void
nam__one_way_closed(struct nam_worker *worker, uint32_t slot)
{
	struct nam__one_way *one_way = worker->one_way[slot];

	if (!one_way)
		return;
	one_way->before = one_way->sent;
	one_way->failed_before = one_way->failed;
	if (!nam__one_way_under_way(one_way))
		return;
	nam__unawaited_add(worker, one_way->acknowledged - one_way->sent);
	one_way->acknowledged = one_way->sent;
	if (!one_way->rc)
		one_way->rc = -NAM_E_FABRIC_PEER_DEAD;
}

/* ---- calls -------------------------------------------------------------------------------- */

void
nam__call_end(struct nam_worker *worker, struct nam__call *call, int rc)
{
	SLIST_REMOVE(&worker->calls, call, nam__call, link);
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
	struct nam__call *call;

	SLIST_FOREACH(call, &worker->calls, link)
		if (call->id == id)
			break;
	return call;
}

/* Replies to calls that have ended, and messages that answer no call, are dropped. */
void
nam__rpc_reply(struct nam_worker *worker, uint32_t slot, const void *message, uint32_t bytes)
{
	const struct nam_rpc_header *header = message;
	struct nam__call *call;
	int rc;

	if (bytes < sizeof(*header))
		return;
	worker->answering[slot].replies++;
	worker->answering[slot].silent = false;
	call = nam__call_find(worker, header->id);
	/* An id is only as good as the connection that it came over (C2). */
	if (call && call->slot != slot)
		return;
	rc = nam_rpc_check(message, bytes);
	if (!rc && worker->one_way[slot])
		one_way_acknowledge(worker, worker->one_way[slot], header, call);
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

	for (call = SLIST_FIRST(&worker->calls); call; call = next) {
		next = SLIST_NEXT(call, link);
		if (call->slot == slot)
			nam__call_end(worker, call, nam__lost(worker, slot));
	}
}

void
nam__rpc_check_deadlines(struct nam_worker *worker, uint64_t then_ns)
{
	struct nam__call *call, *next;

	for (call = SLIST_FIRST(&worker->calls); call; call = next) {
		next = SLIST_NEXT(call, link);
		if (!call->task || call->deadline_ns > then_ns)
			continue;
		if (worker->answering[call->slot].replies == call->replies)
			worker->answering[call->slot].silent = true;
		nam__call_end(worker, call, -NAM_E_FABRIC_TIMEOUT);
	}
}
