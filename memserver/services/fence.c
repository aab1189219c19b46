/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence.c -- the end of a client (common/rpc/fence_rpc.h).  Memory servers do not talk to each
 * other: a client sends CLOSE to all of them, and then PUBLISH to the lead.  Each step may be
 * repeated.
 */
#include "common/rpc/fence_rpc.h"
#include "memserver/admission/admit.h"

/* A steward that was replaced fences no client (M17).  Clients have no term. */
static int
term_check(const struct nam__membership *membership, uint64_t term)
{
	return term && term < membership->view.head.term ? -NAM_E_TERM : 0;
}

/* The lead says which client is to be fenced next: round by id, so none is passed over. */
static int
next(struct nam__exchange *exchange, const struct nam_rpc_fence_request *request,
	struct nam_rpc_fence_reply *reply)
{
	struct nam__membership *membership = &exchange->server->membership;

	reply->client_id = reply->incarnation = 0;
	NAM__SCOPED_LOCK(&membership->mutex);
	for (uint32_t i = 1; membership->fencing_count && i <= NAM_CLIENTS_MAX; i++) {
		uint32_t id = (request->client_id + i) % NAM_CLIENTS_MAX;

		if (membership->members[id].state != NAM_CLIENT_FENCING)
			continue;
		reply->client_id = (uint16_t)id;
		reply->incarnation = membership->members[id].incarnation;
		return 0;
	}
	return 0;
}

/* With the mutex: the client is refused from now on (M5). */
static int
refuse(struct nam__exchange *exchange, const struct nam_rpc_fence_request *request,
	struct nam_rpc_fence_reply *reply)
{
	struct nam__membership *membership = &exchange->server->membership;
	struct nam__member *member;
	int rc = term_check(membership, request->term);

	if (rc)
		return rc;
	member = nam__member_find(membership, request->client_id, request->incarnation);
	if (nam__leads(exchange->server)) {
		/* The client's mappings cannot be revoked: its process has to end. */
		if (member && member->state == NAM_CLIENT_ALIVE &&
			(exchange->server->domain->limits.caps & NAM_CAP_LASTING))
			return -NAM_E_FABRIC_CAPABILITY;
		/* M18: other clients end those only that are not alive. */
		if (member && member->state == NAM_CLIENT_ALIVE && !nam__is_admin(exchange))
			return -NAM_E_FABRIC_DENIED;
		if (member)
			nam__member_fence(membership, member);
		reply->state = nam__member_state(membership, request->client_id,
			request->incarnation);
		if (!member)
			return 0;
	} else if (member) {
		nam__member_fence(membership, member);
	}
	nam__newest_note(membership, request->client_id, request->incarnation, true);
	return 0;
}

/* M18: only the lead knows which client has ended, so it vouches for that. */
static int
close_all(struct nam__exchange *exchange, const struct nam_rpc_fence_request *request,
	struct nam_rpc_fence_reply *reply)
{
	const struct nam__auth_name ended = { 0, request->client_id, request->incarnation };
	struct nam__membership *membership = &exchange->server->membership;
	int rc;

	if (!nam__leads(exchange->server) && !nam__is_admin(exchange) &&
		!nam__auth_vouched_name(exchange->server, &ended, (const uint8_t *)(request + 1),
			exchange->body_bytes - (uint32_t)sizeof(*request)))
		return -NAM_E_FABRIC_DENIED;
	pthread_mutex_lock(&membership->mutex);
	/* M22: a successor would not know it, so it waits until the move ends. */
	rc = membership->exporting && NAM_GUARD(EXPORT_FENCE) ? -EAGAIN :
		refuse(exchange, request, reply);
	pthread_mutex_unlock(&membership->mutex);
	if (!rc && nam__leads(exchange->server) && reply->state != NAM_CLIENT_UNKNOWN)
		exchange->reply_bytes += nam__auth_vouch_name(exchange->server, &ended,
			(uint8_t *)(reply + 1));
	if (rc || reply->state != NAM_CLIENT_FENCING)
		return rc;
	return nam__connections_fence(exchange->server, request->client_id, request->incarnation,
		NULL) ? -EAGAIN : 0;
}

