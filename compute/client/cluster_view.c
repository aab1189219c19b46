/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_view.c -- requests about the view, and the checks of their replies. */
#include "cluster_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/rpc/call.h"
#include "compute/worker/worker.h"

#define PAGES_MAX 64u			/* of one view, and of those that it changed to meanwhile */

/* ---- one request --------------------------------------------------------------------------- */

/* @reply	room for a body */
NAM_FIBER_FN static int
ask(struct nam_worker *worker, uint32_t slot, const struct nam_rpc_view_request *request,
	struct nam_rpc_view_reply *reply)
{
	uint32_t bytes = NAM_RPC_BODY_MAX;
	uint32_t sent = (uint32_t)(sizeof(*request) + request->count * sizeof(request->members[0]));
	int rc = nam_rpc_call(worker, slot, NAM_RPC_VIEW, request, sent, reply,
		&bytes); /* SUSPENDS */

	if (rc)
		return rc;
	if (bytes < sizeof(*reply) || reply->count > NAM_RPC_VIEW_MEMBERS ||
		bytes != sizeof(*reply) + reply->count * sizeof(reply->members[0]) ||
		reply->view.count > NAM_SERVERS_MAX || reply->view.lead ||
		!reply->view.number != !reply->view.count)
		return -NAM_E_FABRIC_PROTOCOL;
	return 0;
}

static bool
member_valid(const struct nam_view_member *member)
{
	return member->id < NAM_SERVERS_MAX && !member->reserved && member->address[0] &&
	       memchr(member->address, '\0', sizeof(member->address)) && member->boot &&
	       member->memory && member->state >= NAM_VIEW_JOINING &&
	       member->state <= NAM_VIEW_MOVING;
}

/* ---- the view of a memory server ----------------------------------------------------------- */

/* Page after page.  A page of another view than the first one's begins it anew. */
NAM_FIBER_FN static int
pages_get(struct nam_worker *worker, uint32_t slot, struct nam_rpc_view_reply *reply,
	struct nam__cluster_view *view)
{
	struct nam_rpc_view_request request = { .step = NAM_RPC_VIEW_GET };
	uint32_t have = 0;

	view->head.number = 0;
	for (unsigned pages = 0; pages < PAGES_MAX; pages++) {
		int rc;

		request.first = have;
		rc = ask(worker, slot, &request, reply); /* SUSPENDS */
		if (rc)
			return rc;
		if (have && (reply->view.number != view->head.number ||
			reply->view.lead_boot != view->head.lead_boot)) {
			have = 0;
			continue;
		}
		view->head = reply->view;
		view->acknowledged = reply->acknowledged;
		view->delaying = reply->delaying;
		view->delaying_incarnation = reply->delaying_incarnation;
		view->delaying_ms = reply->delaying_ms;
		view->silent = reply->silent;
		view->silent_incarnation = reply->silent_incarnation;
		view->silent_ms = reply->silent_ms;
		view->cut = reply->cut;
		view->cut_incarnation = reply->cut_incarnation;
		view->cut_from = reply->cut_from;
		view->cut_ms = reply->cut_ms;
		if (reply->count > view->head.count - have ||
			(!reply->count && have < view->head.count))
			return -NAM_E_FABRIC_PROTOCOL;
		for (uint32_t i = 0; i < reply->count; i++, have++) {
			view->members[have] = reply->members[i];
			if (!member_valid(&view->members[have]) ||
				(have && view->members[have].id <= view->members[have - 1].id))
				return -NAM_E_FABRIC_PROTOCOL;
		}
		if (have == view->head.count)
			return have && view->members[0].id ? -NAM_E_FABRIC_PROTOCOL : 0;
	}
	return -NAM_E_FABRIC_PROTOCOL;
}

int
nam__cluster_view_get(struct nam_worker *worker, uint32_t slot, struct nam__cluster_view **ret_view)
{
	struct nam_rpc_view_reply *reply = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	struct nam__cluster_view *view = calloc(1, sizeof(*view) +
		NAM_SERVERS_MAX * sizeof(view->members[0]));
	int rc = reply && view ? pages_get(worker, slot, reply, view) : -ENOMEM; /* SUSPENDS */

	if (reply)
		nam_buffer_give(worker, reply, NAM_RPC_BODY_MAX);
	if (rc)
		free(view);
	else
		*ret_view = view;
	return rc;
}

const struct nam_view_member *
nam__cluster_view_find(const struct nam__cluster_view *view, uint32_t id)
{
	return nam_view_find(&view->head, view->members, id);
}

