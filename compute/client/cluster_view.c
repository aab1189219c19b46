/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_view.c -- requests about the view, and the checks of their replies. */
#include "cluster_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/worker/worker.h"

#define PAGES_MAX 64u			/* of one view, and of those that it changed to meanwhile */

/* ---- one request --------------------------------------------------------------------------- */

/* @voucher, @ret_voucher: bytes of it behind the members of the request, and of the reply */
NAM_FIBER_FN static int
ask(struct nam_worker *worker, uint32_t slot, const struct nam_rpc_view_request *request,
	uint32_t voucher, struct nam_rpc_view_reply *reply, uint32_t *ret_voucher)
{
	uint32_t bytes = NAM_RPC_BODY_MAX, body;
	uint32_t sent = (uint32_t)(sizeof(*request) + request->count * sizeof(request->members[0]));
	int rc = nam_rpc_call(worker, slot, NAM_RPC_VIEW, request, sent + voucher, reply,
		&bytes); /* SUSPENDS */

	if (rc)
		return rc;
	if (bytes < sizeof(*reply) || reply->count > NAM_RPC_VIEW_MEMBERS)
		return -NAM_E_FABRIC_PROTOCOL;
	body = (uint32_t)(sizeof(*reply) + reply->count * sizeof(reply->members[0]));
	*ret_voucher = bytes - body;
	if ((bytes != body && bytes != body + NAM_VOUCHER_BYTES) ||
		reply->view.count > NAM_SERVERS_MAX || reply->view.lead ||
		!reply->view.number != !reply->view.count || reply->view.backups > NAM_BACKUPS_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	return 0;
}

static bool
backups_valid(const struct nam_view_member *member)
{
	for (uint32_t i = 0; i < NAM_BACKUPS_MAX; i++)
		if (!member->backups[i].boot != !member->backups[i].address[0] ||
			!memchr(member->backups[i].address, '\0', NAM_VIEW_ADDRESS_BYTES))
			return false;
	return member->known <= (nam_view_backup(member) != NULL);
}

static bool
member_valid(const struct nam_view_member *member)
{
	return member->id < NAM_SERVERS_MAX && !member->wanted && member->address[0] &&
	       memchr(member->address, '\0', sizeof(member->address)) && member->boot &&
	       member->memory && member->state >= NAM_VIEW_JOINING &&
	       member->state <= NAM_VIEW_PROMOTING && backups_valid(member) &&
	       (member->state != NAM_VIEW_PROMOTING || nam_view_backup(member));
}

/* ---- the view of a memory server ----------------------------------------------------------- */

/* Page after page.  A page of another view than the first one's begins it anew. */
NAM_FIBER_FN static int
pages_get(struct nam_worker *worker, uint32_t slot, struct nam_rpc_view_reply *reply,
	struct nam__cluster_view *view)
{
	struct nam_rpc_view_request request = { .step = NAM_RPC_VIEW_GET };
	uint32_t have = 0, voucher;

	view->head.number = 0;
	for (unsigned pages = 0; pages < PAGES_MAX; pages++) {
		int rc;

		request.first = have;
		rc = ask(worker, slot, &request, 0, reply, &voucher); /* SUSPENDS */
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
		view->unclean = reply->unclean;
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

struct nam__cluster_view *
nam__cluster_view_new(void)
{
	struct nam__cluster_view *view;

	return calloc(1, sizeof(*view) + NAM_SERVERS_MAX * sizeof(view->members[0]));
}

struct nam__cluster_view *
nam__cluster_view_clone(const struct nam__cluster_view *view)
{
	struct nam__cluster_view *clone = nam__cluster_view_new();

	if (clone) {
		clone->head = view->head;
		memcpy(clone->members, view->members,
			view->head.count * sizeof(view->members[0]));
	}
	return clone;
}

int
nam__cluster_view_get(struct nam_worker *worker, uint32_t slot, struct nam__cluster_view **ret_view)
{
	struct nam_rpc_view_reply *reply = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	struct nam__cluster_view *view = nam__cluster_view_new();
	int rc = reply && view ? pages_get(worker, slot, reply, view) : -ENOMEM; /* SUSPENDS */

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

void
nam__member_to_query(struct nam_view_member *member)
{
	const struct nam_view_backup *backup = nam_view_backup(member);

	if (member->state != NAM_VIEW_PROMOTING)
		return;
	member->boot = backup->boot;
	memcpy(member->address, backup->address, sizeof(member->address));
}

void
nam__promoted(const struct nam__cluster_view *view, struct nam_view_member *member)
{
	nam__member_to_query(member);
	/* C32: the other backup may lack what such a client wrote, or have it alone. */
	member->wanted = nam_view_backups(member) > 1 && (!view->unclean ||
		!NAM_GUARD(BACKUPS_DIFFER));
}

/* ---- changes ------------------------------------------------------------------------------- */

/* The lead's reply. */
struct answer {
	struct nam_view_head head;
	uint8_t voucher[NAM_VOUCHER_BYTES];
	uint32_t voucher_bytes;
};

/* A request, `count` members, and, if voucher is not NULL, that.  `ret` may be NULL. */
NAM_FIBER_FN static int
send(struct nam_worker *worker, uint32_t slot, const struct nam_rpc_view_request *head,
	const struct nam_view_member *members, const uint8_t *voucher, struct answer *ret)
{
	struct nam_rpc_view_request *request = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	struct nam_rpc_view_reply *reply = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	int rc = request && reply ? 0 : -ENOMEM;
	uint32_t bytes;

	if (!rc) {
		*request = *head;
		if (members)
			memcpy(request->members, members, head->count * sizeof(*members));
		if (voucher)
			memcpy(&request->members[head->count], voucher, NAM_VOUCHER_BYTES);
		rc = ask(worker, slot, request, voucher ? NAM_VOUCHER_BYTES : 0, reply,
			&bytes); /* SUSPENDS */
	}
	if (!rc && ret) {
		*ret = (struct answer){ .head = reply->view, .voucher_bytes = bytes };
		memcpy(ret->voucher, &reply->members[reply->count], bytes);
	}
	nam_buffer_give(worker, request, NAM_RPC_BODY_MAX);
	nam_buffer_give(worker, reply, NAM_RPC_BODY_MAX);
	return rc;
}

/* A whole view in pages: FORM or COPY.  *ret is the answer to the last one. */
NAM_FIBER_FN static int
pages_send(struct nam_worker *worker, uint32_t slot, const struct nam_rpc_view_request *step,
	const struct nam__cluster_view *view, struct answer *ret)
{
	struct nam_rpc_view_request head = *step;
	int rc = 0;

	head.view = view->head;
	for (; !rc && head.first < view->head.count; head.first += head.count) {
		uint32_t left = view->head.count - head.first;

		head.count = left < NAM_RPC_VIEW_MEMBERS ? left : NAM_RPC_VIEW_MEMBERS;
		rc = send(worker, slot, &head, &view->members[head.first],
			view->voucher_bytes && head.count == left ? view->voucher : NULL,
			ret); /* SUSPENDS */
	}
	return rc;
}

static void
answer_take(const struct answer *answer, struct nam__cluster_view *view)
{
	view->head = answer->head;
	view->voucher_bytes = answer->voucher_bytes;
	memcpy(view->voucher, answer->voucher, sizeof(view->voucher));
}

int
nam__cluster_view_form(struct nam_worker *worker, uint32_t slot, uint16_t newest,
	struct nam__cluster_view *view)
{
	const struct nam_rpc_view_request form = { .step = NAM_RPC_VIEW_FORM, .newest = newest };
	struct answer answer;
	int rc = pages_send(worker, slot, &form, view, &answer); /* SUSPENDS */

	if (rc)
		return rc;
	answer_take(&answer, view);
	for (uint32_t i = 0; i < view->head.count; i++)
		view->members[i].since = view->members[i].renewed = view->head.number;
	return 0;
}

int
nam__cluster_view_copy(struct nam_worker *worker, uint32_t slot,
	const struct nam__cluster_view *view)
{
	const struct nam_rpc_view_request copy = { .step = NAM_RPC_VIEW_COPY };

	return pages_send(worker, slot, &copy, view, NULL); /* SUSPENDS */
}

NAM_FIBER_FN static int
change_call(struct nam_worker *worker, uint32_t slot, uint64_t number, uint64_t term,
	enum nam_rpc_view_change change, const struct nam_view_member *member, struct answer *ret)
{
	const struct nam_rpc_view_request request = {
		.step = NAM_RPC_VIEW_CHANGE,
		.change = (uint16_t)change,
		.count = 1,
		.view = { .number = number, .term = term },
	};

	return send(worker, slot, &request, member, NULL, ret); /* SUSPENDS */
}

int
nam__cluster_view_change(struct nam_worker *worker, uint32_t slot, uint64_t number,
	uint64_t term, enum nam_rpc_view_change change, const struct nam_view_member *member,
	struct nam_view_head *ret_head)
{
	struct answer answer;
	int rc = change_call(worker, slot, number, term, change, member, &answer); /* SUSPENDS */

	if (!rc)
		*ret_head = answer.head;
	return rc;
}

int
nam__cluster_view_renew(struct nam_worker *worker, uint32_t slot, struct nam__cluster_view *view,
	struct nam_view_member *member, uint64_t boot)
{
	struct nam_view_member renewed = *member;
	struct answer answer;
	int rc;

	renewed.boot = boot;
	rc = change_call(worker, slot, view->head.number, 0, NAM_RPC_VIEW_RENEW, &renewed,
		&answer); /* SUSPENDS */
	if (rc)
		return rc;
	answer_take(&answer, view);
	member->state = NAM_VIEW_UP;
	member->boot = member->memory = boot;
	member->renewed = view->head.number;
	return 0;
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
	struct answer answer;
	int rc = send(worker, slot, &request, NULL, NULL, &answer); /* SUSPENDS */

	if (rc)
		return rc;
	if (!answer.head.term || (term && answer.head.term != term))
		return -NAM_E_FABRIC_PROTOCOL;
	*ret_term = answer.head.term;
	return 0;
}

int
nam__cluster_view_ack(struct nam_worker *worker, uint32_t slot, uint64_t number)
{
	const struct nam_rpc_view_request request = {
		.step = NAM_RPC_VIEW_ACK,
		.view.number = number,
	};

	return send(worker, slot, &request, NULL, NULL, NULL); /* SUSPENDS */
}

int
nam__cluster_view_left(struct nam_worker *worker, uint32_t slot)
{
	const struct nam_rpc_view_request request = { .step = NAM_RPC_VIEW_ACK, .change = 1 };

	return send(worker, slot, &request, NULL, NULL, NULL); /* SUSPENDS */
}

int
nam__cluster_view_lost(struct nam_worker *worker, uint32_t slot, uint32_t id, uint64_t boot)
{
	const struct nam_rpc_view_request request = {
		.step = NAM_RPC_VIEW_ACK,
		.first = 1 + id,
		.view.lead_boot = boot,
	};

	return send(worker, slot, &request, NULL, NULL, NULL); /* SUSPENDS */
}
