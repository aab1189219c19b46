/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c -- the server's side: sockets to listen at, and clients that say hello. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fabric/pending_accepts.h"
#include "common/fabric/inet.h"
#include "tcp_internal.h"

#define BACKLOG 512
#define SOCKETS_MAX 4u			/* a name may have several addresses */
/* Of a client that has not sent all of it. */
struct tcp_heard {
	uint32_t got;
	struct tcp_hello hello;
};

struct tcp_listener {
	struct nam_listener pub;
	struct tcp_domain *domain;
	int fds[SOCKETS_MAX];
	uint32_t fds_count;
	struct nam__pending_accepts accepts;
	struct tcp_heard heard[NAM__GREETED_MAX];
};

struct nam_cm_request {
	int fd;
};

/* ---- opening and closing -------------------------------------------------------------------- */

static int
say_failed(struct nam_diag *diag, const char *address, int error)
{
	switch (error) {
	case EADDRINUSE:
		return nam_diag_set(diag, -NAM_E_FABRIC_ADDRESS_IN_USE, "%s: another program is "
			"listening there; stop it, or choose another port", address);
	case EADDRNOTAVAIL:
		return nam_diag_set(diag, -EADDRNOTAVAIL, "%s: this host has no such address; see "
			"`ip address`, or listen at all of them (0.0.0.0 or [::])", address);
	case EINVAL:
		return nam_diag_set(diag, -EINVAL, "%s: a link-local address needs its interface, "
			"as in tcp:[fe80::1%%eth0]:7000", address);
	case EACCES:
		return nam_diag_set(diag, -EACCES, "%s: this user may not listen at that port; "
			"choose one above 1023", address);
	default:
		return nam_diag_set(diag, -error, "%s: %s", address, strerror(error));
	}
}

static int
open_socket(struct tcp_listener *listener, const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int zero = 0, one = 1, rc = 0;

	if (fd < 0)
		return -errno;
	/* All addresses means those of IPv4, too, whatever this host's default is. */
	if (at->ai_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
		bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, BACKLOG))
		rc = -errno;
	if (!rc)
		rc = nam__pending_accepts_listen(&listener->accepts, fd, listener->fds_count);
	if (rc) {
		close(fd);
		return rc;
	}
	listener->fds[listener->fds_count++] = fd;
	return 0;
}

/* An address may be listed twice. */
static bool
is_among(const struct addrinfo *list, const struct addrinfo *at)
{
	for (; list != at; list = list->ai_next) {
		if (list->ai_addrlen == at->ai_addrlen &&
			!memcmp(list->ai_addr, at->ai_addr, at->ai_addrlen))
			return true;
	}
	return false;
}

void
nam__tcp_listener_close(struct nam_listener *pub)
{
	struct tcp_listener *listener = (struct tcp_listener *)pub;

	if (!listener)
		return;
	nam__pending_accepts_close(&listener->accepts);
	for (uint32_t i = 0; i < listener->fds_count; i++)
		close(listener->fds[i]);
	free(listener);
}

int
nam__tcp_listen(struct nam_domain *domain, const char *address, struct nam_listener **ret,
	struct nam_diag *diag)
{
	struct tcp_listener *listener;
	struct addrinfo *list;
	int rc = nam__inet_resolve("tcp", address, true, &list, diag);

	if (rc)
		return rc;
	rc = -ENOMEM;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		goto free_list;
	listener->pub.ops = domain->ops;
	listener->domain = (struct tcp_domain *)domain;
	rc = nam__pending_accepts_open(&listener->accepts);
	if (rc) {
		free(listener);
		goto free_list;
	}
	/* At each address that a name has and this host, too. */
	rc = -EADDRNOTAVAIL;
	for (const struct addrinfo *at = list; at && listener->fds_count < SOCKETS_MAX;
		at = at->ai_next) {
		if (is_among(list, at))
			continue;
		rc = open_socket(listener, at);
		if (rc && rc != -EADDRNOTAVAIL && rc != -EAFNOSUPPORT)
			break;
		if (listener->fds_count)
			rc = 0;
	}
	if (rc) {
		rc = say_failed(diag, address, -rc);
		nam__tcp_listener_close(&listener->pub);
		goto free_list;
	}
	*ret = &listener->pub;
free_list:
	freeaddrinfo(list);
	return rc;
}

void
nam__tcp_listener_wake(struct nam_listener *pub)
{
	nam__pending_accepts_wake(&((struct tcp_listener *)pub)->accepts);
}

/* ---- clients -------------------------------------------------------------------------------- */

static void
greet(struct nam_listener *pub, uint32_t socket)
{
	struct tcp_listener *listener = (struct tcp_listener *)pub;
	int number = nam__pending_accepts_accept(&listener->accepts, listener->fds[socket]);

	if (number < 0)
		return;
	listener->heard[number].got = 0;
	if (nam__tcp_socket_prepare(nam__pending_accepts_fd(&listener->accepts, (uint32_t)number)))
		nam__pending_accepts_drop(&listener->accepts, (uint32_t)number);
}

