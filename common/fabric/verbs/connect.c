/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect.c -- the client's side of a handshake: address, route, queue pair, connection.
 *
 * Each attempt waits for events of its own channel; the connection then moves to the watcher's.
 */
#include <errno.h>
#include <netdb.h>
#include <string.h>

#include "verbs_internal.h"

#define TRIES 4
/*
 * The wait of the first attempt; later ones wait twice as long, for half of the remaining time at
 * most.  The connection manager repeats a lost packet after 4.6 s only.
 */
#define ANSWER_NS 500000000ull
#define REASON_NO_LISTENER 8	/* of REJECTED: no listener at that port */
#define REASON_STALE 10		/* the number of our queue pair was another's just now */
#define REASON_CONSUMER 28	/* the memory server itself said no */

struct attempt {
	struct verbs_domain *domain;
	const char *address;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct verbs_qp *qp;
	uint64_t until_ns;
	struct nam_hello *reply;
	struct nam_diag *diag;
	struct verbs_hello ours;	/* what is sent */
	struct nam_hello challenge;
	uint16_t number;		/* of the challenge */
	bool challenged, answered;
	bool over;			/* ended by the client itself: not to be repeated */
};

static int
diag_failed(const struct attempt *attempt, int rc, const char *what)
{
	return nam_diag_set(attempt->diag, rc, "%s: %s: %s", attempt->address, what,
		nam_err_text(rc));
}

static int
diag_silent(const struct attempt *attempt, const char *what)
{
	return nam_diag_set(attempt->diag, -ETIMEDOUT, "%s: %s; is the host up, and the address "
		"one of an RDMA device there?", attempt->address, what);
}

/* The memory server itself said no, or not yet. */
static int
take_refusal(struct attempt *attempt, const struct rdma_conn_param *param)
{
	struct nam_hello reply = { 0 };
	struct verbs_params params = { 0 };

	/* Malformed: a refusal without a reply. */
	(void)!nam__verbs_unpack(VERBS_REPLY, param->private_data, param->private_data_len, &reply,
		&params);
	if (params.kind == VERBS_CHALLENGE && attempt->answered)
		return nam_diag_set(attempt->diag, -NAM_E_FABRIC_PROTOCOL, "%s: the memory server "
			"challenges this client a second time", attempt->address);
	if (params.kind == VERBS_CHALLENGE) {
		attempt->challenged = true;
		attempt->challenge = reply;
		attempt->number = params.number;
		return -NAM_E_FABRIC_DENIED;
	}
	*attempt->reply = reply;
	return nam_diag_set(attempt->diag, -ECONNREFUSED, "%s: the memory server refused the "
		"connection", attempt->address);
}

static int
take_rejection(struct attempt *attempt, const struct rdma_cm_event *event)
{
	switch (event->status) {
	case REASON_STALE:
		return -EAGAIN;
	case REASON_NO_LISTENER:
		attempt->reply->absent = 1;
		return nam_diag_set(attempt->diag, -ECONNREFUSED, "%s: the host is there, and no "
			"memory server listens at that port; is it running (nam-memserver --listen "
			"%s)?", attempt->address, attempt->address);
	case REASON_CONSUMER:
		return take_refusal(attempt, &event->param.conn);
	default:
		return nam_diag_set(attempt->diag, -ECONNREFUSED, "%s: the connection was "
			"rejected, reason %d of InfiniBand's connection manager", attempt->address,
			event->status);
	}
}

static int
take_response(const struct attempt *attempt, const struct rdma_cm_event *event)
{
	struct nam_hello reply;
	struct verbs_params params;
	int rc = nam__verbs_unpack(VERBS_REPLY, event->param.conn.private_data,
		event->param.conn.private_data_len, &reply, &params);

	if (!rc && params.kind != VERBS_PLAIN)
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (rc)
		return nam_diag_set(attempt->diag, rc, "%s: the peer is not a memory "
			"server of this release", attempt->address);
	attempt->qp->mtu = params.mtu;
	*attempt->reply = reply;
	return 0;
}