/* ---- changes ------------------------------------------------------------------------------- */

/* The head of a request, and `count` members.  @ret_head	or NULL */
NAM_FIBER_FN static int
send(struct nam_worker *worker, uint32_t slot, const struct nam_rpc_view_request *head,
	const struct nam_view_member *members, struct nam_view_head *ret_head)
{
	struct nam_rpc_view_request *request = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	struct nam_rpc_view_reply *reply = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	int rc = request && reply ? 0 : -ENOMEM;

	if (!rc) {
		*request = *head;
		if (members)
			memcpy(request->members, members, head->count * sizeof(*members));
		rc = ask(worker, slot, request, reply); /* SUSPENDS */
	}
	if (!rc && ret_head)
		*ret_head = reply->view;
	if (request)
		nam_buffer_give(worker, request, NAM_RPC_BODY_MAX);
	if (reply)
		nam_buffer_give(worker, reply, NAM_RPC_BODY_MAX);
	return rc;
}

/* A whole view in pages: FORM or COPY.  *ret_head is the answer to the last one. */
NAM_FIBER_FN static int
pages_send(struct nam_worker *worker, uint32_t slot, const struct nam_rpc_view_request *step,
	const struct nam__cluster_view *view, struct nam_view_head *ret_head)
{
	struct nam_rpc_view_request head = *step;
	int rc = 0;

	head.view = view->head;
	for (; !rc && head.first < view->head.count; head.first += head.count) {
		uint32_t left = view->head.count - head.first;

		head.count = left < NAM_RPC_VIEW_MEMBERS ? left : NAM_RPC_VIEW_MEMBERS;
		rc = send(worker, slot, &head, &view->members[head.first],
			ret_head); /* SUSPENDS */
	}
	return rc;
}

int
nam__cluster_view_form(struct nam_worker *worker, uint32_t slot, uint16_t newest,
	struct nam__cluster_view *view)
{
	const struct nam_rpc_view_request form = { .step = NAM_RPC_VIEW_FORM, .newest = newest };
	struct nam_view_head head;
	int rc = pages_send(worker, slot, &form, view, &head); /* SUSPENDS */

	if (!rc)
		view->head = head;
	return rc;
}

int
nam__cluster_view_copy(struct nam_worker *worker, uint32_t slot,
	const struct nam__cluster_view *view)
{
	const struct nam_rpc_view_request copy = { .step = NAM_RPC_VIEW_COPY };
	struct nam_view_head head;

	return pages_send(worker, slot, &copy, view, &head); /* SUSPENDS */
}

int
nam__cluster_view_change(struct nam_worker *worker, uint32_t slot, uint64_t number,
	uint64_t term, enum nam_rpc_view_change change, const struct nam_view_member *member,
	struct nam_view_head *ret_head)
{
	const struct nam_rpc_view_request request = {
		.step = NAM_RPC_VIEW_CHANGE,
		.change = (uint16_t)change,
		.count = 1,
		.view = { .number = number, .term = term },
	};

	return send(worker, slot, &request, member, ret_head); /* SUSPENDS */
}

int
nam__cluster_view_steward(struct nam_worker *worker, uint32_t slot, enum nam_rpc_view_steward what,
	uint64_t term, uint32_t lease_ms, uint64_t *ret_term)
{
	const struct nam_rpc_view_request request = {
		.step = NAM_RPC_VIEW_STEWARD,
		.change = (uint16_t)what,
		.first = lease_ms,
		.view.term = term,
	};
	struct nam_view_head head;
	int rc = send(worker, slot, &request, NULL, &head); /* SUSPENDS */

	if (rc)
		return rc;
	if (!head.term || (term && head.term != term))
		return -NAM_E_FABRIC_PROTOCOL;
	*ret_term = head.term;
	return 0;
}

int
nam__cluster_view_ack(struct nam_worker *worker, uint32_t slot, uint64_t number)
{
	const struct nam_rpc_view_request request = {
		.step = NAM_RPC_VIEW_ACK,
		.view.number = number,
	};

	return send(worker, slot, &request, NULL, NULL); /* SUSPENDS */
}

int
nam__cluster_view_lost(struct nam_worker *worker, uint32_t slot, uint32_t id, uint64_t boot)
{
	const struct nam_rpc_view_request request = {
		.step = NAM_RPC_VIEW_ACK,
		.first = 1 + id,
		.view.lead_boot = boot,
	};

	return send(worker, slot, &request, NULL, NULL); /* SUSPENDS */
}
