/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c -- the server's side: sockets to listen at, and clients that say hello and answer. */
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

static const struct nam__accepts_ops accepts_ops;

/* ---- opening and closing -------------------------------------------------------------------- */

static int
diag_listen(struct nam_diag *diag, const char *address, int error)
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
listen_at(struct nam__pending_accepts *listener, const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int zero = 0, one = 1, rc;

	if (fd < 0)
		return -errno;
	/* All addresses means those of IPv4, too, whatever this host's default is. */
	if (at->ai_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	/* Accepted sockets have the options of the one that listens. */
	rc = nam__tcp_socket_prepare(fd);
	if (!rc && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
		bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, BACKLOG)))
		rc = -errno;
	if (!rc)
		rc = nam__pending_accepts_listen(listener, fd);
	if (rc)
		close(fd);
	return rc;
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
	struct nam__pending_accepts *listener = (struct nam__pending_accepts *)pub;

	if (!listener)
		return;
	nam__pending_accepts_close(listener);
	free(listener);
}

static void
name_peer(struct nam_cm_request *request)
{
	struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
	socklen_t length = sizeof(at);

	(void)getpeername(request->fd, (struct sockaddr *)&at, &length);
	nam__inet_text((struct sockaddr *)&at, request->event.peer, sizeof(request->event.peer));
}

int
nam__tcp_listen(struct nam_domain *domain, const char *address, struct nam_listener **ret,
	struct nam_diag *diag)
{
	struct nam__pending_accepts *listener;
	struct addrinfo *list;
	int rc = nam__inet_resolve("tcp", address, true, &list, diag);

	if (rc)
		return rc;
	rc = -ENOMEM;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		goto free_list;
	rc = nam__pending_accepts_open(listener, domain, &accepts_ops);
	if (rc) {
		free(listener);
		goto free_list;
	}
	/* At each address that a name has and this host, too. */
	rc = -EADDRNOTAVAIL;
	for (const struct addrinfo *at = list; at; at = at->ai_next) {
		if (listener->sockets_count == NAM__ACCEPTS_SOCKETS_MAX)
			break;
		if (is_among(list, at))
			continue;
		rc = listen_at(listener, at);
		if (rc && rc != -EADDRNOTAVAIL && rc != -EAFNOSUPPORT)
			break;
		if (listener->sockets_count)
			rc = 0;
	}
	if (rc) {
		rc = diag_listen(diag, address, -rc);
		nam__tcp_listener_close(&listener->pub);
		goto free_list;
	}
	*ret = &listener->pub;
free_list:
	freeaddrinfo(list);
	return rc;
}

/* ---- clients -------------------------------------------------------------------------------- */

/* A welcome or a challenge: the only things that are said so early.  They never wait for room. */
static int
send_reply(int fd, uint32_t magic, bool accepted, const struct nam_hello *reply)
{
	struct tcp_welcome welcome = {
		.magic = magic,
		.version = TCP_VERSION,
		.accepted = accepted,
	};

	welcome.bytes = nam__hello_put(welcome.data, reply, NAM_REPLY_BYTES_MAX);
	return send(fd, &welcome, sizeof(welcome), MSG_NOSIGNAL | MSG_DONTWAIT) ==
		sizeof(welcome) ? 0 : -EIO;
}

/* A hello or an answer, and nothing behind it. */
static int
receive_message(struct nam_cm_request *request)
{
	const struct tcp_hello *hello = (const struct tcp_hello *)(const void *)request->message;
	bool answers = request->event.kind == NAM_CM_ANSWER;
	struct nam_hello *received = answers ? &request->event.answer : &request->event.hello;
	ssize_t n = recv(request->fd, request->message + request->got,
		sizeof(request->message) - request->got, 0);

	_Static_assert(sizeof(*hello) < sizeof(request->message), "there is room for more");
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0)
		return -NAM_E_FABRIC_PEER_DEAD;
	request->got += (uint32_t)n;
	if (request->got >= 4 && hello->magic != (answers ? TCP_MAGIC_ANSWER : TCP_MAGIC))
		return -NAM_E_FABRIC_PROTOCOL;
	if (request->got >= 8 && hello->version != TCP_VERSION) {
		(void)send_reply(request->fd, TCP_MAGIC_WELCOME, false, NULL);
		return -NAM_E_FABRIC_VERSION;
	}
	if (request->got < sizeof(*hello))
		return -EAGAIN;
	if (request->got > sizeof(*hello) || hello->bytes > NAM_HELLO_BYTES_MAX || hello->reserved)
		return -NAM_E_FABRIC_PROTOCOL;
	received->bytes = hello->bytes;
	memcpy(received->data, hello->data, hello->bytes);
	request->got = 0;
	return 0;
}

static int
refuse(int fd, const struct nam_hello *reply)
{
	return send_reply(fd, TCP_MAGIC_WELCOME, false, reply);
}

static int
challenge(int fd, const struct nam_hello *challenge)
{
	return send_reply(fd, TCP_MAGIC_CHALLENGE, false, challenge);
}

static const struct nam__accepts_ops accepts_ops = { name_peer, receive_message, refuse,
	challenge };

int
nam__tcp_accept(struct nam_listener *pub, struct nam_cm_request *request,
	const struct nam_qp_options *options, const struct nam_hello *reply, struct nam_qp **ret)
{
	struct nam_domain *domain = ((struct nam__pending_accepts *)pub)->domain;
	struct tcp_qp *qp = NULL;
	int rc = reply && reply->bytes > NAM_REPLY_BYTES_MAX ? -EINVAL :
		nam__tcp_qp_create((struct tcp_domain *)domain, options, true, &qp);

	if (rc) {
		/* Without the caller's reply, which says yes. */
		nam__socket_reject(pub, request, NULL);
		return rc;
	}
	qp->fd = request->fd;
	request->fd = -1;
	*ret = &qp->pub;
	/* If the client is gone already, the owner learns that as of any other. */
	(void)send_reply(qp->fd, TCP_MAGIC_WELCOME, true, reply);
	/* From here on the owner may meet the queue pair, and destroy it. */
	nam__tcp_cq_arrive(qp->cq, qp);
	nam__cm_request_free(request);
	return 0;
}