/* The only thing that is said so early: it never waits for room. */
static int
send_welcome(int fd, bool accepted, const struct nam_hello *reply)
{
	struct tcp_welcome welcome = {
		.magic = TCP_MAGIC_WELCOME,
		.version = TCP_VERSION,
		.accepted = accepted,
	};

	if (reply && reply->bytes <= NAM_HELLO_BYTES_MAX) {
		welcome.bytes = reply->bytes;
		memcpy(welcome.data, reply->data, reply->bytes);
	}
	return send(fd, &welcome, sizeof(welcome), MSG_NOSIGNAL | MSG_DONTWAIT) ==
		sizeof(welcome) ? 0 : -EIO;
}

/* More of a hello.  1: it is complete; 0: not yet; negative: that client is none. */
static int
hear_more(int fd, struct tcp_heard *heard)
{
	struct tcp_hello *hello = &heard->hello;
	ssize_t n = recv(fd, (uint8_t *)hello + heard->got, sizeof(*hello) - heard->got, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -NAM_E_FABRIC_PEER_DEAD;
	heard->got += (uint32_t)n;
	if (heard->got >= 4 && hello->magic != TCP_MAGIC)
		return -NAM_E_FABRIC_PROTOCOL;
	if (heard->got >= 8 && hello->version != TCP_VERSION) {
		(void)send_welcome(fd, false, NULL);
		return -NAM_E_FABRIC_VERSION;
	}
	if (heard->got < sizeof(*hello))
		return 0;
	return hello->bytes > NAM_HELLO_BYTES_MAX || hello->reserved ?
		-NAM_E_FABRIC_PROTOCOL : 1;
}

/* A client has spoken.  1 with an event, or 0 if there is nothing to ask the caller. */
static int
hear(struct nam_listener *pub, uint32_t number, struct nam_cm_event *event)
{
	struct tcp_listener *listener = (struct tcp_listener *)pub;
	struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
	socklen_t length = sizeof(at);
	int fd = nam__pending_accepts_fd(&listener->accepts, number), rc;
	struct nam_cm_request *request;
	struct tcp_heard *heard;

	if (fd < 0)
		return 0;
	heard = &listener->heard[number];
	rc = hear_more(fd, heard);
	if (rc == 0)
		return 0;
	request = rc < 0 ? NULL : malloc(sizeof(*request));
	if (!request) {
		nam__pending_accepts_drop(&listener->accepts, number);
		return 0;
	}
	/* The socket is the request's now. */
	request->fd = nam__pending_accepts_release(&listener->accepts, number);
	memset(event, 0, sizeof(*event));
	event->kind = NAM_CM_REQUEST;
	event->request = request;
	event->hello.bytes = heard->hello.bytes;
	memcpy(event->hello.data, heard->hello.data, heard->hello.bytes);
	(void)getpeername(request->fd, (struct sockaddr *)&at, &length);
	nam__inet_text((struct sockaddr *)&at, event->peer, sizeof(event->peer));
	return 1;
}

int
nam__tcp_listener_poll(struct nam_listener *pub, uint64_t timeout_ns, struct nam_cm_event *event)
{
	struct tcp_listener *listener = (struct tcp_listener *)pub;

	listener->accepts.greet = greet;
	listener->accepts.hear = hear;
	return nam__pending_accepts_poll(&listener->accepts, pub, timeout_ns, event);
}

static void
request_free(struct nam_cm_request *request)
{
	if (request->fd >= 0)
		close(request->fd);
	free(request);
}

void
nam__tcp_reject(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_hello *reply)
{
	(void)listener;
	(void)send_welcome(request->fd, false, reply);
	request_free(request);
}

int
nam__tcp_accept(struct nam_listener *pub, struct nam_cm_request *request,
	const struct nam_qp_options *options, const struct nam_hello *reply, struct nam_qp **ret)
{
	struct tcp_listener *listener = (struct tcp_listener *)pub;
	struct tcp_qp *qp = NULL;
	int rc = reply && reply->bytes > NAM_HELLO_BYTES_MAX ? -EINVAL :
		nam__tcp_qp_create(listener->domain, options, true, &qp);

	if (rc) {
		/* Without the caller's reply, which says yes. */
		nam__tcp_reject(pub, request, NULL);
		return rc;
	}
	qp->fd = request->fd;
	request->fd = -1;
	*ret = &qp->pub;
	/* Of a client that is gone already, the owner hears as of any other. */
	(void)send_welcome(qp->fd, true, reply);
	/* From here on the owner may meet the queue pair, and destroy it. */
	nam__tcp_cq_arrive(qp->cq, qp);
	request_free(request);
	return 0;
}
