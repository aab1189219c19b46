/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c -- the server's side of a handshake. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/fabric/wait/wake.h"
#include "verbs_internal.h"

#define BACKLOG 128

/* A client that was challenged, and is to connect again with its answer. */
struct pending {
	bool waits;
	uint16_t number;
	uint8_t mtu;
	uint64_t since_ns;
	struct sockaddr_storage peer;
	char name[sizeof(((struct nam_cm_event *)NULL)->peer)];	/* of that peer */
	struct nam_hello hello, challenge;
};

struct verbs_listener {
	struct nam_listener pub;
	struct verbs_domain *domain;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	int wake_fd;
	uint16_t number;		/* of the last challenge */
	struct pending pending[NAM__PENDING_MAX];
};

static bool
is_wildcard(const struct sockaddr *at)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)at;
	const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)at;

	return at->sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr) :
		!four->sin_addr.s_addr;
}

/* Ports do not count. */
static bool
is_same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)(const void *)a;
	const struct sockaddr_in6 *b6 = (const struct sockaddr_in6 *)(const void *)b;

	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET6)
		return IN6_ARE_ADDR_EQUAL(&a6->sin6_addr, &b6->sin6_addr);
	return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
		((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
}

static int
bind_id(struct verbs_listener *listener, const char *address, const struct sockaddr *asked,
	socklen_t bytes, struct nam_diag *diag)
{
	const struct verbs_domain *domain = listener->domain;
	struct sockaddr_storage at = { 0 };

	memcpy(&at, asked, bytes);
	/* gid_index names one of the device's addresses. */
	if (domain->source.ss_family && is_wildcard(asked)) {
		at = domain->source;
		((struct sockaddr_in *)&at)->sin_port =
			((const struct sockaddr_in *)(const void *)asked)->sin_port;
	} else if (domain->source.ss_family &&
		!is_same_address((const struct sockaddr *)&domain->source, asked)) {
		return nam_diag_set(diag, -EINVAL, "%s: gid_index, NAM_GID_INDEX: that GID has "
			"another address; leave it out, or listen at 0.0.0.0", address);
	}
	if (rdma_bind_addr(listener->id, (struct sockaddr *)&at)) {
		if (errno == EADDRINUSE)
			return nam_diag_set(diag, -NAM_E_FABRIC_ADDRESS_IN_USE, "%s: another "
				"program listens at that port; stop it, or choose another port",
				address);
		if (errno == EADDRNOTAVAIL || errno == ENODEV)
			return nam_diag_set(diag, -errno, "%s: no RDMA device of this host has "
				"that address; `rdma link` shows the devices and their network "
				"interfaces", address);
		return nam_diag_set(diag, -errno, "%s: %s", address, strerror(errno));
	}
	if (listener->id->verbs &&
		strcmp(ibv_get_device_name(listener->id->verbs->device), domain->device))
		return nam_diag_set(diag, -EINVAL, "device, NAM_DEVICE: %s is an address of the "
			"RDMA device %s, not of %s", address,
			ibv_get_device_name(listener->id->verbs->device), domain->device);
	if (rdma_listen(listener->id, BACKLOG))
		return nam_diag_set(diag, errno == EADDRINUSE ? -NAM_E_FABRIC_ADDRESS_IN_USE :
			-errno, "%s: %s", address, strerror(errno));
	return 0;
}

int
nam__verbs_listen(struct nam_domain *domain, const char *address, struct nam_listener **ret,
	struct nam_diag *diag)
{
	struct verbs_listener *listener = calloc(1, sizeof(*listener));
	struct addrinfo *at;
	int rc;

	if (!listener)
		return nam_diag_set(diag, -ENOMEM, "no memory for a listener");
	listener->pub.ops = domain->ops;
	listener->domain = (struct verbs_domain *)domain;
	rc = nam__inet_resolve("verbs", address, true, &at, diag);
	if (rc)
		goto free_listener;
	rc = nam__verbs_channel_create(&listener->channel, diag);
	if (rc)
		goto free_address;
	listener->wake_fd = nam__wake_open();
	if (listener->wake_fd < 0) {
		rc = nam_diag_set(diag, listener->wake_fd, "eventfd: %s",
			nam_err_text(listener->wake_fd));
		goto destroy_channel;
	}
	if (rdma_create_id(listener->channel, &listener->id, NULL, RDMA_PS_TCP)) {
		rc = nam_diag_set(diag, -errno, "%s: rdma_create_id: %s", address, strerror(errno));
		goto close_wake;
	}
	rc = bind_id(listener, address, at->ai_addr, at->ai_addrlen, diag);
	if (rc)
		goto destroy_id;
	freeaddrinfo(at);
	*ret = &listener->pub;
	return 0;

destroy_id:
	(void)rdma_destroy_id(listener->id);
close_wake:
	close(listener->wake_fd);
destroy_channel:
	rdma_destroy_event_channel(listener->channel);
free_address:
	freeaddrinfo(at);
free_listener:
	free(listener);
	return rc;
}

void
nam__verbs_listener_close(struct nam_listener *pub)
{
	struct verbs_listener *listener = (struct verbs_listener *)pub;

	if (!listener)
		return;
	(void)rdma_destroy_id(listener->id);
	close(listener->wake_fd);
	rdma_destroy_event_channel(listener->channel);
	free(listener);
}

void
nam__verbs_listener_wake(struct nam_listener *pub)
{
	nam__wake_post(((struct verbs_listener *)pub)->wake_fd);
}

/* ---- clients ------------------------------------------------------------------------------- */

static uint8_t
least(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static void
forget(struct verbs_listener *listener, struct pending *pending)
{
	pending->waits = false;
	nam__listener_dropped(&listener->pub, pending->name, -NAM_E_FABRIC_TIMEOUT);
}

static bool
is_late(const struct pending *pending)
{
	return nam_now_ns() - pending->since_ns > NAM__HANDSHAKE_NS;
}

static void
forget_late(struct verbs_listener *listener)
{
	for (uint32_t i = 0; i < NAM__PENDING_MAX; i++)
		if (listener->pending[i].waits && is_late(&listener->pending[i]))
			forget(listener, &listener->pending[i]);
}

/* The challenge that the client of `id` answers, or NULL.  Other addresses leave it as it is. */
static const struct pending *
take_pending(struct verbs_listener *listener, struct rdma_cm_id *id, uint16_t number)
{
	for (uint32_t i = 0; i < NAM__PENDING_MAX; i++) {
		struct pending *pending = &listener->pending[i];

		if (!pending->waits || pending->number != number || is_late(pending) ||
			!is_same_address((const struct sockaddr *)&pending->peer,
				rdma_get_peer_addr(id)))
			continue;
		pending->waits = false;
		return pending;
	}
	return NULL;
}

/* A free place, or that of one that has to go. */
static struct pending *
take_place(struct verbs_listener *listener)
{
	struct nam__pending_accept candidates[NAM__PENDING_MAX];
	struct pending *found;

	for (uint32_t i = 0; i < NAM__PENDING_MAX; i++) {
		struct pending *pending = &listener->pending[i];

		if (!pending->waits)
			return pending;
		/* By their numbers, which wrap around. */
		candidates[i] = (struct nam__pending_accept){ pending->name,
			(uint16_t)(pending->number - listener->number) };
	}
	found = &listener->pending[nam__pending_accept_victim(candidates)];
	forget(listener, found);
	return found;
}

/* True if *to was filled. */
static bool
take_request(struct verbs_listener *listener, const struct rdma_cm_event *from,
	struct nam_cm_event *to)
{
	const struct verbs_domain *domain = listener->domain;
	const struct pending *pending = NULL;
	struct nam_cm_request *request;
	struct nam_hello hello;
	struct verbs_params params;

	/* Listening everywhere means on every device; our memory is registered with one. */
	if (nam__verbs_unpack(VERBS_HELLO, from->param.conn.private_data,
		from->param.conn.private_data_len, &hello, &params) || !from->id->verbs ||
		strcmp(ibv_get_device_name(from->id->verbs->device), domain->device))
		return false;
	if (params.kind == VERBS_ANSWER) {
		pending = take_pending(listener, from->id, params.number);
		if (!pending)
			return false;
	}
	request = calloc(1, sizeof(*request));
	if (!request)
		return false;
	request->id = from->id;
	request->mtu = pending ? pending->mtu : params.mtu;
	request->answers = pending != NULL;
	request->hello = pending ? pending->hello : hello;
	request->reads_out = least(from->param.conn.initiator_depth, domain->reads_out);
	request->reads_in = least(from->param.conn.responder_resources, domain->reads_in);
	*to = (struct nam_cm_event){
		.kind = pending ? NAM_CM_ANSWER : NAM_CM_REQUEST,
		.request = request,
		.hello = request->hello,
	};
	if (pending) {
		to->challenge = pending->challenge;
		to->answer = hello;
	}
	nam__inet_text(rdma_get_peer_addr(from->id), to->peer, sizeof(to->peer));
	return true;
}

/* NAM_LISTENER_EVENT: one of ours; QUIET: it was none; or a negative code. */
static int
take_event(struct verbs_listener *listener, struct nam_cm_event *to)
{
	struct rdma_cm_id *unwanted = NULL;
	struct rdma_cm_event *event;
	int rc = NAM_LISTENER_QUIET;

	if (rdma_get_cm_event(listener->channel, &event))
		return errno == EAGAIN || errno == EINTR ? NAM_LISTENER_QUIET : -errno;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		if (take_request(listener, event, to))
			rc = NAM_LISTENER_EVENT;
		else
			unwanted = event->id;
	} else if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL && listener->id->verbs) {
		nam__verbs_watch_gone(listener->domain);
	}
	(void)rdma_ack_cm_event(event);
	if (unwanted) {
		(void)rdma_reject(unwanted, NULL, 0);
		(void)rdma_destroy_id(unwanted);
	}
	return rc;
}