/* M25: the lead says that it is DEAD. */
static int
publish_here(struct nam__exchange *exchange, const struct nam_rpc_fence_request *request)
{
	struct nam__membership *membership = &exchange->server->membership;
	struct nam__member *member = &membership->members[request->client_id];

	if (!nam__is_admin(exchange))
		return -NAM_E_FABRIC_DENIED;
	NAM__SCOPED_LOCK(&membership->mutex);
	if (membership->newest[request->client_id].incarnation != request->incarnation)
		return 0;
	if (membership->present[request->client_id])
		return -EAGAIN;
	if (member->incarnation == request->incarnation)
		nam__member_publish(membership, member);
	else if (!nam__member_lives(membership, request->client_id))
		*member = (struct nam__member){ .incarnation = request->incarnation,
			.state = NAM_CLIENT_DEAD };
	return 0;
}

/* M5: all members of the view in force have closed its queue pairs, this one too. */
static int
publish(struct nam__exchange *exchange, const struct nam_rpc_fence_request *request,
	struct nam_rpc_fence_reply *reply)
{
	struct nam__membership *membership = &exchange->server->membership;
	struct nam__member *member;
	int rc;

	if (!nam__leads(exchange->server))
		return publish_here(exchange, request);
	NAM__SCOPED_LOCK(&membership->mutex);
	rc = term_check(membership, request->term);
	member = nam__member_find(membership, request->client_id, request->incarnation);
	if (!rc && member && member->state == NAM_CLIENT_FENCING) {
		if (request->view != membership->view.head.number)
			rc = -NAM_E_VIEW;
		else if (member->connections)
			rc = -EAGAIN;
		else
			nam__member_publish(membership, member);
	}
	reply->state = nam__member_state(membership, request->client_id, request->incarnation);
	return rc;
}

static const struct step {
	int (*fn)(struct nam__exchange *exchange, const struct nam_rpc_fence_request *request,
		struct nam_rpc_fence_reply *reply);
	bool lead;			/* for the lead only */
	bool of_client;			/* about the client that it names */
	bool of_view;
	bool for_all;			/* also with a reader's key */
} steps[] = {
	[NAM_RPC_FENCE_NEXT] = { next, true, false, false, true },
	[NAM_RPC_FENCE_CLOSE] = { close_all, false, true, false, false },
	[NAM_RPC_FENCE_PUBLISH] = { publish, true, true, true, false },
};

int
nam__service_fence(struct nam__exchange *exchange)
{
	const struct nam_rpc_fence_request *request = exchange->body;
	struct nam_rpc_fence_reply *reply = exchange->reply;
	const struct step *step;

	if (!request->step || request->step >= sizeof(steps) / sizeof(steps[0]))
		return -NAM_E_FABRIC_PROTOCOL;
	step = &steps[request->step];
	if (step->lead && !nam__leads(exchange->server) && (exchange->server->options.id ||
			request->step != NAM_RPC_FENCE_PUBLISH))
		return -NAM_E_CLUSTER;
	if (request->reserved || request->client_id >= NAM_CLIENTS_MAX ||
		(step->of_client ? !request->client_id || !request->incarnation :
			request->incarnation || request->term) ||
		(!step->of_view && request->view))
		return -NAM_E_FABRIC_PROTOCOL;
	if (!step->for_all && !nam__may_change(exchange->connection))
		return -NAM_E_FABRIC_DENIED;
	*reply = (struct nam_rpc_fence_reply){ request->client_id, request->incarnation,
		NAM_CLIENT_FENCING };
	exchange->reply_bytes = sizeof(*reply);
	return step->fn(exchange, request, reply);
}