/* Wait for one kind of event; other kinds are reported. */
static int
await(struct attempt *attempt, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	int rc = nam__verbs_cm_wait(attempt->channel, attempt->until_ns, &event);

	if (rc == -ETIMEDOUT)
		return diag_silent(attempt, "no answer");
	if (rc)
		return diag_failed(attempt, rc, "rdma_cm");
	if (event->event == wanted) {
		if (wanted == RDMA_CM_EVENT_CONNECT_RESPONSE)
			rc = take_response(attempt, event);
	} else if (event->event == RDMA_CM_EVENT_REJECTED) {
		rc = take_rejection(attempt, event);
	} else if (event->event == RDMA_CM_EVENT_UNREACHABLE ||
		event->event == RDMA_CM_EVENT_ROUTE_ERROR) {
		rc = diag_silent(attempt, event->event == RDMA_CM_EVENT_UNREACHABLE ?
			"no answer" : "no way there");
	} else {
		rc = nam_diag_set(attempt->diag, -NAM_E_FABRIC_CONNECT, "%s: %s, status %d",
			attempt->address, rdma_event_str(event->event), event->status);
	}
	(void)rdma_ack_cm_event(event);
	return rc;
}

static int
resolve(struct attempt *attempt, const struct addrinfo *at)
{
	const struct verbs_domain *domain = attempt->domain;
	uint64_t now;
	const char *found;
	int rc = nam__verbs_find_way(attempt->id, domain, at->ai_addr, attempt->until_ns);

	if (rc == -ETIMEDOUT || rc == -EHOSTUNREACH)
		return diag_silent(attempt, "no way there");
	if (rc)
		return diag_failed(attempt, rc, "no way there");
	found = attempt->id->verbs ? ibv_get_device_name(attempt->id->verbs->device) : "none";
	if (strcmp(found, domain->device))
		return nam_diag_set(attempt->diag, -NAM_E_FABRIC_CONNECT, "%s: is reached through "
			"the RDMA device %s, and this process uses %s. All memory servers of a "
			"cluster must be reached through one device (NAM_DEVICE in the "
			"environment)", attempt->address, found, domain->device);
	now = nam_now_ns();
	if (rdma_resolve_route(attempt->id, now < attempt->until_ns ?
		(int)((attempt->until_ns - now) / 1000000) + 1 : 1))
		return diag_failed(attempt, -errno, "no path to it");
	return await(attempt, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static int
shake_hands(struct attempt *attempt, const struct nam_qp_options *options)
{
	struct rdma_conn_param param = {
		.private_data = &attempt->ours,
		.private_data_len = sizeof(attempt->ours),
		.responder_resources = attempt->domain->reads_in,
		.initiator_depth = attempt->domain->reads_out,
		.flow_control = 1,
		.retry_count = VERBS_RETRIES,
		.rnr_retry_count = VERBS_RNR_FOREVER,
		.srq = options->rq != NULL,
	};
	int rc;

	rc = nam__verbs_qp_init(attempt->qp);
	if (rc)
		return diag_failed(attempt, rc, "queue pair");
	param.qp_num = attempt->qp->number;
	if (rdma_connect(attempt->id, &param))
		return diag_failed(attempt, -errno, "rdma_connect");
	rc = await(attempt, RDMA_CM_EVENT_CONNECT_RESPONSE);
	if (rc)
		return rc;
	/* The queue pair takes nothing from the server before the caller knows that server. */
	rc = nam__fabric_welcome(options, attempt->reply, attempt->diag);
	if (rc) {
		attempt->over = true;
		return rc;
	}
	rc = nam__verbs_qp_start(attempt->qp, NULL);
	if (rc)
		return diag_failed(attempt, rc, "queue pair");
	/* Before the server hears that we are there, and may send something. */
	nam__verbs_cq_join(attempt->qp->cq, attempt->qp);
	if (rdma_establish(attempt->id))
		return diag_failed(attempt, -errno, "rdma_establish");
	rc = nam__verbs_watch_add(attempt->qp);
	return rc ? diag_failed(attempt, rc, "the connection cannot be watched") : 0;
}

static int
connect_once(struct attempt *attempt, const struct addrinfo *at,
	const struct nam_qp_options *options)
{
	int rc = nam__verbs_channel_create(&attempt->channel, attempt->diag);

	if (rc)
		return rc;
	if (rdma_create_id(attempt->channel, &attempt->id, NULL, RDMA_PS_TCP)) {
		rc = diag_failed(attempt, -errno, "rdma_create_id");
		goto destroy_channel;
	}
	rc = resolve(attempt, at);
	if (rc)
		goto destroy_id;
	rc = nam__verbs_qp_create(attempt->domain, options, attempt->id, &attempt->qp,
		attempt->diag);
	if (rc)
		goto destroy_id;
	rc = shake_hands(attempt, options);
	if (rc) {
		nam__verbs_qp_destroy(&attempt->qp->pub);
		goto destroy_channel;
	}
	rdma_destroy_event_channel(attempt->channel);
	return 0;

destroy_id:
	(void)rdma_destroy_id(attempt->id);
destroy_channel:
	rdma_destroy_event_channel(attempt->channel);
	return rc;
}

/* A hello and, if it is challenged, an answer, by a new id and queue pair. */
static int
try_once(struct attempt *attempt, const struct addrinfo *at, const struct nam_hello *hello,
	const struct nam_qp_options *options)
{
	uint8_t mtu = (uint8_t)attempt->domain->mtu;
	struct nam_hello answer;
	int rc;

	attempt->challenged = attempt->answered = false;
	nam__verbs_pack(VERBS_HELLO, hello, mtu, &attempt->ours);
	rc = connect_once(attempt, at, options);
	if (!attempt->challenged)
		return rc;
	rc = nam__fabric_answer(options, attempt->address, &attempt->challenge, &answer,
		attempt->diag);
	if (rc) {
		attempt->over = true;
		return rc;
	}
	attempt->answered = true;
	nam__verbs_pack(VERBS_HELLO, &answer, mtu, &attempt->ours);
	attempt->ours.params.kind = VERBS_ANSWER;
	attempt->ours.params.number = attempt->number;
	return connect_once(attempt, at, options);
}

/* To one address: again after silence, while there is time. */
static int
connect_to(struct attempt *attempt, const struct addrinfo *at, uint64_t end_ns,
	const struct nam_hello *hello, const struct nam_qp_options *options)
{
	int rc = -ETIMEDOUT;

	for (unsigned tries = 0; tries < TRIES; tries++) {
		uint64_t now = nam_now_ns(), half_ns = now < end_ns ? (end_ns - now) / 2 : 0;

		/* The last attempt has what is left. */
		attempt->until_ns = tries == TRIES - 1 || half_ns < ANSWER_NS ? end_ns :
			now + (half_ns < ANSWER_NS << tries ? half_ns : ANSWER_NS << tries);
		rc = try_once(attempt, at, hello, options);
		if (attempt->over)
			return rc;
		/* A number of a queue pair that is used again too early: another one, then. */
		if (rc != -EAGAIN && (rc != -ETIMEDOUT || nam_now_ns() >= end_ns))
			break;
	}
	if (rc == -EAGAIN)
		rc = nam_diag_set(attempt->diag, -NAM_E_FABRIC_CONNECT, "%s: the memory server "
			"takes this process for one that has ended; try again", attempt->address);
	return rc;
}

int
nam__verbs_connect(struct nam_domain *domain, const char *address, const struct nam_hello *hello,
	const struct nam_qp_options *options, struct nam_hello *reply, struct nam_qp **ret,
	struct nam_diag *diag)
{
	struct nam_hello own;
	struct attempt attempt = {
		.domain = (struct verbs_domain *)domain,
		.address = address,
		.reply = reply ?: &own,
		.diag = diag,
	};
	uint64_t end_ns = nam_now_ns() + (domain->timeout_ns ?: VERBS_CONNECT_NS);
	struct addrinfo *list;
	int rc = nam__inet_resolve("verbs", address, false, &list, diag);

	if (rc)
		return rc;
	attempt.reply->bytes = attempt.reply->absent = 0;
	for (const struct addrinfo *at = list; at; at = at->ai_next) {
		rc = connect_to(&attempt, at, end_ns, hello, options);
		/* A name may have addresses that lead nowhere before one that does. */
		if (!rc || rc == -ECONNREFUSED || attempt.over || nam_now_ns() >= end_ns)
			break;
	}
	freeaddrinfo(list);
	if (rc)
		return rc;
	*ret = &attempt.qp->pub;
	return 0;
}