int
nam__verbs_listener_poll(struct nam_listener *pub, uint64_t timeout_ns, struct nam_cm_event *event)
{
	struct verbs_listener *listener = (struct verbs_listener *)pub;
	struct pollfd ready[2] = {
		{ .fd = listener->wake_fd, .events = POLLIN },
		{ .fd = listener->channel->fd, .events = POLLIN },
	};
	uint64_t until = nam_now_ns();

	until = timeout_ns > UINT64_MAX - until ? UINT64_MAX : until + timeout_ns;
	for (;;) {
		uint64_t now = nam_now_ns();
		uint64_t left_ms = now < until ? (until - now + 999999) / 1000000 : 0;
		int rc;

		forget_late(listener);
		rc = take_event(listener, event);
		/* Nothing can be served again, as the memory was registered with the device. */
		if (rc == NAM_LISTENER_QUIET && atomic_load_explicit(&listener->domain->watch.gone,
			memory_order_relaxed))
			rc = -ENODEV;
		if (rc != NAM_LISTENER_QUIET)
			return rc;
		rc = poll(ready, 2, (int)(left_ms < 3600000 ? left_ms : 3600000));
		if (rc < 0)
			return errno == EINTR ? NAM_LISTENER_QUIET : -errno;
		if (rc == 0 && now >= until)
			return NAM_LISTENER_QUIET;
		if (ready[0].revents) {
			nam__wake_clear(listener->wake_fd);
			return NAM_LISTENER_QUIET;
		}
	}
}

static void
refuse_with(struct nam_cm_request *request, const struct verbs_reply *ours)
{
	(void)rdma_reject(request->id, ours, sizeof(*ours));
	(void)rdma_destroy_id(request->id);
	free(request);
}

void
nam__verbs_reject(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_hello *reply)
{
	struct verbs_reply ours;

	(void)listener;
	nam__verbs_pack(VERBS_REPLY, reply, 0, &ours);
	refuse_with(request, &ours);
}

/* A rejection with a number, by which the client's second request is known. */
void
nam__verbs_challenge(struct nam_listener *pub, struct nam_cm_request *request,
	const struct nam_hello *challenge)
{
	struct verbs_listener *listener = (struct verbs_listener *)pub;
	struct verbs_reply ours;
	struct pending *pending;

	if (request->answers || challenge->bytes > NAM_REPLY_BYTES_MAX) {
		nam__verbs_reject(pub, request, NULL);
		return;
	}
	listener->number++;
	pending = take_place(listener);
	*pending = (struct pending){
		.waits = true,
		.number = listener->number,
		.mtu = request->mtu,
		.since_ns = nam_now_ns(),
		.peer = request->id->route.addr.dst_storage,
		.hello = request->hello,
		.challenge = *challenge,
	};
	nam__inet_text((const struct sockaddr *)&pending->peer, pending->name,
		sizeof(pending->name));
	nam__verbs_pack(VERBS_REPLY, challenge, 0, &ours);
	ours.params.kind = VERBS_CHALLENGE;
	ours.params.number = listener->number;
	refuse_with(request, &ours);
}

int
nam__verbs_accept(struct nam_listener *pub, struct nam_cm_request *request,
	const struct nam_qp_options *options, const struct nam_hello *reply, struct nam_qp **ret)
{
	struct verbs_domain *domain = ((struct verbs_listener *)pub)->domain;
	struct verbs_reply ours;
	struct rdma_conn_param param = {
		.private_data = &ours,
		.private_data_len = sizeof(ours),
		.responder_resources = request->reads_in,
		.initiator_depth = request->reads_out,
		.flow_control = 1,
		.rnr_retry_count = VERBS_RNR_FOREVER,
		.srq = options->rq != NULL,
	};
	struct verbs_qp *qp;
	int rc;

	if (reply && reply->bytes > NAM_REPLY_BYTES_MAX) {
		rc = -EINVAL;
		goto refuse;
	}
	rc = nam__verbs_qp_create(domain, options, request->id, &qp, NULL);
	if (rc)
		goto refuse;
	qp->accepted = true;
	qp->mtu = request->mtu;
	rc = nam__verbs_qp_init(qp);
	if (!rc)
		rc = nam__verbs_qp_start(qp, request);
	if (!rc)
		rc = nam__verbs_watch_add(qp);
	if (rc)
		goto destroy_qp;
	nam__verbs_pack(VERBS_REPLY, reply, qp->mtu, &ours);
	param.qp_num = qp->number;
	*ret = &qp->pub;
	/*
	 * From here on only the owner of the cq may destroy the queue pair: a failure closes it at
	 * once.  If the client leaves before rdma_accept has returned, the owner waits for the
	 * watch mutex.
	 */
	pthread_mutex_lock(&domain->watch.mutex);
	nam__verbs_cq_join(qp->cq, qp);
	if (rdma_accept(request->id, &param))
		(void)nam__verbs_cq_closed(qp->cq, qp, -NAM_E_FABRIC_PEER_DEAD);
	pthread_mutex_unlock(&domain->watch.mutex);
	free(request);
	return 0;

destroy_qp:
	/* The id goes with it; the client learns of that in time. */
	nam__verbs_qp_destroy(&qp->pub);
	free(request);
	return rc;
refuse:
	/* Without the caller's reply, which says yes. */
	nam__verbs_reject(pub, request, NULL);
	return rc;
}
